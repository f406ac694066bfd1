//! Since when something has been so that becomes a diagnosis only after a while, where no object says it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::reason::Trouble;

/// What may become too long.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// A disk has no claim.
    ClaimMissing,
    /// A trouble, and the disk that it is about; empty if it is about the VM.
    Trouble(Trouble, Arc<str>),
}

/// When each situation was seen for the first time without a break.
#[derive(Clone, Debug, Default)]
pub struct Onsets(BTreeMap<Topic, Timestamp>);

impl Onsets {
    /// Notes which situations hold now; all others are over. Returns since when each holds, in the same order.
    pub fn hold(&mut self, topics: Vec<Topic>, now: Timestamp) -> Vec<Timestamp> {
        let before = std::mem::take(&mut self.0);
        let since = |topic: &Topic| before.get(topic).copied().unwrap_or(now);
        let onsets: Vec<Timestamp> = topics.iter().map(since).collect();
        self.0 = topics.into_iter().zip(onsets.iter().copied()).collect();
        onsets
    }
}
