//! What happens in one namespace, for whoever plays a case there: on a real control plane ([`crate::scene`]) or on a fake
//! API server ([`crate::fake_api`]).

mod requests;
mod waits;

pub(crate) use requests::nothing_else_written;
pub use requests::{Requests, SERVED_ONCE, UNTOUCHED};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::control_plane::wait_for;
use crate::stand_in::{RUNS_FOR, WAITS_FOR_DATA};

/// The label of our pods.
const MANAGED: &str = "first-consumer.kubevirt.io/managed";

/// What is said when a wait fails.
pub type Story = Arc<dyn Fn() -> String + Send + Sync>;

/// One namespace of a cluster.
pub struct Stage {
    /// The namespace.
    pub namespace: String,
    client: Client,
    story: Story,
    made: Arc<Mutex<Vec<Pod>>>,
    _watch: AbortOnDropHandle<()>,
}

impl Stage {
    /// A namespace that is there.
    #[must_use]
    pub fn new(client: Client, namespace: &str, story: Story) -> Self {
        let made = Arc::default();
        let watch = tokio::spawn(watch_own_pods(client.clone(), namespace.to_owned(), Arc::clone(&made)));
        Self {
            namespace: namespace.to_owned(),
            client,
            story,
            made,
            _watch: AbortOnDropHandle::new(watch),
        }
    }

    /// What is said when a wait fails.
    #[must_use]
    pub fn log(&self) -> String {
        (self.story)()
    }

    /// The harness's client.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Pods of this namespace.
    #[must_use]
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client(), &self.namespace)
    }

    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client(), &self.namespace, &resource)
    }

    fn vms(&self) -> Api<DynamicObject> {
        self.api("kubevirt.io/v1", "VirtualMachine")
    }

    fn data_volumes(&self) -> Api<DynamicObject> {
        self.api("cdi.kubevirt.io/v1beta1", "DataVolume")
    }

    /// Creates an object in this namespace.
    pub async fn create(&self, object: Value) -> Result<DynamicObject> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().context("an object without a kind")?;
        let api = self.api(&types.api_version, &types.kind);
        api.create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("cannot create {}", object.name_any()))
    }

    /// Whether every pod of this namespace runs.
    pub async fn all_pods_run(&self) -> Result<bool> {
        let pods = self.pods().list(&ListParams::default()).await?;
        Ok(pods
            .iter()
            .all(|pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")))
    }

    /// Merges a patch into a VM.
    pub async fn patch_vm(&self, name: &str, patch: &Value) -> Result<()> {
        self.patch("kubevirt.io/v1", "VirtualMachine", name, patch).await
    }

    /// Merges a patch into an object of this namespace.
    pub async fn patch(&self, api_version: &str, kind: &str, name: &str, patch: &Value) -> Result<()> {
        let api = self.api(api_version, kind);
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Merges a patch into an object's status, as its controller would.
    pub async fn patch_status(&self, api_version: &str, kind: &str, name: &str, status: &Value) -> Result<()> {
        let api = self.api(api_version, kind);
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// A VM.
    pub async fn vm(&self, name: &str) -> Result<DynamicObject> {
        Ok(self.vms().get(name).await?)
    }

    /// Whether there is a VMI of this name.
    pub async fn has_vmi(&self, name: &str) -> Result<bool> {
        let vmis = self.api("kubevirt.io/v1", "VirtualMachineInstance");
        Ok(vmis.get_opt(name).await?.is_some())
    }

    /// Deletes a DataVolume, and with it its claim.
    pub async fn delete_data_volume(&self, name: &str) -> Result<()> {
        self.data_volumes().delete(name, &DeleteParams::background()).await?;
        Ok(())
    }

    /// Waits until the worker of a DataVolume waits for data, and has all of it arrive.
    pub async fn data_arrives(&self, data_volume: &str) -> Result<()> {
        let claim = self.claim(data_volume).await?.context("no claim")?;
        let prime = format!("prime-{}", claim.uid().unwrap_or_default());
        let worker = wait_for(&format!("a worker for {data_volume}"), async || {
            let mut pods = self.pods().list(&ListParams::default()).await?.items.into_iter();
            let fills = |pod: &Pod| {
                let mut owners = pod.owner_references().iter();
                owners.any(|owner| owner.name == data_volume || owner.name == prime)
            };
            Ok(pods.find(|pod| fills(pod) && pod.annotations().contains_key(WAITS_FOR_DATA)))
        })
        .await?;
        let ends = json!({"metadata": {"annotations": {RUNS_FOR: "0s"}}});
        self.patch("v1", "Pod", &worker.name_any(), &ends).await
    }

    /// Says of a pod what a kubelet would.
    pub async fn set_phase(&self, pod: &str, phase: &str) -> Result<()> {
        self.patch_status("v1", "Pod", pod, &json!({"phase": phase})).await
    }

    /// Deletes a VM and waits until it and its claims are gone.
    pub async fn delete_vm(&self, name: &str, claims: &[String]) -> Result<()> {
        self.vms().delete(name, &DeleteParams::background()).await?;
        wait_for("the VM and its claims are gone", async || {
            let mut left = self.vms().get_opt(name).await?.is_some();
            for claim in claims {
                left |= self.claim(claim).await?.is_some();
            }
            Ok((!left).then_some(()))
        })
        .await
    }

    /// A claim of this namespace.
    pub async fn claim(&self, name: &str) -> Result<Option<PersistentVolumeClaim>> {
        let claims = Api::<PersistentVolumeClaim>::namespaced(self.client(), &self.namespace);
        Ok(claims.get_opt(name).await?)
    }

    /// The phases of all DataVolumes.
    pub async fn phases(&self) -> Result<BTreeMap<String, String>> {
        let all = self.data_volumes().list(&ListParams::default()).await?;
        Ok(all
            .iter()
            .map(|data_volume| (data_volume.name_any(), phase(data_volume)))
            .collect())
    }

    /// Our pods of this namespace.
    pub async fn own_pods(&self) -> Result<Vec<Pod>> {
        let ours = ListParams::default().labels(MANAGED);
        Ok(self.pods().list(&ours).await?.items)
    }

    /// All of our pods that there have been, in the order of their creation.
    #[must_use]
    pub fn made_pods(&self) -> Vec<Pod> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a VM and waits until it runs; returns its node.
    pub async fn start_vm(&self, name: &str) -> Result<String> {
        self.patch_vm(name, &json!({"spec": {"runStrategy": "Always"}})).await?;
        let vmi = self.wait_vmi(name, "Running").await?;
        let node = vmi.data.pointer("/status/nodeName").and_then(Value::as_str);
        Ok(node.context("it runs nowhere")?.to_owned())
    }

    /// The messages of all Events with this reason.
    pub async fn events(&self, reason: &str) -> Result<Vec<String>> {
        Ok(self.named_events(reason).await?.into_values().collect())
    }

    /// The messages of all Events with this reason, by the names of the Events.
    pub async fn named_events(&self, reason: &str) -> Result<BTreeMap<String, String>> {
        let events = Api::<Event>::namespaced(self.client(), &self.namespace)
            .list(&ListParams::default())
            .await?;
        let chosen = events
            .items
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason));
        Ok(chosen
            .map(|event| (event.name_any(), event.message.unwrap_or_default()))
            .collect())
    }

    /// Gives the controller time to do what it should not do.
    pub async fn nothing_happens(&self) {
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    /// Fails unless all these claims have the same node, and returns it.
    pub async fn one_node(&self, claims: &[String]) -> Result<String> {
        let mut nodes = Vec::new();
        for claim in claims {
            nodes.push(self.wait_node(claim).await?);
        }
        nodes.dedup();
        match &nodes[..] {
            [node] => Ok(node.clone()),
            nodes => bail!("disks on {nodes:?}"),
        }
    }
}

/// The phase of a DataVolume, empty before CDI has seen it.
fn phase(data_volume: &DynamicObject) -> String {
    data_volume
        .data
        .pointer("/status/phase")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Notes every pod of ours, since most are gone before anybody could ask for them.
async fn watch_own_pods(client: Client, namespace: String, made: Arc<Mutex<Vec<Pod>>>) {
    let pods = Api::<Pod>::namespaced(client, &namespace);
    let events = watcher(pods, watcher::Config::default().labels(MANAGED))
        .default_backoff()
        .applied_objects();
    pin_mut!(events);
    while let Some(event) = events.next().await {
        let Ok(pod) = event else { continue };
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.iter().all(|known| known.uid() != pod.uid()) {
            made.push(pod);
        }
    }
}
