//! A scene: one namespace of a cluster, with or without a controller of ours that serves it.

mod cost;

pub use cost::{Requests, SERVED_ONCE, UNTOUCHED};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::control_plane::{Controller, ControllerOptions, build_controller, wait_for};

/// Long enough for a provisioner that missed something and looks again after 15 s, and for a busy machine.
pub const SOON: Duration = Duration::from_mins(1);

/// The label of our pods.
const MANAGED: &str = "first-consumer.kubevirt.io/managed";

/// One namespace of a cluster.
pub struct Scene {
    /// The cluster.
    pub cluster: Arc<Cluster>,
    /// The namespace.
    pub namespace: String,
    controller: Option<Controller>,
    ready_at: Timestamp,
    made: Arc<Mutex<Vec<Pod>>>,
    _watch: AbortOnDropHandle<()>,
}

impl Scene {
    /// A namespace without a controller.
    pub async fn without_controller(cluster: Arc<Cluster>, namespace: &str) -> Result<Self> {
        cluster.plane.add_namespace(namespace).await?;
        let made = Arc::default();
        let watch = tokio::spawn(watch_own_pods(
            cluster.plane.client(),
            namespace.to_owned(),
            Arc::clone(&made),
        ));
        Ok(Self {
            cluster,
            namespace: namespace.into(),
            controller: None,
            ready_at: Timestamp::now(),
            made,
            _watch: AbortOnDropHandle::new(watch),
        })
    }

    /// A namespace with a controller that serves it alone.
    pub async fn new(cluster: Arc<Cluster>, namespace: &str) -> Result<Self> {
        let mut scene = Self::without_controller(cluster, namespace).await?;
        scene.start_controller(&[]).await?;
        Ok(scene)
    }

    /// Starts a controller for this namespace, with more environment, and waits until it is ready.
    pub async fn start_controller(&mut self, environment: &[(&str, &str)]) -> Result<()> {
        let mut options = ControllerOptions::watching(&self.namespace);
        options.environment.extend(
            environment
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let controller = Controller::start(&self.cluster.plane, &options).await?;
        controller.wait_ready().await?;
        self.controller = Some(controller);
        self.ready_at = Timestamp::now();
        Ok(())
    }

    /// Kills the controller with SIGKILL.
    pub async fn kill_controller(&mut self) -> Result<()> {
        self.controller.take().context("no controller runs")?.kill().await;
        Ok(())
    }

    /// The harness's client.
    #[must_use]
    pub fn client(&self) -> Client {
        self.cluster.plane.client()
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

    /// Creates an object in this namespace, or in none if its kind has none: kubectl knows which.
    pub async fn create_anywhere(&self, object: &Value) -> Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), object.to_string())?;
        let path = file.path().to_str().context("a name that is not UTF-8")?;
        self.cluster
            .plane
            .kubectl(&["create", "--namespace", &self.namespace, "-f", path])
            .await?;
        Ok(())
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
        self.api(api_version, kind)
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Deletes a VM and waits until it and its claims are gone.
    pub async fn delete_vm(&self, name: &str, claims: &[String]) -> Result<()> {
        self.vms().delete(name, &DeleteParams::background()).await?;
        wait_for(SOON, "the VM and its claims are gone", async || {
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

    /// Waits until all these DataVolumes have a phase.
    pub async fn wait_phase(&self, data_volumes: &[String], phase: &str) -> Result<()> {
        let what = format!("{} in {phase} in {}", data_volumes.join(", "), self.namespace);
        let waited = wait_for(SOON, &what, async || {
            let phases = self.phases().await?;
            let there = |name: &String| phases.get(name).is_some_and(|found| found == phase);
            Ok(data_volumes.iter().all(there).then_some(()))
        });
        waited.await.with_context(|| self.controller_log())
    }

    /// Waits until the worker of a DataVolume has been restarted so often.
    pub async fn wait_restarts(&self, data_volume: &str, restarts: u64) -> Result<()> {
        wait_for(SOON, &format!("{restarts} restarts for {data_volume}"), async || {
            let found = self.data_volumes().get(data_volume).await?;
            let count = found.data.pointer("/status/restartCount").and_then(Value::as_u64);
            Ok((count >= Some(restarts)).then_some(()))
        })
        .await
    }

    /// Waits until a quota is enforced, with this much memory.
    pub async fn wait_quota(&self, name: &str, memory: &str) -> Result<()> {
        let quotas = self.api("v1", "ResourceQuota");
        wait_for(SOON, &format!("quota {name} is enforced"), async || {
            let found = quotas.get(name).await?;
            let enforced = &found.data["status"]["hard"]["requests.memory"];
            Ok((enforced == memory).then_some(()))
        })
        .await
    }

    /// Waits until a claim has a node, and returns it.
    pub async fn wait_node(&self, claim: &str) -> Result<String> {
        wait_for(SOON, &format!("claim {claim} has a node"), async || {
            let claim = self.claim(claim).await?;
            Ok(claim.and_then(|claim| claim.annotations().get("volume.kubernetes.io/selected-node").cloned()))
        })
        .await
        .with_context(|| self.controller_log())
    }

    /// Waits until a claim is bound, and returns the name of its volume.
    pub async fn wait_bound(&self, claim: &str) -> Result<String> {
        wait_for(SOON, &format!("claim {claim} is bound"), async || {
            Ok(self.claim(claim).await?.and_then(|claim| claim.spec?.volume_name))
        })
        .await
    }

    /// Our pods of this namespace.
    pub async fn own_pods(&self) -> Result<Vec<Pod>> {
        let ours = ListParams::default().labels(MANAGED);
        Ok(self.pods().list(&ours).await?.items)
    }

    /// Waits until one of our pods has been seen, gone again or not, and returns the first.
    pub async fn wait_made_pod(&self) -> Result<Pod> {
        let first = async || {
            Ok(self
                .made
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .first()
                .cloned())
        };
        wait_for(SOON, "a pod of ours was made", first)
            .await
            .with_context(|| self.controller_log())
    }

    /// Waits until one of our pods is there, and returns it.
    pub async fn wait_own_pod(&self) -> Result<Pod> {
        self.wait_own_pod_that(|_| true).await
    }

    /// Waits until a pod of ours is there that is like this, and returns it.
    pub async fn wait_own_pod_that(&self, is_wanted: impl Fn(&Pod) -> bool) -> Result<Pod> {
        let found = async || Ok(self.own_pods().await?.into_iter().find(&is_wanted));
        wait_for(SOON, "a pod of ours", found)
            .await
            .with_context(|| self.controller_log())
    }

    /// Waits until none of our pods is there.
    pub async fn wait_no_own_pod(&self) -> Result<()> {
        let gone = async || Ok(self.own_pods().await?.is_empty().then_some(()));
        wait_for(SOON, "no pod of ours", gone)
            .await
            .with_context(|| self.controller_log())
    }

    /// What `first-consumer render` prints of a subject of this namespace, for the harness's own account.
    pub async fn render(&self, subject: &str) -> Result<String> {
        let mut render = tokio::process::Command::new(build_controller(false).await?);
        render.args(["render", subject, "--namespace", &self.namespace, "--kubeconfig"]);
        let output = render.arg(self.cluster.plane.kubeconfig()?).output().await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Waits until the VMI has a phase.
    pub async fn wait_vmi(&self, name: &str, phase: &str) -> Result<DynamicObject> {
        let vmis = self.api("kubevirt.io/v1", "VirtualMachineInstance");
        wait_for(SOON, &format!("VMI {name} in {phase}"), async || {
            let vmi = vmis.get_opt(name).await?;
            Ok(vmi.filter(|vmi| vmi.data.pointer("/status/phase").and_then(Value::as_str) == Some(phase)))
        })
        .await
    }

    /// Starts a VM and waits until it runs; returns its node.
    pub async fn start_vm(&self, name: &str) -> Result<String> {
        self.patch_vm(name, &json!({"spec": {"runStrategy": "Always"}})).await?;
        let vmi = self.wait_vmi(name, "Running").await?;
        let node = vmi.data.pointer("/status/nodeName").and_then(Value::as_str);
        Ok(node.context("it runs nowhere")?.to_owned())
    }

    /// Waits until an Event with this reason is there, and returns its message.
    pub async fn wait_event(&self, reason: &str) -> Result<String> {
        wait_for(SOON, &format!("an Event {reason}"), async || {
            Ok(self.events(reason).await?.pop())
        })
        .await
    }

    /// The messages of all Events with this reason.
    pub async fn events(&self, reason: &str) -> Result<Vec<String>> {
        let events = Api::<Event>::namespaced(self.client(), &self.namespace)
            .list(&ListParams::default())
            .await?;
        let chosen = events
            .items
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason));
        Ok(chosen.map(|event| event.message.unwrap_or_default()).collect())
    }

    /// Waits until the controller's decision about the only subject that waits has this reason.
    pub async fn wait_reason(&self, reason: &str) -> Result<()> {
        self.wait_reasons(reason, 1).await
    }

    /// Waits until the controller's decisions about so many subjects that wait have this reason.
    pub async fn wait_reasons(&self, reason: &str, subjects: usize) -> Result<()> {
        let controller = self.controller.as_ref().context("no controller runs")?;
        let line = format!("first_consumer_waiting_subjects{{reason=\"{reason}\"}} {subjects}\n");
        wait_for(SOON, &format!("reason {reason}"), async || {
            Ok(controller.get("/metrics").await?.contains(&line).then_some(()))
        })
        .await
        .with_context(|| self.controller_log())
    }

    /// Waits until the controller has logged this.
    pub async fn wait_logged(&self, text: &str) -> Result<()> {
        let controller = self.controller.as_ref().context("no controller runs")?;
        wait_for(SOON, &format!("{text} in the log"), async || {
            Ok(controller.log().contains(text).then_some(()))
        })
        .await
        .with_context(|| self.controller_log())
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

    /// Waits until a claim is bound, and returns the zone that its volume can be reached from.
    pub async fn volume_zone(&self, claim: &str) -> Result<String> {
        let name = self.wait_bound(claim).await?;
        let volume = Api::<PersistentVolume>::all(self.client()).get(&name).await?;
        let required = volume
            .spec
            .and_then(|spec| spec.node_affinity?.required)
            .context("no affinity")?;
        let terms = required.node_selector_terms.into_iter();
        let mut labels = terms.flat_map(|term| term.match_expressions.unwrap_or_default());
        let zone = labels
            .find(|label| label.key == "topology.kubernetes.io/zone")
            .context("no zone")?;
        Ok(zone.values.unwrap_or_default().join(","))
    }

    fn controller_log(&self) -> String {
        let log = self.controller.as_ref().map(Controller::log).unwrap_or_default();
        format!("log of the controller of {}:\n{log}", self.namespace)
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
