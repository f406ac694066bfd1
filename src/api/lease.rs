//! Leases, of which `explain` and `check` read ours.

use std::sync::Arc;

use serde::Deserialize;

use super::{Meta, view};

/// A Lease. The annotations of ours say with which flags the leader runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// Metadata.
    pub metadata: Meta,
    spec: Spec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<Arc<str>>,
}

view!(Lease, "coordination.k8s.io", "v1", "Lease", "leases", namespaced: true);

impl Lease {
    /// Who holds it.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }
}
