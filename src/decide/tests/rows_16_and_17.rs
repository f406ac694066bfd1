//! Rows 16 and 17, not now: for every condition a situation that has it, and one that just does not.

use std::time::Duration;

use serde_json::json;

use super::super::Action;
use super::situation::*;
use crate::api::{Namespace, Pod, ResourceQuota};
use crate::memory::Outcome;
use crate::name::{Key, pod_name};
use crate::reason::Reason;

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
            "refused, and for a moment nothing waits",
            |s| {
                s.record(Outcome::Refused("exceeded quota".into()));
                for phase in ["Pending", "WaitForFirstConsumer"] {
                    s.disk("root", &claim("root", "late"), phase);
                    s.disk("data", &claim("data", "late"), phase);
                    s.turn();
                }
            },
            (Action::Wait, Reason::CreateRefused),
        ),
        (
            "not: refused, and the claims are others",
            |s| {
                s.record(Outcome::Refused("exceeded quota".into()));
                s.volumes(&json!([{"name": "root", "dataVolume": {"name": "root"}}]));
            },
            CREATE,
        ),
        (
            "refused, and the name is taken meanwhile",
            |s| {
                s.record(Outcome::Refused("exceeded quota".into()));
                s.pod(&pod(&pod_name(&Situation::subject()), "other"));
                s.now = at(9);
            },
            (Action::Wait, Reason::CreateRefused),
        ),
        (
            "not: refused 10 s ago, and the name is taken",
            |s| {
                s.record(Outcome::Refused("exceeded quota".into()));
                s.pod(&pod(&pod_name(&Situation::subject()), "other"));
                s.now = at(10);
            },
            (Action::Wait, Reason::NameTaken),
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

/// 10 s doubling to 5 min.
#[test]
fn a_refused_creation_is_tried_again_at_growing_distances() {
    let mut s = Situation::new();
    for seconds in [10, 20, 40, 80, 160, 300, 300] {
        s.record(Outcome::Refused("exceeded quota".into()));
        let until = s.decide().wake_at.expect("it is tried again");
        assert_eq!(until.duration_since(s.now).as_secs(), seconds);
        s.now = until;
        expect(&mut s, Action::Create, Reason::FirstConsumerNeeded);
    }
    s.create();
    s.memory.forget_assumed();
    s.index
        .delete::<Pod>(&Key::new(NAMESPACE, &pod_name(&Situation::subject())));
    s.now = s.now.checked_add(Duration::from_mins(10)).expect("a time");
    s.record(Outcome::Refused("exceeded quota".into()));
    let until = s.decide().wake_at.expect("it is tried again");
    assert_eq!(until.duration_since(s.now).as_secs(), 10, "a pod was made meanwhile");
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
fn a_refused_creation_is_tried_again_at_once_when_the_namespace_allows_more() {
    let quota = |spec: &str, enforced: &str, used: &str| {
        view(&json!({
            "metadata": {"name": "memory", "namespace": NAMESPACE},
            "spec": {"hard": {"requests.memory": spec}},
            "status": {"hard": {"requests.memory": enforced}, "used": {"requests.memory": used}},
        }))
    };
    let mut s = Situation::new();
    s.index.apply::<ResourceQuota>(quota("1Gi", "1Gi", "0"));
    s.record(Outcome::Refused("exceeded quota".into()));
    expect(&mut s, Action::Wait, Reason::CreateRefused);
    s.index.apply::<ResourceQuota>(quota("1Gi", "1Gi", "512Mi"));
    expect(&mut s, Action::Wait, Reason::CreateRefused);
    // The API server has not heard of the new one yet.
    s.index.apply::<ResourceQuota>(quota("8Gi", "1Gi", "512Mi"));
    expect(&mut s, Action::Wait, Reason::CreateRefused);
    s.index.apply::<ResourceQuota>(quota("8Gi", "8Gi", "512Mi"));
    expect(&mut s, Action::Create, Reason::FirstConsumerNeeded);

    let mut s = Situation::new();
    s.record(Outcome::Refused("violates PodSecurity".into()));
    expect(&mut s, Action::Wait, Reason::CreateRefused);
    let labels = json!({"pod-security.kubernetes.io/enforce": "baseline"});
    let namespace = json!({"metadata": {"name": NAMESPACE, "labels": labels}});
    s.index.apply::<Namespace>(view(&namespace));
    expect(&mut s, Action::Create, Reason::FirstConsumerNeeded);
}

#[test]
fn a_refused_creation_is_tried_again_soon_when_others_leave_room() {
    let quota = |name: &str, used: &str| {
        view::<ResourceQuota>(&json!({
            "metadata": {"name": name, "namespace": NAMESPACE},
            "status": {"hard": {"requests.memory": "8Gi", "pods": "10"}, "used": {"requests.memory": used, "pods": "3"}},
        }))
    };
    let refused = || {
        let mut s = Situation::new();
        s.index.apply(quota("memory", "7Gi"));
        s.index.apply(quota("other", "1024Mi"));
        for _ in 0..4 {
            s.record(Outcome::Refused("exceeded quota".into()));
        }
        s
    };
    let waits = |s: &mut Situation| s.decide().wake_at;
    let mut s = refused();
    assert_eq!(waits(&mut s), Some(at(80)));
    for (name, used) in [("memory", "7.5Gi"), ("other", "1Gi")] {
        s.index.apply(quota(name, used));
        assert_eq!(waits(&mut s), Some(at(80)), "{name}: {used}");
    }
    // Less than before, though not less than at the refusal.
    s.index.apply(quota("memory", "7Gi"));
    assert_eq!(waits(&mut s), Some(at(10)), "no sooner than after the first refusal");

    let mut s = refused();
    s.now = at(30);
    expect(&mut s, Action::Wait, Reason::CreateRefused);
    s.index.apply(quota("memory", "2Gi"));
    expect(&mut s, Action::Create, Reason::FirstConsumerNeeded);
    s.record(Outcome::Refused("exceeded quota".into()));
    assert_eq!(waits(&mut s), Some(at(190)), "the distances go on growing");
}

/// None for the first, then 5 s doubling to 5 min, and up to a fifth more.
#[test]
fn pods_in_a_row_keep_growing_distances() {
    let mut s = Situation::new();
    for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
        expect(&mut s, Action::Create, Reason::FirstConsumerNeeded);
        assert_between(gap_after_a_pod(&mut s), seconds);
    }
}

/// Makes a pod that somebody deletes, lets the gap pass, and says how long it was.
fn gap_after_a_pod(s: &mut Situation) -> Duration {
    vanished(s);
    expect(s, Action::Wait, Reason::BackingOff);
    let until = s.decide().wake_at.expect("the end of the gap");
    let gap = until.duration_since(s.now);
    s.now = until;
    gap.unsigned_abs()
}

#[track_caller]
fn assert_between(gap: Duration, seconds: u64) {
    let least = Duration::from_secs(seconds);
    assert!((least..=least.mul_f64(1.2)).contains(&gap), "{gap:?} for {seconds} s");
}

#[test]
fn the_distance_is_forgotten_when_all_is_bound_and_not_before() {
    for (all, seconds) in [(true, 5), (false, 20)] {
        let mut s = Situation::new();
        gap_after_a_pod(&mut s);
        gap_after_a_pod(&mut s);
        s.disk("root", &bound(claim("root", "late")), "Succeeded");
        let data = if all {
            bound(claim("data", "late"))
        } else {
            with_node(claim("data", "late"))
        };
        s.disk("data", &data, "Succeeded");
        expect(&mut s, Action::None, Reason::NothingWaiting);
        s.disk("data", &claim("data", "late"), "WaitForFirstConsumer");
        expect(&mut s, Action::Create, Reason::FirstConsumerNeeded);
        assert_between(gap_after_a_pod(&mut s), seconds);
    }
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
