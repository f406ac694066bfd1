//! PV controller, provisioner, scheduler and kubelet.

use super::edit;
use crate::explore::models::Model;
use crate::explore::objects::{Binding, Claim, Pod, Role, Volume};
use crate::explore::state::State;
use crate::explore::step::{Cost, Steps, claims_of};
use crate::world::objects::{ClaimPhase, PodPhase};
use crate::world::{kubelet, provisioner, scheduler, volumes};

/// PV controller and provisioner.
pub fn volume(model: &Model, steps: &mut Steps, claim: &Claim) {
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
        Some(volumes::Write::Ask) => steps.did(
            Cost::Free,
            "the PV controller asks a provisioner for {}",
            Some(id),
            |state| {
                edit(state, id, |claim| claim.asked = true);
            },
        ),
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
    let provisions = provisioner::next(&view)
        .iter()
        .any(|write| matches!(write, provisioner::Write::CreateVolume { .. }));
    if let Some(node) = claim.node.filter(|_| provisions) {
        // The PV controller binds it, between which nobody can tell.
        steps.did(
            Cost::Free,
            "the provisioner makes a volume for {}, which is bound",
            Some(id),
            |state| {
                edit(state, id, |claim| claim.phase = ClaimPhase::Bound);
                state.volumes.push(Volume {
                    made_for: id,
                    claim: id,
                    node,
                });
            },
        );
    }
    let gives_back = provisioner::View {
        fault: Some(provisioner::Fault::GivesNodeBack),
        ..view
    };
    // A target's node goes when the node object is gone (provisioner library v11).
    let node_gone = claim.populator && claim.node.is_some() && claim.phase == ClaimPhase::Pending;
    let gives_back = provisioner::next(&gives_back).contains(&provisioner::Write::RemoveNode) || node_gone;
    if model.may.fail_storage && gives_back {
        steps.did(
            Cost::Disturbs,
            "the provisioner gives the node of {} back",
            Some(id),
            |state| {
                edit(state, id, |claim| claim.node = None);
            },
        );
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

pub fn schedule(model: &Model, steps: &mut Steps, pod: &Pod) {
    let state = steps.state;
    let id = pod.id;
    let busy = state.bindings.iter().any(|binding| binding.pod == id);
    if pod.node.is_some() || pod.deleting || pod.phase != PodPhase::Pending || busy {
        return;
    }
    let claims: Vec<_> = claims_of(state, pod.claims)
        .map(|claim| claim.map(|claim| schedulable(claim, state)))
        .collect();
    let refuse = |state: &mut State| {
        state
            .pods
            .iter_mut()
            .filter(|pod| pod.id == id)
            .for_each(|pod| pod.unschedulable = true);
    };
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
                        state
                            .pods
                            .iter_mut()
                            .filter(|pod| pod.id == id)
                            .for_each(|pod| pod.node = Some(node));
                        return;
                    }
                    let open = claims_of(state, pod.claims)
                        .flatten()
                        .filter(|claim| claim.phase == ClaimPhase::Pending);
                    let mut todo: Vec<_> = open
                        .filter(|claim| claim.node.is_none())
                        .map(|claim| claim.id)
                        .collect();
                    todo.reverse();
                    state.bindings.push(Binding {
                        pod: id,
                        claims: pod.claims,
                        node,
                        todo,
                    });
                });
                if model.may.fail_storage && !pod.unschedulable && node == 0 {
                    steps.did(
                        Cost::Disturbs,
                        "the nodes are full: the scheduler refuses {}",
                        Some(id),
                        refuse,
                    );
                }
            }
        }
    }
}

pub fn bind(model: &Model, steps: &mut Steps, at: usize, binding: &Binding) {
    let state = steps.state;
    let id = binding.pod;
    let claims: Vec<_> = claims_of(state, binding.claims)
        .map(|claim| claim.map(|claim| schedulable(claim, state)))
        .collect();
    let next = binding.todo.last().copied();
    let current = next.map(|id| {
        state
            .claim(id)
            .is_some_and(|claim| !claim.deleting && claim.node.is_none())
    });
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
                steps.did(
                    Cost::Disturbs,
                    "the scheduler fails half-way with {}",
                    Some(id),
                    |state| {
                        state.bindings.remove(at);
                    },
                );
            }
        }
        Some(scheduler::Write::Bind) => steps.did(Cost::Free, "the scheduler binds {}", Some(id), |state| {
            let binding = state.bindings.remove(at);
            state
                .pods
                .iter_mut()
                .filter(|pod| pod.id == id)
                .for_each(|pod| pod.node = Some(binding.node));
        }),
        Some(scheduler::Write::GiveUp) => {
            steps.did(Cost::Free, "the scheduler forgets {}", Some(id), |state| {
                state.bindings.remove(at);
            });
        }
        None => {}
    }
}

pub fn kubelet(steps: &mut Steps, pod: &Pod) {
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
    let bound =
        claims_of(steps.state, pod.claims).all(|claim| claim.is_some_and(|claim| claim.phase == ClaimPhase::Bound));
    let runs = match pod.role {
        Role::Launcher { temporary: false, .. } => kubelet::Runs::Stays,
        _ => kubelet::Runs::Ends,
    };
    if let Some(phase) = kubelet::next(pod.phase, bound, runs) {
        // What ends at all may end at once: how long it runs is nobody's business.
        let phase = kubelet::next(phase, bound, runs).unwrap_or(phase);
        let what = if phase == PodPhase::Running {
            "the kubelet starts {}"
        } else {
            "{} runs and ends"
        };
        steps.did(Cost::Free, what, Some(id), |state| {
            state
                .pods
                .iter_mut()
                .filter(|pod| pod.id == id)
                .for_each(|pod| pod.phase = phase);
        });
    }
}
