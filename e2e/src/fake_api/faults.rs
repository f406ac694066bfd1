//! What goes wrong with requests and watches, and how long they take: drawn from a seed.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;

use super::failure::Failure;

/// How often things go wrong, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// A request is refused: 409, 429, 500, 503, 401 or 410.
    pub refused: u8,
    /// The connection breaks before the request arrives, or after it was done.
    pub broken: u8,
    /// A request takes seconds, up to more than a client waits.
    pub slow: u8,
    /// A watch breaks, begins with 410, lags, or tells things twice.
    pub watches: u8,
    /// A request begins a time in which the token counts as expired.
    pub expired: u8,
    /// So much longer every create takes.
    pub creates: Duration,
}

/// Something that went wrong, or was unusual, because it was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Injected {
    /// A request was answered with this HTTP status and not done.
    Refused(u16),
    /// The connection broke before the request was done.
    BrokenBefore,
    /// The connection broke when the request had been done.
    BrokenAfter,
    /// A request took seconds.
    Slow,
    /// A watch began with 410.
    WatchGone,
    /// A watch broke in the middle.
    WatchBroken,
    /// An event came more than [`USUAL_LAG`] late.
    Late,
    /// An event was told twice.
    Twice,
    /// A bookmark came earlier than after [`USUAL_BOOKMARKS`], and is not that of the end.
    Bookmark,
}

impl Injected {
    /// All that [`Faults`] draws.
    pub const ALL: [Self; 15] = [
        Self::Refused(401),
        Self::Refused(409),
        Self::Refused(410),
        Self::Refused(429),
        Self::Refused(500),
        Self::Refused(503),
        Self::Refused(504),
        Self::BrokenBefore,
        Self::BrokenAfter,
        Self::Slow,
        Self::WatchGone,
        Self::WatchBroken,
        Self::Late,
        Self::Twice,
        Self::Bookmark,
    ];
}

impl fmt::Display for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused(code) => return code.fmt(f),
            Self::BrokenBefore => "reset before",
            Self::BrokenAfter => "reset after",
            Self::Slow => "slow",
            Self::WatchGone => "watch 410",
            Self::WatchBroken => "watch reset",
            Self::Late => "event late",
            Self::Twice => "event twice",
            Self::Bookmark => "bookmark",
        })
    }
}

/// So much later than the change an event comes at most when nothing goes wrong.
pub const USUAL_LAG: Duration = Duration::from_millis(2);

/// Between two bookmarks when nothing goes wrong.
pub const USUAL_BOOKMARKS: Duration = Duration::from_mins(1);

/// The source of delays and faults.
#[derive(Debug)]
pub struct Faults {
    rng: Rng,
    rates: Rates,
    /// Whose requests go wrong; nobody else's do.
    users: BTreeSet<String>,
    /// Whose token is expired, until when.
    expired: Option<(String, Instant)>,
    /// Whether requests take any time.
    instant: bool,
}

/// What happens to one request.
#[derive(Debug)]
pub struct Plan {
    /// Before it is done.
    pub before: Duration,
    /// After it was done.
    pub after: Duration,
    /// One of these is seconds.
    pub slow: bool,
    /// What goes wrong.
    pub fault: Option<Fault>,
}

/// What can go wrong with a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It is not done.
    Refused(Failure),
    /// It never arrives.
    BrokenBefore,
    /// It is done, and the answer never arrives.
    BrokenAfter,
}

/// What happens to one watch.
#[derive(Clone, Debug)]
pub struct WatchPlan {
    /// Begins with an error.
    pub expired: bool,
    /// Breaks after this time.
    pub breaks_after: Option<Duration>,
    /// Events come up to so much later.
    pub lag: Duration,
    /// One event in so many is told twice; 0: none.
    pub twice: u32,
    /// How often there is a bookmark.
    pub bookmarks: Duration,
    rng: Rng,
}

impl WatchPlan {
    /// How long the next event takes.
    pub fn delay(&mut self) -> Duration {
        let most = u64::try_from(self.lag.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.rng.u64(0..=most))
    }

    /// Whether the next event is told twice.
    pub fn again(&mut self) -> bool {
        self.twice > 0 && self.rng.u32(0..self.twice) == 0
    }
}

impl Faults {
    /// No faults; each request takes some milliseconds.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            rates: Rates::default(),
            users: BTreeSet::new(),
            expired: None,
            instant: false,
        }
    }

    /// No faults, and no delays of its own.
    #[must_use]
    pub fn none() -> Self {
        Self {
            instant: true,
            ..Self::new(0)
        }
    }

    /// From now on so much goes wrong for these users.
    pub fn set(&mut self, rates: Rates, users: &[&str]) {
        self.rates = rates;
        self.users = users.iter().map(|user| (*user).to_owned()).collect();
        self.expired = None;
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.rng.u64(from..=to))
    }

    /// A replica `NAME#2` is meant with `NAME`.
    fn meant(&self, user: &str) -> bool {
        let name = user.split_once('#').map_or(user, |(name, _)| name);
        self.users.contains(name)
    }

    fn happens(&mut self, percent: u8) -> bool {
        percent > 0 && self.rng.u8(0..100) < percent
    }

    /// What happens to the next request.
    pub fn request(&mut self, user: &str, verb: &str) -> Plan {
        if self.instant {
            return Plan {
                before: Duration::ZERO,
                after: Duration::ZERO,
                slow: false,
                fault: None,
            };
        }
        let mut plan = Plan {
            before: self.millis(0, 3),
            after: self.millis(1, 3),
            slow: false,
            fault: None,
        };
        if !self.meant(user) {
            return plan;
        }
        if verb == "create" {
            plan.before += self.rates.creates;
        }
        if self.happens(self.rates.slow) {
            plan.slow = true;
            // The longest is more than our clients wait.
            let long = self.millis(500, 14_000);
            if self.rng.bool() {
                plan.before = long;
            } else {
                plan.after = long;
            }
        }
        if self.happens(self.rates.expired) {
            let until = Instant::now() + self.millis(1000, 20_000);
            self.expired = Some((user.to_owned(), until));
        }
        plan.fault = if self
            .expired
            .as_ref()
            .is_some_and(|(of, until)| of == user && Instant::now() < *until)
        {
            Some(Fault::Refused(Failure::new(401, "Unauthorized")))
        } else if self.happens(self.rates.refused) {
            Some(Fault::Refused(self.refusal(verb)))
        } else if self.happens(self.rates.broken) {
            Some(if self.rng.bool() {
                Fault::BrokenBefore
            } else {
                Fault::BrokenAfter
            })
        } else {
            None
        };
        plan
    }

    fn refusal(&mut self, verb: &str) -> Failure {
        let writes = matches!(verb, "create" | "update" | "patch" | "delete");
        match self.rng.u8(0..6) {
            0 if writes => Failure::new(
                409,
                "the object has been modified; please apply your changes to the latest version",
            ),
            1 | 2 => Failure::new(
                429,
                "the server has received too many requests and has asked us to try again later",
            )
            .later(1),
            3 => Failure::new(503, "apiserver not ready").later(1),
            4 if verb == "list" => Failure::new(410, "the provided continue parameter is too old"),
            5 => Failure::new(504, "Timeout: Too large resource version: 9, current: 8").later(1),
            _ => Failure::new(500, "etcdserver: request timed out"),
        }
    }

    /// What happens to the next watch.
    pub fn watch(&mut self, user: &str) -> WatchPlan {
        let rng = self.rng.fork();
        let mut plan = WatchPlan {
            expired: false,
            breaks_after: None,
            lag: Duration::ZERO,
            twice: 0,
            bookmarks: USUAL_BOOKMARKS,
            rng,
        };
        if self.instant {
            return plan;
        }
        plan.lag = USUAL_LAG;
        if self.meant(user) && self.happens(self.rates.watches) {
            match self.rng.u8(0..5) {
                0 => plan.expired = true,
                1 => plan.breaks_after = Some(self.millis(10, 30_000)),
                2 => plan.lag = self.millis(100, 5_000),
                3 => plan.twice = self.rng.u32(1..4),
                _ => plan.bookmarks = Duration::from_secs(1),
            }
        }
        plan
    }
}
