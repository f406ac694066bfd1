//! The rows of design section 5, in their order.

use k8s_openapi::jiff::Timestamp;

use super::{Action, Decision, keep, none, wait};
use crate::api::{ClaimPhase, DataVolumePhase, Scheduled};
use crate::claim::Claim;
use crate::lifecycle::State;
use crate::memory::{FINISHED_DELAY, MOST_ATTEMPTS, Memory};
use crate::name::Uid;
use crate::observe::{Disk, Named, Observed, OwnPod, Rival};
use crate::placement::{HASH_VERSION, Refusal};
use crate::policy::{MadeFor, Permission};
use crate::reason::Reason;

/// The input of every row.
pub(super) struct Case<'a> {
    pub observed: &'a Observed,
    pub memory: &'a Memory,
    pub now: Timestamp,
}

type Row = fn(&Case) -> Option<Decision>;

/// What rows 1 to 17 say; the first that speaks decides.
pub(super) fn first(case: &Case) -> Option<Decision> {
    ROWS_BEFORE_RIVALS.iter().chain(&ROWS_AFTER).find_map(|row| row(case))
}

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

/// Rows 11 to 17.
const ROWS_AFTER: [Row; 11] = [
    shared_disk,
    waiting_for_peer,
    cannot_render,
    pod_terminating,
    pod_outdated,
    gave_up,
    pod_finished,
    pod_there,
    create_refused,
    name_taken,
    backing_off,
];

/// 1: there is nobody to serve.
fn subject_deleted(case: &Case) -> Option<Decision> {
    let gone = case.observed.owner.is_none();
    (gone || case.observed.state == State::Deleting || case.observed.namespace_terminating)
        .then(|| none(Reason::SubjectDeleted, ""))
}

/// 2: a disk is going, and a pod that lists it would hold it back.
fn disk_deleted(case: &Case) -> Option<Decision> {
    let of_pod = case.observed.own_pod().into_iter().flat_map(|pod| &pod.claims);
    let going = case.observed.listed().into_iter().chain(of_pod).find(|claim| {
        claim.terminating
            || claim
                .data_volume
                .as_ref()
                .is_some_and(|controller| controller.terminating)
    });
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
    let words = disk.data_volume_words.iter().filter(|words| !words.is_empty());
    let about: Vec<&str> = [&*disk.name].into_iter().chain(words.map(|words| &**words)).collect();
    Some(none(Reason::DataVolumeFailed, &about.join(", ")))
}

/// 7: no claim needs a consumer, and a pod that is there has done its work.
fn served_or_nothing_waiting(case: &Case) -> Option<Decision> {
    let released = |pod: &OwnPod| pod.claims.iter().all(|claim| claim.released(pod.marks.hold));
    if case.observed.needs() || !case.observed.own_pod().is_none_or(released) {
        return None;
    }
    if case.observed.own_pod().is_some() {
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
    let awaits = |disk: &&Disk| disk.claim.as_ref().is_some_and(Claim::awaits_worker) && !disk.worker;
    case.observed
        .disks
        .iter()
        .find(awaits)
        .map(|disk| wait(Reason::SiblingImporting, &disk.name))
}

/// 10: one pod at a time, and it is another's turn.
fn claim_in_use(case: &Case) -> Option<Decision> {
    case.observed.disks.iter().find_map(|disk| {
        let user = disk
            .user
            .as_deref()
            .filter(|_| disk.claim.as_ref().is_some_and(|claim| claim.single_pod))?;
        Some(wait(Reason::ClaimInUse, &format!("{} by pod {user}", disk.name)))
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

/// 12: what the VM will ask for can't be told, or not yet.
fn cannot_render(case: &Case) -> Option<Decision> {
    let refusal = case.observed.placement.as_ref()?.as_ref().err()?;
    let (Refusal::NotExpanded, Some(inputs)) = (refusal, &case.observed.unexpanded) else {
        return Some(none(Reason::CannotRender, &refusal.to_string()));
    };
    let failed = case.memory.expansion.failure(inputs);
    let about = failed.map_or_else(|| refusal.to_string(), |failed| failed.text.clone());
    let decision = match (failed, case.observed.own_pod()) {
        (Some(failed), _) if failed.refused => none(Reason::CannotRender, &about),
        // A pod that may end beside a peer's disks can't wait for what it should have been.
        (_, Some(pod)) if pod.marks.domains == case.observed.peers.domains => keep(Reason::ExpansionPending, &about),
        _ => wait(Reason::ExpansionPending, &about),
    };
    Some(Decision {
        wake_at: failed.map(|failed| failed.until).filter(|until| case.now < *until),
        ..decision
    })
}

/// 13: the name is free again when the pod has gone.
fn pod_terminating(case: &Case) -> Option<Decision> {
    let pod = case.observed.own_pod()?;
    (pod.terminating || case.memory.has_deleted(&pod.uid)).then(|| wait(Reason::PodTerminating, ""))
}

/// 13: the pod was made for another life of the VM, for other wishes, or for other disks.
fn pod_outdated(case: &Case) -> Option<Decision> {
    let marks = &case.observed.own_pod()?.marks;
    let owner_differs = case
        .observed
        .owner
        .as_ref()
        .is_some_and(|owner| owner.uid != marks.owner_uid);
    let placement_differs = case
        .observed
        .placement
        .as_ref()
        .and_then(|placement| placement.as_ref().ok())
        .is_some_and(|placement| {
            marks.placement_hash.starts_with(HASH_VERSION) && placement.hash() != *marks.placement_hash
        });
    let mut listed: Vec<(&str, &Uid)> = marks
        .claims
        .iter()
        .flatten()
        .map(|claim| (&*claim.name, &claim.uid))
        .collect();
    let mut wanted: Vec<(&str, &Uid)> = case
        .observed
        .listed()
        .iter()
        .map(|claim| (&*claim.name, &claim.uid))
        .collect();
    listed.sort();
    wanted.sort();
    let reason = match (owner_differs, placement_differs, listed != wanted) {
        (true, _, _) => Reason::OwnerReplaced,
        (_, true, _) => Reason::PlacementChanged,
        (_, _, true) => Reason::DisksChanged,
        (false, false, false) => return None,
    };
    Some(Decision {
        action: Action::Replace,
        reason,
        about: String::new(),
        wake_at: None,
    })
}

/// 14: pods have ended too often, and nothing has changed since.
fn gave_up(case: &Case) -> Option<Decision> {
    let last = |pod: &OwnPod| pod.finished() && pod.marks.attempt >= MOST_ATTEMPTS;
    let too_often = case.observed.needs() && case.observed.own_pod().is_some_and(last);
    (too_often || case.memory.next_attempt() > MOST_ATTEMPTS)
        .then(|| none(Reason::GaveUp, &format!("{MOST_ATTEMPTS} times")))
}

/// 14: the pod has ended without result; it stays for a look, then another follows.
fn pod_finished(case: &Case) -> Option<Decision> {
    let pod = case
        .observed
        .own_pod()
        .filter(|pod| pod.finished() && case.observed.needs())?;
    let since = case.memory.finished_since.unwrap_or(case.now);
    let due = since
        .checked_add(FINISHED_DELAY.after(pod.marks.attempt))
        .unwrap_or(Timestamp::MAX);
    let (action, wake_at) = if case.now < due {
        (Action::Keep, Some(due))
    } else {
        (Action::Replace, None)
    };
    let about = format!("{:?}, attempt {}", pod.phase, pod.marks.attempt);
    Some(Decision {
        action,
        reason: Reason::PodFinished,
        about,
        wake_at,
    })
}

/// 15: the pod is there and its work is not done.
fn pod_there(case: &Case) -> Option<Decision> {
    let pod = case.observed.own_pod()?;
    Some(match &pod.scheduled {
        Scheduled::Unschedulable(text) => {
            let why = case.observed.peers.explanation();
            let separator = if why.is_empty() { "" } else { "; " };
            keep(Reason::Unschedulable, &format!("{text}{separator}{why}"))
        }
        Scheduled::Gated(gates) => keep(Reason::SchedulingGated, gates),
        Scheduled::Yes => keep(Reason::WaitingForVolumes, ""),
        Scheduled::Silent if !case.observed.needs() => keep(Reason::WaitingForVolumes, ""),
        Scheduled::Silent => keep(Reason::WaitingForScheduler, ""),
    })
}

/// 16: the API server has refused it a short time ago.
fn create_refused(case: &Case) -> Option<Decision> {
    let refusal = case
        .memory
        .refusal
        .as_ref()
        .filter(|refusal| case.now < refusal.until)?;
    Some(Decision {
        wake_at: Some(refusal.until),
        ..wait(Reason::CreateRefused, &refusal.text)
    })
}

/// 16: the name is taken.
fn name_taken(case: &Case) -> Option<Decision> {
    matches!(case.observed.pod, Named::Foreign)
        .then(|| wait(Reason::NameTaken, &crate::name::pod_name(&case.observed.subject)))
}

/// 17: the last one was made a short time ago.
fn backing_off(case: &Case) -> Option<Decision> {
    let until = case.memory.gap(case.observed, case.now)?;
    Some(Decision {
        wake_at: Some(until),
        ..wait(Reason::BackingOff, "")
    })
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
