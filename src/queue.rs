//! The subject queue: every subject at most once, one worker at a time for each, now or at a time.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::name::Key;

/// A queue of subjects; clones are the same queue.
#[derive(Clone, Debug, Default)]
pub struct Queue(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Told when a waiting worker has to look again.
    bell: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// When each subject is due that nobody works on, earliest first; the number keeps equal times in order of arrival.
    line: BTreeSet<(Instant, u64, Key)>,
    /// The place of each subject in the line.
    places: HashMap<Key, (Instant, u64)>,
    /// Subjects that are worked on, and when they are due again if they were added since.
    working: HashMap<Key, Option<Instant>>,
    arrivals: u64,
    closed: bool,
}

/// A subject that this worker alone works on, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    key: Key,
    due: Instant,
    queue: Queue,
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a subject that is due now.
    pub fn add(&self, key: Key) {
        self.add_at(key, Instant::now());
    }

    /// Adds a subject that is due at a time. A subject is in the queue once: the earlier time wins. If somebody works
    /// on it, it comes back when they are done, not before its time.
    pub fn add_at(&self, key: Key, due: Instant) {
        let mut state = self.state();
        if let Some(again) = state.working.get_mut(&key) {
            *again = Some(again.map_or(due, |earlier| earlier.min(due)));
            return;
        }
        if state.enter(key, due) {
            drop(state);
            self.0.bell.notify_one();
        }
    }

    /// Adds a subject that is due at a time, unless its turn comes anyway: now, or until `latest`.
    pub fn fill_in(&self, key: Key, due: Instant, latest: Instant) {
        let state = self.state();
        let place = state.places.get(&key);
        let comes = place.is_some_and(|(due, _)| *due <= latest) || state.working.contains_key(&key);
        drop(state);
        if !comes {
            self.add_at(key, due);
        }
    }

    /// The next subject that is due, as soon as there is one; `None` when the queue is closed. A worker may
    /// drop the future, but has to come back: it may be the one that watches the clock for the others.
    pub async fn next(&self) -> Option<Turn> {
        loop {
            let mut bell = pin!(self.0.bell.notified());
            // From here on no ring is missed, not even one between the look and the wait.
            bell.as_mut().enable();
            let due = {
                let mut state = self.state();
                if state.closed {
                    return None;
                }
                if let Some((due, key)) = state.take(Instant::now()) {
                    let more = !state.line.is_empty();
                    drop(state);
                    if more {
                        // Another worker watches the clock for what is now first.
                        self.0.bell.notify_one();
                    }
                    return Some(Turn {
                        key,
                        due,
                        queue: self.clone(),
                    });
                }
                state.line.first().map(|(due, _, _)| *due)
            };
            match due {
                Some(due) => tokio::select! {
                    // One order for all: a schedule can be repeated.
                    biased;
                    () = bell => {}
                    () = sleep_until(due) => {}
                },
                None => bell.await,
            }
        }
    }

    /// Ends the queue: nobody gets a subject any more. Work in progress is not disturbed.
    pub fn close(&self) {
        self.state().closed = true;
        self.0.bell.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether the line has a new first, so that somebody has to look at it.
    fn enter(&mut self, key: Key, due: Instant) -> bool {
        if let Some(&(place, number)) = self.places.get(&key) {
            if place <= due {
                return false;
            }
            self.line.remove(&(place, number, key.clone()));
        }
        let number = self.arrivals;
        self.arrivals += 1;
        self.places.insert(key.clone(), (due, number));
        self.line.insert((due, number, key));
        self.line.first().is_some_and(|(_, first, _)| *first == number)
    }

    fn take(&mut self, now: Instant) -> Option<(Instant, Key)> {
        if self.line.first()?.0 > now {
            return None;
        }
        let (due, _, key) = self.line.pop_first()?;
        self.places.remove(&key);
        self.working.insert(key.clone(), None);
        Some((due, key))
    }
}

impl Turn {
    /// The subject.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Since when it has been due: the moment that the first of what it is about was told.
    #[must_use]
    pub fn due(&self) -> Instant {
        self.due
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        let Some(Some(due)) = state.working.remove(&self.key) else {
            return;
        };
        if state.enter(self.key.clone(), due) {
            drop(state);
            self.queue.0.bell.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    async fn next(queue: &Queue) -> Turn {
        queue.next().await.unwrap()
    }

    async fn empty(queue: &Queue) -> bool {
        timeout(Duration::from_millis(1), queue.next()).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_subject_that_is_added_twice_comes_once_and_in_order_of_arrival() {
        let queue = Queue::new();
        for name in ["b", "a", "b"] {
            queue.add(key(name));
        }
        assert_eq!(next(&queue).await.key(), &key("b"));
        assert_eq!(next(&queue).await.key(), &key("a"));
        assert!(empty(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_subject_in_work_comes_back_when_the_work_is_done_and_not_before() {
        let queue = Queue::new();
        queue.add(key("a"));
        let turn = next(&queue).await;
        queue.add(key("a"));
        queue.add(key("a"));
        assert!(empty(&queue).await);
        drop(turn);
        drop(next(&queue).await);
        assert!(empty(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_subject_comes_at_its_time_and_an_earlier_time_wins() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add_at(key("a"), start + 10 * SECOND);
        queue.add_at(key("a"), start + 3 * SECOND);
        queue.add_at(key("a"), start + 20 * SECOND);
        drop(next(&queue).await);
        assert_eq!(start.elapsed().as_secs(), 3);
        assert!(timeout(60 * SECOND, queue.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_subject_is_filled_in_only_if_it_would_not_come() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add(key("working"));
        let turn = next(&queue).await;
        queue.add_at(key("later"), start + 9 * SECOND);
        queue.add_at(key("too late"), start + 10 * SECOND);
        for name in ["working", "later", "too late", "never"] {
            queue.fill_in(key(name), start + 3 * SECOND, start + 9 * SECOND);
        }
        drop(turn);
        for (name, seconds) in [("too late", 3), ("never", 3), ("later", 9)] {
            assert_eq!(next(&queue).await.key(), &key(name));
            assert_eq!(start.elapsed().as_secs(), seconds);
        }
        assert!(empty(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn times_that_are_added_during_work_are_kept_and_the_earlier_one_wins() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add(key("a"));
        let turn = next(&queue).await;
        queue.add_at(key("a"), start + 9 * SECOND);
        queue.add_at(key("a"), start + 5 * SECOND);
        drop(turn);
        drop(next(&queue).await);
        assert_eq!(start.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_knows_since_when_it_has_been_due() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add(key("a"));
        tokio::time::sleep(3 * SECOND).await;
        queue.add(key("a"));
        let turn = next(&queue).await;
        assert_eq!(turn.due(), start);
        queue.add(key("a"));
        tokio::time::sleep(SECOND).await;
        drop(turn);
        assert_eq!(next(&queue).await.due(), start + 3 * SECOND, "told during the work");
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_worker_wakes_for_a_subject_that_comes_before_what_it_waited_for() {
        let queue = Queue::new();
        let start = Instant::now();
        queue.add_at(key("late"), start + 100 * SECOND);
        let worker = tokio::spawn({
            let queue = queue.clone();
            async move { next(&queue).await.key().clone() }
        });
        tokio::time::sleep(SECOND).await;
        queue.add_at(key("soon"), start + 2 * SECOND);
        assert_eq!(worker.await.unwrap(), key("soon"));
        assert_eq!(start.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn many_workers_do_all_the_work_once_and_never_two_on_one_subject() {
        let queue = Queue::new();
        let busy = Arc::new(Mutex::new(BTreeSet::new()));
        let done = Arc::new(Mutex::new(HashMap::<Key, u32>::new()));
        let workers: Vec<_> = (0..8)
            .map(|_| {
                let (queue, busy, done) = (queue.clone(), Arc::clone(&busy), Arc::clone(&done));
                tokio::spawn(async move {
                    while let Some(turn) = queue.next().await {
                        assert!(busy.lock().unwrap().insert(turn.key().clone()), "two at once");
                        tokio::time::sleep(SECOND).await;
                        busy.lock().unwrap().remove(turn.key());
                        *done.lock().unwrap().entry(turn.key().clone()).or_default() += 1;
                    }
                })
            })
            .collect();
        let start = Instant::now();
        for round in 0..3_u32 {
            for number in 0..20 {
                queue.add_at(key(&number.to_string()), start + round * 10 * SECOND);
            }
            tokio::time::sleep(10 * SECOND).await;
        }
        queue.close();
        for worker in workers {
            worker.await.unwrap();
        }
        let done = done.lock().unwrap();
        assert_eq!(done.len(), 20);
        assert!(done.values().all(|times| *times == 3), "{done:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_queue_gives_nothing_and_wakes_every_waiting_worker() {
        let queue = Queue::new();
        queue.add_at(key("later"), Instant::now() + 100 * SECOND);
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.next().await.is_none() })
            })
            .collect();
        tokio::time::sleep(SECOND).await;
        queue.close();
        for worker in workers {
            assert!(timeout(SECOND, worker).await.unwrap().unwrap());
        }
        queue.add(key("a"));
        assert!(queue.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_panics_gives_its_subject_back() {
        let queue = Queue::new();
        queue.add(key("a"));
        let worker = tokio::spawn({
            let queue = queue.clone();
            async move {
                let turn = next(&queue).await;
                queue.add(turn.key().clone());
                panic!("on purpose");
            }
        });
        assert!(worker.await.is_err());
        assert_eq!(next(&queue).await.key(), &key("a"));
    }
}
