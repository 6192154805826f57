//! Objects that count, forget, or grow to a named size: tables of the fingerprints of their items.
//!
//! The first table is for the items that were reserved. If it has more, an object that scales begins another by the law of
//! `law/tables.rs`. The newest table takes new items. The table that claims an item keeps its count. A later period goes to
//! the newest table, if that has room, and the older table keeps the entry as it is: it may be that of another item with the
//! same fingerprint. So the older tables of a window become empty, and go.

use crate::bloom::law::{Growth, Limits, Refusal, TableStep};
use crate::bloom::stack::{self, Added};
use crate::hash::{BATCH, Batch, Hasher, Probe};
use crate::machine::memory::{self, Relocate};
use crate::number::Fraction;
use crate::table::{Period, Table};

use super::clock::{Clock, Now};
use super::part::{Part, refusal};
use super::shape::Shape;
use super::window::Time;

/// An object of tables.
#[derive(Debug)]
pub struct Tables {
    pub(super) shape: Shape,
    hasher: Hasher,
    /// Oldest first; never empty.
    pub(super) parts: Vec<Part>,
    /// What is added to the clock's number of a period. It grows when the clock was set back (`clock.rs`).
    pub(super) ahead: u64,
    /// The period before which all items were dropped.
    dropped: Period,
}

/// The tables keep a rate of 1 or more.
pub(super) struct RateTooLarge;

/// What the rates of tables may exceed that of their object by: sums of doubles are rounded.
const ROUNDING: f64 = 1.0 + 1e-9;

impl Tables {
    /// Size of an object without tables, in bytes.
    pub const BASE_BYTES: u64 = memory::stated::<Self>(144) as u64;

    /// Size of the entry of a table, in bytes.
    pub const ENTRY_BYTES: u64 = memory::stated::<Part>(168) as u64;

    /// Creates an empty object.
    pub fn new(shape: &Shape, hasher: Hasher, limits: Limits) -> Result<Self, Refusal> {
        let mut tables = Self::without_parts(shape, hasher);
        let part = Part::new(shape.table_step([])?, shape.payload())?;
        tables.push(part, limits)?;
        Ok(tables)
    }

    fn without_parts(shape: &Shape, hasher: Hasher) -> Self {
        let mut shape = *shape;
        shape.params.tightening = shape.tightening();
        shape.params.capacity = shape.params.capacity.max(1);
        Self {
            shape,
            hasher,
            parts: Vec::new(),
            ahead: Clock::least_ahead(shape.window()),
            dropped: Period::default(),
        }
    }

    /// Creates an object of these tables, oldest first. The numbers of their periods are [stored](Self::stored) ones, as is
    /// that of the period before which all items were dropped.
    ///
    /// Tables that were copied in pieces, while others came and went, may be too many for the rate. Then the object has the rate
    /// that they keep.
    pub fn of_parts(
        shape: &Shape,
        hasher: Hasher,
        parts: Vec<Part>,
        dropped: Period,
    ) -> Result<Self, &'static str> {
        let mut tables = Self {
            parts,
            dropped,
            ..Self::without_parts(shape, hasher)
        };
        if tables.claimed_rate() > shape.params.error_rate.get() * ROUNDING {
            tables
                .raise_rate_to_claimed()
                .map_err(|RateTooLarge| "the error rates add up to 1 or more")?;
        }
        tables.check()?;
        Ok(tables)
    }

    /// Returns the rate that the tables keep.
    fn claimed_rate(&self) -> f64 {
        let rates = self
            .parts_in_use()
            .map(|part| part.step.rate_at(part.step.most));
        rates.sum()
    }

    /// Raises the requested rate to the one that the tables keep with those that may follow, if that is larger.
    pub(super) fn raise_rate_to_claimed(&mut self) -> Result<(), RateTooLarge> {
        let rate = self.claimed_rate() / TableStep::FIRST_SHARE;
        let rate = rate.max(self.shape.params.error_rate.get());
        self.shape.params.error_rate = Fraction::new(rate).ok_or(RateTooLarge)?;
        Ok(())
    }

    /// Returns an object like this of other tables.
    pub(super) const fn with_parts(&self, parts: Vec<Part>) -> Self {
        Self { parts, ..*self }
    }

    /// Returns the number that a period has in an object that is read.
    pub fn stored(&self, period: Period) -> u64 {
        (period.0 + Clock::least_ahead(self.shape.window())).saturating_sub(self.ahead)
    }

    /// Checks that the object is valid.
    pub fn check(&self) -> Result<(), &'static str> {
        let payload = self.shape.payload();
        let is_of_kind =
            |Part { step, table }: &Part| table.payload() == payload && table.bits() == step.bits;
        let parts = &self.parts;
        if parts.is_empty() {
            return Err("no tables");
        }
        if !parts.is_sorted_by(|one, other| one.step.number < other.step.number) {
            return Err("tables out of order");
        }
        if !parts.iter().all(is_of_kind) {
            return Err("tables of another kind");
        }
        if self.parts_in_use().count() > TableStep::MOST {
            return Err("too many tables");
        }
        if self.claimed_rate() > self.shape.params.error_rate.get() * ROUNDING {
            return Err("tables that do not keep the error rate");
        }
        Ok(())
    }

    pub fn try_clone(&self) -> Option<Self> {
        let parts = self.parts.iter().map(|part| {
            let table = part.table.try_clone()?;
            Some(Part { table, ..*part })
        });
        Some(Self {
            parts: memory::collected(parts)?,
            ..*self
        })
    }

    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    pub const fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// Returns the tables, oldest first.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the tables that have items, and the newest. Others are about to go.
    pub fn parts_in_use(&self) -> impl Iterator<Item = &Part> + Clone {
        let last = self.parts.len().saturating_sub(1);
        let parts = self.parts.iter().enumerate();
        let in_use = parts.filter(move |(index, part)| *index == last || !part.is_empty());
        in_use.map(|(_, part)| part)
    }

    /// Sets the periods back by `back`, and drops the items of those before `oldest`. Returns whether any item was dropped, or
    /// may be from now on.
    pub(super) fn set_back(&mut self, back: u64, oldest: Period) -> bool {
        self.ahead = self.ahead.saturating_add(back);
        for part in &mut self.parts {
            if let Table::Lives(lives) = &mut part.table {
                lives.drop_before(oldest);
            }
        }
        let is_later = oldest > self.dropped;
        self.dropped = self.dropped.max(oldest);
        is_later || back > 0
    }

    /// Returns the period before which all items were dropped.
    pub const fn dropped(&self) -> Period {
        self.dropped
    }

    /// Returns the newest period with items; 0 without items.
    pub fn newest_period(&self) -> Period {
        let last = |part: &Part| part.table.periods().last().map(|(period, _)| *period);
        self.parts.iter().filter_map(last).max().unwrap_or_default()
    }

    /// Returns the clock, if the object has a window.
    #[inline]
    pub(super) fn clock(&self) -> Option<Clock> {
        let ahead = self.ahead;
        self.shape.window().map(|window| Clock { window, ahead })
    }

    /// Returns the latest period in which the object was written.
    pub(super) fn reached(&self, clock: Clock) -> Period {
        clock.reached(self.newest_period(), self.dropped)
    }

    /// Returns by how many periods, but for one, the clock was set back since the last write.
    pub(super) fn lead(&self, now_ms: u64) -> u64 {
        let lead = |clock: Clock| clock.lead(now_ms, self.reached(clock));
        self.clock().map_or(0, lead)
    }

    /// Returns the clock's number of the latest period in which the object was written, if it has a window.
    pub fn reached_period(&self) -> Option<u64> {
        self.reached(self.clock()?).0.checked_sub(self.ahead)
    }

    /// Moves the allocations, starting with number `first`, until `by` stops. Returns the number of the next one, if there
    /// is one.
    pub fn relocate(&mut self, first: usize, by: &mut impl Relocate) -> Option<usize> {
        let mut number = 0;
        for part in &mut self.parts {
            let count = part.table.shards();
            if number + count > first {
                if number > first && by.should_stop() {
                    return Some(number);
                }
                if let Some(next) = part.table.relocate(first.saturating_sub(number), by) {
                    return Some(number + next);
                }
            }
            number += count;
        }
        self.parts = by.table(std::mem::take(&mut self.parts));
        None
    }

    /// Returns the oldest period that has not expired; 0 without a window.
    #[inline]
    pub(super) fn oldest_live(&self, now_ms: impl FnOnce() -> u64) -> Period {
        let oldest = |clock: Clock| clock.oldest(clock.period_at(now_ms()));
        self.clock().map_or(Period::default(), oldest)
    }

    fn now(&self, time: Time) -> Now {
        let now = |clock: Clock| clock.now(time, self.reached(clock));
        self.clock().map_or_else(Now::default, now)
    }

    #[inline(never)]
    pub fn contains(&self, probe: Probe, now_ms: impl FnOnce() -> u64) -> bool {
        let (hash, oldest) = (probe.hashes().0, self.oldest_live(now_ms));
        let mut newest_first = self.parts.iter().rev();
        newest_first.any(|part| part.contains(hash, oldest))
    }

    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        now_ms: impl FnOnce() -> u64,
        answer: impl FnMut(Probe, bool),
    ) {
        let oldest = self.oldest_live(now_ms);
        let claims = |batch: &Batch, all: u64| self.claims(batch, all, oldest);
        stack::contains_each(&self.hasher, items, claims, answer);
    }

    /// Returns a mask of the items of a batch that any table claims.
    fn claims(&self, batch: &Batch, all: u64, oldest: Period) -> u64 {
        let mut claimed = 0;
        let (mut fingerprints, mut answers) = ([0; BATCH], [false; BATCH]);
        for part in self.parts.iter().rev() {
            for (fingerprint, hash) in fingerprints.iter_mut().zip(&batch.a[..batch.len()]) {
                *fingerprint = part.fingerprint(*hash);
            }
            let answers = &mut answers[..batch.len()];
            let fingerprints = &fingerprints[..batch.len()];
            part.table.contains_each(fingerprints, oldest, answers);
            for (item, answer) in answers.iter().enumerate() {
                claimed |= u64::from(*answer) << item;
            }
            if claimed == all {
                break;
            }
        }
        claimed
    }

    /// Adds an item. [`tidy`](Self::tidy) has to be called before, with the same time: otherwise, expired items take up room,
    /// and items live longer than they should after the clock was set back.
    pub fn add(
        &mut self,
        probe: Probe,
        time: Time,
        limits: impl Fn() -> Limits,
    ) -> Result<Added, Refusal> {
        let now = self.now(time);
        self.add_hash(probe.hashes().0, &now, &limits)
    }

    /// Adds items in order, and passes the result of [`add`](Self::add) for each to `outcome`. Stops after the first
    /// refusal. Like `add`, it requires [`tidy`](Self::tidy) before.
    pub fn add_each<'i>(
        &mut self,
        mut items: impl Iterator<Item = &'i [u8]>,
        time: Time,
        limits: impl Fn() -> Limits,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) {
        let now = self.now(time);
        loop {
            let batch = Batch::of(&self.hasher, &mut items);
            let hashes = &batch.a[..batch.len()];
            let is_added = self.add_batch(hashes, &now, &limits, &mut outcome);
            if !is_added || batch.len() < BATCH {
                return;
            }
        }
    }

    /// Adds items like [`add_each`](Self::add_each), given their hashes. Returns whether none was refused.
    fn add_batch(
        &mut self,
        hashes: &[u64],
        now: &Now,
        limits: &impl Fn() -> Limits,
        outcome: &mut impl FnMut(Result<Added, Refusal>),
    ) -> bool {
        hashes.chunks(Table::BATCH).all(|together| {
            for part in &self.parts {
                let fingerprints = together.iter().map(|hash| part.fingerprint(*hash));
                part.table.prefetch_each(fingerprints);
            }
            together.iter().all(|hash| {
                let added = self.add_hash(*hash, now, limits);
                outcome(added);
                added.is_ok()
            })
        })
    }

    fn add_hash(
        &mut self,
        hash: u64,
        now: &Now,
        limits: &impl Fn() -> Limits,
    ) -> Result<Added, Refusal> {
        let added = match self.place(hash, now, limits)? {
            Some(index) => self.add_to(index, hash, now, limits)?,
            None => self.begin_with(hash, now, limits())?,
        };
        if self.parts.len() > 1 {
            self.free_empty_tables();
        }
        Ok(added)
    }

    /// Returns the table to which an item is added, or `None` if another is to be begun.
    fn place(
        &self,
        hash: u64,
        now: &Now,
        limits: &impl Fn() -> Limits,
    ) -> Result<Option<usize>, Refusal> {
        let last = self.parts.len() - 1;
        if last == 0 && !self.parts[0].is_full() {
            return Ok(Some(0));
        }
        // All counts of an item are in the oldest table that claims it.
        let mut parts = self.parts.iter();
        if let Some(claimant) = parts.position(|part| part.contains(hash, now.oldest)) {
            return Ok(Some(claimant));
        }
        let has_room = |part: &Part| !part.is_full() && !part.is_empty();
        if !self.parts[last].is_full() {
            Ok(Some(last))
        } else if let Some(older) = self.parts.iter().rposition(has_room) {
            Ok(Some(older))
        } else if self.shape.params.growth != Growth::Fixed {
            Ok(None)
        } else if limits().saturate {
            Ok(Some(last))
        } else {
            Err(Refusal::Full)
        }
    }

    /// Begins a table with an item.
    fn begin_with(&mut self, hash: u64, now: &Now, limits: Limits) -> Result<Added, Refusal> {
        let before = self.parts_in_use().map(|part| part.step);
        let mut part = Part::new(self.shape.table_step(before)?, self.shape.payload())?;
        let room = limits.table_bytes(self.memory_bytes() + Self::ENTRY_BYTES);
        let added = part.add(hash, now, &|| room).map_err(refusal)?;
        self.push(part, limits)?;
        Ok(added)
    }

    /// Appends a table.
    fn push(&mut self, mut part: Part, limits: Limits) -> Result<(), Refusal> {
        let others = self.memory_bytes() + Self::ENTRY_BYTES;
        if part.table.memory_bytes() > limits.table_bytes(others) {
            return Err(Refusal::MemoryLimit);
        }
        let room = self.parts.try_reserve_exact(1);
        room.map_err(|_| Refusal::OutOfMemory)?;
        // An object from outside may have the largest number.
        let last = self.parts.last().map(|last| last.step.number);
        if last.is_some_and(|last| last >= part.step.number) {
            for (number, part) in (0..).zip(&mut self.parts) {
                part.step.number = number;
            }
            part.step.number = self.parts.len() as u64;
        }
        self.parts.push(part);
        Ok(())
    }

    fn add_to(
        &mut self,
        index: usize,
        hash: u64,
        now: &Now,
        limits: &impl Fn() -> Limits,
    ) -> Result<Added, Refusal> {
        let last = self.parts.len() - 1;
        if index < last && self.shape.window().is_some() && !self.parts[last].is_full() {
            if self.parts[index].contains(hash, now.target) {
                return Ok(Added::Present);
            }
            let added = self.add_to(last, hash, now, limits)?;
            return Ok(match added {
                Added::New => Added::Again,
                added => added,
            });
        }
        let others = self.memory_bytes() - self.parts[index].table.memory_bytes();
        let room = || limits().table_bytes(others);
        self.parts[index].add(hash, now, &room).map_err(refusal)
    }

    /// Frees older tables that have become empty, little by little.
    fn free_empty_tables(&mut self) {
        for part in &mut self.parts {
            part.table.sweep_next();
        }
        let last = self.parts.len() - 1;
        let is_gone = |part: &Part| part.is_empty() && part.table.shards() == 1;
        if self.parts[..last].iter().any(is_gone) {
            let mut index = 0;
            self.parts.retain(|part| {
                index += 1;
                index > last || !is_gone(part)
            });
            memory::fit(&mut self.parts);
        }
    }

    /// Takes one off the count of an item. Returns whether it did: only if exactly one table claims the item.
    pub fn remove(&mut self, probe: Probe) -> bool {
        let hash = probe.hashes().0;
        let claims = |part: &&mut Part| part.contains(hash, Period::default());
        let mut claimants = self.parts.iter_mut().filter(claims);
        let (Some(part), None) = (claimants.next(), claimants.next()) else {
            return false;
        };
        part.count_down(hash)
    }

    /// Returns how often an item was added and not removed, at most. If several tables claim it, each may have some of its
    /// counts.
    pub fn count(&self, probe: Probe) -> u64 {
        let counts = self.parts.iter().map(|part| part.count(probe.hashes().0));
        counts.fold(0, u64::saturating_add)
    }

    /// Drops the items that have expired. If the clock was set back, the periods of all items are set back with it. Returns
    /// whether anything changed.
    pub fn tidy(&mut self, now_ms: u64) -> bool {
        let Some(clock) = self.clock() else {
            return false;
        };
        let reached = self.reached(clock);
        let current = clock.current(now_ms, reached);
        self.set_back(clock.lead(now_ms, reached), clock.oldest(current))
    }
}
