//! virt-controller.

use super::{new_pod, pod_view};
use crate::explore::models::Model;
use crate::explore::objects::{Id, Kind, Role, Vmi};
use crate::explore::render;
use crate::explore::step::{Cost, Steps, launches};
use crate::world::objects::ClaimPhase;
use crate::world::virt_controller::{self as virt, VmiPhase, vm as vm_controller, vmi as vmi_controller};

pub fn virt_controller(model: &Model, steps: &mut Steps, slot: usize) {
    let state = steps.state;
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
    if let Some(vm) = state.vms[slot] {
        let controlled = vmi
            .clone()
            .filter(|_| state.vmis[slot].is_some_and(|vmi| vmi.owner == vm.id));
        // A VMI of an earlier VM of this name is still going.
        if controlled.is_some() || vmi.is_none() {
            vm_steps(steps, slot, controlled, &disks, boot);
        }
    }
    if let (Some(vmi), Some(of)) = (vmi, state.vmis[slot]) {
        let pods = state
            .pods
            .iter()
            .filter(|pod| launches(pod.role, of.id))
            .map(pod_view)
            .collect();
        vmi_steps(model, steps, of, &vmi_controller::View { vmi, disks, pods });
    }
}

fn vm_steps(steps: &mut Steps, slot: usize, vmi: Option<virt::Vmi>, disks: &virt::Disks, volumes: Vec<virt::Volume>) {
    let Some(vm) = steps.state.vms[slot] else { return };
    let view = vm_controller::View {
        vm: vm_controller::Vm {
            name: render::vm_name(slot),
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
        disks: disks.clone(),
    };
    for write in vm_controller::next(&view, 0) {
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

fn vmi_steps(model: &Model, steps: &mut Steps, of: Vmi, view: &vmi_controller::View) {
    let writes = vmi_controller::next(view);
    let slot = of.id.index();
    let mut phase = of.phase;
    let mut launcher = None;
    let mut deleted = Vec::new();
    for write in writes {
        match write {
            vmi_controller::Write::CreateLauncher { temporary } => launcher = Some(temporary),
            vmi_controller::Write::DeletePod { uid, .. } => deleted.extend(Id::of(&uid)),
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
