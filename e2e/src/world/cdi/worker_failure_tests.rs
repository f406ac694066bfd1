//! Workers that fail, and workers that want scratch space.

use super::*;

fn bound(source: Source) -> Claim {
    Claim {
        name: "disk0".into(),
        source: Some(source),
        phase: ClaimPhase::Bound,
        worker_named: true,
        ..Claim::default()
    }
}

fn pod(phase: PodPhase, error: Option<&str>) -> Pod {
    Pod {
        phase,
        error: error.map(|reason| (reason.to_owned(), "what it said".to_owned())),
        ..Pod::default()
    }
}

fn run(claim: &Claim, worker: Option<&Pod>) -> Vec<Write> {
    next(claim, worker, &[], "ns", Settings::default())
}

fn noted(writes: &[Write]) -> Worker {
    let noted = writes.iter().find_map(|write| match write {
        Write::NoteWorker(worker) => Some(worker.clone()),
        _ => None,
    });
    noted.unwrap_or_default()
}

#[test]
fn a_worker_that_starts_again_and_again_runs_and_its_restarts_are_counted() {
    let crashed = Pod {
        restarts: 2,
        ..pod(PodPhase::Running, Some("Error"))
    };
    let writes = run(&bound(Source::Http), Some(&crashed));
    let worker = noted(&writes);
    assert_eq!(
        (worker.phase, worker.restarts, worker.fatal),
        (Some(PodPhase::Running), 2, false)
    );
    assert_eq!(worker.running, Some(Condition::new(false, "Error", "what it said")));
    let note = Note::warning("ErrImportFailed", "what it said");
    let told = Write::Event { on_dv: false, note };
    assert!(writes.contains(&told), "{writes:?}");
    let mut known = bound(Source::Http);
    known.worker = worker;
    assert!(run(&known, Some(&crashed)).is_empty(), "told once");
    // The restarts of an earlier worker stay.
    assert_eq!(noted(&run(&known, Some(&pod(PodPhase::Pending, None)))).restarts, 2);
}

#[test]
fn wrong_data_is_not_asked_for_again() {
    let failed = noted(&run(&bound(Source::Http), Some(&pod(PodPhase::Failed, Some("Error")))));
    assert!(!failed.fatal);
    let wrong = noted(&run(
        &bound(Source::Http),
        Some(&pod(PodPhase::Failed, Some("ChecksumError"))),
    ));
    assert!(wrong.fatal);
    let mut claim = bound(Source::Http);
    claim.worker = failed;
    assert_eq!(run(&claim, None), [Write::CreateWorker { node: None }]);
    claim.worker = wrong;
    assert!(run(&claim, None).is_empty());
}

#[test]
fn a_scratch_claim_comes_after_its_worker_and_the_claim_says_so_until_it_is_bound() {
    for (source, wanted) in [
        (Source::Registry, true),
        (Source::Upload, true),
        (Source::Http, false),
        (Source::Blank, false),
        (Source::Pvc, false),
    ] {
        let writes = run(&bound(source), Some(&pod(PodPhase::Pending, None)));
        let scratch = Write::CreateScratch { node: None };
        assert_eq!(writes.contains(&scratch), wanted, "{source:?}");
    }
    let mut claim = bound(Source::Registry);
    claim.bound_note = Some(CREATING_SCRATCH.into());
    claim.scratch = Some(ClaimPhase::Pending);
    let forgets = |claim: &Claim| {
        let forget = Write::NoteBound {
            on: Which::Target,
            message: None,
        };
        run(claim, Some(&pod(PodPhase::Pending, None))).contains(&forget)
    };
    assert!(!forgets(&claim));
    claim.scratch = Some(ClaimPhase::Bound);
    assert!(forgets(&claim));
}

/// A pinned worker goes past the scheduler, so nobody would choose a node for its scratch claim.
#[test]
fn the_scratch_claim_of_a_prime_has_its_node() {
    let prime = Claim {
        prime: true,
        node: Some("n1".into()),
        ..bound(Source::Upload)
    };
    let writes = run(&prime, Some(&pod(PodPhase::Pending, None)));
    let scratch = Write::CreateScratch {
        node: Some("n1".into()),
    };
    assert!(writes.contains(&scratch), "{writes:?}");
}

#[test]
fn a_host_assisted_clone_is_an_upload_to_whoever_uses_its_target() {
    let users = ["vm".to_owned()];
    let writes = next(&bound(Source::Pvc), None, &users, "ns", Settings::default());
    assert!(
        matches!(&writes[0], Write::Event { note, .. } if note.reason == "UploadTargetInUse"),
        "{writes:?}"
    );
    assert_eq!(writes.last(), Some(&Write::RetryLater));
    let ready = Pod {
        ready: true,
        ..pod(PodPhase::Running, None)
    };
    assert_eq!(noted(&run(&bound(Source::Pvc), Some(&ready))).ready, Some(true));
}
