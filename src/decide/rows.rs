//! The rows of design section 5, in their order; rows 12 to 17 are in `rows_after`.

use k8s_openapi::jiff::Timestamp;

use super::{Action, Decision, keep, none, wait};
use crate::api::{ClaimPhase, DataVolumePhase, Scheduled};
use crate::claim::Claim;
use crate::lifecycle::State;
use crate::memory::Memory;
use crate::observe::{Disk, Observed, Rival};
use crate::policy::{MadeFor, Permission};
use crate::reason::Reason;

/// The input of every row.
pub(super) struct Case<'a> {
    pub observed: &'a Observed,
    pub memory: &'a Memory,
    pub now: Timestamp,
}

pub(super) type Row = fn(&Case) -> Option<Decision>;

/// Rows 1 to 10, which look at the subject alone.
pub(super) const ROWS_BEFORE_RIVALS: [Row; 12] = [
    subject_deleted,
    disk_deleted,
    name_conflict,
    launcher_present,
    foreign_consumer,
    data_volume_failed,
    served_or_nothing_waiting,
    not_permitted,
    claim_missing_or_lost,
    sibling_binding,
    sibling_importing,
    claim_in_use,
];

/// Row 11, which looks at others.
pub(super) const ROWS_OF_RIVALS: [Row; 2] = [shared_disk, waiting_for_peer];

/// 1: there is nobody to serve.
fn subject_deleted(case: &Case) -> Option<Decision> {
    let gone = case.observed.owner.is_none();
    (gone || case.observed.state == State::Deleting || case.observed.namespace_terminating)
        .then(|| none(Reason::SubjectDeleted, ""))
}

/// 2: a disk is going, and a pod that lists it would hold it back.
fn disk_deleted(case: &Case) -> Option<Decision> {
    let terminating = |claim: &&Claim| {
        let controller = claim.data_volume.as_ref();
        claim.terminating || controller.is_some_and(|controller| controller.terminating)
    };
    let mut listed = case.observed.listed().into_iter();
    let mut of_pod = case.observed.own_pod().into_iter().flat_map(|pod| &pod.claims);
    let going = listed.find(|claim| claim.orphaned || terminating(claim));
    let going = going.or_else(|| of_pod.find(terminating));
    let going = going.map(|claim| &claim.name);
    let going = going.or_else(|| {
        case.observed
            .disks
            .iter()
            .find(|disk| disk.data_volume_terminating)
            .map(|disk| &disk.name)
    });
    going.map(|name| none(Reason::DiskDeleted, name))
}

/// 3: whose disks these are can't be told.
fn name_conflict(case: &Case) -> Option<Decision> {
    case.observed.name_conflict.then(|| none(Reason::NameConflict, ""))
}

/// 4: KubeVirt's own pod is the consumer.
fn launcher_present(case: &Case) -> Option<Decision> {
    let running = case.observed.state == State::Running;
    (running || case.observed.launcher.is_some()).then(|| {
        none(
            Reason::LauncherPresent,
            case.observed.launcher.as_deref().unwrap_or_default(),
        )
    })
}

/// 5: somebody else is the consumer.
fn foreign_consumer(case: &Case) -> Option<Decision> {
    let pod = case.observed.foreign_consumer.as_ref()?;
    let why = match &pod.scheduled {
        Scheduled::Unschedulable(text) => format!(", which no node fits: {text}"),
        Scheduled::Gated(gates) => format!(", which a scheduling gate holds: {gates}"),
        Scheduled::Silent => ", at which no scheduler has looked yet".to_owned(),
        Scheduled::Yes => String::new(),
    };
    Some(none(Reason::ForeignConsumer, &format!("{}{why}", pod.name)))
}

/// 6: CDI has given up; a consumer can't help.
fn data_volume_failed(case: &Case) -> Option<Decision> {
    let failed = |disk: &&Disk| disk.data_volume == Some(DataVolumePhase::Failed);
    let disk = case.observed.disks.iter().find(failed)?;
    Some(none(Reason::DataVolumeFailed, &with_words(disk)))
}

/// A disk, and what CDI says of it.
fn with_words(disk: &Disk) -> String {
    let words = disk.data_volume_words.as_ref();
    words.map_or_else(|| disk.name.to_string(), |words| format!("{}, {words}", disk.name))
}

/// 7: no claim needs a consumer, and a pod that is there has done its work.
fn served_or_nothing_waiting(case: &Case) -> Option<Decision> {
    if case.observed.served() {
        let unaware = case.observed.peers.unaware.as_ref();
        // As long as our pod is there, the scheduler keeps the peer's pod away from it.
        return Some(unaware.map_or_else(
            || none(Reason::Served, ""),
            |peer| {
                keep(
                    Reason::WaitingForPeer,
                    &format!("the pod of {peer} has to learn of its node"),
                )
            },
        ));
    }
    if case.observed.needs() || case.observed.own_pod().is_some() {
        return None;
    }
    let waiting = [
        claim_missing_or_lost as Row,
        sibling_binding,
        sibling_importing,
        claim_in_use,
    ];
    let waiting = waiting.iter().find_map(|row| row(case));
    Some(waiting.map_or_else(
        || none(Reason::NothingWaiting, ""),
        |waiting| none(waiting.reason, &waiting.about),
    ))
}

/// 8: flags and annotations say no, or not yet, or the pod belongs to a VM that has been started since.
fn not_permitted(case: &Case) -> Option<Decision> {
    let left = none(Reason::LeftToVirtController, "");
    match (case.observed.permission, case.observed.own_pod()) {
        (Permission::No(reason), _) => Some(none(reason, "")),
        (Permission::Now(MadeFor::Started) | Permission::After(_), Some(pod)) => {
            (pod.marks.made_for == MadeFor::Halted).then_some(left)
        }
        // The delay gates creation only: a pod that is there has had it.
        (Permission::After(delay), None) => {
            let since = case
                .observed
                .vmi_created
                .or(case.memory.needed_since)
                .unwrap_or(case.now);
            let due = since.checked_add(delay).unwrap_or(Timestamp::MAX);
            (case.now < due).then_some(Decision {
                wake_at: Some(due),
                ..left
            })
        }
        (Permission::Now(_), _) => None,
    }
}

/// 9: a disk can't be listed.
fn claim_missing_or_lost(case: &Case) -> Option<Decision> {
    case.observed.disks.iter().find_map(|disk| match &disk.claim {
        None => Some(wait(Reason::ClaimMissing, &disk.name)),
        Some(claim) if claim.phase == ClaimPhase::Lost => Some(wait(Reason::ClaimLost, &claim.name)),
        Some(_) => None,
    })
}

/// 10: a disk will be placed by somebody else, and ours must follow it.
fn sibling_binding(case: &Case) -> Option<Decision> {
    let sibling = case.observed.claims().find(|claim| claim.placed_by_others());
    sibling.map(|claim| wait(Reason::SiblingBinding, &claim.name))
}

/// 10: CDI will not start the worker of a bound disk while a pod of ours lists it. A holding pod must stay all the same.
fn sibling_importing(case: &Case) -> Option<Decision> {
    if case.observed.own_pod().is_some_and(|pod| pod.marks.hold) {
        return None;
    }
    let claim = case.observed.awaits_worker()?;
    let mut disks = case.observed.disks.iter();
    let disk = disks.find(|disk| disk.name == claim.name);
    let about = disk.map_or_else(|| claim.name.to_string(), with_words);
    Some(wait(Reason::SiblingImporting, &about))
}

/// 10: one pod at a time, and it is another's turn.
fn claim_in_use(case: &Case) -> Option<Decision> {
    let mut single = case.observed.used().filter(|(claim, _)| claim.single_pod);
    single.find_map(|(claim, users)| {
        let user = users.other.as_ref()?;
        Some(wait(Reason::ClaimInUse, &format!("{} by pod {user}", claim.name)))
    })
}

/// 11: one claim, one consumer.
fn shared_disk(case: &Case) -> Option<Decision> {
    let Some(Rival::Shares { subject, claim }) = &case.observed.rival else {
        return None;
    };
    Some(wait(
        Reason::SharedDiskServedElsewhere,
        &format!("{claim} with {subject}"),
    ))
}

/// 11: where an anti-affine peer will be is being decided. A pod of ours that is there stays: the scheduler sees both.
fn waiting_for_peer(case: &Case) -> Option<Decision> {
    let Some(Rival::Peer(peer)) = &case.observed.rival else {
        return None;
    };
    let how = if case.observed.own_pod().is_some() { keep } else { wait };
    Some(how(Reason::WaitingForPeer, &peer.to_string()))
}

/// 18: a disk waits for its first consumer.
pub(super) fn first_consumer_needed(case: &Case) -> Decision {
    let needing: Vec<&str> = case
        .observed
        .claims()
        .filter(|claim| claim.needs)
        .map(|claim| &*claim.name)
        .collect();
    Decision {
        action: Action::Create,
        ..wait(Reason::FirstConsumerNeeded, &needing.join(", "))
    }
}
