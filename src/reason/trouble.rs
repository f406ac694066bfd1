//! The closed list of diagnoses: what may be wrong after the hand-over, in whose words, and what a person can do.

use std::fmt;

use crate::api::IMMEDIATE_BINDING;

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
    /// A claim that CDI was to fill through a second one is bound before it has begun.
    NotPopulated,
    /// CDI may not make its worker pod.
    WorkerRefused,
    /// KubeVirt's temporary pod lists a disk that CDI would fill, and can't be scheduled.
    LauncherBlocksImport,
    /// CDI makes no worker pod and says nothing.
    WorkerMissing,
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

/// Who is stuck, and what is in the way.
#[derive(Clone, Copy, Debug)]
pub struct Stuck<'a> {
    /// Its Namespace.
    pub namespace: &'a str,
    /// The claims of the disks that it is about; none if it is about the VM.
    pub disks: &'a [&'a str],
    /// The name of what is in the way, whose kind the diagnosis implies; empty if there is none.
    pub object: &'a str,
    /// What else decides what can be done.
    pub known: Known,
}

/// What decides what can be done about a diagnosis, beside its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Known {
    /// Nothing more.
    #[default]
    Nothing,
    /// The disk has data, which are lost with it.
    HoldsData,
    /// What is in the way waits for a first consumer, and another VM uses it.
    UsedByVm,
    /// It does, and no other VM uses it.
    UsedByNobody,
    /// What CDI asks for its pods is in the way.
    PlacedByCdi,
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
            Self::NotPopulated => "the disk is bound to a volume that CDI has not filled, and will not",
            Self::WorkerMissing => "the disk is bound, and CDI makes no pod to fill it",
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

    /// What a person can do about it: an object or a command is named.
    #[must_use]
    pub fn next(self, stuck: Stuck) -> String {
        let Stuck {
            namespace,
            disks,
            object,
            known,
        } = stuck;
        let disk = disks.first().copied().unwrap_or_default();
        let anew = || {
            let claims: Vec<String> = disks.iter().map(|disk| format!("pvc/{disk}")).collect();
            format!("kubectl delete {} -n {namespace}", claims.join(" "))
        };
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
            Self::SourceMissing => next_of_source(object.split_once('/').unwrap_or((namespace, object)), known),
            Self::SelectedNodeMissing if known == Known::HoldsData => {
                format!("bring node/{object} back, or make its disks anew, without what they held: {}", anew())
            }
            Self::SelectedNodeMissing => {
                format!("bring node/{object} back, or make its empty disks anew: {}", anew())
            }
            Self::SelectedNodeNotReady => format!("see what it lacks: kubectl describe node/{object}"),
            Self::ProvisioningFailed if object.is_empty() => {
                format!("mend that, then make the empty disk anew: {}", anew())
            }
            Self::ProvisioningFailed => format!("kubectl describe pvc/{object} -n {namespace}"),
            Self::ProvisionerSilent => {
                format!("see whether the provisioner of storageclass/{object} runs: kubectl get pods -A")
            }
            Self::NotPopulated => {
                format!("see why it got persistentvolume/{object}, then make the disk anew: {}", anew())
            }
            Self::WorkerMissing if object.is_empty() => "see whether CDI runs: kubectl get pods -n cdi".into(),
            Self::NodeGivenBack | Self::PopulatorSilent | Self::WorkerMissing => {
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
            Self::WorkerUnschedulable if known == Known::PlacedByCdi => {
                "let CDI's pods go there (tolerations, nodeSelector and affinity in spec.workload), or change the node: \
                 kubectl edit cdi"
                    .into()
            }
            Self::WorkerUnschedulable | Self::LauncherUnschedulable => {
                format!("help it to a node: kubectl describe pod/{object} -n {namespace}")
            }
            Self::SchedulerDoesNotBind | Self::WorkerNotStarting => {
                format!("kubectl describe pod/{object} -n {namespace}")
            }
            Self::WorkerFailing => format!("kubectl logs pod/{object} -n {namespace} --previous"),
            Self::GateOff => format!(
                "add the gate to spec.config.featureGates (kubectl edit cdi), then make anew, without what is in it: {}",
                anew()
            ),
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

/// What a person can do about the claim, by Namespace and name, that is to be cloned (CDI `common/util.go`:
/// `ImmediateBindingRequested`).
fn next_of_source((home, name): (&str, &str), known: Known) -> String {
    match known {
        Known::UsedByVm => format!("help its source first: kubectl first-consumer explain dv/{name} -n {home}"),
        Known::UsedByNobody => format!(
            "start a VM or pod that uses the source, or let CDI bind it at once: \
             kubectl annotate pvc/{name} -n {home} {IMMEDIATE_BINDING}=true"
        ),
        Known::Nothing | Known::HoldsData | Known::PlacedByCdi => {
            format!(
                "see what its source waits for, and help that first: kubectl describe pvc/{name} dv/{name} -n {home}"
            )
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
