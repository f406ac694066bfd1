//! VirtualMachines and VirtualMachineInstances of KubeVirt.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::template::{InstanceSpec, Template, TemplateMeta, instance_spec};
use super::{Meta, view};
use crate::name::hex_digest;

/// A VirtualMachine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct VirtualMachine {
    /// Metadata.
    pub metadata: Meta,
    spec: VmSpec,
    status: VmStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VmSpec {
    running: Option<bool>,
    run_strategy: Option<RunStrategy>,
    template: Template,
    #[serde(deserialize_with = "text")]
    instancetype: Option<Arc<str>>,
    #[serde(deserialize_with = "text")]
    preference: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VmStatus {
    run_strategy: Option<RunStrategy>,
    state_change_requests: Vec<StateChangeRequest>,
    #[serde(deserialize_with = "text")]
    instancetype_ref: Option<Arc<str>>,
    #[serde(deserialize_with = "text")]
    preference_ref: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct StateChangeRequest {
    action: Arc<str>,
}

/// Which instancetype or preference a VM names.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Matcher {
    kind: Arc<str>,
    name: Arc<str>,
}

view!(VirtualMachine, "kubevirt.io", "v1", "VirtualMachine", "virtualmachines", namespaced: true, keeps_generation: true);

impl VirtualMachine {
    /// The run strategy (KubeVirt `core/v1/types.go`: `RunStrategy()`): the deprecated `running` is Always or Halted.
    /// [`RunStrategy::Unknown`] if both fields are set, which KubeVirt refuses.
    #[must_use]
    pub fn run_strategy(&self) -> RunStrategy {
        match (self.spec.running, self.spec.run_strategy) {
            (Some(_), Some(_)) => RunStrategy::Unknown,
            (None, Some(strategy)) => strategy,
            (Some(true), None) => RunStrategy::Always,
            (Some(false) | None, None) => RunStrategy::Halted,
        }
    }

    /// The run strategy that virt-controller acted on last.
    #[must_use]
    pub fn observed_run_strategy(&self) -> Option<RunStrategy> {
        self.status.run_strategy
    }

    /// Whether somebody has asked for a start that has not happened yet.
    #[must_use]
    pub fn start_requested(&self) -> bool {
        self.status
            .state_change_requests
            .iter()
            .any(|request| &*request.action == "Start")
    }

    /// What its VMI will be made from.
    #[must_use]
    pub fn template(&self) -> &Template {
        &self.spec.template
    }

    /// Whether the template is complete only after `expand-spec`.
    #[must_use]
    pub fn needs_expansion(&self) -> bool {
        self.spec.instancetype.is_some() || self.spec.preference.is_some()
    }

    /// The instancetype and the preference that it names, by the names of their resources as kubectl takes them, and
    /// theirs. Without a kind it is the whole cluster's (KubeVirt `pkg/instancetype`: `SetDefaultInstancetypeKind`).
    #[must_use]
    pub fn expansion_sources(&self) -> Vec<(String, String)> {
        let source = |(text, what): (&Option<Arc<str>>, &str)| {
            let matcher: Matcher = serde_json::from_str(text.as_deref()?).ok()?;
            let kind = matcher.kind.to_lowercase();
            // KubeVirt takes the plural, too.
            let resource = match kind.strip_suffix('s').unwrap_or(&kind) {
                "" => format!("virtualmachinecluster{what}"),
                resource => resource.to_owned(),
            };
            Some((resource, matcher.name.to_string()))
        };
        let spec = &self.spec;
        let named = [(&spec.instancetype, "instancetype"), (&spec.preference, "preference")];
        named.into_iter().filter_map(source).collect()
    }

    /// Whether another answer of the API server is about the same spec of the same life, as far as both say it.
    #[must_use]
    pub fn is_as(&self, other: &Self) -> bool {
        let (this, that) = (&self.metadata, &other.metadata);
        let generations = this.generation.zip(that.generation);
        let lives = !this.uid.0.is_empty() && !that.uid.0.is_empty();
        (!lives || this.uid == that.uid) && generations.is_none_or(|(this, that)| this == that)
    }

    /// Changes when the result of `expand-spec` may: with this life of the VM, its template, and what it names.
    #[must_use]
    pub fn expansion_inputs(&self) -> String {
        let (spec, status) = (&self.spec, &self.status);
        let named = [
            &spec.instancetype,
            &spec.preference,
            &status.instancetype_ref,
            &status.preference_ref,
        ];
        let metadata = &spec.template.metadata;
        let inputs = format!(
            "{:?}",
            (
                &self.metadata.uid,
                &spec.template.spec.json,
                &metadata.labels,
                &metadata.annotations,
                named
            )
        );
        hex_digest(inputs.as_bytes(), 8)
    }
}

/// When virt-controller makes a VMI of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum RunStrategy {
    /// One shall always run.
    Always,
    /// None shall run.
    Halted,
    /// By start and stop requests.
    Manual,
    /// Again after a failure, not after a shutdown.
    RerunOnFailure,
    /// One time.
    Once,
    /// As the target of a migration from another cluster.
    WaitAsReceiver,
    /// One that we do not know, or two at once.
    #[serde(other)]
    Unknown,
}

/// A VirtualMachineInstance.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct VirtualMachineInstance {
    /// Metadata.
    pub metadata: Meta,
    #[serde(deserialize_with = "instance_spec")]
    spec: InstanceSpec,
    status: VmiStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct VmiStatus {
    phase: VmiPhase,
    machine: Option<Machine>,
    #[serde(rename = "topologyHints")]
    topology_hints: Option<TopologyHints>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Machine {
    r#type: Arc<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TopologyHints {
    tsc_frequency: Option<i64>,
}

view!(
    VirtualMachineInstance,
    "kubevirt.io",
    "v1",
    "VirtualMachineInstance",
    "virtualmachineinstances",
    namespaced: true
);

impl VirtualMachineInstance {
    /// The phase.
    #[must_use]
    pub fn phase(&self) -> VmiPhase {
        self.status.phase
    }

    /// The machine type that it was started with.
    #[must_use]
    pub fn machine(&self) -> Option<&str> {
        let machine = self.status.machine.as_ref().map(|machine| &*machine.r#type);
        machine.filter(|machine| !machine.is_empty())
    }

    /// The TSC frequency in Hz that virt-controller chose for it.
    #[must_use]
    pub fn tsc_frequency(&self) -> Option<i64> {
        self.status.topology_hints.as_ref()?.tsc_frequency
    }

    /// Whether it waits for a migration from another cluster (KubeVirt reference A.4, gate 5).
    #[must_use]
    pub fn migration_target(&self) -> bool {
        self.metadata.annotation("kubevirt.io/create-migration-target") == Some("true")
    }

    /// The same shape as the template of a VM.
    #[must_use]
    pub fn template(&self) -> Template {
        let metadata = TemplateMeta {
            labels: self.metadata.labels.clone(),
            annotations: self.metadata.annotations.clone(),
        };
        Template {
            metadata,
            spec: self.spec.clone(),
        }
    }
}

/// `status.phase` of a VMI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum VmiPhase {
    /// Just made.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// Waits for its disks, or for a launcher.
    Pending,
    /// The launcher exists.
    Scheduling,
    /// The launcher has a node.
    Scheduled,
    /// Runs.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// Waits for a migration from another cluster.
    WaitingForSync,
    /// `Unknown`, or one that we do not know.
    #[serde(other)]
    Unknown,
}

impl VmiPhase {
    /// Whether the VMI has ended.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Keeps the text of a field that is only compared; null is as if it were missing.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<str>>, D::Error> {
    let text = Box::<RawValue>::deserialize(deserializer)?;
    Ok((text.get() != "null").then(|| text.get().into()))
}
