//! A scene: one namespace of a real control plane, with or without a controller of ours that serves it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::cluster::{ACCOUNT, Cluster};
use crate::control_plane::{Calls, Controller, ControllerOptions, NodeSpec, build_controller, wait_for};
use crate::objects::Vm;
use crate::stage::nothing_else_written;

pub use crate::stage::{Requests, SERVED_ONCE, Stage, Story, UNTOUCHED};

/// One namespace of a cluster.
pub struct Scene {
    /// The cluster.
    pub cluster: Arc<Cluster>,
    stage: Stage,
    controller: Arc<Mutex<Option<Arc<Controller>>>>,
    ready_at: Timestamp,
    story: Story,
}

impl Deref for Scene {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scene {
    /// A namespace without a controller.
    pub async fn without_controller(cluster: Arc<Cluster>, namespace: &str) -> Result<Self> {
        cluster.plane.add_namespace(namespace).await?;
        let controller = Arc::<Mutex<Option<Arc<Controller>>>>::default();
        let (shown, shown_namespace) = (Arc::clone(&controller), namespace.to_owned());
        let story: Story = Arc::new(move || {
            let log = lock(&shown)
                .as_ref()
                .map(|controller| controller.log())
                .unwrap_or_default();
            format!("log of the controller of {shown_namespace}:\n{log}")
        });
        Ok(Self {
            stage: Stage::new(cluster.plane.client(), namespace, Arc::clone(&story)),
            cluster,
            controller,
            ready_at: Timestamp::now(),
            story,
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
        *lock(&self.controller) = Some(Arc::new(controller));
        self.ready_at = Timestamp::now();
        Ok(())
    }

    /// Kills the controller with SIGKILL.
    pub async fn kill_controller(&mut self) -> Result<()> {
        let controller = lock(&self.controller).take().context("no controller runs")?;
        Arc::into_inner(controller)
            .context("somebody still asks it")?
            .kill()
            .await;
        Ok(())
    }

    /// A node for this scene alone: others do not tolerate its taint, and its label `scene` tells it from the rest.
    #[must_use]
    pub fn own_node(&self, name: &str, zone: &str) -> NodeSpec {
        let mut node = NodeSpec::new(format!("{}-{name}", self.namespace), zone);
        node.labels.insert("scene".to_owned(), self.namespace.clone());
        node.taints = vec![Taint {
            key: "scene".to_owned(),
            value: Some(self.namespace.clone()),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        }];
        node
    }

    /// A VM that runs on the scene's own nodes alone.
    #[must_use]
    pub fn on_own_nodes(&self, vm: Vm) -> Vm {
        vm.spec("nodeSelector", json!({"scene": self.namespace})).spec(
            "tolerations",
            json!([{"key": "scene", "operator": "Exists", "tolerationSeconds": null}]),
        )
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

    /// What `first-consumer render` prints of a subject of this namespace, for the harness's own account.
    pub async fn render(&self, subject: &str) -> Result<String> {
        let mut render = tokio::process::Command::new(build_controller(false).await?);
        render.args(["render", subject, "--namespace", &self.namespace, "--kubeconfig"]);
        let output = render.arg(self.cluster.plane.kubeconfig()?).output().await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Waits until the controller's decision about the only subject that waits has this reason.
    pub async fn wait_reason(&self, reason: &str) -> Result<()> {
        self.wait_reasons(reason, 1).await
    }

    /// Waits until the controller's decisions about so many subjects that wait have this reason.
    pub async fn wait_reasons(&self, reason: &str, subjects: usize) -> Result<()> {
        let controller = lock(&self.controller).clone().context("no controller runs")?;
        let line = format!("first_consumer_waiting_subjects{{reason=\"{reason}\"}} {subjects}\n");
        wait_for(&format!("reason {reason}"), async || {
            Ok(controller.get("/metrics").await?.contains(&line).then_some(()))
        })
        .await
        .with_context(|| (self.story)())
    }

    /// What our controller has asked of the API server in this namespace since it was ready, Events and reads included.
    pub fn calls(&self) -> Result<Calls> {
        Ok(self.cluster.plane.calls()?.by(ACCOUNT).within(&self.namespace))
    }

    /// [`Self::calls`] when so many pods were created and deleted: the audit log learns of it later than everybody else.
    pub async fn wait_calls(&self, creates: usize, deletes: usize) -> Result<Calls> {
        wait_for(&format!("{creates} creates and {deletes} deletes"), async || {
            let calls = self.calls()?;
            let enough = calls.succeeded("create", "pods") >= creates && calls.succeeded("delete", "pods") >= deletes;
            Ok(enough.then_some(calls))
        })
        .await
        .with_context(|| (self.story)())
    }

    /// Fails unless our controller's requests were these, and CDI never met a pod of ours.
    pub async fn expect(&self, expected: Requests) -> Result<()> {
        self.expect_requests(expected).await?;
        for reason in ["ImportTargetInUse", "UploadTargetInUse", "CloneSourceInUse"] {
            let mut met = self.events(reason).await?;
            met.retain(|text| text.contains("/first-consumer-"));
            ensure!(met.is_empty(), "CDI met a pod: {met:?}");
        }
        Ok(())
    }

    /// How often our controller has asked for an expansion.
    pub fn expansions(&self) -> Result<usize> {
        Ok(self.calls()?.filter(|call| call.subresource == "expand-spec").len())
    }

    /// Fails unless our controller's requests were these, with no read since it was ready, and none of them failed,
    /// expansions apart.
    pub async fn expect_requests(&self, expected: Requests) -> Result<()> {
        let calls = self.wait_calls(expected.creates, expected.deletes).await?;
        // Volumes are in no namespace.
        let of_cluster = self.cluster.plane.calls()?.by(ACCOUNT).within("");
        nothing_else_written(&of_cluster)?;
        let events = expected.events + self.told_for_others(&calls).await?;
        Requests { events, ..expected }
            .check(&calls, self.ready_at)
            .with_context(|| (self.story)())
    }

    /// Events among these calls that are owed to who shares the plane: a busy scheduler may leave a worker whose scratch
    /// space came after it for so long that we tell of it; whenever another scene changes a node it may come to another
    /// count and back, and we count on the Event that our pod waits.
    pub async fn told_for_others(&self, calls: &Calls) -> Result<usize> {
        let mut late = self.events("DiskStuck").await?;
        late.retain(|text| text.contains("-scratch\" not found"));
        let waiting = self.named_events("FirstConsumerWaiting").await?;
        let counts: BTreeSet<&String> = waiting
            .values()
            .filter(|text| text.contains(" nodes are available: "))
            .collect();
        Ok(late.len() + counts.len().saturating_sub(1) + said_again(calls, &waiting))
    }
}

/// How often one of these Events was counted on, as far as others may be the reason: not twice within the time that the
/// controller leaves between two counts.
fn said_again(calls: &Calls, events: &BTreeMap<String, String>) -> usize {
    let mut counted: BTreeMap<&str, Timestamp> = BTreeMap::new();
    let patches = calls.of("patch", "events");
    let again = patches.iter().filter(|call| {
        let apart = |before: Timestamp| call.received.duration_since(before) > SignedDuration::from_secs(9);
        events.contains_key(&call.name) && counted.insert(&call.name, call.received).is_none_or(apart)
    });
    again.count()
}
