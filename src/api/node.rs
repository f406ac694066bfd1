//! Nodes: where they are, whether they work, and whether they take VMs.

use std::sync::Arc;

use serde::Deserialize;

use super::{Meta, view};

/// A Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Metadata; the labels say in which zone and so on it is.
    #[serde(deserialize_with = "metadata")]
    pub metadata: Meta,
    spec: Spec,
    #[serde(deserialize_with = "ready")]
    #[serde(rename = "status")]
    ready: bool,
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
    /// Whether its kubelet reports it as ready.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.ready
    }

    /// Whether VMs may come to it: virt-handler says so, and neither a cordon nor a taint forbids it.
    #[must_use]
    pub fn takes_vms(&self) -> bool {
        self.metadata.label("kubevirt.io/schedulable") == Some("true")
            && !self.spec.unschedulable
            && self.spec.taints.iter().all(|taint| &*taint.effect != "NoSchedule")
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: Arc<str>,
    status: Arc<str>,
}

/// What KubeVirt's node labeller says of a node's processor: hundreds of labels a node, and no disk depends on one.
const DROPPED_LABELS: [&str; 4] = [
    "cpu-feature.node.kubevirt.io/",
    "cpu-model.node.kubevirt.io/",
    "cpu-model-migration.node.kubevirt.io/",
    "hyperv.node.kubevirt.io/",
];

impl Node {
    /// Whether this label of a node is kept.
    #[must_use]
    pub fn keeps_label(key: &str) -> bool {
        !DROPPED_LABELS.iter().any(|prefix| key.starts_with(prefix))
    }
}

fn metadata<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Meta, D::Error> {
    let mut meta = Meta::deserialize(deserializer)?;
    meta.labels.retain(|key, _| Node::keeps_label(key));
    Ok(meta)
}

/// Only the result is kept: heartbeats would make equal nodes differ.
fn ready<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let status = Status::deserialize(deserializer)?;
    let ready = |condition: &Condition| &*condition.r#type == "Ready" && &*condition.status == "True";
    Ok(status.conditions.iter().any(ready))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_the_processor_are_dropped() {
        let text = r#"{"metadata":{"name":"a","labels":{"topology.kubernetes.io/zone":"z","cpu-feature.node.kubevirt.io/aes":"true"}}}"#;
        let node: Node = serde_json::from_str(text).expect("a node");
        assert_eq!(node.metadata.labels.len(), 1);
        assert_eq!(node.metadata.label("topology.kubernetes.io/zone"), Some("z"));
    }

    #[test]
    fn a_heartbeat_changes_nothing() {
        let node = |beat: &str, ready: &str| -> Node {
            let text = format!(
                r#"{{"metadata":{{"name":"a"}},"status":{{"conditions":[{{"type":"Ready","status":"{ready}","lastHeartbeatTime":"{beat}"}}]}}}}"#
            );
            serde_json::from_str(&text).expect("a node")
        };
        assert_eq!(node("1", "True"), node("2", "True"));
        assert!(node("1", "True").ready() && !node("1", "Unknown").ready());
    }
}
