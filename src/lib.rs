//! first-consumer gives the disks of a KubeVirt VM their first consumer.

pub mod admin;
pub mod api;
pub mod cluster;
pub mod index;
pub mod leader;
pub mod metrics;
pub mod name;
pub mod queue;
pub mod reason;
pub mod telemetry;
