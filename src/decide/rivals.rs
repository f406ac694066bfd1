//! Row 11: who else could act on the same claim, or must not choose at the same time.

use k8s_openapi::jiff::Timestamp;

use super::rows::{Case, ROWS_BEFORE_RIVALS};
use super::rows_after::{is_stuck, stuck};
use crate::index::{Index, Standing};
use crate::memory::Memory;
use crate::name::Key;
use crate::observe::{Observed, OwnPod, Rival, observe};
use crate::placement::Domains;
use crate::policy::{MadeFor, Permission, Policy};
use crate::reason::Reason;

use super::{Action, Decision};

/// Whom the subject has to let go first.
pub(super) fn rival(
    index: &Index,
    observed: &Observed,
    memory: &Memory,
    policy: Policy,
    now: Timestamp,
) -> Option<Rival> {
    let acts = observed.needs() && !matches!(observed.permission, Permission::No(_));
    if !acts || stuck(&Case { observed, memory, now }) {
        return None;
    }
    sharer(index, observed, policy).or_else(|| peer(index, observed, policy, now))
}

/// Another subject whose pod would list a claim in need that ours lists, and that goes first: a started one before a
/// halted one, then by name; but one that can't act is passed over, and what it was passed over for has to go before it
/// comes back.
fn sharer(index: &Index, observed: &Observed, policy: Policy) -> Option<Rival> {
    let subject = &observed.subject;
    let needing = observed.listed().into_iter().filter(|claim| claim.needs);
    let mut sharers = needing.flat_map(|claim| index.sharers(subject, &claim.name).map(|other| (other, &claim.name)));
    let place = |observed: &Observed| (!started(observed.permission), observed.subject.clone());
    let goes_first = |other: &Key, claim: &str| {
        let standing = index.standing(other);
        let other = observe(index, other, policy, None);
        if !other.needs() || other.listed().iter().all(|listed| *listed.name != *claim) {
            return false;
        }
        if place(&other) > place(observed) {
            let acts = matches!(standing, Some(Standing::Acting(_))) || other.own_pod().is_some_and(OwnPod::waits);
            return acts && observed.own_pod().is_none();
        }
        // One that is left to virt-controller for a while acts in the end, so it goes first at once.
        !matches!(standing, Some(Standing::Stuck)) && could_act(&other, Timestamp::MAX)
    };
    sharers
        .find(|(other, claim)| goes_first(other, claim))
        .map(|(other, claim)| Rival::Shares {
            subject: other.clone(),
            claim: claim.clone(),
        })
}

/// An anti-affine peer whose pod is about to get its node, or one with a smaller name that is about to make its pod. With
/// a pod of our own nobody goes first, since the scheduler sees both; but one that could go to more places is not replaced
/// just then: it may still get a node on its way out, and the peer's would follow it there.
fn peer(index: &Index, observed: &Observed, policy: Policy, now: Timestamp) -> Option<Rival> {
    let own = observed.own_pod();
    if own.is_some_and(|pod| pod.terminating || pod.finished() || !observed.too_strict) {
        return None;
    }
    let goes_first = |other: &Key| {
        let standing = index.standing(other);
        let state = observe(index, other, policy, None);
        if !state.needs() {
            return false;
        }
        let by_name = own.is_none() && *other < observed.subject;
        match (standing, state.own_pod()) {
            (Some(Standing::Acting(_)), _) => true,
            (Some(Standing::HeldBack | Standing::Stuck), _) => false,
            (None, pod) => pod.is_some_and(OwnPod::in_flight) || (by_name && could_act(&state, now)),
        }
    };
    let first = observed.peers.others.iter().find(|other| goes_first(other));
    first.cloned().map(Rival::Peer)
}

/// Whether the rows before this one let the subject pass, and none after it says that it can't act.
fn could_act(observed: &Observed, now: Timestamp) -> bool {
    let case = Case {
        observed,
        memory: &Memory::default(),
        now,
    };
    observed.needs() && !stuck(&case) && ROWS_BEFORE_RIVALS.iter().all(|row| row(&case).is_none())
}

fn started(permission: Permission) -> bool {
    matches!(permission, Permission::Now(MadeFor::Started) | Permission::After(_))
}

/// What others have to know of a decision that the objects do not show them. `silent` says that nothing is written for
/// now, `going` where a pod may still get its node although it is being deleted, or just has been: not in these domains.
pub(super) fn standing(
    decision: &Decision,
    observed: &Observed,
    silent: bool,
    going: Option<Domains>,
) -> Option<Standing> {
    match (decision.action, decision.reason) {
        (Action::Create, _) if silent => Some(Standing::HeldBack),
        (Action::Create, _) => Some(Standing::Acting(observed.peers.domains.clone())),
        (Action::Keep, Reason::WaitingForPeer) if !observed.own_pod().is_some_and(OwnPod::in_flight) => {
            Some(Standing::HeldBack)
        }
        (Action::Keep, Reason::WaitingForScheduler | Reason::WaitingForVolumes | Reason::WaitingForPeer) => {
            let known = observed.own_pod().map(|pod| pod.marks.domains.clone());
            Some(Standing::Acting(known.unwrap_or_default()))
        }
        _ if going.is_some() => going.map(Standing::Acting),
        (_, reason) if is_stuck(reason) => Some(Standing::Stuck),
        (
            _,
            Reason::SharedDiskServedElsewhere
            // Else the peer that is about to act would wait for it, and so on.
            | Reason::WaitingForPeer
            | Reason::ExpansionPending
            | Reason::PodFinished
            | Reason::Unschedulable
            | Reason::SchedulingGated
            | Reason::BackingOff,
        ) => Some(Standing::HeldBack),
        _ => None,
    }
}
