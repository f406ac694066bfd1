//! Rows 9 and 10, the siblings: for every condition a situation that has it, and one that just does not.

use serde_json::{Value, json};

use super::super::Action;
use super::situation::*;
use crate::api::DataVolume;
use crate::name::{Key, pod_name};
use crate::reason::Reason;

fn hotplugged() -> Value {
    json!({"name": "hot", "dataVolume": {"name": "hot", "hotpluggable": true}})
}

fn lost(claim: Value) -> Value {
    in_phase(bound(claim), "Lost")
}

#[test]
fn row_9_a_disk_can_not_be_listed() {
    let missing = (Action::Wait, Reason::ClaimMissing);
    check(&[
        ("a claim is missing", |s| s.remove_claim("data"), missing),
        (
            "and its DataVolume",
            |s| {
                s.remove_claim("data");
                s.index.delete::<DataVolume>(&Key::new(NAMESPACE, "data"));
            },
            missing,
        ),
        ("not: a hotplugged one is", |s| s.add_volume(&hotplugged()), CREATE),
        (
            "a claim is lost",
            |s| s.disk("data", &lost(claim("data", "late")), "Succeeded"),
            (Action::Wait, Reason::ClaimLost),
        ),
        (
            "not: one that is none of the VM's",
            |s| s.claim(&lost(claim("other", "late"))),
            CREATE,
        ),
    ]);
}

#[test]
fn row_10_a_sibling_is_placed_by_others() {
    let binding = (Action::Wait, Reason::SiblingBinding);
    check(&[
        (
            "immediate binding is asked for, whatever the value",
            |s| s.claim(&immediate(claim("data", "late"))),
            binding,
        ),
        (
            "not: and it is placed",
            |s| s.claim(&with_node(immediate(claim("data", "late")))),
            CREATE,
        ),
        (
            "not: and it is bound and filled",
            |s| {
                s.disk("data", &immediate(bound(claim("data", "late"))), "Succeeded");
            },
            CREATE,
        ),
        (
            "the class binds at once",
            |s| s.disk("data", &claim("data", "immediate"), "Pending"),
            binding,
        ),
        (
            "the phase is not settled",
            |s| s.disk("data", &claim("data", "late"), "Pending"),
            binding,
        ),
        (
            "an import goes on without a node",
            |s| {
                s.disk("data", &populated("data"), "PendingPopulation");
                s.claim(&claim("prime-claim-data", "late"));
            },
            binding,
        ),
        (
            "not: it has no prime claim yet",
            |s| s.disk("data", &populated("data"), "PendingPopulation"),
            CREATE,
        ),
        (
            "not: a clone pauses without a node",
            |s| {
                let mut clone = populated("data");
                clone["spec"]["dataSourceRef"]["kind"] = json!("VolumeCloneSource");
                s.disk("data", &clone, "PendingPopulation");
                s.claim(&claim("prime-claim-data", "late"));
            },
            CREATE,
        ),
        (
            "not: a late claim without a DataVolume is ours to place",
            |s| plain(s, "late"),
            CREATE,
        ),
        (
            "a claim without a DataVolume whose class binds at once",
            |s| plain(s, "immediate"),
            binding,
        ),
        (
            "not: a hotplugged one",
            |s| {
                s.add_volume(&hotplugged());
                s.disk("hot", &claim("hot", "immediate"), "Pending");
            },
            CREATE,
        ),
    ]);
}

fn plain(s: &mut Situation, class: &str) {
    let mut plain = claim("data", class);
    plain["metadata"]["ownerReferences"] = json!([]);
    s.claim(&plain);
    s.index.delete::<DataVolume>(&Key::new(NAMESPACE, "data"));
}

fn immediate(mut claim: Value) -> Value {
    claim["metadata"]["annotations"]["cdi.kubevirt.io/storage.bind.immediate.requested"] = json!("false");
    claim
}

#[test]
fn row_10_says_what_cdi_says_of_the_disk() {
    let mut situation = Situation::new();
    situation.disk("root", &bound(claim("root", "late")), "ImportScheduled");
    assert_eq!(situation.decide().about, "root");
    let mut filling = data_volume("root", "ImportScheduled");
    filling["status"]["conditions"] = json!([{"type": "Running", "status": "False", "reason": "Unknown"}]);
    situation.index.apply(view::<DataVolume>(&filling));
    assert_eq!(situation.decide().about, "root, Running=False Unknown");
}

#[test]
fn row_10_our_pod_would_block_a_siblings_worker() {
    let importing = (Action::Wait, Reason::SiblingImporting);
    check(&[
        (
            "bound, waiting for its worker",
            |s| s.disk("root", &bound(claim("root", "late")), "ImportScheduled"),
            importing,
        ),
        (
            "Paused",
            |s| s.disk("root", &bound(claim("root", "late")), "Paused"),
            importing,
        ),
        (
            "the phase lags",
            |s| s.disk("root", &bound(claim("root", "late")), "WaitForFirstConsumer"),
            importing,
        ),
        (
            "its worker has ended",
            |s| {
                s.disk("root", &bound(claim("root", "late")), "ImportInProgress");
                s.pod(&in_phase(worker("root"), "Succeeded"));
            },
            importing,
        ),
        (
            "a pod on it is no worker",
            |s| {
                s.disk("root", &bound(claim("root", "late")), "ImportScheduled");
                s.pod(&pod("reader", "root"));
            },
            importing,
        ),
        (
            "not: its worker runs",
            |s| {
                s.disk("root", &bound(claim("root", "late")), "ImportInProgress");
                s.pod(&worker("root"));
            },
            CREATE,
        ),
        (
            "not: filled",
            |s| s.disk("root", &bound(claim("root", "late")), "Succeeded"),
            CREATE,
        ),
        (
            "not: a worker fills a prime claim",
            |s| s.disk("root", &bound(populated("root")), "ImportInProgress"),
            CREATE,
        ),
        (
            "not: placed, but not bound",
            |s| s.disk("root", &with_node(claim("root", "late")), "WaitForFirstConsumer"),
            CREATE,
        ),
        (
            "a hotplugged disk",
            |s| {
                s.add_volume(&hotplugged());
                s.disk("hot", &bound(claim("hot", "late")), "ImportScheduled");
            },
            importing,
        ),
        (
            "not: a hotplugged disk whose worker runs",
            |s| {
                s.add_volume(&hotplugged());
                s.disk("hot", &bound(claim("hot", "late")), "ImportInProgress");
                s.pod(&worker("hot"));
            },
            CREATE,
        ),
        (
            "not: a hotplugged disk, and no pod is wanted",
            |s| {
                s.add_volume(&hotplugged());
                s.disk("hot", &bound(claim("hot", "late")), "ImportScheduled");
                s.disk("root", &bound(claim("root", "late")), "Succeeded");
                s.disk("data", &bound(claim("data", "late")), "Succeeded");
            },
            (Action::None, Reason::NothingWaiting),
        ),
        (
            "our pod is there and goes",
            |s| {
                s.create();
                s.disk("root", &bound(claim("root", "late")), "WaitForFirstConsumer");
            },
            importing,
        ),
        (
            "not: our pod is holding",
            |s| {
                created_with(s, "hold", "true");
                s.disk("root", &bound(claim("root", "late")), "WaitForFirstConsumer");
            },
            KEPT,
        ),
    ]);
}

#[test]
fn row_10_one_pod_at_a_time() {
    let in_use = (Action::Wait, Reason::ClaimInUse);
    check(&[
        (
            "another pod has it",
            |s| {
                s.disk("root", &single_pod(bound(claim("root", "late"))), "Succeeded");
                s.pod(&pod("backup", "root"));
            },
            in_use,
        ),
        (
            "another VM's pod has it",
            |s| {
                s.disk("root", &single_pod(bound(claim("root", "late"))), "Succeeded");
                let mut other = pod(&pod_name(&Key::new(NAMESPACE, "web")), "root");
                other["metadata"]["labels"] = json!({"first-consumer.kubevirt.io/managed": "true"});
                s.pod(&controlled(other, "VirtualMachine", "web", "vm-web"));
            },
            in_use,
        ),
        (
            "another pod has a hotplugged one",
            |s| {
                s.add_volume(&hotplugged());
                s.disk("hot", &single_pod(bound(claim("hot", "late"))), "Succeeded");
                s.pod(&pod("backup", "hot"));
            },
            in_use,
        ),
        (
            "not: it has ended",
            |s| {
                s.disk("root", &single_pod(bound(claim("root", "late"))), "Succeeded");
                s.pod(&in_phase(pod("backup", "root"), "Succeeded"));
            },
            CREATE,
        ),
        (
            "not: more than one pod may",
            |s| {
                s.disk("root", &bound(claim("root", "late")), "Succeeded");
                s.pod(&pod("backup", "root"));
            },
            CREATE,
        ),
        (
            "not: ours has it",
            |s| {
                s.disk("root", &single_pod(bound(claim("root", "late"))), "Succeeded");
                s.create();
            },
            KEPT,
        ),
    ]);
}
