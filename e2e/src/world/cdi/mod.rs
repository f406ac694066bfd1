//! CDI: import (http, blank) and upload, on the legacy and on the populator path. Clones are not modelled.
//!
//! Three controllers act on the same objects, each woken by its own watches:
//!
//! | Model | Key | Woken by |
//! |---|---|---|
//! | [`data_volume`] | DataVolume | the DataVolume and the claim that it controls |
//! | [`worker`] | claim (target or prime) | the claim and the pods that it controls: **not** by other pods that use it |
//! | [`populator`] | target claim | the target, its prime, the prime's worker pod |
//!
//! That the worker controller is not woken by the end of a foreign pod is why CDI meets a consumer with a growing
//! back-off ([`super::backoff`]).

pub mod data_volume;
pub mod populator;
pub mod worker;

use super::objects::{Claim, Condition, DvPhase, Note, Pod, Source, Worker};

/// What is configured for the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Settings {
    /// The feature gate `HonorWaitForFirstConsumer` of the `CDIConfig`.
    pub honor_late_binding: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            honor_late_binding: true,
        }
    }
}

/// A DataVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dv {
    /// Name, also that of its claim.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Where its data comes from.
    pub source: Source,
    /// Annotation `storage.usePopulator`.
    pub populator: Option<bool>,
    /// Annotation `allowClaimAdoption` is true.
    pub adopts: bool,
    /// Annotation `storage.bind.immediate.requested` is present.
    pub immediate: bool,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// `status`.
    pub status: Status,
}

/// The part of a DataVolume's status that rules read or write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status {
    /// `phase`.
    pub phase: DvPhase,
    /// `claimName` is set.
    pub claim_known: bool,
    /// Condition Bound; `None` before the first write.
    pub bound: Option<Condition>,
    /// Condition Running.
    pub running: Condition,
}

/// One DataVolume and everything that CDI reads for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Disk {
    /// The DataVolume.
    pub dv: Dv,
    /// A CSIDriver is named like the provisioner of its class.
    pub csi: bool,
    /// Its class binds late; a class that does not exist counts as immediate.
    pub late: bool,
    /// The claim of its name.
    pub claim: Option<Claim>,
    /// The claim `prime-<UID of the claim>`.
    pub prime: Option<Claim>,
    /// `claimRef` of the prime's volume names the target already.
    pub rebound: bool,
    /// The namespace, for texts.
    pub namespace: String,
}

/// Which of the two claims of a population.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Which {
    /// The DataVolume's own claim.
    Target,
    /// The helper claim that the worker fills.
    Prime,
}

/// One write of CDI. `on` is a claim's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Write {
    /// Annotation `storage.usePopulator` on the DataVolume.
    MarkPath {
        /// Populator path.
        populator: bool,
    },
    /// The DataVolume's claim.
    CreateClaim {
        /// With a `dataSourceRef`; otherwise with the source's annotations.
        populator: bool,
        /// Add the immediate-binding annotation (populator path with the gate off).
        immediate: bool,
    },
    /// The DataVolume as owner of a claim that it may adopt.
    AdoptClaim,
    /// The DataVolume's status, a merge patch.
    SetStatus(Status),
    /// The claim's bound annotations: the text of its newest event, or their removal.
    NoteBound {
        /// The claim.
        on: Which,
        /// The message; `None` removes the annotations.
        message: Option<String>,
    },
    /// The worker's name on its claim, always before the worker itself.
    NameWorker,
    /// The worker pod.
    CreateWorker {
        /// `spec.nodeName`: past the scheduler (prime claims whose node is known).
        node: Option<String>,
    },
    /// The annotations about the worker on its claim.
    NoteWorker(Worker),
    /// The worker pod of this name, gracefully.
    DeleteWorker {
        /// Pod name.
        name: String,
        /// Precondition.
        uid: String,
    },
    /// The prime claim.
    CreatePrime {
        /// selected-node, copied from the target.
        node: Option<String>,
    },
    /// Target: the prime's name, and what is written about the worker on the prime.
    CopyWorker(Worker),
    /// The prime's volume is given to the target: `spec.claimRef` of the volume.
    Rebind {
        /// The volume.
        volume: String,
    },
    /// The prime, once it is Lost.
    DeletePrime {
        /// Precondition.
        uid: String,
    },
    /// An event on the DataVolume or on the claim that the controller looks at.
    Event {
        /// On the DataVolume; otherwise on the claim.
        on_dv: bool,
        /// What it says.
        note: Note,
    },
    /// The claim is in use: nothing is written, the key comes again after the back-off.
    RetryLater,
}

/// Name of the prime of a target claim.
#[must_use]
pub fn prime_name(target_uid: &str) -> String {
    format!("prime-{target_uid}")
}

/// Name of the worker pod of a claim \[`import-controller.go`, `upload-controller.go`\].
#[must_use]
pub fn worker_name(source: Source, claim: &str) -> String {
    match source {
        Source::Upload => format!("cdi-upload-{claim}"),
        Source::Http | Source::Blank => format!("importer-{claim}"),
    }
}

/// Live pods that list a claim, as CDI's in-use check sees them: any pod that is not final, terminating or not
/// \[`common/util.go`: GetPodsUsingPVCs\].
pub fn users<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Vec<&'a Pod> {
    pods.into_iter().filter(|pod| !pod.phase.is_final()).collect()
}
