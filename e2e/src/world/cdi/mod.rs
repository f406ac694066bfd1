//! CDI: import (http, registry, blank), upload, clones of claims and snapshots, and external population, on the legacy
//! and on the populator path.
//!
//! Five controllers act on the same objects, each woken by its own watches:
//!
//! | Model | Key | Woken by |
//! |---|---|---|
//! | [`data_volume`], with [`source`] and [`clone`] | DataVolume | the DataVolume, the claim that it controls, what it copies |
//! | [`worker`] | claim (target, prime or tmp) | the claim and the pods that it controls: **not** by other pods that use it |
//! | [`reader`] | the same, of a host-assisted clone | the claim and the pod that reads its source |
//! | [`populator`] | target claim of an import or upload | the target, its prime, the prime's worker pod |
//! | [`clone_populator`] | target claim of a clone | the target, its tmp claim, its prep pod |
//!
//! That the worker controller is not woken by the end of a foreign pod is why CDI meets a consumer with a growing
//! back-off ([`super::backoff`]).
//!
//! Left out: multi-stage imports and with them `Paused`; pods that detect a size, whose answer is taken from the source
//! itself; the strategy that takes a snapshot of a claim, and copying from a snapshot on the populator path; tokens and
//! finalizers of clones across namespaces; expansion; scratch claims that are asked for by a failed first attempt.

pub mod clone;
pub mod clone_populator;
pub mod data_volume;
pub mod populator;
pub mod reader;
pub mod source;
pub mod worker;

use super::objects::{Claim, ClonePhase, Condition, DvPhase, Note, Pod, Source, Strategy, Worker};

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
    /// It names no size: that of its source will do.
    pub unsized_clone: bool,
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
    /// `restartCount`.
    pub restarts: u32,
}

/// The claim or snapshot that a clone copies, as far as CDI looks at it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// It exists.
    pub there: bool,
    /// A claim without a DataVolume, or whose DataVolume has Succeeded \[API `utils.go`: IsPopulated\]; a snapshot that
    /// is ready to use.
    pub populated: bool,
    /// The claim is Bound.
    pub bound: bool,
    /// Pods that use the claim and are not final.
    pub users: Vec<String>,
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
    /// `claimRef` of the prime's (of a clone: the tmp claim's) volume names the target already.
    pub rebound: bool,
    /// What a clone copies.
    pub origin: Option<Origin>,
    /// The claim `tmp-pvc-<UID of the claim>` that a clone on the populator path is copied to first.
    pub tmp: Option<Claim>,
    /// How it would be copied on the populator path.
    pub strategy: Strategy,
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
    /// Nothing wakes the key: it comes again after this time.
    LookAgain {
        /// Seconds.
        after: u64,
    },
    /// The worker's scratch claim, controlled by it.
    CreateScratch {
        /// selected-node, copied from a prime.
        node: Option<String>,
    },
    /// The claim restored from a snapshot that a host-assisted clone reads, `<DV UID>-host-assisted-source-pvc`.
    CreateRestored,
    /// The name of the pod that reads the source, on the claim that it is copied to, always before the pod itself.
    NameReader,
    /// The pod that reads the source, in the source's namespace.
    CreateReader,
    /// That pod, gracefully.
    DeleteReader {
        /// Precondition.
        uid: String,
    },
    /// `k8s.io/CloneOf` on the claim.
    MarkCloned,
    /// `cloneType` on the target, and `clonePhase` if it has none.
    BeginClone(Strategy),
    /// `clonePhase` on the target, with the worker's state that goes with it.
    SetClonePhase {
        /// The phase.
        phase: ClonePhase,
        /// What is written about the worker.
        worker: Worker,
    },
    /// The tmp claim, in the source's namespace.
    CreateTmp(Strategy),
    /// The tmp claim, once the target is bound.
    DeleteTmp {
        /// Precondition.
        uid: String,
    },
    /// The pod that gets a tmp claim bound.
    CreatePrep {
        /// `spec.nodeName`.
        node: Option<String>,
    },
    /// That pod.
    DeletePrep {
        /// Precondition.
        uid: String,
    },
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
        // A host-assisted clone is an upload by a pod of CDI's own.
        Source::Upload | Source::Pvc | Source::Snapshot => format!("cdi-upload-{claim}"),
        Source::Http | Source::Registry | Source::Blank | Source::External => format!("importer-{claim}"),
    }
}

/// Name of a worker's scratch claim \[`util.go`\].
#[must_use]
pub fn scratch_name(claim: &str) -> String {
    format!("{claim}-scratch")
}

/// Name of the claim that a clone is copied to first \[`planner.go`\].
#[must_use]
pub fn tmp_name(target_uid: &str) -> String {
    format!("tmp-pvc-{target_uid}")
}

/// Name of the pod that gets a tmp claim bound \[`prep-claim.go`\].
#[must_use]
pub fn prep_name(target_uid: &str) -> String {
    format!("prep-{target_uid}")
}

/// Name of the pod that reads the source of a claim that is copied to \[`clone-controller.go`\].
#[must_use]
pub fn reader_name(claim_uid: &str) -> String {
    format!("{claim_uid}-source-pod")
}

/// Name of the claim restored from a snapshot that a host-assisted clone reads \[`snapshot-clone-controller.go`\].
#[must_use]
pub fn restored_name(dv_uid: &str) -> String {
    format!("{dv_uid}-host-assisted-source-pvc")
}

/// Reason of a claim's bound annotations: they hold the newest event, or that scratch space is on its way.
#[must_use]
pub fn bound_reason(message: &str) -> &'static str {
    if message == CREATING_SCRATCH {
        "CreatingScratchSpace"
    } else {
        "Pending"
    }
}

/// The message of a claim whose worker waits for its scratch claim.
pub const CREATING_SCRATCH: &str = "Creating scratch space";

/// Live pods that list a claim, as CDI's in-use check sees them: any pod that is not final, terminating or not
/// \[`common/util.go`: GetPodsUsingPVCs\].
pub fn users<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Vec<&'a Pod> {
    pods.into_iter().filter(|pod| !pod.phase.is_final()).collect()
}
