//! Drives [`crate::world::virt_controller`].

mod bodies;
mod vm;
mod vmi;

pub use bodies::PLACEMENT_ANNOTATION;
pub use vm::Vms;
pub use vmi::Vmis;

use super::{
    kind::Kind,
    read,
    store::{Key, Store},
};
use crate::world::virt_controller::{Disk, Disks};

/// Kinds that virt-controller watches.
pub const KINDS: [Kind; 5] = [
    Kind::VirtualMachine,
    Kind::VirtualMachineInstance,
    Kind::DataVolume,
    Kind::Claim,
    Kind::Pod,
];

/// What is there under these names.
fn disks(store: &Store, namespace: &str, names: impl IntoIterator<Item = String>) -> Disks {
    let disk = |name: &str| {
        let key = Key::new(namespace, name);
        let claim = store.get(Kind::Claim, &key);
        let dv = store.get(Kind::DataVolume, &key);
        Disk {
            claim: claim.is_some(),
            bound: claim
                .as_ref()
                .is_some_and(|claim| claim.data["status"]["phase"] == "Bound"),
            owned: claim.is_some_and(|claim| read::owner(&claim).is_some_and(|owner| owner.kind == "DataVolume")),
            // A source that the CDI model does not know still has a phase.
            phase: dv.map(|dv| {
                let text = read::text(&dv, "/status/phase").unwrap_or_default();
                crate::world::objects::DvPhase::parse(&text).unwrap_or_default()
            }),
        }
    };
    names.into_iter().map(|name| (name.clone(), disk(&name))).collect()
}
