//! Since when something has been so that becomes a diagnosis only after a while, where no object says it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::api::ClaimPhase;
use crate::claim::Claim;
use crate::name::Uid;
use crate::reason::Trouble;

/// What may become too long.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// A disk has no claim.
    ClaimMissing,
    /// A bound disk waits for its worker, and a pod for another.
    SiblingImporting,
    /// A trouble, and the disk that it is about; empty if it is about the VM.
    Trouble(Trouble, Arc<str>),
}

/// When each situation was seen for the first time without a break, and how often nodes were lost.
#[derive(Clone, Debug, Default)]
pub struct Onsets {
    since: BTreeMap<Topic, Timestamp>,
    nodes: BTreeMap<Uid, Node>,
}

/// The node of a claim that is not bound.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    chosen: bool,
    lost: u32,
}

impl Onsets {
    /// Notes which situations hold now; all others are over. Returns since when each holds, in the same order.
    pub fn hold(&mut self, topics: Vec<Topic>, now: Timestamp) -> Vec<Timestamp> {
        let before = std::mem::take(&mut self.since);
        let since = |topic: &Topic| before.get(topic).copied().unwrap_or(now);
        let onsets: Vec<Timestamp> = topics.iter().map(since).collect();
        self.since = topics.into_iter().zip(onsets.iter().copied()).collect();
        onsets
    }

    /// Follows whether the claims that are not bound have a node; all others are forgotten.
    pub fn follow<'a>(&mut self, claims: impl Iterator<Item = &'a Claim>) {
        let before = std::mem::take(&mut self.nodes);
        let pending = claims.filter(|claim| claim.phase == ClaimPhase::Pending);
        self.nodes = pending
            .map(|claim| {
                let Node { chosen, lost } = before.get(&claim.uid).copied().unwrap_or_default();
                let node = Node {
                    chosen: claim.placed,
                    lost: lost + u32::from(chosen && !claim.placed),
                };
                (claim.uid.clone(), node)
            })
            .collect();
    }

    /// How often a claim that is not bound has lost its node.
    #[must_use]
    pub fn lost(&self, claim: &Uid) -> u32 {
        self.nodes.get(claim).map_or(0, |node| node.lost)
    }
}
