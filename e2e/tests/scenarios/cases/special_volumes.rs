//! Special volumes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, pod};
use first_consumer_e2e::scene::{SERVED_ONCE, Scene, UNTOUCHED};
use first_consumer_e2e::stand_in::CSI_CLASS;
use kube::ResourceExt as _;
use serde_json::json;

use super::by_hand::{ByHand, SILENT, populated};
use super::{listed, no_node, served};

/// A disk that was plugged into the VM decides where its new disks go.
pub async fn c51_a_hotplugged_disk_is_followed(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c51").await?;
    let first = Vm::halted("first").disk("hot", LOCAL_PATH).provision("true");
    let there = first
        .clone()
        .spec("nodeSelector", json!({"kubernetes.io/hostname": "node-6"}));
    scene.create(there.object()).await?;
    served(&scene, &first).await?;
    let second = Vm::halted("second")
        .disk("second-root", LOCAL_PATH)
        .hotplugged("hot")
        .provision("true");
    scene.create(second.object()).await?;
    ensure!(scene.wait_node("second-root").await? == "node-6");
    served(&scene, &second).await?;
    let pods = scene.made_pods();
    ensure!(pods.iter().any(|pod| listed(pod) == ["second-root", "hot"]));
    scene.expect(SERVED_ONCE.times(2)).await
}

/// A disk is plugged into a running VM: KubeVirt's own pods decide, the launcher and the one that attaches the disk.
pub async fn c52_hotplug_into_a_running_vm() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("root", "Succeeded", &json!({})).await?;
    scene.bind("root", "node-1").await?;
    scene.disk("hot", "WaitForFirstConsumer", &json!({})).await?;
    let vm = Vm::started("db").existing_disk("root").hotplugged("hot");
    scene.create(vm.clone().provision("true").object()).await?;
    scene.instance(&vm, "Running").await?;
    scene.advance(Duration::from_mins(10)).await;
    let attaches = pod("hp-volume-x", "hot", &json!({"no": "node"}));
    scene.create(attaches).await?;
    scene.advance(Duration::from_mins(10)).await;
    scene.expect(UNTOUCHED)
}

/// Where a disk that was plugged in is already decides nothing as long as no other waits.
pub async fn c51_a_hotplugged_disk_alone() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("root", "Succeeded", &json!({})).await?;
    scene.disk("hot", "Succeeded", &json!({})).await?;
    for disk in ["root", "hot"] {
        scene.bind(disk, "node-1").await?;
    }
    let vm = Vm::halted("db")
        .existing_disk("root")
        .hotplugged("hot")
        .provision("true");
    scene.create(vm.object()).await?;
    scene.advance(Duration::from_mins(10)).await;
    scene.expect(UNTOUCHED)?;
    scene.disk("new", "WaitForFirstConsumer", &json!({})).await?;
    let more = vm.existing_disk("new").vmi_spec();
    scene
        .patch_vm("db", &json!({"spec": {"template": {"spec": more}}}))
        .await?;
    ensure!(scene.wait_node("new").await? == "node-1");
    Ok(())
}

/// A disk that is plugged in while the VM runs waits for that, and is not listed beside those that the VM boots with.
pub async fn c51_a_hotplugged_disk_that_waits() -> Result<()> {
    let scene = ByHand::new().await?;
    for disk in ["root", "hot"] {
        scene.disk(disk, "WaitForFirstConsumer", &json!({})).await?;
    }
    let vm = Vm::halted("db").existing_disk("root").hotplugged("hot");
    scene.create(vm.provision("true").object()).await?;
    scene.wait_node("root").await?;
    scene.advance(Duration::from_mins(10)).await;
    ensure!(scene.made() == 1 && listed(&scene.made_pods()[0]) == ["root"]);
    no_node(&scene, &["hot".into()]).await
}

/// One disk is filled already: a new one follows it.
pub async fn c55_a_disk_is_already_somewhere(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c55").await?;
    let first = Vm::halted("first").disk("d1", CSI_CLASS).provision("true");
    let there = first
        .clone()
        .spec("nodeSelector", json!({"kubernetes.io/hostname": "node-2"}));
    scene.create(there.object()).await?;
    served(&scene, &first).await?;
    let second = Vm::halted("second")
        .existing_disk("d1")
        .disk("d2", CSI_CLASS)
        .provision("true");
    scene.create(second.object()).await?;
    ensure!(scene.wait_node("d2").await? == "node-2");
    served(&scene, &second).await?;
    ensure!(scene.made_pods().iter().any(|pod| listed(pod).len() == 2));
    scene.expect(SERVED_ONCE.times(2)).await
}

/// What CDI makes beside the disk ends up elsewhere: its pod's words are told, and our pod does not come back.
pub async fn c54_scratch_and_prime_go_elsewhere() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.served_root("WaitForFirstConsumer", &json!({})).await?;
    scene.bind("root", "node-1").await?;
    scene.phase("root", "ImportScheduled").await?;
    scene.stuck_worker("root").await?;
    scene.advance(Duration::from_mins(10)).await;
    let told = scene.told("DiskStuck");
    let quoted = |note: &String| note.contains("importer-root") && note.contains("nodes are available");
    ensure!(told.len() == 1 && quoted(&told[0]), "{told:?}");
    ensure!(scene.made() == 1);
    Ok(())
}

/// What CDI fills a disk through is in no pod of ours, though it belongs to that disk's claim, waits for a node itself and
/// is there when a pod for the next disk is made.
pub async fn c54_scratch_and_prime_are_in_no_pod() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("d1", "ImportInProgress", &populated()).await?;
    scene.select_node("d1", Some("node-2")).await?;
    let uid = scene.claim("d1").await?.context("no claim")?.uid().context("no UID")?;
    let prime = format!("prime-{uid}");
    for name in [prime.clone(), format!("{prime}-scratch")] {
        let mut made = first_consumer_e2e::objects::claim(&name, SILENT);
        made["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "name": "d1", "uid": uid, "controller": true}]);
        scene.create(made).await?;
    }
    beside_d1(&scene).await?;
    ensure!(scene.wait_node("d2").await? == "node-2");
    ensure!(scene.made() == 1 && listed(&scene.made_pods()[0]) == ["d1", "d2"]);
    Ok(())
}

/// A running VM's new disk belongs to the pod that the migration will make.
pub async fn c57_the_target_of_a_volume_migration() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("new", "PendingPopulation", &json!({})).await?;
    let mut vm = Vm::started("db").existing_disk("new").provision("true").object();
    vm["spec"]["updateVolumesStrategy"] = json!("Migration");
    scene.create(vm).await?;
    scene
        .instance(&Vm::started("db").existing_disk("old"), "Running")
        .await?;
    scene.advance(Duration::from_mins(10)).await;
    ensure!(scene.made() == 0);
    scene.instance_phase("db", "Succeeded").await?;
    scene
        .patch_vm("db", &json!({"spec": {"runStrategy": "Halted"}}))
        .await?;
    scene.wait_made_pod().await.map(drop)
}

/// The source turns out to be none: our pod does its work once, and the failure is told of once.
pub async fn c58_a_disk_that_can_never_be_filled() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.served_root("PendingPopulation", &json!({})).await?;
    scene.phase("root", "ImportScheduled").await?;
    scene.bind("root", "node-1").await?;
    let why = json!({"phase": "Failed", "conditions": [{"type": "Running", "status": "False", "reason": "Error",
        "message": "404 Not Found"}]});
    scene
        .patch_status("cdi.kubevirt.io/v1beta1", "DataVolume", "root", &why)
        .await?;
    scene.advance(Duration::from_mins(30)).await;
    ensure!(scene.made() == 1 && scene.own_pods().await?.is_empty());
    let told = scene.told("DiskStuck");
    ensure!(
        told == ["a DataVolume has failed: root, Running=False Error: 404 Not Found"],
        "{told:?}"
    );
    Ok(())
}

/// A VM with a disk that can't be filled can't start, so its other disks need no place until that one is corrected.
pub async fn c58_a_failed_disk_among_others() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("d1", "Failed", &json!({})).await?;
    beside_d1(&scene).await?;
    scene.advance(Duration::from_mins(10)).await;
    ensure!(scene.made() == 0);
    let told = scene.told("DiskStuck");
    ensure!(told == ["a DataVolume has failed: d1"], "{told:?}");
    // Its user makes it again. The claim is of no use as soon as its DataVolume is gone, before the collector has come.
    scene.delete_data_volume("d1").await?;
    scene.advance(Duration::from_secs(10)).await;
    ensure!(scene.claim("d1").await?.is_none() && scene.made() == 0);
    scene.disk("d1", "WaitForFirstConsumer", &json!({})).await?;
    scene.wait_node("d2").await?;
    ensure!(scene.made() == 1 && listed(&scene.made_pods()[0]) == ["d1", "d2"]);
    Ok(())
}

/// A VM with the disk `d1` and another, which waits.
async fn beside_d1(scene: &ByHand) -> Result<()> {
    scene.disk("d2", "WaitForFirstConsumer", &json!({})).await?;
    let vm = Vm::halted("db").existing_disk("d1").existing_disk("d2");
    scene.create(vm.provision("true").object()).await.map(drop)
}

/// A disk is bound and about to be filled, which our pod would block: the new disk waits until it is, which is said if it
/// lasts for a minute, and then has its pod.
pub async fn c55_a_disk_is_about_to_be_filled() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("d1", "ImportScheduled", &json!({})).await?;
    scene.bind("d1", "node-2").await?;
    beside_d1(&scene).await?;
    scene.wait_reason("SiblingImporting").await?;
    scene.advance(Duration::from_mins(10)).await;
    ensure!(scene.made() == 0);
    let told = scene.told("DiskStuck");
    let first = told.first().context("nothing is told")?;
    ensure!(first.contains("a pod of ours would block it: d1"), "{told:?}");
    scene.phase("d1", "Succeeded").await?;
    ensure!(scene.wait_node("d2").await? == "node-2");
    ensure!(listed(&scene.made_pods()[0]) == ["d1", "d2"]);
    Ok(())
}

/// The disk that the new one waits for is never filled: the wait ends with that.
pub async fn c55_a_disk_has_failed_to_be_filled() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("d1", "ImportScheduled", &json!({})).await?;
    scene.bind("d1", "node-2").await?;
    beside_d1(&scene).await?;
    scene.wait_reason("SiblingImporting").await?;
    scene.phase("d1", "Failed").await?;
    scene.wait_reason("DataVolumeFailed").await?;
    scene.advance(Duration::from_mins(10)).await;
    let told = scene.told("DiskStuck");
    ensure!(told == ["a DataVolume has failed: d1"], "{told:?}");
    ensure!(scene.made() == 0);
    Ok(())
}

/// A disk is bound and being filled already, which our pod can't block any more: the new disk is served beside it.
pub async fn c55_a_disk_is_being_filled() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("d1", "ImportInProgress", &json!({})).await?;
    scene.bind("d1", "node-2").await?;
    scene.worker("d1", &json!({})).await?;
    beside_d1(&scene).await?;
    ensure!(scene.wait_node("d2").await? == "node-2");
    ensure!(listed(&scene.made_pods()[0]) == ["d1", "d2"]);
    Ok(())
}
