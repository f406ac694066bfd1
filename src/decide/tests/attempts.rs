//! Row 14, pods that end one after the other: how long each stays, how they are counted, and when it is given up.

use serde_json::json;

use super::super::Action;
use super::rows_14_and_15::{another_life_of_data, ended, ended_of_another_version};
use super::situation::*;
use crate::memory::Memory;
use crate::reason::Reason;

/// 10 s doubling to 5 min.
#[test]
fn a_finished_pod_is_looked_at_the_longer_the_more_there_were() {
    for (attempt, seconds) in [(1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 300), (9, 300)] {
        let mut s = Situation::new();
        ended(&mut s, &attempt.to_string(), "Failed");
        s.now = at(1000);
        let due = at(1000 + seconds);
        assert_eq!(s.decide().wake_at, Some(due), "attempt {attempt}");
        s.now = at(1000 + seconds - 1);
        expect(&mut s, Action::Keep, Reason::PodFinished);
        s.now = due;
        expect(&mut s, Action::Replace, Reason::PodFinished);
        s.delete();
        s.now = at(10_000);
        assert_eq!(next_attempt(&mut s), (attempt + 1).to_string());
    }
}

/// The `attempt` of the pod that is made now.
fn next_attempt(s: &mut Situation) -> String {
    let pod = s.create();
    let attempt = &pod["metadata"]["annotations"]["first-consumer.kubevirt.io/attempt"];
    attempt.as_str().expect("an attempt").to_owned()
}

#[test]
fn pods_that_ended_for_other_wishes_do_not_count() {
    let edit: Setup = |s| s.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"] = json!({"zone": "b"}));
    let back: Setup = |s| s.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"] = json!({"zone": "a"}));
    let table: [(&str, &[Setup], &[Setup], &str); 5] = [
        ("nothing changes", &[], &[], "10"),
        ("an edit while no pod is there", &[edit], &[], "1"),
        ("and back again", &[edit, back], &[], "1"),
        ("an edit while the next pod is there", &[], &[edit], "1"),
        (
            "other claims while the next pod is there",
            &[],
            &[another_life_of_data],
            "1",
        ),
    ];
    for (name, between, while_there, attempt) in table {
        let mut s = Situation::new();
        ended(&mut s, "9", "Failed");
        s.decide();
        s.now = at(1000);
        s.delete();
        s.now = at(2000);
        for change in between {
            change(&mut s);
            s.turn();
        }
        if !while_there.is_empty() {
            assert_eq!(next_attempt(&mut s), "10");
            s.now = at(3000);
            for change in while_there {
                change(&mut s);
            }
            s.delete();
        }
        assert_eq!(next_attempt(&mut s), attempt, "{name}");
    }
}

/// Each line: what happens when the tenth pod has ended, whether that one goes, and the number of the next, if another
/// is made. What is remembered makes no difference.
#[test]
fn given_up_is_until_placement_or_claims_change() {
    let given_up = (Action::Keep, Reason::GaveUp);
    let placement = (Action::Replace, Reason::PlacementChanged);
    let disks = (Action::Replace, Reason::DisksChanged);
    let table: [(&str, Setup, Expected); 10] = [
        ("time goes by", |s| s.now = at(100_000), given_up),
        (
            "an edit that places nothing",
            |s| s.edit_vm(|vm| vm["spec"]["template"]["spec"]["hostname"] = json!("db-1")),
            given_up,
        ),
        (
            "another phase that waits",
            |s| s.disk("data", &claim("data", "late"), "PendingPopulation"),
            given_up,
        ),
        (
            "nothing waits",
            |s| {
                s.disk("root", &claim("root", "late"), "Pending");
                s.disk("data", &claim("data", "late"), "Pending");
            },
            (Action::Wait, Reason::SiblingBinding),
        ),
        (
            "placement",
            |s| s.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"] = json!({"zone": "b"})),
            placement,
        ),
        ("another life of a claim", another_life_of_data, disks),
        (
            "a disk less",
            |s| s.volumes(&json!([{"name": "root", "dataVolume": {"name": "root"}}])),
            disks,
        ),
        (
            "a disk more",
            |s| {
                s.add_volume(&json!({"name": "log", "dataVolume": {"name": "log"}}));
                s.disk("log", &claim("log", "late"), "WaitForFirstConsumer");
            },
            disks,
        ),
        ("somebody deletes it", Situation::lose_pod, CREATE),
        (
            "another life of the VM",
            |s| s.edit_vm(|vm| vm["metadata"]["uid"] = json!("again")),
            (Action::Replace, Reason::OwnerReplaced),
        ),
    ];
    for (name, change, expected) in table {
        let mut s = Situation::new();
        ended(&mut s, "10", "Failed");
        expect(&mut s, Action::Keep, Reason::GaveUp);
        s.now = at(1000);
        change(&mut s);
        let memory = s.memory.clone();
        for remembered in [Memory::default(), memory] {
            s.memory = remembered;
            let decision = s.decide();
            assert_eq!((decision.action, decision.reason), expected, "{name}: {decision:?}");
        }
        let next = match expected.0 {
            Action::Keep => continue,
            Action::Create => "1",
            Action::Wait => {
                s.delete();
                s.disk("root", &claim("root", "late"), "WaitForFirstConsumer");
                s.disk("data", &claim("data", "late"), "WaitForFirstConsumer");
                "10"
            }
            _ => {
                s.delete();
                "1"
            }
        };
        assert_eq!(next_attempt(&mut s), next, "{name}");
    }
}

/// Each line: a pod of this number, what happens to it, and the number of the next.
#[test]
fn only_pods_that_ended_without_result_are_counted() {
    let importing: Setup = |s| {
        s.disk("root", &bound(claim("root", "late")), "ImportScheduled");
        s.delete();
        s.disk("root", &bound(claim("root", "late")), "Succeeded");
    };
    let table: [(&str, &str, &str, Setup, &str); 4] = [
        ("it has to go while it waits", "5", "Pending", importing, "5"),
        ("the first has", "1", "Pending", importing, "1"),
        (
            "another life of the VM",
            "5",
            "Failed",
            |s| {
                s.edit_vm(|vm| vm["metadata"]["uid"] = json!("again"));
                s.delete();
            },
            "1",
        ),
        (
            "it had done its work, but the node is given back",
            "1",
            "Succeeded",
            |s| {
                for name in ["root", "data"] {
                    s.claim(&with_node(claim(name, "late")));
                }
                s.memory = Memory::default();
                s.delete();
                s.claim(&claim("root", "late"));
            },
            "1",
        ),
    ];
    for (name, attempt, phase, happens, next) in table {
        let mut s = Situation::new();
        ended(&mut s, attempt, phase);
        s.decide();
        s.now = at(1000);
        happens(&mut s);
        assert_eq!(next_attempt(&mut s), next, "{name}");
    }
}

#[test]
fn a_pod_of_another_version_is_counted_but_says_nothing_of_having_given_up() {
    let mut s = Situation::new();
    ended_of_another_version(&mut s, "10");
    expect(&mut s, Action::Keep, Reason::PodFinished);
    let mut s = Situation::new();
    ended_of_another_version(&mut s, "5");
    s.decide();
    s.now = at(1000);
    s.delete();
    assert_eq!(next_attempt(&mut s), "6");
}

/// Else the number would be lost with a process that ends in between.
#[test]
fn a_finished_pod_stays_until_the_next_may_be_made() {
    let mut s = Situation::new();
    for _ in 0..8 {
        s.create();
        expect(&mut s, KEPT.0, KEPT.1);
        s.lose_pod();
        while s.decide().reason == Reason::BackingOff {
            s.now = s.decide().wake_at.expect("a time");
        }
    }
    ended(&mut s, "1", "Failed");
    let due = s.decide().wake_at.expect("a time");
    assert!(
        due.duration_since(s.now).as_secs() >= 300,
        "the gap, not the 10 s for a look"
    );
    s.now = due;
    expect(&mut s, Action::Replace, Reason::PodFinished);
    s.delete();
    expect(&mut s, CREATE.0, CREATE.1);
}

/// How many have ended is known to whoever sees the last of them, and in between to all who have seen it.
#[test]
fn a_count_goes_on_through_deletions_by_another_process() {
    for (attempt, next) in [("1", "2"), ("9", "10")] {
        let mut s = Situation::new();
        ended(&mut s, attempt, "Failed");
        s.memory = Memory::default();
        s.decide();
        s.lose_pod();
        assert_eq!(next_attempt(&mut s), next);
    }
}
