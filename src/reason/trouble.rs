//! The closed list of diagnoses: what may be wrong after the hand-over, in whose words, and what a person can do.

use std::fmt;

/// What is wrong where the decision can't help (design section 5, "Diagnose"). The order is the order of causes: of
/// several the first is shown. The names are stable: events, metrics and tests use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// Nobody works on the DataVolumes.
    CdiMissing,
    /// The class that a disk asks for does not exist.
    StorageClassMissing,
    /// CDI may not make the claim.
    ClaimRefused,
    /// What is to be cloned is not there, or not filled.
    SourceMissing,
    /// The node of a disk does not exist.
    SelectedNodeMissing,
    /// The node of a disk does not work.
    SelectedNodeNotReady,
    /// The provisioner says that it can't.
    ProvisioningFailed,
    /// The provisioner says nothing.
    ProvisionerSilent,
    /// A node is chosen for a disk and given back, again and again.
    NodeGivenBack,
    /// Somebody else's populator does not begin.
    PopulatorSilent,
    /// CDI may not make its worker pod.
    WorkerRefused,
    /// KubeVirt's temporary pod lists a disk that CDI would fill, and can't be scheduled.
    LauncherBlocksImport,
    /// CDI's worker pod can't be scheduled.
    WorkerUnschedulable,
    /// CDI's worker pod fails.
    WorkerFailing,
    /// CDI's worker pod has a node and does not start.
    WorkerNotStarting,
    /// CDI binds late disks itself.
    GateOff,
    /// Our pod is deleted and stays.
    PodHeld,
    /// No scheduler looks at a pod.
    SchedulerSilent,
    /// A scheduler gives a pod a node and its claims none.
    SchedulerDoesNotBind,
    /// No node reaches all disks.
    DisksConflict,
    /// The VM may not run where its disks are.
    BoundWhereVmCannotRun,
    /// KubeVirt's own pod can't be scheduled.
    LauncherUnschedulable,
}

impl Trouble {
    /// What it means for a person, in one sentence without a subject.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::CdiMissing => "nobody works on the DataVolume: CDI is not installed or does not run",
            Self::StorageClassMissing => "the disk's storage class does not exist",
            Self::ClaimRefused => "CDI may not make the disk's claim",
            Self::SourceMissing => "the disk is a clone, and its source is not ready",
            Self::SelectedNodeMissing => "the node of the disk does not exist",
            Self::SelectedNodeNotReady => "the node of the disk is not ready",
            Self::ProvisioningFailed => "the provisioner cannot make the disk's volume",
            Self::ProvisionerSilent => "a node is chosen, and the provisioner has not answered",
            Self::NodeGivenBack => "a node is chosen for the disk and given back, again and again",
            Self::PopulatorSilent => "the disk is to be filled by a populator that is not CDI's and has not begun",
            Self::WorkerRefused => "CDI may not make the pod that fills the disk",
            Self::LauncherBlocksImport => {
                "KubeVirt's temporary pod uses the disk and cannot be scheduled, so CDI does not begin to fill it"
            }
            Self::WorkerUnschedulable => "CDI's pod that fills the disk gets no node",
            Self::WorkerFailing => "CDI's pod that fills the disk fails",
            Self::WorkerNotStarting => "CDI's pod that fills the disk has a node and does not start",
            Self::GateOff => {
                "CDI has not waited for a first consumer: its gate HonorWaitForFirstConsumer is or was off"
            }
            Self::PodHeld => "the pod is deleted, and somebody's finalizer holds it",
            Self::SchedulerSilent => "no scheduler has looked at the pod",
            Self::SchedulerDoesNotBind => "the pod has a node, and its scheduler has chosen none for its claims",
            Self::DisksConflict => "no node can reach all disks of the VM",
            Self::BoundWhereVmCannotRun => "the VM may not run where its disks are",
            Self::LauncherUnschedulable => "KubeVirt's own pod gets no node",
        }
    }

    /// What a person can do about it: an object or a command is named. `namespace` and `disk` say whose trouble it is,
    /// `object` is the name of what is in the way, whose kind the diagnosis implies; empty if there is none.
    #[must_use]
    pub fn next(self, namespace: &str, disk: &str, object: &str) -> String {
        match self {
            Self::CdiMissing => "install it, or see why it does not run: kubectl get pods -n cdi".into(),
            Self::StorageClassMissing if object.is_empty() => {
                format!("name a class for {disk}, or make one the default: kubectl get storageclass")
            }
            Self::StorageClassMissing => {
                format!("create storageclass/{object}, or make {disk} anew with one of: kubectl get storageclass")
            }
            Self::ClaimRefused | Self::SourceMissing if object.is_empty() => {
                format!("kubectl describe dv/{disk} -n {namespace}")
            }
            Self::SourceMissing => {
                let (home, name) = object.split_once('/').unwrap_or((namespace, object));
                format!(
                    "see what its source waits for, and help that first: kubectl describe pvc/{name} dv/{name} -n {home}"
                )
            }
            Self::SelectedNodeMissing => {
                format!(
                    "bring node/{object} back, or make the disk anew without what it held: kubectl delete pvc/{disk} -n {namespace}"
                )
            }
            Self::SelectedNodeNotReady => format!("see what it lacks: kubectl describe node/{object}"),
            Self::ProvisioningFailed if object.is_empty() => {
                format!("mend that, then make the empty disk anew: kubectl delete pvc/{disk} -n {namespace}")
            }
            Self::ProvisioningFailed => format!("kubectl describe pvc/{object} -n {namespace}"),
            Self::ProvisionerSilent => format!("start the provisioner of storageclass/{object}, or use another class"),
            Self::NodeGivenBack | Self::PopulatorSilent => {
                format!("see what is said of it: kubectl describe pvc/{disk} -n {namespace}")
            }
            Self::PodHeld => {
                format!(
                    "see what holds it: kubectl get pod/{object} -n {namespace} -o jsonpath={{.metadata.finalizers}}"
                )
            }
            Self::WorkerRefused | Self::WorkerFailing if object.is_empty() => {
                format!("kubectl describe pvc/{disk} -n {namespace}")
            }
            Self::ClaimRefused | Self::WorkerRefused => {
                format!("raise it: kubectl edit resourcequota/{object} -n {namespace}")
            }
            Self::LauncherBlocksImport => {
                format!(
                    "help that pod to a node, or stop the VM until the disk is filled: kubectl describe pod/{object} -n {namespace}"
                )
            }
            Self::WorkerUnschedulable | Self::LauncherUnschedulable => {
                format!("help it to a node: kubectl describe pod/{object} -n {namespace}")
            }
            Self::SchedulerDoesNotBind | Self::WorkerNotStarting => {
                format!("kubectl describe pod/{object} -n {namespace}")
            }
            Self::WorkerFailing => format!("kubectl logs pod/{object} -n {namespace} --previous"),
            Self::GateOff => "make the disk anew after adding it to spec.config.featureGates: kubectl edit cdi".into(),
            Self::SchedulerSilent => format!(
                "start the scheduler {object} (kubectl get pods -n kube-system), or have the VM ask for another"
            ),
            Self::DisksConflict => {
                format!(
                    "restore pvc/{object} where the others are; its data are lost by: kubectl delete pvc/{object} -n {namespace}"
                )
            }
            Self::BoundWhereVmCannotRun => {
                format!("let the VM run there: kubectl edit {object} -n {namespace}")
            }
        }
    }

    /// The name, as events and metrics show it.
    #[must_use]
    pub fn name(self) -> String {
        format!("{self:?}")
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
