//! first-consumer gives the disks of a KubeVirt VM their first consumer: a temporary pod that asks the scheduler for what
//! the VM will ask for and lists all of its claims, and that goes once they have their node.
//!
//! ```text
//! API server --watch--> cluster::watch --> index --changed subjects--> queue --> worker
//!                                            |                                      |
//!                                         observe --> decide, diagnose <-- memory   | one subject at a time
//!                                                            |                      |
//! API server <--create, delete (by UID)-- cluster::execute <-+----------------------+
//!            <--Events, metrics, log lines-- announce <------+
//! ```
//!
//! A pure core (everything that [`decide`] and [`diagnose`] need; no clock, no I/O) in a thin shell that decides nothing;
//! the README lists the modules so that each uses only those before it. What always holds:
//!
//! - A decision depends on nothing but what the caches hold, a memory of times and refusals, and the time. It is the same
//!   after a restart, times aside.
//! - A subject has one pod at most: its name is fixed, a create never overwrites.
//! - Only a pod of our own is deleted, and only by its UID.
//! - No pod of ours chooses a node, runs anything, or stays where nothing waits.
//! - Nothing is decided before every watch has listed once, and only the leader writes.

pub mod admin;
pub mod announce;
pub mod api;
pub mod claim;
pub mod cli;
pub mod clock;
pub mod cluster;
pub mod decide;
pub mod diagnose;
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
