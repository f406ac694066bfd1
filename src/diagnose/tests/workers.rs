//! CDI's worker, and its gate.

use serde_json::json;

use super::world::*;
use super::*;

pub(super) const TABLE: &[Row] = &[
    (
        Trouble::WorkerRefused,
        "quota",
        "root",
        |w| {
            w.unfilled("root");
            refused_by_quota(w);
            w.annotate(
                "root",
                "cdi.kubevirt.io/storage.condition.running.message",
                &json!("exceeded quota: cpu"),
            );
        },
        "root: exceeded quota: cpu",
        &[
            ("another reason", |w| {
                w.annotate(
                    "root",
                    "cdi.kubevirt.io/storage.condition.running.reason",
                    &json!("Completed"),
                );
            }),
            ("it is there", |w| w.worker(&json!({}))),
            ("filled", |w| {
                w.set("dv-root", &json!({"status": {"phase": "Succeeded"}}));
            }),
        ],
    ),
    (
        Trouble::WorkerRefused,
        "the only quota",
        "root",
        |w| {
            w.unfilled("root");
            refused_by_quota(w);
            w.add("small", "v1", "ResourceQuota", &json!({}));
        },
        "root: it exceeds the quota small",
        &[],
    ),
    (
        Trouble::WorkerRefused,
        "one of two quotas",
        "root",
        |w| {
            w.unfilled("root");
            refused_by_quota(w);
            w.add("one", "v1", "ResourceQuota", &json!({}));
            w.add("two", "v1", "ResourceQuota", &json!({}));
        },
        "root: it exceeds one of the quotas one, two",
        &[],
    ),
    (
        Trouble::WorkerUnschedulable,
        "gated",
        "root",
        |w| w.worker(&gated(0)),
        "pod importer-root: scheduling gates hold it: mine",
        &[("young", |w| w.now = at(9))],
    ),
    (
        Trouble::WorkerUnschedulable,
        "importer",
        "root",
        |w| w.worker(&unschedulable("0/2 nodes", 0)),
        "pod importer-root: 0/2 nodes",
        &[
            ("young", |w| w.now = at(9)),
            ("scheduled", |w| w.set("importer-root", &scheduled())),
            ("a stranger", |w| {
                w.set("importer-root", &json!({"metadata": {"ownerReferences": []}}));
            }),
            ("over", |w| {
                w.set("importer-root", &json!({"status": {"phase": "Succeeded"}}));
            }),
        ],
    ),
    (
        Trouble::WorkerFailing,
        "crash loop",
        "root",
        |w| w.worker(&crashing(4, "CrashLoopBackOff")),
        "pod importer-root, 4 restarts, CrashLoopBackOff: got 404",
        &[
            ("has just been started once more", |w| {
                w.set("importer-root", &running(2));
            }),
            ("creating", |w| {
                w.set(
                    "importer-root",
                    &json!({"status": {"containerStatuses": [
                {"state": {"waiting": {"reason": "ContainerCreating"}}}]}}),
                );
            }),
            ("filled", |w| {
                w.set("dv-root", &json!({"status": {"phase": "Succeeded"}}));
            }),
        ],
    ),
    (
        Trouble::WorkerFailing,
        "runs again and again",
        "root",
        |w| w.worker(&running(3)),
        "pod importer-root, 3 restarts: got 404",
        &[],
    ),
    (
        Trouble::WorkerFailing,
        "never starts",
        "root",
        |w| {
            w.worker(
                &json!({"status": {"containerStatuses": [{"restartCount": 0, "state": {"waiting":
                {"reason": "ImagePullBackOff", "message": "no such image"}}}]}}),
            );
        },
        "pod importer-root, ImagePullBackOff: no such image",
        &[],
    ),
    (
        Trouble::WorkerFailing,
        "of a prime claim",
        "root",
        |w| {
            prime(w, "Bound");
            w.pod(
                "importer",
                "prime",
                "prime-PersistentVolumeClaim-root",
                &crashing(4, "ImagePullBackOff"),
            );
        },
        "pod importer, 4 restarts, ImagePullBackOff: got 404",
        &[],
    ),
    (
        Trouble::WorkerFailing,
        "refused by the kubelet",
        "root",
        |w| w.worker(&json!({"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "no CPU"}})),
        "pod importer-root, Failed: OutOfcpu: no CPU",
        &[("ended well", |w| {
            w.set("importer-root", &json!({"status": {"phase": "Succeeded"}}));
        })],
    ),
    (
        Trouble::WorkerFailing,
        "the clone populator says so",
        "root",
        |w| {
            w.unfilled("root");
            w.annotate("root", "cdi.kubevirt.io/cloneError", &json!("no snapshot class"));
        },
        "no snapshot class",
        &[],
    ),
    (
        Trouble::WorkerMissing,
        "legacy",
        "root",
        |w| {
            w.unfilled("root");
            let running = json!({"type": "Running", "status": "False", "reason": "Unknown", "message": "not yet"});
            w.set("dv-root", &json!({"status": {"conditions": [running]}}));
            w.warning("PersistentVolumeClaim", "root", "ImportTargetInUse", "pod x uses it", 9);
            w.event("PersistentVolumeClaim", "root", "ProvisioningSucceeded", "done");
        },
        "makes no pod to fill it: root, Running=False Unknown: not yet, pod x uses it",
        &[
            ("young", |w| w.now = at(119)),
            ("bound a moment ago", |w| {
                w.set(
                    "pv-root",
                    &json!({"metadata": {"creationTimestamp": at(3500).to_string()}}),
                );
            }),
            ("its worker is there", |w| {
                w.pod("importer-root", "root", "root", &json!({}));
            }),
            ("its worker has ended", |w| {
                w.pod(
                    "importer-root",
                    "root",
                    "root",
                    &json!({"status": {"phase": "Succeeded"}}),
                );
            }),
            ("another pod uses it", |w| {
                w.add(
                    "reader",
                    "v1",
                    "Pod",
                    &json!({"spec": {"volumes":
                    [{"persistentVolumeClaim": {"claimName": "root"}}]}, "status": {"phase": "Running"}}),
                );
            }),
            ("between two stages", |w| {
                w.set("dv-root", &json!({"status": {"phase": "Paused"}}));
            }),
            ("the driver clones", |w| {
                w.set("dv-root", &json!({"status": {"phase": "CSICloneInProgress"}}));
            }),
            ("not bound", |w| w.pending("root")),
            ("nobody fills it", |w| {
                w.set("root", &json!({"metadata": {"ownerReferences": []}}));
            }),
            ("filled", |w| {
                w.set("dv-root", &json!({"status": {"phase": "Succeeded"}}));
            }),
        ],
    ),
    (
        Trouble::WorkerMissing,
        "of a prime claim",
        "root",
        |w| {
            prime(w, "Bound");
            w.set("dv-root", &json!({"status": {"phase": "ImportScheduled"}}));
        },
        "makes no pod to fill it: root",
        &[
            ("the prime is not bound", |w| {
                w.set("prime", &json!({"status": {"phase": "Pending"}}));
            }),
            ("its worker is there", |w| {
                w.pod("importer", "prime", "prime-PersistentVolumeClaim-root", &json!({}));
            }),
        ],
    ),
    (
        Trouble::WorkerNotStarting,
        "no volume",
        "root",
        |w| {
            w.worker(&scheduled());
            w.warning("Pod", "importer-root", "FailedMount", "no such device", 9);
            w.warning("Pod", "importer-root", "FailedAttachVolume", "timed out", 8);
            w.event("Pod", "importer-root", "Scheduled", "to node-1");
        },
        "pod importer-root on node-1: no such device",
        &[
            ("young", |w| w.now = at(119)),
            ("runs", |w| {
                w.set("importer-root", &json!({"status": {"phase": "Running"}}));
            }),
            ("over", |w| {
                w.set("importer-root", &json!({"status": {"phase": "Succeeded"}}));
            }),
            ("no node", |w| {
                w.set("importer-root", &json!({"spec": {"nodeName": null}}));
            }),
            ("its image is the cause", |w| {
                w.set(
                    "importer-root",
                    &json!({"status": {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}),
                );
            }),
            ("filled", |w| {
                w.set("dv-root", &json!({"status": {"phase": "Succeeded"}}));
            }),
        ],
    ),
    (
        Trouble::WorkerNotStarting,
        "nobody says why",
        "root",
        |w| {
            prime(w, "Bound");
            w.pod("importer", "prime", "prime-PersistentVolumeClaim-root", &scheduled());
        },
        "has a node and does not start: pod importer on node-1",
        &[],
    ),
    (
        Trouble::GateOff,
        "legacy",
        "root",
        |w| {
            w.unplaced("root");
            w.set("dv-root", &json!({"status": {"phase": "Pending"}}));
        },
        "root",
        &[
            ("young", |w| w.now = at(59)),
            ("the gate is known to be on", |w| w.evidence.gate = Some(true)),
            ("a worker is there", |w| {
                w.pod("importer-root", "root", "root", &json!({}));
            }),
            ("asked for", |w| w.annotate("root", IMMEDIATE, &json!("true"))),
            ("the provisioner is at work", |w| {
                w.annotate("root", "volume.kubernetes.io/selected-node", &json!("node-1"));
                let words = "External provisioner is provisioning volume for claim";
                w.annotate("root", "cdi.kubevirt.io/storage.condition.bound.message", &json!(words));
            }),
            ("the class binds at once", |w| {
                w.set("late", &json!({"volumeBindingMode": "Immediate"}));
            }),
            ("it waits", |w| {
                w.set("dv-root", &json!({"status": {"phase": "WaitForFirstConsumer"}}));
            }),
        ],
    ),
    (
        Trouble::GateOff,
        "populator",
        "root",
        |w| {
            prime(w, "Bound");
            w.unplaced("root");
            w.annotate("root", IMMEDIATE, &json!(""));
            w.set("dv-root", &json!({"status": {"phase": "Pending"}}));
        },
        "root",
        &[
            ("asked for", |w| w.annotate("dv-root", IMMEDIATE, &json!(""))),
            ("by a person", |w| w.annotate("root", IMMEDIATE, &json!("true"))),
        ],
    ),
    (
        Trouble::GateOff,
        "bound where the VM may not run",
        "",
        |w| {
            misplaced(w);
            w.annotate("root", IMMEDIATE, &json!(""));
        },
        "root, data on node-1, and the VM asks for zone=b",
        &[
            ("the gate is known to be on", |w| w.evidence.gate = Some(true)),
            ("asked for", |w| w.annotate("dv-root", IMMEDIATE, &json!(""))),
            ("by a person", |w| w.annotate("root", IMMEDIATE, &json!("true"))),
            ("the class binds at once", |w| {
                w.set("late", &json!({"volumeBindingMode": "Immediate"}));
            }),
            ("nobody fills it", |w| {
                w.set("root", &json!({"metadata": {"ownerReferences": []}}));
            }),
            ("the node has what the VM asks for", |w| {
                w.set("node-1", &json!({"metadata": {"labels": {"zone": "b"}}}));
            }),
        ],
    ),
    (
        Trouble::GateOff,
        "bound on two nodes",
        "",
        |w| {
            w.set("pv-data", &affinity("node-2"));
            w.annotate("data", IMMEDIATE, &json!(""));
        },
        "root on node-1, data on node-2",
        &[],
    ),
];

fn refused_by_quota(w: &mut World) {
    let reason = "cdi.kubevirt.io/storage.condition.running.reason";
    w.annotate("root", reason, &json!("ErrExceededQuota"));
}

/// The disks are where the VM may not run.
fn misplaced(w: &mut World) {
    w.set(
        "db",
        &json!({"spec": {"template": {"spec": {"nodeSelector": {"zone": "b"}}}}}),
    );
}
