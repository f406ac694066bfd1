//! Section 8: pods that go while a peer's may still follow them, or they a peer's.

use serde_json::json;

use super::super::super::Action;
use super::super::situation::*;
use super::*;
use crate::api::Pod;
use crate::index::Standing;
use crate::memory::Memory;
use crate::placement::Domains;
use crate::reason::Reason;

#[test]
fn our_pod_is_released_only_when_no_peers_pod_can_follow_it_unaware() {
    let mut situation = among_peers();
    situation.create();
    situation.waiting("aa");
    situation.pod_of("aa", &unschedulable(), &json!({}));
    situation.claim(&with_node(claim("root", "late")));
    situation.claim(&with_node(claim("data", "late")));
    expect(&mut situation, Action::Keep, Reason::WaitingForPeer);
    situation.pod_of("aa", &unschedulable(), &json!({HOST: ["node-1"]}));
    expect(&mut situation, Action::None, Reason::Served);
}

#[test]
fn a_pod_that_the_watch_has_not_shown_is_no_exception() {
    let mut situation = among_peers();
    situation.create();
    situation
        .index
        .delete::<Pod>(&Key::new(NAMESPACE, &pod_name(&Situation::subject())));
    situation.waiting("aa");
    situation.pod_of("aa", &unschedulable(), &json!({}));
    situation.claim(&with_node(claim("root", "late")));
    situation.claim(&with_node(claim("data", "late")));
    expect(&mut situation, Action::Keep, Reason::WaitingForPeer);
    // Nor is a peer's pod that is on its way to the API server.
    let pod = Key::new(NAMESPACE, &pod_name(&Situation::peer_key("aa")));
    situation.index.delete::<Pod>(&pod);
    let acting = Some(Standing::Acting(Domains::new()));
    situation.index.note(&Situation::peer_key("aa"), acting);
    expect(&mut situation, Action::Keep, Reason::WaitingForPeer);
    let knowing = Domains::from([(HOST.into(), ["node-1".into()].into())]);
    situation
        .index
        .note(&Situation::peer_key("aa"), Some(Standing::Acting(knowing)));
    expect(&mut situation, Action::None, Reason::Served);
}

#[test]
fn a_pod_that_is_taken_back_may_still_get_its_node_for_a_moment() {
    let mut situation = among_peers();
    situation.waiting("web");
    situation.create();
    situation.asks("false");
    let acting = Some(Standing::Acting(Domains::new()));
    assert_eq!(situation.turn().standing, acting, "its deletion is on the way");
    situation.delete();
    let turn = situation.turn();
    assert_eq!(turn.standing, acting, "the watch may not have shown the node");
    assert_eq!(turn.decision.wake_at, Some(at(2)));
    situation.index.note(&Situation::subject(), turn.standing);
    let web = |situation: &mut Situation| {
        let (key, memory) = (Situation::peer_key("web"), &mut Memory::default());
        crate::decide::turn(&situation.index, &key, &situation.settings, memory, situation.now).decision
    };
    assert_eq!(web(&mut situation).reason, Reason::WaitingForPeer);
    situation.now = at(2);
    let turn = situation.turn();
    assert_eq!((turn.standing.clone(), turn.decision.wake_at), (None, None));
    let woken = situation.index.note(&Situation::subject(), turn.standing);
    assert!(woken.contains(&Situation::peer_key("web")));
    assert_eq!(web(&mut situation).action, Action::Create);
}

#[test]
fn a_pod_that_is_replaced_counts_as_unaware_until_it_is_gone() {
    let mut situation = among_peers();
    situation.waiting("web");
    situation.create();
    situation.settled("web");
    expect(&mut situation, Action::Replace, Reason::PlacementChanged);
    let unaware = Some(Standing::Acting(Domains::new()));
    assert_eq!(situation.turn().standing, unaware, "its deletion is on the way");
    situation.delete();
    let aware = Domains::from([(HOST.into(), ["node-1".into()].into())]);
    assert_eq!(situation.turn().standing, Some(Standing::Acting(aware)), "the next one");
}

/// On its way out it may still get a node, where a peer's pod that was made after the peer had lost its own would follow.
#[test]
fn a_pod_that_is_too_strict_is_not_replaced_while_a_peer_is_about_to_get_its_node() {
    let replaced = (Action::Replace, Reason::PlacementChanged);
    let decided = |change: fn(&mut Situation, Value)| {
        let mut situation = among_peers();
        situation.settled("web");
        let pod = situation.create();
        situation.waiting("web");
        change(&mut situation, pod);
        let decision = situation.decide();
        (decision.action, decision.reason)
    };
    let in_flight = |situation: &mut Situation, _| situation.pod_of("web", &json!({}), &json!({}));
    assert_eq!(decided(|_, _| {}), replaced);
    assert_eq!(decided(in_flight), (Action::Keep, Reason::WaitingForPeer));
    let refused = |situation: &mut Situation, _| situation.pod_of("web", &unschedulable(), &json!({}));
    assert_eq!(decided(refused), replaced);
    // Whoever edits the VM does not wait for others, and what is too lax has to go at once.
    let edited = |situation: &mut Situation, _| {
        situation.pod_of("web", &json!({}), &json!({}));
        situation.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"] = json!({"zone": "b"}));
    };
    assert_eq!(decided(edited), replaced);
    let elsewhere = |situation: &mut Situation, _| {
        situation.pod_of("web", &json!({}), &json!({}));
        let node = "node-2";
        let mut claim = with_node(claim("other", "late"));
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = json!(node);
        let other = vm(NAMESPACE, "other", &anti_affinity(HOST));
        situation.peer(&other, claim, "WaitForFirstConsumer");
    };
    assert_eq!(decided(elsewhere), replaced);
    // Nor is one waited for that gets no node any more.
    let going = |situation: &mut Situation, pod| {
        situation.pod_of("web", &json!({}), &json!({}));
        situation.pod(&terminating(pod));
    };
    assert_eq!(decided(going), (Action::Wait, Reason::PodTerminating));
    let ended = |situation: &mut Situation, pod| {
        situation.pod_of("web", &json!({}), &json!({}));
        situation.pod(&in_phase(pod, "Failed"));
    };
    assert_eq!(decided(ended), replaced);
}

/// The others have to know where it may end, unless no node fits it: then it holds nobody up.
#[test]
fn a_pod_that_waits_for_a_peer_counts_while_it_may_get_a_node() {
    let mut situation = among_peers();
    situation.settled("web");
    let pod = situation.create();
    situation.waiting("web");
    situation.pod_of("web", &json!({}), &json!({}));
    let aware = Domains::from([(HOST.into(), ["node-1".into()].into())]);
    expect(&mut situation, Action::Keep, Reason::WaitingForPeer);
    assert_eq!(situation.turn().standing, Some(Standing::Acting(aware)));
    let mut refused = pod;
    refused["status"]["conditions"] = json!([unschedulable()]);
    situation.pod(&refused);
    expect(&mut situation, Action::Keep, Reason::WaitingForPeer);
    assert_eq!(situation.turn().standing, Some(Standing::HeldBack));
}

#[test]
fn a_pod_that_has_its_node_or_has_ended_is_not_waited_for_when_it_goes() {
    type Change = fn(&mut Situation);
    let changes: [(&str, Change); 2] = [
        ("placed", |situation| {
            for name in ["root", "data"] {
                situation.claim(&with_node(claim(name, "late")));
            }
        }),
        ("ended", |situation| {
            let mut pod = situation.create();
            pod["status"] = json!({"phase": "Failed"});
            situation.pod(&pod);
        }),
    ];
    for (name, change) in changes {
        let mut situation = among_peers();
        if name == "placed" {
            situation.create();
        }
        change(&mut situation);
        situation.asks("false");
        assert_eq!(situation.turn().standing, None, "{name}");
        situation.delete();
        assert_eq!(situation.turn().standing, None, "{name}");
    }
}

#[test]
fn a_pod_of_another_version_is_not_waited_for() {
    let mut situation = among_peers();
    situation.create();
    situation.waiting("aa");
    let subject = Situation::peer_key("aa");
    let mut pod = pod(&pod_name(&subject), "aa");
    pod["metadata"]["labels"] = json!({"first-consumer.kubevirt.io/managed": "true"});
    pod["metadata"]["annotations"] = json!({"first-consumer.kubevirt.io/placement-hash": "v0:00"});
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "aa", "uid": "vm-aa"}]);
    situation.pod(&pod);
    situation.claim(&with_node(claim("root", "late")));
    situation.claim(&with_node(claim("data", "late")));
    expect(&mut situation, Action::None, Reason::Served);
}
