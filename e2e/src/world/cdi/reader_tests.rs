use super::*;
use crate::world::objects::Worker;

/// A claim whose upload server is up, and whose reader has its name.
fn claim() -> Claim {
    let worker = Worker {
        phase: Some(PodPhase::Running),
        ready: Some(true),
        ..Worker::default()
    };
    Claim {
        name: "disk0".into(),
        phase: ClaimPhase::Bound,
        reader_named: true,
        worker,
        ..Claim::default()
    }
}

fn copied() -> Claim {
    let mut claim = claim();
    claim.worker = Worker {
        phase: Some(PodPhase::Succeeded),
        ready: Some(false),
        ..Worker::default()
    };
    claim
}

fn origin() -> Origin {
    Origin {
        namespace: "images".into(),
        name: "golden".into(),
        there: true,
        populated: true,
        ..Origin::default()
    }
}

fn reader(phase: PodPhase) -> Pod {
    Pod {
        uid: "r".into(),
        phase,
        ..Pod::default()
    }
}

#[test]
fn the_reader_waits_for_the_server_then_is_named_then_made() {
    let waits = Claim {
        phase: ClaimPhase::Pending,
        ..claim()
    };
    assert!(next(&waits, &origin(), None).is_empty());
    let mut not_ready = claim();
    not_ready.worker.ready = Some(false);
    assert!(next(&not_ready, &origin(), None).is_empty());
    let unnamed = Claim {
        reader_named: false,
        ..claim()
    };
    assert_eq!(next(&unnamed, &origin(), None), [Write::NameReader]);
    assert_eq!(next(&claim(), &origin(), None), [Write::CreateReader]);
    assert!(next(&claim(), &origin(), Some(&reader(PodPhase::Running))).is_empty());
}

#[test]
fn a_source_that_is_empty_or_used_is_looked_at_again() {
    let empty = Origin {
        populated: false,
        ..origin()
    };
    assert_eq!(next(&claim(), &empty, None), [Write::LookAgain { after: 2 }]);
    let used = Origin {
        users: vec!["vm".into()],
        ..origin()
    };
    let text = "pod images/vm using PersistentVolumeClaim golden";
    let note = Note::warning("CloneSourceInUse", text);
    let told = Write::Event { on_dv: false, note };
    assert_eq!(next(&claim(), &used, None), [told, Write::LookAgain { after: 2 }]);
}

#[test]
fn the_copy_is_complete_when_both_have_ended_and_then_the_reader_goes() {
    assert!(next(&copied(), &origin(), Some(&reader(PodPhase::Running))).is_empty());
    let ended = reader(PodPhase::Succeeded);
    assert!(next(&copied(), &origin(), Some(&ended)).contains(&Write::MarkCloned));
    let marked = Claim {
        cloned: true,
        ..copied()
    };
    let goes = [Write::DeleteReader { uid: "r".into() }];
    assert_eq!(next(&marked, &origin(), Some(&ended)), goes);
    assert!(next(&marked, &origin(), Some(&reader(PodPhase::Running))).is_empty());
    assert!(next(&marked, &origin(), None).is_empty());
    let deleted = Claim {
        deleting: true,
        ..claim()
    };
    assert_eq!(next(&deleted, &origin(), Some(&reader(PodPhase::Running))), goes);
}
