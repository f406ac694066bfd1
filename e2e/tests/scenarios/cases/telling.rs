//! Telling the user.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::control_plane::NodeSpec;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::scene::{Requests, SERVED_ONCE, Scene};
use kube::ResourceExt as _;
use serde_json::json;

use super::by_hand::{ByHand, SILENT};

/// One Event a change of state, however often we look.
pub async fn c40_what_is_being_waited_for(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c40").await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene
        .create(vm.spec("nodeSelector", json!({"no": "node"})).object())
        .await?;
    scene.wait_reason("Unschedulable").await?;
    for number in 0..10 {
        let touched = json!({"metadata": {"labels": {"touched": number.to_string()}}});
        scene.patch_vm("db", &touched).await?;
    }
    scene.nothing_happens().await;
    ensure!(scene.events("FirstConsumerCreated").await?.len() == 1);
    let told = scene.events("FirstConsumerWaiting").await?;
    let different: BTreeSet<&String> = told.iter().collect();
    ensure!(different.len() == told.len() && !told.is_empty(), "twice: {told:?}");
    // One for each, and one to count a repetition.
    scene
        .expect(Requests {
            creates: 1,
            deletes: 0,
            events: 3,
        })
        .await
}

/// One Event a change of state: the claim is missing, the pod made, gated, unschedulable, the node chosen, the pod gone.
/// This test is the scheduler.
pub async fn c40_each_change_is_told_once() -> Result<()> {
    let scene = ByHand::new().await?;
    let vm = Vm::halted("db").existing_disk("root").provision("true");
    scene
        .create(vm.spec("schedulerName", json!("by-hand")).object())
        .await?;
    scene.advance(Duration::from_mins(10)).await;
    scene.disk("root", "WaitForFirstConsumer", &json!({})).await?;
    let pod = scene.wait_own_pod().await?;
    let gates = json!({"spec": {"schedulingGates": [{"name": "example.com/queue"}]}});
    scene.patch("v1", "Pod", &pod.name_any(), &gates).await?;
    for (reason, message) in [("SchedulingGated", ""), ("Unschedulable", "0/6 nodes are available")] {
        scene.not_scheduled(&pod.name_any(), reason, message).await?;
        for number in 0..10 {
            let touched = json!({"metadata": {"labels": {"touched": format!("{reason}-{number}")}}});
            scene.patch_vm("db", &touched).await?;
            scene.advance(Duration::from_secs(10)).await;
        }
    }
    scene.select_node("root", Some("node-1")).await?;
    scene.wait_no_own_pod().await?;
    scene.advance(Duration::from_secs(10)).await;
    let told = scene.events_on("db");
    let expected = [
        ("DiskStuck", "claim does not exist yet: root"),
        ("FirstConsumerCreated", "root"),
        ("FirstConsumerWaiting", "example.com/queue"),
        ("FirstConsumerWaiting", "0/6 nodes are available"),
        ("NodeChosen", "node-1"),
        ("FirstConsumerDeleted", "has its node"),
    ];
    let same = |((found, note, _), (reason, words)): (&(String, String, i64), (&str, &str))| {
        found == reason && note.contains(words)
    };
    ensure!(
        told.len() == expected.len() && told.iter().zip(expected).all(same),
        "{told:?}"
    );
    // One for each, and the counts of the two that lasted, ever more rarely.
    scene.expect(Requests {
        events: expected.len() + 2 * 4,
        ..SERVED_ONCE
    })
}

/// Needs a consumer, finds no node, has a node and no volume: three states, three words.
pub async fn c41_a_silent_provisioner() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("root", "WaitForFirstConsumer", &json!({})).await?;
    let vm = Vm::halted("db").existing_disk("root");
    let vm = vm.spec("nodeSelector", json!({"late": "yes"}));
    scene.create(vm.clone().object()).await?;
    scene.wait_reason("NotAskedFor").await?;
    scene
        .patch_vm("db", &json!({"metadata": vm.provision("true").object()["metadata"]}))
        .await?;
    scene.wait_reason("Unschedulable").await?;
    let waiting = scene.told("FirstConsumerWaiting");
    ensure!(waiting.len() == 1 && waiting[0].contains("no node fits"), "{waiting:?}");
    let mut node = NodeSpec::new("late", "zone-a");
    node.labels.insert("late".to_owned(), "yes".to_owned());
    scene.add_node(&node)?;
    ensure!(scene.wait_node("root").await? == "late");
    scene.advance(Duration::from_secs(100)).await;
    ensure!(scene.told("DiskStuck").is_empty());
    scene.advance(Duration::from_mins(10)).await;
    let told = scene.told("DiskStuck");
    ensure!(
        told.len() == 1 && told[0].contains(SILENT),
        "the class is named: {told:?}"
    );
    ensure!(scene.own_pods().await?.is_empty());
    // One for each, and one to count on that the pod waits: with the new node the scheduler's words are others.
    scene.expect(Requests {
        events: 6,
        ..SERVED_ONCE
    })
}
