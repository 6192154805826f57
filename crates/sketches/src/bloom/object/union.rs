//! The filters of a union, and the search for one that holds all bits of another filter.
//!
//! A filter is compared with each filter of its size, up to the first bits that it has more. Filters of different items
//! differ in their first words that are in use. Forged ones may differ only at their ends, so comparisons in vain may read
//! three times as many bytes as all sources have. Once that is spent, a filter counts as not held, and is merged into
//! another or stacked. Then the union takes more memory than necessary, but holds the same items.

use std::collections::{BinaryHeap, TryReserveError};

use crate::bloom::filter::Filter;
use crate::bloom::law::Link;
use crate::machine::work;

/// A filter of a union. A filter to merge into it stays pending until the next filter of its size is compared with it,
/// or until the union is certain.
pub struct Member<'s> {
    /// A filter of a source, unless the member has one of its own.
    pub source_filter: &'s Filter,
    pub own_filter: Option<Filter>,
    pub pending: Option<&'s Filter>,
    pub capacity: u64,
    pub items: u64,
    /// The link of an object of `RedisBloom`.
    pub link: Option<Link>,
    /// The index among the members of the union.
    pub number: usize,
    /// The rate when the filter is full.
    pub rate: f64,
}

impl<'s> Member<'s> {
    /// Returns the filter, without the pending one.
    pub fn filter(&self) -> &Filter {
        self.own_filter.as_ref().unwrap_or(self.source_filter)
    }

    pub fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.items)
    }

    /// Merges another member of the same size, the source's `filter`, if either holds the other or there is room for
    /// both; `holds` is whether this member holds the other. Returns whether anything changed, or `None` if there is no
    /// room.
    pub fn unite(&mut self, other: &Self, filter: &'s Filter, holds: bool) -> Option<bool> {
        let capacity = self.capacity.max(other.capacity);
        if holds {
            return Some(false);
        }
        let own = self.filter();
        if filter.holds(own) {
            (self.source_filter, self.own_filter) = (filter, None);
            self.items = self.items.max(other.items);
        } else {
            let (least, most) = self.bounds_with(filter);
            // If there is certainly room for both, the items of the union need not be estimated here.
            if most > capacity && own.items_of_union(filter).clamp(least, most) > capacity {
                return None;
            }
            self.pending = Some(filter);
        }
        self.capacity = capacity;
        Some(true)
    }

    /// Returns the least and the greatest possible number of items in the union with a filter.
    fn bounds_with(&self, filter: &Filter) -> (u64, u64) {
        let (own, others) = (self.items, filter.items());
        (own.max(others), own.saturating_add(others))
    }

    /// Merges the pending filter, or returns `None` if allocation fails.
    pub fn merge_pending(&mut self) -> Option<()> {
        let Some(filter) = self.pending.take() else {
            return Some(());
        };
        let (least, most) = self.bounds_with(filter);
        let items = if let Some(own) = &mut self.own_filter {
            own.absorb(filter)
        } else {
            let (union, items) = self.source_filter.united(filter)?;
            self.own_filter = Some(union);
            items
        };
        self.items = items.clamp(least, most);
        Some(())
    }

    /// Returns the filter of a member without a pending one, or `None` if allocation fails.
    pub fn into_filter(self) -> Option<Filter> {
        let copy = || {
            work::bytes(2 * self.source_filter.bitmap().len());
            self.source_filter.try_clone()
        };
        let filter = self.own_filter.or_else(copy)?;
        Some(filter.with_items(self.items, self.capacity))
    }
}

/// What the search for holders may still spend on filters that don't hold each other.
pub struct Search {
    comparisons: u64,
    bytes: u64,
}

impl Search {
    /// The most comparisons.
    const COMPARISONS: u64 = 1 << 20;

    /// The bytes that comparisons may read however small the sources are.
    const BYTES: u64 = 4 << 20;

    /// Creates the budget of a search among filters of this total size.
    pub const fn among(bytes: u64) -> Self {
        Self {
            comparisons: Self::COMPARISONS,
            bytes: Self::BYTES + 3 * bytes,
        }
    }

    /// Returns whether a filter holds another, or `None` once the budget is spent.
    fn holds(&mut self, own: &Member, other: &Member) -> Option<bool> {
        if self.comparisons == 0 || self.bytes == 0 {
            return None;
        }
        self.comparisons -= 1;
        work::steps(1);
        let (filter, others) = (own.filter(), other.filter());
        let lacking = filter.lacking(others);
        let read = lacking.map_or(0, |offset| 2 * offset as u64);
        self.bytes = self.bytes.saturating_sub(read);
        Some(lacking.is_none())
    }
}

/// The members of a union that have the same size.
#[derive(Default)]
pub struct SameSize {
    /// Numbers of the members.
    numbers: Vec<usize>,
    /// Room and numbers of the members. Only the entry of the widest may be outdated.
    rooms: BinaryHeap<(u64, usize)>,
}

impl SameSize {
    /// Adds a member.
    pub fn push(&mut self, member: &Member) -> Result<(), TryReserveError> {
        self.numbers.try_reserve(1)?;
        self.rooms.try_reserve(1)?;
        self.numbers.push(member.number);
        self.rooms.push((member.room(), member.number));
        Ok(())
    }

    /// Returns the member with most room; of several the last.
    pub fn widest(&self) -> Option<usize> {
        self.rooms.peek().map(|(_, number)| *number)
    }

    /// Merges the pending filter into the widest member, or returns `None` if allocation fails.
    pub fn merge_pending(&mut self, members: &mut [Member]) -> Option<()> {
        if let Some(mut widest) = self.rooms.peek_mut() {
            let member = &mut members[widest.1];
            member.merge_pending()?;
            widest.0 = member.room();
        }
        Some(())
    }

    /// Returns the first member that holds another, unless the search is spent before.
    pub fn holder(&self, members: &[Member], other: &Member, search: &mut Search) -> Option<usize> {
        for number in &self.numbers {
            if search.holds(&members[*number], other)? {
                return Some(*number);
            }
        }
        None
    }
}
