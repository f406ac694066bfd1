//! What people, failures and administrators do to a world.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use first_consumer::decide::Settings;
use serde_json::{Value, json};

use super::Story;
use super::plan::{Disk, Plan};
use crate::fake_api::rules::deleting;
use crate::fake_api::scene::Scene;
use crate::fake_api::write::{Deletion, Write};
use crate::fake_api::{Id, Rates, Store};
use crate::stand_in::Fault;
use crate::stand_in::kind::Kind;
use crate::world::user::{ToDisk, ToVm, Vm, to_disk, to_vm};
use crate::world::virt_controller::vm::RunStrategy;

/// Does things.
pub struct Acts<'a> {
    plan: &'a Plan,
    story: &'a Story,
    rng: Rng,
    people: Arc<str>,
}

impl<'a> Acts<'a> {
    /// What is drawn from this generator.
    #[must_use]
    pub fn new(plan: &'a Plan, story: &'a Story, rng: Rng) -> Self {
        Self {
            plan,
            story,
            rng,
            people: "people".into(),
        }
    }

    /// How long until the next act.
    pub fn pause(&mut self) -> Duration {
        let most = [50, 2_000, 30_000][self.rng.usize(0..3)];
        Duration::from_millis(self.rng.u64(0..most))
    }

    /// The VMs are created.
    pub fn begin(&mut self, scene: &Scene) {
        let mut store = scene.api.store();
        for machine in &self.plan.machines {
            self.create(&mut store, Kind::VirtualMachine, machine.object());
            // Without virt-controller somebody else has to.
            let made = |disk: &&Disk| !self.plan.virt_controller && !disk.late;
            for disk in machine.disks.iter().filter(made) {
                self.create(&mut store, Kind::DataVolume, disk.data_volume());
            }
        }
    }

    /// One act.
    pub async fn act(&mut self, scene: &mut Scene, settings: &Settings) {
        match self.rng.u8(0..12) {
            0..=3 => self.to_a_vm(&mut scene.api.store()),
            4 | 5 => self.to_a_disk(&mut scene.api.store()),
            6 => self.to_our_pod(&mut scene.api.store()),
            7 => self.crash(scene, settings),
            8 => {
                self.say(scene, || "another replica of ours starts, and leads as well".to_owned());
                scene.begin_controller(settings.clone());
            }
            9 => {
                self.say(scene, || "the API server forgets what was".to_owned());
                scene.api.store().forget();
            }
            10 => self.provisioner(scene),
            _ => {
                self.say(scene, || "new pods are refused for a while".to_owned());
                scene
                    .api
                    .admission(Some(Box::new(|_| Some("exceeded quota: small".to_owned()))));
                scene.advance(self.pause()).await;
                scene.api.admission(None);
            }
        }
    }

    /// All faults cease, what is late comes, and one of our replicas runs.
    pub fn cease(&mut self, scene: &mut Scene, settings: &Settings) {
        scene.api.fail(Rates::default(), &[]);
        for disk in self.plan.machines.iter().flat_map(|machine| &machine.disks) {
            scene.stand_ins.provisioner_fault("ns", &disk.name, None);
            let mut store = scene.api.store();
            if disk.late && store.get(Kind::DataVolume, "ns", &disk.name).is_none() {
                self.create(&mut store, Kind::DataVolume, disk.data_volume());
            }
        }
        if scene.running() == 0 {
            scene.begin_controller(settings.clone());
        }
    }

    fn say(&self, scene: &Scene, line: impl FnOnce() -> String) {
        self.story.say(scene.api.clock().now(), line);
    }

    fn create(&self, store: &mut Store, kind: Kind, body: Value) {
        let id = Id {
            kind,
            namespace: "ns".to_owned(),
            name: String::new(),
        };
        // There already: then nothing is done.
        let _ = store.create(id, body, &self.people);
    }

    fn merge(&self, store: &mut Store, kind: Kind, name: &str, status: bool, patch: &Value) {
        let write = Write {
            id: id(kind, name),
            status,
            user: &self.people,
        };
        // Gone already: then nothing is done.
        let _ = store.merge(&write, patch);
    }

    fn delete(&self, store: &mut Store, kind: Kind, name: &str) {
        // Gone already: then nothing is done.
        let _ = store.delete(&id(kind, name), &Deletion::default(), &self.people);
    }

    fn to_a_vm(&mut self, store: &mut Store) {
        let machine = &self.plan.machines[self.rng.usize(0..self.plan.machines.len())];
        let name = machine.name.as_str();
        let seen = store.get(Kind::VirtualMachine, "ns", name).map(|vm| Vm {
            strategy: if vm["spec"]["runStrategy"] == "Halted" {
                RunStrategy::Halted
            } else {
                RunStrategy::Always
            },
            asks: match vm["metadata"]["annotations"][ASKS].as_str() {
                Some("true") => Some(true),
                Some(_) => Some(false),
                None => None,
            },
            deleting: deleting(vm),
        });
        let possible = to_vm(seen);
        if possible.is_empty() {
            return;
        }
        let act = possible[self.rng.usize(0..possible.len())];
        self.story
            .say(store.clock.now(), || format!("somebody does to VM {name}: {act:?}"));
        let kind = Kind::VirtualMachine;
        match act {
            ToVm::Run(strategy) => {
                let patch = json!({"spec": {"runStrategy": strategy.as_str()}});
                self.merge(store, kind, name, false, &patch);
            }
            ToVm::Ask(asks) => {
                let asks = asks.map(|asks| asks.to_string());
                self.merge(
                    store,
                    kind,
                    name,
                    false,
                    &json!({"metadata": {"annotations": {ASKS: asks}}}),
                );
            }
            ToVm::EditPlacement => {
                let zone = [Some("zone-a"), Some("zone-b"), Some("zone-x"), None][self.rng.usize(0..4)];
                let selector = json!({"topology.kubernetes.io/zone": zone});
                let patch = json!({"spec": {"template": {"spec": {"nodeSelector": selector}}}});
                self.merge(store, kind, name, false, &patch);
            }
            ToVm::Delete => self.delete(store, kind, name),
            ToVm::Recreate => self.create(store, kind, machine.object()),
        }
    }

    fn to_a_disk(&mut self, store: &mut Store) {
        let disks: Vec<&Disk> = self.plan.machines.iter().flat_map(|machine| &machine.disks).collect();
        let disk = disks[self.rng.usize(0..disks.len())];
        let there = store.get(Kind::DataVolume, "ns", &disk.name).is_some();
        let claim = store
            .get(Kind::Claim, "ns", &disk.name)
            .is_some_and(|claim| !deleting(claim));
        let possible = to_disk(there, claim);
        let act = possible[self.rng.usize(0..possible.len())];
        self.story.say(store.clock.now(), || {
            format!("somebody does to disk {}: {act:?}", disk.name)
        });
        match act {
            ToDisk::Create => self.create(store, Kind::DataVolume, disk.data_volume()),
            ToDisk::Delete => self.delete(store, Kind::DataVolume, &disk.name),
            ToDisk::DeleteClaim => self.delete(store, Kind::Claim, &disk.name),
        }
    }

    fn to_our_pod(&mut self, store: &mut Store) {
        let own = store
            .list(Kind::Pod, "ns", None)
            .find(|(_, pod)| !pod["metadata"]["labels"][MANAGED].is_null());
        let Some(name) = own.map(|(id, _)| id.name.clone()) else {
            return;
        };
        if self.rng.bool() {
            self.story
                .say(store.clock.now(), || format!("somebody deletes pod {name}"));
            self.delete(store, Kind::Pod, &name);
        } else {
            self.story.say(store.clock.now(), || format!("pod {name} fails"));
            self.merge(store, Kind::Pod, &name, true, &json!({"status": {"phase": "Failed"}}));
        }
    }

    fn crash(&mut self, scene: &mut Scene, settings: &Settings) {
        self.say(scene, || "our oldest replica crashes".to_owned());
        // None runs: then a new one comes all the same.
        let _ = scene.kill_controller();
        if self.rng.u8(0..3) > 0 {
            self.say(scene, || "and comes again".to_owned());
            scene.begin_controller(settings.clone());
        }
    }

    fn provisioner(&mut self, scene: &Scene) {
        let disks: Vec<&Disk> = self.plan.machines.iter().flat_map(|machine| &machine.disks).collect();
        let disk = disks[self.rng.usize(0..disks.len())];
        let fault = [Fault::GivesNodeBack, Fault::Fails, Fault::Silent][self.rng.usize(0..3)];
        self.say(scene, || format!("the provisioner of disk {}: {fault:?}", disk.name));
        scene.stand_ins.provisioner_fault("ns", &disk.name, Some(fault));
    }
}

/// The annotation that opts in or out.
pub const ASKS: &str = "first-consumer.kubevirt.io/provision";

/// The label of our pods.
pub const MANAGED: &str = "first-consumer.kubevirt.io/managed";

fn id(kind: Kind, name: &str) -> Id {
    Id {
        kind,
        namespace: "ns".to_owned(),
        name: name.to_owned(),
    }
}
