//! What the controller would decide about a subject, or has: a person may see less than the controller, and only the
//! controller remembers.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::Scene;
use crate::announce::Happening;
use crate::api::Event;
use crate::claim::Claim;
use crate::decide::{Action, Decision, Settings, Turn, decide, turn};
use crate::index::Index;
use crate::lifecycle::State;
use crate::name::{DOMAIN, Key};
use crate::observe::{Further, Observed};
use crate::policy::{Permission, Policy};
use crate::reason::{Reason, WATCH_NAMESPACE};

/// What is decided about a subject, as far as it can be known here.
pub(super) struct Decided {
    pub observed: Observed,
    pub decision: Decision,
    /// What the VM asks for depends on an instancetype or preference, and nobody has asked virt-api.
    pub unasked: bool,
    /// Whether somebody has to carry it out: a pod is to be created or deleted, which only the controller does.
    pub due: bool,
}

pub(super) fn decided(scene: &Scene, subject: &Key, now: Timestamp) -> Decided {
    let settings = Settings {
        policy: scene.controller.policy,
        ..Settings::default()
    };
    let mut memory = scene.memories.get(subject).cloned().unwrap_or_default();
    let Turn {
        mut observed,
        mut decision,
        ..
    } = turn(&scene.index, subject, &settings, &mut memory, now);
    let inputs = observed.unexpanded.as_ref();
    let failure = inputs.and_then(|inputs| memory.expansion.failure(inputs));
    let unexpanded = inputs.is_some();
    let unasked = unexpanded && failure.is_none();
    let unanswered = failure.is_some_and(|failure| !failure.refused) && observed.own_pod().is_some();
    if unasked || unanswered || (!unexpanded && !scene.index.unseen().is_empty()) {
        // What the VM will ask for is not known here: the controller is taken at its word about its pod.
        observed.placement = None;
        if unexpanded {
            let further = further(&scene.index, &observed);
            observed.further.extend(further);
        }
        decision = decide(&observed, &memory, now);
    }
    if let Some(watched) = scene.controller.elsewhere(subject) {
        if observed.permission != Permission::No(Reason::MigrationTarget) {
            observed.permission = Permission::No(Reason::SwitchedOff);
        }
        decision = decide(&observed, &memory, now);
        if decision.reason == Reason::SwitchedOff {
            decision.about = format!("{WATCH_NAMESPACE} is {watched}");
        }
    }
    let mut decision = told(scene, &observed, decision);
    if decision.reason == Reason::LeftToVirtController {
        decision.about = left_alone(observed.state, scene.controller.policy);
    }
    Decided {
        due: is_due(&decision, &observed),
        observed,
        decision,
        unasked,
    }
}

/// See [`Decided::due`]. The pod of a VM that goes is deleted with it.
fn is_due(decision: &Decision, observed: &Observed) -> bool {
    let pod = observed.own_pod().is_some_and(|pod| !pod.terminating);
    match decision.action {
        Action::Create | Action::Replace => true,
        Action::None | Action::Wait => {
            decision.reason == Reason::BackingOff || (pod && decision.reason != Reason::SubjectDeleted)
        }
        Action::Keep => false,
    }
}

/// What the own pod lists beside the boot claims: a preference may ask for a state claim.
fn further(index: &Index, observed: &Observed) -> Vec<Further> {
    let known = observed.listed();
    let of_pod = observed.own_pod().into_iter().flat_map(|pod| &pod.claims);
    let boots = |claim: &&Claim| observed.disks.iter().any(|disk| disk.name == claim.name);
    let further = of_pod.filter(|claim| !boots(claim) && known.iter().all(|other| other.name != claim.name));
    further
        .map(|claim| Further::new(index, &observed.subject, claim.clone()))
        .collect()
}

/// Why a subject is left to virt-controller.
fn left_alone(state: State, policy: Policy) -> String {
    match state {
        State::Starting | State::Pending => {
            let after = SignedDuration::try_from(policy.fallback_after).unwrap_or(SignedDuration::MAX);
            format!("it is started, and served from here if it still waits after {after:#}")
        }
        State::Unknown => "spec.running and spec.runStrategy name no run strategy that is known".to_owned(),
        State::Final => "its VMI has ended".to_owned(),
        State::Halted | State::Running | State::Deleting => String::new(),
    }
}

/// The controller's last word, where only it can know: what we would have made has been refused, or comes later because
/// the one before has ended. Its Events carry the decision as an annotation.
fn told(scene: &Scene, observed: &Observed, decision: Decision) -> Decision {
    if decision.reason != Reason::FirstConsumerNeeded {
        return decision;
    }
    let Some(owner) = &observed.owner else {
        return decision;
    };
    let ours = scene.evidence.events.iter().filter(|event| {
        // Such an Event speaks of a disk, whatever was decided.
        let speaks = *event.reason != *Happening::DiskStuck.to_string();
        speaks && event.component() == "first-consumer" && event.about(owner.kind, &observed.subject, &owner.uid.0)
    });
    let last = ours.max_by_key(|event| event.last());
    let reason = |event: &Event| {
        event
            .metadata
            .annotation(&format!("{DOMAIN}/reason"))
            .map(str::to_owned)
    };
    let (action, reason) = match last.and_then(reason).as_deref() {
        Some("CreateRefused") => (Action::Wait, Reason::CreateRefused),
        Some("PodFinished") => (Action::Wait, Reason::BackingOff),
        // Only where it can't be told from here.
        Some("ExpansionPending") if observed.placement.is_none() => (Action::Wait, Reason::ExpansionPending),
        Some("CannotRender") if observed.placement.is_none() => (Action::None, Reason::CannotRender),
        _ => return decision,
    };
    // The note is the reason's text and what it speaks of.
    let note = last.map(|event| &*event.message).unwrap_or_default();
    let about = note.strip_prefix(reason.text()).unwrap_or(note);
    Decision {
        action,
        reason,
        about: about.trim_start_matches(": ").to_owned(),
        wake_at: None,
    }
}
