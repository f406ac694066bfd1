//! What the models know of API objects: just the fields that a rule reads.

/// An enum whose values are the API's own words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* #[doc = concat!("`", $text, "`.")] $variant),+ }

        impl $name {
            /// The API's word.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The value for the API's word; `None` for a word that is not in the list.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                [$(Self::$variant),+].into_iter().find(|value| value.as_str() == text)
            }
        }
    };
}

words! {
    /// `status.phase` of a DataVolume \[CDI `types.go`: DataVolumePhase\], without those that nobody sets any more.
    DvPhase {
        #[default]
        Unset = "",
        Pending = "Pending",
        WaitForFirstConsumer = "WaitForFirstConsumer",
        PendingPopulation = "PendingPopulation",
        PvcBound = "PVCBound",
        ImportScheduled = "ImportScheduled",
        ImportInProgress = "ImportInProgress",
        UploadScheduled = "UploadScheduled",
        UploadReady = "UploadReady",
        CloneScheduled = "CloneScheduled",
        CloneInProgress = "CloneInProgress",
        CloneFromSnapshotInProgress = "CloneFromSnapshotSourceInProgress",
        CsiCloneInProgress = "CSICloneInProgress",
        PrepClaimInProgress = "PrepClaimInProgress",
        RebindInProgress = "RebindInProgress",
        Succeeded = "Succeeded",
        Failed = "Failed",
        Unknown = "Unknown",
    }
}

words! {
    /// `status.phase` of a PersistentVolumeClaim.
    ClaimPhase {
        #[default]
        Pending = "Pending",
        Bound = "Bound",
        Lost = "Lost",
    }
}

words! {
    /// `status.phase` of a Pod.
    PodPhase {
        #[default]
        Pending = "Pending",
        Running = "Running",
        Succeeded = "Succeeded",
        Failed = "Failed",
        Unknown = "Unknown",
    }
}

words! {
    /// Where a DataVolume's data comes from, and what a claim's annotations say of it. A `sourceRef` counts as what it
    /// leads to.
    Source {
        #[default]
        Http = "http",
        Registry = "registry",
        Blank = "none",
        Upload = "upload",
        /// Another claim; also what a claim with `k8s.io/CloneRequest` is filled from.
        Pvc = "pvc",
        /// A VolumeSnapshot.
        Snapshot = "snapshot",
        /// A `dataSourceRef` that somebody else knows how to fill.
        External = "external",
    }
}

impl Source {
    /// Filled by an importer \[CDI `controller-base.go`: getDataVolumeOp\].
    #[must_use]
    pub fn is_import(self) -> bool {
        matches!(self, Self::Http | Self::Registry | Self::Blank)
    }

    /// Copied from a claim or a snapshot.
    #[must_use]
    pub fn is_clone(self) -> bool {
        matches!(self, Self::Pvc | Self::Snapshot)
    }

    /// Its worker wants room of its own \[CDI `import-controller.go`: requiresScratchSpace; `upload-controller.go`\].
    #[must_use]
    pub fn needs_scratch(self) -> bool {
        matches!(self, Self::Registry | Self::Upload)
    }
}

words! {
    /// How CDI copies on the populator path: annotation `cloneType` \[CDI `planner.go`: ChooseStrategy\].
    Strategy {
        /// By a pod that reads and an upload server that writes.
        #[default]
        Copy = "copy",
        /// By the CSI driver, from a claim.
        CsiClone = "csi-clone",
        /// By the CSI driver, from a snapshot.
        Snapshot = "snapshot",
    }
}

words! {
    /// Annotation `clonePhase` of a clone's target on the populator path \[CDI `clone-populator.go`\].
    ClonePhase {
        #[default]
        Pending = "Pending",
        HostClone = "HostClone",
        CsiClone = "CSIClone",
        SnapshotClone = "SnapshotClone",
        PrepClaim = "PrepClaim",
        Rebind = "Rebind",
        Succeeded = "Succeeded",
        Error = "Error",
    }
}

impl PodPhase {
    /// Succeeded or Failed: CDI's in-use check and KubeVirt do not count such a pod.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The controller owner reference of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// `DataVolume`, `VirtualMachine`, ...
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// An event to be written, or one that was seen on an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Note {
    /// Type Warning; otherwise Normal.
    pub warning: bool,
    /// `reason`.
    pub reason: String,
    /// `message`.
    pub message: String,
}

impl Note {
    /// A Normal event.
    #[must_use]
    pub fn normal(reason: &str, message: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason: reason.into(),
            message: message.into(),
        }
    }

    /// A Warning event.
    #[must_use]
    pub fn warning(reason: &str, message: impl Into<String>) -> Self {
        Self {
            warning: true,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// A DataVolume's condition, or the worker's condition in a claim's annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Condition {
    /// `status`: True or False.
    pub status: bool,
    /// `reason`.
    pub reason: String,
    /// `message`.
    pub message: String,
}

impl Condition {
    /// A condition of this status, reason and message.
    #[must_use]
    pub fn new(status: bool, reason: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// What CDI's worker controllers write on a claim about the worker pod (`storage.pod.*`, `storage.condition.running*`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Worker {
    /// `storage.pod.phase`.
    pub phase: Option<PodPhase>,
    /// `storage.pod.ready` (uploads only).
    pub ready: Option<bool>,
    /// `storage.pod.schedulable` (imports only).
    pub schedulable: Option<bool>,
    /// `storage.condition.running` with reason and message.
    pub running: Option<Condition>,
    /// `storage.pod.restarts`; none and `"0"` are the same.
    pub restarts: u32,
    /// `storage.import.fatalError`: trying again would not help.
    pub fatal: bool,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// Controller owner.
    pub owner: Option<Owner>,
    /// `status.phase`.
    pub phase: ClaimPhase,
    /// `spec.volumeName`.
    pub volume: Option<String>,
    /// Annotation `volume.kubernetes.io/selected-node`.
    pub node: Option<String>,
    /// Its class binds late (`WaitForFirstConsumer`).
    pub late: bool,
    /// Annotation `storage.bind.immediate.requested` is present, with whatever value.
    pub immediate: bool,
    /// `spec.dataSourceRef` is set and `storage.usePopulator` is true \[`util.go`: CheckPVCUsingPopulators\].
    pub populator: bool,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// Annotations of the source, which make CDI's worker controllers act on this claim.
    pub source: Option<Source>,
    /// `storage.populator.kind`: a prime claim.
    pub prime: bool,
    /// `storage.import.importPodName` or `storage.uploadPodName` is present.
    pub worker_named: bool,
    /// `storage.sourceClonePodName` is present.
    pub reader_named: bool,
    /// `k8s.io/CloneOf`: everything was copied.
    pub cloned: bool,
    /// `clonePhase`.
    pub clone_phase: Option<ClonePhase>,
    /// `cloneType`.
    pub strategy: Option<Strategy>,
    /// What is written about the worker.
    pub worker: Worker,
    /// Phase of its worker's scratch claim, if there is one.
    pub scratch: Option<ClaimPhase>,
    /// `storage.condition.bound.message` while `storage.condition.bound` is `"false"`.
    pub bound_note: Option<String>,
    /// `storage.populator.pvcPrime` is present (target of a population).
    pub knows_prime: bool,
    /// `createdForDataVolume`.
    pub created_for: Option<String>,
    /// `storage.populatedFor`: a restored claim that needs no work.
    pub populated_for: Option<String>,
    /// Events on the claim, distinct, oldest first.
    pub events: Vec<Note>,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pod {
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// `status.phase`.
    pub phase: PodPhase,
    /// `spec.nodeName`.
    pub node: Option<String>,
    /// Condition Ready is True.
    pub ready: bool,
    /// Restarts of its container.
    pub restarts: u32,
    /// Its container ended with an error, and with what: reason and message.
    pub error: Option<(String, String)>,
    /// Message of the condition PodScheduled when it is False for the reason Unschedulable.
    pub unschedulable: Option<String>,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// Annotation `kubevirt.io/ephemeral-provisioning` is present, with whatever value.
    pub temporary: bool,
    /// Creation time in seconds: KubeVirt takes the newest pod for the current one.
    pub created: i64,
}
