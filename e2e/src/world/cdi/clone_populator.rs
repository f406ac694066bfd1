//! CDI's clone populator: the tmp claim that is copied to, its binding, and how its volume comes to the target (CDI
//! reference 6).

use super::{Disk, Origin, Write, clone::in_use};
use crate::world::objects::{Claim, ClaimPhase, ClonePhase, Condition, Pod, PodPhase, Strategy, Worker};

/// How long it waits for the source \[`csi-clone.go`: Reconcile\].
const SOURCE_AGAIN: u64 = 2;
/// How often the progress of a copy is looked at \[`host-clone.go`: Reconcile\].
const COPY_AGAIN: u64 = 3;
/// How long it waits for a source that does not exist \[`clone-populator.go`: reconcilePending\].
const STRATEGY_AGAIN: u64 = 5;

/// One reconcile of a clone's target. `prep` is the pod that gets the tmp claim bound.
#[must_use]
pub fn next(disk: &Disk, prep: Option<&Pod>) -> Vec<Write> {
    let clone = disk.dv.source.is_clone();
    let (Some(target), Some(origin)) = (
        disk.claim.as_ref().filter(|claim| clone && claim.populator),
        &disk.origin,
    ) else {
        return Vec::new();
    };
    if !target.deleting && target.phase != ClaimPhase::Bound {
        return pending(disk, target, origin, prep);
    }
    if !target.deleting && target.clone_phase != Some(ClonePhase::Succeeded) {
        return phase(target, ClonePhase::Succeeded, None).into_iter().collect();
    }
    clean_up(disk, prep)
}

/// Whether the target may be filled is asked on every pass: a clone whose target loses its node goes back
/// \[reconcilePending; `util.go`: claimReadyForPopulation\].
fn pending(disk: &Disk, target: &Claim, origin: &Origin, prep: Option<&Pod>) -> Vec<Write> {
    let ready = !target.late || target.node.is_some() || target.immediate;
    if !ready {
        return phase(target, ClonePhase::Pending, None).into_iter().collect();
    }
    let Some(strategy) = target.strategy else {
        if origin.there {
            return vec![Write::BeginClone(disk.strategy)];
        }
        let wait = phase(target, ClonePhase::Pending, None);
        return wait
            .into_iter()
            .chain([Write::LookAgain { after: STRATEGY_AGAIN }])
            .collect();
    };
    let mut writes = Vec::new();
    let (now, worker) = step(disk, target, origin, prep, strategy, &mut writes);
    writes.extend(phase(target, now, worker));
    writes
}

/// The first step that is not done, with its writes \[`planner.go`: Plan; planAndExecute\].
fn step(
    disk: &Disk,
    target: &Claim,
    origin: &Origin,
    prep: Option<&Pod>,
    strategy: Strategy,
    writes: &mut Vec<Write>,
) -> (ClonePhase, Option<Worker>) {
    let begun = match strategy {
        Strategy::Copy => ClonePhase::HostClone,
        Strategy::CsiClone => ClonePhase::CsiClone,
        Strategy::Snapshot => ClonePhase::SnapshotClone,
    };
    let Some(tmp) = &disk.tmp else {
        // A copying pod asks for itself whether the source is ready; the driver cannot [IsSourceClaimReady].
        if strategy == Strategy::Copy || (origin.populated && origin.users.is_empty()) {
            writes.push(Write::CreateTmp(strategy));
        } else {
            let used = origin.users.iter().map(|pod| in_use(origin, pod));
            writes.extend(used.map(|note| Write::Event { on_dv: false, note }));
            writes.push(Write::LookAgain { after: SOURCE_AGAIN });
        }
        return (begun, None);
    };
    if strategy == Strategy::Copy {
        if tmp.worker.phase != Some(PodPhase::Succeeded) {
            writes.push(Write::LookAgain { after: COPY_AGAIN });
            return (begun, Some(tmp.worker.clone()));
        }
    } else if let Some(now) = bind(tmp, prep, begun, writes) {
        return (now, None);
    }
    if target.volume.is_some() {
        return (ClonePhase::Succeeded, None);
    }
    if let Some(volume) = tmp.volume.clone().filter(|_| !disk.rebound) {
        writes.push(Write::Rebind { volume });
    }
    (ClonePhase::Rebind, None)
}

/// An unbound claim of a late class counts as copied: the prep pod binds it \[`common.go`: isClaimBoundOrWFFC;
/// `prep-claim.go`: Reconcile\]. None: it is bound and the pod is gone.
fn bind(tmp: &Claim, prep: Option<&Pod>, begun: ClonePhase, writes: &mut Vec<Write>) -> Option<ClonePhase> {
    let unbound = tmp.phase == ClaimPhase::Pending;
    if unbound && !tmp.late {
        return Some(begun);
    }
    match prep {
        None if unbound => writes.push(Write::CreatePrep { node: tmp.node.clone() }),
        None => return None,
        Some(pod) if pod.phase == PodPhase::Succeeded && !pod.deleting => {
            writes.push(Write::DeletePrep { uid: pod.uid.clone() });
        }
        Some(_) => {}
    }
    Some(ClonePhase::PrepClaim)
}

/// The phase, and what is said of the worker in it \[addRunningAnnotations\]; none if both are there.
fn phase(target: &Claim, phase: ClonePhase, copier: Option<Worker>) -> Option<Write> {
    let running = match phase {
        ClonePhase::Succeeded => Condition::new(false, "Completed", "Clone Complete"),
        ClonePhase::Pending => Condition::new(false, "Pending", "Clone Pending"),
        _ => copier
            .as_ref()
            .and_then(|worker| worker.running.clone())
            .unwrap_or_else(|| Condition::new(true, "Populator is running", "")),
    };
    let worker = Worker {
        running: Some(running),
        restarts: copier.map_or(target.worker.restarts, |worker| worker.restarts),
        ..target.worker.clone()
    };
    let known = target.clone_phase == Some(phase) && target.worker == worker;
    (!known).then_some(Write::SetClonePhase { phase, worker })
}

/// \[`planner.go`: Cleanup\]
fn clean_up(disk: &Disk, prep: Option<&Pod>) -> Vec<Write> {
    let prep = prep.filter(|pod| !pod.deleting);
    let prep = prep.map(|pod| Write::DeletePrep { uid: pod.uid.clone() });
    let tmp = disk.tmp.as_ref().filter(|tmp| !tmp.deleting);
    let tmp = tmp.map(|tmp| Write::DeleteTmp { uid: tmp.uid.clone() });
    prep.into_iter().chain(tmp).collect()
}

#[cfg(test)]
#[path = "clone_populator_tests.rs"]
mod tests;
