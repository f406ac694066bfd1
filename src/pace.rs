//! How often pods may be created: one slot after the other, given out in the order of asking.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::name::Key;

/// Gives out slots. Who has to wait for one comes back at its time, so that no worker stands still meanwhile: deletes
/// must never queue behind creates.
#[derive(Debug)]
pub struct Pace {
    distance: Duration,
    slots: Mutex<Slots>,
}

#[derive(Debug)]
struct Slots {
    next: Instant,
    given: HashMap<Key, Instant>,
}

impl Slots {
    fn next(&mut self, now: Instant, distance: Duration) -> Instant {
        let slot = self.next.max(now);
        self.next = slot + distance;
        slot
    }
}

impl Pace {
    /// At most `per_second` slots a second. Zero counts as one.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        let slots = Slots {
            next: Instant::now(),
            given: HashMap::new(),
        };
        Self {
            distance: Duration::from_secs(1) / per_second.max(1),
            slots: Mutex::new(slots),
        }
    }

    /// `None` if the subject may go ahead; else when its slot is, at which it has to ask again.
    pub fn take(&self, subject: &Key) -> Option<Instant> {
        let now = Instant::now();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // A slot whose owner did not come needs no memory.
        slots
            .given
            .retain(|key, slot| key == subject || *slot + Duration::from_mins(1) > now);
        let slot = slots
            .given
            .remove(subject)
            .unwrap_or_else(|| slots.next(now, self.distance));
        if slot <= now {
            return None;
        }
        slots.given.insert(subject.clone(), slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slots_are_given_in_order_and_kept_until_their_owner_comes() {
        let pace = Pace::new(20);
        let [a, b, c] = ["a", "b", "c"].map(|name| Key::new("ns", name));
        assert_eq!(pace.take(&a), None);
        let slot = pace.take(&b).expect("b waits");
        assert_eq!(slot - Instant::now(), Duration::from_millis(50));
        assert_eq!(pace.take(&c).expect("c waits") - slot, Duration::from_millis(50));
        assert_eq!(pace.take(&b), Some(slot), "asking again costs no second slot");
        tokio::time::sleep_until(slot).await;
        assert_eq!(pace.take(&b), None);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(pace.take(&c), None);
        assert_eq!(pace.take(&a), None, "time that nobody used is not owed");
        assert!(pace.take(&a).is_some());
    }
}
