//! Numbers of an object of tables.

use crate::number::{MAX_CAPACITY, either};
use crate::table::Period;

use super::part::Part;
use super::tables::Tables;

impl Tables {
    /// Returns the exact sum of the allocations in bytes, including `self`.
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        let tables = self.parts.iter().map(|part| part.table.memory_bytes());
        let entries = self.parts.capacity() as u64 * Self::ENTRY_BYTES;
        Self::BASE_BYTES + entries + tables.sum::<u64>()
    }

    /// Returns the number of allocations, at most.
    pub fn allocations(&self) -> u64 {
        let shards = self.parts.iter().map(|part| 3 + part.table.shards() as u64);
        2 + shards.sum::<u64>()
    }

    /// Returns the number of different items that have not expired.
    pub fn items(&self, now_ms: impl FnOnce() -> u64) -> u64 {
        let oldest = self.oldest_live(now_ms);
        self.parts.iter().map(|part| part.items_since(oldest)).sum()
    }

    /// Returns the number of items for which the error rate is kept.
    pub fn capacity(&self) -> u64 {
        let most = self.parts_in_use().map(|part| part.step.most);
        most.fold(0, u64::saturating_add).min(MAX_CAPACITY)
    }

    /// Returns the error rate with the items that have not expired.
    pub fn rate(&self, now_ms: impl FnOnce() -> u64) -> f64 {
        let oldest = self.oldest_live(now_ms);
        let rate_of = |part: &Part| part.step.rate_at(part.items_since(oldest));
        either(self.parts.iter().map(rate_of))
    }

    /// Returns the number of periods with items that have not expired, if there is a window.
    pub fn live_periods(&self, now_ms: impl FnOnce() -> u64) -> Option<u64> {
        self.shape.window()?;
        let oldest = self.oldest_live(now_ms);
        let periods = self.parts.iter().flat_map(|part| part.table.periods());
        let live = periods.map(|(period, _)| *period);
        let mut live: Vec<Period> = live.filter(|period| *period >= oldest).collect();
        live.sort_unstable();
        live.dedup();
        Some(live.len() as u64)
    }

    /// Returns the number of items in the current period, if there is a window.
    pub fn period_items(&self, now_ms: impl FnOnce() -> u64) -> Option<u64> {
        let current = self.clock()?.period_at(now_ms());
        let periods = self.parts.iter().flat_map(|part| part.table.periods());
        let of_current = periods.filter(|(period, _)| *period == current);
        Some(of_current.map(|(_, count)| count).sum())
    }
}
