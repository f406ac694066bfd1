//! Row 7: for every condition a situation that has it, and one that just does not.

use serde_json::json;

use super::super::Action;
use super::situation::*;
use crate::api::DataVolume;
use crate::reason::Reason;

#[test]
fn row_7_no_claim_needs() {
    check(&[
        (
            "both have a node",
            |s| {
                s.disk("root", &with_node(claim("root", "late")), "WaitForFirstConsumer");
                s.disk("data", &with_node(populated("data")), "PendingPopulation");
            },
            (Action::None, Reason::NothingWaiting),
        ),
        (
            "not: one still needs",
            |s| s.claim(&with_node(claim("root", "late"))),
            CREATE,
        ),
        (
            "no disks",
            |s| s.volumes(&json!([])),
            (Action::None, Reason::NothingWaiting),
        ),
        (
            "a pod was there",
            |s| {
                s.create();
                s.claim(&with_node(claim("root", "late")));
                s.claim(&with_node(claim("data", "late")));
            },
            (Action::None, Reason::Served),
        ),
        (
            "not: a claim that the pod lists has no node, though it needs nothing now",
            |s| {
                s.create();
                s.claim(&with_node(claim("root", "late")));
                s.index.apply(view::<DataVolume>(&data_volume("data", "Unknown")));
            },
            (Action::Wait, Reason::SiblingBinding),
        ),
        (
            "row 9's reason",
            |s| {
                s.disk("root", &with_node(claim("root", "late")), "WaitForFirstConsumer");
                s.remove_claim("data");
            },
            (Action::None, Reason::ClaimMissing),
        ),
        (
            "row 10's reason: phases are not settled",
            |s| {
                s.disk("root", &claim("root", "late"), "Pending");
                s.disk("data", &claim("data", "late"), "");
            },
            (Action::None, Reason::SiblingBinding),
        ),
        (
            "row 10's reason: an unknown phase does not wait",
            |s| {
                s.disk("root", &bound(claim("root", "late")), "FromTheFuture");
                s.disk("data", &bound(claim("data", "late")), "Succeeded");
            },
            (Action::None, Reason::SiblingImporting),
        ),
        (
            "row 10's reason: in use",
            |s| {
                s.disk("root", &single_pod(bound(claim("root", "late"))), "Succeeded");
                s.disk("data", &bound(claim("data", "late")), "Succeeded");
                s.pod(&pod("backup", "root"));
            },
            (Action::None, Reason::ClaimInUse),
        ),
        (
            "no provisioner, so a node alone places nothing",
            |s| {
                s.disk("root", &with_node(claim("root", "static")), "WaitForFirstConsumer");
                s.disk("data", &bound(claim("data", "static")), "Succeeded");
            },
            CREATE,
        ),
    ]);
}
