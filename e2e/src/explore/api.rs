//! Our requests: sent, arrived, lost, and what their sender learns of it; and crashes.

use super::mind::{Acted, Answer, Expansion, Mind};
use super::objects::{Id, Kind, Pod, Role, Vm};
use super::state::{Act, Positions, Request, State};
use super::step::{Cost, Step, Steps, System, name};
use crate::world::objects::PodPhase;
use first_consumer::decide::Effect;
use std::rc::Rc;

/// A turn was taken: its memory is kept, its request is on the way.
pub fn send(state: &mut State, replica: usize, vm: usize, at: Positions, acted: &Rc<Acted>, names_uids: bool) {
    let act = match acted.effect() {
        Effect::Nothing | Effect::Expand { .. } => None,
        Effect::Create(_) => acted.taken.body.clone().map(Act::Create),
        Effect::Delete { uid, .. } => Id::of(&uid.0).map(|meant| Act::Delete {
            meant,
            uid: names_uids.then_some(meant),
        }),
    };
    let asked = state.seen_vm(vm, at);
    let replica = &mut state.replicas[replica];
    replica.at = at;
    replica.standings[vm].clone_from(&acted.taken.turn.standing);
    let mind = &mut replica.minds[vm];
    mind.memory = Rc::clone(&acted.taken.memory);
    mind.tally = acted.tally;
    if matches!(acted.effect(), Effect::Expand { .. }) {
        mind.expanding = asked;
    }
    mind.request = act.map(|act| Request {
        subject: u8::try_from(vm).unwrap_or(u8::MAX),
        act,
        turn: Rc::clone(acted),
    });
}

/// Steps of requests and of our processes.
pub fn steps(system: &System, steps: &mut Steps) {
    let state = steps.state;
    for (replica, of) in state.replicas.iter().enumerate() {
        for (vm, mind) in of.minds.iter().enumerate() {
            if let Some(request) = &mind.request {
                answered(system, steps, replica, vm, request);
            }
            if let Some(asked) = mind.expanding {
                expanded(system, steps, replica, vm, asked);
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

fn answered(system: &System, steps: &mut Steps, replica: usize, vm: usize, request: &Request) {
    let (faults, apart) = (steps.model.may.fail_us, steps.model.apart);
    let learn = |state: &mut State, answer: Answer| {
        let memory = system
            .minds
            .learn(&state.replicas[replica].minds[vm], &request.turn, answer, state);
        let mind = &mut state.replicas[replica].minds[vm];
        mind.request = None;
        mind.memory = memory;
    };
    let step = |what| Step::Request(replica, vm, what);
    steps.add(Cost::Free, step("arrives and is answered"), |state| {
        let (answer, broken) = arrive(state, request);
        learn(state, answer);
        let tally = &mut state.replicas[replica].minds[vm].tally;
        match answer {
            Answer::Created(_) => {
                // One that follows a pod of other wishes needs no gap before it, but one after it (row 17).
                tally.made += u8::from(!std::mem::take(&mut tally.replaced));
                tally.lately = true;
            }
            Answer::Deleted(_) => {
                tally.replaced = matches!(request.turn.effect(), Effect::Delete { replaced: true, .. });
            }
            Answer::Conflict | Answer::Refused | Answer::None => {}
        }
        broken
    });
    if !faults {
        return;
    }
    steps.add(Cost::Disturbs, step("gets no answer in time"), |state| {
        learn(state, Answer::None);
        if !apart {
            state.strays.push(request.clone());
        }
        None
    });
    if apart {
        steps.add(Cost::Disturbs, step("arrives, but the answer is lost"), |state| {
            learn(state, Answer::None);
            arrive(state, request).1
        });
    }
    if matches!(request.act, Act::Create(_)) {
        steps.add(Cost::Disturbs, step("is refused by quota"), |state| {
            learn(state, Answer::Refused);
            None
        });
    }
}

/// virt-api answers to the wish to expand a VM: from what is there now, whatever we have seen. An answer about another spec
/// counts as none.
fn expanded(system: &System, steps: &mut Steps, replica: usize, vm: usize, asked: Vm) {
    let state = steps.state;
    let mut answer = |cost: Cost, what: &'static str, answer: Expansion| {
        steps.add(cost, Step::Expansion(replica, vm, what), |state| {
            let memory = system.minds.expand(&state.replicas[replica].minds[vm], answer, state);
            let mind = &mut state.replicas[replica].minds[vm];
            mind.expanding = None;
            mind.memory = memory;
            None
        });
    };
    match state.vms[vm] {
        Some(vm) if vm.spec() != asked.spec() => answer(Cost::Free, "expands another spec", Expansion::Away),
        Some(vm) => answer(Cost::Free, "expands it", Expansion::Of(vm, state.size)),
        None => answer(Cost::Free, "does not find it", Expansion::Away),
    }
    if system.model.may.fail_us {
        answer(Cost::Disturbs, "is away", Expansion::Away);
        answer(Cost::Disturbs, "refuses to expand it", Expansion::Refused);
    }
}

/// What the API server does with a request and says to it, and the rule that this breaks.
fn arrive(state: &mut State, request: &Request) -> (Answer, Option<String>) {
    let vm = usize::from(request.subject);
    match &request.act {
        Act::Create(body) => {
            let role = Role::Own {
                vm: request.subject,
                twin: body.twin,
            };
            if state.pods.iter().any(|pod| pod.id.index() == role.slot()) {
                return (Answer::Conflict, None);
            }
            let id = state.fresh(Kind::Pod, role.slot());
            state.pods.push(Pod {
                id,
                role,
                claims: body.claims,
                phase: PodPhase::Pending,
                node: None,
                unschedulable: false,
                deleting: false,
                body: Some(Rc::clone(body)),
            });
            (Answer::Created(id), None)
        }
        Act::Delete { meant, uid } => {
            let fixed = Role::Lookalike { vm: request.subject }.slot();
            let slot = if meant.index() == 4 + vm { meant.index() } else { fixed };
            let Some(found) = state.pods.iter().position(|pod| pod.id.index() == slot) else {
                return (Answer::Deleted(*meant), None);
            };
            if uid.is_some_and(|uid| state.pods[found].id != uid) {
                return (Answer::Conflict, None);
            }
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
            (Answer::Deleted(*meant), broken)
        }
    }
}
