//! What becomes of disks after their node was chosen, when it does not become well.

use std::sync::Arc;

use anyhow::{Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, data_volume};
use first_consumer_e2e::scene::{Requests, SERVED_ONCE, Scene};
use first_consumer_e2e::stand_in::{CSI_CLASS, Fault};
use kube::ResourceExt as _;
use serde_json::json;

const HOLD: &str = "first-consumer.kubevirt.io/hold";

const BOTH: &[(&str, &str)] = &[("root", LOCAL_PATH), ("data", CSI_CLASS)];

/// Disks, one a path, from an image of this name.
fn imports(name: &str, image: &str, disks: &[(&str, &str)]) -> Vm {
    let vm = disks.iter().fold(Vm::halted(name), |vm, (volume, class)| {
        let mut disk = data_volume(&format!("{name}-{volume}"), class);
        disk["spec"]["source"]["http"]["url"] = json!(format!("http://images.example/{image}.img"));
        vm.data_volume(disk)
    });
    vm.provision("true")
}

/// Our pod has done its part and does not come back, whatever becomes of the worker; whose disk it is is told of it. On
/// the populator path CDI may see a worker fail before the prime is bound, and then never shows another phase.
pub async fn imports_that_fail(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "imports-fail").await?;
    let vms = [
        imports("crashing", "crashing", BOTH),
        imports("rejected", "rejected", BOTH),
        imports("wrong", "wrong", &BOTH[..1]),
        imports("wrong-too", "wrong", &BOTH[1..]),
    ];
    for vm in &vms {
        scene.create(vm.object()).await?;
    }
    for vm in &vms {
        scene.one_node(&vm.claims()).await?;
    }
    let fates = [
        ("crashing-root", "ImportInProgress", "importer-crashing-root"),
        ("rejected-root", "ImportScheduled", "importer-rejected-root"),
        ("wrong-root", "Failed", "a DataVolume has failed: wrong-root"),
    ];
    for (disk, phase, cause) in fates {
        scene.wait_phase(&[disk.to_owned()], phase).await?;
        scene.wait_event("DiskStuck", cause).await?;
    }
    scene.wait_event("ErrImportFailed", "played by kwok").await?;
    scene.wait_restarts("crashing-root", 2).await?;
    scene.wait_restarts("crashing-data", 2).await?;
    scene.wait_no_own_pod().await?;
    scene.nothing_happens().await;
    scene
        .expect(Requests {
            events: 6 * vms.len(),
            ..SERVED_ONCE.times(vms.len())
        })
        .await
}

/// The early release was not enough: the provisioner gives the node of a legacy disk back. The next pod stays until the
/// volume is there.
pub async fn a_node_given_back_is_held_the_next_time(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "given-back").await?;
    let stand_ins = &scene.cluster.stand_ins;
    let mut disk = data_volume("db-root", CSI_CLASS);
    disk["metadata"]["annotations"] = json!({"cdi.kubevirt.io/storage.usePopulator": "false"});
    let vm = Vm::halted("db").data_volume(disk).provision("true");
    stand_ins.provisioner_fault(&scene.namespace, "db-root", Some(Fault::GivesNodeBack));
    scene.create(vm.object()).await?;
    let first = scene.wait_made_pod().await?;
    ensure!(!first.annotations().contains_key(HOLD), "the first pod goes early");
    scene.wait_event("ProvisioningFailed", "").await?;
    let second = scene.wait_own_pod_that(|pod| pod.uid() != first.uid()).await?;
    ensure!(
        second.annotations().get(HOLD).map(String::as_str) == Some("true"),
        "{:?}",
        second.annotations()
    );

    // It stays while the node is given back over and over.
    scene.wait_node("db-root").await?;
    scene.nothing_happens().await;
    ensure!(scene.wait_own_pod().await?.uid() == second.uid(), "another pod");
    stand_ins.provisioner_fault(&scene.namespace, "db-root", None);
    scene.wait_bound("db-root").await?;
    scene.wait_no_own_pod().await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    // CDI may have met a pod that stays until the volume is there; so only the requests are looked at.
    scene
        .expect_requests(Requests {
            creates: 2,
            deletes: 2,
            events: 8,
        })
        .await
}
