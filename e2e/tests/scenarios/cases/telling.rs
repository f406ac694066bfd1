//! Telling the user.

use std::sync::Arc;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::scene::{Requests, Scene};
use serde_json::json;

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
    ensure!(scene.events("FirstConsumerWaiting").await?.len() == 1);
    // The count of nodes in the scheduler's words may change while other scenes add theirs.
    scene
        .expect(Requests {
            creates: 1,
            deletes: 0,
            events: 5,
        })
        .await
}
