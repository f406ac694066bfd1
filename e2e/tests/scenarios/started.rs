//! Started VMs, which virt-controller serves first.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::scene::{SERVED_ONCE, Scene, UNTOUCHED};
use first_consumer_e2e::stand_in::CSI_CLASS;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::json;

/// The default of `--fallback-after`, less the second that creation timestamps are rounded by.
const FALLBACK_AFTER: Duration = Duration::from_secs(9);

/// For a virt-controller that shares a busy machine.
const PATIENT: [(&str, &str); 1] = [("FIRST_CONSUMER_FALLBACK_AFTER", "2m")];

/// On the legacy path only until the disks are bound: what comes then is CDI's back-off, which takes minutes at times.
pub async fn left_to_virt_controller(cluster: Arc<Cluster>) -> Result<()> {
    let mut scene = Scene::without_controller(cluster, "started").await?;
    scene.start_controller(&PATIENT).await?;
    let legacy = Vm::started("legacy").two_disks(LOCAL_PATH);
    let populator = Vm::started("populator").two_disks(CSI_CLASS);
    scene.create(legacy.object()).await?;
    scene.create(populator.object()).await?;
    scene.wait_vmi("populator", "Running").await?;
    scene.one_node(&legacy.claims()).await?;
    for claim in legacy.claims() {
        scene.wait_bound(&claim).await?;
    }
    scene.expect_requests(UNTOUCHED).await
}

pub async fn fallback_without_virt_controller(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "fallback").await?;
    let vm = Vm::started("db").two_disks(LOCAL_PATH);
    // It made the DataVolumes before it went away.
    scene.cluster.stand_ins.virt_controller(Some(&scene.namespace), false);
    for mut disk in vm.data_volumes() {
        disk["metadata"]["annotations"] = json!({});
        scene.create(disk).await?;
    }
    let began = Timestamp::now();
    scene.create(vm.object()).await?;
    scene.wait_reason("LeftToVirtController").await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    let calls = scene.wait_calls(1, 1).await?;
    let created = calls.of("create", "pods").first().context("no pod")?.received;
    let waited = Duration::try_from(created.duration_since(began)).unwrap_or_default();
    ensure!(waited >= FALLBACK_AFTER, "made after {waited:?}");
    scene.expect(SERVED_ONCE).await
}

pub async fn bare_vmi_fallback(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "bare-vmi").await?;
    scene.cluster.stand_ins.virt_controller(Some(&scene.namespace), false);
    let vm = Vm::started("db").two_disks(LOCAL_PATH);
    for disk in vm.data_volumes() {
        scene.create(disk).await?;
    }
    let vmi = scene.create(vm.bare_vmi()).await?;
    let pod = scene.wait_made_pod().await?;
    let owner = pod.owner_references().first().context("no owner")?;
    ensure!(
        owner.kind == "VirtualMachineInstance" && owner.controller == Some(false),
        "{owner:?}"
    );
    ensure!(Some(&owner.uid) == vmi.uid().as_ref(), "{owner:?}");
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    scene.expect(SERVED_ONCE).await?;

    // The VMI starts where its disks are.
    let node = scene.one_node(&vm.claims()).await?;
    scene.cluster.stand_ins.virt_controller(Some(&scene.namespace), true);
    let vmi = scene.wait_vmi("db", "Running").await?;
    ensure!(
        vmi.data["status"]["nodeName"] == json!(node),
        "disks on {node}, {}",
        vmi.data["status"]
    );
    Ok(())
}

pub async fn started_while_our_pod_waits(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "started-meanwhile").await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    let stuck = vm
        .clone()
        .spec("nodeSelector", json!({"topology.kubernetes.io/zone": "zone-x"}));
    scene.create(stuck.object()).await?;
    scene.wait_reason("Unschedulable").await?;
    scene
        .patch_vm("db", &json!({"spec": {"runStrategy": "Always"}}))
        .await?;
    scene.wait_no_own_pod().await?;
    // Virt-controller's pod takes over, as stuck as ours was.
    scene.wait_launcher().await?;
    scene.nothing_happens().await;
    scene.expect(SERVED_ONCE).await
}
