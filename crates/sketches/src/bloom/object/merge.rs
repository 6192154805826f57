//! Merging several objects into one: a union.
//!
//! A filter that holds all bits of another one of its size has the items of that. Where two of one size
//! overlap, they are laid over each other, if one has room for the items of both; how many these are, the bits
//! tell. All others are stacked. So merging again what was merged before changes nothing.
//!
//! It is decided which filters the union has, and whether limits and rates admit them, before any are copied. That and
//! the copying pass over each filter a small number of times (`holder.rs`).

use std::collections::HashMap;

use crate::bloom::filter::{Cells, Filter};
use crate::bloom::law::{Law, Limits, MAX_FILTERS, Refusal};
use crate::bloom::stack::Stack;
use crate::machine::work;
use crate::number::Fraction;

use super::holder::{Alike, Search};
use super::ids::Ids;
use super::part::Part;
use super::period::Period;
use super::timeline::Timeline;

/// Why objects can't be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeError {
    /// They hash items in different ways.
    Seeds,
    /// They differ in what opens a filter, or in what a cell is.
    Kinds,
    /// Their rates add up to 1 or more.
    Rates,
    /// There is no room for the merged object.
    Refused(Refusal),
}

pub const NO_MEMORY: MergeError = MergeError::Refused(Refusal::OutOfMemory);
pub const TOO_LARGE: MergeError = MergeError::Refused(Refusal::MemoryLimit);

/// A sum of rates that is above 1 in whatever order it is summed up.
const CERTAINLY_ALL: f64 = 1.001;

/// How much memory the union may take. It is asked before the memory is.
pub struct Budget {
    limits: Limits,
    bytes: u64,
}

impl Budget {
    /// As much as limits admit, of which so many bytes are taken.
    pub const fn new(limits: Limits, bytes: u64) -> Self {
        Self { limits, bytes }
    }

    fn take(&mut self, filter: &Filter) -> Result<(), MergeError> {
        let blob = filter.geometry().blob_bytes();
        let bytes = self.bytes.saturating_add(blob + size_of::<Filter>() as u64);
        if blob > self.limits.filter_bytes || bytes > self.limits.object_bytes {
            return Err(TOO_LARGE);
        }
        self.bytes = bytes;
        Ok(())
    }
}

/// The union of these stacks, at least one, or `None` if the first one is that already.
pub fn stacks(
    sources: &[&Stack],
    budget: &mut Budget,
    search: &mut Search,
) -> Result<Option<Stack>, MergeError> {
    let no_ids = Ids::default();
    let mut with_ids = reserved(sources.len())?;
    with_ids.extend(sources.iter().map(|stack| (*stack, &no_ids)));
    Ok(stacks_with_ids(&with_ids, 1.0, budget, search)?.map(|(stack, _)| stack))
}

/// An empty list with room for this many.
fn reserved<T>(count: usize) -> Result<Vec<T>, MergeError> {
    let mut list = Vec::new();
    let room = list.try_reserve_exact(count);
    room.map_err(|_| NO_MEMORY)?;
    Ok(list)
}

/// The union of stacks with the ids that they took, if its rate is below 1 when it is multiplied by `times`.
fn stacks_with_ids(
    sources: &[(&Stack, &Ids)],
    times: f64,
    budget: &mut Budget,
    search: &mut Search,
) -> Result<Option<(Stack, Ids)>, MergeError> {
    let ((first, _), others) = sources.split_first().ok_or(MergeError::Kinds)?;
    for (other, _) in others {
        if first.hasher() != other.hasher() {
            return Err(MergeError::Seeds);
        }
        if first.cells() != other.cells() {
            return Err(MergeError::Kinds);
        }
    }
    let Some(mut parts) = unite(sources, budget, search)? else {
        return Ok(None);
    };
    let law = first.law();
    // Links have rates of their own.
    let is_rated = law.links().is_none();
    if is_rated {
        let mut least = 0.0;
        for part in &mut parts {
            part.rate = part.filter().rate_at(part.capacity.max(part.items));
            // What is empty may be left out.
            least += if part.items > 0 { part.rate } else { 0.0 };
        }
        if least * times > CERTAINLY_ALL {
            return Err(MergeError::Rates);
        }
    }
    for part in &mut parts {
        part.settle().ok_or(NO_MEMORY)?;
    }
    // The one with most room is the newest; what is empty is left out.
    parts.sort_unstable_by_key(|part| (part.room(), part.number));
    let mut left = parts.len();
    parts.retain(|part| {
        left -= 1;
        left == 0 || !part.filter().is_empty()
    });
    let count = parts.len();
    let mut rates = 0.0;
    for (index, part) in parts.iter_mut().enumerate() {
        rates += part.rate;
        // In a stack of our bits, every filter but the newest is full: files imply it.
        if index + 1 < count && first.cells() == Cells::Bits {
            part.items = part.items.max(1);
            part.capacity = part.items;
        }
    }
    let error_rate = if is_rated {
        // The rate that the first one has, and at least what the law needs to go on from here.
        let share = law.series().share_of(count as u64);
        let requested = law.requested_rate().max(rates / share);
        Fraction::new(requested * times).ok_or(MergeError::Rates)?;
        Fraction::new(requested).ok_or(MergeError::Rates)?
    } else {
        Fraction::HALF
    };
    let mut filters = reserved(count)?;
    let mut links = reserved(parts.iter().filter(|part| part.link.is_some()).count())?;
    let mut intervals = reserved(count)?;
    for part in parts {
        links.extend(part.link);
        intervals.push(part.interval);
        filters.push(part.into_filter().ok_or(NO_MEMORY)?);
    }
    let law = law.of_union(error_rate, links);
    let mut merged =
        Stack::from_filters(law, *first.hasher(), first.cells(), filters).map_err(|_| TOO_LARGE)?;
    merged.seal_overfull();
    Ok(Some((merged, Ids::new(intervals))))
}

/// The filters of the union, or `None` if they are the first one's, unchanged.
fn unite<'s>(
    sources: &[(&'s Stack, &Ids)],
    budget: &mut Budget,
    search: &mut Search,
) -> Result<Option<Vec<Part<'s>>>, MergeError> {
    let mut parts: Vec<Part> = Vec::new();
    let mut changed = false;
    // The parts of each size.
    let mut alike: HashMap<_, Alike> = HashMap::new();
    for (source, (stack, ids)) in sources.iter().enumerate() {
        for (index, filter) in stack.filters().iter().enumerate() {
            work::steps(1);
            let link = stack.law().links();
            let link = link.and_then(|links| links.all.get(index).copied());
            let part = Part::new(filter, link, ids.interval(index), source, parts.len());
            alike.try_reserve(1).map_err(|_| NO_MEMORY)?;
            let key = (filter.merge_key(), link.map(|link| link.merge_key()));
            let alike = alike.entry(key).or_default();
            if source > 0 {
                if filter.is_empty() {
                    work::bytes(filter.bitmap().len());
                    continue;
                }
                alike.settle(&mut parts).ok_or(NO_MEMORY)?;
                // One that has it already, before one that has room for it.
                let holder = alike.holder(&parts, &part, search);
                let holder = holder.map_err(|_| NO_MEMORY)?;
                if let Some(at) = holder.or_else(|| alike.widest())
                    && let Some(change) = parts[at].unite(&part, filter, holder.is_some())
                {
                    alike.record(at).map_err(|_| NO_MEMORY)?;
                    changed |= change;
                    continue;
                }
                changed = true;
            }
            if parts.len() as u64 >= MAX_FILTERS {
                return Err(TOO_LARGE);
            }
            budget.take(filter)?;
            alike.push(&part).map_err(|_| NO_MEMORY)?;
            parts.try_reserve(1).map_err(|_| NO_MEMORY)?;
            parts.push(part);
        }
    }
    Ok(changed.then_some(parts))
}

/// The union of these lists of periods, at least one, or `None` if the first one is that already. Periods that
/// have passed count for no limit and as no change: they are freed next.
pub fn timelines(
    sources: &[&Timeline],
    now_ms: Option<u64>,
    budget: &mut Budget,
    search: &mut Search,
) -> Result<Option<Timeline>, MergeError> {
    let (first, others) = sources.split_first().ok_or(MergeError::Kinds)?;
    for other in others {
        if first.hasher != other.hasher {
            return Err(MergeError::Seeds);
        }
        if first.shape.kind != other.shape.kind {
            return Err(MergeError::Kinds);
        }
    }
    // With the numbers of their sources, and their places there.
    let mut sorted = reserved(sources.iter().map(|source| source.periods.len()).sum())?;
    for (number, source) in sources.iter().enumerate() {
        let periods = source.periods.iter().enumerate();
        sorted.extend(periods.map(|(place, period)| (period, number, place)));
    }
    sorted.sort_unstable_by_key(|(period, number, place)| (period.number, *number, *place));
    let now = first.shape.window().zip(now_ms);
    let has_passed = |period: &Period| {
        now.is_some_and(|(window, now_ms)| {
            window.has_passed(period.number, window.period_at(now_ms))
        })
    };
    let mut changed = false;
    // What is not changed is copied when it is known that anything is.
    let mut merged = reserved(sorted.len())?;
    for of_one in sorted.chunk_by(|(one, ..), (other, ..)| one.number == other.number) {
        let Some((oldest, source, _)) = of_one.first() else {
            continue;
        };
        let passed = has_passed(oldest);
        let mut unlimited = Budget::new(Limits::NONE, 0);
        let budget = if passed { &mut unlimited } else { &mut *budget };
        // The rate of a union that lasts is that of all periods.
        let times = if passed { 1.0 } else { first.shape.parts() };
        let united = periods(sources, of_one, times, budget, search)?;
        changed |= !passed && (united.is_some() || *source > 0);
        merged.push((united, *oldest, sources[*source]));
    }
    if !changed {
        return Ok(None);
    }
    let mut periods = reserved(merged.len())?;
    for (united, oldest, source) in merged {
        let copy = || {
            work::bytes(2 * cell_bytes(oldest));
            if oldest.is_apart() {
                oldest.try_clone()
            } else {
                source.separate(oldest)
            }
        };
        periods.push(united.or_else(copy).ok_or(NO_MEMORY)?);
    }
    with_one_law(first, periods).map(Some)
}

/// The union of periods with one number, each with the number of its source and its place there, or `None` if the
/// first one is that already.
fn periods(
    sources: &[&Timeline],
    of_one: &[(&Period, usize, usize)],
    times: f64,
    budget: &mut Budget,
    search: &mut Search,
) -> Result<Option<Period>, MergeError> {
    if let [(only, ..)] = of_one {
        for filter in only.stack.filters() {
            budget.take(filter)?;
        }
        return Ok(None);
    }
    // What is interleaved is copied apart.
    let mut copies = reserved(of_one.len())?;
    for (period, number, _) in of_one {
        let copy = || {
            work::bytes(2 * cell_bytes(period));
            sources[*number].separate(period).ok_or(NO_MEMORY)
        };
        copies.push((!period.is_apart()).then(copy).transpose()?);
    }
    let mut stacks = reserved(of_one.len())?;
    let apart = of_one.iter().zip(&copies);
    let apart = apart.map(|((period, ..), copy)| copy.as_ref().unwrap_or(period));
    stacks.extend(apart.map(|period| (&period.stack, &period.ids)));
    let united = stacks_with_ids(&stacks, times, budget, search)?;
    Ok(united.map(|(stack, ids)| Period::new(of_one[0].0.number, stack, ids)))
}

/// Bytes of the cells of a period's filters.
fn cell_bytes(period: &Period) -> usize {
    let filters = period.stack.filters().iter();
    let bytes: u64 = filters.map(|filter| filter.geometry().cell_bytes).sum();
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Periods that all grow by one law, whose rate is stored once: the first object's, or as much as any of
/// them needs.
fn with_one_law(first: &Timeline, mut periods: Vec<Period>) -> Result<Timeline, MergeError> {
    let mut shape = first.shape;
    let law = shape.law().ok_or(MergeError::Rates)?;
    let needed = periods
        .iter_mut()
        .map(|period| rate_under(&law, &mut period.stack) * shape.parts());
    let error_rate = needed.fold(shape.params.error_rate.get(), f64::max);
    shape.params.error_rate = Fraction::new(error_rate).ok_or(MergeError::Rates)?;
    let law = shape.law().ok_or(MergeError::Rates)?;
    for period in &mut periods {
        period.stack.follow(law.clone());
    }
    Ok(Timeline::new(shape, first.hasher).with_periods(periods))
}

/// The rate that a stack needs to grow by a law from here on, which it follows from now on.
fn rate_under(law: &Law, stack: &mut Stack) -> f64 {
    let (own, series) = (stack.law().series(), law.series());
    let requested = own.error_rate.get();
    if (own.growth, own.tightening) == (series.growth, series.tightening) {
        return requested;
    }
    stack.follow(law.clone());
    let rates = stack.filters().iter().map(|f| f.rate_at(f.capacity()));
    let share = series.share_of(stack.filters().len() as u64);
    requested.max(rates.sum::<f64>() / share)
}
