use super::*;

fn rendered(text: &str, output: Output) -> Rendered {
    let mut index = Index::default();
    files::read(&mut index, text, "ns").expect("readable");
    render(
        &index,
        &subjects(&index),
        &Expansions::new(),
        &Settings::default(),
        output,
    )
}

fn vm(name: &str, spec: &Value) -> String {
    json!({"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"name": name, "uid": "u"}, "spec": spec})
        .to_string()
}

fn template() -> Value {
    json!({"template": {"spec": {"domain": {"memory": {"guest": "1Gi"}}, "nodeSelector": {"zone": "a"}}}})
}

#[test]
fn one_subject_is_an_object_and_several_are_documents_or_a_list() {
    let one = rendered(&vm("a", &template()), Output::Json);
    let pod: Value = serde_json::from_str(&one.text).expect("JSON");
    assert_eq!(pod["kind"], "Pod");
    assert_eq!(pod["spec"]["nodeSelector"]["zone"], "a");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], "a");

    let two = vm("b", &template()) + &vm("a", &template());
    let list: Value = serde_json::from_str(&rendered(&two, Output::Json).text).expect("JSON");
    assert_eq!(list["kind"], "List");
    let owner = |pod: &Value| pod["metadata"]["ownerReferences"][0]["name"].clone();
    assert_eq!(
        list["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(owner)
            .collect::<Vec<_>>(),
        ["a", "b"]
    );
    let documents = yaml::documents(&rendered(&two, Output::Yaml).text).expect("YAML");
    assert_eq!(
        documents.iter().map(|(_, pod)| owner(pod)).collect::<Vec<_>>(),
        ["a", "b"]
    );
}

#[test]
fn limits_below_the_requests_are_left_out_of_the_pod_and_shown_in_the_placement() {
    let text = vm("a", &template());
    let pod: Value = serde_json::from_str(&rendered(&text, Output::Json).text).expect("JSON");
    let resources = &pod["spec"]["containers"][0]["resources"];
    assert_eq!(resources["requests"]["cpu"], "105m");
    assert_eq!(
        resources["limits"],
        json!({"devices.kubevirt.io/kvm": "1", "devices.kubevirt.io/tun": "1", "devices.kubevirt.io/vhost-net": "1"})
    );
    let shown: Value = serde_json::from_str(&rendered(&text, Output::Placement).text).expect("JSON");
    assert_eq!(shown["limits"]["cpu"], "15m");
    assert_eq!(shown["requests"]["memory"], "1410731712");
    assert_eq!(shown["claims"], json!([]));
    assert_eq!(shown.get("tolerations"), None);
}

#[test]
fn a_vm_with_an_instancetype_says_what_it_lacks_and_the_others_are_rendered() {
    let named = json!({"instancetype": {"name": "small"}, "template": {"spec": {"domain": {}}}});
    let rendered = rendered(&(vm("a", &named) + &vm("b", &template())), Output::Placement);
    assert_eq!(rendered.refused.len(), 1);
    assert!(
        rendered.refused[0].starts_with("ns/a cannot be rendered: the VM names an instancetype"),
        "{:?}",
        rendered.refused
    );
    assert!(rendered.text.contains("nodeSelector"));
}

/// As those of `run`.
#[test]
fn the_flags_say_how_the_pod_looks() {
    use clap::Parser as _;
    let words = "first-consumer render -f - --halted-priority-class calm --pod-image here/pause --pod-command";
    let words = words.split(' ').chain(["/bin/true now"]);
    let crate::cli::Command::Render(flags) = crate::cli::Cli::try_parse_from(words).expect("readable").command else {
        panic!("render")
    };
    let mut index = Index::default();
    files::read(&mut index, &vm("a", &template()), "ns").expect("readable");
    let rendered = render(
        &index,
        &subjects(&index),
        &Expansions::new(),
        &flags.pod.settings(),
        Output::Json,
    );
    let pod: Value = serde_json::from_str(&rendered.text).expect("JSON");
    let container = &pod["spec"]["containers"][0];
    assert_eq!(pod["spec"]["priorityClassName"], "calm");
    assert_eq!(
        [&container["image"], &container["command"]],
        [&json!("here/pause"), &json!(["/bin/true", "now"])]
    );
}
