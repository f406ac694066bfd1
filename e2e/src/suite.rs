//! Runs scenarios as tests: those that share one control plane and those that need none side by side, and beside them
//! those that start their own, one at a time.

use std::fs;
use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OnceCell, Semaphore};

use crate::control_plane::{ControlPlane, kept_logs};

/// A scenario that takes longer has hung.
const LIMIT: Duration = Duration::from_mins(10);
/// Scenarios mostly wait, so more of them run side by side than there are cores.
const SIDE_BY_SIDE: usize = 10;

type Outcome = Pin<Box<dyn Future<Output = Result<()>>>>;
type Test = Box<dyn FnOnce() -> Outcome + Send>;
type SharedTest<S> = Box<dyn FnOnce(Arc<S>) -> Outcome + Send>;

/// What tests can share.
pub trait Shared: Send + Sync + Sized + 'static {
    /// Ends it after the last test; not called if one failed, then it is dropped.
    fn stop(self) -> impl Future<Output = Result<()>>;
}

impl Shared for ControlPlane {
    fn stop(self) -> impl Future<Output = Result<()>> {
        Self::stop(self)
    }
}

/// A list of tests, run like `cargo test` runs them: the same command line, the same output.
pub struct Suite<S> {
    shared: Vec<(String, SharedTest<S>)>,
    paused: Vec<(String, Test)>,
    alone: Vec<(String, Test)>,
    side_by_side: usize,
}

impl<S: Shared> Default for Suite<S> {
    fn default() -> Self {
        Self {
            shared: Vec::new(),
            paused: Vec::new(),
            alone: Vec::new(),
            side_by_side: SIDE_BY_SIDE,
        }
    }
}

impl<S: Shared> Suite<S> {
    /// How many tests run at the same time, unless the command line says it.
    #[must_use]
    pub fn side_by_side(mut self, tests: usize) -> Self {
        self.side_by_side = tests;
        self
    }

    /// Adds a test that keeps to its own namespace.
    #[must_use]
    pub fn shared<F>(mut self, name: &str, test: impl FnOnce(Arc<S>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<()>> + 'static,
    {
        self.shared
            .push((name.to_owned(), Box::new(|shared| Box::pin(test(shared)))));
        self
    }

    /// Adds a test that needs no control plane, and whose time passes as fast as nobody works in it.
    #[must_use]
    pub fn paused<F>(mut self, name: &str, test: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<()>> + 'static,
    {
        self.paused.push((name.to_owned(), Box::new(|| Box::pin(test()))));
        self
    }

    /// Adds a test that starts what it needs.
    #[must_use]
    pub fn alone<F>(mut self, name: &str, test: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<()>> + 'static,
    {
        self.alone.push((name.to_owned(), Box::new(|| Box::pin(test()))));
        self
    }

    /// Runs the tests that the command line asks for. `prepare` makes what is shared, once, and only if one of the
    /// chosen tests wants it; if it fails they all fail.
    pub fn run<F>(self, prepare: impl Fn() -> F + Send + Sync + 'static) -> ExitCode
    where
        F: Future<Output = Result<S>> + 'static,
    {
        let runtime = match Runtime::new() {
            Ok(runtime) => Arc::new(runtime),
            Err(error) => {
                eprintln!("no runtime: {error}");
                return ExitCode::FAILURE;
            }
        };
        let mut arguments = Arguments::from_args();
        let side_by_side = *arguments.test_threads.get_or_insert(self.side_by_side);
        let (lane, own_lane) = (Lane::new(&runtime, side_by_side), Lane::new(&runtime, 1));
        if side_by_side > 1 {
            // Those of the own lane hold a thread each while they wait for one another.
            arguments.test_threads = Some(side_by_side + self.alone.len());
        }
        let store = Arc::new(OnceCell::new());
        let alone = self
            .alone
            .into_iter()
            .map(|(name, test)| alone_trial(name, &own_lane, test));
        let prepare = Arc::new(prepare);
        let shared = self.shared.into_iter().map(|(name, test)| {
            let (store, prepare) = (Arc::clone(&store), Arc::clone(&prepare));
            lane.trial(name, || {
                Box::pin(async move {
                    let made = store.get_or_init(async || prepare().await.map(Arc::new).map_err(|e| format!("{e:#}")));
                    let shared = made.await.clone().map_err(anyhow::Error::msg)?;
                    within_limit(test(shared)).await
                })
            })
        });
        let mut paused = self
            .paused
            .into_iter()
            .map(|(name, test)| paused_trial(name, &lane, test));
        let mut trials: Vec<Trial> = alone.collect();
        // Those that never wait go between those that mostly do.
        for trial in shared {
            trials.push(trial);
            trials.extend(paused.next());
        }
        trials.extend(paused);
        let failed = libtest_mimic::run(&arguments, trials).has_failed();
        let made = Arc::into_inner(store).and_then(OnceCell::into_inner);
        let shared = made.and_then(Result::ok).and_then(Arc::into_inner);
        let stopped = match shared.filter(|_| !failed) {
            Some(shared) => runtime.block_on(shared.stop()),
            None => Ok(()),
        };
        if let Err(error) = &stopped {
            eprintln!("what the tests shared did not stop well: {error:#}");
        }
        for folder in kept_logs() {
            eprintln!("logs of a control plane: {}", folder.display());
        }
        // What `cargo test` expects of a test program.
        if failed || stopped.is_err() {
            ExitCode::from(101)
        } else {
            ExitCode::SUCCESS
        }
    }
}

/// Where so many tests run at the same time.
#[derive(Clone)]
struct Lane {
    runtime: Arc<Runtime>,
    room: Arc<Semaphore>,
}

impl Lane {
    fn new(runtime: &Arc<Runtime>, tests: usize) -> Self {
        Self {
            runtime: Arc::clone(runtime),
            room: Arc::new(Semaphore::new(tests)),
        }
    }

    fn trial(&self, name: String, test: impl FnOnce() -> Outcome + Send + 'static) -> Trial {
        let lane = self.clone();
        Trial::test(name, move || {
            let _place = lane.runtime.block_on(lane.room.acquire())?;
            on(&lane.runtime, test())
        })
    }
}

fn paused_trial(name: String, lane: &Lane, test: Test) -> Trial {
    let lane = lane.clone();
    Trial::test(name, move || {
        let _place = lane.runtime.block_on(lane.room.acquire())?;
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        on(&runtime?, test())
    })
}

fn alone_trial(name: String, lane: &Lane, test: Test) -> Trial {
    lane.trial(name, || {
        Box::pin(async move {
            let outcome = within_limit(test()).await;
            // Who succeeded may leave it to the drop to stop its control plane.
            let logs = kept_logs();
            match outcome {
                Ok(()) => Ok(logs.into_iter().try_for_each(fs::remove_dir_all)?),
                Err(error) => Err(error.context(format!("logs of its control plane: {logs:?}"))),
            }
        })
    })
}

fn on(runtime: &Runtime, test: impl Future<Output = Result<()>>) -> Result<(), Failed> {
    runtime.block_on(test).map_err(|error| format!("{error:#}").into())
}

async fn within_limit(test: Outcome) -> Result<()> {
    let limit = format!("still not done after {} s", LIMIT.as_secs());
    tokio::time::timeout(LIMIT, test).await.context(limit)?
}
