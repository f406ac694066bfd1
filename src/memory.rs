//! What time adds to the caches: timers, refusals, gaps, and our own writes that the watch has not shown yet.
//!
//! It may be lost at any time. That costs at most some extra attempts, if it is lost between two pods, never a second
//! pod: the name is fixed, a create never overwrites, a delete names the UID.

mod expansion;
mod onsets;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::api::{ClaimPhase, Pod, View as _};
use crate::name::Uid;
use crate::observe::{Allowance, Observed, OwnPod};
use crate::placement::{HASH_VERSION, Placement};
use crate::pod::{ListedClaim, MOST_ATTEMPTS, Marks};

pub use expansion::{Expanding, Expansion, Unexpanded};
pub use onsets::{Onsets, Topic};

/// How long a created pod is believed in before the watch has shown it.
const ASSUMED_FOR: Duration = Duration::from_secs(10);

/// How many changes of placement or claims in a row need no distance between the pods that are made for them.
const MOST_CHANGES: usize = 8;

/// How long a pod that we have deleted may still get its node: the scheduler's last write may be on the way to it, or the
/// watch's word of it on the way to us.
const SETTLES_FOR: Duration = Duration::from_secs(2);

/// How long to leave an API server alone that did not answer.
const SILENCE: Growing = Growing {
    first: Duration::from_secs(1),
    most: Duration::from_mins(1),
};
const GAP: Growing = Growing {
    first: Duration::from_secs(5),
    most: Duration::from_mins(5),
};
const REFUSAL_DELAY: Growing = Growing {
    first: Duration::from_secs(10),
    most: Duration::from_mins(5),
};
/// How long a finished pod stays before it is replaced.
pub const FINISHED_DELAY: Growing = Growing {
    first: Duration::from_secs(10),
    most: Duration::from_mins(5),
};

/// A delay that doubles up to a limit.
#[derive(Clone, Copy, Debug)]
pub struct Growing {
    first: Duration,
    most: Duration,
}

impl Growing {
    /// The delay after the `times`th failure, from 1.
    #[must_use]
    pub fn after(self, times: u32) -> Duration {
        let doublings = times.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.most)
    }
}

/// What the controller remembers of one subject.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// The owner that all this is about; another life of the name starts anew.
    owner: Option<Uid>,
    /// Since when a claim has needed a consumer, and we have been wanted, without a break.
    pub needed_since: Option<Timestamp>,
    /// Since when the own pod has been finished.
    pub finished_since: Option<Timestamp>,
    gap_until: Option<Timestamp>,
    creations: u32,
    /// Whether the next pod follows one that made room for it (row 13).
    replaces: bool,
    /// What pods have been made for since the last time that all claims were bound.
    made_for: Vec<Wishes>,
    /// The last refusal, while it counts.
    pub refusal: Option<Refused>,
    refusals: u32,
    unanswered: u32,
    silence: Option<Silence>,
    /// The pods that have ended without result, for the number of the next.
    ended: Option<Ended>,
    /// A pod that we made and that the watch has not shown yet.
    assumed: Option<(Box<Pod>, Timestamp)>,
    /// The pod that we made last, and when.
    created: Option<(Uid, Timestamp)>,
    /// The pod whose deletion the API has confirmed last.
    deleted: Option<Uid>,
    /// Until when it may still get its node.
    settles_until: Option<Timestamp>,
    /// What is known of the expansion of the VM's template.
    pub expansion: Expansion,
    /// Since when what a diagnosis has to wait for has been so.
    pub onsets: Onsets,
}

/// Pods that have ended one after the other without result. Between one pod and the next only, as a pod knows its number.
#[derive(Clone, Debug)]
struct Ended {
    /// The last pod that was seen.
    pod: Uid,
    /// How many have ended, with that one if it has.
    times: u32,
    /// What they were made for.
    wishes: Wishes,
}

/// The API server did not answer the last time.
#[derive(Clone, Debug)]
struct Silence {
    /// Until when nothing is written.
    until: Timestamp,
    /// Whether it was a creation: the pod that came all the same may be deleted at once.
    creation: bool,
}

/// A refused creation.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The API server's text.
    pub text: String,
    /// When it is tried again.
    pub until: Timestamp,
    /// When, if a quota gets room: pods of others come and go.
    soonest: Timestamp,
    wishes: Wishes,
    allowance: Allowance,
}

/// What a pod would be made for: a change lets refused and given-up subjects try again at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    placement_hash: String,
    claims: Vec<(Arc<str>, Uid)>,
}

impl Wishes {
    /// What the subject wishes now.
    #[must_use]
    pub fn of(observed: &Observed) -> Self {
        let hash = observed
            .placement
            .as_ref()
            .and_then(|placement| placement.as_ref().ok())
            .map(Placement::hash);
        let claims = observed.listed().into_iter().map(ListedClaim::from);
        Self::new(hash.unwrap_or_default(), claims)
    }

    /// What a pod was made for.
    fn behind(marks: &Marks) -> Self {
        // One of another version says nothing (row 13).
        let known = marks.placement_hash.starts_with(HASH_VERSION);
        let hash = if known { &*marks.placement_hash } else { "" };
        Self::new(hash.to_owned(), marks.claims.iter().flatten().cloned())
    }

    fn new(placement_hash: String, claims: impl Iterator<Item = ListedClaim>) -> Self {
        // Which claim it is counts, and no more.
        let mut claims: Vec<_> = claims.map(|claim| (claim.name, claim.uid)).collect();
        claims.sort();
        Self { placement_hash, claims }
    }

    /// Whether these are other ones. As long as nothing needs a pod, where it would run is not known, which is no change.
    fn differ(&self, before: &Self) -> bool {
        let known = !self.placement_hash.is_empty() && !before.placement_hash.is_empty();
        self.claims != before.claims || (known && self.placement_hash != before.placement_hash)
    }
}

/// What came of an action.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The API server has made the pod.
    Created(Box<Pod>),
    /// It did not, for good until something changes; its text.
    Refused(String),
    /// Nobody knows: no answer, or one that may be another the next time; its text.
    Unanswered(String),
    /// The pod of this UID is gone or going.
    Deleted {
        /// Its UID.
        uid: Uid,
        /// Whether it is only going: a finalizer holds it.
        held: bool,
        /// Whether it makes room for one with other wishes (row 13), which is no failure.
        replaced: bool,
    },
}

impl Memory {
    /// Starts, stops and forgets timers by what is observed now.
    pub fn update(&mut self, observed: &Observed, now: Timestamp) {
        let owner = observed.owner.as_ref().map(|owner| &owner.uid);
        if self.owner.as_ref() != owner {
            // A pod deleted for the earlier life may still be in the cache.
            *self = Self {
                owner: owner.cloned(),
                deleted: self.deleted.take(),
                // It knows by itself of what it is.
                expansion: std::mem::take(&mut self.expansion),
                ..Self::default()
            };
        }
        let waits = observed.needs() && observed.permission.wanted();
        self.needed_since = waits.then(|| self.needed_since.unwrap_or(now));
        let finished = observed.own_pod().is_some_and(OwnPod::finished);
        self.finished_since = finished.then(|| self.finished_since.unwrap_or(now));
        self.count(observed);
        if observed.claims().all(|claim| claim.phase == ClaimPhase::Bound) {
            self.gap_until = None;
            self.creations = 0;
            self.ended = None;
            self.made_for.clear();
        }
        if self.refusal.is_none() && self.ended.is_none() {
            return;
        }
        let wishes = Wishes::of(observed);
        let other = |refused: &Refused| wishes.differ(&refused.wishes) || refused.allowance != observed.allowance;
        if self.refusal.as_ref().is_some_and(other) {
            self.refusal = None;
            self.refusals = 0;
        }
        if let Some(refused) = &mut self.refusal {
            if observed.allowance.has_room_since(&refused.allowance) {
                refused.until = refused.until.min(refused.soonest);
            }
            refused.allowance.clone_from(&observed.allowance);
        }
        self.ended.take_if(|ended| wishes.differ(&ended.wishes));
    }

    /// Follows how many pods have ended.
    fn count(&mut self, observed: &Observed) {
        match observed.own_pod() {
            Some(pod) if self.has_deleted(&pod.uid) || (pod.finished() && !observed.needs()) => {}
            Some(pod) => {
                let of_this_life = self.owner.as_ref() == Some(&pod.marks.owner_uid);
                let times = pod.marks.attempt.saturating_sub(u32::from(!pod.finished()));
                self.ended = (of_this_life && times > 0).then(|| Ended {
                    pod: pod.uid.clone(),
                    times,
                    wishes: Wishes::behind(&pod.marks),
                });
            }
            None => {
                // Somebody has deleted the last one, to have it tried again.
                let by_hand =
                    |ended: &mut Ended| ended.times >= MOST_ATTEMPTS && self.deleted.as_ref() != Some(&ended.pod);
                self.ended.take_if(by_hand);
            }
        }
    }

    /// Notes what came of an action.
    pub fn record(&mut self, outcome: Outcome, observed: &Observed, now: Timestamp) {
        let creation_unanswered = self.silence.as_ref().is_some_and(|silence| silence.creation);
        match outcome {
            // Says nothing of creations.
            Outcome::Deleted { .. } if creation_unanswered => {}
            Outcome::Unanswered(_) => {}
            _ => {
                self.unanswered = 0;
                self.silence = None;
            }
        }
        match outcome {
            Outcome::Created(pod) => {
                self.creations += u32::from(!self.exempt(observed));
                self.replaces = false;
                let gap = jittered(GAP.after(self.creations), &pod.meta().uid);
                self.gap_until = now.checked_add(gap).ok();
                let wishes = Wishes::of(observed);
                if !self.made_for.contains(&wishes) {
                    self.made_for.push(wishes);
                }
                self.refusal = None;
                self.refusals = 0;
                self.created = Some((pod.meta().uid.clone(), now));
                self.assumed = now.checked_add(ASSUMED_FOR).ok().map(|until| (pod, until));
            }
            Outcome::Refused(text) => {
                self.refusals += 1;
                let after = |times| {
                    let due = now.checked_add(REFUSAL_DELAY.after(times));
                    due.unwrap_or(Timestamp::MAX)
                };
                self.refusal = Some(Refused {
                    text,
                    until: after(self.refusals),
                    soonest: after(1),
                    wishes: Wishes::of(observed),
                    allowance: observed.allowance.clone(),
                });
            }
            Outcome::Unanswered(_) => {
                self.unanswered += 1;
                let until = now.checked_add(SILENCE.after(self.unanswered)).ok();
                let creation = observed.own_pod().is_none();
                self.silence = until.map(|until| Silence { until, creation });
            }
            Outcome::Deleted { uid, replaced, held: _ } => {
                self.replaces = replaced;
                self.assumed = None;
                self.deleted = Some(uid);
                let settles_until = now.checked_add(SETTLES_FOR).ok();
                self.settles_until = settles_until.filter(|_| observed.awaits_node());
            }
        }
    }

    /// What the next pod's `attempt` is; from 1. The last number is used again if we had to delete the last pod for another
    /// reason.
    #[must_use]
    pub fn next_attempt(&self) -> u32 {
        let times = self.ended.as_ref().map_or(0, |ended| ended.times);
        times.saturating_add(1).min(MOST_ATTEMPTS)
    }

    /// Until when nothing is written, because the API server did not answer the last time. `pod`: an own pod is there.
    #[must_use]
    pub fn silence(&self, pod: bool, now: Timestamp) -> Option<Timestamp> {
        let silence = self.silence.as_ref().filter(|silence| !(silence.creation && pod));
        silence.map(|silence| silence.until).filter(|until| now < *until)
    }

    /// Until when no pod is made, because the last one was made a short time ago.
    #[must_use]
    pub fn gap(&self, observed: &Observed, now: Timestamp) -> Option<Timestamp> {
        self.gap_until.filter(|until| now < *until && !self.exempt(observed))
    }

    /// Whether the next pod follows a change, which counts once: wishes that come back, or change all the time, are
    /// nobody's edit.
    fn exempt(&self, observed: &Observed) -> bool {
        self.replaces && self.made_for.len() < MOST_CHANGES && !self.made_for.contains(&Wishes::of(observed))
    }

    /// Until when a pod that we have deleted may still get its node.
    #[must_use]
    pub fn settling(&self, now: Timestamp) -> Option<Timestamp> {
        self.settles_until.filter(|until| now < *until)
    }

    /// The pod that we made and that the watch has not shown yet, and until when that is believed.
    #[must_use]
    pub fn assumed(&self, now: Timestamp) -> Option<(&Pod, Timestamp)> {
        self.assumed
            .as_ref()
            .filter(|(_, until)| now < *until)
            .map(|(pod, until)| (&**pod, *until))
    }

    /// The watch has caught up, or the time is over.
    pub fn forget_assumed(&mut self) {
        self.assumed = None;
    }

    /// When we made this pod, if it was us and in this process.
    #[must_use]
    pub fn created_at(&self, pod: &Uid) -> Option<Timestamp> {
        self.created.as_ref().filter(|(uid, _)| uid == pod).map(|(_, at)| *at)
    }

    /// Whether the API has confirmed that this pod is gone or going, whatever the cache still shows.
    #[must_use]
    pub fn has_deleted(&self, pod: &Uid) -> bool {
        self.deleted.as_ref() == Some(pod)
    }
}

/// Up to a fifth more, by the UID: replicas and restarts agree on it, and neighbours differ.
fn jittered(delay: Duration, uid: &Uid) -> Duration {
    let byte = uid
        .0
        .bytes()
        .fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
    delay + delay.mul_f64(f64::from(byte) / 255.0 / 5.0)
}
