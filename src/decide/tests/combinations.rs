//! CDI reference section 9 as one table: each pair of phases, with and without our pod. Where the reference has another
//! action, design section 5 decides: a claim with a node keeps no pod, and a late claim that no DataVolume controls is placed
//! with the others.

use serde_json::{Value, json};

use super::super::Action;
use super::situation::*;
use crate::api::DataVolume;
use crate::reason::Reason;

/// Whether the claim needs a consumer, and whether it is placed.
type Words = (bool, bool);

const NEEDS: Words = (true, false);
const PLACED: Words = (false, true);
const NEITHER: Words = (false, false);

/// What the claim is, what is decided without a pod of ours, and what with one.
type Outcome = (Words, Expected, Expected);

const OURS: Outcome = (NEEDS, CREATE, KEPT);
const DONE: Outcome = (
    PLACED,
    (Action::None, Reason::NothingWaiting),
    (Action::None, Reason::Served),
);
/// The same, but CDI's worker would not start beside a pod.
const FILLING: Outcome = (
    PLACED,
    (Action::None, Reason::SiblingImporting),
    (Action::None, Reason::Served),
);
/// Nothing, or nothing yet; a pod that is there goes.
const CDIS: Outcome = (
    NEITHER,
    (Action::None, Reason::SiblingBinding),
    (Action::Wait, Reason::SiblingBinding),
);
/// CDI's too, and no pod is needed for it.
const NOT_LATE: Outcome = (
    NEITHER,
    (Action::None, Reason::SiblingBinding),
    (Action::None, Reason::Served),
);
const NO_CLAIM: Outcome = (
    NEITHER,
    (Action::None, Reason::ClaimMissing),
    (Action::None, Reason::Served),
);
const LOST: Outcome = (
    NEITHER,
    (Action::None, Reason::ClaimLost),
    (Action::Wait, Reason::ClaimLost),
);

/// No pod, whether or not there was one.
const fn no_pod(words: Words, reason: Reason) -> Outcome {
    (words, (Action::None, reason), (Action::None, reason))
}

const WFFC: &[&str] = &["WaitForFirstConsumer"];
const POPULATION: &[&str] = &["PendingPopulation"];
const EITHER: &[&str] = &["WaitForFirstConsumer", "PendingPopulation"];
const UNSETTLED: &[&str] = &["", "Pending"];
const SCHEDULED: &[&str] = &["PVCBound", "ImportScheduled", "UploadScheduled", "CloneScheduled"];
const UNDER_WAY: &[&str] = &["ImportInProgress", "UploadReady", "CloneInProgress", "Paused"];
/// Every phase of an import, upload or clone on the populator path.
const TRANSFER: &[&str] = &[
    "ImportScheduled",
    "ImportInProgress",
    "Paused",
    "UploadScheduled",
    "UploadReady",
    "CloneScheduled",
    "CloneInProgress",
    "SnapshotForSmartCloneInProgress",
    "CloneFromSnapshotSourceInProgress",
    "CSICloneInProgress",
    "PrepClaimInProgress",
    "RebindInProgress",
];

fn legacy() -> Value {
    claim("root", "late")
}

fn import() -> Value {
    populated("root")
}

fn from_source(kind: &str) -> Value {
    let mut claim = import();
    claim["spec"]["dataSourceRef"]["kind"] = json!(kind);
    claim
}

fn immediate(mut claim: Value) -> Value {
    claim["metadata"]["annotations"]["cdi.kubevirt.io/storage.bind.immediate.requested"] = json!("");
    claim
}

fn lost(claim: Value) -> Value {
    in_phase(bound(claim), "Lost")
}

/// The claim through which CDI fills `root`.
fn filled_through(s: &mut Situation, name: &str) {
    s.claim(&controlled(
        claim(name, "late"),
        "PersistentVolumeClaim",
        "root",
        "claim-root",
    ));
}

/// The phases of the DataVolume, how the claim is, and what follows.
type Line = (&'static str, &'static [&'static str], Setup, Outcome);

const TABLE: &[Line] = &[
    ("no claim", UNSETTLED, |s| s.remove_claim("root"), NO_CLAIM),
    ("not settled, no node", UNSETTLED, |s| s.claim(&legacy()), CDIS),
    ("not settled, node", UNSETTLED, |s| s.claim(&with_node(legacy())), DONE),
    ("not settled, populator", UNSETTLED, |s| s.claim(&import()), CDIS),
    ("legacy, no node", WFFC, |s| s.claim(&legacy()), OURS),
    ("legacy, immediate", WFFC, |s| s.claim(&immediate(legacy())), CDIS),
    ("legacy, node", WFFC, |s| s.claim(&with_node(legacy())), DONE),
    (
        "legacy, bound, phase lags",
        WFFC,
        |s| s.claim(&bound(legacy())),
        FILLING,
    ),
    ("legacy, bound", SCHEDULED, |s| s.claim(&bound(legacy())), FILLING),
    ("legacy, worker gone", UNDER_WAY, |s| s.claim(&bound(legacy())), FILLING),
    (
        "legacy, worker there",
        UNDER_WAY,
        |s| {
            s.claim(&bound(legacy()));
            s.pod(&worker("root"));
        },
        DONE,
    ),
    ("populator, no node", POPULATION, |s| s.claim(&import()), OURS),
    (
        "populator, immediate",
        POPULATION,
        |s| s.claim(&immediate(import())),
        CDIS,
    ),
    (
        "import, no node, prime",
        POPULATION,
        |s| {
            s.claim(&import());
            filled_through(s, "prime-claim-root");
        },
        CDIS,
    ),
    (
        "upload, no node, prime",
        POPULATION,
        |s| {
            s.claim(&from_source("VolumeUploadSource"));
            filled_through(s, "prime-claim-root");
        },
        CDIS,
    ),
    (
        "clone, no node, begun",
        POPULATION,
        |s| {
            s.claim(&from_source("VolumeCloneSource"));
            filled_through(s, "tmp-pvc-claim-root");
        },
        OURS,
    ),
    (
        "clone, no node, a claim by the name of a prime",
        POPULATION,
        |s| {
            s.claim(&from_source("VolumeCloneSource"));
            filled_through(s, "prime-claim-root");
        },
        OURS,
    ),
    ("populator, node", POPULATION, |s| s.claim(&with_node(import())), DONE),
    ("populator, bound", POPULATION, |s| s.claim(&bound(import())), DONE),
    ("transfer, node", TRANSFER, |s| s.claim(&with_node(import())), DONE),
    ("transfer, no node", TRANSFER, |s| s.claim(&import()), CDIS),
    ("transfer, bound", TRANSFER, |s| s.claim(&bound(import())), DONE),
    ("handed over, no node", &["Succeeded"], |s| s.claim(&import()), CDIS),
    (
        "handed over, node",
        &["Succeeded"],
        |s| s.claim(&with_node(import())),
        DONE,
    ),
    ("adopted", &["Succeeded"], |s| s.claim(&legacy()), CDIS),
    ("filled", &["Succeeded"], |s| s.claim(&bound(legacy())), DONE),
    (
        "handed over, bound",
        &["Succeeded"],
        |s| s.claim(&bound(import())),
        DONE,
    ),
    (
        "failed, no node",
        &["Failed"],
        |s| s.claim(&legacy()),
        no_pod(NEITHER, Reason::DataVolumeFailed),
    ),
    (
        "failed, node",
        &["Failed"],
        |s| s.claim(&with_node(import())),
        no_pod(PLACED, Reason::DataVolumeFailed),
    ),
    (
        "failed, bound",
        &["Failed"],
        |s| s.claim(&bound(legacy())),
        no_pod(PLACED, Reason::DataVolumeFailed),
    ),
    (
        "failed, lost",
        &["Failed"],
        |s| s.claim(&lost(legacy())),
        no_pod(NEITHER, Reason::DataVolumeFailed),
    ),
    ("unknown, no node", &["Unknown"], |s| s.claim(&legacy()), CDIS),
    ("unknown, node", &["Unknown"], |s| s.claim(&with_node(legacy())), DONE),
    ("unknown, bound", &["Unknown"], |s| s.claim(&bound(legacy())), FILLING),
    ("lost, phase lags", EITHER, |s| s.claim(&lost(legacy())), LOST),
    ("lost", &["Succeeded", "Unknown"], |s| s.claim(&lost(import())), LOST),
    ("lost, not settled", UNSETTLED, |s| s.claim(&lost(legacy())), LOST),
    (
        "lost, legacy, bound before",
        SCHEDULED,
        |s| s.claim(&lost(legacy())),
        LOST,
    ),
    ("lost, legacy, under way", UNDER_WAY, |s| s.claim(&lost(legacy())), LOST),
    ("lost, transfer", TRANSFER, |s| s.claim(&lost(import())), LOST),
    // The reference's conditions to stop.
    (
        "claim terminating",
        EITHER,
        |s| s.claim(&terminating(legacy())),
        no_pod(NEITHER, Reason::DiskDeleted),
    ),
    (
        "DataVolume terminating",
        WFFC,
        |s| {
            let going = terminating(data_volume("root", "WaitForFirstConsumer"));
            s.index.apply(view::<DataVolume>(&going));
        },
        no_pod(NEEDS, Reason::DiskDeleted),
    ),
    (
        "not controlled by the DataVolume",
        EITHER,
        |s| s.claim(&controlled(legacy(), "DataVolume", "root", "an earlier life")),
        no_pod(NEITHER, Reason::DiskDeleted),
    ),
    (
        "a volume is named",
        EITHER,
        |s| s.claim(&in_phase(bound(legacy()), "Pending")),
        DONE,
    ),
    (
        "class missing",
        EITHER,
        |s| s.claim(&claim("root", "missing")),
        NOT_LATE,
    ),
    (
        "class binds at once",
        EITHER,
        |s| s.claim(&claim("root", "immediate")),
        NOT_LATE,
    ),
    (
        "another pod lists it",
        EITHER,
        |s| {
            s.claim(&legacy());
            s.pod(&pod("binder", "root"));
        },
        no_pod(NEEDS, Reason::ForeignConsumer),
    ),
];

#[test]
fn the_combinations_of_phases() {
    for (name, phases, setup, (words, without, with)) in TABLE {
        for phase in *phases {
            for (own, expected) in [(false, without), (true, with)] {
                let mut s = Situation::new();
                s.volumes(&json!([{"name": "root", "dataVolume": {"name": "root"}}]));
                if own {
                    s.create();
                }
                s.disk("root", &legacy(), phase);
                setup(&mut s);
                let turn = s.turn();
                let decision = turn.decision;
                let said = (decision.action, decision.reason);
                assert_eq!(said, *expected, "{name}, {phase}, pod {own}: {decision:?}");
                let claim = turn.observed.claims().next();
                let found = claim.map_or(NEITHER, |claim| (claim.needs, claim.placed));
                assert_eq!(found, *words, "{name}, {phase}: {claim:?}");
            }
        }
    }
}
