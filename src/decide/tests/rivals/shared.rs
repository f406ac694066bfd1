//! Row 11: one claim of two subjects.

use serde_json::json;

use super::super::super::Action;
use super::super::situation::*;
use super::*;
use crate::reason::Reason;

#[test]
fn a_shared_claim_is_served_for_one_subject_only() {
    let share = |vm: &mut Value| vm["spec"]["template"]["spec"]["volumes"][0]["dataVolume"]["name"] = json!("root");
    let cases: [(&str, &str, Edit, bool); 5] = [
        ("the smaller name acts", "aa", |_| {}, true),
        ("so the larger one waits", "zz", |_| {}, false),
        (
            "started before halted",
            "zz",
            |vm| vm["spec"]["runStrategy"] = json!("Always"),
            true,
        ),
        (
            "one that could not act does not count",
            "aa",
            |vm| vm["metadata"]["annotations"] = json!({}),
            false,
        ),
        (
            "nor one that shares another claim",
            "aa",
            |vm| vm["spec"]["template"]["spec"]["volumes"][0]["dataVolume"]["name"] = json!("aa"),
            false,
        ),
    ];
    for (name, other, edit, waits) in cases {
        let mut situation = Situation::new();
        let mut sharer = vm(NAMESPACE, other, &json!({}));
        share(&mut sharer);
        edit(&mut sharer);
        let changed = situation.index.apply(view::<VirtualMachine>(&sharer));
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
