//! VMs that name an instancetype: only virt-api can tell what they will ask for.

use std::sync::Arc;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::scene::{Requests, SERVED_ONCE, Scene, UNTOUCHED};
use kube::ResourceExt as _;
use serde_json::json;

pub async fn the_instancetypes_selector_is_heeded(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "instancetype").await?;
    let fields = json!({"nodeSelector": {"kubernetes.io/hostname": "node-4"}});
    scene.cluster.stand_ins.instancetype(&scene.namespace, "picky", fields);
    let vm = Vm::halted("db")
        .two_disks(LOCAL_PATH)
        .provision("true")
        .instancetype("picky");
    scene.create(vm.object()).await?;
    ensure!(scene.one_node(&vm.claims()).await? == "node-4");
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    scene.expect(SERVED_ONCE).await?;
    ensure!(scene.expansions()? == 1, "{} expansions", scene.expansions()?);
    let rendered = scene.render("vm/db").await?;
    ensure!(rendered.contains("kubernetes.io/hostname: node-4"), "{rendered}");
    ensure!(scene.start_vm("db").await? == "node-4");
    Ok(())
}

pub async fn without_virt_api_no_pod_comes(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "virt-api-away").await?;
    let stand_ins = &scene.cluster.stand_ins;
    stand_ins.virt_api(Some(&scene.namespace), false);
    stand_ins.instancetype(&scene.namespace, "plain", json!({}));
    let vm = Vm::halted("db")
        .two_disks(LOCAL_PATH)
        .provision("true")
        .instancetype("plain");
    scene.create(vm.object()).await?;
    scene.wait_phase(&vm.claims(), "WaitForFirstConsumer").await?;
    scene.wait_reason("ExpansionPending").await?;
    for _ in 0..4 {
        scene.nothing_happens().await;
    }
    scene.expect(UNTOUCHED).await?;
    let asked = scene.expansions()?;
    ensure!((2..=6).contains(&asked), "asked {asked} times in 8 s");
    stand_ins.virt_api(Some(&scene.namespace), true);
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    scene.expect(SERVED_ONCE).await
}

/// A new controller knows no expansion; the pod of the earlier one stays until it can be compared.
pub async fn without_virt_api_no_pod_goes(cluster: Arc<Cluster>) -> Result<()> {
    let mut scene = Scene::new(cluster, "virt-api-away-later").await?;
    let selector = json!({"nodeSelector": {&scene.namespace: "yes"}});
    scene
        .cluster
        .stand_ins
        .instancetype(&scene.namespace, "nowhere", selector);
    let vm = Vm::halted("db")
        .two_disks(LOCAL_PATH)
        .provision("true")
        .instancetype("nowhere");
    scene.create(vm.object()).await?;
    scene.wait_reason("Unschedulable").await?;
    let uid = scene.wait_own_pod().await?.uid();
    scene.kill_controller().await?;
    scene.cluster.stand_ins.virt_api(Some(&scene.namespace), false);
    scene.start_controller(&[]).await?;
    scene.wait_reason("ExpansionPending").await?;
    scene.nothing_happens().await;
    ensure!(scene.wait_own_pod().await?.uid() == uid, "the pod was made anew");
    scene.cluster.stand_ins.virt_api(Some(&scene.namespace), true);
    scene.wait_reason("Unschedulable").await?;
    ensure!(scene.wait_own_pod().await?.uid() == uid, "the pod was made anew");
    let label = format!("{}=yes", scene.namespace);
    scene
        .cluster
        .plane
        .kubectl(&["label", "node", "node-6", &label])
        .await?;
    ensure!(scene.one_node(&vm.claims()).await? == "node-6");
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    scene
        .expect(Requests {
            events: 6,
            ..SERVED_ONCE
        })
        .await
}
