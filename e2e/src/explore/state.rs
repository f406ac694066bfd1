//! The state: objects in compact form, what is seen of them, our replicas.

use super::canon::{Digest, Lives, Renamed, Visitor};
use super::identity;
use super::mind::{Acted, Mind};
use super::objects::{Binding, Body, Claim, Dv, Id, KINDS, Kind, Pod, Vm, Vmi, Volume};
use super::seen::Table;
use first_consumer::index::Standing;
use k8s_openapi::jiff::Timestamp;
use std::sync::Arc;

/// Where in each kind's history a replica is at least.
pub type Positions = [u8; KINDS.len()];

/// A replica of ours.
#[derive(Clone, Debug)]
pub struct Replica {
    pub at: Positions,
    /// By subject.
    pub minds: Vec<Mind>,
    /// By subject: what its last turn said for others to know, if anybody asks.
    pub standings: Vec<Option<Standing>>,
}

/// A request to the API server.
#[derive(Clone, Debug)]
pub struct Request {
    pub subject: u8,
    pub act: Act,
    pub turn: Arc<Acted>,
}

#[derive(Clone, Debug)]
pub enum Act {
    Create(Arc<Body>),
    /// `uid`: the precondition, if there is one.
    Delete {
        meant: Id,
        uid: Option<Id>,
    },
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
            for standing in &replica.standings {
                visitor.value(identity::standing(standing.as_ref()));
            }
        }
        self.strays.iter().for_each(|request| request.walk(now, visitor));
    }
}

/// The time of the product after some jumps of an hour.
pub fn time(jumps: u8) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + 3600 * i64::from(jumps)).unwrap_or_default()
}
