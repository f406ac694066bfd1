//! The work queue's rate limiter of controller-runtime: 5 ms, doubled by each failure in a row, at most 1000 s.

use super::Millis;

/// First delay.
pub const BASE: Millis = 5;
/// Longest delay.
pub const CAP: Millis = 1_000_000;

/// One key's place in the queue after failures. Several wake-ups keep the earliest time, as a delaying queue does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Retry {
    /// Failures in a row since the last success.
    pub failures: u32,
    /// When the key is looked at again by itself; `None`: only a watch event wakes it.
    pub due: Option<Millis>,
}

impl Retry {
    /// A reconcile failed (or found the claim in use) at `now`.
    #[must_use]
    pub fn failed(self, now: Millis) -> Self {
        let due = now.saturating_add(delay(self.failures));
        let due = self.due.filter(|at| *at > now).map_or(due, |earlier| earlier.min(due));
        Self {
            failures: self.failures.saturating_add(1),
            due: Some(due),
        }
    }

    /// A reconcile succeeded: the failures are forgotten.
    #[must_use]
    pub fn succeeded(self) -> Self {
        Self::default()
    }
}

/// Delay after `failures` failures in a row, in milliseconds.
#[must_use]
pub fn delay(failures: u32) -> Millis {
    if failures >= 18 {
        CAP
    } else {
        (BASE << failures).min(CAP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_from_5_ms_to_1000_s() {
        assert_eq!((0..4).map(delay).collect::<Vec<_>>(), [5, 10, 20, 40]);
        assert_eq!(delay(17), 655_360);
        assert_eq!(delay(18), 1_000_000);
        assert_eq!(delay(u32::MAX), 1_000_000);
    }

    #[test]
    fn a_failure_on_a_wake_up_grows_the_delay_but_keeps_the_earlier_time() {
        let first = Retry {
            failures: 10,
            due: None,
        }
        .failed(100);
        assert_eq!(
            first,
            Retry {
                failures: 11,
                due: Some(100 + 5120)
            }
        );
        assert_eq!(
            first.failed(200),
            Retry {
                failures: 12,
                due: Some(100 + 5120)
            }
        );
        assert_eq!(first.succeeded(), Retry::default());
    }
}
