//! The VM controller: DataVolumes from templates, VMI by run strategy, printable status (KubeVirt reference A.9, A.10).

use super::{Disks, Vmi, VmiPhase, Volume};
use crate::world::{
    Millis,
    objects::{DvPhase, Note},
};

/// `spec.runStrategy`, or what `spec.running` stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunStrategy {
    /// No VMI.
    #[default]
    Halted,
    /// Always a VMI.
    Always,
    /// A VMI on request.
    Manual,
    /// A VMI until it succeeds.
    RerunOnFailure,
    /// One VMI, never replaced.
    Once,
}

impl RunStrategy {
    const ALL: [(Self, &str); 5] = [
        (Self::Halted, "Halted"),
        (Self::Always, "Always"),
        (Self::Manual, "Manual"),
        (Self::RerunOnFailure, "RerunOnFailure"),
        (Self::Once, "Once"),
    ];

    /// The API's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(strategy, _)| *strategy == self)
            .map_or("Halted", |(_, text)| text)
    }

    /// The strategy for the API's word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, known)| *known == text)
            .map(|(strategy, _)| *strategy)
    }
}

/// A VirtualMachine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Vm {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Run strategy.
    pub strategy: RunStrategy,
    /// Names of `spec.dataVolumeTemplates`, in order.
    pub templates: Vec<String>,
    /// Annotation `kubevirt.io/immediate-data-volume-creation` is `"false"`.
    pub disks_at_start: bool,
    /// Boot volumes of the template.
    pub volumes: Vec<Volume>,
    /// `status.stateChangeRequests` asks for a start.
    pub start_asked: bool,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// `status`.
    pub status: VmStatus,
}

/// The part of a VM's status that rules read or write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VmStatus {
    /// `printableStatus`.
    pub printable: String,
    /// `created`: a VMI exists.
    pub created: bool,
    /// `ready`: it runs.
    pub ready: bool,
    /// `runStrategy`: what was acted on last.
    pub strategy: Option<RunStrategy>,
    /// `startFailure.consecutiveFailCount`.
    pub failures: u32,
    /// `startFailure.retryAfterTimestamp`.
    pub retry_at: Option<Millis>,
}

/// One VM and what virt-controller reads for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct View {
    /// The VM.
    pub vm: Vm,
    /// The VMI of its name that it controls.
    pub vmi: Option<Vmi>,
    /// Disks under the names of its volumes and templates.
    pub disks: Disks,
}

/// One write of the VM controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Write {
    /// A DataVolume from the template of this name.
    CreateDataVolume {
        /// The template's name.
        name: String,
    },
    /// The VMI from the VM's template.
    CreateVmi,
    /// The VMI.
    DeleteVmi {
        /// Precondition.
        uid: String,
    },
    /// The VM's status; `start_asked` is dropped with it.
    SetStatus(VmStatus),
    /// An event on the VM.
    Event(Note),
}

/// One reconcile.
#[must_use]
pub fn next(view: &View, now: Millis) -> Vec<Write> {
    let vm = &view.vm;
    let mut writes = Vec::new();
    let mut status = VmStatus {
        strategy: Some(vm.strategy),
        ..vm.status.clone()
    };
    if !vm.deleting {
        let starting = view.vmi.is_none() && wants_start(vm);
        if !vm.disks_at_start || starting {
            writes.extend(create_disks(view));
        }
        if vm.strategy == RunStrategy::Halted || disks_ready(view) {
            writes.extend(run(view, &mut status, now));
        }
    }
    status.created = view.vmi.is_some();
    status.ready = view
        .vmi
        .as_ref()
        .is_some_and(|vmi| vmi.status.phase == VmiPhase::Running);
    if status.ready {
        (status.failures, status.retry_at) = (0, None);
    }
    printable(view, &status).clone_into(&mut status.printable);
    if status != vm.status || (vm.start_asked && writes.contains(&Write::CreateVmi)) {
        writes.push(Write::SetStatus(status));
    }
    writes
}

/// When a VM that waits for its start back-off wants to be looked at again.
#[must_use]
pub fn wake_at(view: &View, now: Millis) -> Option<Millis> {
    view.vm.status.retry_at.filter(|at| *at > now && view.vmi.is_none())
}

fn create_disks(view: &View) -> Vec<Write> {
    let missing = view
        .vm
        .templates
        .iter()
        .filter(|name| view.disks.get(*name).is_none_or(|disk| disk.phase.is_none()));
    missing
        .flat_map(|name| {
            let note = Note::normal("SuccessfulDataVolumeCreate", format!("Created DataVolume {name}"));
            [Write::CreateDataVolume { name: name.clone() }, Write::Event(note)]
        })
        .collect()
}

/// \[`vm.go`: handleDataVolumes\]: only DataVolumes from templates count.
fn disks_ready(view: &View) -> bool {
    view.vm.templates.iter().all(|name| {
        matches!(
            view.disks.get(name).and_then(|disk| disk.phase),
            Some(DvPhase::Succeeded | DvPhase::WaitForFirstConsumer | DvPhase::PendingPopulation)
        )
    })
}

fn wants_start(vm: &Vm) -> bool {
    match vm.strategy {
        RunStrategy::Halted => false,
        RunStrategy::Always | RunStrategy::Once => true,
        RunStrategy::Manual => vm.start_asked,
        RunStrategy::RerunOnFailure => vm.start_asked || vm.status.strategy != Some(vm.strategy),
    }
}

/// \[`vm.go`: syncRunStrategy\]
fn run(view: &View, status: &mut VmStatus, now: Millis) -> Vec<Write> {
    let vm = &view.vm;
    let Some(vmi) = &view.vmi else {
        // A VMI that is to be made again after a failure waits for the back-off, whatever asked for it.
        let again = vm.strategy == RunStrategy::RerunOnFailure && status.failures > 0;
        if !(wants_start(vm) || again) || status.retry_at.is_some_and(|at| at > now) {
            return Vec::new();
        }
        let text = format!(
            "Started the virtual machine by creating the new virtual machine instance {}",
            vm.name
        );
        return vec![Write::CreateVmi, Write::Event(Note::normal("SuccessfulCreate", text))];
    };
    let failed = vmi.status.phase == VmiPhase::Failed;
    let delete = !vmi.deleting
        && match vm.strategy {
            RunStrategy::Halted => true,
            RunStrategy::Always => vmi.status.phase.is_final(),
            RunStrategy::RerunOnFailure => failed,
            RunStrategy::Manual | RunStrategy::Once => false,
        };
    if !delete {
        return Vec::new();
    }
    if failed && vm.strategy != RunStrategy::Halted {
        status.failures += 1;
        status.retry_at = Some(now + start_delay(status.failures));
    }
    let text = format!(
        "Stopped the virtual machine by deleting the virtual machine instance {}",
        vmi.name
    );
    vec![
        Write::DeleteVmi { uid: vmi.uid.clone() },
        Write::Event(Note::normal("SuccessfulDelete", text)),
    ]
}

/// \[`vm.go`: calculateStartBackoffTime\]: 10 s times failures squared, at most 300 s (the random part is left out).
fn start_delay(failures: u32) -> Millis {
    let failures = Millis::from(failures.min(10));
    (10_000 * failures * failures).min(300_000)
}

/// \[`vm.go`: setPrintableStatus\], first match wins.
fn printable(view: &View, status: &VmStatus) -> &'static str {
    let vm = &view.vm;
    let vmi = view.vmi.as_ref();
    let phase = vmi.map_or(VmiPhase::Unset, |vmi| vmi.status.phase);
    let live = vmi.filter(|_| !phase.is_final());
    let dv = |volume: &Volume| {
        view.disks
            .get(&volume.claim)
            .filter(|_| volume.data_volume)
            .and_then(|disk| disk.phase)
    };
    let bound = |volume: &Volume| view.disks.get(&volume.claim).is_some_and(|disk| disk.bound);
    let provisioning = |volume: &Volume| {
        dv(volume).is_some_and(|phase| match phase {
            DvPhase::Succeeded | DvPhase::PendingPopulation => false,
            DvPhase::WaitForFirstConsumer => bound(volume),
            _ => true,
        })
    };
    let unbound = |volume: &Volume| {
        view.disks
            .get(&volume.claim)
            .is_some_and(|disk| disk.claim && !disk.bound)
    };
    let to_start = match vm.strategy {
        RunStrategy::Always => true,
        RunStrategy::Halted => false,
        RunStrategy::Once => vmi.is_none(),
        RunStrategy::Manual | RunStrategy::RerunOnFailure => vm.start_asked || vmi.is_some(),
    };
    if vm.deleting {
        "Terminating"
    } else if live.is_some_and(|vmi| vmi.deleting) {
        "Stopping"
    } else if phase == VmiPhase::Running {
        "Running"
    } else if live.is_some_and(|vmi| vmi.status.claim_missing) {
        "ErrorPvcNotFound"
    } else if vm.volumes.iter().any(|volume| dv(volume) == Some(DvPhase::Failed)) {
        "DataVolumeError"
    } else if live.is_some_and(|vmi| vmi.status.unschedulable.is_some()) {
        "ErrorUnschedulable"
    } else if vm.volumes.iter().any(provisioning) {
        "Provisioning"
    } else if to_start && vm.volumes.iter().any(unbound) {
        "WaitingForVolumeBinding"
    } else if live.is_some() {
        "Starting"
    } else if to_start && status.failures > 0 {
        "CrashLoopBackOff"
    } else {
        "Stopped"
    }
}

#[cfg(test)]
#[path = "vm_tests.rs"]
mod tests;
