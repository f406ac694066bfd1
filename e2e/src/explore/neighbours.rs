//! Steps of the neighbours: one reconcile each, on the live objects.

use super::models::Model;
use super::render;
use super::state::{Binding, Claim, Id, Kind, Pod, Role, State, Vmi, Volume};
use super::step::{Cost, Steps, claims_of, launches};
use crate::world::objects::{self, ClaimPhase, Owner, PodPhase};
use crate::world::virt_controller::{self as virt, VmiPhase, vm as vm_controller, vmi as vmi_controller};
use crate::world::{cdi, kubelet, provisioner, scheduler, volumes};
use std::sync::Arc;

/// Everything that a neighbour may do now.
pub fn steps(model: &Model, steps: &mut Steps) {
    let state = steps.state;
    for disk in 0..state.dvs.len() {
        data_volume(model, steps, disk);
        populator(model, steps, disk);
    }
    for claim in state.claims.iter().flatten() {
        worker(model, steps, claim);
        volume(model, steps, claim);
    }
    for pod in &state.pods {
        schedule(model, steps, pod);
        kubelet(steps, pod);
    }
    for (at, binding) in state.bindings.iter().enumerate() {
        bind(model, steps, at, binding);
    }
    for vm in 0..state.vms.len() {
        virt_controller(model, steps, vm);
    }
    collect(steps);
}

/// A claim as CDI reads it.
fn claim_view(model: &Model, state: &State, claim: &Claim) -> objects::Claim {
    let prime = claim.id.slot % 2 == 1;
    let owner = Owner {
        kind: if prime { "PersistentVolumeClaim" } else { "DataVolume" }.into(),
        name: render::disk_name(claim.id.index() / 2),
        uid: claim.owner.uid(),
    };
    let volume = state.volumes.iter().find(|volume| volume.made_for == claim.id || volume.claim == claim.id);
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
        ..objects::Claim::default()
    }
}

fn disk_view(model: &Model, state: &State, disk: usize) -> Option<cdi::Disk> {
    let dv = state.dvs[disk].as_ref()?;
    let target = state.claims[2 * disk].as_ref();
    let prime = state.claims[2 * disk + 1].as_ref().filter(|prime| target.is_some_and(|target| target.id == prime.owner));
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
    })
}

fn new_claim(id: Id, owner: Id, populator: bool, node: Option<u8>) -> Claim {
    Claim {
        id,
        owner,
        phase: ClaimPhase::Pending,
        node,
        asked: false,
        deleting: false,
        populator,
        worker_named: false,
        worker: Arc::default(),
        knows_prime: false,
    }
}

fn data_volume(model: &Model, steps: &mut Steps, disk: usize) {
    let state = steps.state;
    let (Some(view), Some(dv)) = (disk_view(model, state, disk), &state.dvs[disk]) else {
        return;
    };
    let mut new = dv.clone();
    let mut create = None;
    for write in cdi::data_volume::next(&view, cdi::Settings::default()) {
        match write {
            cdi::Write::MarkPath { populator } => new.populator = Some(populator),
            cdi::Write::CreateClaim { populator, .. } => create = Some(populator),
            // Conditions are read by nobody here.
            cdi::Write::SetStatus(status) => new.phase = status.phase,
            _ => {}
        }
    }
    if new == *dv && create.is_none() {
        return;
    }
    let what = if create.is_some() { "CDI creates the claim of {}" } else { "CDI writes the phase of {}" };
    steps.did(Cost::Free, what, Some(dv.id), |state| {
        if let Some(populator) = create {
            let id = state.fresh(Kind::Claim, 2 * disk);
            state.claims[2 * disk] = Some(new_claim(id, new.id, populator, None));
        }
        state.dvs[disk] = Some(new);
    });
}

fn populator(model: &Model, steps: &mut Steps, disk: usize) {
    let state = steps.state;
    let (Some(view), Some(target)) = (disk_view(model, state, disk), &state.claims[2 * disk]) else {
        return;
    };
    // An earlier claim's prime has another name, but here the place of this one.
    if view.prime.is_none() && state.claims[2 * disk + 1].is_some() {
        return;
    }
    let (target, prime) = (target.id, state.claims[2 * disk + 1].as_ref().map(|prime| prime.id));
    for write in cdi::populator::next(&view) {
        match write {
            cdi::Write::CreatePrime { node } => {
                steps.did(Cost::Free, "CDI creates the prime of {}", Some(target), |state| {
                    let id = state.fresh(Kind::Claim, 2 * disk + 1);
                    let node = node.and_then(|node| node.parse().ok());
                    state.claims[2 * disk + 1] = Some(new_claim(id, target, false, node));
                });
            }
            cdi::Write::CopyWorker(worker) => {
                steps.did(Cost::Free, "CDI copies what is known of the worker to {}", Some(target), |state| {
                    if let Some(claim) = &mut state.claims[2 * disk] {
                        (claim.worker, claim.knows_prime) = (Arc::new(worker), true);
                    }
                });
            }
            cdi::Write::Rebind { .. } => {
                steps.did(Cost::Free, "CDI gives the prime's volume to {}", Some(target), |state| {
                    let volumes = state.volumes.iter_mut().filter(|volume| Some(volume.made_for) == prime);
                    volumes.for_each(|volume| volume.claim = target);
                });
            }
            cdi::Write::DeletePrime { .. } => {
                steps.did(Cost::Free, "CDI deletes the prime of {}", Some(target), |state| {
                    if let Some(prime) = &mut state.claims[2 * disk + 1] {
                        prime.deleting = true;
                    }
                });
            }
            _ => {}
        }
    }
}

fn worker(model: &Model, steps: &mut Steps, claim: &Claim) {
    let state = steps.state;
    let id = claim.id;
    let of_claim = |pod: &&Pod| pod.role == Role::Worker { claim: id };
    let pod = state.pods.iter().find(of_claim);
    let pods = state.pods.iter().filter(|pod| pod.claims >> id.slot & 1 == 1 && !of_claim(pod));
    let users: Vec<String> = pods.filter(|pod| !pod.phase.is_final()).map(render::name_of_pod).collect();
    let view = claim_view(model, state, claim);
    let seen = pod.map(pod_view);
    for write in cdi::worker::next(&view, seen.as_ref(), &users, render::NAMESPACE, cdi::Settings::default()) {
        match write {
            // Named and created a reconcile later, between which nobody can tell.
            cdi::Write::NameWorker => {
                let node = claim.node.filter(|_| id.slot % 2 == 1);
                create_worker(steps, id, node);
            }
            // Only the end is read by anybody.
            cdi::Write::NoteWorker(worker) if worker.phase.is_some_and(PodPhase::is_final) => {
                steps.did(Cost::Free, "CDI notes on {} how its worker is", Some(id), |state| {
                    edit(state, id, |claim| claim.worker = Arc::new(worker));
                });
            }
            cdi::Write::CreateWorker { node } => {
                create_worker(steps, id, node.and_then(|node| node.parse().ok()));
            }
            cdi::Write::DeleteWorker { .. } => {
                steps.did(Cost::Free, "CDI deletes the worker of {}", Some(id), |state| {
                    // Gracefully, so that a kubelet has a word in it while it runs.
                    let runs = |pod: &Pod| pod.node.is_some() && !pod.phase.is_final();
                    state.pods.retain(|pod| pod.role != Role::Worker { claim: id } || runs(pod));
                    let worker = state.pods.iter_mut().filter(|pod| pod.role == Role::Worker { claim: id });
                    worker.for_each(|pod| pod.deleting = true);
                });
            }
            _ => {}
        }
    }
}

fn create_worker(steps: &mut Steps, id: Id, node: Option<u8>) {
    let role = Role::Worker { claim: id };
    // The worker of an earlier claim of this name may still be going.
    if steps.state.pods.iter().any(|pod| pod.id.index() == role.slot()) {
        return;
    }
    steps.did(Cost::Free, "CDI creates the worker of {}", Some(id), |state| {
        edit(state, id, |claim| claim.worker_named = true);
        new_pod(state, role, 1 << id.slot, node);
    });
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
    }
}

fn edit(state: &mut State, id: Id, change: impl FnOnce(&mut Claim)) {
    if let Some(claim) = state.claims[id.index()].as_mut().filter(|claim| claim.id == id) {
        change(claim);
    }
}

/// PV controller and provisioner.
fn volume(model: &Model, steps: &mut Steps, claim: &Claim) {
    let state = steps.state;
    let id = claim.id;
    let view = volumes::View {
        phase: claim.phase,
        deleting: claim.deleting,
        late: true,
        node: claim.node.is_some(),
        asked: claim.asked,
        volume: state.volume(id).is_some(),
    };
    match volumes::next(&view) {
        // Read on the legacy path only: of a prime or a populator's target by nobody.
        Some(volumes::Write::Ask) if id.slot % 2 == 1 || claim.populator => {}
        Some(volumes::Write::Ask) => steps.did(Cost::Free, "the PV controller asks a provisioner for {}", Some(id), |state| {
            edit(state, id, |claim| claim.asked = true);
        }),
        Some(volumes::Write::Bind) => steps.did(Cost::Free, "the PV controller binds {}", Some(id), |state| {
            edit(state, id, |claim| claim.phase = ClaimPhase::Bound);
        }),
        Some(volumes::Write::Lose) => steps.did(Cost::Free, "the PV controller marks {} as Lost", Some(id), |state| {
            edit(state, id, |claim| claim.phase = ClaimPhase::Lost);
        }),
        None => {}
    }
    let view = provisioner::View {
        uid: id.uid(),
        asked: claim.asked || id.slot % 2 == 1,
        late: true,
        node: claim.node.map(|node| node.to_string()),
        bound: claim.phase != ClaimPhase::Pending,
        foreign_source: claim.populator,
        deleting: claim.deleting,
        volume: state.volumes.iter().any(|volume| volume.made_for == id),
        begun: true,
        ..provisioner::View::default()
    };
    let provisions = provisioner::next(&view).iter().any(|write| matches!(write, provisioner::Write::CreateVolume { .. }));
    if let Some(node) = claim.node.filter(|_| provisions) {
        // The PV controller binds it, between which nobody can tell.
        steps.did(Cost::Free, "the provisioner makes a volume for {}, which is bound", Some(id), |state| {
            edit(state, id, |claim| claim.phase = ClaimPhase::Bound);
            state.volumes.push(Volume {
                made_for: id,
                claim: id,
                node,
            });
        });
    }
    let gives_back = provisioner::View {
        fault: Some(provisioner::Fault::GivesNodeBack),
        ..view
    };
    // A target's node goes when the node object is gone (provisioner library v11).
    let node_gone = claim.populator && claim.node.is_some() && claim.phase == ClaimPhase::Pending;
    let gives_back = provisioner::next(&gives_back).contains(&provisioner::Write::RemoveNode) || node_gone;
    if model.may.fail_storage && gives_back {
        steps.did(Cost::Disturbs, "the provisioner gives the node of {} back", Some(id), |state| {
            edit(state, id, |claim| claim.node = None);
        });
    }
}

fn schedulable(claim: &Claim, state: &State) -> scheduler::Claim {
    scheduler::Claim {
        phase: claim.phase,
        deleting: claim.deleting,
        late: true,
        node: state.volume(claim.id).map(|volume| volume.node).or(claim.node),
    }
}

fn schedule(model: &Model, steps: &mut Steps, pod: &Pod) {
    let state = steps.state;
    let id = pod.id;
    let busy = state.bindings.iter().any(|binding| binding.pod == id);
    if pod.node.is_some() || pod.deleting || pod.phase != PodPhase::Pending || busy {
        return;
    }
    let claims: Vec<_> = claims_of(state, pod.claims).map(|claim| claim.map(|claim| schedulable(claim, state))).collect();
    let refuse = |state: &mut State| state.pods.iter_mut().filter(|pod| pod.id == id).for_each(|pod| pod.unschedulable = true);
    for verdict in scheduler::look(&claims, model.nodes) {
        match verdict {
            scheduler::Verdict::Unschedulable if pod.unschedulable => {}
            scheduler::Verdict::Unschedulable => {
                steps.did(Cost::Free, "the scheduler finds no node for {}", Some(id), refuse);
            }
            scheduler::Verdict::Node(node) => {
                let bound = claims.iter().flatten().all(|claim| claim.phase == ClaimPhase::Bound);
                steps.did(Cost::Free, "the scheduler chooses a node for {}", Some(id), |state| {
                    if bound {
                        state.pods.iter_mut().filter(|pod| pod.id == id).for_each(|pod| pod.node = Some(node));
                        return;
                    }
                    let open = claims_of(state, pod.claims).flatten().filter(|claim| claim.phase == ClaimPhase::Pending);
                    let mut todo: Vec<_> = open.filter(|claim| claim.node.is_none()).map(|claim| claim.id).collect();
                    todo.reverse();
                    state.bindings.push(Binding {
                        pod: id,
                        claims: pod.claims,
                        node,
                        todo,
                    });
                });
                if model.may.fail_storage && !pod.unschedulable && node == 0 {
                    steps.did(Cost::Disturbs, "the nodes are full: the scheduler refuses {}", Some(id), refuse);
                }
            }
        }
    }
}

fn bind(model: &Model, steps: &mut Steps, at: usize, binding: &Binding) {
    let state = steps.state;
    let id = binding.pod;
    let claims: Vec<_> = claims_of(state, binding.claims).map(|claim| claim.map(|claim| schedulable(claim, state))).collect();
    let next = binding.todo.last().copied();
    let current = next.map(|id| state.claim(id).is_some_and(|claim| !claim.deleting && claim.node.is_none()));
    match scheduler::bind(current, state.pod(id).is_some(), &claims) {
        Some(scheduler::Write::Annotate) => {
            steps.did(Cost::Free, "the scheduler writes selected-node on {}", next, |state| {
                let node = state.bindings[at].node;
                state.bindings[at].todo.pop();
                if let Some(claim) = next {
                    edit(state, claim, |claim| claim.node = Some(node));
                }
            });
            if model.may.fail_storage {
                steps.did(Cost::Disturbs, "the scheduler fails half-way with {}", Some(id), |state| {
                    state.bindings.remove(at);
                });
            }
        }
        Some(scheduler::Write::Bind) => steps.did(Cost::Free, "the scheduler binds {}", Some(id), |state| {
            let binding = state.bindings.remove(at);
            state.pods.iter_mut().filter(|pod| pod.id == id).for_each(|pod| pod.node = Some(binding.node));
        }),
        Some(scheduler::Write::GiveUp) => {
            steps.did(Cost::Free, "the scheduler forgets {}", Some(id), |state| {
                state.bindings.remove(at);
            });
        }
        None => {}
    }
}

fn kubelet(steps: &mut Steps, pod: &Pod) {
    let id = pod.id;
    if pod.node.is_none() {
        return;
    }
    if pod.deleting {
        steps.did(Cost::Free, "the kubelet confirms the end of {}", Some(id), |state| {
            state.pods.retain(|pod| pod.id != id);
        });
        return;
    }
    let bound = claims_of(steps.state, pod.claims).all(|claim| claim.is_some_and(|claim| claim.phase == ClaimPhase::Bound));
    let runs = match pod.role {
        Role::Launcher { temporary: false, .. } => kubelet::Runs::Stays,
        _ => kubelet::Runs::Ends,
    };
    if let Some(phase) = kubelet::next(pod.phase, bound, runs) {
        // What ends at all may end at once: how long it runs is nobody's business.
        let phase = kubelet::next(phase, bound, runs).unwrap_or(phase);
        let what = if phase == PodPhase::Running { "the kubelet starts {}" } else { "{} runs and ends" };
        steps.did(Cost::Free, what, Some(id), |state| {
            state.pods.iter_mut().filter(|pod| pod.id == id).for_each(|pod| pod.phase = phase);
        });
    }
}

fn virt_controller(model: &Model, steps: &mut Steps, slot: usize) {
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
        let controlled = vmi.clone().filter(|_| state.vmis[slot].is_some_and(|vmi| vmi.owner == vm.id));
        // A VMI of an earlier VM of this name is still going.
        if controlled.is_some() || vmi.is_none() {
            vm_steps(steps, slot, controlled, &disks, boot);
        }
    }
    if let (Some(vmi), Some(of)) = (vmi, state.vmis[slot]) {
        let pods = state.pods.iter().filter(|pod| launches(pod.role, of.id)).map(pod_view).collect();
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
                steps.did(Cost::Free, "virt-controller creates the VMI of {}", Some(vm.id), |state| {
                    let id = state.fresh(Kind::Vmi, slot);
                    state.vmis[slot] = Some(Vmi {
                        id,
                        owner: vm.id,
                        phase: VmiPhase::Unset,
                        edited: vm.edited,
                        deleting: false,
                        born: state.now,
                    });
                });
            }
            vm_controller::Write::DeleteVmi { .. } => {
                steps.did(Cost::Free, "virt-controller deletes the VMI of {}", Some(vm.id), |state| {
                    state.vmis[slot].iter_mut().for_each(|vmi| vmi.deleting = true);
                });
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

/// Garbage collector, finalizers, and the volumes of claims that are gone.
fn collect(steps: &mut Steps) {
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
    for pod in &state.pods {
        let orphan = match pod.role {
            Role::Own { .. } => pod.body.as_ref().is_some_and(|body| !exists(state, body.owner)),
            Role::Launcher { vmi, .. } => !exists(state, vmi),
            Role::Worker { claim } => !exists(state, claim),
            Role::Lookalike { .. } => false,
        };
        let id = pod.id;
        if orphan {
            steps.did(Cost::Free, "the garbage collector removes {}", Some(id), |state| {
                state.pods.retain(|pod| pod.id != id);
            });
        }
    }
    for volume in &state.volumes {
        if !exists(state, volume.claim) {
            let made_for = volume.made_for;
            steps.did(Cost::Free, "the volume made for {} is reclaimed", Some(made_for), |state| {
                state.volumes.retain(|volume| volume.made_for != made_for);
            });
        }
    }
}

fn collect_claim(steps: &mut Steps, claim: &Claim) {
    let state = steps.state;
    let id = claim.id;
    if !claim.deleting && !exists(state, claim.owner) {
        steps.did(Cost::Free, "the garbage collector deletes {}", Some(id), |state| {
            edit(state, id, |claim| claim.deleting = true);
        });
    }
    let users = state.pods.iter().filter(|pod| pod.claims >> id.slot & 1 == 1);
    if claim.deleting && !volumes::held(users.map(|pod| (pod.node.is_some(), pod.phase.is_final()))) {
        steps.did(Cost::Free, "{} is gone", Some(id), |state| state.claims[id.index()] = None);
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

