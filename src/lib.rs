//! first-consumer gives the disks of a KubeVirt VM their first consumer.

pub mod admin;
pub mod announce;
pub mod api;
pub mod claim;
pub mod cli;
pub mod cluster;
pub mod decide;
pub mod index;
pub mod leader;
pub mod lifecycle;
pub mod memory;
pub mod metrics;
pub mod name;
pub mod observe;
pub mod pace;
pub mod peers;
pub mod placement;
pub mod pod;
pub mod policy;
pub mod quantity;
pub mod queue;
pub mod reason;
pub mod run;
pub mod telemetry;
pub mod worker;
pub mod yaml;
