//! Pods: ours, launchers, workers, and whoever else lists a claim.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::selector::{Affinity, NodeNeeds};
use super::{Condition, Meta, Strings, view};

/// How the scheduler says that a node is not one that the pod asks for (kube-scheduler `nodeaffinity/node_affinity.go`).
pub const BY_NODE: &str = "didn't match Pod's node affinity/selector";

/// How it says that the pod does not tolerate a node's taint (kube-scheduler `tainttoleration/taint_toleration.go`).
pub const BY_TAINT: &str = "had untolerated taint";

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
#[serde(from = "WholeSpec")]
struct Spec {
    node_name: Option<Arc<str>>,
    scheduler_name: Option<Arc<str>>,
    scheduling_gates: Vec<Gate>,
    volumes: Vec<Volume>,
    needs: Option<Box<NodeNeeds>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WholeSpec {
    node_name: Option<Arc<str>>,
    scheduler_name: Option<Arc<str>>,
    scheduling_gates: Vec<Gate>,
    volumes: Vec<Volume>,
    node_selector: Strings,
    affinity: Affinity,
}

/// What a pod asks of its node is of no use once it has one, and most pods have.
impl From<WholeSpec> for Spec {
    fn from(spec: WholeSpec) -> Self {
        let needs = NodeNeeds {
            node_selector: spec.node_selector,
            affinity: spec.affinity,
        };
        Self {
            needs: spec.node_name.is_none().then(|| Box::new(needs)),
            node_name: spec.node_name,
            scheduler_name: spec.scheduler_name,
            scheduling_gates: spec.scheduling_gates,
            volumes: spec.volumes,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Gate {
    name: Arc<str>,
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
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: PodPhase,
    reason: Option<Arc<str>>,
    message: Option<Arc<str>>,
    #[serde(deserialize_with = "scheduled", rename = "conditions")]
    scheduled: Option<Condition>,
    #[serde(deserialize_with = "troubled", rename = "containerStatuses")]
    containers: Vec<Container>,
}

/// Of the conditions only the scheduler's: readiness and the like come and go, and no rule reads them.
fn scheduled<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Condition>, D::Error> {
    let conditions = Option::<Vec<Condition>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(conditions
        .into_iter()
        .find(|condition| &*condition.r#type == "PodScheduled"))
}

/// Of the containers only those that could not start or have ended badly.
fn troubled<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Container>, D::Error> {
    let statuses = Option::<Vec<ContainerStatus>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(statuses.into_iter().filter_map(ContainerStatus::trouble).collect())
}

/// A container that could not start or has ended badly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// How often the kubelet has started it again.
    pub restarts: u32,
    /// Why it waits, such as `CrashLoopBackOff` or `ImagePullBackOff`; empty if it runs or has ended.
    pub waiting: Arc<str>,
    /// The kubelet's words, or the last that the container has left when it ended; empty if there are none.
    pub message: Arc<str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    restart_count: u32,
    state: ContainerState,
    last_state: ContainerState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Waiting>,
    terminated: Option<Terminated>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: Arc<str>,
    message: Arc<str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i32,
    reason: Arc<str>,
    message: Arc<str>,
}

impl ContainerStatus {
    fn trouble(self) -> Option<Container> {
        let waiting = self.state.waiting.unwrap_or_default();
        let ended = self.state.terminated.or(self.last_state.terminated);
        let ended = ended.filter(|ended| ended.exit_code != 0);
        // Before its first start every container is `ContainerCreating` or `PodInitializing`.
        let starting = matches!(&*waiting.reason, "" | "ContainerCreating" | "PodInitializing");
        if starting && ended.is_none() {
            return None;
        }
        let ended = ended.map(|ended| match &*ended.message {
            "" => ended.reason,
            _ => ended.message,
        });
        Some(Container {
            restarts: self.restart_count,
            waiting: waiting.reason,
            message: ended.unwrap_or(waiting.message),
        })
    }
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
    /// Scheduling gates hold it back; their names.
    Gated(Arc<str>),
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

    /// Whether it has ended well.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.status.phase == PodPhase::Succeeded
    }

    /// Whether it only stands in for a launcher until the disks are there. Presence counts (KubeVirt reference A.5).
    #[must_use]
    pub fn temporary(&self) -> bool {
        self.metadata.annotation("kubevirt.io/ephemeral-provisioning").is_some()
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
        let Some(condition) = &self.status.scheduled else {
            return if self.spec.node_name.is_some() {
                Scheduled::Yes
            } else {
                Scheduled::Silent
            };
        };
        match (&*condition.status, condition.reason.as_deref()) {
            ("True", _) => Scheduled::Yes,
            (_, Some("SchedulingGated")) => Scheduled::Gated(self.gates()),
            (_, Some("Unschedulable")) => Scheduled::Unschedulable(condition.message.clone().unwrap_or_default()),
            _ => Scheduled::Silent,
        }
    }

    /// The names of its scheduling gates; whoever has set one has to take it off.
    fn gates(&self) -> Arc<str> {
        let names: Vec<&str> = self.spec.scheduling_gates.iter().map(|gate| &*gate.name).collect();
        names.join(", ").into()
    }

    /// What it asks of its node, as long as it has none.
    #[must_use]
    pub fn needs(&self) -> Option<&NodeNeeds> {
        self.spec.needs.as_deref()
    }

    /// Since when the scheduler has said what it says of the pod; the pod's creation, if it has said nothing.
    #[must_use]
    pub fn scheduled_since(&self) -> Option<Timestamp> {
        let condition = self.status.scheduled.as_ref();
        let since = condition.and_then(|condition| condition.last_transition_time);
        since.or(self.metadata.creation_timestamp)
    }

    /// The scheduler that it asks for.
    #[must_use]
    pub fn scheduler(&self) -> &str {
        self.spec.scheduler_name.as_deref().unwrap_or("default-scheduler")
    }

    /// Its containers that could not start or have ended badly.
    #[must_use]
    pub fn troubled_containers(&self) -> &[Container] {
        &self.status.containers
    }

    /// Its phase, the node that it was bound to, and if it has ended why.
    #[must_use]
    pub fn outcome(&self) -> String {
        let node = self.node().map(|node| format!(" on {node}")).unwrap_or_default();
        let words = self.verdict().map(|words| format!(": {words}")).unwrap_or_default();
        format!("{:?}{node}{words}", self.phase())
    }

    /// Why it has ended, as far as somebody says: the kubelet or a controller of the pod, or else of a container.
    fn verdict(&self) -> Option<String> {
        let of_pod = [&self.status.reason, &self.status.message].into_iter().flatten();
        let of_pod: Vec<&str> = of_pod.map(AsRef::as_ref).filter(|words| !words.is_empty()).collect();
        let mut of_containers = self.status.containers.iter().map(|container| &*container.message);
        let words = match of_pod.join(": ") {
            silent if silent.is_empty() => of_containers.find(|words| !words.is_empty())?.to_owned(),
            words => words,
        };
        (!self.live()).then_some(words)
    }
}
