//! KubeVirt's virt-controller: VM controller ([`vm`]) and VMI controller ([`vmi`]), plus the one step of virt-handler
//! that makes a scheduled VMI run. Migration, hotplug, backend storage and `WaitAsReceiver` are left out.
//!
//! As KubeVirt does, a DataVolume and its claim are taken to have the same name.

pub mod vm;
pub mod vmi;

use super::objects::{DvPhase, Owner, Pod};
use std::collections::BTreeMap;

/// A boot volume that names a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Volume {
    /// Name of the claim, and of the DataVolume.
    pub claim: String,
    /// A `dataVolume` source; otherwise `persistentVolumeClaim`.
    pub data_volume: bool,
}

/// What is there under a volume's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Disk {
    /// The claim exists.
    pub claim: bool,
    /// The claim is Bound.
    pub bound: bool,
    /// The claim's controller is a DataVolume.
    pub owned: bool,
    /// The DataVolume's phase, if it exists.
    pub phase: Option<DvPhase>,
}

/// Disks by name.
pub type Disks = BTreeMap<String, Disk>;

/// `status.phase` of a VirtualMachineInstance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VmiPhase {
    /// Not seen by virt-controller.
    #[default]
    Unset,
    /// Waits for disks or for its temporary pod.
    Pending,
    /// Has a launcher.
    Scheduling,
    /// Its launcher runs.
    Scheduled,
    /// The guest runs.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
}

impl VmiPhase {
    const ALL: [(Self, &str); 7] = [
        (Self::Unset, ""),
        (Self::Pending, "Pending"),
        (Self::Scheduling, "Scheduling"),
        (Self::Scheduled, "Scheduled"),
        (Self::Running, "Running"),
        (Self::Succeeded, "Succeeded"),
        (Self::Failed, "Failed"),
    ];

    /// The API's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(phase, _)| *phase == self)
            .map_or("", |(_, text)| text)
    }

    /// The phase for the API's word; words that are not in the list count as unset.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self::ALL
            .iter()
            .find(|(_, known)| *known == text)
            .map_or(Self::Unset, |(phase, _)| *phase)
    }

    /// Succeeded or Failed.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// A VirtualMachineInstance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Vmi {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Controller owner.
    pub owner: Option<Owner>,
    /// Boot volumes.
    pub volumes: Vec<Volume>,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// `status`.
    pub status: VmiStatus,
}

/// The part of a VMI's status that rules read or write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VmiStatus {
    /// `phase`.
    pub phase: VmiPhase,
    /// `nodeName`.
    pub node: Option<String>,
    /// `activePods`: UID to node, of all pods that the VMI controls.
    pub active: BTreeMap<String, String>,
    /// Condition Provisioning is True.
    pub provisioning: bool,
    /// Message of condition PodScheduled when it is False for the reason Unschedulable.
    pub unschedulable: Option<String>,
    /// Condition Synchronized is False for the reason FailedPvcNotFound.
    pub claim_missing: bool,
}

/// KubeVirt's current pod of a VMI: the newest that the VMI controls, whatever it is \[`controller.go`: CurrentVMIPod\].
#[must_use]
pub fn current(pods: &[Pod]) -> Option<&Pod> {
    pods.iter()
        .max_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)))
}
