//! CDI's clone controller: the pod that reads the source of a host-assisted clone and writes into the upload server of
//! the claim that is copied to: the target on the legacy path, its tmp claim on the populator path (CDI reference 5, 6).

use super::{Origin, Write, clone::in_use};
use crate::world::objects::{Claim, ClaimPhase, Note, Pod, PodPhase};

/// How long it waits before it looks at the source again \[`clone-controller.go`: reconcileSourcePod\].
const LOOK_AGAIN: u64 = 2;

/// One reconcile of a claim that asks for a clone. `reader` is the pod that reads for it.
#[must_use]
pub fn next(claim: &Claim, origin: &Origin, reader: Option<&Pod>) -> Vec<Write> {
    let done = claim.worker.phase == Some(PodPhase::Succeeded);
    if claim.deleting || claim.cloned {
        let reads_on = |pod: &Pod| done && pod.phase == PodPhase::Running;
        let ended = reader.filter(|pod| !pod.deleting && !reads_on(pod));
        return ended.map(delete).into_iter().collect();
    }
    if claim.phase != ClaimPhase::Bound {
        return Vec::new();
    }
    // The upload server must be up [waitTargetPodRunningOrSucceeded].
    if claim.worker.ready != Some(true) && !done {
        return Vec::new();
    }
    match reader {
        None if !claim.reader_named => vec![Write::NameReader],
        None if !origin.there || !origin.populated => vec![Write::LookAgain { after: LOOK_AGAIN }],
        None if !origin.users.is_empty() => {
            let used = origin.users.iter().map(|pod| in_use(origin, pod));
            let told = used.map(|note| Write::Event { on_dv: false, note });
            told.chain([Write::LookAgain { after: LOOK_AGAIN }]).collect()
        }
        None => vec![Write::CreateReader],
        Some(pod) if done && pod.phase.is_final() => {
            let note = Note::normal("CloneSucceeded", "Clone Complete");
            vec![Write::MarkCloned, Write::Event { on_dv: false, note }]
        }
        Some(_) => Vec::new(),
    }
}

fn delete(pod: &Pod) -> Write {
    Write::DeleteReader { uid: pod.uid.clone() }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
