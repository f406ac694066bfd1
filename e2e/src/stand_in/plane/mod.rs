//! What a real control plane brings along, for a fake one: drivers of [`crate::world::scheduler`],
//! [`crate::world::volumes`] and [`crate::world::kubelet`].

mod fit;
mod kubelet;
mod scheduler;
mod volumes;

pub use kubelet::Kubelets;
pub use scheduler::Scheduler;
pub use volumes::{Binder, Volumes};

use super::kind::Kind;

/// Kinds that they watch.
pub const KINDS: [Kind; 5] = [Kind::Claim, Kind::Volume, Kind::StorageClass, Kind::Pod, Kind::Node];
