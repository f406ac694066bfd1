//! Others who use the same claims.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::control_plane::{Controller, ControllerOptions, Options};
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, pod};
use first_consumer_e2e::scene::{SERVED_ONCE, Scene, UNTOUCHED};
use first_consumer_e2e::stand_in;
use first_consumer_e2e::suite::Shared as _;
use kube::api::DeleteParams;
use serde_json::json;

use crate::explain;

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

/// We are there before CDI: its kinds count as empty, and are found when they come.
pub async fn cdi_comes_later() -> Result<()> {
    let without = Options {
        cdi: false,
        ..Options::default()
    };
    let plane = Cluster::install(without).await?;
    let controller = Controller::start(&plane, &ControllerOptions::default()).await?;
    controller.wait_ready().await?;
    ensure!(
        controller.log().contains("the kind does not exist"),
        "{}",
        controller.log()
    );
    let waits = "explain-cdi-missing";
    plane.add_namespace(waits).await?;
    let mut vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true").object();
    vm["metadata"]["namespace"] = json!(waits);
    plane.apply(&vm.to_string()).await?;
    let names = ["the cluster knows no DataVolumes", "kubectl get pods -n cdi"];
    explain::expect_in(&plane, waits, "vm/db", "CdiMissing", &names).await?;

    plane.apply_crds(true).await?;
    let cluster = Arc::new(Cluster::populate(plane, stand_in::Options::default()).await?);
    let scene = Scene::without_controller(Arc::clone(&cluster), "late-cdi").await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.object()).await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    scene.expect(SERVED_ONCE).await?;
    controller.stop().await?;
    drop(scene);
    let cluster = Arc::into_inner(cluster).context("the scene has kept its cluster")?;
    cluster.stop().await
}
