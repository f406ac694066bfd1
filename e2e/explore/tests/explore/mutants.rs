//! Every rule catches a decision that was broken on purpose.

use first_consumer::decide::{Action, Effect, Settings, Turn, turn};
use first_consumer::index::{Changed, Index};
use first_consumer::memory::Memory;
use first_consumer::name::{Key, Uid, pod_name};
use first_consumer::observe::Named;
use first_consumer::reason::Reason;
use first_consumer_explore::explore::models::{Disk, FAULTS, LEGACY, May, NOTHING, POPULATOR};
use first_consumer_explore::explore::{Brain, Model, explore};
use k8s_openapi::jiff::Timestamp;
use libtest_mimic::{Failed, Trial};
use serde_json::json;
use std::time::Duration;

/// One test a mutant.
pub fn trials() -> Vec<Trial> {
    let trial = |name: &str, test: fn() -> Result<(), Failed>| Trial::test(format!("caught::{name}"), test);
    vec![
        trial("a_second_pod_under_another_name", a_second_pod_under_another_name),
        trial("deleting_whoever_has_the_name", deleting_whoever_has_the_name),
        trial("a_delete_without_precondition", a_delete_without_precondition),
        trial("a_pod_beside_a_launcher", a_pod_beside_a_launcher),
        trial("a_pod_made_beside_a_launcher", a_pod_made_beside_a_launcher),
        trial("a_pod_that_is_left", a_pod_that_is_left),
        trial(
            "a_pod_that_is_kept_for_a_disk_that_has_failed",
            a_pod_that_is_kept_for_a_disk_that_has_failed,
        ),
        trial(
            "a_claim_that_is_forgotten_when_its_node_is_given_back",
            a_claim_that_is_forgotten_when_its_node_is_given_back,
        ),
        trial("a_controller_that_forgets_its_gap", a_controller_that_forgets_its_gap),
        trial("a_gap_that_does_not_grow", a_gap_that_does_not_grow),
        trial("a_pod_that_is_replaced_for_ever", a_pod_that_is_replaced_for_ever),
        trial(
            "a_pod_that_is_not_kept_out_of_where_a_peer_is",
            a_pod_that_is_not_kept_out_of_where_a_peer_is,
        ),
        trial("a_peer_that_is_not_waited_for", a_peer_that_is_not_waited_for),
        trial("peers_that_wait_for_each_other", peers_that_wait_for_each_other),
        trial("a_change_that_nobody_made", a_change_that_nobody_made),
        trial("a_decision_that_a_restart_changes", a_decision_that_a_restart_changes),
        trial(
            "a_restart_that_forgets_how_often_pods_ended",
            a_restart_that_forgets_how_often_pods_ended,
        ),
        trial("a_change_that_wakes_nobody", a_change_that_wakes_nobody),
        trial("a_timer_that_is_forgotten", a_timer_that_is_forgotten),
        trial(
            "an_expansion_that_is_not_asked_for_again",
            an_expansion_that_is_not_asked_for_again,
        ),
    ]
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
fn caught(model: &Model, brain: &dyn Brain, rule: &str) -> Result<(), Failed> {
    let report = explore(&model.clone().lag(1), brain, 2_000_000);
    match report.broken {
        Some(story) if story.rule.starts_with(rule) && !story.lines.is_empty() => Ok(()),
        Some(story) => Err(format!("not for {rule}: {story}").into()),
        None => Err(format!("{}: not caught: {rule}", model.name).into()),
    }
}

fn one_disk(budget: u8, may: May) -> Model {
    Model::of("one legacy disk", &[LEGACY], budget).may(may)
}

fn a_second_pod_under_another_name() -> Result<(), Failed> {
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
    caught(&one_disk(1, FAULTS), &broken, "never two own pods")
}

fn deleting_whoever_has_the_name() -> Result<(), Failed> {
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
            };
        }
    });
    caught(&model, &broken, "only the own pod that was decided about is deleted")
}

fn a_delete_without_precondition() -> Result<(), Failed> {
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
    )
}

fn a_pod_beside_a_launcher() -> Result<(), Failed> {
    let model = one_disk(1, May { run: true, ..NOTHING });
    let broken = Broken(|turn: &mut Turn, _: &mut Memory| {
        if turn.decision.reason == Reason::LauncherPresent {
            turn.effect = Effect::Nothing;
        }
    });
    caught(
        &model,
        &broken,
        "no own pod while a launcher lives: ours is kept although a launcher is seen",
    )
}

fn a_pod_made_beside_a_launcher() -> Result<(), Failed> {
    let model = one_disk(1, May { run: true, ..NOTHING });
    let broken = Broken(|turn: &mut Turn, _: &mut Memory| {
        let observed = &turn.observed;
        if let (Reason::LauncherPresent, Named::Nobody, Some(owner)) =
            (turn.decision.reason, &observed.pod, &observed.owner)
        {
            turn.effect = Effect::Create(Box::new(json!({
                "metadata": {"name": pod_name(&observed.subject), "ownerReferences": [{"uid": owner.uid}]},
            })));
        }
    });
    caught(
        &model,
        &broken,
        "no own pod while a launcher lives: one is made although a launcher is seen",
    )
}

fn a_pod_that_is_left() -> Result<(), Failed> {
    let broken = Broken(|turn: &mut Turn, _: &mut Memory| {
        if turn.decision.reason == Reason::Served {
            turn.effect = Effect::Nothing;
        }
    });
    caught(&one_disk(0, NOTHING), &broken, "no pod is left when nothing waits")
}

fn a_pod_that_is_kept_for_a_disk_that_has_failed() -> Result<(), Failed> {
    let broken = Broken(|turn: &mut Turn, _: &mut Memory| {
        if turn.decision.reason == Reason::DataVolumeFailed {
            turn.effect = Effect::Nothing;
        }
    });
    let late = Disk {
        late: true,
        ..POPULATOR
    };
    let may = May {
        fail_workers: true,
        ..NOTHING
    };
    let model = Model::of("a late populator disk", &[POPULATOR, late], 1).may(may);
    caught(&model, &broken, "no pod is left when nothing waits")
}

fn a_claim_that_is_forgotten_when_its_node_is_given_back() -> Result<(), Failed> {
    let broken = Broken(|turn: &mut Turn, _: &mut Memory| {
        let stripped = turn.observed.claims().any(|claim| claim.stripped);
        if stripped && matches!(turn.effect, Effect::Create(_)) {
            turn.effect = Effect::Nothing;
        }
    });
    caught(&one_disk(1, FAULTS), &broken, "a waiting claim is placed in the end")
}

fn a_controller_that_forgets_its_gap() -> Result<(), Failed> {
    let broken = Broken(|_: &mut Turn, memory: &mut Memory| *memory = Memory::default());
    caught(&one_disk(1, FAULTS), &broken, "growing gaps")
}

fn a_gap_that_does_not_grow() -> Result<(), Failed> {
    struct Steady;
    impl Brain for Steady {
        fn turn(&self, index: &Index, subject: &Key, settings: &Settings, memory: &mut Memory, now: Timestamp) -> Turn {
            let mut turn = turn(index, subject, settings, memory, now);
            if turn.decision.reason == Reason::BackingOff {
                turn.decision.wake_at = now.checked_add(Duration::from_secs(5)).ok();
            }
            turn
        }
    }
    let may = May {
        take_pods: true,
        ..NOTHING
    };
    caught(&one_disk(2, may), &Steady, "growing gaps: after 2 pods the gap is")
}

fn a_pod_that_is_replaced_for_ever() -> Result<(), Failed> {
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
            };
        }
    });
    caught(&one_disk(0, NOTHING), &broken, "growing gaps")
}

fn a_decision_that_a_restart_changes() -> Result<(), Failed> {
    let broken = Broken(|turn: &mut Turn, memory: &mut Memory| {
        // Once refused, never again.
        if memory.refusal.is_some() && turn.decision.reason == Reason::FirstConsumerNeeded {
            turn.decision.action = Action::None;
            turn.decision.reason = Reason::NothingWaiting;
            turn.effect = Effect::Nothing;
        }
    });
    caught(&one_disk(1, FAULTS), &broken, "a restart decides the same")
}

fn a_restart_that_forgets_how_often_pods_ended() -> Result<(), Failed> {
    // Who has not made the last pod tries on.
    let broken = Broken(|turn: &mut Turn, memory: &mut Memory| {
        if let (Reason::GaveUp, Named::Own(pod)) = (turn.decision.reason, &turn.observed.pod)
            && memory.created_at(&pod.uid).is_none()
        {
            turn.decision.action = Action::Replace;
            turn.decision.reason = Reason::PodFinished;
        }
    });
    let model = Model {
        frail: true,
        swift: true,
        nodes: 0,
        ..one_disk(0, NOTHING)
    };
    caught(&model, &broken, "a restart decides the same")
}

fn a_change_that_wakes_nobody() -> Result<(), Failed> {
    struct Deaf;
    impl Brain for Deaf {
        fn woken(&self, kind: &str, changed: Changed) -> Changed {
            if kind == "Dv" { Changed::new() } else { changed }
        }
    }
    caught(&one_disk(0, NOTHING), &Deaf, "no wake-up is lost")
}

fn a_timer_that_is_forgotten() -> Result<(), Failed> {
    let broken = Broken(|turn: &mut Turn, _: &mut Memory| {
        if turn.decision.reason == Reason::CreateRefused {
            turn.decision.wake_at = None;
        }
    });
    caught(&one_disk(1, FAULTS), &broken, "no wake-up is lost")
}

fn an_expansion_that_is_not_asked_for_again() -> Result<(), Failed> {
    let model = Model {
        instancetype: true,
        ..one_disk(1, FAULTS)
    };
    let broken = Broken(|turn: &mut Turn, memory: &mut Memory| {
        if let Effect::Expand { inputs } = &turn.effect
            && memory.expansion.failure(inputs).is_some()
        {
            turn.effect = Effect::Nothing;
        }
    });
    caught(&model, &broken, "a waiting claim is placed in the end")
}

/// Two VMs that must not run beside each other.
fn anti_affine() -> Model {
    Model {
        vms: vec![vec![0], vec![1]],
        nodes: 2,
        apart: true,
        swift: true,
        ..Model::of("two anti-affine VMs", &[LEGACY, LEGACY], 0)
    }
}

fn a_pod_that_is_not_kept_out_of_where_a_peer_is() -> Result<(), Failed> {
    let broken = Broken(|turn: &mut Turn, _: &mut Memory| {
        if let Effect::Create(pod) = &mut turn.effect
            && let Some(affinity) = pod["spec"]["affinity"].as_object_mut()
        {
            affinity.remove("nodeAffinity");
        }
    });
    caught(&anti_affine(), &broken, "anti-affine VMs")
}

fn a_peer_that_is_not_waited_for() -> Result<(), Failed> {
    // It lets a pod go although a peer's, which knows nothing of its node, is with the scheduler.
    let broken = Broken(|turn: &mut Turn, _: &mut Memory| {
        if let (Reason::WaitingForPeer, Action::Keep, Named::Own(pod)) =
            (turn.decision.reason, turn.decision.action, &turn.observed.pod)
        {
            turn.effect = Effect::Delete {
                name: pod_name(&turn.observed.subject),
                uid: pod.uid.clone(),
                replaced: false,
            };
        }
    });
    let storage = May {
        fail_storage: true,
        ..NOTHING
    };
    let model = Model {
        budget: 1,
        ..anti_affine().may(storage)
    };
    caught(&model, &broken, "anti-affine VMs")
}

fn peers_that_wait_for_each_other() -> Result<(), Failed> {
    // Who can't act for a while, and then waits for a peer, says nothing of it, so that the peer waits for it.
    let broken = Broken(|turn: &mut Turn, _: &mut Memory| {
        if (turn.decision.reason, turn.decision.action) == (Reason::WaitingForPeer, Action::Wait) {
            turn.standing = None;
        }
    });
    let model = Model {
        budget: 1,
        ..anti_affine().may(May {
            fail_us: true,
            ..NOTHING
        })
    };
    caught(&model, &broken, "turns come to rest")
}

fn a_change_that_nobody_made() -> Result<(), Failed> {
    // A hash that never comes back.
    let broken = Broken(|turn: &mut Turn, memory: &mut Memory| {
        if let (Effect::Nothing, Action::Keep, Named::Own(pod)) =
            (&turn.effect, turn.decision.action, &turn.observed.pod)
        {
            turn.effect = Effect::Delete {
                name: pod_name(&turn.observed.subject),
                uid: pod.uid.clone(),
                replaced: true,
            };
        }
        if turn.decision.reason == Reason::BackingOff {
            *memory = Memory::default();
        }
    });
    caught(
        &one_disk(0, NOTHING),
        &broken,
        "growing gaps: a second pod is made without any",
    )
}
