//! What a disk is a clone of.

use serde_json::json;

use super::world::*;
use super::*;

pub(super) const TABLE: &[Row] = &[
    (
        Trouble::SourceMissing,
        "not there",
        "root",
        |w| {
            w.unfilled("root");
            w.set("dv-root", &json!({"spec": {"source": {"pvc": {"name": "golden"}}}}));
        },
        "pvc/golden in prod does not exist",
        &[
            ("young", |w| w.now = at(59)),
            ("done", |w| w.set("dv-root", &json!({"status": {"phase": "Succeeded"}}))),
            ("a Namespace that nobody reads", |w| {
                w.set(
                    "dv-root",
                    &json!({"spec": {"source": {"pvc": {"namespace": "images"}}}}),
                );
            }),
            ("there", |w| {
                w.add(
                    "golden",
                    "v1",
                    "PersistentVolumeClaim",
                    &json!({"status": {"phase": "Bound"}}),
                );
            }),
            ("the disk waits for a consumer first", |w| w.unplaced("root")),
        ],
    ),
    (
        Trouble::SourceMissing,
        "not there, in another Namespace that is read",
        "root",
        |w| {
            w.unfilled("root");
            let source = json!({"namespace": "images", "name": "golden"});
            w.set("dv-root", &json!({"spec": {"source": {"pvc": source}}}));
            w.add(
                "other",
                "v1",
                "PersistentVolumeClaim",
                &json!({"metadata": {"namespace": "images"}}),
            );
        },
        "pvc/golden in images does not exist",
        &[],
    ),
    (
        Trouble::SourceMissing,
        "not filled",
        "root",
        |w| {
            w.unfilled("root");
            w.set(
                "dv-root",
                &json!({"spec": {"source": {"pvc": {"namespace": "prod", "name": "golden"}}}}),
            );
            w.add(
                "golden",
                "v1",
                "PersistentVolumeClaim",
                &json!({"status": {"phase": "Pending"}}),
            );
        },
        "pvc/golden in prod has no volume yet",
        &[("young", |w| w.now = at(59))],
    ),
    (
        Trouble::SourceMissing,
        "bound, and being filled",
        "root",
        |w| {
            w.unfilled("root");
            w.unfilled("data");
            w.set("dv-root", &json!({"spec": {"source": {"pvc": {"name": "data"}}}}));
        },
        "pvc/data in prod is not filled: its DataVolume is ImportScheduled",
        &[
            ("young", |w| w.now = at(59)),
            ("filled", |w| {
                w.set("dv-data", &json!({"status": {"phase": "Succeeded"}}));
            }),
            ("filled by nobody", |w| {
                w.set("data", &json!({"metadata": {"ownerReferences": []}}));
            }),
        ],
    ),
    (
        Trouble::SourceMissing,
        "waits as well",
        "root",
        |w| {
            w.unfilled("root");
            w.unplaced("data");
            w.set("dv-root", &json!({"spec": {"source": {"pvc": {"name": "data"}}}}));
            w.now = at(10);
        },
        "pvc/data in prod waits for a first consumer itself",
        &[
            ("young", |w| w.now = at(9)),
            ("it has its node", |w| {
                w.annotate("data", "volume.kubernetes.io/selected-node", &json!("node-1"));
            }),
        ],
    ),
    (
        Trouble::SourceMissing,
        "CDI says so",
        "root",
        |w| {
            w.unfilled("root");
            w.now = at(1);
            w.event(
                "DataVolume",
                "root",
                "CloneWithoutSource",
                "The source pvc golden doesn't exist",
            );
        },
        "The source pvc golden doesn't exist",
        &[
            ("done", |w| w.set("dv-root", &json!({"status": {"phase": "Succeeded"}}))),
            ("it has come", |w| {
                w.set("dv-root", &json!({"spec": {"source": {"pvc": {"name": "data"}}}}));
            }),
        ],
    ),
];
