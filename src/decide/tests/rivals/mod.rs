//! Rows 11 and 12 and section 8: subjects that look at each other, and specs that somebody else completes.

mod expansion;
mod going;
mod peers;
mod shared;
mod standings;

use serde_json::{Value, json};

use super::super::Effect;
use super::situation::*;
use crate::api::{DataVolume, Node, PersistentVolumeClaim, VirtualMachine};
use crate::memory::Expanding;
use crate::name::{Key, pod_name};

type Edit = fn(&mut Value);

pub(super) const HOST: &str = "kubernetes.io/hostname";
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";

pub(super) fn node(name: &str, zone: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {HOST: name, ZONE: zone}}})
}

/// Required anti-affinity against `app: db` in the own namespace.
pub(super) fn anti_affinity(topology_key: &str) -> Value {
    terms(&json!([{"topologyKey": topology_key, "labelSelector": {"matchLabels": {"app": "db"}}}]))
}

pub(super) fn terms(terms: &Value) -> Value {
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
}

/// An opted-in VM with one disk of its own name.
pub(super) fn vm(namespace: &str, name: &str, affinity: &Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": namespace, "uid": format!("vm-{name}"),
            "annotations": {"first-consumer.kubevirt.io/provision": "true"}},
        "spec": {"runStrategy": "Halted", "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"affinity": affinity, "volumes": [{"name": "root", "dataVolume": {"name": name}}]}}},
    })
}

/// The VM `db` with anti-affinity on hostname, on three nodes in two zones.
pub(super) fn among_peers() -> Situation {
    let mut situation = Situation::new();
    for (name, zone) in [("node-1", "a"), ("node-2", "a"), ("node-3", "b")] {
        situation.index.apply(view::<Node>(&node(name, zone)));
    }
    situation.edit_vm(|vm| vm["spec"]["template"]["spec"]["affinity"] = anti_affinity(HOST));
    situation
}

impl Situation {
    pub(super) fn peer(&mut self, vm: &Value, claim: Value, phase: &str) {
        let in_namespace = |mut object: Value| {
            object["metadata"]["namespace"] = vm["metadata"]["namespace"].clone();
            object
        };
        let name = vm["metadata"]["name"].as_str().expect("a name").to_owned();
        self.index.apply(view::<VirtualMachine>(vm));
        self.index.apply(view::<PersistentVolumeClaim>(&in_namespace(claim)));
        self.index
            .apply(view::<DataVolume>(&in_namespace(data_volume(&name, phase))));
    }

    /// A peer in the own namespace whose disk waits.
    pub(super) fn waiting(&mut self, name: &str) {
        self.peer(
            &vm(NAMESPACE, name, &anti_affinity(HOST)),
            claim(name, "late"),
            "WaitForFirstConsumer",
        );
    }

    /// A peer in the own namespace whose disk has the node `node-1`.
    pub(super) fn settled(&mut self, name: &str) {
        self.peer(
            &vm(NAMESPACE, name, &anti_affinity(HOST)),
            with_node(claim(name, "late")),
            "WaitForFirstConsumer",
        );
    }

    /// A pod of ours for a peer.
    pub(super) fn pod_of(&mut self, name: &str, scheduled: &Value, peers: &Value) {
        let subject = Key::new(NAMESPACE, name);
        let mut pod = pod(&pod_name(&subject), name);
        pod["metadata"]["labels"] = json!({"first-consumer.kubevirt.io/managed": "true"});
        pod["metadata"]["annotations"] = json!({
            "first-consumer.kubevirt.io/placement-hash": "v1:00",
            "first-consumer.kubevirt.io/peers": peers.to_string(),
        });
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": name, "uid": format!("vm-{name}")}]);
        pod["status"]["conditions"] = json!([scheduled]);
        self.pod(&pod);
    }

    /// Which domains the subject is kept out of.
    pub(super) fn kept_out_of(&mut self) -> Value {
        json!(self.turn().observed.peers.domains)
    }

    pub(super) fn peer_key(name: &str) -> Key {
        Key::new(NAMESPACE, name)
    }

    pub(super) fn expand(&mut self, outcome: Expanding) {
        let Effect::Expand { inputs } = self.effect() else {
            panic!("no expansion: {:?}", self.decide())
        };
        self.memory.expansion.begin(inputs);
        assert_eq!(self.effect(), Effect::Nothing, "one at a time");
        self.memory.expansion.end(outcome, self.now);
    }
}

pub(super) fn unschedulable() -> Value {
    json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"})
}
