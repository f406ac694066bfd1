//! What goes wrong before a disk waits for us, or after it has its node.

use std::sync::Arc;

use anyhow::Result;
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, data_volume, pod};
use first_consumer_e2e::scene::Scene;
use first_consumer_e2e::stand_in::{CSI_CLASS, Fault};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::expect;

/// A disk whose importer cannot start, as long as its volume does not come.
fn unmounted(name: &str, class: &str) -> Value {
    let mut disk = data_volume(name, class);
    disk["spec"]["source"] = json!({"http": {"url": "http://images.example/unmounted.img"}});
    disk
}

pub async fn provisioner_fails(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-provisioner-fails").await?;
    let faults = &scene.cluster.stand_ins;
    faults.provisioner_fault(&scene.namespace, "db-root", Some(Fault::Fails));
    let vm = Vm::halted("db").data_volume(unmounted("db-root", CSI_CLASS));
    scene.create(vm.provision("true").object()).await?;
    expect(&scene, "vm/db", "ProvisioningFailed", &["kubectl describe pvc/"]).await
}

pub async fn bound_at_once_elsewhere(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-bound-at-once-elsewhere").await?;
    let vm = Vm::halted("db")
        .disk("db-root", LOCAL_PATH)
        .disk_annotation("cdi.kubevirt.io/storage.bind.immediate.requested", "true");
    scene
        .create(vm.spec("nodeSelector", json!({"zone": "mine"})).object())
        .await?;
    scene.wait_phase(&["db-root".to_owned()], "Succeeded").await?;
    let names = ["db-root on node-", "zone=mine"];
    expect(&scene, "vm/db", "BoundWhereVmCannotRun", &names).await
}

pub async fn node_gone(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-node-gone").await?;
    let node = scene.own_node("mayfly", "zone-a");
    let name = node.name.clone();
    scene.cluster.plane.add_nodes(&[node]).await?;
    let vm = Vm::halted("db").two_disks(CSI_CLASS).provision("true");
    scene.create(scene.on_own_nodes(vm).object()).await?;
    scene
        .wait_phase(&["db-root".to_owned(), "db-data".to_owned()], "Succeeded")
        .await?;
    scene.wait_bound("db-root").await?;
    Api::<Node>::all(scene.client())
        .delete(&name, &DeleteParams::default())
        .await?;
    let names = [&*format!("node/{name}")];
    expect(&scene, "vm/db", "SelectedNodeMissing", &names).await
}

/// The node goes between its choice and the volume.
pub async fn selected_node_gone(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-selected-node-gone").await?;
    let node = scene.own_node("mayfly", "zone-a");
    let name = node.name.clone();
    scene.cluster.plane.add_nodes(&[node]).await?;
    let faults = &scene.cluster.stand_ins;
    faults.provisioner_fault(&scene.namespace, "db-root", Some(Fault::Fails));
    let vm = Vm::halted("db").disk("db-root", CSI_CLASS).provision("true");
    scene.create(scene.on_own_nodes(vm).object()).await?;
    scene.wait_node("db-root").await?;
    Api::<Node>::all(scene.client())
        .delete(&name, &DeleteParams::default())
        .await?;
    let chosen = format!("{name} was chosen for db-root");
    let names = [&*chosen, &*format!("node/{name}"), "kubectl delete pvc/db-root"];
    expect(&scene, "vm/db", "SelectedNodeMissing", &names).await
}

pub async fn launcher_unschedulable(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-launcher-unschedulable").await?;
    let vm = Vm::started("db").two_disks(LOCAL_PATH);
    scene
        .create(vm.spec("nodeSelector", json!({"no": "node"})).object())
        .await?;
    expect(&scene, "vm/db", "LauncherUnschedulable", &["pod virt-launcher-db"]).await
}

/// The image that is to be copied waits for a first consumer itself.
pub async fn clone_waits_for_its_source(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-clone-waits-for-its-source").await?;
    scene.create(data_volume("golden", LOCAL_PATH)).await?;
    let mut clone = data_volume("db-root", LOCAL_PATH);
    clone["spec"]["source"] = json!({"pvc": {"name": "golden"}});
    clone["spec"]["storage"]["resources"] = json!({"requests": {}});
    let vm = Vm::halted("db").data_volume(clone).provision("true");
    scene.create(vm.object()).await?;
    let names = [
        "pvc/golden in explain-clone-waits-for-its-source",
        "kubectl annotate pvc/golden",
    ];
    expect(&scene, "vm/db", "SourceMissing", &names).await
}

pub async fn node_not_ready(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-node-not-ready").await?;
    let node = scene.own_node("only", "zone-own");
    let plane = &scene.cluster.plane;
    plane.add_nodes(std::slice::from_ref(&node)).await?;
    let stand_ins = &scene.cluster.stand_ins;
    stand_ins.provisioner_fault(&scene.namespace, "db-root", Some(Fault::Silent));
    let vm = Vm::halted("db").data_volume(unmounted("db-root", CSI_CLASS));
    scene.create(scene.on_own_nodes(vm.provision("true")).object()).await?;
    scene.wait_node("db-root").await?;
    plane
        .kubectl(&[
            "annotate",
            "node",
            &node.name,
            "e2e.first-consumer.kubevirt.io/dead=true",
        ])
        .await?;
    // In the words of the node controller.
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status."}]}});
    let patch = [
        "patch",
        "node",
        &node.name,
        "--subresource=status",
        "--type=merge",
        "-p",
    ];
    plane.kubectl(&[&patch[..], &[&status.to_string()]].concat()).await?;
    let names = [
        "db-root is on explain-node-not-ready-only",
        "kubectl describe node/explain-node-not-ready-only",
    ];
    expect(&scene, "vm/db", "SelectedNodeNotReady", &names).await
}

/// The provisioner gives the node back, and CDI does not ask for another.
pub async fn provisioner_out_of_space(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-provisioner-out-of-space").await?;
    let stand_ins = &scene.cluster.stand_ins;
    stand_ins.provisioner_fault(&scene.namespace, "db-root", Some(Fault::GivesNodeBack));
    let vm = Vm::halted("db").data_volume(unmounted("db-root", CSI_CLASS));
    scene.create(vm.provision("true").object()).await?;
    let names = ["not enough free space", "kubectl delete pvc/db-root"];
    expect(&scene, "vm/db", "ProvisioningFailed", &names).await
}

/// The claim that CDI would fill through another one takes a volume that was there.
pub async fn bound_unfilled(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-bound-unfilled").await?;
    let vm = Vm::halted("db").disk("db-root", CSI_CLASS).provision("false");
    scene.create(vm.object()).await?;
    scene.wait_phase(&["db-root".to_owned()], "PendingPopulation").await?;
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "explain-left-over"},
        "spec": {"storageClassName": CSI_CLASS, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"},
            "claimRef": {"namespace": scene.namespace, "name": "db-root"}, "hostPath": {"path": "/left-over"}}});
    scene.create_anywhere(&volume).await?;
    let names = ["db-root is bound to explain-left-over", "kubectl delete pvc/db-root"];
    expect(&scene, "vm/db", "NotPopulated", &names).await
}

/// The VM tolerates the taint of the node where its disk is, CDI's importer does not.
pub async fn worker_unschedulable(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-worker-unschedulable").await?;
    let node = scene.own_node("tainted", "zone-own");
    scene.cluster.plane.add_nodes(&[node]).await?;
    let vm = Vm::halted("db").disk("db-root", LOCAL_PATH).provision("true");
    scene.create(scene.on_own_nodes(vm).object()).await?;
    let names = ["pod importer-db-root", "a taint that the pod does not tolerate"];
    expect(&scene, "vm/db", "WorkerUnschedulable", &names).await
}

/// The quota has room for the VM, and not for CDI's importer.
pub async fn worker_refused_by_quota(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-worker-refused-by-quota").await?;
    scene
        .create(
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"},
            "spec": {"hard": {"limits.cpu": "500m"}}}),
        )
        .await?;
    scene.wait_refused("probe", "failed quota: small").await?;
    let vm = Vm::halted("db").disk("db-root", LOCAL_PATH).provision("true");
    let domain = json!({"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}});
    scene.create(vm.spec("domain", domain).object()).await?;
    let names = ["it exceeds the quota small", "kubectl edit resourcequota/small"];
    expect(&scene, "vm/db", "WorkerRefused", &names).await
}

/// One disk of a VM that is too large has got its node from a tool: CDI would fill it, if KubeVirt's temporary pod went.
pub async fn launcher_blocks_import(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-launcher-blocks-import").await?;
    let vm = Vm::started("db").two_disks(LOCAL_PATH);
    let domain = json!({"resources": {"requests": {"memory": "9Ti"}}});
    scene.create(vm.clone().spec("domain", domain).object()).await?;
    scene.wait_launcher().await?;
    scene.create(pod("binder", "db-root", &json!({}))).await?;
    scene.wait_bound("db-root").await?;
    scene
        .pods()
        .delete("binder", &DeleteParams::default().grace_period(0))
        .await?;
    let names = ["pod virt-launcher-db-", "too little memory is left"];
    expect(&scene, "vm/db", "LauncherBlocksImport", &names).await
}

/// CDI has bound the disk wherever its own worker came to run.
pub async fn gate_off(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-gate-off").await?;
    scene.cluster.stand_ins.honor_late_binding(&scene.namespace, false);
    let vm = Vm::halted("db").disk("db-root", CSI_CLASS).provision("true");
    let vm = vm.spec("nodeSelector", json!({"zone": "mine"}));
    scene.create(vm.object()).await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    let names = ["HonorWaitForFirstConsumer", "zone=mine", "kubectl edit cdi"];
    expect(&scene, "vm/db", "GateOff", &names).await
}
