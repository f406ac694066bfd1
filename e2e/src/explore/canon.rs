//! Identity of states: two states are one if they differ only in which UIDs they use, in times that are over, or in what
//! nobody will look at again.

use super::objects::Id;
use k8s_openapi::jiff::Timestamp;

/// Visits everything that a state's identity depends on, always in the same order.
pub trait Visitor {
    /// A UID.
    fn id(&mut self, id: Id);
    /// Any other value.
    fn value(&mut self, value: u64);
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

impl Visitor for Lives {
    fn id(&mut self, id: Id) {
        // A brain that goes on for ever is stopped by the rules long before this matters.
        self.0[id.place()] |= 1 << id.life.min(63);
    }

    fn value(&mut self, _: u64) {}
}

impl Lives {
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

    /// The digest of a text.
    pub fn text(text: &str) -> u128 {
        let mut digest = Self::default();
        digest.push(text.len() as u64);
        for chunk in text.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            digest.push(u64::from_le_bytes(word));
        }
        digest.done()
    }
}

/// Digests a state with its lives by age.
pub struct Renamed<'a> {
    /// The lives that occur.
    pub lives: &'a Lives,
    /// The digest so far.
    pub digest: Digest,
}

impl Visitor for Renamed<'_> {
    fn id(&mut self, id: Id) {
        self.digest.push((id.place() as u64) << 8 | self.lives.rank(id));
    }

    fn value(&mut self, value: u64) {
        self.digest.push(value);
    }
}

/// Text of the product's (a pod's annotations, a memory), with the UIDs and times in it.
#[derive(Clone, Debug)]
pub struct Tokens {
    tokens: Vec<Token>,
    /// Of the text as it stands.
    pub digest: u128,
}

#[derive(Clone, Debug)]
enum Token {
    Text(u64),
    Id(Id),
    Time(Timestamp),
}

/// Encloses a UID.
pub const MARK: char = '~';

impl Tokens {
    /// Finds the UIDs, which are enclosed in marks, and the times.
    pub fn of(text: &str) -> Self {
        let mut tokens = Vec::new();
        for (at, part) in text.split(MARK).enumerate() {
            match Id::read(part).filter(|_| at % 2 == 1) {
                Some(id) => tokens.push(Token::Id(id)),
                None => times(part, &mut tokens),
            }
        }
        Self {
            tokens,
            digest: Digest::text(text),
        }
    }

    /// Visits them; times count as past, present or future.
    pub fn walk(&self, now: Timestamp, visitor: &mut impl Visitor) {
        for token in &self.tokens {
            match token {
                Token::Text(digest) => visitor.value(*digest),
                Token::Id(id) => visitor.id(*id),
                Token::Time(at) => visitor.value(at.cmp(&now) as u64),
            }
        }
    }

    /// Whether a time is now or later: waiting changes what it says.
    pub fn ages(&self, now: Timestamp) -> bool {
        self.tokens
            .iter()
            .any(|token| matches!(token, Token::Time(at) if *at >= now))
    }
}

/// Cuts a text at its times, as `2027-01-15T08:00:05.1Z`.
fn times(text: &str, tokens: &mut Vec<Token>) {
    let mut rest = text;
    let mut search_from = 0;
    while let Some(found) = rest[search_from..].find("20").map(|at| at + search_from) {
        let end = rest[found..].find('Z').map(|length| found + length + 1);
        let time = end.and_then(|end| Some((end, rest[found..end].parse::<Timestamp>().ok()?)));
        match time {
            Some((end, time)) => {
                tokens.push(literal(&rest[..found]));
                tokens.push(Token::Time(time));
                rest = &rest[end..];
                search_from = 0;
            }
            None => search_from = found + 2,
        }
    }
    tokens.push(literal(rest));
}

fn literal(text: &str) -> Token {
    #[allow(clippy::cast_possible_truncation, reason = "half a digest is a digest")]
    Token::Text(Digest::text(text) as u64)
}
