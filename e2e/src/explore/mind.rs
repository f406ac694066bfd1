//! One turn of the product on what a replica sees, remembered by its input.

use super::canon::{Digest, Outline, Visitor, Walk};
use super::identity;
use super::models::Model;
use super::objects::{Body, Id, KINDS};
use super::render;
use super::rules;
use super::search::Whole;
use super::seen::{Seen, Table};
use super::state::{Positions, Request, State};
use first_consumer::decide::{self, Decision, Effect, Settings, Turn};
use first_consumer::index::{Index, Standing};
use first_consumer::memory::{Memory, Outcome, Wishes};
use first_consumer::name::{Key, Uid};
use first_consumer::observe::Observed;
use k8s_openapi::jiff::Timestamp;
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::rc::Rc;

/// What decides: the product, or in tests one that was broken on purpose.
pub trait Brain {
    /// One turn.
    fn turn(&self, index: &Index, subject: &Key, settings: &Settings, memory: &mut Memory, now: Timestamp) -> Turn {
        decide::turn(index, subject, settings, memory, now)
    }

    /// Whether deletes name the UID.
    fn names_uids(&self) -> bool {
        true
    }
}

/// The product itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Product;

impl Brain for Product {}

/// A memory, and its text, which tells it from others.
#[derive(Debug)]
pub struct Remembered {
    pub memory: Memory,
    pub outline: Outline,
}

impl Remembered {
    /// Keeps what matters. `needed_since` counts only for a VM that waits for virt-controller to make its VMI, which here
    /// it always does; and a memory that holds nothing but whom it is about is as good as none.
    pub fn new(mut memory: Memory) -> Rc<Self> {
        memory.needed_since = None;
        let mut text = format!("{memory:?}");
        if essence(&text) == essence(&format!("{:?}", Memory::default())) {
            text = String::new();
        }
        let outline = Outline::of_text(&text);
        Rc::new(Self { memory, outline })
    }
}

/// A memory's text without its owner.
fn essence(text: &str) -> &str {
    text.split_once(", needed_since").map_or(text, |(_, rest)| rest)
}

/// What a replica knows of a subject, and what it is waiting for.
#[derive(Clone, Debug)]
pub struct Mind {
    pub memory: Rc<Remembered>,
    pub request: Option<Request>,
    /// What the rules count beside it.
    pub tally: Tally,
}

/// How often a replica has made a pod for one life of a subject, counted by the checker itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// The VM or VMI that is seen.
    pub owner: Option<Id>,
    /// Pods made since then, or since all its claims were seen bound.
    pub made: u8,
    /// The last one was made since the last jump of time.
    pub lately: bool,
    /// The last one was deleted to make room for one with other wishes.
    pub replaced: bool,
    /// What the last one was made for.
    pub wishes: Option<Wished>,
}

/// What somebody can change and a pod follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wished {
    /// Which node selector the template has.
    pub edited: bool,
    /// The claims, two at most.
    pub claims: [Option<Id>; 2],
    /// Nodes where disks of others are, as bits.
    pub taken: u8,
}

impl Mind {
    pub fn new() -> Self {
        Self {
            memory: Remembered::new(Memory::default()),
            request: None,
            tally: Tally::default(),
        }
    }
}

impl Walk for Mind {
    fn walk(&self, visitor: &mut impl Visitor) {
        visitor.outline(&self.memory.outline);
        self.request.walk(visitor);
        self.tally.walk(visitor);
    }
}

impl Walk for Tally {
    fn walk(&self, visitor: &mut impl Visitor) {
        visitor.value(u64::from(self.made) << 2 | u64::from(self.lately) << 1 | u64::from(self.replaced));
        let wishes = self.wishes.map_or(0, |wishes| {
            (2 + u64::from(wishes.taken)) << 1 | u64::from(wishes.edited)
        });
        visitor.value(wishes);
        let claims = self.wishes.iter().flat_map(|wishes| wishes.claims);
        for id in [self.owner].into_iter().chain(claims) {
            match id {
                Some(id) => visitor.id(id),
                None => visitor.value(0),
            }
        }
    }
}

/// What a turn came to.
#[derive(Debug)]
pub struct Acted {
    pub observed: Observed,
    pub decision: Decision,
    /// The request, if one is sent.
    pub effect: Effect,
    /// The body of the pod that is to be made.
    pub body: Option<Rc<Body>>,
    /// What is remembered after it.
    pub memory: Rc<Remembered>,
    pub tally: Tally,
    /// What others have to know of it.
    pub standing: Option<Standing>,
    /// The rule that it breaks.
    pub broken: Option<String>,
    /// Whether the scheduler may choose a node for the pod that is seen.
    pub awaits_node: bool,
    /// Tells what comes of it from what comes of other turns, whatever they saw.
    pub outcome: u128,
}

/// What the API server says to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It has made this pod.
    Created(Id),
    /// This pod is gone, or was gone already.
    Deleted(Id),
    /// 409: another pod has the name.
    Conflict,
    /// Quota.
    Refused,
    /// None in time.
    None,
}

/// Turns by their input; `None` if nothing comes of one.
pub struct Minds<'a> {
    pub model: &'a Model,
    pub brain: &'a dyn Brain,
    fixture: Index,
    views: RefCell<HashMap<Seen, render::View>>,
    indexes: RefCell<HashMap<u128, Rc<Index>>>,
    turns: RefCell<HashMap<u128, Option<Rc<Acted>>, BuildHasherDefault<Whole>>>,
    learned: RefCell<HashMap<(u128, Answer, u8), Rc<Remembered>>>,
}

impl<'a> Minds<'a> {
    pub fn new(model: &'a Model, brain: &'a dyn Brain) -> Self {
        Self {
            model,
            brain,
            fixture: render::fixture(model),
            views: RefCell::default(),
            indexes: RefCell::default(),
            turns: RefCell::default(),
            learned: RefCell::default(),
        }
    }

    /// How many different turns were taken.
    pub fn turns(&self) -> usize {
        self.turns.borrow().len()
    }

    /// What is remembered after the answer to a turn's request.
    pub fn learn(&self, acted: &Acted, answer: Answer, state: &State) -> Rc<Remembered> {
        let key = (acted.outcome, answer, state.now);
        if let Some(known) = self.learned.borrow().get(&key) {
            return Rc::clone(known);
        }
        let (replaced, next_attempt) = match acted.effect {
            Effect::Delete {
                replaced, next_attempt, ..
            } => (replaced, next_attempt),
            _ => (false, None),
        };
        let outcome = match answer {
            Answer::Created(id) => {
                let object = state.pod(id).map(render::pod_object);
                Outcome::Created(Box::new(
                    object.and_then(|object| render::parse(&object)).unwrap_or_default(),
                ))
            }
            Answer::Refused => Outcome::Refused("exceeded quota".into()),
            Answer::Conflict => Outcome::Unanswered("Conflict".into()),
            Answer::None => Outcome::Unanswered("no answer".into()),
            Answer::Deleted(id) => Outcome::Deleted {
                held: false,
                uid: Uid::from(&*id.uid()),
                replaced,
                next_attempt,
            },
        };
        let mut memory = acted.memory.memory.clone();
        memory.record(outcome, &acted.observed, state.time());
        let learned = Remembered::new(memory);
        self.learned.borrow_mut().insert(key, Rc::clone(&learned));
        learned
    }

    /// What comes of a turn at these positions; `None` if it neither writes nor remembers anything new.
    pub fn turn(&self, state: &State, replica: usize, vm: usize, at: Positions) -> Option<Rc<Acted>> {
        let mind = &state.replicas[replica].minds[vm];
        let tables: [&Table; KINDS.len()] = std::array::from_fn(|kind| &*state.history[kind][usize::from(at[kind])]);
        let mut digest = Digest::default();
        for table in tables {
            digest.push_whole(table.outline.exact);
        }
        let index_key = digest.done();
        digest.push_whole(mind.memory.outline.exact);
        digest.push_whole(Outline::of(&mind.tally).exact);
        digest.push((vm as u64) << 8 | u64::from(state.now));
        let standings = &state.replicas[replica].standings;
        for standing in standings {
            digest.push(identity::standing(standing.as_ref()));
        }
        let key = digest.done();
        if let Some(known) = self.turns.borrow().get(&key) {
            return known.clone();
        }
        let index = self.index(index_key, tables);
        let acted = if standings.iter().any(Option::is_some) {
            let mut index = (*index).clone();
            for (vm, standing) in standings.iter().enumerate() {
                index.note(&render::subject(vm), standing.clone());
            }
            self.take(&index, state, (replica, vm), tables)
        } else {
            self.take(&index, state, (replica, vm), tables)
        };
        self.turns.borrow_mut().insert(key, acted.clone());
        acted
    }

    fn index(&self, key: u128, tables: [&Table; KINDS.len()]) -> Rc<Index> {
        let known = self.indexes.borrow().get(&key).cloned();
        known.unwrap_or_else(|| {
            let mut index = self.fixture.clone();
            for seen in tables.iter().flat_map(|table| &table.objects) {
                let known = self.views.borrow().get(seen).cloned();
                let view = known.or_else(|| {
                    let view = render::view(self.model, seen)?;
                    self.views.borrow_mut().insert(seen.clone(), view.clone());
                    Some(view)
                });
                if let Some(view) = view {
                    view.apply(&mut index);
                }
            }
            let index = Rc::new(index);
            self.indexes.borrow_mut().insert(key, Rc::clone(&index));
            index
        })
    }

    fn take(
        &self,
        index: &Index,
        state: &State,
        (replica, vm): (usize, usize),
        tables: [&Table; KINDS.len()],
    ) -> Option<Rc<Acted>> {
        let replica = &state.replicas[replica];
        let mind = &replica.minds[vm];
        let (subject, now) = (render::subject(vm), state.time());
        let mut memory = mind.memory.memory.clone();
        let turn = self.brain.turn(index, &subject, &self.model.settings, &mut memory, now);
        let sight = rules::Sight::new(self.model, vm, tables);
        let mut tally = sight.tally(mind.tally);
        let broken = rules::of_turn(&sight, &turn, tally, &memory, now).or_else(|| {
            let mut fresh = Memory::default();
            let again = self.brain.turn(index, &subject, &self.model.settings, &mut fresh, now);
            rules::of_restart(&turn, &memory, &again, now)
        });
        let Turn {
            observed,
            decision,
            effect,
            standing,
        } = turn;
        if matches!(effect, Effect::Create(_)) {
            let wishes = Some(sight.wishes());
            tally.replaced &= tally.wishes != wishes;
            tally.wishes = wishes;
        }
        // Where nobody is kept apart, nobody asks.
        let standing = standing.filter(|_| self.model.apart);
        // As the worker does: what is gone needs no memory.
        if effect == Effect::Nothing && observed.owner.is_none() && observed.own_pod().is_none() {
            memory = Memory::default();
        }
        let memory = Remembered::new(memory);
        let idle = effect == Effect::Nothing
            && memory.outline.exact == mind.memory.outline.exact
            && standing == replica.standings[vm];
        if idle && broken.is_none() {
            return None;
        }
        let body = match &effect {
            Effect::Create(pod) => Some(Rc::new(render::body(&subject, pod)?)),
            _ => None,
        };
        let flags = match &effect {
            Effect::Delete { .. } => format!("{effect:?}"),
            Effect::Nothing | Effect::Create(_) | Effect::Expand { .. } => String::new(),
        };
        let awaits_node = observed.awaits_node();
        let wishes = Wishes::of(&observed);
        let mut outcome = Digest::default();
        outcome.push_text(&format!(
            "{flags}{tally:?}{standing:?}{wishes:?}{awaits_node}{broken:?}"
        ));
        outcome.push_whole(memory.outline.exact);
        outcome.push_whole(body.as_ref().map_or(0, |body| body.outline.exact));
        Some(Rc::new(Acted {
            outcome: outcome.done(),
            awaits_node,
            observed,
            decision,
            effect,
            body,
            memory,
            tally,
            standing,
            broken,
        }))
    }
}
