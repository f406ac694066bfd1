//! The table of models.
//!
//! | World | `cargo test` | CI |
//! |---|---|---|
//! | one disk, legacy and populator path: faults of ours and of storage together | 1, each kind alone 2 | 4 |
//! | the same, caches that lag by any amount | 0 | 2 |
//! | an upload | 1 | 3 |
//! | two replicas that both lead, faults of ours: caches on time; one version late | 1 | 2; 0 |
//! | two disks, the second made late, faults | 0 | 1 |
//! | two anti-affine VMs: faults of ours; of storage (edits: `hack/explore.sh`) | 0 | 1 |
//! | two VMs that share a claim: faults, edits | 1 | 2, 1 |
//! | a VM with an instancetype: faults and the instancetype edited; the VM edited | 1 | 2 |
//! | a VM started and stopped, deleted and made again; a disk or claim deleted and made again; edits; our pod taken | 1 | 1 to 2 |
//!
//! Numbers are disturbances. Elsewhere a cache is at most one version of each kind late; in `cargo test` the costliest
//! are on time.

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

/// The models, each of which is explored whole. The largest come first, so that several threads end together.
#[must_use]
pub fn table(extent: Extent) -> Vec<Model> {
    // Disturbances by extent.
    let of = |name: &'static str, disks: &[Disk], budgets: [u8; 4], may: May| {
        let lag = if extent == Extent::Hours { 2 } else { 1 };
        Model::of(name, disks, budgets[extent as usize]).may(may).lag(lag)
    };
    // The costly ones: in the shortest table nothing is seen late, though turns still take their time.
    let prompt = |model: Model| match extent {
        Extent::Test => model.lag(0),
        _ => model,
    };
    let any_lag = |model: Model| model.lag(u8::MAX);
    let upload = Disk {
        source: Source::Upload,
        ..LEGACY
    };
    let late = |disk: Disk| Disk { late: true, ..disk };
    let apart = |name: &'static str, disk: Disk, budgets: [u8; 4], may: May| Model {
        vms: vec![vec![0], vec![1]],
        nodes: 2,
        apart: true,
        swift: true,
        ..of(name, &[disk, disk], budgets, may)
    };
    let two = |name: &'static str, disk: Disk, budgets: [u8; 4]| Model {
        replicas: 2,
        ..of(name, &[disk], budgets, OURS)
    };
    let sharing = |name: &'static str, disk: Disk, budgets: [u8; 4], may: May| Model {
        vms: vec![vec![0], vec![0]],
        ..of(name, &[disk], budgets, may)
    };
    let sized = |name: &'static str, budgets: [u8; 4], may: May| Model {
        instancetype: true,
        ..of(name, &[LEGACY], budgets, may)
    };
    let mut models = vec![
        prompt(of("a late disk", &[LEGACY, late(LEGACY)], [0, 1, 1, 2], FAULTS)),
        of("one populator disk", &[POPULATOR], [1, 4, 5, 5], FAULTS),
        of("one legacy disk", &[LEGACY], [1, 4, 5, 5], FAULTS),
        apart("two anti-affine VMs, faults of storage", LEGACY, [0, 1, 2, 2], STORAGE),
        any_lag(of("one populator disk, any lag", &[POPULATOR], [0, 2, 3, 3], FAULTS)),
        any_lag(of("one legacy disk, any lag", &[LEGACY], [0, 2, 3, 3], FAULTS)),
        prompt(of(
            "disk or claim deleted and created again",
            &[LEGACY],
            [1, 1, 2, 2],
            SWAP,
        )),
        of("one upload disk", &[upload], [1, 3, 4, 5], FAULTS),
        two("two replicas that both lead, on time", LEGACY, [1, 2, 3, 3]).lag(0),
        sized("a VM with an instancetype", [1, 2, 3, 3], RESIZE),
        sized("a VM with an instancetype, edited", [1, 2, 3, 3], EDIT),
        prompt(sharing("two VMs that share a claim, edited", LEGACY, [1, 1, 2, 2], EDIT)),
        sharing("two VMs that share a claim", LEGACY, [1, 2, 3, 3], FAULTS),
        prompt(of("VM started and stopped", &[LEGACY], [1, 1, 2, 2], RUN)),
        prompt(Model {
            started: true,
            ..of("one legacy disk of a started VM", &[LEGACY], [1, 1, 2, 2], STORAGE)
        }),
        of("VM deleted and created again", &[LEGACY], [1, 1, 2, 2], RECREATE),
        of("placement and opt-in edited", &[LEGACY], [1, 2, 3, 3], EDIT),
        of("our pod deleted or evicted", &[LEGACY], [1, 2, 3, 3], TAKEN),
        Model {
            lookalike: true,
            ..of("somebody else's pod has our name", &[LEGACY], [1, 2, 3, 3], FAULTS)
        },
    ];
    // The populator path of all that is above on the legacy path, and workers that fail.
    let prime_upload = Disk {
        source: Source::Upload,
        ..POPULATOR
    };
    models.extend([
        of("one legacy disk, workers fail", &[LEGACY], [1, 2, 3, 3], WORKERS),
        of("one legacy disk, workers and others fail", &[LEGACY], [1, 2, 3, 3], May { fail_workers: true, ..FAULTS }),
        of("one populator disk, workers fail", &[POPULATOR], [1, 2, 3, 3], WORKERS),
        of("one populator disk, workers and others fail", &[POPULATOR], [1, 2, 3, 3], May { fail_workers: true, ..FAULTS }),
        of("a disk made again after its import has failed", &[LEGACY], [1, 2, 2, 2], May { fail_workers: true, ..SWAP }),
        of("a populator disk made again after its import has failed", &[POPULATOR], [1, 2, 2, 2], May { fail_workers: true, ..SWAP }),
        prompt(of("a late disk, workers fail", &[LEGACY, late(LEGACY)], [0, 1, 1, 2], WORKERS)),
        prompt(of("a late populator disk, workers fail", &[POPULATOR, late(POPULATOR)], [0, 1, 1, 2], WORKERS)),
        of("one populator upload disk", &[prime_upload], [1, 2, 3, 3], FAULTS),
        prompt(of("a late populator disk", &[POPULATOR, late(POPULATOR)], [0, 1, 1, 2], FAULTS)),
        two("two replicas that both lead, populator", POPULATOR, [1, 1, 2, 2]).lag(0),
        sharing("two VMs that share a populator claim", POPULATOR, [1, 1, 2, 2], FAULTS),
        prompt(sharing("two VMs that share a populator claim, edited", POPULATOR, [1, 1, 2, 2], EDIT)),
        apart("two anti-affine VMs, populator, faults of storage", POPULATOR, [0, 1, 1, 2], STORAGE),
        apart("two anti-affine VMs, populator, faults of ours", POPULATOR, [0, 1, 1, 2], OURS),
        prompt(of("VM started and stopped, populator", &[POPULATOR], [1, 1, 2, 2], RUN)),
        of("VM deleted and created again, populator", &[POPULATOR], [1, 1, 2, 2], RECREATE),
        prompt(of("populator disk or claim deleted and created again", &[POPULATOR], [1, 1, 2, 2], SWAP)),
        of("placement and opt-in edited, populator", &[POPULATOR], [1, 1, 2, 2], EDIT),
        of("our pod deleted or evicted, populator", &[POPULATOR], [1, 1, 2, 2], TAKEN),
    ]);
    if extent == Extent::Test {
        // Elsewhere the models of both are larger than these.
        models.extend([
            of("one legacy disk, faults of ours", &[LEGACY], [2; 4], OURS),
            of("one legacy disk, faults of storage", &[LEGACY], [2; 4], STORAGE),
            of("one populator disk, faults of ours", &[POPULATOR], [2; 4], OURS),
            of("one populator disk, faults of storage", &[POPULATOR], [2; 4], STORAGE),
        ]);
    } else {
        // Without disturbances it is the other model of two such VMs.
        models.insert(0, apart("two anti-affine VMs, faults of ours", LEGACY, [0, 1, 1, 2], OURS));
        // A fault is too much for CI: it is not through after two minutes of a core.
        models.push(two("two replicas that both lead", LEGACY, [0, 0, 1, 2]));
    }
    if matches!(extent, Extent::Long | Extent::Hours) {
        models.insert(0, apart("two anti-affine VMs, edited", LEGACY, [0, 0, 1, 2], EDIT));
    }
    models
}
