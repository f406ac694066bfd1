//! Proof of first-consumer: a real control plane, and what is needed to run scenarios on it.

pub mod cluster;
pub mod control_plane;
pub mod fake_api;
pub mod narrator;
pub mod objects;
pub mod scene;
pub mod stage;
pub mod stand_in;
pub mod suite;
pub mod world;
