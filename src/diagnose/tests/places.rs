//! Where disks, pods and the VM are.

use serde_json::json;

use super::world::*;
use super::*;

pub(super) const TABLE: &[Row] = &[
    (
        Trouble::PodHeld,
        "a finalizer",
        "",
        |w| w.own_pod(&json!({"metadata": {"deletionTimestamp": at(100).to_string()}})),
        "pod first-consumer-",
        &[
            ("a moment ago", |w| w.now = at(159)),
            ("not deleted", |w| {
                w.set("own", &json!({"metadata": {"deletionTimestamp": null}}));
            }),
        ],
    ),
    (
        Trouble::SelectedNodeMissing,
        "of a pending claim",
        "root",
        |w| {
            w.pending("root");
            w.now = at(60);
            w.annotate("root", "volume.kubernetes.io/selected-node", &json!("node-9"));
        },
        "node-9 was chosen for root",
        &[
            ("it exists", |w| {
                w.set("node-2", &json!({"metadata": {"name": "node-9"}}));
            }),
            ("no node is known", |w| {
                w.objects.retain(|name, _| !name.starts_with("node"));
            }),
            ("none chosen", |w| w.unplaced("root")),
        ],
    ),
    (
        Trouble::SelectedNodeMissing,
        "of a filled disk",
        "root",
        |w| w.set("pv-root", &affinity("node-9")),
        "can only be reached from node-9",
        &[
            ("reached from everywhere", |w| {
                w.set("pv-root", &json!({"spec": {"nodeAffinity": null}}));
            }),
            ("the node that was chosen is gone, and another reaches it", |w| {
                w.annotate("root", "volume.kubernetes.io/selected-node", &json!("node-9"));
                w.set("pv-root", &affinity("node-2"));
            }),
        ],
    ),
    (
        Trouble::SelectedNodeNotReady,
        "of a pending claim",
        "root",
        |w| {
            w.pending("root");
            w.set("node-1", &not_ready());
        },
        "root is on node-1",
        &[
            ("filled", |w| {
                w.set(
                    "root",
                    &json!({"spec": {"volumeName": "pv-root"}, "status": {"phase": "Bound"}}),
                );
                w.set("dv-root", &json!({"status": {"phase": "Succeeded"}}));
            }),
            ("another node", |w| {
                w.set(
                    "node-1",
                    &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
                );
                w.set("node-2", &not_ready());
                w.now = at(60);
            }),
        ],
    ),
    (
        Trouble::SelectedNodeNotReady,
        "of a bound claim",
        "root",
        |w| {
            w.unfilled("root");
            w.set("node-1", &not_ready());
        },
        "root is on node-1",
        &[
            ("reached from another", |w| {
                w.set(
                    "pv-root",
                    &json!({"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
                    [{"key": "zone", "operator": "Exists"}]}]}}}}),
                );
            }),
            ("reached from everywhere", |w| {
                w.set("pv-root", &json!({"spec": {"nodeAffinity": null}}));
            }),
        ],
    ),
    (
        Trouble::SchedulerSilent,
        "our pod",
        "",
        |w| {
            w.unplaced("root");
            w.own_pod(&json!({"spec": {"schedulerName": "mine"}}));
        },
        "asks for mine",
        &[
            ("young", |w| w.now = at(29)),
            ("it has spoken", |w| w.set("own", &unschedulable("no", 0))),
            ("it has chosen a node", |w| {
                w.annotate("root", "volume.kubernetes.io/selected-node", &json!("node-1"));
            }),
            ("gated", |w| {
                w.set(
                    "own",
                    &json!({"status": {"conditions":
                [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}}),
                );
            }),
            ("going", |w| {
                w.set("own", &json!({"metadata": {"deletionTimestamp": at(1).to_string()}}));
            }),
        ],
    ),
    (
        Trouble::SchedulerDoesNotBind,
        "our pod",
        "",
        |w| {
            w.unplaced("root");
            w.own_pod(&scheduled());
        },
        "claim root",
        &[
            ("young", |w| w.now = at(59)),
            ("no node", |w| w.set("own", &json!({"spec": {"nodeName": null}}))),
            ("bound", |w| {
                w.set(
                    "root",
                    &json!({"spec": {"volumeName": "pv-root"}, "status": {"phase": "Bound"}}),
                );
            }),
            ("the class binds at once", |w| {
                w.set("late", &json!({"volumeBindingMode": "Immediate"}));
            }),
            ("it lists another", |w| {
                w.set(
                    "own",
                    &json!({"spec": {"volumes": [
                {"persistentVolumeClaim": {"claimName": "data"}}]}}),
                );
            }),
        ],
    ),
    (
        Trouble::DisksConflict,
        "two nodes",
        "",
        |w| w.set("pv-data", &affinity("node-2")),
        "root on node-1, data on node-2",
        &[
            ("the host names are not the nodes'", |w| {
                for (node, host) in [("node-1", "node-2"), ("node-2", "node-3")] {
                    w.set(node, &json!({"metadata": {"labels": {"kubernetes.io/hostname": host}}}));
                }
            }),
            ("one reaches both", |w| {
                w.set("pv-data", &json!({"spec": {"nodeAffinity": null}}));
            }),
            ("not bound", |w| {
                w.unplaced("data");
            }),
            ("it runs", |w| {
                w.launcher(&scheduled());
            }),
        ],
    ),
    (
        Trouble::BoundWhereVmCannotRun,
        "selector",
        "",
        |w| {
            w.set(
                "db",
                &json!({"spec": {"template": {"spec": {"nodeSelector": {"zone": "b"}}}}}),
            );
        },
        "root, data on node-1, and the VM asks for zone=b",
        &[
            ("the node has it", |w| {
                w.set("node-1", &json!({"metadata": {"labels": {"zone": "b"}}}));
            }),
            ("it runs", |w| w.launcher(&scheduled())),
            ("no local disk", |w| {
                w.set("pv-root", &json!({"spec": {"nodeAffinity": null}}));
                w.set("pv-data", &json!({"spec": {"nodeAffinity": null}}));
            }),
        ],
    ),
    (
        Trouble::BoundWhereVmCannotRun,
        "reached from many nodes",
        "",
        |w| {
            w.set(
                "db",
                &json!({"spec": {"template": {"spec": {"nodeSelector": {"zone": "z"}}}}}),
            );
            for node in ["node-3", "node-4", "node-5"] {
                w.add(
                    node,
                    "v1",
                    "Node",
                    &json!({"metadata": {"labels": {"kubernetes.io/hostname": node}}}),
                );
            }
            let nodes = ["node-1", "node-2", "node-3", "node-4", "node-5"];
            for volume in ["pv-root", "pv-data"] {
                w.set(volume, &affinity("node-1"));
                w.objects.get_mut(volume).expect("a volume")["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
                    [0]["matchExpressions"][0]["values"] = json!(nodes);
            }
        },
        "root, data on node-1, node-2, node-3 and 2 more, and the VM asks for zone=z",
        &[],
    ),
    (
        Trouble::BoundWhereVmCannotRun,
        "volumes that nobody has seen",
        "",
        |w| {
            w.set(
                "db",
                &json!({"spec": {"template": {"spec": {"nodeSelector": {"zone": "b"}}}}}),
            );
            w.objects.retain(|name, _| !name.starts_with("pv"));
        },
        "root, data on node-1, and the VM asks for zone=b",
        &[("no node was chosen", |w| {
            for disk in ["root", "data"] {
                w.annotate(disk, "volume.kubernetes.io/selected-node", &json!(""));
            }
        })],
    ),
    (
        Trouble::BoundWhereVmCannotRun,
        "affinity",
        "",
        |w| {
            w.set(
                "db",
                &json!({"spec": {"template": {"spec": {"nodeSelector": null, "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions":
                [{"key": "zone", "operator": "In", "values": ["b"]}]}]}}}}}}}),
            );
        },
        "the VM asks for zone=b",
        &[],
    ),
    (
        Trouble::LauncherUnschedulable,
        "gated",
        "",
        |w| w.launcher(&gated(0)),
        "pod virt-launcher-db: scheduling gates hold it: mine",
        &[("young", |w| w.now = at(29))],
    ),
    (
        Trouble::LauncherUnschedulable,
        "real",
        "",
        |w| w.launcher(&unschedulable("0/2 nodes", 0)),
        "pod virt-launcher-db: 0/2 nodes",
        &[
            ("young", |w| w.now = at(29)),
            ("scheduled", |w| w.set("virt-launcher-db", &scheduled())),
            ("no late disk", |w| {
                w.set("late", &json!({"volumeBindingMode": "Immediate"}));
            }),
            ("over", |w| {
                w.set("virt-launcher-db", &json!({"status": {"phase": "Failed"}}));
            }),
        ],
    ),
];
