//! The step of a DataVolume's source, once its claim is there (CDI reference 2.3).

use super::{Disk, Origin};
use crate::world::objects::{Claim, ClaimPhase, ClonePhase, DvPhase, Note, PodPhase, Source};

/// The phase that the source's own controller computes.
pub(super) fn by_source(disk: &Disk, claim: &Claim, unchanged: DvPhase) -> DvPhase {
    match disk.dv.source {
        Source::External if disk.csi => DvPhase::Succeeded,
        Source::External => unchanged,
        source if source.is_clone() && claim.populator => clone_populator(claim, unchanged),
        source if source.is_clone() => clone_legacy(claim, unchanged),
        source => import_or_upload(disk, claim, source == Source::Upload, unchanged),
    }
}

/// \[`import-controller.go`, `upload-controller.go`: updateStatusPhase\]
fn import_or_upload(disk: &Disk, claim: &Claim, upload: bool, unchanged: DvPhase) -> DvPhase {
    let filled = if claim.populator {
        disk.prime.as_ref()
    } else {
        Some(claim)
    };
    let ready = filled.is_some_and(|filled| filled.phase == ClaimPhase::Bound && (upload || filled.worker_named));
    if !ready && claim.worker.phase != Some(PodPhase::Succeeded) {
        return unchanged;
    }
    match (upload, claim.worker.phase) {
        (_, Some(PodPhase::Succeeded)) => DvPhase::Succeeded,
        (true, Some(PodPhase::Running)) if claim.worker.ready == Some(true) => DvPhase::UploadReady,
        (true, _) => DvPhase::UploadScheduled,
        (false, Some(PodPhase::Running)) => DvPhase::ImportInProgress,
        (false, Some(PodPhase::Failed)) if claim.worker.fatal => DvPhase::Failed,
        (false, _) => DvPhase::ImportScheduled,
    }
}

/// Host-assisted \[`clone-controller-base.go`: updateStatusPhase\].
fn clone_legacy(claim: &Claim, unchanged: DvPhase) -> DvPhase {
    match claim.worker.phase {
        Some(PodPhase::Succeeded) => DvPhase::Succeeded,
        _ if claim.phase != ClaimPhase::Bound => unchanged,
        Some(PodPhase::Running) => DvPhase::CloneInProgress,
        _ => DvPhase::CloneScheduled,
    }
}

/// \[`clone-controller-base.go`: updateStatusPhaseForPopulator\]
fn clone_populator(claim: &Claim, unchanged: DvPhase) -> DvPhase {
    match claim.clone_phase {
        None | Some(ClonePhase::Pending) => DvPhase::CloneScheduled,
        Some(ClonePhase::HostClone) => DvPhase::CloneInProgress,
        Some(ClonePhase::CsiClone) => DvPhase::CsiCloneInProgress,
        Some(ClonePhase::SnapshotClone) => DvPhase::CloneFromSnapshotInProgress,
        Some(ClonePhase::PrepClaim) => DvPhase::PrepClaimInProgress,
        Some(ClonePhase::Rebind) => DvPhase::RebindInProgress,
        Some(ClonePhase::Succeeded) => DvPhase::Succeeded,
        Some(ClonePhase::Error) => unchanged,
    }
}

/// Somebody else fills it, for which a CSI driver is needed; with one CDI calls it done at once. A snapshot as its
/// source, which needs none, is not modelled \[`external-population-controller.go`: updateStatusPhase,
/// checkPopulationRequirements\].
pub(super) fn unsupported(disk: &Disk) -> Option<Note> {
    let stuck = disk.dv.source == Source::External && !disk.csi;
    let text = "No CSI drivers were found: External population not supported";
    stuck.then(|| Note::warning("NoCSIDriverForExternalPopulation", text))
}

/// What is said of a new phase.
pub(super) fn phase_note(disk: &Disk, phase: DvPhase) -> Option<Note> {
    let (name, namespace) = (&disk.dv.name, &disk.namespace);
    let origin = disk.origin.clone().unwrap_or_default();
    let Origin {
        namespace: from_namespace,
        name: from,
        ..
    } = &origin;
    let copy = format!("from {from_namespace}/{from} into {namespace}/{name}");
    let worker = disk.claim.as_ref().map(|claim| &claim.worker);
    let worker_is = |phase| worker.is_some_and(|worker| worker.phase == Some(phase));
    // Import and upload say `...Scheduled` only if the worker is known to be Pending by then [updateStatusPhase].
    let pending = worker_is(PodPhase::Pending);
    let (reason, text) = match phase {
        DvPhase::ImportScheduled | DvPhase::Failed if worker_is(PodPhase::Failed) => {
            return Some(Note::warning(
                "ImportFailed",
                format!("Failed to import into PVC {name}"),
            ));
        }
        DvPhase::ImportScheduled if pending => ("ImportScheduled", format!("Import into {name} scheduled")),
        DvPhase::ImportInProgress => ("ImportInProgress", format!("Import into {name} in progress")),
        DvPhase::UploadScheduled if pending => ("UploadScheduled", format!("Upload into {name} scheduled")),
        DvPhase::UploadReady => ("UploadReady", format!("Upload into {name} ready")),
        DvPhase::CloneScheduled => ("CloneScheduled", format!("Cloning {copy} scheduled")),
        DvPhase::CloneInProgress => ("CloneInProgress", format!("Cloning {copy} in progress")),
        DvPhase::CloneFromSnapshotInProgress => (
            "CloneFromSnapshotSourceInProgress",
            format!("Creating PVC from snapshot source {from_namespace}/{from} is in progress"),
        ),
        DvPhase::CsiCloneInProgress => (
            "CSICloneInProgress",
            format!("CSI Volume clone in progress (for pvc {from_namespace}/{from})"),
        ),
        DvPhase::PrepClaimInProgress => (
            "PrepClaimInProgress",
            format!("Prepping PersistentVolumeClaim for DataVolume {namespace}/{name}"),
        ),
        DvPhase::RebindInProgress => (
            "RebindInProgress",
            format!("Rebinding PersistentVolumeClaim for DataVolume {namespace}/{name}"),
        ),
        DvPhase::Succeeded => match disk.dv.source {
            Source::Upload => ("UploadSucceeded", format!("Successfully uploaded into {name}")),
            Source::Pvc | Source::Snapshot => ("CloneSucceeded", format!("Successfully cloned {copy}")),
            Source::External => (
                "ExternalPopulationSucceeded",
                format!("PVC {name} successfully populated by {from}"),
            ),
            Source::Http | Source::Registry | Source::Blank => {
                ("ImportSucceeded", format!("Successfully imported into PVC {name}"))
            }
        },
        DvPhase::Failed => return Some(Note::warning("ErrClaimLost", format!("PVC {name} lost"))),
        _ => return None,
    };
    Some(Note::normal(reason, text))
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
