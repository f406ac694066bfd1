//! VMs that must not run beside each other, and VMs that share a disk: while they are halted, only we can know.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster::{self, ACCOUNT, Cluster};
use first_consumer_e2e::control_plane::{Controller, ControllerOptions, Options, wait_for};
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, data_volume};
use first_consumer_e2e::scene::{SERVED_ONCE, Scene};
use first_consumer_e2e::stand_in::ZONAL_CLASS;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use serde_json::json;

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A member of a database: two disks, never beside another member.
fn member(name: &str, class: &str, topology_key: &str) -> Vm {
    Vm::halted(name)
        .two_disks(class)
        .provision("true")
        .label("app", "db")
        .away_from("db", topology_key)
}

pub async fn three_members_on_three_nodes(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "peers-nodes").await?;
    let members = ["db-0", "db-1", "db-2"].map(|name| member(name, LOCAL_PATH, HOST));
    let mut nodes = Vec::new();
    for vm in &members {
        scene.create(vm.object()).await?;
    }
    for vm in &members {
        nodes.push(scene.one_node(&vm.claims()).await?);
        scene.wait_phase(&vm.claims(), "Succeeded").await?;
    }
    ensure!(nodes.iter().collect::<BTreeSet<_>>().len() == 3, "disks on {nodes:?}");
    scene.wait_no_own_pod().await?;
    scene.expect(SERVED_ONCE.times(3)).await?;
    for (name, node) in ["db-0", "db-1", "db-2"].into_iter().zip(nodes) {
        ensure!(scene.start_vm(name).await? == node, "{name} is not where its disks are");
    }
    Ok(())
}

pub async fn three_members_in_three_zones(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "peers-zones").await?;
    let members = ["db-0", "db-1", "db-2"].map(|name| member(name, ZONAL_CLASS, ZONE));
    for vm in &members {
        scene.create(vm.object()).await?;
    }
    let mut zones = BTreeSet::new();
    for vm in &members {
        scene.wait_phase(&vm.claims(), "Succeeded").await?;
        for claim in vm.claims() {
            zones.insert(scene.volume_zone(&claim).await?);
        }
    }
    ensure!(zones.len() == 3, "disks in {zones:?}");
    scene.wait_no_own_pod().await?;
    scene.expect(SERVED_ONCE.times(3)).await?;
    for name in ["db-0", "db-1", "db-2"] {
        scene.start_vm(name).await?;
    }
    Ok(())
}

/// Only one of the two has a term, and it counts whichever of them comes first.
pub async fn a_term_of_one_of_them_is_enough(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "peers-one-sided").await?;
    let quiet = |name: &str| {
        let vm = Vm::halted(name).two_disks(LOCAL_PATH).provision("true");
        vm.rather_on("node-5")
    };
    let served = async |vm: Vm| {
        scene.create(vm.object()).await?;
        scene.wait_phase(&vm.claims(), "Succeeded").await?;
        scene.one_node(&vm.claims()).await
    };
    let first = quiet("web-0").label("app", "web");
    ensure!(served(first).await? == "node-5");
    let second = quiet("guard-0").away_from("web", HOST);
    ensure!(served(second).await? != "node-5", "its own term was not heeded");

    let first = quiet("guard-1").label("team", "guard").away_from("api", HOST);
    ensure!(served(first).await? == "node-5");
    let second = quiet("api-0").label("app", "api");
    ensure!(served(second).await? != "node-5", "the other's term was not heeded");
    let third = quiet("other-0").label("app", "other");
    ensure!(served(third).await? == "node-5", "it is nobody's peer");
    Ok(())
}

/// With more VMs than nodes the rest say so, and nothing is created and deleted over and over. One more node: one more
/// VM.
pub async fn ten_members_and_three_nodes(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "ten").await?;
    let plane = &scene.cluster.plane;
    let three = ["a", "b", "c"].map(|name| scene.own_node(name, "zone-own"));
    plane.add_nodes(&three).await?;
    let members: Vec<Vm> = (0..10)
        .map(|number| scene.on_own_nodes(member(&format!("db-{number}"), LOCAL_PATH, HOST)))
        .collect();
    for vm in &members {
        scene.create(vm.object()).await?;
    }
    scene.wait_reasons("Unschedulable", 7).await?;
    let note = scene
        .wait_event("FirstConsumerWaiting", "must not run beside it")
        .await?;
    ensure!(note.contains("nodes are available"), "{note}");
    wait_for("the pods of who has a node are gone", async || {
        Ok((scene.own_pods().await?.len() == 7).then_some(()))
    })
    .await?;
    ensure!(nodes(&scene, &members).await?.len() == 3);
    let counts = || {
        let calls = scene.calls()?;
        anyhow::Ok((calls.of("create", "pods").len(), calls.of("delete", "pods").len()))
    };
    let before = counts()?;
    // Who came before the third had its node was told of it later.
    ensure!((10..=17).contains(&before.0) && before.0 == before.1 + 7, "{before:?}");
    for _ in 0..3 {
        scene.nothing_happens().await;
    }
    ensure!(counts()? == before, "{:?} after {before:?}", counts()?);

    plane.add_nodes(&[scene.own_node("d", "zone-own")]).await?;
    scene.wait_reasons("Unschedulable", 6).await?;
    ensure!(nodes(&scene, &members).await?.len() == 4, "two on the new node");
    scene.nothing_happens().await;
    scene.wait_reasons("Unschedulable", 6).await?;
    // The six others were told of the new node, once.
    let after = counts()?;
    ensure!(
        after.0 <= before.0 + 6 && after.1 <= before.1 + 7,
        "{after:?} after {before:?}"
    );
    Ok(())
}

/// The nodes of the members that have one. Fails if two have the same.
async fn nodes(scene: &Scene, members: &[Vm]) -> Result<BTreeSet<String>> {
    let mut nodes = BTreeSet::new();
    for vm in members {
        let mut own = BTreeSet::new();
        for name in vm.claims() {
            let claim = scene.claim(&name).await?.context("no claim")?;
            own.extend(claim.annotations().get("volume.kubernetes.io/selected-node").cloned());
        }
        ensure!(own.len() <= 1, "disks of one VM on {own:?}");
        for node in own {
            ensure!(nodes.insert(node.clone()), "two VMs on {node}");
        }
    }
    Ok(nodes)
}

/// The term selects namespaces by label.
pub async fn across_namespaces() -> Result<()> {
    cluster::alone(Options::default(), play_across_namespaces).await
}

async fn play_across_namespaces(cluster: Arc<Cluster>) -> Result<()> {
    let controller = Controller::start(&cluster.plane, &ControllerOptions::default()).await?;
    controller.wait_ready().await?;
    let ready_at = Timestamp::now();
    let scene = async |namespace: &str, team: &str| {
        let scene = Scene::without_controller(Arc::clone(&cluster), namespace).await?;
        let label = format!("team={team}");
        cluster
            .plane
            .kubectl(&["label", "namespace", namespace, &label])
            .await?;
        anyhow::Ok(scene)
    };
    let (far, near) = (scene("far", "db").await?, scene("near", "db").await?);
    let other = scene("other", "web").await?;
    let vm = |name: &str| {
        let vm = Vm::halted(name)
            .two_disks(LOCAL_PATH)
            .provision("true")
            .label("app", "db");
        vm.rather_on("node-5")
    };
    let term = json!({"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "db"}},
        "namespaceSelector": {"matchLabels": {"team": "db"}}});
    let served = async |scene: &Scene, vm: Vm| {
        scene.create(vm.object()).await?;
        scene.wait_phase(&vm.claims(), "Succeeded").await?;
        scene.one_node(&vm.claims()).await
    };
    ensure!(served(&far, vm("db-0")).await? == "node-5");
    ensure!(
        served(&other, vm("db-1").anti_affinity(&term)).await? != "node-5",
        "a term in another namespace"
    );
    ensure!(
        served(&other, vm("db-2")).await? == "node-5",
        "the term selects no namespace of that team"
    );
    ensure!(
        served(&near, vm("db-3").anti_affinity(&term)).await? != "node-5",
        "a term in a selected namespace"
    );
    for (scene, vms) in [(&far, 1), (&near, 1), (&other, 2)] {
        scene.wait_no_own_pod().await?;
        scene.expect(SERVED_ONCE.times(vms)).await?;
    }
    let calls = cluster.plane.calls()?.by(ACCOUNT);
    // Of the whole cluster, too: only its Lease, and whether a kind that is missing has come.
    let reads = calls.since(ready_at).filter(|call| {
        let lease = call.resource == "leases";
        matches!(&*call.verb, "get" | "list") && call.code != 404 && !lease
    });
    ensure!(reads.is_empty(), "{reads:?}");
    controller.stop().await
}

pub async fn a_shared_disk_has_one_consumer(cluster: Arc<Cluster>) -> Result<()> {
    let mut scene = Scene::without_controller(cluster, "shared-disk").await?;
    scene.create(data_volume("shared", LOCAL_PATH)).await?;
    for name in ["one", "two"] {
        let vm = Vm::halted(name).plain_claim("shared").provision("true");
        scene.create(vm.object()).await?;
    }
    scene.wait_phase(&["shared".into()], "WaitForFirstConsumer").await?;
    scene.start_controller(&[]).await?;
    let pod = scene.wait_made_pod().await?;
    ensure!(pod.annotations()["first-consumer.kubevirt.io/subject"] == "VirtualMachine/one");
    scene.wait_phase(&["shared".into()], "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    scene.nothing_happens().await;
    scene.expect(SERVED_ONCE).await
}
