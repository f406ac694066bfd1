//! Rows 12 to 17, as far as they need no history and no rival: for every condition a situation that has it, and one that
//! just does not.

use serde_json::json;

use super::super::Action;
use super::situation::*;
use crate::api::Pod;
use crate::memory::Outcome;
use crate::name::{Key, pod_name};
use crate::reason::Reason;

#[test]
fn row_12_what_it_will_ask_for() {
    check(&[
        (
            "an instancetype",
            |s| s.edit_vm(|vm| vm["spec"]["instancetype"] = json!({"name": "u1.small"})),
            (Action::Wait, Reason::ExpansionPending),
        ),
        (
            "a preference",
            |s| s.edit_vm(|vm| vm["spec"]["preference"] = json!({"name": "linux"})),
            (Action::Wait, Reason::ExpansionPending),
        ),
        (
            "not: virt-controller has expanded it",
            |s| {
                s.edit_vm(|vm| vm["spec"]["instancetype"] = json!({"name": "u1.small"}));
                s.vmi(&vmi("Pending"));
                s.now = at(10);
            },
            CREATE,
        ),
        (
            "a spec that can't be read",
            |s| s.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"] = json!(["a"])),
            (Action::None, Reason::CannotRender),
        ),
    ]);
}

#[test]
fn row_13_the_pod_is_outdated() {
    check(&[
        (
            "it is going",
            |s| created(s, |pod| *pod = terminating(pod.clone())),
            (Action::Wait, Reason::PodTerminating),
        ),
        (
            "its deletion has been confirmed, and the watch lags",
            |s| {
                s.create();
                s.record(Outcome::Deleted {
                    held: false,
                    uid: "own-1".into(),
                    replaced: false,
                    next_attempt: None,
                });
            },
            (Action::Wait, Reason::PodTerminating),
        ),
        (
            "not: another's deletion has",
            |s| {
                s.create();
                s.record(Outcome::Deleted {
                    held: false,
                    uid: "own-0".into(),
                    replaced: false,
                    next_attempt: None,
                });
            },
            KEPT,
        ),
        (
            "another life of the VM",
            |s| {
                s.create();
                s.edit_vm(|vm| vm["metadata"]["uid"] = json!("another-life"));
            },
            (Action::Replace, Reason::OwnerReplaced),
        ),
        (
            "another placement",
            |s| {
                s.create();
                s.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"] = json!({"zone": "b"}));
            },
            (Action::Replace, Reason::PlacementChanged),
        ),
        (
            "not: an edit that places nothing",
            |s| {
                s.create();
                s.edit_vm(|vm| vm["spec"]["template"]["spec"]["hostname"] = json!("db-1"));
            },
            KEPT,
        ),
        (
            "not: somebody has edited the live pod",
            |s| {
                created(s, |pod| pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]));
            },
            KEPT,
        ),
        (
            "not: a hash of another version",
            |s| created_with(s, "placement-hash", "v2:01"),
            KEPT,
        ),
    ]);
}

#[test]
fn row_13_the_pods_disks_are_outdated() {
    check(&[
        (
            "a disk more",
            |s| {
                s.create();
                s.add_volume(&json!({"name": "log", "dataVolume": {"name": "log"}}));
                s.disk("log", &claim("log", "late"), "WaitForFirstConsumer");
            },
            (Action::Replace, Reason::DisksChanged),
        ),
        (
            "a disk less",
            |s| {
                s.create();
                s.volumes(&json!([{"name": "root", "dataVolume": {"name": "root"}}]));
            },
            (Action::Replace, Reason::DisksChanged),
        ),
        (
            "another life of a disk",
            |s| {
                s.create();
                let mut again = claim("data", "late");
                again["metadata"]["uid"] = json!("another-life");
                s.claim(&again);
            },
            (Action::Replace, Reason::DisksChanged),
        ),
        (
            "not: the disks in another order",
            |s| {
                s.create();
                s.edit_vm(|vm| {
                    let volumes = vm["spec"]["template"]["spec"]["volumes"].as_array_mut();
                    volumes.expect("volumes").reverse();
                });
            },
            KEPT,
        ),
    ]);
}

#[test]
fn rows_14_and_15_the_pod_is_there() {
    check(&[
        (
            "failed",
            |s| ended(s, "1", "Failed"),
            (Action::Keep, Reason::PodFinished),
        ),
        (
            "succeeded",
            |s| ended(s, "9", "Succeeded"),
            (Action::Keep, Reason::PodFinished),
        ),
        (
            "the tenth",
            |s| ended(s, "10", "Failed"),
            (Action::None, Reason::GaveUp),
        ),
        ("not: the tenth runs", |s| ended(s, "10", "Running"), KEPT),
        ("silence", |s| created(s, |_| {}), KEPT),
        (
            "no node fits",
            |s| scheduled(s, "False", "Unschedulable"),
            (Action::Keep, Reason::Unschedulable),
        ),
        (
            "a gate",
            |s| scheduled(s, "False", "SchedulingGated"),
            (Action::Keep, Reason::SchedulingGated),
        ),
        (
            "another word of the scheduler",
            |s| scheduled(s, "False", "SchedulerError"),
            KEPT,
        ),
        (
            "it has a node",
            |s| scheduled(s, "True", ""),
            (Action::Keep, Reason::WaitingForVolumes),
        ),
    ]);
}

fn ended(s: &mut Situation, attempt: &str, phase: &str) {
    created(s, |pod| {
        pod["metadata"]["annotations"]["first-consumer.kubevirt.io/attempt"] = json!(attempt);
        pod["status"]["phase"] = json!(phase);
    });
}

fn scheduled(s: &mut Situation, status: &str, reason: &str) {
    created(s, |pod| {
        pod["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": status, "reason": reason, "message": "words"}]);
    });
}

#[test]
fn rows_16_and_17_not_now() {
    check(&[
        (
            "the name is taken",
            |s| s.pod(&pod(&pod_name(&Situation::subject()), "other")),
            (Action::Wait, Reason::NameTaken),
        ),
        (
            "not: a name like it",
            |s| s.pod(&pod("first-consumer-db", "other")),
            CREATE,
        ),
        (
            "refused 9 s ago",
            |s| {
                s.record(Outcome::Refused("exceeded quota".into()));
                s.now = at(9);
            },
            (Action::Wait, Reason::CreateRefused),
        ),
        (
            "not: refused 10 s ago",
            |s| {
                s.record(Outcome::Refused("exceeded quota".into()));
                s.now = at(10);
            },
            CREATE,
        ),
        (
            "one was made a short time ago",
            |s| {
                vanished(s);
                s.now = at(4);
            },
            (Action::Wait, Reason::BackingOff),
        ),
        (
            "not: the gap is over, with its fifth of jitter",
            |s| {
                vanished(s);
                s.now = at(6);
            },
            CREATE,
        ),
    ]);
}

/// A pod was made, and somebody has deleted it.
fn vanished(s: &mut Situation) {
    s.create();
    s.index
        .delete::<Pod>(&Key::new(NAMESPACE, &pod_name(&Situation::subject())));
    s.memory.forget_assumed();
}

#[test]
fn each_change_is_exempt_from_the_gap_once() {
    let mut situation = Situation::new();
    let zone = |situation: &mut Situation, zone: &str| {
        situation.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"]["zone"] = json!(zone));
    };
    situation.create();
    for change in ["b", "c", "d", "e", "f", "g", "h"] {
        zone(&mut situation, change);
        expect(&mut situation, Action::Replace, Reason::PlacementChanged);
        situation.delete();
        situation.create();
    }
    zone(&mut situation, "i");
    situation.delete();
    expect(&mut situation, Action::Wait, Reason::BackingOff);
}

#[test]
fn a_change_back_and_the_pod_after_an_exempt_one_keep_their_distance() {
    let mut situation = Situation::new();
    let zone = |situation: &mut Situation, zone: &str| {
        situation.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"]["zone"] = json!(zone));
    };
    situation.create();
    situation.now = at(60);
    zone(&mut situation, "b");
    situation.delete();
    vanished(&mut situation);
    expect(&mut situation, Action::Wait, Reason::BackingOff);
    // Two that see different things would replace each other's pods for ever.
    let mut gaps = Vec::new();
    for back in ["a", "b", "a"] {
        let until = situation.decide().wake_at.expect("the end of the gap");
        gaps.push(until.duration_since(situation.now).as_secs());
        situation.now = until;
        situation.create();
        zone(&mut situation, back);
        situation.delete();
        expect(&mut situation, Action::Wait, Reason::BackingOff);
    }
    assert!(gaps.is_sorted() && gaps.first() < gaps.last(), "{gaps:?}");
}

#[test]
fn a_change_that_is_taken_back_before_its_pod_is_made_keeps_its_distance() {
    let mut situation = Situation::new();
    situation.create();
    let before = situation.vm.clone();
    situation.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"]["zone"] = json!("b"));
    situation.delete();
    situation.edit_vm(|vm| *vm = before);
    expect(&mut situation, Action::Wait, Reason::BackingOff);
}
