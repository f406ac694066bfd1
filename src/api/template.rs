//! What a VMI has or will have: labels, annotations and spec.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{AntiAffinityTerm, Strings};

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
pub(super) fn instance_spec<'de, D: Deserializer<'de>>(deserializer: D) -> Result<InstanceSpec, D::Error> {
    let text = Box::<RawValue>::deserialize(deserializer)?;
    let read: SpecFields = serde_json::from_str(text.get()).unwrap_or_default();
    let state = |part: Option<Keeps>| part.is_some_and(Keeps::state);
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
    tpm: Option<Keeps>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FirmwareFields {
    bootloader: BootloaderFields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BootloaderFields {
    efi: Option<Keeps>,
}

/// A part of the machine that may keep state. EFI has no switch of its own.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Keeps {
    enabled: Option<bool>,
    persistent: Option<bool>,
}

impl Keeps {
    /// Whether it does (KubeVirt `pkg/tpm/tpm.go`, `pkg/efi/efi.go`: `HasPersistentDevice`).
    fn state(self) -> bool {
        self.enabled != Some(false) && self.persistent == Some(true)
    }
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
