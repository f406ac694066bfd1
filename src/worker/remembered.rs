//! What the workers remember of each subject beside what its decisions go by: what was said of it, and since when.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::announce::{REPEATED_AFTER, Stuck};
use crate::decide::Decision;
use crate::memory::{Memory, Outcome};
use crate::name::{Key, Uid};
use crate::observe::Observed;
use crate::reason::{Reason, Trouble};

/// When a trouble that was told of and went is told of again.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(10);

/// What is remembered of each subject.
#[derive(Debug, Default)]
pub struct Memories(Mutex<HashMap<Key, Remembered>>);

#[derive(Clone, Debug, Default)]
pub(super) struct Remembered {
    pub(super) memory: Memory,
    /// Since when it waits, or has waited last.
    pub(super) needed_since: Option<Timestamp>,
    /// Since when the pod that is there has done its work.
    pub(super) placed_since: Option<Timestamp>,
    /// The last decision, for the log and for the waiting gauge.
    pub(super) shown: Option<(Reason, bool)>,
    /// What the last diagnosis has found, for the gauge.
    pub(super) troubles: BTreeSet<Trouble>,
    /// What is stuck, as far as an Event has said it.
    told: BTreeMap<Stuck, Told>,
    /// What went wrong last, as the log has it; said again only when it is something else, or after a success.
    pub(super) complaint: Option<String>,
    /// The pod with which it was given up last.
    given_up: Option<Uid>,
    /// A deletion that is announced when the pod is gone.
    pub(super) farewell: Option<Box<Farewell>>,
}

/// What an Event has said.
#[derive(Clone, Copy, Debug)]
struct Told {
    /// When it was so last.
    seen: Timestamp,
    /// When it was said last.
    said: Timestamp,
}

/// Whether what is stuck is to be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Say {
    /// It is new.
    First,
    /// It was said a while ago, and lasts.
    Again,
    /// It has been said.
    Nothing,
}

/// When what is said at a time is to be said again if it lasts.
pub(super) fn again(said: Timestamp) -> Timestamp {
    said.checked_add(REPEATED_AFTER).unwrap_or(Timestamp::MAX)
}

impl Remembered {
    /// Notes what went wrong. Whether that is new, and has to be said.
    pub(super) fn complains(&mut self, text: &str) -> bool {
        let news = self.complaint.as_deref() != Some(text);
        self.complaint = Some(text.to_owned());
        news
    }

    /// Notes that it is given up with this pod. Whether that is new, and this process has made the pod: it stays, so every
    /// process sees it.
    pub(super) fn gives_up(&mut self, pod: &Uid) -> bool {
        let ours = self.memory.created_at(pod).is_some();
        ours && self.given_up.replace(pod.clone()).as_ref() != Some(pod)
    }

    /// Notes what a turn has found that was due at this time.
    pub(super) fn follow(&mut self, begins_to_wait: bool, placed: bool, due: Timestamp) {
        if begins_to_wait {
            self.needed_since = Some(due);
        }
        self.placed_since = placed.then(|| self.placed_since.unwrap_or(due));
    }

    /// Notes what is stuck. Whether it has to be said, and when again: where several things are wrong, or one comes and
    /// goes, it may be another every second.
    pub(super) fn news(&mut self, stuck: Option<Stuck>, now: Timestamp) -> Option<(Say, Timestamp)> {
        let news = stuck.map(|stuck| {
            let first = !self.told.contains_key(&stuck);
            let told = self.told.entry(stuck).or_insert(Told { seen: now, said: now });
            let say = match again(told.said) {
                _ if first => Say::First,
                due if due <= now => Say::Again,
                _ => Say::Nothing,
            };
            told.seen = now;
            if say != Say::Nothing {
                told.said = now;
            }
            (say, again(told.said))
        });
        self.told.retain(|_, told| between(told.seen, now) < FORGOTTEN_AFTER);
        news
    }
}

/// The API server has taken our deletion, but a finalizer holds the pod.
#[derive(Clone, Debug)]
pub(super) struct Farewell {
    pub(super) outcome: Outcome,
    pub(super) observed: Observed,
    pub(super) decision: Decision,
    pub(super) placed_since: Option<Timestamp>,
}

impl Farewell {
    pub(super) fn is_over(&self, observed: &Observed) -> bool {
        let own = |observed: &Observed| observed.own_pod().map(|pod| pod.uid.clone());
        own(observed) != own(&self.observed)
    }
}

impl Memories {
    pub(super) fn with<T>(&self, subject: &Key, look: impl FnOnce(&mut Remembered) -> T) -> T {
        let mut memories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look(memories.entry(subject.clone()).or_default())
    }

    pub(super) fn forget(&self, subject: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(subject);
    }

    /// How long the subject that has waited longest has waited.
    #[must_use]
    pub fn oldest_wait(&self, now: Timestamp) -> Duration {
        let memories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = memories
            .values()
            .filter_map(|remembered| remembered.memory.needed_since)
            .min();
        oldest.map(|since| between(since, now)).unwrap_or_default()
    }
}

pub(super) fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    let duration: SignedDuration = later.duration_since(earlier);
    duration.try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_begin_when_the_turn_was_due_that_found_their_beginning() {
        let mut remembered = Remembered::default();
        let at = |second| Timestamp::from_second(second).expect("a time");
        let found = |remembered: &Remembered| (remembered.needed_since, remembered.placed_since);
        let steps = [
            (1, true, false, (Some(at(1)), None)),
            (2, false, false, (Some(at(1)), None)),
            (3, false, true, (Some(at(1)), Some(at(3)))),
            // A delete that was not answered, and its second try.
            (4, false, true, (Some(at(1)), Some(at(3)))),
            (5, false, false, (Some(at(1)), None)),
            (6, true, false, (Some(at(6)), None)),
        ];
        for (due, begins_to_wait, placed, expected) in steps {
            remembered.follow(begins_to_wait, placed, at(due));
            assert_eq!(found(&remembered), expected, "{due}");
        }
    }

    #[test]
    fn what_is_stuck_is_said_once_and_again_if_it_lasts_or_was_not_for_a_while() {
        let mut remembered = Remembered::default();
        let at = |second| Timestamp::from_second(second).expect("a time");
        let stuck = |reason: &str, disk: &str| Some((reason.to_owned(), disk.into()));
        let said = [
            (0, stuck("WorkerFailing", "root"), Some((Say::First, at(1800)))),
            (1, stuck("WorkerFailing", "root"), Some((Say::Nothing, at(1800)))),
            (2, stuck("WorkerFailing", "data"), Some((Say::First, at(1802)))),
            (3, stuck("ClaimMissing", "data"), Some((Say::First, at(1803)))),
            (4, stuck("WorkerFailing", "root"), Some((Say::Nothing, at(1800)))),
            (5, None, None),
            (6, stuck("ClaimMissing", "data"), Some((Say::Nothing, at(1803)))),
            (1802, stuck("ClaimMissing", "data"), Some((Say::Nothing, at(1803)))),
            (1803, stuck("ClaimMissing", "data"), Some((Say::Again, at(3603)))),
            (1804, stuck("WorkerFailing", "data"), Some((Say::First, at(3604)))),
            (5000, stuck("ClaimMissing", "data"), Some((Say::Again, at(6800)))),
            (5600, None, None),
            (5601, stuck("ClaimMissing", "data"), Some((Say::First, at(7401)))),
        ];
        for (second, stuck, expected) in said {
            assert_eq!(remembered.news(stuck, at(second)), expected, "{second}");
        }
    }
}
