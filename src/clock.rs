//! The time of day, for the shell: what timestamps in the cluster are compared with. The core gets the time as an argument.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// A clock; clones are the same clock. The default is the system's.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<Run>>);

/// A clock that goes with tokio's time.
#[derive(Debug)]
struct Run {
    start: Timestamp,
    began: Instant,
    readings: AtomicU32,
}

impl Clock {
    /// A clock that shows `start` now and goes on with tokio's time, which a test may pause. Each reading is a nanosecond
    /// later than the one before: names that are made of the time differ, as they do in real life.
    #[must_use]
    pub fn starting_at(start: Timestamp) -> Self {
        Self(Some(Arc::new(Run {
            start,
            began: Instant::now(),
            readings: AtomicU32::new(0),
        })))
    }

    /// What it shows.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let Some(run) = &self.0 else {
            return Timestamp::now();
        };
        let reading = Duration::from_nanos(run.readings.fetch_add(1, Ordering::Relaxed).into());
        let passed = run.began.elapsed() + reading;
        run.start.checked_add(passed).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_goes_with_tokios_time_and_never_shows_the_same_twice() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let (first, second) = (clock.now(), clock.clone().now());
        assert!(first < second);
        tokio::time::advance(Duration::from_mins(10)).await;
        assert_eq!(clock.now().as_second(), 600);
    }

    #[test]
    fn the_default_is_the_systems() {
        let before = Timestamp::now();
        assert!(Clock::default().now() >= before);
    }
}
