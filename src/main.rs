//! The `first-consumer` binary.

fn main() {}
