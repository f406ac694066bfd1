//! Objects as a test says they are, on a fake cluster: CDI's stand-in leaves DataVolumes without a source alone, and
//! nobody serves the class.

use std::ops::Deref;

use anyhow::{Context as _, Result};
use first_consumer::decide::Settings;
use first_consumer_e2e::fake_api::{Options, Scene};
use first_consumer_e2e::objects::Vm;
use first_consumer_e2e::stand_in;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DeleteParams, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

/// A class that binds late, whose provisioner does not exist.
pub const SILENT: &str = "silent";

/// What a claim on the populator path has over the usual.
pub fn populated() -> Value {
    json!({"spec": {"dataSourceRef": {"apiGroup": "cdi.kubevirt.io", "kind": "VolumeImportSource", "name": "source"}}})
}

/// The class.
pub const CLASS: &str = r"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: silent}
provisioner: nobody.example
volumeBindingMode: WaitForFirstConsumer
";

/// A scene whose disks, and VMIs, are made by hand.
pub struct ByHand(pub Scene);

impl Deref for ByHand {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.0
    }
}

impl ByHand {
    /// Without virt-controller, and with a controller of ours.
    pub async fn new() -> Result<Self> {
        let mut scene = Scene::without_controller(Options {
            neighbours: stand_in::Options {
                virt_controller: false,
                ..stand_in::Options::default()
            },
            ..Options::default()
        })
        .await?;
        scene.apply(CLASS)?;
        scene.start_controller(Settings::default()).await?;
        Ok(Self(scene))
    }

    /// A DataVolume in a phase, and its pending claim, which is what this says over the usual.
    pub async fn disk(&self, name: &str, phase: &str, claim: &Value) -> Result<()> {
        let data_volume = self
            .create(
                json!({"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "metadata": {"name": name},
                "spec": {}}),
            )
            .await?;
        self.phase(name, phase).await?;
        let mut usual = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "ownerReferences": [{"apiVersion": "cdi.kubevirt.io/v1beta1",
                "kind": "DataVolume", "name": name, "uid": data_volume.uid(), "controller": true}]},
            "spec": {"storageClassName": SILENT, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        });
        merge(&mut usual, claim);
        self.create(usual).await?;
        self.patch_status("v1", "PersistentVolumeClaim", name, &json!({"phase": "Pending"}))
            .await
    }

    /// The halted VM `db` with the disk `root`, which has got its node from a pod of ours that is gone.
    pub async fn served_root(&self, phase: &str, claim: &Value) -> Result<()> {
        self.disk("root", phase, claim).await?;
        self.create(Vm::halted("db").existing_disk("root").provision("true").object())
            .await?;
        self.wait_node("root").await?;
        self.wait_no_own_pod().await
    }

    /// The halted VM `db` with the disk `root`, and our pod, which no node fits.
    pub async fn stuck_root(&self) -> Result<Pod> {
        self.disk("root", "WaitForFirstConsumer", &json!({})).await?;
        let vm = Vm::halted("db").existing_disk("root").provision("true");
        self.create(vm.spec("nodeSelector", json!({"no": "node"})).object())
            .await?;
        self.wait_own_pod().await
    }

    /// Says what CDI would of a DataVolume.
    pub async fn phase(&self, data_volume: &str, phase: &str) -> Result<()> {
        let status = json!({"phase": phase});
        self.patch_status("cdi.kubevirt.io/v1beta1", "DataVolume", data_volume, &status)
            .await
    }

    /// Changes a claim.
    pub async fn edit_claim(&self, name: &str, patch: &Value) -> Result<()> {
        self.patch("v1", "PersistentVolumeClaim", name, patch).await
    }

    /// Says what a scheduler would of a claim, or a provisioner that gives the node back.
    pub async fn select_node(&self, claim: &str, node: Option<&str>) -> Result<()> {
        let chosen = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}});
        self.edit_claim(claim, &chosen).await
    }

    /// Says what a scheduler would of a pod that it can't place yet.
    pub async fn not_scheduled(&self, pod: &str, reason: &str, message: &str) -> Result<()> {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": self.api.clock().now()});
        let status = json!({"conditions": [condition]});
        self.patch_status("v1", "Pod", pod, &status).await
    }

    /// Deletes an object that somebody else holds back.
    pub async fn begin_deletion(&self, api_version: &str, kind: &str, name: &str) -> Result<()> {
        let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        self.patch(api_version, kind, name, &hold).await?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let objects = Api::<DynamicObject>::namespaced_with(self.client(), &self.namespace, &resource);
        objects.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Says what the PV controller would: a volume on a node, and the claim is bound to it.
    pub async fn bind(&self, claim: &str, node: &str) -> Result<()> {
        let volume = format!("pv-{claim}");
        let uid = self.claim(claim).await?.context("no claim")?.uid();
        self.apply(
            &json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
                "spec": {
                    "storageClassName": SILENT, "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                    "claimRef": {"namespace": self.namespace, "name": claim, "uid": uid},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                        {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}},
                },
            })
            .to_string(),
        )?;
        self.edit_claim(claim, &json!({"spec": {"volumeName": volume}})).await?;
        self.patch_status("v1", "PersistentVolumeClaim", claim, &json!({"phase": "Bound"}))
            .await
    }

    /// A pod that the claim controls, as CDI's workers are.
    pub async fn worker(&self, claim: &str, node_selector: &Value) -> Result<()> {
        let uid = self.claim(claim).await?.context("no claim")?.uid();
        let mut worker = first_consumer_e2e::objects::pod(&format!("importer-{claim}"), claim, node_selector);
        worker["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "name": claim, "uid": uid, "controller": true}]);
        self.create(worker).await.map(drop)
    }

    /// One that no node fits.
    pub async fn stuck_worker(&self, claim: &str) -> Result<()> {
        self.worker(claim, &json!({"no": "node"})).await
    }

    /// The VMI of a VM that is there, in a phase; what it is made of may differ from the VM by now.
    pub async fn instance(&self, of: &Vm, phase: &str) -> Result<DynamicObject> {
        let mut made = of.bare_vmi();
        let name = made["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let vm = self.vm(&name).await?;
        made["metadata"]["ownerReferences"] = json!([{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
            "name": name, "uid": vm.uid(), "controller": true}]);
        let made = self.create(made).await?;
        self.instance_phase(&name, phase).await?;
        Ok(made)
    }

    /// Says what KubeVirt would of a VMI.
    pub async fn instance_phase(&self, name: &str, phase: &str) -> Result<()> {
        let status = json!({"phase": phase});
        self.patch_status("kubevirt.io/v1", "VirtualMachineInstance", name, &status)
            .await
    }

    /// How many pods of ours there have been.
    pub fn made(&self) -> usize {
        self.calls()
            .of("create", "pods")
            .iter()
            .filter(|call| call.is_ok())
            .count()
    }

    /// Seconds between our attempts to create a pod, refused ones too.
    pub fn gaps(&self) -> Vec<i64> {
        let calls = self.calls();
        let times: Vec<_> = calls.of("create", "pods").iter().map(|call| call.received).collect();
        times
            .windows(2)
            .map(|pair| pair[1].duration_since(pair[0]).as_secs())
            .collect()
    }

    /// What an Event of this reason says on the VM `db`, each once.
    pub fn told(&self, reason: &str) -> Vec<String> {
        let events = self.events_on("db").into_iter();
        events
            .filter(|(found, _, _)| found == reason)
            .map(|(_, note, _)| note)
            .collect()
    }

    /// Our pod with the words of a kubelet.
    pub async fn pod_status(&self, pod: &Pod, status: &Value) -> Result<()> {
        self.patch_status("v1", "Pod", &pod.name_any(), status).await
    }
}

fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}
