//! Halted VMs, which nobody else serves.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::control_plane::Call;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::scene::{Requests, SERVED_ONCE, Scene, UNTOUCHED};
use first_consumer_e2e::stand_in::CSI_CLASS;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

pub async fn legacy_two_disks(cluster: Arc<Cluster>) -> Result<()> {
    two_disks(cluster, "halted-legacy", LOCAL_PATH, "WaitForFirstConsumer").await
}

pub async fn populator_two_disks(cluster: Arc<Cluster>) -> Result<()> {
    two_disks(cluster, "halted-populator", CSI_CLASS, "PendingPopulation").await
}

async fn two_disks(cluster: Arc<Cluster>, namespace: &str, class: &str, waiting: &str) -> Result<()> {
    let mut scene = Scene::without_controller(cluster, namespace).await?;
    let vm = Vm::halted("db").two_disks(class).provision("true");
    scene.create(vm.object()).await?;
    scene.wait_phase(&vm.claims(), waiting).await?;
    scene.nothing_happens().await;
    scene
        .wait_phase(&vm.claims(), waiting)
        .await
        .context("without us they wait")?;

    scene.start_controller(&[]).await?;
    let node = scene.one_node(&vm.claims()).await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    let told = [
        ("NodeChosen", &*format!("Node {node} chosen for db-root, db-data")),
        ("FirstConsumerCreated", "Created pod first-consumer-db-"),
        ("FirstConsumerDeleted", "Deleted pod first-consumer-db-"),
    ];
    for (reason, text) in told {
        scene.wait_event(reason, text).await?;
        ensure!(scene.events(reason).await?.len() == 1, "{reason}");
    }
    // Where a person looks.
    let describe = ["describe", "vm/db", "-n", namespace];
    let described = scene.cluster.plane.kubectl(&describe).await?;
    let (_, shown) = described.split_once("\nEvents:\n").context(described.clone())?;
    for (reason, text) in told {
        let line = shown.lines().find(|line| line.contains(reason) && line.contains(text));
        ensure!(line.is_some(), "{reason} is not in:\n{described}");
    }
    scene.expect(SERVED_ONCE).await
}

pub async fn not_asked_for(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "not-asked").await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH);
    scene.create(vm.object()).await?;
    scene.wait_phase(&vm.claims(), "WaitForFirstConsumer").await?;
    scene.wait_reason("NotAskedFor").await?;
    scene.nothing_happens().await;
    scene.wait_phase(&vm.claims(), "WaitForFirstConsumer").await?;
    scene.expect(UNTOUCHED).await
}

pub async fn opted_in_by_namespace_out_by_vm(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "namespace-asks").await?;
    let namespaces = kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(scene.client());
    let ask = json!({"metadata": {"annotations": {"first-consumer.kubevirt.io/provision": "true"}}});
    namespaces
        .patch(&scene.namespace, &PatchParams::default(), &Patch::Merge(&ask))
        .await?;
    let out = Vm::halted("out").two_disks(LOCAL_PATH).provision("false");
    let with_the_rest = Vm::halted("with-the-rest").two_disks(LOCAL_PATH);
    scene.create(out.object()).await?;
    scene.create(with_the_rest.object()).await?;
    scene.wait_phase(&with_the_rest.claims(), "Succeeded").await?;
    scene.wait_reason("OptedOut").await?;
    scene.wait_phase(&out.claims(), "WaitForFirstConsumer").await?;
    scene.expect(SERVED_ONCE).await
}

pub async fn deleted_and_recreated_with_the_same_name(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "recreated").await?;
    let ready_at = Timestamp::now();
    let nowhere = Vm::halted("db")
        .two_disks(LOCAL_PATH)
        .provision("true")
        .spec("nodeSelector", json!({"no": "node"}));
    scene.create(nowhere.object()).await?;
    let first = scene.wait_own_pod().await?;
    // The garbage collector or we: whoever is first deletes the pod with its VM.
    scene.delete_vm("db", &nowhere.claims()).await?;
    scene.wait_no_own_pod().await?;

    let somewhere = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(somewhere.object()).await?;
    scene.wait_phase(&somewhere.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    let calls = scene.wait_calls(2, 1).await?.since(ready_at);
    let creates = calls.of("create", "pods");
    ensure!(creates.len() == 2 && creates.iter().all(Call::is_ok), "{creates:?}");
    let deletes = calls.of("delete", "pods").iter().filter(|call| call.is_ok()).count();
    ensure!((1..=2).contains(&deletes), "{calls:?}");
    ensure!(first.owner_references().len() == 1);
    // Three for each VM, and that the first one is stuck.
    let events = calls.iter().filter(|call| call.resource == "events").count();
    let reads = calls
        .iter()
        .filter(|call| call.is_read() && call.verb != "watch")
        .count();
    ensure!(
        events <= 7 + scene.told_for_others(&calls).await? && reads == 0,
        "{events} events, {reads} reads"
    );
    Ok(())
}

pub async fn selector_corrected_while_stuck(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "corrected").await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    let stuck = vm
        .clone()
        .spec("nodeSelector", json!({"topology.kubernetes.io/zone": "zone-x"}));
    scene.create(stuck.object()).await?;
    scene.wait_reason("Unschedulable").await?;
    // The scheduler's own text.
    scene.wait_event("FirstConsumerWaiting", "nodes are available").await?;

    let correction = json!({"spec": {"template": {"spec": {
        "nodeSelector": {"topology.kubernetes.io/zone": "zone-b"}}}}});
    scene.patch_vm("db", &correction).await?;
    let node = scene.one_node(&vm.claims()).await?;
    ensure!(["node-3", "node-4"].contains(&&*node), "{node} is not in zone-b");
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    // One pod for each wish; their Events, and one about the wait.
    scene
        .expect(Requests {
            creates: 2,
            deletes: 2,
            events: 6,
        })
        .await
}
