//! CDI's controllers.

use super::{edit, new_pod, pod_view};
use crate::explore::memo::input;
use crate::explore::models::Model;
use crate::explore::objects::{Claim, Id, Kind, Pod, Role};
use crate::explore::render;
use crate::explore::seen::visible;
use crate::explore::state::State;
use crate::explore::step::{Cost, Steps, System};
use crate::world::objects::{self, ClaimPhase, Owner, PodPhase};
use crate::world::{cdi, provisioner};
use std::rc::Rc;

/// A claim as CDI reads it.
fn claim_view(model: &Model, state: &State, claim: &Claim) -> objects::Claim {
    let prime = claim.id.slot % 2 == 1;
    let owner = Owner {
        kind: if prime { "PersistentVolumeClaim" } else { "DataVolume" }.into(),
        name: render::disk_name(claim.id.index() / 2),
        uid: claim.owner.uid(),
    };
    let volume = state
        .volumes
        .iter()
        .find(|volume| volume.made_for == claim.id || volume.claim == claim.id);
    objects::Claim {
        name: render::claim_name(claim.id, claim.owner),
        uid: claim.id.uid(),
        owner: Some(owner),
        phase: claim.phase,
        volume: volume
            .filter(|_| claim.phase != ClaimPhase::Pending)
            .map(|volume| provisioner::volume_name(&volume.made_for.uid())),
        node: claim.node.map(|node| node.to_string()),
        late: true,
        immediate: prime,
        populator: claim.populator,
        deleting: claim.deleting,
        source: (prime || !claim.populator).then(|| model.disks[claim.id.index() / 2].source),
        prime,
        worker_named: claim.worker_named,
        worker: (*claim.worker).clone(),
        knows_prime: claim.knows_prime,
        // Of an upload; nobody else ever looks at it.
        scratch: Some(ClaimPhase::Bound),
        ..objects::Claim::default()
    }
}

fn disk_view(model: &Model, state: &State, disk: usize) -> Option<cdi::Disk> {
    let dv = state.dvs[disk].as_ref()?;
    let target = state.claims[2 * disk].as_ref();
    let prime = state.claims[2 * disk + 1]
        .as_ref()
        .filter(|prime| target.is_some_and(|target| target.id == prime.owner));
    let made = prime.and_then(|prime| state.volumes.iter().find(|volume| volume.made_for == prime.id));
    Some(cdi::Disk {
        dv: cdi::Dv {
            name: render::disk_name(disk),
            uid: dv.id.uid(),
            source: model.disks[disk].source,
            populator: dv.populator,
            status: cdi::Status {
                phase: dv.phase,
                ..cdi::Status::default()
            },
            ..cdi::Dv::default()
        },
        csi: model.disks[disk].populator,
        late: true,
        claim: target.map(|claim| claim_view(model, state, claim)),
        prime: prime.map(|claim| claim_view(model, state, claim)),
        rebound: made.is_some_and(|volume| target.is_some_and(|target| target.id == volume.claim)),
        namespace: render::NAMESPACE.into(),
        ..cdi::Disk::default()
    })
}

/// A claim that is new.
pub fn new_claim(id: Id, owner: Id, populator: bool, node: Option<u8>) -> Claim {
    Claim {
        id,
        owner,
        phase: ClaimPhase::Pending,
        node,
        asked: false,
        deleting: false,
        populator,
        worker_named: false,
        worker: Rc::default(),
        knows_prime: false,
    }
}

/// What CDI looks at for a disk.
fn input_of_disk(who: u8, state: &State, disk: usize) -> u128 {
    let parts = [state.dvs.outline(), state.claims.outline(), state.volumes.outline()];
    input(who, u8::try_from(disk).unwrap_or(u8::MAX), &parts)
}

pub fn data_volume(system: &System, steps: &mut Steps, disk: usize) {
    let state = steps.state;
    let Some(dv) = &state.dvs[disk] else {
        return;
    };
    let mut new = dv.clone();
    let mut create = None;
    let writes = system.habits.cdi.get(input_of_disk(0, state, disk), || {
        let view = disk_view(system.model, state, disk);
        Rc::new(view.map_or_else(Vec::new, |view| cdi::data_volume::next(&view, cdi::Settings::default())))
    });
    for write in writes.iter() {
        match write {
            cdi::Write::MarkPath { populator } => new.populator = Some(*populator),
            cdi::Write::CreateClaim { populator, .. } => create = Some(*populator),
            // Conditions are read by nobody here.
            cdi::Write::SetStatus(status) => new.phase = status.phase,
            _ => {}
        }
    }
    if new == *dv && create.is_none() {
        return;
    }
    let what = if create.is_some() {
        "CDI creates the claim of {}"
    } else {
        "CDI writes the phase of {}"
    };
    let cost = if create.is_none() && visible(new.phase) == visible(dv.phase) {
        Cost::Unseen
    } else {
        Cost::Free
    };
    steps.did(cost, what, Some(dv.id), |state| {
        if let Some(populator) = create {
            let id = state.fresh(Kind::Claim, 2 * disk);
            state.claims[2 * disk] = Some(new_claim(id, new.id, populator, None));
        }
        state.dvs[disk] = Some(new);
    });
}

pub fn populator(system: &System, steps: &mut Steps, disk: usize) {
    let state = steps.state;
    let Some(target) = &state.claims[2 * disk] else {
        return;
    };
    // An earlier claim's prime has another name, but here the place of this one.
    let prime = state.claims[2 * disk + 1].as_ref();
    if prime.is_some_and(|prime| prime.owner != target.id) {
        return;
    }
    let (target, prime) = (target.id, prime.map(|prime| prime.id));
    let writes = system.habits.cdi.get(input_of_disk(1, state, disk), || {
        let view = disk_view(system.model, state, disk);
        Rc::new(view.map_or_else(Vec::new, |view| cdi::populator::next(&view)))
    });
    for write in writes.iter() {
        match write {
            cdi::Write::CreatePrime { node } => {
                steps.did(Cost::Free, "CDI creates the prime of {}", Some(target), |state| {
                    let id = state.fresh(Kind::Claim, 2 * disk + 1);
                    let node = node.as_ref().and_then(|node| node.parse().ok());
                    state.claims[2 * disk + 1] = Some(new_claim(id, target, false, node));
                });
            }
            cdi::Write::CopyWorker(worker) => {
                steps.did(
                    Cost::Unseen,
                    "CDI copies what is known of the worker to {}",
                    Some(target),
                    |state| {
                        if let Some(claim) = &mut state.claims[2 * disk] {
                            (claim.worker, claim.knows_prime) = (Rc::new(worker.clone()), true);
                        }
                    },
                );
            }
            cdi::Write::Rebind { .. } => {
                steps.did(
                    Cost::Free,
                    "CDI gives the prime's volume to {}",
                    Some(target),
                    |state| {
                        let volumes = state.volumes.iter_mut().filter(|volume| Some(volume.made_for) == prime);
                        volumes.for_each(|volume| volume.claim = target);
                    },
                );
            }
            cdi::Write::DeletePrime { .. } => {
                steps.did(Cost::Unseen, "CDI deletes the prime of {}", Some(target), |state| {
                    if let Some(prime) = &mut state.claims[2 * disk + 1] {
                        prime.deleting = true;
                    }
                });
            }
            _ => {}
        }
    }
}

fn worker_writes(model: &Model, state: &State, claim: &Claim) -> Vec<cdi::Write> {
    let of_claim = |pod: &&Pod| pod.role == Role::Worker { claim: claim.id };
    let pod = state.pods.iter().find(of_claim);
    let pods = state
        .pods
        .iter()
        .filter(|pod| pod.claims >> claim.id.slot & 1 == 1 && !of_claim(pod));
    let users: Vec<String> = pods
        .filter(|pod| !pod.phase.is_final())
        .map(render::name_of_pod)
        .collect();
    let view = claim_view(model, state, claim);
    let seen = pod.map(pod_view);
    cdi::worker::next(
        &view,
        seen.as_ref(),
        &users,
        render::NAMESPACE,
        cdi::Settings::default(),
    )
}

pub fn worker(system: &System, steps: &mut Steps, claim: &Claim) {
    let state = steps.state;
    let id = claim.id;
    let parts = [state.claims.outline(), state.volumes.outline(), state.pods.outline()];
    let writes = system.habits.cdi.get(input(2, id.slot, &parts), || {
        Rc::new(worker_writes(system.model, state, claim))
    });
    for write in writes.iter() {
        match write {
            // Named and created a reconcile later, between which nobody can tell.
            cdi::Write::NameWorker => {
                let node = claim.node.filter(|_| id.slot % 2 == 1);
                create_worker(steps, id, node);
            }
            // Only the end is read by anybody.
            cdi::Write::NoteWorker(worker) if worker.phase.is_some_and(PodPhase::is_final) => {
                steps.did(Cost::Unseen, "CDI notes on {} how its worker is", Some(id), |state| {
                    edit(state, id, |claim| claim.worker = Rc::new(worker.clone()));
                });
            }
            cdi::Write::CreateWorker { node } => {
                create_worker(steps, id, node.as_ref().and_then(|node| node.parse().ok()));
            }
            cdi::Write::DeleteWorker { .. } => {
                steps.did(cost_of_worker(id), "CDI deletes the worker of {}", Some(id), |state| {
                    // Gracefully, so that a kubelet has a word in it while it runs.
                    let runs = |pod: &Pod| pod.node.is_some() && !pod.phase.is_final();
                    state
                        .pods
                        .retain(|pod| pod.role != Role::Worker { claim: id } || runs(pod));
                    let worker = state
                        .pods
                        .iter_mut()
                        .filter(|pod| pod.role == Role::Worker { claim: id });
                    worker.for_each(|pod| pod.deleting = true);
                });
            }
            _ => {}
        }
    }
}

/// What the worker of a prime does is seen by nobody else.
pub fn cost_of_worker(claim: Id) -> Cost {
    if claim.slot % 2 == 1 { Cost::Unseen } else { Cost::Free }
}

fn create_worker(steps: &mut Steps, id: Id, node: Option<u8>) {
    let role = Role::Worker { claim: id };
    // The worker of an earlier claim of this name may still be going.
    if steps.state.pods.iter().any(|pod| pod.id.index() == role.slot()) {
        return;
    }
    steps.did(cost_of_worker(id), "CDI creates the worker of {}", Some(id), |state| {
        edit(state, id, |claim| claim.worker_named = true);
        new_pod(state, role, 1 << id.slot, node);
    });
}
