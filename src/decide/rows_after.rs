//! Rows 12 to 17: what the subject's own pod, and what was tried before, say.

use k8s_openapi::jiff::Timestamp;

use super::rows::{Case, Row};
use super::{Action, Decision, keep, none, wait};
use crate::api::Scheduled;
use crate::memory::FINISHED_DELAY;
use crate::name::Uid;
use crate::observe::{Named, OwnPod};
use crate::placement::{HASH_VERSION, Refusal};
use crate::pod::MOST_ATTEMPTS;
use crate::reason::Reason;

/// Rows 12 to 17.
pub(super) const ROWS_AFTER: [Row; 9] = [
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

/// Whether the rows after the rivals say that the subject can't act, until somebody changes something or for minutes: it
/// lets nobody go first, and nobody waits for it. Who is given up is so as long as the owner and the disks are the same,
/// whether or not it is known at the moment what the VM asks for.
pub(super) fn stuck(case: &Case) -> bool {
    let decision = ROWS_AFTER.iter().find_map(|row| row(case));
    match decision.map(|decision| decision.reason) {
        Some(Reason::ExpansionPending) => gave_up(case).is_some() && !owner_differs(case) && !disks_differ(case),
        reason => reason.is_some_and(is_stuck),
    }
}

/// Whether a subject that is decided like this can't act.
pub(super) fn is_stuck(reason: Reason) -> bool {
    use Reason::{CannotRender, CreateRefused, GaveUp, NameTaken};
    matches!(reason, CannotRender | GaveUp | CreateRefused | NameTaken)
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
    case.observed.own_pod()?;
    let reason = match (owner_differs(case), placement_differs(case), disks_differ(case)) {
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

fn owner_differs(case: &Case) -> bool {
    let (owner, pod) = (case.observed.owner.as_ref(), case.observed.own_pod());
    owner
        .zip(pod)
        .is_some_and(|(owner, pod)| owner.uid != pod.marks.owner_uid)
}

fn placement_differs(case: &Case) -> bool {
    let placement = case
        .observed
        .placement
        .as_ref()
        .and_then(|placement| placement.as_ref().ok());
    placement.zip(case.observed.own_pod()).is_some_and(|(placement, pod)| {
        let made = &*pod.marks.placement_hash;
        made.starts_with(HASH_VERSION) && placement.hash() != made
    })
}

fn disks_differ(case: &Case) -> bool {
    let pod = case.observed.own_pod();
    let listed = pod.into_iter().flat_map(|pod| pod.marks.claims.iter().flatten());
    let mut listed: Vec<(&str, &Uid)> = listed.map(|claim| (&*claim.name, &claim.uid)).collect();
    let wanted = case.observed.listed();
    let mut wanted: Vec<(&str, &Uid)> = wanted.iter().map(|claim| (&*claim.name, &claim.uid)).collect();
    listed.sort();
    wanted.sort();
    listed != wanted
}

/// A pod that has ended although a claim still needs one.
fn finished<'a>(case: &Case<'a>) -> Option<&'a OwnPod> {
    let pod = case.observed.own_pod().filter(|pod| pod.finished());
    pod.filter(|_| case.observed.needs())
}

/// 14: pods have ended too often. The design has the last one deleted, but then a process that starts anew would make ten
/// more: so it stays, and people see what ended it. It goes, and others follow, when placement or claims change (row 13)
/// or somebody deletes it.
fn gave_up(case: &Case) -> Option<Decision> {
    let pod = finished(case).filter(|pod| pod.is_last() && pod.marks.placement_hash.starts_with(HASH_VERSION))?;
    let about = format!("{MOST_ATTEMPTS} times, at last {}", pod.outcome);
    Some(keep(Reason::GaveUp, &about))
}

/// 14: the pod has ended without result; it stays for a look, then another follows.
fn pod_finished(case: &Case) -> Option<Decision> {
    let pod = finished(case)?;
    let since = case.memory.finished_since.unwrap_or(case.now);
    let due = since
        .checked_add(FINISHED_DELAY.after(pod.marks.attempt))
        .unwrap_or(Timestamp::MAX);
    // Row 17 would have no other made before, and as long as this one is there its number is not lost.
    let due = case.memory.gap(case.observed, case.now).unwrap_or(due).max(due);
    let (action, wake_at) = if case.now < due {
        (Action::Keep, Some(due))
    } else {
        (Action::Replace, None)
    };
    let about = format!("attempt {}, {}", pod.marks.attempt, pod.outcome);
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
    if pod.finished() && !pod.marks.hold {
        return Some(none(Reason::NothingWaiting, ""));
    }
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
