//! Conditions in a `status`, as far as a diagnosis reads them.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

/// One condition. Heartbeats are left out: they would make equal objects differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// What it is about, such as `PodScheduled` or `Bound`.
    pub r#type: Arc<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Arc<str>,
    /// Why, in one word.
    pub reason: Option<Arc<str>>,
    /// Why, for a person.
    pub message: Option<Arc<str>>,
    /// Since when it has this status.
    pub last_transition_time: Option<Timestamp>,
}
