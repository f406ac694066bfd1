//! A small random world.

use std::fmt;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::cluster::ACCOUNT;
use crate::fake_api::Rates;
use crate::objects::{LOCAL_PATH, Vm, data_volume};
use crate::stand_in::CSI_CLASS;

/// Neighbours whose requests may fail, too.
const NEIGHBOURS: [&str; 5] = [
    "kube-scheduler",
    "cdi",
    "virt-controller",
    "csi-provisioner",
    "local-path-provisioner",
];

/// A disk.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Its name.
    pub name: String,
    class: &'static str,
    source: Value,
    /// No template of the VM makes it: somebody does, later.
    pub late: bool,
}

impl Disk {
    /// Its DataVolume.
    #[must_use]
    pub fn data_volume(&self) -> Value {
        let mut made = data_volume(&self.name, self.class);
        made["spec"]["source"] = self.source.clone();
        made
    }
}

/// A VM.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its name.
    pub name: String,
    started: bool,
    asks: Option<bool>,
    /// Its own disks.
    pub disks: Vec<Disk>,
    /// A disk of another VM.
    shared: Option<String>,
    /// Members of one group keep apart.
    apart: bool,
}

impl Machine {
    /// Its VirtualMachine.
    #[must_use]
    pub fn object(&self) -> Value {
        let mut vm = if self.started {
            Vm::started(&self.name)
        } else {
            Vm::halted(&self.name)
        };
        for disk in &self.disks {
            vm = vm.disk(&disk.name, disk.class);
        }
        if let Some(asks) = self.asks {
            vm = vm.provision(if asks { "true" } else { "false" });
        }
        if self.apart {
            vm = vm.label("app", "group").away_from("group", "kubernetes.io/hostname");
        }
        let mut object = vm.object();
        let templates = self.disks.iter().filter(|disk| !disk.late).map(|disk| {
            let made = disk.data_volume();
            json!({"metadata": made["metadata"], "spec": made["spec"]})
        });
        object["spec"]["dataVolumeTemplates"] = templates.collect();
        if let Some(shared) = &self.shared
            && let Some(volumes) = object["spec"]["template"]["spec"]["volumes"].as_array_mut()
        {
            volumes.push(json!({"name": "shared", "dataVolume": {"name": shared}}));
        }
        object
    }
}

/// A world, and what will happen to it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many nodes there are.
    pub nodes: usize,
    /// The VMs.
    pub machines: Vec<Machine>,
    /// virt-controller acts.
    pub virt_controller: bool,
    /// How often requests fail.
    pub rates: Rates,
    /// Whose, besides ours.
    neighbours: Vec<&'static str>,
    /// How many acts disturb it.
    pub acts: u8,
}

impl Plan {
    /// Draws one.
    #[must_use]
    pub fn draw(rng: &mut Rng) -> Self {
        let machines = ["a", "b", "c"].into_iter().take(rng.usize(1..=3));
        let mut machines: Vec<_> = machines.map(|name| machine(rng, name)).collect();
        if machines.len() > 1 && rng.u8(0..8) == 0 {
            machines[1].shared = machines[0].disks.first().map(|disk| disk.name.clone());
        }
        if rng.u8(0..8) == 0 {
            for machine in &mut machines {
                machine.apart = true;
            }
        }
        let mut rate = || [0, 0, 2, 5, 15][rng.usize(0..5)];
        let rates = Rates {
            refused: rate(),
            broken: rate(),
            slow: rate(),
            watches: [0, 10, 50, 100][usize::from(rate() % 4)],
            expired: rate() / 5,
            ..Rates::default()
        };
        let failing = rng.u8(0..4) == 0;
        let neighbours = NEIGHBOURS.into_iter().filter(|_| failing && rng.bool()).collect();
        Self {
            nodes: rng.usize(machines.len()..=4),
            machines,
            virt_controller: rng.u8(0..5) > 0,
            rates,
            neighbours,
            acts: rng.u8(0..8),
        }
    }

    /// Whose requests may fail.
    #[must_use]
    pub fn failing(&self) -> Vec<&'static str> {
        let mut users = self.neighbours.clone();
        users.push(ACCOUNT);
        users
    }
}

fn machine(rng: &mut Rng, name: &str) -> Machine {
    let disk = |number| Disk {
        name: format!("{name}-{number}"),
        class: if rng.bool() { LOCAL_PATH } else { CSI_CLASS },
        source: match rng.u8(0..24) {
            0..4 => json!({"blank": {}}),
            4..8 => json!({"upload": {}}),
            // Its import starts again and again, or fails for good.
            8 => json!({"http": {"url": "http://images.example/crashing.img"}}),
            9 => json!({"http": {"url": "http://images.example/wrong.img"}}),
            _ => json!({"http": {"url": "http://images.example/disk.img"}}),
        },
        late: rng.u8(0..6) == 0,
    };
    let disks = (1..=2).map(disk).collect::<Vec<_>>();
    let one = rng.bool();
    Machine {
        name: name.to_owned(),
        disks: disks.into_iter().take(if one { 1 } else { 2 }).collect(),
        started: rng.u8(0..3) == 0,
        asks: [Some(true), Some(true), Some(true), None, Some(false)][rng.usize(0..5)],
        shared: None,
        apart: false,
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} nodes; virt-controller {}; ",
            self.nodes,
            if self.virt_controller { "on" } else { "off" }
        )?;
        for machine in &self.machines {
            let Machine {
                name,
                started,
                asks,
                disks,
                shared,
                apart,
            } = machine;
            write!(
                f,
                "VM {name} ({}, asks {asks:?}, ",
                if *started { "started" } else { "halted" }
            )?;
            for disk in disks {
                let source = disk.source.as_object().and_then(|source| source.keys().next());
                let (source, late) = (source.map_or("", String::as_str), if disk.late { ", late" } else { "" });
                write!(f, "{} [{} {source}{late}] ", disk.name, disk.class)?;
            }
            write!(f, "shared {shared:?}, apart {apart}); ")?;
        }
        write!(f, "faults of {:?}: {:?}", self.failing(), self.rates)
    }
}
