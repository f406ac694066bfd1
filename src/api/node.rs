//! Nodes: what their labels say, and whether they take pods.

use std::sync::Arc;

use serde::Deserialize;

use super::{Meta, view};

/// A Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Metadata.
    pub metadata: Meta,
    spec: Spec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Spec {
    unschedulable: bool,
    taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Taint {
    effect: Arc<str>,
}

view!(Node, "", "v1", "Node", "nodes", namespaced: false);

impl Node {
    /// Whether VMs may come to it: virt-handler says so, and neither a cordon nor a taint forbids it.
    #[must_use]
    pub fn takes_vms(&self) -> bool {
        self.metadata.label("kubevirt.io/schedulable") == Some("true")
            && !self.spec.unschedulable
            && self.spec.taints.iter().all(|taint| &*taint.effect != "NoSchedule")
    }
}
