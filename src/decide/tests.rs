//! One situation that triggers each row, built from objects as the API server holds them.

mod rivals;

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{Action, Decision, Effect, Settings, Turn, turn};
use crate::api::{
    DataVolume, Namespace, PersistentVolumeClaim, Pod, StorageClass, VirtualMachine, VirtualMachineInstance,
};
use crate::index::Index;
use crate::memory::{Memory, Outcome};
use crate::name::{Key, Uid, pod_name};
use crate::policy::{HaltedVms, StartedVms};
use crate::reason::Reason;

const NAMESPACE: &str = "prod";
const START: i64 = 1_800_000_000;

/// A cluster with one halted, opted-in VM `db` whose two disks wait.
struct Situation {
    index: Index,
    memory: Memory,
    settings: Settings,
    now: Timestamp,
    vm: Value,
    created: u32,
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START + seconds).expect("a time")
}

fn view<V: serde::de::DeserializeOwned>(object: &Value) -> V {
    serde_json::from_value(object.clone()).expect("a view")
}

fn claim(name: &str, class: &str) -> Value {
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

fn populated(name: &str) -> Value {
    let mut claim = claim(name, "late");
    claim["spec"]["dataSourceRef"] = json!({"kind": "VolumeImportSource", "name": "source"});
    claim
}

fn with_node(mut claim: Value) -> Value {
    claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = json!("node-1");
    claim
}

fn bound(mut claim: Value) -> Value {
    claim["spec"]["volumeName"] = json!("pv");
    claim["status"]["phase"] = json!("Bound");
    claim
}

fn data_volume(name: &str, phase: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("dv-{name}")},
        "status": {"phase": phase},
    })
}

/// A pod of somebody that lists `claim`.
fn pod(name: &str, claim: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("pod-{name}")},
        "spec": {"volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": claim}}]},
        "status": {"phase": "Pending"},
    })
}

fn vmi(phase: &str) -> Value {
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
    fn new() -> Self {
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
        let namespace = json!({"metadata": {"name": NAMESPACE, "uid": "ns"}});
        situation.index.apply(view::<Namespace>(&namespace));
        situation.apply_vm();
        situation.disk("root", &claim("root", "late"), "WaitForFirstConsumer");
        situation.disk("data", &claim("data", "late"), "WaitForFirstConsumer");
        situation
    }

    fn class(&mut self, name: &str, provisioner: &str, mode: &str) {
        let class = json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
        self.index.apply(view::<StorageClass>(&class));
    }

    fn apply_vm(&mut self) {
        self.index.apply(view::<VirtualMachine>(&self.vm));
    }

    fn edit_vm(&mut self, edit: impl FnOnce(&mut Value)) {
        edit(&mut self.vm);
        self.apply_vm();
    }

    fn disk(&mut self, name: &str, claim: &Value, phase: &str) {
        self.claim(claim);
        self.index.apply(view::<DataVolume>(&data_volume(name, phase)));
    }

    fn claim(&mut self, claim: &Value) {
        self.index.apply(view::<PersistentVolumeClaim>(claim));
    }

    fn vmi(&mut self, vmi: &Value) {
        self.index.apply(view::<VirtualMachineInstance>(vmi));
    }

    fn pod(&mut self, pod: &Value) {
        self.index.apply(view::<Pod>(pod));
    }

    fn subject() -> Key {
        Key::new(NAMESPACE, "db")
    }

    fn turn(&mut self) -> Turn {
        turn(
            &self.index,
            &Self::subject(),
            &self.settings,
            &mut self.memory,
            self.now,
        )
    }

    fn decide(&mut self) -> Decision {
        self.turn().decision
    }

    fn effect(&mut self) -> Effect {
        self.turn().effect
    }

    fn record(&mut self, outcome: Outcome) {
        let observed = self.turn().observed;
        self.memory.record(outcome, &observed, self.now);
    }

    /// Does what is decided, which must be a create, as the API server would.
    fn create(&mut self) -> Value {
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
    fn delete(&mut self) {
        let Effect::Delete {
            uid,
            replaced,
            next_attempt,
            ..
        } = self.effect()
        else {
            panic!("no delete: {:?}", self.decide())
        };
        self.record(Outcome::Deleted {
            uid,
            replaced,
            next_attempt,
        });
        self.index
            .delete::<Pod>(&Key::new(NAMESPACE, &pod_name(&Self::subject())));
    }
}

#[track_caller]
fn expect(situation: &mut Situation, action: Action, reason: Reason) {
    let decision = situation.decide();
    assert_eq!((decision.action, decision.reason), (action, reason), "{decision:?}");
}

type Setup = fn(&mut Situation);

/// For every row that needs no history: what makes it speak.
const TABLE: &[(&str, Setup, Action, Reason)] = &[
    ("two disks wait", |_| {}, Action::Create, Reason::FirstConsumerNeeded),
    (
        "1: VM terminating",
        |s| s.edit_vm(|vm| vm["metadata"]["deletionTimestamp"] = json!(at(0).to_string())),
        Action::None,
        Reason::SubjectDeleted,
    ),
    (
        "1: VM gone",
        |s| {
            s.index.delete::<VirtualMachine>(&Situation::subject());
        },
        Action::None,
        Reason::SubjectDeleted,
    ),
    (
        "1: Namespace terminating",
        |s| {
            let namespace = json!({"metadata": {"name": NAMESPACE, "deletionTimestamp": at(0).to_string()}});
            s.index.apply(view::<Namespace>(&namespace));
        },
        Action::None,
        Reason::SubjectDeleted,
    ),
    (
        "2: claim terminating",
        |s| {
            let mut claim = claim("data", "late");
            claim["metadata"]["deletionTimestamp"] = json!(at(0).to_string());
            s.claim(&claim);
        },
        Action::None,
        Reason::DiskDeleted,
    ),
    (
        "2: DataVolume terminating",
        |s| {
            let mut going = data_volume("data", "WaitForFirstConsumer");
            going["metadata"]["deletionTimestamp"] = json!(at(0).to_string());
            s.index.apply(view::<DataVolume>(&going));
        },
        Action::None,
        Reason::DiskDeleted,
    ),
    (
        "3: a VMI of somebody else",
        |s| {
            let mut vmi = vmi("Pending");
            vmi["metadata"]["ownerReferences"] = json!([]);
            s.vmi(&vmi);
        },
        Action::None,
        Reason::NameConflict,
    ),
    (
        "4: VMI scheduled",
        |s| s.vmi(&vmi("Scheduled")),
        Action::None,
        Reason::LauncherPresent,
    ),
    (
        "4: a temporary launcher",
        |s| {
            let mut launcher = pod("virt-launcher-db-x", "root");
            launcher["metadata"]["labels"] = json!({"kubevirt.io": "virt-launcher"});
            launcher["metadata"]["ownerReferences"] = json!([{"apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance", "name": "db", "uid": "an-earlier-one", "controller": true}]);
            s.pod(&launcher);
        },
        Action::None,
        Reason::LauncherPresent,
    ),
    (
        "5: somebody's pod",
        |s| s.pod(&pod("binder", "data")),
        Action::None,
        Reason::ForeignConsumer,
    ),
    (
        "5: a look-alike is somebody's pod",
        |s| {
            let mut look_alike = pod("first-consumer-db", "data");
            look_alike["metadata"]["labels"] = json!({"first-consumer.kubevirt.io/managed": "true"});
            s.pod(&look_alike);
        },
        Action::None,
        Reason::ForeignConsumer,
    ),
    (
        "5: but not a finished one",
        |s| {
            let mut done = pod("binder", "data");
            done["status"]["phase"] = json!("Succeeded");
            s.pod(&done);
        },
        Action::Create,
        Reason::FirstConsumerNeeded,
    ),
    (
        "6: DataVolume failed",
        |s| s.disk("data", &claim("data", "late"), "Failed"),
        Action::None,
        Reason::DataVolumeFailed,
    ),
    (
        "7: both have a node",
        |s| {
            s.disk("root", &with_node(claim("root", "late")), "WaitForFirstConsumer");
            s.disk("data", &with_node(populated("data")), "PendingPopulation");
        },
        Action::None,
        Reason::NothingWaiting,
    ),
    (
        "7: phases not settled",
        |s| {
            s.disk("root", &claim("root", "late"), "Pending");
            s.disk("data", &claim("data", "late"), "");
        },
        Action::None,
        Reason::SiblingBinding,
    ),
    (
        "7: an unknown phase does not wait",
        |s| {
            s.disk("root", &bound(claim("root", "late")), "FromTheFuture");
            s.disk("data", &bound(claim("data", "late")), "Succeeded");
        },
        Action::None,
        Reason::SiblingImporting,
    ),
    (
        "8: not asked for",
        |s| s.edit_vm(|vm| vm["metadata"]["annotations"] = json!({})),
        Action::None,
        Reason::NotAskedFor,
    ),
    (
        "8: an unreadable opt-in counts as absent",
        |s| {
            s.edit_vm(|vm| vm["metadata"]["annotations"]["first-consumer.kubevirt.io/provision"] = json!("yes"));
        },
        Action::None,
        Reason::NotAskedFor,
    ),
    (
        "8: the Namespace asks",
        |s| {
            s.edit_vm(|vm| vm["metadata"]["annotations"] = json!({}));
            let namespace = json!({"metadata": {"name": NAMESPACE,
            "annotations": {"first-consumer.kubevirt.io/provision": "true"}}});
            s.index.apply(view::<Namespace>(&namespace));
        },
        Action::Create,
        Reason::FirstConsumerNeeded,
    ),
    (
        "8: the VM opts out of its Namespace",
        |s| {
            s.edit_vm(|vm| vm["metadata"]["annotations"]["first-consumer.kubevirt.io/provision"] = json!("false"));
            s.settings.policy.halted = HaltedVms::All;
        },
        Action::None,
        Reason::OptedOut,
    ),
    (
        "8: switched off beats asked for",
        |s| s.settings.policy.halted = HaltedVms::None,
        Action::None,
        Reason::SwitchedOff,
    ),
    (
        "8: started VMs switched off",
        |s| {
            s.edit_vm(|vm| vm["spec"]["runStrategy"] = json!("Always"));
            s.settings.policy.started = StartedVms::None;
        },
        Action::None,
        Reason::SwitchedOff,
    ),
    (
        "8: started, virt-controller first",
        |s| s.edit_vm(|vm| vm["spec"]["runStrategy"] = json!("Always")),
        Action::None,
        Reason::LeftToVirtController,
    ),
    (
        "8: started, served always",
        |s| {
            s.edit_vm(|vm| vm["spec"]["runStrategy"] = json!("Always"));
            s.settings.policy.started = StartedVms::Always;
        },
        Action::Create,
        Reason::FirstConsumerNeeded,
    ),
    (
        "8: a receiver",
        |s| s.edit_vm(|vm| vm["spec"]["runStrategy"] = json!("WaitAsReceiver")),
        Action::None,
        Reason::MigrationTarget,
    ),
    (
        "9: claim missing",
        |s| {
            s.index.delete::<PersistentVolumeClaim>(&Key::new(NAMESPACE, "data"));
        },
        Action::Wait,
        Reason::ClaimMissing,
    ),
    (
        "9: claim lost",
        |s| {
            let mut lost = bound(claim("data", "late"));
            lost["status"]["phase"] = json!("Lost");
            s.disk("data", &lost, "Succeeded");
        },
        Action::Wait,
        Reason::ClaimLost,
    ),
    (
        "10: immediate binding asked for",
        |s| {
            let mut immediate = claim("data", "late");
            immediate["metadata"]["annotations"]["cdi.kubevirt.io/storage.bind.immediate.requested"] = json!("false");
            s.claim(&immediate);
        },
        Action::Wait,
        Reason::SiblingBinding,
    ),
    (
        "10: the class binds at once",
        |s| s.disk("data", &claim("data", "immediate"), "Pending"),
        Action::Wait,
        Reason::SiblingBinding,
    ),
    (
        "10: an import goes on without a node",
        |s| {
            s.disk("data", &populated("data"), "PendingPopulation");
            s.claim(&claim("prime-claim-data", "late"));
        },
        Action::Wait,
        Reason::SiblingBinding,
    ),
    (
        "10: a clone pauses without a node",
        |s| {
            let mut clone = populated("data");
            clone["spec"]["dataSourceRef"]["kind"] = json!("VolumeCloneSource");
            s.disk("data", &clone, "PendingPopulation");
            s.claim(&claim("prime-claim-data", "late"));
        },
        Action::Create,
        Reason::FirstConsumerNeeded,
    ),
    (
        "10: a plain late claim is ours to place",
        |s| {
            let mut plain = claim("data", "late");
            plain["metadata"]["ownerReferences"] = json!([]);
            s.claim(&plain);
            s.index.delete::<DataVolume>(&Key::new(NAMESPACE, "data"));
        },
        Action::Create,
        Reason::FirstConsumerNeeded,
    ),
    (
        "10: a bound sibling awaits its worker",
        |s| s.disk("root", &bound(claim("root", "late")), "Paused"),
        Action::Wait,
        Reason::SiblingImporting,
    ),
    (
        "10: its worker runs",
        |s| {
            s.disk("root", &bound(claim("root", "late")), "ImportInProgress");
            let mut worker = pod("importer-root", "root");
            worker["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "name": "root", "uid": "claim-root", "controller": true}]);
            s.pod(&worker);
        },
        Action::Create,
        Reason::FirstConsumerNeeded,
    ),
    (
        "10: one pod at a time",
        |s| {
            let mut single = bound(claim("root", "late"));
            single["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
            s.disk("root", &single, "Succeeded");
            s.pod(&pod("backup", "root"));
        },
        Action::Wait,
        Reason::ClaimInUse,
    ),
    (
        "12: an instancetype",
        |s| s.edit_vm(|vm| vm["spec"]["instancetype"] = json!({"name": "u1.small"})),
        Action::Wait,
        Reason::ExpansionPending,
    ),
    (
        "12: a spec that can't be read",
        |s| {
            s.edit_vm(|vm| {
                vm["spec"]["template"]["spec"]["nodeSelector"] = json!(["a"]);
            });
        },
        Action::None,
        Reason::CannotRender,
    ),
    (
        "16: the name is taken",
        |s| {
            s.pod(&pod(&pod_name(&Situation::subject()), "other"));
        },
        Action::Wait,
        Reason::NameTaken,
    ),
    (
        "needs: no provisioner, so a node alone places nothing",
        |s| {
            s.disk("root", &with_node(claim("root", "static")), "WaitForFirstConsumer");
            s.disk("data", &bound(claim("data", "static")), "Succeeded");
        },
        Action::Create,
        Reason::FirstConsumerNeeded,
    ),
];

#[test]
fn each_row_speaks_in_its_situation() {
    for (name, setup, action, reason) in TABLE {
        let mut situation = Situation::new();
        setup(&mut situation);
        let decision = situation.decide();
        assert_eq!(
            (decision.action, decision.reason),
            (*action, *reason),
            "{name}: {decision:?}"
        );
    }
}

#[test]
fn the_pod_goes_when_the_last_claim_is_placed_and_not_before() {
    let mut s = Situation::new();
    s.create();
    expect(&mut s, Action::Keep, Reason::WaitingForScheduler);
    s.claim(&with_node(claim("root", "late")));
    expect(&mut s, Action::Keep, Reason::WaitingForScheduler);
    s.claim(&with_node(claim("data", "late")));
    expect(&mut s, Action::None, Reason::Served);
    s.delete();
    expect(&mut s, Action::None, Reason::NothingWaiting);
}

#[test]
fn a_plain_late_claim_beside_must_be_placed_too() {
    let mut s = Situation::new();
    let mut plain = claim("data", "late");
    plain["metadata"]["ownerReferences"] = json!([]);
    s.claim(&plain);
    s.create();
    s.claim(&with_node(claim("root", "late")));
    expect(&mut s, Action::Keep, Reason::WaitingForVolumes);
    s.claim(&with_node(plain));
    expect(&mut s, Action::None, Reason::Served);
}

#[test]
fn the_pod_is_released_before_the_watch_has_shown_it() {
    let mut s = Situation::new();
    let Effect::Create(mut pod) = s.effect() else {
        panic!("no create")
    };
    pod["metadata"]["uid"] = json!("own");
    s.record(Outcome::Created(Box::new(view(&pod))));
    expect(&mut s, Action::Keep, Reason::WaitingForScheduler);
    s.claim(&with_node(claim("root", "late")));
    s.claim(&with_node(claim("data", "late")));
    assert!(matches!(s.effect(), Effect::Delete { uid, .. } if uid == Uid::from("own")));
    // The watch shows it after the API has confirmed its deletion: no second delete.
    s.record(Outcome::Deleted {
        uid: "own".into(),
        replaced: false,
        next_attempt: None,
    });
    s.pod(&pod);
    assert_eq!(s.effect(), Effect::Nothing);
}

#[test]
fn a_created_pod_that_never_shows_is_believed_in_for_ten_seconds() {
    let mut s = Situation::new();
    let Effect::Create(pod) = s.effect() else {
        panic!("no create")
    };
    s.record(Outcome::Created(Box::new(view(&pod))));
    assert_eq!(s.decide().wake_at, Some(at(10)));
    s.now = at(10);
    expect(&mut s, Action::Create, Reason::FirstConsumerNeeded);
}

#[test]
fn started_while_our_pod_waits_it_goes_at_once() {
    let mut s = Situation::new();
    s.create();
    s.edit_vm(|vm| vm["spec"]["runStrategy"] = json!("Always"));
    expect(&mut s, Action::None, Reason::LeftToVirtController);
    assert!(matches!(s.effect(), Effect::Delete { .. }));
}

#[test]
fn the_fallback_waits_ten_seconds_from_the_vmis_creation_and_gates_creation_only() {
    let mut s = Situation::new();
    s.edit_vm(|vm| vm["spec"]["runStrategy"] = json!("Always"));
    s.vmi(&vmi("Pending"));
    s.now = at(9);
    let decision = s.decide();
    assert_eq!(
        (decision.reason, decision.wake_at),
        (Reason::LeftToVirtController, Some(at(10)))
    );
    s.now = at(10);
    s.create();
    s.memory = Memory::default();
    s.now = at(1);
    expect(&mut s, Action::Keep, Reason::WaitingForScheduler);
}

#[test]
fn the_fallback_of_a_vm_without_vmi_counts_from_the_need() {
    let mut s = Situation::new();
    s.edit_vm(|vm| vm["spec"]["runStrategy"] = json!("Always"));
    s.now = at(100);
    assert_eq!(s.decide().wake_at, Some(at(110)));
    s.now = at(110);
    expect(&mut s, Action::Create, Reason::FirstConsumerNeeded);
}

#[test]
fn a_pod_is_replaced_when_what_it_was_made_for_has_changed() {
    let mut s = Situation::new();
    s.create();
    s.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"] = json!({"zone": "b"}));
    expect(&mut s, Action::Replace, Reason::PlacementChanged);
    s.delete();
    let pod = s.create();
    assert_eq!(pod["spec"]["nodeSelector"]["zone"], json!("b"));

    let mut again = claim("data", "late");
    again["metadata"]["uid"] = json!("another-life");
    s.claim(&again);
    expect(&mut s, Action::Replace, Reason::DisksChanged);

    s.edit_vm(|vm| vm["metadata"]["uid"] = json!("another-life"));
    expect(&mut s, Action::Replace, Reason::OwnerReplaced);
}

#[test]
fn a_hash_of_another_version_replaces_nothing() {
    let mut s = Situation::new();
    let mut pod = s.create();
    pod["metadata"]["annotations"]["first-consumer.kubevirt.io/placement-hash"] = json!("v2:0123");
    s.pod(&pod);
    expect(&mut s, Action::Keep, Reason::WaitingForScheduler);
}

#[test]
fn a_finished_pod_stays_for_a_look_and_is_then_replaced_at_growing_distances_until_we_give_up() {
    let mut s = Situation::new();
    for attempt in 1..=10 {
        let mut pod = s.create();
        assert_eq!(
            pod["metadata"]["annotations"]["first-consumer.kubevirt.io/attempt"],
            json!(attempt.to_string())
        );
        pod["status"]["phase"] = json!("Failed");
        s.pod(&pod);
        if attempt == 10 {
            break;
        }
        let decision = s.decide();
        assert_eq!((decision.action, decision.reason), (Action::Keep, Reason::PodFinished));
        s.now = decision.wake_at.expect("a time");
        expect(&mut s, Action::Replace, Reason::PodFinished);
        s.delete();
        while s.decide().reason == Reason::BackingOff {
            s.now = s.decide().wake_at.expect("a time");
        }
    }
    expect(&mut s, Action::None, Reason::GaveUp);
    s.delete();
    s.now = s.now.checked_add(Duration::from_hours(1)).expect("a time");
    expect(&mut s, Action::None, Reason::GaveUp);
    s.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"] = json!({"zone": "b"}));
    expect(&mut s, Action::Create, Reason::FirstConsumerNeeded);
}

#[test]
fn a_terminating_pod_is_not_deleted_twice() {
    let mut s = Situation::new();
    let mut pod = s.create();
    pod["metadata"]["deletionTimestamp"] = json!(at(1).to_string());
    s.pod(&pod);
    expect(&mut s, Action::Wait, Reason::PodTerminating);
    assert_eq!(s.effect(), Effect::Nothing);
}

#[test]
fn the_schedulers_words_are_shown() {
    let mut s = Situation::new();
    let mut pod = s.create();
    pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/6 nodes are available"}]);
    s.pod(&pod);
    let decision = s.decide();
    assert_eq!(
        (decision.action, decision.reason),
        (Action::Keep, Reason::Unschedulable)
    );
    assert_eq!(decision.message(), "no node fits: 0/6 nodes are available");
    pod["status"]["conditions"][0]["reason"] = json!("SchedulingGated");
    s.pod(&pod);
    expect(&mut s, Action::Keep, Reason::SchedulingGated);
}

#[test]
fn a_refused_creation_is_tried_again_later_or_at_once_when_the_wishes_change() {
    let mut s = Situation::new();
    s.record(Outcome::Refused("exceeded quota".into()));
    let decision = s.decide();
    assert_eq!(
        (decision.reason, decision.wake_at),
        (Reason::CreateRefused, Some(at(10)))
    );
    assert!(decision.message().ends_with("exceeded quota"), "{}", decision.message());
    s.now = at(10);
    s.record(Outcome::Refused("exceeded quota".into()));
    assert_eq!(s.decide().wake_at, Some(at(30)));
    s.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"] = json!({"zone": "b"}));
    expect(&mut s, Action::Create, Reason::FirstConsumerNeeded);
}

#[test]
fn an_api_server_that_does_not_answer_is_left_alone_for_growing_times() {
    let mut s = Situation::new();
    s.record(Outcome::Unanswered("no answer within 10 s".into()));
    let turn = s.turn();
    assert_eq!((turn.effect, turn.decision.wake_at), (Effect::Nothing, Some(at(1))));
    s.now = at(1);
    s.record(Outcome::Unanswered("no answer within 10 s".into()));
    assert_eq!(s.decide().wake_at, Some(at(3)));
    s.now = at(3);
    s.create();
    assert_eq!(s.decide().wake_at, None);
}

#[test]
fn a_second_pod_keeps_its_distance_and_the_distance_is_forgotten_when_all_is_bound() {
    let mut s = Situation::new();
    s.create();
    s.claim(&with_node(claim("root", "late")));
    s.claim(&with_node(claim("data", "late")));
    s.delete();
    let mut given_back = claim("data", "late");
    given_back["metadata"]["annotations"]["volume.kubernetes.io/storage-provisioner"] = json!("rancher.io/local-path");
    s.claim(&given_back);
    s.now = at(1);
    expect(&mut s, Action::Wait, Reason::BackingOff);
    s.now = at(6);
    let pod = s.create();
    // It was stripped, so the second one holds until the legacy claims are bound.
    assert_eq!(
        pod["metadata"]["annotations"]["first-consumer.kubevirt.io/hold"],
        json!("true")
    );
    s.claim(&with_node(given_back));
    expect(&mut s, Action::Keep, Reason::WaitingForVolumes);
    s.disk("root", &bound(claim("root", "late")), "PVCBound");
    expect(&mut s, Action::Keep, Reason::WaitingForVolumes);
    s.disk("data", &bound(claim("data", "late")), "PVCBound");
    expect(&mut s, Action::None, Reason::Served);
}

#[test]
fn the_pod_says_what_it_is_for_and_keeps_clear_of_kubevirt() {
    let mut s = Situation::new();
    let pod = s.create();
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(
        annotations["first-consumer.kubevirt.io/subject"],
        json!("VirtualMachine/db")
    );
    assert_eq!(annotations["first-consumer.kubevirt.io/owner-uid"], json!("vm-db"));
    assert_eq!(annotations["first-consumer.kubevirt.io/made-for"], json!("halted"));
    assert_eq!(
        annotations["first-consumer.kubevirt.io/reason"],
        json!("FirstConsumerNeeded")
    );
    assert_eq!(annotations["kubevirt.io/ephemeral-provisioning"], json!("true"));
    assert_eq!(
        annotations["first-consumer.kubevirt.io/claims"],
        json!(
            r#"[{"name":"root","uid":"claim-root","dataVolume":"root","phase":"WaitForFirstConsumer"},{"name":"data","uid":"claim-data","dataVolume":"data","phase":"WaitForFirstConsumer"}]"#
        )
    );
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "db", "first-consumer.kubevirt.io/managed": "true"})
    );
    assert_eq!(pod["metadata"]["ownerReferences"][0]["controller"], json!(true));
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], json!(0));
    assert!(
        pod["spec"]["containers"][0].get("volumeMounts").is_none(),
        "listed, not mounted"
    );
}

#[test]
fn the_pod_of_a_bare_vmi_is_owned_but_not_controlled_by_it() {
    let mut s = Situation::new();
    s.index.delete::<VirtualMachine>(&Situation::subject());
    let mut bare = vmi("Pending");
    bare["metadata"]["ownerReferences"] = json!([]);
    s.vmi(&bare);
    s.now = at(10);
    let pod = s.create();
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["controller"]),
        (&json!("VirtualMachineInstance"), &json!(false))
    );
    expect(&mut s, Action::Keep, Reason::WaitingForScheduler);
}
