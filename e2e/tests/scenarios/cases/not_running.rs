//! VMs that are not running.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, data_volume, pod};
use first_consumer_e2e::scene::{SERVED_ONCE, Scene, UNTOUCHED};
use first_consumer_e2e::stand_in::{CSI_CLASS, CSI_DRIVER};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

use super::by_hand::ByHand;
use super::{field, listed, no_node, served};

/// A stopped VM's disks fill; the VM stays as it is and there is no VMI.
pub async fn c12_a_stopped_vms_disks_fill(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c12").await?;
    for class in [LOCAL_PATH, CSI_CLASS] {
        let vm = Vm::halted(class).two_disks(class).provision("true");
        let before = scene.create(vm.object()).await?;
        served(&scene, &vm).await?;
        let after = scene.vm(class).await?;
        ensure!(after.data["spec"] == before.data["spec"], "{}", after.data["spec"]);
        ensure!(!scene.has_vmi(class).await?);
    }
    scene.expect(SERVED_ONCE.times(2)).await
}

/// A migration tool makes the disks first: nothing happens until a VM lists them. While the tool's own pod lists them,
/// it decides.
pub async fn c13_disks_before_their_vm(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c13").await?;
    let vm = Vm::halted("m")
        .existing_disk("m-0")
        .existing_disk("m-1")
        .provision("true")
        .spec("nodeSelector", json!({"kubernetes.io/hostname": "node-3"}));
    for name in ["m-0", "m-1"] {
        scene.create(data_volume(name, CSI_CLASS)).await?;
    }
    scene.wait_phase(&vm.claims(), "PendingPopulation").await?;
    scene.nothing_happens().await;
    scene.expect(UNTOUCHED).await?;
    let owner = scene.create(vm.object()).await?;
    let made = scene.wait_made_pod().await?;
    ensure!(listed(&made) == vm.claims());
    ensure!(made.owner_references()[0].uid == owner.uid().unwrap_or_default());
    ensure!(field(&made, "/spec/nodeSelector/kubernetes.io~1hostname")? == "node-3");
    ensure!(scene.one_node(&vm.claims()).await? == "node-3");
    served(&scene, &vm).await?;
    scene.expect(SERVED_ONCE).await?;

    let tools = Vm::halted("tools").existing_disk("x-0").provision("true");
    scene.create(data_volume("x-0", CSI_CLASS)).await?;
    scene.create(pod("x-init", "x-0", &json!({"no": "node"}))).await?;
    scene.wait_phase(&["x-0".into()], "PendingPopulation").await?;
    scene.create(tools.object()).await?;
    scene.wait_reason("ForeignConsumer").await?;
    scene.nothing_happens().await;
    scene.expect(SERVED_ONCE).await
}

/// A VM's copy is a VM like any other; the original and its disks are nobody's business. One whose class has room only where
/// the VM may not run, as that of local snapshots would, waits with the scheduler's words.
pub async fn c17_the_copy_of_a_vm(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c17").await?;
    let original = Vm::halted("src").two_disks(CSI_CLASS).provision("true");
    scene.create(original.object()).await?;
    served(&scene, &original).await?;
    let mut root = data_volume("copy-root", CSI_CLASS);
    root["spec"]["source"] = json!({"pvc": {"name": "src-root", "namespace": scene.namespace}});
    let copy = Vm::halted("copy").data_volume(root).provision("true");
    let owner = scene.create(copy.object()).await?;
    served(&scene, &copy).await?;
    let made = scene.made_pods();
    let of_copy: Vec<_> = made.iter().filter(|pod| listed(pod) == ["copy-root"]).collect();
    let [pod] = of_copy[..] else {
        anyhow::bail!("{} pods", of_copy.len())
    };
    ensure!(pod.owner_references()[0].uid == owner.uid().unwrap_or_default());
    scene.expect(SERVED_ONCE.times(2)).await?;

    let there = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "c17"},
        "provisioner": CSI_DRIVER, "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["node-1"]}]}]});
    scene.create_anywhere(&there).await?;
    let mut apart = data_volume("apart-root", "c17");
    apart["spec"]["source"] = json!({"pvc": {"name": "src-root", "namespace": scene.namespace}});
    let apart = Vm::halted("apart").data_volume(apart).provision("true");
    let elsewhere = apart
        .clone()
        .spec("nodeSelector", json!({"kubernetes.io/hostname": "node-2"}));
    scene.create(elsewhere.object()).await?;
    scene
        .wait_event(
            "FirstConsumerWaiting",
            "didn't find available persistent volumes to bind",
        )
        .await?;
    scene.wait_reason("Unschedulable").await?;
    no_node(&scene, &apart.claims()).await
}

/// An upload gets its node when a VM lists it, and then its server is not kept waiting by us: who uploads finds it ready.
pub async fn c19_an_upload(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c19").await?;
    for (class, waits) in [(LOCAL_PATH, "WaitForFirstConsumer"), (CSI_CLASS, "PendingPopulation")] {
        let name = format!("{class}-root");
        let mut upload = data_volume(&name, class);
        upload["spec"]["source"] = json!({"upload": {}});
        scene.create(upload).await?;
        scene.wait_phase(std::slice::from_ref(&name), waits).await?;
    }
    // Nobody's.
    scene.nothing_happens().await;
    scene.expect(UNTOUCHED).await?;
    for class in [LOCAL_PATH, CSI_CLASS] {
        let name = format!("{class}-root");
        let vm = Vm::halted(class).existing_disk(&name).provision("true");
        scene.create(vm.object()).await?;
        scene.wait_phase(&vm.claims(), "UploadReady").await?;
        scene.wait_no_own_pod().await?;
        scene.data_arrives(&name).await?;
        scene.wait_phase(&vm.claims(), "Succeeded").await?;
    }
    let met = scene.events("UploadTargetInUse").await?;
    ensure!(met.is_empty(), "CDI met a pod: {met:?}");
    scene.expect(SERVED_ONCE.times(2)).await
}

/// Twenty at once, half of them on either path, and we are killed midway: one pod a VM at a time, none at the end, none missing.
pub async fn c24_twenty_at_once(cluster: Arc<Cluster>) -> Result<()> {
    let mut scene = Scene::new(cluster, "c24").await?;
    let vms: Vec<Vm> = (0..20)
        .map(|number| {
            let class = [LOCAL_PATH, CSI_CLASS][number % 2];
            Vm::halted(&format!("vm-{number}")).two_disks(class).provision("true")
        })
        .collect();
    for vm in &vms {
        scene.create(vm.object()).await?;
    }
    scene.wait_made_pod().await?;
    scene.kill_controller().await?;
    scene.start_controller(&[]).await?;
    for vm in &vms {
        scene.wait_phase(&vm.claims(), "Succeeded").await?;
    }
    scene.wait_no_own_pod().await?;
    let made = scene.made_pods();
    let mut names: Vec<_> = made.iter().map(ResourceExt::name_any).collect();
    names.sort();
    names.dedup();
    ensure!(
        names.len() == vms.len() && made.len() == vms.len(),
        "{} pods of {} names",
        made.len(),
        names.len()
    );
    // virt-controller takes none of them for a VMI's.
    let owned = |pod: &Pod| matches!(pod.owner_references(), [owner] if owner.kind == "VirtualMachine");
    ensure!(made.iter().all(owned), "{made:?}");
    Ok(())
}

/// The annotation counts by its presence on the claim, whatever its value; without it the claim is like any other,
/// whatever its DataVolume says.
pub async fn c15_immediate_binding_by_presence() -> Result<()> {
    let scene = ByHand::new().await?;
    let asked = json!({"metadata": {"annotations": {"cdi.kubevirt.io/storage.bind.immediate.requested": "false"}}});
    scene.disk("root", "WaitForFirstConsumer", &asked).await?;
    scene
        .create(Vm::halted("db").existing_disk("root").provision("true").object())
        .await?;
    scene.advance(Duration::from_mins(10)).await;
    scene.expect(UNTOUCHED)?;
    let not = json!({"metadata": {"annotations": {"cdi.kubevirt.io/storage.bind.immediate.requested": null}}});
    scene.edit_claim("root", &not).await?;
    scene.phase("root", "PendingPopulation").await?;
    scene.wait_made_pod().await?;

    scene.disk("other", "PendingPopulation", &json!({})).await?;
    scene
        .patch("cdi.kubevirt.io/v1beta1", "DataVolume", "other", &asked)
        .await?;
    let vm = Vm::halted("disagrees").existing_disk("other").provision("true");
    scene.create(vm.object()).await?;
    scene.wait_node("other").await?;
    ensure!(scene.made() == 2);
    Ok(())
}

/// A claim that somebody else's populator fills. Our pod goes when the claim has its node, however long the filling
/// takes (the case would keep it; nothing needs it). A DataVolume that is plainly Pending is none that waits, but a
/// hint comes after a while.
pub async fn c21_somebody_elses_populator() -> Result<()> {
    let scene = ByHand::new().await?;
    let source = json!({"spec": {"dataSourceRef": {"apiGroup": "example.com", "kind": "Foo", "name": "source"}}});
    scene.disk("plain", "Pending", &source).await?;
    scene
        .create(Vm::halted("other").existing_disk("plain").provision("true").object())
        .await?;
    scene.advance(Duration::from_mins(10)).await;
    ensure!(scene.made() == 0);
    let told = scene.events_on("other");
    let hints: Vec<_> = told.iter().filter(|(reason, ..)| reason == "DiskStuck").collect();
    ensure!(
        hints.len() == 1 && hints[0].1.contains("plain from Foo source"),
        "{told:?}"
    );
    scene.served_root("PendingPopulation", &source).await?;
    scene.advance(Duration::from_hours(5)).await;
    ensure!(scene.made() == 1);
    Ok(())
}
