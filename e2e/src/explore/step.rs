//! Every step that is possible in a state.

use super::api;
use super::memo::Habits;
use super::mind::{Acted, Brain};
use super::models::Model;
use super::neighbours;
use super::objects::{Claim, Id, KINDS, Kind, Role};
use super::people;
use super::render;
use super::state::{Positions, State};
use super::turns::Minds;
use first_consumer::decide::Effect;
use std::fmt;
use std::rc::Rc;

/// What a step costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Happens by itself sooner or later.
    Free,
    /// So does this, and nobody but who does it can tell when: see [`System::steps`].
    Unseen,
    /// So does a turn of ours. `fair`: this is what a replica decides that sees everything.
    Turn { fair: bool },
    /// Time passes, which it does when nothing else is left to do.
    Time,
    /// May happen or not.
    Optional,
    /// One of the disturbances that the budget allows.
    Disturbs,
}

/// What happened, for the story.
#[derive(Clone, Debug)]
pub enum Step {
    /// Somebody did something to an object.
    Did(&'static str, Option<Id>),
    /// A replica took a turn for a subject at these positions.
    Turn(usize, usize, Rc<Acted>, [(u8, u8); KINDS.len()]),
    /// Something became of the request of this replica for this subject.
    Request(usize, usize, &'static str),
    /// virt-api did something with the wish of this replica to expand this VM.
    Expansion(usize, usize, &'static str),
    /// Something became of a request that nobody waits for any more.
    Stray(usize, &'static str),
}

impl Step {
    /// A create was sent.
    #[must_use]
    pub fn creates(&self) -> bool {
        matches!(self, Self::Turn(_, _, acted, _) if matches!(acted.effect(), Effect::Create(_)))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Did(what, None) => f.write_str(what),
            Self::Did(what, Some(id)) => write!(f, "{}", what.replace("{}", &name(*id))),
            Self::Stray(vm, what) => write!(f, "an earlier request for {} {what}", render::vm_name(*vm)),
            Self::Request(replica, vm, what) => {
                write!(f, "replica {replica}, {}: the request {what}", render::vm_name(*vm))
            }
            Self::Expansion(replica, vm, what) => {
                write!(f, "replica {replica}, {}: virt-api {what}", render::vm_name(*vm))
            }
            Self::Turn(replica, vm, acted, at) => {
                let sends = match acted.effect() {
                    Effect::Nothing => "remembers it",
                    Effect::Expand { .. } => "asks for an expansion",
                    Effect::Create(_) => "sends a create",
                    Effect::Delete { .. } => "sends a delete",
                };
                let (vm, decision) = (render::vm_name(*vm), &acted.taken.turn.decision);
                write!(
                    f,
                    "replica {replica}, {vm}: {:?}, {}, {sends}",
                    decision.action, decision.reason
                )?;
                let lag = KINDS.iter().zip(at).filter(|(_, (at, newest))| at < newest);
                for (kind, (at, newest)) in lag {
                    write!(f, "; it has not seen the last {} of {kind:?}", newest - at)?;
                }
                Ok(())
            }
        }
    }
}

/// An object in words.
pub fn name(id: Id) -> String {
    let slot = id.index();
    let (what, name) = match id.kind {
        Kind::Vm => ("VM", render::vm_name(slot)),
        Kind::Vmi => ("VMI", render::vm_name(slot)),
        Kind::Dv => ("DataVolume", render::disk_name(slot)),
        Kind::Claim if slot % 2 == 1 => ("the prime claim of", render::disk_name(slot / 2)),
        Kind::Claim => ("claim", render::disk_name(slot / 2)),
        Kind::Pod if slot < 8 => ("our pod for", render::vm_name(slot % 4)),
        Kind::Pod if slot < 16 => ("the launcher of", render::vm_name(slot - 8)),
        Kind::Pod => ("the worker of", render::disk_name((slot - 16) / 2)),
    };
    format!("{what} {name} (life {})", id.life)
}

/// A step, where it leads, and the rule that it breaks.
#[derive(Clone)]
pub struct Next {
    pub step: Step,
    pub cost: Cost,
    pub state: State,
    pub broken: Option<String>,
}

/// Collects the steps of a state.
pub struct Steps<'a> {
    pub state: &'a State,
    pub list: Vec<Next>,
    /// The model.
    pub model: &'a Model,
}

impl<'a> Steps<'a> {
    fn of(model: &'a Model, state: &'a State) -> Self {
        Self {
            state,
            list: Vec::new(),
            model,
        }
    }

    /// A step that changes the state, if the budget allows it.
    pub fn add(&mut self, cost: Cost, step: Step, change: impl FnOnce(&mut State) -> Option<String>) {
        let mut state = self.state.clone();
        if cost == Cost::Disturbs {
            let Some(left) = state.budget.checked_sub(1) else {
                return;
            };
            state.budget = left;
        }
        let broken = change(&mut state);
        if !state.pods.is_sorted_by_key(|pod| pod.id) {
            state.pods.sort_by_key(|pod| pod.id);
        }
        if !state.volumes.is_sorted() {
            state.volumes.sort();
        }
        if !state.bindings.is_sorted_by_key(|binding| binding.pod) {
            state.bindings.sort_by_key(|binding| binding.pod);
        }
        state.publish(self.model.lag, Some(self.state));
        let broken = broken.or_else(|| super::rules::of_state(self.model, &state));
        self.list.push(Next {
            step,
            cost,
            state,
            broken,
        });
    }

    /// A step that breaks nothing by itself.
    pub fn did(&mut self, cost: Cost, what: &'static str, on: Option<Id>, change: impl FnOnce(&mut State)) {
        self.add(cost, Step::Did(what, on), |state| {
            change(state);
            None
        });
    }
}

/// A model and a brain: what the steps of a state are.
pub struct System<'a> {
    /// The model.
    pub model: &'a Model,
    pub(super) minds: Minds<'a>,
    pub(super) habits: Habits,
}

impl<'a> System<'a> {
    /// The system of a model with a brain.
    pub fn new(model: &'a Model, brain: &'a dyn Brain) -> Self {
        Self {
            model,
            minds: Minds::new(model, brain),
            habits: Habits::default(),
        }
    }

    /// All steps. Where an unseen one is possible, it alone: it neither enables nor hinders a step of anybody else before
    /// its own neighbour's next visible one, which may come as late as it likes (partial order reduction).
    pub(super) fn steps(&self, state: &State) -> Vec<Next> {
        let mut steps = Steps::of(self.model, state);
        self.turns(&mut steps);
        api::steps(self, &mut steps);
        neighbours::steps(self, &mut steps);
        people::steps(self.model, &mut steps);
        if ages(state) {
            self.time(&mut steps);
        }
        let unseen = steps.list.iter().position(|next| next.cost == Cost::Unseen);
        if let Some(at) = unseen {
            return vec![steps.list.swap_remove(at)];
        }
        steps.list
    }

    /// Whether we have something to do, and can know it.
    pub(super) fn busy(&self, state: &State) -> bool {
        let newest = newest(state);
        state.replicas.iter().enumerate().any(|(replica, of)| {
            (0..of.minds.len()).any(|vm| {
                let acts = |acted: Rc<Acted>| {
                    *acted.effect() != Effect::Nothing || acted.taken.turn.standing != of.standings[vm]
                };
                of.minds[vm].request.is_some()
                    || of.minds[vm].expanding.is_some()
                    || self.minds.turn(state, replica, vm, newest).is_some_and(acts)
            })
        })
    }

    /// An hour is long enough for watches, requests and turns; that one stalls so long is a disturbance.
    fn time(&self, steps: &mut Steps) {
        let state = steps.state;
        let newest = newest(state);
        let pass = |state: &mut State| {
            state.now += 1;
            for mind in state.replicas.iter_mut().flat_map(|replica| replica.minds.iter_mut()) {
                mind.tally.lately = false;
            }
        };
        // Where nobody is slower than a pod's life, no binding cycle stops for an hour.
        let binds = state.bindings.iter().any(|binding| !binding.todo.is_empty());
        if self.model.apart && binds {
            return;
        }
        if state.strays.is_empty() && !self.busy(state) {
            let before = steps.state;
            steps.add(Cost::Time, Step::Did("an hour passes", None), |state| {
                pass(state);
                let broken = self.minds.oversleeps_hour(before, state, newest);
                state.replicas.iter_mut().for_each(|replica| replica.at = newest);
                broken
            });
        }
        if self.model.may.fail_us && state.replicas.iter().any(|replica| replica.at != newest) {
            steps.did(
                Cost::Disturbs,
                "an hour passes in which watches and requests stall",
                None,
                pass,
            );
        }
    }

    /// Our turns.
    fn turns(&self, steps: &mut Steps) {
        let state = steps.state;
        let newest = newest(state);
        for (replica, of) in state.replicas.iter().enumerate() {
            if let Some(rule) = self.minds.never_rests(state, replica, newest) {
                let step = Step::Request(replica, 0, "that should follow never does");
                steps.add(Cost::Free, step, |_| Some(rule));
            }
            for vm in (0..of.minds.len()).filter(|vm| of.minds[*vm].request.is_none()) {
                let fair = self.minds.turn(state, replica, vm, newest).map(|acted| acted.outcome);
                let seen = (0..KINDS.len()).filter(|kind| of.at[*kind] < newest[*kind]);
                let mut lost = seen.filter_map(|kind| self.minds.oversleeps(state, replica, vm, newest, kind));
                if let Some(rule) = lost.next() {
                    let step = Step::Request(replica, vm, "that should follow is never thought of");
                    steps.add(Cost::Free, step, |_| Some(rule));
                }
                let mut taken: Vec<(u128, Positions)> = Vec::new();
                let mut at = of.at;
                loop {
                    if let Some(acted) = self.minds.turn(state, replica, vm, at)
                        // Who has seen less may still see all that who has seen more can.
                        && !taken.iter().any(|(outcome, seen)| {
                            *outcome == acted.outcome && seen.iter().zip(&at).all(|(less, more)| less <= more)
                        })
                    {
                        let first = taken.iter().all(|(outcome, _)| *outcome != acted.outcome);
                        taken.push((acted.outcome, at));
                        let fair = first && fair == Some(acted.outcome);
                        let seen = std::array::from_fn(|kind| (at[kind], newest[kind]));
                        let step = Step::Turn(replica, vm, Rc::clone(&acted), seen);
                        let names_uids = self.minds.brain.names_uids();
                        steps.add(Cost::Turn { fair }, step, |state| {
                            api::send(state, replica, vm, at, &acted, names_uids);
                            acted.broken.clone()
                        });
                    }
                    if !advance(&mut at, of.at, newest) {
                        break;
                    }
                }
            }
        }
    }
}

/// Everything is seen.
fn newest(state: &State) -> Positions {
    std::array::from_fn(|kind| u8::try_from(state.history[kind].len() - 1).unwrap_or(u8::MAX))
}

/// The next positions between the oldest and the newest; `false` after the last.
fn advance(at: &mut Positions, oldest: Positions, newest: Positions) -> bool {
    for kind in 0..KINDS.len() {
        if at[kind] < newest[kind] {
            at[kind] += 1;
            return true;
        }
        at[kind] = oldest[kind];
    }
    false
}

/// Whether a timer is running: an hour later somebody may decide otherwise.
fn ages(state: &State) -> bool {
    let minds = || state.replicas.iter().flat_map(|replica| &replica.minds);
    minds().any(|mind| mind.memory.outline.ages(state.time()) || mind.tally.lately)
        || state.vmis.iter().flatten().any(|vmi| vmi.born == state.now)
}

/// The claims that are not there are `None`.
pub fn claims_of(state: &State, claims: u16) -> impl Iterator<Item = Option<&Claim>> {
    (0..state.claims.len())
        .filter(move |slot| claims >> slot & 1 == 1)
        .map(|slot| state.claims[slot].as_ref())
}

/// Whether a pod is a launcher of this VMI.
pub fn launches(role: Role, id: Id) -> bool {
    matches!(role, Role::Launcher { vmi, .. } if vmi == id)
}
