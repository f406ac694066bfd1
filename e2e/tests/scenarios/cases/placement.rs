//! Disks that land where the VM cannot run.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use first_consumer::quantity::Quantity;
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::control_plane::wait_for;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, data_volume};
use first_consumer_e2e::scene::{Requests, SERVED_ONCE, Scene};
use first_consumer_e2e::stand_in::CSI_CLASS;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::json;

use super::{field, listed, no_node, served};

/// Two disks of one VM have one pod that lists both, and one node.
pub async fn c01_two_disks_on_one_node(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c01").await?;
    let vm = Vm::halted("vm-a").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.object()).await?;
    let pod = scene.wait_made_pod().await?;
    ensure!(listed(&pod) == vm.claims(), "{:?}", listed(&pod));
    scene.one_node(&vm.claims()).await?;
    served(&scene, &vm).await?;
    scene.expect(SERVED_ONCE).await
}

/// The disks go where the VM's selector says, on both paths; where it says nothing possible, nowhere.
pub async fn c02_node_selector(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c02").await?;
    scene
        .cluster
        .plane
        .kubectl(&["label", "node", "node-4", "c02=vm"])
        .await?;
    for class in [LOCAL_PATH, CSI_CLASS] {
        let vm = Vm::halted(class).two_disks(class).provision("true");
        let vm = vm.spec("nodeSelector", json!({"c02": "vm"})).rather_on("node-4");
        scene.create(vm.object()).await?;
        let node = scene.one_node(&vm.claims()).await?;
        ensure!(node == "node-4", "{class} is on {node}");
        served(&scene, &vm).await?;
        let made = scene.made_pods();
        let pod = made.iter().find(|pod| listed(pod) == vm.claims()).context("no pod")?;
        ensure!(field(pod, "/spec/nodeSelector/c02")? == "vm");
        let preferred = "/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution";
        let wished = vm.vmi_spec();
        let wished = wished["affinity"].pointer(preferred).context("no affinity")?;
        ensure!(field(pod, &format!("/spec/affinity{preferred}"))? == *wished);
    }
    let nowhere = Vm::halted("nowhere").two_disks(LOCAL_PATH).provision("true");
    scene
        .create(nowhere.clone().spec("nodeSelector", json!({"c02": "none"})).object())
        .await?;
    scene
        .wait_event("FirstConsumerWaiting", "node affinity/selector")
        .await?;
    scene.nothing_happens().await;
    no_node(&scene, &nowhere.claims()).await?;
    let [pod] = &scene.own_pods().await?[..] else {
        bail!("not one pod")
    };
    ensure!(field(pod, "/status/phase")? == "Pending" && listed(pod) == nowhere.claims());
    scene.wait_phase(&nowhere.claims(), "WaitForFirstConsumer").await
}

/// The pod asks for no less than the VM, overhead included: it goes where there is room, and is Pending where the VM
/// would be.
pub async fn c05_as_thick_as_the_vm(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c05").await?;
    let [mut small, mut big] = [scene.own_node("small", "zone-own"), scene.own_node("big", "zone-own")];
    // What the guest has, and nothing for what runs it.
    (small.memory, big.memory) = ("4Gi".to_owned(), "16Gi".to_owned());
    scene.cluster.plane.add_nodes(&[small, big]).await?;
    let sized = |name: &str, guest: &str| {
        let vm = scene.on_own_nodes(Vm::halted(name).two_disks(CSI_CLASS).provision("true"));
        vm.guest_memory(guest).spec(
            "domain",
            json!({"resources": {"limits": {"memory": "40Gi"}, "requests": {"memory": guest}}}),
        )
    };
    let fits = sized("fits", "4Gi");
    scene.create(fits.object()).await?;
    let node = scene.one_node(&fits.claims()).await?;
    ensure!(node == "c05-big", "{node}");
    served(&scene, &fits).await?;
    let pod = scene.wait_made_pod().await?;
    for (resources, least) in [("requests", "4Gi"), ("limits", "40Gi")] {
        let memory = field(&pod, &format!("/spec/containers/0/resources/{resources}/memory"))?;
        let memory: Quantity = memory.as_str().context("no text")?.parse()?;
        ensure!(memory > least.parse()?, "{resources}: {memory}");
    }
    let devices = field(&pod, "/spec/containers/0/resources/limits/devices.kubevirt.io~1kvm")?;
    ensure!(devices == "1", "{devices}");
    ensure!(field(&pod, "/spec/nodeSelector/kubevirt.io~1schedulable")? == "true");

    let huge = sized("huge", "32Gi");
    scene.create(huge.object()).await?;
    scene.wait_event("FirstConsumerWaiting", "Insufficient memory").await?;
    no_node(&scene, &huge.claims()).await
}

/// A VM that must not run beside its own kind is started while our pod is still there (we were killed before we could
/// delete it), with the VM's labels on the only node: it goes at once, and the launcher has its place.
pub async fn c09_our_pod_does_not_repel_the_launcher(cluster: Arc<Cluster>) -> Result<()> {
    let mut scene = Scene::new(cluster, "c09").await?;
    let vm = Vm::halted("db").two_disks(CSI_CLASS).provision("true");
    let vm = scene
        .on_own_nodes(vm.label("app", "c09"))
        .away_from("c09", "kubernetes.io/hostname");
    scene.create(vm.object()).await?;
    let pod = scene.wait_own_pod().await?;
    let never = json!({"metadata": {"annotations": {"e2e.first-consumer.kubevirt.io/never-starts": "true"}}});
    scene.patch("v1", "Pod", &pod.name_any(), &never).await?;
    scene.kill_controller().await?;
    scene
        .cluster
        .plane
        .add_nodes(&[scene.own_node("only", "zone-own")])
        .await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene
        .patch_vm("db", &json!({"spec": {"runStrategy": "Always"}}))
        .await?;
    let launchers = ListParams::default().labels("kubevirt.io=virt-launcher");
    wait_for("our pod repels the launcher", async || {
        let found = scene.pods().list(&launchers).await?.items;
        let repelled = |pod: &Pod| format!("{:?}", pod.status).contains("anti-affinity");
        Ok(found.iter().any(repelled).then_some(()))
    })
    .await?;
    ensure!(scene.own_pods().await?.first().context("no pod")?.uid() == pod.uid());

    scene.start_controller(&[]).await?;
    scene.wait_no_own_pod().await?;
    let vmi = scene.wait_vmi("db", "Running").await?;
    ensure!(vmi.data["status"]["nodeName"] == "c09-only", "{}", vmi.data["status"]);
    scene.expect(SERVED_ONCE).await
}

/// Tolerations are the VM's, word by word.
pub async fn c03_tolerations(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c03").await?;
    scene
        .cluster
        .plane
        .add_nodes(&[scene.own_node("tainted", "zone-own")])
        .await?;
    let tolerations = json!([
        {"key": "scene", "operator": "Exists"},
        {"key": "other", "operator": "Equal", "value": "x", "effect": "NoExecute", "tolerationSeconds": 300},
    ]);
    let vm = Vm::halted("db").disk("db-root", LOCAL_PATH).provision("true");
    let vm = vm
        .spec("nodeSelector", json!({"scene": "c03"}))
        .spec("tolerations", tolerations.clone());
    scene.create(vm.object()).await?;
    let pod = scene.wait_made_pod().await?;
    let found = field(&pod, "/spec/tolerations")?;
    let kept = |wanted: &serde_json::Value| found.as_array().is_some_and(|found| found.contains(wanted));
    ensure!(tolerations.as_array().into_iter().flatten().all(kept), "{found}");
    let node = scene.one_node(&vm.claims()).await?;
    ensure!(node == "c03-tainted", "{node}");
    // CDI's worker tolerates nothing, and we can't help it: our pod is gone and does not come back.
    scene.wait_no_own_pod().await?;
    for claim in vm.claims() {
        scene.wait_bound(&claim).await?;
    }
    // The worker's own reason.
    scene.wait_event("DiskStuck", "taint").await?;
    scene.nothing_happens().await;
    scene
        .expect(Requests {
            events: 4,
            ..SERVED_ONCE
        })
        .await
}

/// Who asks for immediate binding has decided; the VM's other disks follow that disk.
pub async fn c04_a_disk_that_was_bound_at_once(cluster: Arc<Cluster>) -> Result<()> {
    let mut scene = Scene::without_controller(cluster, "c04").await?;
    let mut first = data_volume("d1", CSI_CLASS);
    first["metadata"]["annotations"] = json!({"cdi.kubevirt.io/storage.bind.immediate.requested": ""});
    scene.create(first).await?;
    scene.wait_phase(&["d1".into()], "Succeeded").await?;
    let there = scene.volume_node("d1").await?;
    scene.start_controller(&[]).await?;
    let vm = Vm::halted("db")
        .disk("d2", CSI_CLASS)
        .existing_disk("d1")
        .provision("true");
    scene.create(vm.object()).await?;
    let pod = scene.wait_made_pod().await?;
    ensure!(listed(&pod) == ["d2", "d1"], "{:?}", listed(&pod));
    ensure!(scene.wait_node("d2").await? == there, "d2 follows d1");
    served(&scene, &vm).await?;
    scene.expect(SERVED_ONCE).await?;

    let forbidden = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [there]}]}]}}});
    let elsewhere = Vm::halted("elsewhere")
        .disk("d3", CSI_CLASS)
        .existing_disk("d1")
        .provision("true");
    scene.create(elsewhere.spec("affinity", forbidden).object()).await?;
    scene.wait_event("DiskStuck", "d1").await?;
    scene.wait_phase(&["d3".into()], "PendingPopulation").await?;
    no_node(&scene, &["d3".into()]).await?;
    let [pod] = &scene.own_pods().await?[..] else {
        bail!("not one pod")
    };
    ensure!(listed(pod) == ["d3", "d1"] && field(pod, "/spec/nodeName").is_err());
    Ok(())
}
