//! Which Events repeat earlier ones: they are counted on them instead of being written again.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::Duration;

use tokio::time::Instant;

/// A text that comes again within this time is a repetition. What lasts does so ([`crate::announce::REPEATED_AFTER`])
/// before the API server forgets the Event.
const WINDOW: Duration = Duration::from_mins(50);

/// After the first repetition the count is written again no sooner than this, then twice this, and so on.
const FIRST_GAP: Duration = Duration::from_secs(10);

/// The most of these distances.
const MOST_GAP: Duration = Duration::from_mins(10);

/// Different texts about one topic within [`MOST_GAP`]; a scheduler that counts nodes has a new one at each attempt.
const TEXTS: usize = 5;

/// Topics that are remembered.
const REMEMBERED: usize = 4096;

/// How an Event relates to those before it.
#[derive(Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It has to be written.
    New,
    /// It repeats the Event of this name, whose count and time have to be written.
    Again {
        /// The name of the Event.
        name: String,
        /// How often it has happened.
        count: i32,
    },
    /// Nothing has to be written.
    Quiet,
}

/// The recent Events by topic: what happened, and to whom. Bounded, and its loss costs some repeated Events.
#[derive(Debug)]
pub struct Series<T>(HashMap<T, Vec<Text>>);

impl<T> Default for Series<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

#[derive(Debug)]
struct Text {
    /// The hash of the text: a collision counts on the wrong Event, which nobody will ever see.
    hash: u64,
    name: String,
    count: i32,
    last: Instant,
    write_after: Instant,
    gap: Duration,
}

impl<T: Eq + Hash> Series<T> {
    /// Notes that something has happened now, and says what has to be written.
    pub fn repeat(&mut self, topic: &T, note: &str, now: Instant) -> Repeat {
        let Some(texts) = self.0.get_mut(topic) else {
            return Repeat::New;
        };
        texts.retain(|text| text.within(WINDOW, now));
        let hash = hash(note);
        let Some(text) = texts.iter_mut().find(|text| text.hash == hash) else {
            let latest = texts.iter().filter(|text| text.within(MOST_GAP, now));
            return if latest.count() < TEXTS {
                Repeat::New
            } else {
                Repeat::Quiet
            };
        };
        text.count = text.count.saturating_add(1);
        text.last = now;
        if now < text.write_after {
            return Repeat::Quiet;
        }
        text.write_after = now + text.gap;
        text.gap = (text.gap * 2).min(MOST_GAP);
        Repeat::Again {
            name: text.name.clone(),
            count: text.count,
        }
    }

    /// Notes that a new Event was written.
    pub fn written(&mut self, topic: T, note: &str, name: String, now: Instant) {
        if self.0.len() >= REMEMBERED && !self.0.contains_key(&topic) {
            self.make_room(now);
        }
        self.0.entry(topic).or_default().push(Text {
            hash: hash(note),
            name,
            count: 1,
            last: now,
            write_after: now,
            gap: FIRST_GAP,
        });
    }

    /// Notes that an Event does not exist any more.
    pub fn forget(&mut self, topic: &T, note: &str) {
        let hash = hash(note);
        if let Some(texts) = self.0.get_mut(topic) {
            texts.retain(|text| text.hash != hash);
        }
    }

    /// Drops what is over; if nothing is, the older half, so that this stays rare.
    fn make_room(&mut self, now: Instant) {
        self.0
            .retain(|_, texts| texts.iter().any(|text| text.within(WINDOW, now)));
        if self.0.len() < REMEMBERED {
            return;
        }
        let last = |texts: &[Text]| texts.iter().map(|text| text.last).max();
        let mut ages: Vec<_> = self.0.values().map(|texts| last(texts)).collect();
        let (_, median, _) = ages.select_nth_unstable(REMEMBERED / 2);
        let median = *median;
        self.0.retain(|_, texts| last(texts) > median);
    }
}

impl Text {
    fn within(&self, span: Duration, now: Instant) -> bool {
        now.duration_since(self.last) < span
    }
}

fn hash(note: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    note.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::announce::REPEATED_AFTER;

    fn written(series: &mut Series<&str>, note: &str, now: Instant) {
        series.written("db waits", note, format!("event-{note}"), now);
    }

    #[test]
    fn repetitions_are_written_at_a_growing_distance() {
        let mut series = Series::default();
        let start = Instant::now();
        assert_eq!(series.repeat(&"db waits", "a", start), Repeat::New);
        written(&mut series, "a", start);
        let mut writes = Vec::new();
        for second in 1..=600 {
            if let Repeat::Again { count, .. } = series.repeat(&"db waits", "a", start + Duration::from_secs(second)) {
                writes.push((second, count));
            }
        }
        assert_eq!(writes, [(1, 2), (11, 12), (31, 32), (71, 72), (151, 152), (311, 312)]);
    }

    #[test]
    fn a_text_that_comes_after_a_long_silence_is_new() {
        let mut series = Series::default();
        let start = Instant::now();
        written(&mut series, "a", start);
        let lasts = Repeat::Again {
            name: "event-a".to_owned(),
            count: 2,
        };
        let again = start + REPEATED_AFTER;
        assert_eq!(series.repeat(&"db waits", "a", again), lasts);
        assert_eq!(series.repeat(&"db waits", "a", again + WINDOW), Repeat::New);
    }

    #[test]
    fn another_text_or_topic_is_new() {
        let mut series = Series::default();
        let now = Instant::now();
        written(&mut series, "a", now);
        assert_eq!(series.repeat(&"db waits", "b", now), Repeat::New);
        assert_eq!(series.repeat(&"db failed", "a", now), Repeat::New);
        let again = Repeat::Again {
            name: "event-a".to_owned(),
            count: 2,
        };
        assert_eq!(series.repeat(&"db waits", "a", now), again);
    }

    #[test]
    fn ever_new_texts_do_not_become_ever_new_events() {
        let mut series = Series::default();
        let start = Instant::now();
        let mut count = 0;
        for second in 0..600 {
            let (note, now) = (format!("0/{second} nodes"), start + Duration::from_secs(second));
            if series.repeat(&"db waits", &note, now) == Repeat::New {
                written(&mut series, &note, now);
                count += 1;
            }
        }
        assert_eq!(count, TEXTS);
        // It goes on to change for a day: a few of them are remembered.
        for minute in 10..1440 {
            let (note, now) = (format!("1/{minute} nodes"), start + Duration::from_mins(minute));
            if series.repeat(&"db waits", &note, now) == Repeat::New {
                written(&mut series, &note, now);
            }
            assert!(series.0["db waits"].len() <= 6 * TEXTS, "{minute}");
        }
    }

    #[test]
    fn a_forgotten_event_is_new() {
        let mut series = Series::default();
        let now = Instant::now();
        written(&mut series, "a", now);
        series.forget(&"db waits", "a");
        assert_eq!(series.repeat(&"db waits", "a", now), Repeat::New);
    }

    #[test]
    fn memory_is_bounded_and_the_latest_are_kept() {
        let mut series = Series::default();
        let start = Instant::now();
        for number in 0..20_000_u64 {
            let now = start + Duration::from_millis(number);
            series.written(number, "a", String::new(), now);
            assert!(series.0.len() <= REMEMBERED);
        }
        let now = start + Duration::from_secs(20);
        assert!(matches!(series.repeat(&19_999, "a", now), Repeat::Again { .. }));
    }
}
