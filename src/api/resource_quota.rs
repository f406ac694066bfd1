//! Resource quotas: whether a Namespace limits limits, in which case KubeVirt gives every launcher some.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Meta, view};

/// A ResourceQuota. Only which resources it limits counts, not how much.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ResourceQuota {
    /// Metadata.
    pub metadata: Meta,
    spec: Spec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Spec {
    hard: BTreeMap<Arc<str>, Option<IgnoredAny>>,
}

view!(ResourceQuota, "", "v1", "ResourceQuota", "resourcequotas", namespaced: true);

impl ResourceQuota {
    /// Whether it limits a resource, such as `limits.cpu`.
    #[must_use]
    pub fn limits(&self, resource: &str) -> bool {
        self.spec.hard.contains_key(resource)
    }
}
