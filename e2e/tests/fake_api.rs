//! The real shell on a fake API server, with paused time: hours in milliseconds.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster::ACCOUNT;
use first_consumer_e2e::control_plane::{wait_for, wait_within};
use first_consumer_e2e::fake_api::{Options, Rates, Scene};
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::stage::{Requests, SERVED_ONCE};
use first_consumer_e2e::stand_in::CSI_CLASS;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

/// A halted VM whose pod no node fits.
fn misplaced(name: &str) -> Vm {
    let nowhere = json!({"topology.kubernetes.io/zone": "zone-x"});
    let vm = Vm::halted(name).two_disks(LOCAL_PATH).provision("true");
    vm.spec("nodeSelector", nowhere)
}

/// A halted VM with two disks is served, and all that it costs is said.
async fn halted(class: &str) -> Result<()> {
    let scene = Scene::new(Options::default()).await?;
    let vm = Vm::halted("db").two_disks(class).provision("true");
    scene.create(vm.object()).await?;
    let node = scene.one_node(&vm.claims()).await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    let chosen = scene.wait_event("NodeChosen", "").await?;
    ensure!(chosen == format!("Node {node} chosen for db-root, db-data"), "{chosen}");
    scene.advance(Duration::from_mins(10)).await;
    scene.expect(SERVED_ONCE)
}

#[tokio::test(start_paused = true)]
async fn a_halted_vm_is_served_on_the_legacy_path() -> Result<()> {
    halted(LOCAL_PATH).await
}

#[tokio::test(start_paused = true)]
async fn a_halted_vm_is_served_on_the_populator_path() -> Result<()> {
    halted(CSI_CLASS).await
}

#[tokio::test(start_paused = true)]
async fn a_started_vm_is_left_to_virt_controller() -> Result<()> {
    let scene = Scene::new(Options::default()).await?;
    let vm = Vm::started("db").two_disks(LOCAL_PATH);
    scene.create(vm.object()).await?;
    scene.wait_vmi("db", "Running").await?;
    scene.expect(Requests {
        creates: 0,
        deletes: 0,
        events: 0,
    })
}

#[tokio::test(start_paused = true)]
async fn an_unschedulable_pod_is_told_of_once_in_ten_minutes() -> Result<()> {
    let scene = Scene::new(Options::default()).await?;
    scene.create(misplaced("db").object()).await?;
    scene.wait_reason("Unschedulable").await?;
    scene.advance(Duration::from_mins(10)).await;
    let events = scene.events_on("db");
    let reasons: Vec<_> = events.iter().map(|(reason, _, _)| reason.as_str()).collect();
    ensure!(
        reasons == ["FirstConsumerCreated", "FirstConsumerWaiting"],
        "{events:?}"
    );
    ensure!(events[1].1.contains("0/6 nodes are available"), "{events:?}");
    scene.expect(Requests {
        creates: 1,
        deletes: 0,
        events: 2,
    })
}

/// The counts of our Events on a VM after an hour and a half in which nothing has happened. The API server forgets them
/// after an hour: what lasts is said again in between, on the same Event.
async fn counts_in_ninety_minutes(vm: Vm, told: &str) -> Result<Vec<(String, i64)>> {
    let scene = Scene::new(Options::default()).await?;
    scene.create(vm.object()).await?;
    scene.wait_event(told, "").await?;
    scene.advance(Duration::from_mins(95)).await;
    let events = scene.events_on("db").into_iter();
    let written = scene.calls().filter(|call| call.resource == "events").len();
    let counts: Vec<(String, i64)> = events.map(|(reason, _, count)| (reason, count)).collect();
    let counted: i64 = counts.iter().map(|(_, count)| count).sum();
    ensure!(written == usize::try_from(counted)?, "{counts:?} in {written} requests");
    Ok(counts)
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_is_told_of_again_every_half_an_hour() -> Result<()> {
    let counts = counts_in_ninety_minutes(misplaced("db"), "FirstConsumerWaiting").await?;
    let expected = [("FirstConsumerCreated", 1), ("FirstConsumerWaiting", 4)];
    ensure!(
        counts == expected.map(|(reason, count)| (reason.to_owned(), count)),
        "{counts:?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_stuck_disk_is_told_of_again_every_half_an_hour() -> Result<()> {
    let vm = Vm::halted("db")
        .disk("db-root", LOCAL_PATH)
        .plain_claim("nowhere")
        .provision("true");
    let counts = counts_in_ninety_minutes(vm, "DiskStuck").await?;
    ensure!(counts == [("DiskStuck".to_owned(), 4)], "{counts:?}");
    Ok(())
}

/// Nothing else would wake who has given up.
#[tokio::test(start_paused = true)]
async fn who_has_given_up_is_told_of_again_every_half_an_hour() -> Result<()> {
    let scene = Scene::new(Options::default()).await?;
    scene.create(misplaced("db").object()).await?;
    let counts = |scene: &Scene| -> Vec<i64> {
        let events = scene.events_on("db").into_iter();
        let given_up = events.filter(|(_, note, _)| note.starts_with("the pod has ended too often"));
        given_up.map(|(_, _, count)| count).collect()
    };
    wait_within(Duration::from_hours(2), "it gives up", async || {
        for pod in scene.own_pods().await? {
            scene.set_phase(&pod.name_any(), "Failed").await?;
        }
        scene.advance(Duration::from_secs(20)).await;
        Ok((!counts(&scene).is_empty()).then_some(()))
    })
    .await?;
    let before: i64 = counts(&scene).iter().sum();
    scene.advance(Duration::from_mins(95)).await;
    let after = counts(&scene);
    ensure!(after == [before + 3], "{before}, then {after:?}");
    Ok(())
}

/// A webhook that takes its time: a pod that has to go does not wait for those that are to come.
#[tokio::test(start_paused = true)]
async fn a_delete_does_not_queue_behind_slow_creates() -> Result<()> {
    let scene = Scene::new(Options::default()).await?;
    scene.create(misplaced("db").object()).await?;
    scene.wait_reason("Unschedulable").await?;
    let slow = Rates {
        creates: Duration::from_secs(9),
        ..Rates::default()
    };
    scene.api.fail(slow, &[ACCOUNT]);
    for number in 0..80 {
        let name = format!("vm-{number}");
        let vm = Vm::halted(&name).disk(&name, LOCAL_PATH);
        scene.create(vm.provision("true").object()).await?;
    }
    scene.advance(Duration::from_secs(5)).await;
    let optout = json!({"metadata": {"annotations": {"first-consumer.kubevirt.io/provision": "false"}}});
    scene.patch_vm("db", &optout).await?;
    let asked = scene.api.clock().now();
    let deleted = wait_for("the delete", async || {
        let calls = scene.api.calls();
        Ok(calls.of("delete", "pods").first().map(|call| call.received))
    });
    let waited = deleted.await?.duration_since(asked);
    ensure!(waited.as_secs_f64() < 0.5, "the delete came after {waited}");
    Ok(())
}

#[tokio::test]
async fn it_is_a_process_of_its_own_as_well() -> Result<()> {
    let mut process = Command::new(env!("CARGO_BIN_EXE_fake_api"))
        .args(["--nodes", "9"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(process.stdout.take().context("its stdout")?).lines();
    let line = tokio::time::timeout(Duration::from_secs(30), lines.next_line()).await??;
    let kubeconfig = Kubeconfig::from_yaml(&line.context("a kubeconfig")?)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let nodes = Api::<Node>::all(Client::try_from(config)?);
    let found = nodes.list(&ListParams::default()).await?.items.len();
    ensure!(found == 9, "{found} nodes");
    ensure!(process.try_wait()?.is_none(), "it runs until it is killed");
    process.kill().await?;
    ensure!(nodes.list(&ListParams::default()).await.is_err(), "it has gone");
    Ok(())
}
