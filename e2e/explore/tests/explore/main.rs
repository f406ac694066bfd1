//! Model checking: every model of the table is explored whole, and every rule catches a decision that was broken on
//! purpose. Ends with how much was visited.
//!
//! `FIRST_CONSUMER_EXPLORE=ci`, `=long` and `=hours` choose larger tables ([`Extent`]).

mod mutants;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use first_consumer_explore::explore::table::{Extent, table};
use first_consumer_explore::explore::{Product, Report, explore};
use libtest_mimic::{Arguments, Failed, Trial};

/// More than any model of the table has.
const LIMIT: usize = 100_000_000;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let start = Instant::now();
    let extent = match std::env::var("FIRST_CONSUMER_EXPLORE").as_deref() {
        Ok("hours") => Extent::Hours,
        Ok("long") => Extent::Long,
        Ok("ci") => Extent::Ci,
        _ => Extent::Test,
    };
    let reports = Arc::new(Mutex::new(Vec::new()));
    // The table begins with its largest models, so that all threads end together.
    let mut trials: Vec<Trial> = table(extent)
        .into_iter()
        .map(|model| {
            let reports = Arc::clone(&reports);
            Trial::test(format!("models::{}", model.name.replace(' ', "_")), move || {
                let report = explore(&model, &Product, LIMIT);
                let outcome = verdict(&report);
                reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
                outcome
            })
        })
        .collect();
    trials.extend(mutants::trials());
    let conclusion = libtest_mimic::run(&arguments, trials);
    let reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
    for report in reports.iter() {
        println!("{report}");
    }
    let states: usize = reports.iter().map(|report| report.states).sum();
    println!(
        "{} models explored, {states} states, {} s, {} at most",
        reports.len(),
        start.elapsed().as_secs(),
        most_memory().unwrap_or_else(|| "an unknown amount of memory".to_owned())
    );
    conclusion.exit_code()
}

/// The most memory that this process has had.
fn most_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().to_owned())
}

fn verdict(report: &Report) -> Result<(), Failed> {
    match &report.broken {
        Some(story) => Err(story.to_string().into()),
        None if !report.whole => Err(format!("more than {LIMIT} states").into()),
        None => Ok(()),
    }
}
