//! Additions to the periods of a window.

use crate::bloom::filter::Interleaved;
use crate::bloom::law::{Allowance, Refusal};
use crate::bloom::stack::{Added, Rest, Stack};
use crate::hash::{BATCH, Batch, Probe};

use super::lanes::Claimed;
use super::period::Period;
use super::timeline::{Timeline, depth_of};
use super::window::Time;

/// Interleaving steps per added item, and per batch. They take some microseconds.
const STEPS_PER_ITEM: usize = 1;
const STEPS_PER_BATCH: usize = 16;

/// The rest of a batch that goes to a period.
struct Addition<'b> {
    /// The items that are not added yet. Those that are present are in the target or a later period, and so kept for as long
    /// as requested.
    rest: Rest<'b>,
    /// The number of the period to add to.
    target: u64,
    /// The mask of items that an earlier period claims and the target does not.
    renewed: u64,
}

impl<'b> Addition<'b> {
    const fn new(batch: &'b Batch, target: u64) -> Self {
        Self {
            rest: Rest::of(batch),
            target,
            renewed: 0,
        }
    }

    fn enter(&mut self, claimed: Claimed) {
        self.rest.present = claimed.later;
        self.renewed = claimed.earlier & !claimed.later;
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
        if claimed.later != 0 {
            return Ok(Added::Present);
        }
        // Where the newest filter has bits of its own and room, nothing grows, and a batch would take 2 % more instructions of
        // the command.
        if let Some(index) = self.index_of(target)
            && let Period { stack, lane, .. } = &mut self.periods[index]
            && !stack.is_full()
            && (lane.is_none() || stack.filters().len() > 1)
        {
            let added = stack.add_unclaimed(probe, &allowance);
            return renewing(claimed.earlier != 0, added);
        }
        let batch = Batch::of_one(probe);
        let mut addition = Addition::new(&batch, target);
        addition.enter(claimed);
        let mut outcome = Ok(Added::Present);
        while !addition.rest.is_empty()
            && self.go_on(&mut addition, &allowance, |added| outcome = added)
        {}
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
        let target = self.window.target(time);
        loop {
            self.interleave(STEPS_PER_BATCH, time.now_ms, &allowance);
            let batch = Batch::of(&self.hasher, &mut items);
            let mut addition = Addition::new(&batch, target);
            while !addition.rest.is_empty() {
                let live = self.live_around(target, time.now_ms);
                let items = batch.mask_from(addition.rest.next);
                addition.enter(self.claims(&batch, items, &live));
                if !self.go_on(&mut addition, &allowance, &mut outcome) {
                    return;
                }
            }
            if batch.len() < BATCH {
                return;
            }
        }
    }

    /// Adds items until the period or its stack has grown, so that lookups have to be repeated. Passes each result to
    /// `outcome`. Returns whether no item was refused.
    fn go_on(
        &mut self,
        addition: &mut Addition,
        allowance: impl Fn() -> Allowance,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) -> bool {
        if let Some(index) = self.index_of(addition.target) {
            return self.add_to(index, addition, allowance, outcome);
        }
        // Items that are present need no period.
        let rest = &mut addition.rest;
        while !rest.is_empty() && rest.is_next_present() {
            rest.next += 1;
            outcome(Ok(Added::Present));
        }
        if !rest.is_empty()
            && let Err(refusal) = self.open(addition.target, allowance())
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
        addition: &mut Addition,
        allowance: impl Fn() -> Allowance,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) -> bool {
        let base = self.base_bytes();
        let (period, allowance) = beside_others(&mut self.periods, base, index, allowance);
        let before = period.stack.filters().len();
        let Addition { rest, renewed, .. } = addition;
        let mut item = rest.next;
        let mut each = |added| {
            let added = renewing(*renewed >> item & 1 == 1, added);
            item += 1;
            outcome(added);
            added.is_ok()
        };
        let stack = &mut period.stack;
        let all = match period.lane {
            Some(lane) if before == 1 => {
                let lane = self.lanes.filters_of_mut(lane);
                add_to_lane(rest, stack, lane, allowance, each)
            }
            _ => {
                rest.searched = before - 1;
                stack.add_rest(rest, allowance, |_, added| each(added))
            }
        };
        if period.stack.filters().len() > before {
            self.count_own();
        }
        all
    }
}

/// Returns the outcome of an addition to a period, which renews the item if an earlier one claims it.
const fn renewing(renews: bool, added: Result<Added, Refusal>) -> Result<Added, Refusal> {
    match added {
        Ok(Added::New) if renews => Ok(Added::Again),
        // There is no room to keep the item for longer.
        Err(Refusal::Full) if renews => Ok(Added::Present),
        added => added,
    }
}

/// Adds items to a stack of one filter whose bits are in a lane, until the stack has grown. Passes each result to
/// `each`, and returns whether that always returned true.
fn add_to_lane(
    rest: &mut Rest,
    stack: &mut Stack,
    (filters, lane): (&mut Interleaved, u8),
    allowance: impl Fn() -> Allowance,
    mut each: impl FnMut(Result<Added, Refusal>) -> bool,
) -> bool {
    rest.row.forget();
    while !rest.is_empty() {
        let probe = rest.row.batch.probe(rest.next);
        let added = if rest.is_next_present() || stack.is_full() && filters.contains(lane, probe) {
            Ok(Added::Present)
        } else if stack.is_full()
            && let Err(refusal) = stack.make_room_for_one(allowance())
        {
            Err(refusal)
        } else if stack.filters().len() > 1 {
            return true;
        } else {
            if !rest.row.has(rest.next) {
                rest.row.locate_in_lanes(rest.next, filters);
            }
            let new = match rest.row.positions(rest.next) {
                Some(positions) => filters.insert_at(lane, positions),
                None => filters.insert(lane, probe),
            };
            Ok(stack.count_in_lane(new))
        };
        rest.next += 1;
        if !each(added) {
            return false;
        }
    }
    true
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
