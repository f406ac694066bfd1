//! CDI's import and upload controllers: they act on a claim that carries a source's annotations, be it a DataVolume's
//! own claim (legacy path) or a prime (populator path). The upload controller also serves the claims of host-assisted
//! clones, where [`super::reader`] is the one who uploads. CDI reference 5, 7.2, 10.2 L3 to L9.

use super::{CREATING_SCRATCH, Settings, Which, Write};
use crate::world::objects::{Claim, ClaimPhase, Condition, Note, Pod, PodPhase, Source, Worker};

/// One reconcile of the claim. `worker` is the pod that it controls, `users` are the names of live pods that list it
/// ([`super::users`]).
#[must_use]
pub fn next(claim: &Claim, worker: Option<&Pod>, users: &[String], namespace: &str, settings: Settings) -> Vec<Write> {
    let Some(source) = claim.source else {
        return Vec::new();
    };
    let complete = claim.worker.phase == Some(PodPhase::Succeeded);
    if claim.deleting || complete {
        return worker.filter(|pod| !pod.deleting).map(delete).into_iter().collect();
    }
    if !may_start(claim, settings) {
        return note_newest_event(claim).into_iter().collect();
    }
    if claim.worker.fatal {
        return Vec::new();
    }
    let mut writes = Vec::new();
    let scratch_comes = claim.scratch == Some(ClaimPhase::Pending);
    if claim.phase == ClaimPhase::Bound && claim.bound_note.is_some() && !scratch_comes {
        writes.push(Write::NoteBound {
            on: Which::Target,
            message: None,
        });
    } else if claim.phase == ClaimPhase::Pending {
        writes.extend(note_newest_event(claim));
    }
    writes.extend(match worker {
        None => start(claim, source, users, namespace),
        Some(pod) => follow(claim, source, pod),
    });
    writes
}

/// \[`common/util.go`: IsWaitForFirstConsumerEnabled; `import-controller.go`: shouldReconcilePVC\]: while Pending only
/// if immediate binding was asked for, or the gate is off. The class is not looked at.
fn may_start(claim: &Claim, settings: Settings) -> bool {
    match claim.phase {
        ClaimPhase::Bound => true,
        ClaimPhase::Pending => claim.immediate || !settings.honor_late_binding,
        ClaimPhase::Lost => false,
    }
}

/// \[`common/util.go`: UpdatePVCBoundConditionFromEvents\]
fn note_newest_event(claim: &Claim) -> Option<Write> {
    let newest = &claim.events.last()?.message;
    (claim.phase == ClaimPhase::Pending && claim.bound_note.as_ref() != Some(newest)).then(|| Write::NoteBound {
        on: Which::Target,
        message: Some(newest.clone()),
    })
}

/// No worker yet. Pods that use the claim are met before the worker is even named \[reconcilePvc\].
fn start(claim: &Claim, source: Source, users: &[String], namespace: &str) -> Vec<Write> {
    if !users.is_empty() {
        let reason = if source.is_import() {
            "ImportTargetInUse"
        } else {
            "UploadTargetInUse"
        };
        let mut writes: Vec<_> = users
            .iter()
            .map(|pod| {
                let text = format!("pod {namespace}/{pod} using PersistentVolumeClaim {}", claim.name);
                Write::Event {
                    on_dv: false,
                    note: Note::warning(reason, text),
                }
            })
            .collect();
        writes.push(Write::RetryLater);
        return writes;
    }
    if !claim.worker_named {
        return vec![Write::NameWorker];
    }
    // Only a prime's worker is pinned [SetNodeNameIfPopulator].
    vec![Write::CreateWorker {
        node: claim.node.clone().filter(|_| claim.prime),
    }]
}

/// The API server refused the worker: quota, pod security, a service account that is not there yet
/// \[`common/util.go`: HandleFailedPod\]. Its own words are kept from the user.
#[must_use]
pub fn refused(claim: &Claim, name: &str, by_quota: bool) -> Vec<Write> {
    let reason = if by_quota { "ErrExceededQuota" } else { "ErrStartingPod" };
    let advice = "For more information, request access to cdi-deploy logs from your sysadmin";
    let text = format!("Error starting pod '{name}': {advice}");
    let noted = Worker {
        phase: Some(PodPhase::Failed),
        running: Some(Condition::new(false, reason, text.clone())),
        ..claim.worker.clone()
    };
    let mut writes = Vec::new();
    if noted != claim.worker {
        writes.push(Write::NoteWorker(noted));
    }
    let note = Note::warning(reason, text);
    writes.extend([Write::Event { on_dv: false, note }, Write::RetryLater]);
    writes
}

/// The worker is there: its scratch claim comes after it, its phase goes on the claim \[updatePvcFromPod,
/// createScratchPvcForPod\].
fn follow(claim: &Claim, source: Source, pod: &Pod) -> Vec<Write> {
    let mut writes = Vec::new();
    if source.needs_scratch() && claim.scratch.is_none() && !pod.phase.is_final() && !pod.deleting {
        let node = claim.node.clone().filter(|_| claim.prime);
        let message = Some(CREATING_SCRATCH.to_owned());
        writes.extend([
            Write::CreateScratch { node },
            Write::NoteBound {
                on: Which::Target,
                message,
            },
        ]);
    }
    let known = describe(claim, source, pod);
    if known == claim.worker {
        return writes;
    }
    let again = known.restarts > claim.worker.restarts;
    let (succeeded, failed) = (
        known.phase == Some(PodPhase::Succeeded),
        known.phase == Some(PodPhase::Failed),
    );
    writes.push(Write::NoteWorker(known));
    if succeeded && source.is_import() {
        writes.push(Write::Event {
            on_dv: false,
            note: Note::normal("ImportSucceeded", "Import Successful"),
        });
    } else if let Some((_, message)) = pod.error.as_ref().filter(|_| (again || failed) && source.is_import()) {
        writes.push(Write::Event {
            on_dv: false,
            note: Note::warning("ErrImportFailed", message.clone()),
        });
    }
    writes
}

/// \[`util.go`: setAnnotationsFromPodWithPrefix\]. The restarts of an earlier worker count, too.
fn describe(claim: &Claim, source: Source, pod: &Pod) -> Worker {
    let import = source.is_import();
    let failed = |text: &str| {
        let (reason, message) = pod
            .error
            .clone()
            .unwrap_or_else(|| ("Error".to_owned(), text.to_owned()));
        Condition::new(false, &reason, message)
    };
    let running = match pod.phase {
        PodPhase::Running if pod.error.is_none() => Some(Condition::new(true, "Pod is running", "")),
        PodPhase::Running => Some(failed("the worker starts again and again")),
        PodPhase::Succeeded => {
            let text = if import { "Import Complete" } else { "Upload Complete" };
            Some(Condition::new(false, "Completed", text))
        }
        PodPhase::Failed => Some(failed("the worker pod failed")),
        PodPhase::Pending | PodPhase::Unknown => None,
    };
    let wrong_data = pod.error.as_ref().is_some_and(|(reason, _)| reason == WRONG_DATA);
    Worker {
        phase: Some(pod.phase),
        ready: (!import).then_some(pod.ready),
        schedulable: import.then_some(pod.unschedulable.is_none()),
        running,
        restarts: pod.restarts.max(claim.worker.restarts),
        fatal: wrong_data && pod.phase == PodPhase::Failed,
    }
}

/// Why an import is not tried again: the data is not what was ordered.
pub const WRONG_DATA: &str = "ChecksumError";

fn delete(pod: &Pod) -> Write {
    Write::DeleteWorker {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "worker_failure_tests.rs"]
mod failure_tests;
