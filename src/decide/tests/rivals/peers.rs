//! Section 8: anti-affine peers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::super::super::{Action, turn};
use super::super::situation::*;
use super::*;
use crate::reason::Reason;

use crate::api::{Namespace, PersistentVolume, Pod};
use crate::index::Standing;
use crate::memory::{Memory, Outcome};
use crate::placement::Domains;

#[test]
fn a_settled_peers_node_is_kept_out_of() {
    let mut situation = among_peers();
    situation.settled("peer");
    let pod = situation.create();
    let elsewhere = json!({"key": HOST, "operator": "NotIn", "values": ["node-1"]});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let terms = &pod["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"];
    let all = |term: &Value| {
        term["matchExpressions"]
            .as_array()
            .is_some_and(|all| all.contains(&elsewhere))
    };
    assert!(terms.as_array().is_some_and(|terms| terms.iter().all(all)), "{terms}");
    assert_eq!(
        pod["metadata"]["annotations"]["first-consumer.kubevirt.io/peers"],
        json!(r#"{"kubernetes.io/hostname":["node-1"]}"#)
    );
    expect(&mut situation, Action::Keep, Reason::WaitingForScheduler);
}

#[test]
fn a_term_counts_in_both_directions_and_only_where_it_selects() {
    let cases: [(&str, Edit, Edit, Value); 9] = [
        ("both", |_| {}, |_| {}, json!({HOST: ["node-1"]})),
        (
            "theirs alone",
            |own| own["spec"]["template"]["spec"]["affinity"] = json!({}),
            |_| {},
            json!({HOST: ["node-1"]}),
        ),
        (
            "ours alone",
            |_| {},
            |peer| peer["spec"]["template"]["spec"]["affinity"] = json!({}),
            json!({HOST: ["node-1"]}),
        ),
        (
            "neither",
            |own| own["spec"]["template"]["spec"]["affinity"] = json!({}),
            |peer| peer["spec"]["template"]["spec"]["affinity"] = json!({}),
            json!({}),
        ),
        (
            "other labels",
            |own| own["spec"]["template"]["spec"]["affinity"] = json!({}),
            |peer| {
                let web = json!([{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}]);
                peer["spec"]["template"]["spec"]["affinity"] = terms(&web);
            },
            json!({}),
        ),
        (
            "by KubeVirt's own label, without a value, and on the zone",
            |own| {
                let any = json!([{"topologyKey": ZONE, "labelSelector": {"matchExpressions": [
                    {"key": "kubevirt.io", "operator": "Exists"}]}}]);
                own["spec"]["template"]["spec"]["affinity"] = terms(&any);
            },
            |peer| peer["spec"]["template"]["spec"]["affinity"] = json!({}),
            json!({ZONE: ["a"]}),
        ),
        (
            "In, and both topologies",
            |own| own["spec"]["template"]["spec"]["affinity"] = anti_affinity(ZONE),
            |peer| {
                let listed = json!([{"topologyKey": HOST, "labelSelector": {"matchExpressions": [
                    {"key": "app", "operator": "In", "values": ["web", "db"]}]}}]);
                peer["spec"]["template"]["spec"]["affinity"] = terms(&listed);
            },
            json!({HOST: ["node-1"], ZONE: ["a"]}),
        ),
        (
            "a preferred term keeps nobody out",
            |own| own["spec"]["template"]["spec"]["affinity"] = json!({}),
            |peer| {
                peer["spec"]["template"]["spec"]["affinity"] = json!({"podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {
                        "topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}}}]}});
            },
            json!({}),
        ),
        (
            "a peer that is being deleted",
            |_| {},
            |peer| peer["metadata"]["deletionTimestamp"] = json!(at(0).to_string()),
            json!({}),
        ),
    ];
    for (name, own, other, expected) in cases {
        let mut situation = among_peers();
        situation.edit_vm(own);
        let mut peer = vm(NAMESPACE, "peer", &anti_affinity(HOST));
        other(&mut peer);
        situation.peer(&peer, with_node(claim("peer", "late")), "WaitForFirstConsumer");
        assert_eq!(situation.kept_out_of(), expected, "{name}");
    }
}

#[test]
fn namespaces_are_named_or_selected() {
    let selector = json!({"matchLabels": {"app": "db"}});
    for (term, counts) in [
        (json!({}), false),
        (json!({"namespaces": ["far"]}), true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "a"}}}), true),
        (json!({"namespaceSelector": {"matchLabels": {"team": "b"}}}), false),
        (json!({"namespaceSelector": {}}), true),
    ] {
        let mut situation = among_peers();
        let namespace = json!({"metadata": {"name": "far", "labels": {"team": "a"}}});
        situation.index.apply(view::<Namespace>(&namespace));
        let mut ours = term.clone();
        ours["topologyKey"] = json!(HOST);
        ours["labelSelector"] = selector.clone();
        situation.edit_vm(|vm| vm["spec"]["template"]["spec"]["affinity"] = terms(&json!([ours])));
        let peer = vm("far", "peer", &json!({}));
        situation.peer(&peer, with_node(claim("peer", "late")), "WaitForFirstConsumer");
        let expected = if counts { json!({HOST: ["node-1"]}) } else { json!({}) };
        assert_eq!(situation.kept_out_of(), expected, "{term}");
    }
}

#[test]
fn without_a_selected_node_the_volumes_affinity_tells_if_it_leaves_no_choice() {
    let mut situation = among_peers();
    situation.edit_vm(|vm| {
        vm["spec"]["template"]["spec"]["affinity"] = terms(&json!([
            {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}}},
            {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "db"}}},
        ]));
    });
    let peer = vm(NAMESPACE, "peer", &json!({}));
    situation.peer(&peer, bound(claim("peer", "immediate")), "Succeeded");
    assert_eq!(situation.kept_out_of(), json!({}), "a volume that is not known yet");
    let volume = json!({"metadata": {"name": "pv"}, "spec": {
        "claimRef": {"namespace": NAMESPACE, "name": "peer"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": ZONE, "operator": "In", "values": ["a"]}]}]}}}});
    let changed = situation.index.apply(view::<PersistentVolume>(&volume));
    assert!(
        changed.contains(&Situation::subject()),
        "a peer's volume concerns us: {changed:?}"
    );
    assert_eq!(
        situation.kept_out_of(),
        json!({ZONE: ["a"]}),
        "two nodes of the zone are left"
    );
}

#[test]
fn a_launched_peer_is_the_schedulers_business() {
    let mut situation = among_peers();
    situation.settled("peer");
    let mut launcher = pod("virt-launcher-peer-x", "peer");
    launcher["metadata"]["labels"] = json!({"kubevirt.io": "virt-launcher"});
    launcher["metadata"]["ownerReferences"] = json!([{"apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance", "name": "peer", "uid": "vmi-peer", "controller": true}]);
    let changed = situation.index.apply(view::<Pod>(&launcher));
    assert!(changed.contains(&Situation::subject()), "{changed:?}");
    assert_eq!(situation.kept_out_of(), json!({}));
}

#[test]
fn the_smaller_name_goes_first_and_the_other_is_woken_when_it_has_its_node() {
    let mut situation = among_peers();
    situation.waiting("zz");
    expect(&mut situation, Action::Create, Reason::FirstConsumerNeeded);
    situation.waiting("aa");
    expect(&mut situation, Action::Wait, Reason::WaitingForPeer);
    assert_eq!(situation.decide().about, "prod/aa");
    let placed = view::<PersistentVolumeClaim>(&with_node(claim("aa", "late")));
    let changed = situation.index.apply(placed);
    assert!(changed.contains(&Situation::subject()), "{changed:?}");
    expect(&mut situation, Action::Create, Reason::FirstConsumerNeeded);
}

#[test]
fn a_peer_that_can_not_act_holds_nobody_up() {
    let lets_pass: [(&str, Setup); 5] = [
        ("not asked for", |s| {
            let mut peer = vm(NAMESPACE, "aa", &anti_affinity(HOST));
            peer["metadata"]["annotations"] = json!({});
            s.index.apply(view::<VirtualMachine>(&peer));
        }),
        ("an earlier row stops it", |s| s.pod(&pod("binder", "aa"))),
        ("its spec can't be read", |s| {
            let mut peer = vm(NAMESPACE, "aa", &anti_affinity(HOST));
            peer["spec"]["template"]["spec"]["nodeSelector"] = json!(["a"]);
            s.index.apply(view::<VirtualMachine>(&peer));
        }),
        ("no node fits for its pod", |s| {
            s.pod_of("aa", &unschedulable(), &json!({}));
            s.index.note(&Situation::peer_key("aa"), Some(Standing::HeldBack));
        }),
        ("its pod was refused", |s| {
            let woken = s.index.note(&Situation::peer_key("aa"), Some(Standing::Stuck));
            assert!(woken.contains(&Situation::subject()));
        }),
    ];
    for (name, setup) in lets_pass {
        let mut situation = among_peers();
        situation.waiting("aa");
        setup(&mut situation);
        let decision = situation.decide();
        assert_eq!(decision.reason, Reason::FirstConsumerNeeded, "{name}: {decision:?}");
    }
}

#[test]
fn a_peer_in_flight_goes_first_whatever_its_name() {
    let mut situation = among_peers();
    situation.waiting("zz");
    situation
        .index
        .note(&Situation::peer_key("zz"), Some(Standing::Acting(Domains::new())));
    expect(&mut situation, Action::Wait, Reason::WaitingForPeer);

    let mut situation = among_peers();
    situation.waiting("zz");
    situation.pod_of("zz", &json!({}), &json!({}));
    expect(&mut situation, Action::Wait, Reason::WaitingForPeer);
}

#[test]
fn our_pod_stays_beside_a_peers_and_is_replaced_once_when_the_peer_has_its_node() {
    let mut situation = among_peers();
    situation.create();
    situation.waiting("aa");
    situation.pod_of("aa", &json!({}), &json!({}));
    expect(&mut situation, Action::Keep, Reason::WaitingForScheduler);
    situation.settled("aa");
    expect(&mut situation, Action::Replace, Reason::PlacementChanged);
    situation.delete();
    situation.create();
    expect(&mut situation, Action::Keep, Reason::WaitingForScheduler);
}

#[test]
fn whoever_finds_no_node_hears_of_the_peers() {
    let mut situation = among_peers();
    situation.settled("peer");
    let mut pod = situation.create();
    pod["status"]["conditions"] = json!([unschedulable()]);
    situation.pod(&pod);
    let decision = situation.decide();
    assert_eq!(decision.reason, Reason::Unschedulable);
    assert_eq!(
        decision.about,
        "0/3 nodes are available; kept out of kubernetes.io/hostname node-1, where the disks of prod/peer are, which must \
         not run beside it (required anti-affinity)"
    );
    assert_eq!(situation.turn().standing, Some(Standing::HeldBack));
}

#[test]
fn a_change_of_a_peer_or_its_node_wakes_the_others_and_nobody_else() {
    let mut situation = among_peers();
    situation.settled("peer");
    let mut loner = vm(NAMESPACE, "loner", &json!({}));
    loner["spec"]["template"]["metadata"]["labels"] = json!({"app": "web"});
    situation.peer(&loner, with_node(claim("loner", "late")), "WaitForFirstConsumer");
    let both: crate::index::Changed = [Situation::subject(), Situation::peer_key("peer")].into();
    let mut phase = data_volume("peer", "Succeeded");
    phase["metadata"]["namespace"] = json!(NAMESPACE);
    assert_eq!(situation.index.apply(view::<DataVolume>(&phase)), both);
    let loner = situation
        .index
        .apply(view::<DataVolume>(&data_volume("loner", "Succeeded")));
    assert_eq!(loner, [Situation::peer_key("loner")].into());
    let moved = situation.index.apply(view::<Node>(&node("node-2", "c")));
    assert!(moved.is_superset(&both), "its disks could be there");
    let gone = situation.index.delete::<VirtualMachine>(&Situation::peer_key("peer"));
    assert_eq!(gone, both);
}

/// Gives everybody who is due a turn until nobody is, as the workers do without writing; how many turns it took.
fn settle(s: &mut Situation, memories: &mut BTreeMap<Key, Memory>, mut due: BTreeSet<Key>) -> usize {
    let mut turns = 0;
    while let Some(subject) = due.pop_first() {
        turns += 1;
        assert!(turns < 100, "they wake each other for ever");
        let memory = memories.entry(subject.clone()).or_default();
        let turn = turn(&s.index, &subject, &s.settings, memory, s.now);
        due.extend(s.index.note(&subject, turn.standing));
    }
    turns
}

#[test]
fn peers_wake_each_other_when_anything_is_said_of_them_and_not_for_ever() {
    let mut s = among_peers();
    s.waiting("aa");
    s.waiting("zz");
    let mut memories = BTreeMap::new();
    let all: BTreeSet<Key> = s.index.subjects();
    settle(&mut s, &mut memories, all.clone());
    let acting = |s: &Situation| {
        let of = |name: &str| s.index.standing(&Situation::peer_key(name)).cloned();
        [of("aa"), of("db"), of("zz")]
    };
    let free = Some(Standing::Acting(Domains::new()));
    let waits = Some(Standing::HeldBack);
    assert_eq!(acting(&s), [free, waits.clone(), waits]);
    // Its pod is not made yet, and now has to be kept out of a node: whoever asks what it knows has to hear of it.
    s.settled("bb");
    let aa = Situation::peer_key("aa");
    let woken = {
        let memory = memories.entry(aa.clone()).or_default();
        let turn = turn(&s.index, &aa, &s.settings, memory, s.now);
        s.index.note(&aa, turn.standing)
    };
    let others = ["bb", "db", "zz"].map(Situation::peer_key);
    assert_eq!(woken, BTreeSet::from(others));
    let kept_out = Domains::from([(HOST.into(), ["node-1".into()].into())]);
    assert_eq!(acting(&s)[0], Some(Standing::Acting(kept_out.clone())));
    assert_eq!(
        s.index.note(&aa, Some(Standing::Acting(kept_out))),
        BTreeSet::new(),
        "nothing new"
    );
    assert_eq!(settle(&mut s, &mut memories, all), 3, "all has been said");
}

#[test]
fn who_waits_for_a_peer_that_is_about_to_act_does_not_hold_it_up() {
    let unanswered = || Outcome::Unanswered("no answer".into());
    let refused = || Outcome::Refused("exceeded quota".into());
    for (name, outcome) in [("unanswered", unanswered as fn() -> Outcome), ("refused", refused)] {
        let mut s = among_peers();
        s.waiting("zz");
        let mut memories = BTreeMap::new();
        let mut memory = Memory::default();
        let (subject, peer) = (Situation::subject(), Situation::peer_key("zz"));
        let made = turn(&s.index, &subject, &s.settings, &mut memory, s.now);
        memory.record(outcome(), &made.observed, s.now);
        memories.insert(subject.clone(), memory);
        // The peer's create has its slot later: for a while it is only about to act.
        for later in [0, 600] {
            s.now = at(later);
            let all = s.index.subjects();
            settle(&mut s, &mut memories, all);
            let acts = |key: &Key| matches!(s.index.standing(key), Some(Standing::Acting(_)));
            assert_eq!((acts(&subject), acts(&peer)), (false, true), "{name}, {later}");
        }
    }
}

#[test]
fn labels_that_nobody_asks_for_any_more_are_forgotten() {
    let mut s = Situation::new();
    let peers = |s: &Situation| s.index.peers(&Situation::subject()).len();
    for _ in 0..2 {
        s.waiting("aa");
        assert_eq!((peers(&s), s.index.labels_asked_for()), (1, 1));
        s.index.apply(view::<VirtualMachine>(&vm(NAMESPACE, "aa", &json!({}))));
        assert_eq!((peers(&s), s.index.labels_asked_for()), (0, 0));
    }
    s.waiting("aa");
    s.index.delete::<VirtualMachine>(&Situation::peer_key("aa"));
    assert_eq!((peers(&s), s.index.labels_asked_for()), (0, 0));
}
