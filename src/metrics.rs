//! What `/metrics` shows. No label ever holds the name of an object.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::time::Duration;

use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::reason::{Reason, Trouble};

/// The content type of [`Metrics::text`].
pub use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;

/// Upper bounds in seconds: from the time that a scheduler needs to the time that a person waits.
const SECONDS: [f64; 17] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0,
];

/// All metrics of the process, made once and passed by reference.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    waiting: Family<ReasonLabel, Gauge>,
    diagnoses: Family<ReasonLabel, Gauge>,
    created: Family<ReasonLabel, Counter>,
    deleted: Family<ReasonLabel, Counter>,
    failed: Family<ReasonLabel, Counter>,
    /// From the moment that a disk needed a consumer to the API server's answer to the creation of the pod.
    pub need_to_creation: Histogram,
    /// From the moment that a disk needed a consumer to the last claim being placed.
    pub need_to_node: Histogram,
    /// From the creation of the pod to the last claim being placed.
    pub creation_to_node: Histogram,
    /// From the last claim being placed to the API server's confirmation of the deletion.
    pub node_to_deletion: Histogram,
    oldest_wait: Gauge<f64, std::sync::atomic::AtomicU64>,
    requests: Family<RequestLabels, Counter>,
    interruptions: Family<KindLabel, Counter>,
    unreadable: Family<KindLabel, Counter>,
    /// Events that were given up because too many were waiting.
    pub events_dropped: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: ReasonValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ReasonValue {
    Decision(Reason),
    Diagnosis(Trouble),
}

impl EncodeLabelValue for ReasonValue {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> fmt::Result {
        match self {
            Self::Decision(reason) => encoder.write_str(&reason.name()),
            Self::Diagnosis(trouble) => encoder.write_str(&trouble.name()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    code: CodeValue,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CodeValue(u16);

impl EncodeLabelValue for CodeValue {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> fmt::Result {
        match self.0 {
            0 => encoder.write_str("none"),
            code => write!(encoder, "{code}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers everything under the prefix `first_consumer_`.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("first_consumer");
        let r = &mut registry;
        let waiting = Family::default();
        r.register("waiting_subjects", "VMs that wait now, by reason", waiting.clone());
        let diagnoses = Family::default();
        let help = "VMs with this diagnosis now, by reason; a VM may have several";
        r.register("diagnoses", help, diagnoses.clone());
        let created = family(r, "pods_created", "First-consumer pods that the API server accepted");
        let deleted = family(
            r,
            "pods_deleted",
            "First-consumer pods whose deletion the API server confirmed",
        );
        let failed = family(
            r,
            "pods_failed",
            "First-consumer pods that were refused or ended without use",
        );
        let need_to_creation = histogram(r, "need_to_creation", "From a disk's need to the creation of the pod");
        let need_to_node = histogram(r, "need_to_node", "From a disk's need to the last claim being placed");
        let creation_to_node = histogram(
            r,
            "creation_to_node",
            "From the pod's creation to the last claim being placed",
        );
        let node_to_deletion = histogram(
            r,
            "node_to_deletion",
            "From the last claim being placed to the pod's confirmed deletion",
        );
        let oldest_wait = Gauge::default();
        let help = "How long the VM that waits longest has waited";
        r.register_with_unit("oldest_wait", help, Unit::Seconds, oldest_wait.clone());
        let requests = family(
            r,
            "api_requests",
            "Requests to the API server by verb and HTTP status; none: no answer",
        );
        let interruptions = family(r, "watch_restarts", "Watches that were interrupted by an error");
        let unreadable = family(
            r,
            "unreadable_objects",
            "Objects that could not be read and were left as they were",
        );
        let events_dropped = Counter::default();
        let help = "Events that were given up because too many were waiting";
        r.register("events_dropped", help, events_dropped.clone());
        Self {
            registry,
            waiting,
            diagnoses,
            created,
            deleted,
            failed,
            need_to_creation,
            need_to_node,
            creation_to_node,
            node_to_deletion,
            oldest_wait,
            requests,
            interruptions,
            unreadable,
            events_dropped,
        }
    }

    /// A subject waits for another reason than before; `None` is one that does not wait.
    pub fn waits(&self, before: Option<Reason>, after: Option<Reason>) {
        if before == after {
            return;
        }
        if let Some(reason) = before {
            self.waiting.get_or_create(&reason.into()).dec();
        }
        if let Some(reason) = after {
            self.waiting.get_or_create(&reason.into()).inc();
        }
    }

    /// A subject has other diagnoses than before.
    pub fn diagnosed(&self, before: &BTreeSet<Trouble>, after: &BTreeSet<Trouble>) {
        for trouble in before.difference(after) {
            self.diagnoses.get_or_create(&(*trouble).into()).dec();
        }
        for trouble in after.difference(before) {
            self.diagnoses.get_or_create(&(*trouble).into()).inc();
        }
    }

    /// A pod was created for this reason.
    pub fn created(&self, reason: Reason) {
        self.created.get_or_create(&reason.into()).inc();
    }

    /// A pod was deleted for this reason.
    pub fn deleted(&self, reason: Reason) {
        self.deleted.get_or_create(&reason.into()).inc();
    }

    /// A pod was refused, or ended without use.
    pub fn failed(&self, reason: Reason) {
        self.failed.get_or_create(&reason.into()).inc();
    }

    /// A request to the API server ended with this HTTP status; 0: without an answer.
    pub fn request(&self, verb: &'static str, code: u16) {
        let labels = RequestLabels {
            verb,
            code: CodeValue(code),
        };
        self.requests.get_or_create(&labels).inc();
    }

    /// The watch of this kind was interrupted by an error.
    pub fn interrupted(&self, kind: &'static str) {
        self.interruptions.get_or_create(&KindLabel { kind }).inc();
    }

    /// An object of this kind could not be read.
    pub fn unreadable(&self, kind: &'static str) {
        self.unreadable.get_or_create(&KindLabel { kind }).inc();
    }

    /// Everything in Prometheus' text format, which every scraper and `promtool` read. The oldest wait is told at this
    /// moment, because it grows by itself.
    #[must_use]
    pub fn text(&self, oldest_wait: Duration) -> String {
        self.oldest_wait.set(oldest_wait.as_secs_f64());
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl From<Reason> for ReasonLabel {
    fn from(reason: Reason) -> Self {
        Self {
            reason: ReasonValue::Decision(reason),
        }
    }
}

impl From<Trouble> for ReasonLabel {
    fn from(trouble: Trouble) -> Self {
        Self {
            reason: ReasonValue::Diagnosis(trouble),
        }
    }
}

/// A counter with labels; the encoder adds `_total` to its name.
fn family<L>(registry: &mut Registry, name: &str, help: &str) -> Family<L, Counter>
where
    L: EncodeLabelSet + Clone + std::hash::Hash + Eq + fmt::Debug + Send + Sync + 'static,
{
    let family = Family::default();
    registry.register(name, help, family.clone());
    family
}

/// A histogram in seconds; the unit becomes part of its name.
fn histogram(registry: &mut Registry, name: &str, help: &str) -> Histogram {
    let histogram = Histogram::new(SECONDS);
    registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(metrics: &Metrics) -> Vec<String> {
        metrics
            .text(Duration::from_millis(1500))
            .lines()
            .map(ToOwned::to_owned)
            .collect()
    }

    #[test]
    fn every_metric_has_our_prefix_its_unit_and_one_total() {
        let metrics = Metrics::new();
        metrics.created(Reason::FirstConsumerNeeded);
        metrics.created(Reason::FirstConsumerNeeded);
        metrics.deleted(Reason::Served);
        metrics.failed(Reason::PodFinished);
        metrics.request("create", 201);
        metrics.request("watch", 0);
        metrics.interrupted("Pod");
        metrics.unreadable("VirtualMachine");
        metrics.events_dropped.inc();
        metrics.node_to_deletion.observe(0.007);
        let lines = lines(&metrics);
        for line in [
            r#"first_consumer_pods_created_total{reason="FirstConsumerNeeded"} 2"#,
            r#"first_consumer_pods_deleted_total{reason="Served"} 1"#,
            r#"first_consumer_pods_failed_total{reason="PodFinished"} 1"#,
            r#"first_consumer_api_requests_total{verb="create",code="201"} 1"#,
            r#"first_consumer_api_requests_total{verb="watch",code="none"} 1"#,
            r#"first_consumer_watch_restarts_total{kind="Pod"} 1"#,
            r#"first_consumer_unreadable_objects_total{kind="VirtualMachine"} 1"#,
            "first_consumer_events_dropped_total 1",
            "first_consumer_oldest_wait_seconds 1.5",
            r#"first_consumer_node_to_deletion_seconds_bucket{le="0.005"} 0"#,
            r#"first_consumer_node_to_deletion_seconds_bucket{le="0.01"} 1"#,
            "first_consumer_need_to_creation_seconds_count 0",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line} is not in {lines:#?}");
        }
        assert!(
            lines
                .iter()
                .all(|line| line.starts_with("first_consumer_") || line.starts_with('#'))
        );
    }

    #[test]
    fn the_gauge_follows_a_subject_from_reason_to_reason() {
        let metrics = Metrics::new();
        metrics.waits(None, Some(Reason::SiblingBinding));
        metrics.waits(Some(Reason::SiblingBinding), Some(Reason::SiblingBinding));
        metrics.waits(Some(Reason::SiblingBinding), Some(Reason::Unschedulable));
        let text = metrics.text(Duration::ZERO);
        assert!(
            text.contains("first_consumer_waiting_subjects{reason=\"SiblingBinding\"} 0\n"),
            "{text}"
        );
        assert!(
            text.contains("first_consumer_waiting_subjects{reason=\"Unschedulable\"} 1\n"),
            "{text}"
        );
        metrics.waits(Some(Reason::Unschedulable), None);
        let text = metrics.text(Duration::ZERO);
        assert!(
            text.contains("first_consumer_waiting_subjects{reason=\"Unschedulable\"} 0\n"),
            "{text}"
        );
    }

    #[test]
    fn the_gauge_of_diagnoses_counts_each_of_a_subject() {
        let metrics = Metrics::new();
        let none = BTreeSet::new();
        let (worker, launcher) = (Trouble::WorkerFailing, Trouble::LauncherUnschedulable);
        metrics.diagnosed(&none, &[worker, launcher].into());
        metrics.diagnosed(&[worker, launcher].into(), &[launcher].into());
        let text = metrics.text(Duration::ZERO);
        for line in ["{reason=\"WorkerFailing\"} 0", "{reason=\"LauncherUnschedulable\"} 1"] {
            assert!(text.contains(&format!("first_consumer_diagnoses{line}\n")), "{text}");
        }
    }
}
