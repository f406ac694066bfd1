use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What surrounds the VMs of these tests.
#[derive(Default)]
struct Around {
    kubevirt: Option<KubeVirt>,
    claims: Vec<PersistentVolumeClaim>,
    networks: Vec<NetworkAttachmentDefinition>,
    nodes: Vec<Node>,
    quota: ResourceQuota,
}

impl Around {
    fn with_kubevirt(kubevirt: Value) -> Self {
        Self {
            kubevirt: Some(serde_json::from_value(kubevirt).expect("a KubeVirt")),
            ..Self::default()
        }
    }

    fn place(&self, spec: &Value) -> Result<Placement, Refusal> {
        self.place_template(&json!({"spec": spec}).to_string())
    }

    fn place_template(&self, template: &str) -> Result<Placement, Refusal> {
        let template: Template = serde_json::from_str(template).expect("a template");
        let nodes: Vec<&Node> = self.nodes.iter().collect();
        Placement::of(&Inputs {
            template: &template,
            defaulted: false,
            machine: None,
            tsc_frequency: None,
            namespace: "ns",
            namespace_labels: None,
            kubevirt: self.kubevirt.as_ref(),
            claim: &|name| self.claims.iter().find(|claim| &*claim.metadata.name == name),
            state_claim: None,
            quotas: &[&self.quota],
            network: &|_, name| self.networks.iter().find(|network| &*network.metadata.name == name),
            nodes: &nodes,
        })
    }

    fn refusal(&self, spec: &Value) -> String {
        self.place(spec).expect_err("refused").to_string()
    }
}

#[test]
fn a_field_that_cannot_be_read_is_named() {
    let spec = json!({"domain": {"cpu": {"cores": 1, "features": [{"name": 1}]}}});
    let refusal = Around::default().refusal(&spec);
    assert!(
        refusal.starts_with("domain.cpu.features[0].name: invalid type"),
        "{refusal}"
    );
    let refusal = Around::default().refusal(&json!({"domain": {"memory": {"guest": "1 GB"}}}));
    assert!(refusal.starts_with("domain.memory.guest: \"1 GB\""), "{refusal}");
}

/// A cluster keeps the null that a file is read without.
#[test]
fn a_field_that_is_null_makes_no_other_placement() {
    let place = |toleration: Value, term: Value| {
        let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        let spec = json!({"domain": {}, "tolerations": [toleration], "affinity": {"podAntiAffinity": terms}});
        Around::default().place(&spec).expect("placed")
    };
    let nulls = place(
        json!({"key": "a", "operator": "Exists", "tolerationSeconds": null}),
        json!({"topologyKey": "b", "namespaces": null}),
    );
    let plain = place(json!({"key": "a", "operator": "Exists"}), json!({"topologyKey": "b"}));
    assert_eq!((nulls.hash(), nulls), (plain.hash(), plain));
}

#[test]
fn a_claim_that_does_not_exist_is_refused_but_only_if_the_vm_boots_from_it() {
    let around = Around::default();
    let volume = |source: Value| json!({"domain": {}, "volumes": [source]});
    for boot in [
        json!({"name": "a", "dataVolume": {"name": "gone"}}),
        json!({"name": "a", "persistentVolumeClaim": {"claimName": "gone"}}),
        json!({"name": "a", "ephemeral": {"persistentVolumeClaim": {"claimName": "gone"}}}),
    ] {
        assert_eq!(around.refusal(&volume(boot)), "the claim gone does not exist");
    }
    for other in [
        json!({"name": "a", "dataVolume": {"name": "gone", "hotpluggable": true}}),
        json!({"name": "a", "memoryDump": {"claimName": "gone"}}),
    ] {
        assert_eq!(around.place(&volume(other)).expect("placed").claims, []);
    }
}

#[test]
fn devices_outside_the_permitted_ones_are_refused() {
    let permitted = json!({"pciHostDevices": [{"resourceName": "v.com/a"}], "usb": [{"resourceName": "v.com/usb"}]});
    let around = Around::with_kubevirt(json!({"spec": {"configuration": {"permittedHostDevices": permitted}}}));
    let devices = |gpu: &str, host: &str| json!({"domain": {"devices": {"gpus": [{"name": "g", "deviceName": gpu}], "hostDevices": [{"name": "h", "deviceName": host}]}}});
    let placed = around.place(&devices("v.com/a", "v.com/usb")).expect("placed");
    assert_eq!(placed.requests["v.com/usb"], Quantity::units(1));
    assert!(around.refusal(&devices("v.com/a", "v.com/b")).contains("v.com/b"));
    assert!(around.refusal(&devices("v.com/b", "v.com/usb")).contains("v.com/b"));
    let by_claim = json!({"domain": {"devices": {"gpus": [{"name": "g", "claimName": "c", "requestName": "r"}]}}});
    assert!(around.place(&by_claim).is_ok());
}

#[test]
fn without_the_injector_a_network_costs_its_device_and_has_to_exist() {
    let gates = json!({"developerConfiguration": {"disabledFeatureGates": ["ExternalNetResourceInjection"]}});
    let mut around = Around::with_kubevirt(json!({"spec": {"configuration": gates}}));
    let spec = json!({
        "domain": {"devices": {"interfaces": [{"name": "n", "sriov": {}}]}},
        "networks": [{"name": "n", "multus": {"networkName": "other/vf"}}],
    });
    assert!(around.refusal(&spec).contains("other/vf"));
    let network = json!({"metadata": {"name": "vf", "annotations": {"k8s.v1.cni.cncf.io/resourceName": "v.com/vf"}}});
    around
        .networks
        .push(serde_json::from_value(network).expect("a definition"));
    assert_eq!(
        around.place(&spec).expect("placed").requests["v.com/vf"],
        Quantity::units(1)
    );
}

#[test]
fn other_things_that_kubevirt_does_not_render_are_refused() {
    let around = Around::default();
    let template = |metadata: Value| json!({"metadata": metadata, "spec": {"domain": {}}}).to_string();
    let hooks = template(json!({"annotations": {"hooks.kubevirt.io/hookSidecars": "{"}}));
    assert!(matches!(around.place_template(&hooks), Err(Refusal::Hooks(_))));
    let verbosity = template(json!({"labels": {"logVerbosity": "high"}}));
    assert!(matches!(
        around.place_template(&verbosity),
        Err(Refusal::LogVerbosity(_))
    ));
    for (spec, text) in [
        (
            json!({"domain": {"devices": {"interfaces": [{"name": "a", "binding": {"name": "b"}}]}}}),
            "plugin b",
        ),
        (
            json!({"domain": {}, "volumes": [{"name": "s", "sysprep": {}}]}),
            "sysprep volume s",
        ),
        (
            json!({"domain": {"devices": {"filesystems": [{"name": "p"}]}}, "volumes": [{"name": "p", "containerPath": {}}]}),
            "ContainerPathVolumes",
        ),
    ] {
        let refusal = around.refusal(&spec);
        assert!(refusal.contains(text), "{refusal}");
    }
    let network = json!({"network": {"permitBridgeInterfaceOnPodNetwork": false}});
    let around = Around::with_kubevirt(json!({"spec": {"configuration": network}}));
    assert_eq!(around.place(&json!({"domain": {}})), Err(Refusal::NoBridge));
}

#[test]
fn a_vm_that_needs_a_tsc_frequency_gets_the_lowest_of_the_nodes_unless_the_cluster_names_one() {
    let node = |frequency: &str, schedulable: &str| {
        let labels =
            json!({"kubevirt.io/schedulable": schedulable, "cpu-timer.node.kubevirt.io/tsc-frequency": frequency});
        serde_json::from_value(json!({"metadata": {"name": frequency, "labels": labels}})).expect("a Node")
    };
    let spec =
        json!({"architecture": "amd64", "domain": {"cpu": {"features": [{"name": "invtsc", "policy": "require"}]}}});
    let label = |around: &Around| {
        let selector = around.place(&spec).expect("placed").node_selector;
        selector.keys().find_map(|key| {
            Some(
                key.strip_prefix("scheduling.node.kubevirt.io/tsc-frequency-")?
                    .to_owned(),
            )
        })
    };
    let mut around = Around {
        nodes: vec![
            node("300", "true"),
            node("200", "true"),
            node("100", "false"),
            node("many", "true"),
        ],
        ..Around::default()
    };
    assert_eq!(label(&around).as_deref(), Some("200"));
    let configured = json!({"developerConfiguration": {"minimumClusterTSCFrequency": 250}});
    around.kubevirt = Around::with_kubevirt(json!({"spec": {"configuration": configured}})).kubevirt;
    assert_eq!(label(&around).as_deref(), Some("250"));
    assert_eq!(label(&Around::default()), None);
}

/// Paths that rules read, and values that suit some of them and break others.
const PATHS: [&str; 44] = [
    "/spec/architecture",
    "/spec/affinity",
    "/spec/affinity/nodeAffinity",
    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution",
    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
    "/spec/affinity/podAntiAffinity",
    "/spec/nodeSelector",
    "/spec/tolerations",
    "/spec/resourceClaims",
    "/spec/networks",
    "/spec/volumes",
    "/spec/livenessProbe",
    "/spec/domain",
    "/spec/domain/cpu",
    "/spec/domain/cpu/cores",
    "/spec/domain/cpu/sockets",
    "/spec/domain/cpu/threads",
    "/spec/domain/cpu/model",
    "/spec/domain/cpu/features",
    "/spec/domain/cpu/dedicatedCpuPlacement",
    "/spec/domain/cpu/isolateEmulatorThread",
    "/spec/domain/ioThreads/supplementalPoolThreadCount",
    "/spec/domain/ioThreadsPolicy",
    "/spec/domain/machine/type",
    "/spec/domain/features/hyperv/evmcs",
    "/spec/domain/features/hyperv/ipi/enabled",
    "/spec/domain/memory/guest",
    "/spec/domain/memory/hugepages/pageSize",
    "/spec/domain/memory/reservedOverhead/addedOverhead",
    "/spec/domain/resources/requests/cpu",
    "/spec/domain/resources/requests/memory",
    "/spec/domain/resources/limits/cpu",
    "/spec/domain/resources/limits/memory",
    "/spec/domain/resources/limits/ephemeral-storage",
    "/spec/domain/devices/gpus",
    "/spec/domain/devices/interfaces",
    "/spec/domain/devices/disks",
    "/spec/domain/launchSecurity",
    "/metadata/annotations/alpha.kubevirt.io~1EmulatorThreadCompleteToEvenParity",
    "/metadata/annotations/hooks.kubevirt.io~1hookSidecars",
    "/kubevirt/spec/configuration/developerConfiguration/cpuAllocationRatio",
    "/kubevirt/spec/configuration/developerConfiguration/memoryOvercommit",
    "/kubevirt/spec/configuration/additionalGuestMemoryOverheadRatio",
    "/kubevirt/spec/configuration/supportContainerResources",
];

static VALUES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let mut values: Vec<Value> = [
        "",
        "amd64",
        "arm64",
        "s390x",
        "host-model",
        "Haswell",
        "2Mi",
        "1Gi",
        "-1",
        "9223372036854775807Ei",
        "1e-30",
        "0.3",
        "supplementalPool",
        "NaN",
        "inf",
        "-1e308",
        "1.5",
        "[]",
        "[{\"pvc\":{\"name\":\"d\"}}]",
    ]
    .map(Value::from)
    .into();
    values.extend([
        json!(null), json!(true), json!(false), json!(0), json!(1), json!(-1), json!(7), json!(u32::MAX), json!(i64::MIN),
        json!(1e300), json!({}), json!([]), json!([{}]), json!([null]), json!({"enabled": false}), json!({"sev": {}, "tdx": {}}),
        json!({"nodeSelectorTerms": [{}, {"matchExpressions": null}]}), json!({"exec": {}}),
        json!([{"name": "d", "lun": {"reservation": true}}]), json!([{"name": "vmx", "policy": "forbid"}, {"name": "invtsc"}]),
        json!([{"name": "d", "dataVolume": {"name": "d"}}, {"name": "c", "containerDisk": {}}, {"name": "p", "ephemeral": {}}]),
        json!([{"name": "g", "deviceName": "cpu"}, {"name": "g", "deviceName": "v.com/a"}]),
        json!([{"name": "n", "sriov": {}, "passtBinding": {}}]), json!([{"name": "n", "multus": {"networkName": "/"}}]),
        json!([{"type": "sidecar", "resources": {"limits": {"cpu": "9E"}}}]),
    ]);
    values
});

fn set(root: &mut Value, path: &str, value: &Value) {
    let mut at = root;
    for step in path.trim_start_matches('/').split('/') {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[step.replace("~1", "/")];
    }
    *at = value.clone();
}

/// Some fields, each with some value.
fn changes() -> impl Strategy<Value = Vec<(usize, usize)>> {
    proptest::collection::vec((0..PATHS.len(), 0..VALUES.len()), 0..7)
}

/// Places a VM with these changes twice.
fn placed_alike(changes: Vec<(usize, usize)>, quota: &Value) -> Result<(), TestCaseError> {
    let mut root = json!({"spec": {"domain": {"memory": {"guest": "1Gi"}}}});
    for (path, value) in changes {
        set(&mut root, PATHS[path], &VALUES[value]);
    }
    let around = Around {
        kubevirt: root
            .get("kubevirt")
            .and_then(|kubevirt| serde_json::from_str(&kubevirt.to_string()).ok()),
        claims: vec![serde_json::from_value(json!({"metadata": {"name": "d", "uid": "u"}})).expect("a claim")],
        quota: serde_json::from_str(&quota.to_string()).expect("a quota"),
        ..Around::default()
    };
    let text = root.to_string();
    if serde_json::from_str::<Template>(&text).is_ok() {
        let placed = around.place_template(&text);
        prop_assert_eq!(&placed, &around.place_template(&text));
        if let Ok(placed) = placed {
            prop_assert_eq!(placed.hash(), placed.clone().hash());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn placing_never_panics_and_gives_the_same_for_the_same(changes in changes()) {
        placed_alike(changes, &json!({}))?;
    }

    #[test]
    fn nor_does_placing_under_a_quota(changes in changes()) {
        placed_alike(changes, &json!({"spec": {"hard": {"limits.cpu": 1, "limits.memory": 1}}}))?;
    }
}
