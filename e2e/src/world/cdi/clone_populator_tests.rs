use super::*;
use crate::world::cdi::Dv;
use crate::world::objects::Source;

/// A target whose node was chosen and whose strategy is known.
fn disk(strategy: Strategy) -> Disk {
    let target = Claim {
        name: "disk0".into(),
        uid: "t".into(),
        populator: true,
        late: true,
        node: Some("n1".into()),
        strategy: Some(strategy),
        clone_phase: Some(ClonePhase::Pending),
        ..Claim::default()
    };
    let origin = Origin {
        there: true,
        populated: true,
        ..Origin::default()
    };
    let dv = Dv {
        source: Source::Pvc,
        ..Dv::default()
    };
    Disk {
        dv,
        strategy,
        claim: Some(target),
        origin: Some(origin),
        ..Disk::default()
    }
}

fn target(mut disk: Disk, change: impl FnOnce(&mut Claim)) -> Disk {
    disk.claim.as_mut().map(change);
    disk
}

fn tmp() -> Claim {
    Claim {
        uid: "tmp".into(),
        late: true,
        node: Some("n1".into()),
        ..Claim::default()
    }
}

fn bound(claim: Claim) -> Claim {
    Claim {
        phase: ClaimPhase::Bound,
        volume: Some("pv".into()),
        ..claim
    }
}

fn with_tmp(disk: Disk, tmp: Claim) -> Disk {
    Disk { tmp: Some(tmp), ..disk }
}

fn copied(claim: Claim) -> Claim {
    let mut claim = bound(claim);
    claim.worker.phase = Some(PodPhase::Succeeded);
    claim
}

/// Writes apart from the phase, and the phase.
fn pass(disk: &Disk, prep: Option<&Pod>) -> (Vec<Write>, Option<ClonePhase>) {
    let mut writes = next(disk, prep);
    let mut now = None;
    writes.retain(|write| match write {
        Write::SetClonePhase { phase, .. } => {
            now = Some(*phase);
            false
        }
        _ => true,
    });
    (writes, now)
}

#[test]
fn nothing_begins_before_the_target_has_a_node_and_the_strategy_is_written_first() {
    let new = target(disk(Strategy::CsiClone), |claim| {
        (claim.strategy, claim.clone_phase, claim.node) = (None, None, None);
    });
    assert_eq!(pass(&new, None), (vec![], Some(ClonePhase::Pending)));
    let placed = target(new, |claim| claim.node = Some("n1".into()));
    assert_eq!(pass(&placed, None), (vec![Write::BeginClone(Strategy::CsiClone)], None));
    let mut sourceless = placed;
    sourceless.origin = Some(Origin::default());
    let (writes, now) = pass(&sourceless, None);
    assert_eq!(
        (writes, now),
        (vec![Write::LookAgain { after: 5 }], Some(ClonePhase::Pending))
    );
}

#[test]
fn a_target_that_loses_its_node_pauses_the_clone_whatever_was_reached() {
    for reached in [ClonePhase::HostClone, ClonePhase::Rebind] {
        let stripped = target(with_tmp(disk(Strategy::Copy), copied(tmp())), |claim| {
            (claim.node, claim.clone_phase) = (None, Some(reached));
        });
        assert_eq!(pass(&stripped, None), (vec![], Some(ClonePhase::Pending)));
    }
}

#[test]
fn a_copy_by_pods_goes_from_the_tmp_claim_to_the_rebind() {
    let begun = disk(Strategy::Copy);
    let made = vec![Write::CreateTmp(Strategy::Copy)];
    assert_eq!(pass(&begun, None), (made, Some(ClonePhase::HostClone)));
    let copying = with_tmp(begun.clone(), bound(tmp()));
    assert_eq!(
        pass(&copying, None),
        (vec![Write::LookAgain { after: 3 }], Some(ClonePhase::HostClone))
    );
    let done = with_tmp(begun, copied(tmp()));
    let rebind = vec![Write::Rebind { volume: "pv".into() }];
    assert_eq!(pass(&done, None), (rebind, Some(ClonePhase::Rebind)));
    let rebound = Disk { rebound: true, ..done };
    assert_eq!(pass(&rebound, None), (vec![], Some(ClonePhase::Rebind)));
}

#[test]
fn a_drivers_copy_wants_a_source_that_is_filled_and_unused() {
    let mut begun = disk(Strategy::CsiClone);
    let made = vec![Write::CreateTmp(Strategy::CsiClone)];
    assert_eq!(pass(&begun, None), (made, Some(ClonePhase::CsiClone)));
    if let Some(origin) = &mut begun.origin {
        origin.users = vec!["vm".into()];
    }
    let (writes, now) = pass(&begun, None);
    assert_eq!(now, Some(ClonePhase::CsiClone));
    let Write::Event { note, .. } = &writes[0] else {
        panic!("{writes:?}")
    };
    assert_eq!(
        (note.reason.as_str(), &writes[1]),
        ("CloneSourceInUse", &Write::LookAgain { after: 2 })
    );
}

#[test]
fn a_prep_pod_binds_the_tmp_claim_of_a_late_class_and_goes() {
    let unbound = with_tmp(disk(Strategy::Snapshot), tmp());
    let made = vec![Write::CreatePrep {
        node: Some("n1".into()),
    }];
    assert_eq!(pass(&unbound, None), (made, Some(ClonePhase::PrepClaim)));
    let mut prep = Pod {
        uid: "p".into(),
        ..Pod::default()
    };
    assert_eq!(pass(&unbound, Some(&prep)), (vec![], Some(ClonePhase::PrepClaim)));
    let bound = with_tmp(unbound, bound(tmp()));
    assert_eq!(
        pass(&bound, Some(&prep)),
        (vec![], Some(ClonePhase::PrepClaim)),
        "it still runs"
    );
    prep.phase = PodPhase::Succeeded;
    let gone = vec![Write::DeletePrep { uid: "p".into() }];
    assert_eq!(pass(&bound, Some(&prep)), (gone, Some(ClonePhase::PrepClaim)));
    assert_eq!(pass(&bound, None).1, Some(ClonePhase::Rebind));
    let at_once = with_tmp(disk(Strategy::Snapshot), Claim { late: false, ..tmp() });
    assert_eq!(pass(&at_once, None), (vec![], Some(ClonePhase::SnapshotClone)));
}

#[test]
fn success_is_written_when_the_target_is_bound_and_then_the_helpers_go() {
    let done = target(with_tmp(disk(Strategy::Copy), tmp()), |claim| {
        *claim = bound(claim.clone());
    });
    assert_eq!(pass(&done, None), (vec![], Some(ClonePhase::Succeeded)));
    let told = target(done, |claim| claim.clone_phase = Some(ClonePhase::Succeeded));
    assert_eq!(pass(&told, None), (vec![Write::DeleteTmp { uid: "tmp".into() }], None));
    let clean = Disk { tmp: None, ..told };
    assert!(next(&clean, None).is_empty());
}

#[test]
fn what_is_said_of_the_copying_pods_is_said_of_the_target() {
    let mut tmp = bound(tmp());
    tmp.worker.restarts = 3;
    tmp.worker.running = Some(Condition::new(false, "Error", "no room"));
    let writes = next(&with_tmp(disk(Strategy::Copy), tmp.clone()), None);
    let Some(Write::SetClonePhase { worker, .. }) = writes.last() else {
        panic!("{writes:?}")
    };
    assert_eq!((worker.restarts, &worker.running), (3, &tmp.worker.running));
}
