//! What is seen of the objects: as far as the product reads them, so that what is no news to it is no step.

use super::canon::Outline;
use super::objects::{Id, Kind, Pod, Role, Vm, Vmi};
use super::state::State;
use crate::world::objects::{ClaimPhase, DvPhase, PodPhase};
use std::hash::{Hash, Hasher};

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

impl SeenPod {
    /// A pod's UID does not tell what it was made for: in another state the same UID may be another pod's.
    fn key(&self) -> impl PartialEq + Hash + use<> {
        let pod = &self.0;
        let body = pod.body.as_ref().map(|body| body.outline.exact);
        let known = (pod.id, pod.role, pod.claims, body);
        (known, pod.phase, pod.node, pod.unschedulable, pod.deleting)
    }
}

impl PartialEq for SeenPod {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for SeenPod {}

impl Hash for SeenPod {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.key().hash(hasher);
    }
}

/// All objects of a kind at one moment.
#[derive(Debug)]
pub struct Table {
    pub objects: Vec<Seen>,
    pub outline: Outline,
}

impl Table {
    pub fn new(objects: Vec<Seen>) -> Self {
        let outline = Outline::of(&objects);
        Self { objects, outline }
    }
}

impl State {
    /// All objects of a kind as they are now.
    pub fn seen(&self, kind: Kind) -> Vec<Seen> {
        match kind {
            Kind::Vm => self.vms.iter().flatten().map(|vm| Seen::Vm(*vm)).collect(),
            Kind::Vmi => self.vmis.iter().flatten().map(|vmi| Seen::Vmi(*vmi)).collect(),
            Kind::Dv => self
                .dvs
                .iter()
                .flatten()
                .map(|dv| Seen::Dv(dv.id, visible(dv.phase)))
                .collect(),
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
            Kind::Pod => {
                // Workers are asked for where they fill the claim itself (row 10).
                let of_prime = |pod: &&Pod| matches!(pod.role, Role::Worker { claim } if claim.slot % 2 == 1);
                let pods = self.pods.iter().filter(|pod| !of_prime(pod));
                pods.map(|pod| Seen::Pod(SeenPod(pod.seen()))).collect()
            }
        }
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
}

/// A phase as far as the product and virt-controller tell phases apart.
pub fn visible(phase: DvPhase) -> DvPhase {
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
