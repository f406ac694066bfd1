//! Steps of the neighbours: one reconcile each, on the live objects.
//!
//! Writes between which nobody could tell are one step: the name of a worker and the worker, a volume and its binding, the
//! start and the end of what ends at once.

mod cdi;
mod collect;
mod kubevirt;
mod storage;

pub use cdi::new_claim;

use super::objects::{Claim, Id, Kind, Pod, Role};
use super::render;
use super::state::State;
use super::step::{Steps, System};
use crate::world::cdi::worker as cdi_worker;
use crate::world::objects::{self, PodPhase};

/// Everything that a neighbour may do now.
pub fn steps(system: &System, steps: &mut Steps) {
    let model = system.model;
    let state = steps.state;
    for disk in (0..state.dvs.len()).filter(|_| !model.swift) {
        cdi::data_volume(system, steps, disk);
        cdi::populator(system, steps, disk);
    }
    for claim in state.claims.iter().flatten() {
        if !model.swift {
            cdi::worker(system, steps, claim);
        }
        storage::volume(system, steps, claim);
    }
    for pod in state.pods.iter() {
        storage::schedule(model, steps, pod);
        storage::kubelet(system, steps, pod);
    }
    for (at, binding) in state.bindings.iter().enumerate() {
        storage::bind(model, steps, at, binding);
    }
    for vm in 0..state.vms.len() {
        kubevirt::virt_controller(system, steps, vm);
    }
    collect::collect(steps);
}

fn new_pod(state: &mut State, role: Role, claims: u16, node: Option<u8>) {
    let pod = Pod {
        id: state.fresh(Kind::Pod, role.slot()),
        role,
        claims,
        phase: PodPhase::Pending,
        node,
        unschedulable: false,
        deleting: false,
        body: None,
    };
    state.pods.push(pod);
}

fn pod_view(pod: &Pod) -> objects::Pod {
    let wrong = matches!(pod.role, Role::Worker { .. }) && pod.phase == PodPhase::Failed;
    objects::Pod {
        name: render::name_of_pod(pod),
        uid: pod.id.uid(),
        phase: pod.phase,
        node: pod.node.map(|node| node.to_string()),
        ready: pod.phase == PodPhase::Running,
        unschedulable: pod.unschedulable.then(|| "no node fits".to_owned()),
        deleting: pod.deleting,
        temporary: matches!(pod.role, Role::Launcher { temporary: true, .. }),
        created: pod.id.life.into(),
        // A worker that fails for any other reason is made again.
        error: wrong.then(|| (cdi_worker::WRONG_DATA.to_owned(), "not what was ordered".to_owned())),
        ..objects::Pod::default()
    }
}

fn edit(state: &mut State, id: Id, change: impl FnOnce(&mut Claim)) {
    if let Some(claim) = state.claims[id.index()].as_mut().filter(|claim| claim.id == id) {
        change(claim);
    }
}

fn exists(state: &State, id: Id) -> bool {
    match id.kind {
        Kind::Vm => state.vms[id.index()].is_some_and(|vm| vm.id == id),
        Kind::Vmi => state.vmis[id.index()].is_some_and(|vmi| vmi.id == id),
        Kind::Dv => state.dvs[id.index()].as_ref().is_some_and(|dv| dv.id == id),
        Kind::Claim => state.claim(id).is_some(),
        Kind::Pod => state.pod(id).is_some(),
    }
}
