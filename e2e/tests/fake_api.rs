//! The real shell on a fake API server, with paused time: hours in milliseconds.

use std::time::Duration;

use anyhow::{Result, ensure};
use first_consumer_e2e::fake_api::{Options, Scene};
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::stage::{Requests, SERVED_ONCE};
use kube::api::{Patch, PatchParams};
use serde_json::json;

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Writes what the scheduler would.
async fn choose(scene: &Scene, claims: &[String], node: &str) -> Result<()> {
    let api = kube::Api::<k8s_openapi::api::core::v1::PersistentVolumeClaim>::namespaced(scene.client(), "ns");
    let patch = Patch::Merge(json!({"metadata": {"annotations": {SELECTED_NODE: node}}}));
    for claim in claims {
        api.patch(claim, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_halted_vm_is_served() -> Result<()> {
    let scene = Scene::new(Options::default()).await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.object()).await?;
    scene.wait_own_pod().await?;
    choose(&scene, &vm.claims(), "node-3").await?;
    scene.wait_no_own_pod().await?;
    let chosen = scene.wait_event("NodeChosen").await?;
    ensure!(chosen == "Node node-3 chosen for db-root, db-data", "{chosen}");
    scene.advance(Duration::from_mins(10)).await;
    scene.expect(SERVED_ONCE)
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_is_told_of_once_in_ten_minutes() -> Result<()> {
    let scene = Scene::new(Options::default()).await?;
    scene
        .create(Vm::halted("db").two_disks(LOCAL_PATH).provision("true").object())
        .await?;
    let pod = scene.wait_own_pod().await?;
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/6 nodes are available"});
    let status = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    let name = pod.metadata.name.unwrap_or_default();
    scene
        .pods()
        .patch_status(&name, &PatchParams::default(), &status)
        .await?;
    scene.wait_reason("Unschedulable").await?;
    scene.advance(Duration::from_mins(10)).await;
    let events = scene.events_on("db");
    let reasons: Vec<_> = events.iter().map(|(reason, _, _)| reason.as_str()).collect();
    ensure!(
        reasons == ["FirstConsumerCreated", "FirstConsumerWaiting"],
        "{events:?}"
    );
    ensure!(events[1].1.contains("0/6 nodes are available"), "{events:?}");
    scene.expect(Requests {
        creates: 1,
        deletes: 0,
        events: 2,
    })
}
