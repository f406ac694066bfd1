//! Events, which `explain` reads and the controller does not.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use super::{Meta, view};
use crate::name::Key;

/// An Event of the core group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Event {
    /// Metadata; ours carry the decision as an annotation.
    pub metadata: Meta,
    involved_object: Involved,
    /// What has happened, in one word.
    pub reason: Arc<str>,
    /// What has happened, for a person.
    pub message: Arc<str>,
    r#type: Arc<str>,
    reporting_component: Option<Arc<str>>,
    first_timestamp: Option<Timestamp>,
    last_timestamp: Option<Timestamp>,
    #[serde(rename = "eventTime")]
    time: Option<Timestamp>,
    series: Option<Series>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Involved {
    kind: Arc<str>,
    namespace: Arc<str>,
    name: Arc<str>,
    uid: Arc<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Series {
    last_observed_time: Option<Timestamp>,
}

view!(Event, "", "v1", "Event", "events", namespaced: true);

impl Event {
    /// Whether it is about the object of this kind and key. An Event outlives its object, so where both sides know a
    /// UID it has to be the same.
    #[must_use]
    pub fn about(&self, kind: &str, key: &Key, uid: &str) -> bool {
        let object = &self.involved_object;
        let same = |one: &str, other: &str| one.is_empty() || other.is_empty() || one == other;
        *object.kind == *kind && object.name == key.name && object.namespace == key.namespace && same(&object.uid, uid)
    }

    /// When it happened for the first time.
    #[must_use]
    pub fn first(&self) -> Option<Timestamp> {
        self.first_timestamp.or(self.time)
    }

    /// When it happened for the last time.
    #[must_use]
    pub fn last(&self) -> Option<Timestamp> {
        let series = self.series.as_ref().and_then(|series| series.last_observed_time);
        series.or(self.last_timestamp).or(self.time)
    }

    /// Whether it is of type `Warning`.
    #[must_use]
    pub fn warns(&self) -> bool {
        &*self.r#type == "Warning"
    }

    /// Who says so.
    #[must_use]
    pub fn component(&self) -> &str {
        self.reporting_component.as_deref().unwrap_or_default()
    }
}
