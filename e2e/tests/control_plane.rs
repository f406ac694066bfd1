//! The control plane itself.
use first_consumer_e2e::control_plane::{ControlPlane, Options};
use first_consumer_e2e::suite::Suite;
use std::process::ExitCode;

fn main() -> ExitCode {
    Suite::<ControlPlane>::default()
        .shared("nodes", async |plane| {
            println!("{}", plane.kubectl(&["get", "nodes"]).await?);
            Ok(())
        })
        .run(|| ControlPlane::start(Options::default()))
}
