//! Our requests: sent, arrived, lost, and what their sender learns of it; and crashes.

use super::mind::{Acted, Mind};
use super::objects::{Id, Kind, Pod, Role};
use super::render;
use super::state::{Act, Positions, Request, State};
use super::step::{Cost, Step, Steps, System, name};
use crate::world::objects::PodPhase;
use first_consumer::api::Pod as PodView;
use first_consumer::decide::Effect;
use first_consumer::memory::Outcome;
use first_consumer::name::{Uid, pod_name};
use std::sync::Arc;

/// A turn was taken: its memory is kept, its request is on the way.
pub fn send(state: &mut State, replica: usize, vm: usize, at: Positions, acted: &Arc<Acted>, names_uids: bool) {
    let act = match &acted.effect {
        // Nothing here needs an expansion.
        Effect::Nothing | Effect::Expand { .. } => None,
        Effect::Create(_) => acted.body.clone().map(Act::Create),
        Effect::Delete { uid, .. } => Id::of(&uid.0).map(|meant| Act::Delete {
            meant,
            uid: names_uids.then_some(meant),
        }),
    };
    let replica = &mut state.replicas[replica];
    replica.at = at;
    replica.standings[vm].clone_from(&acted.standing);
    let mind = &mut replica.minds[vm];
    mind.memory = Arc::clone(&acted.memory);
    mind.tally = acted.tally;
    mind.request = act.map(|act| Request {
        subject: u8::try_from(vm).unwrap_or(u8::MAX),
        act,
        turn: Arc::clone(acted),
    });
}

/// Steps of requests and of our processes.
pub fn steps(system: &System, steps: &mut Steps) {
    let state = steps.state;
    for (replica, of) in state.replicas.iter().enumerate() {
        for (vm, mind) in of.minds.iter().enumerate() {
            if let Some(request) = &mind.request {
                answered(steps, replica, vm, request);
            }
        }
        if system.model.may.fail_us && of.minds.iter().any(|mind| mind.tally.owner.is_some()) {
            steps.did(
                Cost::Disturbs,
                "a replica of ours crashes and starts again",
                None,
                |state| {
                    let of = &mut state.replicas[replica];
                    let minds = of.minds.iter_mut().map(|mind| std::mem::replace(mind, Mind::new()));
                    let strays: Vec<_> = minds.filter_map(|mind| mind.request).collect();
                    of.standings.fill(None);
                    if system.model.apart {
                        // They had arrived, or the step before this one would have been another.
                        for request in &strays {
                            arrive(state, request);
                        }
                        return;
                    }
                    state.strays.extend(strays);
                },
            );
        }
    }
    for (at, stray) in state.strays.iter().enumerate() {
        let vm = usize::from(stray.subject);
        let step = Step::Stray(vm, "arrives, though nobody waits for it any more");
        steps.add(Cost::Free, step, |state| {
            let request = state.strays.remove(at);
            arrive(state, &request).1
        });
        let step = Step::Stray(vm, "is lost on the way");
        steps.add(Cost::Free, step, |state| {
            state.strays.remove(at);
            None
        });
    }
}

fn answered(steps: &mut Steps, replica: usize, vm: usize, request: &Request) {
    let (faults, apart) = (steps.model.may.fail_us, steps.model.apart);
    steps.add(
        Cost::Free,
        Step::Request(replica, vm, "arrives and is answered"),
        |state| {
            let (outcome, broken) = arrive(state, request);
            let now = state.time();
            let mind = &mut state.replicas[replica].minds[vm];
            mind.request = None;
            match &outcome {
                Outcome::Created(_) => {
                    // One that follows a pod of other wishes needs no gap before it, but one after it (row 17).
                    mind.tally.made += u8::from(!std::mem::take(&mut mind.tally.replaced));
                    mind.tally.lately = true;
                }
                Outcome::Deleted { replaced, .. } => mind.tally.replaced = *replaced,
                Outcome::Refused(_) | Outcome::Unanswered(_) => {}
            }
            mind.record(outcome, &request.turn, now);
            broken
        },
    );
    if !faults {
        return;
    }
    steps.add(
        Cost::Disturbs,
        Step::Request(replica, vm, "gets no answer in time"),
        |state| {
            unanswered(state, replica, vm, request);
            if !apart {
                state.strays.push(request.clone());
            }
            None
        },
    );
    if apart {
        let step = Step::Request(replica, vm, "arrives, but the answer is lost");
        steps.add(Cost::Disturbs, step, |state| {
            unanswered(state, replica, vm, request);
            arrive(state, request).1
        });
    }
    if matches!(request.act, Act::Create(_)) {
        steps.add(
            Cost::Disturbs,
            Step::Request(replica, vm, "is refused by quota"),
            |state| {
                let now = state.time();
                let mind = &mut state.replicas[replica].minds[vm];
                mind.request = None;
                mind.record(Outcome::Refused("exceeded quota".into()), &request.turn, now);
                None
            },
        );
    }
}

fn unanswered(state: &mut State, replica: usize, vm: usize, request: &Request) {
    let now = state.time();
    let mind = &mut state.replicas[replica].minds[vm];
    mind.request = None;
    mind.record(Outcome::Unanswered("no answer".into()), &request.turn, now);
}

/// What the API server does with a request, and the rule that this breaks.
fn arrive(state: &mut State, request: &Request) -> (Outcome, Option<String>) {
    let vm = usize::from(request.subject);
    match &request.act {
        Act::Create(body) => {
            let name = body.value["metadata"]["name"].as_str().unwrap_or_default();
            let twin = name != pod_name(&render::subject(vm));
            let role = Role::Own {
                vm: request.subject,
                twin,
            };
            if state.pods.iter().any(|pod| pod.id.index() == role.slot()) {
                return (Outcome::Unanswered("AlreadyExists".into()), None);
            }
            let pod = Pod {
                id: state.fresh(Kind::Pod, role.slot()),
                role,
                claims: listed(
                    body.value["spec"]["volumes"]
                        .as_array()
                        .map(Vec::as_slice)
                        .unwrap_or_default(),
                ),
                phase: PodPhase::Pending,
                node: None,
                unschedulable: false,
                deleting: false,
                body: Some(Arc::clone(body)),
            };
            let view = render::parse::<PodView>(&render::pod_object(&pod)).unwrap_or_default();
            state.pods.push(pod);
            (Outcome::Created(Box::new(view)), None)
        }
        Act::Delete { meant, uid } => {
            let (replaced, next_attempt) = match request.turn.effect {
                Effect::Delete {
                    replaced, next_attempt, ..
                } => (replaced, next_attempt),
                _ => (false, None),
            };
            let outcome = Outcome::Deleted {
                held: false,
                uid: Uid::from(&*meant.uid()),
                replaced,
                next_attempt,
            };
            let fixed = Role::Lookalike { vm: request.subject }.slot();
            let slot = if meant.index() == 4 + vm { meant.index() } else { fixed };
            let found = state.pods.iter().position(|pod| pod.id.index() == slot);
            let Some(found) = found.filter(|at| uid.is_none_or(|uid| state.pods[*at].id == uid)) else {
                return (outcome, None);
            };
            let pod = state.pods.remove(found);
            let wrong = pod.id != *meant || !matches!(pod.role, Role::Own { .. });
            let broken = wrong.then(|| {
                format!(
                    "only the own pod that was decided about is deleted: {:?}, {}, goes instead of {}",
                    pod.role,
                    name(pod.id),
                    name(*meant)
                )
            });
            (outcome, broken)
        }
    }
}

/// Slots of the claims in a pod's volumes.
fn listed(volumes: &[serde_json::Value]) -> u16 {
    let names = volumes
        .iter()
        .filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
    let slots = names.filter_map(|name| (0..4).find(|disk| render::disk_name(*disk) == name));
    slots.fold(0, |bits, disk| bits | 1 << (2 * disk))
}
