//! Row 11: one claim of two subjects.

use serde_json::json;

use super::super::super::{Action, Turn, turn};
use super::super::situation::*;
use super::*;
use crate::index::Standing;
use crate::memory::{Memory, Outcome};
use crate::placement::Domains;
use crate::reason::Reason;

/// We are started, and virt-controller has had its time.
fn started(s: &mut Situation) {
    s.vmi(&vmi("Pending"));
    s.now = at(10);
}

/// What the situation is, who shares the claim `root` with us, how that VM and the rest differ, and whether we wait.
type Case = (&'static str, &'static str, Edit, Setup, bool);

fn share(vm: &mut Value) {
    vm["spec"]["template"]["spec"]["volumes"][0]["dataVolume"]["name"] = json!("root");
}

/// A VM that needs a disk of its own name, and our `root` beside it.
fn beside(name: &str, volume: Value) -> Value {
    let mut beside = vm(NAMESPACE, name, &json!({}));
    let volumes = beside["spec"]["template"]["spec"]["volumes"].as_array_mut();
    volumes.expect("volumes").push(volume);
    beside
}

const WAITS: Expected = (Action::Wait, Reason::SharedDiskServedElsewhere);

/// `aa`, which goes first and shares `root` with us, and its memory.
struct First {
    key: Key,
    memory: Memory,
}

impl First {
    fn new(s: &mut Situation, edit: Edit) -> Self {
        let mut first = vm(NAMESPACE, "aa", &json!({}));
        share(&mut first);
        edit(&mut first);
        s.index.apply(view::<VirtualMachine>(&first));
        let (key, memory) = (Situation::peer_key("aa"), Memory::default());
        Self { key, memory }
    }

    /// Its turn, and whether it wakes us.
    fn turn(&mut self, s: &mut Situation) -> (Turn, bool) {
        let turn = turn(&s.index, &self.key, &s.settings, &mut self.memory, s.now);
        let woken = s.index.note(&self.key, turn.standing.clone());
        (turn, woken.contains(&Situation::subject()))
    }

    fn record(&mut self, s: &mut Situation, outcome: Outcome) {
        let observed = self.turn(s).0.observed;
        self.memory.record(outcome, &observed, s.now);
    }
}

/// How `aa` comes to be unable to act, and why.
type Unable = (Edit, fn(&mut First, &mut Situation), Reason);

#[test]
fn who_cannot_act_is_passed_over_and_waits_for_the_other_when_it_can_again() {
    let cases: [Unable; 2] = [
        (
            |vm| vm["spec"]["instancetype"] = json!({"name": "large"}),
            |first, s| {
                let Effect::Expand { inputs } = first.turn(s).0.effect else {
                    panic!("no expansion")
                };
                first.memory.expansion.begin(inputs);
                first
                    .memory
                    .expansion
                    .end(Expanding::Refused("not found".into()), s.now);
            },
            Reason::CannotRender,
        ),
        (
            |_| {},
            |first, s| first.record(s, Outcome::Refused("exceeded quota".into())),
            Reason::CreateRefused,
        ),
    ];
    for (edit, fail, reason) in cases {
        let mut s = Situation::new();
        let mut first = First::new(&mut s, edit);
        first.turn(&mut s);
        let decision = s.decide();
        assert_eq!((decision.action, decision.reason), WAITS, "{reason}");
        fail(&mut first, &mut s);
        let (turn, woken) = first.turn(&mut s);
        assert_eq!((turn.decision.reason, turn.standing), (reason, Some(Standing::Stuck)));
        assert!(woken, "{reason}: we are told");
        s.create();
        let (turn, woken) = first.turn(&mut s);
        assert_eq!(
            (turn.decision.reason, woken),
            (reason, false),
            "our pod changes nothing for it"
        );

        // A restart forgets why it could not: never two pods at once, and never nobody.
        first.memory = Memory::default();
        let (turn, woken) = first.turn(&mut s);
        assert_eq!((turn.decision.action, turn.decision.reason), WAITS, "{reason}");
        assert!(woken, "{reason}: we are told again");
        assert_eq!(s.decide().reason, Reason::SharedDiskServedElsewhere);
        s.delete();
        assert_ne!(first.turn(&mut s).0.decision.reason, Reason::SharedDiskServedElsewhere);
    }
}

#[test]
fn a_pod_that_is_on_its_way_for_the_other_counts_as_if_it_were_there() {
    let mut s = Situation::new();
    let mut first = First::new(&mut s, |_| {});
    s.index
        .note(&Situation::subject(), Some(Standing::Acting(Domains::new())));
    let (turn, _) = first.turn(&mut s);
    assert_eq!((turn.decision.action, turn.decision.reason), WAITS);
    s.index.note(&Situation::subject(), None);
    assert_eq!(first.turn(&mut s).0.decision.action, Action::Create);
}

#[test]
fn only_who_would_list_the_claim_goes_first() {
    let hotplugged = json!({"name": "more", "dataVolume": {"name": "root", "hotpluggable": true}});
    let mut s = Situation::new();
    s.disk("aa", &claim("aa", "late"), "WaitForFirstConsumer");
    s.index.apply(view::<VirtualMachine>(&beside("aa", hotplugged)));
    assert_eq!(
        s.decide().action,
        Action::Create,
        "a pending hotplugged disk is nobody's to list"
    );

    // A sidecar's claim is listed, and both sides see that.
    let mut sidecar = vm(NAMESPACE, "aa", &json!({}));
    let hooks = json!([{"image": "hook", "pvc": {"name": "root", "volumePath": "/d", "sharedComputePath": "/s"}}]);
    sidecar["spec"]["template"]["metadata"]["annotations"]["hooks.kubevirt.io/hookSidecars"] = json!(hooks.to_string());
    s.index.apply(view::<VirtualMachine>(&sidecar));
    let decision = s.decide();
    assert_eq!((decision.action, decision.reason), WAITS);
    sidecar["metadata"]["name"] = json!("zz");
    s.index.delete::<VirtualMachine>(&Situation::peer_key("aa"));
    s.disk("zz", &claim("zz", "late"), "WaitForFirstConsumer");
    sidecar["spec"]["template"]["spec"]["volumes"][0]["dataVolume"]["name"] = json!("zz");
    s.index.apply(view::<VirtualMachine>(&sidecar));
    assert_eq!(s.decide().action, Action::Create);
    let theirs = turn(
        &s.index,
        &Situation::peer_key("zz"),
        &s.settings,
        &mut Memory::default(),
        s.now,
    );
    assert_eq!((theirs.decision.action, theirs.decision.reason), WAITS);
}

#[test]
fn a_shared_claim_is_served_for_one_subject_only() {
    let always: Edit = |vm| vm["spec"]["runStrategy"] = json!("Always");
    let cases: [Case; 8] = [
        ("the smaller name acts", "aa", |_| {}, |_| {}, true),
        ("so the larger one waits", "zz", |_| {}, |_| {}, false),
        ("started before halted", "zz", always, |_| {}, true),
        ("so we, started, before a smaller name", "aa", |_| {}, started, false),
        ("of two that are started the smaller name", "aa", always, started, true),
        (
            "one that could not act does not count",
            "aa",
            |vm| vm["metadata"]["annotations"] = json!({}),
            |_| {},
            false,
        ),
        (
            "nor one that shares another claim",
            "aa",
            |vm| vm["spec"]["template"]["spec"]["volumes"][0]["dataVolume"]["name"] = json!("aa"),
            |_| {},
            false,
        ),
        (
            "nor one that needs another of its claims, while the shared one has its node",
            "aa",
            |vm| {
                let volumes = vm["spec"]["template"]["spec"]["volumes"].as_array_mut();
                let own = json!({"name": "own", "dataVolume": {"name": "aa"}});
                volumes.expect("volumes").push(own);
            },
            |s| {
                s.claim(&with_node(claim("root", "late")));
                s.disk("aa", &claim("aa", "late"), "WaitForFirstConsumer");
            },
            false,
        ),
    ];
    for (name, other, edit, setup, waits) in cases {
        let mut situation = Situation::new();
        let mut sharer = vm(NAMESPACE, other, &json!({}));
        share(&mut sharer);
        edit(&mut sharer);
        let changed = situation.index.apply(view::<VirtualMachine>(&sharer));
        setup(&mut situation);
        let decision = situation.decide();
        if waits {
            assert!(changed.contains(&Situation::subject()), "{name}: {changed:?}");
            assert_eq!(
                (decision.action, decision.reason),
                (Action::Wait, Reason::SharedDiskServedElsewhere),
                "{name}: {decision:?}"
            );
            assert_eq!(decision.about, format!("root with prod/{other}"));
        } else {
            assert_eq!(decision.action, Action::Create, "{name}: {decision:?}");
        }
    }
}

#[test]
fn who_gave_up_is_passed_over_by_a_new_process_too() {
    let mut s = Situation::new();
    let mut first = First::new(&mut s, |_| {});
    let Effect::Create(mut pod) = first.turn(&mut s).0.effect else {
        panic!("no create")
    };
    pod["metadata"]["uid"] = json!("own-aa");
    pod["metadata"]["annotations"]["first-consumer.kubevirt.io/attempt"] = json!("10");
    s.pod(&pod);
    let decision = s.decide();
    assert_eq!((decision.action, decision.reason), WAITS);
    pod["status"]["phase"] = json!("Failed");
    s.pod(&pod);
    assert_eq!(s.decide().reason, Reason::FirstConsumerNeeded, "before it had its turn");
    let (turn, _) = first.turn(&mut s);
    let gave_up = (Action::Keep, Reason::GaveUp, Some(Standing::Stuck));
    assert_eq!((turn.decision.action, turn.decision.reason, turn.standing), gave_up);
    s.create();
    first.memory = Memory::default();
    let (turn, woken) = first.turn(&mut s);
    assert_eq!((turn.decision.action, turn.decision.reason, turn.standing), gave_up);
    assert!(!woken, "our pod changes nothing for it");
}

#[test]
fn a_pod_does_not_go_for_one_who_gave_up_whose_template_is_expanded_anew() {
    let mut s = Situation::new();
    let mut first = First::new(&mut s, |vm| vm["spec"]["instancetype"] = json!({"name": "large"}));
    let mut pod = json!({"metadata": {"name": pod_name(&first.key), "namespace": NAMESPACE, "uid": "own-aa",
        "labels": {"first-consumer.kubevirt.io/managed": "true"}, "ownerReferences": [
            {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "aa", "uid": "vm-aa"}]},
        "status": {"phase": "Failed"}});
    let root = json!([{"name": "root", "uid": "claim-root", "dataVolume": "root"}]).to_string();
    pod["metadata"]["annotations"] = json!({
        "first-consumer.kubevirt.io/owner-uid": "vm-aa", "first-consumer.kubevirt.io/claims": root,
        "first-consumer.kubevirt.io/placement-hash": "v1:0123", "first-consumer.kubevirt.io/attempt": "10"});
    s.pod(&pod);
    s.create();
    let kept = |s: &mut Situation| {
        let decision = s.decide();
        (decision.action, decision.reason)
    };
    assert_eq!(kept(&mut s), KEPT, "before it had its turn");
    let (turn, _) = first.turn(&mut s);
    assert_eq!(turn.decision.reason, Reason::ExpansionPending);
    assert_eq!(kept(&mut s), KEPT, "while virt-api is asked");
    pod["metadata"]["annotations"]["first-consumer.kubevirt.io/owner-uid"] = json!("before");
    s.pod(&pod);
    assert_eq!(kept(&mut s), WAITS, "it gave up in another life");
}
