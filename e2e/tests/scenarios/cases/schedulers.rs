//! What decides about nodes beside selectors: the scheduler, runtime classes, priorities.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use first_consumer::decide::Settings;
use first_consumer_e2e::objects::Vm;
use first_consumer_e2e::stage::Requests;
use kube::ResourceExt as _;
use serde_json::json;

use super::by_hand::ByHand;
use super::{field, listed};

/// A scheduler that binds pods and not their volumes: we say so, and neither try another one nor another pod.
pub async fn c06_custom_scheduler() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("root", "PendingPopulation", &json!({})).await?;
    let vm = Vm::halted("db").existing_disk("root").provision("true");
    scene.create(vm.spec("schedulerName", json!("other")).object()).await?;
    let pod = scene.wait_own_pod().await?;
    ensure!(field(&pod, "/spec/schedulerName")? == "other");
    scene
        .patch("v1", "Pod", &pod.name_any(), &json!({"spec": {"nodeName": "node-1"}}))
        .await?;
    let scheduled = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": scene.api.clock().now()});
    scene.pod_status(&pod, &json!({"conditions": [scheduled]})).await?;
    scene.advance(Duration::from_secs(50)).await;
    ensure!(scene.told("DiskStuck").is_empty(), "{:?}", scene.told("DiskStuck"));
    scene.advance(Duration::from_mins(10)).await;
    let told = scene.told("DiskStuck");
    ensure!(told.len() == 1 && told[0].contains("scheduler other"), "{told:?}");
    ensure!(scene.own_pods().await?[0].uid() == pod.uid());
    scene.expect(Requests {
        creates: 1,
        deletes: 0,
        events: 2,
    })
}

/// Defaults of the cluster and wishes of the VM, as the launcher would have them. The class decides alone what the pod
/// may preempt; a pod for a stopped VM can be given another class (as shipped: one that evicts nobody), a pod for a
/// started one is worth what its VM is.
pub async fn c11_runtime_class_and_priority() -> Result<()> {
    let mut scene = ByHand::new().await?;
    scene.apply(
        &json!({"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
            "metadata": {"name": "kubevirt", "namespace": "default"},
            "spec": {"configuration": {"defaultRuntimeClass": "kata"}}})
        .to_string(),
    )?;
    scene.disk("root", "WaitForFirstConsumer", &json!({})).await?;
    let vm = Vm::halted("db").existing_disk("root").provision("true");
    scene
        .create(vm.spec("priorityClassName", json!("gold")).object())
        .await?;
    let pod = scene.wait_made_pod().await?;
    ensure!(field(&pod, "/spec/runtimeClassName")? == "kata");
    ensure!(field(&pod, "/spec/priorityClassName")? == "gold");
    ensure!(field(&pod, "/spec/priority").is_err() && field(&pod, "/spec/preemptionPolicy").is_err());

    scene.0.kill_controller()?;
    let mut settings = Settings::default();
    settings.pod.halted_priority_class = Some("evicts-nobody".to_owned());
    scene.0.start_controller(settings).await?;
    for (vm, class) in [(Vm::halted("off"), "evicts-nobody"), (Vm::started("on"), "gold")] {
        let disk = format!("{class}-root");
        scene.disk(&disk, "WaitForFirstConsumer", &json!({})).await?;
        let vm = vm.existing_disk(&disk).provision("true");
        scene
            .create(vm.spec("priorityClassName", json!("gold")).object())
            .await?;
        scene.wait_node(&disk).await?;
        let made = scene.made_pods();
        let pod = made.iter().find(|pod| listed(pod) == [&*disk]).context("no pod")?;
        ensure!(field(pod, "/spec/priorityClassName")? == class);
    }
    Ok(())
}
