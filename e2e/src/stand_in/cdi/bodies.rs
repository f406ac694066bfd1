//! The claims that a DataVolume needs: its own and the prime (CDI reference 3.3, 10.5).

use super::origin;
use crate::{
    stand_in::{
        hand::owner,
        kind::Kind,
        read,
        store::{Object, Store},
    },
    world::{
        cdi::{Disk, prime_name, restored_name},
        objects::Source,
    },
};
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};

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

/// Annotations that make a worker controller act on the claim that it fills.
fn source_annotations(dv: &DynamicObject, disk: &Disk) -> Map<String, Value> {
    let source = disk.dv.source;
    let origin = disk.origin.clone().unwrap_or_default();
    let own = |key: &str, value: &str| (read::cdi(key), json!(value));
    let copy_of = |name: &str| {
        (
            read::CLONE_REQUEST.to_owned(),
            json!(format!("{}/{name}", origin.namespace)),
        )
    };
    let annotations = match source {
        Source::Upload => vec![own("storage.upload.target", "")],
        Source::Pvc => vec![copy_of(&origin.name)],
        Source::Snapshot => vec![copy_of(&restored_name(&disk.dv.uid))],
        Source::External => Vec::new(),
        Source::Http | Source::Registry | Source::Blank => {
            let sources = dv.data["spec"]["source"].as_object();
            let (kind, spec) = sources.and_then(|sources| sources.iter().next()).unzip();
            let kind = kind
                .filter(|_| source == Source::Http)
                .map_or(source.as_str(), String::as_str);
            let url = spec.and_then(|spec| spec["url"].as_str()).unwrap_or_default();
            vec![own("storage.import.source", kind), own("storage.import.endpoint", url)]
        }
    };
    annotations.into_iter().collect()
}

pub(super) fn cdi_labels() -> Map<String, Value> {
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
pub fn claim(store: &Store, dv: &Object, disk: &Disk, populator: bool, immediate: bool) -> Value {
    let meta = &dv.metadata;
    let uid = read::uid(dv);
    let spec = claim_spec(store, dv, disk, populator);
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
        annotations.extend(source_annotations(dv, disk));
    }
    if disk.dv.source == Source::External {
        annotations.insert(read::cdi("externalPopulation"), json!("true"));
    }
    let elsewhere = disk.origin.as_ref().filter(|origin| origin.namespace != disk.namespace);
    if let Some(origin) = elsewhere.filter(|_| populator && disk.dv.source.is_clone()) {
        annotations.insert(read::cdi("dataSourceNamespace"), json!(origin.namespace));
    }
    json!({
        "metadata": {
            "name": meta.name, "namespace": meta.namespace, "labels": labels, "annotations": annotations,
            "ownerReferences": [owner(dv, Kind::DataVolume)],
        },
        "spec": spec,
    })
}

fn claim_spec(store: &Store, dv: &Object, disk: &Disk, populator: bool) -> Value {
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
        let mut spec = json!({
            "accessModes": or("accessModes", json!(["ReadWriteOnce"])), "volumeMode": mode, "resources": resources,
            "storageClassName": class(store, dv),
        });
        for field in ["dataSource", "dataSourceRef"] {
            if !wanted[field].is_null() {
                spec[field] = wanted[field].clone();
            }
        }
        spec
    };
    if let Some(origin) = disk.origin.as_ref().filter(|_| disk.dv.unsized_clone) {
        spec["resources"]["requests"]["storage"] = origin::size(store, disk.dv.source, origin);
    }
    if let Some((kind, prefix)) = source_kind(disk.dv.source).filter(|_| populator) {
        let name = format!("{prefix}-{}", read::uid(dv));
        spec["dataSourceRef"] = json!({ "apiGroup": "cdi.kubevirt.io", "kind": kind, "name": name });
    }
    spec
}

/// What a claim's `dataSourceRef` names on the populator path: kind, and how the name begins. External population has
/// its own.
fn source_kind(source: Source) -> Option<(&'static str, &'static str)> {
    match source {
        Source::Upload => Some(("VolumeUploadSource", "volume-upload-source")),
        Source::Http | Source::Registry | Source::Blank => Some(("VolumeImportSource", "volume-import-source")),
        Source::Pvc | Source::Snapshot => Some(("VolumeCloneSource", "volume-clone-source")),
        Source::External => None,
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
pub fn prime(dv: &Object, target: &Object, disk: &Disk, node: Option<String>) -> Value {
    let mut labels = cdi_labels();
    labels.insert("velero.io/exclude-from-backup".to_owned(), json!("true"));
    let mut annotations = source_annotations(dv, disk);
    let kind = source_kind(disk.dv.source).map(|(kind, _)| kind);
    for (key, value) in [
        (read::cdi(IMMEDIATE), ""),
        (read::cdi("storage.populator.kind"), kind.unwrap_or_default()),
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
