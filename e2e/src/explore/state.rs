//! The state: objects in compact form, what is seen of them, our replicas.

use super::canon::{Digest, Lives, Outline, Shared};
use super::mind::{Acted, Mind};
use super::objects::{Binding, Body, Claim, Dv, Id, KINDS, Kind, Pod, Size, Vm, Vmi, Volume};
use super::seen::{Seen, Table};
use first_consumer::index::Standing;
use k8s_openapi::jiff::Timestamp;
use std::rc::Rc;

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
    pub turn: Rc<Acted>,
}

#[derive(Clone, Debug)]
pub enum Act {
    Create(Rc<Body>),
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
    pub vms: Shared<Vec<Option<Vm>>>,
    pub vmis: Shared<Vec<Option<Vmi>>>,
    pub dvs: Shared<Vec<Option<Dv>>>,
    /// Two a disk.
    pub claims: Shared<Vec<Option<Claim>>>,
    pub pods: Shared<Vec<Pod>>,
    pub volumes: Shared<Vec<Volume>>,
    pub bindings: Shared<Vec<Binding>>,
    /// Disks that have not been made yet for the first time, as bits.
    pub awaited: u8,
    /// What the one instancetype says now.
    pub size: Size,
    /// By kind: from the oldest version that a replica may still see to the newest.
    pub history: [Rc<Vec<Rc<Table>>>; KINDS.len()],
    pub replicas: Shared<Vec<Replica>>,
    /// Requests that nobody waits for any more, and that may still arrive.
    pub strays: Shared<Vec<Request>>,
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

    /// A VM as it is seen at these positions.
    pub fn seen_vm(&self, vm: usize, at: Positions) -> Option<Vm> {
        let kind = KINDS.iter().position(|kind| *kind == Kind::Vm)?;
        let table = &self.history[kind][usize::from(at[kind])];
        table.objects.iter().find_map(|object| match object {
            Seen::Vm(found) if usize::from(found.id.slot) == vm => Some(*found),
            _ => None,
        })
    }

    /// The volume that belongs to a claim.
    pub fn volume(&self, claim: Id) -> Option<&Volume> {
        self.volumes.iter().find(|volume| volume.claim == claim)
    }

    /// The UID of a new object of this name.
    pub fn fresh(&self, kind: Kind, slot: usize) -> Id {
        let mut lives = Lives::default();
        self.outlines(|part| lives.note(part));
        lives.note(self.replicas.outline());
        let id = Id::new(kind, slot, 0);
        Id {
            life: lives.next(id),
            ..id
        }
    }

    /// The state's identity.
    pub fn digest(&self) -> u128 {
        let mut lives = Lives::default();
        self.outlines(|part| lives.note(part));
        lives.note(self.replicas.outline());
        let now = self.time();
        let mut digest = Digest::default();
        digest.push((self.size as u64) << 16 | u64::from(self.awaited) << 8 | u64::from(self.budget));
        let lengths = self.history.iter().map(|history| history.len() as u64);
        lengths.for_each(|length| digest.push(length));
        self.outlines(|part| part.enter(&lives, now, &mut digest));
        if let [_] = self.replicas[..] {
            self.replicas.outline().enter(&lives, now, &mut digest);
        } else {
            // Which replica is which makes no difference.
            let replicas = self.replicas.iter().map(|replica| {
                let mut digest = Digest::default();
                Outline::of(replica).enter(&lives, now, &mut digest);
                digest.done()
            });
            let mut replicas: Vec<_> = replicas.collect();
            replicas.sort_unstable();
            for replica in replicas {
                digest.push_whole(replica);
            }
        }
        digest.done()
    }

    /// Enters what has changed since `before` into the history, and forgets what every replica has passed.
    pub fn publish(&mut self, lag: u8, before: Option<&Self>) {
        for (at, kind) in KINDS.into_iter().enumerate() {
            if before.is_some_and(|before| self.shares(kind, before)) {
                continue;
            }
            let objects = self.seen(kind);
            if self.history[at].last().is_none_or(|last| last.objects != objects) {
                Rc::make_mut(&mut self.history[at]).push(Rc::new(Table::new(objects)));
            }
        }
        for kind in 0..KINDS.len() {
            let newest = u8::try_from(self.history[kind].len() - 1).unwrap_or(u8::MAX);
            let oldest = newest.saturating_sub(lag);
            if self.replicas.iter().any(|replica| replica.at[kind] < oldest) {
                for replica in self.replicas.iter_mut() {
                    replica.at[kind] = replica.at[kind].max(oldest);
                }
            }
            let passed = self.replicas.iter().map(|replica| replica.at[kind]).min().unwrap_or(0);
            if passed > 0 {
                Rc::make_mut(&mut self.history[kind]).drain(..usize::from(passed));
                for replica in self.replicas.iter_mut() {
                    replica.at[kind] -= passed;
                }
            }
        }
    }

    /// Whether no object of a kind has been touched.
    fn shares(&self, kind: Kind, before: &Self) -> bool {
        match kind {
            Kind::Vm => self.vms.is(&before.vms),
            Kind::Vmi => self.vmis.is(&before.vmis),
            Kind::Dv => self.dvs.is(&before.dvs),
            Kind::Claim => self.claims.is(&before.claims),
            Kind::Pod => self.pods.is(&before.pods),
        }
    }

    /// Shows every part on which its identity depends, but the replicas.
    fn outlines(&self, mut show: impl FnMut(&Outline)) {
        show(self.vms.outline());
        show(self.vmis.outline());
        show(self.dvs.outline());
        show(self.claims.outline());
        show(self.pods.outline());
        show(self.volumes.outline());
        show(self.bindings.outline());
        show(self.strays.outline());
        for history in &self.history {
            // The newest version is what the objects above say.
            let older = history.iter().rev().skip(1);
            older.for_each(|table| show(&table.outline));
        }
    }
}

/// The time of the product after some jumps of an hour.
pub fn time(jumps: u8) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + 3600 * i64::from(jumps)).unwrap_or_default()
}
