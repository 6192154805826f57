//! The periods' first filters, eight at a time interleaved.
//!
//! ```text
//!   opened                  8 of one size                     passed, and at least half of
//!      │                    are there                         its eight go on
//!      ▼                        ▼                                 ▼
//!   a filter of its own ──► a lane, some bytes at a time ──► an empty lane ──► the next period's
//! ```
//!
//! A lane takes as much memory as a filter. Eight are freed together, once all are empty. Where more than half are
//! empty, no period begins in them, so that they soon are, unless there is no room for a filter of its own.

use crate::bloom::filter::{Filter, Geometry, Interleaved, LANES};
use crate::bloom::hash::{BATCH, Batch, Probe};
use crate::bloom::machine::memory::Relocate;
use crate::bloom::stack::{LanesOfBatch, narrow, narrow_batch};

use super::period::{Lane, Period};

/// Filters below this size in bytes have their own bits, which are counted to estimate their rates.
const LEAST_BYTES: u64 = 2048;

/// A lane is given to another period where so many others are in use.
pub const HALF: u32 = 4;

/// So many times eight are looked up in together.
const GROUP: usize = 8;

#[derive(Debug)]
struct Eight {
    filters: Interleaved,
    /// A bit for each lane that a period has.
    in_use: u8,
    /// The number of its period.
    periods: [u64; LANES],
}

impl Eight {
    /// The lanes of periods from this one on.
    fn since(&self, period: u64) -> u8 {
        let of = (0..).zip(self.periods);
        self.in_use
            & of.fold(0, |lanes, (lane, number)| {
                lanes | u8::from(number >= period) << lane
            })
    }

    /// The number of an empty lane for a filter of this size, if so many others are in use.
    fn free_lane(&self, geometry: Geometry, others: u32) -> Option<u8> {
        let takes = self.filters.is_done()
            && self.filters.geometry() == geometry
            && self.in_use.count_ones() >= others;
        let mut lanes = (0..).take(LANES);
        lanes.find(|lane| takes && self.in_use >> lane & 1 == 0)
    }

    fn memory_bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.filters.memory_bytes()
    }
}

/// What the lanes of an item claim, of periods before one and from that on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claims {
    /// For a batch, a bit for each item.
    pub before: u64,
    pub from: u64,
}

/// Periods' first filters, interleaved.
#[derive(Debug, Default)]
pub struct Lanes {
    all: Vec<Eight>,
    /// Whether there is nothing to interleave.
    settled: bool,
}

impl Lanes {
    pub fn try_clone(&self) -> Option<Self> {
        let mut all = Vec::new();
        all.try_reserve_exact(self.all.len()).ok()?;
        for eight in &self.all {
            all.push(Eight {
                filters: eight.filters.try_clone()?,
                ..*eight
            });
        }
        Some(Self { all, ..*self })
    }

    /// Whether there is nothing to interleave.
    #[inline]
    pub const fn is_settled(&self) -> bool {
        self.settled
    }

    /// Interleaves so many pieces more of those filters that were begun with. Returns false if none are left.
    pub fn go_on(&mut self, pieces: usize) -> bool {
        let begun = self.all.last_mut().map(|eight| &mut eight.filters);
        let begun = begun.filter(|filters| !filters.is_done());
        begun.map(|filters| filters.go_on(pieces)).is_some()
    }

    /// Begins with other filters, if what goes with them takes no more than so many bytes, or else is settled.
    pub fn begin(&mut self, periods: &mut [Period], room: u64) {
        self.settled = self.interleave(periods, room).is_none();
    }

    /// Begins to interleave the oldest eight filters of those that have the size of the newest; `None` if there are
    /// not as many, or there is no room.
    fn interleave(&mut self, periods: &mut [Period], room: u64) -> Option<()> {
        let own = |period: &&mut Period| period.lane.is_none();
        let size = |period: &Period| period.stack.filters()[0].geometry();
        let geometry = size(periods.iter_mut().rev().find(own)?);
        let beside = Self::bytes_beside(geometry, LANES as u64);
        if !(1..=room).contains(&beside) {
            return None;
        }
        let alike = periods.iter_mut().filter(own);
        let alike = alike.filter(|period| size(period) == geometry);
        let mut of: Vec<&mut Period> = alike.take(LANES).collect();
        let of: &mut [&mut Period; LANES] = (&mut of[..]).try_into().ok()?;
        let mut all = Vec::new();
        all.try_reserve_exact(self.all.len() + 1).ok()?;
        let filters = of
            .each_mut()
            .map(|period| &mut period.stack.filters_mut()[0]);
        let filters = Filter::interleave(filters)?;
        let eight = u32::try_from(self.all.len()).ok()?;
        for (number, period) in (0..).zip(&mut *of) {
            period.stack.settle_bytes();
            period.lane = Some(Lane { eight, number });
        }
        let periods = of.each_ref().map(|period| period.number);
        all.append(&mut self.all);
        self.all = all;
        self.all.push(Eight {
            filters,
            in_use: u8::MAX,
            periods,
        });
        Some(())
    }

    /// Has it look for something to interleave.
    pub const fn unsettle(&mut self) {
        self.settled = false;
    }

    /// An empty lane for the first filter of another period, if so many lanes beside it are in use.
    pub fn free_lane(&self, geometry: Geometry, others: u32) -> Option<Lane> {
        (0..).zip(&self.all).find_map(|(eight, of)| {
            let number = of.free_lane(geometry, others)?;
            Some(Lane { eight, number })
        })
    }

    /// Whether nothing is interleaved.
    pub const fn are_none(&self) -> bool {
        self.all.is_empty()
    }

    /// Bytes of the cells of a lane, if there is one.
    pub fn bytes_of_lane(&self, lane: Option<Lane>) -> u64 {
        lane.map_or(0, |lane| self.filters_of(lane).0.geometry().cell_bytes)
    }

    /// Bytes beside the filters of so many periods, whose first have this size.
    pub const fn bytes_beside(geometry: Geometry, periods: u64) -> u64 {
        let each = size_of::<Eight>() as u64 + Interleaved::bytes_beside(geometry);
        if geometry.cell_bytes < LEAST_BYTES {
            0
        } else {
            periods / LANES as u64 * each
        }
    }

    /// Gives a lane that is free to a period.
    pub fn take(&mut self, lane: Lane, period: u64) {
        let eight = &mut self.all[lane.eight as usize];
        eight.in_use |= 1 << lane.number;
        eight.periods[usize::from(lane.number)] = period;
    }

    /// Empties a lane whose period is gone.
    pub fn release(&mut self, lane: Lane) {
        let eight = &mut self.all[lane.eight as usize];
        eight.in_use &= !(1 << lane.number);
        eight.filters.empty(lane.number);
    }

    /// Frees what no period has a lane of, and takes over the numbers of periods.
    pub fn tidy(&mut self, periods: &mut [Period]) {
        let mut kept = 0;
        let places: Vec<u32> = self
            .all
            .iter()
            .map(|eight| {
                let place = kept;
                kept += u32::from(eight.in_use != 0);
                place
            })
            .collect();
        self.all.retain(|eight| eight.in_use != 0);
        self.all.shrink_to_fit();
        self.unsettle();
        for period in periods {
            if let Some(lane) = &mut period.lane {
                lane.eight = places[lane.eight as usize];
                self.all[lane.eight as usize].periods[usize::from(lane.number)] = period.number;
            }
        }
    }

    /// Which periods claim an item, of those since one. Where one from `from` on does, not all before it may be told.
    pub fn claims(&self, probe: Probe, since: u64, from: u64) -> Claims {
        let mut claims = Claims::default();
        for all in self.all.chunks(GROUP) {
            let Some(first) = all.first() else {
                break;
            };
            let mut filters = [&first.filters; GROUP];
            let mut lanes = [0; GROUP];
            for (index, eight) in all.iter().enumerate() {
                filters[index] = &eight.filters;
                lanes[index] = eight.since(since);
            }
            narrow(&filters[..all.len()], &mut lanes[..all.len()], probe);
            // Most items are claimed nowhere.
            for (eight, lanes) in all.iter().zip(lanes).filter(|(_, lanes)| *lanes != 0) {
                let later = lanes & eight.since(from);
                claims.from |= u64::from(later != 0);
                claims.before |= u64::from(lanes & !later != 0);
            }
            if claims.from != 0 {
                break;
            }
        }
        claims
    }

    /// The same of each item of a batch whose bit in `candidates` is set.
    pub fn claims_of_batch(&self, batch: &Batch, candidates: u64, since: u64, from: u64) -> Claims {
        let mut claims = Claims::default();
        for all in self.all.chunks(GROUP) {
            let candidates = candidates & !claims.from;
            let Some(first) = all.first().filter(|_| candidates != 0) else {
                break;
            };
            let mut filters = [&first.filters; GROUP];
            let mut lanes: [LanesOfBatch; GROUP] = [[0; BATCH]; GROUP];
            for (index, eight) in all.iter().enumerate() {
                filters[index] = &eight.filters;
                let since = eight.since(since);
                for (item, lanes) in lanes[index].iter_mut().enumerate() {
                    *lanes = since * (candidates >> item & 1) as u8;
                }
            }
            narrow_batch(&filters[..all.len()], &mut lanes[..all.len()], batch);
            for (eight, lanes) in all.iter().zip(&lanes) {
                let later = eight.since(from);
                for (item, lanes) in lanes.iter().enumerate() {
                    claims.from |= u64::from(lanes & later != 0) << item;
                    claims.before |= u64::from(lanes & !later != 0) << item;
                }
            }
        }
        claims
    }

    pub fn filters_of(&self, lane: Lane) -> (&Interleaved, u8) {
        (&self.all[lane.eight as usize].filters, lane.number)
    }

    pub fn filters_of_mut(&mut self, lane: Lane) -> (&mut Interleaved, u8) {
        (&mut self.all[lane.eight as usize].filters, lane.number)
    }

    /// Requires that each lane in use is that of one period.
    pub fn check(&self, periods: &[Period]) -> Result<(), &'static str> {
        let mut seen = vec![0_u8; self.all.len()];
        for period in periods {
            let first = &period.stack.filters()[0];
            if first.is_in_lane() != period.lane.is_some() {
                return Err("a lane without its filter");
            }
            let Some(lane) = period.lane else {
                continue;
            };
            let eight = self.all.get(lane.eight as usize).ok_or("no such lane")?;
            let number = usize::from(lane.number);
            let is_its = eight.periods[number] == period.number
                && eight.filters.geometry() == first.geometry()
                && seen[lane.eight as usize] >> number & 1 == 0;
            if !is_its {
                return Err("a lane of another period");
            }
            seen[lane.eight as usize] |= 1 << number;
        }
        let all_seen = self
            .all
            .iter()
            .zip(seen)
            .all(|(eight, seen)| eight.in_use == seen);
        if all_seen {
            Ok(())
        } else {
            Err("a lane of no period")
        }
    }

    pub fn memory_bytes(&self) -> u64 {
        let spare = (self.all.capacity() - self.all.len()) * size_of::<Eight>();
        spare as u64 + self.all.iter().map(Eight::memory_bytes).sum::<u64>()
    }

    /// Number of blobs.
    pub fn blobs(&self) -> usize {
        self.all.len() * LANES
    }

    /// Lets `by` move one of them.
    pub fn relocate(&mut self, index: usize, by: &mut impl Relocate) {
        self.all[index / LANES].filters.relocate(index % LANES, by);
    }
}
