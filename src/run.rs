//! `first-consumer run`: wiring, and shutdown in order.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::admin::{Admin, Endpoints, Heartbeat};
use crate::announce::REPEATED_AFTER;
use crate::cli::Run;
use crate::clock::Clock;
use crate::cluster::client::{Clients, Observer};
use crate::cluster::events::events;
use crate::cluster::watch::{self, Listener, SharedIndex, Synced, Watches, lock};
use crate::decide::Settings;
use crate::index::Changed;
use crate::leader::{Election, Leadership, watch_mark};
use crate::metrics::{CONTENT_TYPE, Metrics};
use crate::pace::Pace;
use crate::queue::Queue;
use crate::worker::{Memories, Worker};

/// How many creates of pods may be in flight.
const CREATES: usize = 32;

/// More than creates, which may be slow, so that somebody is always there for a delete.
const WORKERS: usize = CREATES + 8;

/// How many VMs virt-api is asked to expand at once.
const EXPANSIONS: usize = 8;

/// How often an idle worker shows that it lives.
const BEAT: Duration = Duration::from_secs(10);

/// How often it is looked who has no turn coming though nobody was told that anything has changed: a net. A turn asks
/// nobody anything.
const RESYNC: Duration = Duration::from_mins(10);

/// How long requests in flight may take at the end.
const FAREWELL: Duration = Duration::from_secs(10);

/// Runs the controller until SIGTERM or SIGINT; a second signal ends the process at once. An error means that it could
/// not start, or that a part of it ended that must not, so that it has to start anew.
pub async fn run(flags: Run) -> anyhow::Result<()> {
    let metrics = Arc::new(Metrics::new());
    let clients = Clients::new(&flags.target(), observer(&metrics)).await?;
    let candidate = flags.leader_elect.then(|| Candidate {
        namespace: flags.pod_namespace.clone(),
        name: flags.pod_name.clone().unwrap_or_default(),
    });
    let mut controller = Controller::start(Setup {
        clients,
        settings: flags.settings(),
        namespace: flags.watch_namespace.clone(),
        create_rate: flags.create_rate,
        candidate,
        metrics,
        clock: Clock::default(),
    });
    let admin = Admin::bind(flags.listen, controller.endpoints()).await;
    let admin = admin.with_context(|| format!("cannot listen on {}", flags.listen))?;
    let served = CancellationToken::new();
    let serving = tokio::spawn(admin.serve(served.clone()));
    let stop = CancellationToken::new();
    signals(stop.clone())?;
    info!(version = env!("CARGO_PKG_VERSION"), "started");

    let broken = tokio::select! {
        () = stop.cancelled() => None,
        broken = controller.broken() => Some(broken),
    };
    info!("stopping");
    controller.stop().await;
    served.cancel();
    if timeout(FAREWELL, serving).await.is_err() {
        warn!("the metrics did not end in time");
    }
    broken.map_or(Ok(()), |broken| Err(broken.into()))
}

/// A part of the controller has ended that must not: which, and how.
#[derive(Debug)]
pub struct Broken(String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

/// Counts every request.
#[must_use]
pub fn observer(metrics: &Arc<Metrics>) -> Observer {
    let metrics = Arc::clone(metrics);
    Arc::new(move |verb, code| metrics.request(verb, code))
}

/// Everything that a controller needs.
pub struct Setup {
    /// Whom it talks to.
    pub clients: Clients,
    /// What decides.
    pub settings: Settings,
    /// The only Namespace that it serves, or all.
    pub namespace: Option<String>,
    /// How many pods it creates a second at most.
    pub create_rate: u32,
    /// Its part in the leader election. Without one it always leads.
    pub candidate: Option<Candidate>,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// The time of day.
    pub clock: Clock,
}

/// A part in the leader election.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Namespace of the Lease.
    pub namespace: String,
    /// The name of this process; every replica needs its own.
    pub name: String,
}

/// A running controller. Dropping it ends it as a crash would.
pub struct Controller {
    worker: Arc<Worker>,
    synced: Synced,
    heartbeat: Arc<Heartbeat>,
    /// Ends the workers that still wait for the first lists.
    stop: CancellationToken,
    workers: JoinSet<()>,
    watching: JoinSet<()>,
    /// What the work needs: it ends after the work.
    services: CancellationToken,
    tasks: JoinSet<()>,
}

impl Controller {
    /// Starts a controller on this runtime.
    #[must_use]
    pub fn start(setup: Setup) -> Self {
        let queue = Queue::new();
        let index = SharedIndex::default();
        let mut tasks = JoinSet::new();
        let services = CancellationToken::new();
        let leadership = match setup.candidate {
            None => Leadership::always(),
            Some(candidate) => {
                let (index, queue) = (Arc::clone(&index), queue.clone());
                let gained = move || {
                    for subject in lock(&index).subjects() {
                        queue.add(subject);
                    }
                };
                let (election, leadership) =
                    Election::new(setup.clients.lease, candidate.namespace, candidate.name, gained);
                let watched = watch_mark(setup.namespace.as_deref());
                let election = election.marking(setup.settings.policy.marks().into_iter().chain([watched]));
                tasks.spawn(election.run(services.clone()));
                leadership
            }
        };
        let (events, publisher) = events(setup.clients.read.clone(), setup.clock.clone());
        tasks.spawn(publisher.run(services.clone()));
        tasks.spawn(resync(Arc::clone(&index), queue.clone(), services.clone()));

        let mut watching = JoinSet::new();
        let synced = watch::start(
            &Watches {
                client: setup.clients.read,
                namespace: setup.namespace,
                index: Arc::clone(&index),
                listener: Arc::new(Told {
                    queue: queue.clone(),
                    metrics: Arc::clone(&setup.metrics),
                }),
            },
            &mut watching,
        );
        let worker = Arc::new(Worker {
            index,
            queue,
            settings: setup.settings,
            client: setup.clients.write,
            leadership,
            events,
            metrics: setup.metrics,
            expansions: Semaphore::new(EXPANSIONS),
            pace: Pace::new(setup.create_rate, CREATES),
            memories: Memories::default(),
            clock: setup.clock,
        });
        let heartbeat = Arc::new(Heartbeat::new(3 * BEAT));
        let stop = CancellationToken::new();
        let mut controller = Self {
            worker,
            synced,
            heartbeat,
            stop,
            workers: JoinSet::new(),
            watching,
            services,
            tasks,
        };
        for _ in 0..WORKERS {
            controller.hire();
        }
        controller
    }

    /// Starts one more worker.
    fn hire(&mut self) {
        self.workers.spawn(work(
            Arc::clone(&self.worker),
            self.synced.clone(),
            Arc::clone(&self.heartbeat),
            self.stop.clone(),
        ));
    }

    /// Waits until something has ended that must not end before [`Controller::stop`], and tells what: without a watch a
    /// part of the caches stays as it is for ever. A worker that panics at one subject is replaced, for the others' sake.
    pub async fn broken(&mut self) -> Broken {
        loop {
            let (what, ended) = tokio::select! {
                Some(ended) = self.watching.join_next() => ("a watch", ended),
                Some(ended) = self.tasks.join_next() => ("the lease, the events or the resync", ended),
                Some(ended) = self.workers.join_next() => {
                    warn!(ended = ?ended.err(), "a worker has ended and is replaced");
                    self.hire();
                    continue;
                }
            };
            let how = ended.map_or_else(|error| error.to_string(), |()| "without an error".to_owned());
            return Broken(format!("{what} ended: {how}"));
        }
    }

    /// What `/livez`, `/readyz` and `/metrics` show of it.
    #[must_use]
    pub fn endpoints(&self) -> Endpoints {
        let (worker, heartbeat, synced) = (
            Arc::clone(&self.worker),
            Arc::clone(&self.heartbeat),
            self.synced.clone(),
        );
        Endpoints {
            alive: Box::new(move || heartbeat.check()),
            ready: Box::new(move || match synced.missing() {
                missing if missing.is_empty() => Ok(()),
                missing => Err(format!("not listed yet: {}", missing.join(", "))),
            }),
            metrics: Box::new(move || {
                let wait = worker.memories.oldest_wait(worker.clock.now());
                (worker.metrics.text(wait), CONTENT_TYPE)
            }),
        }
    }

    /// Ends it in order: first the work, then what the work needs. Pods are left as they are: the next leader finds them by
    /// their names.
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.worker.queue.close();
        if timeout(FAREWELL, end(&mut self.workers)).await.is_err() {
            warn!("some requests did not end in time");
        }
        self.watching.shutdown().await;
        self.services.cancel();
        if timeout(FAREWELL, end(&mut self.tasks)).await.is_err() {
            warn!("the lease or events did not end in time");
        }
    }
}

/// Waits for all tasks, whether or not one of them has panicked.
async fn end(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// Gives everybody a turn who has none coming soon, one after the other throughout each round, until `stop`. Soon is when
/// what lasts is told again: a turn before that would count it once more.
async fn resync(index: SharedIndex, queue: Queue, stop: CancellationToken) {
    while timeout(RESYNC, stop.cancelled()).await.is_err() {
        let subjects = lock(&index).subjects();
        let apart = RESYNC / u32::try_from(subjects.len()).unwrap_or(u32::MAX).max(1);
        let mut due = Instant::now();
        let soon = due + REPEATED_AFTER;
        for subject in subjects {
            queue.fill_in(subject, due, soon);
            due += apart;
        }
    }
}

/// Takes turns until the queue is closed. No decision is taken before every kind has been listed once.
async fn work(worker: Arc<Worker>, synced: Synced, heartbeat: Arc<Heartbeat>, stop: CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = synced.wait() => break,
            () = stop.cancelled() => return,
            () = tokio::time::sleep(BEAT) => heartbeat.beat(),
        }
    }
    loop {
        match timeout(BEAT, worker.queue.next()).await {
            Ok(Some(turn)) => worker.serve(turn.key(), turn.due()).await,
            Ok(None) => return,
            Err(_) => {}
        }
        heartbeat.beat();
    }
}

/// The first signal ends the work in order, the second the process.
fn signals(stop: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        for again in [false, true] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if again {
                std::process::exit(1);
            }
            stop.cancel();
        }
    });
    Ok(())
}

/// What the watches tell.
struct Told {
    queue: Queue,
    metrics: Arc<Metrics>,
}

impl Listener for Told {
    fn changed(&self, subjects: Changed) {
        for subject in subjects {
            self.queue.add(subject);
        }
    }

    fn interrupted(&self, kind: &'static str) {
        self.metrics.interrupted(kind);
    }

    fn unreadable(&self, kind: &'static str) {
        self.metrics.unreadable(kind);
    }
}

#[cfg(test)]
mod tests;
