//! Crashes, ours and others': nothing leaks, nothing doubles.

use std::sync::Arc;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::{self, Cluster};
use first_consumer_e2e::control_plane::{Controller, ControllerOptions, Options, wait_for};
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::scene::{Requests, SERVED_ONCE, Scene};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::explain::expect_in;

/// A scene in which our pod waits for a node with a label that none has yet, and our controller has just been killed.
async fn killed_while_the_pod_waits(cluster: Arc<Cluster>, namespace: &str) -> Result<(Scene, Vm, String)> {
    let mut scene = Scene::new(cluster, namespace).await?;
    let vm = Vm::halted("db")
        .two_disks(LOCAL_PATH)
        .provision("true")
        .spec("nodeSelector", json!({namespace: "yes"}));
    scene.create(vm.object()).await?;
    let pod = scene.wait_own_pod().await?;
    scene.kill_controller().await?;
    Ok((scene, vm, pod.uid().unwrap_or_default()))
}

async fn label_node(scene: &Scene, node: &str) -> Result<()> {
    let label = format!("{}=yes", scene.namespace);
    scene.cluster.plane.kubectl(&["label", "node", node, &label]).await?;
    Ok(())
}

pub async fn killed_after_the_pod_was_made(cluster: Arc<Cluster>) -> Result<()> {
    let (mut scene, vm, uid) = killed_while_the_pod_waits(cluster, "killed-after-creation").await?;
    scene.start_controller(&[]).await?;
    scene.wait_reason("Unschedulable").await?;
    ensure!(
        scene.wait_own_pod().await?.uid().unwrap_or_default() == uid,
        "the pod was made anew"
    );
    label_node(&scene, "node-1").await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    // Each life may say once that it waits.
    scene
        .expect(Requests {
            creates: 1,
            deletes: 1,
            events: 6,
        })
        .await
}

pub async fn killed_before_the_node_was_chosen(cluster: Arc<Cluster>) -> Result<()> {
    let (mut scene, vm, uid) = killed_while_the_pod_waits(cluster, "killed-before-choice").await?;
    label_node(&scene, "node-2").await?;
    ensure!(scene.one_node(&vm.claims()).await? == "node-2");
    ensure!(
        scene.wait_own_pod().await?.uid().unwrap_or_default() == uid,
        "nobody else deletes it"
    );
    scene.start_controller(&[]).await?;
    scene.wait_no_own_pod().await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    // CDI did meet the pod while we were dead, so only the requests are looked at.
    scene
        .expect_requests(Requests {
            creates: 1,
            deletes: 1,
            events: 5,
        })
        .await
}

pub async fn killed_before_the_deletion(cluster: Arc<Cluster>) -> Result<()> {
    let (mut scene, _, _) = killed_while_the_pod_waits(cluster, "killed-before-deletion").await?;
    scene
        .patch_vm(
            "db",
            &json!({"metadata": {"annotations": {"first-consumer.kubevirt.io/provision": "false"}}}),
        )
        .await?;
    scene.start_controller(&[]).await?;
    scene.wait_no_own_pod().await?;
    scene.nothing_happens().await;
    scene
        .expect(Requests {
            creates: 1,
            deletes: 1,
            events: 3,
        })
        .await
}

/// With leader election as shipped: one writes, and when it is killed the other goes on. When that has ended, too,
/// `explain` says so.
pub async fn two_replicas_elect_one() -> Result<()> {
    cluster::alone(Options::default(), play_two_replicas).await
}

async fn play_two_replicas(cluster: Arc<Cluster>) -> Result<()> {
    let replicas = [
        Controller::start(&cluster.plane, &ControllerOptions::default()).await?,
        Controller::start(&cluster.plane, &ControllerOptions::default()).await?,
    ];
    for replica in &replicas {
        replica.wait_ready().await?;
    }
    let scene = Scene::without_controller(Arc::clone(&cluster), "replicas").await?;
    let first = Vm::halted("first").two_disks(LOCAL_PATH).provision("true");
    scene.create(first.object()).await?;
    scene.wait_phase(&first.claims(), "Succeeded").await?;
    let wrote = |replica: &Controller| replica.log().contains("created the pod");
    ensure!(wrote(&replicas[0]) != wrote(&replicas[1]), "exactly one leads");
    let (leader, standby) = if wrote(&replicas[0]) { (0, 1) } else { (1, 0) };
    wait_for("the Lease tells the leader's flags", async || {
        let lease = cluster
            .plane
            .kubectl(&["get", "lease/first-consumer", "-n", "first-consumer", "-o", "json"]);
        let lease: Value = serde_json::from_str(&lease.await?)?;
        let flag = |name: &str| lease.pointer(&format!("/metadata/annotations/first-consumer.kubevirt.io~1{name}"));
        let told = flag("halted-vms") == Some(&json!("opt-in")) && flag("watch-namespace") == Some(&json!(""));
        Ok(told.then_some(()))
    })
    .await?;
    replicas[leader].kill().await;

    let second = Vm::halted("second").two_disks(LOCAL_PATH).provision("true");
    scene.create(second.object()).await?;
    scene.wait_phase(&second.claims(), "Succeeded").await?;
    wait_for("the standby took over", async || {
        Ok(wrote(&replicas[standby]).then_some(()))
    })
    .await?;
    scene.wait_no_own_pod().await?;
    scene.expect(SERVED_ONCE.times(2)).await?;
    replicas[standby].stop().await?;

    let scene = Scene::without_controller(Arc::clone(&cluster), "explain-controller-gone").await?;
    let third = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(third.object()).await?;
    let names = [
        "no controller acts: nobody holds the Lease of the controller in first-consumer",
        "kubectl describe deployment -l app.kubernetes.io/name=first-consumer -n first-consumer",
    ];
    expect_in(&cluster.plane, &scene.namespace, "vm/db", "FirstConsumerNeeded", &names).await
}

/// The API server goes while a pod of ours waits, and comes back: the watches and the Lease go on where they were.
pub async fn the_api_server_restarts() -> Result<()> {
    cluster::alone(Options::default(), play_the_api_server_restarts).await
}

async fn play_the_api_server_restarts(cluster: Arc<Cluster>) -> Result<()> {
    let controller = Controller::start(&cluster.plane, &ControllerOptions::default()).await?;
    controller.wait_ready().await?;
    let scene = Scene::without_controller(Arc::clone(&cluster), "restarted").await?;
    let waits = Vm::halted("waits").two_disks(LOCAL_PATH).provision("true");
    let waits = waits.spec("nodeSelector", json!({"restarted": "yes"}));
    scene.create(waits.object()).await?;
    let uid = scene.wait_own_pod().await?.uid();
    cluster.plane.restart_apiserver().await?;
    ensure!(scene.wait_own_pod().await?.uid() == uid, "the pod was made anew");

    let later = Vm::halted("later").two_disks(LOCAL_PATH).provision("true");
    scene.create(later.object()).await?;
    label_node(&scene, "node-1").await?;
    for vm in [&waits, &later] {
        scene.wait_phase(&vm.claims(), "Succeeded").await?;
    }
    scene.wait_no_own_pod().await?;
    let calls = scene.wait_calls(2, 2).await?;
    let counts = ["create", "delete"].map(|verb| calls.succeeded(verb, "pods"));
    ensure!(counts == [2, 2], "{calls:?}");
    controller.stop().await
}
