//! The objects that virt-controller makes (KubeVirt reference A.9, B.1, B.2).

use crate::stand_in::{hand::owner, kind::Kind, read, store::Object};
use serde_json::{Map, Value, json};

/// An annotation of a VM's template that holds the `placement` of a render vector: what KubeVirt itself made of such a
/// VM. Its launchers get those fields verbatim, since KubeVirt's rules are not modelled.
pub const PLACEMENT_ANNOTATION: &str = "e2e.first-consumer.kubevirt.io/placement";

/// Fields of a VMI spec, or of such an annotation, that a launcher takes over as they are.
const PLACEMENT: [&str; 8] = [
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "schedulerName",
    "priorityClassName",
    "runtimeClassName",
    "resourceClaims",
];

/// The DataVolume of a template \[`dv.go`: GenerateDataVolumeFromTemplate\].
pub fn data_volume(vm: &Object, name: &str) -> Option<Value> {
    let templates = vm.data["spec"]["dataVolumeTemplates"].as_array()?;
    let mut body = templates
        .iter()
        .find(|template| template["metadata"]["name"] == name)?
        .clone();
    if !body["metadata"]["annotations"].is_object() {
        body["metadata"]["annotations"] = json!({});
    }
    if !body["metadata"]["labels"].is_object() {
        body["metadata"]["labels"] = json!({});
    }
    body["metadata"]["namespace"] = json!(vm.metadata.namespace);
    body["metadata"]["annotations"]["cdi.kubevirt.io/allowClaimAdoption"] = json!("true");
    body["metadata"]["labels"]["kubevirt.io/created-by"] = json!(vm.metadata.uid);
    body["metadata"]["ownerReferences"] = json!([owner(vm, Kind::VirtualMachine)]);
    let class = &vm.data["spec"]["template"]["spec"]["priorityClassName"];
    if body["spec"]["priorityClassName"].is_null() && class.is_string() {
        body["spec"]["priorityClassName"] = class.clone();
    }
    Some(body)
}

/// The VMI of a VM: its template.
pub fn vmi(vm: &Object) -> Value {
    let template = &vm.data["spec"]["template"];
    let mut annotations = template["metadata"]["annotations"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    let generation = vm.metadata.generation.unwrap_or_default().to_string();
    annotations.insert("kubevirt.io/vm-generation".to_owned(), json!(generation));
    json!({
        "metadata": {
            "name": vm.metadata.name, "namespace": vm.metadata.namespace, "labels": template["metadata"]["labels"],
            "annotations": annotations, "ownerReferences": [owner(vm, Kind::VirtualMachine)],
        },
        "spec": template["spec"],
    })
}

/// The launcher of a VMI, or its temporary copy that prints a line and exits. Resources are those of the domain if it
/// names some, else small ones: KubeVirt's sums are not modelled, see [`PLACEMENT_ANNOTATION`].
pub fn launcher(vmi: &Object, temporary: bool) -> Value {
    let name = read::name(vmi);
    let spec = &vmi.data["spec"];
    let rendered = read::annotation(vmi, PLACEMENT_ANNOTATION).and_then(|text| serde_json::from_str(text).ok());
    let (wishes, resources) = match &rendered {
        Some(rendered) => (rendered, rendered_resources(rendered)),
        None => (spec, resources(spec)),
    };
    let mut labels: Map<_, _> = vmi
        .metadata
        .labels
        .iter()
        .flatten()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    labels.remove("kubevirt.io/nodeName");
    for (key, value) in [
        ("kubevirt.io", "virt-launcher"),
        (
            "kubevirt.io/created-by",
            vmi.metadata.uid.as_deref().unwrap_or_default(),
        ),
        ("vm.kubevirt.io/name", name.as_str()),
        ("vmi.kubevirt.io/id", name.as_str()),
    ] {
        // Label values end at 63 characters.
        labels.insert(key.to_owned(), json!(value.chars().take(63).collect::<String>()));
    }
    let mut annotations = json!({
        "kubevirt.io/domain": name, "kubectl.kubernetes.io/default-container": "compute",
        "descheduler.alpha.kubernetes.io/request-evict-only": "", "kubevirt.io/migrationTransportUnix": "true",
    });
    let (command, args) = if temporary {
        annotations["kubevirt.io/ephemeral-provisioning"] = json!("true");
        (json!(["/bin/bash"]), json!(["-c", "echo", "bound PVCs"]))
    } else {
        (json!(["/usr/bin/virt-launcher-monitor"]), json!(["--name", name]))
    };
    let volumes = read::boot_volumes(spec);
    let volumes =
        volumes.map(|(name, claim, _)| json!({ "name": name, "persistentVolumeClaim": { "claimName": claim } }));
    let volumes: Vec<_> = volumes.collect();
    let mut pod = json!({
        "restartPolicy": "Never", "enableServiceLinks": false, "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": spec["terminationGracePeriodSeconds"].as_i64().unwrap_or(30) + 30,
        "readinessGates": [{ "conditionType": "kubevirt.io/virtual-machine-unpaused" }],
        "volumes": volumes,
        "containers": [{
            "name": "compute", "image": "virt-launcher", "imagePullPolicy": "IfNotPresent",
            "command": command, "args": args, "resources": resources,
        }],
    });
    for field in PLACEMENT {
        if !wishes[field].is_null() {
            pod[field] = wishes[field].clone();
        }
    }
    json!({
        "metadata": {
            "generateName": format!("virt-launcher-{name}-"), "namespace": vmi.metadata.namespace,
            "labels": labels, "annotations": annotations,
            "ownerReferences": [owner(vmi, Kind::VirtualMachineInstance)],
        },
        "spec": pod,
    })
}

fn resources(spec: &Value) -> Value {
    let wanted = &spec["domain"]["resources"];
    let named = |field: &str| wanted[field].as_object().is_some_and(|map| !map.is_empty());
    if named("requests") || named("limits") {
        json!({ "requests": wanted["requests"], "limits": wanted["limits"] })
    } else {
        json!({ "requests": { "cpu": "100m", "memory": "128Mi" } })
    }
}

/// The sums of a render vector, in one container, and the devices that the pod claims. KubeVirt has several containers of
/// which only some have a limit; a sum of limits that is below the requests says no more than that.
fn rendered_resources(placement: &Value) -> Value {
    let amount = |value: &Value| {
        value
            .as_str()
            .and_then(|text| text.trim_end_matches('m').parse::<u64>().ok())
    };
    let requests = &placement["requests"];
    let mut limits = placement["limits"].as_object().cloned().unwrap_or_default();
    limits.retain(|name, limit| amount(limit) >= amount(&requests[name]));
    let claims = placement["resourceClaims"].as_array().into_iter().flatten();
    let claims: Vec<Value> = claims.map(|claim| json!({ "name": claim["name"] })).collect();
    json!({ "requests": requests, "limits": limits, "claims": claims })
}
