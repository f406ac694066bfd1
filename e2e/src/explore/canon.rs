//! Identity of states: two states are one if they differ only in which UIDs they use, in times that are over, or in what
//! nobody will look at again.

use super::objects::Id;
use k8s_openapi::jiff::Timestamp;
use std::cell::OnceCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// Visits everything that the identity of a part depends on, always in the same order.
pub trait Visitor {
    /// A UID.
    fn id(&mut self, id: Id);
    /// A time: it counts as past, present or future.
    fn time(&mut self, at: Timestamp);
    /// Any other value.
    fn value(&mut self, value: u64);

    /// A part of the part.
    fn outline(&mut self, part: &Outline) {
        for half in halves(part.digest) {
            self.value(half);
        }
        part.ids.iter().for_each(|id| self.id(*id));
        part.times.iter().for_each(|at| self.time(*at));
    }
}

/// What has an identity.
pub trait Walk {
    /// Shows it to a visitor.
    fn walk(&self, visitor: &mut impl Visitor);
}

/// A part of a state, shared by all states in which it is the same.
#[derive(Debug)]
pub struct Shared<T>(Rc<Part<T>>);

#[derive(Debug)]
struct Part<T> {
    value: T,
    outline: OnceCell<Outline>,
}

impl<T> Shared<T> {
    pub fn new(value: T) -> Self {
        let outline = OnceCell::new();
        Self(Rc::new(Part { value, outline }))
    }

    /// Whether neither has been touched since one was cloned from the other.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl<T: Walk> Shared<T> {
    pub fn outline(&self) -> &Outline {
        self.0.outline.get_or_init(|| Outline::of(&self.0.value))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T: Clone> Clone for Part<T> {
    fn clone(&self) -> Self {
        let outline = OnceCell::new();
        let value = self.value.clone();
        Self { value, outline }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        let part = Rc::make_mut(&mut self.0);
        part.outline = OnceCell::new();
        &mut part.value
    }
}

/// Places for the UIDs of one name, by [`Id::place`].
pub const PLACES: usize = 96;

/// Which lives of each name occur in a state, as bits.
pub struct Lives(pub [u64; PLACES]);

impl Default for Lives {
    fn default() -> Self {
        Self([0; PLACES])
    }
}

impl Lives {
    /// Notes the UIDs of a part.
    pub fn note(&mut self, part: &Outline) {
        for id in &part.ids {
            // A brain that goes on for ever is stopped by the rules long before this matters.
            self.0[id.place()] |= 1 << id.life.min(63);
        }
    }

    /// A life that is younger than all that occur.
    pub fn next(&self, id: Id) -> u8 {
        let used = 64 - self.0[id.place()].leading_zeros();
        u8::try_from(used).unwrap_or(u8::MAX)
    }

    /// The age of a life among those that occur.
    fn rank(&self, id: Id) -> u64 {
        u64::from((self.0[id.place()] & ((1 << id.life.min(63)) - 1)).count_ones())
    }
}

/// A 128-bit digest. Not cryptographic: states are not chosen by an enemy.
#[derive(Clone, Copy, Debug)]
pub struct Digest(u128);

impl Default for Digest {
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Digest {
    /// Takes in one value.
    pub fn push(&mut self, value: u64) {
        let mixed = (self.0 ^ u128::from(value)).wrapping_mul(0x2d35_8dcc_aa6c_78a5_8bb8_4b93_962e_acc9_u128 | 1);
        self.0 = mixed ^ (mixed >> 67) ^ (mixed >> 29);
    }

    /// The digest so far.
    pub fn done(mut self) -> u128 {
        self.push(0x9e37_79b9_7f4a_7c15);
        self.push(0x1234_5678_9abc_def0);
        self.0
    }

    /// Takes in another digest.
    pub fn push_whole(&mut self, value: u128) {
        for half in halves(value) {
            self.push(half);
        }
    }

    /// Takes in a text.
    pub fn push_text(&mut self, text: &str) {
        self.push(text.len() as u64);
        for chunk in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.push(u64::from_le_bytes(word));
        }
    }
}

/// A part as it enters the identity: its UIDs and times, and the digest of everything else.
#[derive(Clone, Debug)]
pub struct Outline {
    digest: u128,
    ids: Vec<Id>,
    times: Vec<Timestamp>,
    /// Digest of the part as it stands.
    pub exact: u128,
}

#[derive(Default)]
struct Sketch {
    digest: Digest,
    ids: Vec<Id>,
    times: Vec<Timestamp>,
}

impl Visitor for Sketch {
    fn id(&mut self, id: Id) {
        self.digest.push(1 << 63 | id.place() as u64);
        self.ids.push(id);
    }

    fn time(&mut self, at: Timestamp) {
        self.digest.push(1 << 62);
        self.times.push(at);
    }

    fn value(&mut self, value: u64) {
        self.digest.push(value);
    }
}

impl From<Sketch> for Outline {
    fn from(sketch: Sketch) -> Self {
        let Sketch { digest, ids, times } = sketch;
        let mut exact = digest;
        for id in &ids {
            exact.push(id.life.into());
        }
        for at in &times {
            exact.push(at.as_microsecond().cast_unsigned());
        }
        Self {
            digest: digest.done(),
            ids,
            times,
            exact: exact.done(),
        }
    }
}

impl Outline {
    pub fn of(part: &impl Walk) -> Self {
        let mut sketch = Sketch::default();
        part.walk(&mut sketch);
        sketch.into()
    }

    /// Of a text of the product's (a pod, a memory): finds the UIDs, which are enclosed in marks, and the times.
    pub fn of_text(text: &str) -> Self {
        let mut sketch = Sketch::default();
        for (at, part) in text.split(MARK).enumerate() {
            match Id::read(part).filter(|_| at % 2 == 1) {
                Some(id) => sketch.id(id),
                None => times(part, &mut sketch),
            }
        }
        sketch.into()
    }

    /// Whether a time is now or later: waiting changes what it says.
    pub fn ages(&self, now: Timestamp) -> bool {
        self.times.iter().any(|at| *at >= now)
    }

    /// Enters it into a state's digest, with its lives by age.
    pub fn enter(&self, lives: &Lives, now: Timestamp, digest: &mut Digest) {
        digest.push_whole(self.digest);
        for ids in self.ids.chunks(8) {
            digest.push(ids.iter().fold(0, |ranks, id| ranks << 8 | lives.rank(*id)));
        }
        for times in self.times.chunks(32) {
            digest.push(times.iter().fold(0, |order, at| order << 2 | at.cmp(&now) as u64 & 3));
        }
    }
}

/// Encloses a UID.
pub const MARK: char = '~';

/// Cuts a text at its times, as `2027-01-15T08:00:05.1Z`.
fn times(text: &str, sketch: &mut Sketch) {
    let mut rest = text;
    let mut search_from = 0;
    while let Some(found) = rest[search_from..].find("20").map(|at| at + search_from) {
        let end = rest[found..].find('Z').map(|length| found + length + 1);
        let time = end.and_then(|end| Some((end, rest[found..end].parse::<Timestamp>().ok()?)));
        match time {
            Some((end, time)) => {
                sketch.digest.push_text(&rest[..found]);
                sketch.time(time);
                rest = &rest[end..];
                search_from = 0;
            }
            None => search_from = found + 2,
        }
    }
    sketch.digest.push_text(rest);
}

fn halves(value: u128) -> [u64; 2] {
    #[allow(clippy::cast_possible_truncation, reason = "both halves are taken")]
    [value as u64, (value >> 64) as u64]
}
