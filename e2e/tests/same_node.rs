//! The disks of a halted VM are where its launcher will run: one render vector a concern.
//!
//! first-consumer serves the halted VM of a vector by its own rendering; then the VM is started, and its launcher gets
//! its fields verbatim from the vector's expected file, which KubeVirt itself made. The nodes are laid out so that only
//! one is right. Each vector has nodes of its own: a label of the pool is added to both node selectors.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster::{self, Cluster};
use first_consumer_e2e::control_plane::{NodeSpec, Options, wait_for, workspace};
use first_consumer_e2e::objects::{data_volume, pod};
use first_consumer_e2e::scene::{SERVED_ONCE, Scene};
use first_consumer_e2e::stand_in::{CSI_CLASS, PLACEMENT_ANNOTATION};
use first_consumer_e2e::suite::Suite;
use k8s_openapi::api::core::v1::Taint;
use serde::Deserialize as _;
use serde_json::{Value, json};

/// The label that keeps the nodes of one vector apart from those of the others.
const POOL: &str = "e2e.first-consumer.kubevirt.io/pool";

/// What a vector needs around it.
struct Case {
    vector: &'static str,
    /// Makes the node `right` from a roomy one.
    right: fn(&mut NodeSpec),
    /// Makes each of the other nodes from a roomy one.
    wrong: &'static [fn(&mut NodeSpec)],
    /// Objects that have to be there before; `right` is the name of the right node.
    before: fn(right: &str, wrong: &str) -> Vec<Value>,
}

fn nothing(_: &mut NodeSpec) {}

fn no_objects(_: &str, _: &str) -> Vec<Value> {
    Vec::new()
}

const CASES: [Case; 12] = [
    Case {
        vector: "node-selector",
        right: |node| labels(node, &[("disk", "nvme"), ("node-role.example.com/virt-local", "true")]),
        wrong: &[|node| labels(node, &[("disk", "nvme")]), nothing],
        before: no_objects,
    },
    Case {
        vector: "affinity-node-required",
        right: |node| labels(node, &[("zone", "b")]),
        wrong: &[
            |node| labels(node, &[("zone", "c")]),
            |node| {
                labels(
                    node,
                    &[("zone", "a"), ("node-labeller.kubevirt.io/obsolete-host-model", "true")],
                );
            },
        ],
        before: no_objects,
    },
    Case {
        vector: "affinity-node-preferred",
        right: |node| labels(node, &[("ssd", "fast")]),
        wrong: &[nothing, nothing],
        before: no_objects,
    },
    Case {
        vector: "affinity-pod",
        right: |node| "zone-of-web".clone_into(&mut node.zone),
        wrong: &[|node| "zone-of-nobody".clone_into(&mut node.zone)],
        before: |right, _| vec![beside("web", "tier", right)],
    },
    Case {
        vector: "tolerations",
        right: |node| taint(node, "virt-local", "true"),
        wrong: &[
            |node| taint(node, "virt-local", "false"),
            |node| taint(node, "maint", "now"),
        ],
        before: no_objects,
    },
    Case {
        vector: "topology-spread",
        right: |node| "spread-empty".clone_into(&mut node.zone),
        wrong: &[|node| "spread-taken".clone_into(&mut node.zone)],
        before: |_, wrong| vec![beside("x", "app", wrong)],
    },
    Case {
        vector: "gpu",
        right: |node| resources(node, &[("nvidia.com/TU104GL", "2"), ("vendor.com/other", "1")]),
        wrong: &[
            |node| resources(node, &[("nvidia.com/TU104GL", "1"), ("vendor.com/other", "1")]),
            |node| resources(node, &[("nvidia.com/TU104GL", "2")]),
        ],
        before: no_objects,
    },
    Case {
        vector: "memory-hugepages-1gi",
        right: |node| resources(node, &[("hugepages-1Gi", "1Gi")]),
        wrong: &[|node| resources(node, &[("hugepages-2Mi", "8Gi")])],
        before: no_objects,
    },
    Case {
        vector: "cpu-dedicated",
        right: |node| labels(node, &[("kubevirt.io/cpumanager", "true")]),
        wrong: &[nothing, |node| {
            labels(node, &[("kubevirt.io/cpumanager", "true")]);
            "4".clone_into(&mut node.cpu);
        }],
        before: no_objects,
    },
    Case {
        vector: "ephemeral-storage",
        right: |node| "11Gi".clone_into(&mut node.ephemeral_storage),
        wrong: &[|node| "10Gi".clone_into(&mut node.ephemeral_storage)],
        before: no_objects,
    },
    Case {
        vector: "gpu-dra",
        right: nothing,
        wrong: &[nothing, nothing],
        before: |right, _| claimable_gpu(right),
    },
    Case {
        vector: "quota-limits-both",
        right: |node| "4Gi".clone_into(&mut node.memory),
        wrong: &[|node| "3Gi".clone_into(&mut node.memory)],
        before: no_objects,
    },
];

fn main() -> ExitCode {
    let suite = CASES.into_iter().fold(Suite::default(), |suite, case| {
        suite.shared(case.vector, move |cluster| play(cluster, case))
    });
    suite.run(start)
}

/// A cluster whose KubeVirt object asks for what one of the vectors needs and the others do not mind.
async fn start() -> Result<Cluster> {
    let nodes = Vec::new();
    let cluster = cluster::with(Options {
        nodes,
        ..Options::default()
    })
    .await?;
    let gates = json!({"developerConfiguration": {"featureGates": ["GPUsWithDRA"]}});
    let kubevirt = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "kubevirt"}, "spec": {"configuration": gates},
    });
    cluster.plane.apply(&kubevirt.to_string()).await?;
    Ok(cluster)
}

async fn play(cluster: Arc<Cluster>, case: Case) -> Result<()> {
    let vector = case.vector;
    let node = |name: &str, shape: fn(&mut NodeSpec)| {
        let mut node = NodeSpec::new(format!("{vector}-{name}"), "zone");
        shape(&mut node);
        labels(&mut node, &[(POOL, vector)]);
        node
    };
    let right = node("right", case.right);
    let others = (1..)
        .zip(case.wrong)
        .map(|(number, shape)| node(&format!("wrong-{number}"), *shape));
    let nodes: Vec<NodeSpec> = std::iter::once(right.clone()).chain(others).collect();
    cluster.plane.add_nodes(&nodes).await?;
    let mut scene = Scene::without_controller(cluster, vector).await?;
    for object in (case.before)(&right.name, &nodes[1].name) {
        scene.create_anywhere(&object).await?;
    }
    wait_for("what has to be there before", async || {
        Ok(scene.all_pods_run().await?.then_some(()))
    })
    .await?;
    scene.start_controller(&[]).await?;

    let (vm, claims) = halted(vector, &scene).await?;
    let name = vm["metadata"]["name"]
        .as_str()
        .context("a VM without a name")?
        .to_owned();
    for claim in &claims {
        scene.create(data_volume(claim, CSI_CLASS)).await?;
    }
    scene.create(vm).await?;
    ensure!(scene.one_node(&claims).await? == right.name, "the disks went elsewhere");
    scene.wait_phase(&claims, "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    scene.expect(SERVED_ONCE).await?;

    scene
        .patch_vm(&name, &json!({"spec": {"runStrategy": "Always"}}))
        .await?;
    let vmi = scene.wait_vmi(&name, "Running").await?;
    ensure!(
        vmi.data["status"]["nodeName"] == json!(right.name),
        "{}",
        vmi.data["status"]
    );
    Ok(())
}

/// The vector's VM, halted and opted in, and the claims of its DataVolumes; what else the vector has is created.
async fn halted(vector: &str, scene: &Scene) -> Result<(Value, Vec<String>)> {
    let folder = workspace().join("e2e/render-vectors");
    let (mut vm, mut claims) = (None, Vec::new());
    for mut object in documents(&folder.join(format!("{vector}.yaml")))? {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("namespace");
            metadata.remove("uid");
        }
        match object["kind"].as_str() {
            Some("PersistentVolumeClaim") => claims.extend(object["metadata"]["name"].as_str().map(str::to_owned)),
            Some("VirtualMachine") => vm = Some(object),
            // The cluster's own is for all vectors.
            Some("KubeVirt" | "Namespace") => {}
            _ => drop(scene.create(object).await?),
        }
    }
    let expected = std::fs::read_to_string(folder.join(format!("{vector}.expected.json")))?;
    let mut placement = serde_json::from_str::<Value>(&expected)?["placement"].take();
    placement["nodeSelector"][POOL] = json!(vector);
    let mut vm = vm.context("a vector without a VM")?;
    vm["metadata"]["annotations"]["first-consumer.kubevirt.io/provision"] = json!("true");
    vm["spec"]["runStrategy"] = json!("Halted");
    let template = &mut vm["spec"]["template"];
    template["spec"]["nodeSelector"][POOL] = json!(vector);
    template["metadata"]["annotations"][PLACEMENT_ANNOTATION] = json!(placement.to_string());
    Ok((vm, claims))
}

fn documents(file: &Path) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let documents = serde_yaml::Deserializer::from_str(&text).map(Value::deserialize);
    Ok(documents
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

fn labels(node: &mut NodeSpec, labels: &[(&str, &str)]) {
    node.labels.extend(
        labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
    );
}

fn resources(node: &mut NodeSpec, resources: &[(&str, &str)]) {
    node.resources.extend(
        resources
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())),
    );
}

fn taint(node: &mut NodeSpec, key: &str, value: &str) {
    let (key, value) = (key.to_owned(), Some(value.to_owned()));
    node.taints.push(Taint {
        key,
        value,
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    });
}

/// A pod with one label that runs on one node.
fn beside(value: &str, label: &str, node: &str) -> Value {
    let mut beside = pod("beside", "none", &json!({"kubernetes.io/hostname": node}));
    beside["metadata"]["labels"][label] = json!(value);
    // A topology spread counts only pods that agree with `matchLabelKeys`, too.
    beside["metadata"]["labels"]["rev"] = json!("1");
    beside["spec"]["volumes"] = json!([]);
    beside
}

/// A device that DRA knows on one node, and what the vector claims it by.
fn claimable_gpu(node: &str) -> Vec<Value> {
    let class = "gpu.example.com";
    let api = "resource.k8s.io/v1";
    vec![
        json!({"apiVersion": api, "kind": "DeviceClass", "metadata": {"name": class}, "spec": {}}),
        json!({"apiVersion": api, "kind": "ResourceSlice", "metadata": {"name": format!("{node}-gpus")}, "spec": {
            "driver": class, "nodeName": node, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}]}}),
        json!({"apiVersion": api, "kind": "ResourceClaimTemplate", "metadata": {"name": "pgpu"}, "spec": {"spec": {
            "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": class}}]}}}}),
    ]
}
