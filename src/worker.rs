//! What a worker does with one subject: a turn of the decision, its effect, and the telling of it.

mod remembered;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::announce::{self, Announcement};
use crate::clock::Clock;
use crate::cluster::events::Events;
use crate::cluster::execute::execute;
use crate::cluster::expand::expand;
use crate::cluster::watch::{SharedIndex, lock};
use crate::decide::{Decision, Effect, Settings, Turn, turn};
use crate::diagnose::{Diagnosis, Evidence, diagnose};
use crate::leader::Leadership;
use crate::memory::{Expanding, Outcome};
use crate::metrics::Metrics;
use crate::name::{Key, pod_name};
use crate::observe::{self, Observed};
use crate::pace::Pace;
use crate::queue::Queue;
use crate::reason::{Reason, Trouble};

pub use remembered::Memories;
use remembered::{Farewell, Say, again, between};

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

impl Worker {
    /// Gives a subject its turn, which has been due since a time.
    pub async fn serve(self: &Arc<Self>, subject: &Key, due: Instant) {
        let now = self.clock.now();
        let due = now.checked_sub(due.elapsed()).unwrap_or(now);
        let (turn, diagnosis, placed_since, said) = {
            let mut index = lock(&self.index);
            let (turn, diagnosis, placed_since, said) = self.memories.with(subject, |remembered| {
                let memory = &mut remembered.memory;
                let before = memory.needed_since;
                let turn = turn(&index, subject, &self.settings, memory, now);
                let onsets = Some(&mut memory.onsets);
                let diagnosis = diagnose(&index, &turn.observed, &Evidence::default(), onsets, now);
                let begins_to_wait = memory.needed_since.is_some() && memory.needed_since != before;
                let said = announce::of_decision(&turn.decision, &turn.observed, &memory.expansion, now);
                remembered.follow(begins_to_wait, turn.observed.served(), due);
                (turn, diagnosis, remembered.placed_since, said)
            });
            // Under the same lock: two peers must not both find that nobody acts.
            for peer in index.note(subject, turn.standing.clone()) {
                self.queue.add(peer);
            }
            (turn, diagnosis, placed_since, said)
        };
        let Turn {
            observed,
            decision,
            effect,
            ..
        } = turn;
        self.show(&observed, &decision, &diagnosis);
        self.take_leave(&observed, now);
        let leads = self.leadership.leads();
        let again = leads.then(|| {
            let said = said.map(|announcement| {
                self.announce(announcement);
                again(now)
            });
            let stuck = self.tell_stuck(&diagnosis, &decision, &observed, now);
            said.into_iter().chain(stuck).min()
        });
        let wake_at = [decision.wake_at, diagnosis.wake_at, again.flatten()];
        self.wake(subject, wake_at.into_iter().flatten().min(), now);
        if effect == Effect::Nothing || !self.leadership.leads() {
            if observed.owner.is_none() && observed.own_pod().is_none() {
                self.memories.forget(subject);
            }
            return;
        }
        if let Effect::Expand { inputs } = effect {
            return self.expand(subject.clone(), inputs);
        }
        let _place = match effect {
            Effect::Create(_) => match self.pace.take(subject) {
                Ok(place) => Some(place),
                Err(slot) => return self.queue.add_at(subject.clone(), slot),
            },
            _ => None,
        };
        let Some(outcome) = execute(&self.client, subject, effect).await else {
            return;
        };
        let done = self.clock.now();
        let held = matches!(outcome, Outcome::Deleted { held: true, .. });
        if !held {
            self.tell(&outcome, &observed, &decision, placed_since, done);
        }
        self.memories.with(subject, |remembered| {
            remembered.memory.record(outcome.clone(), &observed, done);
            remembered.farewell = held.then(|| {
                Box::new(Farewell {
                    outcome,
                    observed,
                    decision,
                    placed_since,
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

    /// Says what is stuck, and when it lasts or is something else it says it again; the log has it once. When the next
    /// time is, if nothing changes.
    fn tell_stuck(
        &self,
        diagnosis: &Diagnosis,
        decision: &Decision,
        observed: &Observed,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let subject = &observed.subject;
        let (stuck, announcement) = announce::of_diagnosis(diagnosis, decision, observed).unzip();
        let reason = stuck.as_ref().map(|(reason, _)| reason.clone());
        let news = self.memories.with(subject, |remembered| remembered.news(stuck, now));
        let ((say, again), announcement) = news.zip(announcement)?;
        if say == Say::First {
            warn!(%subject, reason, note = announcement.note, "a disk is stuck");
        }
        if say != Say::Nothing {
            self.announce(announcement);
        }
        Some(again)
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
                farewell.placed_since,
                now,
            );
        }
    }

    /// Keeps the gauges of waiting subjects and of diagnoses, and logs what is new.
    fn show(&self, observed: &Observed, decision: &Decision, diagnosis: &Diagnosis) {
        let shown = (decision.reason, observed.needs());
        let troubles: BTreeSet<Trouble> = diagnosis.findings.iter().map(|finding| finding.trouble).collect();
        let last = observed.own_pod().filter(|_| decision.reason == Reason::GaveUp);
        let (before, gives_up) = self.memories.with(&observed.subject, |remembered| {
            self.metrics.diagnosed(&remembered.troubles, &troubles);
            remembered.troubles = troubles;
            let gives_up = last.is_some_and(|pod| remembered.gives_up(&pod.uid));
            (remembered.shown.replace(shown), gives_up)
        });
        let waiting = |(reason, needs): (Reason, bool)| needs.then_some(reason);
        self.metrics.waits(before.and_then(waiting), waiting(shown));
        if gives_up && self.leadership.leads() {
            warn!(subject = %observed.subject, about = decision.about, "gave up");
            self.metrics.failed(decision.reason);
        }
        if before != Some(shown) {
            debug!(subject = %observed.subject, action = ?decision.action, reason = %decision.reason, about = decision.about, "decided");
        }
    }

    /// Log, metrics and Events about an action that is over.
    fn tell(
        &self,
        outcome: &Outcome,
        observed: &Observed,
        decision: &Decision,
        placed_since: Option<Timestamp>,
        done: Timestamp,
    ) {
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
                if let Some(placed) = placed_since.filter(|_| announce::has_served(decision, observed)) {
                    observe(&self.metrics.need_to_node, needed, placed);
                    observe(&self.metrics.creation_to_node, created, placed);
                    observe(&self.metrics.node_to_deletion, Some(placed), done);
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
