//! Objects in compact form.

use super::canon::{MARK, Outline};
use crate::world::{
    objects::{ClaimPhase, DvPhase, PodPhase, Worker},
    virt_controller::{VmiPhase, vm::RunStrategy},
};
use serde_json::Value;
use std::rc::Rc;

/// Kinds that change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Vm,
    Vmi,
    Dv,
    Claim,
    Pod,
}

pub const KINDS: [Kind; 5] = [Kind::Vm, Kind::Vmi, Kind::Dv, Kind::Claim, Kind::Pod];

/// A UID: the nth life of a name. Slots of claims: twice the disk's, plus one for its prime. Slots of pods: see
/// [`Role::slot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub kind: Kind,
    pub slot: u8,
    pub life: u8,
}

impl Id {
    pub fn new(kind: Kind, slot: usize, life: u8) -> Self {
        let slot = u8::try_from(slot).unwrap_or(u8::MAX);
        Self { kind, slot, life }
    }

    /// The place of its name among all names.
    pub fn place(self) -> usize {
        let base = match self.kind {
            Kind::Vm => 0,
            Kind::Vmi => 4,
            Kind::Dv => 8,
            Kind::Claim => 16,
            Kind::Pod => 32,
        };
        base + usize::from(self.slot)
    }

    /// As the API objects have it.
    pub fn uid(self) -> String {
        let letter = match self.kind {
            Kind::Vm => 'v',
            Kind::Vmi => 'i',
            Kind::Dv => 'd',
            Kind::Claim => 'c',
            Kind::Pod => 'p',
        };
        format!("{MARK}{letter}{}.{}{MARK}", self.slot, self.life)
    }

    /// Reads what is between two marks.
    pub fn read(text: &str) -> Option<Self> {
        let kind = match text.bytes().next()? {
            b'v' => Kind::Vm,
            b'i' => Kind::Vmi,
            b'd' => Kind::Dv,
            b'c' => Kind::Claim,
            b'p' => Kind::Pod,
            _ => return None,
        };
        let (slot, life) = text[1..].split_once('.')?;
        Some(Self {
            kind,
            slot: slot.parse().ok()?,
            life: life.parse().ok()?,
        })
    }

    /// Reads a whole UID.
    pub fn of(uid: &str) -> Option<Self> {
        Self::read(uid.trim_matches(MARK))
    }

    pub fn index(self) -> usize {
        usize::from(self.slot)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vm {
    pub id: Id,
    pub strategy: RunStrategy,
    pub asks: Option<bool>,
    /// Which of two node selectors the template has.
    pub edited: bool,
    /// What the revision of its instancetype says that virt-controller has stored.
    pub revision: Option<Size>,
    pub deleting: bool,
}

impl Vm {
    /// What its generation counts, and its life.
    pub fn spec(self) -> (Id, RunStrategy, bool) {
        (self.id, self.strategy, self.edited)
    }
}

/// What an instancetype says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Size {
    #[default]
    Small,
    Large,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vmi {
    pub id: Id,
    pub owner: Id,
    pub phase: VmiPhase,
    pub edited: bool,
    /// What its instancetype said when it was made, if its VM has one.
    pub size: Option<Size>,
    pub deleting: bool,
    /// When it was made, in jumps.
    pub born: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dv {
    pub id: Id,
    pub populator: Option<bool>,
    pub phase: DvPhase,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    pub id: Id,
    /// The DataVolume; of a prime the target.
    pub owner: Id,
    pub phase: ClaimPhase,
    pub node: Option<u8>,
    pub asked: bool,
    pub deleting: bool,
    pub populator: bool,
    pub worker_named: bool,
    pub worker: Rc<Worker>,
    pub knows_prime: bool,
}

/// A volume: made for a claim, given to another by a rebind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Volume {
    pub made_for: Id,
    pub claim: Id,
    pub node: u8,
}

/// What a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A first-consumer pod; the VM's slot. `twin`: under another name than the fixed one.
    Own { vm: u8, twin: bool },
    /// Has the name of ours, but nothing else.
    Lookalike { vm: u8 },
    /// The controller is the VMI.
    Launcher { vmi: Id, temporary: bool },
    /// The controller is the claim.
    Worker { claim: Id },
}

impl Role {
    pub fn slot(self) -> usize {
        match self {
            Self::Own { vm, twin: false } | Self::Lookalike { vm } => usize::from(vm),
            Self::Own { vm, twin: true } => 4 + usize::from(vm),
            Self::Launcher { vmi, .. } => 8 + vmi.index(),
            Self::Worker { claim } => 16 + claim.index(),
        }
    }
}

/// The body of a pod of ours.
#[derive(Debug)]
pub struct Body {
    pub value: Value,
    pub outline: Outline,
    /// Its owner.
    pub owner: Id,
    /// Slots of the claims that it lists, as bits.
    pub claims: u16,
    /// It has another name than the fixed one.
    pub twin: bool,
}

#[derive(Clone, Debug)]
pub struct Pod {
    pub id: Id,
    pub role: Role,
    /// Slots of the claims that it lists, as bits.
    pub claims: u16,
    pub phase: PodPhase,
    pub node: Option<u8>,
    pub unschedulable: bool,
    pub deleting: bool,
    pub body: Option<Rc<Body>>,
}

/// A binding cycle of the scheduler that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub pod: Id,
    pub claims: u16,
    pub node: u8,
    /// Claims that are left to annotate, the next one last.
    pub todo: Vec<Id>,
}
