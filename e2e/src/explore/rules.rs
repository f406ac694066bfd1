//! What must hold, in words of what is seen and of what is there: none of it asks the product.

use super::mind::{Tally, Wished};
use super::models::Model;
use super::objects::{Claim, Id, KINDS, Pod, Role};
use super::seen::{Seen, SeenClaim, SeenPod, Table};
use super::state::State;
use super::step::name;
use crate::world::objects::{ClaimPhase, DvPhase};
use crate::world::virt_controller::{VmiPhase, vm::RunStrategy};
use first_consumer::decide::{Decision, Effect, Turn};
use first_consumer::memory::Memory;
use first_consumer::name::Uid;
use first_consumer::reason::Reason;
use k8s_openapi::jiff::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;

/// How many pods may end without result, one after the other (design row 14).
pub const LAST_ATTEMPT: u8 = 10;

/// The how many-th a pod is.
const ATTEMPT: &str = "first-consumer.kubevirt.io/attempt";

/// What a replica sees when it takes a turn for a subject.
pub struct Sight<'a> {
    model: &'a Model,
    vm: usize,
    tables: [&'a Table; KINDS.len()],
}

impl<'a> Sight<'a> {
    pub fn new(model: &'a Model, vm: usize, tables: [&'a Table; KINDS.len()]) -> Self {
        Self { model, vm, tables }
    }

    fn seen(&self) -> impl Iterator<Item = &'a Seen> {
        self.tables.iter().flat_map(|table| &table.objects)
    }

    fn pods(&self) -> impl Iterator<Item = &'a Pod> {
        self.seen().filter_map(|seen| match seen {
            Seen::Pod(SeenPod(pod)) => Some(pod),
            _ => None,
        })
    }

    fn own_pod(&self) -> Option<&'a Pod> {
        self.pods()
            .find(|pod| matches!(pod.role, Role::Own { vm, .. } if usize::from(vm) == self.vm))
    }

    fn launcher(&self) -> bool {
        self.pods().any(|pod| {
            matches!(pod.role, Role::Launcher { vmi, .. } if vmi.index() == self.vm) && !pod.phase.is_final()
        })
    }

    fn owner(&self) -> Option<Id> {
        let vm = self.seen().find_map(|seen| match seen {
            Seen::Vm(vm) if vm.id.index() == self.vm => Some(vm.id),
            _ => None,
        });
        vm.or_else(|| {
            self.seen().find_map(|seen| match seen {
                Seen::Vmi(vmi) if vmi.id.index() == self.vm => Some(vmi.id),
                _ => None,
            })
        })
    }

    fn all_bound(&self) -> bool {
        let mut ours = self.claims().filter(|claim| self.lists(claim));
        ours.all(|claim| claim.phase == ClaimPhase::Bound)
    }

    fn claims(&self) -> impl Iterator<Item = &'a SeenClaim> {
        let claims = self.seen().filter_map(|seen| match seen {
            Seen::Claim(claim) => Some(claim),
            _ => None,
        });
        claims.filter(|claim| claim.id.slot % 2 == 0)
    }

    fn lists(&self, claim: &SeenClaim) -> bool {
        self.model.vms[self.vm].contains(&(claim.id.index() / 2))
    }

    /// What a pod would follow that is made now.
    pub fn wishes(&self) -> Wished {
        let edited = self.seen().any(|seen| match seen {
            Seen::Vm(vm) => vm.id.index() == self.vm && vm.edited,
            Seen::Vmi(vmi) => vmi.id.index() == self.vm && vmi.edited,
            _ => false,
        });
        let revision = self.seen().find_map(|seen| match seen {
            Seen::Vm(vm) if vm.id.index() == self.vm => vm.revision,
            _ => None,
        });
        let mut ours = self.claims().filter(|claim| self.lists(claim)).map(|claim| claim.id);
        let others = self.claims().filter(|claim| self.model.apart && !self.lists(claim));
        Wished {
            edited,
            revision,
            claims: std::array::from_fn(|_| ours.next()),
            taken: others
                .filter_map(|claim| claim.node)
                .fold(0, |bits, node| bits | 1 << node),
        }
    }

    /// The count, after what is seen now.
    pub fn tally(&self, before: Tally) -> Tally {
        let owner = self.owner();
        if owner != before.owner {
            return Tally {
                owner,
                ..Tally::default()
            };
        }
        if self.all_bound() {
            return Tally { made: 0, ..before };
        }
        before
    }
}

/// What a turn breaks.
pub fn of_turn(sight: &Sight, turn: &Turn, tally: Tally, memory: &Memory, now: Timestamp) -> Option<String> {
    let creates = matches!(turn.effect, Effect::Create(_));
    if sight.launcher() {
        if creates {
            return Some("no own pod while a launcher lives: one is made although a launcher is seen".into());
        }
        let kept = sight
            .own_pod()
            .filter(|pod| !pod.deleting && turn.effect == Effect::Nothing);
        if let Some(pod) = kept
            && !memory.has_deleted(&Uid::from(&*pod.id.uid()))
            && memory.silence(true, now).is_none()
        {
            return Some("no own pod while a launcher lives: ours is kept although a launcher is seen".into());
        }
    }
    let changed = tally.replaced && tally.wishes != Some(sight.wishes());
    if creates && tally.made > 0 && tally.lately && !changed {
        return Some("growing gaps: a second pod is made without any".into());
    }
    let sooner = memory.silence(false, now).is_some() || memory.settling(now).is_some();
    if turn.decision.reason == Reason::BackingOff && tally.lately && !sooner {
        let gap = turn.decision.wake_at.map(|at| at.duration_since(now));
        let least = Duration::from_secs(5 << tally.made.saturating_sub(1).min(5)).min(Duration::from_mins(5));
        if gap
            .and_then(|gap| Duration::try_from(gap).ok())
            .is_none_or(|gap| gap < least)
        {
            return Some(format!("growing gaps: after {} pods the gap is {gap:?}", tally.made));
        }
    }
    None
}

/// Whether a process that has just started would decide the same, timers aside.
pub fn of_restart(turn: &Decision, memory: &Memory, fresh: &Decision, now: Timestamp) -> Option<String> {
    // Our own write, which the watch will show to the next process as well.
    if memory.assumed(now).is_some() {
        return None;
    }
    // Only when that pod is replaced hangs on a timer, not whether.
    let ended = |decision: &Decision| decision.reason == Reason::PodFinished;
    let timed = |decision: &Decision| {
        (decision.wake_at.is_some() && !ended(decision))
            || matches!(
                decision.reason,
                Reason::BackingOff
                    | Reason::CreateRefused
                    | Reason::PodTerminating
                    | Reason::LeftToVirtController
                    // What virt-api has said has to be asked again.
                    | Reason::ExpansionPending
            )
    };
    let same = (turn.action, turn.reason) == (fresh.action, fresh.reason) || (ended(turn) && ended(fresh));
    (!same && !timed(turn) && !timed(fresh)).then(|| {
        format!(
            "a restart decides the same: {} {:?}, but after a restart {} {:?}",
            turn.reason, turn.action, fresh.reason, fresh.action
        )
    })
}

/// What a state breaks, whoever looks.
pub fn of_state(model: &Model, state: &State) -> Option<String> {
    let own = |vm: usize| {
        let of = move |pod: &&Pod| matches!(pod.role, Role::Own { vm: of, .. } if usize::from(of) == vm);
        state.pods.iter().filter(of).count()
    };
    if (0..state.vms.len()).any(|vm| own(vm) > 1) {
        return Some("never two own pods for a subject".into());
    }
    // What is being deleted will run nowhere.
    let nodes = |(slot, vm): (usize, &Vec<usize>)| {
        let alive = state.vms[slot].is_some_and(|vm| !vm.deleting);
        let claims = vm.iter().filter_map(|disk| state.claims[2 * disk].as_ref());
        let owned = |claim: &Claim| {
            state.dvs[claim.id.index() / 2]
                .as_ref()
                .is_some_and(|dv| dv.id == claim.owner)
        };
        let claims = claims.filter(|claim| alive && !claim.deleting && owned(claim));
        let nodes = claims.filter_map(|claim| state.volume(claim.id).map(|volume| volume.node).or(claim.node));
        nodes.collect::<BTreeSet<u8>>()
    };
    let mut taken = BTreeSet::new();
    let together = model.apart
        && model
            .vms
            .iter()
            .enumerate()
            .flat_map(nodes)
            .any(|node| !taken.insert(node));
    together.then(|| "anti-affine VMs: their disks are on one node".into())
}

/// What is wrong when nothing more happens.
pub fn at_rest(model: &Model, state: &State) -> Option<String> {
    // The last of many that have ended says that nobody tries any more.
    let gave_up = |pod: &Pod, vm: usize| {
        let attempt = pod
            .body
            .as_ref()
            .map(|body| &body.value["metadata"]["annotations"][ATTEMPT]);
        let attempt = attempt.and_then(|attempt| attempt.as_str()?.parse::<u8>().ok());
        pod.phase.is_final()
            && attempt.is_some_and(|attempt| attempt >= LAST_ATTEMPT)
            && served(state, vm)
            && waits(model, state, vm)
    };
    let own = |pod: &Pod| match pod.role {
        Role::Own { vm, .. } => Some(usize::from(vm)),
        _ => None,
    };
    let left = |pod: &&Pod| own(pod).is_some_and(|vm| !gave_up(pod, vm));
    if let Some(pod) = state.pods.iter().find(left) {
        return Some(format!(
            "no pod is left when nothing waits: {} stays for ever",
            name(pod.id)
        ));
    }
    // Whoever has the name of our pod stops us, and people are told.
    let taken = |vm: usize| {
        let lookalike = |pod: &Pod| matches!(pod.role, Role::Lookalike { vm: of } if usize::from(of) == vm);
        state.pods.iter().any(lookalike)
    };
    // Every own pod that is left by now says so.
    let given_up = |vm: usize| state.pods.iter().any(|pod| own(pod) == Some(vm));
    let stuck = |vm: &usize| !taken(*vm) && !given_up(*vm) && served(state, *vm) && waits(model, state, *vm);
    let stuck = (0..state.vms.len()).find(stuck);
    stuck.map(|vm| {
        format!(
            "a waiting claim is placed in the end: one of {} waits for ever",
            super::render::vm_name(vm)
        )
    })
}

/// Whether we, or for a started VM virt-controller, ought to serve it (design section 4).
fn served(state: &State, vm: usize) -> bool {
    state.vms[vm].is_some_and(|vm| {
        !vm.deleting
            && match vm.strategy {
                RunStrategy::Halted => vm.asks == Some(true),
                _ => true,
            }
    }) && state.vmis[vm].is_none_or(|vmi| !vmi.deleting && matches!(vmi.phase, VmiPhase::Unset | VmiPhase::Pending))
}

/// Whether a disk of it waits for a consumer while none is missing, and none can never be filled (row 6).
fn waits(model: &Model, state: &State, vm: usize) -> bool {
    let failed = |disk: &usize| state.dvs[*disk].as_ref().is_some_and(|dv| dv.phase == DvPhase::Failed);
    if model.vms[vm].iter().any(failed) {
        return false;
    }
    let claims = || model.vms[vm].iter().map(|disk| state.claims[2 * disk].as_ref());
    if claims().any(|claim| claim.is_none_or(|claim| claim.deleting || claim.phase == ClaimPhase::Lost)) {
        return false;
    }
    claims().flatten().any(|claim| {
        let disk = claim.id.index() / 2;
        let phase = state.dvs[disk].as_ref().map(|dv| dv.phase);
        let populates = state.claims[claim.id.index() + 1].is_some();
        claim.phase == ClaimPhase::Pending
            && claim.node.is_none()
            && !populates
            && matches!(phase, Some(DvPhase::WaitForFirstConsumer | DvPhase::PendingPopulation))
    })
}
