//! The claims that CDI makes beside a target: scratch claims, and those that a clone goes through.

use super::{bodies::cdi_labels, origin, pods::MADE_FOR};
use crate::{
    stand_in::{
        hand::owner,
        kind::Kind,
        read,
        store::{Object, Store},
    },
    world::{
        cdi::{Origin, restored_name, scratch_name, tmp_name},
        objects::Strategy,
    },
};
use serde_json::{Map, Value, json};

/// The scratch claim of a worker \[`util.go`: newScratchPersistentVolumeClaimSpec\].
pub fn scratch(claim: &Object, worker: &Object, node: Option<String>) -> Value {
    let mut labels = cdi_labels();
    labels.insert("velero.io/exclude-from-backup".to_owned(), json!("true"));
    let spec = &claim.data["spec"];
    json!({
        "metadata": {
            "name": scratch_name(&read::name(claim)), "namespace": claim.metadata.namespace, "labels": labels,
            "annotations": node.map(|node| json!({ read::SELECTED_NODE: node })),
            "ownerReferences": [owner(worker, Kind::Pod)],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": spec["resources"], "volumeMode": "Filesystem",
            "storageClassName": spec["storageClassName"],
        },
    })
}

/// The claim that a snapshot is restored to, so that a pod can read it \[`snapshot-clone-controller.go`:
/// createTempHostAssistedSourcePvc\].
pub fn restored(store: &Store, dv: &Object, from: &Origin) -> Value {
    let spec = ["pvc", "storage"].map(|template| &dv.data["spec"][template]);
    let spec = spec.into_iter().find(|spec| spec.is_object()).unwrap_or(&Value::Null);
    json!({
        "metadata": {
            "name": restored_name(&read::uid(dv)), "namespace": from.namespace, "labels": cdi_labels(),
            "annotations": {
                read::cdi("ownedByDataVolume"): format!("{}/{}", dv.metadata.namespace.as_deref().unwrap_or_default(), read::name(dv)),
            },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeMode": spec["volumeMode"],
            "resources": { "requests": { "storage": origin::size(store, crate::world::objects::Source::Snapshot, from) } },
            "storageClassName": origin::class_of_snapshot(store, from),
            "dataSource": { "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": from.name },
        },
    })
}

/// The claim that a clone is copied to first, with everything that is written on the target \[`planner.go`:
/// createDesiredClaim; `host-clone.go`, `csi-clone.go`, `snap-clone.go`: createClaim\].
pub fn tmp(target: &Object, from: &Origin, strategy: Strategy) -> Value {
    let uid = read::uid(target);
    let all = |map: &Option<std::collections::BTreeMap<String, String>>| -> Map<String, Value> {
        map.iter()
            .flatten()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect()
    };
    let mut labels = all(&target.metadata.labels);
    labels.insert(MADE_FOR.to_owned(), json!(uid));
    let mut annotations = all(&target.metadata.annotations);
    annotations.insert(read::cdi("storage.populator.kind"), json!("VolumeCloneSource"));
    let spec = &target.data["spec"];
    let mut spec = json!({
        "accessModes": spec["accessModes"], "resources": spec["resources"], "volumeMode": spec["volumeMode"],
        "storageClassName": spec["storageClassName"],
    });
    match strategy {
        Strategy::Copy => {
            let name = format!("{}/{}", from.namespace, from.name);
            annotations.insert(read::CLONE_REQUEST.to_owned(), json!(name));
            annotations.insert(read::cdi("storage.bind.immediate.requested"), json!(""));
            annotations.insert(read::cdi("storage.pod.restarts"), json!("0"));
        }
        Strategy::CsiClone => {
            spec["dataSource"] = json!({ "kind": "PersistentVolumeClaim", "name": from.name });
        }
        Strategy::Snapshot => {
            let group = "snapshot.storage.k8s.io";
            spec["dataSource"] = json!({ "apiGroup": group, "kind": "VolumeSnapshot", "name": from.name });
        }
    }
    json!({
        "metadata": {
            "name": tmp_name(&uid), "namespace": from.namespace, "labels": labels, "annotations": annotations,
        },
        "spec": spec,
    })
}
