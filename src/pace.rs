//! How often pods may be created, and how many at once: one slot after the other, given out in the order of asking.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::name::Key;

/// Gives out slots. Who has to wait for one comes back at its time, so that no worker stands still meanwhile: deletes
/// must never queue behind creates. Nor do they when creates are slow: there are fewer places for them than workers.
#[derive(Debug)]
pub struct Pace {
    distance: Duration,
    slots: Mutex<Slots>,
    places: Semaphore,
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
    /// At most `per_second` slots a second, zero counts as one; and at most so many creates in flight.
    #[must_use]
    pub fn new(per_second: u32, in_flight: usize) -> Self {
        let slots = Slots {
            next: Instant::now(),
            given: HashMap::new(),
        };
        Self {
            distance: Duration::from_secs(1) / per_second.max(1),
            slots: Mutex::new(slots),
            places: Semaphore::new(in_flight),
        }
    }

    /// The subject's place, to be held as long as its create is in flight; else when its slot is, at which it has to ask
    /// again. A slot that comes while all places are taken is followed by another, after those of who asked before.
    pub fn take(&self, subject: &Key) -> Result<SemaphorePermit<'_>, Instant> {
        let now = Instant::now();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // A slot whose owner did not come needs no memory.
        slots
            .given
            .retain(|key, slot| key == subject || *slot + Duration::from_mins(1) > now);
        let mut slot = slots
            .given
            .remove(subject)
            .unwrap_or_else(|| slots.next(now, self.distance));
        if slot <= now {
            if let Ok(place) = self.places.try_acquire() {
                return Ok(place);
            }
            slot = slots.next(now + self.distance, self.distance);
        }
        slots.given.insert(subject.clone(), slot);
        Err(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(pace: &Pace, subject: &Key) -> Option<Instant> {
        pace.take(subject).err()
    }

    #[tokio::test(start_paused = true)]
    async fn slots_are_given_in_order_and_kept_until_their_owner_comes() {
        let pace = Pace::new(20, 1);
        let [a, b, c] = ["a", "b", "c"].map(|name| Key::new("ns", name));
        assert_eq!(slot(&pace, &a), None);
        let of_b = slot(&pace, &b).expect("b waits");
        assert_eq!(of_b - Instant::now(), Duration::from_millis(50));
        assert_eq!(slot(&pace, &c).expect("c waits") - of_b, Duration::from_millis(50));
        assert_eq!(slot(&pace, &b), Some(of_b), "asking again costs no second slot");
        tokio::time::sleep_until(of_b).await;
        assert_eq!(slot(&pace, &b), None);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(slot(&pace, &c), None);
        assert_eq!(slot(&pace, &a), None, "time that nobody used is not owed");
        assert!(pace.take(&a).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_all_places_taken_gets_another_slot_and_goes_ahead_when_one_is_free() {
        let pace = Pace::new(20, 1);
        let [a, b, c] = ["a", "b", "c"].map(|name| Key::new("ns", name));
        let held = pace.take(&a).expect("a goes ahead");
        let mut asked = 0;
        let end = Instant::now() + Duration::from_secs(10);
        let of_c = slot(&pace, &c).expect("c waits");
        tokio::time::sleep_until(of_c).await;
        while Instant::now() < end {
            asked += 1;
            let again = slot(&pace, &b).expect("all places are taken");
            assert!(again > Instant::now(), "nobody asks without a pause");
            tokio::time::sleep_until(again).await;
        }
        assert!(asked <= 200, "{asked} times in ten seconds");
        assert!(pace.take(&c).is_err(), "its slot has come, and no place");
        drop(held);
        assert!(pace.take(&b).is_ok());
    }
}
