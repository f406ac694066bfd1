//! Plays a recording. The fixture is that of `recordings/README.md`: four nodes, two classes, the Namespace, the KubeVirt
//! object, `--halted-vms=all`. The hand-made pod `first-consumer-db` is dressed as ours: fixed name, and the annotations
//! that our pod for that VM would have.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use first_consumer::api::{
    DataVolume, KubeVirt, Namespace, Node, PersistentVolumeClaim, Pod, StorageClass, VirtualMachine,
    VirtualMachineInstance,
};
use first_consumer::decide::{Decision, Settings, turn};
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

/// One event of a recording and what was decided after it.
pub struct Step {
    pub event: Value,
    pub decision: Decision,
    /// What was diagnosed, the cause first.
    pub troubles: Vec<Trouble>,
}

impl Step {
    pub fn object(&self) -> &Value {
        &self.event["object"]
    }

    pub fn is(&self, kind: &str) -> bool {
        self.object()["kind"] == kind
    }

    pub fn name(&self) -> &str {
        self.object()["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// The phase that the object's status shows.
    pub fn phase(&self) -> &str {
        self.object()["status"]["phase"].as_str().unwrap_or_default()
    }

    /// The node that a claim has been given.
    pub fn selected_node(&self) -> Option<&str> {
        self.object()["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].as_str()
    }

    /// Seconds since the first event.
    pub fn seconds(&self) -> f64 {
        self.event["t"].as_f64().unwrap_or_default()
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
        Some("KubeVirt") => apply::<KubeVirt>(index, event),
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
pub fn replay(name: &str) -> Vec<Step> {
    replay_without(name, |_| false)
}

/// Plays a recording as if some of its events had not been.
pub fn replay_without(name: &str, is_left_out: impl Fn(&Value) -> bool) -> Vec<Step> {
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
        json!({"type": "ADDED", "object": {"kind": "KubeVirt", "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
            "spec": {"configuration": {}}, "status": {"defaultArchitecture": "amd64"}}}),
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
        if is_left_out(&event) {
            continue;
        }
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

/// The decisions as they change, for a failing test.
pub fn story(steps: &[Step]) -> String {
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
                step.name(),
                step.phase(),
                step.decision.about
            );
            lines.push(line);
        }
    }
    lines.concat()
}
