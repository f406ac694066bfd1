//! CSI drivers, which `check` reads: CDI fills claims of their classes through a populator.

use serde::Deserialize;

use super::{Meta, view};

/// A CSIDriver; its name is the provisioner's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CsiDriver {
    /// Metadata.
    pub metadata: Meta,
}

view!(CsiDriver, "storage.k8s.io", "v1", "CSIDriver", "csidrivers", namespaced: false);
