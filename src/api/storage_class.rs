//! Storage classes: who provisions, and when.

use std::sync::Arc;

use serde::Deserialize;

use super::{Meta, view};

/// The provisioner of classes whose volumes an administrator makes beforehand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The binding mode of late classes.
const LATE: &str = "WaitForFirstConsumer";

/// A StorageClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageClass {
    /// Metadata.
    pub metadata: Meta,
    /// Name of the provisioner.
    pub provisioner: Arc<str>,
    /// `Immediate` (also when unset) or `WaitForFirstConsumer`.
    pub volume_binding_mode: Option<Arc<str>>,
}

view!(StorageClass, "storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced: false);

impl StorageClass {
    /// A class of which nothing is known but that it waits for a first consumer.
    #[must_use]
    pub fn waiting() -> Self {
        Self {
            volume_binding_mode: Some(LATE.into()),
            ..Self::default()
        }
    }

    /// Whether claims of this class wait for their first consumer.
    #[must_use]
    pub fn late(&self) -> bool {
        self.volume_binding_mode.as_deref() == Some(LATE)
    }

    /// Whether claims that name no class get this one.
    #[must_use]
    pub fn default_class(&self) -> bool {
        self.metadata.annotation("storageclass.kubernetes.io/is-default-class") == Some("true")
    }

    /// Whether a selected node makes somebody provision; without a provisioner only `spec.volumeName` places a claim.
    #[must_use]
    pub fn provisions(&self) -> bool {
        &*self.provisioner != NO_PROVISIONER
    }
}
