//! The VMI controller: launcher, temporary launcher, what becomes of them (KubeVirt reference A.2 to A.8).

use super::{Disk, Disks, Vmi, VmiPhase, VmiStatus, Volume, current};
use crate::world::objects::{DvPhase, Note, Pod, PodPhase};
use std::collections::BTreeMap;

/// One VMI and what virt-controller reads for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct View {
    /// The VMI.
    pub vmi: Vmi,
    /// Disks under the names of its volumes.
    pub disks: Disks,
    /// Pods with the label `kubevirt.io` that the VMI controls.
    pub pods: Vec<Pod>,
}

/// One write of the VMI controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Write {
    /// A launcher pod with a generated name; then the event `SuccessfulCreate` on the VMI, which names it.
    CreateLauncher {
        /// The throw-away copy that only binds claims.
        temporary: bool,
    },
    /// A pod of the VMI, grace period 0.
    DeletePod {
        /// Name.
        name: String,
        /// Precondition.
        uid: String,
    },
    /// The VMI's status (no status subresource: an update of the whole object).
    SetStatus(VmiStatus),
    /// An event on the VMI.
    Event(Note),
}

/// What `areDataVolumesReady` says of all boot volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    /// A claim does not exist.
    Missing,
    /// Ready or not; and whether some DataVolume waits for a first consumer.
    Known { ready: bool, waiting: bool },
}

/// One reconcile: `sync`, then `updateStatus`.
#[must_use]
pub fn next(view: &View) -> Vec<Write> {
    let vmi = &view.vmi;
    if vmi.deleting {
        return view.pods.iter().filter(|pod| !pod.deleting).map(delete).collect();
    }
    let readiness = readiness(&vmi.volumes, &view.disks);
    let mut writes = sync(view, readiness);
    let launched = writes.contains(&Write::CreateLauncher { temporary: false });
    let status = status(view, readiness, launched);
    if status != vmi.status {
        writes.push(Write::SetStatus(status));
    }
    writes
}

fn sync(view: &View, readiness: Readiness) -> Vec<Write> {
    let vmi = &view.vmi;
    if vmi.status.phase.is_final() {
        return Vec::new();
    }
    let Readiness::Known { ready, waiting } = readiness else {
        let missing = vmi
            .volumes
            .iter()
            .find(|volume| !view.disks.get(&volume.claim).is_some_and(|disk| disk.claim));
        let name = missing.map_or("", |volume| volume.claim.as_str());
        let text = format!("PVC {name} does not exist, waiting for it to appear");
        // Said once: the condition remembers it.
        let said = vmi.status.claim_missing;
        return if said {
            Vec::new()
        } else {
            vec![Write::Event(Note::normal("FailedPvcNotFound", text))]
        };
    };
    if current(&view.pods).is_some() {
        return if waiting { Vec::new() } else { clean_up(&view.pods) };
    }
    let unprocessed = matches!(vmi.status.phase, VmiPhase::Unset | VmiPhase::Pending);
    if unprocessed && ready {
        vec![Write::CreateLauncher { temporary: waiting }]
    } else {
        Vec::new()
    }
}

/// \[`lifecycle.go`: cleanupWaitForFirstConsumerTemporaryPods\]: a Pending one is not deleted, but announced each time.
fn clean_up(pods: &[Pod]) -> Vec<Write> {
    let mut writes = Vec::new();
    for pod in pods.iter().filter(|pod| pod.temporary) {
        if matches!(pod.phase, PodPhase::Running | PodPhase::Succeeded | PodPhase::Failed) && !pod.deleting {
            writes.push(delete(pod));
        }
        let text = format!("Deleted WaitForFirstConsumer temporary pod {}", pod.name);
        writes.push(Write::Event(Note::normal("SuccessfulDelete", text)));
    }
    writes
}

fn delete(pod: &Pod) -> Write {
    Write::DeletePod {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
    }
}

/// \[`datavolumes.go`: areDataVolumesReady\]: ready is the AND of (ready or waiting), waiting is the OR.
fn readiness(volumes: &[Volume], disks: &Disks) -> Readiness {
    let (mut all_ready, mut waiting) = (true, false);
    for volume in volumes {
        let Some(disk) = disks.get(&volume.claim).filter(|disk| disk.claim) else {
            return Readiness::Missing;
        };
        let waits = waits(*disk);
        let ready = !disk.owned || matches!(disk.phase, Some(DvPhase::Succeeded | DvPhase::PendingPopulation));
        all_ready &= ready || waits;
        waiting |= waits;
    }
    Readiness::Known {
        ready: all_ready,
        waiting,
    }
}

fn waits(disk: Disk) -> bool {
    disk.owned && disk.phase == Some(DvPhase::WaitForFirstConsumer)
}

/// \[`lifecycle.go`: updateStatus\], first match wins (KubeVirt reference A.8).
fn status(view: &View, readiness: Readiness, launched: bool) -> VmiStatus {
    let old = &view.vmi.status;
    let pod = current(&view.pods);
    let waiting = view
        .vmi
        .volumes
        .iter()
        .any(|volume| view.disks.get(&volume.claim).copied().is_some_and(waits));
    let phase = phase(view, pod, waiting, launched);
    let unprocessed = matches!(phase, VmiPhase::Unset | VmiPhase::Pending);
    let node = match phase {
        VmiPhase::Scheduled | VmiPhase::Running => pod.and_then(|pod| pod.node.clone()).or_else(|| old.node.clone()),
        _ => old.node.clone(),
    };
    VmiStatus {
        phase,
        node,
        active: view
            .pods
            .iter()
            .map(|pod| (pod.uid.clone(), pod.node.clone().unwrap_or_default()))
            .collect::<BTreeMap<_, _>>(),
        provisioning: phase != VmiPhase::Scheduling && (old.provisioning || (unprocessed && waiting)),
        unschedulable: unschedulable(old, pod, unprocessed, waiting),
        claim_missing: readiness == Readiness::Missing,
    }
}

/// Copied from a temporary pod only while a DataVolume waits, and never refreshed; from the launcher always.
fn unschedulable(old: &VmiStatus, pod: Option<&Pod>, unprocessed: bool, waiting: bool) -> Option<String> {
    let fresh = pod.and_then(|pod| pod.unschedulable.clone());
    if unprocessed && pod.is_some_and(|pod| pod.temporary) {
        return if waiting {
            fresh.map(|text| old.unschedulable.clone().unwrap_or(text))
        } else {
            old.unschedulable.clone()
        };
    }
    fresh
}

fn phase(view: &View, pod: Option<&Pod>, waiting: bool, launching: bool) -> VmiPhase {
    let launcher = pod.filter(|pod| !pod.temporary);
    match view.vmi.status.phase {
        VmiPhase::Unset | VmiPhase::Pending => {
            let failed = view.vmi.volumes.iter().any(|volume| {
                view.disks
                    .get(&volume.claim)
                    .is_some_and(|disk| disk.phase == Some(DvPhase::Failed))
            });
            let broken = pod.is_some_and(|pod| pod.temporary && (pod.phase == PodPhase::Failed || pod.deleting));
            match (launching || launcher.is_some(), failed || (waiting && broken)) {
                (true, _) => VmiPhase::Scheduling,
                (false, true) => VmiPhase::Failed,
                (false, false) => VmiPhase::Pending,
            }
        }
        VmiPhase::Scheduling => match launcher {
            Some(pod) if pod.phase == PodPhase::Running && pod.ready => VmiPhase::Scheduled,
            Some(pod) if !pod.phase.is_final() => VmiPhase::Scheduling,
            _ => VmiPhase::Failed,
        },
        // virt-handler's part: the guest is up.
        VmiPhase::Scheduled | VmiPhase::Running => match launcher.map(|pod| pod.phase) {
            Some(PodPhase::Succeeded) => VmiPhase::Succeeded,
            None | Some(PodPhase::Failed) => VmiPhase::Failed,
            Some(_) => VmiPhase::Running,
        },
        done => done,
    }
}

#[cfg(test)]
#[path = "vmi_tests.rs"]
mod tests;
