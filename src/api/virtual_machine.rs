//! VirtualMachines and VirtualMachineInstances of KubeVirt.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::selector::AntiAffinityTerm;
use super::{Meta, Strings, view};
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

view!(VirtualMachine, "kubevirt.io", "v1", "VirtualMachine", "virtualmachines", namespaced: true);

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

/// Labels, annotations and spec that a VMI has or will have.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Template {
    /// Labels and annotations.
    pub metadata: TemplateMeta,
    /// The VMI spec.
    #[serde(deserialize_with = "instance_spec")]
    pub spec: InstanceSpec,
}

/// Metadata of a [`Template`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TemplateMeta {
    /// Labels, which the launcher gets.
    pub labels: Strings,
    /// Annotations; hook sidecars are one.
    pub annotations: Strings,
}

/// A VMI spec: what the decision reads of it, and its text for placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceSpec {
    /// The spec as JSON, empty if there is none. Kept as text: most VMs wait for nothing and are never rendered.
    pub json: Arc<str>,
    /// Volumes in spec order.
    pub volumes: Vec<Volume>,
    /// Whether TPM or EFI state is kept on a claim of its own.
    pub persistent_state: bool,
    /// Required pod anti-affinity.
    pub anti_affinity: Vec<AntiAffinityTerm>,
}

/// One volume of a VMI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its name in the spec.
    pub name: Arc<str>,
    /// What it is.
    pub kind: VolumeKind,
    /// Whether it is attached while the VM runs, and not needed to boot.
    pub hotpluggable: bool,
}

/// The kinds of volume that a rule tells apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeKind {
    /// A DataVolume; its claim has the same name.
    DataVolume(Arc<str>),
    /// A claim.
    Claim(Arc<str>),
    /// A claim that is only read, below a throw-away layer.
    Ephemeral(Arc<str>),
    /// A volume without a claim to wait for, a memory dump too.
    Other,
}

impl Volume {
    /// The claim behind it.
    #[must_use]
    pub fn claim(&self) -> Option<&Arc<str>> {
        match &self.kind {
            VolumeKind::DataVolume(claim) | VolumeKind::Claim(claim) | VolumeKind::Ephemeral(claim) => Some(claim),
            VolumeKind::Other => None,
        }
    }
}

/// Keeps the text and reads the few fields; a spec that can't be read counts as one without volumes and is refused
/// when it is rendered.
fn instance_spec<'de, D: Deserializer<'de>>(deserializer: D) -> Result<InstanceSpec, D::Error> {
    let text = Box::<RawValue>::deserialize(deserializer)?;
    let read: SpecFields = serde_json::from_str(text.get()).unwrap_or_default();
    let state = |part: Option<Persistent>| part.is_some_and(|part| part.persistent == Some(true));
    Ok(InstanceSpec {
        json: text.get().into(),
        volumes: read.volumes.into_iter().map(VolumeFields::into_volume).collect(),
        persistent_state: state(read.domain.devices.tpm) || state(read.domain.firmware.bootloader.efi),
        anti_affinity: anti_affinity(text.get()),
    })
}

/// The required terms. They are read by themselves, and only where there are some: most VMs have none, and one that
/// can't be read must not hide the volumes.
fn anti_affinity(spec: &str) -> Vec<AntiAffinityTerm> {
    if !spec.contains("podAntiAffinity") {
        return Vec::new();
    }
    let spec: Value = serde_json::from_str(spec).unwrap_or_default();
    let terms = spec.pointer("/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution");
    terms.and_then(|terms| Vec::deserialize(terms).ok()).unwrap_or_default()
}

/// Keeps the text of a field that is only compared; null is as if it were missing.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<str>>, D::Error> {
    let text = Box::<RawValue>::deserialize(deserializer)?;
    Ok((text.get() != "null").then(|| text.get().into()))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecFields {
    volumes: Vec<VolumeFields>,
    domain: DomainFields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DomainFields {
    devices: DeviceFields,
    firmware: FirmwareFields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeviceFields {
    tpm: Option<Persistent>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FirmwareFields {
    bootloader: BootloaderFields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BootloaderFields {
    efi: Option<Persistent>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Persistent {
    persistent: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct VolumeFields {
    name: Arc<str>,
    data_volume: Option<Source>,
    persistent_volume_claim: Option<Source>,
    ephemeral: Option<EphemeralFields>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EphemeralFields {
    persistent_volume_claim: Option<Source>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Source {
    name: Arc<str>,
    claim_name: Arc<str>,
    hotpluggable: bool,
}

impl VolumeFields {
    fn into_volume(self) -> Volume {
        let ephemeral = self.ephemeral.and_then(|ephemeral| ephemeral.persistent_volume_claim);
        let (kind, hotpluggable) = match (self.data_volume, self.persistent_volume_claim, ephemeral) {
            (Some(source), _, _) => (VolumeKind::DataVolume(source.name), source.hotpluggable),
            (None, Some(source), _) => (VolumeKind::Claim(source.claim_name), source.hotpluggable),
            (None, None, Some(source)) => (VolumeKind::Ephemeral(source.claim_name), false),
            (None, None, None) => (VolumeKind::Other, false),
        };
        Volume {
            name: self.name,
            kind,
            hotpluggable,
        }
    }
}
