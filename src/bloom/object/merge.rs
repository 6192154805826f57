//! Merging several objects into one: a union.
//!
//! A filter that holds all bits of another one of its size has the items of that. Where two of one size
//! overlap, they are laid over each other, if one has room for the items of both; how many these are, the bits
//! tell. All others are stacked. So merging again what was merged before changes nothing.

use std::collections::HashMap;

use crate::bloom::filter::{Cells, Filter};
use crate::bloom::law::{Law, Limits, Link, MAX_FILTERS, Refusal};
use crate::bloom::number::Fraction;
use crate::bloom::stack::Stack;

use super::ids::{Ids, Interval, hull};
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
        let blob = filter.blob().len() as u64;
        let bytes = self.bytes.saturating_add(blob + size_of::<Filter>() as u64);
        if blob > self.limits.filter_bytes || bytes > self.limits.object_bytes {
            return Err(TOO_LARGE);
        }
        self.bytes = bytes;
        Ok(())
    }
}

/// A filter of the union.
struct Part<'s> {
    cells: Held<'s>,
    capacity: u64,
    items: u64,
    /// What `RedisBloom` keeps of it.
    link: Option<Link>,
    /// The ids that it took.
    interval: Option<Interval>,
    /// The number of the last source that it has something of.
    source: usize,
}

/// A source's filter is copied only when it changes, or in the end.
enum Held<'s> {
    Source(&'s Filter),
    Union(Filter),
}

impl Held<'_> {
    const fn filter(&self) -> &Filter {
        match self {
            Self::Source(filter) => filter,
            Self::Union(filter) => filter,
        }
    }
}

impl<'s> Part<'s> {
    fn room(&self) -> u64 {
        self.capacity.saturating_sub(self.items)
    }

    /// Whether it can have what another filter has because both were merged before. Counts of one source that
    /// are in two filters are to be added up.
    fn may_hold(&self, other: &Self) -> bool {
        self.source != other.source || self.cells.filter().cells() != Cells::Counters
    }

    fn holds(&self, other: &Self) -> bool {
        self.may_hold(other) && self.cells.filter().holds(other.cells.filter())
    }

    /// Takes what another filter of its size has, if either holds the other or there is room for both; `holds` is
    /// whether this one does. Returns whether that changed anything, or `None` if there is no room.
    fn unite(
        &mut self,
        other: &Self,
        filter: &'s Filter,
        holds: bool,
    ) -> Result<Option<bool>, MergeError> {
        let interval = hull(self.interval, other.interval);
        let known = interval == self.interval;
        let capacity = self.capacity.max(other.capacity);
        if holds {
            self.interval = interval;
            self.source = other.source;
            return Ok(Some(!known));
        }
        let own = self.cells.filter();
        if self.may_hold(other) && filter.holds(own) {
            self.cells = Held::Source(filter);
            self.items = self.items.max(other.items);
        } else {
            let (least, most) = (
                self.items.max(other.items),
                self.items.saturating_add(other.items),
            );
            // Where there is room for both, they need not be counted before they are united.
            if most > capacity && own.items_of_union(filter).clamp(least, most) > capacity {
                return Ok(None);
            }
            let items = match &mut self.cells {
                Held::Source(own) => {
                    let (union, items) = own.united(filter).ok_or(NO_MEMORY)?;
                    self.cells = Held::Union(union);
                    items
                }
                Held::Union(own) => own.absorb(filter),
            };
            self.items = items.clamp(least, most);
        }
        self.capacity = capacity;
        self.interval = interval;
        self.source = other.source;
        Ok(Some(true))
    }

    fn into_filter(self) -> Result<Filter, MergeError> {
        let filter = match self.cells {
            Held::Source(filter) => filter.try_clone().ok_or(NO_MEMORY)?,
            Held::Union(filter) => filter,
        };
        Ok(filter.with_items(self.items, self.capacity))
    }
}

/// The union of these stacks, at least one, or `None` if the first one is that already.
pub fn stacks(sources: &[&Stack], budget: &mut Budget) -> Result<Option<Stack>, MergeError> {
    let no_ids = Ids::default();
    let sources: Vec<_> = sources.iter().map(|stack| (*stack, &no_ids)).collect();
    Ok(stacks_with_ids(&sources, budget)?.map(|(stack, _)| stack))
}

/// The same of stacks with the ids that they took.
fn stacks_with_ids(
    sources: &[(&Stack, &Ids)],
    budget: &mut Budget,
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
    let Some(mut parts) = unite(sources, budget)? else {
        return Ok(None);
    };
    // The one with most room is the newest; what is empty is left out.
    parts.sort_by_key(Part::room);
    let mut left = parts.len();
    parts.retain(|part| {
        left -= 1;
        left == 0 || !part.cells.filter().is_empty()
    });
    let count = parts.len();
    let mut rates = 0.0;
    for (index, part) in parts.iter_mut().enumerate() {
        let full = part.capacity.max(part.items);
        rates += part.cells.filter().rate_at(full);
        // In a stack of our bits, every filter but the newest is full: files imply it.
        if index + 1 < count && first.cells() == Cells::Bits {
            part.items = part.items.max(1);
            part.capacity = part.items;
        }
    }
    // The rate that the first one has, and at least what the law needs to go on from here.
    let law = first.law();
    let share = law.series().share_of(count as u64);
    let requested = law.requested_rate().max(rates / share);
    let error_rate = match law.links() {
        // Those have the rates.
        Some(_) => Fraction::HALF,
        None => Fraction::new(requested).ok_or(MergeError::Rates)?,
    };
    let mut filters = Vec::new();
    let room = filters.try_reserve_exact(count);
    room.map_err(|_| NO_MEMORY)?;
    let (mut links, mut intervals) = (Vec::new(), Vec::new());
    let room = links.try_reserve_exact(parts.iter().filter(|part| part.link.is_some()).count());
    room.map_err(|_| NO_MEMORY)?;
    let room = intervals.try_reserve_exact(count);
    room.map_err(|_| NO_MEMORY)?;
    for part in parts {
        links.extend(part.link);
        intervals.push(part.interval);
        filters.push(part.into_filter()?);
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
) -> Result<Option<Vec<Part<'s>>>, MergeError> {
    let mut parts: Vec<Part> = Vec::new();
    let mut changed = false;
    // Numbers of the parts of each size.
    let mut alike: HashMap<_, Vec<usize>> = HashMap::new();
    for (number, (stack, ids)) in sources.iter().enumerate() {
        for (index, filter) in stack.filters().iter().enumerate() {
            let link = stack.law().links();
            let link = link.and_then(|links| links.all.get(index).copied());
            let part = Part {
                cells: Held::Source(filter),
                capacity: filter.capacity(),
                items: filter.items(),
                link,
                interval: ids.interval(index),
                source: number,
            };
            alike.try_reserve(1).map_err(|_| NO_MEMORY)?;
            let key = (filter.merge_key(), link.map(|link| link.merge_key()));
            let alike = alike.entry(key).or_default();
            if number > 0 {
                if filter.is_empty() {
                    continue;
                }
                // One that has it already, before one that has room for it.
                let holder = alike.iter().copied().find(|at| parts[*at].holds(&part));
                let widest = || alike.iter().copied().max_by_key(|at| parts[*at].room());
                if let Some(at) = holder.or_else(widest)
                    && let Some(change) = parts[at].unite(&part, filter, holder.is_some())?
                {
                    changed |= change;
                    continue;
                }
                changed = true;
            }
            if parts.len() as u64 >= MAX_FILTERS {
                return Err(TOO_LARGE);
            }
            budget.take(filter)?;
            alike.try_reserve(1).map_err(|_| NO_MEMORY)?;
            parts.try_reserve(1).map_err(|_| NO_MEMORY)?;
            alike.push(parts.len());
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
    let numbered = sources.iter().enumerate();
    let mut sorted: Vec<(usize, &Period)> = numbered
        .flat_map(|(number, source)| source.periods.iter().map(move |period| (number, period)))
        .collect();
    sorted.sort_by_key(|(_, period)| period.number);
    let now = first.shape.window().zip(now_ms);
    let has_passed = |period: &Period| {
        now.is_some_and(|(window, now_ms)| {
            window.has_passed(period.number, window.period_at(now_ms))
        })
    };
    let mut changed = false;
    let mut merged: Vec<Period> = Vec::new();
    let room = merged.try_reserve_exact(sorted.len());
    room.map_err(|_| NO_MEMORY)?;
    for of_one in sorted.chunk_by(|(_, one), (_, other)| one.number == other.number) {
        // What is interleaved is copied apart.
        let mut copies = Vec::new();
        for (number, period) in of_one {
            let copy = || sources[*number].separate(period).ok_or(NO_MEMORY);
            copies.push((!period.is_apart()).then(copy).transpose()?);
        }
        let apart = of_one.iter().zip(&copies);
        let apart = apart.map(|((_, period), copy)| copy.as_ref().unwrap_or(period));
        let parts: Vec<_> = apart.map(|period| (&period.stack, &period.ids)).collect();
        let mut unlimited = Budget::new(Limits::NONE, 0);
        let Some((source, oldest)) = of_one.first() else {
            continue;
        };
        let passed = has_passed(oldest);
        let budget = if passed { &mut unlimited } else { &mut *budget };
        let united = stacks_with_ids(&parts, budget)?;
        changed |= !passed && (united.is_some() || *source > 0);
        merged.push(match united {
            Some((stack, ids)) => Period::new(oldest.number, stack, ids),
            None => match copies.swap_remove(0) {
                Some(copy) => copy,
                None => oldest.try_clone().ok_or(NO_MEMORY)?,
            },
        });
    }
    if !changed {
        return Ok(None);
    }
    merged.shrink_to_fit();
    with_one_law(first, merged).map(Some)
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
