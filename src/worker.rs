//! What a worker does with one subject: a turn of the decision, its effect, and the telling of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::announce::{self, Announcement, Stuck};
use crate::clock::Clock;
use crate::cluster::events::Events;
use crate::cluster::execute::execute;
use crate::cluster::expand::expand;
use crate::cluster::watch::{SharedIndex, lock};
use crate::decide::{Decision, Effect, Settings, Turn, turn};
use crate::diagnose::{Diagnosis, Evidence, diagnose};
use crate::leader::Leadership;
use crate::memory::{Expanding, Memory, Outcome};
use crate::metrics::Metrics;
use crate::name::{Key, pod_name};
use crate::observe::{self, Observed};
use crate::pace::Pace;
use crate::queue::Queue;
use crate::reason::{Reason, Trouble};

/// What all workers share.
pub struct Worker {
    /// The caches.
    pub index: SharedIndex,
    /// Who is due.
    pub queue: Queue,
    /// What the flags say.
    pub settings: Settings,
    /// For pods and expansions: nothing is repeated behind our back.
    pub client: Client,
    /// How many expansions may run at once.
    pub expansions: Semaphore,
    /// Whether we may write.
    pub leadership: Leadership,
    /// For Events.
    pub events: Events,
    /// For `/metrics`.
    pub metrics: Arc<Metrics>,
    /// How often a pod may be created.
    pub pace: Pace,
    /// What is remembered of each subject.
    pub memories: Memories,
    /// The time of day.
    pub clock: Clock,
}

/// When a trouble that was told of and went is told of again.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(10);

/// What is remembered of each subject.
#[derive(Debug, Default)]
pub struct Memories(Mutex<HashMap<Key, Remembered>>);

#[derive(Clone, Debug, Default)]
struct Remembered {
    memory: Memory,
    /// Since when it waits, or has waited last.
    needed_since: Option<Timestamp>,
    /// The last decision, for the log and for the waiting gauge.
    shown: Option<(Reason, bool)>,
    /// What the last diagnosis has found, for the gauge.
    troubles: BTreeSet<Trouble>,
    /// What is stuck, as far as an Event has said it.
    told: BTreeMap<Stuck, Timestamp>,
    /// What went wrong last, as the log has it; said again only when it is something else, or after a success.
    complaint: Option<String>,
    /// A deletion that is announced when the pod is gone.
    farewell: Option<Box<Farewell>>,
}

impl Remembered {
    /// Notes what went wrong. Whether that is new, and has to be said.
    fn complains(&mut self, text: &str) -> bool {
        let news = self.complaint.as_deref() != Some(text);
        self.complaint = Some(text.to_owned());
        news
    }

    /// Notes what is stuck. Whether that is new and has to be said: where several things are wrong, or one comes and
    /// goes, it may be another every second.
    fn news(&mut self, stuck: Option<Stuck>, now: Timestamp) -> bool {
        let news = stuck.is_some_and(|stuck| self.told.insert(stuck, now).is_none());
        self.told.retain(|_, seen| between(*seen, now) < FORGOTTEN_AFTER);
        news
    }
}

/// The API server has taken our deletion, but a finalizer holds the pod.
#[derive(Clone, Debug)]
struct Farewell {
    outcome: Outcome,
    observed: Observed,
    decision: Decision,
    began: Timestamp,
}

impl Farewell {
    fn is_over(&self, observed: &Observed) -> bool {
        let own = |observed: &Observed| observed.own_pod().map(|pod| pod.uid.clone());
        own(observed) != own(&self.observed)
    }
}

impl Memories {
    fn with<T>(&self, subject: &Key, look: impl FnOnce(&mut Remembered) -> T) -> T {
        let mut memories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look(memories.entry(subject.clone()).or_default())
    }

    fn forget(&self, subject: &Key) {
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

impl Worker {
    /// Gives a subject its turn.
    pub async fn serve(self: &Arc<Self>, subject: &Key) {
        let now = self.clock.now();
        let (turn, diagnosis) = {
            let mut index = lock(&self.index);
            let (turn, diagnosis) = self.memories.with(subject, |remembered| {
                let memory = &mut remembered.memory;
                let turn = turn(&index, subject, &self.settings, memory, now);
                let onsets = Some(&mut memory.onsets);
                let diagnosis = diagnose(&index, &turn.observed, &Evidence::default(), onsets, now);
                (turn, diagnosis)
            });
            // Under the same lock: two peers must not both find that nobody acts.
            for peer in index.note(subject, turn.standing.clone()) {
                self.queue.add(peer);
            }
            (turn, diagnosis)
        };
        let Turn {
            observed,
            decision,
            effect,
            ..
        } = turn;
        self.show(&observed, &decision, &diagnosis);
        self.take_leave(&observed, now);
        let wake_at = [decision.wake_at, diagnosis.wake_at];
        self.wake(subject, wake_at.into_iter().flatten().min(), now);
        if self.leadership.leads() {
            if let Some(announcement) = announce::of_decision(&decision, &observed) {
                self.announce(announcement);
            }
            self.tell_stuck(&diagnosis, &decision, &observed, now);
        }
        if effect == Effect::Nothing || !self.leadership.leads() {
            if observed.owner.is_none() && observed.own_pod().is_none() {
                self.memories.forget(subject);
            }
            return;
        }
        if let Effect::Expand { inputs } = effect {
            return self.expand(subject.clone(), inputs);
        }
        if matches!(effect, Effect::Create(_))
            && let Some(slot) = self.pace.take(subject)
        {
            return self.queue.add_at(subject.clone(), slot);
        }
        let Some(outcome) = execute(&self.client, subject, effect).await else {
            return;
        };
        let done = self.clock.now();
        let held = matches!(outcome, Outcome::Deleted { held: true, .. });
        if !held {
            self.tell(&outcome, &observed, &decision, now, done);
        }
        self.memories.with(subject, |remembered| {
            remembered.memory.record(outcome.clone(), &observed, done);
            remembered.farewell = held.then(|| {
                Box::new(Farewell {
                    outcome,
                    observed,
                    decision,
                    began: now,
                })
            });
        });
        self.queue.add(subject.clone());
    }

    /// Lets virt-api expand the template and decides again afterwards. Not in the worker's own time: an API that hangs
    /// must not keep other subjects waiting.
    fn expand(self: &Arc<Self>, subject: Key, inputs: String) {
        // What was decided about; by now the index may have another.
        let unexpanded = observe::unexpanded(&lock(&self.index), &subject)
            .filter(|(_, found)| *found == inputs)
            .map(|(vm, _)| vm.clone());
        let Some(vm) = unexpanded else {
            return self.queue.add(subject);
        };
        self.memories
            .with(&subject, |remembered| remembered.memory.expansion.begin(inputs));
        let worker = Arc::clone(self);
        tokio::spawn(async move {
            let outcome = {
                let _permit = worker.expansions.acquire().await;
                expand(&worker.client, &vm).await
            };
            match &outcome {
                Expanding::Expanded(_) => debug!(%subject, "the template has been expanded"),
                Expanding::Refused(text) | Expanding::Unanswered(text) => {
                    worker.complain(
                        &subject,
                        Reason::ExpansionPending,
                        text,
                        "the template could not be expanded",
                    );
                }
            }
            worker.memories.with(&subject, |remembered| {
                remembered.memory.expansion.end(outcome, worker.clock.now());
            });
            worker.queue.add(subject);
        });
    }

    fn wake(&self, subject: &Key, at: Option<Timestamp>, now: Timestamp) {
        if let Some(at) = at {
            self.queue.add_at(subject.clone(), Instant::now() + between(now, at));
        }
    }

    /// Says once what is stuck, and again only when it is something else.
    fn tell_stuck(&self, diagnosis: &Diagnosis, decision: &Decision, observed: &Observed, now: Timestamp) {
        let subject = &observed.subject;
        let (stuck, announcement) = announce::of_diagnosis(diagnosis, decision, observed).unzip();
        let reason = stuck.as_ref().map(|(reason, _)| reason.clone());
        let announcement = self.memories.with(subject, |remembered| {
            let news = remembered.news(stuck, now);
            announcement.filter(|_| news)
        });
        if let Some(announcement) = announcement {
            warn!(%subject, reason, note = announcement.note, "a disk is stuck");
            self.announce(announcement);
        }
    }

    /// Tells of a deletion that a finalizer has held up.
    fn take_leave(&self, observed: &Observed, now: Timestamp) {
        let over = self.memories.with(&observed.subject, |remembered| {
            remembered.farewell.take_if(|farewell| farewell.is_over(observed))
        });
        if let Some(farewell) = over {
            self.tell(
                &farewell.outcome,
                &farewell.observed,
                &farewell.decision,
                farewell.began,
                now,
            );
        }
    }

    /// Keeps the gauges of waiting subjects and of diagnoses, and logs what is new.
    fn show(&self, observed: &Observed, decision: &Decision, diagnosis: &Diagnosis) {
        let shown = (decision.reason, observed.needs());
        let troubles: BTreeSet<Trouble> = diagnosis.findings.iter().map(|finding| finding.trouble).collect();
        let before = self.memories.with(&observed.subject, |remembered| {
            self.metrics.diagnosed(&remembered.troubles, &troubles);
            remembered.troubles = troubles;
            remembered.needed_since = remembered.memory.needed_since.or(remembered.needed_since);
            remembered.shown.replace(shown)
        });
        let waiting = |(reason, needs): (Reason, bool)| needs.then_some(reason);
        self.metrics.waits(before.and_then(waiting), waiting(shown));
        if before != Some(shown) {
            debug!(subject = %observed.subject, action = ?decision.action, reason = %decision.reason, about = decision.about, "decided");
        }
    }

    /// Log, metrics and Events about an action that is over.
    fn tell(&self, outcome: &Outcome, observed: &Observed, decision: &Decision, began: Timestamp, done: Timestamp) {
        let subject = &observed.subject;
        let pod = pod_name(subject);
        let reason = decision.reason;
        let (needed, created) = self.memories.with(subject, |remembered| {
            let uid = observed.own_pod().map(|pod| &pod.uid);
            (
                remembered.needed_since,
                uid.and_then(|uid| remembered.memory.created_at(uid)),
            )
        });
        match outcome {
            Outcome::Created(_) => {
                info!(%subject, pod, %reason, about = decision.about, "created the pod");
                self.memories.with(subject, |remembered| remembered.complaint = None);
                self.metrics.created(reason);
                observe(&self.metrics.need_to_creation, needed, done);
            }
            Outcome::Deleted { .. } => {
                info!(%subject, pod, %reason, about = decision.about, "deleted the pod");
                self.metrics.deleted(reason);
                if reason == Reason::PodFinished {
                    self.metrics.failed(reason);
                }
                if reason == Reason::Served {
                    observe(&self.metrics.need_to_node, needed, began);
                    observe(&self.metrics.creation_to_node, created, began);
                    observe(&self.metrics.node_to_deletion, Some(began), done);
                }
            }
            Outcome::Refused(text) => {
                self.complain(subject, Reason::CreateRefused, text, "the API server refused the pod");
                self.metrics.failed(Reason::CreateRefused);
            }
            Outcome::Unanswered(text) => self.complain(subject, reason, text, "the API server did not do it"),
        }
        let lived = created.map(|created| between(created, done));
        for announcement in announce::of_outcome(outcome, decision, observed, lived) {
            self.announce(announcement);
        }
    }

    /// Logs what went wrong; what goes wrong in the same way again and again only for those who want every line.
    fn complain(&self, subject: &Key, reason: Reason, text: &str, what: &'static str) {
        if self.memories.with(subject, |remembered| remembered.complains(text)) {
            warn!(%subject, %reason, text, "{what}");
        } else {
            debug!(%subject, %reason, text, "{what}, as before");
        }
    }

    fn announce(&self, announcement: Announcement) {
        if !self.events.announce(announcement) {
            self.metrics.events_dropped.inc();
        }
    }
}

/// Observes a span, if its beginning is known.
fn observe(histogram: &Histogram, from: Option<Timestamp>, to: Timestamp) {
    if let Some(from) = from {
        histogram.observe(between(from, to).as_secs_f64());
    }
}

fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    let duration: SignedDuration = later.duration_since(earlier);
    duration.try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stuck_is_said_once_and_again_only_if_it_was_not_for_a_while() {
        let mut remembered = Remembered::default();
        let stuck = |reason: &str, disk: &str| Some((reason.to_owned(), disk.into()));
        let said = [
            (0, stuck("WorkerFailing", "root"), true),
            (1, stuck("WorkerFailing", "root"), false),
            (2, stuck("WorkerFailing", "data"), true),
            (3, stuck("ClaimMissing", "data"), true),
            (4, stuck("WorkerFailing", "root"), false),
            (5, None, false),
            (6, stuck("ClaimMissing", "data"), false),
            (5000, stuck("ClaimMissing", "data"), false),
            (5001, stuck("WorkerFailing", "data"), true),
            (9000, None, false),
            (9001, stuck("ClaimMissing", "data"), true),
        ];
        for (second, stuck, news) in said {
            let now = Timestamp::from_second(second).expect("a time");
            assert_eq!(remembered.news(stuck, now), news, "{second}");
        }
    }
}
