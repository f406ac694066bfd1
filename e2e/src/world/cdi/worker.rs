//! CDI's import and upload controllers: they act on a claim that carries a source's annotations, be it a DataVolume's
//! own claim (legacy path) or a prime (populator path). CDI reference 5, 7.2, 10.2 L3 to L9.

use super::{Settings, Which, Write};
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
    let mut writes = Vec::new();
    if claim.phase == ClaimPhase::Bound && claim.bound_note.is_some() {
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
        let reason = if source == Source::Upload {
            "UploadTargetInUse"
        } else {
            "ImportTargetInUse"
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

/// The worker is there: its phase goes on the claim \[updatePvcFromPod\].
fn follow(claim: &Claim, source: Source, pod: &Pod) -> Vec<Write> {
    let known = describe(source, pod);
    if known == claim.worker {
        return Vec::new();
    }
    let succeeded = known.phase == Some(PodPhase::Succeeded);
    let mut writes = vec![Write::NoteWorker(known)];
    if succeeded && source != Source::Upload {
        writes.push(Write::Event {
            on_dv: false,
            note: Note::normal("ImportSucceeded", "Import Successful"),
        });
    }
    writes
}

fn describe(source: Source, pod: &Pod) -> Worker {
    let upload = source == Source::Upload;
    let running = match pod.phase {
        PodPhase::Running => Some(Condition::new(true, "Pod is running", "")),
        PodPhase::Succeeded => {
            let text = if upload { "Upload Complete" } else { "Import Complete" };
            Some(Condition::new(false, "Completed", text))
        }
        PodPhase::Failed => Some(Condition::new(false, "Error", "the worker pod failed")),
        PodPhase::Pending | PodPhase::Unknown => None,
    };
    Worker {
        phase: Some(pod.phase),
        ready: upload.then_some(pod.ready),
        schedulable: (!upload).then_some(pod.unschedulable.is_none()),
        running,
    }
}

fn delete(pod: &Pod) -> Write {
    Write::DeleteWorker {
        name: pod.name.clone(),
        uid: pod.uid.clone(),
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
