//! Leases, of which `explain` and `check` read ours.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use super::{Meta, view};

/// How much longer than it lasts a Lease may go without renewal before its holder counts as gone: clocks differ.
const GRACE: Duration = Duration::from_mins(1);

/// A Lease. The annotations of ours say with which flags the leader runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// Metadata.
    pub metadata: Meta,
    spec: Spec,
    /// When it was read, at the earliest; whoever reads it sets this.
    #[serde(skip)]
    pub read_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    holder_identity: Option<Arc<str>>,
    lease_duration_seconds: Option<u32>,
    renew_time: Option<Timestamp>,
}

view!(Lease, "coordination.k8s.io", "v1", "Lease", "leases", namespaced: true);

impl Lease {
    /// Who holds it.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    /// When its holder has renewed it last.
    #[must_use]
    pub fn renewed(&self) -> Option<Timestamp> {
        self.spec.renew_time
    }

    /// Since when its holder, who should have renewed it long before it was read, has not.
    #[must_use]
    pub fn neglected_since(&self) -> Option<Timestamp> {
        let lasts = Duration::from_secs(self.spec.lease_duration_seconds?.into());
        let over = self.renewed()?.checked_add(lasts + GRACE).ok()?;
        self.renewed()
            .filter(|_| self.read_at.is_some_and(|read_at| over < read_at))
    }
}
