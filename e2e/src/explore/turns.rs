//! Turns of the product on what a replica sees, remembered by their input.

use super::canon::Digest;
use super::identity;
use super::memo::Memo;
use super::mind::{Acted, Answer, Brain, Expansion, Mind, Remembered, Taken};
use super::models::Model;
use super::objects::KINDS;
use super::render;
use super::rules;
use super::seen::{Seen, Table};
use super::state::{Positions, Replica, State};
use first_consumer::decide::{Decision, Effect};
use first_consumer::index::{Changed, Index, Standing};
use first_consumer::memory::{Expanding, Memory, Outcome, Wishes};
use first_consumer::name::Uid;
use k8s_openapi::jiff::Timestamp;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// What a turn depends on, and its digests: of the caches, of all that a new process would go by, of everything.
struct Input<'a> {
    vm: usize,
    mind: &'a Mind,
    standings: &'a [Option<Standing>],
    tables: [&'a Table; KINDS.len()],
    index: u128,
    sight: u128,
    whole: u128,
}

impl<'a> Input<'a> {
    fn new(state: &'a State, of: &'a Replica, vm: usize, at: Positions) -> Self {
        let mind = &of.minds[vm];
        let tables: [&Table; KINDS.len()] = std::array::from_fn(|kind| &*state.history[kind][usize::from(at[kind])]);
        let mut digest = Digest::default();
        for table in tables {
            digest.push_whole(table.outline.exact);
        }
        let index = digest.done();
        for standing in &of.standings {
            digest.push(identity::standing(standing.as_ref()));
        }
        digest.push((vm as u64) << 8 | u64::from(state.now));
        let sight = digest.done();
        digest.push_whole(mind.memory.outline.exact);
        Self {
            vm,
            mind,
            standings: &of.standings,
            tables,
            index,
            sight,
            whole: digest.done(),
        }
    }

    /// Whether nothing comes of the turn.
    fn is_idle(&self, taken: &Taken) -> bool {
        taken.turn.effect == Effect::Nothing
            && taken.memory.outline.exact == self.mind.memory.outline.exact
            && taken.turn.standing == self.standings[self.vm]
    }
}

/// Turns by their input; `None` if nothing comes of one.
pub struct Minds<'a> {
    pub model: &'a Model,
    pub brain: &'a dyn Brain,
    fixture: Index,
    views: RefCell<HashMap<Seen, render::View>>,
    /// Large, and wanted again soon or never.
    indexes: Memo<Rc<Index>>,
    turns: Memo<Option<Rc<Acted>>>,
    taken: Memo<Rc<Taken>>,
    /// Decisions of processes that have just started.
    fresh: Memo<Rc<Decision>>,
    learned: Memo<Rc<Remembered>>,
    sleepers: Memo<Option<String>>,
    restless: Memo<bool>,
}

impl<'a> Minds<'a> {
    pub fn new(model: &'a Model, brain: &'a dyn Brain) -> Self {
        Self {
            model,
            brain,
            fixture: render::fixture(model),
            views: RefCell::default(),
            indexes: Memo::of_most(4096),
            turns: Memo::default(),
            taken: Memo::default(),
            fresh: Memo::default(),
            learned: Memo::default(),
            sleepers: Memo::default(),
            restless: Memo::default(),
        }
    }

    /// How many different turns the product has taken.
    pub fn turns(&self) -> usize {
        self.taken.len()
    }

    /// What is remembered after the answer to a turn's request.
    pub fn learn(&self, mind: &Mind, acted: &Acted, answer: Answer, state: &State) -> Rc<Remembered> {
        let mut key = Digest::default();
        key.push_whole(mind.memory.outline.exact);
        key.push_whole(acted.outcome);
        key.push(identity::digest(&answer) ^ u64::from(state.now));
        self.learned.get(key.done(), || {
            let mut memory = mind.memory.memory.clone();
            memory.record(outcome(acted, answer, state), &acted.taken.turn.observed, state.time());
            Remembered::new(memory)
        })
    }

    /// What is remembered when virt-api has expanded a VM, or has not.
    pub fn expand(&self, mind: &Mind, answer: Expansion, state: &State) -> Rc<Remembered> {
        let mut key = Digest::default();
        key.push_whole(mind.memory.outline.exact);
        key.push(identity::digest(&answer) ^ u64::from(state.now));
        self.learned.get(key.done(), || {
            let expanding = match answer {
                Expansion::Of(vm, size) => render::expansion(self.model, vm, size).map_or_else(
                    || Expanding::Refused("unreadable".into()),
                    |template| Expanding::Expanded(Box::new(template)),
                ),
                Expansion::Refused => Expanding::Refused("no such instancetype".into()),
                Expansion::Away => Expanding::Unanswered("no answer".into()),
            };
            let mut memory = mind.memory.memory.clone();
            memory.expansion.end(expanding, state.time());
            Remembered::new(memory)
        })
    }

    /// What comes of a turn at these positions; `None` if it neither writes nor remembers anything new.
    pub fn turn(&self, state: &State, replica: usize, vm: usize, at: Positions) -> Option<Rc<Acted>> {
        let input = Input::new(state, &state.replicas[replica], vm, at);
        let mind = input.mind;
        let mut digest = Digest::default();
        digest.push_whole(input.whole);
        mind.tally.enter(&mut digest);
        self.turns.get(digest.done(), || {
            let taken = self.taken(&input, state);
            let idle = input.is_idle(&taken);
            let acted = self.judge(taken, mind, vm, input.tables, state.time());
            (acted.broken.is_some() || !idle).then(|| Rc::new(acted))
        })
    }

    fn taken(&self, input: &Input, state: &State) -> Rc<Taken> {
        self.taken.get(input.whole, || {
            let mut index = self.index(input.index, input.tables);
            if input.standings.iter().any(Option::is_some) {
                let index = Rc::make_mut(&mut index);
                for (vm, standing) in input.standings.iter().enumerate() {
                    index.note(&render::subject(vm), standing.clone());
                }
            }
            Rc::new(self.take(&index, input.sight, &input.mind.memory.memory, input.vm, state.time()))
        })
    }

    /// Whether somebody who was satisfied with the objects before the newest version of a kind decides otherwise with it,
    /// and no wake-up comes of that version.
    pub fn oversleeps(&self, state: &State, replica: usize, vm: usize, at: Positions, kind: usize) -> Option<String> {
        let mut before = at;
        before[kind] -= 1;
        let input = Input::new(state, &state.replicas[replica], vm, before);
        let then = Input::new(state, &state.replicas[replica], vm, at);
        let mut key = Digest::default();
        key.push_whole(input.whole);
        key.push_whole(then.whole);
        self.sleepers.get(key.done(), || {
            let (was, is) = (self.taken(&input, state), self.taken(&then, state));
            if !input.is_idle(&was) || was.decides_as(&is) {
                return None;
            }
            let mut index = (*self.index(input.index, input.tables)).clone();
            let views = |table: &Table| {
                table
                    .objects
                    .iter()
                    .filter_map(|seen| self.view(seen))
                    .collect::<Vec<_>>()
            };
            let (old, new) = (views(input.tables[kind]), views(then.tables[kind]));
            let mut woken = Changed::new();
            for gone in old.iter().filter(|old| new.iter().all(|new| new.key() != old.key())) {
                woken.extend(gone.delete(&mut index));
            }
            for view in new {
                woken.extend(view.apply(&mut index));
            }
            let woken = self.brain.woken(&format!("{:?}", KINDS[kind]), woken);
            let (was, is) = (was.turn.decision.reason, is.turn.decision.reason);
            (!woken.contains(&render::subject(vm))).then(|| {
                format!(
                    "no wake-up is lost: {was} becomes {is} with a {:?}, which wakes nobody",
                    KINDS[kind]
                )
            })
        })
    }

    /// The same of an hour that passes, before which `before` was the state.
    pub fn oversleeps_hour(&self, before: &State, state: &State, at: Positions) -> Option<String> {
        let subjects = before.replicas.iter().enumerate();
        let mut subjects = subjects.flat_map(|(replica, of)| (0..of.minds.len()).map(move |vm| (replica, vm)));
        subjects.find_map(|(replica, vm)| {
            let input = Input::new(before, &before.replicas[replica], vm, at);
            let was = self.taken(&input, before);
            let is = self.taken(&Input::new(state, &state.replicas[replica], vm, at), state);
            let woken = was.turn.decision.wake_at.is_some_and(|wake_at| wake_at <= state.time());
            let (was_reason, is_reason) = (was.turn.decision.reason, is.turn.decision.reason);
            (input.is_idle(&was) && !was.decides_as(&is) && !woken).then(|| {
                format!("no wake-up is lost: {was_reason} becomes {is_reason} by time alone, and no timer runs")
            })
        })
    }

    /// Whether subjects that look at each other wake each other for ever while nothing else happens. What they would write
    /// is not written: its slot is later.
    pub fn never_rests(&self, state: &State, replica: usize, at: Positions) -> Option<String> {
        if !self.model.apart && !self.model.shares() {
            return None;
        }
        let mut of = state.replicas[replica].clone();
        let free: Vec<usize> = (0..of.minds.len())
            .filter(|vm| of.minds[*vm].request.is_none())
            .collect();
        let mut key = Digest::default();
        for vm in &free {
            key.push(*vm as u64);
            key.push_whole(Input::new(state, &of, *vm, at).whole);
        }
        let restless = self.restless.get(key.done(), || {
            // Each of two may hear of the other's change a few times.
            for _ in 0..16 {
                let mut rests = true;
                for vm in &free {
                    let taken = self.taken(&Input::new(state, &of, *vm, at), state);
                    let (mind, standing) = (&mut of.minds[*vm], &mut of.standings[*vm]);
                    rests &=
                        taken.memory.outline.exact == mind.memory.outline.exact && taken.turn.standing == *standing;
                    mind.memory = Rc::clone(&taken.memory);
                    standing.clone_from(&taken.turn.standing);
                }
                if rests {
                    return false;
                }
            }
            true
        });
        restless.then(|| "turns come to rest: subjects wake each other for ever, though nothing happens".into())
    }

    fn view(&self, seen: &Seen) -> Option<render::View> {
        let known = self.views.borrow().get(seen).cloned();
        known.or_else(|| {
            let view = render::view(self.model, seen)?;
            self.views.borrow_mut().insert(seen.clone(), view.clone());
            Some(view)
        })
    }

    fn index(&self, key: u128, tables: [&Table; KINDS.len()]) -> Rc<Index> {
        self.indexes.get(key, || {
            let mut index = self.fixture.clone();
            let views = tables.iter().flat_map(|table| &table.objects);
            for view in views.filter_map(|seen| self.view(seen)) {
                view.apply(&mut index);
            }
            Rc::new(index)
        })
    }

    /// Has the product take a turn, and a process that has just started another.
    fn take(&self, index: &Index, sight_key: u128, memory: &Memory, vm: usize, now: Timestamp) -> Taken {
        let subject = render::subject(vm);
        let settings = &self.model.settings;
        let mut memory = memory.clone();
        let mut turn = self.brain.turn(index, &subject, settings, &mut memory, now);
        let fresh = self.fresh.get(sight_key, || {
            let mut memory = Memory::default();
            Rc::new(self.brain.turn(index, &subject, settings, &mut memory, now).decision)
        });
        let restart = rules::of_restart(&turn.decision, &memory, &fresh, now);
        // Where nobody looks at another, nobody asks.
        turn.standing = turn.standing.filter(|_| self.model.apart || self.model.shares());
        let observed = &turn.observed;
        // As the worker does: what is gone needs no memory.
        if turn.effect == Effect::Nothing && observed.owner.is_none() && observed.own_pod().is_none() {
            memory = Memory::default();
        }
        if let Effect::Expand { inputs } = &turn.effect {
            memory.expansion.begin(inputs.clone());
        }
        let memory = Remembered::new(memory);
        let (body, flags) = match &turn.effect {
            Effect::Create(pod) => (render::body(&subject, pod).map(Rc::new), String::new()),
            Effect::Delete { .. } => (None, format!("{:?}", turn.effect)),
            Effect::Expand { inputs } => (None, inputs.clone()),
            Effect::Nothing => (None, String::new()),
        };
        let (standing, wishes) = (&turn.standing, Wishes::of(observed));
        let awaits_node = observed.awaits_node();
        let mut outcome = Digest::default();
        outcome.push_text(&format!("{flags}{standing:?}{wishes:?}{awaits_node}"));
        outcome.push_whole(memory.outline.exact);
        outcome.push_whole(body.as_ref().map_or(0, |body| body.outline.exact));
        Taken {
            turn,
            body,
            memory,
            restart,
            awaits_node,
            outcome: outcome.done(),
        }
    }

    /// Counts on, and asks the rules.
    fn judge(&self, taken: Rc<Taken>, mind: &Mind, vm: usize, tables: [&Table; KINDS.len()], now: Timestamp) -> Acted {
        let sight = rules::Sight::new(self.model, vm, tables);
        let mut tally = sight.tally(mind.tally);
        let broken = rules::of_turn(&sight, &taken.turn, tally, &taken.memory.memory, now);
        let broken = broken.or_else(|| taken.restart.clone());
        if matches!(taken.turn.effect, Effect::Create(_)) {
            let wishes = Some(sight.wishes());
            tally.replaced &= tally.wishes != wishes;
            tally.wishes = wishes;
        }
        let mut outcome = Digest::default();
        outcome.push_whole(taken.outcome);
        tally.enter(&mut outcome);
        outcome.push_text(broken.as_deref().unwrap_or_default());
        Acted {
            taken,
            tally,
            broken,
            outcome: outcome.done(),
        }
    }
}

/// The API server's answer to a turn's request, as the product reads it.
fn outcome(acted: &Acted, answer: Answer, state: &State) -> Outcome {
    let replaced = matches!(*acted.effect(), Effect::Delete { replaced: true, .. });
    match answer {
        Answer::Created(id) => {
            let object = state.pod(id).map(render::pod_object);
            let pod = object.and_then(|object| render::parse(&object));
            Outcome::Created(Box::new(pod.unwrap_or_default()))
        }
        Answer::Refused => Outcome::Refused("exceeded quota".into()),
        Answer::Conflict => Outcome::Unanswered("Conflict".into()),
        Answer::None => Outcome::Unanswered("no answer".into()),
        Answer::Deleted(id) => Outcome::Deleted {
            held: false,
            uid: Uid::from(&*id.uid()),
            replaced,
        },
    }
}
