//! A table of an object, as the fingerprints of items.

use crate::bloom::law::{Refusal, TableStep};
use crate::bloom::stack::Added;
use crate::table::{Kept, Payload, Period, Refused, Room, Table};

use super::clock::Now;

/// A table, and how many items it is for.
#[derive(Debug)]
pub struct Part {
    /// How it came to be.
    pub step: TableStep,
    /// The fingerprints.
    pub table: Table,
}

impl Part {
    /// Creates an empty table.
    pub(super) fn new(step: TableStep, payload: Payload) -> Result<Self, Refusal> {
        let table = Table::new(step.bits, payload).ok_or(Refusal::OutOfMemory)?;
        Ok(Self { step, table })
    }

    pub(super) const fn is_full(&self) -> bool {
        self.table.fingerprints() >= self.step.most
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.table.fingerprints() == 0
    }

    /// Returns the fingerprint of an item with this first hash.
    #[inline]
    pub(super) const fn fingerprint(&self, hash: u64) -> u64 {
        hash >> (u64::BITS - self.step.bits)
    }

    #[inline]
    pub(super) fn contains(&self, hash: u64, oldest: Period) -> bool {
        self.table.contains(self.fingerprint(hash), oldest)
    }

    /// Adds an item with this first hash.
    pub(super) fn add(&mut self, hash: u64, now: &Now, room: Room) -> Result<Added, Refused> {
        let fingerprint = self.fingerprint(hash);
        Ok(match &mut self.table {
            Table::Set(set) => {
                let is_new = set.add(fingerprint, room)?;
                if is_new { Added::New } else { Added::Present }
            }
            Table::Counts(counts) => match counts.count_up(fingerprint, room)? {
                0 => Added::New,
                _ => Added::Again,
            },
            Table::Lives(lives) => match lives.keep(fingerprint, now.target, now.current, room)? {
                Kept::New => Added::New,
                Kept::Extended => Added::Again,
                Kept::Unchanged => Added::Present,
            },
        })
    }

    /// Returns how often an item with this first hash was counted.
    pub(super) fn count(&self, hash: u64) -> u64 {
        match &self.table {
            Table::Counts(counts) => counts.count_of(self.fingerprint(hash)),
            Table::Set(_) | Table::Lives(_) => 0,
        }
    }

    /// Takes one off the count of an item with this first hash. Returns whether it did.
    pub(super) fn count_down(&mut self, hash: u64) -> bool {
        let fingerprint = self.fingerprint(hash);
        match &mut self.table {
            Table::Counts(counts) => counts.count_down(fingerprint) > 0,
            Table::Set(_) | Table::Lives(_) => false,
        }
    }

    /// Returns the number of fingerprints whose period is this one or a later one.
    pub(super) fn items_since(&self, oldest: Period) -> u64 {
        let Table::Lives(lives) = &self.table else {
            return self.table.fingerprints();
        };
        let periods = lives.periods().iter();
        let live = periods.filter(|(period, _)| *period >= oldest);
        live.map(|(_, count)| count).sum()
    }
}

/// Returns why an item was refused.
pub(super) const fn refusal(refused: Refused) -> Refusal {
    match refused {
        Refused::OutOfMemory => Refusal::OutOfMemory,
        Refused::MemoryLimit => Refusal::MemoryLimit,
    }
}
