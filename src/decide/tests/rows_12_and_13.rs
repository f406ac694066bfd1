//! Rows 12 and 13, as far as they need no rival: for every condition a situation that has it, and one that just does not.

use serde_json::json;

use super::super::Action;
use super::situation::*;
use crate::memory::Outcome;
use crate::reason::Reason;

#[test]
fn row_12_what_it_will_ask_for() {
    check(&[
        (
            "an instancetype",
            |s| s.edit_vm(|vm| vm["spec"]["instancetype"] = json!({"name": "u1.small"})),
            (Action::Wait, Reason::ExpansionPending),
        ),
        (
            "a preference",
            |s| s.edit_vm(|vm| vm["spec"]["preference"] = json!({"name": "linux"})),
            (Action::Wait, Reason::ExpansionPending),
        ),
        (
            "not: virt-controller has expanded it",
            |s| {
                s.edit_vm(|vm| vm["spec"]["instancetype"] = json!({"name": "u1.small"}));
                s.vmi(&vmi("Pending"));
                s.now = at(10);
            },
            CREATE,
        ),
        (
            "a spec that can't be read",
            |s| s.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"] = json!(["a"])),
            (Action::None, Reason::CannotRender),
        ),
    ]);
}

#[test]
fn row_13_the_pod_is_outdated() {
    check(&[
        (
            "it is going",
            |s| created(s, |pod| *pod = terminating(pod.clone())),
            (Action::Wait, Reason::PodTerminating),
        ),
        (
            "its deletion has been confirmed, and the watch lags",
            |s| {
                s.create();
                s.record(Outcome::Deleted {
                    held: false,
                    uid: "own-1".into(),
                    replaced: false,
                });
            },
            (Action::Wait, Reason::PodTerminating),
        ),
        (
            "not: another's deletion has",
            |s| {
                s.create();
                s.record(Outcome::Deleted {
                    held: false,
                    uid: "own-0".into(),
                    replaced: false,
                });
            },
            KEPT,
        ),
        (
            "another life of the VM",
            |s| {
                s.create();
                s.edit_vm(|vm| vm["metadata"]["uid"] = json!("another-life"));
            },
            (Action::Replace, Reason::OwnerReplaced),
        ),
        (
            "another placement",
            |s| {
                s.create();
                s.edit_vm(|vm| vm["spec"]["template"]["spec"]["nodeSelector"] = json!({"zone": "b"}));
            },
            (Action::Replace, Reason::PlacementChanged),
        ),
        (
            "not: an edit that places nothing",
            |s| {
                s.create();
                s.edit_vm(|vm| vm["spec"]["template"]["spec"]["hostname"] = json!("db-1"));
            },
            KEPT,
        ),
        (
            "not: somebody has edited the live pod",
            |s| {
                created(s, |pod| pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]));
            },
            KEPT,
        ),
        (
            "not: a hash of another version",
            |s| created_with(s, "placement-hash", "v2:01"),
            KEPT,
        ),
        (
            "not: another version of ours has made it",
            |s| created_with(s, "version", "0.0.1"),
            KEPT,
        ),
    ]);
}

#[test]
fn row_13_the_pods_disks_are_outdated() {
    check(&[
        (
            "a disk more",
            |s| {
                s.create();
                s.add_volume(&json!({"name": "log", "dataVolume": {"name": "log"}}));
                s.disk("log", &claim("log", "late"), "WaitForFirstConsumer");
            },
            (Action::Replace, Reason::DisksChanged),
        ),
        (
            "a disk less",
            |s| {
                s.create();
                s.volumes(&json!([{"name": "root", "dataVolume": {"name": "root"}}]));
            },
            (Action::Replace, Reason::DisksChanged),
        ),
        (
            "another life of a disk",
            |s| {
                s.create();
                let mut again = claim("data", "late");
                again["metadata"]["uid"] = json!("another-life");
                s.claim(&again);
            },
            (Action::Replace, Reason::DisksChanged),
        ),
        (
            "not: the disks in another order",
            |s| {
                s.create();
                s.edit_vm(|vm| {
                    let volumes = vm["spec"]["template"]["spec"]["volumes"].as_array_mut();
                    volumes.expect("volumes").reverse();
                });
            },
            KEPT,
        ),
    ]);
}
