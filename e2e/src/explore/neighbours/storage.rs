//! PV controller, provisioner, scheduler and kubelet.

use super::cdi::cost_of_worker;
use super::edit;
use crate::explore::models::Model;
use crate::explore::objects::{Binding, Claim, Pod, Role, Volume};
use crate::explore::render;
use crate::explore::state::State;
use crate::explore::step::{Cost, Steps, System, claims_of};
use crate::world::objects::{ClaimPhase, DvPhase, PodPhase};
use crate::world::{kubelet, provisioner, scheduler, volumes};

/// PV controller and provisioner.
pub fn volume(system: &System, steps: &mut Steps, claim: &Claim) {
    let (model, state) = (system.model, steps.state);
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
        asked: claim.asked || id.slot % 2 == 1 || claim.populator,
        late: true,
        node: claim.node.map(|node| node.to_string()),
        bound: claim.phase != ClaimPhase::Pending,
        // Where CDI does nothing, of the prime and its worker only the outcome is modelled.
        foreign_source: claim.populator && !model.swift,
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
        // Of a prime it is seen by CDI alone, but it is late if the node may still be given back.
        let late = id.slot.is_multiple_of(2) || (model.may.fail_storage && state.budget > 0);
        steps.did(
            if late { Cost::Free } else { Cost::Unseen },
            "the provisioner makes a volume for {}, which is bound",
            Some(id),
            |state| {
                edit(state, id, |claim| claim.phase = ClaimPhase::Bound);
                state.volumes.push(Volume {
                    made_for: id,
                    claim: id,
                    node,
                });
                if model.swift
                    && let Some(dv) = &mut state.dvs[id.index() / 2]
                {
                    dv.phase = DvPhase::Succeeded;
                }
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
    if model.may.fail_storage && gives_back && !(model.apart && system.busy(state)) {
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

/// Whether node affinity and the pods that are there let a pod go to a node \[NodeAffinity, InterPodAffinity\]. A pod that
/// is being bound counts as long as it exists.
fn fits(model: &Model, state: &State, pod: &Pod, node: u8) -> bool {
    if !model.apart {
        return true;
    }
    let name = render::node_name(node);
    let terms = pod.body.as_ref().and_then(|body| {
        let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        body.value.pointer(terms)?.as_array()
    });
    let kept_out = terms.is_some_and(|terms| {
        let values = terms.iter().flat_map(|term| {
            let of = |part: &serde_json::Value| part["values"].as_array().cloned();
            term["matchExpressions"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(of)
                .flatten()
        });
        values.into_iter().any(|value| value == *name)
    });
    let there = |other: &Pod| {
        let binds = state
            .bindings
            .iter()
            .any(|binding| binding.pod == other.id && binding.node == node);
        other.id != pod.id && !other.phase.is_final() && (other.node == Some(node) || binds)
    };
    let vms = |pod: &&Pod| matches!(pod.role, Role::Own { .. } | Role::Launcher { .. });
    !kept_out && !state.pods.iter().filter(vms).any(there)
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
    let verdicts = scheduler::look(&claims, (0..model.nodes).filter(|node| fits(model, state, pod, *node)));
    let first = verdicts.first().copied();
    let worker = matches!(pod.role, Role::Worker { .. });
    for verdict in verdicts {
        match verdict {
            scheduler::Verdict::Unschedulable if pod.unschedulable => {}
            scheduler::Verdict::Unschedulable => {
                steps.did(Cost::Free, "the scheduler finds no node for {}", Some(id), refuse);
            }
            scheduler::Verdict::Node(node) => {
                let bound = claims.iter().flatten().all(|claim| claim.phase == ClaimPhase::Bound);
                // Which node a worker has is read by nobody.
                let cost = if bound && worker { Cost::Unseen } else { Cost::Free };
                steps.did(cost, "the scheduler chooses a node for {}", Some(id), |state| {
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
                // A worker that is refused is a worker that comes later.
                if model.may.fail_storage && !pod.unschedulable && !worker && Some(verdict) == first {
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
        Some(scheduler::Write::Annotate) if !model.apart || state.pod(id).is_some() => {
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
        Some(scheduler::Write::Annotate | scheduler::Write::GiveUp) => {
            steps.did(Cost::Free, "the scheduler forgets {}", Some(id), |state| {
                state.bindings.remove(at);
            });
        }
        None => {}
    }
}

/// Whether we leave the API server alone for a while.
fn silent(state: &State) -> bool {
    let mut minds = state.replicas.iter().flat_map(|replica| &replica.minds);
    minds.any(|mind| mind.memory.memory.silence(false, state.time()).is_some())
}

pub fn kubelet(system: &System, steps: &mut Steps, pod: &Pod) {
    let id = pod.id;
    if pod.node.is_none() || (system.model.apart && (system.busy(steps.state) || silent(steps.state))) {
        return;
    }
    let worker = matches!(pod.role, Role::Worker { .. });
    let cost = match pod.role {
        // It is late if it may still fail.
        Role::Worker { claim } if !may_fail(system.model, steps.state) => cost_of_worker(claim),
        _ => Cost::Free,
    };
    if pod.deleting {
        steps.did(cost, "the kubelet confirms the end of {}", Some(id), |state| {
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
        if worker {
            fail_worker(system.model, steps, pod);
        }
        // What ends at all may end at once: how long it runs is nobody's business.
        let phase = kubelet::next(phase, bound, runs).unwrap_or(phase);
        let what = if phase == PodPhase::Running {
            "the kubelet starts {}"
        } else {
            "{} runs and ends"
        };
        steps.did(cost, what, Some(id), |state| {
            state
                .pods
                .iter_mut()
                .filter(|pod| pod.id == id)
                .for_each(|pod| pod.phase = phase);
        });
    }
}

fn may_fail(model: &Model, state: &State) -> bool {
    model.may.fail_workers && state.budget > 0
}

/// A worker that starts again in its pod is one that runs longer.
fn fail_worker(model: &Model, steps: &mut Steps, pod: &Pod) {
    if !may_fail(model, steps.state) {
        return;
    }
    let id = pod.id;
    let gone = "a node is drained of {}: CDI has to make another";
    steps.did(Cost::Disturbs, gone, Some(id), |state| {
        state.pods.retain(|pod| pod.id != id);
    });
    let Some(phase) = kubelet::next(PodPhase::Running, true, kubelet::Runs::Fails) else {
        return;
    };
    let wrong = "{} finds that the data is not what was ordered, and fails";
    steps.did(Cost::Disturbs, wrong, Some(id), |state| {
        let failed = state.pods.iter_mut().filter(|pod| pod.id == id);
        failed.for_each(|pod| pod.phase = phase);
    });
}
