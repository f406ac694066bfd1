//! CDI's own object, which `check` reads and the controller does not.

use std::sync::Arc;

use serde::Deserialize;

use super::{Meta, view};

/// A CDI. A cluster has one; its operator makes the CDIConfig from it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cdi {
    /// Metadata.
    pub metadata: Meta,
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_version: Option<Arc<str>>,
}

view!(Cdi, "cdi.kubevirt.io", "v1beta1", "CDI", "cdis", namespaced: false);

impl Cdi {
    /// The version that runs, such as `v1.66.0`.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.status.observed_version.as_deref()
    }
}
