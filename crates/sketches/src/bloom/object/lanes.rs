//! Interleaving of the periods' first filters, in groups.
//!
//! ```text
//!   opened                  8 of one size                     expired, and at least half of
//!      │                    exist                             its group are in use
//!      ▼                        ▼                                 ▼
//!   a filter of its own ──► a lane, some bytes at a time ──► an empty lane ──► the next period's
//!      ▲                        │
//!      └────────────────────────┘ more than half of its group have expired
//! ```
//!
//! Eight filters make a group. The next eight join it if all of its lanes are in use, up to 32. A lane takes as much
//! memory as a filter. If more than half of a group's lanes are empty, such as after a gap, the group is taken apart,
//! eight lanes at a time, to free the empty ones. In the meantime no period begins in it, unless there is no room for
//! a filter of its own.

use crate::bloom::filter::{Filter, Geometry, Interleaved, LANES};
use crate::bloom::stack::{LanesOfBatch, TOGETHER, Tally, narrow, narrow_batch};
use crate::hash::{BATCH, Batch, Probe};
use crate::machine::memory::{self, Relocate};

use super::period::{Lane, Period};

/// Filters below this size in bytes keep their own bits, which are counted to estimate their rates.
const LEAST_BYTES: u64 = 2048;

/// The groups whose empty lanes a new period may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// Those that are at least half in use.
    HalfInUse,
    All,
}

#[derive(Debug)]
struct Group {
    filters: Interleaved,
    /// A mask of the lanes that a period uses.
    in_use: u32,
    /// The number of each lane's period.
    periods: Vec<u64>,
    /// A lower bound of the numbers of periods in use.
    oldest: u64,
}

impl Group {
    /// Size of a group without its allocations, in bytes.
    const BASE_BYTES: u64 = memory::stated::<Self>(136) as u64;

    /// Creates a group without lanes.
    fn new(geometry: Geometry) -> Option<Self> {
        Some(Self {
            filters: Interleaved::new(geometry)?,
            in_use: 0,
            periods: Vec::new(),
            oldest: u64::MAX,
        })
    }

    /// Returns the overhead in bytes of a group, and of eight lanes.
    const fn bytes_beside(geometry: Geometry) -> (u64, u64) {
        let (group, eight) = Interleaved::bytes_beside(geometry);
        let periods = LANES * size_of::<u64>();
        (group + Self::BASE_BYTES, eight + periods as u64)
    }

    /// Starts to interleave these periods' filters with the others of this group, whose number is `index`.
    fn take(&mut self, index: usize, periods: &mut [&mut Period; LANES]) -> Option<()> {
        let (group, first) = (u32::try_from(index).ok()?, self.periods.len());
        self.periods.try_reserve_exact(LANES).ok()?;
        let firsts = periods.each_mut().map(|it| &mut it.stack.filters_mut()[0]);
        Filter::interleave(firsts, &mut self.filters)?;
        for (number, period) in (u8::try_from(first).ok()?..).zip(periods) {
            period.stack.recount_bytes();
            period.lane = Some(Lane { group, number });
            self.periods.push(period.number);
            self.oldest = self.oldest.min(period.number);
        }
        self.in_use |= u32::from(u8::MAX) << first;
        Some(())
    }

    /// Gives periods back the bits of the newest eight lanes of this group, whose number is `index`, once those [are
    /// apart](Self::is_apart). Frees the lanes without a period.
    fn take_apart(&mut self, index: usize, periods: &mut [Period]) {
        let mut blobs = self.filters.remove_newest();
        let kept = self.filters.lanes();
        for period in periods {
            let lane = period.lane.filter(|lane| lane.group as usize == index);
            let newest = lane.and_then(|lane| usize::from(lane.number).checked_sub(kept));
            if let Some(newest) = newest {
                period.take_back(std::mem::take(&mut blobs[newest]));
            }
        }
        self.in_use &= !(u32::MAX << kept);
        self.periods.truncate(kept);
    }

    /// Returns a mask of the lanes of periods from `period` on.
    fn since(&self, period: u64) -> u32 {
        if period <= self.oldest {
            return self.in_use;
        }
        let of = (0..).zip(&self.periods);
        self.in_use
            & of.fold(0, |lanes, (lane, number)| {
                lanes | u32::from(*number >= period) << lane
            })
    }

    /// Returns whether more than half of the lanes are empty.
    fn is_sparse(&self) -> bool {
        2 * (self.in_use.count_ones() as usize) < self.filters.lanes()
    }

    /// Returns whether the newest eight lanes were taken apart.
    fn is_apart(&self) -> bool {
        self.is_sparse() && self.filters.is_apart()
    }

    /// Runs up to `times` steps of interleaving, or of taking apart. Returns whether there was anything to do.
    fn go_on(&mut self, times: usize) -> bool {
        if self.is_sparse() {
            self.filters.undo(times)
        } else {
            self.filters.advance(times)
        }
    }

    fn is_full(&self) -> bool {
        self.in_use.count_ones() as usize == self.filters.lanes()
    }

    /// Returns the number of an empty lane for a filter of this size.
    fn free_lane(&self, geometry: Geometry, groups: Groups) -> Option<u8> {
        let takes = groups == Groups::All || !self.is_sparse();
        let is_free = takes && !self.is_full() && self.filters.geometry() == geometry;
        let lane = is_free.then(|| self.in_use.trailing_ones())?;
        u8::try_from(lane).ok()
    }

    fn memory_bytes(&self) -> u64 {
        let periods = self.periods.capacity() * size_of::<u64>();
        (size_of::<Self>() + periods) as u64 + self.filters.memory_bytes()
    }
}

/// Filters to interleave next.
pub struct Next {
    geometry: Geometry,
    /// The number of their group, which may not exist yet.
    group: usize,
    /// The overhead in bytes of interleaving them.
    pub bytes: u64,
}

/// The numbers of the live periods, split at a target.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// The oldest one that may be live.
    pub oldest: u64,
    /// The one at which they are split.
    pub target: u64,
}

/// The masks of the items of a batch that periods claim. A single item is number 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claimed {
    /// Items claimed by a period before the target.
    pub earlier: u64,
    /// Items claimed by the target or a later period.
    pub later: u64,
}

impl Claimed {
    /// Returns the items that any period claims.
    pub const fn any(self) -> u64 {
        self.earlier | self.later
    }
}

/// The groups of interleaved filters.
#[derive(Debug, Default)]
pub struct Lanes {
    all: Vec<Group>,
    /// Whether there is nothing to interleave.
    idle: bool,
}

impl Lanes {
    pub fn try_clone(&self) -> Option<Self> {
        let copy = |group: &Group| {
            Some(Group {
                filters: group.filters.try_clone()?,
                periods: memory::copied(&group.periods)?.into_vec(),
                ..*group
            })
        };
        let all = memory::collected(self.all.iter().map(copy))?;
        Some(Self { all, ..*self })
    }

    /// Returns whether there is nothing to interleave.
    #[inline]
    pub const fn is_idle(&self) -> bool {
        self.idle
    }

    /// Runs up to `times` steps of interleaving that was started. Returns whether there was anything to do.
    pub fn go_on(&mut self, times: usize) -> bool {
        self.all.iter_mut().rev().any(|group| group.go_on(times))
    }

    /// Gives periods back the bits of lanes that were taken apart. Returns whether there were any.
    pub fn take_apart(&mut self, periods: &mut [Period]) -> bool {
        let Some(index) = self.all.iter().position(Group::is_apart) else {
            return false;
        };
        self.all[index].take_apart(index, periods);
        self.tidy(periods);
        true
    }

    /// Returns what to interleave next: filters of the newest one's size, if there are eight.
    pub fn next(&self, periods: &[Period]) -> Option<Next> {
        let mut newest_first = periods.iter().rev().filter(|period| period.has_own_bits());
        let geometry = newest_first.next()?.first_geometry();
        let alike = newest_first.filter(|period| period.first_geometry() == geometry);
        let is_worth_it = geometry.cell_bytes >= LEAST_BYTES && alike.count() >= LANES - 1;
        if !is_worth_it {
            return None;
        }
        let takes = |group: &Group| group.is_full() && group.filters.takes(geometry);
        let (with_group, with_eight) = Group::bytes_beside(geometry);
        let (group, bytes) = match self.all.iter().position(takes) {
            Some(group) => (group, with_eight),
            None => (self.all.len(), with_group + with_eight),
        };
        Some(Next {
            geometry,
            group,
            bytes,
        })
    }

    /// Starts to interleave `next`, if there is any, or else becomes idle.
    pub fn interleave(&mut self, periods: &mut [Period], next: Option<&Next>) {
        let started = next.and_then(|next| self.interleave_oldest(periods, next));
        self.idle = started.is_none();
    }

    /// Starts to interleave the oldest eight filters of `next`.
    fn interleave_oldest(&mut self, periods: &mut [Period], next: &Next) -> Option<()> {
        let alike = periods.iter_mut().filter(|period| period.has_own_bits());
        let alike = alike.filter(|period| period.first_geometry() == next.geometry);
        let mut of: Vec<&mut Period> = alike.take(LANES).collect();
        let of = (&mut of[..]).try_into().ok()?;
        if let Some(group) = self.all.get_mut(next.group) {
            return group.take(next.group, of);
        }
        let mut all = memory::reserved(self.all.len() + 1)?;
        let mut group = Group::new(next.geometry)?;
        group.take(next.group, of)?;
        all.append(&mut self.all);
        all.push(group);
        self.all = all;
        Some(())
    }

    /// Marks that there may be filters to interleave.
    pub const fn wake(&mut self) {
        self.idle = false;
    }

    /// Returns an empty lane for the first filter of another period.
    pub fn free_lane(&self, geometry: Geometry, groups: Groups) -> Option<Lane> {
        (0..).zip(&self.all).find_map(|(group, of)| {
            let number = of.free_lane(geometry, groups)?;
            Some(Lane { group, number })
        })
    }

    /// Returns whether nothing is interleaved.
    pub const fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the number of hash functions that a lookup in all groups computes.
    pub fn hashes(&self) -> u64 {
        let hashes = |group: &Group| u64::from(group.filters.geometry().hashes);
        self.all.iter().map(hashes).sum()
    }

    /// Returns the size of the cells of a lane in bytes, or 0 without a lane.
    pub fn bytes_of_lane(&self, lane: Option<Lane>) -> u64 {
        lane.map_or(0, |lane| self.filters_of(lane).0.geometry().cell_bytes)
    }

    /// Returns the most bytes of overhead for periods whose first filters have this size.
    pub const fn bytes_beside(geometry: Geometry, periods: u64) -> u64 {
        if geometry.cell_bytes < LEAST_BYTES {
            0
        } else {
            let (group, eight) = Group::bytes_beside(geometry);
            periods / LANES as u64 * (group + eight)
        }
    }

    /// Assigns a free lane to a period.
    pub fn take(&mut self, lane: Lane, period: u64) {
        let group = &mut self.all[lane.group as usize];
        group.in_use |= 1 << lane.number;
        group.periods[usize::from(lane.number)] = period;
        group.oldest = group.oldest.min(period);
        self.wake();
    }

    /// Empties a lane whose period is gone.
    pub fn release(&mut self, lane: Lane) {
        let group = &mut self.all[lane.group as usize];
        group.in_use &= !(1 << lane.number);
        group.filters.empty(lane.number);
    }

    /// Frees groups without periods, and updates the numbers of the periods.
    pub fn tidy(&mut self, periods: &mut [Period]) {
        let mut kept = 0;
        let place = |group: &Group| {
            kept += u32::from(group.in_use != 0);
            kept.saturating_sub(1)
        };
        let places: Vec<u32> = self.all.iter().map(place).collect();
        self.all.retain(|group| group.in_use != 0);
        memory::fit(&mut self.all);
        self.wake();
        for group in &mut self.all {
            group.oldest = u64::MAX;
        }
        for period in periods {
            if let Some(lane) = &mut period.lane {
                lane.group = places[lane.group as usize];
                let group = &mut self.all[lane.group as usize];
                group.periods[usize::from(lane.number)] = period.number;
                group.oldest = group.oldest.min(period.number);
            }
        }
    }

    /// Looks up an item in the lanes of live periods. If the target or a later period claims it, claims by earlier ones
    /// may be missing.
    pub fn claims_of_one(&self, probe: Probe, live: Numbers) -> Claimed {
        let mut claimed = Claimed::default();
        for groups in self.all.chunks(TOGETHER) {
            let mut filters = [&groups[0].filters; TOGETHER];
            let mut lanes = [0; TOGETHER];
            for (index, group) in groups.iter().enumerate() {
                filters[index] = &group.filters;
                lanes[index] = group.since(live.oldest);
            }
            let lanes = &mut lanes[..groups.len()];
            narrow(&filters[..groups.len()], lanes, probe);
            // No lane claims most items.
            for (group, lanes) in groups.iter().zip(lanes).filter(|(_, lanes)| **lanes != 0) {
                let later = *lanes & group.since(live.target);
                claimed.later |= u64::from(later != 0);
                claimed.earlier |= u64::from(*lanes & !later != 0);
            }
            if claimed.later != 0 {
                break;
            }
        }
        claimed
    }

    /// Looks up the items of a batch whose bit in `candidates` is set, in the lanes of live periods. If the target or a
    /// later period claims an item, claims by earlier ones may be missing.
    pub fn claims(
        &self,
        batch: &Batch,
        candidates: u64,
        live: Numbers,
        tally: &mut impl Tally,
    ) -> Claimed {
        let mut claimed = Claimed::default();
        for groups in self.all.chunks(TOGETHER) {
            let candidates = candidates & !claimed.later;
            if candidates == 0 {
                break;
            }
            let mut filters = [&groups[0].filters; TOGETHER];
            let mut lanes: [LanesOfBatch; TOGETHER] = [[0; BATCH]; TOGETHER];
            for (index, group) in groups.iter().enumerate() {
                filters[index] = &group.filters;
                let since = group.since(live.oldest);
                for (item, lanes) in lanes[index].iter_mut().enumerate() {
                    *lanes = since * (candidates >> item & 1) as u32;
                }
            }
            let lanes = &mut lanes[..groups.len()];
            narrow_batch(&filters[..groups.len()], lanes, batch, tally);
            for (group, lanes) in groups.iter().zip(lanes) {
                let later = group.since(live.target);
                for (item, lanes) in lanes.iter().enumerate() {
                    claimed.later |= u64::from(lanes & later != 0) << item;
                    claimed.earlier |= u64::from(lanes & !later != 0) << item;
                }
            }
        }
        claimed
    }

    pub fn filters_of(&self, lane: Lane) -> (&Interleaved, u8) {
        (&self.all[lane.group as usize].filters, lane.number)
    }

    pub fn filters_of_mut(&mut self, lane: Lane) -> (&mut Interleaved, u8) {
        (&mut self.all[lane.group as usize].filters, lane.number)
    }

    /// Checks that each lane in use belongs to exactly one period.
    pub fn check(&self, periods: &[Period]) -> Result<(), &'static str> {
        let mut seen = vec![0_u32; self.all.len()];
        for period in periods {
            let first = &period.stack.filters()[0];
            if first.is_in_lane() != period.lane.is_some() {
                return Err("a lane without its filter");
            }
            let Some(lane) = period.lane else {
                continue;
            };
            let group = self.all.get(lane.group as usize).ok_or("no such lane")?;
            let number = usize::from(lane.number);
            let is_its = group.periods.get(number) == Some(&period.number)
                && group.oldest <= period.number
                && group.filters.geometry() == first.geometry()
                && seen[lane.group as usize] >> number & 1 == 0;
            if !is_its {
                return Err("a lane of another period");
            }
            seen[lane.group as usize] |= 1 << number;
        }
        if self.all.iter().map(|group| group.in_use).eq(seen) {
            Ok(())
        } else {
            Err("a lane of no period")
        }
    }

    pub fn memory_bytes(&self) -> u64 {
        let spare = (self.all.capacity() - self.all.len()) * size_of::<Group>();
        spare as u64 + self.all.iter().map(Group::memory_bytes).sum::<u64>()
    }

    /// Returns the number of blobs.
    pub fn blobs(&self) -> usize {
        self.all.iter().map(|group| group.filters.lanes()).sum()
    }

    /// Moves one of the blobs.
    pub fn relocate(&mut self, mut index: usize, by: &mut impl Relocate) {
        for group in &mut self.all {
            let blobs = group.filters.lanes();
            if index < blobs {
                return group.filters.relocate(index, by);
            }
            index -= blobs;
        }
    }
}
