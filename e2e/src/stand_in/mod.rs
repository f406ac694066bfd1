//! Drivers of the models in [`crate::world`] on a real API server: stand-ins for CDI, virt-controller and a CSI-like
//! provisioner, each with its own client and so its own rights (`e2e/src/control_plane/yaml/rbac.yaml`); and for virt-api.
//!
//! ```text
//! watches --> store --> wake-ups --> queue --> view --> model --> writes --> API server (and store)
//! ```
//!
//! What is left out, beside what the models leave out: services and secrets of uploads, `Volume*Source` objects, the
//! controllers of DataSources and snapshots, the removal of the claim that a snapshot was restored to, finalizers of VMs
//! and VMIs, KubeVirt's resource sums.

mod cdi;
mod engine;
mod events;
mod hand;
mod instancetypes;
pub(crate) mod kind;
mod plane;
mod provisioner;
mod read;
mod store;
mod switch;
mod virt;
mod virt_api;

pub use cdi::{RUNS_FOR, WAITS_FOR_DATA};
pub use provisioner::FOREIGN_POPULATOR;
pub use virt::PLACEMENT_ANNOTATION;

pub use crate::world::provisioner::Fault;

use anyhow::{Context as _, Result};
use engine::{Change, Controller};
use first_consumer::clock::Clock;
use futures::future::BoxFuture;
use hand::Hand;
use instancetypes::Instancetypes;
use kind::Kind;
use kube::Client;
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use switch::Switch;
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;
use virt_api::VirtApi;

/// Name of the CSI-like provisioner and of its `CSIDriver` object (`e2e/stand_in_storage.yaml`).
pub const CSI_DRIVER: &str = "local.csi.example";
/// The class of the populator path.
pub const CSI_CLASS: &str = "local-csi";
/// Name of the CSI-like provisioner whose volumes can be reached from a whole zone.
pub const ZONAL_DRIVER: &str = "zonal.csi.example";
/// Its class.
pub const ZONAL_CLASS: &str = "zonal-csi";

/// Each provisioner with the node label that tells from where its volumes can be reached.
const DRIVERS: [(&str, &str); 2] = [
    (CSI_DRIVER, "kubernetes.io/hostname"),
    (ZONAL_DRIVER, "topology.kubernetes.io/zone"),
];

/// The provisioner of the legacy path, with its label.
const LOCAL_PATH: (&str, &str) = ("rancher.io/local-path", "kubernetes.io/hostname");

/// How the stand-ins begin.
#[derive(Clone, Debug)]
pub struct Options {
    /// The time of day.
    pub clock: Clock,
    /// virt-controller acts; later see [`StandIns::virt_controller`].
    pub virt_controller: bool,
    /// How long the CSI-like driver works on a volume.
    pub provisioning_takes: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Clock::default(),
            virt_controller: true,
            provisioning_takes: Duration::from_secs(1),
        }
    }
}

/// The running stand-ins. Dropping them stops them, too.
pub struct StandIns {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    gate: Arc<Switch>,
    virt_controller: Group,
    instancetypes: Arc<Instancetypes>,
    virt_api: Arc<VirtApi>,
    faults: Arc<provisioner::Faults>,
}

impl StandIns {
    /// Starts all and returns when every watch has listed once. Fails if that takes more than a minute, which
    /// means missing rights or missing CRDs.
    pub async fn start(cdi: Client, virt_controller: Client, provisioner: Client, options: Options) -> Result<Self> {
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let faults = Arc::<provisioner::Faults>::default();

        let mut group = Group::new(cdi, &options.clock, &mut tasks, &stop);
        let hand = group.hand.clone();
        let gate = Arc::new(Switch::new(true));
        group.add(
            &mut tasks,
            &stop,
            cdi::DataVolumes {
                hand: hand.clone(),
                gate: gate.clone(),
            },
        );
        group.add(
            &mut tasks,
            &stop,
            cdi::Workers {
                hand: hand.clone(),
                gate: gate.clone(),
            },
        );
        group.add(&mut tasks, &stop, cdi::Readers { hand: hand.clone() });
        group.add(&mut tasks, &stop, cdi::Populators { hand: hand.clone() });
        group.add(&mut tasks, &stop, cdi::ClonePopulators { hand });
        group
            .watch(&mut tasks, &stop, &cdi::KINDS, true)
            .await
            .context("CDI stand-in")?;

        let mut group = Group::new(provisioner, &options.clock, &mut tasks, &stop);
        for driver in DRIVERS {
            group.provision(&mut tasks, &stop, driver, options.provisioning_takes, &faults);
        }
        group
            .watch(&mut tasks, &stop, &provisioner::KINDS, true)
            .await
            .context("CSI provisioner stand-in")?;

        let instancetypes = Arc::<Instancetypes>::default();
        let virt_api = Arc::new(VirtApi {
            client: virt_controller.clone(),
            instancetypes: instancetypes.clone(),
            switch: Switch::new(true),
        });

        let mut group = Group::new(virt_controller, &options.clock, &mut tasks, &stop);
        let hand = group.hand.clone();
        let vms = virt::Vms {
            hand: hand.clone(),
            instancetypes: instancetypes.clone(),
        };
        group.add(&mut tasks, &stop, vms);
        group.add(&mut tasks, &stop, virt::Vmis { hand });
        group
            .watch(&mut tasks, &stop, &virt::KINDS, options.virt_controller)
            .await
            .context("virt-controller stand-in")?;

        Ok(Self {
            stop,
            tasks,
            gate,
            virt_controller: group,
            instancetypes,
            virt_api,
            faults,
        })
    }

    /// Switches virt-controller on or off, everywhere (`None`) or for one namespace, whose own setting wins. Switched
    /// on, it looks at everything again.
    pub fn virt_controller(&self, namespace: Option<&str>, on: bool) {
        self.virt_controller.switch.set(namespace, on);
        if on {
            self.virt_controller.resync(&virt::KINDS);
        }
    }

    /// Switches CDI's gate `HonorWaitForFirstConsumer` for one namespace, which the real CDI has for all alike. Like there,
    /// nobody looks again because of it.
    pub fn honor_late_binding(&self, namespace: &str, on: bool) {
        self.gate.set(Some(namespace), on);
    }

    /// Plays, too, what only a real control plane brings along: scheduler, PV controller, kubelets (which share the
    /// controller manager's watches) and local-path-provisioner.
    pub async fn play_control_plane(
        &mut self,
        scheduler: Client,
        manager: Client,
        local_path: Client,
        options: &Options,
    ) -> Result<()> {
        let (tasks, stop, clock) = (&mut self.tasks, &self.stop, &options.clock);
        let mut group = Group::new(scheduler, clock, tasks, stop);
        let hand = group.hand.clone();
        group.add(tasks, stop, plane::Scheduler::new(hand));
        group.watch(tasks, stop, &plane::KINDS, true).await?;

        let mut group = Group::new(manager, clock, tasks, stop);
        let hand = group.hand.clone();
        group.add(tasks, stop, plane::Binder { hand: hand.clone() });
        group.add(tasks, stop, plane::Volumes { hand: hand.clone() });
        group.add(tasks, stop, plane::Kubelets::new(hand));
        group.watch(tasks, stop, &plane::KINDS, true).await?;

        let mut group = Group::new(local_path, clock, tasks, stop);
        group.provision(tasks, stop, LOCAL_PATH, options.provisioning_takes, &self.faults);
        group.watch(tasks, stop, &provisioner::KINDS, true).await
    }

    /// Serves virt-api on a port of this machine, and returns the objects through which kube-apiserver finds it.
    pub async fn serve_virt_api(&mut self) -> Result<String> {
        let api = Arc::clone(&self.virt_api);
        let port = api.serve(&mut self.tasks, self.stop.clone()).await?;
        Ok(virt_api::manifests(port))
    }

    /// What virt-api makes of `expand-spec` of a VM: HTTP status and body.
    pub fn expand(&self) -> impl Fn(String, String) -> BoxFuture<'static, (u16, Value)> + Send + Sync + use<> {
        let api = Arc::clone(&self.virt_api);
        move |namespace, name| {
            let api = Arc::clone(&api);
            Box::pin(async move { api.expand(&namespace, &name).await })
        }
    }

    /// Switches virt-api on or off, everywhere (`None`) or for one namespace, whose own setting wins.
    pub fn virt_api(&self, namespace: Option<&str>, on: bool) {
        self.virt_api.switch.set(namespace, on);
    }

    /// Sets the fields of a VMI spec that an instancetype or preference of this name brings.
    pub fn instancetype(&self, namespace: &str, name: &str, fields: Value) {
        self.instancetypes.set(namespace, name, fields);
    }

    /// Switches a fault of the CSI-like provisioner on or off for a claim and for its prime.
    pub fn provisioner_fault(&self, namespace: &str, claim: &str, fault: Option<Fault>) {
        self.faults.set(namespace, claim, fault);
    }

    /// Stops everything and waits for it.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Drop for StandIns {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Controllers that share a client, a store, their watches and a switch.
struct Group {
    hand: Arc<Hand>,
    switch: Arc<Switch>,
    controllers: Vec<mpsc::UnboundedSender<Change>>,
}

impl Group {
    fn new(client: Client, clock: &Clock, tasks: &mut JoinSet<()>, stop: &CancellationToken) -> Self {
        Self {
            hand: Arc::new(Hand::new(client, clock, tasks, stop)),
            switch: Arc::new(Switch::new(false)),
            controllers: Vec::new(),
        }
    }

    fn add(&mut self, tasks: &mut JoinSet<()>, stop: &CancellationToken, controller: impl Controller) {
        let (sender, changes) = mpsc::unbounded_channel();
        self.controllers.push(sender);
        tasks.spawn(engine::run(controller, changes, self.switch.clone(), stop.clone()));
    }

    /// A provisioner and what deletes its volumes.
    fn provision(
        &mut self,
        tasks: &mut JoinSet<()>,
        stop: &CancellationToken,
        (driver, topology): (&'static str, &'static str),
        takes: Duration,
        faults: &Arc<provisioner::Faults>,
    ) {
        let hand = self.hand.clone();
        let provisioner = provisioner::Provisioner::new(hand.clone(), (driver, topology), takes, faults.clone());
        self.add(tasks, stop, provisioner);
        self.add(tasks, stop, provisioner::Reclaimer { hand, driver });
    }

    async fn watch(&self, tasks: &mut JoinSet<()>, stop: &CancellationToken, kinds: &[Kind], on: bool) -> Result<()> {
        let (listed, mut lists) = mpsc::channel(kinds.len());
        for kind in kinds {
            let watch = engine::watch(self.hand.clone(), *kind, self.controllers.clone(), listed.clone());
            let stop = stop.clone();
            tasks.spawn(async move {
                stop.run_until_cancelled(watch).await;
            });
        }
        drop(listed);
        let mut missing: Vec<_> = kinds.to_vec();
        let all = async {
            while !missing.is_empty() {
                let Some(kind) = lists.recv().await else { return };
                missing.retain(|waiting| *waiting != kind);
            }
        };
        let done = timeout(Duration::from_mins(3), all).await;
        done.with_context(|| format!("no list of {missing:?}: missing rights or CRDs?"))?;
        // Nothing is decided before everything was listed once.
        self.switch.set(None, on);
        self.resync(kinds);
        Ok(())
    }

    fn resync(&self, kinds: &[Kind]) {
        for kind in kinds {
            for object in self.hand.store.all(*kind) {
                for controller in &self.controllers {
                    // A controller that has stopped needs no changes.
                    let _ = controller.send(Change {
                        kind: *kind,
                        object: object.clone(),
                    });
                }
            }
        }
    }
}
