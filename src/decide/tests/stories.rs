//! What a subject lives through: rows that need a history.

use std::time::Duration;

use serde_json::json;

use super::super::{Action, Effect};
use super::situation::*;
use crate::api::{Pod, VirtualMachine};
use crate::memory::{Memory, Outcome};
use crate::name::{Key, Uid, pod_name};
use crate::reason::Reason;

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
        held: false,
        uid: "own".into(),
        replaced: false,
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
fn a_vmi_that_has_ended_is_no_beginning_of_the_fallbacks_delay() {
    let mut s = Situation::new();
    s.edit_vm(|vm| vm["spec"]["runStrategy"] = json!("Always"));
    s.vmi(&vmi("Failed"));
    s.now = at(3600);
    let decision = s.decide();
    assert_eq!(
        (decision.reason, decision.wake_at),
        (Reason::LeftToVirtController, Some(at(3610)))
    );
    s.now = at(3610);
    expect(&mut s, Action::Create, Reason::FirstConsumerNeeded);
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
    }
    expect(&mut s, Action::Keep, Reason::GaveUp);
    s.now = s.now.checked_add(Duration::from_hours(1)).expect("a time");
    expect(&mut s, Action::Keep, Reason::GaveUp);
    s.memory = Memory::default();
    expect(&mut s, Action::Keep, Reason::GaveUp);
    s.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"] = json!({"zone": "b"}));
    expect(&mut s, Action::Replace, Reason::PlacementChanged);
    s.delete();
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
    pod["spec"]["schedulingGates"] = json!([{"name": "queue.example/admission"}, {"name": "other"}]);
    s.pod(&pod);
    let decision = s.decide();
    assert_eq!(
        (decision.action, decision.reason),
        (Action::Keep, Reason::SchedulingGated)
    );
    assert_eq!(
        decision.message(),
        "a scheduling gate holds the pod: queue.example/admission, other"
    );
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

/// Creates without an answer, of which the last was done all the same.
#[test]
fn a_pod_that_came_without_an_answer_goes_at_once_and_the_next_keeps_its_distance() {
    let mut s = Situation::new();
    let Effect::Create(mut pod) = s.effect() else {
        panic!("no create")
    };
    for _ in 0..6 {
        s.record(Outcome::Unanswered("no answer within 10 s".into()));
    }
    assert_eq!(s.decide().wake_at, Some(at(32)));
    pod["metadata"]["uid"] = json!("own");
    s.pod(&pod);
    expect(&mut s, Action::Keep, Reason::WaitingForScheduler);
    s.claim(&with_node(claim("root", "late")));
    s.claim(&with_node(claim("data", "late")));
    assert!(matches!(s.effect(), Effect::Delete { uid, .. } if uid == Uid::from("own")));
    s.delete();
    s.index
        .delete::<Pod>(&Key::new(NAMESPACE, &pod_name(&Situation::subject())));
    s.claim(&claim("root", "late"));
    let turn = s.turn();
    assert_eq!((turn.effect, turn.decision.wake_at), (Effect::Nothing, Some(at(32))));
    s.now = at(32);
    assert!(matches!(s.effect(), Effect::Create(_)));
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
    s.delete();
    let mut again = claim("data", "late");
    again["metadata"]["uid"] = json!("another-life");
    s.disk("root", &bound(claim("root", "late")), "Succeeded");
    s.disk("data", &again, "WaitForFirstConsumer");
    expect(&mut s, Action::Create, Reason::FirstConsumerNeeded);
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
