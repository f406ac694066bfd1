//! Node and pod affinity: the VM's own, and what KubeVirt adds.

use serde_json::{Map, Value, json};

use super::gates::Gate;
use super::spec::{each, fields, filled};
use super::{Vmi, volumes};

/// The field of what must be so.
pub(super) const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The affinity of the pod.
///
/// Mirrors: pkg/virt-controller/services/template.go::setNodeAffinityForPod
pub(super) fn affinity(vmi: &Vmi<'_>) -> Option<Value> {
    let mut affinity = vmi.spec.affinity.clone();
    let cpu = vmi.domain.cpu.as_ref();
    if matches!(
        cpu.and_then(|cpu| filled(cpu.model.as_ref())),
        None | Some("host-model")
    ) {
        reject(&mut affinity, "node-labeller.kubevirt.io/obsolete-host-model");
    }
    for feature in each(cpu.and_then(|cpu| cpu.features.as_ref())) {
        if feature.policy.as_deref() == Some("forbid") {
            let name = feature.name.as_deref().unwrap_or_default();
            reject(&mut affinity, &format!("cpu-feature.node.kubevirt.io/{name}"));
        }
    }
    for label in volumes::reservation_labels(vmi) {
        keep_apart(&mut affinity, &label);
    }
    let architecture = vmi.architecture();
    if !architecture.is_empty() && vmi.config.gate(Gate::CrossArchitectureVirtualization) {
        prefer_architecture(&mut affinity, architecture);
    }
    affinity
}

/// No node with this label: in every required term, since one of them is enough, or in one of its own.
///
/// Mirrors: pkg/virt-controller/services/template.go::modifyNodeAffintyToRejectLabel
pub(super) fn reject(affinity: &mut Option<Value>, label: &str) {
    let requirement = json!({"key": label, "operator": "DoesNotExist"});
    edit(affinity, "nodeAffinity", |node| {
        if let Some(Value::Object(required)) = node.get_mut(REQUIRED) {
            let terms = required.get_mut("nodeSelectorTerms").and_then(Value::as_array_mut);
            for term in terms.into_iter().flatten().filter_map(Value::as_object_mut) {
                push(term, "matchExpressions", requirement.clone());
            }
        } else {
            let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [requirement]}]});
            node.insert(REQUIRED.to_owned(), terms);
        }
    });
}

/// No node with a pod that has this label: two VMs may not reserve one disk from one node.
///
/// Mirrors: pkg/storage/reservation/pr.go::PersistentReservationPodAntiAffinityTerms
pub(super) fn keep_apart(affinity: &mut Option<Value>, label: &str) {
    let term = json!({
        "labelSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
        "topologyKey": "kubernetes.io/hostname",
    });
    edit(affinity, "podAntiAffinity", |pods| push(pods, REQUIRED, term));
}

/// Rather a node of the VM's own architecture.
///
/// Mirrors: pkg/virt-controller/services/template.go::setPreferredArchitectureAffinity
pub(super) fn prefer_architecture(affinity: &mut Option<Value>, architecture: &str) {
    let term = json!({
        "weight": 100,
        "preference": {"matchExpressions": [
            {"key": "kubernetes.io/arch", "operator": "In", "values": [architecture.to_lowercase()]},
        ]},
    });
    edit(affinity, "nodeAffinity", |node| push(node, PREFERRED, term));
}

/// Changes one part of an affinity; what is no object counts as an empty one.
fn edit(affinity: &mut Option<Value>, part: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    let mut whole = fields(affinity.take());
    let mut edited = fields(whole.remove(part));
    change(&mut edited);
    whole.insert(part.to_owned(), Value::Object(edited));
    *affinity = Some(Value::Object(whole));
}

/// Adds to the list in a field.
fn push(object: &mut Map<String, Value>, field: &str, item: Value) {
    match object.get_mut(field) {
        Some(Value::Array(list)) => list.push(item),
        _ => {
            object.insert(field.to_owned(), Value::Array(vec![item]));
        }
    }
}
