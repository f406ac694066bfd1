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

    /// Whether at that time its holder is gone, whatever the difference of clocks; also if it was never renewed.
    #[must_use]
    pub fn expired(&self, at: Timestamp) -> bool {
        let lasts = Duration::from_secs(self.spec.lease_duration_seconds.unwrap_or_default().into());
        let until = self
            .renewed()
            .and_then(|renewed| renewed.checked_add(lasts + GRACE).ok());
        until.is_none_or(|until| until < at)
    }

    /// Since when its holder, who should have renewed it long before it was read, has not.
    #[must_use]
    pub fn neglected_since(&self) -> Option<Timestamp> {
        self.renewed()
            .filter(|_| self.read_at.is_some_and(|read_at| self.expired(read_at)))
    }
}
