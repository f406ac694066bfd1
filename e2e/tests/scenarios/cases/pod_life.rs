//! The life of our pod.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use first_consumer::decide::Settings;
use first_consumer::reason::Reason;
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::control_plane::{NodeSpec, wait_for};
use first_consumer_e2e::objects::{LOCAL_PATH, Vm};
use first_consumer_e2e::scene::{Requests, SERVED_ONCE, Scene};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::by_hand::{ByHand, CLASS, SILENT};
use super::{doubling, field, no_node, served};

/// A VM whose pod finds no node, and the pod.
async fn stuck(scene: &Scene, name: &str) -> Result<(Vm, Pod)> {
    let vm = Vm::halted(name).two_disks(LOCAL_PATH).provision("true");
    let vm = vm.spec("nodeSelector", json!({"no": "node"}));
    scene.create(vm.object()).await?;
    let pod = scene.wait_own_pod().await?;
    scene.wait_reason("Unschedulable").await?;
    Ok((vm, pod))
}

/// Whatever became of our pod, it does not keep a claim from being deleted, and goes for its sake.
pub async fn c27_a_finished_pod_and_a_claim_that_goes(cluster: Arc<Cluster>) -> Result<()> {
    for phase in ["Pending", "Succeeded", "Failed"] {
        let scene = Scene::new(Arc::clone(&cluster), &format!("c27-{}", phase.to_lowercase())).await?;
        let (vm, pod) = stuck(&scene, "db").await?;
        scene.set_phase(&pod.name_any(), phase).await?;
        // As its user would: the DataVolume and with it the claim.
        scene.delete_data_volume("db-root").await?;
        scene
            .wait_event("FirstConsumerDeleted", Reason::DiskDeleted.text())
            .await?;
        scene.delete_vm("db", &vm.claims()).await?;
    }
    Ok(())
}

/// A VM, a DataVolume or a claim that is going (somebody else holds it back for a while) has no pod of ours at once, in
/// whatever phase, and gets no other.
pub async fn c27_what_is_going() -> Result<()> {
    for (api_version, kind, name, reason) in [
        ("kubevirt.io/v1", "VirtualMachine", "db", Reason::SubjectDeleted),
        ("cdi.kubevirt.io/v1beta1", "DataVolume", "root", Reason::DiskDeleted),
        ("v1", "PersistentVolumeClaim", "root", Reason::DiskDeleted),
    ] {
        for phase in ["Pending", "Succeeded", "Failed"] {
            let scene = ByHand::new().await?;
            let pod = scene.stuck_root().await?;
            scene.set_phase(&pod.name_any(), phase).await?;
            scene.begin_deletion(api_version, kind, name).await?;
            scene.advance(Duration::from_secs(2)).await;
            ensure!(scene.own_pods().await?.is_empty(), "{kind}, {phase}: not at once");
            scene.advance(Duration::from_mins(30)).await;
            ensure!(scene.made() == 1, "{kind}, {phase}: {} pods", scene.made());
            let told = scene.told("FirstConsumerDeleted");
            ensure!(
                told.len() == 1 && told[0].ends_with(reason.text()),
                "{kind}, {phase}: {told:?}"
            );
        }
    }
    Ok(())
}

/// A deletion that takes its time: no second pod, and it is announced when it is true.
pub async fn c28_a_deletion_that_takes_its_time(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c28").await?;
    let (vm, pod) = stuck(&scene, "db").await?;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    scene
        .pods()
        .patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&hold))
        .await?;
    let correction = json!({"spec": {"template": {"spec": {"nodeSelector": null}}}});
    scene.patch_vm("db", &correction).await?;
    scene.wait_reason("PodTerminating").await?;
    scene.nothing_happens().await;
    ensure!(scene.own_pods().await?.len() == 1);
    ensure!(
        scene.events("FirstConsumerDeleted").await?.is_empty(),
        "it is still there"
    );
    no_node(&scene, &vm.claims()).await?;
    let release = json!({"metadata": {"finalizers": null}});
    scene
        .pods()
        .patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&release))
        .await?;
    served(&scene, &vm).await?;
    scene.wait_event("FirstConsumerDeleted", "Deleted pod").await?;
    scene
        .expect(Requests {
            creates: 2,
            deletes: 2,
            events: 6,
        })
        .await
}

/// The deletion of a pod that has done its work does not end: it is told, once, no second pod comes, and it counts as
/// deleted when it is.
pub async fn c28_a_deletion_that_does_not_end() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("root", "WaitForFirstConsumer", &json!({})).await?;
    let vm = Vm::halted("db").existing_disk("root").provision("true");
    scene
        .create(vm.spec("schedulerName", json!("by-hand")).object())
        .await?;
    let pod = scene.wait_own_pod().await?;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    let name = pod.name_any();
    scene
        .pods()
        .patch(&name, &PatchParams::default(), &Patch::Merge(&hold))
        .await?;
    scene.select_node("root", Some("node-1")).await?;
    scene.bind("root", "node-1").await?;
    scene.phase("root", "ImportScheduled").await?;
    scene.advance(Duration::from_mins(5)).await;
    let told = scene.told("DiskStuck");
    ensure!(
        told.len() == 1 && told[0].contains(&format!("finalizer holds it: pod {name}")),
        "{told:?}"
    );
    ensure!(scene.own_pods().await?[0].uid() == pod.uid());
    ensure!(scene.told("FirstConsumerDeleted").is_empty(), "it is still there");
    let release = json!({"metadata": {"finalizers": null}});
    scene.patch("v1", "Pod", &name, &release).await?;
    scene.wait_no_own_pod().await?;
    scene.advance(Duration::from_secs(10)).await;
    ensure!(scene.made() == 1 && scene.told("FirstConsumerDeleted").len() == 1);
    Ok(())
}

/// Nobody takes our pod for a VM's: a drain may evict it, and it comes again as long as it is needed.
pub async fn c32_a_drain_evicts_it(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c32").await?;
    // KubeVirt's own budgets select launchers by this label.
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "vms"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"kubevirt.io": "virt-launcher"}}}});
    scene.create(budget).await?;
    let (vm, pod) = stuck(&scene, "db").await?;
    ensure!(!pod.labels().contains_key("kubevirt.io") && !pod.annotations().contains_key("kubevirt.io/domain"));
    let before = scene.vm("db").await?;
    // No budget counts for one that is Pending.
    scene.set_phase(&pod.name_any(), "Running").await?;
    scene
        .pods()
        .evict(&pod.name_any(), &kube::api::EvictParams::default())
        .await?;
    wait_for("another pod", async || {
        let pods = scene.own_pods().await?;
        Ok(pods.into_iter().find(|other| other.uid() != pod.uid()))
    })
    .await?;
    ensure!(scene.vm("db").await?.data["spec"] == before.data["spec"]);
    let correction = json!({"spec": {"template": {"spec": {"nodeSelector": null}}}});
    scene.patch_vm("db", &correction).await?;
    served(&scene, &vm).await
}

/// Who is evicted when the disk has its node already (we were not there) does not come again.
pub async fn c32_evicted_after_its_work() -> Result<()> {
    let mut scene = ByHand::new().await?;
    let pod = scene.stuck_root().await?;
    scene.0.kill_controller()?;
    scene.select_node("root", Some("node-1")).await?;
    let now = DeleteParams::default().grace_period(0);
    scene.pods().delete(&pod.name_any(), &now).await?;
    scene.0.start_controller(Settings::default()).await?;
    scene.advance(Duration::from_mins(10)).await;
    ensure!(scene.made() == 1, "{} pods", scene.made());
    Ok(())
}

/// We were not there when it happened: a start finds the same as a watch.
pub async fn c35_what_happened_without_us(cluster: Arc<Cluster>) -> Result<()> {
    let mut scene = Scene::without_controller(cluster, "c35").await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    let stuck = vm.clone().spec("nodeSelector", json!({"c35": "yes"}));
    scene.create(stuck.object()).await?;
    scene.wait_phase(&vm.claims(), "WaitForFirstConsumer").await?;
    scene.start_controller(&[]).await?;
    let pod = scene.wait_own_pod().await?;
    scene.kill_controller().await?;
    scene
        .cluster
        .plane
        .kubectl(&["label", "node", "node-5", "c35=yes"])
        .await?;
    scene.one_node(&vm.claims()).await?;
    ensure!(scene.own_pods().await?.first().context("nobody deletes it")?.uid() == pod.uid());
    scene.start_controller(&[]).await?;
    served(&scene, &vm).await?;
    scene
        .expect_requests(Requests {
            events: 5,
            ..SERVED_ONCE
        })
        .await
}

/// The disk was filled without us (whoever did it), and we were not there: our pod goes when we are back.
pub async fn c35_filled_without_us() -> Result<()> {
    let mut scene = ByHand::new().await?;
    scene.stuck_root().await?;
    scene.0.kill_controller()?;
    scene.bind("root", "node-1").await?;
    scene.phase("root", "Succeeded").await?;
    scene.advance(Duration::from_mins(1)).await;
    ensure!(scene.own_pods().await?.len() == 1);
    scene.0.start_controller(Settings::default()).await?;
    scene.wait_no_own_pod().await?;
    scene.advance(Duration::from_mins(10)).await;
    ensure!(scene.made() == 1);
    Ok(())
}

/// A change of the VM, and a node that comes, are looked at within seconds.
pub async fn c35_a_vm_and_a_node_that_change() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("root", "WaitForFirstConsumer", &json!({})).await?;
    let vm = Vm::halted("db").existing_disk("root");
    scene.create(vm.clone().object()).await?;
    scene.advance(Duration::from_mins(10)).await;
    ensure!(scene.made() == 0);
    let asked = vm.provision("true").object();
    scene.patch_vm("db", &json!({"metadata": asked["metadata"]})).await?;
    scene.advance(Duration::from_secs(2)).await;
    ensure!(scene.made() == 1, "not at once");

    scene.wait_no_own_pod().await?;
    scene.select_node("root", Some("late")).await?;
    scene.advance(Duration::from_secs(30)).await;
    let missing = |nodes: u8| format!("first_consumer_diagnoses{{reason=\"SelectedNodeMissing\"}} {nodes}\n");
    ensure!(scene.metrics()?.contains(&missing(1)), "{}", scene.metrics()?);
    scene.add_node(&NodeSpec::new("late", "zone-a"))?;
    scene.advance(Duration::from_secs(2)).await;
    ensure!(scene.metrics()?.contains(&missing(0)), "not at once");
    Ok(())
}

/// The class of a disk comes last: until then nobody knows whether the disk waits for a pod.
pub async fn c35_a_class_that_comes_later() -> Result<()> {
    let scene = ByHand::new().await?;
    let later = json!({"spec": {"storageClassName": "later"}});
    scene.disk("root", "WaitForFirstConsumer", &later).await?;
    scene
        .create(Vm::halted("db").existing_disk("root").provision("true").object())
        .await?;
    scene.advance(Duration::from_mins(10)).await;
    ensure!(scene.made() == 0);
    scene.apply(&CLASS.replace(SILENT, "later"))?;
    scene.wait_node("root").await?;
    ensure!(scene.made() == 1);
    Ok(())
}

/// Our pod, made to end at once, runs on, though its claims are bound (by whomever): it goes, and none follows.
pub async fn c22_a_pod_that_stays_alive() -> Result<()> {
    for status in [
        json!({"phase": "Running"}),
        json!({"phase": "Pending", "containerStatuses": [{"name": "wait", "ready": false, "restartCount": 0,
            "image": "", "imageID": "", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
    ] {
        let scene = ByHand::new().await?;
        let pod = scene.stuck_root().await?;
        ensure!(field(&pod, "/spec/restartPolicy")? == "Never");
        ensure!(field(&pod, "/spec/containers")?.as_array().map(Vec::len) == Some(1));
        ensure!(field(&pod, "/spec/containers/0/command")? == json!(["/pause", "-v"]));
        scene.pod_status(&pod, &status).await?;
        scene.bind("root", "node-1").await?;
        scene.wait_no_own_pod().await?;
        scene.advance(Duration::from_mins(10)).await;
        ensure!(scene.made() == 1 && scene.told("FirstConsumerDeleted").len() == 1);
        ensure!(
            !scene.metrics()?.contains("first_consumer_pods_failed_total{"),
            "a failure"
        );
    }
    Ok(())
}

/// The room that the pod took is not held for the VM (that is a later feature): a launcher for which there is none any
/// more is told of, with the scheduler's words. This test is the scheduler.
pub async fn c26_the_place_is_lost() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.disk("root", "Succeeded", &json!({})).await?;
    scene.bind("root", "node-1").await?;
    scene.create(Vm::started("db").existing_disk("root").object()).await?;
    let vmi = scene
        .instance(&Vm::started("db").existing_disk("root"), "Scheduling")
        .await?;
    let mut launcher = first_consumer_e2e::objects::pod("virt-launcher-db-x", "root", &json!({}));
    launcher["spec"]["schedulerName"] = json!("by-hand");
    launcher["metadata"]["labels"] = json!({"kubevirt.io": "virt-launcher"});
    launcher["metadata"]["ownerReferences"] = json!([{"apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance", "name": "db", "uid": vmi.uid(), "controller": true}]);
    scene.create(launcher).await?;
    let full = "0/6 nodes are available: 1 Insufficient cpu, 5 node(s) had volume node affinity conflict.";
    scene.not_scheduled("virt-launcher-db-x", "Unschedulable", full).await?;
    scene.advance(Duration::from_mins(10)).await;
    let told = scene.told("DiskStuck");
    ensure!(told.len() == 1 && told[0].contains(full), "{told:?}");
    ensure!(scene.made() == 0);
    Ok(())
}

/// A pod that fails each time: ten at most, at distances that double up to 5 minutes, and then one last word. The tenth
/// stays, so that a controller that takes over makes no other. (What a kubelet can't start holds nothing up: an early pod has
/// done its work when it has a node, and a holding one when its claims are bound, see the pull error above.)
pub async fn c33_pods_that_fail() -> Result<()> {
    let mut scene = ByHand::new().await?;
    scene.stuck_root().await?;
    for _ in 0..3600 {
        for pod in scene.own_pods().await? {
            if pod.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Failed") {
                scene.set_phase(&pod.name_any(), "Failed").await?;
            }
        }
        scene.advance(Duration::from_secs(1)).await;
    }
    ensure!(scene.made() == 10, "{} pods", scene.made());
    doubling(&scene.gaps())?;
    let last = scene.own_pods().await?.pop().context("the tenth is gone")?;
    ensure!(last.annotations()["first-consumer.kubevirt.io/attempt"] == "10");
    let told = scene.told("FirstConsumerFailed");
    ensure!(told.last().is_some_and(|note| note.contains("10 times")), "{told:?}");
    let metrics = scene.metrics()?;
    for (reason, pods) in [("PodFinished", 9), ("GaveUp", 1)] {
        let failed = format!("first_consumer_pods_failed_total{{reason=\"{reason}\"}} {pods}\n");
        ensure!(metrics.contains(&failed), "{metrics}");
    }
    scene.0.kill_controller()?;
    scene.0.start_controller(Settings::default()).await?;
    scene.wait_reason("GaveUp").await?;
    scene.advance(Duration::from_hours(1)).await;
    let kept = scene.own_pods().await?.pop().context("the tenth is gone")?;
    ensure!(kept.uid() == last.uid() && scene.made() == 10);
    ensure!(!scene.metrics()?.contains("pods_failed_total{reason=\"GaveUp\"}"));
    // "Try again."
    let pods = Api::<Pod>::namespaced(scene.client(), &scene.namespace);
    pods.delete(&last.name_any(), &DeleteParams::default()).await?;
    let next = scene.wait_own_pod().await?;
    ensure!(next.annotations()["first-consumer.kubevirt.io/attempt"] == "1");
    // What somebody else places has its node from no pod that was given up.
    let tenth = json!({"metadata": {"annotations": {"first-consumer.kubevirt.io/attempt": "10"}}});
    scene.patch("v1", "Pod", &next.name_any(), &tenth).await?;
    scene.set_phase(&next.name_any(), "Failed").await?;
    scene.wait_reason("GaveUp").await?;
    scene.bind("root", "node-1").await?;
    scene.wait_no_own_pod().await?;
    ensure!(scene.told("NodeChosen").is_empty() && scene.told("FirstConsumerDeleted").len() > 1);
    Ok(())
}
