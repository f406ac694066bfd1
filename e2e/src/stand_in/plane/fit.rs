//! Which nodes a pod's own wishes allow (`pkg/scheduler/framework/plugins/nodeaffinity`, `tainttoleration`,
//! `nodeunschedulable`, Kubernetes 1.36). Room, ports, spread and other pods are left out.

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration};

/// Whether the pod may go to the node.
#[must_use]
pub fn allows(pod: &PodSpec, node: &Node) -> bool {
    let selected = pod
        .node_selector
        .iter()
        .flatten()
        .all(|(key, value)| label(node, key) == Some(value));
    let required = pod
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    selected && required.is_none_or(|required| reaches(&required.node_selector_terms, node)) && tolerated(pod, node)
}

/// Whether one of the terms holds for the node.
#[must_use]
pub fn reaches(terms: &[NodeSelectorTerm], node: &Node) -> bool {
    let name = |requirement: &NodeSelectorRequirement| holds(requirement, node.metadata.name.as_ref());
    let labelled = |requirement: &NodeSelectorRequirement| holds(requirement, label(node, &requirement.key));
    terms.iter().any(|term| {
        let (labels, fields) = (&term.match_expressions, &term.match_fields);
        (labels.is_some() || fields.is_some())
            && labels.iter().flatten().all(labelled)
            && fields.iter().flatten().all(name)
    })
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a String> {
    node.metadata.labels.as_ref()?.get(key)
}

fn holds(requirement: &NodeSelectorRequirement, found: Option<&String>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let number = |text: &String| text.parse::<i64>().ok();
    let compare = || Some((number(found?)?, number(values.first()?)?));
    match requirement.operator.as_str() {
        "In" => found.is_some_and(|found| values.contains(found)),
        "NotIn" => found.is_none_or(|found| !values.contains(found)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compare().is_some_and(|(found, value)| found > value),
        "Lt" => compare().is_some_and(|(found, value)| found < value),
        _ => false,
    }
}

fn tolerated(pod: &PodSpec, node: &Node) -> bool {
    let spec = node.spec.clone().unwrap_or_default();
    let mut taints = spec.taints.unwrap_or_default();
    if spec.unschedulable == Some(true) {
        taints.push(Taint {
            key: "node.kubernetes.io/unschedulable".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        });
    }
    let tolerations = pod.tolerations.as_deref().unwrap_or_default();
    let hard = taints.iter().filter(|taint| taint.effect != "PreferNoSchedule");
    hard.into_iter()
        .all(|taint| tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let empty = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
    let effect = empty(&toleration.effect) || toleration.effect.as_ref() == Some(&taint.effect);
    let key = empty(&toleration.key) || toleration.key.as_ref() == Some(&taint.key);
    let value = toleration.operator.as_deref() == Some("Exists")
        || toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default();
    effect && key && value
}
