//! What decides about nodes beside selectors: the scheduler, runtime classes, priorities.

use std::time::Duration;

use anyhow::{Result, ensure};
use first_consumer_e2e::objects::Vm;
use first_consumer_e2e::stage::Requests;
use kube::ResourceExt as _;
use serde_json::json;

use super::by_hand::ByHand;
use super::field;

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

/// Defaults of the cluster and wishes of the VM, as the launcher would have them.
pub async fn c11_runtime_class_and_priority() -> Result<()> {
    let scene = ByHand::new().await?;
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
    Ok(())
}
