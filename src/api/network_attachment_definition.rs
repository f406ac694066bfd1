//! Network attachment definitions: the device that a secondary network costs.

use serde::Deserialize;

use super::{Meta, view};

/// A NetworkAttachmentDefinition. Its metadata says all that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NetworkAttachmentDefinition {
    /// Metadata.
    pub metadata: Meta,
}

view!(
    NetworkAttachmentDefinition,
    "k8s.cni.cncf.io",
    "v1",
    "NetworkAttachmentDefinition",
    "network-attachment-definitions",
    namespaced: true
);

impl NetworkAttachmentDefinition {
    /// The resource of which a pod on this network takes one.
    #[must_use]
    pub fn resource(&self) -> Option<&str> {
        self.metadata
            .annotation("k8s.v1.cni.cncf.io/resourceName")
            .filter(|name| !name.is_empty())
    }
}
