//! Rows 1 to 6: for every condition a situation that has it, and one that just does not.

use serde_json::json;

use super::super::Action;
use super::situation::*;
use crate::api::{DataVolume, VirtualMachine};
use crate::name::Key;
use crate::reason::Reason;

#[test]
fn row_1_nobody_to_serve() {
    let deleted = (Action::None, Reason::SubjectDeleted);
    check(&[
        ("two disks wait", |_| {}, CREATE),
        (
            "VM terminating",
            |s| s.edit_vm(|vm| *vm = terminating(vm.clone())),
            deleted,
        ),
        ("VMI terminating", |s| s.vmi(&terminating(vmi("Pending"))), deleted),
        (
            "VM gone",
            |s| drop(s.index.delete::<VirtualMachine>(&Situation::subject())),
            deleted,
        ),
        (
            "VM gone, its pod is there",
            |s| {
                s.create();
                s.index.delete::<VirtualMachine>(&Situation::subject());
            },
            deleted,
        ),
        (
            "not: VM gone, a VMI is there",
            |s| {
                s.index.delete::<VirtualMachine>(&Situation::subject());
                s.vmi(&vmi("Pending"));
            },
            LEFT,
        ),
        (
            "Namespace terminating",
            |s| s.namespace(&json!({"deletionTimestamp": at(0).to_string()})),
            deleted,
        ),
        (
            "not: another Namespace is",
            |s| {
                let other = json!({"metadata": {"name": "other", "deletionTimestamp": at(0).to_string()}});
                s.index.apply(view::<crate::api::Namespace>(&other));
            },
            CREATE,
        ),
    ]);
}

#[test]
fn row_2_a_disk_whose_data_volume_is_gone_is_going() {
    check(&[
        (
            "its DataVolume is gone, and the collector has not come yet",
            |s| {
                s.index.delete::<DataVolume>(&Key::new(NAMESPACE, "data"));
            },
            (Action::None, Reason::DiskDeleted),
        ),
        (
            "not: DataVolumes are not known at all",
            |s| {
                s.index.delete::<DataVolume>(&Key::new(NAMESPACE, "data"));
                s.index.note_kind::<DataVolume>(false);
            },
            CREATE,
        ),
        (
            "not: they are, but not to us",
            |s| {
                s.index.delete::<DataVolume>(&Key::new(NAMESPACE, "data"));
                s.index.note_unseen::<DataVolume>();
            },
            CREATE,
        ),
        (
            "not: it is bound",
            |s| {
                s.claim(&bound(claim("data", "late")));
                s.index.delete::<DataVolume>(&Key::new(NAMESPACE, "data"));
            },
            CREATE,
        ),
    ]);
}

#[test]
fn row_2_a_disk_is_going() {
    let deleted = (Action::None, Reason::DiskDeleted);
    check(&[
        ("a claim", |s| s.claim(&terminating(claim("data", "late"))), deleted),
        (
            "a DataVolume",
            |s| {
                s.index.apply(view::<DataVolume>(&terminating(data_volume(
                    "data",
                    "WaitForFirstConsumer",
                ))));
            },
            deleted,
        ),
        (
            "a DataVolume whose claim is gone",
            |s| {
                s.remove_claim("data");
                s.index.apply(view::<DataVolume>(&terminating(data_volume(
                    "data",
                    "WaitForFirstConsumer",
                ))));
            },
            deleted,
        ),
        (
            "a bound hotplugged claim",
            |s| {
                s.add_volume(
                    &json!({"name": "hot", "persistentVolumeClaim": {"claimName": "hot", "hotpluggable": true}}),
                );
                s.claim(&terminating(bound(claim("hot", "late"))));
            },
            deleted,
        ),
        (
            "not: a pending hotplugged claim, which no pod lists",
            |s| {
                s.add_volume(
                    &json!({"name": "hot", "persistentVolumeClaim": {"claimName": "hot", "hotpluggable": true}}),
                );
                s.claim(&terminating(claim("hot", "late")));
            },
            CREATE,
        ),
        (
            "a claim that only the pod lists",
            |s| {
                s.create();
                s.volumes(&json!([{"name": "root", "dataVolume": {"name": "root"}}]));
                s.claim(&terminating(claim("data", "late")));
            },
            deleted,
        ),
        (
            "a DataVolume whose claim only the pod lists",
            |s| {
                s.create();
                s.volumes(&json!([{"name": "root", "dataVolume": {"name": "root"}}]));
                s.index.apply(view::<DataVolume>(&terminating(data_volume(
                    "data",
                    "WaitForFirstConsumer",
                ))));
            },
            deleted,
        ),
        (
            "not: and it does not control that claim",
            |s| {
                s.create();
                s.volumes(&json!([{"name": "root", "dataVolume": {"name": "root"}}]));
                let mut going = terminating(data_volume("data", "WaitForFirstConsumer"));
                going["metadata"]["uid"] = json!("an-earlier-one");
                s.index.apply(view::<DataVolume>(&going));
            },
            (Action::Replace, Reason::DisksChanged),
        ),
        (
            "not: a claim that nobody lists",
            |s| s.claim(&terminating(claim("other", "late"))),
            CREATE,
        ),
        (
            "not: a DataVolume of that name that does not control the claim, which is none of the VM's",
            |s| {
                s.index.apply(view::<DataVolume>(&terminating(data_volume(
                    "other",
                    "WaitForFirstConsumer",
                ))));
            },
            CREATE,
        ),
    ]);
}

#[test]
fn row_3_one_name_two_owners() {
    let conflict = (Action::None, Reason::NameConflict);
    check(&[
        (
            "a VMI of nobody",
            |s| {
                let mut vmi = vmi("Pending");
                vmi["metadata"]["ownerReferences"] = json!([]);
                s.vmi(&vmi);
            },
            conflict,
        ),
        (
            "a VMI of an earlier VM",
            |s| {
                let mut vmi = vmi("Pending");
                vmi["metadata"]["ownerReferences"][0]["uid"] = json!("an-earlier-one");
                s.vmi(&vmi);
            },
            conflict,
        ),
        (
            "a VMI of a ReplicaSet",
            |s| {
                let mut vmi = vmi("Pending");
                vmi["metadata"]["ownerReferences"][0]["kind"] = json!("VirtualMachineInstanceReplicaSet");
                s.vmi(&vmi);
            },
            conflict,
        ),
        (
            "owned, but not controlled",
            |s| {
                let mut vmi = vmi("Pending");
                vmi["metadata"]["ownerReferences"][0]["controller"] = json!(false);
                s.vmi(&vmi);
            },
            conflict,
        ),
        ("not: the VM's own VMI", |s| s.vmi(&vmi("Pending")), LEFT),
    ]);
}

#[test]
fn row_4_kubevirt_is_the_consumer() {
    let present = (Action::None, Reason::LauncherPresent);
    check(&[
        ("Scheduling", |s| s.vmi(&vmi("Scheduling")), present),
        ("Scheduled", |s| s.vmi(&vmi("Scheduled")), present),
        ("Running", |s| s.vmi(&vmi("Running")), present),
        ("Unknown", |s| s.vmi(&vmi("Unknown")), present),
        ("WaitingForSync", |s| s.vmi(&vmi("WaitingForSync")), present),
        ("not: Pending", |s| s.vmi(&vmi("Pending")), LEFT),
        ("not: no phase", |s| s.vmi(&vmi("")), LEFT),
        ("not: final, and the VM is halted", |s| s.vmi(&vmi("Failed")), CREATE),
        ("a launcher", |s| s.pod(&launcher("db", "root")), present),
        (
            "a launcher that is going",
            |s| s.pod(&terminating(launcher("db", "root"))),
            present,
        ),
        (
            "a launcher without our disks",
            |s| s.pod(&launcher("db", "other")),
            present,
        ),
        (
            "not: it has ended",
            |s| s.pod(&in_phase(launcher("db", "root"), "Succeeded")),
            CREATE,
        ),
        (
            "not: it has failed",
            |s| s.pod(&in_phase(launcher("db", "root"), "Failed")),
            CREATE,
        ),
        ("not: another VM's", |s| s.pod(&launcher("web", "other")), CREATE),
        (
            "not: without the label",
            |s| {
                let mut pod = launcher("db", "other");
                pod["metadata"]["labels"] = json!({});
                s.pod(&pod);
            },
            CREATE,
        ),
        (
            "not: not controlled by the VMI",
            |s| {
                let mut pod = launcher("db", "other");
                pod["metadata"]["ownerReferences"][0]["controller"] = json!(false);
                s.pod(&pod);
            },
            CREATE,
        ),
    ]);
}

#[test]
fn row_5_somebody_is_the_consumer() {
    let foreign = (Action::None, Reason::ForeignConsumer);
    check(&[
        ("somebody's pod", |s| s.pod(&pod("binder", "data")), foreign),
        (
            "running",
            |s| s.pod(&in_phase(pod("binder", "data"), "Running")),
            foreign,
        ),
        ("terminating", |s| s.pod(&terminating(pod("binder", "data"))), foreign),
        (
            "a look-alike of ours",
            |s| {
                let mut look_alike = pod("first-consumer-db", "data");
                look_alike["metadata"]["labels"] = json!({"first-consumer.kubevirt.io/managed": "true"});
                s.pod(&look_alike);
            },
            foreign,
        ),
        (
            "not: it has ended",
            |s| s.pod(&in_phase(pod("binder", "data"), "Succeeded")),
            CREATE,
        ),
        (
            "not: it has failed",
            |s| s.pod(&in_phase(pod("binder", "data"), "Failed")),
            CREATE,
        ),
        (
            "not: it lists another claim",
            |s| s.pod(&pod("binder", "other")),
            CREATE,
        ),
        (
            "not: the claim that it lists has its node",
            |s| {
                s.claim(&with_node(claim("data", "late")));
                s.pod(&pod("binder", "data"));
            },
            CREATE,
        ),
        (
            "not: our pod for a VM that shares the disk",
            |s| {
                let mut pod = pod(&crate::name::pod_name(&Key::new(NAMESPACE, "web")), "data");
                pod["metadata"]["labels"] = json!({"first-consumer.kubevirt.io/managed": "true"});
                pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
                "name": "web", "uid": "vm-web"}]);
                s.pod(&pod);
            },
            CREATE,
        ),
    ]);
}

#[test]
fn row_6_cdi_has_given_up() {
    let failed = (Action::None, Reason::DataVolumeFailed);
    check(&[
        (
            "one has failed",
            |s| s.disk("data", &claim("data", "late"), "Failed"),
            failed,
        ),
        (
            "its claim is gone",
            |s| {
                s.disk("data", &claim("data", "late"), "Failed");
                s.remove_claim("data");
            },
            failed,
        ),
        (
            "not: a hotplugged one",
            |s| {
                s.add_volume(&json!({"name": "hot", "dataVolume": {"name": "hot", "hotpluggable": true}}));
                s.disk("hot", &claim("hot", "late"), "Failed");
            },
            CREATE,
        ),
        (
            "not: one that is none of the VM's",
            |s| s.disk("other", &claim("other", "late"), "Failed"),
            CREATE,
        ),
    ]);
}

#[test]
fn row_6_has_cdis_words_if_there_are_some() {
    let about = |message: &str| {
        let mut situation = Situation::new();
        let mut failed = data_volume("data", "Failed");
        failed["status"]["conditions"] = json!([{"type": "Running", "status": "False",
            "reason": "Error", "message": message}]);
        situation.index.apply(view::<DataVolume>(&failed));
        situation.decide().about
    };
    assert_eq!(about("no such image"), "data, Running=False Error: no such image");
    assert_eq!(about(""), "data, Running=False Error");
}
