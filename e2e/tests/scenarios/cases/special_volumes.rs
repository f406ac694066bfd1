//! Special volumes.

use std::sync::Arc;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, data_volume};
use first_consumer_e2e::scene::{SERVED_ONCE, Scene, UNTOUCHED};
use first_consumer_e2e::stand_in::CSI_CLASS;
use serde_json::json;

use super::{listed, served};

/// A disk that was plugged into the VM decides where its new disks go.
pub async fn c51_a_hotplugged_disk_is_followed(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c51").await?;
    let first = Vm::halted("first").disk("hot", LOCAL_PATH).provision("true");
    let there = first
        .clone()
        .spec("nodeSelector", json!({"kubernetes.io/hostname": "node-6"}));
    scene.create(there.object()).await?;
    served(&scene, &first).await?;
    let second = Vm::halted("second")
        .disk("second-root", LOCAL_PATH)
        .hotplugged("hot")
        .provision("true");
    scene.create(second.object()).await?;
    ensure!(scene.wait_node("second-root").await? == "node-6");
    served(&scene, &second).await?;
    let pods = scene.made_pods();
    ensure!(pods.iter().any(|pod| listed(pod) == ["second-root", "hot"]));
    scene.expect(SERVED_ONCE.times(2)).await
}

/// A disk is plugged into a running VM: KubeVirt's own pod decides.
pub async fn c52_hotplug_into_a_running_vm(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c52").await?;
    let vm = Vm::started("db").disk("db-root", CSI_CLASS).provision("true");
    scene.create(vm.object()).await?;
    scene.wait_vmi("db", "Running").await?;
    scene.create(data_volume("hot", LOCAL_PATH)).await?;
    let plugged = vm.clone().hotplugged("hot").vmi_spec();
    scene
        .patch_vm("db", &json!({"spec": {"template": {"spec": plugged}}}))
        .await?;
    scene.wait_phase(&["hot".into()], "WaitForFirstConsumer").await?;
    scene.nothing_happens().await;
    scene.expect_requests(UNTOUCHED)
}

/// One disk is filled already: a new one follows it.
pub async fn c55_a_disk_is_already_somewhere(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c55").await?;
    let first = Vm::halted("first").disk("d1", CSI_CLASS).provision("true");
    let there = first
        .clone()
        .spec("nodeSelector", json!({"kubernetes.io/hostname": "node-2"}));
    scene.create(there.object()).await?;
    served(&scene, &first).await?;
    let second = Vm::halted("second")
        .existing_disk("d1")
        .disk("d2", CSI_CLASS)
        .provision("true");
    scene.create(second.object()).await?;
    ensure!(scene.wait_node("d2").await? == "node-2");
    served(&scene, &second).await?;
    ensure!(scene.made_pods().iter().any(|pod| listed(pod).len() == 2));
    scene.expect(SERVED_ONCE.times(2)).await
}
