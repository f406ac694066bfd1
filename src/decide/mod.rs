//! [`Observed`], [`Memory`] and the time to a [`Decision`]: design section 5, row by row.
//!
//! `rows` and `rows_after` hold one function a row, in the order of the design's table. The first that speaks decides; row
//! 18 is what remains. In four rows more is done than the table says, and the function says why: a pod stays for a peer
//! that does not know of its node (7, 11), goes if it knows too few peers while the template is expanded (12), and stays as
//! the last of ten that have ended (14).

mod rivals;
mod rows;
mod rows_after;
#[cfg(test)]
mod tests;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::index::{Index, Standing};
use crate::memory::Memory;
use crate::name::{Key, Uid, pod_name};
use crate::observe::{Named, Observed, observe, own_pod};
use crate::pod::{self, Blueprint, build};
use crate::policy::{MadeFor, Permission, Policy};
use crate::reason::Reason;

use rows::{ROWS_BEFORE_RIVALS, ROWS_OF_RIVALS};
use rows_after::ROWS_AFTER;

/// What to do about the subject's pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// No pod: the subject is not, or no longer, ours to help.
    None,
    /// No pod for now: something has to happen first.
    Wait,
    /// One shall be made.
    Create,
    /// The one that is there stays.
    Keep,
    /// The one that is there makes room for another.
    Replace,
}

/// One action and one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// Why.
    pub reason: Reason,
    /// What the reason speaks of: a disk, a pod, somebody's own words. Empty if nothing in particular.
    pub about: String,
    /// When to decide again though nothing changes.
    pub wake_at: Option<Timestamp>,
}

impl Decision {
    /// The reason's text and what it speaks of, in one line.
    #[must_use]
    pub fn message(&self) -> String {
        match &*self.about {
            "" => self.reason.text().into(),
            about => format!("{}: {about}", self.reason.text()),
        }
    }
}

fn none(reason: Reason, about: &str) -> Decision {
    Decision {
        action: Action::None,
        reason,
        about: about.into(),
        wake_at: None,
    }
}

fn keep(reason: Reason, about: &str) -> Decision {
    Decision {
        action: Action::Keep,
        ..none(reason, about)
    }
}

fn wait(reason: Reason, about: &str) -> Decision {
    Decision {
        action: Action::Wait,
        ..none(reason, about)
    }
}

/// What a decision asks of the API server, with its preconditions.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// Create this pod; never overwrite one.
    Create(Box<Value>),
    /// Delete the pod of this name, if it still has this UID.
    Delete {
        /// Its name.
        name: String,
        /// Its UID.
        uid: Uid,
        /// See [`crate::memory::Outcome::Deleted`].
        replaced: bool,
    },
    /// Have the VM's template expanded. Reads only, and the decision is taken again with the result.
    Expand {
        /// Of what ([`Observed::unexpanded`]).
        inputs: String,
    },
}

/// Decides about what is observed. Pure: the same input gives the same decision.
#[must_use]
pub fn decide(observed: &Observed, memory: &Memory, now: Timestamp) -> Decision {
    let case = rows::Case { observed, memory, now };
    let mut rows = ROWS_BEFORE_RIVALS.iter().chain(&ROWS_OF_RIVALS).chain(&ROWS_AFTER);
    let first = rows.find_map(|row| row(&case));
    first.unwrap_or_else(|| rows::first_consumer_needed(&case))
}

/// What the controller's flags say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whom it serves.
    pub policy: Policy,
    /// How its pods look.
    pub pod: pod::Settings,
}

/// One turn for a subject.
#[derive(Clone, Debug)]
pub struct Turn {
    /// What was observed.
    pub observed: Observed,
    /// What was decided.
    pub decision: Decision,
    /// What has to be done now so that it becomes true.
    pub effect: Effect,
    /// What others have to know of it ([`Index::note`]), whether or not the effect succeeds.
    pub standing: Option<Standing>,
}

/// Looks at the caches and at what is remembered, and decides.
pub fn turn(index: &Index, subject: &Key, settings: &Settings, memory: &mut Memory, now: Timestamp) -> Turn {
    let mut observed = observe(index, subject, settings.policy, memory.expansion.last());
    let mut believed_until = None;
    match (&observed.pod, memory.assumed(now)) {
        // The claims may be placed before the watch has shown our own pod.
        (Named::Nobody, Some((pod, until))) => {
            observed.pod = Named::Own(Box::new(own_pod(index, subject, pod)));
            believed_until = Some(until);
        }
        _ => memory.forget_assumed(),
    }
    observed.look_around(index);
    memory.update(&observed, now);
    observed.rival = rivals::rival(index, &observed, memory, settings.policy, now);
    let mut decision = decide(&observed, memory, now);
    let mut effect = effect(&decision, &observed, memory, &settings.pod, now);
    let silent_until = memory.silence(observed.own_pod().is_some(), now);
    let settling = memory.settling(now).filter(|_| !observed.peers.others.is_empty());
    let going = match (&effect, observed.own_pod()) {
        // Until it is gone, the scheduler goes by what it says.
        (Effect::Delete { .. }, Some(pod)) if observed.awaits_node() => Some(pod.marks.domains.clone()),
        _ => settling.map(|_| observed.peers.domains.clone()),
    };
    let standing = rivals::standing(&decision, &observed, silent_until.is_some(), going);
    if silent_until.is_some() {
        effect = Effect::Nothing;
    }
    decision.wake_at = [decision.wake_at, believed_until, silent_until, settling]
        .into_iter()
        .flatten()
        .min();
    Turn {
        observed,
        decision,
        effect,
        standing,
    }
}

/// What has to be done so that the decision becomes true.
fn effect(
    decision: &Decision,
    observed: &Observed,
    memory: &Memory,
    settings: &pod::Settings,
    now: Timestamp,
) -> Effect {
    let pod = observed
        .own_pod()
        .filter(|pod| !pod.terminating && !memory.has_deleted(&pod.uid));
    match (decision.action, pod) {
        (Action::None | Action::Wait | Action::Replace, Some(pod)) => Effect::Delete {
            name: pod_name(&observed.subject),
            uid: pod.uid.clone(),
            replaced: matches!(
                decision.reason,
                Reason::OwnerReplaced | Reason::PlacementChanged | Reason::DisksChanged
            ),
        },
        (Action::Create, None) => new_pod(observed, memory, decision.reason, settings),
        (Action::None | Action::Wait | Action::Create | Action::Keep | Action::Replace, _) => {
            let rendered = matches!(decision.reason, Reason::ExpansionPending | Reason::CannotRender);
            let inputs = observed.unexpanded.as_ref().filter(|_| rendered);
            let due = inputs.filter(|inputs| memory.expansion.due(inputs, now));
            due.map_or(Effect::Nothing, |inputs| Effect::Expand { inputs: inputs.clone() })
        }
    }
}

fn new_pod(observed: &Observed, memory: &Memory, reason: Reason, settings: &pod::Settings) -> Effect {
    let (Some(owner), Some(Ok(placement))) = (&observed.owner, &observed.placement) else {
        return Effect::Nothing;
    };
    let pod = build(&Blueprint {
        subject: &observed.subject,
        owner,
        made_for: made_for(observed.permission),
        labels: &observed.labels,
        placement,
        domains: &observed.peers.domains,
        claims: &observed.listed(),
        reason,
        attempt: memory.next_attempt(),
        settings,
    });
    Effect::Create(Box::new(pod))
}

/// What a pod that is made now would be made for.
fn made_for(permission: Permission) -> MadeFor {
    match permission {
        Permission::Now(made_for) => made_for,
        Permission::After(_) | Permission::No(_) => MadeFor::Started,
    }
}
