//! What a model is.

use super::canon::Shared;
use super::mind::Mind;
use super::neighbours::new_claim;
use super::objects::{Dv, Id, Kind, Pod, Role, Size};
use super::people::{new_disk, new_vm};
use super::state::{Replica, State};
use crate::world::objects::{DvPhase, PodPhase, Source};
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

/// Which disturbances may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct May {
    /// Crashes, requests without answer, refused or arriving late, watches that stall for an hour.
    pub fail_us: bool,
    /// A node given back, a scheduler that refuses or stops half-way.
    pub fail_storage: bool,
    /// VMs started and stopped.
    pub run: bool,
    /// VMs deleted and created again.
    pub recreate: bool,
    /// The same with DataVolumes, and with claims alone.
    pub swap_disks: bool,
    /// Node selector and opt-in edited.
    pub edit: bool,
    /// Our pod deleted or evicted.
    pub take_pods: bool,
    /// The instancetype edited.
    pub resize: bool,
    /// A worker of CDI fails: for good, so that the DataVolume is Failed, or so that CDI makes another.
    pub fail_workers: bool,
}

/// Everything that is not people's doing.
pub const FAULTS: May = May {
    fail_us: true,
    fail_storage: true,
    ..NOTHING
};

/// No disturbance.
pub const NOTHING: May = May {
    fail_us: false,
    fail_storage: false,
    run: false,
    recreate: false,
    swap_disks: false,
    edit: false,
    take_pods: false,
    resize: false,
    fail_workers: false,
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
    /// Which.
    pub may: May,
    /// Required anti-affinity keeps the VMs on different nodes. It can't where we, the scheduler or the API server are
    /// slower than a pod's whole life, so here nobody is: a binding cycle ends with its pod, what we are about to do is
    /// done before a pod of ours has run and before a node is given back, and a request without an answer has arrived at once or never will.
    pub apart: bool,
    /// The disks wait for a consumer at first, and are filled as soon as they are bound: what CDI does before and between
    /// is explored by models with fewer VMs.
    pub swift: bool,
    /// A pod that is not ours has the name of ours.
    pub lookalike: bool,
    /// Pods of ours may end at any time before they have a node, as often as there are some.
    pub frail: bool,
    /// The VMs name an instancetype.
    pub instancetype: bool,
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
            may: May::default(),
            apart: false,
            swift: false,
            lookalike: false,
            frail: false,
            instancetype: false,
            settings: Settings::default(),
        }
    }

    /// The same with these disturbances.
    #[must_use]
    pub fn may(self, may: May) -> Self {
        Self { may, ..self }
    }

    /// The same with replicas that are at most so many versions of a kind behind.
    #[must_use]
    pub fn lag(self, lag: u8) -> Self {
        Self { lag, ..self }
    }

    /// Whether two VMs boot from one disk.
    #[must_use]
    pub fn shares(&self) -> bool {
        let users = |disk| self.vms.iter().filter(|vm| vm.contains(&disk)).count();
        (0..self.disks.len()).any(|disk| users(disk) > 1)
    }

    /// The first state.
    pub(super) fn start(&self) -> State {
        let strategy = if self.started {
            RunStrategy::Always
        } else {
            RunStrategy::Halted
        };
        let vms = (0..self.vms.len()).map(|slot| Some(new_vm(Id::new(Kind::Vm, slot, 0), strategy, Some(true))));
        let disks = self.disks.iter().enumerate();
        let dvs = disks.map(|(slot, disk)| {
            let new = new_disk(Id::new(Kind::Dv, slot, 0));
            let waiting = Dv {
                populator: Some(disk.populator),
                phase: if disk.populator {
                    DvPhase::PendingPopulation
                } else {
                    DvPhase::WaitForFirstConsumer
                },
                ..new.clone()
            };
            (!disk.late).then_some(if self.swift { waiting } else { new })
        });
        let claims = (0..2 * self.disks.len()).map(|slot| {
            let (id, owner) = (Id::new(Kind::Claim, slot, 0), Id::new(Kind::Dv, slot / 2, 0));
            let disk = self.disks[slot / 2];
            (self.swift && slot % 2 == 0 && !disk.late).then(|| new_claim(id, owner, disk.populator, None))
        });
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
            standings: vec![None; self.vms.len()],
        };
        let mut state = State {
            now: 0,
            vms: Shared::new(vms.collect()),
            vmis: Shared::new(vec![None; self.vms.len()]),
            dvs: Shared::new(dvs.collect()),
            claims: Shared::new(claims.collect()),
            pods: Shared::new(self.lookalike.then_some(lookalike).into_iter().collect()),
            volumes: Shared::new(Vec::new()),
            bindings: Shared::new(Vec::new()),
            awaited: (0..self.disks.len())
                .filter(|disk| self.disks[*disk].late)
                .fold(0, |bits, disk| bits | 1 << disk),
            size: Size::default(),
            history: Default::default(),
            replicas: Shared::new(vec![replica; self.replicas]),
            strays: Shared::new(Vec::new()),
            budget: self.budget,
        };
        state.publish(self.lag, None);
        state
    }
}
