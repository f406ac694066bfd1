//! Thousands of small worlds with random schedules and faults, each from a seed, with our real shell in them.
//!
//! FIRST_CONSUMER_SEED=N        runs that seed alone and tells its story
//! FIRST_CONSUMER_SEEDS=N       runs so many (100; .ci/run takes thousands)
//! FIRST_CONSUMER_FIRST_SEED=N  from this one on (0)

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use first_consumer::decide::Settings;
use first_consumer::policy::HaltedVms;
use first_consumer_e2e::fake_api::Injected;
use first_consumer_e2e::fake_api::seeds::{Outcome, Tamper, Trial, run};

/// A seed whose world needs us and keeps all rules.
const SOUND: u64 = 1;

/// Of so many seeds one is run twice.
const TWICE: u64 = 50;

/// In so many worlds every fault that is drawn happens.
const ENOUGH: u64 = 200;

/// A world takes less than a second. One in which no time passes would never end.
const PATIENT: Duration = Duration::from_mins(3);

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(usual)
}

fn told(seed: u64) -> Result<Outcome> {
    run(
        seed,
        &Trial {
            told: true,
            ..Trial::default()
        },
    )
}

/// Runs one seed; what is wrong with it.
fn one(seed: u64) -> Result<(Outcome, Option<String>)> {
    let outcome = run(seed, &Trial::default())?;
    if seed.is_multiple_of(TWICE) && run(seed, &Trial::default())?.digest != outcome.digest {
        return Ok((outcome, Some("it is not the same each time".to_owned())));
    }
    let broken = outcome.broken.clone();
    Ok((outcome, broken))
}

fn many(first: u64, count: u64) -> Result<()> {
    let start = Instant::now();
    let next = Arc::new(AtomicU64::new(first));
    let (tell, told_of) = mpsc::channel();
    for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
        let (next, tell) = (Arc::clone(&next), tell.clone());
        std::thread::spawn(move || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + count || tell.send((seed, one(seed))).is_err() {
                    return;
                }
            }
        });
    }
    drop(tell);
    let mut missing: BTreeSet<u64> = (first..first + count).collect();
    let (mut pods, mut requests, mut failed) = (0, 0, BTreeMap::new());
    let mut faults = BTreeMap::new();
    while !missing.is_empty() {
        let Ok((seed, outcome)) = told_of.recv_timeout(PATIENT) else {
            let begun = missing.range(..next.load(Ordering::Relaxed));
            bail!(
                "FIRST_CONSUMER_SEED={begun:?}: the world does not come to an end",
                begun = begun.collect::<Vec<_>>()
            );
        };
        missing.remove(&seed);
        let broken = match outcome {
            Ok((outcome, broken)) => {
                pods += outcome.pods;
                requests += outcome.failed;
                for (fault, times) in outcome.injected {
                    *faults.entry(fault).or_default() += times;
                }
                broken
            }
            Err(error) => Some(format!("{error:#}")),
        };
        failed.extend(broken.map(|broken| (seed, broken)));
    }
    println!(
        "{count} seeds from {first} on in {} s; {pods} pods created, {requests} requests failed; faults: {}",
        start.elapsed().as_secs(),
        told_faults(&faults),
    );
    for (seed, broken) in &failed {
        println!("FIRST_CONSUMER_SEED={seed}: {broken}");
    }
    if let Some(seed) = failed.keys().next() {
        println!("\nseed {seed}:");
        told(*seed)?.story.iter().for_each(|line| println!("{line}"));
    }
    ensure!(failed.is_empty(), "{} of {count} seeds failed", failed.len());
    let mut never = Injected::ALL.into_iter().filter(|fault| !faults.contains_key(fault));
    if count >= ENOUGH
        && let Some(fault) = never.next()
    {
        bail!("a fault that is drawn never happened in {count} seeds: {fault}");
    }
    Ok(())
}

/// What went wrong, and how often.
fn told_faults(faults: &BTreeMap<Injected, usize>) -> String {
    let each: Vec<_> = faults.iter().map(|(fault, times)| format!("{fault} {times}")).collect();
    each.join(", ")
}

/// Each rule is broken once on purpose, in a world that keeps all of them.
fn the_rules_can_be_broken() -> Result<()> {
    ensure!(one(SOUND)?.1.is_none(), "seed {SOUND} is not sound");
    for (tamper, rule) in Tamper::ALL {
        let trial = Trial {
            tamper: Some(tamper),
            ..Trial::default()
        };
        let broken = run(SOUND, &trial)?.broken.unwrap_or_default();
        ensure!(broken.contains(rule), "{tamper:?}: {broken:?} instead of {rule:?}");
    }
    let mut settings = Settings::default();
    settings.policy.halted = HaltedVms::None;
    let trial = Trial {
        settings,
        ..Trial::default()
    };
    let broken = run(SOUND, &trial)?.broken.unwrap_or_default();
    ensure!(broken.contains("every waiting claim is placed"), "{broken:?}");
    println!("{} rules were broken on purpose and found out", Tamper::ALL.len() + 1);
    Ok(())
}

fn main() -> Result<()> {
    let single = std::env::var("FIRST_CONSUMER_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    if let Some(seed) = single {
        let outcome = told(seed)?;
        outcome.story.iter().for_each(|line| println!("{line}"));
        println!(
            "{:?}; {} pods, {} failed requests, digest {:x}",
            outcome.broken, outcome.pods, outcome.failed, outcome.digest
        );
        return Ok(());
    }
    let count = number("FIRST_CONSUMER_SEEDS", 100);
    let outcome = the_rules_can_be_broken().and_then(|()| many(number("FIRST_CONSUMER_FIRST_SEED", 0), count));
    let passed = outcome.is_ok();
    println!(
        "test result: {}. {} passed; {} failed",
        if passed { "ok" } else { "FAILED" },
        u8::from(passed),
        u8::from(!passed)
    );
    outcome
}
