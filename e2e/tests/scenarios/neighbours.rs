//! Others who use the same claims.

use std::sync::Arc;

use anyhow::Result;
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, pod};
use first_consumer_e2e::scene::{SERVED_ONCE, Scene, UNTOUCHED};
use kube::api::DeleteParams;
use serde_json::json;

/// Somebody's pod lists the claim: it decides, and we keep out of its way until it is gone.
pub async fn foreign_consumer(cluster: Arc<Cluster>) -> Result<()> {
    let mut scene = Scene::without_controller(cluster, "foreign").await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(pod("binder", "db-root", &json!({"no": "node"}))).await?;
    scene.start_controller(&[]).await?;
    scene.create(vm.object()).await?;
    scene.wait_reason("ForeignConsumer").await?;
    scene.nothing_happens().await;
    scene.expect(UNTOUCHED).await?;
    scene
        .pods()
        .delete("binder", &DeleteParams::default().grace_period(0))
        .await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    scene.expect(SERVED_ONCE).await
}
