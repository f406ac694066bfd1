//! What every controller is made of: watches into the store, and a work queue with controller-runtime's rules: one
//! reconcile at a time a key, a key that changes meanwhile comes again, failures come again after a growing back-off.

use super::{
    hand::Hand,
    kind::Kind,
    store::{Key, Object},
    switch::Switch,
};
use crate::world::backoff::Retry;
use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use kube::runtime::{WatchStreamExt, watcher};
use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_util::{
    sync::CancellationToken,
    time::{DelayQueue, delay_queue},
};

/// A change that the watches saw.
#[derive(Clone, Debug)]
pub struct Change {
    /// Kind of the object.
    pub kind: Kind,
    /// The object, or its last version if it is gone.
    pub object: Object,
}

/// What becomes of a key after a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing until the next change.
    Done,
    /// Again after this time.
    Later(Duration),
    /// Again after the growing back-off, as after an error.
    Limited,
}

/// One controller.
pub trait Controller: Send + Sync + 'static {
    /// Its name in logs.
    fn name(&self) -> &'static str;

    /// The keys that a change wakes.
    fn wakes(&self, change: &Change) -> Vec<Key>;

    /// Looks at one key and writes.
    fn reconcile(&self, key: &Key) -> impl Future<Output = Result<Outcome>> + Send;
}

/// Keys in work at the same time.
const WORKERS: usize = 16;

/// Follows one kind; every change goes to all controllers. `listed` is told once the first list is in.
pub async fn watch(
    hand: Arc<Hand>,
    kind: Kind,
    controllers: Vec<mpsc::UnboundedSender<Change>>,
    listed: mpsc::Sender<Kind>,
) {
    let config = match kind {
        // Only what is said of claims is read.
        Kind::Event => watcher::Config::default().fields("involvedObject.kind=PersistentVolumeClaim"),
        _ => watcher::Config::default(),
    };
    let mut stream = std::pin::pin!(watcher(kind.everywhere(hand.client()), config).default_backoff());
    let mut names = BTreeSet::new();
    let announce = |object: Object| {
        for controller in &controllers {
            // A controller that is gone needs no changes.
            let _ = controller.send(Change {
                kind,
                object: object.clone(),
            });
        }
    };
    loop {
        match stream.try_next().await {
            Ok(Some(watcher::Event::Init)) => names.clear(),
            Ok(Some(event @ (watcher::Event::InitApply(_) | watcher::Event::Apply(_)))) => {
                let (object, initial) = match event {
                    watcher::Event::InitApply(object) => (object, true),
                    watcher::Event::Apply(object) => (object, false),
                    _ => continue,
                };
                let mut object = object;
                // Items of a list come without their type.
                object.types = Some(kind.types());
                let object = Arc::new(object);
                if initial {
                    names.insert(Key::of(&object));
                }
                hand.store.apply(kind, object.clone());
                announce(object);
            }
            Ok(Some(watcher::Event::Delete(object))) => {
                hand.store.remove(
                    kind,
                    &Key::of(&object),
                    object.metadata.uid.as_deref().unwrap_or_default(),
                );
                announce(Arc::new(object));
            }
            Ok(Some(watcher::Event::InitDone)) => {
                hand.store.retain(kind, &names).into_iter().for_each(announce);
                let _ = listed.send(kind).await;
            }
            Ok(None) => return,
            Err(error) => tracing::debug!(kind = kind.name(), %error, "watch broken, it starts again"),
        }
    }
}

struct Queue<C> {
    controller: Arc<C>,
    /// Keys that wait for a worker, in order; `dirty` holds the same and those that changed while in work.
    waiting: VecDeque<Key>,
    dirty: HashSet<Key>,
    running: HashSet<Key>,
    retries: HashMap<Key, Retry>,
    delays: DelayQueue<Key>,
    /// One timer a key: the earliest.
    timers: HashMap<Key, (delay_queue::Key, Instant)>,
    work: JoinSet<(Key, Result<Outcome>)>,
    start: Instant,
}

/// Runs one controller until `stop`. While the switch is off for a namespace, its keys are dropped; switching on makes
/// every object known again.
pub async fn run<C: Controller>(
    controller: C,
    mut changes: mpsc::UnboundedReceiver<Change>,
    switch: Arc<Switch>,
    stop: CancellationToken,
) {
    let mut queue = Queue {
        controller: Arc::new(controller),
        waiting: VecDeque::new(),
        dirty: HashSet::new(),
        running: HashSet::new(),
        retries: HashMap::new(),
        delays: DelayQueue::new(),
        timers: HashMap::new(),
        work: JoinSet::new(),
        start: Instant::now(),
    };
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(change) = changes.recv() => queue.controller.wakes(&change).into_iter().for_each(|key| queue.wake(key)),
            Some(expired) = queue.delays.next() => {
                let key = expired.into_inner();
                queue.timers.remove(&key);
                queue.wake(key);
            }
            Some(done) = queue.work.join_next() => queue.finish(done),
        }
        queue.pump(&switch);
    }
}

impl<C: Controller> Queue<C> {
    fn wake(&mut self, key: Key) {
        if self.dirty.insert(key.clone()) && !self.running.contains(&key) {
            self.waiting.push_back(key);
        }
    }

    fn schedule(&mut self, key: Key, delay: Duration) {
        let due = Instant::now() + delay;
        if let Some((timer, known)) = self.timers.get_mut(&key) {
            if due < *known {
                self.delays.reset_at(timer, due);
                *known = due;
            }
            return;
        }
        let timer = self.delays.insert_at(key.clone(), due);
        self.timers.insert(key, (timer, due));
    }

    fn finish(&mut self, done: Result<(Key, Result<Outcome>), tokio::task::JoinError>) {
        let Ok((key, outcome)) = done else {
            return;
        };
        self.running.remove(&key);
        if self.dirty.contains(&key) {
            self.waiting.push_back(key.clone());
        }
        let name = self.controller.name();
        let outcome = outcome.unwrap_or_else(|error| {
            tracing::debug!(
                controller = name,
                namespace = key.namespace,
                name = key.name,
                "{error:#}"
            );
            Outcome::Limited
        });
        match outcome {
            Outcome::Done => drop(self.retries.remove(&key)),
            Outcome::Later(delay) => {
                self.retries.remove(&key);
                self.schedule(key, delay);
            }
            Outcome::Limited => {
                let now = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
                let retry = self.retries.get(&key).copied().unwrap_or_default().failed(now);
                let due = retry.due.unwrap_or(now);
                self.retries.insert(key.clone(), retry);
                self.schedule(key, Duration::from_millis(due.saturating_sub(now)));
            }
        }
    }

    fn pump(&mut self, switch: &Switch) {
        while self.running.len() < WORKERS
            && let Some(key) = self.waiting.pop_front()
        {
            self.dirty.remove(&key);
            if !switch.is_on(&key.namespace) {
                continue;
            }
            self.running.insert(key.clone());
            let controller = self.controller.clone();
            self.work.spawn(async move {
                let outcome = controller.reconcile(&key).await;
                (key, outcome)
            });
        }
    }
}
