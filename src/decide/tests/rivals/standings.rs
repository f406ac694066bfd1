//! What subjects tell each other of their decisions, and who counts as long as nothing has been told.

use serde_json::json;

use super::super::super::Action;
use super::super::situation::*;
use super::*;
use crate::index::Standing;
use crate::memory::Outcome;
use crate::placement::Domains;
use crate::reason::Reason;

#[test]
fn others_are_told_what_no_object_shows() {
    let mut situation = among_peers();
    situation.settled("peer");
    let kept_out = Domains::from([(HOST.into(), ["node-1".into()].into())]);
    let acting = Some(Standing::Acting(kept_out));
    assert_eq!(situation.turn().standing, acting, "it is about to make its pod");
    situation.record(Outcome::Unanswered("no answer".into()));
    assert_eq!(situation.turn().standing, Some(Standing::HeldBack), "it writes nothing");
    situation.now = at(60);
    situation.create();
    assert_eq!(situation.turn().standing, acting, "its pod may get a node");
}

#[test]
fn a_pod_that_was_not_told_of_counts_by_its_subjects_name_or_while_it_is_in_flight() {
    let wait = (Action::Wait, Reason::WaitingForPeer);
    let cases = [
        ("aa", unschedulable(), wait),
        ("zz", unschedulable(), CREATE),
        ("zz", json!({}), wait),
    ];
    for (name, scheduled, expected) in cases {
        let mut situation = among_peers();
        situation.waiting(name);
        situation.pod_of(name, &scheduled, &json!({}));
        let decision = situation.decide();
        assert_eq!((decision.action, decision.reason), expected, "{name}, {scheduled}");
    }
}
