//! The search for a filter of a union that holds all bits of another one.
//!
//! A filter is compared with each filter of its size: first at words where earlier filters differed, then at its own
//! first words that are in use, and in full only if all of these match. Full comparisons in vain may read half as many
//! bytes as all sources have, and no more. That bounds the work if filters were crafted to differ only elsewhere. Once
//! it is spent, a filter is compared with a few others: one whose cells have the same hash, the one with most room,
//! and those added last. If the filter was merged before, one of the last contains it. A filter that is not found
//! counts as not held, and is merged into another or stacked. Then the union takes more memory than necessary, but
//! holds the same items.

use std::collections::{BinaryHeap, HashMap, TryReserveError};

use super::part::Part;

/// The most words compared in a search for holders, at about a nanosecond each.
const MOST_WORDS: u64 = 1 << 20;

/// How many of the parts added last are compared once the search is spent.
const NEWEST: usize = 8;

/// How many offsets of words that distinguished filters are remembered.
const DIFFERENCES: usize = 8;

/// How many words that are in use are compared before a full comparison.
const SAMPLED: usize = 24;

/// The budget for comparisons of filters that don't hold each other.
pub struct Search {
    words: u64,
    bytes: u64,
}

impl Search {
    /// Creates the budget of a search among filters of this total size.
    pub const fn among(bytes: u64) -> Self {
        Self {
            words: MOST_WORDS,
            bytes: bytes / 2,
        }
    }

    const fn is_spent(&self) -> bool {
        self.words == 0 || self.bytes == 0
    }

    fn spend(&mut self, words: usize, bytes: usize) {
        self.words = self.words.saturating_sub(words as u64);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }
}

/// The parts of a union that have the same size.
#[derive(Default)]
pub struct SameSize {
    /// Numbers of the parts.
    parts: Vec<usize>,
    /// Room and numbers of the parts. Only the entry of the widest may be outdated.
    rooms: BinaryHeap<(u64, usize)>,
    differences: Differences,
    /// Numbers of the parts by the hash of their cells, once the search is spent.
    by_hash: Option<HashMap<u64, usize>>,
    /// The hash of the last filter searched for.
    hash: u64,
}

/// The latest offsets of words that distinguished filters.
#[derive(Default)]
struct Differences {
    offsets: [usize; DIFFERENCES],
    count: usize,
}

impl Differences {
    fn record(&mut self, offset: usize) {
        self.offsets[self.count % DIFFERENCES] = offset;
        self.count += 1;
    }

    fn offsets(&self) -> &[usize] {
        &self.offsets[..self.count.min(DIFFERENCES)]
    }
}

impl SameSize {
    /// Adds a part.
    pub fn push(&mut self, part: &Part) -> Result<(), TryReserveError> {
        self.parts.try_reserve(1)?;
        self.rooms.try_reserve(1)?;
        self.parts.push(part.number);
        self.rooms.push((part.room(), part.number));
        self.record(part.number)
    }

    /// Returns the part with most room; of several the last.
    pub fn widest(&self) -> Option<usize> {
        self.rooms.peek().map(|(_, number)| *number)
    }

    /// Merges the pending filter into the widest part, or returns `None` if allocation fails.
    pub fn merge_pending(&mut self, parts: &mut [Part]) -> Option<()> {
        if let Some(mut widest) = self.rooms.peek_mut() {
            let part = &mut parts[widest.1];
            part.merge_pending()?;
            widest.0 = part.room();
        }
        Some(())
    }

    /// Finds a part that holds another.
    pub fn holder(
        &mut self,
        parts: &[Part],
        other: &Part,
        search: &mut Search,
    ) -> Result<Option<usize>, TryReserveError> {
        if self.parts.is_empty() {
            return Ok(None);
        }
        if !search.is_spent() {
            let found = self.compare(parts, other, search);
            if found.is_some() || !search.is_spent() {
                return Ok(found);
            }
        }
        self.likely_holder(parts, other)
    }

    /// Finds the first part that holds another, unless the search is spent first.
    fn compare(&mut self, parts: &[Part], other: &Part, search: &mut Search) -> Option<usize> {
        let filter = other.filter();
        // A comparison with a single part is faster than sampling.
        let (sampled, used) = match self.parts.len() {
            1 => (0, [0; SAMPLED]),
            _ => filter.used_words::<SAMPLED>(),
        };
        for number in &self.parts {
            if search.is_spent() {
                return None;
            }
            let (part, own) = (&parts[*number], parts[*number].filter());
            let mut words = 1;
            let mut offsets = self.differences.offsets().iter().chain(&used[..sampled]);
            let differs = offsets.any(|offset| {
                words += 1;
                own.lacks_at(filter, *offset)
            });
            search.spend(words, 0);
            if differs || !part.may_hold(other) || !own.can_tell(filter) {
                continue;
            }
            match own.lacking(filter) {
                None => return Some(*number),
                Some(offset) => {
                    search.spend(0, 2 * offset);
                    self.differences.record(offset);
                }
            }
        }
        None
    }

    /// Finds a part that holds another among the few likely ones.
    fn likely_holder(
        &mut self,
        parts: &[Part],
        other: &Part,
    ) -> Result<Option<usize>, TryReserveError> {
        if self.by_hash.is_none() {
            let mut by_hash = HashMap::new();
            by_hash.try_reserve(self.parts.len())?;
            for number in &self.parts {
                by_hash.insert(parts[*number].filter().hash_of_cells(), *number);
            }
            self.by_hash = Some(by_hash);
        }
        let filter = other.filter();
        self.hash = filter.hash_of_cells();
        let equal = self.by_hash.as_ref().and_then(|all| all.get(&self.hash));
        let newest = self.parts.iter().rev().take(NEWEST).copied();
        let likely = equal.copied().into_iter().chain(self.widest());
        // Bounds comparisons in vain to two passes.
        let mut spare = filter.bitmap().len();
        for number in likely.chain(newest) {
            if spare == 0 {
                break;
            }
            let (part, own) = (&parts[number], parts[number].filter());
            let mut offsets = self.differences.offsets().iter();
            if offsets.any(|offset| own.lacks_at(filter, *offset))
                || !part.may_hold(other)
                || !own.can_tell(filter)
            {
                continue;
            }
            match own.lacking(filter) {
                None => return Ok(Some(number)),
                Some(offset) => {
                    spare = spare.saturating_sub(offset + 1);
                    self.differences.record(offset);
                }
            }
        }
        Ok(None)
    }

    /// Records that the part with this number holds the last filter searched for.
    pub fn record(&mut self, number: usize) -> Result<(), TryReserveError> {
        if let Some(by_hash) = &mut self.by_hash {
            by_hash.try_reserve(1)?;
            by_hash.insert(self.hash, number);
        }
        Ok(())
    }
}
