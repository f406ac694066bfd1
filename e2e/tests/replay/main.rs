//! The recordings of the real stack, event by event through index, observe and decide. Ends with how much was replayed.

// All of this file is a test; clippy only knows the functions that are marked as one.
#![allow(clippy::expect_used, clippy::panic)]

mod expectations;
mod play;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use expectations::EXPECTED;
use libtest_mimic::{Arguments, Trial};
use play::replay;

fn main() -> ExitCode {
    let replayed = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let trials = EXPECTED.iter().flat_map(|(name, file, check)| {
        ["legacy", "populator"].map(|path| {
            let replayed = Arc::clone(&replayed);
            Trial::test(format!("{name}::{path}"), move || {
                let steps = replay(&format!("{path}-{file}"));
                replayed.0.fetch_add(1, Ordering::Relaxed);
                replayed.1.fetch_add(steps.len(), Ordering::Relaxed);
                check(&steps, path == "legacy");
                Ok(())
            })
        })
    });
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials.collect());
    let (recordings, events) = (&replayed.0, &replayed.1);
    println!(
        "{} recordings replayed, {} events: after each a fresh start decides the same",
        recordings.load(Ordering::Relaxed),
        events.load(Ordering::Relaxed)
    );
    conclusion.exit_code()
}
