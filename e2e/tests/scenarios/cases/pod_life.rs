//! The life of our pod.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::control_plane::wait_for;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::scene::{Requests, SERVED_ONCE, SOON, Scene};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{no_node, served};

/// A VM whose pod finds no node, and the pod.
async fn stuck(scene: &Scene, name: &str) -> Result<(Vm, Pod)> {
    let vm = Vm::halted(name).two_disks(LOCAL_PATH).provision("true");
    let vm = vm.spec("nodeSelector", json!({"no": "node"}));
    scene.create(vm.object()).await?;
    let pod = scene.wait_own_pod().await?;
    scene.wait_reason("Unschedulable").await?;
    Ok((vm, pod))
}

/// Whatever became of our pod, it does not keep a claim from being deleted.
pub async fn c27_a_finished_pod_and_a_claim_that_goes(cluster: Arc<Cluster>) -> Result<()> {
    for phase in ["Pending", "Succeeded", "Failed"] {
        let scene = Scene::new(Arc::clone(&cluster), &format!("c27-{}", phase.to_lowercase())).await?;
        let (vm, pod) = stuck(&scene, "db").await?;
        scene.set_phase(&pod.name_any(), phase).await?;
        // As its user would: the DataVolume and with it the claim.
        scene.delete_data_volume("db-root").await?;
        wait_for(SOON, "our pod is gone", async || {
            let same = scene.own_pods().await?.iter().any(|other| other.uid() == pod.uid());
            Ok((!same).then_some(()))
        })
        .await?;
        scene.delete_vm("db", &vm.claims()).await?;
    }
    Ok(())
}

/// A deletion that takes its time: no second pod, and it is announced when it is true.
pub async fn c28_a_deletion_that_takes_its_time(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c28").await?;
    let (vm, pod) = stuck(&scene, "db").await?;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    scene
        .pods()
        .patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&hold))
        .await?;
    let correction = json!({"spec": {"template": {"spec": {"nodeSelector": null}}}});
    scene.patch_vm("db", &correction).await?;
    scene.wait_reason("PodTerminating").await?;
    scene.nothing_happens().await;
    ensure!(scene.own_pods().await?.len() == 1);
    ensure!(
        scene.events("FirstConsumerDeleted").await?.is_empty(),
        "it is still there"
    );
    no_node(&scene, &vm.claims()).await?;
    let release = json!({"metadata": {"finalizers": null}});
    scene
        .pods()
        .patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&release))
        .await?;
    served(&scene, &vm).await?;
    scene.wait_event("FirstConsumerDeleted").await?;
    scene
        .expect(Requests {
            creates: 2,
            deletes: 2,
            events: 6,
        })
        .await
}

/// Nobody takes our pod for a VM's: a drain may evict it, and it comes again as long as it is needed.
pub async fn c32_a_drain_evicts_it(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c32").await?;
    // KubeVirt's own budgets select launchers by this label.
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "vms"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"kubevirt.io": "virt-launcher"}}}});
    scene.create(budget).await?;
    let (vm, pod) = stuck(&scene, "db").await?;
    ensure!(!pod.labels().contains_key("kubevirt.io") && !pod.annotations().contains_key("kubevirt.io/domain"));
    let before = scene.vm("db").await?;
    scene
        .pods()
        .evict(&pod.name_any(), &kube::api::EvictParams::default())
        .await?;
    wait_for(SOON, "another pod", async || {
        let pods = scene.own_pods().await?;
        Ok(pods.into_iter().find(|other| other.uid() != pod.uid()))
    })
    .await?;
    ensure!(scene.vm("db").await?.data["spec"] == before.data["spec"]);
    let correction = json!({"spec": {"template": {"spec": {"nodeSelector": null}}}});
    scene.patch_vm("db", &correction).await?;
    served(&scene, &vm).await
}

/// We were not there when it happened: a start finds the same as a watch.
pub async fn c35_what_happened_without_us(cluster: Arc<Cluster>) -> Result<()> {
    let mut scene = Scene::without_controller(cluster, "c35").await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    let stuck = vm.clone().spec("nodeSelector", json!({"c35": "yes"}));
    scene.create(stuck.object()).await?;
    scene.wait_phase(&vm.claims(), "WaitForFirstConsumer").await?;
    scene.start_controller(&[]).await?;
    let pod = scene.wait_own_pod().await?;
    scene.kill_controller().await?;
    scene
        .cluster
        .plane
        .kubectl(&["label", "node", "node-5", "c35=yes"])
        .await?;
    scene.one_node(&vm.claims()).await?;
    ensure!(scene.own_pods().await?.first().context("nobody deletes it")?.uid() == pod.uid());
    scene.start_controller(&[]).await?;
    served(&scene, &vm).await?;
    scene.expect_requests(Requests {
        events: 5,
        ..SERVED_ONCE
    })
}
