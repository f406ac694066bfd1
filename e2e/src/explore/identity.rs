//! What the identity of objects, of what is seen of them and of requests depends on.

use super::canon::{Visitor, Walk};
use super::objects::{Binding, Claim, Dv, Pod, Role, Vm, Vmi, Volume};
use super::seen::{Seen, SeenPod};
use super::state::{Act, Replica, Request, time};
use first_consumer::decide::Effect;
use first_consumer::index::Standing;
use std::hash::{Hash, Hasher};

/// What a turn says for others to know.
pub fn standing(standing: Option<&Standing>) -> u64 {
    match standing {
        None => 0,
        Some(Standing::HeldBack) => 1,
        Some(Standing::Stuck) => 2,
        Some(Standing::Acting(domains)) => 3 + (digest(domains) >> 1),
    }
}

/// Digest of a value without UIDs.
pub fn digest(value: &impl Hash) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl<T: Walk> Walk for Vec<T> {
    fn walk(&self, visitor: &mut impl Visitor) {
        visitor.value(self.len() as u64);
        for part in self {
            part.walk(visitor);
        }
    }
}

impl<T: Walk> Walk for Option<T> {
    fn walk(&self, visitor: &mut impl Visitor) {
        visitor.value(u64::from(self.is_some()));
        if let Some(part) = self {
            part.walk(visitor);
        }
    }
}

impl Walk for Vm {
    fn walk(&self, visitor: &mut impl Visitor) {
        visitor.id(self.id);
        let revision = self.revision.map_or(0, |size| 1 + size as u64);
        let flags = (self.strategy as u64) << 16 | revision << 8;
        visitor.value(
            flags
                | self.asks.map_or(0, |asks| 1 + u64::from(asks)) << 2
                | u64::from(self.edited) << 1
                | u64::from(self.deleting),
        );
    }
}

impl Walk for Vmi {
    fn walk(&self, visitor: &mut impl Visitor) {
        visitor.id(self.id);
        visitor.id(self.owner);
        let size = self.size.map_or(0, |size| 1 + size as u64);
        let flags = (self.phase as u64) << 8 | size << 4 | u64::from(self.edited) << 2 | u64::from(self.deleting) << 1;
        visitor.value(flags);
        visitor.time(time(self.born));
    }
}

impl Walk for Dv {
    fn walk(&self, visitor: &mut impl Visitor) {
        visitor.id(self.id);
        visitor.value(self.populator.map_or(0, |path| 1 + u64::from(path)) << 8 | self.phase as u64);
    }
}

impl Walk for Claim {
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

impl Walk for Pod {
    fn walk(&self, visitor: &mut impl Visitor) {
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
            visitor.outline(&body.outline);
        }
    }
}

impl Walk for Volume {
    fn walk(&self, visitor: &mut impl Visitor) {
        visitor.id(self.made_for);
        visitor.id(self.claim);
        visitor.value(self.node.into());
    }
}

impl Walk for Binding {
    fn walk(&self, visitor: &mut impl Visitor) {
        visitor.id(self.pod);
        visitor.value(u64::from(self.node) << 16 | u64::from(self.claims));
        visitor.value(self.todo.len() as u64);
        self.todo.iter().for_each(|claim| visitor.id(*claim));
    }
}

impl Walk for Seen {
    fn walk(&self, visitor: &mut impl Visitor) {
        match self {
            Self::Vm(vm) => vm.walk(visitor),
            Self::Vmi(vmi) => vmi.walk(visitor),
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
            Self::Pod(SeenPod(pod)) => pod.walk(visitor),
        }
    }
}

impl Walk for Replica {
    fn walk(&self, visitor: &mut impl Visitor) {
        self.at.iter().for_each(|at| visitor.value((*at).into()));
        self.minds.walk(visitor);
        let standings = self.standings.iter();
        standings.for_each(|of| visitor.value(standing(of.as_ref())));
    }
}

impl Walk for Request {
    fn walk(&self, visitor: &mut impl Visitor) {
        visitor.value(u64::from(self.subject));
        match &self.act {
            Act::Create(body) => visitor.outline(&body.outline),
            Act::Delete { meant, uid } => {
                visitor.id(*meant);
                visitor.value(u64::from(uid.is_some()) << 1 | u64::from(self.turn.taken.awaits_node));
                if let Effect::Delete { replaced, .. } = *self.turn.effect() {
                    visitor.value(u64::from(replaced));
                }
            }
        }
    }
}
