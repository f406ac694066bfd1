//! The state: objects in compact form, what is seen of them, our replicas.

use super::canon::{Digest, Lives, MARK, Renamed, Tokens, Visitor};
use super::mind::Mind;
use crate::world::{
    objects::{ClaimPhase, DvPhase, PodPhase, Worker},
    virt_controller::{VmiPhase, vm::RunStrategy},
};
use first_consumer::decide::Effect;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

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
    pub deleting: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vmi {
    pub id: Id,
    pub owner: Id,
    pub phase: VmiPhase,
    pub edited: bool,
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
    pub worker: Arc<Worker>,
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
    pub tokens: Tokens,
    /// Its owner.
    pub owner: Id,
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
    pub body: Option<Arc<Body>>,
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

/// One object as far as the product reads it. Equal values are no news to a watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Seen {
    Vm(Vm),
    Vmi(Vmi),
    Dv(Id, DvPhase),
    Claim(SeenClaim),
    Pod(SeenPod),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeenClaim {
    pub id: Id,
    pub owner: Id,
    pub phase: ClaimPhase,
    pub node: Option<u8>,
    pub asked: bool,
    pub deleting: bool,
    pub populator: bool,
}

#[derive(Clone, Debug)]
pub struct SeenPod(pub Pod);

impl PartialEq for SeenPod {
    fn eq(&self, other: &Self) -> bool {
        let key = |pod: &Pod| (pod.id, pod.role, pod.claims, pod.phase, pod.node, pod.unschedulable, pod.deleting);
        key(&self.0) == key(&other.0)
    }
}

impl Eq for SeenPod {}

impl Hash for SeenPod {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.id.hash(hasher);
        (self.0.phase, self.0.node, self.0.unschedulable, self.0.deleting).hash(hasher);
        self.0.body.as_ref().map(|body| body.tokens.digest).hash(hasher);
    }
}

/// All objects of a kind at one moment.
#[derive(Debug)]
pub struct Table {
    pub objects: Vec<Seen>,
    /// Of the objects as they stand.
    pub digest: u128,
}

/// Where in each kind's history a replica is at least.
pub type Positions = [u8; KINDS.len()];

/// A replica of ours.
#[derive(Clone, Debug)]
pub struct Replica {
    pub at: Positions,
    /// By subject.
    pub minds: Vec<Mind>,
}

/// A request to the API server.
#[derive(Clone, Debug)]
pub struct Request {
    pub subject: u8,
    pub act: Act,
    pub turn: Arc<super::mind::Acted>,
}

#[derive(Clone, Debug)]
pub enum Act {
    Create(Arc<Body>),
    /// `uid`: the precondition, if there is one.
    Delete { meant: Id, uid: Option<Id> },
}

/// Everything.
#[derive(Clone, Debug)]
pub struct State {
    /// In jumps.
    pub now: u8,
    pub vms: Vec<Option<Vm>>,
    pub vmis: Vec<Option<Vmi>>,
    pub dvs: Vec<Option<Dv>>,
    /// Two a disk.
    pub claims: Vec<Option<Claim>>,
    pub pods: Vec<Pod>,
    pub volumes: Vec<Volume>,
    pub bindings: Vec<Binding>,
    /// Disks that have not been made yet for the first time, as bits.
    pub awaited: u8,
    /// By kind: from the oldest version that a replica may still see to the newest.
    pub history: [Vec<Arc<Table>>; KINDS.len()],
    pub replicas: Vec<Replica>,
    /// Requests that nobody waits for any more, and that may still arrive.
    pub strays: Vec<Request>,
    /// How many disturbances may still happen.
    pub budget: u8,
}

impl State {
    /// The time of the product.
    pub fn time(&self) -> Timestamp {
        time(self.now)
    }

    pub fn claim(&self, id: Id) -> Option<&Claim> {
        self.claims[id.index()].as_ref().filter(|claim| claim.id == id)
    }

    pub fn pod(&self, id: Id) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.id == id)
    }

    /// The volume that belongs to a claim.
    pub fn volume(&self, claim: Id) -> Option<&Volume> {
        self.volumes.iter().find(|volume| volume.claim == claim)
    }

    /// The UID of a new object of this name.
    pub fn fresh(&self, kind: Kind, slot: usize) -> Id {
        let mut lives = Lives::default();
        self.walk(&mut lives);
        let id = Id::new(kind, slot, 0);
        Id {
            life: lives.next(id),
            ..id
        }
    }

    /// The state's identity.
    pub fn digest(&self) -> u128 {
        let mut lives = Lives::default();
        self.walk(&mut lives);
        let mut renamed = Renamed {
            lives: &lives,
            digest: Digest::default(),
        };
        self.walk(&mut renamed);
        renamed.digest.done()
    }

    /// Enters what has changed into the history, and forgets what every replica has passed.
    pub fn publish(&mut self, lag: u8) {
        for (at, kind) in KINDS.into_iter().enumerate() {
            let objects = self.seen(kind);
            if self.history[at].last().is_none_or(|last| last.objects != objects) {
                self.history[at].push(Arc::new(Table::new(objects)));
            }
        }
        for (kind, history) in self.history.iter_mut().enumerate() {
            let newest = u8::try_from(history.len() - 1).unwrap_or(u8::MAX);
            for replica in &mut self.replicas {
                replica.at[kind] = replica.at[kind].max(newest.saturating_sub(lag));
            }
            let passed = self.replicas.iter().map(|replica| replica.at[kind]).min().unwrap_or(0);
            history.drain(..usize::from(passed));
            for replica in &mut self.replicas {
                replica.at[kind] -= passed;
            }
        }
    }

    fn seen(&self, kind: Kind) -> Vec<Seen> {
        match kind {
            Kind::Vm => self.vms.iter().flatten().map(|vm| Seen::Vm(*vm)).collect(),
            Kind::Vmi => self.vmis.iter().flatten().map(|vmi| Seen::Vmi(*vmi)).collect(),
            Kind::Dv => self.dvs.iter().flatten().map(|dv| Seen::Dv(dv.id, visible(dv.phase))).collect(),
            Kind::Claim => {
                let claims = self.claims.iter().flatten();
                claims
                    .map(|claim| {
                        // Of a prime only its being there is read.
                        let target = claim.id.slot % 2 == 0;
                        Seen::Claim(SeenClaim {
                            id: claim.id,
                            owner: claim.owner,
                            phase: if target { claim.phase } else { ClaimPhase::Pending },
                            node: claim.node.filter(|_| target),
                            asked: claim.asked && target,
                            deleting: claim.deleting && target,
                            populator: claim.populator,
                        })
                    })
                    .collect()
            }
            Kind::Pod => self.pods.iter().map(|pod| Seen::Pod(SeenPod(pod.seen()))).collect(),
        }
    }

    /// Visits everything that its identity depends on.
    pub fn walk(&self, visitor: &mut impl Visitor) {
        let now = self.time();
        for vm in self.vms.iter().flatten() {
            vm.walk(visitor);
        }
        visitor.value(1);
        for vmi in self.vmis.iter().flatten() {
            vmi.walk(self.now, visitor);
        }
        visitor.value(2);
        for dv in self.dvs.iter().flatten() {
            visitor.id(dv.id);
            visitor.value(dv.populator.map_or(0, |path| 1 + u64::from(path)) << 8 | dv.phase as u64);
        }
        visitor.value(3);
        for claim in self.claims.iter().flatten() {
            claim.walk(visitor);
        }
        visitor.value(4);
        for pod in &self.pods {
            pod.walk(now, visitor);
        }
        visitor.value(5);
        for volume in &self.volumes {
            visitor.id(volume.made_for);
            visitor.id(volume.claim);
            visitor.value(volume.node.into());
        }
        visitor.value(6);
        for binding in &self.bindings {
            visitor.id(binding.pod);
            visitor.value(u64::from(binding.node) << 16 | u64::from(binding.claims));
            visitor.value(binding.todo.len() as u64);
            binding.todo.iter().for_each(|claim| visitor.id(*claim));
        }
        visitor.value(u64::from(self.awaited) << 8 | u64::from(self.budget));
        for history in &self.history {
            visitor.value(history.len() as u64);
            // The newest version is what the objects above say.
            for table in history.iter().rev().skip(1) {
                visitor.value(table.objects.len() as u64);
                table.objects.iter().for_each(|object| object.walk(self.now, visitor));
            }
        }
        for replica in &self.replicas {
            replica.at.iter().for_each(|at| visitor.value((*at).into()));
            replica.minds.iter().for_each(|mind| mind.walk(now, visitor));
        }
        self.strays.iter().for_each(|request| request.walk(now, visitor));
    }
}

/// The time of the product after some jumps of an hour.
pub fn time(jumps: u8) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + 3600 * i64::from(jumps)).unwrap_or_default()
}

/// A phase as far as the product tells phases apart.
fn visible(phase: DvPhase) -> DvPhase {
    match phase {
        DvPhase::Unset
        | DvPhase::Pending
        | DvPhase::WaitForFirstConsumer
        | DvPhase::PendingPopulation
        | DvPhase::Succeeded
        | DvPhase::Failed => phase,
        _ => DvPhase::Unknown,
    }
}

/// Digest of a value without UIDs.
fn digest(value: &impl Hash) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Table {
    fn new(objects: Vec<Seen>) -> Self {
        let mut low = std::hash::DefaultHasher::new();
        objects.hash(&mut low);
        let mut digest = Digest::default();
        digest.push(low.finish());
        objects.len().hash(&mut low);
        digest.push(low.finish());
        Self {
            objects,
            digest: digest.done(),
        }
    }
}

impl Vm {
    fn walk(&self, visitor: &mut impl Visitor) {
        visitor.id(self.id);
        let flags = (self.strategy as u64) << 16;
        visitor.value(flags | self.asks.map_or(0, |asks| 1 + u64::from(asks)) << 2 | u64::from(self.edited) << 1 | u64::from(self.deleting));
    }
}

impl Vmi {
    fn walk(&self, now: u8, visitor: &mut impl Visitor) {
        visitor.id(self.id);
        visitor.id(self.owner);
        let flags = (self.phase as u64) << 8 | u64::from(self.edited) << 2 | u64::from(self.deleting) << 1;
        visitor.value(flags | u64::from(self.born == now));
    }
}

impl Claim {
    fn walk(&self, visitor: &mut impl Visitor) {
        visitor.id(self.id);
        visitor.id(self.owner);
        let flags = [
            self.asked,
            self.deleting,
            self.populator,
            self.worker_named,
            self.knows_prime,
        ];
        let bits = flags.iter().fold(0, |bits, flag| bits << 1 | u64::from(*flag));
        visitor.value(bits << 16 | (self.phase as u64) << 8 | self.node.map_or(0, |node| u64::from(node) + 1));
        visitor.value(digest(&self.worker));
    }
}

impl Pod {
    /// As far as the product tells pods apart: live or ended; of its own also whether it has a node.
    fn seen(&self) -> Self {
        let own = matches!(self.role, Role::Own { .. });
        Self {
            phase: match self.phase {
                PodPhase::Running => PodPhase::Pending,
                PodPhase::Failed if !own => PodPhase::Succeeded,
                phase => phase,
            },
            node: self.node.filter(|_| own),
            unschedulable: self.unschedulable && own,
            ..self.clone()
        }
    }

    fn walk(&self, now: Timestamp, visitor: &mut impl Visitor) {
        visitor.id(self.id);
        match self.role {
            Role::Own { .. } => visitor.value(1),
            Role::Lookalike { .. } => visitor.value(2),
            Role::Launcher { vmi, temporary } => {
                visitor.value(3 + u64::from(temporary));
                visitor.id(vmi);
            }
            Role::Worker { claim } => {
                visitor.value(5);
                visitor.id(claim);
            }
        }
        let flags = (self.phase as u64) << 16 | self.node.map_or(0, |node| u64::from(node) + 1) << 8;
        visitor.value(flags | u64::from(self.unschedulable) << 1 | u64::from(self.deleting));
        if let Some(body) = &self.body {
            body.tokens.walk(now, visitor);
        }
    }
}

impl Seen {
    fn walk(&self, now: u8, visitor: &mut impl Visitor) {
        match self {
            Self::Vm(vm) => vm.walk(visitor),
            Self::Vmi(vmi) => vmi.walk(now, visitor),
            Self::Dv(id, phase) => {
                visitor.id(*id);
                visitor.value(*phase as u64);
            }
            Self::Claim(claim) => {
                visitor.id(claim.id);
                visitor.id(claim.owner);
                let bits = [claim.asked, claim.deleting, claim.populator]
                    .iter()
                    .fold(0, |bits, flag| bits << 1 | u64::from(*flag));
                visitor.value(bits << 16 | (claim.phase as u64) << 8 | claim.node.map_or(0, |node| u64::from(node) + 1));
            }
            Self::Pod(SeenPod(pod)) => pod.walk(time(now), visitor),
        }
    }
}

impl Request {
    pub fn walk(&self, now: Timestamp, visitor: &mut impl Visitor) {
        visitor.value(u64::from(self.subject));
        match &self.act {
            Act::Create(body) => body.tokens.walk(now, visitor),
            Act::Delete { meant, uid } => {
                visitor.id(*meant);
                visitor.value(u64::from(uid.is_some()));
                if let Effect::Delete {
                    replaced, next_attempt, ..
                } = self.turn.effect
                {
                    visitor.value(u64::from(replaced) << 32 | next_attempt.map_or(0, u64::from));
                }
            }
        }
    }
}
