//! `first-consumer run`: wiring, and shutdown in order.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::admin::{Admin, Endpoints, Heartbeat};
use crate::cli::Run;
use crate::cluster::client::Clients;
use crate::cluster::events::events;
use crate::cluster::watch::{self, Listener, SharedIndex, Synced, Watches, lock};
use crate::index::Changed;
use crate::leader::{Election, Leadership};
use crate::metrics::{CONTENT_TYPE, Metrics};
use crate::pace::Pace;
use crate::queue::Queue;
use crate::worker::{Memories, Worker};

/// How many requests for pods may be in flight.
const WORKERS: usize = 32;

/// How many VMs virt-api is asked to expand at once.
const EXPANSIONS: usize = 8;

/// How often an idle worker shows that it lives.
const BEAT: Duration = Duration::from_secs(10);

/// How long requests in flight may take at the end.
const FAREWELL: Duration = Duration::from_secs(10);

/// Runs the controller until SIGTERM or SIGINT; a second signal ends the process at once. An error means that it could
/// not start.
pub async fn run(flags: Run) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let metrics = Arc::new(Metrics::new());
    let observer = Arc::clone(&metrics);
    let clients = Clients::new(
        &flags.target(),
        Arc::new(move |verb, code| observer.request(verb, code)),
    )
    .await?;
    let queue = Queue::new();
    let index = SharedIndex::default();
    // Everything that is served in the end, each ended by its own token: first the work, then what the work needs.
    let mut tasks = JoinSet::new();
    let services = CancellationToken::new();

    let leadership = if flags.leader_elect {
        let (index, queue) = (Arc::clone(&index), queue.clone());
        let gained = move || {
            for subject in lock(&index).subjects() {
                queue.add(subject);
            }
        };
        let (election, leadership) = Election::new(
            clients.lease.clone(),
            flags.pod_namespace.clone(),
            flags.pod_name.clone().unwrap_or_default(),
            gained,
        );
        tasks.spawn(election.run(services.clone()));
        leadership
    } else {
        Leadership::always()
    };
    let (events, publisher) = events(clients.read.clone());
    tasks.spawn(publisher.run(services.clone()));

    let mut watching = JoinSet::new();
    let synced = watch::start(
        &Watches {
            client: clients.read.clone(),
            namespace: flags.watch_namespace.clone(),
            index: Arc::clone(&index),
            listener: Arc::new(Told {
                queue: queue.clone(),
                metrics: Arc::clone(&metrics),
            }),
        },
        &mut watching,
    );
    let worker = Arc::new(Worker {
        index,
        queue: queue.clone(),
        settings: flags.settings(),
        client: clients.write.clone(),
        leadership,
        events,
        metrics: Arc::clone(&metrics),
        expansions: Semaphore::new(EXPANSIONS),
        pace: Pace::new(flags.create_rate),
        memories: Memories::default(),
    });
    let heartbeat = Arc::new(Heartbeat::new(3 * BEAT));
    let admin = admin(&flags, &worker, &heartbeat, synced.clone()).await?;
    tasks.spawn(admin.serve(services.clone()));
    signals(stop.clone())?;
    info!(version = env!("CARGO_PKG_VERSION"), "started");

    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(work(
            Arc::clone(&worker),
            synced.clone(),
            Arc::clone(&heartbeat),
            stop.clone(),
        ));
    }
    stop.cancelled().await;
    info!("stopping");
    queue.close();
    // Pods are left as they are: the next leader finds them by their names.
    if timeout(FAREWELL, workers.join_all()).await.is_err() {
        warn!("some requests did not end in time");
    }
    watching.shutdown().await;
    services.cancel();
    if timeout(FAREWELL, tasks.join_all()).await.is_err() {
        warn!("the lease, events or metrics did not end in time");
    }
    Ok(())
}

/// Takes turns until the queue is closed. No decision is taken before every kind has been listed once.
async fn work(worker: Arc<Worker>, synced: Synced, heartbeat: Arc<Heartbeat>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = synced.wait() => break,
            () = stop.cancelled() => return,
            () = tokio::time::sleep(BEAT) => heartbeat.beat(),
        }
    }
    loop {
        match timeout(BEAT, worker.queue.next()).await {
            Ok(Some(turn)) => worker.serve(turn.key()).await,
            Ok(None) => return,
            Err(_) => {}
        }
        heartbeat.beat();
    }
}

async fn admin(flags: &Run, worker: &Arc<Worker>, heartbeat: &Arc<Heartbeat>, synced: Synced) -> anyhow::Result<Admin> {
    let (worker, heartbeat) = (Arc::clone(worker), Arc::clone(heartbeat));
    let endpoints = Endpoints {
        alive: Box::new(move || heartbeat.check()),
        ready: Box::new(move || match synced.missing() {
            missing if missing.is_empty() => Ok(()),
            missing => Err(format!("not listed yet: {}", missing.join(", "))),
        }),
        metrics: Box::new(move || {
            (
                worker.metrics.text(worker.memories.oldest_wait(Timestamp::now())),
                CONTENT_TYPE,
            )
        }),
    };
    Admin::bind(flags.listen, endpoints)
        .await
        .with_context(|| format!("cannot listen on {}", flags.listen))
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
