//! Proof of first-consumer.

pub mod stand_in;
pub mod world;
