//! Model checking: every model of the table is explored whole, and every rule catches a decision that was broken on
//! purpose.

// All of this file is a test; clippy only knows the functions that are marked as one.
#![allow(clippy::expect_used, clippy::panic)]

use first_consumer::decide::{Action, Effect, Settings, Turn, turn};
use first_consumer::index::Index;
use first_consumer::memory::Memory;
use first_consumer::name::{Key, Uid, pod_name};
use first_consumer::observe::Named;
use first_consumer::reason::Reason;
use first_consumer_explore::explore::models::{self, FAULTS, LEGACY, May, NOTHING};
use first_consumer_explore::explore::{Brain, Model, Product, explore};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More than any model of the table has.
const LIMIT: usize = 30_000_000;

#[test]
fn every_model_holds() {
    // `hack/explore.sh` sets it.
    let more = std::env::var("EXPLORE_MORE").is_ok_and(|more| !more.is_empty());
    let table = models::table(more);
    let (next, reports) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let explore_rest = || {
        while let Some(model) = table.get(next.fetch_add(1, Ordering::Relaxed)) {
            let report = explore(model, &Product, LIMIT);
            println!("{report}");
            reports.lock().expect("the other thread's reports").push(report);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(explore_rest);
        scope.spawn(explore_rest);
    });
    let (mut states, mut stories) = (0, Vec::new());
    for report in reports.into_inner().expect("all reports") {
        states += report.states;
        match report.broken {
            Some(story) => stories.push(format!("{}: {story}", report.model)),
            None => assert!(report.whole, "{}: not whole", report.model),
        }
    }
    println!("{} models, {states} states", table.len());
    assert!(stories.is_empty(), "{}", stories.join("\n"));
}

/// A decision that was broken on purpose: the product's turn, and what is done to it.
struct Broken<F>(F);

impl<F: Fn(&mut Turn, &mut Memory)> Brain for Broken<F> {
    fn turn(&self, index: &Index, subject: &Key, settings: &Settings, memory: &mut Memory, now: Timestamp) -> Turn {
        let mut turn = turn(index, subject, settings, memory, now);
        (self.0)(&mut turn, memory);
        turn
    }
}

/// The checker must tell this of it, in a story.
fn caught(model: &Model, brain: &dyn Brain, rule: &str) {
    let report = explore(&model.clone().lag(1), brain, 2_000_000);
    let story = report
        .broken
        .unwrap_or_else(|| panic!("{}: not caught: {rule}", model.name));
    println!("{} states\n{story}", report.states);
    assert!(story.rule.starts_with(rule), "{story}");
    assert!(!story.lines.is_empty());
}

fn one_disk(budget: u8, may: May) -> Model {
    Model::of("one legacy disk", &[LEGACY], budget).may(may)
}

#[test]
fn a_second_pod_under_another_name_is_caught() {
    // After a restart it does not recognise the pod that is there.
    let broken = Broken(|turn: &mut Turn, memory: &mut Memory| {
        if let (Effect::Nothing, Action::Keep, Named::Own(pod)) =
            (&turn.effect, turn.decision.action, &turn.observed.pod)
            && memory.created_at(&pod.uid).is_none()
        {
            let name = format!("{}-2", pod_name(&turn.observed.subject));
            turn.effect = Effect::Create(Box::new(json!({
                "metadata": {"name": name, "ownerReferences": [{"uid": pod.marks.owner_uid}]},
            })));
        }
    });
    caught(&one_disk(1, FAULTS), &broken, "never two own pods");
}

#[test]
fn deleting_whoever_has_the_name_is_caught() {
    let model = Model {
        lookalike: true,
        ..one_disk(0, NOTHING)
    };
    let broken = Broken(|turn: &mut Turn, _: &mut Memory| {
        if turn.decision.reason == Reason::NameTaken {
            turn.effect = Effect::Delete {
                name: pod_name(&turn.observed.subject),
                uid: Uid::from("~p0.0~"),
                replaced: false,
                next_attempt: None,
            };
        }
    });
    caught(&model, &broken, "only the own pod that was decided about is deleted");
}

#[test]
fn a_delete_without_precondition_is_caught() {
    struct Blind;
    impl Brain for Blind {
        fn names_uids(&self) -> bool {
            false
        }
    }
    // A delete that was given up arrives when the next pod is there.
    let may = May { edit: true, ..FAULTS };
    caught(
        &one_disk(3, may),
        &Blind,
        "only the own pod that was decided about is deleted",
    );
}

#[test]
fn a_pod_beside_a_launcher_is_caught() {
    let model = one_disk(1, May { run: true, ..NOTHING });
    let broken = Broken(|turn: &mut Turn, _: &mut Memory| {
        if turn.decision.reason == Reason::LauncherPresent {
            turn.effect = Effect::Nothing;
        }
    });
    caught(&model, &broken, "no own pod while a launcher lives");
}

#[test]
fn a_pod_that_is_left_is_caught() {
    let broken = Broken(|turn: &mut Turn, _: &mut Memory| {
        if turn.decision.reason == Reason::Served {
            turn.effect = Effect::Nothing;
        }
    });
    caught(&one_disk(0, NOTHING), &broken, "no pod is left when nothing waits");
}

#[test]
fn a_claim_that_is_forgotten_when_its_node_is_given_back_is_caught() {
    let broken = Broken(|turn: &mut Turn, _: &mut Memory| {
        let stripped = turn.observed.claims().any(|claim| claim.stripped);
        if stripped && matches!(turn.effect, Effect::Create(_)) {
            turn.effect = Effect::Nothing;
        }
    });
    caught(&one_disk(1, FAULTS), &broken, "a waiting claim is placed in the end");
}

#[test]
fn a_controller_that_forgets_its_gap_is_caught() {
    let broken = Broken(|_: &mut Turn, memory: &mut Memory| *memory = Memory::default());
    caught(&one_disk(1, FAULTS), &broken, "growing gaps");
}

#[test]
fn a_pod_that_is_replaced_for_ever_is_caught() {
    let broken = Broken(|turn: &mut Turn, _: &mut Memory| {
        if let (Effect::Nothing, Action::Keep, Named::Own(pod)) =
            (&turn.effect, turn.decision.action, &turn.observed.pod)
        {
            turn.decision.action = Action::Replace;
            turn.decision.reason = Reason::PlacementChanged;
            turn.effect = Effect::Delete {
                name: pod_name(&turn.observed.subject),
                uid: pod.uid.clone(),
                replaced: true,
                next_attempt: None,
            };
        }
    });
    caught(&one_disk(0, NOTHING), &broken, "growing gaps");
}

#[test]
fn a_decision_that_a_restart_changes_is_caught() {
    let broken = Broken(|turn: &mut Turn, memory: &mut Memory| {
        // Once refused, never again.
        if memory.refusal.is_some() && turn.decision.reason == Reason::FirstConsumerNeeded {
            turn.decision.action = Action::None;
            turn.decision.reason = Reason::NothingWaiting;
            turn.effect = Effect::Nothing;
        }
    });
    caught(&one_disk(1, FAULTS), &broken, "a restart decides the same");
}
