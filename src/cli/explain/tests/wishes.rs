//! Why no node is one that the pod asks for.

use super::*;

fn node(name: &str, labels: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}).to_string()
}

/// ns/db with its pod, which none of two nodes fits; the pod asks for what the VM does and for virt-handler.
fn unfit(labels: &Value, asks: &Value) -> String {
    let text = vm("ns", "db", true).replace("\"domain\":{}", &format!("\"domain\":{{}},\"nodeSelector\":{asks}"));
    let pod = own_pod(&[("db-root", "claim")]).replace(
        "0/1 nodes are available: 1 Insufficient cpu",
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector",
    );
    let mut pod: Value = serde_json::from_str(&pod).expect("a pod");
    pod["metadata"]["annotations"]["first-consumer.kubevirt.io/placement-hash"] = json!("v0:of another version");
    pod["spec"]["nodeSelector"] = asks.clone();
    pod["spec"]["nodeSelector"]["kubevirt.io/schedulable"] = json!("true");
    text + &pod.to_string() + &node("one", labels) + &node("two", labels)
}

fn said(text: &str) -> String {
    let found = told(text, "vm/db").text;
    found.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn nodes_without_virt_handler_are_not_the_vms_fault() {
    let text = said(&unfit(&json!({"zone": "a"}), &json!({"zone": "a"})));
    assert!(
        text.contains("; 2 of 2 nodes lack kubevirt.io/schedulable=true Next:"),
        "{text}"
    );
    assert!(text.ends_with("kubectl get nodes -L kubevirt.io/schedulable"), "{text}");
}

#[test]
fn what_the_vm_asks_for_and_nodes_lack_is_the_vms() {
    let text = said(&unfit(
        &json!({"kubevirt.io/schedulable": "true"}),
        &json!({"zone": "b"}),
    ));
    assert!(text.contains("; 2 of 2 nodes lack zone=b Next:"), "{text}");
    assert!(text.ends_with("kubectl edit vm/db -n ns"), "{text}");
}

#[test]
fn labels_of_processors_are_named_where_nothing_else_is_lacking() {
    let label = "cpu-feature.node.kubevirt.io/aes";
    let text = said(&unfit(
        &json!({"kubevirt.io/schedulable": "true"}),
        &json!({label: "true"}),
    ));
    assert!(
        text.contains(&format!("; it asks for {label}=true, which is not counted here")),
        "{text}"
    );
}

/// Who may not look at nodes hears at least what the VM asks for.
#[test]
fn without_nodes_nothing_is_counted() {
    let whole = unfit(&json!({}), &json!({"zone": "b"}));
    let nodes = whole.find(&node("one", &json!({}))).expect("nodes");
    let text = said(&whole[..nodes]);
    assert!(text.contains("; the VM asks for zone=b Next:"), "{text}");
    assert!(text.ends_with("kubectl edit vm/db -n ns"), "{text}");
}
