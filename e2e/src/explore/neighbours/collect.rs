//! Garbage collector, finalizers, and the volumes of claims that are gone.

use super::cdi::cost_of_worker;
use super::{edit, exists};
use crate::explore::objects::{Claim, Role};
use crate::explore::step::{Cost, Steps, launches};
use crate::world::volumes;

/// Garbage collector, finalizers, and the volumes of claims that are gone.
pub fn collect(steps: &mut Steps) {
    let state = steps.state;
    for slot in 0..state.vms.len() {
        let (vm, vmi) = (state.vms[slot], state.vmis[slot]);
        if let Some(vmi) = vmi {
            let orphan = vm.is_none_or(|vm| vm.deleting || vm.id != vmi.owner);
            if !vmi.deleting && orphan {
                steps.did(Cost::Free, "{} follows its VM", Some(vmi.id), |state| {
                    state.vmis[slot].iter_mut().for_each(|vmi| vmi.deleting = true);
                });
            }
            if vmi.deleting && !state.pods.iter().any(|pod| launches(pod.role, vmi.id)) {
                steps.did(Cost::Free, "{} is gone", Some(vmi.id), |state| state.vmis[slot] = None);
            }
        } else if let Some(vm) = vm.filter(|vm| vm.deleting) {
            steps.did(Cost::Free, "{} is gone", Some(vm.id), |state| state.vms[slot] = None);
        }
    }
    for claim in state.claims.iter().flatten() {
        collect_claim(steps, claim);
    }
    for pod in state.pods.iter() {
        let orphan = match pod.role {
            Role::Own { .. } => pod.body.as_ref().is_some_and(|body| !exists(state, body.owner)),
            Role::Launcher { vmi, .. } => !exists(state, vmi),
            Role::Worker { claim } => !exists(state, claim),
            Role::Lookalike { .. } => false,
        };
        let cost = match pod.role {
            Role::Worker { claim } => cost_of_worker(claim),
            _ => Cost::Free,
        };
        let id = pod.id;
        if orphan {
            steps.did(cost, "the garbage collector removes {}", Some(id), |state| {
                state.pods.retain(|pod| pod.id != id);
            });
        }
    }
    for volume in state.volumes.iter() {
        if !exists(state, volume.claim) {
            let made_for = volume.made_for;
            // The prime that it was made for may still be looked at.
            let cost = if exists(state, made_for) {
                Cost::Free
            } else {
                Cost::Unseen
            };
            steps.did(cost, "the volume made for {} is reclaimed", Some(made_for), |state| {
                state.volumes.retain(|volume| volume.made_for != made_for);
            });
        }
    }
}

fn collect_claim(steps: &mut Steps, claim: &Claim) {
    let state = steps.state;
    let id = claim.id;
    if !claim.deleting && !exists(state, claim.owner) {
        steps.did(
            cost_of_worker(id),
            "the garbage collector deletes {}",
            Some(id),
            |state| {
                edit(state, id, |claim| claim.deleting = true);
            },
        );
    }
    let users = state.pods.iter().filter(|pod| pod.claims >> id.slot & 1 == 1);
    if claim.deleting && !volumes::held(users.map(|pod| (pod.node.is_some(), pod.phase.is_final()))) {
        steps.did(Cost::Free, "{} is gone", Some(id), |state| {
            state.claims[id.index()] = None;
        });
    }
}
