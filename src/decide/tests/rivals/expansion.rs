//! Row 12: instancetypes and preferences.

use serde_json::json;

use super::super::super::{Action, Effect};
use super::super::situation::*;
use super::*;
use crate::reason::Reason;

use crate::api::Template;
use crate::memory::Memory;

fn with_instancetype() -> Situation {
    let mut situation = Situation::new();
    situation.edit_vm(|vm| vm["spec"]["instancetype"] = json!({"name": "u1.small"}));
    situation
}

fn expansion() -> Expanding {
    with_affinity(&Value::Null)
}

fn with_affinity(affinity: &Value) -> Expanding {
    let template: Template = view(&json!({
        "metadata": {"labels": {"app": "db"}},
        "spec": {"nodeSelector": {"zone": "b"}, "affinity": affinity, "volumes": [
            {"name": "root", "dataVolume": {"name": "root"}}, {"name": "data", "dataVolume": {"name": "data"}}]},
    }));
    Expanding::Expanded(Box::new(template))
}

#[test]
fn an_instancetype_is_expanded_once_and_again_when_the_vm_changes() {
    let mut situation = with_instancetype();
    expect(&mut situation, Action::Wait, Reason::ExpansionPending);
    situation.expand(expansion());
    let pod = situation.create();
    assert_eq!(pod["spec"]["nodeSelector"]["zone"], json!("b"));
    expect(&mut situation, Action::Keep, Reason::WaitingForScheduler);
    assert_eq!(situation.effect(), Effect::Nothing);

    // What says nothing about the spec is no reason to ask again.
    situation.edit_vm(|vm| vm["metadata"]["annotations"]["kubevirt.io/x"] = json!("y"));
    assert_eq!(situation.effect(), Effect::Nothing);
    let changes: [Edit; 4] = [
        |vm| vm["spec"]["template"]["spec"]["hostname"] = json!("x"),
        |vm| vm["spec"]["preference"] = json!({"name": "linux"}),
        |vm| vm["status"]["instancetypeRef"] = json!({"controllerRevisionRef": {"name": "rev-2"}}),
        |vm| vm["spec"]["template"]["metadata"]["annotations"] = json!({"kubevirt.io/z": "z"}),
    ];
    for change in changes {
        situation.edit_vm(change);
        expect(&mut situation, Action::Keep, Reason::ExpansionPending);
        situation.expand(expansion());
        expect(&mut situation, Action::Keep, Reason::WaitingForScheduler);
    }
}

#[test]
fn an_instancetype_that_nobody_waits_for_is_not_expanded() {
    let mut situation = with_instancetype();
    situation.edit_vm(|vm| vm["metadata"]["annotations"] = json!({}));
    expect(&mut situation, Action::None, Reason::NotAskedFor);
    assert_eq!(situation.effect(), Effect::Nothing);
    let mut pending = vmi("Pending");
    pending["metadata"]["creationTimestamp"] = json!(at(-60).to_string());
    situation.vmi(&pending);
    expect(&mut situation, Action::Create, Reason::FirstConsumerNeeded);
}

#[test]
fn while_virt_api_is_away_no_pod_comes_or_goes_and_it_is_asked_at_growing_distances() {
    let mut situation = with_instancetype();
    for seconds in [1, 2, 4] {
        situation.expand(Expanding::Unanswered("no endpoints".into()));
        let decision = situation.decide();
        assert_eq!(
            (decision.action, decision.reason, &*decision.about),
            (Action::Wait, Reason::ExpansionPending, "no endpoints")
        );
        let due = decision.wake_at.expect("it is tried again");
        assert_eq!(due.duration_since(situation.now).as_secs(), seconds);
        assert_eq!(situation.effect(), Effect::Nothing);
        situation.now = due;
        assert!(matches!(situation.effect(), Effect::Expand { .. }));
        assert_eq!(situation.decide().wake_at, None, "what is due is begun, not waited for");
    }
    situation.expand(expansion());
    situation.create();
    // After a restart nothing is known of the expansion, and the pod stays.
    situation.memory = Memory::default();
    expect(&mut situation, Action::Keep, Reason::ExpansionPending);
    situation.expand(Expanding::Unanswered("no endpoints".into()));
    expect(&mut situation, Action::Keep, Reason::ExpansionPending);
    situation.now = at(1000);
    situation.expand(expansion());
    expect(&mut situation, Action::Keep, Reason::WaitingForScheduler);
}

/// It may end beside the disks of a peer that came after it.
#[test]
fn a_pod_that_knows_too_few_peers_does_not_wait_for_an_expansion() {
    let affinity = anti_affinity(HOST);
    let pending_beside = |peer: bool| {
        let mut situation = among_peers();
        situation.edit_vm(|vm| vm["spec"]["instancetype"] = json!({"name": "u1.small"}));
        situation.expand(with_affinity(&affinity));
        situation.create();
        if peer {
            situation.settled("other");
        }
        situation.edit_vm(|vm| vm["spec"]["template"]["spec"]["hostname"] = json!("x"));
        situation.decide()
    };
    let (alone, beside) = (pending_beside(false), pending_beside(true));
    assert_eq!((alone.action, alone.reason), (Action::Keep, Reason::ExpansionPending));
    assert_eq!((beside.action, beside.reason), (Action::Wait, Reason::ExpansionPending));
}

#[test]
fn a_definite_refusal_ends_the_pod_and_is_asked_again_when_the_vm_changes_or_after_a_while() {
    let mut situation = with_instancetype();
    situation.expand(expansion());
    situation.create();
    situation.edit_vm(|vm| vm["spec"]["template"]["spec"]["hostname"] = json!("x"));
    situation.expand(Expanding::Refused("conflict: cpu".into()));
    let decision = situation.decide();
    assert_eq!(
        (decision.action, decision.reason, &*decision.about),
        (Action::None, Reason::CannotRender, "conflict: cpu")
    );
    situation.delete();
    assert_eq!(situation.effect(), Effect::Nothing);
    assert_eq!(situation.decide().wake_at, Some(at(300)));
    situation.edit_vm(|vm| vm["spec"]["template"]["spec"]["hostname"] = json!("y"));
    expect(&mut situation, Action::Wait, Reason::ExpansionPending);
    situation.expand(expansion());
    expect(&mut situation, Action::Wait, Reason::BackingOff);
}

/// Nobody else acts meanwhile either, and the pod that says so is kept.
#[test]
fn who_gave_up_is_so_while_its_template_is_expanded_anew() {
    let mut s = with_instancetype();
    s.expand(expansion());
    created(&mut s, |pod| {
        pod["metadata"]["annotations"]["first-consumer.kubevirt.io/attempt"] = json!("10");
        pod["status"]["phase"] = json!("Failed");
    });
    expect(&mut s, Action::Keep, Reason::GaveUp);
    // A VM that would go first, and shares a disk.
    let mut first = vm(NAMESPACE, "aa", &json!({}));
    first["spec"]["template"]["spec"]["volumes"][0]["dataVolume"]["name"] = json!("root");
    s.index.apply(view::<VirtualMachine>(&first));
    expect(&mut s, Action::Keep, Reason::GaveUp);
    s.memory = Memory::default();
    expect(&mut s, Action::Keep, Reason::ExpansionPending);
    s.expand(expansion());
    expect(&mut s, Action::Keep, Reason::GaveUp);
}
