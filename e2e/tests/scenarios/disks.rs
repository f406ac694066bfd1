//! Disks that are unlike each other.

use std::sync::Arc;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, claim, data_volume};
use first_consumer_e2e::scene::{Requests, SERVED_ONCE, Scene, UNTOUCHED};
use first_consumer_e2e::stand_in::CSI_CLASS;
use serde_json::json;

/// A second disk arrives while the first is filled: it must follow it to its node.
pub async fn late_disk(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "late-disk").await?;
    let mut root = data_volume("db-root", LOCAL_PATH);
    root["spec"]["source"]["http"]["url"] = json!("http://images.example/slow.img");
    let vm = Vm::halted("db").data_volume(root).provision("true");
    scene.create(vm.object()).await?;
    let node = scene.wait_node("db-root").await?;
    scene.wait_phase(&vm.claims(), "ImportInProgress").await?;
    scene.create(data_volume("late", LOCAL_PATH)).await?;
    let both = vm.clone().disk("late", LOCAL_PATH).vmi_spec();
    scene
        .patch_vm("db", &json!({"spec": {"template": {"spec": both}}}))
        .await?;
    ensure!(scene.wait_node("late").await? == node, "the late disk went elsewhere");
    scene.data_arrives("db-root").await?;
    scene
        .wait_phase(&["db-root".into(), "late".into()], "Succeeded")
        .await?;
    scene.wait_no_own_pod().await?;
    scene
        .expect(Requests {
            creates: 2,
            deletes: 2,
            events: 6,
        })
        .await
}

/// A claim without a DataVolume waits for a pod, too, and must be on the same node.
pub async fn plain_claim_beside(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "plain-claim").await?;
    let vm = Vm::halted("db")
        .disk("db-root", LOCAL_PATH)
        .plain_claim("plain")
        .provision("true");
    scene.create(claim("plain", LOCAL_PATH)).await?;
    scene.create(vm.object()).await?;
    scene.one_node(&vm.claims()).await?;
    scene.wait_phase(&["db-root".into()], "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    scene.expect(SERVED_ONCE).await
}

/// Whoever asks CDI not to wait is taken at their word, on both paths. That the disks then may be on two nodes is told.
pub async fn immediate_binding_asked_for(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "immediate").await?;
    for (name, class) in [("legacy", LOCAL_PATH), ("populator", CSI_CLASS)] {
        let vm = Vm::halted(name).two_disks(class).provision("true");
        let vm = vm.disk_annotation("cdi.kubevirt.io/storage.bind.immediate.requested", "false");
        scene.create(vm.object()).await?;
        scene.wait_phase(&vm.claims(), "Succeeded").await?;
    }
    scene.expect(Requests { events: 2, ..UNTOUCHED }).await
}
