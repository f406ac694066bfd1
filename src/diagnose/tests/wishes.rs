//! What some nodes lack of what a pod asks for.

use serde_json::{Value, json};

use super::*;
use crate::api::Node;
use crate::placement::Domains;

fn nodes(labels: &[Value]) -> Vec<Arc<Node>> {
    let node = |(number, labels): (usize, &Value)| {
        let object = json!({"metadata": {"name": format!("node-{number}"), "labels": labels}});
        Arc::new(serde_json::from_value(object).expect("a node"))
    };
    labels.iter().enumerate().map(node).collect()
}

fn wishes(spec: &Value) -> NodeWishes {
    NodeWishes::of_spec(&spec.to_string()).unwrap_or_default()
}

fn required(terms: &Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn lacks(spec: &Value, labels: &[Value]) -> Vec<String> {
    let nodes = nodes(labels);
    let lacks = wishes(spec).lacking(&NodeWishes::default(), &nodes.iter().collect::<Vec<_>>());
    lacks.into_iter().map(|lack| lack.text).collect()
}

#[test]
fn only_what_excludes_a_node_is_named_with_how_many() {
    let selector = json!({"nodeSelector": {"zone": "a", "kubevirt.io/schedulable": "true"}});
    let schedulable = json!({"zone": "a", "kubevirt.io/schedulable": "true"});
    let bare = json!({"zone": "a"});
    assert_eq!(
        lacks(&selector, &[schedulable.clone(), bare.clone(), bare.clone()]),
        ["2 of 3 nodes lack kubevirt.io/schedulable=true"]
    );
    assert!(lacks(&selector, &[schedulable]).is_empty());
    assert!(lacks(&json!({}), &[bare]).is_empty());
}

#[test]
fn each_requirement_of_a_term_counts_by_itself_and_of_several_terms_all() {
    let expression =
        |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    let node = json!({"zone": "b", "old": ""});
    let found = |operator: &str, values: &[&str]| {
        let terms = json!([{"matchExpressions": [expression("zone", operator, values)]}]);
        lacks(&required(&terms), std::slice::from_ref(&node))
    };
    assert_eq!(found("In", &["a", "c"]), ["1 of 1 nodes lack zone in (a, c)"]);
    assert_eq!(found("NotIn", &["b"]), ["1 of 1 nodes have zone=b"]);
    assert_eq!(found("DoesNotExist", &[]), ["1 of 1 nodes have zone"]);
    assert_eq!(found("Gt", &["4"]), ["1 of 1 nodes lack zone>4"]);
    assert!(found("In", &["b"]).is_empty());
    let of_name = json!([{"matchFields": [expression("metadata.name", "In", &["node-9"])]}]);
    assert_eq!(
        lacks(&required(&of_name), std::slice::from_ref(&node)),
        ["1 of 1 nodes are not what it asks for by metadata.name=node-9"]
    );
    let term = |zone: &str| json!({"matchExpressions": [expression("zone", "In", &[zone])]});
    let whole = "1 of 1 nodes are not what it asks for by its required node affinity";
    assert_eq!(
        lacks(&required(&json!([term("a"), term("c")])), std::slice::from_ref(&node)),
        [whole]
    );
    assert!(lacks(&required(&json!([term("a"), term("b")])), std::slice::from_ref(&node)).is_empty());
    // Without a term, and with an empty one, no node is right.
    for terms in [json!([]), json!([{}])] {
        assert_eq!(lacks(&required(&terms), std::slice::from_ref(&node)), [whole]);
    }
}

#[test]
fn what_is_not_kept_of_a_node_excludes_none_and_is_named_apart() {
    let spec = json!({"nodeSelector": {"cpu-feature.node.kubevirt.io/aes": "true"}});
    assert!(lacks(&spec, &[json!({})]).is_empty());
    let unknown = wishes(&spec).unknown();
    assert_eq!(unknown.as_deref(), Some("cpu-feature.node.kubevirt.io/aes=true"));
    assert_eq!(wishes(&json!({"nodeSelector": {"zone": "a"}})).unknown(), None);
}

/// Where its peers are is told elsewhere.
#[test]
fn what_a_pod_asks_for_is_known_until_it_has_a_node_and_peers_are_left_out() {
    let apart = json!([{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]},
        {"key": "disk", "operator": "In", "values": ["fast"]}]}]);
    let mut pod = json!({"metadata": {"name": "own"}, "spec": required(&apart)});
    let peers = Domains::from([("zone".into(), ["a".into()].into())]);
    let text = |pod: &Value, peers: &Domains| {
        let pod: Pod = serde_json::from_value(pod.clone()).expect("a pod");
        NodeWishes::of_pod(&pod, peers).text()
    };
    assert_eq!(text(&pod, &peers).as_deref(), Some("disk=fast"));
    assert_eq!(text(&pod, &Domains::new()).as_deref(), Some("disk=fast, zone!=a"));
    pod["spec"]["nodeName"] = json!("node-1");
    assert_eq!(text(&pod, &Domains::new()), None);
}

#[test]
fn what_kubevirt_asks_is_told_from_what_the_vm_asks() {
    let spec = json!({"nodeSelector": {"kubevirt.io/schedulable": "true", "kubernetes.io/arch": "arm64",
        "machine-type.node.kubevirt.io/q35": "true", "notkubevirt.io/x": "true", "zone": "a"}});
    let nodes = nodes(&[json!({})]);
    let theirs = |own: &NodeWishes| {
        let lacks = wishes(&spec).lacking(own, &nodes.iter().collect::<Vec<_>>());
        let theirs = lacks.into_iter().filter(|lack| lack.kubevirt);
        theirs.map(|lack| lack.key.to_string()).collect::<Vec<_>>()
    };
    let of_kubevirt = [
        "kubernetes.io/arch",
        "kubevirt.io/schedulable",
        "machine-type.node.kubevirt.io/q35",
    ];
    assert_eq!(theirs(&NodeWishes::default()), of_kubevirt);
    assert!(theirs(&wishes(&spec)).is_empty());
}

/// What the VM asks for and the nodes have is not why it may not run there.
#[test]
fn where_a_vm_may_not_run_only_what_the_nodes_lack_is_named() {
    let mut world = World::new();
    world.set("node-1", &json!({"metadata": {"labels": {"disk": "fast"}}}));
    let selector = json!({"nodeSelector": {"disk": "fast", "zone": "b"}});
    world.set("db", &json!({"spec": {"template": {"spec": selector}}}));
    let found = world.look(None).findings;
    assert!(
        found[0].message().ends_with("the VM asks for zone=b"),
        "{}",
        found[0].message()
    );
}
