use super::*;

fn claim() -> Claim {
    Claim {
        name: "disk0".into(),
        source: Some(Source::Http),
        late: true,
        ..Claim::default()
    }
}

fn bound() -> Claim {
    Claim {
        phase: ClaimPhase::Bound,
        ..claim()
    }
}

fn pod(phase: PodPhase) -> Pod {
    Pod {
        name: "importer-disk0".into(),
        uid: "p".into(),
        phase,
        ..Pod::default()
    }
}

fn run(claim: &Claim, worker: Option<&Pod>, users: &[&str]) -> Vec<Write> {
    let users: Vec<_> = users.iter().map(ToString::to_string).collect();
    next(claim, worker, &users, "ns", Settings::default())
}

#[test]
fn acts_only_on_claims_with_a_source_and_only_when_bound() {
    assert!(
        run(
            &Claim {
                source: None,
                ..bound()
            },
            None,
            &[]
        )
        .is_empty()
    );
    assert!(run(&claim(), None, &[]).is_empty());
    assert_eq!(run(&bound(), None, &[]), [Write::NameWorker]);
    let gate_off = Settings {
        honor_late_binding: false,
    };
    assert_eq!(next(&claim(), None, &[], "ns", gate_off), [Write::NameWorker]);
}

#[test]
fn immediate_binding_makes_the_worker_the_first_consumer() {
    let immediate = Claim {
        immediate: true,
        ..claim()
    };
    assert_eq!(run(&immediate, None, &[]), [Write::NameWorker]);
    let named = Claim {
        worker_named: true,
        ..immediate
    };
    assert_eq!(run(&named, None, &[]), [Write::CreateWorker { node: None }]);
}

#[test]
fn a_user_blocks_before_the_worker_is_named() {
    for (source, reason) in [
        (Source::Http, "ImportTargetInUse"),
        (Source::Upload, "UploadTargetInUse"),
    ] {
        let writes = run(
            &Claim {
                source: Some(source),
                ..bound()
            },
            None,
            &["db"],
        );
        let text = "pod ns/db using PersistentVolumeClaim disk0";
        assert_eq!(
            writes,
            [
                Write::Event {
                    on_dv: false,
                    note: Note::warning(reason, text)
                },
                Write::RetryLater
            ]
        );
    }
    // Once the worker is there, nobody looks any more.
    let named = Claim {
        worker_named: true,
        ..bound()
    };
    assert!(matches!(
        run(&named, Some(&pod(PodPhase::Pending)), &["db"]).as_slice(),
        [Write::NoteWorker(_)]
    ));
}

#[test]
fn only_final_pods_are_no_users() {
    let pods = [
        pod(PodPhase::Pending),
        pod(PodPhase::Succeeded),
        pod(PodPhase::Failed),
        Pod {
            deleting: true,
            ..pod(PodPhase::Running)
        },
    ];
    assert_eq!(super::super::users(&pods).len(), 2);
}

#[test]
fn only_the_worker_of_a_prime_is_pinned() {
    let named = Claim {
        worker_named: true,
        node: Some("n1".into()),
        ..bound()
    };
    assert_eq!(run(&named, None, &[]), [Write::CreateWorker { node: None }]);
    assert_eq!(
        run(&Claim { prime: true, ..named }, None, &[]),
        [Write::CreateWorker {
            node: Some("n1".into())
        }]
    );
}

#[test]
fn the_workers_phase_goes_on_the_claim_and_a_finished_worker_goes() {
    let named = Claim {
        worker_named: true,
        ..bound()
    };
    let done = pod(PodPhase::Succeeded);
    let writes = run(&named, Some(&done), &[]);
    let Write::NoteWorker(noted) = &writes[0] else {
        panic!("{writes:?}")
    };
    assert_eq!(
        noted.running,
        Some(Condition::new(false, "Completed", "Import Complete"))
    );
    assert_eq!(
        writes[1],
        Write::Event {
            on_dv: false,
            note: Note::normal("ImportSucceeded", "Import Successful")
        }
    );
    let known = Claim {
        worker: noted.clone(),
        ..named.clone()
    };
    assert_eq!(
        run(&known, Some(&done), &[]),
        [Write::DeleteWorker {
            name: done.name.clone(),
            uid: "p".into()
        }]
    );
    assert!(
        run(
            &known,
            Some(&Pod {
                deleting: true,
                ..done.clone()
            }),
            &[]
        )
        .is_empty()
    );
    assert!(
        run(&known, None, &["db"]).is_empty(),
        "a filled claim is nobody's business"
    );
    let dying = Claim {
        deleting: true,
        ..named
    };
    assert_eq!(run(&dying, Some(&pod(PodPhase::Running)), &[]).len(), 1);
}

#[test]
fn a_refused_worker_is_told_once_on_the_claim_and_tried_again() {
    let named = Claim {
        worker_named: true,
        ..bound()
    };
    let writes = refused(&named, "importer-disk0", false);
    let Write::NoteWorker(noted) = &writes[0] else {
        panic!("{writes:?}")
    };
    assert_eq!(noted.phase, Some(PodPhase::Failed));
    assert!(matches!(&writes[1], Write::Event { note, .. } if note.reason == "ErrStartingPod"));
    let known = Claim {
        worker: noted.clone(),
        ..named
    };
    assert_eq!(refused(&known, "importer-disk0", false).len(), 2);
    assert_eq!(run(&known, None, &[]), [Write::CreateWorker { node: None }]);
    let quota = refused(&known, "importer-disk0", true);
    assert!(matches!(&quota[1], Write::Event { note, .. } if note.reason == "ErrExceededQuota"));
}

#[test]
fn the_newest_event_is_noted_while_pending_and_dropped_when_bound() {
    let told = Claim {
        events: vec![Note::normal("A", "old"), Note::normal("B", "new")],
        ..claim()
    };
    let noted = Write::NoteBound {
        on: Which::Target,
        message: Some("new".into()),
    };
    assert_eq!(run(&told, None, &[]), [noted]);
    let known = Claim {
        bound_note: Some("new".into()),
        ..told
    };
    assert!(run(&known, None, &[]).is_empty());
    let now_bound = Claim {
        phase: ClaimPhase::Bound,
        ..known
    };
    assert_eq!(
        run(&now_bound, None, &[])[0],
        Write::NoteBound {
            on: Which::Target,
            message: None
        }
    );
}
