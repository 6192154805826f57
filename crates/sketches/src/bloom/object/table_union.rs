//! Unions of objects of tables, except counters.
//!
//! A prefix of a fingerprint is a fingerprint, so the tables of another object are added to those of the first that have
//! the same bits, or fewer. Of two periods the later stays: merging again changes nothing.

use crate::bloom::law::{Limits, TableStep};
use crate::number::Fraction;
use crate::table::{Kept, Payload, Refused, Table};

use super::merge::{MergeError, NO_MEMORY, TOO_LARGE, reserved};
use super::tables::{Part, Tables};

/// A union that is being made.
struct Union {
    tables: Tables,
    limits: Limits,
    /// The first period that the union has, and the first that counts as a change.
    oldest: [u64; 2],
    /// The period before the newest of all sources.
    current: u64,
    changed: bool,
}

impl Tables {
    /// Returns the union with others, or `None` if this object already equals it. If `now_ms` is given, the periods of sources
    /// that were not set back with the clock are, and items that have expired by then do not count as a change. Items that
    /// have expired in the latest period in which any of them was written are left out.
    pub fn union(
        &self,
        others: &[&Self],
        now_ms: Option<u64>,
        limits: Limits,
    ) -> Result<Option<Self>, MergeError> {
        if self.shape().is_counting() {
            return self.union_of_counts(others, limits);
        }
        let mut union = Union {
            tables: self.try_clone().ok_or(NO_MEMORY)?,
            limits,
            oldest: [0; 2],
            current: 0,
            changed: false,
        };
        let tables = &mut union.tables;
        let window = self.shape().window();
        let lead = |tables: &Self| match (window, now_ms) {
            (Some(window), Some(now_ms)) => tables.lead(window, now_ms),
            _ => 0,
        };
        // What is to be added to, and then taken off, the numbers of another's periods.
        let mut added = reserved(others.len())?;
        if let Some(window) = window {
            let (back, mut current) = (lead(self), tables.reached(window));
            let ahead = self.ahead.saturating_add(back);
            for other in others {
                let more = (ahead, other.ahead.saturating_add(lead(other)));
                current = current.max((other.reached(window) + more.0).saturating_sub(more.1));
                added.push(more);
            }
            let oldest = current + 1 - window.periods();
            union.current = current;
            tables.set_back(back, oldest);
            let expired = now_ms.map(|now_ms| tables.period_at(window, now_ms));
            let expired = expired.map_or(0, |current| current + 1 - window.periods());
            union.oldest = [oldest, expired.max(oldest)];
        } else {
            added.resize(others.len(), (0, 0));
        }
        tables.free_unused();
        for (other, more) in others.iter().zip(added) {
            for part in other.parts_in_use() {
                union.add(part, more)?;
            }
        }
        if !union.changed {
            return Ok(None);
        }
        union.tables.united(limits).map(Some)
    }

    /// Ends a union: requests a rate that tables which are fuller than they were made for keep, with those that may follow.
    pub(super) fn united(mut self, limits: Limits) -> Result<Self, MergeError> {
        let mut rate = 0.0;
        for part in &mut self.parts {
            part.step.most = part.step.most.max(part.table.fingerprints());
            rate += part.step.rate_at(part.step.most);
        }
        let rate = (rate / TableStep::FIRST_SHARE).max(self.shape().params.error_rate.get());
        let error_rate = Fraction::new(rate).ok_or(MergeError::Rates)?;
        self.shape.params.error_rate = error_rate;
        if self.memory_bytes() > limits.object_bytes {
            return Err(TOO_LARGE);
        }
        Ok(self)
    }

    /// Returns the table with the most bits of those that have at most so many.
    pub(super) fn longest_within(&self, bits: u32) -> Option<usize> {
        let parts = self.parts();
        let shorter = (0..parts.len()).filter(|index| parts[*index].step.bits <= bits);
        shorter.max_by_key(|index| parts[*index].step.bits)
    }

    /// Shortens the fingerprints of the table that has the shortest, if they have more than so many bits. Returns whether they
    /// had.
    pub(super) fn shorten_to(&mut self, bits: u32) -> Result<bool, MergeError> {
        let parts = self.parts.iter_mut();
        let Some(part) = parts.min_by_key(|part| part.step.bits) else {
            return Ok(false);
        };
        if part.step.bits <= bits {
            return Ok(false);
        }
        let (table, payload) = (&part.table, part.table.payload());
        let newest = table.periods().last().map_or(0, |(newest, _)| newest - 1);
        let shorter = Table::filled(bits, payload, table.fingerprints(), newest, |filling| {
            table.each_prefix(bits, |fingerprint, held| filling.push(fingerprint, held))
        });
        part.table = shorter.map_err(refused)?;
        part.step.bits = bits;
        Ok(true)
    }
}

impl Union {
    /// Adds a table of an object, of whose periods the first of two numbers is to be added, and the second to be taken off.
    fn add(&mut self, part: &Part, more: (u64, u64)) -> Result<(), MergeError> {
        let is_live = |period: u64| (period + more.0).saturating_sub(more.1) >= self.oldest[0];
        let has_live = part.table.periods().last();
        let has_live = has_live.is_none_or(|(newest, _)| is_live(*newest));
        if part.table.fingerprints() == 0 || !has_live {
            return Ok(());
        }
        self.changed |= self.tables.shorten_to(part.step.bits)?;
        let target = self.tables.longest_within(part.step.bits).unwrap_or(0);
        let bits = self.tables.parts()[target].step.bits;
        let take = |fingerprint, payload: u64| {
            let payload = (payload + more.0).saturating_sub(more.1);
            self.take(target, fingerprint, payload)
        };
        part.table.each_prefix(bits, take).map_err(refused)
    }

    /// Adds a fingerprint of as many bits as a table has, unless a table has it already.
    fn take(&mut self, target: usize, fingerprint: u64, payload: u64) -> Result<(), Refused> {
        let bits = self.tables.parts()[target].step.bits;
        // The one that is left out here has expired.
        let is_period = matches!(self.tables.shape().payload(), Payload::Period(_));
        if is_period && payload < self.oldest[0] {
            return Ok(());
        }
        let prefix = |part: &Part| {
            let longer = bits.checked_sub(part.step.bits);
            longer.map(|longer| fingerprint >> longer)
        };
        let has = |part: &Part| prefix(part).is_some_and(|at| part.table.contains(at, payload));
        let parts = self.tables.parts();
        if parts.iter().any(has) {
            return Ok(());
        }
        let limits = self.limits;
        let others = self.tables.memory_bytes() - parts[target].table.memory_bytes();
        let most = || limits.table_bytes(others);
        let table = &mut self.tables.parts[target].table;
        self.changed |= match table.payload() {
            Payload::Nothing | Payload::Count => table.add(fingerprint, most)?,
            Payload::Period(_) => {
                let kept = table.keep(fingerprint, payload, self.current, most)?;
                kept != Kept::AsLong && payload >= self.oldest[1]
            }
        };
        Ok(())
    }
}

pub(super) const fn refused(refused: Refused) -> MergeError {
    match refused {
        Refused::OutOfMemory => NO_MEMORY,
        Refused::MemoryLimit | Refused::Crowded => TOO_LARGE,
    }
}
