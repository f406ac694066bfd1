//! Run strategy and VMI to state: whether a VM is halted, about to start, or beyond our help (design section 4).

use crate::api::{RunStrategy, View as _, VirtualMachine, VirtualMachineInstance, VmiPhase};

/// Where in its life a subject is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// No VMI or a final one, and virt-controller will not make another.
    Halted,
    /// Virt-controller will make a VMI.
    Starting,
    /// A VMI waits for its disks or its launcher.
    Pending,
    /// KubeVirt runs it, or has begun to.
    Running,
    /// A VMI without a VM has ended.
    Final,
    /// The VM or the VMI is being deleted.
    Deleting,
    /// A run strategy that we do not know, or neither VM nor VMI.
    Unknown,
}

/// The state of a subject.
#[must_use]
pub fn state(vm: Option<&VirtualMachine>, vmi: Option<&VirtualMachineInstance>) -> State {
    if vm.is_some_and(|vm| vm.meta().terminating()) || vmi.is_some_and(|vmi| vmi.meta().terminating()) {
        return State::Deleting;
    }
    let ended = match vmi.map(VirtualMachineInstance::phase) {
        Some(VmiPhase::Unset | VmiPhase::Pending) => return State::Pending,
        Some(
            VmiPhase::Scheduling
            | VmiPhase::Scheduled
            | VmiPhase::Running
            | VmiPhase::WaitingForSync
            | VmiPhase::Unknown,
        ) => return State::Running,
        Some(VmiPhase::Succeeded) => Some(Ended::Well),
        Some(VmiPhase::Failed) => Some(Ended::Badly),
        None => None,
    };
    match (vm, ended) {
        (Some(vm), ended) => match starts(vm, ended) {
            Some(true) => State::Starting,
            Some(false) => State::Halted,
            None => State::Unknown,
        },
        (None, Some(_)) => State::Final,
        (None, None) => State::Unknown,
    }
}

/// How the last VMI of a VM has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Well,
    Badly,
}

/// Whether virt-controller will make a VMI (KubeVirt `watch/vm/vm.go`: `syncRunStrategy`). `None` if we can't know.
fn starts(vm: &VirtualMachine, ended: Option<Ended>) -> Option<bool> {
    match vm.run_strategy() {
        RunStrategy::Always => Some(true),
        RunStrategy::Halted => Some(false),
        RunStrategy::Manual => Some(vm.start_requested()),
        RunStrategy::Once | RunStrategy::WaitAsReceiver => Some(ended.is_none()),
        // Once more after a failure, on request, and when the strategy has just been chosen.
        RunStrategy::RerunOnFailure => {
            let just_chosen = vm.observed_run_strategy() != Some(RunStrategy::RerunOnFailure);
            Some(ended == Some(Ended::Badly) || vm.start_requested() || (ended.is_none() && just_chosen))
        }
        RunStrategy::Unknown => None,
    }
}
