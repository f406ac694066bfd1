//! Telling the user.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::scene::{Requests, Scene};
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

/// Needs a consumer, finds no node, has a node and no volume: three states, three words.
pub async fn c41_a_silent_provisioner() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.served_root("WaitForFirstConsumer", &json!({})).await?;
    scene.advance(Duration::from_secs(100)).await;
    ensure!(scene.told("DiskStuck").is_empty());
    scene.advance(Duration::from_mins(10)).await;
    let told = scene.told("DiskStuck");
    ensure!(
        told.len() == 1 && told[0].contains(SILENT),
        "the class is named: {told:?}"
    );
    ensure!(scene.made() == 1);
    Ok(())
}
