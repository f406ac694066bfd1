//! virt-controller.

use super::{new_pod, pod_view};
use crate::explore::memo::input;
use crate::explore::models::Model;
use crate::explore::objects::{Id, Kind, Role, Vm, Vmi};
use crate::explore::render;
use crate::explore::state::State;
use crate::explore::step::{Cost, Steps, System, launches};
use crate::world::objects::ClaimPhase;
use crate::world::virt_controller::{self as virt, VmiPhase, vm as vm_controller, vmi as vmi_controller};
use std::rc::Rc;

/// What virt-controller sees of a VM's disks and VMI.
struct View {
    disks: virt::Disks,
    boot: Vec<virt::Volume>,
    vmi: Option<virt::Vmi>,
}

fn view(model: &Model, state: &State, slot: usize) -> View {
    let disks: virt::Disks = model.vms[slot]
        .iter()
        .map(|disk| {
            let claim = state.claims[2 * disk].as_ref();
            let seen = virt::Disk {
                claim: claim.is_some(),
                bound: claim.is_some_and(|claim| claim.phase == ClaimPhase::Bound),
                owned: claim.is_some(),
                phase: state.dvs[*disk].as_ref().map(|dv| dv.phase),
            };
            (render::disk_name(*disk), seen)
        })
        .collect();
    let boot: Vec<_> = disks
        .keys()
        .map(|claim| virt::Volume {
            claim: claim.clone(),
            data_volume: true,
        })
        .collect();
    let vmi = state.vmis[slot].map(|vmi| virt::Vmi {
        name: render::vm_name(slot),
        uid: vmi.id.uid(),
        volumes: boot.clone(),
        deleting: vmi.deleting,
        status: virt::VmiStatus {
            phase: vmi.phase,
            ..virt::VmiStatus::default()
        },
        ..virt::Vmi::default()
    });
    View { disks, boot, vmi }
}

pub fn virt_controller(system: &System, steps: &mut Steps, slot: usize) {
    let state = steps.state;
    let (vm, vmi) = (state.vms[slot], state.vmis[slot]);
    let looks_at = [
        state.vms.outline(),
        state.vmis.outline(),
        state.dvs.outline(),
        state.claims.outline(),
        state.pods.outline(),
    ];
    let who = u8::try_from(slot).unwrap_or(u8::MAX);
    // A VMI of an earlier VM of this name is still going.
    if let Some(vm) = vm.filter(|vm| vmi.is_none_or(|vmi| vmi.owner == vm.id)) {
        let writes = system.habits.vm.get(input(0, who, &looks_at[..4]), || {
            let View { disks, boot, vmi } = view(system.model, state, slot);
            Rc::new(vm_controller::next(&vm_view(vm, vmi, disks, boot), 0))
        });
        vm_steps(system.model, steps, vm, &writes);
    }
    if let Some(of) = vmi {
        let writes = system.habits.vmi.get(input(0, who, &looks_at[1..]), || {
            let View { disks, vmi, .. } = view(system.model, state, slot);
            let pods = state.pods.iter().filter(|pod| launches(pod.role, of.id));
            let pods = pods.map(pod_view).collect();
            let next = |vmi| vmi_controller::next(&vmi_controller::View { vmi, disks, pods });
            Rc::new(vmi.map_or_else(Vec::new, next))
        });
        vmi_steps(system.model, steps, of, &writes);
    }
}

fn vm_view(vm: Vm, vmi: Option<virt::Vmi>, disks: virt::Disks, volumes: Vec<virt::Volume>) -> vm_controller::View {
    vm_controller::View {
        vm: vm_controller::Vm {
            name: render::vm_name(vm.id.index()),
            uid: vm.id.uid(),
            strategy: vm.strategy,
            volumes,
            deleting: vm.deleting,
            status: vm_controller::VmStatus {
                strategy: Some(vm.strategy),
                ..vm_controller::VmStatus::default()
            },
            ..vm_controller::Vm::default()
        },
        vmi,
        disks,
    }
}

fn vm_steps(model: &Model, steps: &mut Steps, vm: Vm, writes: &[vm_controller::Write]) {
    let slot = vm.id.index();
    if model.instancetype && vm.revision.is_none() && !vm.deleting {
        let what = "virt-controller stores the revision of the instancetype of {}";
        steps.did(Cost::Free, what, Some(vm.id), |state| {
            let size = state.size;
            state.vms[slot].iter_mut().for_each(|vm| vm.revision = Some(size));
        });
    }
    for write in writes {
        match write {
            vm_controller::Write::CreateVmi => {
                steps.did(
                    Cost::Free,
                    "virt-controller creates the VMI of {}",
                    Some(vm.id),
                    |state| {
                        let id = state.fresh(Kind::Vmi, slot);
                        state.vmis[slot] = Some(Vmi {
                            id,
                            owner: vm.id,
                            // virt-api's webhook, with the defaults (KubeVirt reference B).
                            phase: VmiPhase::Pending,
                            edited: vm.edited,
                            size: model.instancetype.then(|| vm.revision.unwrap_or(state.size)),
                            deleting: false,
                            born: state.now,
                        });
                    },
                );
            }
            vm_controller::Write::DeleteVmi { .. } => {
                steps.did(
                    Cost::Free,
                    "virt-controller deletes the VMI of {}",
                    Some(vm.id),
                    |state| {
                        state.vmis[slot].iter_mut().for_each(|vmi| vmi.deleting = true);
                    },
                );
            }
            _ => {}
        }
    }
}

fn vmi_steps(model: &Model, steps: &mut Steps, of: Vmi, writes: &[vmi_controller::Write]) {
    let slot = of.id.index();
    let mut phase = of.phase;
    let mut launcher = None;
    let mut deleted = Vec::new();
    for write in writes {
        match write {
            vmi_controller::Write::CreateLauncher { temporary } => launcher = Some(*temporary),
            vmi_controller::Write::DeletePod { uid, .. } => deleted.extend(Id::of(uid)),
            vmi_controller::Write::SetStatus(status) => phase = status.phase,
            vmi_controller::Write::Event(_) => {}
        }
    }
    if phase == of.phase && launcher.is_none() && deleted.is_empty() {
        return;
    }
    let what = match (launcher, deleted.is_empty()) {
        (Some(true), _) => "virt-controller creates a temporary pod for {}",
        (Some(false), _) => "virt-controller creates the launcher of {}",
        (None, false) => "virt-controller deletes pods of {}",
        (None, true) => "virt-controller writes the phase of {}",
    };
    let claims = model.vms[slot].iter().fold(0, |bits, disk| bits | 1 << (2 * disk));
    steps.did(Cost::Free, what, Some(of.id), |state| {
        if let Some(temporary) = launcher {
            let role = Role::Launcher { vmi: of.id, temporary };
            new_pod(state, role, claims, None);
        }
        // Grace period 0.
        state.pods.retain(|pod| !deleted.contains(&pod.id));
        state.vmis[slot].iter_mut().for_each(|vmi| vmi.phase = phase);
    });
}
