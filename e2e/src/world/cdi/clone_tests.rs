use super::*;
use crate::world::cdi::{Dv, Settings, data_volume};

/// A clone whose claim is not made yet. The source has a size and is not there.
fn disk(source: Source, populator: bool) -> Disk {
    let dv = Dv {
        name: "disk0".into(),
        source,
        populator: Some(populator),
        ..Dv::default()
    };
    let origin = Origin {
        namespace: "images".into(),
        name: "golden".into(),
        ..Origin::default()
    };
    Disk {
        dv,
        origin: Some(origin),
        ..Disk::default()
    }
}

fn with(mut disk: Disk, change: impl FnOnce(&mut Origin)) -> Disk {
    if let Some(origin) = &mut disk.origin {
        change(origin);
    }
    disk
}

fn there(disk: Disk) -> Disk {
    with(disk, |origin| (origin.there, origin.populated) = (true, true))
}

fn reasons(writes: &[Write]) -> Vec<&str> {
    let notes = writes.iter().filter_map(|write| match write {
        Write::Event { note, .. } => Some(note.reason.as_str()),
        _ => None,
    });
    notes.collect()
}

fn makes_claim(writes: &[Write]) -> bool {
    writes.iter().any(|write| matches!(write, Write::CreateClaim { .. }))
}

fn phase(writes: &[Write]) -> Option<DvPhase> {
    writes.iter().find_map(|write| match write {
        Write::SetStatus(status) => Some(status.phase),
        _ => None,
    })
}

#[test]
fn without_its_source_the_claim_is_not_made_and_the_phase_stays() {
    for (source, populator) in [(Source::Pvc, false), (Source::Pvc, true), (Source::Snapshot, false)] {
        let writes = data_volume::next(&disk(source, populator), Settings::default());
        assert!(reasons(&writes).contains(&"CloneWithoutSource"), "{writes:?}");
        assert_eq!((makes_claim(&writes), phase(&writes)), (false, Some(DvPhase::Unset)));
        let writes = data_volume::next(&there(disk(source, populator)), Settings::default());
        assert_eq!((makes_claim(&writes), phase(&writes)), (true, Some(DvPhase::Pending)));
    }
}

#[test]
fn on_the_populator_path_nobody_looks_for_a_snapshot() {
    let writes = data_volume::next(&disk(Source::Snapshot, true), Settings::default());
    assert!(makes_claim(&writes), "{writes:?}");
}

#[test]
fn a_clone_without_a_size_waits_for_a_source_that_is_filled_and_unused() {
    for source in [Source::Pvc, Source::Snapshot] {
        let mut clone = there(disk(source, true));
        clone.dv.unsized_clone = true;
        assert!(makes_claim(&data_volume::next(&clone, Settings::default())));
        let empty = with(clone.clone(), |origin| origin.populated = false);
        let writes = data_volume::next(&empty, Settings::default());
        assert!(writes.contains(&Write::LookAgain { after: 5 }), "{writes:?}");
        assert_eq!(
            (makes_claim(&writes), phase(&writes)),
            (false, Some(DvPhase::CloneScheduled))
        );
        let used = with(clone, |origin| origin.users = vec!["vm".into()]);
        let writes = data_volume::next(&used, Settings::default());
        assert!(reasons(&writes).contains(&"CloneSourceInUse"), "{writes:?}");
        assert!(!makes_claim(&writes));
    }
}

#[test]
fn what_a_pod_copies_from_a_snapshot_is_restored_to_a_claim_first() {
    let restores = |disk| data_volume::next(&disk, Settings::default()).contains(&Write::CreateRestored);
    assert!(restores(there(disk(Source::Snapshot, false))));
    assert!(!restores(there(disk(Source::Snapshot, true))));
    assert!(!restores(there(disk(Source::Pvc, false))));
}
