//! `explain` on a real control plane: what is stuck there, and what the command says. `EXPLAIN_CAPTURE=1` saves each
//! situation into `e2e/explain`.

use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::control_plane::{NodeSpec, build_controller, wait_for};
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, data_volume};
use first_consumer_e2e::scene::Scene;
use first_consumer_e2e::stand_in::{CSI_CLASS, Fault};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

/// What takes half a minute to be wrong, and some more on a busy machine.
const PATIENCE: Duration = Duration::from_secs(100);

async fn explain(scene: &Scene, words: &[&str]) -> Result<Output> {
    let mut explain = tokio::process::Command::new(build_controller(false).await?);
    explain
        .arg("explain")
        .args(words)
        .args(["--namespace", &scene.namespace]);
    let kubeconfig = scene.cluster.plane.kubeconfig()?;
    Ok(explain.arg("--kubeconfig").arg(kubeconfig).output().await?)
}

/// Waits until this is the cause, and fails unless text and table name it, and the text these.
async fn expect(scene: &Scene, subject: &str, cause: &str, names: &[&str]) -> Result<()> {
    let line = format!("Cause:  {cause}: ");
    let last = std::sync::Mutex::new(String::new());
    let text = wait_for(PATIENCE, &line, async || {
        // The command asks for a dozen lists each time.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let output = explain(scene, &[subject]).await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        *last.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
            format!("{text}{}", String::from_utf8_lossy(&output.stderr));
        Ok((text.contains(&line) && output.status.code() == Some(1)).then_some(text))
    })
    .await
    .with_context(|| last.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone())?;
    // A name may be broken at the end of a line.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for name in names {
        ensure!(words.contains(name), "{name} is not in:\n{text}");
    }
    let table = explain(scene, &[]).await?;
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    let row = |row: &str| row.starts_with(&format!("{subject} ")) && row.contains(cause);
    ensure!(table.lines().any(row), "{table}");
    capture(scene).await
}

/// Saves the Namespace and what is around it.
async fn capture(scene: &Scene) -> Result<()> {
    if std::env::var_os("EXPLAIN_CAPTURE").is_none() {
        return Ok(());
    }
    let plane = &scene.cluster.plane;
    let namespace = &*scene.namespace;
    let inside =
        "virtualmachines,virtualmachineinstances,datavolumes,persistentvolumeclaims,pods,resourcequotas,events";
    let list = async |arguments: &[&str]| -> Result<Vec<Value>> {
        let text = plane.kubectl(&[&["get", "-o", "json"], arguments].concat()).await?;
        let value: Value = serde_json::from_str(&text)?;
        Ok(value["items"].as_array().cloned().unwrap_or_else(|| vec![value]))
    };
    let mut items = list(&[inside, "--namespace", namespace]).await?;
    let volumes = list(&["persistentvolumes"]).await?.into_iter();
    items.extend(volumes.filter(|volume| volume["spec"]["claimRef"]["namespace"] == namespace));
    items.extend(list(&["nodes,storageclasses"]).await?);
    items.extend(list(&["kubevirts", "--all-namespaces"]).await?);
    items.extend(list(&["namespace", namespace]).await?);
    for item in &mut items {
        if let Some(annotations) = item.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let name = namespace.trim_start_matches("explain-");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("explain/{name}.json"));
    Ok(std::fs::write(file, list.to_string())?)
}

pub async fn no_node_matches(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-no-node-matches").await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene
        .create(vm.spec("nodeSelector", json!({"no": "node"})).object())
        .await?;
    let lacks = "nodes: lacks what the pod asks for";
    expect(&scene, "vm/db", "Unschedulable", &[lacks, "kubectl edit vm/db"]).await
}

pub async fn no_room(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-no-room").await?;
    let vm = Vm::halted("db")
        .two_disks(LOCAL_PATH)
        .provision("true")
        .guest_memory("9Ti");
    scene.create(vm.object()).await?;
    expect(&scene, "vm/db", "Unschedulable", &["nodes: too little memory is left"]).await
}

pub async fn quota_refuses_ours(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-quota-refuses-ours").await?;
    scene
        .create(
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"},
            "spec": {"hard": {"requests.memory": "1Gi"}}}),
        )
        .await?;
    let vm = Vm::halted("db")
        .two_disks(LOCAL_PATH)
        .provision("true")
        .guest_memory("4Gi");
    scene.create(vm.object()).await?;
    expect(
        &scene,
        "vm/db",
        "CreateRefused",
        &["exceeded quota: small", "resourcequota/small"],
    )
    .await
}

pub async fn opt_in_unreadable(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-opt-in-unreadable").await?;
    scene
        .create(Vm::halted("db").two_disks(LOCAL_PATH).provision("yes").object())
        .await?;
    expect(&scene, "vm/db", "NotAskedFor", &["\"yes\"", "--overwrite"]).await
}

pub async fn scheduler_that_nobody_serves(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-scheduler-that-nobody-serves").await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.spec("schedulerName", json!("nobody")).object()).await?;
    expect(&scene, "vm/db", "SchedulerSilent", &["asks for nobody"]).await
}

pub async fn claim_missing(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-claim-missing").await?;
    let vm = Vm::halted("db")
        .disk("db-root", LOCAL_PATH)
        .plain_claim("nowhere")
        .provision("true");
    scene.create(vm.object()).await?;
    expect(
        &scene,
        "vm/db",
        "ClaimMissing",
        &["disk nowhere has no claim yet", "pvc/nowhere"],
    )
    .await
}

pub async fn two_vms_share_a_disk(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-two-vms-share-a-disk").await?;
    scene.create(data_volume("shared", LOCAL_PATH)).await?;
    for name in ["db", "web"] {
        let vm = Vm::halted(name).existing_disk("shared").provision("true");
        scene
            .create(vm.spec("nodeSelector", json!({"no": "node"})).object())
            .await?;
    }
    let other = ["shared with explain-two-vms-share-a-disk/db", "explain vm/db"];
    expect(&scene, "vm/web", "SharedDiskServedElsewhere", &other).await
}

pub async fn provisioner_fails(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-provisioner-fails").await?;
    let faults = &scene.cluster.stand_ins;
    faults.provisioner_fault(&scene.namespace, "db-root", Some(Fault::Fails));
    let vm = Vm::halted("db").disk("db-root", CSI_CLASS).provision("true");
    scene.create(vm.object()).await?;
    expect(&scene, "vm/db", "ProvisioningFailed", &["kubectl describe pvc/"]).await
}

pub async fn bound_at_once_elsewhere(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-bound-at-once-elsewhere").await?;
    let vm = Vm::halted("db")
        .disk("db-root", LOCAL_PATH)
        .disk_annotation("cdi.kubevirt.io/storage.bind.immediate.requested", "true");
    scene
        .create(vm.spec("nodeSelector", json!({"zone": "mine"})).object())
        .await?;
    scene.wait_phase(&["db-root".to_owned()], "Succeeded").await?;
    let names = ["db-root on node-", "zone=mine"];
    expect(&scene, "vm/db", "BoundWhereVmCannotRun", &names).await
}

pub async fn node_gone(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-node-gone").await?;
    let mut node = NodeSpec::new("mayfly", "zone-a");
    node.labels.insert("scene".to_owned(), "mayfly".to_owned());
    scene.cluster.plane.add_nodes(&[node]).await?;
    let vm = Vm::halted("db").two_disks(CSI_CLASS).provision("true");
    scene
        .create(vm.spec("nodeSelector", json!({"scene": "mayfly"})).object())
        .await?;
    scene
        .wait_phase(&["db-root".to_owned(), "db-data".to_owned()], "Succeeded")
        .await?;
    scene.wait_bound("db-root").await?;
    Api::<Node>::all(scene.client())
        .delete("mayfly", &DeleteParams::default())
        .await?;
    expect(&scene, "vm/db", "SelectedNodeMissing", &["node/mayfly"]).await
}

pub async fn launcher_unschedulable(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-launcher-unschedulable").await?;
    let vm = Vm::started("db").two_disks(LOCAL_PATH);
    scene
        .create(vm.spec("nodeSelector", json!({"no": "node"})).object())
        .await?;
    expect(&scene, "vm/db", "LauncherUnschedulable", &["pod virt-launcher-db"]).await
}

/// The command itself asks virt-api, and has its words.
pub async fn instancetype_missing(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "explain-instancetype-missing").await?;
    let vm = Vm::halted("db")
        .two_disks(LOCAL_PATH)
        .provision("true")
        .instancetype("gone");
    scene.create(vm.object()).await?;
    expect(&scene, "vm/db", "ExpansionPending", &["gone", "{.spec.instancetype}"]).await?;
    let by_disk = explain(&scene, &["dv/db-root", "-o", "json"]).await?;
    let account: Value = serde_json::from_slice(&by_disk.stdout)?;
    ensure!(account["reason"] == "ExpansionPending", "{account}");
    let missing = explain(&scene, &["vm/other"]).await?;
    ensure!(missing.status.code() == Some(3), "{missing:?}");
    Ok(())
}
