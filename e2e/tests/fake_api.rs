//! The real shell on a fake API server, with paused time: hours in milliseconds.

use std::time::Duration;

use anyhow::{Result, ensure};
use first_consumer_e2e::fake_api::{Options, Scene};
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::stage::{Requests, SERVED_ONCE};
use first_consumer_e2e::stand_in::CSI_CLASS;
use serde_json::json;

/// A halted VM with two disks is served, and all that it costs is said.
async fn halted(class: &str) -> Result<()> {
    let scene = Scene::new(Options::default()).await?;
    let vm = Vm::halted("db").two_disks(class).provision("true");
    scene.create(vm.object()).await?;
    let node = scene.one_node(&vm.claims()).await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    let chosen = scene.wait_event("NodeChosen", "").await?;
    ensure!(chosen == format!("Node {node} chosen for db-root, db-data"), "{chosen}");
    scene.advance(Duration::from_mins(10)).await;
    scene.expect(SERVED_ONCE)
}

#[tokio::test(start_paused = true)]
async fn a_halted_vm_is_served_on_the_legacy_path() -> Result<()> {
    halted(LOCAL_PATH).await
}

#[tokio::test(start_paused = true)]
async fn a_halted_vm_is_served_on_the_populator_path() -> Result<()> {
    halted(CSI_CLASS).await
}

#[tokio::test(start_paused = true)]
async fn a_started_vm_is_left_to_virt_controller() -> Result<()> {
    let scene = Scene::new(Options::default()).await?;
    let vm = Vm::started("db").two_disks(LOCAL_PATH);
    scene.create(vm.object()).await?;
    scene.wait_vmi("db", "Running").await?;
    scene.expect(Requests {
        creates: 0,
        deletes: 0,
        events: 0,
    })
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_is_told_of_once_in_ten_minutes() -> Result<()> {
    let scene = Scene::new(Options::default()).await?;
    let nowhere = json!({"topology.kubernetes.io/zone": "zone-x"});
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.spec("nodeSelector", nowhere).object()).await?;
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
