//! Pods: ours, launchers, workers, and whoever else lists a claim.

use std::sync::Arc;

use serde::Deserialize;

use super::{Meta, view};

/// A Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    pub metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<Arc<str>>,
    volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    persistent_volume_claim: Option<ClaimReference>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimReference {
    claim_name: Arc<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Status {
    phase: PodPhase,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: Arc<str>,
    status: Arc<str>,
    reason: Option<Arc<str>>,
    message: Option<Arc<str>>,
}

view!(Pod, "", "v1", "Pod", "pods", namespaced: true);

/// `status.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum PodPhase {
    /// At least one container runs.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Not started, or no phase written yet.
    #[default]
    #[serde(other)]
    Pending,
}

/// What the scheduler says of a pod (its `PodScheduled` condition).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheduled {
    /// Nothing yet.
    Silent,
    /// It has a node.
    Yes,
    /// Scheduling gates hold it back.
    Gated,
    /// No node fits; the scheduler's own text.
    Unschedulable(Arc<str>),
}

impl Pod {
    /// The phase.
    #[must_use]
    pub fn phase(&self) -> PodPhase {
        self.status.phase
    }

    /// The node it was bound to.
    #[must_use]
    pub fn node(&self) -> Option<&Arc<str>> {
        self.spec.node_name.as_ref()
    }

    /// Whether it counts as a user of its claims: neither Succeeded nor Failed. A terminating pod is live until it is gone.
    #[must_use]
    pub fn live(&self) -> bool {
        !matches!(self.status.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// The names of the claims that it lists, whether mounted or not.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<str>> {
        self.spec
            .volumes
            .iter()
            .filter_map(|volume| Some(&volume.persistent_volume_claim.as_ref()?.claim_name))
    }

    /// What the scheduler says of it.
    #[must_use]
    pub fn scheduled(&self) -> Scheduled {
        let Some(condition) = self
            .status
            .conditions
            .iter()
            .find(|condition| &*condition.r#type == "PodScheduled")
        else {
            return if self.spec.node_name.is_some() {
                Scheduled::Yes
            } else {
                Scheduled::Silent
            };
        };
        match (&*condition.status, condition.reason.as_deref()) {
            ("True", _) => Scheduled::Yes,
            (_, Some("SchedulingGated")) => Scheduled::Gated,
            (_, Some("Unschedulable")) => Scheduled::Unschedulable(condition.message.clone().unwrap_or_default()),
            _ => Scheduled::Silent,
        }
    }
}
