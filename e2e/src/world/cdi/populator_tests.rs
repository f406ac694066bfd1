use super::*;
use crate::world::objects::Worker;

fn target() -> Claim {
    Claim {
        name: "disk0".into(),
        uid: "t".into(),
        populator: true,
        late: true,
        ..Claim::default()
    }
}

fn prime(worker: Option<PodPhase>) -> Claim {
    let worker = Worker {
        phase: worker,
        ..Worker::default()
    };
    Claim {
        name: "prime-t".into(),
        uid: "p".into(),
        prime: true,
        worker,
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

fn disk(target: Claim, prime: Option<Claim>) -> Disk {
    Disk {
        claim: Some(target),
        prime,
        late: true,
        ..Disk::default()
    }
}

#[test]
fn a_prime_needs_a_node_or_immediate_binding() {
    assert!(next(&disk(target(), None)).is_empty());
    let chosen = Claim {
        node: Some("n1".into()),
        ..target()
    };
    assert_eq!(
        next(&disk(chosen.clone(), None))[0],
        Write::CreatePrime {
            node: Some("n1".into())
        }
    );
    let immediate = Claim {
        immediate: true,
        ..target()
    };
    assert_eq!(next(&disk(immediate, None))[0], Write::CreatePrime { node: None });
    assert!(
        next(&disk(bound(chosen.clone()), None)).is_empty(),
        "bound to somebody else's volume"
    );
    assert!(
        next(&disk(
            Claim {
                populator: false,
                ..chosen.clone()
            },
            None
        ))
        .is_empty()
    );
    assert!(
        next(&disk(
            Claim {
                deleting: true,
                ..chosen
            },
            None
        ))
        .is_empty()
    );
}

#[test]
fn population_goes_on_without_the_targets_node() {
    let running = prime(Some(PodPhase::Running));
    let writes = next(&disk(target(), Some(running.clone())));
    assert_eq!(writes, [Write::CopyWorker(running.worker)]);
}

#[test]
fn an_import_is_announced_on_the_target_before_the_volume_is_given_away() {
    let done = bound(prime(Some(PodPhase::Succeeded)));
    let writes = next(&disk(target(), Some(done.clone())));
    assert_eq!(writes[0], Write::CopyWorker(done.worker.clone()));
    assert_eq!(writes[1], Write::Rebind { volume: "pv".into() });
    let not_bound = next(&disk(target(), Some(prime(Some(PodPhase::Succeeded)))));
    assert_eq!(
        not_bound.len(),
        1,
        "success is shown before the prime is bound: {not_bound:?}"
    );
}

#[test]
fn an_upload_gives_the_volume_away_first() {
    let done = bound(prime(Some(PodPhase::Succeeded)));
    let mut disk = disk(target(), Some(done.clone()));
    disk.dv.source = Source::Upload;
    assert_eq!(next(&disk), [Write::Rebind { volume: "pv".into() }]);
    disk.rebound = true;
    assert_eq!(next(&disk), [Write::CopyWorker(done.worker)]);
}

#[test]
fn a_lost_prime_of_a_bound_target_is_deleted() {
    let lost = Claim {
        phase: ClaimPhase::Lost,
        ..prime(None)
    };
    assert_eq!(
        next(&disk(bound(target()), Some(lost.clone()))),
        [Write::DeletePrime { uid: "p".into() }]
    );
    assert!(next(&disk(bound(target()), Some(bound(prime(None))))).is_empty());
    let told = Claim {
        bound_note: Some("x".into()),
        ..bound(target())
    };
    let note = Write::NoteBound {
        on: Which::Target,
        message: None,
    };
    assert_eq!(next(&disk(told, Some(lost)))[0], note);
}

#[test]
fn events_of_the_prime_come_out_on_the_target_once() {
    let events = vec![Note::normal("Provisioning", "x"), Note::warning("ClaimMisbound", "y")];
    let prime = Claim { events, ..prime(None) };
    let copy = Note::normal("Provisioning", "[prime-t] : x");
    let writes = next(&disk(target(), Some(prime.clone())));
    assert_eq!(
        writes[0],
        Write::Event {
            on_dv: false,
            note: copy.clone()
        }
    );
    assert_eq!(
        writes[1],
        Write::NoteBound {
            on: Which::Target,
            message: Some("x".into())
        }
    );
    let seen = Claim {
        events: vec![copy],
        bound_note: Some("x".into()),
        knows_prime: true,
        ..target()
    };
    assert!(next(&disk(seen, Some(prime))).is_empty());
}
