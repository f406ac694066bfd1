//! What a replica knows of a subject, and what comes of its turns.

use super::canon::{Digest, Outline, Visitor, Walk};
use super::objects::{Body, Id, Size, Vm};
use super::state::Request;
use first_consumer::decide::{self, Effect, Settings, Turn};
use first_consumer::index::{Changed, Index};
use first_consumer::memory::Memory;
use first_consumer::name::Key;
use k8s_openapi::jiff::Timestamp;
use std::rc::Rc;

/// What decides: the product, or in tests one that was broken on purpose.
pub trait Brain {
    /// One turn.
    fn turn(&self, index: &Index, subject: &Key, settings: &Settings, memory: &mut Memory, now: Timestamp) -> Turn {
        decide::turn(index, subject, settings, memory, now)
    }

    /// The subjects that are woken after a change of a kind.
    fn woken(&self, _kind: &str, changed: Changed) -> Changed {
        changed
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
    /// virt-api has been asked to expand this VM.
    pub expanding: Option<Vm>,
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
    /// Which revision of its instancetype is stored.
    pub revision: Option<Size>,
    /// The claims, two at most.
    pub claims: [Option<Id>; 2],
    /// Nodes where disks of others are, as bits.
    pub taken: u8,
}

impl Wished {
    fn flags(self) -> u64 {
        let revision = self.revision.map_or(0, |size| 1 + size as u64);
        (2 + u64::from(self.taken)) << 3 | revision << 1 | u64::from(self.edited)
    }
}

impl Mind {
    pub fn new() -> Self {
        Self {
            memory: Remembered::new(Memory::default()),
            request: None,
            expanding: None,
            tally: Tally::default(),
        }
    }
}

impl Walk for Mind {
    fn walk(&self, visitor: &mut impl Visitor) {
        visitor.outline(&self.memory.outline);
        self.request.walk(visitor);
        self.expanding.walk(visitor);
        self.tally.walk(visitor);
    }
}

impl Tally {
    /// Enters it into a digest as it stands.
    pub fn enter(&self, digest: &mut Digest) {
        digest.push(u64::from(self.made) << 2 | u64::from(self.lately) << 1 | u64::from(self.replaced));
        let id = |id: Option<Id>| id.map_or(0, |id| (1 + id.place() as u64) << 8 | u64::from(id.life));
        digest.push(id(self.owner));
        digest.push(self.wishes.map_or(0, Wished::flags));
        let claims = self.wishes.into_iter().flat_map(|wishes| wishes.claims);
        claims.for_each(|claim| digest.push(id(claim)));
    }
}

impl Walk for Tally {
    fn walk(&self, visitor: &mut impl Visitor) {
        visitor.value(u64::from(self.made) << 2 | u64::from(self.lately) << 1 | u64::from(self.replaced));
        visitor.value(self.wishes.map_or(0, Wished::flags));
        let claims = self.wishes.iter().flat_map(|wishes| wishes.claims);
        for id in [self.owner].into_iter().chain(claims) {
            match id {
                Some(id) => visitor.id(id),
                None => visitor.value(0),
            }
        }
    }
}

/// A turn of the product, whatever the rules have counted.
#[derive(Debug)]
pub struct Taken {
    pub turn: Turn,
    /// The body of the pod that is to be made.
    pub body: Option<Rc<Body>>,
    /// What is remembered after it.
    pub memory: Rc<Remembered>,
    /// How a process that has just started would decide otherwise.
    pub restart: Option<String>,
    /// Whether the scheduler may choose a node for the pod that is seen.
    pub awaits_node: bool,
    /// Tells what comes of it from what comes of other turns, whatever they saw.
    pub outcome: u128,
}

impl Taken {
    pub fn decides_as(&self, other: &Self) -> bool {
        let key = |taken: &Self| (taken.turn.decision.action, taken.turn.decision.reason);
        key(self) == key(other) && self.turn.effect == other.turn.effect
    }
}

/// What a turn came to.
#[derive(Debug)]
pub struct Acted {
    pub taken: Rc<Taken>,
    pub tally: Tally,
    /// The rule that it breaks.
    pub broken: Option<String>,
    /// Tells what comes of it from what comes of other turns, whatever they saw.
    pub outcome: u128,
}

impl Acted {
    /// The request, if one is sent.
    pub fn effect(&self) -> &Effect {
        &self.taken.turn.effect
    }
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

/// What virt-api says to the wish to expand a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expansion {
    /// The template of this VM, with an instancetype that says this.
    Of(Vm, Size),
    /// It can't be expanded as it is.
    Refused,
    /// Nobody answers.
    Away,
}
