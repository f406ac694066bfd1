//! A scene on a fake API server: one namespace, the modelled neighbours, and our real shell, all in this process. Reads
//! like [`crate::scene::Scene`]; to be played with paused time (`#[tokio::test(start_paused = true)]`), where it is the
//! same each time and hours cost milliseconds.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use first_consumer::admin::Endpoints;
use first_consumer::clock::Clock;
use first_consumer::decide::Settings;
use first_consumer::metrics::Metrics;
use first_consumer::run::{Controller, Setup, observer};
use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{FakeApi, Faults, Id, Store};
use crate::cluster::{ACCOUNT, STORAGE};
use crate::control_plane::objects::documents;
use crate::control_plane::{Calls, NodeSpec, wait_for};
use crate::stage::{Requests, Stage, Story};
use crate::stand_in::kind::Kind;
use crate::stand_in::{self, StandIns};

/// When a scene begins.
const START: &str = "2026-01-01T00:00:00Z";

/// The class of the legacy path.
const LOCAL_PATH: &str = r"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: local-path
provisioner: rancher.io/local-path
volumeBindingMode: WaitForFirstConsumer
reclaimPolicy: Delete
";

/// How a scene begins.
#[derive(Clone, Debug)]
pub struct Options {
    /// Delays and faults come from it.
    pub seed: u64,
    /// The nodes.
    pub nodes: Vec<NodeSpec>,
    /// The neighbours; they get the scene's clock.
    pub neighbours: stand_in::Options,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            nodes: NodeSpec::six(),
            neighbours: stand_in::Options::default(),
        }
    }
}

/// One namespace of a fake cluster.
pub struct Scene {
    /// The API server.
    pub api: FakeApi,
    /// The neighbours.
    pub stand_ins: StandIns,
    stage: Stage,
    replicas: Vec<Controller>,
    /// How many replicas there have been; each has a name of its own in the list of calls.
    started: usize,
    ready_at: Timestamp,
}

impl Deref for Scene {
    type Target = Stage;

    fn deref(&self) -> &Stage {
        &self.stage
    }
}

impl Scene {
    /// The namespace `ns` with nodes, classes and neighbours, without a controller.
    pub async fn without_controller(options: Options) -> Result<Self> {
        let clock = Clock::starting_at(START.parse()?);
        let api = FakeApi::start(clock.clone(), Faults::new(options.seed));
        let neighbours = stand_in::Options {
            clock,
            ..options.neighbours
        };
        let stand_ins = populate(&api, &options.nodes, neighbours).await?;
        let told = api.clone();
        let story: Story = Arc::new(move || format!("our requests:\n{}", requests(&ours(&told.calls()))));
        Ok(Self {
            stage: Stage::new(api.client("admin"), "ns", story),
            ready_at: api.clock().now(),
            api,
            stand_ins,
            replicas: Vec::new(),
            started: 0,
        })
    }

    /// With a controller that serves all namespaces.
    pub async fn new(options: Options) -> Result<Self> {
        let mut scene = Self::without_controller(options).await?;
        scene.start_controller(Settings::default()).await?;
        Ok(scene)
    }

    /// Starts a controller (or another replica: each believes to lead) and waits until it is ready.
    pub async fn start_controller(&mut self, settings: Settings) -> Result<()> {
        let endpoints = self.begin_controller(settings);
        wait_for("the controller is ready", async || Ok((endpoints.ready)().ok())).await?;
        self.ready_at = self.api.clock().now();
        Ok(())
    }

    /// Starts a controller, and does not wait.
    pub fn begin_controller(&mut self, settings: Settings) -> Endpoints {
        let metrics = Arc::new(Metrics::new());
        self.started += 1;
        let user = self.user();
        let controller = Controller::start(Setup {
            clients: self.api.clients(&user, &observer(&metrics)),
            settings,
            namespace: None,
            create_rate: 20,
            candidate: None,
            metrics,
            clock: self.api.clock().clone(),
        });
        let endpoints = controller.endpoints();
        self.replicas.push(controller);
        endpoints
    }

    /// The name of the newest replica in the list of calls.
    #[must_use]
    pub fn user(&self) -> String {
        match self.started {
            0 | 1 => ACCOUNT.to_owned(),
            number => format!("{ACCOUNT}#{number}"),
        }
    }

    /// How many replicas run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.replicas.len()
    }

    /// Ends the oldest replica as a crash does.
    pub fn kill_controller(&mut self) -> Result<()> {
        ensure!(!self.replicas.is_empty(), "no controller runs");
        drop(self.replicas.remove(0));
        Ok(())
    }

    /// Ends the oldest replica in order.
    pub async fn stop_controller(&mut self) -> Result<()> {
        ensure!(!self.replicas.is_empty(), "no controller runs");
        self.replicas.remove(0).stop().await;
        Ok(())
    }

    /// Lets time pass, with everything that happens meanwhile.
    pub async fn advance(&self, time: Duration) {
        sleep(time).await;
    }

    /// Waits until the objects are so. Fails after `limit` with the name of what was awaited.
    pub async fn until(&self, limit: Duration, what: &str, mut holds: impl FnMut(&Store) -> bool) -> Result<()> {
        let end = Instant::now() + limit;
        while !holds(&self.api.store()) {
            if Instant::now() > end {
                bail!("not within {} s: {what}\n{}", limit.as_secs(), self.log());
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Creates the objects of a YAML or JSON text; those of kinds with namespaces in this one, unless they name another.
    pub fn apply(&self, text: &str) -> Result<()> {
        for object in documents(text)? {
            put(&mut self.api.store(), object, &self.stage.namespace)?;
        }
        Ok(())
    }

    /// Adds a node that is ready.
    pub fn add_node(&self, spec: &NodeSpec) -> Result<()> {
        put_node(&mut self.api.store(), spec)
    }

    /// An object as it is now.
    #[must_use]
    pub fn object(&self, kind: &str, name: &str) -> Option<Value> {
        let kind = Kind::ALL.into_iter().find(|known| known.name() == kind)?;
        let namespace = if kind.in_namespaces() {
            &self.stage.namespace
        } else {
            ""
        };
        Some((**self.api.store().get(kind, namespace, name)?).clone())
    }

    /// What our controllers have asked of the API server.
    #[must_use]
    pub fn calls(&self) -> Calls {
        ours(&self.api.calls())
    }

    /// The Events on a VM or VMI: reason, message, count.
    #[must_use]
    pub fn events_on(&self, name: &str) -> Vec<(String, String, i64)> {
        let store = self.api.store();
        let events = store.list(Kind::Event, &self.stage.namespace, None);
        let mut about: Vec<_> = events
            .filter(|(_, event)| {
                event["involvedObject"]["name"] == name
                    && matches!(
                        event["involvedObject"]["kind"].as_str(),
                        Some("VirtualMachine" | "VirtualMachineInstance")
                    )
                    && event["reportingComponent"] == "first-consumer"
            })
            .collect();
        about.sort_by_key(|(_, event)| event["metadata"]["uid"].as_str().map(str::to_owned));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let said = |event: &Value| {
            (
                text(&event["reason"]),
                text(&event["message"]),
                event["count"].as_i64().unwrap_or(1),
            )
        };
        about.into_iter().map(|(_, event)| said(event)).collect()
    }

    /// What `/metrics` of the newest replica shows.
    pub fn metrics(&self) -> Result<String> {
        let replica = self.replicas.last().context("no controller runs")?;
        Ok((replica.endpoints().metrics)().0)
    }

    /// Waits until the controller's decision about the only subject that waits has this reason.
    pub async fn wait_reason(&self, reason: &str) -> Result<()> {
        let line = format!("first_consumer_waiting_subjects{{reason=\"{reason}\"}} 1\n");
        let what = format!("reason {reason}");
        let waited = wait_for(&what, async || Ok(self.metrics()?.contains(&line).then_some(())));
        waited.await.with_context(|| self.log())
    }

    /// Fails unless our controller's requests were these, with no read since it was ready, and none of them failed.
    pub fn expect(&self, expected: Requests) -> Result<()> {
        expected.check(&self.calls(), self.ready_at).with_context(|| self.log())
    }

    /// Ends everything.
    pub async fn stop(mut self) {
        for replica in self.replicas.drain(..) {
            replica.stop().await;
        }
        self.stand_ins.stop().await;
    }
}

/// Makes a cluster of an empty server: nodes, classes, namespaces, and the neighbours.
pub async fn populate(api: &FakeApi, nodes: &[NodeSpec], options: stand_in::Options) -> Result<StandIns> {
    furnish(&mut api.store(), nodes)?;
    let [cdi, virt_controller, provisioner] =
        ["cdi", "virt-controller", "csi-provisioner"].map(|user| api.client(user));
    let mut stand_ins = StandIns::start(cdi, virt_controller, provisioner, options.clone()).await?;
    let [scheduler, manager, local_path] =
        ["kube-scheduler", "kube-controller-manager", "local-path-provisioner"].map(|user| api.client(user));
    stand_ins
        .play_control_plane(scheduler, manager, local_path, &options)
        .await?;
    api.expansion(Some(Box::new(stand_ins.expand())));
    Ok(stand_ins)
}

/// Nodes, classes, the namespace, and what the product's manifests need.
fn furnish(store: &mut Store, nodes: &[NodeSpec]) -> Result<()> {
    let namespaces = ["ns", "first-consumer", "default"].map(|name| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        object.to_string()
    });
    let texts = [STORAGE, LOCAL_PATH];
    for text in texts.into_iter().chain(namespaces.iter().map(String::as_str)) {
        for object in documents(text)? {
            put(store, object, "")?;
        }
    }
    nodes.iter().try_for_each(|spec| put_node(store, spec))
}

fn put_node(store: &mut Store, spec: &NodeSpec) -> Result<()> {
    let mut node = serde_json::to_value(spec.node())?;
    node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    put(store, serde_json::from_value(node)?, "")
}

fn put(store: &mut Store, object: DynamicObject, namespace: &str) -> Result<()> {
    let types = object.types.clone().context("an object without a kind")?;
    let kind = Kind::of_types(&types.api_version, &types.kind);
    let kind = kind.with_context(|| format!("{} {} is not known", types.api_version, types.kind))?;
    let given = object
        .metadata
        .namespace
        .clone()
        .unwrap_or_else(|| namespace.to_owned());
    let id = Id {
        kind,
        namespace: if kind.in_namespaces() { given } else { String::new() },
        name: String::new(),
    };
    let made = store.create(id, serde_json::to_value(object)?, &"admin".into());
    made.map_err(|failure| anyhow::anyhow!("{}", failure.message))?;
    Ok(())
}

/// The calls of all replicas.
fn ours(calls: &Calls) -> Calls {
    calls.filter(|call| call.user.starts_with(ACCOUNT))
}

/// Requests that wrote, a line each.
fn requests(calls: &Calls) -> String {
    let line = |call: &crate::control_plane::Call| {
        format!(
            "{} {} {} {}/{} -> {}\n",
            call.received, call.verb, call.resource, call.namespace, call.name, call.code
        )
    };
    calls.iter().filter(|call| !call.is_read()).map(line).collect()
}
