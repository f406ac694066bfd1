//! What people are told in Events on the VM (design section 9): which, and in what words.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use crate::claim::Claim;
use crate::decide::{Action, Decision};
use crate::diagnose::Diagnosis;
use crate::memory::{Expansion, Outcome};
use crate::name::{Key, Uid, pod_name};
use crate::observe::{Observed, OwnPod};
use crate::reason::Reason;

/// When what lasts is said again: the API server forgets Events after an hour.
pub const REPEATED_AFTER: Duration = Duration::from_mins(30);

/// How long virt-api may fail to expand a template before somebody is told; until then it may just be starting.
const UNEXPANDED_FOR: Duration = Duration::from_mins(1);

/// What happened, as the Event's reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Happening {
    /// The pod was created.
    FirstConsumerCreated,
    /// The pod waits, or what it should be is not known; the note has the scheduler's or virt-api's own text.
    FirstConsumerWaiting,
    /// The API server refused the pod.
    FirstConsumerRefused,
    /// The pod ended without use.
    FirstConsumerFailed,
    /// The disks have their node.
    NodeChosen,
    /// The API server has confirmed the deletion of the pod.
    FirstConsumerDeleted,
    /// Something is wrong that no pod of ours can help: a diagnosis, a claim that does not come, or a disk that has to be
    /// filled before a pod may use it.
    DiskStuck,
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
pub fn of_decision(
    decision: &Decision,
    observed: &Observed,
    expansion: &Expansion,
    now: Timestamp,
) -> Option<Announcement> {
    let unexpanded = || {
        let failed = expansion.failure(observed.unexpanded.as_ref()?)?;
        failed.since.checked_add(UNEXPANDED_FOR).ok()
    };
    let happening = match (decision.reason, decision.action) {
        (Reason::Unschedulable | Reason::SchedulingGated, _) => Happening::FirstConsumerWaiting,
        (Reason::ExpansionPending, _) if unexpanded().is_some_and(|due| due <= now) => Happening::FirstConsumerWaiting,
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

/// What is stuck, as far as people are told: the name of the reason, and the disk. Words may change with every restart
/// of a worker; this says whether there is something new.
pub type Stuck = (String, Arc<str>);

/// What to say when something is wrong after the hand-over, a DataVolume has failed, or the pod has had to wait for too
/// long for a claim or for a disk to be filled. Nobody is told about VMs that have not asked for us, or do not want us.
#[must_use]
pub fn of_diagnosis(diagnosis: &Diagnosis, decision: &Decision, observed: &Observed) -> Option<(Stuck, Announcement)> {
    if !observed.permission.wanted() {
        return None;
    }
    let lasts = match decision.reason {
        Reason::ClaimMissing | Reason::SiblingImporting => diagnosis.held_up,
        Reason::DataVolumeFailed => true,
        _ => false,
    };
    let (stuck, note) = match diagnosis.cause(decision.reason) {
        Some(finding) => ((finding.trouble.name(), Arc::clone(&finding.disk)), finding.message()),
        None if lasts => ((decision.reason.name(), "".into()), decision.message()),
        None => return None,
    };
    let announcement = Announcement {
        regarding: regarding(observed)?,
        warning: true,
        happening: Happening::DiskStuck,
        note,
        decision: decision.reason,
    };
    Some((stuck, announcement))
}

/// Whether the own pod goes because the disks have their node from it. One that was given up has placed nothing, whoever
/// has.
#[must_use]
pub fn has_served(decision: &Decision, observed: &Observed) -> bool {
    decision.reason == Reason::Served && !observed.own_pod().is_some_and(OwnPod::is_last)
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
            let chosen = has_served(decision, observed).then(|| chosen(observed)).flatten();
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::Event;
    use crate::cli::files;
    use crate::decide::{Effect, Settings, turn};
    use crate::diagnose::{Evidence, diagnose};
    use crate::index::Index;
    use crate::memory::{Expanding, Memory};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
    }

    /// What is told about a VM with one disk at these seconds; the controller looks at each of them.
    fn told(
        annotations: &Value,
        claim: Option<Value>,
        events: &[&str],
        seconds: &[i64],
    ) -> Vec<Option<(Stuck, String)>> {
        let mut index = Index::default();
        let vm = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "metadata": {"name": "db", "uid": "vm", "annotations": annotations},
            "spec": {"template": {"spec": {"volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": "root"}}]}}}});
        for object in [Some(vm), claim].into_iter().flatten() {
            files::read(&mut index, &object.to_string(), "prod").expect("readable");
        }
        let event = |reason: &&str| {
            let event = json!({"reason": reason, "message": "no space",
                "involvedObject": {"kind": "PersistentVolumeClaim", "namespace": "prod", "name": "root"}});
            serde_json::from_value::<Event>(event).expect("an event")
        };
        let evidence = Evidence {
            events: events.iter().map(event).collect(),
            gate: None,
        };
        let mut memory = Memory::default();
        let mut look = |seconds: &i64| {
            let now = at(*seconds);
            let turn = turn(&index, &Key::new("prod", "db"), &Settings::default(), &mut memory, now);
            let onsets = Some(&mut memory.onsets);
            let diagnosis = diagnose(&index, &turn.observed, &evidence, onsets, now);
            let told = of_diagnosis(&diagnosis, &turn.decision, &turn.observed);
            told.map(|(stuck, announcement)| (stuck, announcement.note))
        };
        seconds.iter().map(&mut look).collect()
    }

    /// Virt-api answers a missing instancetype with 500, as if it were down.
    #[test]
    fn a_template_that_nobody_expands_is_told_after_a_minute() {
        let mut index = Index::default();
        let vm = json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": "db", "uid": "vm",
            "annotations": {"first-consumer.kubevirt.io/provision": "true"}}, "spec": {"instancetype": {"name": "gone"},
            "template": {"spec": {"volumes": [{"name": "root", "dataVolume": {"name": "root"}}]}}}});
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "root",
            "ownerReferences": [{"kind": "DataVolume", "name": "root", "uid": "dv", "controller": true}]},
            "spec": {"storageClassName": "late"}, "status": {"phase": "Pending"}});
        let disk = json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
            "metadata": {"name": "root", "uid": "dv"}, "status": {"phase": "WaitForFirstConsumer"}});
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
            "provisioner": "example.com/local", "volumeBindingMode": "WaitForFirstConsumer"});
        for object in [vm, claim, disk, class] {
            files::read(&mut index, &object.to_string(), "prod").expect("readable");
        }
        let mut memory = Memory::default();
        let mut look = |seconds: i64| {
            let now = at(seconds);
            let turn = turn(&index, &Key::new("prod", "db"), &Settings::default(), &mut memory, now);
            if let Effect::Expand { inputs } = turn.effect {
                memory.expansion.begin(inputs);
                memory
                    .expansion
                    .end(Expanding::Unanswered("\"gone\" not found".into()), now);
            }
            let told = of_decision(&turn.decision, &turn.observed, &memory.expansion, now);
            told.map(|told| (told.happening, told.note, told.decision))
        };
        let note = format!("{}: \"gone\" not found", Reason::ExpansionPending.text());
        let told = Some((Happening::FirstConsumerWaiting, note, Reason::ExpansionPending));
        assert_eq!(
            [0, 30, 59, 60, 90].map(&mut look),
            [None, None, None, told.clone(), told]
        );
    }

    #[test]
    fn a_claim_that_does_not_come_is_told_after_a_minute() {
        let asked = json!({"first-consumer.kubevirt.io/provision": "true"});
        let note = "a disk's claim does not exist yet: root".to_owned();
        let stuck = ("ClaimMissing".to_owned(), "".into());
        assert_eq!(told(&asked, None, &[], &[0, 59, 60]), [None, None, Some((stuck, note))]);
    }

    #[test]
    fn a_diagnosis_is_told_at_once_and_only_about_vms_that_want_us() {
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "root"}});
        let note = "the provisioner cannot make the disk's volume: no space".to_owned();
        let stuck = ("ProvisioningFailed".to_owned(), "root".into());
        let failed = ["ProvisioningFailed"];
        let asked = json!({"first-consumer.kubevirt.io/provision": "true"});
        assert_eq!(told(&asked, Some(claim.clone()), &failed, &[0]), [Some((stuck, note))]);
        assert_eq!(told(&asked, Some(claim.clone()), &[], &[100]), [None]);
        for annotations in [json!({}), json!({"first-consumer.kubevirt.io/provision": "false"})] {
            assert_eq!(told(&annotations, Some(claim.clone()), &failed, &[0]), [None]);
            assert_eq!(told(&annotations, None, &[], &[0, 60]), [None, None]);
        }
    }
}
