//! What is wrong after the hand-over, where the decision can't help: design section 5, "Diagnose". It never acts.
//!
//! `disks`, `workers` and `places` hold one function a diagnosis. Of a disk the first that speaks counts; about the VM all count.

mod disks;
mod places;
#[cfg(test)]
mod tests;
mod wishes;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::api::{Event, Pod, Scheduled, View as _};
use crate::index::Index;
use crate::lifecycle::State;
use crate::memory::{Onsets, Topic};
use crate::name::Key;
use crate::observe::{Disk, Observed};
use crate::reason::{Known, Reason, Stuck, Trouble};

pub use wishes::{Lack, NodeWishes};

/// How long a claim may be missing, or a disk that is to be filled be in the way, before somebody is told.
const HELD_UP_FOR: Duration = Duration::from_mins(1);

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub trouble: Trouble,
    /// The claim of the disk that it is about; empty if it is about the VM.
    pub disk: Arc<str>,
    /// What it speaks of: names, and the words of whoever knows.
    pub about: String,
    /// The name of what is in the way ([`Stuck::object`]).
    object: String,
    known: Known,
    /// If it is about the VM, the claims that it is about all the same.
    others: Vec<Arc<str>>,
}

impl Finding {
    /// What is wrong, in one line.
    #[must_use]
    pub fn message(&self) -> String {
        match &*self.about {
            "" => self.trouble.text().into(),
            about => format!("{}: {about}", self.trouble.text()),
        }
    }

    /// The claims of the disks that it is about.
    fn disks(&self) -> impl Iterator<Item = &str> {
        let one = Some(&*self.disk).filter(|disk| !disk.is_empty());
        one.into_iter().chain(self.others.iter().map(AsRef::as_ref))
    }
}

/// What is wrong with a subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    /// The first is the cause to be shown.
    pub findings: Vec<Finding>,
    /// Whether a disk without a claim, or one that has to be filled first, has been in the way for so long that somebody has
    /// to be told. The decision says which.
    pub held_up: bool,
    /// When to look again though nothing changes: then something will have lasted too long.
    pub wake_at: Option<Timestamp>,
}

impl Diagnosis {
    /// The cause to be shown instead of the decision's reason. Where both speak, it is the diagnosis: the decision only
    /// says why there is no pod.
    #[must_use]
    pub fn cause(&self, decision: Reason) -> Option<&Finding> {
        self.findings.first().filter(|_| decision != Reason::DiskDeleted)
    }

    /// What a person can do about a finding, for all disks of which the same is true.
    #[must_use]
    pub fn next(&self, finding: &Finding, namespace: &str) -> String {
        let Finding {
            trouble, object, known, ..
        } = finding;
        let same = |other: &&Finding| (&other.trouble, &other.object, &other.known) == (trouble, object, known);
        let disks = self.findings.iter().filter(same).flat_map(Finding::disks);
        trouble.next(Stuck {
            namespace,
            disks: &disks.collect::<Vec<_>>(),
            object,
            known: *known,
        })
    }

    /// Whether something has lasted too long; if not yet, it is looked at again in time. Unknown is long enough.
    fn lasts(&mut self, since: Option<Timestamp>, grace: Duration, now: Timestamp) -> bool {
        let due = since.map(|since| since.checked_add(grace).unwrap_or(Timestamp::MAX));
        let due = due.filter(|due| now < *due);
        self.wake_at = [self.wake_at, due].into_iter().flatten().min();
        due.is_none()
    }
}

/// What `explain` knows beside the caches. The controller reads none of it.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Events of the last hour.
    pub events: Vec<Event>,
    /// Whether CDI honours `WaitForFirstConsumer`, if the CDIConfig could be read.
    pub gate: Option<bool>,
}

/// The input of every diagnosis.
struct Case<'a> {
    index: &'a Index,
    observed: &'a Observed,
    evidence: &'a Evidence,
    watched: Option<&'a Onsets>,
}

/// Something that is wrong if it lasts.
struct Suspicion {
    finding: Finding,
    since: Since,
    /// How long it may last.
    grace: Duration,
}

/// Since when something has been so.
enum Since {
    /// It is wrong at once.
    Always,
    /// An object says it.
    Told(Option<Timestamp>),
    /// Only who has watched it knows; not before this, as far as the objects tell.
    Seen(Option<Timestamp>),
}

type OfDisk = fn(&Case, &Disk) -> Option<Suspicion>;
type OfSubject = fn(&Case) -> Option<Suspicion>;

/// Of a disk the first that speaks counts.
const OF_DISKS: [OfDisk; 19] = [
    disks::cdi_missing,
    disks::storage_class_missing,
    disks::claim_refused,
    disks::source_missing,
    places::selected_node_missing,
    places::selected_node_not_ready,
    disks::provisioning_failed,
    disks::provisioner_silent,
    disks::node_given_back,
    disks::populator_silent,
    disks::population_refused,
    disks::not_populated,
    workers::worker_refused,
    workers::launcher_blocks_import,
    workers::worker_unschedulable,
    workers::worker_failing,
    workers::worker_not_starting,
    workers::gate_off,
    workers::worker_missing,
];

const OF_SUBJECTS: [OfSubject; 7] = [
    places::pod_held,
    workers::misplaced_by_gate,
    places::scheduler_silent,
    places::scheduler_does_not_bind,
    places::disks_conflict,
    places::bound_where_vm_cannot_run,
    places::launcher_unschedulable,
];

/// Looks at what is observed. `onsets` is what the controller has watched; without it, everything that no object dates
/// counts as long ago as it can be. Pure: the same input gives the same diagnosis.
#[must_use]
pub fn diagnose(
    index: &Index,
    observed: &Observed,
    evidence: &Evidence,
    mut onsets: Option<&mut Onsets>,
    now: Timestamp,
) -> Diagnosis {
    if let Some(onsets) = &mut onsets {
        onsets.follow(observed.claims());
    }
    let case = Case {
        index,
        observed,
        evidence,
        watched: onsets.as_deref(),
    };
    let suspicions = if observed.owner.is_none() || observed.state == State::Deleting || observed.namespace_terminating
    {
        Vec::new()
    } else {
        suspicions(&case)
    };
    let missing = observed.disks.iter().any(|disk| disk.claim.is_none());
    let held_up = match observed.owner {
        Some(_) if missing => Some(Topic::ClaimMissing),
        Some(_) if observed.needs() && observed.awaits_worker().is_some() => Some(Topic::SiblingImporting),
        _ => None,
    };
    let seen = suspicions.iter().filter_map(Suspicion::topic);
    let is_held_up = held_up.is_some();
    let topics: Vec<Topic> = held_up.into_iter().chain(seen).collect();
    let mut seen = onsets.map(|onsets| onsets.hold(topics, now).into_iter());
    let mut diagnosis = Diagnosis::default();
    if is_held_up {
        diagnosis.held_up = diagnosis.lasts(seen.as_mut().and_then(Iterator::next), HELD_UP_FOR, now);
    }
    for suspicion in suspicions {
        let since = match (suspicion.since, &mut seen) {
            (Since::Always, _) => None,
            (Since::Seen(_), Some(seen)) => seen.next(),
            (Since::Told(since) | Since::Seen(since), _) => since,
        };
        if diagnosis.lasts(since, suspicion.grace, now) {
            diagnosis.findings.push(suspicion.finding);
        }
    }
    // Stable: disks stay in the order of the spec.
    diagnosis.findings.sort_by_key(|finding| finding.trouble);
    diagnosis
}

/// What is wrong or may become so, one entry a disk and any number about the VM.
fn suspicions(case: &Case) -> Vec<Suspicion> {
    let of_disk = |disk: &Disk| OF_DISKS.iter().find_map(|look| look(case, disk));
    let of_disks = case.observed.disks.iter().filter_map(of_disk);
    let of_subject = OF_SUBJECTS.iter().filter_map(|look| look(case));
    of_disks.chain(of_subject).collect()
}

impl Case<'_> {
    /// The key of a disk's claim and DataVolume.
    fn key(&self, disk: &Disk) -> Key {
        self.observed.subject.sibling(&disk.name)
    }

    /// The Events about an object of the subject's Namespace.
    fn events<'e>(&'e self, kind: &'e str, key: &'e Key, uid: &'e str) -> impl Iterator<Item = &'e Event> {
        let events = self.evidence.events.iter();
        events.filter(move |event| event.about(kind, key, uid))
    }

    /// Whether the controller has said so in an Event about the subject.
    fn told(&self, finding: &Finding) -> bool {
        let message = finding.message();
        self.observed.owner.as_ref().is_some_and(|owner| {
            let mut events = self.events(owner.kind, &self.observed.subject, &owner.uid.0);
            events.any(|event| event.component() == "first-consumer" && *event.message == *message)
        })
    }
}

impl Suspicion {
    /// Something is wrong with a disk. `object` is what is in the way.
    fn of(trouble: Trouble, disk: &str, about: impl Into<String>, object: impl Into<String>) -> Self {
        Self {
            finding: Finding {
                trouble,
                disk: disk.into(),
                about: about.into(),
                object: object.into(),
                known: Known::Nothing,
                others: Vec::new(),
            },
            since: Since::Always,
            grace: Duration::ZERO,
        }
    }

    /// With what else decides what can be done.
    fn knowing(mut self, known: Known) -> Self {
        self.finding.known = known;
        self
    }

    /// About the VM, because of these disks.
    fn beside(mut self, disks: Vec<Arc<str>>) -> Self {
        self.finding.others = disks;
        self
    }

    /// A pod gets no node, for so many seconds: with the scheduler's words, or what it is not even shown for.
    fn unschedulable(trouble: Trouble, disk: &str, pod: &Pod, seconds: u64) -> Option<Self> {
        let words = match pod.scheduled() {
            Scheduled::Unschedulable(words) => words.to_string(),
            Scheduled::Gated(gates) => format!("scheduling gates hold it: {gates}"),
            Scheduled::Silent | Scheduled::Yes => return None,
        };
        let name = &pod.meta().name;
        let suspicion = Self::of(trouble, disk, format!("pod {name}: {words}"), &**name);
        Some(suspicion.lasting(Since::Told(pod.scheduled_since()), seconds))
    }

    /// What only who has watched it can date.
    fn topic(&self) -> Option<Topic> {
        let topic = || Topic::Trouble(self.finding.trouble, Arc::clone(&self.finding.disk));
        matches!(self.since, Since::Seen(_)).then(topic)
    }

    /// Only if it lasts this long.
    fn lasting(self, since: Since, seconds: u64) -> Self {
        Self {
            since,
            grace: Duration::from_secs(seconds),
            ..self
        }
    }
}
