//! CDI's DataVolume controller: claim, phase, conditions (CDI reference 2.1, 2.2, 10.2, 10.3).

use super::source::{by_source, phase_note, unsupported};
use super::{Disk, Settings, Status, Write, bound_reason, clone, prime_name};
use crate::world::objects::{Claim, ClaimPhase, Condition, DvPhase, Note, PodPhase};

/// One reconcile: `sync`, then `updateStatus` on what was there **before** it \[`controller-base.go`: reconcile\]. So a
/// new claim is seen only by the next reconcile, and the first phase is `Pending`.
#[must_use]
pub fn next(disk: &Disk, settings: Settings) -> Vec<Write> {
    if disk.dv.deleting {
        return Vec::new();
    }
    let mut writes = sync(disk, settings);
    writes.extend(update_status(disk, settings));
    writes
}

fn sync(disk: &Disk, settings: Settings) -> Vec<Write> {
    let mut writes = Vec::new();
    let populator = disk.dv.populator.unwrap_or(disk.csi);
    if disk.dv.populator.is_none() {
        writes.push(Write::MarkPath { populator });
    }
    match &disk.claim {
        None => {
            let (wait, go_on) = clone::before_claim(disk, populator);
            writes.extend(wait);
            if go_on {
                writes.push(Write::CreateClaim {
                    populator,
                    immediate: populator && !settings.honor_late_binding,
                });
            }
        }
        Some(claim) if claim.deleting => {
            let text = format!("Resource \"{}\" marked for deletion", claim.name);
            writes.push(Write::Event {
                on_dv: true,
                note: Note::warning("ErrResourceMarkedForDeletion", text),
            });
        }
        Some(claim) if owns(disk, claim) => {}
        Some(claim) if may_adopt(disk, claim) => writes.push(Write::AdoptClaim),
        Some(claim) => {
            let text = format!(
                "Resource \"{}\" already exists and is not managed by DataVolume",
                claim.name
            );
            writes.push(Write::Event {
                on_dv: true,
                note: Note::warning("ErrResourceExists", text),
            });
        }
    }
    writes
}

fn owns(disk: &Disk, claim: &Claim) -> bool {
    claim
        .owner
        .as_ref()
        .is_some_and(|owner| owner.kind == "DataVolume" && owner.uid == disk.dv.uid)
}

/// \[`common/util.go`: AllowClaimAdoption\]
fn may_adopt(disk: &Disk, claim: &Claim) -> bool {
    disk.dv.adopts && claim.created_for.as_deref() != Some(disk.dv.uid.as_str())
}

/// \[`controller-base.go`: pvcRequiresWork\]
fn needs_work(disk: &Disk, claim: &Claim) -> bool {
    claim.populated_for.as_deref() != Some(disk.dv.name.as_str()) && !may_adopt(disk, claim)
}

fn update_status(disk: &Disk, settings: Settings) -> Vec<Write> {
    let old = &disk.dv.status;
    if disk
        .claim
        .as_ref()
        .is_some_and(|claim| !owns(disk, claim) && !may_adopt(disk, claim))
    {
        return Vec::new();
    }
    let phase = phase(disk, settings);
    let claim = disk.claim.as_ref().filter(|claim| !claim.deleting);
    let status = Status {
        phase,
        claim_known: old.claim_known || claim.is_some(),
        bound: Some(bound(disk)),
        running: running(disk, phase),
        restarts: disk.claim.as_ref().map_or(old.restarts, |claim| claim.worker.restarts),
    };
    if status == *old {
        return Vec::new();
    }
    // Events come after the patch; the phase's first [emitEvent].
    let mut notes = Vec::new();
    if phase != old.phase {
        notes.extend(phase_note(disk, phase));
    }
    if status.bound != old.bound {
        notes.extend(
            status
                .bound
                .as_ref()
                .map(|bound| Note::normal(&bound.reason, bound.message.clone())),
        );
    }
    notes.extend(failure_note(&status, &old.running));
    let unfilled = unsupported(disk).filter(|_| phase == DvPhase::PvcBound);
    let mut writes = vec![Write::SetStatus(status)];
    writes.extend(unfilled.map(|note| Write::Event { on_dv: false, note }));
    writes.extend(notes.into_iter().map(|note| Write::Event { on_dv: true, note }));
    writes
}

/// The decision list of `updateStatus`, first match wins (CDI reference 2.2).
fn phase(disk: &Disk, settings: Settings) -> DvPhase {
    let old = disk.dv.status.phase;
    let Some(claim) = disk.claim.as_ref() else {
        return match clone::phase_before_claim(disk) {
            Some(asked) => asked,
            None if old == DvPhase::Unset => DvPhase::Pending,
            None => old,
        };
    };
    if claim.deleting {
        return old;
    }
    let work = needs_work(disk, claim);
    if work && claim.worker.phase == Some(PodPhase::Succeeded) {
        return by_source(disk, claim, old);
    }
    match claim.phase {
        // An adopted or restored claim, bound or not.
        ClaimPhase::Pending | ClaimPhase::Bound if !work => DvPhase::Succeeded,
        ClaimPhase::Pending if claim.populator => {
            // Neither the gate nor the prime is looked at [shouldBeMarkedPendingPopulation].
            if claim.late && claim.node.is_none() && !claim.immediate {
                DvPhase::PendingPopulation
            } else {
                by_source(disk, claim, old)
            }
        }
        // Neither selected-node nor the immediate annotation is looked at [shouldBeMarkedWaitForFirstConsumer].
        ClaimPhase::Pending if settings.honor_late_binding && claim.late => DvPhase::WaitForFirstConsumer,
        ClaimPhase::Pending => DvPhase::Pending,
        ClaimPhase::Bound => {
            let settled = match old {
                DvPhase::Unset | DvPhase::Pending | DvPhase::WaitForFirstConsumer | DvPhase::Unknown => {
                    DvPhase::PvcBound
                }
                other => other,
            };
            by_source(disk, claim, settled)
        }
        ClaimPhase::Lost => DvPhase::Failed,
    }
}

/// A worker that does not run although the claim is bound is told of the DataVolume, too
/// \[`controller-base.go`: emitFailureConditionEvent\].
fn failure_note(status: &Status, before: &Condition) -> Option<Note> {
    let now = &status.running;
    let stuck = status.phase != DvPhase::Succeeded && !now.status && !now.message.is_empty();
    let bound = status.bound.as_ref().is_some_and(|bound| bound.status);
    (stuck && bound && now.message != before.message).then(|| Note::warning(&now.reason, now.message.clone()))
}

/// The API server refused the claim for a quota \[`controller-base.go`: handlePvcCreation\]: the DataVolume says so and
/// tries again.
#[must_use]
pub fn refused(disk: &Disk, text: &str) -> Vec<Write> {
    let bound = Condition::new(false, "ErrExceededQuota", text);
    let status = Status {
        phase: DvPhase::Pending,
        bound: Some(bound),
        ..disk.dv.status.clone()
    };
    let mut writes = Vec::new();
    if status != disk.dv.status {
        writes.push(Write::SetStatus(status));
    }
    let note = Note::warning("ErrExceededQuota", text);
    writes.extend([Write::Event { on_dv: true, note }, Write::RetryLater]);
    writes
}

/// Condition Bound (CDI reference 1.3) \[`conditions.go`: updateBoundCondition\].
fn bound(disk: &Disk) -> Condition {
    let Some(claim) = disk.claim.as_ref() else {
        return Condition::new(false, "NotFound", "No PVC found");
    };
    let name = &claim.name;
    match (claim.phase, &claim.bound_note) {
        (ClaimPhase::Lost, _) => Condition::new(false, "ClaimLost", "Claim Lost"),
        (ClaimPhase::Bound, Some(message)) => Condition::new(false, bound_reason(message), message.clone()),
        (ClaimPhase::Bound, None) => Condition::new(true, "Bound", format!("PVC {name} Bound")),
        (ClaimPhase::Pending, None) => Condition::new(false, "Pending", format!("PVC {name} Pending")),
        (ClaimPhase::Pending, Some(message)) => {
            let prime = if claim.knows_prime {
                format!("[{}] : ", prime_name(&claim.uid))
            } else {
                String::new()
            };
            Condition::new(
                false,
                "Pending",
                format!("target PVC {name} Pending and {prime}{message}"),
            )
        }
    }
}

fn running(disk: &Disk, phase: DvPhase) -> Condition {
    let known = disk.claim.as_ref().and_then(|claim| claim.worker.running.clone());
    known.unwrap_or_else(|| match phase {
        DvPhase::Succeeded => Condition::new(false, "Completed", ""),
        _ => Condition::default(),
    })
}

#[cfg(test)]
#[path = "data_volume_tests.rs"]
mod tests;
