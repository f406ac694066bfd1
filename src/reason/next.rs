//! What a person can do about a decision.

use super::Reason;

/// What a scheduler's verdict ends with if peers are in the way ([`crate::peers::Peers::explanation`]).
pub const KEPT_APART: &str = "(required anti-affinity)";

/// The flag that switches off all Namespaces but one.
pub const WATCH_NAMESPACE: &str = "--watch-namespace";

/// Whom a decision is about, in kubectl's words.
#[derive(Clone, Copy, Debug)]
pub struct Whom<'a> {
    /// Its Namespace.
    pub namespace: &'a str,
    /// `vm` or `vmi`.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Whether there is a VMI.
    pub started: bool,
    /// The name that its pod has or would have.
    pub pod: &'a str,
    /// The Namespace of the controller.
    pub controller: &'a str,
    /// Whether all was read that may count.
    pub whole: bool,
}

impl Reason {
    /// What a person can do about it, or what to look at: an object or a command is named. `about` is what the decision
    /// speaks of ([`crate::decide::Decision::about`]); where that begins with a name, it is used.
    #[must_use]
    pub fn next(self, whom: Whom, about: &str) -> String {
        let Whom {
            namespace,
            kind,
            name,
            started,
            pod,
            controller,
            whole,
        } = whom;
        let first = about.split([' ', ',', ':']).next().unwrap_or_default();
        match self {
            Self::SubjectDeleted => format!("nothing; it is going: kubectl get {kind}/{name} -n {namespace}"),
            Self::DiskDeleted => {
                format!("wait until it is gone: kubectl describe pvc/{first} dv/{first} -n {namespace}")
            }
            Self::NameConflict => format!("delete or rename one: kubectl describe vm/{name} vmi/{name} -n {namespace}"),
            Self::LauncherPresent | Self::Served | Self::NothingWaiting => {
                let seen = if whole { "" } else { " in what could be read" };
                format!("nothing is missing{seen}; to look at it: kubectl get {kind},pvc -n {namespace}")
            }
            Self::ForeignConsumer => format!("help or delete that pod: kubectl describe pod/{first} -n {namespace}"),
            Self::DataVolumeFailed | Self::SiblingImporting => format!("kubectl describe dv/{first} -n {namespace}"),
            Self::OptedOut => format!(
                "to have it served: kubectl annotate {kind}/{name} -n {namespace} --overwrite {}",
                asking()
            ),
            Self::NotAskedFor => format!(
                "start the VM, or ask: kubectl annotate {kind}/{name} -n {namespace} {}",
                asking()
            ),
            Self::LeftToVirtController => {
                let kind = if started { "vmi" } else { kind };
                format!("kubectl describe {kind}/{name} -n {namespace}")
            }
            Self::SwitchedOff => {
                let flags = if about.starts_with(WATCH_NAMESPACE) {
                    WATCH_NAMESPACE
                } else {
                    "--halted-vms or --started-vms"
                };
                format!("change {flags}: kubectl edit deployment/first-consumer -n {controller}")
            }
            Self::MigrationTarget => format!("kubectl get vmim -n {namespace}"),
            Self::ClaimMissing => {
                format!("create it, or see whether CDI is about to: kubectl get pvc/{first} dv/{first} -n {namespace}")
            }
            Self::ClaimLost => {
                format!("restore its volume, or begin anew without its data: kubectl delete pvc/{first} -n {namespace}")
            }
            Self::SiblingBinding => format!("kubectl describe pvc/{first} -n {namespace}"),
            Self::ClaimInUse => {
                let user = about.rsplit(' ').next().unwrap_or_default();
                format!("wait until that pod has ended, or help it: kubectl describe pod/{user} -n {namespace}")
            }
            Self::SharedDiskServedElsewhere | Self::WaitingForPeer => {
                let other = about.split(' ').find_map(|word| word.split_once('/'));
                let (home, other) = other.unwrap_or((namespace, name));
                format!("kubectl first-consumer explain vm/{other} -n {home}")
            }
            Self::ExpansionPending => {
                format!("kubectl get {kind}/{name} -n {namespace} -o jsonpath={{.spec.instancetype}}")
            }
            Self::CannotRender => format!("correct what it asks for: kubectl edit {kind}/{name} -n {namespace}"),
            Self::PodTerminating | Self::WaitingForScheduler | Self::WaitingForVolumes | Self::PodFinished => {
                format!("kubectl describe pod/{pod} -n {namespace}")
            }
            Self::GaveUp => format!(
                "mend what ended it, then delete it to try again, or change the VM's placement or disks: kubectl describe \
                 pod/{pod} -n {namespace}"
            ),
            Self::SchedulingGated => {
                format!("whoever has set it has to take it off: kubectl get pod/{pod} -n {namespace} -o yaml")
            }
            Self::Unschedulable if about.contains(KEPT_APART) => {
                format!("add a node, or loosen the anti-affinity: kubectl edit {kind}/{name} -n {namespace}")
            }
            Self::Unschedulable => {
                format!("make room or change the placement: kubectl edit {kind}/{name} -n {namespace}")
            }
            Self::CreateRefused => super::refused::next(about, namespace),
            Self::NameTaken => format!("rename or delete that pod: kubectl get pod/{pod} -n {namespace} -o yaml"),
            Self::OwnerReplaced
            | Self::PlacementChanged
            | Self::DisksChanged
            | Self::BackingOff
            | Self::FirstConsumerNeeded => {
                format!("wait; if nothing comes, see whether it runs: kubectl get pods,lease -n {controller}")
            }
        }
    }

    /// Whether nothing waits and nothing fails, as far as the decision knows.
    #[must_use]
    pub fn fine(self) -> bool {
        matches!(
            self,
            Self::SubjectDeleted | Self::LauncherPresent | Self::Served | Self::NothingWaiting
        )
    }
}

/// The annotation that opts in, as kubectl takes it.
fn asking() -> String {
    format!("{}/provision=true", crate::name::DOMAIN)
}
