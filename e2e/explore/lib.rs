//! Model checking of first-consumer; see [`explore`].

#[path = "../src/explore/mod.rs"]
pub mod explore;
#[path = "../src/world/mod.rs"]
pub mod world;
