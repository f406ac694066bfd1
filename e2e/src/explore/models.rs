//! The table of models.

use super::people::{new_disk, new_vm};
use super::state::{Id, Kind, Pod, Replica, Role, State};
use super::mind::Mind;
use crate::world::objects::{PodPhase, Source};
use crate::world::virt_controller::vm::RunStrategy;
use first_consumer::decide::Settings;

/// A disk of a model.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    /// Populator path; otherwise legacy.
    pub populator: bool,
    /// Where its data comes from.
    pub source: Source,
    /// It is made after everything else.
    pub late: bool,
}

/// Legacy path.
pub const LEGACY: Disk = Disk {
    populator: false,
    source: Source::Http,
    late: false,
};

/// Populator path.
pub const POPULATOR: Disk = Disk {
    populator: true,
    ..LEGACY
};

/// What is in the world at first, and what may happen to it.
#[derive(Clone, Debug)]
pub struct Model {
    /// What it is called.
    pub name: &'static str,
    /// Disks, each a DataVolume.
    pub disks: Vec<Disk>,
    /// VMs: which disks they boot from. They are halted and have opted in, unless `started`.
    pub vms: Vec<Vec<usize>>,
    /// They are meant to run.
    pub started: bool,
    /// Replicas of ours. Each takes itself for the leader all the time, which is worse than what a Lease allows.
    pub replicas: usize,
    /// Nodes.
    pub nodes: u8,
    /// How many versions of each kind a replica may be behind when it takes a turn.
    pub lag: u8,
    /// How many disturbances may happen.
    pub budget: u8,
    /// Crashes, requests without answer, refusals.
    pub our_faults: bool,
    /// A node given back, a scheduler that refuses or stops half-way.
    pub storage_faults: bool,
    /// Edits of VMs and disks, pods deleted or evicted.
    pub people: bool,
    /// A pod that is not ours has the name of ours.
    pub lookalike: bool,
    /// The flags of ours.
    pub settings: Settings,
}

impl Model {
    /// One halted VM that boots from these disks.
    #[must_use]
    pub fn of(name: &'static str, disks: &[Disk], budget: u8) -> Self {
        Self {
            name,
            disks: disks.to_vec(),
            vms: vec![(0..disks.len()).collect()],
            started: false,
            replicas: 1,
            nodes: 1,
            lag: u8::MAX,
            budget,
            our_faults: true,
            storage_faults: true,
            people: true,
            lookalike: false,
            settings: Settings::default(),
        }
    }

    /// The first state.
    #[must_use]
    pub fn start(&self) -> State {
        let strategy = if self.started { RunStrategy::Always } else { RunStrategy::Halted };
        let vms = (0..self.vms.len()).map(|slot| Some(new_vm(Id::new(Kind::Vm, slot, 0), strategy, Some(true))));
        let disks = self.disks.iter().enumerate();
        let dvs = disks.map(|(slot, disk)| (!disk.late).then(|| new_disk(Id::new(Kind::Dv, slot, 0))));
        let lookalike = Pod {
            id: Id::new(Kind::Pod, 0, 0),
            role: Role::Lookalike { vm: 0 },
            claims: 0,
            phase: PodPhase::Pending,
            node: Some(0),
            unschedulable: false,
            deleting: false,
            body: None,
        };
        let minds = vec![Mind::new(); self.vms.len()];
        let replica = Replica {
            at: Default::default(),
            minds,
        };
        let mut state = State {
            now: 0,
            vms: vms.collect(),
            vmis: vec![None; self.vms.len()],
            dvs: dvs.collect(),
            claims: vec![None; 2 * self.disks.len()],
            pods: self.lookalike.then_some(lookalike).into_iter().collect(),
            volumes: Vec::new(),
            bindings: Vec::new(),
            awaited: (0..self.disks.len()).filter(|disk| self.disks[*disk].late).fold(0, |bits, disk| bits | 1 << disk),
            history: Default::default(),
            replicas: vec![replica; self.replicas],
            strays: Vec::new(),
            budget: self.budget,
        };
        state.publish(self.lag);
        state
    }
}
