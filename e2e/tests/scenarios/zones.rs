//! Storage that a zone shares.

use std::sync::Arc;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::control_plane::NodeSpec;
use first_consumer_e2e::objects::Vm;
use first_consumer_e2e::scene::{SERVED_ONCE, Scene};
use first_consumer_e2e::stand_in::ZONAL_CLASS;
use serde_json::json;

/// One zone has no CPU left, one is cordoned: disk and VM end in the third.
pub async fn the_only_zone_with_room(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "zones").await?;
    let full = NodeSpec {
        cpu: "1".into(),
        ..scene.own_node("full", "zone-a")
    };
    let cordoned = NodeSpec {
        unschedulable: true,
        ..scene.own_node("cordoned", "zone-b")
    };
    let roomy = scene.own_node("roomy", "zone-c");
    scene.cluster.plane.add_nodes(&[full, cordoned, roomy.clone()]).await?;
    let two_cores = json!({"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}});
    let vm = Vm::halted("db")
        .two_disks(ZONAL_CLASS)
        .provision("true")
        .spec("domain", two_cores);
    scene.create(scene.on_own_nodes(vm.clone()).object()).await?;
    ensure!(scene.one_node(&vm.claims()).await? == roomy.name);
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    for claim in vm.claims() {
        ensure!(scene.volume_zone(&claim).await? == "zone-c");
    }
    scene.expect(SERVED_ONCE).await?;

    scene
        .patch_vm("db", &json!({"spec": {"runStrategy": "Always"}}))
        .await?;
    let vmi = scene.wait_vmi("db", "Running").await?;
    ensure!(vmi.data["status"]["nodeName"] == roomy.name, "{}", vmi.data["status"]);
    Ok(())
}
