//! The closed lists of reasons, of decisions here and of diagnoses in [`Trouble`], and their text for events, logs, metrics
//! and `explain`.

mod next;
mod refused;
mod trouble;

use std::fmt;

pub use next::{KEPT_APART, WATCH_NAMESPACE, Whom};
pub use refused::quota;
pub use trouble::{Known, Stuck, Trouble};

/// Why a decision is what it is. The names are stable: events, metrics and tests use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Row 1.
    SubjectDeleted,
    /// Row 2.
    DiskDeleted,
    /// Row 3.
    NameConflict,
    /// Row 4.
    LauncherPresent,
    /// Row 5.
    ForeignConsumer,
    /// Row 6.
    DataVolumeFailed,
    /// Row 7: a pod was there.
    Served,
    /// Row 7.
    NothingWaiting,
    /// Row 8.
    OptedOut,
    /// Row 8.
    NotAskedFor,
    /// Row 8.
    LeftToVirtController,
    /// Row 8.
    SwitchedOff,
    /// Row 8.
    MigrationTarget,
    /// Row 9.
    ClaimMissing,
    /// Row 9.
    ClaimLost,
    /// Row 10.
    SiblingBinding,
    /// Row 10.
    SiblingImporting,
    /// Row 10.
    ClaimInUse,
    /// Row 11.
    SharedDiskServedElsewhere,
    /// Row 11.
    WaitingForPeer,
    /// Row 12.
    ExpansionPending,
    /// Row 12.
    CannotRender,
    /// Row 13.
    PodTerminating,
    /// Row 13.
    OwnerReplaced,
    /// Row 13.
    PlacementChanged,
    /// Row 13.
    DisksChanged,
    /// Row 14.
    PodFinished,
    /// Row 14.
    GaveUp,
    /// Row 15.
    WaitingForScheduler,
    /// Row 15.
    Unschedulable,
    /// Row 15.
    SchedulingGated,
    /// Row 15.
    WaitingForVolumes,
    /// Row 16.
    CreateRefused,
    /// Row 16.
    NameTaken,
    /// Row 17.
    BackingOff,
    /// Row 18.
    FirstConsumerNeeded,
}

impl Reason {
    /// What it means for a person, in one sentence without a subject.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::SubjectDeleted => "the VM is gone or is being deleted",
            Self::DiskDeleted => "one of its disks is being deleted",
            Self::NameConflict => "a VM and a VMI have this name, and the VM does not control the VMI",
            Self::LauncherPresent => "KubeVirt's own pod is there",
            Self::ForeignConsumer => "another pod uses a disk that waits for its first consumer",
            Self::DataVolumeFailed => "a DataVolume has failed",
            Self::Served => "every disk that waited has its node",
            Self::NothingWaiting => "no disk waits for a first consumer",
            Self::OptedOut => "the VM or its Namespace has opted out",
            Self::NotAskedFor => "the VM is halted, and neither it nor its Namespace has opted in",
            Self::LeftToVirtController => "the VM is left to virt-controller",
            Self::SwitchedOff => "the controller's flags switch this off",
            Self::MigrationTarget => "the VM waits for a migration from another cluster",
            Self::ClaimMissing => "a disk's claim does not exist yet",
            Self::ClaimLost => "a disk's claim has lost its volume",
            Self::SiblingBinding => "a disk is being placed by somebody else",
            Self::SiblingImporting => {
                "CDI's pod that fills a bound disk is not there yet, and a pod of ours would block it"
            }
            Self::ClaimInUse => "another pod holds a ReadWriteOncePod disk",
            Self::SharedDiskServedElsewhere => "a disk is shared with another VM, which goes first",
            Self::WaitingForPeer => "a VM that it must not run beside is getting its node (required anti-affinity)",
            Self::ExpansionPending => "the VM's instancetype or preference has not been expanded yet",
            Self::CannotRender => "KubeVirt would refuse the VM",
            Self::PodTerminating => "the previous pod is still going",
            Self::OwnerReplaced => "the pod was made for an earlier VM of this name",
            Self::PlacementChanged => "the VM's placement has changed",
            Self::DisksChanged => "the VM's disks have changed",
            Self::PodFinished => "the pod has ended although a disk still waits",
            Self::GaveUp => "the pod has ended too often",
            Self::WaitingForScheduler => "the scheduler has not spoken yet",
            Self::Unschedulable => "no node fits",
            Self::SchedulingGated => "a scheduling gate holds the pod",
            Self::WaitingForVolumes => "the pod stays until the volumes are there",
            Self::CreateRefused => "the API server refused the pod",
            Self::NameTaken => "a pod that is not ours has the name of ours",
            Self::BackingOff => "the previous pod was made a short time ago",
            Self::FirstConsumerNeeded => "a disk waits for its first consumer",
        }
    }

    /// The name, as events and metrics show it.
    #[must_use]
    pub fn name(self) -> String {
        format!("{self:?}")
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Whether kubectl would take the command of a next step: names as `KIND/NAME` and bare kinds do not go together.
#[cfg(test)]
pub(crate) fn takes_command(next: &str) -> bool {
    let taken = |command: &str| {
        let mut words = command.split(' ');
        let verb = words.next().unwrap_or_default();
        let objects: Vec<&str> = words.take_while(|word| !word.starts_with('-')).collect();
        !matches!(verb, "get" | "describe" | "delete" | "edit")
            || objects.iter().all(|word| word.contains('/'))
            || objects.len() == 1
    };
    // A command in parentheses ends with them.
    let mut commands = next.split("kubectl ").skip(1);
    commands.all(|command| taken(command.split(')').next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Reason; 36] = [
        Reason::SubjectDeleted,
        Reason::DiskDeleted,
        Reason::NameConflict,
        Reason::LauncherPresent,
        Reason::ForeignConsumer,
        Reason::DataVolumeFailed,
        Reason::Served,
        Reason::NothingWaiting,
        Reason::OptedOut,
        Reason::NotAskedFor,
        Reason::LeftToVirtController,
        Reason::SwitchedOff,
        Reason::MigrationTarget,
        Reason::ClaimMissing,
        Reason::ClaimLost,
        Reason::SiblingBinding,
        Reason::SiblingImporting,
        Reason::ClaimInUse,
        Reason::SharedDiskServedElsewhere,
        Reason::WaitingForPeer,
        Reason::ExpansionPending,
        Reason::CannotRender,
        Reason::PodTerminating,
        Reason::OwnerReplaced,
        Reason::PlacementChanged,
        Reason::DisksChanged,
        Reason::PodFinished,
        Reason::GaveUp,
        Reason::WaitingForScheduler,
        Reason::Unschedulable,
        Reason::SchedulingGated,
        Reason::WaitingForVolumes,
        Reason::CreateRefused,
        Reason::NameTaken,
        Reason::BackingOff,
        Reason::FirstConsumerNeeded,
    ];

    const DB: Whom = Whom {
        namespace: "ns",
        kind: "vm",
        name: "db",
        started: false,
        pod: "first-consumer-db",
        controller: "ours",
        whole: true,
    };

    #[test]
    fn every_next_step_has_a_command_that_kubectl_takes() {
        for reason in ALL {
            let next = reason.next(DB, "db-root by pod backup");
            assert!(next.contains("kubectl ") && takes_command(&next), "{reason}: {next}");
        }
        assert!(!takes_command("kubectl get vm/db pvc -n ns") && takes_command("kubectl get vm/db pvc/a -n ns"));
    }

    /// A VM that has not got its VMI has none to describe.
    #[test]
    fn a_next_step_names_what_there_is() {
        let next = |reason: Reason, whom: Whom| reason.next(whom, "");
        let gave_up = next(Reason::GaveUp, DB);
        let pod = "kubectl describe pod/first-consumer-db -n ns";
        assert!(
            gave_up.ends_with(pod) && gave_up.contains("delete it to try again"),
            "{gave_up}"
        );
        let left = |started: bool| next(Reason::LeftToVirtController, Whom { started, ..DB });
        assert_eq!(left(false), "kubectl describe vm/db -n ns");
        assert_eq!(left(true), "kubectl describe vmi/db -n ns");
    }

    #[test]
    fn the_controller_is_looked_for_in_its_own_namespace() {
        for reason in ALL {
            let next = reason.next(DB, "");
            assert!(!next.contains("-n first-consumer"), "{next}");
        }
        let switched_off = |about: &str| Reason::SwitchedOff.next(DB, about);
        let edit = "kubectl edit deployment/first-consumer -n ours";
        assert_eq!(
            switched_off(""),
            format!("change --halted-vms or --started-vms: {edit}")
        );
        assert_eq!(
            switched_off("--watch-namespace is prod"),
            format!("change --watch-namespace: {edit}")
        );
    }
}
