//! A small cluster, built from objects as the API server holds them, and the subject `db` in it.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{Action, Decision, Effect, Settings, Turn, turn};
use crate::api::{
    DataVolume, Namespace, PersistentVolumeClaim, Pod, StorageClass, VirtualMachine, VirtualMachineInstance,
};
use crate::index::Index;
use crate::memory::{Memory, Outcome};
use crate::name::{Key, pod_name};
use crate::reason::Reason;

pub(super) const NAMESPACE: &str = "prod";
const START: i64 = 1_800_000_000;

/// A cluster with one halted, opted-in VM `db` whose two disks wait.
pub(super) struct Situation {
    pub(super) index: Index,
    pub(super) memory: Memory,
    pub(super) settings: Settings,
    pub(super) now: Timestamp,
    pub(super) vm: Value,
    pub(super) created: u32,
}

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START + seconds).expect("a time")
}

pub(super) fn view<V: serde::de::DeserializeOwned>(object: &Value) -> V {
    serde_json::from_value(object.clone()).expect("a view")
}

pub(super) fn claim(name: &str, class: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("claim-{name}"), "annotations": {},
            "ownerReferences": [{"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": name,
                "uid": format!("dv-{name}"), "controller": true}],
        },
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"]},
        "status": {"phase": "Pending"},
    })
}

pub(super) fn populated(name: &str) -> Value {
    let mut claim = claim(name, "late");
    claim["spec"]["dataSourceRef"] = json!({"kind": "VolumeImportSource", "name": "source"});
    claim
}

pub(super) fn with_node(mut claim: Value) -> Value {
    claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = json!("node-1");
    claim
}

pub(super) fn bound(mut claim: Value) -> Value {
    claim["spec"]["volumeName"] = json!("pv");
    claim["status"]["phase"] = json!("Bound");
    claim
}

pub(super) fn data_volume(name: &str, phase: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("dv-{name}")},
        "status": {"phase": phase},
    })
}

/// A pod of somebody that lists `claim`.
pub(super) fn pod(name: &str, claim: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("pod-{name}")},
        "spec": {"volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": claim}}]},
        "status": {"phase": "Pending"},
    })
}

pub(super) fn single_pod(mut claim: Value) -> Value {
    claim["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    claim
}

pub(super) fn controlled(mut object: Value, kind: &str, name: &str, uid: &str) -> Value {
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": kind, "name": name, "uid": uid,
        "controller": true}]);
    object
}

/// KubeVirt's pod for the VMI of this name, in an earlier life.
pub(super) fn launcher(vmi: &str, claim: &str) -> Value {
    let mut launcher = pod(&format!("virt-launcher-{vmi}-x"), claim);
    launcher["metadata"]["labels"] = json!({"kubevirt.io": "virt-launcher"});
    controlled(launcher, "VirtualMachineInstance", vmi, "an-earlier-one")
}

/// CDI's pod that fills the claim.
pub(super) fn worker(claim: &str) -> Value {
    let worker = pod(&format!("importer-{claim}"), claim);
    controlled(worker, "PersistentVolumeClaim", claim, &format!("claim-{claim}"))
}

pub(super) fn terminating(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = json!(at(0).to_string());
    object
}

pub(super) fn in_phase(mut object: Value, phase: &str) -> Value {
    object["status"]["phase"] = json!(phase);
    object
}

pub(super) fn vmi(phase: &str) -> Value {
    json!({
        "metadata": {
            "name": "db", "namespace": NAMESPACE, "uid": "vmi-db", "creationTimestamp": at(0).to_string(),
            "ownerReferences": [{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "db",
                "uid": "vm-db", "controller": true}],
        },
        "spec": {"volumes": [{"name": "root", "dataVolume": {"name": "root"}},
            {"name": "data", "dataVolume": {"name": "data"}}]},
        "status": {"phase": phase},
    })
}

impl Situation {
    pub(super) fn new() -> Self {
        let vm = json!({
            "metadata": {"name": "db", "namespace": NAMESPACE, "uid": "vm-db",
                "annotations": {"first-consumer.kubevirt.io/provision": "true"}},
            "spec": {"runStrategy": "Halted", "template": {
                "metadata": {"labels": {"app": "db", "kubevirt.io": "virt-launcher"}},
                "spec": {"nodeSelector": {"zone": "a"}, "volumes": [
                    {"name": "root", "dataVolume": {"name": "root"}},
                    {"name": "data", "dataVolume": {"name": "data"}}]}}},
        });
        let mut situation = Self {
            index: Index::default(),
            memory: Memory::default(),
            settings: Settings::default(),
            now: at(0),
            vm,
            created: 0,
        };
        situation.class("late", "rancher.io/local-path", "WaitForFirstConsumer");
        situation.class("static", "kubernetes.io/no-provisioner", "WaitForFirstConsumer");
        situation.class("immediate", "example.com/nfs", "Immediate");
        situation.namespace(&json!({"uid": "ns"}));
        situation.apply_vm();
        situation.disk("root", &claim("root", "late"), "WaitForFirstConsumer");
        situation.disk("data", &claim("data", "late"), "WaitForFirstConsumer");
        situation
    }

    pub(super) fn class(&mut self, name: &str, provisioner: &str, mode: &str) {
        let class = json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
        self.index.apply(view::<StorageClass>(&class));
    }

    pub(super) fn apply_vm(&mut self) {
        self.index.apply(view::<VirtualMachine>(&self.vm));
    }

    pub(super) fn edit_vm(&mut self, edit: impl FnOnce(&mut Value)) {
        edit(&mut self.vm);
        self.apply_vm();
    }

    pub(super) fn run_strategy(&mut self, strategy: &str) {
        self.edit_vm(|vm| vm["spec"]["runStrategy"] = json!(strategy));
    }

    pub(super) fn asks(&mut self, value: &str) {
        self.edit_vm(|vm| vm["metadata"]["annotations"]["first-consumer.kubevirt.io/provision"] = json!(value));
    }

    pub(super) fn asks_nothing(&mut self) {
        self.edit_vm(|vm| vm["metadata"]["annotations"] = json!({}));
    }

    pub(super) fn namespace(&mut self, metadata: &Value) {
        let mut namespace = json!({"metadata": metadata});
        namespace["metadata"]["name"] = json!(NAMESPACE);
        self.index.apply(view::<Namespace>(&namespace));
    }

    pub(super) fn add_volume(&mut self, volume: &Value) {
        self.edit_vm(|vm| {
            let volumes = vm["spec"]["template"]["spec"]["volumes"].as_array_mut();
            volumes.expect("volumes").push(volume.clone());
        });
    }

    pub(super) fn volumes(&mut self, volumes: &Value) {
        self.edit_vm(|vm| vm["spec"]["template"]["spec"]["volumes"] = volumes.clone());
    }

    pub(super) fn disk(&mut self, name: &str, claim: &Value, phase: &str) {
        self.claim(claim);
        self.index.apply(view::<DataVolume>(&data_volume(name, phase)));
    }

    pub(super) fn remove_claim(&mut self, name: &str) {
        self.index.delete::<PersistentVolumeClaim>(&Key::new(NAMESPACE, name));
    }

    pub(super) fn claim(&mut self, claim: &Value) {
        self.index.apply(view::<PersistentVolumeClaim>(claim));
    }

    pub(super) fn vmi(&mut self, vmi: &Value) {
        self.index.apply(view::<VirtualMachineInstance>(vmi));
    }

    pub(super) fn pod(&mut self, pod: &Value) {
        self.index.apply(view::<Pod>(pod));
    }

    pub(super) fn subject() -> Key {
        Key::new(NAMESPACE, "db")
    }

    pub(super) fn turn(&mut self) -> Turn {
        turn(
            &self.index,
            &Self::subject(),
            &self.settings,
            &mut self.memory,
            self.now,
        )
    }

    pub(super) fn decide(&mut self) -> Decision {
        self.turn().decision
    }

    pub(super) fn effect(&mut self) -> Effect {
        self.turn().effect
    }

    pub(super) fn record(&mut self, outcome: Outcome) {
        let observed = self.turn().observed;
        self.memory.record(outcome, &observed, self.now);
    }

    /// Does what is decided, which must be a create, as the API server would.
    pub(super) fn create(&mut self) -> Value {
        let Effect::Create(mut pod) = self.effect() else {
            panic!("no create: {:?}", self.decide())
        };
        self.created += 1;
        pod["metadata"]["uid"] = json!(format!("own-{}", self.created));
        self.record(Outcome::Created(Box::new(view(&pod))));
        self.pod(&pod);
        *pod
    }

    /// Does what is decided, which must be a delete, as the API server and the watch would.
    pub(super) fn delete(&mut self) {
        let Effect::Delete { uid, replaced, .. } = self.effect() else {
            panic!("no delete: {:?}", self.decide())
        };
        self.record(Outcome::Deleted {
            held: false,
            uid,
            replaced,
        });
        self.lose_pod();
    }

    /// The watch shows that the pod is gone.
    pub(super) fn lose_pod(&mut self) {
        self.index
            .delete::<Pod>(&Key::new(NAMESPACE, &pod_name(&Self::subject())));
    }
}

#[track_caller]
pub(super) fn expect(situation: &mut Situation, action: Action, reason: Reason) {
    let decision = situation.decide();
    assert_eq!((decision.action, decision.reason), (action, reason), "{decision:?}");
}

pub(super) type Setup = fn(&mut Situation);

/// Action and reason.
pub(super) type Expected = (Action, Reason);

pub(super) const CREATE: Expected = (Action::Create, Reason::FirstConsumerNeeded);
pub(super) const KEPT: Expected = (Action::Keep, Reason::WaitingForScheduler);
pub(super) const LEFT: Expected = (Action::None, Reason::LeftToVirtController);

/// Each line: what the situation is, how it comes about, and what is decided in it.
#[track_caller]
pub(super) fn check(table: &[(&str, Setup, Expected)]) {
    for (name, setup, expected) in table {
        let mut situation = Situation::new();
        setup(&mut situation);
        let decision = situation.decide();
        assert_eq!((decision.action, decision.reason), *expected, "{name}: {decision:?}");
    }
}

/// Makes the pod, and changes it as others would.
pub(super) fn created(s: &mut Situation, change: impl FnOnce(&mut Value)) {
    let mut pod = s.create();
    change(&mut pod);
    s.pod(&pod);
}

/// Makes the pod, and gives it another annotation of ours.
pub(super) fn created_with(s: &mut Situation, annotation: &str, value: &str) {
    created(s, |pod| {
        pod["metadata"]["annotations"][format!("first-consumer.kubevirt.io/{annotation}")] = json!(value);
    });
}
