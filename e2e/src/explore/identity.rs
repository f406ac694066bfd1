//! What the identity of objects, of what is seen of them and of requests depends on.

use super::canon::Visitor;
use super::objects::{Claim, Pod, Role, Vm, Vmi};
use super::seen::{Seen, SeenPod};
use super::state::{Act, Request, time};
use first_consumer::decide::Effect;
use first_consumer::index::Standing;
use k8s_openapi::jiff::Timestamp;
use std::hash::{Hash, Hasher};

/// What a turn says for others to know.
pub fn standing(standing: Option<&Standing>) -> u64 {
    match standing {
        None => 0,
        Some(Standing::HeldBack) => 1,
        Some(Standing::Acting(domains)) => 2 + (digest(domains) >> 1),
    }
}

/// Digest of a value without UIDs.
pub fn digest(value: &impl Hash) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Vm {
    pub fn walk(self, visitor: &mut impl Visitor) {
        visitor.id(self.id);
        let flags = (self.strategy as u64) << 16;
        visitor.value(
            flags
                | self.asks.map_or(0, |asks| 1 + u64::from(asks)) << 2
                | u64::from(self.edited) << 1
                | u64::from(self.deleting),
        );
    }
}

impl Vmi {
    pub fn walk(&self, now: u8, visitor: &mut impl Visitor) {
        visitor.id(self.id);
        visitor.id(self.owner);
        let flags = (self.phase as u64) << 8 | u64::from(self.edited) << 2 | u64::from(self.deleting) << 1;
        visitor.value(flags | u64::from(self.born == now));
    }
}

impl Claim {
    pub fn walk(&self, visitor: &mut impl Visitor) {
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
    pub fn walk(&self, now: Timestamp, visitor: &mut impl Visitor) {
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
    pub fn walk(&self, now: u8, visitor: &mut impl Visitor) {
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
                visitor
                    .value(bits << 16 | (claim.phase as u64) << 8 | claim.node.map_or(0, |node| u64::from(node) + 1));
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
