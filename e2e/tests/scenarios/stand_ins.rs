//! What the stand-ins do that no recording holds: the gate, faults of the provisioner, switches, stopping a VM.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::control_plane::wait_for;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, data_volume, pod};
use first_consumer_e2e::scene::Scene;
use first_consumer_e2e::stand_in::{CSI_CLASS, Fault};
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

const IMMEDIATE: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

pub async fn a_vm_runs_stops_and_runs_again(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::without_controller(cluster, "stand-in-run").await?;
    scene.create(Vm::started("db").two_disks(CSI_CLASS).object()).await?;
    let first = scene.wait_vmi("db", "Running").await?;
    scene
        .patch_vm("db", &json!({"spec": {"runStrategy": "Halted"}}))
        .await?;
    let gone = async || {
        Ok(scene
            .pods()
            .list(&kube::api::ListParams::default())
            .await?
            .items
            .is_empty()
            .then_some(()))
    };
    wait_for("the launcher is gone", gone).await?;
    scene
        .patch_vm("db", &json!({"spec": {"runStrategy": "Always"}}))
        .await?;
    let second = scene.wait_vmi("db", "Running").await?;
    ensure!(first.uid() != second.uid(), "the same VMI");
    Ok(())
}

pub async fn virt_controller_catches_up(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::without_controller(cluster, "stand-in-switch").await?;
    let stand_ins = &scene.cluster.stand_ins;
    stand_ins.virt_controller(Some(&scene.namespace), false);
    let vm = Vm::halted("db").two_disks(LOCAL_PATH);
    scene.create(vm.object()).await?;
    scene.nothing_happens().await;
    ensure!(scene.phases().await?.is_empty(), "switched off, it made a DataVolume");
    stand_ins.virt_controller(Some(&scene.namespace), true);
    scene.wait_phase(&vm.claims(), "WaitForFirstConsumer").await
}

/// On the legacy path it is the DataVolume's own claim that loses its node, and the pod that is still there is
/// scheduled again.
pub async fn a_node_given_back_is_chosen_again(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::without_controller(cluster, "stand-in-give-back").await?;
    let stand_ins = &scene.cluster.stand_ins;
    stand_ins.provisioner_fault(&scene.namespace, "disk", Some(Fault::GivesNodeBack));
    let mut dv = data_volume("disk", CSI_CLASS);
    dv["metadata"]["annotations"] = json!({"cdi.kubevirt.io/storage.usePopulator": "false"});
    scene.create(dv).await?;
    scene.create(pod("consumer", "disk", &json!({}))).await?;
    scene.wait_event("ProvisioningFailed", "").await?;
    scene.wait_phase(&["disk".into()], "WaitForFirstConsumer").await?;
    stand_ins.provisioner_fault(&scene.namespace, "disk", None);
    scene.wait_phase(&["disk".into()], "PVCBound").await?;
    scene.wait_event("ImportTargetInUse", "consumer").await?;
    let now = DeleteParams::default().grace_period(0);
    scene.pods().delete("consumer", &now).await?;
    scene.wait_phase(&["disk".into()], "Succeeded").await
}

/// The target keeps its node, only the prime waits; the DataVolume still says that it waits for population.
pub async fn a_failing_driver_holds_a_population_up(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::without_controller(cluster, "stand-in-failing").await?;
    let stand_ins = &scene.cluster.stand_ins;
    stand_ins.provisioner_fault(&scene.namespace, "disk", Some(Fault::Fails));
    scene.create(data_volume("disk", CSI_CLASS)).await?;
    scene.create(pod("consumer", "disk", &json!({}))).await?;
    scene.wait_node("disk").await?;
    // Told of the prime, and again of the target with the prime's name before it.
    scene.wait_event("ProvisioningFailed", "[prime-").await?;
    ensure!(
        scene
            .claim("disk")
            .await?
            .context("no claim")?
            .annotations()
            .contains_key(SELECTED_NODE)
    );
    stand_ins.provisioner_fault(&scene.namespace, "disk", None);
    scene.wait_phase(&["disk".into()], "Succeeded").await
}

pub async fn without_the_gate_nobody_waits(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::without_controller(cluster, "stand-in-gate").await?;
    scene.cluster.stand_ins.honor_late_binding(&scene.namespace, false);
    scene.create(data_volume("legacy", LOCAL_PATH)).await?;
    scene.create(data_volume("populator", CSI_CLASS)).await?;
    scene
        .wait_phase(&["legacy".into(), "populator".into()], "Succeeded")
        .await?;
    let asked = async |name| {
        Ok::<_, anyhow::Error>(
            scene
                .claim(name)
                .await?
                .context("no claim")?
                .annotations()
                .contains_key(IMMEDIATE),
        )
    };
    ensure!(asked("populator").await? && !asked("legacy").await?);
    Ok(())
}
