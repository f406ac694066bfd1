//! Steps of users and administrators.

use super::models::{May, Model};
use super::objects::{Dv, Id, Kind, Pod, Role, Size, Vm};
use super::state::State;
use super::step::{Cost, Steps};
use crate::world::objects::{DvPhase, PodPhase};
use crate::world::user::{self, ToDisk, ToVm};
use crate::world::virt_controller::vm::RunStrategy;

/// A new VM.
pub fn new_vm(id: Id, strategy: RunStrategy, asks: Option<bool>) -> Vm {
    Vm {
        id,
        strategy,
        asks,
        edited: false,
        revision: None,
        deleting: false,
    }
}

/// A new DataVolume, before CDI has seen it.
pub fn new_disk(id: Id) -> Dv {
    Dv {
        id,
        populator: None,
        phase: DvPhase::Unset,
    }
}

/// What people may do now.
pub fn steps(model: &Model, steps: &mut Steps) {
    let state = steps.state;
    for disk in 0..state.dvs.len() {
        if state.awaited >> disk & 1 == 1 {
            let id = Some(Id::new(Kind::Dv, disk, 0));
            steps.did(Cost::Free, "a user creates the late {}", id, |state| {
                state.awaited &= !(1 << disk);
                create_disk(state, disk);
            });
        }
    }
    for vm in 0..state.vms.len() {
        to_vm(model.may, steps, vm);
    }
    // Later edits concern no VM: its revision is stored.
    let unstored = state.vms.iter().flatten().find(|vm| vm.revision.is_none());
    if let Some(vm) = unstored.filter(|_| model.instancetype && model.may.resize) {
        let what = "an administrator edits the instancetype of {}";
        steps.did(Cost::Disturbs, what, Some(vm.id), |state| {
            state.size = match state.size {
                Size::Small => Size::Large,
                Size::Large => Size::Small,
            };
        });
    }
    for disk in (0..state.dvs.len()).filter(|_| model.may.swap_disks) {
        to_disk(steps, disk);
    }
    let ours = |pod: &&Pod| matches!(pod.role, Role::Own { .. });
    for pod in state.pods.iter().filter(ours) {
        let id = pod.id;
        let fail = |state: &mut State| {
            let pods = state.pods.iter_mut().filter(|pod| pod.id == id);
            pods.for_each(|pod| pod.phase = PodPhase::Failed);
        };
        if model.may.take_pods {
            steps.did(Cost::Disturbs, "somebody deletes {}", Some(id), |state| {
                state.pods.retain(|pod| pod.id != id);
            });
            if !pod.phase.is_final() {
                steps.did(Cost::Disturbs, "a node shuts down or evicts: {} fails", Some(id), fail);
            }
        }
        if model.frail && !pod.phase.is_final() && pod.node.is_none() {
            steps.did(Cost::Free, "{} fails", Some(id), fail);
        }
    }
}

fn to_vm(may: May, steps: &mut Steps, slot: usize) {
    let vm = steps.state.vms[slot];
    let seen = vm.map(|vm| user::Vm {
        strategy: vm.strategy,
        asks: vm.asks,
        deleting: vm.deleting,
    });
    let on = Some(vm.map_or(Id::new(Kind::Vm, slot, 0), |vm| vm.id));
    let acts = user::to_vm(seen).into_iter().filter(|act| match act {
        ToVm::Run(_) => may.run,
        ToVm::Ask(_) | ToVm::EditPlacement => may.edit,
        ToVm::Delete | ToVm::Recreate => may.recreate,
    });
    for act in acts {
        let (cost, what) = match act {
            ToVm::Run(RunStrategy::Halted) => (Cost::Disturbs, "a user stops {}"),
            ToVm::Run(_) => (Cost::Disturbs, "a user starts {}"),
            ToVm::Ask(Some(true)) => (Cost::Disturbs, "a user opts {} in"),
            ToVm::Ask(Some(false)) => (Cost::Disturbs, "a user opts {} out"),
            ToVm::Ask(None) => (Cost::Disturbs, "a user removes the opt-in annotation of {}"),
            ToVm::EditPlacement => (Cost::Disturbs, "a user edits the node selector of {}"),
            ToVm::Delete => (Cost::Disturbs, "a user deletes {}"),
            ToVm::Recreate => (Cost::Optional, "a user creates {} again"),
        };
        steps.did(cost, what, on, |state| {
            if act == ToVm::Recreate {
                let id = state.fresh(Kind::Vm, slot);
                state.vms[slot] = Some(new_vm(id, RunStrategy::Halted, Some(true)));
            }
            let Some(vm) = &mut state.vms[slot] else { return };
            match act {
                ToVm::Run(strategy) => vm.strategy = strategy,
                ToVm::Ask(asks) => vm.asks = asks,
                ToVm::EditPlacement => vm.edited = !vm.edited,
                ToVm::Delete => vm.deleting = true,
                ToVm::Recreate => {}
            }
        });
    }
}

fn to_disk(steps: &mut Steps, disk: usize) {
    let state = steps.state;
    let claim = state.claims[2 * disk].as_ref().filter(|claim| !claim.deleting);
    let dv = state.dvs[disk].as_ref().map(|dv| dv.id);
    for act in user::to_disk(dv.is_some(), claim.is_some()) {
        let on = Some(dv.unwrap_or(Id::new(Kind::Dv, disk, 0)));
        match act {
            ToDisk::Create if state.awaited >> disk & 1 == 1 => {}
            ToDisk::Create => steps.did(Cost::Optional, "a user creates {} again", on, |state| {
                create_disk(state, disk);
            }),
            // In the background: the garbage collector takes the claim later.
            ToDisk::Delete => steps.did(Cost::Disturbs, "a user deletes {}", on, |state| state.dvs[disk] = None),
            ToDisk::DeleteClaim => steps.did(Cost::Disturbs, "a user deletes the claim of {}", on, |state| {
                if let Some(claim) = &mut state.claims[2 * disk] {
                    claim.deleting = true;
                }
            }),
        }
    }
}

fn create_disk(state: &mut State, disk: usize) {
    let id = state.fresh(Kind::Dv, disk);
    state.dvs[disk] = Some(new_disk(id));
}
