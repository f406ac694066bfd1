//! What people are told in Events on the VM (design section 9): which, and in what words.

use std::fmt;
use std::time::Duration;

use crate::claim::Claim;
use crate::decide::{Action, Decision};
use crate::memory::Outcome;
use crate::name::{Key, Uid, pod_name};
use crate::observe::Observed;
use crate::reason::Reason;

/// What happened, as the Event's reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Happening {
    /// The pod was created.
    FirstConsumerCreated,
    /// The pod waits; the note has the scheduler's own text.
    FirstConsumerWaiting,
    /// The API server refused the pod.
    FirstConsumerRefused,
    /// The pod ended without use.
    FirstConsumerFailed,
    /// The disks have their node.
    NodeChosen,
    /// The API server has confirmed the deletion of the pod.
    FirstConsumerDeleted,
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The object that an Event is about: the VM, or the VMI if there is no VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regarding {
    /// Group and version.
    pub api_version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Namespace and name.
    pub key: Key,
    /// UID.
    pub uid: Uid,
}

/// Something to tell about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The object.
    pub regarding: Regarding,
    /// Whether somebody should do something about it.
    pub warning: bool,
    /// What happened.
    pub happening: Happening,
    /// One sentence for a person.
    pub note: String,
    /// The decision behind it, which becomes an annotation that `explain` reads.
    pub decision: Reason,
}

/// What to say about a decision as such. The same decision gives the same words, which are said once.
#[must_use]
pub fn of_decision(decision: &Decision, observed: &Observed) -> Option<Announcement> {
    let happening = match (decision.reason, decision.action) {
        (Reason::Unschedulable | Reason::SchedulingGated, _) => Happening::FirstConsumerWaiting,
        (Reason::CreateRefused | Reason::NameTaken | Reason::CannotRender, _) => Happening::FirstConsumerRefused,
        (Reason::PodFinished, Action::Keep) | (Reason::GaveUp, _) => Happening::FirstConsumerFailed,
        _ => return None,
    };
    Some(Announcement {
        regarding: regarding(observed)?,
        warning: true,
        happening,
        note: decision.message(),
        decision: decision.reason,
    })
}

/// What to say when an action has succeeded. `lived` is how long the deleted pod was there.
#[must_use]
pub fn of_outcome(
    outcome: &Outcome,
    decision: &Decision,
    observed: &Observed,
    lived: Option<Duration>,
) -> Vec<Announcement> {
    // Without VM and VMI there is nothing that an Event could be about.
    let Some(regarding) = regarding(observed) else {
        return Vec::new();
    };
    let say = |happening, note| Announcement {
        regarding: regarding.clone(),
        warning: false,
        happening,
        note,
        decision: decision.reason,
    };
    let pod = pod_name(&observed.subject);
    match outcome {
        Outcome::Created(_) => {
            vec![say(
                Happening::FirstConsumerCreated,
                format!("Created pod {pod}; {}", decision.message()),
            )]
        }
        Outcome::Deleted { .. } => {
            let after = lived
                .map(|lived| format!(" after {} ms", lived.as_millis()))
                .unwrap_or_default();
            let deleted = format!("Deleted pod {pod}{after}: {}", decision.reason.text());
            let chosen = (decision.reason == Reason::Served).then(|| chosen(observed)).flatten();
            let chosen = chosen.map(|note| say(Happening::NodeChosen, note));
            chosen
                .into_iter()
                .chain([say(Happening::FirstConsumerDeleted, deleted)])
                .collect()
        }
        Outcome::Refused(_) | Outcome::Unanswered(_) => Vec::new(),
    }
}

fn regarding(observed: &Observed) -> Option<Regarding> {
    let owner = observed.owner.as_ref()?;
    Some(Regarding {
        api_version: "kubevirt.io/v1",
        kind: owner.kind,
        key: observed.subject.clone(),
        uid: owner.uid.clone(),
    })
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
