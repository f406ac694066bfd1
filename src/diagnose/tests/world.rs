//! A small cluster in which nothing is wrong, to be changed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::cli::files;
use crate::observe::observe;
use crate::policy::Policy;

pub(super) const START: i64 = 1_800_000_000;

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START + seconds).expect("a time")
}

/// A halted VM `db` whose two disks are filled, on node-1, where it may run. Everything was made at 0; it is an hour
/// later.
#[derive(Clone)]
pub(super) struct World {
    pub objects: BTreeMap<&'static str, Value>,
    pub evidence: Evidence,
    pub now: Timestamp,
}

pub(super) fn object(version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "uid": format!("{kind}-{name}"),
        "creationTimestamp": at(0).to_string(), "annotations": {}, "ownerReferences": []}})
}

pub(super) fn controller(owner: &Value) -> Value {
    json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true}])
}

/// Merges `change` into a value; null takes a field out.
pub(super) fn merge(value: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        *value = change.clone();
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    for (key, change) in change {
        if change.is_null() {
            value.as_object_mut().expect("an object").remove(key);
        } else {
            merge(&mut value[key], change);
        }
    }
}

impl Diagnosis {
    pub(super) fn has(&self, trouble: Trouble) -> bool {
        self.findings.iter().any(|finding| finding.trouble == trouble)
    }
}

impl World {
    pub fn new() -> Self {
        let mut world = Self {
            objects: BTreeMap::new(),
            evidence: Evidence::default(),
            now: at(3600),
        };
        for (node, zone) in [("node-1", "a"), ("node-2", "b")] {
            world.add(
                node,
                "v1",
                "Node",
                &json!({
                "metadata": {"labels": {"zone": zone, "kubernetes.io/hostname": node}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
            );
        }
        world.add(
            "late",
            "storage.k8s.io/v1",
            "StorageClass",
            &json!({
            "provisioner": "example.com/local", "volumeBindingMode": "WaitForFirstConsumer"}),
        );
        world.add("db", "kubevirt.io/v1", "VirtualMachine", &json!({
            "metadata": {"annotations": {"first-consumer.kubevirt.io/provision": "true"}},
            "spec": {"runStrategy": "Halted", "template": {"spec": {"nodeSelector": {"zone": "a"}, "volumes": [
                {"name": "root", "dataVolume": {"name": "root"}}, {"name": "data", "dataVolume": {"name": "data"}}]}}}}));
        for disk in ["root", "data"] {
            let (data_volume, volume) = names(disk);
            world.add(
                data_volume,
                "cdi.kubevirt.io/v1beta1",
                "DataVolume",
                &json!({
                "metadata": {"name": disk, "uid": format!("dv-{disk}")},
                "spec": {"storage": {"storageClassName": "late"}}, "status": {"phase": "Succeeded"}}),
            );
            world.add(
                disk,
                "v1",
                "PersistentVolumeClaim",
                &json!({
                "metadata": {"ownerReferences": controller(&world.objects[data_volume]),
                    "annotations": {"volume.kubernetes.io/selected-node": "node-1"}},
                "spec": {"storageClassName": "late", "volumeName": volume}, "status": {"phase": "Bound"}}),
            );
            world.add(
                volume,
                "v1",
                "PersistentVolume",
                &json!({"spec": {"nodeAffinity": {"required":
                {"nodeSelectorTerms": [{"matchExpressions":
                    [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}]}}}}),
            );
        }
        world
    }

    pub fn add(&mut self, name: &'static str, version: &str, kind: &str, fields: &Value) {
        let mut object = object(version, kind, name);
        merge(&mut object, fields);
        self.objects.insert(name, object);
    }

    pub fn set(&mut self, name: &str, change: &Value) {
        merge(self.objects.get_mut(name).expect("an object"), change);
    }

    /// The disk waits to be provisioned on node-1.
    pub fn pending(&mut self, disk: &'static str) {
        self.set(
            disk,
            &json!({"spec": {"volumeName": null}, "status": {"phase": "Pending"}}),
        );
        self.set(names(disk).0, &json!({"status": {"phase": "WaitForFirstConsumer"}}));
    }

    /// The disk is bound and waits to be filled.
    pub fn unfilled(&mut self, disk: &'static str) {
        self.set(names(disk).0, &json!({"status": {"phase": "ImportScheduled"}}));
    }

    /// No node has been chosen for the disk.
    pub fn unplaced(&mut self, disk: &'static str) {
        self.pending(disk);
        self.annotate(disk, "volume.kubernetes.io/selected-node", &Value::Null);
    }

    /// CDI has made no claim for the disk.
    pub fn claimless(&mut self, disk: &'static str, bound: &str, words: &str) {
        self.objects.remove(disk);
        self.set(
            names(disk).0,
            &json!({"status": {"phase": "Pending", "conditions": [
            {"type": "Bound", "status": "False", "reason": bound, "message": words,
                "lastTransitionTime": at(0).to_string()}]}}),
        );
    }

    pub fn annotate(&mut self, name: &str, key: &str, value: &Value) {
        self.set(name, &json!({"metadata": {"annotations": {key: value}}}));
    }

    /// A pod that lists a claim and is controlled by `owner`.
    pub fn pod(&mut self, name: &'static str, owner: &str, claim: &str, fields: &Value) {
        let owner = controller(&self.objects[owner]);
        self.add(
            name,
            "v1",
            "Pod",
            &json!({"metadata": {"ownerReferences": owner},
            "spec": {"volumes": [{"persistentVolumeClaim": {"claimName": claim}}]}, "status": {"phase": "Pending"}}),
        );
        self.set(name, fields);
    }

    pub fn worker(&mut self, fields: &Value) {
        self.unfilled("root");
        self.pod("importer-root", "root", "root", fields);
    }

    /// The VM is started, and its launcher is there.
    pub fn launcher(&mut self, fields: &Value) {
        self.set("db", &json!({"spec": {"runStrategy": "Always"}}));
        let owner = controller(&self.objects["db"]);
        let volumes = self.objects["db"]["spec"]["template"]["spec"].clone();
        self.add(
            "db-vmi",
            "kubevirt.io/v1",
            "VirtualMachineInstance",
            &json!({
            "metadata": {"name": "db", "ownerReferences": owner}, "spec": volumes, "status": {"phase": "Scheduling"}}),
        );
        self.pod(
            "virt-launcher-db",
            "db-vmi",
            "root",
            &json!({"metadata": {"labels": {"kubevirt.io": "virt-launcher"}}}),
        );
        self.set("virt-launcher-db", fields);
    }

    /// Our own pod is there.
    pub fn own_pod(&mut self, fields: &Value) {
        let name = crate::name::pod_name(&subject());
        self.pod(
            "own",
            "db",
            "root",
            &json!({"metadata": {"name": name,
            "labels": {"first-consumer.kubevirt.io/managed": "true"}}}),
        );
        self.set("own", fields);
    }

    pub fn event(&mut self, kind: &str, name: &str, reason: &str, message: &str) {
        self.told("Normal", kind, name, reason, message, 10);
    }

    pub fn warning(&mut self, kind: &str, name: &str, reason: &str, message: &str, seconds: i64) {
        self.told("Warning", kind, name, reason, message, seconds);
    }

    fn told(&mut self, r#type: &str, kind: &str, name: &str, reason: &str, message: &str, seconds: i64) {
        let time = at(seconds).to_string();
        let event = json!({"type": r#type, "reason": reason, "message": message, "lastTimestamp": time,
            "firstTimestamp": time, "involvedObject": {"kind": kind, "namespace": "prod", "name": name}});
        self.evidence
            .events
            .push(serde_json::from_value(event).expect("an event"));
    }

    pub fn index(&self) -> Index {
        let mut index = Index::default();
        for object in self.objects.values() {
            files::read(&mut index, &object.to_string(), "prod").expect("readable");
        }
        index
    }

    pub fn look(&self, onsets: Option<&mut Onsets>) -> Diagnosis {
        let index = self.index();
        let observed = observe(&index, &subject(), Policy::default(), None);
        diagnose(&index, &observed, &self.evidence, onsets, self.now)
    }

    /// What the controller, which has watched it, says some seconds later.
    pub fn look_at(&self, seconds: i64, onsets: &mut Onsets) -> Diagnosis {
        let world = Self {
            now: at(seconds),
            ..self.clone()
        };
        world.look(Some(onsets))
    }

    pub fn troubles(&self) -> Vec<(Trouble, String)> {
        let findings = self.look(None).findings.into_iter();
        findings
            .map(|finding| (finding.trouble, finding.disk.to_string()))
            .collect()
    }
}

pub(super) fn subject() -> Key {
    Key::new("prod", "db")
}

/// DataVolume and volume of a disk.
pub(super) fn names(disk: &str) -> (&'static str, &'static str) {
    match disk {
        "root" => ("dv-root", "pv-root"),
        _ => ("dv-data", "pv-data"),
    }
}

pub(super) fn unschedulable(words: &str, since: i64) -> Value {
    json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": words, "lastTransitionTime": at(since).to_string()}]}})
}

pub(super) fn gated(since: i64) -> Value {
    json!({"spec": {"schedulingGates": [{"name": "mine"}]}, "status": {"conditions": [{"type": "PodScheduled",
        "status": "False", "reason": "SchedulingGated", "lastTransitionTime": at(since).to_string()}]}})
}

pub(super) fn crashing(restarts: u32, waiting: &str) -> Value {
    json!({"status": {"phase": "Running", "containerStatuses": [{"restartCount": restarts,
        "state": {"waiting": {"reason": waiting, "message": "back-off"}},
        "lastState": {"terminated": {"exitCode": 1, "message": "got 404"}}}]}})
}

pub(super) const BOUND_MESSAGE: &str = "cdi.kubevirt.io/storage.condition.bound.message";
pub(super) const IMMEDIATE: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";

pub(super) fn affinity(node: &str) -> Value {
    json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
        [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}}})
}

pub(super) fn not_ready() -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})
}

pub(super) fn scheduled() -> Value {
    json!({"spec": {"nodeName": "node-1"}, "status": {"conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(0).to_string()}]}})
}

pub(super) fn running(restarts: u32) -> Value {
    json!({"status": {"phase": "Running", "containerStatuses": [{"restartCount": restarts, "state": {"running": {}},
        "lastState": {"terminated": {"exitCode": 1, "message": "got 404"}}}]}})
}

/// CDI fills `root` through a prime claim of this phase.
pub(super) fn prime(w: &mut World, phase: &str) {
    w.pending("root");
    w.set(
        "root",
        &json!({"spec": {"dataSourceRef": {"kind": "VolumeImportSource", "name": "x"}}}),
    );
    w.set("dv-root", &json!({"status": {"phase": "PendingPopulation"}}));
    let owner = controller(&w.objects["root"]);
    w.add(
        "prime",
        "v1",
        "PersistentVolumeClaim",
        &json!({
        "metadata": {"name": "prime-PersistentVolumeClaim-root", "ownerReferences": owner,
            "annotations": {"volume.kubernetes.io/selected-node": "node-1"}},
        "spec": {"storageClassName": "late"}, "status": {"phase": phase}}),
    );
}
