//! DataVolumes of CDI.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use super::{Condition, Meta, view};
use crate::name::Key;

/// A DataVolume: its phase tells what CDI is doing with the claim of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DataVolume {
    /// Metadata.
    pub metadata: Meta,
    spec: Spec,
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Spec {
    source: Option<Source>,
    pvc: Option<Storage>,
    storage: Option<Storage>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Source {
    pvc: Option<SourceClaim>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct SourceClaim {
    namespace: Arc<str>,
    name: Arc<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Storage {
    storage_class_name: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Status {
    phase: DataVolumePhase,
    progress: Progress,
    #[serde(deserialize_with = "unmet")]
    conditions: Vec<Condition>,
}

/// How much of the disk is filled, while it is being filled. It is new every few seconds and no rule reads it, so it
/// makes no two DataVolumes differ.
#[derive(Clone, Debug, Default, Eq)]
struct Progress(Option<Box<str>>);

impl PartialEq for Progress {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<'de> Deserialize<'de> for Progress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<Box<str>>::deserialize(deserializer)?;
        // CDI writes `N/A` before and `100.0%` behind.
        Ok(Self(
            text.filter(|text| text.ends_with('%') && !text.starts_with("100")),
        ))
    }
}

/// Only what is not as it should be: a filled disk needs no words.
fn unmet<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    let mut conditions = Option::<Vec<Condition>>::deserialize(deserializer)?.unwrap_or_default();
    conditions.retain(|condition| {
        let reason = condition.reason.as_deref().unwrap_or_default();
        &*condition.status != "True" && !matches!(reason, "" | "Completed") && &*condition.r#type != "Ready"
    });
    conditions.shrink_to_fit();
    Ok(conditions)
}

view!(DataVolume, "cdi.kubevirt.io", "v1beta1", "DataVolume", "datavolumes", namespaced: true);

impl DataVolume {
    /// The phase; [`DataVolumePhase::Unset`] before CDI has seen it.
    #[must_use]
    pub fn phase(&self) -> DataVolumePhase {
        self.status.phase
    }

    /// How much of the disk is filled, such as `45.00%`, while it is being filled.
    #[must_use]
    pub fn progress(&self) -> Option<&str> {
        self.status.progress.0.as_deref()
    }

    /// The condition of this type (`Bound` or `Running`), if it is not met and says why (CDI
    /// `datavolume/conditions.go`).
    #[must_use]
    pub fn unmet(&self, r#type: &str) -> Option<&Condition> {
        self.status
            .conditions
            .iter()
            .find(|condition| &*condition.r#type == r#type)
    }

    /// The class that it asks for; of `spec.storage` or `spec.pvc`, one of which is set.
    #[must_use]
    pub fn class(&self) -> Option<&Arc<str>> {
        let storage = self.spec.storage.as_ref().or(self.spec.pvc.as_ref());
        storage?.storage_class_name.as_ref()
    }

    /// The claim that it clones, if it names one itself. Without a namespace it is its own (CDI
    /// `webhooks/datavolume-validate.go`).
    #[must_use]
    pub fn source_claim(&self) -> Option<Key> {
        let source = self.spec.source.as_ref()?.pvc.as_ref()?;
        let namespace = match &*source.namespace {
            "" => &self.metadata.namespace,
            _ => &source.namespace,
        };
        Some(Key {
            namespace: Arc::clone(namespace),
            name: Arc::clone(&source.name),
        })
    }
}

/// `status.phase` (CDI `types.go`: the DataVolumePhase constants). Rules tell only a few apart; people see all.
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
    /// The claim is bound, and nothing has begun.
    #[serde(rename = "PVCBound")]
    PvcBound,
    /// The importer is being started.
    ImportScheduled,
    /// The importer runs.
    ImportInProgress,
    /// A stage of an import in several stages is done.
    Paused,
    /// The upload server is being started.
    UploadScheduled,
    /// The upload server takes data.
    UploadReady,
    /// A clone is accepted, or waits for its source.
    CloneScheduled,
    /// A clone is being copied.
    CloneInProgress,
    /// A snapshot of a clone's source is being taken.
    SnapshotForSmartCloneInProgress,
    /// A claim is being restored from a snapshot.
    CloneFromSnapshotSourceInProgress,
    /// The CSI driver clones.
    #[serde(rename = "CSICloneInProgress")]
    CsiCloneInProgress,
    /// An intermediate claim is being bound or resized.
    PrepClaimInProgress,
    /// A volume is being handed over.
    RebindInProgress,
    /// `Unknown`, or one that is unknown to us. Counts as "not waiting", as all from `PVCBound` on do.
    #[serde(other)]
    Unknown,
}

impl DataVolumePhase {
    /// Whether CDI waits for a first consumer.
    #[must_use]
    pub fn waits(self) -> bool {
        matches!(self, Self::WaitForFirstConsumer | Self::PendingPopulation)
    }

    /// Whether CDI does nothing more for it.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    /// The phase as CDI writes it; empty before it has seen the DataVolume.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Unset => String::new(),
            Self::PvcBound => "PVCBound".into(),
            Self::CsiCloneInProgress => "CSICloneInProgress".into(),
            other => format!("{other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_known_and_makes_no_difference() {
        let at = |progress: &str| -> DataVolume {
            let status = serde_json::json!({"phase": "ImportInProgress", "progress": progress});
            serde_json::from_value(serde_json::json!({"status": status})).expect("a DataVolume")
        };
        assert_eq!(at("45.00%").progress(), Some("45.00%"));
        assert_eq!((at("N/A").progress(), at("100.0%").progress()), (None, None));
        assert_eq!(at("45.00%"), at("46.00%"));
    }

    #[test]
    fn a_phase_is_shown_as_cdi_writes_it() {
        for name in [
            "",
            "Pending",
            "PVCBound",
            "ImportInProgress",
            "CSICloneInProgress",
            "Failed",
        ] {
            let phase: DataVolumePhase = serde_json::from_value(name.into()).expect("a phase");
            assert_eq!(phase.name(), name);
        }
        let phase: DataVolumePhase = serde_json::from_value("FromTheFuture".into()).expect("a phase");
        assert!(phase == DataVolumePhase::Unknown && !phase.waits());
    }
}
