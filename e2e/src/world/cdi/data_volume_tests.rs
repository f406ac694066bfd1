use super::*;
use crate::world::cdi::Dv;
use crate::world::objects::{Owner, Source, Worker};

fn legacy() -> Claim {
    Claim {
        name: "disk0".into(),
        uid: "c".into(),
        owner: Some(Owner {
            kind: "DataVolume".into(),
            name: "disk0".into(),
            uid: "d".into(),
        }),
        late: true,
        created_for: Some("d".into()),
        source: Some(Source::Http),
        ..Claim::default()
    }
}

fn target() -> Claim {
    Claim {
        populator: true,
        source: None,
        ..legacy()
    }
}

fn disk(phase: DvPhase, claim: Claim) -> Disk {
    let dv = Dv {
        name: "disk0".into(),
        uid: "d".into(),
        populator: Some(claim.populator),
        status: Status {
            phase,
            ..Status::default()
        },
        ..Dv::default()
    };
    Disk {
        dv,
        late: true,
        claim: Some(claim),
        ..Disk::default()
    }
}

fn bound(claim: Claim) -> Claim {
    Claim {
        phase: ClaimPhase::Bound,
        volume: Some("pv".into()),
        ..claim
    }
}

fn worker(phase: PodPhase, ready: bool) -> Worker {
    Worker {
        phase: Some(phase),
        ready: Some(ready),
        ..Worker::default()
    }
}

fn after(disk: &Disk) -> DvPhase {
    phase(disk, Settings::default())
}

const GATE_OFF: Settings = Settings {
    honor_late_binding: false,
};

#[test]
fn the_first_reconcile_marks_creates_and_says_pending() {
    for csi in [false, true] {
        let disk = Disk {
            dv: Dv {
                name: "disk0".into(),
                uid: "d".into(),
                ..Dv::default()
            },
            csi,
            late: true,
            ..Disk::default()
        };
        let writes = next(&disk, Settings::default());
        assert_eq!(writes[0], Write::MarkPath { populator: csi });
        assert_eq!(
            writes[1],
            Write::CreateClaim {
                populator: csi,
                immediate: false
            }
        );
        let Write::SetStatus(status) = &writes[2] else {
            panic!("{writes:?}")
        };
        assert_eq!((status.phase, status.claim_known), (DvPhase::Pending, false));
        assert_eq!(
            writes[3],
            Write::Event {
                on_dv: true,
                note: Note::normal("NotFound", "No PVC found")
            }
        );
    }
}

#[test]
fn the_dvs_own_word_decides_the_path_and_the_gate_adds_immediate_binding_on_the_populator_path() {
    let dv = Dv {
        populator: Some(true),
        ..Dv::default()
    };
    let disk = Disk {
        dv,
        csi: false,
        late: true,
        ..Disk::default()
    };
    assert_eq!(
        next(&disk, GATE_OFF)[0],
        Write::CreateClaim {
            populator: true,
            immediate: true
        }
    );
    let legacy = Disk {
        dv: Dv {
            populator: Some(false),
            ..Dv::default()
        },
        ..disk
    };
    assert_eq!(
        next(&legacy, GATE_OFF)[0],
        Write::CreateClaim {
            populator: false,
            immediate: false
        }
    );
}

#[test]
fn a_legacy_claim_waits_until_bound_whatever_else_it_carries() {
    let node = Claim {
        node: Some("n1".into()),
        ..legacy()
    };
    let immediate = Claim {
        immediate: true,
        ..legacy()
    };
    for claim in [legacy(), node, immediate] {
        assert_eq!(
            after(&disk(DvPhase::Pending, claim.clone())),
            DvPhase::WaitForFirstConsumer
        );
        assert_eq!(phase(&disk(DvPhase::Pending, claim), GATE_OFF), DvPhase::Pending);
    }
    let at_once = Claim {
        late: false,
        ..legacy()
    };
    assert_eq!(after(&disk(DvPhase::Unset, at_once)), DvPhase::Pending);
}

#[test]
fn a_bound_legacy_claim_goes_through_its_worker() {
    let at = DvPhase::WaitForFirstConsumer;
    assert_eq!(after(&disk(at, bound(legacy()))), DvPhase::PvcBound);
    let named = Claim {
        worker_named: true,
        ..bound(legacy())
    };
    for (noted, expected) in [
        (Worker::default(), DvPhase::ImportScheduled),
        (worker(PodPhase::Pending, false), DvPhase::ImportScheduled),
        (worker(PodPhase::Running, false), DvPhase::ImportInProgress),
        (worker(PodPhase::Failed, false), DvPhase::ImportScheduled),
        (worker(PodPhase::Succeeded, false), DvPhase::Succeeded),
    ] {
        assert_eq!(
            after(&disk(
                at,
                Claim {
                    worker: noted,
                    ..named.clone()
                }
            )),
            expected
        );
    }
}

#[test]
fn an_upload_goes_straight_to_its_own_phases() {
    let at = DvPhase::WaitForFirstConsumer;
    for (noted, expected) in [
        (Worker::default(), DvPhase::UploadScheduled),
        (worker(PodPhase::Running, false), DvPhase::UploadScheduled),
        (worker(PodPhase::Running, true), DvPhase::UploadReady),
        (worker(PodPhase::Succeeded, false), DvPhase::Succeeded),
    ] {
        let mut disk = disk(
            at,
            Claim {
                worker: noted,
                source: Some(Source::Upload),
                ..bound(legacy())
            },
        );
        disk.dv.source = Source::Upload;
        assert_eq!(after(&disk), expected);
    }
}

#[test]
fn a_target_waits_for_a_node_and_comes_back_when_it_is_lost() {
    assert_eq!(after(&disk(DvPhase::Pending, target())), DvPhase::PendingPopulation);
    assert_eq!(
        after(&disk(DvPhase::ImportInProgress, target())),
        DvPhase::PendingPopulation
    );
    assert_eq!(
        phase(&disk(DvPhase::Pending, target()), GATE_OFF),
        DvPhase::PendingPopulation,
        "the gate is not read"
    );
    let chosen = Claim {
        node: Some("n1".into()),
        ..target()
    };
    assert_eq!(
        after(&disk(DvPhase::PendingPopulation, chosen.clone())),
        DvPhase::PendingPopulation,
        "no prime yet"
    );
    let immediate = Claim {
        immediate: true,
        ..target()
    };
    assert_eq!(after(&disk(DvPhase::Pending, immediate)), DvPhase::Pending);

    let mut disk = disk(DvPhase::PendingPopulation, chosen);
    disk.prime = Some(Claim {
        worker_named: true,
        ..bound(Claim::default())
    });
    assert_eq!(after(&disk), DvPhase::ImportScheduled);
    disk.claim.as_mut().unwrap().worker = worker(PodPhase::Succeeded, false);
    disk.prime = None;
    assert_eq!(after(&disk), DvPhase::Succeeded, "while the target is still Pending");
}

#[test]
fn lost_adopted_and_terminating_claims() {
    let lost = Claim {
        phase: ClaimPhase::Lost,
        ..target()
    };
    assert_eq!(after(&disk(DvPhase::PendingPopulation, lost)), DvPhase::Failed);
    let mut adopting = disk(
        DvPhase::Unset,
        Claim {
            owner: None,
            created_for: None,
            ..legacy()
        },
    );
    assert!(next(&adopting, Settings::default()).iter().all(|write| matches!(
        write,
        Write::Event { note, .. } if note.reason == "ErrResourceExists"
    )));
    adopting.dv.adopts = true;
    assert_eq!(after(&adopting), DvPhase::Succeeded, "also while the claim is Pending");
    assert_eq!(next(&adopting, Settings::default())[0], Write::AdoptClaim);
    let dying = disk(
        DvPhase::WaitForFirstConsumer,
        Claim {
            deleting: true,
            ..legacy()
        },
    );
    assert_eq!(after(&dying), DvPhase::WaitForFirstConsumer);
}

#[test]
fn scheduled_is_announced_only_if_the_worker_is_known() {
    let named = Claim {
        worker_named: true,
        ..bound(legacy())
    };
    let silent = next(&disk(DvPhase::PvcBound, named.clone()), Settings::default());
    assert!(!format!("{silent:?}").contains("scheduled\""));
    let known = Claim {
        worker: worker(PodPhase::Pending, false),
        ..named
    };
    let spoken = next(&disk(DvPhase::PvcBound, known), Settings::default());
    assert!(format!("{spoken:?}").contains("Import into disk0 scheduled"));
}

#[test]
fn the_bound_condition_tells_the_newest_event() {
    let waiting = Claim {
        bound_note: Some("no".into()),
        ..legacy()
    };
    let said = super::bound(&disk(DvPhase::Pending, waiting.clone()));
    assert_eq!(said.message, "target PVC disk0 Pending and no");
    let with_prime = super::bound(&disk(
        DvPhase::Pending,
        Claim {
            knows_prime: true,
            ..waiting.clone()
        },
    ));
    assert_eq!(with_prime.message, "target PVC disk0 Pending and [prime-c] : no");
    assert!(!super::bound(&disk(DvPhase::Pending, bound(waiting))).status);
    assert!(super::bound(&disk(DvPhase::Pending, bound(legacy()))).status);
}

#[test]
fn a_refused_claim_and_a_refused_worker_are_told() {
    let fresh = Disk {
        claim: None,
        ..disk(DvPhase::Unset, legacy())
    };
    let writes = refused(&fresh, "exceeded quota");
    let Write::SetStatus(status) = &writes[0] else {
        panic!("{writes:?}")
    };
    assert_eq!(status.phase, DvPhase::Pending);
    assert_eq!(status.bound.as_ref().unwrap().reason, "ErrExceededQuota");

    let running = Some(Condition::new(false, "ErrStartingPod", "no"));
    let worker = Worker {
        phase: Some(PodPhase::Failed),
        running,
        ..Worker::default()
    };
    let claim = Claim {
        worker_named: true,
        worker,
        ..bound(legacy())
    };
    let writes = next(&disk(DvPhase::PvcBound, claim), Settings::default());
    let told = Note::warning("ErrStartingPod", "no");
    assert!(
        writes.contains(&Write::Event {
            on_dv: true,
            note: told
        }),
        "{writes:?}"
    );
}

#[test]
fn nothing_new_writes_nothing() {
    let mut disk = disk(DvPhase::WaitForFirstConsumer, legacy());
    let writes = next(&disk, Settings::default());
    let Write::SetStatus(status) = &writes[0] else {
        panic!("{writes:?}")
    };
    disk.dv.status = status.clone();
    assert!(next(&disk, Settings::default()).is_empty());
    disk.dv.deleting = true;
    assert!(next(&disk, GATE_OFF).is_empty());
}
