//! Disks that need no consumer are not all there.

use super::*;

/// The one disk of ns/db in other phases.
fn disk(data_volume: &str, claim: &str, node: bool) -> String {
    let mut text = vm("ns", "db", true)
        .replace(
            "\"phase\":\"WaitForFirstConsumer\"",
            &format!("\"phase\":\"{data_volume}\",\"progress\":\"45.00%\""),
        )
        .replace("\"phase\":\"Pending\"", &format!("\"phase\":\"{claim}\""));
    if node {
        let uid = "\"uid\":\"claim\"";
        let annotated = format!("\"annotations\":{{\"volume.kubernetes.io/selected-node\":\"node-1\"}},{uid}");
        text = text.replace(uid, &annotated);
    }
    text
}

fn worker(phase: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "importer-db-root", "namespace": "ns", "uid": "worker",
        "creationTimestamp": at(0).to_string(), "ownerReferences": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "name": "db-root", "uid": "claim", "controller": true}]},
        "spec": {"nodeName": "node-1", "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "db-root"}}]},
        "status": {"phase": phase}})
    .to_string()
}

/// Exit code, and the text in one line.
fn said(text: &str) -> (u8, String) {
    let found = told(text, "vm/db");
    let words: Vec<&str> = found.text.split_whitespace().collect();
    (found.code, words.join(" "))
}

#[test]
fn a_disk_that_is_being_filled_is_waited_for() {
    let (code, text) = said(&(disk("ImportInProgress", "Bound", true) + &worker("Running")));
    assert!(code == 1 && !text.contains("nothing is missing"), "{text}");
    assert!(text.contains("but db-root is being filled on node-1, 45.00%"), "{text}");
    assert!(text.ends_with("kubectl get dv/db-root -n ns --watch"), "{text}");
    let table = told(&(disk("ImportInProgress", "Bound", true) + &worker("Running")), "-n ns");
    assert!(table.code == 0 && table.text.contains("vm/db"), "{}", table.text);

    let at_work = json!({"apiVersion": "v1", "kind": "Event", "type": "Normal", "reason": "Provisioning",
        "message": "External provisioner is provisioning volume", "metadata": {"name": "e", "namespace": "ns"},
        "involvedObject": {"kind": "PersistentVolumeClaim", "namespace": "ns", "name": "db-root", "uid": "claim"}});
    let (code, text) = said(&(disk("WaitForFirstConsumer", "Pending", true) + &at_work.to_string()));
    assert!(
        code == 1 && text.contains("but db-root is being made on node-1"),
        "{text}"
    );
    assert!(text.ends_with("kubectl describe pvc/db-root -n ns"), "{text}");

    let (code, text) = said(&disk("Succeeded", "Bound", true));
    assert!(code == 0 && text.contains("nothing is missing"), "{text}");
}

#[test]
fn an_upload_is_the_users_turn() {
    let (code, text) = said(&(disk("UploadReady", "Bound", true) + &worker("Running")));
    assert!(
        code == 1 && text.contains("but db-root waits for your upload"),
        "{text}"
    );
    assert!(
        text.ends_with("virtctl image-upload dv db-root -n ns --no-create --image-path=FILE"),
        "{text}"
    );
}

/// Of two disks that are not there the one that waits for its user is named.
#[test]
fn a_disk_that_waits_for_its_user_comes_first() {
    let objects = |phase: &str| -> Vec<Value> {
        let text = disk(phase, "Bound", true) + &worker("Running");
        let objects = serde_json::Deserializer::from_str(&text).into_iter();
        objects.map(|object| object.expect("an object")).collect()
    };
    let mut first = objects("ImportInProgress");
    let volumes = &mut first[0]["spec"]["template"]["spec"]["volumes"];
    let volumes = volumes.as_array_mut().expect("volumes");
    volumes.push(json!({"name": "data", "dataVolume": {"name": "db-data"}}));
    let mut second = objects("UploadReady");
    second.retain(|object| object["kind"] != "VirtualMachine" && object["kind"] != "StorageClass");
    let text = |objects: &[Value]| objects.iter().map(Value::to_string).collect::<String>();
    let second = ["\"dv\"", "\"claim\"", "\"worker\""]
        .iter()
        .fold(text(&second), |text, uid| {
            text.replace(uid, &uid.replacen('"', "\"second-", 1))
        })
        .replace("db-root", "db-data");
    let (_, words) = said(&(text(&first) + &second));
    assert!(words.contains("but db-data waits for your upload"), "{words}");
}

#[test]
fn a_paused_import_is_said_to_be_paused() {
    let (code, text) = said(&disk("Paused", "Bound", true));
    assert!(code == 1 && text.contains("but db-root is paused"), "{text}");
    assert!(text.ends_with("kubectl edit dv/db-root -n ns"), "{text}");
}

/// A disk of its own that waits for the VM is no work of ours, and not there either.
#[test]
fn a_plain_claim_that_waits_for_the_vm_is_not_there() {
    let orphan = disk("Succeeded", "Pending", false).replace(
        "\"ownerReferences\":[{\"controller\":true,\"kind\":\"DataVolume\"",
        "\"x\":[{\"kind\":\"\"",
    );
    let (code, text) = said(&orphan);
    assert!(code == 1 && text.ends_with("virtctl start db -n ns"), "{text}");
}

/// A VM that runs has all it needs, whatever CDI says of a disk.
#[test]
fn a_vm_that_runs_is_fine() {
    let vmi = |phase: &str| {
        json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "db",
            "namespace": "ns", "uid": "vmi", "ownerReferences": [{"apiVersion": "kubevirt.io/v1",
                "kind": "VirtualMachine", "name": "db", "uid": "vm", "controller": true}]},
            "spec": {"domain": {}, "volumes": [{"name": "root", "dataVolume": {"name": "db-root"}}]}, "status": {"phase": phase}})
        .to_string()
    };
    let code = |phase: &str| said(&(disk("Paused", "Bound", true) + &vmi(phase))).0;
    assert_eq!((code("Running"), code("Scheduling")), (0, 1));
}

#[test]
fn a_worker_that_does_not_start_is_told_with_the_kubelets_words() {
    let warning = json!({"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "FailedMount",
        "message": "no such device", "metadata": {"name": "e", "namespace": "ns"}, "lastTimestamp": at(100).to_string(),
        "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "importer-db-root", "uid": "worker"}});
    let (code, text) = said(&(disk("ImportScheduled", "Bound", true) + &worker("Pending") + &warning.to_string()));
    assert!(code == 1 && text.contains("Cause: WorkerNotStarting: "), "{text}");
    assert!(
        text.contains("no such device") && text.ends_with("kubectl describe pod/importer-db-root -n ns"),
        "{text}"
    );
}

/// The launcher is a consumer, but as long as it has no node the disk waits.
#[test]
fn a_launcher_without_a_node_is_waited_for() {
    let launcher = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "virt-launcher-db-x",
        "namespace": "ns", "uid": "pod", "creationTimestamp": at(590).to_string(),
        "labels": {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "vmi"},
        "ownerReferences": [{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "db",
            "uid": "vmi", "controller": true}]}, "status": {"phase": "Pending"}});
    let vmi = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": "db",
        "namespace": "ns", "uid": "vmi", "ownerReferences": [{"apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachine", "name": "db", "uid": "vm", "controller": true}]},
        "spec": {"domain": {}, "volumes": [{"name": "root", "dataVolume": {"name": "db-root"}}]}});
    let text = vm("ns", "db", true) + &vmi.to_string() + &launcher.to_string();
    let found = told(&text, "vm/db");
    let words = found.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let waits = words.contains("Cause: LauncherPresent: ") && words.contains("a disk waits for the node");
    assert!(waits && found.code == 1, "{}", found.text);
    let next = "kubectl describe pods -l vm.kubevirt.io/name=db -n ns";
    assert!(found.text.contains(next), "{}", found.text);
    assert!(told(&text, "-n ns").text.contains("LauncherPresent"));
}
