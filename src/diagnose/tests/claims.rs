//! From the DataVolume to a bound claim.

use serde_json::json;

use super::world::*;
use super::*;

pub(super) const TABLE: &[Row] = &[
    (
        Trouble::PopulatorSilent,
        "somebody else's",
        "root",
        |w| {
            w.unplaced("root");
            w.set("dv-root", &json!({"status": {"phase": "Pending"}}));
            w.set(
                "root",
                &json!({"spec": {"dataSourceRef": {"apiGroup": "example.com", "kind": "Backup", "name": "night"}}}),
            );
        },
        "root from Backup night",
        &[
            ("young", |w| w.now = at(299)),
            ("CDI's", |w| {
                w.set(
                    "root",
                    &json!({"spec": {"dataSourceRef": {"apiGroup": "cdi.kubevirt.io"}}}),
                );
            }),
            ("a snapshot", |w| {
                let group = "snapshot.storage.k8s.io";
                w.set("root", &json!({"spec": {"dataSourceRef": {"apiGroup": group}}}));
            }),
            ("Kubernetes' own", |w| {
                w.set("root", &json!({"spec": {"dataSourceRef": {"apiGroup": null}}}));
            }),
            ("it waits for a consumer", |w| {
                w.set("dv-root", &json!({"status": {"phase": "PendingPopulation"}}));
            }),
            ("it has a node", |w| {
                w.annotate("root", "volume.kubernetes.io/selected-node", &json!("node-1"));
            }),
        ],
    ),
    (
        Trouble::CdiMissing,
        "no status",
        "root",
        |w| {
            w.objects.remove("root");
            w.set("dv-root", &json!({"status": null}));
        },
        "dv/root has no status",
        &[
            ("young", |w| w.now = at(59)),
            ("a phase", |w| {
                w.set("dv-root", &json!({"status": {"phase": "Pending"}}));
            }),
            ("a word of CDI", |w| w.claimless("root", "NotFound", "No PVC found")),
            ("no DataVolume", |w| drop(w.objects.remove("dv-root"))),
        ],
    ),
    (
        Trouble::StorageClassMissing,
        "the claim's",
        "root",
        |w| {
            w.unplaced("root");
            w.set("root", &json!({"spec": {"storageClassName": "gone"}}));
        },
        "root asks for gone",
        &[
            ("young", |w| w.now = at(9)),
            ("it exists", |w| w.set("late", &json!({"metadata": {"name": "gone"}}))),
            ("no class is known", |w| drop(w.objects.remove("late"))),
            ("a node is chosen all the same", |w| {
                w.annotate("root", "volume.kubernetes.io/selected-node", &json!("node-1"));
            }),
            ("bound all the same", |w| {
                w.set(
                    "root",
                    &json!({"spec": {"volumeName": "pv-root"}, "status": {"phase": "Bound"}}),
                );
            }),
            ("none wanted", |w| {
                w.set("root", &json!({"spec": {"storageClassName": ""}}));
            }),
        ],
    ),
    (
        Trouble::StorageClassMissing,
        "no default",
        "root",
        |w| {
            w.unplaced("root");
            w.set("root", &json!({"spec": {"storageClassName": null}}));
        },
        "root names none",
        &[("a default", |w| {
            w.annotate("late", "storageclass.kubernetes.io/is-default-class", &json!("true"));
        })],
    ),
    (
        Trouble::StorageClassMissing,
        "the DataVolume's",
        "root",
        |w| {
            w.claimless("root", "ErrClaimNotValid", "cannot render");
            w.set("dv-root", &json!({"spec": {"storage": {"storageClassName": "gone"}}}));
        },
        "root asks for gone",
        &[],
    ),
    (
        Trouble::ClaimRefused,
        "quota",
        "root",
        |w| w.claimless("root", "ErrExceededQuota", "exceeded quota: disk, requested: 2Gi"),
        "exceeded quota: disk, requested: 2Gi",
        &[
            ("young", |w| w.now = at(9)),
            ("no claim yet", |w| w.claimless("root", "NotFound", "No PVC found")),
            ("pending", |w| w.claimless("root", "Pending", "PVC root Pending")),
        ],
    ),
    (
        Trouble::ClaimRefused,
        "no prime comes",
        "root",
        primeless,
        "root: CDI has made no claim to fill it",
        &[
            ("it is there", |w| prime(w, "Pending")),
            ("young", |w| w.now = at(59)),
            ("no node", |w| w.unplaced("root")),
            ("a clone begins otherwise", |w| {
                w.set(
                    "root",
                    &json!({"spec": {"dataSourceRef": {"kind": "VolumeCloneSource"}}}),
                );
            }),
            ("bound", |w| {
                w.set("root", &json!({"status": {"phase": "Bound"}}));
            }),
        ],
    ),
    (
        Trouble::ClaimRefused,
        "a quota refuses the prime",
        "root",
        |w| {
            primeless(w);
            w.event(
                "PersistentVolumeClaim",
                "root",
                "ErrCreatingPVCPrime",
                "exceeded quota: disk, requested: 1",
            );
        },
        "root: exceeded quota: disk, requested: 1",
        &[],
    ),
    (
        Trouble::ClaimRefused,
        "the name is taken",
        "root",
        |w| {
            w.set("root", &json!({"metadata": {"ownerReferences": []}}));
            w.set("dv-root", &json!({"status": {"phase": "Pending"}}));
        },
        "pvc/root exists already",
        &[
            ("young", |w| w.now = at(59)),
            ("adopted", |w| {
                w.set("dv-root", &json!({"status": {"phase": "Succeeded"}}));
            }),
            ("its own", |w| {
                w.set(
                    "root",
                    &json!({"metadata": {"ownerReferences": controller(&w.objects["dv-root"])}}),
                );
            }),
        ],
    ),
    (
        Trouble::ProvisioningFailed,
        "CDI has copied it",
        "root",
        |w| {
            w.pending("root");
            w.annotate(
                "root",
                BOUND_MESSAGE,
                &json!("failed to provision volume with StorageClass \"late\": full"),
            );
        },
        "\"late\": full (on node-1, where data is bound)",
        &[
            ("other words", |w| {
                w.annotate(
                    "root",
                    BOUND_MESSAGE,
                    &json!("External provisioner is provisioning volume for claim"),
                );
            }),
            ("bound", |w| {
                w.set(
                    "root",
                    &json!({"spec": {"volumeName": "pv-root"}, "status": {"phase": "Bound"}}),
                );
            }),
        ],
    ),
    (
        Trouble::ProvisioningFailed,
        "of a prime claim",
        "root",
        |w| {
            prime(w, "Pending");
            w.event(
                "PersistentVolumeClaim",
                "prime-PersistentVolumeClaim-root",
                "ProvisioningFailed",
                "no space",
            );
        },
        "no space",
        &[
            ("the prime is bound", |w| prime(w, "Bound")),
            ("only a write of the PV controller has failed", |w| {
                w.evidence.events.clear();
                w.event(
                    "PersistentVolumeClaim",
                    "prime-PersistentVolumeClaim-root",
                    "ProvisioningFailed",
                    "Error saving claim: the object has been modified",
                );
            }),
        ],
    ),
    (
        Trouble::NotPopulated,
        "bound to a volume that was there",
        "root",
        |w| {
            primeless(w);
            w.set(
                "root",
                &json!({"spec": {"volumeName": "pv-root"}, "status": {"phase": "Bound"}}),
            );
        },
        "root is bound to pv-root",
        &[
            ("young", |w| w.now = at(59)),
            ("bound a moment ago", |w| {
                w.set(
                    "pv-root",
                    &json!({"metadata": {"creationTimestamp": at(3550).to_string()}}),
                );
            }),
            ("not bound", |w| w.set("root", &json!({"status": {"phase": "Pending"}}))),
            ("CDI goes on", |w| {
                w.set("dv-root", &json!({"status": {"phase": "ImportScheduled"}}));
            }),
            ("filled", |w| {
                w.set("dv-root", &json!({"status": {"phase": "Succeeded"}}));
            }),
            ("population has begun", |w| {
                prime(w, "Bound");
                w.set(
                    "root",
                    &json!({"spec": {"volumeName": "pv-root"}, "status": {"phase": "Bound"}}),
                );
            }),
            ("somebody else's populator", |w| {
                w.set("root", &json!({"spec": {"dataSourceRef": {"apiGroup": "example.com"}}}));
            }),
        ],
    ),
    (
        Trouble::ProvisionerSilent,
        "legacy",
        "root",
        |w| w.pending("root"),
        "example.com/local of class late, for root on node-1, where data is bound",
        &[
            ("young", |w| w.now = at(119)),
            ("no node", |w| w.unplaced("root")),
            ("nobody provisions", |w| {
                w.set("late", &json!({"provisioner": "kubernetes.io/no-provisioner"}));
            }),
            ("it has begun", |w| {
                w.annotate(
                    "root",
                    BOUND_MESSAGE,
                    &json!("External provisioner is provisioning volume for claim \"prod/root\""),
                );
            }),
            ("it has said so", |w| {
                w.event("PersistentVolumeClaim", "root", "Provisioning", "at it");
            }),
            ("asked later", |w| {
                w.now = at(125);
                w.event(
                    "PersistentVolumeClaim",
                    "root",
                    "ExternalProvisioning",
                    "Waiting for a volume",
                );
            }),
            ("bound", |w| {
                w.set(
                    "root",
                    &json!({"spec": {"volumeName": "pv-root"}, "status": {"phase": "Bound"}}),
                );
            }),
        ],
    ),
    (
        Trouble::ProvisionerSilent,
        "populator",
        "root",
        |w| prime(w, "Pending"),
        "example.com/local of class late, for root on node-1, where data is bound",
        &[
            ("the prime is bound, and being filled", |w| prime(w, "Bound")),
            ("CDI has not begun", |w| drop(w.objects.remove("prime"))),
        ],
    ),
];

/// CDI should fill `root` through a prime claim, and there is none.
fn primeless(w: &mut World) {
    prime(w, "Pending");
    w.objects.remove("prime");
}
