//! What people are told in Events on the VM (design section 9): which, and in what words.

use crate::claim::Claim;
use crate::decide::{Action, Decision};
use crate::memory::Outcome;
use crate::observe::Observed;
use crate::reason::Reason;

/// An Event to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The Event's reason.
    pub event: &'static str,
    /// Whether something is wrong.
    pub warning: bool,
    /// The Event's message.
    pub note: String,
    /// The decision's reason, for `explain`.
    pub reason: Reason,
}

/// What to say about a decision as such. The same decision gives the same words, which the publisher says once.
#[must_use]
pub fn of_decision(decision: &Decision) -> Option<Announcement> {
    let say = |event| {
        Some(Announcement {
            event,
            warning: true,
            note: decision.message(),
            reason: decision.reason,
        })
    };
    match (decision.reason, decision.action) {
        (Reason::Unschedulable | Reason::SchedulingGated, _) => say("FirstConsumerWaiting"),
        (Reason::CreateRefused | Reason::NameTaken | Reason::CannotRender, _) => say("FirstConsumerRefused"),
        (Reason::PodFinished, Action::Keep) | (Reason::GaveUp, _) => say("FirstConsumerFailed"),
        _ => None,
    }
}

/// What to say when an action has succeeded. `lived` is how long the deleted pod was there, in milliseconds.
#[must_use]
pub fn of_outcome(
    outcome: &Outcome,
    decision: &Decision,
    observed: &Observed,
    lived: Option<i64>,
) -> Vec<Announcement> {
    let say = |event, note| Announcement {
        event,
        warning: false,
        note,
        reason: decision.reason,
    };
    let pod = crate::name::pod_name(&observed.subject);
    match outcome {
        Outcome::Created(_) => vec![say(
            "FirstConsumerCreated",
            format!("Created pod {pod}; {}", decision.message()),
        )],
        Outcome::Deleted { .. } => {
            let after = lived
                .map(|milliseconds| format!(" after {milliseconds} ms"))
                .unwrap_or_default();
            let deleted = say(
                "FirstConsumerDeleted",
                format!("Deleted pod {pod}{after}: {}", decision.reason.text()),
            );
            let chosen = (decision.reason == Reason::Served).then(|| chosen(observed)).flatten();
            chosen
                .map(|note| say("NodeChosen", note))
                .into_iter()
                .chain([deleted])
                .collect()
        }
        Outcome::Refused(_) | Outcome::Unanswered(_) => Vec::new(),
    }
}

/// Which disks got which node from the pod. Statically provisioned ones carry no node, only a volume.
fn chosen(observed: &Observed) -> Option<String> {
    let claims = || {
        observed
            .own_pod()
            .into_iter()
            .flat_map(|pod| &pod.claims)
            .filter(|claim| claim.late)
    };
    let node = claims().find_map(|claim| claim.selected_node.clone());
    let names: Vec<&str> = claims().map(|claim: &Claim| &*claim.name).collect();
    let place = node.map_or_else(|| "Volumes".to_owned(), |node| format!("Node {node}"));
    (!names.is_empty()).then(|| format!("{place} chosen for {}", names.join(", ")))
}
