//! Tables as series of ascending fingerprints: how they are read, and made anew.

use std::ops::RangeInclusive;

use crate::machine::memory::{self, index};

use super::bits::mask;
use super::fingerprints::{Payload, SPLIT, Table, each, parts, push};
use super::periods::{oldest, period_of};
use super::shard::{BUCKET_BITS, Builder, Refused};

impl Table {
    /// Passes each fingerprint of a range and its count or period, in order, until there is an error. Those whose periods were
    /// dropped are left out.
    ///
    /// # Errors
    /// That of `pass`.
    pub fn each_within(
        &self,
        range: RangeInclusive<u64>,
        mut pass: impl FnMut(u64, u64) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let begin = *range.start().min(&mask(self.bits));
        for number in self.numbers_from(self.locate(begin).shard) {
            let (depth, base) = (self.depth(number), self.shards[number].base);
            let behind = if depth > self.level {
                self.halves_from()
            } else {
                0
            };
            let first = (number.wrapping_sub(behind) as u64) << (self.bits - depth);
            if first > *range.end() {
                break;
            }
            let widths = self.widths(depth);
            each(
                &self.shards[number],
                widths,
                |bucket, remainder, payload| {
                    let fingerprint = first | u64::from(bucket) << widths.remainder | remainder;
                    let payload = match self.payload {
                        Payload::Nothing | Payload::Count => payload,
                        Payload::Period(periods) => period_of(base, payload, periods),
                    };
                    if range.contains(&fingerprint) && payload >= self.dropped() {
                        pass(fingerprint, payload)
                    } else {
                        Ok(())
                    }
                },
            )?;
        }
        Ok(())
    }

    /// Passes the first bits of each fingerprint once, in order, until there is an error: with the sum of the counts, or the
    /// latest of the periods.
    ///
    /// # Errors
    /// That of `pass`.
    pub fn each_prefix(
        &self,
        bits: u32,
        mut pass: impl FnMut(u64, u64) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let mut last: Option<(u64, u64)> = None;
        self.each_within(0..=u64::MAX, |fingerprint, payload| {
            let prefix = fingerprint >> (self.bits - bits);
            match &mut last {
                Some((of_last, held)) if *of_last == prefix => {
                    *held = match self.payload {
                        Payload::Count => held.saturating_add(payload),
                        Payload::Nothing | Payload::Period(_) => payload.max(*held),
                    };
                    Ok(())
                }
                _ => last
                    .replace((prefix, payload))
                    .map_or(Ok(()), |(prefix, held)| pass(prefix, held)),
            }
        })?;
        last.map_or(Ok(()), |(prefix, held)| pass(prefix, held))
    }

    /// Passes each fingerprint and its count or period, in order.
    pub fn for_each(&self, mut pass: impl FnMut(u64, u64)) {
        let all = self.each_within(0..=mask(self.bits), |fingerprint, payload| {
            pass(fingerprint, payload);
            Ok(())
        });
        debug_assert!(all.is_ok());
    }

    /// Makes a table of `number` fingerprints, which `fill` passes in order to the [`Filling`], each with its count or
    /// period. `fill` may be called several times.
    ///
    /// # Errors
    /// [`Refused`], or an error of `fill`.
    ///
    /// # Panics
    /// A fingerprint is too large, a count is 0, or a period is neither of the window that ends with `current` nor the next.
    pub fn filled(
        bits: u32,
        payload: Payload,
        number: u64,
        current: u64,
        fill: impl Fn(&mut Filling) -> Result<(), Refused>,
    ) -> Result<Self, Refused> {
        let mut shards = number.div_ceil(SPLIT).max(1);
        let most = 1 << (bits - BUCKET_BITS - payload.least_remainder());
        loop {
            let mut filling = Filling::new(bits, payload, shards.min(most), current)?;
            match fill(&mut filling).and_then(|()| filling.end()) {
                // With fingerprints that are not random, more shards may have room. So many take no more memory than entries do.
                Err(Refused::Crowded) if shards < (number / 16).max(64).min(most) => shards *= 2,
                filled => return filled,
            }
        }
    }
}

/// A table that is being filled in the order of fingerprints.
#[derive(Debug)]
pub struct Filling {
    table: Table,
    /// The number of shards that the table will have.
    shards: usize,
    /// The shard that is being filled.
    builder: Builder,
    /// The first fingerprint behind it.
    end: u64,
    /// The fingerprints of each period, from the oldest of the window on to the one behind it.
    periods: Vec<u64>,
    current: u64,
}

impl Filling {
    fn new(bits: u32, payload: Payload, shards: u64, current: u64) -> Result<Self, Refused> {
        let table = Table::with_room(bits, payload, shards).ok_or(Refused::OutOfMemory)?;
        let count = match payload {
            Payload::Nothing | Payload::Count => 0,
            Payload::Period(periods) => periods as usize + 1,
        };
        let mut periods = memory::reserved(count).ok_or(Refused::OutOfMemory)?;
        periods.resize(count, 0);
        Ok(Self {
            builder: Builder::new(table.widths(table.depth(0)))?,
            end: 1 << (bits - table.depth(0)),
            shards: index(shards),
            table,
            periods,
            current,
        })
    }

    /// Ends a shard and begins the next.
    fn end_shard(&mut self) -> Result<(), Refused> {
        let number = self.table.shards.len() + 1;
        let depth = self.table.depth(number.min(self.shards - 1));
        let next = Builder::new(self.table.widths(depth))?;
        let shard = std::mem::replace(&mut self.builder, next).end(self.current)?;
        self.table.append(shard);
        self.end += 1 << (self.table.bits - depth);
        Ok(())
    }

    /// Appends a fingerprint, larger than the ones before, and its count or period.
    ///
    /// # Errors
    /// [`Refused`]
    pub fn push(&mut self, fingerprint: u64, payload: u64) -> Result<(), Refused> {
        assert!(fingerprint <= mask(self.table.bits));
        while fingerprint >= self.end {
            self.end_shard()?;
        }
        let widths = self.builder.widths();
        let (bucket, remainder) = parts(fingerprint, widths);
        let payload = match self.table.payload {
            Payload::Nothing => 0,
            Payload::Count => payload,
            Payload::Period(periods) => {
                let period = payload.wrapping_sub(oldest(self.current, periods));
                self.periods[index(period)] += 1;
                payload & mask(widths.tag)
            }
        };
        push(&mut self.builder, bucket, remainder, payload)?;
        self.table.fingerprints += 1;
        Ok(())
    }

    fn end(mut self) -> Result<Table, Refused> {
        while self.table.shards.len() < self.shards {
            self.end_shard()?;
        }
        if let Payload::Period(periods) = self.table.payload {
            let all = (0..).zip(&self.periods);
            let oldest = oldest(self.current, periods);
            let counts = all.filter(|(_, count)| **count > 0);
            let counts = counts.map(|(number, count)| (oldest.wrapping_add(number), *count));
            self.table.periods.take(counts)?;
        }
        Ok(self.table)
    }
}
