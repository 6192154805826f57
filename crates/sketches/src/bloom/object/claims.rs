//! What a union of tables knows of the fingerprints that others begin with: until when they stay, and their sums.

use crate::table::Merge;

use super::merge::MergeError;

/// The counts of fingerprints with the same prefix.
pub struct Sums {
    /// The sum of each object.
    pub of_objects: Vec<u64>,
    /// The objects whose sums are not 0.
    pub counted: Vec<usize>,
}

impl Sums {
    /// Adds a count, which is not 0.
    pub fn add(&mut self, object: usize, count: u64) {
        let sum = &mut self.of_objects[object];
        if *sum == 0 {
            self.counted.push(object);
        }
        *sum = sum.saturating_add(count);
    }

    /// Sets all sums to 0. Returns the largest, and whether any but the first object had one.
    pub fn take(&mut self) -> (u64, bool) {
        let (mut largest, mut has_others) = (0, false);
        for object in self.counted.drain(..) {
            largest = largest.max(std::mem::take(&mut self.of_objects[object]));
            has_others |= object > 0;
        }
        (largest, has_others)
    }
}

/// A fingerprint of a table of the union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Its bits, followed by zeros.
    pub key: u64,
    pub bits: u32,
    /// The number of the table.
    pub target: usize,
}

impl Prefix {
    /// Returns whether a fingerprint begins with this one.
    #[inline]
    pub const fn claims(self, key: u64) -> bool {
        (key ^ self.key) >> (u64::BITS - self.bits) == 0
    }

    /// Returns whether the next of all fingerprints begins with this one.
    #[inline]
    pub fn claims_next(self, all: &Merge) -> bool {
        all.next_key().is_some_and(|key| self.claims(key))
    }

    #[inline]
    pub const fn fingerprint(self) -> u64 {
        self.key >> (u64::BITS - self.bits)
    }
}

/// A fingerprint, and until which periods the first object and the others claim it.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub prefix: Prefix,
    pub own: Option<u64>,
    pub other: Option<u64>,
}

impl Claim {
    pub const fn new(prefix: Prefix) -> Self {
        Self {
            prefix,
            own: None,
            other: None,
        }
    }

    /// Returns the period until which the fingerprint stays.
    pub fn until(&self) -> Option<u64> {
        self.own.max(self.other)
    }
}

/// The claims that the next fingerprint may begin with.
pub struct Claims<E> {
    /// Each begins with the one before it, and has more bits.
    pub open: Vec<Claim>,
    /// The first period that counts as a change.
    pub changing: u64,
    /// Whether the others claimed a fingerprint for longer than the first object.
    pub is_changed: bool,
    pub emit: E,
}

impl<E: FnMut(Prefix, u64) -> Result<(), MergeError>> Claims<E> {
    /// Emits a fingerprint whose periods are known, unless one that it begins with stays for as long.
    #[inline(always)]
    pub fn close(&mut self, claim: Claim) -> Result<(), MergeError> {
        let key = claim.prefix.key;
        while self.open.pop_if(|open| !open.prefix.claims(key)).is_some() {}
        let until = claim.until();
        if self.open.last().is_some_and(|open| open.until() >= until) {
            return Ok(());
        }
        let counts = |period| period >= self.changing;
        self.is_changed |= claim.other > claim.own && claim.other.is_some_and(counts);
        self.open.push(claim);
        (self.emit)(claim.prefix, until.unwrap_or(0))
    }
}
