//! CDI's import and upload populators: prime claim, what is copied from it to the target, rebind, cleanup (CDI
//! reference 2.6, 10.3 P3 to P10).

use super::{Disk, Which, Write, prime_name};
use crate::world::objects::{Claim, ClaimPhase, Note, PodPhase, Source};

/// One reconcile of the target claim.
#[must_use]
pub fn next(disk: &Disk) -> Vec<Write> {
    let ours = disk.dv.source.is_import() || disk.dv.source == Source::Upload;
    let ready = |claim: &&Claim| ours && claim.populator && !claim.deleting;
    let Some(target) = disk.claim.as_ref().filter(ready) else {
        return Vec::new();
    };
    match &disk.prime {
        None => create(target),
        Some(prime) if prime.deleting => Vec::new(),
        Some(prime) if target.phase == ClaimPhase::Bound => clean_up(target, prime),
        Some(prime) => follow(disk, target, prime),
    }
}

/// The target waits for a node, unless immediate binding was asked for \[`populators/util.go`: claimReadyForPopulation\].
fn create(target: &Claim) -> Vec<Write> {
    let ready = !target.late || target.node.is_some() || target.immediate;
    if target.phase != ClaimPhase::Pending || target.volume.is_some() || !ready {
        return Vec::new();
    }
    let note = Note::normal("CreatedPVCPrimeSuccessfully", "PVC Prime created successfully");
    vec![
        Write::CreatePrime {
            node: target.node.clone().filter(|_| target.late),
        },
        Write::Event { on_dv: false, note },
    ]
}

/// Once a prime exists, the target's selected-node is not looked at any more \[`populator-base.go`: reconcileCommon\].
fn follow(disk: &Disk, target: &Claim, prime: &Claim) -> Vec<Write> {
    let mut writes = copy_events(target, prime);
    let newest = prime
        .events
        .iter()
        .rfind(|note| note.reason != "ClaimMisbound")
        .map(|note| &note.message);
    if newest.is_some() && target.bound_note.as_ref() != newest {
        writes.push(Write::NoteBound {
            on: Which::Target,
            message: newest.cloned(),
        });
    }
    let upload = disk.dv.source == Source::Upload;
    let done = prime.worker.phase == Some(PodPhase::Succeeded);
    let copy = (target.worker != prime.worker || !target.knows_prime).then(|| Write::CopyWorker(prime.worker.clone()));
    let rebind = prime
        .volume
        .clone()
        .filter(|_| done && !disk.rebound && prime.phase == ClaimPhase::Bound);
    if upload && done {
        // The upload populator gives the volume away first and annotates after.
        match rebind {
            Some(volume) => writes.push(Write::Rebind { volume }),
            None if disk.rebound => writes.extend(copy),
            None => {}
        }
    } else {
        writes.extend(copy);
        if let Some(volume) = rebind {
            let note = Note::normal("importSucceeded", format!("Successfully imported into {}", target.name));
            writes.extend([Write::Rebind { volume }, Write::Event { on_dv: false, note }]);
        }
    }
    writes
}

/// Events of the prime come out on the target again, with a prefix \[`common/util.go`: CopyEvents\].
fn copy_events(target: &Claim, prime: &Claim) -> Vec<Write> {
    let prefix = format!("[{}] : ", prime_name(&target.uid));
    let copies = prime
        .events
        .iter()
        .filter(|note| note.reason != "ClaimMisbound")
        .map(|note| Note {
            message: format!("{prefix}{}", note.message),
            ..note.clone()
        });
    copies
        .filter(|copy| !target.events.contains(copy))
        .map(|note| Write::Event { on_dv: false, note })
        .collect()
}

/// The target is bound: what is left to copy, and the prime goes once it is Lost \[reconcileCleanup\].
fn clean_up(target: &Claim, prime: &Claim) -> Vec<Write> {
    let mut writes = copy_events(target, prime);
    if target.bound_note.is_some() {
        writes.push(Write::NoteBound {
            on: Which::Target,
            message: None,
        });
    }
    if target.worker != prime.worker {
        writes.push(Write::CopyWorker(prime.worker.clone()));
    }
    if prime.phase == ClaimPhase::Lost {
        writes.push(Write::DeletePrime { uid: prime.uid.clone() });
    }
    writes
}

#[cfg(test)]
#[path = "populator_tests.rs"]
mod tests;
