//! How sharp the early release is: 50 halted VMs with two disks on local-path, created at 2 a second.
//!
//! `cargo bench --package first-consumer-e2e --bench early_release` prints, from the API server's audit log, how long it
//! took from the last selected-node of a VM to our DELETE, and from a claim's binding to its worker's start. With
//! `-- --started` the VMs are started and left to virt-controller's temporary pods instead, for comparison.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster;
use first_consumer_e2e::control_plane::{Call, Calls, Controller, ControllerOptions, User, wait_within};
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::scene::Scene;
use first_consumer_e2e::suite::Shared as _;
use k8s_openapi::jiff::Timestamp;

const VMS: usize = 50;
const DISTANCE: Duration = Duration::from_millis(500);
const NAMESPACE: &str = "load";
/// CDI's back-off lets the slowest worker start after minutes when it has met a pod.
const ALL_FILLED: Duration = Duration::from_mins(10);
const VOLUME_BINDER: &str = "system:serviceaccount:kube-system:persistent-volume-binder";

#[tokio::main]
async fn main() -> Result<()> {
    let started = std::env::args().any(|argument| argument == "--started");
    let cluster = Arc::new(cluster::shared().await?);
    let scene = Scene::without_controller(Arc::clone(&cluster), NAMESPACE).await?;
    let options = ControllerOptions {
        release: true,
        ..ControllerOptions::default()
    };
    let controller = Controller::start(&cluster.plane, &options).await?;
    controller.wait_ready().await?;

    let vms: Vec<Vm> = (0..VMS)
        .map(|number| {
            let name = format!("vm-{number:02}");
            let vm = if started {
                Vm::started(&name)
            } else {
                Vm::halted(&name).provision("true")
            };
            vm.two_disks(LOCAL_PATH)
        })
        .collect();
    let mut pace = tokio::time::interval(DISTANCE);
    for vm in &vms {
        pace.tick().await;
        scene.create(vm.object()).await?;
    }
    let claims: Vec<String> = vms.iter().flat_map(Vm::claims).collect();
    wait_within(ALL_FILLED, "all disks filled", async || {
        Ok((scene
            .phases()
            .await?
            .values()
            .filter(|phase| *phase == "Succeeded")
            .count()
            == claims.len())
        .then_some(()))
    })
    .await?;

    let calls = cluster.plane.calls()?.within(NAMESPACE);
    println!(
        "{VMS} {} VMs x 2 disks on {LOCAL_PATH}, created every {} ms",
        if started { "started" } else { "halted" },
        DISTANCE.as_millis()
    );
    if !started {
        let release = vms
            .iter()
            .map(|vm| released_after(&calls, &vm.claims()))
            .collect::<Result<_>>()?;
        print("last selected-node written -> our DELETE received", release);
    }
    let worker = claims
        .iter()
        .map(|claim| worker_after(&calls, claim))
        .collect::<Result<_>>()?;
    print("claim bound -> its worker started", worker);
    let ours = scene.calls()?;
    for verb in ["create", "delete"] {
        println!("our {verb}s of pods: {}", ours.of(verb, "pods").len());
    }
    println!("our events: {}", ours.filter(|call| call.resource == "events").len());
    println!(
        "ImportTargetInUse events: {}",
        scene.events("ImportTargetInUse").await?.len()
    );

    controller.stop().await?;
    drop(scene);
    Arc::into_inner(cluster)
        .context("somebody still holds the cluster")?
        .stop()
        .await
}

/// From the answer to the last write of selected-node on a VM's claims to the receipt of our DELETE of its pod.
fn released_after(calls: &Calls, claims: &[String]) -> Result<Duration> {
    let chosen = calls.by(User::Scheduler.name());
    let chosen = chosen
        .iter()
        .filter(|call| claims.contains(&call.name) && call.selected_node().is_some());
    let chosen = chosen.map(|call| call.answered).max().context("no node was written")?;
    let vm = claims[0].trim_end_matches("-root");
    let deleted = calls.of("delete", "pods");
    let deleted = deleted
        .iter()
        .find(|call| call.name.starts_with(&format!("first-consumer-{vm}-")));
    Ok(between(chosen, deleted.context("no DELETE")?.received))
}

/// From the claim's phase Bound to the start of the worker that fills it.
fn worker_after(calls: &Calls, claim: &str) -> Result<Duration> {
    let first = |user: &str, resource: &str, name: &str| {
        let status = |call: &&Call| call.resource == resource && call.subresource == "status" && call.name == name;
        calls.by(user).iter().find(status).map(|call| call.answered)
    };
    let bound = first(VOLUME_BINDER, "persistentvolumeclaims", claim).context("never bound")?;
    let started = first(User::Kwok.name(), "pods", &format!("importer-{claim}")).context("never started")?;
    ensure!(
        started > bound,
        "the worker of {claim} started before its claim was bound"
    );
    Ok(between(bound, started))
}

fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    later.duration_since(earlier).try_into().unwrap_or_default()
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1000.0;
    println!(
        "{what}: p50 {:.0} ms, p90 {:.0} ms, p99 {:.0} ms, max {:.0} ms",
        at(50),
        at(90),
        at(99),
        at(100)
    );
}
