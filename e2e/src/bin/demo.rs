//! `cargo demo`: the main job on a real control plane, told as it happens.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Parser;
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::control_plane::{Controller, ControllerOptions, Options, build_controller};
use first_consumer_e2e::narrator::{Narrator, say};
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::scene::Scene;
use first_consumer_e2e::stand_in::{self, CSI_CLASS};
use first_consumer_e2e::suite::Shared as _;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// How long the disks are watched waiting while nobody serves them.
const IN_VAIN: Duration = Duration::from_secs(5);

/// Shows what first-consumer does, on a real control plane that this program builds, starts and removes again.
#[derive(Parser)]
#[command(name = "cargo demo")]
struct Flags {
    /// Leave the cluster up until Ctrl-C, and say how to look at it.
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match demo(&Flags::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn demo(flags: &Flags) -> Result<()> {
    println!("Building what is missing and starting a control plane; the first time this takes minutes.");
    build_controller(false).await?;
    let neighbours = stand_in::Options {
        provisioning_takes: Duration::from_millis(300),
        ..stand_in::Options::default()
    };
    let cluster = Arc::new(Cluster::start(Options::default(), neighbours).await?);
    let start = Instant::now();
    println!(
        "\nReal: etcd, kube-apiserver, kube-scheduler, kube-controller-manager, local-path-provisioner, first-consumer with \
         its shipped rights. Modelled, after recordings of the real ones: CDI, virt-controller, virt-api, a CSI provisioner, \
         kubelets, data.\n"
    );
    say(
        start,
        "CLUSTER six nodes in three zones: node-1, node-2 (zone-a), node-3, node-4 (zone-b), node-5, node-6 (zone-c)",
    );
    let scene = Scene::without_controller(Arc::clone(&cluster), "demo").await?;
    let narrator = Narrator::start(scene.client(), &scene.namespace, start);

    heading("1. A stopped VM with two disks on local-path, and nobody who serves it");
    let legacy = Vm::halted("db")
        .two_disks(LOCAL_PATH)
        .provision("true")
        .spec("nodeSelector", zone("zone-b"));
    scene.create(legacy.object()).await?;
    scene.wait_phase(&legacy.claims(), "WaitForFirstConsumer").await?;
    tokio::time::sleep(IN_VAIN).await;
    say(
        start,
        &format!(
            "        {} s later they still wait, and would for ever: no pod uses them",
            IN_VAIN.as_secs()
        ),
    );

    heading("2. The same VM with first-consumer");
    let controller = Controller::start(&cluster.plane, &ControllerOptions::default()).await?;
    controller.wait_ready().await?;
    say(
        start,
        "START   first-consumer runs, with the arguments, environment and ServiceAccount of its Deployment",
    );
    scene.wait_phase(&legacy.claims(), "Succeeded").await?;
    settle().await;
    println!("\nThe pod that chose the node, as it was ('db' asks for zone-b):\n");
    println!("{}", indented(&yaml(&scene.wait_made_pod().await?)?));

    heading("3. A stopped VM on CSI storage, where CDI fills a second claim");
    let populator = Vm::halted("web").two_disks(CSI_CLASS).provision("true");
    scene.create(populator.object()).await?;
    scene.wait_phase(&populator.claims(), "Succeeded").await?;
    settle().await;

    heading("4. A stopped VM whose zone does not exist, and its correction");
    let lost = Vm::halted("lost").two_disks(LOCAL_PATH).provision("true");
    scene
        .create(lost.clone().spec("nodeSelector", zone("zone-x")).object())
        .await?;
    scene.wait_event("FirstConsumerWaiting", "").await?;
    settle().await;
    say(start, "        kubectl patch vm lost: nodeSelector zone-x -> zone-c");
    let correction = json!({"spec": {"template": {"spec": {"nodeSelector": zone("zone-c")}}}});
    scene.patch_vm("lost", &correction).await?;
    scene.wait_phase(&lost.claims(), "Succeeded").await?;
    settle().await;

    if flags.keep {
        keep(
            &cluster.plane.kubeconfig()?.display().to_string(),
            &cluster.plane.kubectl_command(),
        )
        .await?;
    }
    println!("\nStopping and removing everything.");
    controller.stop().await?;
    drop((narrator, scene));
    match Arc::into_inner(cluster) {
        Some(cluster) => cluster.stop().await,
        None => bail!("somebody still holds the cluster"),
    }
}

async fn keep(kubeconfig: &str, kubectl: &str) -> Result<()> {
    println!(
        "\nThe cluster stays up until Ctrl-C. In another terminal:\n
  export KUBECONFIG={kubeconfig}
  alias kubectl='{kubectl}'

Things to try:
  kubectl -n demo get vm,dv,pvc -o wide
  kubectl -n demo describe vm db
  kubectl -n demo get events --field-selector source=first-consumer
  kubectl -n demo patch vm lost --type merge -p '{{\"spec\":{{\"runStrategy\":\"Always\"}}}}'; kubectl -n demo get vmi,pods -o wide
  kubectl -n demo delete vm web"
    );
    // The control plane answers Ctrl-C itself: it stops and removes everything, and ends the process.
    std::future::pending().await
}

fn heading(text: &str) {
    println!("\n{text}");
}

fn zone(zone: &str) -> serde_json::Value {
    json!({"topology.kubernetes.io/zone": zone})
}

/// Lets the last lines of a chapter arrive before the next begins.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn yaml(pod: &Pod) -> Result<String> {
    let mut pod = pod.clone();
    pod.metadata.managed_fields = None;
    pod.status = None;
    Ok(serde_yaml::to_string(&pod)?)
}

fn indented(text: &str) -> String {
    text.lines().flat_map(|line| ["    ", line, "\n"]).collect()
}
