//! Results by the digest of their input.

use super::canon::{Digest, Outline};
use crate::world::cdi;
use crate::world::virt_controller::{vm, vmi};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

/// Remembers what comes of an input.
#[derive(Debug)]
pub struct Memo<V> {
    known: RefCell<HashMap<u128, V, BuildHasherDefault<Half>>>,
    most: usize,
}

impl<V> Default for Memo<V> {
    fn default() -> Self {
        Self::of_most(usize::MAX)
    }
}

impl<V> Memo<V> {
    /// One that begins anew when it has so many.
    pub fn of_most(most: usize) -> Self {
        let known = RefCell::default();
        Self { known, most }
    }
}

impl<V: Clone> Memo<V> {
    /// What came of the input with this digest, or comes of it now.
    pub fn get(&self, input: u128, compute: impl FnOnce() -> V) -> V {
        if let Some(known) = self.known.borrow().get(&input) {
            return known.clone();
        }
        let new = compute();
        let mut known = self.known.borrow_mut();
        if known.len() >= self.most {
            known.clear();
        }
        known.insert(input, new.clone());
        new
    }

    /// How many different inputs there were.
    pub fn len(&self) -> usize {
        self.known.borrow().len()
    }
}

/// What neighbours do, by what they look at.
#[derive(Debug, Default)]
pub struct Habits {
    pub cdi: Memo<Rc<Vec<cdi::Write>>>,
    pub vm: Memo<Rc<Vec<vm::Write>>>,
    pub vmi: Memo<Rc<Vec<vmi::Write>>>,
}

/// What a neighbour looks at: `who` looks at which object, and at these parts of the state.
pub fn input(who: u8, slot: u8, parts: &[&Outline]) -> u128 {
    let mut digest = Digest::default();
    digest.push(u64::from(who) << 8 | u64::from(slot));
    for part in parts {
        digest.push_whole(part.exact);
    }
    digest.done()
}

/// A digest is a hash already.
#[derive(Clone, Copy, Debug, Default)]
pub struct Half(u64);

impl Hasher for Half {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, digest: u128) {
        #[allow(clippy::cast_possible_truncation, reason = "half a digest is a digest")]
        {
            self.0 = digest as u64;
        }
    }
}
