//! What a VM with an instancetype asks for, only virt-api tells; neither a file nor a table asks it.

use super::*;
use crate::memory::Expanding;
use crate::reason::Reason;

/// As [`vm`], with an instancetype.
fn picky() -> String {
    vm("ns", "db", true).replace(
        "\"spec\":{\"template\"",
        "\"spec\":{\"instancetype\":{\"name\":\"small\"},\"template\"",
    )
}

/// The cause by name and in the table, which must be the same.
fn cause(scene: &Scene) -> String {
    let told = |words: &str| explain(scene, &scene.subjects(), &flags(words), false, at(600)).text;
    let named = told("vm/db");
    let line = named.lines().find_map(|line| line.strip_prefix("Cause:  "));
    let cause = line
        .and_then(|line| line.split_once(':'))
        .expect("a cause")
        .0
        .to_owned();
    let table = told("-A");
    let cells: Vec<&str> = table.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(cells[3], cause, "{table}");
    cause
}

/// As if virt-api had been asked about the VM.
fn asked(text: &str, outcome: Expanding) -> Scene {
    let mut scene = scene(text);
    let subject = Key::new("ns", "db");
    let (_, inputs) = observe::unexpanded(&scene.index, &subject).expect("an instancetype");
    let mut memory = Memory::default();
    memory.expansion.begin(inputs);
    memory.expansion.end(outcome, at(599));
    scene.memories.insert(subject, memory);
    scene
}

#[test]
fn nobody_who_was_not_asked_is_the_cause() {
    assert_eq!(cause(&scene(&picky())), "FirstConsumerNeeded");
    let found = json_of(&picky(), "vm/db -o json");
    let message =
        "a disk waits for its first consumer: db-root; what its instancetype or preference adds is not known here";
    assert_eq!(found["message"], message);
    assert_eq!(
        found["next"],
        "let virt-api tell it: kubectl first-consumer explain vm/db -n ns"
    );
    let refused = event(
        "FirstConsumerRefused",
        "CreateRefused",
        "exceeded quota: cpu, requested: 1",
        10,
    );
    assert_eq!(cause(&scene(&(picky() + &refused))), "CreateRefused");
    assert_eq!(cause(&scene(&picky().replace("\"true\"", "\"false\""))), "OptedOut");
    let words = "KubeVirt would refuse the VM: no instancetype small";
    let no_such = event("FirstConsumerRefused", "CannotRender", words, 20);
    assert_eq!(cause(&scene(&(picky() + &refused + &no_such))), "CannotRender");
    assert_eq!(json_of(&(picky() + &no_such), "vm/db -o json")["message"], words);
    // What can be told from here is no matter of words.
    assert_eq!(cause(&scene(&(vm("ns", "db", true) + &no_such))), "FirstConsumerNeeded");
}

/// In the words of KubeVirt, from which only the controller or who asks it hears.
#[test]
fn an_instancetype_that_does_not_exist_is_named() {
    let words = "Internal error occurred: virtualmachineclusterinstancetypes.instancetype.kubevirt.io \"small\" not found (HTTP 500)";
    let note = format!("{}: {words}", Reason::ExpansionPending.text());
    let said = event("FirstConsumerWaiting", "ExpansionPending", &note, 20);
    let found = |text: &str| {
        let found = json_of(text, "vm/db -o json");
        ["action", "reason", "message", "next"].map(|field| found[field].as_str().unwrap_or_default().to_owned())
    };
    let next = "create virtualmachineclusterinstancetype/small, or name another: kubectl edit vm/db -n ns";
    let expected = ["Wait", "ExpansionPending", &*note, next];
    assert_eq!(found(&(picky() + &said)), expected);
    assert_eq!(cause(&scene(&(picky() + &said))), "ExpansionPending");
    let asked = asked(&picky(), Expanding::Unanswered(words.into()));
    let text = explain(&asked, &asked.subjects(), &flags("vm/db"), false, at(600)).text;
    assert!(
        text.contains("create virtualmachineclusterinstancetype/small,"),
        "{text}"
    );
    // What speaks of a disk says nothing of the instancetype, and another reason for silence is no missing object.
    let stuck = event("DiskStuck", "ExpansionPending", "no space", 30);
    assert_eq!(found(&(picky() + &said + &stuck)), expected);
    let away = said.replace("not found", "is slow");
    assert!(found(&(picky() + &away))[3].contains("{.spec.instancetype}"));
    // Who needs no expansion any more is not held by it.
    assert_eq!(found(&(vm("ns", "db", true) + &said))[1], "FirstConsumerNeeded");
    let of_kind = |fields: &str| {
        let text = picky().replace("{\"name\":\"small\"}", fields);
        let (index, _) = files_of(&text);
        index.vm(&Key::new("ns", "db")).expect("a VM").expansion_sources()
    };
    let own = |resource: &str, name: &str| vec![(resource.to_owned(), name.to_owned())];
    for kind in ["VirtualMachineInstancetype", "virtualmachineinstancetypes"] {
        let fields = format!("{{\"kind\":\"{kind}\",\"name\":\"own\"}}");
        assert_eq!(of_kind(&fields), own("virtualmachineinstancetype", "own"));
    }
}

#[test]
fn the_pod_that_is_there_tells_why_it_waits() {
    let pod = own_pod(&[("db-root", "claim")]);
    assert_eq!(cause(&scene(&(picky() + &pod))), "Unschedulable");
    // A preference may ask for a TPM, whose state has a claim.
    let state = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "state",
        "namespace": "ns", "uid": "state", "labels": {"persistent-state-for": "db"}}, "status": {"phase": "Bound"}});
    let pod = own_pod(&[("db-root", "claim"), ("state", "state")]);
    assert_eq!(cause(&scene(&(picky() + &state.to_string() + &pod))), "Unschedulable");
    // Its own disks are known.
    let pod = own_pod(&[("db-root", "another"), ("state", "state")]);
    assert_eq!(cause(&scene(&(picky() + &state.to_string() + &pod))), "DisksChanged");
}

#[test]
fn what_virt_api_has_answered_counts() {
    let away = || Expanding::Unanswered("virt-api is away".into());
    let found = asked(&picky(), away());
    let text = explain(&found, &found.subjects(), &flags("vm/db"), false, at(600)).text;
    assert!(
        text.contains("Cause:  ExpansionPending: ") && text.contains("virt-api is"),
        "{text}"
    );
    let pod = own_pod(&[("db-root", "claim")]);
    assert_eq!(cause(&asked(&(picky() + &pod), away())), "Unschedulable");
    let refused = Expanding::Refused("no such instancetype".into());
    assert_eq!(cause(&asked(&(picky() + &pod), refused)), "CannotRender");
}
