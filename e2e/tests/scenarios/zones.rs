//! Storage that a zone shares.

use std::sync::Arc;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::{self, Cluster};
use first_consumer_e2e::control_plane::{NodeSpec, Options};
use first_consumer_e2e::objects::Vm;
use first_consumer_e2e::scene::{SERVED_ONCE, Scene};
use first_consumer_e2e::stand_in::ZONAL_CLASS;
use serde_json::json;

/// One zone has no CPU left, one is cordoned: disk and VM end in the third.
pub async fn the_only_zone_with_room() -> Result<()> {
    let full = NodeSpec {
        cpu: "1".into(),
        ..NodeSpec::new("full", "zone-a")
    };
    let cordoned = NodeSpec {
        unschedulable: true,
        ..NodeSpec::new("cordoned", "zone-b")
    };
    let nodes = vec![full, cordoned, NodeSpec::new("roomy", "zone-c")];
    let options = Options {
        nodes,
        ..Options::default()
    };
    cluster::alone(options, play).await
}

async fn play(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "zones").await?;
    let two_cores = json!({"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}});
    let vm = Vm::halted("db")
        .two_disks(ZONAL_CLASS)
        .provision("true")
        .spec("domain", two_cores);
    scene.create(vm.object()).await?;
    ensure!(scene.one_node(&vm.claims()).await? == "roomy");
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
    ensure!(vmi.data["status"]["nodeName"] == "roomy", "{}", vmi.data["status"]);
    Ok(())
}
