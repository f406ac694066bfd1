//! The recordings of the real stack, event by event through index, observe and decide.
//!
//! The fixture is that of `recordings/README.md`: two classes, the Namespace, `--halted-vms=all`. The hand-made pod
//! `first-consumer-db` is dressed as ours: fixed name, and the annotations that our pod for that VM would have.

// All of this file is a test; clippy only knows the functions that are marked as one.
#![allow(clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use first_consumer::api::{
    DataVolume, Namespace, Node, PersistentVolumeClaim, Pod, StorageClass, VirtualMachine, VirtualMachineInstance,
};
use first_consumer::decide::{Action, Decision, Settings, turn};
use first_consumer::diagnose::{Evidence, diagnose};
use first_consumer::index::{Index, Indexed};
use first_consumer::memory::Memory;
use first_consumer::name::{Key, pod_name};
use first_consumer::observe::observe;
use first_consumer::pod::{Blueprint, build};
use first_consumer::policy::{HaltedVms, MadeFor};
use first_consumer::reason::{Reason, Trouble};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

const SELECTED_NODE: &str = "/metadata/annotations/volume.kubernetes.io~1selected-node";

/// One event of a recording and what was decided after it.
struct Step {
    event: Value,
    decision: Decision,
    /// What was diagnosed, the cause first.
    troubles: Vec<Trouble>,
}

impl Step {
    fn object(&self) -> &Value {
        &self.event["object"]
    }

    fn is(&self, kind: &str) -> bool {
        self.object()["kind"] == kind
    }
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.policy.halted = HaltedVms::All;
    settings
}

fn apply<V: Indexed>(index: &mut Index, event: &Value) {
    // From text, as the watch does: a view may keep raw text.
    let object: V = serde_json::from_str(&event["object"].to_string()).expect("a view");
    if event["type"] == "DELETED" {
        index.delete::<V>(&object.meta().key());
    } else {
        index.apply(object);
    }
}

fn feed(index: &mut Index, event: &Value) {
    match event["object"]["kind"].as_str() {
        Some("VirtualMachine") => apply::<VirtualMachine>(index, event),
        Some("VirtualMachineInstance") => apply::<VirtualMachineInstance>(index, event),
        Some("DataVolume") => apply::<DataVolume>(index, event),
        Some("PersistentVolumeClaim") => apply::<PersistentVolumeClaim>(index, event),
        Some("Pod") => apply::<Pod>(index, event),
        Some("StorageClass") => apply::<StorageClass>(index, event),
        Some("Namespace") => apply::<Namespace>(index, event),
        Some("Node") => apply::<Node>(index, event),
        _ => {}
    }
}

/// The annotations that our pod would have if it were made now. `None` without VM and VMI: some files begin with the
/// last objects of an earlier story in the same namespace.
fn annotations(index: &Index, subject: &Key) -> Option<Value> {
    let observed = observe(index, subject, settings().policy, None);
    let made_for = if index.vmi(subject).is_some() {
        MadeFor::Started
    } else {
        MadeFor::Halted
    };
    let pod = build(&Blueprint {
        subject,
        owner: observed.owner.as_ref()?,
        made_for,
        labels: &observed.labels,
        placement: &observed.placement.clone().and_then(Result::ok).unwrap_or_default(),
        domains: &observed.peers.domains,
        claims: &observed.listed(),
        reason: Reason::FirstConsumerNeeded,
        attempt: 1,
        settings: &settings().pod,
    });
    Some(pod["metadata"]["annotations"].clone())
}

/// Plays a recording; fails if a fresh start on the state after any event would decide otherwise.
fn replay(name: &str) -> Vec<Step> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("recordings/{name}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let first: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("an event");
    let namespace = first["object"]["metadata"]["namespace"]
        .as_str()
        .expect("a namespace")
        .to_owned();
    let subject = Key::new(&namespace, "db");
    let class = |name: &str, provisioner: &str| {
        json!({"type": "ADDED", "object": {"kind": "StorageClass", "metadata": {"name": name},
            "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}})
    };
    let node = |name: &str, zone: &str| {
        json!({"type": "ADDED", "object": {"kind": "Node", "metadata": {"name": name, "labels":
            {"topology.kubernetes.io/zone": zone}}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}})
    };
    let fixture = [
        node("node-a1", "zone-a"),
        node("node-a2", "zone-a"),
        node("node-b1", "zone-b"),
        node("node-b2", "zone-b"),
        class("local-path", "rancher.io/local-path"),
        class("local-csi", "local.csi.example"),
        json!({"type": "ADDED", "object": {"kind": "Namespace", "metadata": {"name": namespace}}}),
    ];
    let (mut index, mut memory) = (Index::default(), Memory::default());
    for event in &fixture {
        feed(&mut index, event);
    }
    let mut dresses = HashMap::new();
    let mut state: BTreeMap<String, Value> = BTreeMap::new();
    let mut start = None;
    let mut steps = Vec::new();
    for line in text.lines() {
        let mut event: Value = serde_json::from_str(line).expect("an event");
        if event["object"]["metadata"]["name"] == "first-consumer-db" {
            let uid = event["object"]["metadata"]["uid"].to_string();
            let dress = dresses.entry(uid).or_insert_with(|| annotations(&index, &subject));
            if let Some(dress) = dress {
                event["object"]["metadata"]["annotations"] = dress.clone();
            }
            event["object"]["metadata"]["name"] = json!(pod_name(&subject));
        }
        let start = *start.get_or_insert_with(|| time(&event["object"]["metadata"]["creationTimestamp"]));
        let now = start + Duration::from_secs_f64(event["t"].as_f64().expect("a time"));
        feed(&mut index, &event);
        let object = &event["object"];
        let key = format!("{} {}", object["kind"], object["metadata"]["name"]);
        if event["type"] == "DELETED" {
            state.remove(&key);
        } else {
            state.insert(key, event.clone());
        }
        let turned = turn(&index, &subject, &settings(), &mut memory, now);
        let onsets = Some(&mut memory.onsets);
        let diagnosis = diagnose(&index, &turned.observed, &Evidence::default(), onsets, now);
        let troubles = diagnosis.findings.iter().map(|finding| finding.trouble).collect();
        let decision = turned.decision;
        let mut fresh = Index::default();
        fixture
            .iter()
            .chain(state.values())
            .for_each(|event| feed(&mut fresh, event));
        let again = turn(&fresh, &subject, &settings(), &mut Memory::default(), now).decision;
        assert_eq!(
            (decision.action, decision.reason),
            (again.action, again.reason),
            "{name}: a fresh start at {line}"
        );
        steps.push(Step {
            event,
            decision,
            troubles,
        });
    }
    steps
}

fn time(text: &Value) -> Timestamp {
    text.as_str().and_then(|text| text.parse().ok()).expect("a time")
}

/// A test for the legacy and one for the populator recording.
macro_rules! replays {
    ($($test:ident: $file:literal, $check:expr;)+) => {$(
        mod $test {
            use super::*;

            #[test]
            fn legacy() {
                let check: fn(&[Step], bool) = $check;
                check(&replay(concat!("legacy-", $file)), true);
            }

            #[test]
            fn populator() {
                let check: fn(&[Step], bool) = $check;
                check(&replay(concat!("populator-", $file)), false);
            }
        }
    )+};
}

replays! {
    halted_alone_is_needed_once_both_disks_have_settled: "halted-alone", |steps, _| {
        let needed = first(steps, Reason::FirstConsumerNeeded);
        let settled = |step: &&Step| ["WaitForFirstConsumer", "PendingPopulation"].contains(&phase(step));
        let settled: Vec<_> = steps[..=needed].iter().filter(|step| step.is("DataVolume")).filter(settled).map(name).collect();
        assert!(settled.contains(&"db-disk0") && settled.contains(&"db-disk1"), "{settled:?}");
        assert!(steps[needed..].iter().all(|step| step.decision.reason == Reason::FirstConsumerNeeded));
    };
    served_at_the_last_selected_node: "halted-served-deleted-when-placed", |steps, legacy| {
        healthy(steps);
        served_when_placed(steps, &["db-disk0", "db-disk1"]);
        assert!(!(legacy && has_event(steps, "ImportTargetInUse")));
    };
    whoever_waits_for_bound_blocks_the_import: "halted-served-deleted-when-bound", |steps, legacy| {
        healthy(steps);
        served_when_placed(steps, &["db-disk0", "db-disk1"]);
        assert_eq!(legacy, has_event(steps, "ImportTargetInUse"));
    };
    started_is_left_to_virt_controller: "started", |steps, _| {
        left_alone(steps);
        healthy(steps);
    };
    started_unschedulable_has_its_launcher: "started-unschedulable", |steps, _| {
        left_alone(steps);
        let launched = first(steps, Reason::LauncherPresent);
        assert!(steps[launched..].iter().all(|step| step.decision.reason == Reason::LauncherPresent));
    };
    bare_vmi_is_left_to_virt_controller: "bare-vmi", |steps, _| {
        left_alone(steps);
        healthy(steps);
    };
    bare_vmi_has_its_launcher_whatever_pods_are_beside: "bare-vmi-with-foreign-consumer", |steps, legacy| {
        left_alone(steps);
        let cause = if legacy { Trouble::LauncherBlocksImport } else { Trouble::BoundWhereVmCannotRun };
        assert_eq!(steps.last().expect("steps").troubles.first(), Some(&cause));
    };
    started_meanwhile_no_pod_stays: "started-while-pod-there", |steps, _| {
        let launched = steps.iter().position(|step| step.is("VirtualMachineInstance")).expect("a VMI");
        assert!(steps[..launched].iter().any(|step| step.decision.action == Action::Keep));
        assert!(steps[launched..].iter().all(|step| step.decision.action == Action::None), "{}", story(steps));
    };
    deleted_midway: "vm-deleted-midway", |steps, _| {
        let gone = |step: &Step| step.is("VirtualMachine")
            && (step.event["type"] == "DELETED" || step.object().pointer("/metadata/deletionTimestamp").is_some());
        let deleted = steps.iter().position(gone).expect("a deletion");
        assert!(steps[deleted..].iter().all(|step| step.decision.reason == Reason::SubjectDeleted), "{}", story(steps));
    };
    immediate_binding_is_never_ours: "immediate-binding-asked", |steps, legacy| {
        assert!(steps.iter().all(|step| step.decision.action != Action::Create), "{}", story(steps));
        // CDI's importer chose a node of the wrong zone; on the populator path it happened to hit the right one.
        let expected: &[Trouble] = if legacy { &[Trouble::BoundWhereVmCannotRun] } else { &[] };
        assert_eq!(steps.last().expect("steps").troubles, expected);
    };
    upload_is_served: "upload", |steps, _| {
        served_when_placed(steps, &["db-disk0"]);
        healthy(steps);
    };
    a_late_disk_is_needed_again: "late-disk", |steps, _| {
        healthy(steps);
        let served = first(steps, Reason::Served);
        let again = served + first(&steps[served..], Reason::FirstConsumerNeeded);
        assert_eq!(steps[again].decision.about, "db-disk1");
        assert!(steps[again..].iter().any(|step| step.decision.reason == Reason::Served), "{}", story(steps));
    };
    a_plain_claim_is_placed_too: "plain-claim-beside", |steps, _| {
        served_when_placed(steps, &["db-disk0", "db-plain"]);
        healthy(steps);
    };
    unschedulable_then_corrected: "unschedulable-then-corrected", |steps, _| {
        let stuck = first(steps, Reason::Unschedulable);
        assert!(steps[stuck].decision.about.contains("nodes are available"), "{}", steps[stuck].decision.about);
        assert!(steps[stuck..].iter().any(|step| step.decision.reason == Reason::Served), "{}", story(steps));
    };
}

fn name(step: &Step) -> &str {
    step.object()["metadata"]["name"].as_str().unwrap_or_default()
}

fn phase(step: &Step) -> &str {
    step.object()
        .pointer("/status/phase")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The first step with this reason.
fn first(steps: &[Step], reason: Reason) -> usize {
    let found = steps.iter().position(|step| step.decision.reason == reason);
    found.unwrap_or_else(|| panic!("never {reason}:\n{}", story(steps)))
}

fn has_event(steps: &[Step], reason: &str) -> bool {
    steps
        .iter()
        .any(|step| step.is("Event") && step.object()["reason"] == reason)
}

/// `Served` comes with the event that gives the last of these claims its node, and not before.
fn served_when_placed(steps: &[Step], claims: &[&str]) {
    let placed = claims.iter().map(|claim| {
        let given = |step: &Step| {
            step.is("PersistentVolumeClaim") && name(step) == *claim && step.object().pointer(SELECTED_NODE).is_some()
        };
        steps.iter().position(given).expect("a node")
    });
    let last = placed.max().expect("claims");
    assert_eq!(first(steps, Reason::Served), last, "{}", story(steps));
    assert_eq!(steps[last].decision.action, Action::None);
}

/// Nothing is diagnosed at any moment.
fn healthy(steps: &[Step]) {
    let sick = steps.iter().find(|step| !step.troubles.is_empty());
    assert!(
        sick.is_none(),
        "{:?}\n{}",
        sick.map(|step| (&step.troubles, &step.event)),
        story(steps)
    );
}

/// Never a Create: first it is left to virt-controller, then its launcher is there.
fn left_alone(steps: &[Step]) {
    assert!(
        steps.iter().all(|step| step.decision.action != Action::Create),
        "{}",
        story(steps)
    );
    assert!(first(steps, Reason::LeftToVirtController) < first(steps, Reason::LauncherPresent));
}

/// The decisions as they change, for a failing test.
fn story(steps: &[Step]) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut last = None;
    for step in steps {
        let decided = (step.decision.action, step.decision.reason);
        if last != Some(decided) {
            last = Some(decided);
            let line = format!(
                "{:>8} {} {} {} {}: {decided:?} {}\n",
                step.event["t"],
                step.event["type"],
                step.object()["kind"],
                name(step),
                phase(step),
                step.decision.about
            );
            lines.push(line);
        }
    }
    lines.concat()
}
