//! Random schedules and faults, each drawn from a seed: a small world lives with our real shell in it, people and failures
//! disturb it, then all faults cease; what must hold ([`watchman`], [`rest`]) is checked all the time and at the end.
//!
//! The same seed gives the same run: one thread, paused time, delays and faults from the seed, ordered maps wherever an
//! order becomes a schedule, and `select!` with a fixed order in all that runs here.

mod acts;
mod plan;
mod rest;
mod tamper;
mod watchman;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use first_consumer::decide::Settings;
use k8s_openapi::jiff::Timestamp;

use super::Injected;
use super::scene::{Options, Scene};
use crate::control_plane::{Call, Calls, NodeSpec};
use crate::stand_in;

use acts::Acts;
use plan::Plan;
pub use tamper::Tamper;
use watchman::Watchman;

/// How long a world has to come to rest after the faults have ceased: longer than CDI's longest back-off several times.
const REST_WITHIN: Duration = Duration::from_mins(90);

/// How long it has to stay at rest.
const RESTS_FOR: Duration = Duration::from_mins(3);

/// What a run is made of besides its seed.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// What decides.
    pub settings: Settings,
    /// Something that must be found out, to prove that it would be.
    pub tamper: Option<Tamper>,
    /// Whether to tell what happens.
    pub told: bool,
}

/// How a run ended.
#[derive(Debug)]
pub struct Outcome {
    /// The rule that it broke.
    pub broken: Option<String>,
    /// What happened, a line each, if it was to be told.
    pub story: Vec<String>,
    /// The same for the same run.
    pub digest: u64,
    /// Pods that we created.
    pub pods: usize,
    /// Our requests that failed, by a fault or by themselves.
    pub failed: usize,
    /// Faults that happened, to anybody.
    pub injected: BTreeMap<Injected, usize>,
}

/// What happened, line by line.
#[derive(Clone, Default)]
pub struct Story(Option<Arc<Mutex<Vec<String>>>>);

impl Story {
    fn new(told: bool) -> Self {
        Self(told.then(Arc::default))
    }

    fn say(&self, at: Timestamp, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.0 {
            let line = format!("{}  {}", at.strftime("%H:%M:%S%.3f"), line());
            lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }

    fn lines(&self) -> Vec<String> {
        let lines = self
            .0
            .as_ref()
            .map(|lines| lines.lock().unwrap_or_else(PoisonError::into_inner).clone());
        lines.unwrap_or_default()
    }
}

/// Runs a seed on a runtime of its own. An error is one of the harness.
pub fn run(seed: u64, trial: &Trial) -> Result<Outcome> {
    // What libraries draw from this thread's generator, too: back-offs.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    runtime.block_on(play(seed, trial))
}

async fn play(seed: u64, trial: &Trial) -> Result<Outcome> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let plan = Plan::draw(&mut rng);
    let story = Story::new(trial.told);
    let mut scene = Scene::without_controller(Options {
        seed,
        nodes: NodeSpec::six().into_iter().take(plan.nodes).collect(),
        neighbours: stand_in::Options {
            virt_controller: plan.virt_controller,
            ..stand_in::Options::default()
        },
    })
    .await?;
    scene.api.note_told();
    let watchman = Watchman::post(&scene.api, &story);
    let clock = scene.api.clock().clone();
    story.say(clock.now(), || format!("{plan}"));
    scene.api.fail(plan.rates, &plan.failing());
    scene.begin_controller(trial.settings.clone());
    let mut acts = Acts::new(&plan, &story, rng);
    acts.begin(&scene);
    for _ in 0..plan.acts {
        scene.advance(acts.pause()).await;
        acts.act(&mut scene, &trial.settings).await;
    }
    scene.advance(acts.pause()).await;
    acts.cease(&mut scene, &trial.settings);
    let calm = clock.now();
    story.say(calm, || "from now on nothing goes wrong".to_owned());
    if let Some(tamper) = trial.tamper {
        story.say(calm, || format!("in our name: {tamper:?}"));
        tamper.act(&scene).await?;
    }
    let restless = match settle(&scene, &watchman).await {
        None if watchman.broken().is_none() => restart(&mut scene, &trial.settings).await,
        restless => restless,
    };
    let calls = scene.calls();
    for call in calls.iter().filter(|call| !call.is_read()) {
        story.say(call.received, || {
            format!("we: {} {} {} -> {}", call.verb, call.resource, call.name, call.code)
        });
    }
    let broken = watchman
        .broken()
        .or(restless)
        .or_else(|| watchman.check(&scene.api, &calls, calm));
    let mut lines = story.lines();
    lines.sort();
    Ok(Outcome {
        broken,
        story: lines,
        digest: digest(&calls, scene.api.store().version()),
        pods: calls.of("create", "pods").iter().filter(|call| call.is_ok()).count(),
        failed: calls.iter().filter(|call| !call.is_ok()).count(),
        injected: scene.api.injected(),
    })
}

/// Lets the world come to rest. What is still wrong then, if it does not.
async fn settle(scene: &Scene, watchman: &Watchman) -> Option<String> {
    let end = tokio::time::Instant::now() + REST_WITHIN;
    loop {
        scene.advance(Duration::from_secs(20)).await;
        if watchman.broken().is_some() {
            return None;
        }
        let mut wrong = rest::wrong(&scene.api.store());
        if wrong.is_none() {
            scene.advance(RESTS_FOR).await;
            wrong = rest::wrong(&scene.api.store());
        }
        if wrong.is_none() || tokio::time::Instant::now() > end {
            return wrong;
        }
    }
}

/// Lets another controller take over while all is at rest. What it does though nothing has changed.
async fn restart(scene: &mut Scene, settings: &Settings) -> Option<String> {
    let writes = |scene: &Scene| {
        let calls = scene.calls();
        calls.filter(|call| !call.is_read() && call.resource == "pods")
    };
    let before = writes(scene).len();
    while scene.kill_controller().is_ok() {}
    scene.begin_controller(settings.clone());
    scene.advance(RESTS_FOR).await;
    let more = writes(scene);
    let call = more.get(before)?;
    let (verb, name) = (&call.verb, &call.name);
    Some(format!(
        "decisions after a restart equal those before: {verb} pod {name}"
    ))
}

fn digest(calls: &Calls, version: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    version.hash(&mut hasher);
    for call in calls.iter() {
        let Call {
            verb,
            resource,
            name,
            code,
            ..
        } = call;
        (verb, resource, name, code, call.answered.as_nanosecond()).hash(&mut hasher);
    }
    hasher.finish()
}
