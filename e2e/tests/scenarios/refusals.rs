//! The API server refuses our pod.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::scene::Scene;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// A refused creation is tried again after 10 s at the earliest, unless something has changed.
const AT_ONCE: Duration = Duration::from_secs(5);

fn quota(memory: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "memory"},
        "spec": {"hard": {"requests.memory": memory}},
    })
}

/// There is no room for a VM in the namespace; then there is, and the pod comes at once.
pub async fn a_quota_that_is_raised(cluster: Arc<Cluster>) -> Result<()> {
    let mut scene = Scene::without_controller(cluster, "quota").await?;
    scene.create(quota("700M")).await?;
    scene.wait_refused("probe", "failed quota: memory").await?;
    scene.start_controller(&[]).await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.object()).await?;
    scene.wait_reason("CreateRefused").await?;
    let refused = scene.wait_event("FirstConsumerRefused").await?;
    ensure!(refused.contains("exceeded quota: memory"), "{refused}");

    let raised = Timestamp::now();
    scene
        .patch(
            "v1",
            "ResourceQuota",
            "memory",
            &json!({"spec": {"hard": {"requests.memory": "8G"}}}),
        )
        .await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    let calls = scene.calls()?.of("create", "pods");
    let created = calls.iter().find(|call| call.is_ok()).context("no pod")?.received;
    let waited = Duration::try_from(created.duration_since(raised)).unwrap_or_default();
    ensure!(waited < AT_ONCE, "created {waited:?} after the quota was raised");
    let refusals = scene.events("FirstConsumerRefused").await?;
    ensure!(refusals.len() == 1, "{refusals:?}");
    Ok(())
}
