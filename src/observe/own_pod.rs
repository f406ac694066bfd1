//! The pod of a subject's fixed name.

use crate::api::{Pod, PodPhase, Scheduled, View as _};
use crate::claim::Claim;
use crate::index::{Index, own_subject};
use crate::name::{Key, Uid, pod_name};
use crate::pod::{MOST_ATTEMPTS, Marks};

/// The pod of a subject's fixed name.
#[derive(Clone, Debug)]
pub enum Named {
    /// There is none.
    Nobody,
    /// The subject's own.
    Own(Box<OwnPod>),
    /// One that is not ours.
    Foreign,
}

/// The subject's own pod.
#[derive(Clone, Debug)]
pub struct OwnPod {
    /// Its UID.
    pub uid: Uid,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Its phase.
    pub phase: PodPhase,
    /// The same in words, and why it has ended ([`Pod::outcome`]).
    pub outcome: String,
    /// What the scheduler says.
    pub scheduled: Scheduled,
    /// What it says of itself.
    pub marks: Marks,
    /// The claims that it lists, as far as they exist.
    pub claims: Vec<Claim>,
}

impl OwnPod {
    /// Whether it has ended.
    #[must_use]
    pub fn finished(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Whether it has ended as the last of too many.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.finished() && self.marks.attempt >= MOST_ATTEMPTS
    }

    /// Whether it waits for the scheduler or for its volumes, and nobody has deleted it.
    #[must_use]
    pub fn waits(&self) -> bool {
        !self.terminating && !self.finished()
    }

    /// Whether the scheduler is about to choose a node for it, or has chosen one.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.waits() && matches!(self.scheduled, Scheduled::Silent | Scheduled::Yes)
    }
}

pub(super) fn named(index: &Index, subject: &Key) -> Named {
    let Some(pod) = index.pod(&subject.sibling(&pod_name(subject))) else {
        return Named::Nobody;
    };
    if own_subject(pod).as_ref() != Some(subject) {
        return Named::Foreign;
    }
    Named::Own(Box::new(own_pod(index, subject, pod)))
}

/// Reads the own pod.
#[must_use]
pub fn own_pod(index: &Index, subject: &Key, pod: &Pod) -> OwnPod {
    let listed = pod.claims().filter_map(|name| index.claim(&subject.sibling(name)));
    OwnPod {
        uid: pod.meta().uid.clone(),
        terminating: pod.meta().terminating(),
        phase: pod.phase(),
        outcome: pod.outcome(),
        scheduled: pod.scheduled(),
        marks: Marks::read(pod.meta()),
        claims: listed.map(|claim| index.read_claim(claim)).collect(),
    }
}
