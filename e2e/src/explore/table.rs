//! The table of models.
//!
//! | World | `cargo test` | CI |
//! |---|---|---|
//! | one disk, legacy and populator path: faults of ours and of storage together | 1, each kind alone 2 | 4 |
//! | the same, caches that lag by any amount | 0 | 2 |
//! | the same, workers of CDI that fail, too: for good, or so that another is made | 1 | 2 |
//! | an upload | 1 | 3 |
//! | two replicas that both lead, faults of ours: caches on time; one version late | 1 | 2; 0 |
//! | two disks, the second made late: faults; workers that fail | 0 | 1; 1 |
//! | a disk that is made again after its import has failed | | 2 |
//! | two anti-affine VMs: faults of ours; of storage (edits: `hack/explore.sh`) | 0 | 1 |
//! | two VMs that share a claim: faults, edits | 1 | 2, 1 |
//! | pods of ours that fail again and again (no node): faults of ours, edits; (in CI) an instancetype; a shared claim | 0 | 2, 1, 0 |
//! | a VM with an instancetype: faults and the instancetype edited; the VM edited | 1 | 2 |
//! | a VM started and stopped, deleted and made again; a disk or claim deleted and made again; edits; our pod taken | 1 | 1 to 2 |
//! | populator path: an upload; disk, claim or VM deleted and made again; edits; our pod taken | 1 | 1 |
//! | populator path: a late disk; two replicas; a shared claim, faults, edits; a VM started and stopped | | 1 |
//! | populator path: two anti-affine VMs (faults: `hack/explore.sh`) | | 0 |
//!
//! Numbers are disturbances. Elsewhere a cache is at most one version of each kind late; in `cargo test` the costliest
//! are on time, in CI most of those on the populator path and with workers that fail.

use super::models::{Disk, FAULTS, LEGACY, May, Model, NOTHING, POPULATOR};
use crate::world::objects::Source;

const OURS: May = May {
    fail_us: true,
    ..NOTHING
};
const STORAGE: May = May {
    fail_storage: true,
    ..NOTHING
};
const RUN: May = May { run: true, ..NOTHING };
const EDIT: May = May { edit: true, ..NOTHING };
const RESIZE: May = May { resize: true, ..OURS };
const RECREATE: May = May {
    recreate: true,
    ..NOTHING
};
const SWAP: May = May {
    swap_disks: true,
    ..NOTHING
};
const WORKERS: May = May {
    fail_workers: true,
    ..NOTHING
};
const WORKERS_TOO: May = May {
    fail_workers: true,
    ..FAULTS
};
const FAIL_AND_EDIT: May = May { edit: true, ..OURS };
const FAILED_IMPORT: May = May {
    swap_disks: true,
    ..WORKERS
};
const TAKEN: May = May {
    take_pods: true,
    ..NOTHING
};

/// How far the table of models goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Every model with few disturbances, within half a minute on two cores: with every test run.
    Test,
    /// Within five minutes on two cores and 6 GiB: in CI.
    Ci,
    /// The better part of an hour.
    Long,
    /// Hours and many GiB.
    Hours,
}

/// Disturbances by extent.
type Budgets = [u8; 4];

impl Extent {
    fn of(self, name: &'static str, disks: &[Disk], budgets: Budgets, may: May) -> Model {
        let lag = if self == Self::Hours { 2 } else { 1 };
        Model::of(name, disks, budgets[self as usize]).may(may).lag(lag)
    }

    /// Of the costly ones: in the shortest table nothing is seen late, though turns still take their time.
    fn prompt(self, model: Model) -> Model {
        if self == Self::Test { model.lag(0) } else { model }
    }

    /// Also in CI.
    fn mostly_prompt(self, model: Model) -> Model {
        if matches!(self, Self::Test | Self::Ci) {
            model.lag(0)
        } else {
            model
        }
    }

    fn apart(self, name: &'static str, disk: Disk, budgets: Budgets, may: May) -> Model {
        Model {
            vms: vec![vec![0], vec![1]],
            nodes: 2,
            apart: true,
            swift: true,
            ..self.of(name, &[disk, disk], budgets, may)
        }
    }

    /// Without a node and on time: how often pods end is what counts.
    fn frail(self, model: Model) -> Model {
        let model = Model {
            frail: true,
            swift: true,
            nodes: 0,
            ..model
        };
        self.mostly_prompt(model)
    }

    fn two(self, name: &'static str, disk: Disk, budgets: Budgets) -> Model {
        Model {
            replicas: 2,
            ..self.of(name, &[disk], budgets, OURS)
        }
    }

    fn sharing(self, name: &'static str, disk: Disk, budgets: Budgets, may: May) -> Model {
        Model {
            vms: vec![vec![0], vec![0]],
            ..self.of(name, &[disk], budgets, may)
        }
    }

    fn sized(self, name: &'static str, budgets: Budgets, may: May) -> Model {
        Model {
            instancetype: true,
            ..self.of(name, &[LEGACY], budgets, may)
        }
    }
}

fn late(disk: Disk) -> Disk {
    Disk { late: true, ..disk }
}

fn upload(disk: Disk) -> Disk {
    Disk {
        source: Source::Upload,
        ..disk
    }
}

/// The models, each of which is explored whole. The largest come first, so that several threads end together.
#[must_use]
pub fn table(extent: Extent) -> Vec<Model> {
    let of = |name, disks: &[Disk], budgets, may| extent.of(name, disks, budgets, may);
    let any_lag = |model: Model| model.lag(u8::MAX);
    let mut models = vec![
        extent.prompt(of("a late disk", &[LEGACY, late(LEGACY)], [0, 1, 1, 2], FAULTS)),
        of("one populator disk", &[POPULATOR], [1, 4, 5, 5], FAULTS),
        of("one legacy disk", &[LEGACY], [1, 4, 5, 5], FAULTS),
        extent.apart("two anti-affine VMs, faults of storage", LEGACY, [0, 1, 2, 2], STORAGE),
        any_lag(of("one populator disk, any lag", &[POPULATOR], [0, 2, 3, 3], FAULTS)),
        any_lag(of("one legacy disk, any lag", &[LEGACY], [0, 2, 3, 3], FAULTS)),
        extent.prompt(of(
            "disk or claim deleted and created again",
            &[LEGACY],
            [1, 1, 2, 2],
            SWAP,
        )),
        of("one upload disk", &[upload(LEGACY)], [1, 3, 4, 5], FAULTS),
        extent
            .two("two replicas that both lead, on time", LEGACY, [1, 2, 3, 3])
            .lag(0),
        extent.sized("a VM with an instancetype", [1, 2, 3, 3], RESIZE),
        extent.sized("a VM with an instancetype, edited", [1, 2, 3, 3], EDIT),
        extent.prompt(extent.sharing("two VMs that share a claim, edited", LEGACY, [1, 1, 2, 2], EDIT)),
        extent.sharing("two VMs that share a claim", LEGACY, [1, 2, 3, 3], FAULTS),
        extent.prompt(of("VM started and stopped", &[LEGACY], [1, 1, 2, 2], RUN)),
        extent.prompt(Model {
            started: true,
            ..of("one legacy disk of a started VM", &[LEGACY], [1, 1, 2, 2], STORAGE)
        }),
        of("VM deleted and created again", &[LEGACY], [1, 1, 2, 2], RECREATE),
        of("placement and opt-in edited", &[LEGACY], [1, 2, 3, 3], EDIT),
        of("our pod deleted or evicted", &[LEGACY], [1, 2, 3, 3], TAKEN),
        extent.mostly_prompt(of(
            "one legacy disk, workers fail",
            &[LEGACY],
            [1, 2, 3, 3],
            WORKERS_TOO,
        )),
        extent.frail(of(
            "pods of ours fail again and again",
            &[LEGACY],
            [0, 2, 3, 3],
            FAIL_AND_EDIT,
        )),
        Model {
            lookalike: true,
            ..of("somebody else's pod has our name", &[LEGACY], [1, 2, 3, 3], FAULTS)
        },
    ];
    models.extend(on_the_populator_path(extent));
    if extent == Extent::Test {
        // Elsewhere the models of both are larger than these.
        models.extend([
            of("one legacy disk, faults of ours", &[LEGACY], [2; 4], OURS),
            of("one legacy disk, faults of storage", &[LEGACY], [2; 4], STORAGE),
            of("one populator disk, faults of ours", &[POPULATOR], [2; 4], OURS),
            of("one populator disk, faults of storage", &[POPULATOR], [2; 4], STORAGE),
        ]);
        return models;
    }
    models.extend(too_large_for_each_test(extent));
    // Without disturbances it is the other model of two such VMs.
    models.insert(
        0,
        extent.apart("two anti-affine VMs, faults of ours", LEGACY, [0, 1, 1, 2], OURS),
    );
    // A fault is too much for CI: it is not through after two minutes of a core.
    models.push(extent.two("two replicas that both lead", LEGACY, [0, 0, 1, 2]));
    if extent != Extent::Ci {
        models.splice(0..0, too_large_for_ci(extent));
    }
    models
}

/// What is above on the legacy path.
fn on_the_populator_path(extent: Extent) -> Vec<Model> {
    let of = |name, budgets, may| extent.of(name, &[POPULATOR], budgets, may);
    vec![
        extent.of("one populator upload disk", &[upload(POPULATOR)], [1, 1, 3, 4], FAULTS),
        extent.mostly_prompt(of("one populator disk, workers fail", [1, 2, 3, 3], WORKERS_TOO)),
        extent.mostly_prompt(of(
            "populator disk or claim deleted and created again",
            [1, 1, 2, 2],
            SWAP,
        )),
        of(
            "VM of a populator disk deleted and created again",
            [1, 1, 2, 2],
            RECREATE,
        ),
        of(
            "VM of a populator disk, placement and opt-in edited",
            [1, 1, 2, 2],
            EDIT,
        ),
        of(
            "VM of a populator disk, our pod deleted or evicted",
            [1, 1, 2, 2],
            TAKEN,
        ),
    ]
}

fn too_large_for_each_test(extent: Extent) -> Vec<Model> {
    let of = |name, disks: &[Disk], budgets, may| extent.mostly_prompt(extent.of(name, disks, budgets, may));
    let twice = [POPULATOR, late(POPULATOR)];
    vec![
        extent.frail(extent.sized("pods of a VM with an instancetype fail", [0, 1, 1, 2], RESIZE)),
        extent.frail(extent.sharing("pods of two VMs that share a claim fail", LEGACY, [0, 0, 1, 1], OURS)),
        of("a late populator disk", &twice, [0, 1, 1, 2], FAULTS),
        of(
            "a late disk, workers fail",
            &[LEGACY, late(LEGACY)],
            [0, 1, 1, 2],
            WORKERS,
        ),
        of(
            "a disk made again after its import has failed",
            &[LEGACY],
            [0, 2, 2, 2],
            FAILED_IMPORT,
        ),
        extent
            .two("two replicas that both lead, populator disk", POPULATOR, [0, 1, 2, 2])
            .lag(0),
        extent.sharing("two VMs that share a populator claim", POPULATOR, [0, 1, 2, 2], FAULTS),
        extent.mostly_prompt(extent.sharing(
            "two VMs that share a populator claim, edited",
            POPULATOR,
            [0, 1, 2, 2],
            EDIT,
        )),
        of(
            "VM of a populator disk started and stopped",
            &[POPULATOR],
            [0, 1, 2, 2],
            RUN,
        ),
        extent.apart(
            "two anti-affine VMs, populator, faults of storage",
            POPULATOR,
            [0, 0, 1, 2],
            STORAGE,
        ),
    ]
}

fn too_large_for_ci(extent: Extent) -> Vec<Model> {
    let twice = [POPULATOR, late(POPULATOR)];
    vec![
        extent.of("a late populator disk, workers fail", &twice, [0, 0, 1, 2], WORKERS),
        extent.apart("two anti-affine VMs, edited", LEGACY, [0, 0, 1, 2], EDIT),
        extent.apart(
            "two anti-affine VMs, populator, faults of ours",
            POPULATOR,
            [0, 0, 1, 2],
            OURS,
        ),
        extent.of(
            "a populator disk made again after its import has failed",
            &[POPULATOR],
            [0, 0, 2, 2],
            FAILED_IMPORT,
        ),
    ]
}
