//! first-consumer gives the disks of a KubeVirt VM their first consumer.

pub mod announce;
pub mod api;
pub mod claim;
pub mod cluster;
pub mod decide;
pub mod index;
pub mod lifecycle;
pub mod memory;
pub mod name;
pub mod observe;
pub mod placement;
pub mod pod;
pub mod policy;
pub mod queue;
pub mod reason;
