//! Rows 14 and 15, our pod is there: for every condition a situation that has it, and one that just does not.

use serde_json::{Value, json};

use super::super::Action;
use super::situation::*;
use crate::api::DataVolume;
use crate::name::Key;
use crate::reason::Reason;

#[test]
fn rows_14_and_15_the_pod_is_there() {
    check(&[
        (
            "failed",
            |s| ended(s, "1", "Failed"),
            (Action::Keep, Reason::PodFinished),
        ),
        (
            "succeeded",
            |s| ended(s, "9", "Succeeded"),
            (Action::Keep, Reason::PodFinished),
        ),
        (
            "the tenth",
            |s| ended(s, "10", "Failed"),
            (Action::Keep, Reason::GaveUp),
        ),
        ("not: the tenth runs", |s| ended(s, "10", "Running"), KEPT),
        (
            "not: nothing needs any more",
            |s| {
                ended(s, "1", "Failed");
                s.claim(&with_node(claim("root", "late")));
                s.claim(&with_node(claim("data", "late")));
            },
            (Action::None, Reason::Served),
        ),
        (
            "not: nothing needs, after the tenth",
            |s| {
                ended(s, "10", "Failed");
                s.claim(&with_node(claim("root", "late")));
                s.claim(&with_node(claim("data", "late")));
            },
            (Action::None, Reason::Served),
        ),
        (
            "not: nothing needs, and it was holding",
            |s| {
                held(s);
                s.claim(&with_node(claim("root", "late")));
                s.claim(&with_node(claim("data", "late")));
            },
            (Action::Keep, Reason::WaitingForVolumes),
        ),
        (
            "it was holding, and one still needs",
            |s| {
                held(s);
                s.claim(&with_node(claim("root", "late")));
            },
            (Action::Keep, Reason::PodFinished),
        ),
        (
            "not: it was made for other disks",
            |s| {
                ended(s, "10", "Failed");
                another_life_of_data(s);
            },
            (Action::Replace, Reason::DisksChanged),
        ),
        (
            "not: nothing needs, though a claim waits that a live one would place",
            |s| {
                s.index.delete::<DataVolume>(&Key::new(NAMESPACE, "data"));
                let mut plain = claim("data", "late");
                plain["metadata"]["ownerReferences"] = json!([]);
                s.claim(&plain);
                ended(s, "1", "Failed");
                s.claim(&with_node(claim("root", "late")));
            },
            (Action::None, Reason::NothingWaiting),
        ),
        ("silence", |s| created(s, |_| {}), KEPT),
        (
            "no node fits",
            |s| scheduled(s, "False", "Unschedulable"),
            (Action::Keep, Reason::Unschedulable),
        ),
        (
            "a gate",
            |s| scheduled(s, "False", "SchedulingGated"),
            (Action::Keep, Reason::SchedulingGated),
        ),
        (
            "another word of the scheduler",
            |s| scheduled(s, "False", "SchedulerError"),
            KEPT,
        ),
        (
            "it has a node",
            |s| scheduled(s, "True", ""),
            (Action::Keep, Reason::WaitingForVolumes),
        ),
    ]);
}

pub(super) fn ended(s: &mut Situation, attempt: &str, phase: &str) {
    created(s, |pod| {
        pod["metadata"]["annotations"]["first-consumer.kubevirt.io/attempt"] = json!(attempt);
        pod["status"]["phase"] = json!(phase);
    });
}

/// One whose placement hash says nothing to this version.
pub(super) fn ended_of_another_version(s: &mut Situation, attempt: &str) {
    created(s, |pod| {
        let annotations = &mut pod["metadata"]["annotations"];
        annotations["first-consumer.kubevirt.io/attempt"] = json!(attempt);
        annotations["first-consumer.kubevirt.io/placement-hash"] = json!("v2:0123");
        pod["status"]["phase"] = json!("Failed");
    });
}

/// A holding pod that has ended.
fn held(s: &mut Situation) {
    created(s, |pod| {
        pod["metadata"]["annotations"]["first-consumer.kubevirt.io/hold"] = json!("true");
        pod["status"]["phase"] = json!("Failed");
    });
}

#[test]
fn why_a_pod_has_ended_is_told() {
    let told = |attempt: &str, status: Value| {
        let mut s = Situation::new();
        created(&mut s, |pod| {
            pod["metadata"]["annotations"]["first-consumer.kubevirt.io/attempt"] = json!(attempt);
            pod["status"] = status;
        });
        s.decide().about
    };
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"});
    assert_eq!(
        told("2", evicted.clone()),
        "attempt 2, Failed: Evicted: The node was low on memory"
    );
    assert_eq!(
        told("10", evicted),
        "10 times, at last Failed: Evicted: The node was low on memory"
    );
    assert_eq!(
        told("2", json!({"phase": "Succeeded", "reason": "", "message": null})),
        "attempt 2, Succeeded"
    );
}

pub(super) fn another_life_of_data(s: &mut Situation) {
    let mut again = claim("data", "late");
    again["metadata"]["uid"] = json!("another-life");
    s.claim(&again);
}

fn scheduled(s: &mut Situation, status: &str, reason: &str) {
    created(s, |pod| {
        pod["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": status, "reason": reason, "message": "words"}]);
    });
}
