//! Leases, of which `explain` reads ours.

use serde::Deserialize;

use super::{Meta, view};

/// A Lease. The annotations of ours say with which flags the leader runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// Metadata.
    pub metadata: Meta,
}

view!(Lease, "coordination.k8s.io", "v1", "Lease", "leases", namespaced: true);
