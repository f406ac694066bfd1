//! Disks that need no consumer, and that nobody has finished yet: what each waits for, and where to look.

use crate::api::{ClaimPhase, DataVolume, DataVolumePhase};
use crate::index::Index;
use crate::lifecycle::State;
use crate::observe::{Disk, Observed};
use crate::reason::Whom;

/// What a disk waits for, if nothing is wrong with it.
pub(super) fn waits_for(index: &Index, observed: &Observed, disk: &Disk) -> String {
    let Some(claim) = &disk.claim else {
        return "has no claim yet".into();
    };
    let place = claim
        .selected_node
        .as_ref()
        .map(|node| format!(" on {node}"))
        .unwrap_or_default();
    let data_volume = index.data_volume(&observed.subject.sibling(&disk.name));
    let progress = data_volume.and_then(|data_volume| DataVolume::progress(data_volume));
    match (claim.phase, disk.data_volume) {
        (ClaimPhase::Lost, _) => "has lost its volume".into(),
        (_, Some(DataVolumePhase::UploadReady)) => "waits for your upload".into(),
        (_, Some(DataVolumePhase::Paused)) => "is paused until the next stage of its import is asked for".into(),
        (_, Some(phase)) if copies(phase) => {
            let progress = progress.map(|progress| format!(", {progress}")).unwrap_or_default();
            format!("is being filled{place}{progress}")
        }
        (ClaimPhase::Bound, None | Some(DataVolumePhase::Succeeded)) => format!("is there{place}"),
        (ClaimPhase::Bound, Some(_)) => format!("is bound{place} and not filled yet"),
        (ClaimPhase::Pending, _) if claim.needs => "waits for its first consumer".into(),
        (ClaimPhase::Pending, _) if claim.placed => format!("is being made{place}"),
        (ClaimPhase::Pending, _) if claim.late && claim.data_volume.is_none() => "is placed with the others".into(),
        (ClaimPhase::Pending, _) => "waits to be bound by somebody else".into(),
    }
}

/// The first disk that is not there, of those that wait for a person's hand, else of all.
pub(super) fn unfinished(observed: &Observed) -> Option<&Disk> {
    let open = observed.disks.iter().filter(|disk| !there(disk));
    open.min_by_key(|disk| !by_hand(disk))
}

/// What to do or to look at, if nothing is wrong with the disk.
pub(super) fn next(disk: &Disk, state: State, whom: Whom) -> String {
    let Whom {
        namespace, kind, name, ..
    } = whom;
    let claim = disk.claim.as_ref();
    let plain = claim.is_some_and(|claim| claim.late && !claim.placed && claim.data_volume.is_none());
    let disk_name = &disk.name;
    match disk.data_volume {
        Some(DataVolumePhase::UploadReady) => {
            format!("upload its data: virtctl image-upload dv {disk_name} -n {namespace} --no-create --image-path=FILE")
        }
        Some(DataVolumePhase::Paused) => {
            format!(
                "add to its spec.checkpoints, or set spec.finalCheckpoint: kubectl edit dv/{disk_name} -n {namespace}"
            )
        }
        Some(phase) if copies(phase) || claim.is_some_and(|claim| claim.phase == ClaimPhase::Bound) => {
            format!("wait; to watch it: kubectl get dv/{disk_name} -n {namespace} --watch")
        }
        _ if plain && kind == "vm" && state == State::Halted => {
            format!("its class waits for the VM: virtctl start {name} -n {namespace}")
        }
        _ => format!("wait; if nothing comes: kubectl describe pvc/{disk_name} -n {namespace}"),
    }
}

/// Whether the disk has its volume and its data.
fn there(disk: &Disk) -> bool {
    let bound = disk
        .claim
        .as_ref()
        .is_some_and(|claim| claim.phase == ClaimPhase::Bound);
    bound && matches!(disk.data_volume, None | Some(DataVolumePhase::Succeeded))
}

/// Whether CDI waits for a person.
fn by_hand(disk: &Disk) -> bool {
    matches!(
        disk.data_volume,
        Some(DataVolumePhase::UploadReady | DataVolumePhase::Paused)
    )
}

/// Whether data are on their way.
fn copies(phase: DataVolumePhase) -> bool {
    use DataVolumePhase::{
        CloneFromSnapshotSourceInProgress, CloneInProgress, CsiCloneInProgress, ImportInProgress, RebindInProgress,
        SnapshotForSmartCloneInProgress,
    };
    matches!(
        phase,
        ImportInProgress
            | CloneInProgress
            | CsiCloneInProgress
            | SnapshotForSmartCloneInProgress
            | CloneFromSnapshotSourceInProgress
            | RebindInProgress
    )
}
