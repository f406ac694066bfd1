mod cluster;
mod controller;
mod filling;
mod instancetypes;
mod layout;
mod wishes;

use serde_json::{Value, json};

use super::*;
use crate::cli::{Cli, Command};
use crate::name::pod_name;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
}

fn flags(words: &str) -> Explain {
    use clap::Parser as _;
    let words = ["first-consumer", "explain"]
        .into_iter()
        .chain(words.split_whitespace());
    match Cli::try_parse_from(words).expect("readable").command {
        Command::Explain(flags) => *flags,
        other => panic!("{other:?}"),
    }
}

/// A halted VM of a Namespace with a disk that waits; `asked` says whether it has opted in.
fn vm(namespace: &str, name: &str, asked: bool) -> String {
    let disk = format!("{name}-root");
    let meta = |name: &str, uid: &str| json!({"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": at(0).to_string()});
    let mut vm = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": meta(name, "vm"),
        "spec": {"template": {"spec": {"domain": {}, "volumes": [{"name": "root", "dataVolume": {"name": disk}}]}}}});
    vm["metadata"]["annotations"] = json!({"first-consumer.kubevirt.io/provision": asked.to_string()});
    let data_volume = json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "metadata": meta(&disk, "dv"),
        "status": {"phase": "WaitForFirstConsumer"}});
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta(&disk, "claim"),
        "spec": {"storageClassName": "late"}, "status": {"phase": "Pending"}});
    claim["metadata"]["ownerReferences"] =
        json!([{"kind": "DataVolume", "name": disk, "uid": "dv", "controller": true}]);
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
        "provisioner": "example.com/local", "volumeBindingMode": "WaitForFirstConsumer"});
    [vm, data_volume, claim, class]
        .map(|object| object.to_string())
        .concat()
}

/// What is said where the input has no Lease.
const NO_LEASE: &str = "no Lease of the controller is known in first-consumer (--controller-namespace): its flags are \
    taken to be the defaults";

/// Somebody's Event and CDI's configuration, which say nothing of a VM here.
fn beside() -> String {
    let config = json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "CDIConfig", "metadata": {"name": "config"},
        "spec": {"featureGates": ["HonorWaitForFirstConsumer"]}});
    event("Scheduled", "Served", "of somebody", 10).replace("\"first-consumer\"", "\"somebody\"") + &config.to_string()
}

/// The first-consumer pod of ns/db, which no node fits; its claims by name and UID.
fn own_pod(claims: &[(&str, &str)]) -> String {
    let name = pod_name(&Key::new("ns", "db"));
    let listed = claims.iter().map(|(name, uid)| json!({"name": name, "uid": uid}));
    let volumes = claims
        .iter()
        .map(|(name, _)| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ns", "uid": "pod",
        "labels": {"first-consumer.kubevirt.io/managed": "true"},
        "ownerReferences": [{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "db", "uid": "vm",
            "controller": true}],
        "annotations": {"first-consumer.kubevirt.io/owner-uid": "vm",
            "first-consumer.kubevirt.io/claims": json!(listed.collect::<Vec<_>>()).to_string(),
            "first-consumer.kubevirt.io/made-for": "halted",
            "first-consumer.kubevirt.io/placement-hash": "v1:of what is not known here"}},
        "spec": {"volumes": volumes.collect::<Vec<_>>()},
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu."}]}})
    .to_string()
}

fn scene(text: &str) -> Scene {
    scene_for(text, &flags(""))
}

fn files_of(text: &str) -> (Index, Beside) {
    let (mut index, mut beside) = (Index::default(), Beside::default());
    files::read_all(&mut index, &mut beside, text, "default").expect("readable");
    (index, beside)
}

fn scene_for(text: &str, flags: &Explain) -> Scene {
    let (index, beside) = files_of(text);
    Scene::new(index, beside, flags, None)
}

fn told(text: &str, words: &str) -> Explained {
    let flags = flags(words);
    let scene = scene_for(text, &flags);
    explain(&scene, &scene.subjects(), &flags, false, at(600))
}

fn json_of(text: &str, words: &str) -> Value {
    serde_json::from_str(&told(text, words).text).expect("JSON")
}

fn event(reason: &str, decision: &str, note: &str, seconds: i64) -> String {
    json!({"apiVersion": "v1", "kind": "Event", "reason": reason, "message": note,
        "metadata": {"name": format!("e{seconds}"), "namespace": "ns",
            "annotations": {"first-consumer.kubevirt.io/reason": decision}},
        "involvedObject": {"kind": "VirtualMachine", "namespace": "ns", "name": "db", "uid": "vm"},
        "reportingComponent": "first-consumer", "lastTimestamp": at(seconds).to_string()})
    .to_string()
}

#[test]
fn the_shape_for_programs_is_as_promised() {
    let found = json_of(&vm("ns", "db", true), "vm/db -o json");
    let disk = json!({"volume": "root", "claim": "db-root", "dataVolume": "db-root",
        "dataVolumePhase": "WaitForFirstConsumer", "claimPhase": "Pending", "selectedNode": null, "path": "Legacy",
        "needs": true, "placed": false, "message": "waits for its first consumer"});
    let expected = json!({"namespace": "ns", "name": "db", "kind": "VirtualMachine", "state": "Halted", "action": "Create",
        "reason": "FirstConsumerNeeded", "message": "a disk waits for its first consumer: db-root",
        "next": "wait; if nothing comes, see whether it runs: kubectl get pods,lease -n first-consumer",
        "diagnosis": [], "pod": null, "disks": [disk]});
    assert_eq!(found, expected);
    let table = json_of(&vm("ns", "db", true), "-o json");
    assert_eq!(table, json!([expected]));
    let yaml = told(&vm("ns", "db", true), "vm/db -o yaml").text;
    assert_eq!(yaml::documents(&yaml).expect("YAML")[0].1["reason"], expected["reason"]);
}

#[test]
fn a_table_has_those_that_wait_and_no_failure() {
    let text = vm("a", "one", true)
        + &vm("b", "two", false)
        + &vm("b", "calm", true)
            .replace("Pending", "Bound")
            .replace("WaitForFirstConsumer\"}}", "Succeeded\"}}")
        + &beside();
    let found = told(&text, "-A");
    assert_eq!((found.code, &*found.remarks), (0, &[NO_LEASE.to_owned()][..]));
    let lines: Vec<&str> = found.text.lines().collect();
    assert_eq!(lines[0], "NAMESPACE   NAME     STATE    CAUSE                 MESSAGE");
    assert_eq!(
        lines[1],
        "a           vm/one   Halted   FirstConsumerNeeded   a disk waits for its first consumer: one-root"
    );
    assert_eq!(
        lines[2],
        "b           vm/two   Halted   OptedOut              the VM or its Namespace has opted out"
    );
    assert_eq!(lines.len(), 3, "{}", found.text);
    let bare = told(&text, "-n b --no-headers").text;
    assert!(bare.starts_with("vm/one   Halted"), "{bare}");
    let nobody = told(
        &text
            .replace("\"Pending\"", "\"Bound\"")
            .replace("\"WaitForFirstConsumer\"}}", "\"Succeeded\"}}"),
        "-A",
    );
    assert_eq!((nobody.text.as_str(), nobody.code, nobody.remarks.len()), ("", 0, 1));
}

#[test]
fn who_is_named_and_waits_makes_the_exit_code_one() {
    assert_eq!(told(&vm("ns", "db", true), "vm/db").code, 1);
    let calm = vm("ns", "db", true)
        .replace("Pending", "Bound")
        .replace("\"WaitForFirstConsumer\"}}", "\"Succeeded\"}}");
    let calm = told(&calm, "vm/db");
    assert!(
        calm.code == 0 && calm.text.contains("Cause:  NothingWaiting: "),
        "{}",
        calm.text
    );
}

#[test]
fn what_only_the_controller_knows_comes_from_its_last_event() {
    let waiting = vm("ns", "db", true);
    let refused = event(
        "FirstConsumerRefused",
        "CreateRefused",
        "the API server refused the pod: exceeded quota: cpu, requested: 1",
        10,
    );
    let made = event("FirstConsumerCreated", "FirstConsumerNeeded", "Created pod x", 20);
    // Somebody has deleted that pod since.
    let given_up = event(
        "FirstConsumerFailed",
        "GaveUp",
        "the pod has ended too often: 10 times",
        30,
    );
    let reason = |events: &[&String]| {
        let text = events.iter().fold(waiting.clone(), |text, event| text + event);
        let found = json_of(&text, "vm/db -o json");
        [&found["action"], &found["reason"], &found["next"]].map(|value| value.as_str().unwrap_or_default().to_owned())
    };
    let quota = "raise it: kubectl edit resourcequota/cpu -n ns";
    assert_eq!(reason(&[&refused]), ["Wait", "CreateRefused", quota]);
    assert_eq!(reason(&[&refused, &made])[1], "FirstConsumerNeeded");
    assert_eq!(reason(&[&given_up, &made, &refused])[1], "FirstConsumerNeeded");
    let ended = event(
        "FirstConsumerDeleted",
        "PodFinished",
        "Deleted pod x: the pod has ended",
        40,
    );
    assert_eq!(reason(&[&ended, &made])[..2], ["Wait", "BackingOff"]);
    let another = event("FirstConsumerCreated", "FirstConsumerNeeded", "Created pod x", 50);
    assert_eq!(reason(&[&ended, &another])[1], "FirstConsumerNeeded");
    let stranger = refused.replace("\"first-consumer\"", "\"somebody\"");
    assert_eq!(reason(&[&stranger])[1], "FirstConsumerNeeded");
    let earlier_life = refused.replace("\"uid\":\"vm\"", "\"uid\":\"before\"");
    assert_eq!(reason(&[&earlier_life])[1], "FirstConsumerNeeded");
}

/// Who may not read storage classes hears the same of a disk that CDI says waits, and what he may not read. The
/// controller, which may read all, is taken at its word about its pod.
#[test]
fn what_may_not_be_read_is_left_out_and_told() {
    let whole = vm("ns", "db", true);
    let class = whole.find("{\"apiVersion\":\"storage").expect("a class");
    let pod = own_pod(&[("db-root", "claim")]);
    let mut scene = scene(&(whole[..class].to_owned() + &pod + &beside()));
    let told = |scene: &Scene| explain(scene, &scene.subjects(), &flags("vm/db"), false, at(600));
    assert!(
        !told(&scene).text.contains("Unschedulable"),
        "no class, so nothing waits"
    );
    scene.index.note_unseen::<crate::api::StorageClass>();
    let found = told(&scene);
    assert!(found.text.contains("waits for its first consumer"), "{}", found.text);
    assert!(found.text.contains("Cause:  Unschedulable: "), "{}", found.text);
    assert_eq!(
        found.remarks,
        [
            "you cannot read storageclasses: what only they tell is left out",
            NO_LEASE
        ]
    );
}

/// A quota that has refused the pod, only an Event tells: without any, the answer may be another.
#[test]
fn events_and_a_configuration_that_are_missing_are_told() {
    let note = "the API server refused the pod: exceeded quota: cpu, requested: 1";
    let refused = event("FirstConsumerRefused", "CreateRefused", note, 10);
    let config = beside();
    let config = &config[config.find("{\"apiVersion\":\"cdi").expect("a CDIConfig")..];
    let waiting = vm("ns", "db", true);
    let missing = |text: &str| {
        let remarks = told(text, "vm/db").remarks.into_iter();
        remarks.filter(|remark| remark != NO_LEASE).collect::<Vec<_>>()
    };
    let left_out = |what: &str| [format!("the input has no {what}: what only they tell is left out")];
    let flags = "vm/db -f saved.yaml";
    let of_file = |text: &str| told(text, flags).remarks[0].clone();
    assert_eq!([of_file(&waiting)], left_out("events, cdiconfigs"));
    assert_eq!([of_file(&(waiting.clone() + config))], left_out("events"));
    assert_eq!([of_file(&(waiting.clone() + &refused))], left_out("cdiconfigs"));
    assert_eq!(missing(&(waiting.clone() + &refused + config)), Vec::<String>::new());
    // CDI has nothing to do with a claim that it does not fill, and Events of nobody who waits are not missing.
    let data_volume = waiting.replace("\"kind\":\"DataVolume\"", "\"kind\":\"Other\"");
    let plain = data_volume.replace("\"dataVolume\":{\"name\"", "\"persistentVolumeClaim\":{\"claimName\"");
    let gone = plain.replace("\"PersistentVolumeClaim\"", "\"Other\"");
    assert_eq!([of_file(&gone)], left_out("events"));
    let calm = waiting
        .replace("\"Pending\"", "\"Bound\"")
        .replace("\"WaitForFirstConsumer\"}}", "\"Succeeded\"}}");
    assert_eq!(missing(&calm), Vec::<String>::new());
}

/// An API server may keep Events for a day; what lasts would have been said again.
#[test]
fn an_event_of_more_than_an_hour_ago_counts_no_more() {
    let note = "the API server refused the pod: exceeded quota: cpu, requested: 1";
    let refused = vm("ns", "db", true) + &event("FirstConsumerRefused", "CreateRefused", note, 10);
    let reason = |seen: i64| {
        let other = event("Scheduled", "Served", "of somebody", seen).replace("\"first-consumer\"", "\"somebody\"");
        json_of(&(refused.clone() + &other), "vm/db -o json")["reason"].clone()
    };
    assert_eq!([reason(3610), reason(3611)], ["CreateRefused", "FirstConsumerNeeded"]);
    let of_cluster = |seconds: i64| {
        let (index, beside) = files_of(&refused);
        let scene = Scene::new(index, beside, &flags(""), Some(at(seconds)));
        scene.evidence.events.len()
    };
    assert_eq!([of_cluster(3610), of_cluster(3611)], [1, 0]);
}

/// As with `kubectl get`.
#[test]
fn all_namespaces_are_more_than_one() {
    let text = vm("a", "one", true) + &vm("b", "two", true);
    for words in ["-A -n b", "-A"] {
        let found = told(&text, words).text;
        assert!(found.starts_with("NAMESPACE ") && found.contains("vm/one"), "{found}");
    }
}

/// A VM that is being deleted is fine, until its Namespace cannot go.
#[test]
fn a_namespace_that_is_held_is_told() {
    let namespace = |conditions: Value| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns", "deletionTimestamp": at(0).to_string()},
            "status": {"phase": "Terminating", "conditions": conditions}})
        .to_string()
    };
    let going = told(&(vm("ns", "db", true) + &namespace(json!([]))), "vm/db");
    assert!(
        going.code == 0 && going.text.contains("SubjectDeleted"),
        "{}",
        going.text
    );
    let held = json!([{"type": "NamespaceFinalizersRemaining", "status": "True", "message": "example.com/hold in 1"}]);
    let found = told(&(vm("ns", "db", true) + &namespace(held)), "vm/db");
    assert_eq!(found.code, 1);
    let text = found.text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("something holds it: example.com/hold in 1"), "{text}");
    assert!(text.ends_with("kubectl describe namespace/ns"), "{text}");
}

#[test]
fn the_lease_tells_the_flags_and_the_cdi_config_the_gate() {
    let unasked = vm("ns", "db", true).replace("first-consumer.kubevirt.io/provision", "other.kubevirt.io/x");
    assert_eq!(json_of(&unasked, "vm/db -o json")["reason"], "NotAskedFor");
    let lease = |name: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name,
        "namespace": "first-consumer", "annotations": {"first-consumer.kubevirt.io/halted-vms": "all"}}})
    };
    assert_eq!(
        json_of(
            &(unasked.clone() + &lease("first-consumer").to_string()),
            "vm/db -o json"
        )["reason"],
        "FirstConsumerNeeded"
    );
    assert_eq!(
        json_of(&(unasked + &lease("other").to_string()), "vm/db -o json")["reason"],
        "NotAskedFor"
    );

    let pending = vm("ns", "db", true).replace("\"phase\":\"WaitForFirstConsumer\"", "\"phase\":\"Pending\"");
    let config = |gates: &[&str]| {
        json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "CDIConfig",
        "metadata": {"name": "config"}, "spec": {"featureGates": gates}})
        .to_string()
    };
    let diagnosis = |text: &str| json_of(text, "vm/db -o json")["diagnosis"][0]["reason"].clone();
    assert_eq!(diagnosis(&(pending.clone() + &config(&[]))), "GateOff");
    assert_eq!(
        diagnosis(&(pending + &config(&["HonorWaitForFirstConsumer"]))),
        Value::Null
    );
}

#[tokio::test]
async fn names_in_files_mean_the_one_namespace_or_that_of_the_flag() {
    let folder = std::env::temp_dir().join(format!("first-consumer-explain-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("state.json");
    let run = async |words: &str| run_at(&flags(&format!("{words} -f {}", file.display())), false, at(600)).await;
    std::fs::write(&file, vm("a", "db", true)).expect("written");
    assert_eq!(run("vm/db").await.expect("found").code, 1);
    assert_eq!(run("-n b vm/db").await.expect_err("not there").code, 3);
    assert_eq!(run("pod/db").await.expect_err("wrong").code, 2);
    std::fs::write(&file, vm("a", "db", true) + &vm("b", "db", false)).expect("written");
    let several = run("vm/db").await.expect_err("two");
    assert!(
        several.code == 2 && several.message.contains("--namespace"),
        "{several}"
    );
    assert!(run("-n b vm/db").await.expect("found").text.contains("OptedOut"));
    assert_eq!(run("").await.expect("a table").text.lines().count(), 3);
    assert_eq!(run("-n b").await.expect("a table").text.lines().count(), 2);
    std::fs::write(
        &file,
        r#"{"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},"message":7}"#,
    )
    .expect("written");
    let unreadable = run("").await.expect_err("unreadable");
    assert_eq!(unreadable.code, 2);
    let says = format!("{}: document 1 (Event e): message: ", file.display());
    assert!(unreadable.message.starts_with(&says), "{unreadable}");
    std::fs::remove_dir_all(folder).expect("removed");
}
