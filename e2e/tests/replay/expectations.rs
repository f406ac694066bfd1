//! What the last column of `recordings/README.md` lets expect of each recording, by name.

use first_consumer::decide::Action;
use first_consumer::reason::{Reason, Trouble};
use serde_json::Value;

use crate::play::{Step, replay_without, story};

/// Looks at what was decided; on the legacy path or on that of the populators.
type Check = fn(&[Step], bool);

/// Name of the test, of the recording without its path, and what must hold.
pub const EXPECTED: [(&str, &str, Check); 14] = [
    (
        "halted_alone_is_needed_as_soon_as_both_disks_have_settled",
        "halted-alone",
        halted_alone,
    ),
    (
        "served_at_the_last_selected_node",
        "halted-served-deleted-when-placed",
        deleted_when_placed,
    ),
    (
        "whoever_waits_for_bound_blocks_the_import",
        "halted-served-deleted-when-bound",
        deleted_when_bound,
    ),
    ("started_is_left_to_virt_controller", "started", started),
    (
        "started_unschedulable_has_its_launcher",
        "started-unschedulable",
        started_unschedulable,
    ),
    ("bare_vmi_is_left_to_virt_controller", "bare-vmi", started),
    (
        "bare_vmi_has_its_launcher_whatever_pods_are_beside",
        "bare-vmi-with-foreign-consumer",
        beside_a_launcher,
    ),
    (
        "started_meanwhile_no_pod_stays",
        "started-while-pod-there",
        started_meanwhile,
    ),
    ("deleted_midway", "vm-deleted-midway", deleted_midway),
    (
        "immediate_binding_is_never_ours",
        "immediate-binding-asked",
        immediate_binding,
    ),
    ("upload_is_served", "upload", upload),
    ("a_late_disk_is_needed_again", "late-disk", late_disk),
    ("a_plain_claim_is_placed_too", "plain-claim-beside", plain_claim),
    (
        "unschedulable_then_corrected",
        "unschedulable-then-corrected",
        unschedulable,
    ),
];

fn halted_alone(steps: &[Step], _: bool) {
    let needed = first(steps, Reason::FirstConsumerNeeded);
    // Order between kinds is not recorded: the phase may be there before the claim.
    let known = ["db-disk0", "db-disk1"].map(|disk| {
        let settled = |step: &Step| step.is("DataVolume") && step.name() == disk && is_waiting(step.phase());
        let claim = |step: &Step| step.is("PersistentVolumeClaim") && step.name() == disk;
        position(steps, settled).max(position(steps, claim))
    });
    assert_eq!(needed, known[0].max(known[1]), "{}", story(steps));
    assert!(
        steps[needed..]
            .iter()
            .all(|step| step.decision.reason == Reason::FirstConsumerNeeded)
    );
}

fn deleted_when_placed(steps: &[Step], legacy: bool) {
    healthy(steps);
    served_when_placed(steps, &["db-disk0", "db-disk1"]);
    if legacy {
        assert!(!has_event(steps, "ImportTargetInUse"));
        let idle = ["db-disk0", "db-disk1"].map(|claim| idle(steps, claim));
        assert!(idle.iter().all(|seconds| *seconds < 1.0), "{idle:?}");
    }
}

fn deleted_when_bound(steps: &[Step], legacy: bool) {
    healthy(steps);
    served_when_placed(steps, &["db-disk0", "db-disk1"]);
    assert_eq!(legacy, has_event(steps, "ImportTargetInUse"));
    if legacy {
        // CDI has met the pod, and backs off.
        let idle = idle(steps, "db-disk1");
        assert!(idle > 5.0, "{idle}");
    }
}

fn started(steps: &[Step], _: bool) {
    left_alone(steps);
    healthy(steps);
}

fn started_unschedulable(steps: &[Step], _: bool) {
    left_alone(steps);
    let launched = first(steps, Reason::LauncherPresent);
    assert!(
        steps[launched..]
            .iter()
            .all(|step| step.decision.reason == Reason::LauncherPresent)
    );
}

fn beside_a_launcher(steps: &[Step], legacy: bool) {
    left_alone(steps);
    let cause = if legacy {
        Trouble::LauncherBlocksImport
    } else {
        Trouble::BoundWhereVmCannotRun
    };
    assert_eq!(steps.last().expect("steps").troubles.first(), Some(&cause));
}

fn started_meanwhile(steps: &[Step], _: bool) {
    let launched = position(steps, |step| step.is("VirtualMachineInstance"));
    assert!(
        steps[..launched]
            .iter()
            .any(|step| step.decision.action == Action::Keep)
    );
    assert!(
        steps[launched..]
            .iter()
            .all(|step| step.decision.action == Action::None),
        "{}",
        story(steps)
    );
}

fn deleted_midway(steps: &[Step], _: bool) {
    let deleted = position(steps, |step| {
        let going = step.event["type"] == "DELETED" || !step.object()["metadata"]["deletionTimestamp"].is_null();
        step.is("VirtualMachine") && going
    });
    assert!(
        steps[deleted..]
            .iter()
            .all(|step| step.decision.reason == Reason::SubjectDeleted),
        "{}",
        story(steps)
    );
}

fn immediate_binding(steps: &[Step], legacy: bool) {
    never_created(steps);
    let mut reasons: Vec<_> = steps.iter().map(|step| step.decision.reason).collect();
    reasons.retain(|reason| *reason != Reason::ClaimMissing);
    // Between the end of a worker and CDI's word that the disk is filled, row 10 names that disk.
    reasons.retain(|reason| !(legacy && *reason == Reason::SiblingImporting));
    reasons.dedup();
    assert_eq!(
        reasons,
        [Reason::SiblingBinding, Reason::NothingWaiting],
        "{}",
        story(steps)
    );
    // CDI's importer chose a node of the wrong zone; on the populator path it happened to hit the right one.
    let expected: &[Trouble] = if legacy { &[Trouble::BoundWhereVmCannotRun] } else { &[] };
    assert_eq!(steps.last().expect("steps").troubles, expected);
    let targets = || steps.iter().filter(|step| step.name().starts_with("db-disk"));
    assert_eq!(legacy, targets().any(|step| step.selected_node().is_some()));
}

fn upload(steps: &[Step], _: bool) {
    served_when_placed(steps, &["db-disk0"]);
    healthy(steps);
    let last = steps.iter().rfind(|step| step.is("DataVolume")).expect("a DataVolume");
    assert_eq!(last.phase(), "UploadReady");
}

fn late_disk(steps: &[Step], legacy: bool) {
    healthy(steps);
    let served = first(steps, Reason::Served);
    let again = served + first(&steps[served..], Reason::FirstConsumerNeeded);
    assert_eq!(steps[again].decision.about, "db-disk1");
    assert!(
        steps[again..].iter().any(|step| step.decision.reason == Reason::Served),
        "{}",
        story(steps)
    );
    let [first, late] = ["db-disk0", "db-disk1"].map(|claim| given_node(steps, claim));
    assert_eq!(steps[first].selected_node(), steps[late].selected_node());

    let importing = |step: &Step| step.decision.reason == Reason::SiblingImporting;
    assert_eq!(legacy, steps[..again].iter().any(importing), "{}", story(steps));
    // The same if no worker ran when the second disk comes.
    let file = if legacy {
        "legacy-late-disk"
    } else {
        "populator-late-disk"
    };
    let without = replay_without(file, |event| {
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        event["object"]["kind"] == "Pod" && name.starts_with("importer-")
    });
    let then = &without[position(&without, |step| step.event == steps[again].event)];
    let expected = if legacy {
        Reason::SiblingImporting
    } else {
        Reason::FirstConsumerNeeded
    };
    assert_eq!(then.decision.reason, expected, "{}", story(&without));
}

fn plain_claim(steps: &[Step], _: bool) {
    served_when_placed(steps, &["db-disk0", "db-plain"]);
    healthy(steps);
    let kept = steps.iter().find(|step| step.is("Pod")).expect("our pod");
    let made_for = &kept.object()["metadata"]["annotations"]["first-consumer.kubevirt.io/claims"];
    let made_for: Value = serde_json::from_str(made_for.as_str().expect("claims")).expect("JSON");
    let names: Vec<_> = made_for
        .as_array()
        .into_iter()
        .flatten()
        .map(|claim| &claim["name"])
        .collect();
    assert_eq!(names, ["db-disk0", "db-plain"]);
}

fn unschedulable(steps: &[Step], _: bool) {
    let stuck = first(steps, Reason::Unschedulable);
    let about = &steps[stuck].decision.about;
    assert!(about.contains("nodes are available"), "{about}");
    assert!(
        steps[stuck..].iter().any(|step| step.decision.reason == Reason::Served),
        "{}",
        story(steps)
    );
}

fn is_waiting(phase: &str) -> bool {
    ["WaitForFirstConsumer", "PendingPopulation"].contains(&phase)
}

/// The first step that is so.
fn position(steps: &[Step], is_so: impl Fn(&Step) -> bool) -> usize {
    let found = steps.iter().position(is_so);
    found.unwrap_or_else(|| panic!("no such step:\n{}", story(steps)))
}

/// The first step with this reason.
fn first(steps: &[Step], reason: Reason) -> usize {
    let found = steps.iter().position(|step| step.decision.reason == reason);
    found.unwrap_or_else(|| panic!("never {reason}:\n{}", story(steps)))
}

/// The step that gives this claim its node.
fn given_node(steps: &[Step], claim: &str) -> usize {
    position(steps, |step| {
        step.is("PersistentVolumeClaim") && step.name() == claim && step.selected_node().is_some()
    })
}

/// Seconds from the claim being bound to a worker of CDI for it.
fn idle(steps: &[Step], claim: &str) -> f64 {
    let bound = position(steps, |step| {
        step.is("PersistentVolumeClaim") && step.name() == claim && step.phase() == "Bound"
    });
    let worker = position(steps, |step| {
        step.is("Pod") && step.name() == format!("importer-{claim}")
    });
    steps[worker].seconds() - steps[bound].seconds()
}

fn has_event(steps: &[Step], reason: &str) -> bool {
    steps
        .iter()
        .any(|step| step.is("Event") && step.object()["reason"] == reason)
}

/// `Served` comes with the event that gives the last of these claims its node, and not before.
fn served_when_placed(steps: &[Step], claims: &[&str]) {
    let last = claims.iter().map(|claim| given_node(steps, claim)).max();
    let last = last.expect("claims");
    assert_eq!(first(steps, Reason::Served), last, "{}", story(steps));
    assert_eq!(steps[last].decision.action, Action::None);
}

/// Nothing is diagnosed at any moment.
fn healthy(steps: &[Step]) {
    let sick = steps.iter().find(|step| !step.troubles.is_empty());
    assert!(
        sick.is_none(),
        "{:?}\n{}",
        sick.map(|step| (&step.troubles, &step.event)),
        story(steps)
    );
}

fn never_created(steps: &[Step]) {
    let created = steps.iter().any(|step| step.decision.action == Action::Create);
    assert!(!created, "{}", story(steps));
}

/// Never a Create: first it is left to virt-controller, then its launcher is there.
fn left_alone(steps: &[Step]) {
    never_created(steps);
    assert!(first(steps, Reason::LeftToVirtController) < first(steps, Reason::LauncherPresent));
}
