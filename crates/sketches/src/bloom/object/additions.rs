//! Additions to the periods of an object.

use crate::bloom::filter::Interleaved;
use crate::bloom::law::{Allowance, Growth, Refusal};
use crate::bloom::stack::{self, Added, Known, ROW, Row, Stack, ToTheEnd};
use crate::hash::{BATCH, Batch, Probe};

use super::lanes::Claims;
use super::period::Period;
use super::timeline::{Timeline, any_contains, depth_of, newest_first};
use super::window::Time;

/// Interleaving steps per added item, and per batch. They take some microseconds.
const STEPS_PER_ITEM: usize = 1;
const STEPS_PER_BATCH: usize = 16;

impl Timeline {
    /// Adds an item, after [`tidy`](Self::tidy). Counters record the id, if the item has one. Calls `allowance` only
    /// if the object has to grow.
    pub fn add(
        &mut self,
        probe: Probe,
        time: Time,
        id: Option<u64>,
        allowance: impl Fn() -> Allowance,
    ) -> Result<Added, Refusal> {
        let target = self.target(time);
        let mut renews = false;
        if !self.shape.is_counting() {
            self.interleave(STEPS_PER_ITEM, time.now_ms, &allowance);
            let claims = self.claims_around(probe, target, time.now_ms);
            // The target or a later period keeps the item for as long as requested.
            if claims.from != 0 {
                return Ok(Added::Present);
            }
            renews = claims.before != 0;
        }
        let index = self.index_of(target);
        let added = if let Some(index) = index {
            self.add_to(index, probe, id, allowance)
        } else {
            let index = self.open(target, allowance())?;
            let added = self.add_to(index, probe, id, allowance);
            if added.is_err() {
                let period = self.periods.remove(index);
                if let Some(lane) = period.lane {
                    self.lanes.release(lane);
                }
                self.count_own();
            }
            added
        };
        if renews { renewed(added) } else { added }
    }

    /// Looks up an item in the periods from `target` on, and if none claims it, in those before.
    fn claims_around(&self, probe: Probe, target: u64, now_ms: u64) -> Claims {
        let (since, earlier, later) = self.around(target, now_ms);
        if self.is_deep {
            let batch = Batch::of_one(probe);
            return self.claims_patiently(&batch, 1, (since, earlier, later), target);
        }
        let mut claims = self.lanes.claims(probe, since, target);
        claims.from |= u64::from(claims.from == 0 && any_contains(later, probe));
        if claims.from == 0 && claims.before == 0 {
            claims.before = any_contains(earlier, probe).into();
        }
        claims
    }

    /// Looks up the items of a batch whose bit in `items` is set: in the periods from `target` on, and the unclaimed
    /// ones in those before.
    fn claims_of_batch_around(
        &self,
        batch: &Batch,
        items: u64,
        target: u64,
        now_ms: u64,
    ) -> Claims {
        let (since, earlier, later) = self.around(target, now_ms);
        if self.is_deep {
            return self.claims_patiently(batch, items, (since, earlier, later), target);
        }
        let lanes = &self.lanes;
        let mut claims = lanes.claims_of_batch(batch, items, since, target, &mut ToTheEnd);
        claims.from |= stack::claims_of_any(batch, newest_first(later), items & !claims.from);
        let left = items & !(claims.from | claims.before);
        claims.before |= stack::claims_of_any(batch, newest_first(earlier), left);
        claims
    }

    /// Adds items in order, and passes the result of [`add`](Self::add) for each to `outcome`. Stops after the first
    /// refusal.
    #[inline(never)]
    pub fn add_each<'i>(
        &mut self,
        mut items: impl Iterator<Item = &'i [u8]>,
        time: Time,
        id: Option<u64>,
        allowance: impl Fn() -> Allowance,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) {
        let mut row = Row::new();
        loop {
            self.interleave(STEPS_PER_BATCH, time.now_ms, &allowance);
            let batch = Batch::of(&self.hasher, &mut items);
            let mut each = |added: Result<_, _>| {
                outcome(added);
                added.is_ok()
            };
            let mut first = 0;
            while first < batch.len() {
                if self.shape.is_counting() {
                    first = self.count_batch(&batch, first, id, &mut row, &mut each);
                } else {
                    match self.add_batch(&batch, first, time, &mut row, &allowance, &mut each) {
                        Some(next) => first = next,
                        None => return,
                    }
                }
                // The object may have to grow for the next item.
                if first < batch.len() {
                    if !each(self.add(batch.probe(first), time, id, &allowance)) {
                        return;
                    }
                    first += 1;
                }
            }
            if batch.len() < BATCH {
                return;
            }
        }
    }

    /// Adds items of a batch to a window, from `first` on, and passes each result to `each`. Stops at an item that
    /// needs another period, or a larger stack in a lane. Returns the index of that item, or `None` once `each`
    /// returns false.
    fn add_batch(
        &mut self,
        batch: &Batch,
        first: usize,
        time: Time,
        row: &mut Row,
        allowance: impl Fn() -> Allowance,
        mut each: impl FnMut(Result<Added, Refusal>) -> bool,
    ) -> Option<usize> {
        let target = self.target(time);
        let Some(index) = self.index_of(target) else {
            return Some(first);
        };
        let items = batch.mask_from(first);
        let claims = self.claims_of_batch_around(batch, items, target, time.now_ms);
        let present = claims.from;
        let renewed_items = claims.before & !present;
        let mut item = first;
        let each = |added| {
            let renews = renewed_items >> item & 1 == 1;
            item += 1;
            each(if renews { renewed(added) } else { added })
        };
        let Period { stack, lane, .. } = &mut self.periods[index];
        if let (Some(lane), [_]) = (*lane, stack.filters()) {
            let (filters, lane) = self.lanes.filters_of_mut(lane);
            let place = (stack, filters, lane);
            return add_batch_to_lane(batch, first, present, row, place, allowance, each);
        }
        let base = self.base_bytes();
        let (period, allowance) = beside_others(&mut self.periods, base, index, allowance);
        let known = Known {
            present,
            searched: period.stack.filters().len() - 1,
        };
        let stack = &mut period.stack;
        let all = stack.add_batch(batch, first, known, row, allowance, each);
        if stack.filters().len() - 1 > known.searched {
            self.count_own();
        }
        all.then_some(batch.len())
    }

    /// Adds items of a batch to counters, from `first` on, and passes each result to `each`. Stops at an item that
    /// does not simply fit a filter with room. Returns the index of that item.
    fn count_batch(
        &mut self,
        batch: &Batch,
        first: usize,
        id: Option<u64>,
        row: &mut Row,
        mut each: impl FnMut(Result<Added, Refusal>) -> bool,
    ) -> usize {
        let Some(Period { stack, ids, .. }) = self.periods.last_mut() else {
            return first;
        };
        let Some(target) = ids.next_with_room(stack, id) else {
            return first;
        };
        // Until the target is full, no other filter starts to claim an item: items counted there are claimed already.
        // An item is counted in the newest filter that claims it, of those that may hold its counts.
        let items = batch.mask_from(first);
        let (mut after, mut before, mut elsewhere) = (0, 0, 0);
        let mut owners = [0; BATCH];
        for (index, filter) in stack.filters().iter().enumerate().rev() {
            let candidates = items & !(after | before);
            if index == target {
                continue;
            }
            if !ids.may_hold(index, id) {
                elsewhere |= stack::claims(batch, filter, candidates & !elsewhere);
                continue;
            }
            let claimed = stack::claims(batch, filter, candidates);
            for (item, owner) in owners.iter_mut().enumerate() {
                if claimed >> item & 1 == 1 {
                    *owner = index;
                }
            }
            *(if index > target {
                &mut after
            } else {
                &mut before
            }) |= claimed;
        }
        let mut located = None;
        for (item, owner) in owners.into_iter().enumerate().take(batch.len()).skip(first) {
            let (probe, bit) = (batch.probe(item), 1 << item);
            let takes = |stack: &Stack| stack.filters()[target].contains(probe);
            if after & bit != 0 || before & bit != 0 && !takes(stack) {
                let was_full = stack.filters()[owner].is_full();
                stack.count_up(owner, probe);
                each(Ok(Added::Again));
                // Counting corrected an implausible number of items.
                if stack.filters()[owner].is_full() != was_full {
                    return item + 1;
                }
                continue;
            }
            if stack.filters()[target].is_full() && !takes(stack) {
                return item;
            }
            let of_row = item / ROW * ROW;
            if located != Some(of_row) {
                row.locate(batch, of_row, &stack.filters()[target]);
                located = Some(of_row);
            }
            let new_here = stack.count_up_in(target, row, item, probe);
            let is_elsewhere = elsewhere & bit != 0;
            if new_here && is_elsewhere {
                ids.repeat();
            }
            let new = new_here && !is_elsewhere;
            each(Ok(if new { Added::New } else { Added::Again }));
        }
        batch.len()
    }

    fn add_to(
        &mut self,
        index: usize,
        probe: Probe,
        id: Option<u64>,
        allowance: impl Fn() -> Allowance,
    ) -> Result<Added, Refusal> {
        let is_counting = self.shape.is_counting();
        let Period { stack, ids, .. } = &mut self.periods[index];
        // The only filter takes the item whether or not it claims it.
        if is_counting && stack.filters().len() == 1 && ids.next_with_room(stack, id) == Some(0) {
            return Ok(if stack.count_up(0, probe) {
                Added::New
            } else {
                Added::Again
            });
        }
        let base = self.base_bytes();
        let (period, allowance) = beside_others(&mut self.periods, base, index, allowance);
        let Period {
            stack, ids, lane, ..
        } = period;
        let before = stack.filters().len();
        let added = match (*lane, stack.filters()) {
            _ if is_counting => {
                let claimant = stack.claimants(probe).next();
                let index = ids.place(stack, probe, claimant, id, allowance);
                index.map(|index| {
                    let new_here = stack.count_up(index, probe);
                    if claimant.is_none() {
                        return Added::New;
                    }
                    if new_here {
                        ids.repeat();
                    }
                    Added::Again
                })
            }
            (Some(lane), [_]) => {
                let (filters, lane) = self.lanes.filters_of_mut(lane);
                add_to_lane(probe, stack, (filters, lane), allowance)
            }
            _ => stack.add_unclaimed(probe, allowance),
        };
        if stack.filters().len() > before {
            self.count_own();
        }
        added
    }
}

/// Returns a period, and the allowance for its stack: the room left by the other periods and by `base`, the bytes
/// outside of all periods.
fn beside_others(
    periods: &mut [Period],
    base: u64,
    index: usize,
    allowance: impl Fn() -> Allowance,
) -> (&mut Period, impl Fn() -> Allowance) {
    let (older, from) = periods.split_at_mut(index);
    let (period, newer) = from.split_at_mut(1);
    let period = &mut period[0];
    let beside = base + period.ids.memory_bytes() - Stack::BASE_BYTES;
    let allowance = move || {
        let others = || older.iter().chain(&*newer);
        let bytes = others().map(Period::memory_bytes).sum::<u64>();
        Allowance {
            rest: depth_of(others()),
            ..allowance().beside(beside + bytes)
        }
    };
    (period, allowance)
}

/// Adds an item to a stack of one filter whose bits are in a lane. Neither this period nor a later one claims the
/// item.
fn add_to_lane(
    probe: Probe,
    stack: &mut Stack,
    (filters, lane): (&mut Interleaved, u8),
    allowance: impl Fn() -> Allowance,
) -> Result<Added, Refusal> {
    if stack.is_full() {
        stack.make_room_for_one(allowance())?;
    }
    match stack.filters() {
        [_] => Ok(stack.count_in_lane(filters.insert(lane, probe))),
        _ => stack.add_unclaimed(probe, allowance),
    }
}

/// Adds the items of a batch from `first` on to a stack of one filter whose bits are in a lane, until the stack has to
/// grow. Returns the index of the next item, or `None` once `each` returns false.
fn add_batch_to_lane(
    batch: &Batch,
    first: usize,
    present: u64,
    row: &mut Row,
    (stack, filters, lane): (&mut Stack, &mut Interleaved, u8),
    allowance: impl Fn() -> Allowance,
    mut each: impl FnMut(Result<Added, Refusal>) -> bool,
) -> Option<usize> {
    let mut located = None;
    for item in first..batch.len() {
        let probe = batch.probe(item);
        let is_present = present >> item & 1 == 1;
        let added = if is_present || stack.is_full() && filters.contains(lane, probe) {
            Added::Present
        } else {
            if stack.is_full() {
                if stack.law().growth() != Growth::Fixed {
                    return Some(item);
                }
                // A fixed stack takes more items or refuses them, and does not grow.
                if let Err(refusal) = stack.make_room_for_one(allowance()) {
                    if !each(Err(refusal)) {
                        return None;
                    }
                    continue;
                }
            }
            let of_row = item / ROW * ROW;
            if located != Some(of_row) {
                row.locate_in_lanes(batch, of_row, filters);
                located = Some(of_row);
            }
            stack.count_in_lane(match row.positions(item % ROW) {
                Some(positions) => filters.insert_at(lane, positions),
                None => filters.insert(lane, probe),
            })
        };
        if !each(Ok(added)) {
            return None;
        }
    }
    Some(batch.len())
}

/// Returns the result of adding an item that an earlier period claims. If there is no room to keep the item for
/// longer, it is present anyway.
fn renewed(added: Result<Added, Refusal>) -> Result<Added, Refusal> {
    match added {
        Ok(Added::New) => Ok(Added::Again),
        Err(Refusal::Full) => Ok(Added::Present),
        added => added,
    }
}
