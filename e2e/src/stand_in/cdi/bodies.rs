//! The objects that CDI makes (CDI reference 3.3, 5, 10.5).

use crate::{
    stand_in::{
        hand::owner,
        kind::Kind,
        read,
        store::{Object, Store},
    },
    world::{
        cdi::{prime_name, worker_name},
        objects::Source,
    },
};
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const IMMEDIATE: &str = "storage.bind.immediate.requested";

/// Class of a DataVolume's claim: as written, else the default class for virtual machines, else the default class.
pub fn class(store: &Store, dv: &DynamicObject) -> Option<String> {
    let named = |spec: &str| read::text(dv, &format!("/spec/{spec}/storageClassName"));
    named("pvc").or_else(|| named("storage")).or_else(|| {
        let classes = store.all(Kind::StorageClass);
        let default = |key: &str| {
            let mut found: Vec<_> = classes
                .iter()
                .filter(|class| read::annotation(class, key) == Some("true"))
                .collect();
            found.sort_by_key(|class| {
                (
                    std::cmp::Reverse(class.metadata.creation_timestamp.clone()),
                    read::name(class),
                )
            });
            found.first().map(|class| read::name(class))
        };
        default("storageclass.kubevirt.io/is-default-virt-class")
            .or_else(|| default("storageclass.kubernetes.io/is-default-class"))
    })
}

/// Annotations that make a worker controller act on a claim.
fn source_annotations(dv: &DynamicObject, source: Source) -> Map<String, Value> {
    let mut annotations = Map::new();
    if source == Source::Upload {
        annotations.insert(read::cdi("storage.upload.target"), json!(""));
        return annotations;
    }
    let (kind, spec) = dv.data["spec"]["source"]
        .as_object()
        .and_then(|map| map.iter().next())
        .unzip();
    let blank = source == Source::Blank;
    let kind = if blank {
        "none"
    } else {
        kind.map_or("http", String::as_str)
    };
    let url = spec.and_then(|spec| spec["url"].as_str()).unwrap_or_default();
    annotations.insert(read::cdi("storage.import.source"), json!(kind));
    annotations.insert(read::cdi("storage.import.endpoint"), json!(url));
    annotations
}

fn cdi_labels() -> Map<String, Value> {
    let labels = [
        ("app", "containerized-data-importer"),
        ("app.kubernetes.io/component", "storage"),
        ("app.kubernetes.io/managed-by", "cdi-controller"),
    ];
    labels
        .into_iter()
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect()
}

/// The target of a DataVolume: all of its labels and annotations, and CDI's own on top.
pub fn claim(store: &Store, dv: &Object, source: Source, populator: bool, immediate: bool) -> Value {
    let meta = &dv.metadata;
    let uid = read::uid(dv);
    let spec = claim_spec(store, dv, source, populator);
    let mut labels: Map<_, _> = meta
        .labels
        .iter()
        .flatten()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    labels.extend(cdi_labels());
    if spec["volumeMode"] != "Block" {
        labels.insert(
            "alerts.k8s.io/KubePersistentVolumeFillingUp".to_owned(),
            json!("disabled"),
        );
    }
    let mut annotations: Map<_, _> = meta
        .annotations
        .iter()
        .flatten()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    for (key, value) in [
        ("createdForDataVolume", uid.as_str()),
        ("storage.usePopulator", if populator { "true" } else { "false" }),
        ("storage.contentType", "kubevirt"),
        ("storage.pod.restarts", "0"),
        ("storage.preallocation.requested", "false"),
    ] {
        annotations.insert(read::cdi(key), json!(value));
    }
    annotations.remove(&read::cdi("storage.populatedFor"));
    if immediate {
        annotations.entry(read::cdi(IMMEDIATE)).or_insert_with(|| json!(""));
    }
    if !populator {
        annotations.extend(source_annotations(dv, source));
    }
    json!({
        "metadata": {
            "name": meta.name, "namespace": meta.namespace, "labels": labels, "annotations": annotations,
            "ownerReferences": [owner(dv, Kind::DataVolume)],
        },
        "spec": spec,
    })
}

fn claim_spec(store: &Store, dv: &Object, source: Source, populator: bool) -> Value {
    let verbatim = &dv.data["spec"]["pvc"];
    let mut spec = if verbatim.is_object() {
        verbatim.clone()
    } else {
        let wanted = &dv.data["spec"]["storage"];
        let or = |key: &str, default: Value| {
            Some(&wanted[key])
                .filter(|value| !value.is_null())
                .cloned()
                .unwrap_or(default)
        };
        let mode = or("volumeMode", json!("Filesystem"));
        let mut resources = wanted["resources"].clone();
        if let Some(size) = resources
            .pointer_mut("/requests/storage")
            .filter(|_| mode == "Filesystem")
        {
            *size = json!(with_overhead(size.as_str().unwrap_or_default()));
        }
        json!({
            "accessModes": or("accessModes", json!(["ReadWriteOnce"])), "volumeMode": mode, "resources": resources,
            "storageClassName": class(store, dv),
        })
    };
    if populator {
        let (kind, prefix) = source_kind(source);
        let name = format!("{prefix}-{}", read::uid(dv));
        spec["dataSourceRef"] = json!({ "apiGroup": "cdi.kubevirt.io", "kind": kind, "name": name });
    }
    spec
}

fn source_kind(source: Source) -> (&'static str, &'static str) {
    match source {
        Source::Upload => ("VolumeUploadSource", "volume-upload-source"),
        Source::Http | Source::Blank => ("VolumeImportSource", "volume-import-source"),
    }
}

/// A filesystem takes 6 % (CDI's default overhead): size times 1.06, rounded up, in bytes. Only plain numbers with the
/// suffixes Ki, Mi, Gi, Ti are understood; anything else stays as it is.
fn with_overhead(size: &str) -> String {
    let digits = size.trim_end_matches(|char: char| !char.is_ascii_digit());
    let factor: u128 = match &size[digits.len()..] {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return size.to_owned(),
    };
    digits.parse::<u128>().map_or_else(
        |_| size.to_owned(),
        |number| (number * factor * 106).div_ceil(100).to_string(),
    )
}

/// The prime of a target.
pub fn prime(dv: &Object, target: &Object, source: Source, node: Option<String>) -> Value {
    let mut labels = cdi_labels();
    labels.insert("velero.io/exclude-from-backup".to_owned(), json!("true"));
    let mut annotations = source_annotations(dv, source);
    for (key, value) in [
        (read::cdi(IMMEDIATE), ""),
        (read::cdi("storage.populator.kind"), source_kind(source).0),
        (read::cdi("storage.contentType"), "kubevirt"),
        (read::cdi("storage.preallocation.requested"), "false"),
        ("linkerd.io/inject".to_owned(), "disabled"),
        ("sidecar.istio.io/inject".to_owned(), "false"),
    ] {
        annotations.insert(key, json!(value));
    }
    if let Some(node) = node {
        annotations.insert(read::SELECTED_NODE.to_owned(), json!(node));
    }
    let spec = &target.data["spec"];
    json!({
        "metadata": {
            "name": prime_name(&read::uid(target)), "namespace": target.metadata.namespace,
            "labels": labels, "annotations": annotations, "ownerReferences": [owner(target, Kind::Claim)],
        },
        "spec": {
            "accessModes": spec["accessModes"], "resources": spec["resources"], "volumeMode": spec["volumeMode"],
            "storageClassName": spec["storageClassName"],
        },
    })
}

/// The worker of a claim. Labels of the target come on top of CDI's.
pub fn worker(claim: &Object, target_labels: BTreeMap<String, String>, source: Source, node: Option<&str>) -> Value {
    let (container, role) = match source {
        Source::Upload => ("cdi-upload-server", "cdi-upload-server"),
        Source::Http | Source::Blank => ("importer", "importer"),
    };
    let mut labels: Map<_, _> = target_labels
        .into_iter()
        .map(|(key, value)| (key, json!(value)))
        .collect();
    labels.extend(cdi_labels());
    labels.insert("cdi.kubevirt.io".to_owned(), json!(role));
    let claim_name = read::name(claim);
    let data = "cdi-data-vol";
    let (mounts, devices) = if claim.data["spec"]["volumeMode"] == "Block" {
        (
            json!([]),
            json!([{ "name": data, "devicePath": "/dev/cdi-block-volume" }]),
        )
    } else {
        (json!([{ "name": data, "mountPath": "/data" }]), json!([]))
    };
    json!({
        "metadata": {
            "name": worker_name(source, &claim_name), "namespace": claim.metadata.namespace, "labels": labels,
            "annotations": {
                "cdi.kubevirt.io/storage.createdByController": "yes", "linkerd.io/inject": "disabled",
                "sidecar.istio.io/inject": "false",
            },
            "ownerReferences": [owner(claim, Kind::Claim)],
        },
        "spec": {
            "nodeName": node,
            "restartPolicy": "OnFailure",
            "enableServiceLinks": false,
            "securityContext": { "fsGroup": 107, "seccompProfile": { "type": "RuntimeDefault" } },
            "volumes": [{ "name": data, "persistentVolumeClaim": { "claimName": claim_name } }],
            "containers": [{
                "name": container, "image": container, "imagePullPolicy": "IfNotPresent",
                "resources": {
                    "requests": { "cpu": "100m", "memory": "60M" }, "limits": { "cpu": "750m", "memory": "600M" },
                },
                "volumeMounts": mounts, "volumeDevices": devices,
                "securityContext": {
                    "runAsUser": 107, "runAsNonRoot": true, "allowPrivilegeEscalation": false,
                    "capabilities": { "drop": ["ALL"] }, "seccompProfile": { "type": "RuntimeDefault" },
                },
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::with_overhead;

    #[test]
    fn a_filesystem_takes_six_percent() {
        assert_eq!(with_overhead("1Gi"), "1138166334");
        assert_eq!(with_overhead("100"), "106");
        assert_eq!(with_overhead("1.5G"), "1.5G");
        assert_eq!(with_overhead(""), "");
    }
}
