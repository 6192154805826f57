//! Additions to the periods of a window.

use crate::bloom::filter::Interleaved;
use crate::bloom::law::{Allowance, Refusal};
use crate::bloom::stack::{Added, Known, ROW, Row, Stack};
use crate::hash::{BATCH, Batch, Probe};

use super::lanes::Claimed;
use super::period::Period;
use super::timeline::{Timeline, depth_of};
use super::window::Time;

/// Interleaving steps per added item, and per batch. They take some microseconds.
const STEPS_PER_ITEM: usize = 1;
const STEPS_PER_BATCH: usize = 16;

/// The items of a batch that are not added yet, after lookups.
struct Rest<'b> {
    batch: &'b Batch,
    /// The index of the next item.
    next: usize,
    /// The number of the period to add to.
    target: u64,
    /// The items that periods claim.
    claimed: Claimed,
    row: Row,
}

impl<'b> Rest<'b> {
    fn new(batch: &'b Batch, target: u64, claimed: Claimed) -> Self {
        Self {
            batch,
            next: 0,
            target,
            claimed,
            row: Row::new(),
        }
    }

    /// Returns whether the target or a later period claims an item, and so keeps it for as long as requested.
    const fn is_present(&self, item: usize) -> bool {
        self.claimed.later >> item & 1 == 1
    }

    const fn is_done(&self) -> bool {
        self.next == self.batch.len()
    }
}

impl Timeline {
    /// Adds an item, after [`tidy`](Self::tidy). Calls `allowance` only if the object has to grow.
    pub fn add(
        &mut self,
        probe: Probe,
        time: Time,
        allowance: impl Fn() -> Allowance,
    ) -> Result<Added, Refusal> {
        self.interleave(STEPS_PER_ITEM, time.now_ms, &allowance);
        let target = self.window.target(time);
        let claimed = self.claims_of_one(probe, &self.live_around(target, time.now_ms));
        let mut outcome = Ok(Added::Present);
        if claimed.later == 0 {
            let batch = Batch::of_one(probe);
            let mut rest = Rest::new(&batch, target, claimed);
            while !rest.is_done() && self.add_rest(&mut rest, &allowance, |added| outcome = added) {
            }
        }
        outcome
    }

    /// Adds items in order, and passes the result of [`add`](Self::add) for each to `outcome`. Stops after the first
    /// refusal.
    #[inline(never)]
    pub fn add_each<'i>(
        &mut self,
        mut items: impl Iterator<Item = &'i [u8]>,
        time: Time,
        allowance: impl Fn() -> Allowance,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) {
        loop {
            self.interleave(STEPS_PER_BATCH, time.now_ms, &allowance);
            let batch = Batch::of(&self.hasher, &mut items);
            let all = self.add_batch(&batch, time, &allowance, &mut outcome);
            if !all || batch.len() < BATCH {
                return;
            }
        }
    }

    /// Adds the items of a batch, and passes each result to `outcome`. Stops after the first refusal. Returns whether all
    /// items were added.
    fn add_batch(
        &mut self,
        batch: &Batch,
        time: Time,
        allowance: impl Fn() -> Allowance,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) -> bool {
        let target = self.window.target(time);
        let mut rest = Rest::new(batch, target, Claimed::default());
        while !rest.is_done() {
            let live = self.live_around(target, time.now_ms);
            rest.claimed = self.claims(batch, batch.mask_from(rest.next), &live);
            if !self.add_rest(&mut rest, &allowance, &mut outcome) {
                return false;
            }
        }
        true
    }

    /// Adds items until the period or its stack has grown, so that lookups have to be repeated. Passes each result to
    /// `outcome`. Returns whether no item was refused.
    fn add_rest(
        &mut self,
        rest: &mut Rest,
        allowance: impl Fn() -> Allowance,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) -> bool {
        if let Some(index) = self.index_of(rest.target) {
            return self.add_to(index, rest, allowance, outcome);
        }
        // Items that are present need no period.
        while !rest.is_done() && rest.is_present(rest.next) {
            rest.next += 1;
            outcome(Ok(Added::Present));
        }
        if !rest.is_done()
            && let Err(refusal) = self.open(rest.target, allowance())
        {
            outcome(Err(refusal));
            return false;
        }
        true
    }

    /// Adds items to a period, until its filter in a lane is full. Returns whether none was refused.
    fn add_to(
        &mut self,
        index: usize,
        rest: &mut Rest,
        allowance: impl Fn() -> Allowance,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) -> bool {
        let base = self.base_bytes();
        let (period, allowance) = beside_others(&mut self.periods, base, index, allowance);
        let before = period.stack.filters().len();
        let renewed = rest.claimed.earlier & !rest.claimed.later;
        let mut item = rest.next;
        let each = |added| {
            let added = match added {
                Ok(Added::New) if renewed >> item & 1 == 1 => Ok(Added::Again),
                // There is no room to keep the item for longer.
                Err(Refusal::Full) if renewed >> item & 1 == 1 => Ok(Added::Present),
                added => added,
            };
            item += 1;
            outcome(added);
            added.is_ok()
        };
        let stack = &mut period.stack;
        let all = match period.lane {
            Some(lane) if before == 1 => {
                let (filters, lane) = self.lanes.filters_of_mut(lane);
                rest.add_to_lane(stack, filters, lane, allowance, each)
            }
            _ => {
                let known = Known {
                    present: rest.claimed.later,
                    searched: before - 1,
                };
                let first = std::mem::replace(&mut rest.next, rest.batch.len());
                stack.add_batch(rest.batch, first, known, &mut rest.row, allowance, each)
            }
        };
        if period.stack.filters().len() > before {
            self.count_own();
        }
        all
    }
}

impl Rest<'_> {
    /// Adds items to a stack of one filter whose bits are in a lane, until the stack has grown. Passes each result to
    /// `each`, and returns whether that always returned true.
    fn add_to_lane(
        &mut self,
        stack: &mut Stack,
        filters: &mut Interleaved,
        lane: u8,
        allowance: impl Fn() -> Allowance,
        mut each: impl FnMut(Result<Added, Refusal>) -> bool,
    ) -> bool {
        let mut located = None;
        while !self.is_done() {
            let (item, probe) = (self.next, self.batch.probe(self.next));
            let added = if self.is_present(item) || stack.is_full() && filters.contains(lane, probe)
            {
                Ok(Added::Present)
            } else if stack.is_full()
                && let Err(refusal) = stack.make_room_for_one(allowance())
            {
                Err(refusal)
            } else if stack.filters().len() > 1 {
                return true;
            } else {
                let of_row = item / ROW * ROW;
                if located != Some(of_row) {
                    self.row.locate_in_lanes(self.batch, of_row, filters);
                    located = Some(of_row);
                }
                let new = match self.row.positions(item % ROW) {
                    Some(positions) => filters.insert_at(lane, positions),
                    None => filters.insert(lane, probe),
                };
                Ok(stack.count_in_lane(new))
            };
            self.next += 1;
            if !each(added) {
                return false;
            }
        }
        true
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
    let allowance = move || {
        let others = || older.iter().chain(&*newer);
        let bytes = others().map(Period::memory_bytes).sum::<u64>();
        Allowance {
            rest: depth_of(others()),
            ..allowance().beside(base - Stack::BASE_BYTES + bytes)
        }
    };
    (&mut period[0], allowance)
}
