//! All that is to be said of one subject, in the shape of `-o json`.

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::Scene;
use super::decided::{Decided, decided};
use super::scheduler::BY_NODE;
use crate::api::{CdiConfig, ClaimPhase, DataVolumePhase, Pod, Scheduled, View as _, VirtualMachineInstance, VmiPhase};
use crate::claim::Path;
use crate::decide::Decision;
use crate::diagnose::{self, Diagnosis, Finding, diagnose};
use crate::lifecycle::State;
use crate::name::{Key, pod_name};
use crate::observe::{Disk, Observed};
use crate::pod::Owner;
use crate::policy;
use crate::reason::{Reason, Trouble, Whom};

/// What is to be said of one subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// Its Namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `VirtualMachine` or `VirtualMachineInstance`.
    pub kind: &'static str,
    /// The same, as in `kubectl get`.
    #[serde(skip)]
    pub word: &'static str,
    /// Where in its life it is ([`crate::lifecycle::State`]).
    pub state: String,
    /// The same as KubeVirt says it.
    #[serde(skip)]
    pub shown_state: String,
    /// The decision's action.
    pub action: String,
    /// The decision's reason.
    pub reason: String,
    /// The cause.
    pub message: String,
    /// What to do about it.
    pub next: String,
    /// All that is wrong, the cause first.
    pub diagnosis: Vec<Wrong>,
    /// Its first-consumer pod.
    pub pod: Option<OwnPod>,
    /// What it boots from.
    pub disks: Vec<DiskAccount>,
    /// The name of the cause: of a diagnosis, else of the decision.
    #[serde(skip)]
    pub cause: String,
    /// Whether nothing waits and nothing fails.
    #[serde(skip)]
    pub fine: bool,
    /// The pods that have to do with it, and what is to be said of them.
    #[serde(skip)]
    pub pods: Vec<(String, String)>,
}

/// One diagnosis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wrong {
    /// Its name.
    pub reason: String,
    /// What is wrong.
    pub message: String,
    /// The claim of the disk; null if it is about the VM.
    pub disk: Option<String>,
}

/// The first-consumer pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnPod {
    /// Its name.
    pub name: String,
    /// Its phase.
    pub phase: String,
    /// Its node; null if it has none.
    pub node: Option<String>,
}

/// One disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiskAccount {
    /// The volume in the VM's spec.
    pub volume: String,
    /// Its claim, whether or not that exists.
    pub claim: String,
    /// Its DataVolume; null if it has none.
    pub data_volume: Option<String>,
    /// The DataVolume's phase.
    pub data_volume_phase: Option<String>,
    /// The claim's phase; null if there is none.
    pub claim_phase: Option<String>,
    /// The node that was chosen for it.
    pub selected_node: Option<String>,
    /// `Legacy`, `Populator`, or `None` if nobody fills it.
    pub path: &'static str,
    /// Whether it needs a first consumer.
    pub needs: bool,
    /// Whether its node is decided.
    pub placed: bool,
    /// What it waits for.
    pub message: String,
}

impl Account {
    /// What is to be said of a subject now.
    pub(super) fn of(scene: &Scene, subject: &Key, now: Timestamp) -> Self {
        let Decided {
            observed,
            decision,
            unasked,
            due,
        } = decided(scene, subject, now);
        let diagnosis = diagnose(&scene.index, &observed, &scene.evidence, None, now);
        let pod = pod_name(subject);
        let owner = observed.owner.as_ref();
        let word = owner.map_or("vmi", Owner::word);
        let whom = Whom {
            namespace: &subject.namespace,
            kind: word,
            name: &subject.name,
            started: scene.index.vmi(subject).is_some(),
            pod: &pod,
            controller: &scene.home,
            whole: scene.index.unseen().is_empty(),
        };
        let (cause, message, next) = match diagnosis.cause(decision.reason) {
            Some(finding) => (
                finding.trouble.name(),
                finding.message(),
                finding.next(&subject.namespace),
            ),
            None => (
                decision.reason.name(),
                decision.message(),
                unknown_source(scene, subject, &decision)
                    .unwrap_or_else(|| decision.reason.next(whom, &decision.about)),
            ),
        };
        // The verdict is on a pod that asks for what the VM does.
        let of_vm = match diagnosis.cause(decision.reason) {
            Some(finding) => finding.trouble == Trouble::LauncherUnschedulable,
            None => decision.reason == Reason::Unschedulable,
        };
        let message = match diagnose::node_wishes(&scene.index, subject) {
            Some(wishes) if of_vm && message.contains(BY_NODE) => format!("{message}; the VM asks for {wishes}"),
            _ => message,
        };
        // The launcher is a consumer, too: it is fine as soon as it has a node.
        let waits = decision.reason == Reason::LauncherPresent && observed.claims().any(|claim| claim.needs);
        let held = observed.namespace_terminating.then(|| held(scene, subject)).flatten();
        let idle = scene.controller.idle.as_ref();
        let idle = idle.filter(|_| due && diagnosis.cause(decision.reason).is_none());
        let unexpanded = unasked && decision.reason == Reason::FirstConsumerNeeded && diagnosis.findings.is_empty();
        let (message, next) = match (unreadable(scene, subject), &held, idle) {
            (_, None, Some(idle)) => (format!("{message}; no controller acts: {}", idle.words), idle.next()),
            (Some(words), _, _) if decision.reason == Reason::NotAskedFor => {
                (format!("{message}: {words}"), Reason::OptedOut.next(whom, ""))
            }
            (None, None, _) if waits && diagnosis.findings.is_empty() => (
                format!("{message}, and a disk waits for the node that it gets"),
                format!(
                    "wait; if nothing comes: kubectl describe pods -l vm.kubevirt.io/name={} -n {}",
                    subject.name, subject.namespace
                ),
            ),
            (_, Some(words), _) => (
                format!("its Namespace is being deleted, and something holds it: {words}"),
                format!(
                    "see what is left in it: kubectl describe namespace/{}",
                    subject.namespace
                ),
            ),
            (None, None, _) if unexpanded => (
                format!("{message}; what its instancetype or preference adds is not known here"),
                if scene.forbidden.contains(subject) {
                    next
                } else {
                    let Whom { kind, name, .. } = whom;
                    format!(
                        "let virt-api tell it: kubectl first-consumer explain {kind}/{name} -n {}",
                        subject.namespace
                    )
                },
            ),
            _ => (message, next),
        };
        Self {
            namespace: subject.namespace.to_string(),
            name: subject.name.to_string(),
            kind: owner.map_or(VirtualMachineInstance::KIND, |owner| owner.kind),
            word,
            state: format!("{:?}", observed.state),
            shown_state: shown_state(scene, subject, observed.state),
            action: format!("{:?}", decision.action),
            reason: decision.reason.name(),
            message,
            next,
            pod: own_pod(scene, &observed),
            disks: observed.disks.iter().map(|disk| of_disk(disk, &diagnosis)).collect(),
            cause,
            fine: diagnosis.findings.is_empty() && decision.reason.fine() && held.is_none() && !waits && idle.is_none(),
            pods: pods(scene, &observed),
            diagnosis: diagnosis.findings.iter().map(Wrong::of).collect(),
        }
    }
}

impl Account {
    /// Whether objects that are read beside what is watched, by their plural, might tell more: Events of whoever waits, of
    /// CDI's configuration whether it binds disks itself.
    pub(super) fn needs(&self, plural: &str) -> bool {
        let by_cdi = || self.disks.iter().any(|disk| disk.data_volume.is_some());
        !self.fine && (plural != CdiConfig::PLURAL || by_cdi())
    }
}

impl Wrong {
    fn of(finding: &Finding) -> Self {
        Self {
            reason: finding.trouble.name(),
            message: finding.message(),
            disk: (!finding.disk.is_empty()).then(|| finding.disk.to_string()),
        }
    }
}

/// What a person calls the state: a VM does not run yet whose VMI is `Scheduling`, though KubeVirt is at it.
fn shown_state(scene: &Scene, subject: &Key, state: State) -> String {
    let phase = scene.index.vmi(subject).map(|vmi| vmi.phase());
    match phase.filter(|_| state == State::Running) {
        Some(phase @ (VmiPhase::Scheduling | VmiPhase::Scheduled)) => format!("{phase:?}"),
        _ => format!("{state:?}"),
    }
}

/// An opt-in annotation that counts as absent.
fn unreadable(scene: &Scene, subject: &Key) -> Option<String> {
    let vm = scene.index.vm(subject).map(|vm| vm.meta());
    let namespace = scene
        .index
        .namespace(&subject.namespace)
        .map(|namespace| namespace.meta());
    let value = vm.into_iter().chain(namespace).find_map(policy::unreadable)?;
    Some(format!(
        "the annotation says {value:?}, which is neither \"true\" nor \"false\""
    ))
}

/// What to do about an instancetype or preference that does not exist: virt-api then has Kubernetes' words.
fn unknown_source(scene: &Scene, subject: &Key, decision: &Decision) -> Option<String> {
    let vm = scene
        .index
        .vm(subject)
        .filter(|_| decision.reason == Reason::ExpansionPending)?;
    let unknown = |(resource, name): &(String, String)| {
        let words = format!("{resource}s.instancetype.kubevirt.io \"{name}\" not found");
        decision.about.contains(&words)
    };
    let (resource, name) = vm.expansion_sources().into_iter().find(unknown)?;
    Some(format!(
        "create {resource}/{name}, or name another: kubectl edit vm/{} -n {}",
        subject.name, subject.namespace
    ))
}

/// What keeps a Namespace that is being deleted.
fn held(scene: &Scene, subject: &Key) -> Option<String> {
    let namespace = scene.index.namespace(&subject.namespace)?;
    namespace.held_by().map(str::to_owned)
}

fn own_pod(scene: &Scene, observed: &Observed) -> Option<OwnPod> {
    observed.own_pod()?;
    let name = pod_name(&observed.subject);
    let pod = scene.index.pod(&observed.subject.sibling(&name))?;
    Some(OwnPod {
        name,
        phase: format!("{:?}", pod.phase()),
        node: pod.node().map(ToString::to_string),
    })
}

/// Our own, KubeVirt's, and a foreign consumer.
fn pods(scene: &Scene, observed: &Observed) -> Vec<(String, String)> {
    let subject = &observed.subject;
    let own = observed.own_pod().map(|_| subject.sibling(&pod_name(subject)));
    let foreign = observed.foreign_consumer.as_ref().map(|pod| subject.sibling(&pod.name));
    let launchers = scene
        .index
        .launchers(subject)
        .filter(|pod| pod.live())
        .map(|pod| pod.meta().key());
    let mut keys: Vec<Key> = own.into_iter().chain(launchers).chain(foreign).collect();
    keys.dedup();
    let pods = keys.iter().filter_map(|key| scene.index.pod(key));
    pods.map(|pod| (pod.meta().name.to_string(), of_pod(pod))).collect()
}

fn of_pod(pod: &Pod) -> String {
    let phase = format!("{:?}", pod.phase());
    match (pod.scheduled(), pod.node()) {
        (_, Some(node)) => format!("{phase} on {node}"),
        (Scheduled::Unschedulable(words), None) => format!("{phase}, no node fits: {words}"),
        (Scheduled::Gated(gates), None) => format!("{phase}, a scheduling gate holds it: {gates}"),
        (Scheduled::Silent, None) => format!("{phase}, no word from {} yet", pod.scheduler()),
        (Scheduled::Yes, None) => phase,
    }
}

fn of_disk(disk: &Disk, diagnosis: &Diagnosis) -> DiskAccount {
    let claim = disk.claim.as_ref();
    let filled = claim.is_some_and(|claim| claim.data_volume.is_some());
    let mut findings = diagnosis.findings.iter();
    let finding = findings.find(|finding| finding.disk == disk.name);
    DiskAccount {
        volume: disk.volume.to_string(),
        claim: disk.name.to_string(),
        data_volume: disk.data_volume.map(|_| disk.name.to_string()),
        data_volume_phase: disk.data_volume.map(DataVolumePhase::name),
        claim_phase: claim.map(|claim| format!("{:?}", claim.phase)),
        selected_node: claim
            .and_then(|claim| claim.selected_node.as_ref())
            .map(ToString::to_string),
        path: match claim.filter(|_| filled).map(|claim| claim.path) {
            None => "None",
            Some(Path::Legacy) => "Legacy",
            Some(Path::Populator) => "Populator",
        },
        needs: claim.is_some_and(|claim| claim.needs),
        placed: claim.is_some_and(|claim| claim.placed),
        message: finding.map_or_else(|| waits_for(disk), Finding::message),
    }
}

/// What a disk waits for, if nothing is wrong with it.
fn waits_for(disk: &Disk) -> String {
    let Some(claim) = &disk.claim else {
        return "has no claim yet".into();
    };
    let place = claim
        .selected_node
        .as_ref()
        .map(|node| format!(" on {node}"))
        .unwrap_or_default();
    let done = matches!(disk.data_volume, None | Some(DataVolumePhase::Succeeded));
    match claim.phase {
        ClaimPhase::Lost => "has lost its volume".into(),
        ClaimPhase::Bound if done => format!("is there{place}"),
        ClaimPhase::Bound => format!("is bound{place} and not filled yet"),
        ClaimPhase::Pending if claim.needs => "waits for its first consumer".into(),
        ClaimPhase::Pending if claim.placed => format!("is being made{place}"),
        ClaimPhase::Pending if claim.late && claim.data_volume.is_none() => "is placed with the others".into(),
        ClaimPhase::Pending => "waits to be bound by somebody else".into(),
    }
}
