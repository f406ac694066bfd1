//! Nodes that vanish, grow or are full.

use std::time::Duration;

use anyhow::{Result, ensure};
use first_consumer_e2e::control_plane::NodeSpec;
use first_consumer_e2e::fake_api::{Options, Scene};
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::stand_in::Fault;
use k8s_openapi::api::core::v1::Node;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::by_hand::ByHand;
use super::{field, listed};

fn told(scene: &Scene, reason: &str) -> Vec<String> {
    let events = scene.events_on("db").into_iter();
    events
        .filter(|(found, _, _)| found == reason)
        .map(|(_, note, _)| note)
        .collect()
}

fn made(scene: &Scene) -> usize {
    scene
        .calls()
        .of("create", "pods")
        .iter()
        .filter(|call| call.is_ok())
        .count()
}

/// There is no node yet: the pod waits as long as it takes, the same one, with the devices that tell which node to make.
pub async fn c44_no_node_yet() -> Result<()> {
    let scene = Scene::new(Options {
        nodes: Vec::new(),
        ..Options::default()
    })
    .await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.object()).await?;
    let pod = scene.wait_own_pod().await?;
    let limits = field(&pod, "/spec/containers/0/resources/limits")?;
    ensure!(limits["devices.kubevirt.io/kvm"] == "1", "{limits}");
    scene.advance(Duration::from_mins(20)).await;
    ensure!(scene.own_pods().await?[0].uid() == pod.uid());
    let waits = told(&scene, "FirstConsumerWaiting");
    let quoted = waits.iter().all(|note| note.contains("nodes are available"));
    ensure!(waits.len() == 1 && quoted, "the scheduler's reason, once: {waits:?}");
    scene.add_node(&NodeSpec::new("late", "zone-a"))?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    ensure!(made(&scene) == 1);
    Ok(())
}

/// The node that was made for the pod is taken away again, three times: there is a pod each time, at growing
/// distances, and the missing node is told of. (Annotations that keep autoscalers away are always there.)
pub async fn c45_the_node_is_consolidated_away() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("root", "WaitForFirstConsumer", &json!({})).await?;
    let vm = Vm::halted("db").existing_disk("root").provision("true");
    scene
        .create(vm.spec("nodeSelector", json!({"round": "yes"})).object())
        .await?;
    for round in 1..=3 {
        let pod = scene.wait_own_pod().await?;
        let safe = pod.annotations().get("cluster-autoscaler.kubernetes.io/safe-to-evict");
        ensure!(safe.is_some_and(|safe| safe == "true"));
        let mut node = NodeSpec::new(format!("round-{round}"), "zone-a");
        node.labels.insert("round".to_owned(), "yes".to_owned());
        scene.add_node(&node)?;
        scene.wait_node("root").await?;
        Api::<Node>::all(scene.client())
            .delete(&node.name, &DeleteParams::default())
            .await?;
        scene.advance(Duration::from_mins(3)).await;
        let gone = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": null}}});
        scene.edit_claim("root", &gone).await?;
        scene.advance(Duration::from_mins(3)).await;
    }
    ensure!(scene.made() <= 4, "{} pods", scene.made());
    let told = scene.told("DiskStuck");
    ensure!(told.iter().any(|note| note.contains("round-1")), "{told:?}");
    let again = told.iter().filter(|note| note.contains("again and again"));
    ensure!(again.count() == 1, "{told:?}");
    Ok(())
}

/// The chosen node has no room for the volume: the early pod is gone by then, so a second one stays until the volume is
/// there, however often the node is given back.
pub async fn c46_no_disk_space() -> Result<()> {
    let scene = Scene::new(Options::default()).await?;
    let vm = Vm::halted("db").disk("db-root", LOCAL_PATH).provision("true");
    scene
        .stand_ins
        .provisioner_fault("ns", "db-root", Some(Fault::GivesNodeBack));
    scene.create(vm.object()).await?;
    scene.advance(Duration::from_mins(5)).await;
    let pods = scene.own_pods().await?;
    ensure!(pods.len() == 1 && pods[0].annotations().contains_key("first-consumer.kubevirt.io/hold"));
    ensure!(made(&scene) == 2, "{} pods", made(&scene));
    scene.stand_ins.provisioner_fault("ns", "db-root", None);
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    ensure!(made(&scene) == 2);
    let told = told(&scene, "DiskStuck");
    let [full, flips] = &told[..] else {
        anyhow::bail!("not two words: {told:?}")
    };
    ensure!(
        full.contains("not enough free space"),
        "the provisioner's own words: {full}"
    );
    ensure!(flips.contains("again and again"), "{flips}");
    Ok(())
}

/// CDI's own helper claim was given another node, where there was room: the disk is bound where its VM cannot run.
pub async fn c46_bound_where_the_vm_cannot_run() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("root", "PendingPopulation", &json!({})).await?;
    let vm = Vm::halted("db").existing_disk("root").provision("true");
    let there = json!({"kubernetes.io/hostname": "node-1"});
    scene.create(vm.spec("nodeSelector", there).object()).await?;
    ensure!(scene.wait_node("root").await? == "node-1");
    scene.wait_no_own_pod().await?;
    scene.bind("root", "node-3").await?;
    scene.phase("root", "Succeeded").await?;
    scene.advance(Duration::from_mins(10)).await;
    let told = scene.told("DiskStuck");
    ensure!(
        told.len() == 1 && told[0].contains("root on node-3"),
        "the disk and its node: {told:?}"
    );
    ensure!(scene.made() == 1);
    Ok(())
}

/// One disk is bound, the other can't be made there: that one and the node of both are named, nothing is deleted; when the
/// user deletes the first one, the new one is served together with the other.
pub async fn c47_the_second_disk_is_impossible() -> Result<()> {
    let scene = Scene::new(Options::default()).await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.stand_ins.provisioner_fault("ns", "db-data", Some(Fault::Fails));
    scene.create(vm.object()).await?;
    scene.wait_bound("db-root").await?;
    scene.advance(Duration::from_mins(10)).await;
    let told = told(&scene, "DiskStuck");
    ensure!(
        told.len() == 1 && told[0].contains("db-data on node-1, where db-root is bound"),
        "{told:?}"
    );
    scene
        .stand_ins
        .provisioner_fault("ns", "db-data", Some(Fault::GivesNodeBack));
    scene.delete_data_volume("db-root").await?;
    scene.advance(Duration::from_mins(10)).await;
    let last = scene.own_pods().await?;
    ensure!(last.len() == 1 && listed(&last[0]) == vm.claims(), "{last:?}");
    scene.stand_ins.provisioner_fault("ns", "db-data", None);
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await
}

/// The node comes and goes every few seconds: few pods, few words.
pub async fn c49_the_selected_node_flaps() -> Result<()> {
    let scene = ByHand::new().await?;
    let asked = json!({"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "nobody.example"}}});
    scene.disk("root", "WaitForFirstConsumer", &asked).await?;
    scene
        .create(Vm::halted("db").existing_disk("root").provision("true").object())
        .await?;
    for _ in 0..20 {
        scene.wait_node("root").await?;
        scene.advance(Duration::from_secs(4)).await;
        let back = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": null}}});
        scene.edit_claim("root", &back).await?;
        scene.advance(Duration::from_secs(5)).await;
    }
    ensure!(scene.made() <= 3, "{} pods", scene.made());
    let told = scene.told("DiskStuck");
    ensure!(told.len() == 1 && told[0].contains("again and again"), "{told:?}");
    ensure!(scene.own_pods().await?.len() == 1, "then steady");
    Ok(())
}
