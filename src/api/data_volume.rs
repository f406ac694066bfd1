//! DataVolumes of CDI.

use serde::Deserialize;

use super::{Meta, view};

/// A DataVolume: its phase tells what CDI is doing with the claim of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DataVolume {
    /// Metadata.
    pub metadata: Meta,
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Status {
    phase: DataVolumePhase,
}

view!(DataVolume, "cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes", namespaced: true);

impl DataVolume {
    /// The phase; [`DataVolumePhase::Unset`] before CDI has seen it.
    #[must_use]
    pub fn phase(&self) -> DataVolumePhase {
        self.status.phase
    }
}

/// `status.phase`, as far as a rule tells phases apart (CDI `types.go`: the DataVolumePhase constants).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum DataVolumePhase {
    /// CDI has not written one yet.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// Not settled: no claim yet, or nothing is known of it.
    Pending,
    /// Legacy path: waits for a pod that uses the claim.
    WaitForFirstConsumer,
    /// Populator path: waits for a node for the claim.
    PendingPopulation,
    /// Filled.
    Succeeded,
    /// Given up by CDI.
    Failed,
    /// Any other phase: at work, or unknown to us. Counts as "not waiting".
    #[serde(other)]
    Other,
}

impl DataVolumePhase {
    /// Whether CDI waits for a first consumer.
    #[must_use]
    pub fn waits(self) -> bool {
        matches!(self, Self::WaitForFirstConsumer | Self::PendingPopulation)
    }
}
