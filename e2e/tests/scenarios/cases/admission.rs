//! Admission: quota, limits, security.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use first_consumer::quantity::Quantity;
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::control_plane::wait_for;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, policy_against_us};
use first_consumer_e2e::scene::{Requests, SERVED_ONCE, Scene};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::by_hand::{ByHand, populated};
use super::{doubling, field, listed};

/// Who may not have a pod hears the API server's words once, and gets it when the quota allows: with the requests and
/// the limits of the launcher, which such a quota asks for.
pub async fn c36_a_quota_refuses_it(cluster: Arc<Cluster>) -> Result<()> {
    let mut scene = Scene::without_controller(cluster, "c36").await?;
    let quota = |memory: &str| json!({"spec": {"hard": {"requests.memory": memory, "limits.memory": "64Gi"}}});
    let mut small = quota("1Gi");
    small["apiVersion"] = json!("v1");
    small["kind"] = json!("ResourceQuota");
    small["metadata"] = json!({"name": "small"});
    scene.create(small).await?;
    scene.wait_refused("probe", "failed quota: small").await?;
    scene.start_controller(&[]).await?;
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    scene.create(vm.guest_memory("4Gi").object()).await?;
    scene
        .wait_event("FirstConsumerRefused", "exceeded quota: small")
        .await?;
    scene.wait_reason("CreateRefused").await?;
    ensure!(scene.own_pods().await?.is_empty());
    scene.patch("v1", "ResourceQuota", "small", &quota("64Gi")).await?;
    scene.one_node(&["db-root".into(), "db-data".into()]).await?;
    scene.wait_no_own_pod().await?;
    ensure!(scene.events("FirstConsumerRefused").await?.len() == 1);
    let made = scene.wait_made_pod().await?;
    for resources in ["requests", "limits"] {
        let memory = field(&made, &format!("/spec/containers/0/resources/{resources}/memory"))?;
        let memory: Quantity = memory.as_str().context("no text")?.parse()?;
        ensure!(memory > "4Gi".parse()?, "{resources}: {memory}");
    }
    Ok(())
}

/// What a limit range makes of our pod (and would of the launcher) is refused, and heard of as with a quota. Nobody tells us
/// of its end: it is tried again.
pub async fn c36_a_limit_range_refuses_it(cluster: Arc<Cluster>) -> Result<()> {
    let mut scene = Scene::without_controller(cluster, "c36-range").await?;
    let most = |memory: &str| json!({"spec": {"limits": [{"type": "Container", "max": {"memory": memory}}]}});
    let mut narrow = most("1Gi");
    narrow["apiVersion"] = json!("v1");
    narrow["kind"] = json!("LimitRange");
    narrow["metadata"] = json!({"name": "narrow"});
    scene.create(narrow).await?;
    let vm = Vm::halted("db")
        .two_disks(LOCAL_PATH)
        .provision("true")
        .guest_memory("4Gi");
    scene.create(vm.object()).await?;
    scene.wait_phase(&vm.claims(), "WaitForFirstConsumer").await?;
    scene.start_controller(&[]).await?;
    scene
        .wait_event(
            "FirstConsumerRefused",
            "must be less than or equal to memory limit of 1Gi",
        )
        .await?;
    scene.patch("v1", "LimitRange", "narrow", &most("64Gi")).await?;
    scene.one_node(&vm.claims()).await?;
    scene.wait_no_own_pod().await?;
    ensure!(scene.events("FirstConsumerRefused").await?.len() == 1);
    Ok(())
}

/// Who is refused asks again at growing distances, whatever refuses (a policy of C37 as well), and says so once; when
/// the quota changes, or others use less of it, at once.
pub async fn c36_refusals_at_growing_distances() -> Result<()> {
    let scene = ByHand::new().await?;
    scene
        .create(
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"},
            "spec": {"hard": {"requests.memory": "1Gi"}}}),
        )
        .await?;
    let full = || Some("exceeded quota: small".to_owned());
    scene.api.admission(Some(Box::new(move |_| full())));
    scene.disk("root", "WaitForFirstConsumer", &json!({})).await?;
    let vm = Vm::halted("db").existing_disk("root").provision("true");
    scene.create(vm.object()).await?;
    scene.advance(Duration::from_mins(30)).await;
    doubling(&scene.gaps())?;
    ensure!(scene.told("FirstConsumerRefused").len() == 1 && scene.made() == 0);
    let raised = json!({"hard": {"requests.memory": "64Gi"}});
    let freed = json!({"used": {"requests.memory": "0"}});
    let full = json!({"used": {"requests.memory": "1Gi"}});
    scene.patch_status("v1", "ResourceQuota", "small", &full).await?;
    for change in [raised, freed] {
        // The next attempt would come 5 minutes after this one.
        scene.advance(Duration::from_mins(5)).await;
        let before = scene.gaps().len();
        let asked = async || {
            scene.advance(Duration::from_secs(1)).await;
            Ok((scene.gaps().len() > before).then_some(()))
        };
        wait_for("another attempt", asked).await?;
        scene.advance(Duration::from_secs(12)).await;
        ensure!(scene.gaps().len() == before + 1, "again without a reason");
        scene.patch_status("v1", "ResourceQuota", "small", &change).await?;
        scene.advance(Duration::from_secs(2)).await;
        ensure!(scene.gaps().len() == before + 2, "not at once: {change}");
    }
    scene.api.admission(None);
    scene.advance(Duration::from_mins(10)).await;
    ensure!(scene.made() == 1);
    Ok(())
}

/// It passes the restricted profile, whatever the VM's own pod would need; who is refused all the same hears why. (That
/// refusals grow apart is shown for C36.)
pub async fn c37_pod_security(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "c37").await?;
    let enforce = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(scene.client())
        .patch("c37", &PatchParams::default(), &Patch::Merge(&enforce))
        .await?;
    // The launcher would mount a folder of the node, which the profile forbids: left out.
    let vm = Vm::halted("db").two_disks(LOCAL_PATH).provision("true");
    let mut with_folder = vm.object();
    let spec = &mut with_folder["spec"]["template"]["spec"];
    let disk = json!({"name": "folder", "disk": {"bus": "virtio"}});
    let volume = json!({"name": "folder", "hostDisk": {"path": "/data/disk.img", "type": "Disk"}});
    for (list, item) in [("/domain/devices/disks", disk), ("/volumes", volume)] {
        let list = spec.pointer_mut(list).and_then(Value::as_array_mut);
        list.context("no such list")?.push(item);
    }
    scene.create(with_folder).await?;
    let made = scene.wait_made_pod().await?;
    ensure!(listed(&made) == vm.claims());
    let volumes = field(&made, "/spec/volumes")?;
    ensure!(volumes.as_array().map(Vec::len) == Some(2), "{volumes}");
    scene.one_node(&vm.claims()).await?;
    scene.wait_no_own_pod().await?;
    ensure!(scene.events("FirstConsumerRefused").await?.is_empty());

    for object in policy_against_us("c37", "c37", "not on a Sunday") {
        scene.create_anywhere(&object).await?;
    }
    scene.wait_refused("first-consumer-probe", "not on a Sunday").await?;
    let refused = Vm::halted("refused").two_disks(LOCAL_PATH).provision("true");
    scene.create(refused.object()).await?;
    scene.wait_event("FirstConsumerRefused", "not on a Sunday").await?;
    scene.wait_reason("CreateRefused").await
}

/// A quota for storage counts the disk twice while it is filled: our pod goes when it has its node, whatever CDI may do.
/// What CDI is told it repeats in an Event alone, which we don't read: that nothing comes of it is told instead.
pub async fn c39_storage_quota() -> Result<()> {
    let scene = ByHand::new().await?;
    scene.served_root("PendingPopulation", &populated()).await?;
    scene.phase("root", "Pending").await?;
    scene.advance(Duration::from_mins(30)).await;
    let told = scene.told("DiskStuck");
    ensure!(
        told.len() == 1 && told[0].contains("root") && told[0].contains("quota"),
        "{told:?}"
    );
    scene.expect(Requests {
        events: 4,
        ..SERVED_ONCE
    })
}
