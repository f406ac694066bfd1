//! The pods that CDI makes (CDI reference 5).

use super::bodies::cdi_labels;
use crate::world::cdi::worker::WRONG_DATA;
use crate::{
    stand_in::{
        hand::owner,
        kind::Kind,
        read,
        store::{Key, Object},
    },
    world::{
        cdi::{prep_name, reader_name, scratch_name, worker_name},
        objects::Source,
    },
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The claim that a reading pod reads for, as `NAMESPACE/NAME`.
pub const READS_FOR: &str = "ownerRef";
/// The UID of the target that a helper was made for.
pub const MADE_FOR: &str = "cdi.kubevirt.io/OwnedByUID";
/// On a worker: it runs until its data has arrived, which [`RUNS_FOR`] tells kwok.
pub const WAITS_FOR_DATA: &str = "e2e.first-consumer.kubevirt.io/waits-for-data";

/// How long kwok lets a pod run.
pub const RUNS_FOR: &str = "e2e.first-consumer.kubevirt.io/runs-for";

/// On a worker: it fails, and for which reason; `true`: for none in particular.
pub const FAILS: &str = "e2e.first-consumer.kubevirt.io/fail";

/// On a worker: it fails and is started again, for ever.
pub const CRASHES: &str = "e2e.first-consumer.kubevirt.io/crash-loops";

const DATA: &str = "cdi-data-vol";

/// The worker of a claim. Labels of the target come on top of CDI's.
pub fn worker(claim: &Object, target_labels: BTreeMap<String, String>, source: Source, node: Option<&str>) -> Value {
    let role = if source.is_import() {
        "importer"
    } else {
        "cdi-upload-server"
    };
    let mut labels: Map<_, _> = target_labels
        .into_iter()
        .map(|(key, value)| (key, json!(value)))
        .collect();
    labels.extend(cdi_labels());
    labels.insert("cdi.kubevirt.io".to_owned(), json!(role));
    let name = read::name(claim);
    let mut body = pod(claim, role, false);
    body["metadata"]["name"] = json!(worker_name(source, &name));
    body["metadata"]["labels"] = Value::Object(labels);
    body["metadata"]["ownerReferences"] = json!([owner(claim, Kind::Claim)]);
    body["spec"]["nodeName"] = json!(node);
    if let Some((key, value)) = fate(claim, source) {
        body["metadata"]["annotations"][key] = json!(value);
    }
    if source.needs_scratch() {
        let scratch = json!({
            "name": "cdi-scratch-vol", "persistentVolumeClaim": { "claimName": scratch_name(&name) },
        });
        if let Some(volumes) = body["spec"]["volumes"].as_array_mut() {
            volumes.push(scratch);
        }
    }
    body
}

/// How a worker ends, if not well and soon: what an image is like stands in its address; an upload server ends when
/// somebody has uploaded everything, of a clone when everything was copied.
fn fate(claim: &Object, source: Source) -> Option<(&'static str, &'static str)> {
    if !source.is_import() {
        return Some((WAITS_FOR_DATA, "true"));
    }
    let address = read::annotation(claim, &read::cdi("storage.import.endpoint"))?;
    match address.rsplit('/').next()? {
        "crashing.img" => Some((CRASHES, "true")),
        "rejected.img" => Some((FAILS, "true")),
        "slow.img" => Some((WAITS_FOR_DATA, "true")),
        "unmounted.img" => Some(("e2e.first-consumer.kubevirt.io/never-starts", "true")),
        "wrong.img" => Some((FAILS, WRONG_DATA)),
        _ => None,
    }
}

/// The pod that reads `from` for a claim; it has no owner.
pub fn reader(claim: &Object, from: &Object) -> Value {
    let mut body = pod(from, "cdi-clone-source", true);
    let reads_for = Key::of(claim);
    body["metadata"]["name"] = json!(reader_name(&read::uid(claim)));
    body["metadata"]["annotations"][read::cdi(READS_FOR)] =
        json!(format!("{}/{}", reads_for.namespace, reads_for.name));
    body
}

/// The pod that gets a tmp claim bound; it has no owner.
pub fn prep(tmp: &Object, target_uid: &str, node: Option<&str>) -> Value {
    let mut body = pod(tmp, "dummy", false);
    body["metadata"]["name"] = json!(prep_name(target_uid));
    body["metadata"]["labels"][MADE_FOR] = json!(target_uid);
    body["spec"]["nodeName"] = json!(node);
    body
}

/// A pod that uses a claim.
fn pod(claim: &Object, container: &str, read_only: bool) -> Value {
    let (mounts, devices) = if claim.data["spec"]["volumeMode"] == "Block" {
        (
            json!([]),
            json!([{ "name": DATA, "devicePath": "/dev/cdi-block-volume" }]),
        )
    } else {
        (json!([{ "name": DATA, "mountPath": "/data" }]), json!([]))
    };
    json!({
        "metadata": {
            "namespace": claim.metadata.namespace, "labels": cdi_labels(),
            "annotations": {
                "cdi.kubevirt.io/storage.createdByController": "yes", "linkerd.io/inject": "disabled",
                "sidecar.istio.io/inject": "false",
            },
        },
        "spec": {
            "restartPolicy": "OnFailure",
            "enableServiceLinks": false,
            "securityContext": { "fsGroup": 107, "seccompProfile": { "type": "RuntimeDefault" } },
            "volumes": [{
                "name": DATA,
                "persistentVolumeClaim": { "claimName": claim.metadata.name, "readOnly": read_only },
            }],
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
