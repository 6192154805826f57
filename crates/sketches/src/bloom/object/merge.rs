//! Unions: merging several objects into one.
//!
//! A filter that holds all bits of another one of its size holds its items too. If two filters of one size overlap,
//! their bits are combined if one of them has room for the items of both, whose number is estimated from the bits. All
//! other filters are stacked. So repeating a merge changes nothing.
//!
//! The filters of the union are chosen, and checked against limits and rates, before any are copied. Choosing and
//! copying read each filter a small number of times (`union.rs`).

use std::collections::HashMap;

use crate::bloom::filter::{Cells, Filter};
use crate::bloom::law::{Law, Limits, MAX_FILTERS, Refusal};
use crate::bloom::stack::Stack;
use crate::machine::{memory, work};
use crate::number::Fraction;

use super::ids::Ids;
use super::period::Period;
use super::timeline::Timeline;
use super::union::{Member, SameSize, Search};

/// The reason that objects can't be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeError {
    /// Their hash functions differ.
    Seeds,
    /// Their kinds (plain, windowed or counting), or the cells of their filters, differ.
    Kinds,
    /// Their rates add up to 1 or more.
    Rates,
    /// There is no room for the merged object.
    Refused(Refusal),
}

crate::error::texts!(MergeError {
    Self::Seeds => "the hash functions differ",
    Self::Kinds => "the kinds of the objects differ",
    Self::Rates => "the error rates add up to 1 or more",
    Self::Refused(refusal) => refusal.text(),
});

pub const NO_MEMORY: MergeError = MergeError::Refused(Refusal::OutOfMemory);
pub const TOO_LARGE: MergeError = MergeError::Refused(Refusal::MemoryLimit);

/// A bound on a sum of rates: above it, the sum exceeds 1 in any order of addition.
const CERTAINLY_ALL: f64 = 1.001;

/// The memory that the union may take, and the budget of its search for holders.
pub struct Budget {
    limits: Limits,
    bytes: u64,
    search: Search,
}

impl Budget {
    /// Creates the budget of a union of filters whose cells have `source_bytes`, with `bytes` already spent.
    pub const fn new(limits: Limits, bytes: u64, source_bytes: u64) -> Self {
        Self {
            limits,
            bytes,
            search: Search::among(source_bytes),
        }
    }

    /// Charges a filter before memory for it is allocated.
    fn charge(&mut self, filter: &Filter) -> Result<(), MergeError> {
        let blob = filter.geometry().blob_bytes();
        let bytes = self.bytes.saturating_add(blob + size_of::<Filter>() as u64);
        if blob > self.limits.filter_bytes || bytes > self.limits.object_bytes {
            return Err(TOO_LARGE);
        }
        self.bytes = bytes;
        Ok(())
    }
}

/// Allocates an empty list with capacity for `count` values.
pub fn reserved<T>(count: usize) -> Result<Vec<T>, MergeError> {
    memory::reserved(count).ok_or(NO_MEMORY)
}

/// Returns the union of stacks and their ids, if its rate, multiplied by `times`, is below 1, or `None` if the first one
/// already equals it.
pub fn stacks(
    sources: &[(&Stack, &Ids)],
    times: f64,
    budget: &mut Budget,
) -> Result<Option<(Stack, Ids)>, MergeError> {
    let Some(mut members) = unite(sources, budget)? else {
        return Ok(None);
    };
    let (first, _) = sources[0];
    let law = first.law();
    // Links have rates of their own.
    let is_rated = law.links().is_none();
    if is_rated {
        let mut least = 0.0;
        for member in &mut members {
            member.rate = member.filter().rate_at(member.capacity.max(member.items));
            // Empty filters may be left out.
            least += if member.items > 0 { member.rate } else { 0.0 };
        }
        if least * times > CERTAINLY_ALL {
            return Err(MergeError::Rates);
        }
    }
    for member in &mut members {
        member.merge_pending().ok_or(NO_MEMORY)?;
    }
    // The filter with most room becomes the newest. Empty filters are left out.
    members.sort_unstable_by_key(|member| (member.room(), member.number));
    let mut left = members.len();
    members.retain(|member| {
        left -= 1;
        left == 0 || !member.filter().is_empty()
    });
    let count = members.len();
    let mut rates = 0.0;
    for (index, member) in members.iter_mut().enumerate() {
        rates += member.rate;
        // Files rely on every filter of our bits being full, except the newest of its stack.
        if index + 1 < count && first.cells() == Cells::Bits {
            member.items = member.items.max(1);
            member.capacity = member.items;
        }
    }
    let error_rate = if is_rated {
        // The rate of the first stack, or a larger one that lets the law continue from here.
        let share = law.series().share_of(count as u64);
        let requested = law.requested_rate().max(rates / share);
        Fraction::new(requested * times).ok_or(MergeError::Rates)?;
        Fraction::new(requested).ok_or(MergeError::Rates)?
    } else {
        Fraction::HALF
    };
    let mut filters = reserved(count)?;
    let linked = members.iter().filter(|member| member.link.is_some());
    let mut links = reserved(linked.count())?;
    let mut intervals = reserved(count)?;
    for member in members {
        links.extend(member.link);
        intervals.push(member.interval);
        filters.push(member.into_filter().ok_or(NO_MEMORY)?);
    }
    let law = law.of_union(error_rate, links);
    let taken = filters.iter().map(Filter::items);
    let repeats = repeats_of_union(sources, taken.fold(0, u64::saturating_add));
    let intervals = memory::boxed(intervals).ok_or(NO_MEMORY)?;
    let mut merged =
        Stack::from_filters(law, *first.hasher(), first.cells(), filters).map_err(|_| TOO_LARGE)?;
    merged.seal_overfull();
    Ok(Some((merged, Ids::new(intervals, repeats))))
}

/// Returns the repeats of a union whose filters have this many items. It has at least as many different items as any
/// source, and at most as many as all of them together.
fn repeats_of_union(sources: &[(&Stack, &Ids)], taken: u64) -> u64 {
    let repeats = sources.iter().map(|(_, ids)| ids.repeats);
    let repeats = repeats.fold(0, u64::saturating_add);
    if repeats == 0 {
        return 0;
    }
    let items = |(stack, ids): &(&Stack, &Ids)| stack.items().saturating_sub(ids.repeats);
    let least = sources.iter().map(items).max().unwrap_or_default();
    let most = sources.iter().map(items).fold(0, u64::saturating_add);
    taken.saturating_sub(taken.saturating_sub(repeats).clamp(least, most))
}

/// Returns the filters of the union, or `None` if they are the first stack's, unchanged.
fn unite<'s>(
    sources: &[(&'s Stack, &Ids)],
    budget: &mut Budget,
) -> Result<Option<Vec<Member<'s>>>, MergeError> {
    let mut members: Vec<Member> = Vec::new();
    let mut changed = false;
    // The members of each size.
    let mut same_size: HashMap<_, SameSize> = HashMap::new();
    for (source, (stack, ids)) in sources.iter().enumerate() {
        for (index, filter) in stack.filters().iter().enumerate() {
            work::steps(1);
            let link = stack.law().links();
            let link = link.and_then(|links| links.all.get(index).copied());
            let member = Member {
                source_filter: filter,
                own_filter: None,
                pending: None,
                capacity: filter.capacity(),
                items: filter.items(),
                link,
                interval: ids.interval(index),
                source,
                number: members.len(),
                rate: 0.0,
            };
            same_size.try_reserve(1).map_err(|_| NO_MEMORY)?;
            let key = (filter.merge_key(), link.map(|link| link.merge_key()));
            let candidates = same_size.entry(key).or_default();
            if source > 0 {
                if filter.is_empty() {
                    work::bytes(filter.bitmap().len());
                    continue;
                }
                candidates.merge_pending(&mut members).ok_or(NO_MEMORY)?;
                // A filter that holds this one already is preferred to one with room for it.
                let holder = candidates.holder(&members, &member, &mut budget.search);
                if let Some(at) = holder.or_else(|| candidates.widest())
                    && let Some(change) = members[at].unite(&member, filter, holder.is_some())
                {
                    changed |= change;
                    continue;
                }
                changed = true;
            }
            if members.len() as u64 >= MAX_FILTERS {
                return Err(TOO_LARGE);
            }
            budget.charge(filter)?;
            candidates.push(&member).map_err(|_| NO_MEMORY)?;
            members.try_reserve(1).map_err(|_| NO_MEMORY)?;
            members.push(member);
        }
    }
    Ok(changed.then_some(members))
}

/// Returns the union of lists of periods, at least one, or `None` if the first one already equals it. Expired periods
/// are exempt from limits and don't count as a change: they are freed next.
pub fn timelines(
    sources: &[&Timeline],
    now_ms: Option<u64>,
    budget: &mut Budget,
) -> Result<Option<Timeline>, MergeError> {
    let first = sources[0];
    // Each period, with the number of its source and its index there.
    let mut sorted = reserved(sources.iter().map(|source| source.periods.len()).sum())?;
    for (number, source) in sources.iter().enumerate() {
        let periods = source.periods.iter().enumerate();
        sorted.extend(periods.map(|(place, period)| (period, number, place)));
    }
    sorted.sort_unstable_by_key(|(period, number, place)| (period.number, *number, *place));
    let window = first.window;
    let current = now_ms.map(|now_ms| window.period_at(now_ms));
    let has_expired =
        |period: &Period| current.is_some_and(|current| window.has_expired(period.number, current));
    let mut changed = false;
    // Unchanged periods are copied later, if anything changes.
    let mut merged = reserved(sorted.len())?;
    for same_number in sorted.chunk_by(|(one, ..), (other, ..)| one.number == other.number) {
        let Some((oldest, source, _)) = same_number.first() else {
            continue;
        };
        let expired = has_expired(oldest);
        let of_live = (budget.limits, budget.bytes);
        // The rate of a live period counts once for each period of the window.
        let mut times = first.shape().rate_divisor();
        if expired {
            (budget.limits, times) = (Limits::NONE, 1.0);
        }
        let united = periods(sources, same_number, times, budget)?;
        if expired {
            (budget.limits, budget.bytes) = of_live;
        }
        changed |= !expired && (united.is_some() || *source > 0);
        merged.push((united, *oldest, sources[*source]));
    }
    if !changed {
        return Ok(None);
    }
    let mut periods = reserved(merged.len())?;
    for (united, oldest, source) in merged {
        let copy = || {
            work::bytes(2 * cell_bytes(oldest));
            if oldest.has_own_bits() {
                oldest.try_clone()
            } else {
                source.separate(oldest)
            }
        };
        periods.push(united.or_else(copy).ok_or(NO_MEMORY)?);
    }
    with_one_law(first, periods).map(Some)
}

/// Returns the union of periods with the same number, each with the number of its source and its index there, or
/// `None` if the first one already equals it.
fn periods(
    sources: &[&Timeline],
    same_number: &[(&Period, usize, usize)],
    times: f64,
    budget: &mut Budget,
) -> Result<Option<Period>, MergeError> {
    if let [(only, ..)] = same_number {
        for filter in only.stack.filters() {
            budget.charge(filter)?;
        }
        return Ok(None);
    }
    // Interleaved filters are copied first.
    let mut copies = reserved(same_number.len())?;
    for (period, number, _) in same_number {
        let copy = || {
            work::bytes(2 * cell_bytes(period));
            sources[*number].separate(period).ok_or(NO_MEMORY)
        };
        copies.push((!period.has_own_bits()).then(copy).transpose()?);
    }
    let no_ids = Ids::default();
    let mut apart = reserved(same_number.len())?;
    let of_periods = same_number.iter().zip(&copies);
    apart.extend(of_periods.map(|((period, ..), copy)| {
        let period = copy.as_ref().unwrap_or(period);
        (&period.stack, &no_ids)
    }));
    let united = stacks(&apart, times, budget)?;
    Ok(united.map(|(stack, _)| Period::new(same_number[0].0.number, stack)))
}

/// Returns the size of the cells of a period's filters in bytes.
fn cell_bytes(period: &Period) -> usize {
    let filters = period.stack.filters().iter();
    let bytes: u64 = filters.map(|filter| filter.geometry().cell_bytes).sum();
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Returns a timeline of periods that all grow by one law, whose rate is stored once: the first object's, or a larger
/// one that a period needs.
fn with_one_law(first: &Timeline, mut periods: Vec<Period>) -> Result<Timeline, MergeError> {
    let mut shape = first.shape();
    let law = shape.law().ok_or(MergeError::Rates)?;
    let needed = periods
        .iter_mut()
        .map(|period| rate_under(&law, &mut period.stack) * shape.rate_divisor());
    let error_rate = needed.fold(shape.params.error_rate.get(), f64::max);
    shape.params.error_rate = Fraction::new(error_rate).ok_or(MergeError::Rates)?;
    let law = shape.law().ok_or(MergeError::Rates)?;
    for period in &mut periods {
        period.stack.follow(law.clone());
    }
    Ok(Timeline::new(shape.params, first.window, first.hasher).with_periods(periods))
}

/// Makes a stack follow a law, and returns the rate that it needs to continue under it.
fn rate_under(law: &Law, stack: &mut Stack) -> f64 {
    let (own, series) = (stack.law().series(), law.series());
    let requested = own.error_rate.get();
    if (own.growth, own.tightening()) == (series.growth, series.tightening()) {
        return requested;
    }
    stack.follow(law.clone());
    let rates = stack.filters().iter().map(|f| f.rate_at(f.capacity()));
    let share = series.share_of(stack.filters().len() as u64);
    requested.max(rates.sum::<f64>() / share)
}
