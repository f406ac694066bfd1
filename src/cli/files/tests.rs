use proptest::prelude::*;

use super::*;
use crate::api::{DataVolume, Pod, StorageClass};
use crate::name::Key;

const SITUATION: &str = r#"
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: web, namespace: prod, resourceVersion: "7", managedFields: [{manager: m}]}
spec:
  running: false
  somethingNew: {a: [1, 2]}
  template:
    spec:
      domain: {cpu: {cores: 2}, memory: {guest: 1Gi}, resources: }
      volumes:
      - {name: root, dataVolume: {name: web-root}}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: web-root}, spec: {volumeMode: Block}}
- {apiVersion: v1, kind: Secret, metadata: {name: s}, data: {a: Zm9v}}
---
kind: ResourceQuotaList
apiVersion: v1
items:
- metadata: {name: q, namespace: prod}
  spec: {hard: {limits.cpu: 4}}
"#;

fn fault(text: &str) -> String {
    read(&mut Index::default(), text, "default")
        .expect_err("unreadable")
        .to_string()
}

#[test]
fn documents_lists_and_typed_lists_are_read_and_what_is_not_watched_is_ignored() {
    let mut index = Index::default();
    read(&mut index, SITUATION, "prod").expect("readable");
    let vm = index.vm(&Key::new("prod", "web")).expect("the VM");
    assert_eq!(vm.template().spec.volumes.len(), 1);
    assert!(index.claim(&Key::new("prod", "web-root")).expect("the claim").block());
    assert_eq!(index.quotas("prod").count(), 1);
}

#[test]
fn json_is_read_too_and_an_object_without_namespace_is_in_the_given_one() {
    let mut index = Index::default();
    let text = "{\"apiVersion\":\"kubevirt.io/v1\",\"kind\":\"VirtualMachine\",\n\t\"metadata\":{\"name\":\"a\"}}";
    read(&mut index, text, "here").expect("readable");
    assert!(index.vm(&Key::new("here", "a")).is_some());
}

#[test]
fn a_kind_of_another_group_is_not_ours() {
    let mut index = Index::default();
    let text = "apiVersion: vmoperator.example.com/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: 5\n";
    read(&mut index, text, "here").expect("ignored");
    assert!(index.vm(&Key::new("here", "a")).is_none());
}

#[test]
fn what_cannot_be_read_is_named_with_document_object_and_field() {
    let vm = |spec: &str| {
        let head = "a: {}\napiVersion: v1\nkind: ConfigMap\n---\napiVersion: kubevirt.io/v1\nkind: VirtualMachine\n";
        fault(&format!("{head}metadata: {{name: web}}\nspec: {spec}\n"))
    };
    for (spec, message) in [
        (
            "{template: {spec: {domain: {cpu: {cores: two}}}}}",
            "document 2 (VirtualMachine web): spec.template.spec.domain.cpu.cores: invalid type",
        ),
        (
            "{running: maybe}",
            "document 2 (VirtualMachine web): spec.running: invalid type",
        ),
        (
            "{template: {spec: {domain: {memory: {guest: 1GB}}}}}",
            "document 2 (VirtualMachine web): spec.template.spec.domain.memory.guest: \"1GB\": a quantity is a number",
        ),
    ] {
        let fault = vm(spec);
        assert!(fault.starts_with(message), "{fault}");
    }
    let listed =
        "kind: List\napiVersion: v1\nitems:\n- {kind: Pod, apiVersion: v1, metadata: {name: p}, spec: {volumes: 3}}\n";
    assert!(
        fault(listed).starts_with("document 1 (Pod p): items[0].spec.volumes: "),
        "{}",
        fault(listed)
    );
    assert_eq!(fault("metadata: {name: a}\n"), "document 1: kind: missing");
    assert_eq!(
        fault("kind: Pod\nmetadata: {name: a}\n"),
        "document 1: apiVersion: missing"
    );
    assert_eq!(fault("- a\n"), "document 1: not a Kubernetes object");
    assert_eq!(
        fault("kind: Pod\napiVersion: v1\n"),
        "document 1 (Pod ): metadata.name: missing"
    );
    assert!(fault("a: [\n").starts_with("document 1: "));
}

/// A cluster without CDI shows in its CustomResourceDefinitions; a file that holds none says nothing of kinds.
#[test]
fn definitions_say_which_kinds_there_are() {
    let folder = std::env::temp_dir().join(format!("first-consumer-definitions-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("state.yaml");
    let index = |names: &[&str]| {
        let text = names.iter().map(|name| {
            format!(
                "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {name}}}\n"
            )
        });
        std::fs::write(&file, text.collect::<String>()).expect("written");
        load(std::slice::from_ref(&file), "default").expect("readable").0
    };
    let vms = "virtualmachines.kubevirt.io";
    assert!(index(&[]).has_kind::<DataVolume>());
    assert!(!index(&[vms]).has_kind::<DataVolume>());
    let both = index(&[vms, "datavolumes.cdi.kubevirt.io"]);
    assert!(both.has_kind::<DataVolume>() && both.has_kind::<VirtualMachine>());
    assert!(index(&[vms]).has_kind::<StorageClass>() && index(&[vms]).has_kind::<Pod>());
    std::fs::remove_dir_all(folder).expect("removed");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_reader_panic_and_the_same_text_reads_the_same(
        edits in proptest::collection::vec((0..SITUATION.len(), 0..9_usize, 0..20_usize), 0..5),
        start in 0..SITUATION.len() / 2,
    ) {
        const PIECES: [&str; 20] = [
            "", "---\n", "{", "}", "[", "]", ": ", "\n", "  ", "null", "\"", "&a ", "*a", "!t ", "-1e999", "é", "\t", "items", "<<: ", "\u{0}",
        ];
        let mut text = SITUATION.as_bytes()[start..].to_vec();
        for (at, length, piece) in edits {
            let at = at.min(text.len());
            let end = (at + length).min(text.len());
            text.splice(at..end, PIECES[piece].bytes());
        }
        let text = String::from_utf8_lossy(&text);
        let (mut first, mut second) = (Index::default(), Index::default());
        let outcome = read(&mut first, &text, "default");
        prop_assert_eq!(&outcome, &read(&mut second, &text, "default"));
        prop_assert_eq!(first.subjects(), second.subjects());
    }
}
