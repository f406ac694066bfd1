//! Resource quotas: whether a Namespace limits limits, in which case KubeVirt gives every launcher some; and what they
//! let in.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{Meta, view};
use crate::quantity::Quantity;

/// A ResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResourceQuota {
    /// Metadata.
    pub metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Spec {
    hard: BTreeMap<Arc<str>, Option<IgnoredAny>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Status {
    hard: BTreeMap<Arc<str>, Value>,
    used: BTreeMap<Arc<str>, Value>,
}

view!(ResourceQuota, "", "v1", "ResourceQuota", "resourcequotas", namespaced: true);

impl ResourceQuota {
    /// Whether it limits a resource, such as `limits.cpu`.
    #[must_use]
    pub fn limits(&self, resource: &str) -> bool {
        self.spec.hard.contains_key(resource)
    }

    /// How much it lets in. The API server goes by the status, which follows the spec a moment later.
    #[must_use]
    pub fn enforced(&self) -> &BTreeMap<Arc<str>, Value> {
        &self.status.hard
    }

    /// Whether less of a resource is used than another version of it says.
    #[must_use]
    pub fn is_less_used_than(&self, other: &Self) -> bool {
        let amount = |used: &Value| -> Option<Quantity> { used.as_str()?.parse().ok() };
        self.status.used.iter().any(|(resource, used)| {
            let before = other.status.used.get(resource).and_then(amount);
            amount(used).zip(before).is_some_and(|(now, before)| now < before)
        })
    }
}
