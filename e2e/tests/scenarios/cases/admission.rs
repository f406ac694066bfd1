//! Admission: quota, limits, security.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, policy_against_us};
use first_consumer_e2e::scene::{Requests, SERVED_ONCE, Scene};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::by_hand::ByHand;

/// Who may not have a pod hears the API server's words once, and gets it when the quota allows.
pub async fn c36_a_quota_refuses_it(cluster: Arc<Cluster>) -> Result<()> {
    let mut scene = Scene::without_controller(cluster, "c36").await?;
    let quota = |memory: &str| json!({"spec": {"hard": {"requests.memory": memory}}});
    let mut small = quota("1Gi");
    small["apiVersion"] = json!("v1");
    small["kind"] = json!("ResourceQuota");
    small["metadata"] = json!({"name": "small"});
    scene.create(small).await?;
    scene.wait_refused("probe", "failed quota: small").await?;
    scene.start_controller(&[]).await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.guest_memory("4Gi").object()).await?;
    let refused = scene.wait_event("FirstConsumerRefused").await?;
    ensure!(refused.contains("exceeded quota: small"), "{refused}");
    scene.wait_reason("CreateRefused").await?;
    ensure!(scene.own_pods().await?.is_empty());
    scene.patch("v1", "ResourceQuota", "small", &quota("64Gi")).await?;
    scene.one_node(&["db-root".into(), "db-data".into()]).await?;
    scene.wait_no_own_pod().await?;
    ensure!(scene.events("FirstConsumerRefused").await?.len() == 1);
    Ok(())
}

/// It passes the restricted profile; who is refused all the same hears why.
pub async fn c37_pod_security(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c37").await?;
    let enforce = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(scene.client())
        .patch("c37", &PatchParams::default(), &Patch::Merge(&enforce))
        .await?;
    // A setting that the profile forbids is the launcher's business and left out.
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.object()).await?;
    scene.one_node(&vm.claims()).await?;
    scene.wait_no_own_pod().await?;
    ensure!(scene.events("FirstConsumerRefused").await?.is_empty());

    for object in policy_against_us("c37", "c37", "not on a Sunday") {
        scene.create_anywhere(&object).await?;
    }
    scene.wait_refused("first-consumer-probe", "not on a Sunday").await?;
    let refused = Vm::halted("refused").two_disks(LOCAL_PATH).provision("true");
    scene.create(refused.object()).await?;
    let event = scene.wait_event("FirstConsumerRefused").await?;
    ensure!(event.contains("not on a Sunday"), "{event}");
    scene.wait_reason("CreateRefused").await
}

/// A quota for storage counts the disk twice while it is filled: our pod goes when it has its node, whatever CDI may do.
/// What CDI is told it repeats in an Event alone, which we don't read: that nothing comes of it is told instead.
pub async fn c39_storage_quota() -> Result<()> {
    let scene = ByHand::new().await?;
    let source = json!({"spec": {"dataSourceRef": {"apiGroup": "cdi.kubevirt.io", "kind": "VolumeImportSource",
        "name": "source"}}});
    scene.served_root("PendingPopulation", &source).await?;
    scene.phase("root", "Pending").await?;
    scene.advance(Duration::from_mins(30)).await;
    let told = scene.told("DiskStuck");
    ensure!(
        told.len() == 1 && told[0].contains("root") && told[0].contains("quota"),
        "{told:?}"
    );
    scene.expect(Requests {
        events: 4,
        ..SERVED_ONCE
    })
}
