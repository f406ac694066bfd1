//! Row 11: one claim of two subjects.

use serde_json::json;

use super::super::super::Action;
use super::super::situation::*;
use super::*;
use crate::reason::Reason;

/// We are started, and virt-controller has had its time.
fn started(s: &mut Situation) {
    s.vmi(&vmi("Pending"));
    s.now = at(10);
}

/// What the situation is, who shares the claim `root` with us, how that VM and the rest differ, and whether we wait.
type Case = (&'static str, &'static str, Edit, Setup, bool);

#[test]
fn a_shared_claim_is_served_for_one_subject_only() {
    let share = |vm: &mut Value| vm["spec"]["template"]["spec"]["volumes"][0]["dataVolume"]["name"] = json!("root");
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
