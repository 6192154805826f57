//! The search for a filter of a union that holds all of another one.
//!
//! A filter is compared with those of its size one after another: at first where earlier ones differed, and at its
//! first words that are in use; in full only if it passes there. Filters that were made to pass and to differ
//! elsewhere end that: comparing in full may read half as many bytes in vain as all sources have, and no more. From
//! then on a filter is compared with a few others: one whose cells have the same hash, the widest, and those that were
//! added last, one of which it was laid over if it was merged before. A filter that is not found counts as not held. It
//! is laid over another or stacked then, so the union takes more memory than it has to, but holds the same items.

use std::collections::{BinaryHeap, HashMap, TryReserveError};

use super::part::Part;

/// The most words that are compared in a search for holders, each in a nanosecond or so.
const MOST_LOOKS: u64 = 1 << 20;

/// How many parts of a size are compared once the search is spent: those that were added last.
const NEWEST: usize = 8;

/// How many words that told filters apart are remembered.
const TELLING: usize = 8;

/// How many words of a filter are compared first, of those that are in use.
const SAMPLED: usize = 24;

/// What may still be spent on comparing filters that don't hold each other.
pub struct Search {
    looks: u64,
    bytes: u64,
}

impl Search {
    /// A search among filters that have this many bytes in all.
    pub const fn among(bytes: u64) -> Self {
        Self {
            looks: MOST_LOOKS,
            bytes: bytes / 2,
        }
    }

    const fn is_spent(&self) -> bool {
        self.looks == 0 || self.bytes == 0
    }

    fn spend(&mut self, looks: usize, bytes: usize) {
        self.looks = self.looks.saturating_sub(looks as u64);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }
}

/// The parts of a union that have one size.
#[derive(Default)]
pub struct Alike {
    /// Their numbers.
    parts: Vec<usize>,
    /// Their room and numbers. Only that of the widest may have changed.
    rooms: BinaryHeap<(u64, usize)>,
    telling: Telling,
    /// Their numbers by the hash of what they hold, once the search is spent.
    by_hash: Option<HashMap<u64, usize>>,
    /// The hash of the filter that was last searched for.
    hash: u64,
}

/// Offsets of the words that told filters apart, the latest ones.
#[derive(Default)]
struct Telling {
    offsets: [usize; TELLING],
    count: usize,
}

impl Telling {
    fn record(&mut self, offset: usize) {
        self.offsets[self.count % TELLING] = offset;
        self.count += 1;
    }

    fn offsets(&self) -> &[usize] {
        &self.offsets[..self.count.min(TELLING)]
    }
}

impl Alike {
    /// Adds a part.
    pub fn push(&mut self, part: &Part) -> Result<(), TryReserveError> {
        self.parts.try_reserve(1)?;
        self.rooms.try_reserve(1)?;
        self.parts.push(part.number);
        self.rooms.push((part.room(), part.number));
        self.record(part.number)
    }

    /// The part with most room, of several the last.
    pub fn widest(&self) -> Option<usize> {
        self.rooms.peek().map(|(_, number)| *number)
    }

    /// Lays over the widest part what is to be laid over it, or returns `None` if there is no memory for that.
    pub fn settle(&mut self, parts: &mut [Part]) -> Option<()> {
        if let Some(mut widest) = self.rooms.peek_mut() {
            let part = &mut parts[widest.1];
            part.settle()?;
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

    /// Finds the first part that holds another, unless the search is spent before.
    fn compare(&mut self, parts: &[Part], other: &Part, search: &mut Search) -> Option<usize> {
        let filter = other.filter();
        // A single one is sooner compared than sampled.
        let (sampled, used) = match self.parts.len() {
            1 => (0, [0; SAMPLED]),
            _ => filter.used_words::<SAMPLED>(),
        };
        for number in &self.parts {
            if search.is_spent() {
                return None;
            }
            let (part, own) = (&parts[*number], parts[*number].filter());
            let mut looks = 1;
            let mut offsets = self.telling.offsets().iter().chain(&used[..sampled]);
            let differs = offsets.any(|offset| {
                looks += 1;
                own.lacks_at(filter, *offset)
            });
            search.spend(looks, 0);
            if differs || !part.may_hold(other) || !own.can_tell(filter) {
                continue;
            }
            match own.lacking(filter) {
                None => return Some(*number),
                Some(offset) => {
                    search.spend(0, 2 * offset);
                    self.telling.record(offset);
                }
            }
        }
        None
    }

    /// Finds a part that holds another, of the few that are likely to.
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
        // At most two passes are in vain.
        let mut spare = filter.bitmap().len();
        for number in likely.chain(newest) {
            if spare == 0 {
                break;
            }
            let (part, own) = (&parts[number], parts[number].filter());
            let mut offsets = self.telling.offsets().iter();
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
                    self.telling.record(offset);
                }
            }
        }
        Ok(None)
    }

    /// Records that the part with this number holds the filter that was last searched for.
    pub fn record(&mut self, number: usize) -> Result<(), TryReserveError> {
        if let Some(by_hash) = &mut self.by_hash {
            by_hash.try_reserve(1)?;
            by_hash.insert(self.hash, number);
        }
        Ok(())
    }
}
