use super::*;
use crate::world::cdi::{Dv, Settings, Write, data_volume};
use crate::world::objects::Worker;

const UNCHANGED: DvPhase = DvPhase::PvcBound;

fn disk(source: Source) -> Disk {
    let dv = Dv {
        name: "disk0".into(),
        source,
        ..Dv::default()
    };
    Disk { dv, ..Disk::default() }
}

fn bound(worker: Option<PodPhase>) -> Claim {
    Claim {
        phase: ClaimPhase::Bound,
        worker_named: true,
        worker: Worker {
            phase: worker,
            ..Worker::default()
        },
        ..Claim::default()
    }
}

#[test]
fn every_import_is_alike() {
    for source in [Source::Http, Source::Registry, Source::Blank] {
        let step = |worker| by_source(&disk(source), &bound(worker), UNCHANGED);
        assert_eq!(step(None), DvPhase::ImportScheduled);
        assert_eq!(step(Some(PodPhase::Running)), DvPhase::ImportInProgress);
        assert_eq!(step(Some(PodPhase::Succeeded)), DvPhase::Succeeded);
    }
}

#[test]
fn a_failed_worker_is_no_failed_disk_unless_trying_again_is_useless() {
    let mut claim = bound(Some(PodPhase::Failed));
    assert_eq!(
        by_source(&disk(Source::Http), &claim, UNCHANGED),
        DvPhase::ImportScheduled
    );
    claim.worker.fatal = true;
    assert_eq!(by_source(&disk(Source::Http), &claim, UNCHANGED), DvPhase::Failed);
    let note = phase_note(
        &Disk {
            claim: Some(claim),
            ..disk(Source::Http)
        },
        DvPhase::Failed,
    );
    assert_eq!(
        note,
        Some(Note::warning("ImportFailed", "Failed to import into PVC disk0"))
    );
}

#[test]
fn a_legacy_clone_follows_the_server_that_it_is_written_into() {
    for source in [Source::Pvc, Source::Snapshot] {
        let step = |claim: &Claim| by_source(&disk(source), claim, UNCHANGED);
        assert_eq!(step(&Claim::default()), UNCHANGED, "not bound");
        assert_eq!(step(&bound(None)), DvPhase::CloneScheduled);
        assert_eq!(step(&bound(Some(PodPhase::Failed))), DvPhase::CloneScheduled);
        assert_eq!(step(&bound(Some(PodPhase::Running))), DvPhase::CloneInProgress);
        assert_eq!(step(&bound(Some(PodPhase::Succeeded))), DvPhase::Succeeded);
    }
}

#[test]
fn a_populator_clone_follows_its_clone_phase() {
    let step = |clone_phase| {
        let claim = Claim {
            populator: true,
            clone_phase,
            ..Claim::default()
        };
        by_source(&disk(Source::Pvc), &claim, UNCHANGED)
    };
    for (clone_phase, phase) in [
        (None, DvPhase::CloneScheduled),
        (Some(ClonePhase::Pending), DvPhase::CloneScheduled),
        (Some(ClonePhase::HostClone), DvPhase::CloneInProgress),
        (Some(ClonePhase::CsiClone), DvPhase::CsiCloneInProgress),
        (Some(ClonePhase::SnapshotClone), DvPhase::CloneFromSnapshotInProgress),
        (Some(ClonePhase::PrepClaim), DvPhase::PrepClaimInProgress),
        (Some(ClonePhase::Rebind), DvPhase::RebindInProgress),
        (Some(ClonePhase::Succeeded), DvPhase::Succeeded),
        (Some(ClonePhase::Error), UNCHANGED),
    ] {
        assert_eq!(step(clone_phase), phase);
    }
}

/// Done at once with a CSI driver, even before the claim is bound; stuck without one, and the claim is told.
#[test]
fn somebody_elses_population_needs_a_csi_driver() {
    let with = Disk {
        csi: true,
        ..disk(Source::External)
    };
    assert_eq!(by_source(&with, &Claim::default(), UNCHANGED), DvPhase::Succeeded);
    let mut without = disk(Source::External);
    without.dv.uid = "d".into();
    without.dv.populator = Some(false);
    let owner = crate::world::objects::Owner {
        kind: "DataVolume".into(),
        name: "disk0".into(),
        uid: "d".into(),
    };
    without.claim = Some(Claim {
        owner: Some(owner),
        created_for: Some("d".into()),
        ..bound(None)
    });
    let writes = data_volume::next(&without, Settings::default());
    assert!(matches!(&writes[0], Write::SetStatus(status) if status.phase == DvPhase::PvcBound));
    let Write::Event { on_dv: false, note } = &writes[1] else {
        panic!("{writes:?}")
    };
    assert_eq!(note.reason, "NoCSIDriverForExternalPopulation");
}
