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
    let late = Disk { late: true, ..LEGACY };
    let apart = |name: &'static str, budgets: [u8; 4], may: May| Model {
        vms: vec![vec![0], vec![1]],
        nodes: 2,
        apart: true,
        swift: true,
        ..of(name, &[LEGACY, LEGACY], budgets, may)
    };
    let two = |name: &'static str, budgets: [u8; 4]| Model {
        replicas: 2,
        ..of(name, &[LEGACY], budgets, OURS)
    };
    let sharing = |name: &'static str, budgets: [u8; 4], may: May| Model {
        vms: vec![vec![0], vec![0]],
        ..of(name, &[LEGACY], budgets, may)
    };
    let sized = |name: &'static str, budgets: [u8; 4], may: May| Model {
        instancetype: true,
        ..of(name, &[LEGACY], budgets, may)
    };
    let mut models = vec![
        prompt(of("a late disk", &[LEGACY, late], [0, 1, 1, 2], FAULTS)),
        of("one populator disk", &[POPULATOR], [1, 4, 5, 5], FAULTS),
        of("one legacy disk", &[LEGACY], [1, 4, 5, 5], FAULTS),
        apart("two anti-affine VMs, faults of storage", [0, 1, 2, 2], STORAGE),
        any_lag(of("one populator disk, any lag", &[POPULATOR], [0, 2, 3, 3], FAULTS)),
        any_lag(of("one legacy disk, any lag", &[LEGACY], [0, 2, 3, 3], FAULTS)),
        prompt(of(
            "disk or claim deleted and created again",
            &[LEGACY],
            [1, 1, 2, 2],
            SWAP,
        )),
        of("one upload disk", &[upload], [1, 3, 4, 5], FAULTS),
        two("two replicas that both lead, on time", [1, 2, 3, 3]).lag(0),
        sized("a VM with an instancetype", [1, 2, 3, 3], RESIZE),
        sized("a VM with an instancetype, edited", [1, 2, 3, 3], EDIT),
        prompt(sharing("two VMs that share a claim, edited", [1, 1, 2, 2], EDIT)),
        sharing("two VMs that share a claim", [1, 2, 3, 3], FAULTS),
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
        models.insert(0, apart("two anti-affine VMs, faults of ours", [0, 1, 1, 2], OURS));
        // A fault is too much for CI: it is not through after two minutes of a core.
        models.push(two("two replicas that both lead", [0, 0, 1, 2]));
    }
    if matches!(extent, Extent::Long | Extent::Hours) {
        models.insert(0, apart("two anti-affine VMs, edited", [0, 0, 1, 2], EDIT));
    }
    models
}
