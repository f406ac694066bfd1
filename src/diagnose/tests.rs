//! For every diagnosis a situation that triggers it, and for every condition one that just does not.

mod claims;
mod next;
mod places;
mod sources;
mod wishes;
mod workers;
mod world;

use serde_json::{Value, json};

use super::*;
use crate::observe::observe;
use crate::policy::Policy;
use world::*;

type Edit = fn(&mut World);

/// A name, what brings it about, the words that the message has to have, and edits each of which alone takes it away.
type Row = (
    Trouble,
    &'static str,
    &'static str,
    Edit,
    &'static str,
    &'static [(&'static str, Edit)],
);

fn table() -> impl Iterator<Item = &'static Row> {
    claims::TABLE
        .iter()
        .chain(sources::TABLE)
        .chain(workers::TABLE)
        .chain(places::TABLE)
}

#[test]
fn nothing_is_wrong_with_a_vm_whose_disks_are_there() {
    assert_eq!(World::new().look(None), Diagnosis::default());
}

#[test]
fn each_situation_has_its_diagnosis_and_without_each_condition_it_has_not() {
    for (trouble, name, disk, edit, words, without) in table() {
        let mut world = World::new();
        edit(&mut world);
        let found = world.look(None).findings;
        let found = found.iter().find(|finding| finding.trouble == *trouble);
        let found = found.unwrap_or_else(|| panic!("{trouble}, {name}: {:?}", world.troubles()));
        assert_eq!(&*found.disk, *disk, "{trouble}, {name}");
        assert!(
            found.message().contains(words),
            "{trouble}, {name}: {}",
            found.message()
        );
        for (how, edit) in *without {
            let mut world = world.clone();
            edit(&mut world);
            let troubles = world.troubles();
            assert!(
                troubles.iter().all(|(found, _)| found != trouble),
                "{trouble}, {name}, {how}: {troubles:?}"
            );
        }
    }
}

#[test]
fn a_temporary_launcher_that_blocks_an_import_is_the_cause_and_not_that_it_waits() {
    let mut world = World::new();
    world.unfilled("root");
    world.launcher(&unschedulable("0/2 nodes", 0));
    world.annotate("virt-launcher-db", "kubevirt.io/ephemeral-provisioning", &json!("true"));
    let blocks = (Trouble::LauncherBlocksImport, "root".to_owned());
    assert_eq!(world.troubles()[0], blocks);
    let without: [Edit; 5] = [
        |w| w.now = at(9),
        |w| w.annotate("virt-launcher-db", "kubevirt.io/ephemeral-provisioning", &Value::Null),
        |w| w.set("virt-launcher-db", &scheduled()),
        |w| w.pod("importer-root", "root", "root", &json!({})),
        |w| w.pending("root"),
    ];
    for (number, edit) in without.iter().enumerate() {
        let mut world = world.clone();
        edit(&mut world);
        assert!(!world.troubles().contains(&blocks), "{number}");
    }
}

#[test]
fn without_the_kind_no_data_volume_can_come() {
    let mut world = World::new();
    world
        .objects
        .retain(|name, _| !name.starts_with("dv") && *name != "root");
    let mut index = world.index();
    let look = |index: &Index, now| {
        let observed = observe(index, &subject(), Policy::default(), None);
        diagnose(index, &observed, &Evidence::default(), None, now).findings
    };
    assert_eq!(look(&index, at(3600)), []);
    index.note_kind::<crate::api::DataVolume>(false);
    let found = look(&index, at(0));
    assert_eq!((found[0].trouble, &*found[0].disk), (Trouble::CdiMissing, "root"));
    assert_eq!(found.len(), 1, "the other disk has its claim");
}

/// What the objects do not say, the gate itself does: a disk that CDI has bound where the VM may not run.
#[test]
fn a_disk_of_the_legacy_path_is_misplaced_by_the_gate_if_it_is_known_to_be_off() {
    let mut world = World::new();
    world.set("pv-data", &affinity("node-2"));
    let causes = |world: &World| {
        world
            .troubles()
            .into_iter()
            .map(|(trouble, _)| trouble)
            .collect::<Vec<_>>()
    };
    assert_eq!(causes(&world), [Trouble::DisksConflict]);
    world.evidence.gate = Some(false);
    assert_eq!(causes(&world), [Trouble::GateOff, Trouble::DisksConflict]);
    for disk in ["root", "data"] {
        world.annotate(disk, IMMEDIATE, &json!("true"));
    }
    assert_eq!(causes(&world), [Trouble::DisksConflict], "a person has asked for it");
}

#[test]
fn nobody_is_told_about_what_is_being_deleted() {
    let mut world = World::new();
    world.worker(&crashing(4, "CrashLoopBackOff"));
    assert_eq!(world.troubles().len(), 1);
    world.set("db", &json!({"metadata": {"deletionTimestamp": at(1).to_string()}}));
    assert_eq!(world.troubles(), []);
}

/// What no object dates begins when it was seen first, ends with a break, and has the controller woken up.
#[test]
fn the_controller_counts_from_when_it_has_seen_it() {
    let mut onsets = Onsets::default();
    let mut world = World::new();
    world.pending("root");
    let mut look = |world: &World, seconds| {
        let found = world.look_at(seconds, &mut onsets);
        (found.findings.len(), found.wake_at)
    };
    assert_eq!(look(&world, 10_000), (0, Some(at(10_120))));
    assert_eq!(look(&world, 10_119), (0, Some(at(10_120))));
    assert_eq!(look(&world, 10_120), (1, None));
    let calm = World::new();
    assert_eq!(look(&calm, 10_121), (0, None));
    assert_eq!(look(&world, 10_122), (0, Some(at(10_242))));
}

/// A claim that was bound between begins anew; while the provisioner has the next node, it is its turn.
#[test]
fn a_node_that_is_given_back_three_times_is_told() {
    let mut onsets = Onsets::default();
    let mut world = World::new();
    let mut given_back = |world: &World| world.look(Some(&mut onsets)).has(Trouble::NodeGivenBack);
    let mut lose = |bound_between: bool| {
        if bound_between {
            assert!(!given_back(&World::new()));
        }
        world.pending("root");
        world.annotate("root", "volume.kubernetes.io/selected-node", &json!("node-1"));
        let chosen = given_back(&world);
        world.unplaced("root");
        (chosen, given_back(&world))
    };
    assert_eq!(lose(false), (false, false));
    assert_eq!(lose(false), (false, false));
    assert_eq!(lose(true), (false, false));
    assert_eq!(lose(false), (false, false));
    assert_eq!(lose(false), (false, true));
    assert_eq!(lose(false), (false, true));
}

/// Who has not watched it reads what the controller has told.
#[test]
fn a_node_that_is_given_back_is_known_from_the_event() {
    let given_back = |component: &str, message: &str| {
        let mut world = World::new();
        world.unplaced("root");
        let event = json!({"reason": "DiskStuck", "message": message, "reportingComponent": component,
            "involvedObject": {"kind": "VirtualMachine", "namespace": "prod", "name": "db"}});
        world.evidence.events = vec![serde_json::from_value(event).expect("an event")];
        world.troubles().contains(&(Trouble::NodeGivenBack, "root".to_owned()))
    };
    let message = "a node is chosen for the disk and given back, again and again: root, 3 times or more";
    assert!(given_back("first-consumer", message));
    assert!(!given_back("somebody", message));
    assert!(!given_back("first-consumer", &message.replace("root", "data")));
}

/// A node that was given back is a word, too: the scheduler has chosen one, and will again.
#[test]
fn a_scheduler_that_has_chosen_before_is_not_silent() {
    let told = |chosen_before: bool| {
        let mut onsets = Onsets::default();
        let mut world = World::new();
        world.pending("root");
        if chosen_before {
            world.look(Some(&mut onsets));
        }
        world.unplaced("root");
        world.own_pod(&json!({}));
        world.look(Some(&mut onsets));
        world.now = at(3630);
        world.look(Some(&mut onsets)).has(Trouble::SchedulerSilent)
    };
    assert!(told(false));
    assert!(!told(true));
}

/// The scheduler says that the pod has its node a moment after the volume is there, for which the pod may have waited
/// long.
#[test]
fn a_scheduler_is_not_silent_the_moment_that_the_volume_is_there() {
    let mut onsets = Onsets::default();
    let mut world = World::new();
    world.own_pod(&json!({}));
    let bound = world.clone();
    world.pending("root");
    let mut silent = |world: &World, seconds| world.look_at(seconds, &mut onsets).has(Trouble::SchedulerSilent);
    assert!(!silent(&world, 300));
    assert!(!silent(&bound, 301));
    assert!(!silent(&bound, 330));
    assert!(silent(&bound, 331));
}

/// A provisioner gives the node of an old claim back: CDI asks for another consumer a moment later.
#[test]
fn a_populator_is_not_silent_the_moment_that_a_node_is_given_back() {
    let mut onsets = Onsets::default();
    let mut world = World::new();
    world.pending("root");
    world.set("dv-root", &json!({"status": {"phase": "Pending"}}));
    let source = json!({"apiGroup": "example.com", "kind": "Backup", "name": "night"});
    world.set("root", &json!({"spec": {"dataSourceRef": source}}));
    let placed = world.clone();
    world.unplaced("root");
    world.set("dv-root", &json!({"status": {"phase": "Pending"}}));
    let mut silent = |world: &World, seconds| world.look_at(seconds, &mut onsets).has(Trouble::PopulatorSilent);
    assert!(!silent(&placed, 3600));
    assert!(!silent(&world, 3601));
    assert!(!silent(&world, 3900));
    assert!(silent(&world, 3901));
}

#[test]
fn a_claim_may_be_missing_for_a_minute() {
    let mut onsets = Onsets::default();
    let mut world = World::new();
    world.claimless("root", "NotFound", "No PVC found");
    let mut look = |world: &World, seconds| {
        let found = world.look_at(seconds, &mut onsets);
        (found.held_up, found.wake_at)
    };
    assert_eq!(look(&world, 1000), (false, Some(at(1060))));
    assert_eq!(look(&world, 1059), (false, Some(at(1060))));
    assert_eq!(look(&world, 1060), (true, None));
    assert_eq!(look(&World::new(), 1061), (false, None));
    assert_eq!(look(&world, 1062), (false, Some(at(1122))));
}

#[test]
fn a_disk_that_is_to_be_filled_may_hold_another_up_for_a_minute() {
    let mut onsets = Onsets::default();
    let mut world = World::new();
    world.unfilled("root");
    let alone = world.clone();
    world.unplaced("data");
    world.set("dv-data", &json!({"status": {"phase": "WaitForFirstConsumer"}}));
    let mut held_up = |world: &World, seconds| world.look_at(seconds, &mut onsets).held_up;
    assert!(!held_up(&alone, 0) && !held_up(&alone, 100), "nobody waits");
    assert!(!held_up(&world, 101) && !held_up(&world, 160));
    assert!(held_up(&world, 161));
    world.pod("importer-root", "root", "root", &json!({}));
    assert!(!held_up(&world, 162), "its worker is there");
}

#[test]
fn the_first_cause_comes_first_and_disks_in_the_order_of_the_spec() {
    let mut world = World::new();
    world.set("pv-data", &affinity("node-2"));
    world.launcher(&unschedulable("0/2 nodes", 0));
    world.pending("root");
    world.pending("data");
    world.set("pv-data", &affinity("node-2"));
    let troubles: Vec<_> = world.troubles();
    let silent = |disk: &str| (Trouble::ProvisionerSilent, disk.to_owned());
    let launcher = (Trouble::LauncherUnschedulable, String::new());
    assert_eq!(troubles, [silent("root"), silent("data"), launcher]);
}

/// The volume that is there can't be moved, so the other can only come beside it.
#[test]
fn a_disk_that_can_not_be_made_beside_another_is_told_with_it() {
    let about = |change: fn(&mut World)| {
        let mut world = World::new();
        world.pending("root");
        change(&mut world);
        let found = world.look(None);
        found.findings.first().map(|finding| finding.about.clone())
    };
    let silent = "example.com/local of class late, for root on node-1";
    let beside = format!("{silent}, where data is bound");
    assert_eq!(about(|_| {}), Some(beside));
    let alone: [fn(&mut World); 2] = [
        |w| w.pending("data"),
        |w| w.annotate("data", "volume.kubernetes.io/selected-node", &json!("node-2")),
    ];
    for elsewhere in alone {
        assert_eq!(about(elsewhere).as_deref(), Some(silent));
    }
}

/// The decision only says why there is no pod, except that a disk is going.
#[test]
fn the_first_finding_is_the_cause_unless_a_disk_is_going() {
    let mut world = World::new();
    assert_eq!(world.look(None).cause(Reason::NothingWaiting), None);
    world.pending("root");
    world.pending("data");
    let found = world.look(None);
    for reason in [Reason::NothingWaiting, Reason::LauncherPresent, Reason::Unschedulable] {
        assert_eq!(found.cause(reason), Some(&found.findings[0]));
    }
    assert_eq!(found.cause(Reason::DiskDeleted), None);
}

#[test]
fn a_worker_of_a_prime_claim_concerns_the_vm() {
    let mut world = World::new();
    prime(&mut world, "Bound");
    world.pod("importer", "prime", "prime-PersistentVolumeClaim-root", &json!({}));
    let worker = world.objects.remove("importer").expect("a pod").to_string();
    let mut index = world.index();
    let mut pod: crate::api::Pod = serde_json::from_str(&worker).expect("a pod");
    pod.metadata.namespace = "prod".into();
    assert_eq!(index.apply(pod), [subject()].into());
}
