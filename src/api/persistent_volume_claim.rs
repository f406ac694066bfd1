//! Persistent volume claims: the truth about where a disk is.

use std::sync::Arc;

use serde::Deserialize;

use super::{Meta, View as _, view};
use crate::name::Key;

/// The annotation that asks CDI not to wait for a consumer (CDI `common/util.go`: `AnnImmediateBinding`).
pub const IMMEDIATE_BINDING: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    /// Metadata; the node that the scheduler selected is an annotation.
    pub metadata: Meta,
    /// Specification.
    pub spec: Spec,
    status: Status,
}

/// What is read of `spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    /// Name of the class.
    pub storage_class_name: Option<Arc<str>>,
    /// Name of the volume, once one is chosen.
    pub volume_name: Option<Arc<str>>,
    /// `Filesystem` (also when unset) or `Block`.
    pub volume_mode: Option<Arc<str>>,
    /// `ReadWriteOnce` and its like.
    pub access_modes: Vec<Arc<str>>,
    /// Where the data come from, if Kubernetes or a populator fills the claim.
    pub data_source_ref: Option<DataSource>,
}

/// A data source, of the claim's namespace or another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataSource {
    /// Empty for kinds of Kubernetes itself.
    pub api_group: Option<Arc<str>>,
    /// `VolumeImportSource`, `VolumeSnapshot` and so on.
    pub kind: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl DataSource {
    /// Whether neither Kubernetes, nor a snapshotter, nor CDI fills a claim from it.
    #[must_use]
    pub fn foreign(&self) -> bool {
        let group = self.api_group.as_deref().unwrap_or_default();
        !matches!(group, "" | "snapshot.storage.k8s.io" | "cdi.kubevirt.io")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Status {
    phase: ClaimPhase,
}

view!(PersistentVolumeClaim, "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced: true);

/// `status.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum ClaimPhase {
    /// Bound to a volume.
    Bound,
    /// Its volume has gone.
    Lost,
    /// Not bound yet, or no phase written yet.
    #[default]
    #[serde(other)]
    Pending,
}

impl PersistentVolumeClaim {
    /// Imports and uploads are filled through a prime claim (CDI `populators/import-populator.go`,
    /// `upload-populator.go`).
    #[must_use]
    pub fn fills_prime_claim(&self) -> bool {
        let source = self.spec.data_source_ref.as_ref().map(|source| &*source.kind);
        matches!(source, Some("VolumeImportSource" | "VolumeUploadSource"))
    }

    /// The phase.
    #[must_use]
    pub fn phase(&self) -> ClaimPhase {
        self.status.phase
    }

    /// The claim that is filled through this one: the prime claim of a population is controlled by it.
    #[must_use]
    pub fn fills(&self) -> Option<Key> {
        let owner = self.metadata.controller().filter(|owner| &*owner.kind == Self::KIND)?;
        Some(self.metadata.key().sibling(&owner.name))
    }

    /// The node that the scheduler selected for it.
    #[must_use]
    pub fn selected_node(&self) -> Option<&str> {
        self.metadata
            .annotation("volume.kubernetes.io/selected-node")
            .filter(|node| !node.is_empty())
    }

    /// Whether a provisioner has been asked; the mark stays when it gives the node back.
    #[must_use]
    pub fn provisioner_asked(&self) -> bool {
        self.metadata
            .annotation("volume.kubernetes.io/storage-provisioner")
            .is_some()
    }

    /// Whether CDI was asked not to wait. Presence counts, whatever the value (CDI `common/util.go`:
    /// `ImmediateBindingRequested`).
    #[must_use]
    pub fn immediate_binding_requested(&self) -> bool {
        self.metadata.annotation(IMMEDIATE_BINDING).is_some()
    }

    /// Whether its volume is a bare device.
    #[must_use]
    pub fn block(&self) -> bool {
        self.spec.volume_mode.as_deref() == Some("Block")
    }

    /// Whether only one pod at a time may use it.
    #[must_use]
    pub fn single_pod(&self) -> bool {
        self.spec.access_modes.iter().any(|mode| &**mode == "ReadWriteOncePod")
    }
}
