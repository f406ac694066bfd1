//! A clone before its claim is made: it may have to wait for what it copies (CDI reference 2.2 rule 1, 2.7, 6).

use super::{Disk, Origin, Write};
use crate::world::objects::{DvPhase, Note, Source};

/// How long a clone without a size waits before it looks at its source again \[`pvc-clone-controller.go`:
/// sourceInUseRequeueDuration\].
const LOOK_AGAIN: u64 = 5;

/// Writes before the claim, and whether the claim is made now \[`pvc-clone-controller.go`: syncClone;
/// `snapshot-clone-controller.go`: syncSnapshotClone\].
pub(super) fn before_claim(disk: &Disk, populator: bool) -> (Vec<Write>, bool) {
    let Some(origin) = &disk.origin else {
        return (Vec::new(), true);
    };
    if missing(disk, origin, populator) {
        let kind = if disk.dv.source == Source::Pvc {
            "pvc"
        } else {
            "snapshot"
        };
        let text = format!("The source {kind} {} doesn't exist", origin.name);
        let note = Note::warning("CloneWithoutSource", text);
        return (vec![Write::Event { on_dv: true, note }], false);
    }
    if waits_for_size(disk, origin) {
        let used = origin.users.iter().map(|pod| in_use(origin, pod));
        let told = used.map(|note| Write::Event { on_dv: true, note });
        let again = Write::LookAgain { after: LOOK_AGAIN };
        return (told.chain([again]).collect(), false);
    }
    if disk.dv.source == Source::Snapshot && !populator {
        // What the copying pod can read is a claim [createTempHostAssistedSourcePvc].
        return (vec![Write::CreateRestored], true);
    }
    (Vec::new(), true)
}

/// The phase that the wait asks for; none if nothing is waited for.
pub(super) fn phase_before_claim(disk: &Disk) -> Option<DvPhase> {
    let origin = disk.origin.as_ref()?;
    let populator = disk.dv.populator.unwrap_or(disk.csi);
    if missing(disk, origin, populator) {
        return Some(disk.dv.status.phase);
    }
    waits_for_size(disk, origin).then_some(DvPhase::CloneScheduled)
}

/// Only the legacy path looks whether a snapshot exists, and after its size was found out.
fn missing(disk: &Disk, origin: &Origin, populator: bool) -> bool {
    let looked_at = disk.dv.source == Source::Pvc || !(populator || disk.dv.unsized_clone);
    looked_at && !origin.there
}

/// The size has to be found out, and the source is not ready for that \[detectCloneSize, isSourceReadyToClone\].
fn waits_for_size(disk: &Disk, origin: &Origin) -> bool {
    disk.dv.unsized_clone && !(origin.there && origin.populated && origin.users.is_empty())
}

/// A pod that holds a source up.
pub(super) fn in_use(origin: &Origin, pod: &str) -> Note {
    let Origin { namespace, name, .. } = origin;
    let text = format!("pod {namespace}/{pod} using PersistentVolumeClaim {name}");
    Note::warning("CloneSourceInUse", text)
}

#[cfg(test)]
#[path = "clone_tests.rs"]
mod tests;
