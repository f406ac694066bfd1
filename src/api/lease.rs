//! Leases, of which `explain` and `check` read ours.

use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
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
    lease_duration_seconds: Option<i64>,
    renew_time: Option<Timestamp>,
}

view!(Lease, "coordination.k8s.io", "v1", "Lease", "leases", namespaced: true);

impl Lease {
    /// Who holds it.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    /// Whether at that time its holder has let it go by; also if it was never renewed.
    #[must_use]
    pub fn expired(&self, at: Timestamp) -> bool {
        let lasts = SignedDuration::from_secs(self.spec.lease_duration_seconds.unwrap_or_default());
        let until = self.spec.renew_time.and_then(|renewed| renewed.checked_add(lasts).ok());
        until.is_none_or(|until| until < at)
    }
}
