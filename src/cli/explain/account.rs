//! All that is to be said of one subject, in the shape of `-o json`.

use k8s_openapi::jiff::Timestamp;
use serde::Serialize;

use super::Scene;
use super::cause::cause;
use super::decided::{Decided, decided};
use super::filling::waits_for;
use crate::api::{CdiConfig, DataVolumePhase, Pod, Scheduled, View as _, VirtualMachineInstance, VmiPhase};
use crate::claim::Path;
use crate::diagnose::{Diagnosis, Finding, diagnose};
use crate::lifecycle::State;
use crate::name::{Key, pod_name};
use crate::observe::{Disk, Observed};
use crate::pod::Owner;

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
        let decided = decided(scene, subject, now);
        let diagnosis = diagnose(&scene.index, &decided.observed, &scene.evidence, None, now);
        let cause = cause(scene, subject, &decided, &diagnosis);
        let Decided { observed, decision, .. } = decided;
        let owner = observed.owner.as_ref();
        Self {
            namespace: subject.namespace.to_string(),
            name: subject.name.to_string(),
            kind: owner.map_or(VirtualMachineInstance::KIND, |owner| owner.kind),
            word: owner.map_or("vmi", Owner::word),
            state: format!("{:?}", observed.state),
            shown_state: shown_state(scene, subject, observed.state),
            action: format!("{:?}", decision.action),
            reason: decision.reason.name(),
            message: cause.message,
            next: cause.next,
            pod: own_pod(scene, &observed),
            disks: observed
                .disks
                .iter()
                .map(|disk| of_disk(scene, &observed, disk, &diagnosis))
                .collect(),
            cause: cause.name,
            fine: cause.fine,
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
    let phase = pod.outcome();
    if !pod.live() || pod.node().is_some() {
        return phase;
    }
    match pod.scheduled() {
        Scheduled::Unschedulable(words) => format!("{phase}, no node fits: {words}"),
        Scheduled::Gated(gates) => format!("{phase}, a scheduling gate holds it: {gates}"),
        Scheduled::Silent => format!("{phase}, no word from {} yet", pod.scheduler()),
        Scheduled::Yes => phase,
    }
}

fn of_disk(scene: &Scene, observed: &Observed, disk: &Disk, diagnosis: &Diagnosis) -> DiskAccount {
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
        message: finding.map_or_else(|| waits_for(&scene.index, observed, disk), Finding::message),
    }
}
