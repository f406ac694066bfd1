//! Every source that a disk can be filled from, on both paths, each in all of a path's shapes: between them they have both
//! volume modes and all access modes.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use first_consumer_e2e::cluster::Cluster;
use first_consumer_e2e::objects::{LOCAL_PATH, Vm, data_volume};
use first_consumer_e2e::scene::{Requests, SERVED_ONCE, Scene};
use first_consumer_e2e::stand_in::{CSI_CLASS, CSI_DRIVER, FOREIGN_POPULATOR, Fault};
use kube::ResourceExt as _;
use serde_json::{Value, json};

const POPULATOR: &str = "cdi.kubevirt.io/storage.usePopulator";
const IMMEDIATE: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";

/// The image that is copied, on each class.
const GOLDEN: [(&str, &str); 2] = [("golden", LOCAL_PATH), ("golden-csi", CSI_CLASS)];

/// What fills the disks of the VM of this name. A clone on the populator path is made by the CSI driver if the image is
/// of its own, else by pods.
fn sources() -> Vec<(&'static str, Value)> {
    vec![
        (
            "http",
            json!({"source": {"http": {"url": "http://images.example/disk.img"}}}),
        ),
        (
            "registry",
            json!({"source": {"registry": {"url": "docker://images.example/disk"}}}),
        ),
        ("blank", json!({"source": {"blank": {}}})),
        ("upload", json!({"source": {"upload": {}}})),
        ("clone", json!({"source": {"pvc": {"name": "golden"}}})),
        ("clone-csi", json!({"source": {"pvc": {"name": "golden-csi"}}})),
        ("snapshot", json!({"source": {"snapshot": {"name": "golden"}}})),
        (
            "source-ref",
            json!({"sourceRef": {"kind": "DataSource", "name": "golden"}}),
        ),
        (
            "external",
            json!({"storage": {"dataSourceRef":
            {"apiGroup": FOREIGN_POPULATOR, "kind": "Sample", "name": "hello"}}}),
        ),
    ]
}

/// How a disk is asked for: class, whether CDI is told to take the legacy path, volume mode, access mode.
type Shape = (&'static str, bool, &'static str, &'static str);

/// local-path makes folders for one node only, so other modes come from a class that has a CSI driver.
const LEGACY: [Shape; 3] = [
    (LOCAL_PATH, false, "Filesystem", "ReadWriteOnce"),
    (CSI_CLASS, true, "Block", "ReadWriteMany"),
    (CSI_CLASS, true, "Filesystem", "ReadWriteOncePod"),
];
const THROUGH_PRIMES: [Shape; 3] = [
    (CSI_CLASS, false, "Filesystem", "ReadWriteOnce"),
    (CSI_CLASS, false, "Block", "ReadWriteMany"),
    (CSI_CLASS, false, "Filesystem", "ReadWriteOncePod"),
];

fn disk(name: &str, source: &Value, (class, legacy, volume_mode, access_mode): Shape) -> Value {
    let mut disk = data_volume(name, class);
    disk["spec"]["source"].take();
    for (field, value) in source
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(field, _)| *field != "storage")
    {
        disk["spec"][field] = value.clone();
    }
    let storage = &mut disk["spec"]["storage"];
    storage["volumeMode"] = json!(volume_mode);
    storage["accessModes"] = json!([access_mode]);
    if !source["storage"].is_null() {
        storage["dataSourceRef"] = source["storage"]["dataSourceRef"].clone();
    }
    if legacy {
        disk["metadata"]["annotations"] = json!({POPULATOR: "false"});
    }
    disk
}

/// A VM a source, with a disk of each shape that it can have.
fn vms(shapes: [Shape; 3]) -> Vec<Vm> {
    let with_disks = |(name, source): (&'static str, Value)| {
        // What somebody else's populator fills needs a CSI driver.
        let shapes = shapes
            .iter()
            .filter(|(class, ..)| name != "external" || *class == CSI_CLASS);
        let vm = shapes.enumerate().fold(Vm::halted(name), |vm, (number, shape)| {
            vm.data_volume(disk(&format!("{name}-{number}"), &source, *shape))
        });
        vm.provision("true")
    };
    sources().into_iter().map(with_disks).collect()
}

/// Images of both classes, a snapshot and a DataSource.
async fn golden_images(scene: &Scene) -> Result<()> {
    for (name, class) in GOLDEN {
        let mut image = data_volume(name, class);
        image["metadata"]["annotations"] = json!({IMMEDIATE: "true"});
        scene.create(image).await?;
    }
    scene
        .create(json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": {"name": "golden"},
            "spec": {"volumeSnapshotClassName": CSI_DRIVER, "source": {"persistentVolumeClaimName": "golden-csi"}},
            "status": {"readyToUse": true, "restoreSize": "1Gi"},
        }))
        .await?;
    scene
        .create(json!({
            "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource", "metadata": {"name": "golden"},
            "spec": {"source": {"pvc": {"name": "golden", "namespace": scene.namespace}}},
        }))
        .await?;
    scene
        .wait_phase(&GOLDEN.map(|(name, _)| name.to_owned()), "Succeeded")
        .await
}

pub async fn legacy_path(cluster: Arc<Cluster>) -> Result<()> {
    let path = ("WaitForFirstConsumer", "false");
    every_source(cluster, "sources-legacy", LEGACY, path).await.map(drop)
}

pub async fn populator_path(cluster: Arc<Cluster>) -> Result<()> {
    let path = ("PendingPopulation", "true");
    let scene = every_source(cluster, "sources-populator", THROUGH_PRIMES, path).await?;
    // The driver copies what is its own.
    for (disk, how) in [("clone", "copy"), ("clone-csi", "csi-clone"), ("snapshot", "snapshot")] {
        let claim = scene.claim(&format!("{disk}-0")).await?.context("no claim")?;
        ensure!(
            claim.annotations()["cdi.kubevirt.io/cloneType"] == how,
            "{disk} was not a {how}"
        );
    }
    Ok(())
}

async fn every_source(
    cluster: Arc<Cluster>,
    namespace: &str,
    shapes: [Shape; 3],
    (waiting, populator): (&str, &str),
) -> Result<Scene> {
    let mut scene = Scene::without_controller(cluster, namespace).await?;
    golden_images(&scene).await?;
    let vms = vms(shapes);
    let disks: Vec<String> = vms.iter().flat_map(Vm::claims).collect();
    for vm in &vms {
        scene.create(vm.object()).await?;
    }
    scene.wait_phase(&disks, waiting).await?;
    for disk in &disks {
        let claim = scene.claim(disk).await?.context("no claim")?;
        ensure!(
            claim.annotations()[POPULATOR] == populator,
            "{disk} is on the other path"
        );
    }

    scene.start_controller(&[]).await?;
    for vm in &vms {
        scene.one_node(&vm.claims()).await?;
    }
    for disk in disks.iter().filter(|disk| disk.starts_with("upload-")) {
        scene.data_arrives(disk).await?;
    }
    scene.wait_phase(&disks, "Succeeded").await?;
    for disk in &disks {
        scene.wait_bound(disk).await?;
    }
    scene.wait_no_own_pod().await?;
    scene.expect(SERVED_ONCE.times(vms.len())).await?;
    Ok(scene)
}

/// A clone that names no size waits for its source before it has a claim. It is served when it has one.
pub async fn a_clone_waits_for_its_source(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "clone-waits").await?;
    scene.create(data_volume("golden", LOCAL_PATH)).await?;
    let vms = [("legacy", LOCAL_PATH), ("populator", CSI_CLASS)].map(|(name, class)| {
        let mut clone = data_volume(&format!("{name}-root"), class);
        clone["spec"]["source"] = json!({"pvc": {"name": "golden"}});
        clone["spec"]["storage"]["resources"] = json!({"requests": {}});
        Vm::halted(name).data_volume(clone).provision("true")
    });
    for vm in &vms {
        scene.create(vm.object()).await?;
        scene.wait_phase(&vm.claims(), "CloneScheduled").await?;
        ensure!(scene.claim(&vm.claims()[0]).await?.is_none(), "no claim yet");
    }
    ensure!(scene.own_pods().await?.is_empty(), "nothing to consume");
    // Nobody asks for the image itself, but whoever needs it does.
    let claim = json!({"metadata": {"annotations": {IMMEDIATE: "true"}}});
    scene.patch("v1", "PersistentVolumeClaim", "golden", &claim).await?;
    for vm in &vms {
        scene.wait_phase(&vm.claims(), "Succeeded").await?;
        scene.wait_bound(&vm.claims()[0]).await?;
    }
    scene.wait_no_own_pod().await?;
    // If it takes a while, that the image waits is told of both.
    let served = SERVED_ONCE.times(vms.len());
    let events = served.events + vms.len();
    scene.expect(Requests { events, ..served }).await
}

/// Unlike an import, a clone on the populator path does not go on without a node: when its target loses the node, it
/// pauses until another is chosen, and that is ours to see to.
pub async fn a_clone_that_loses_its_node(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "clone-loses-node").await?;
    let mut image = data_volume("golden", CSI_CLASS);
    image["metadata"]["annotations"] = json!({IMMEDIATE: "true"});
    scene.create(image).await?;
    scene.wait_phase(&["golden".into()], "Succeeded").await?;
    let mut clone = data_volume("db-root", CSI_CLASS);
    clone["spec"]["source"] = json!({"pvc": {"name": "golden"}});
    let vm = Vm::halted("db").data_volume(clone);
    scene.create(vm.object()).await?;
    scene.wait_phase(&vm.claims(), "PendingPopulation").await?;
    let uid = scene
        .claim("db-root")
        .await?
        .and_then(|claim| claim.uid())
        .context("no claim")?;
    let tmp = format!("tmp-pvc-{uid}");
    let stand_ins = &scene.cluster.stand_ins;
    stand_ins.provisioner_fault(&scene.namespace, &tmp, Some(Fault::Silent));
    let ask = json!({"metadata": {"annotations": {"first-consumer.kubevirt.io/provision": "true"}}});
    scene.patch_vm("db", &ask).await?;
    scene.wait_phase(&vm.claims(), "PrepClaimInProgress").await?;
    scene.wait_no_own_pod().await?;

    let give_back = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": null}}});
    scene
        .patch("v1", "PersistentVolumeClaim", "db-root", &give_back)
        .await?;
    scene.wait_node("db-root").await?;
    stand_ins.provisioner_fault(&scene.namespace, &tmp, None);
    scene
        .patch(
            "v1",
            "PersistentVolumeClaim",
            &tmp,
            &json!({"metadata": {"labels": {"look": "again"}}}),
        )
        .await?;
    scene.wait_phase(&vm.claims(), "Succeeded").await?;
    scene.wait_no_own_pod().await?;
    scene.expect(SERVED_ONCE.times(2)).await
}

/// What somebody else's populator should fill stays empty on storage without a CSI driver, which no pod of ours helps.
pub async fn nobody_fills_it_without_a_csi_driver(cluster: Arc<Cluster>) -> Result<()> {
    let scene = Scene::new(cluster, "external-legacy").await?;
    let somebody = sources().into_iter().find(|(name, _)| *name == "external");
    let (_, source) = somebody.context("no such source")?;
    let vm = Vm::halted("db")
        .data_volume(disk("db-root", &source, LEGACY[0]))
        .provision("true");
    scene.create(vm.object()).await?;
    scene.wait_bound("db-root").await?;
    scene.wait_phase(&vm.claims(), "PVCBound").await?;
    scene.wait_event("NoCSIDriverForExternalPopulation", "").await?;
    scene.wait_no_own_pod().await?;
    scene.nothing_happens().await;
    scene.expect(SERVED_ONCE).await
}
