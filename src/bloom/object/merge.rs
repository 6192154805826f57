//! Merging several objects into one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::bloom::filter::{Cells, Filter};
use crate::bloom::law::{Law, Link, Refusal};
use crate::bloom::number::Fraction;
use crate::bloom::stack::Stack;

use super::ids::Ids;
use super::timeline::{Period, Timeline};

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

const NO_MEMORY: MergeError = MergeError::Refused(Refusal::OutOfMemory);
pub const TOO_LARGE: MergeError = MergeError::Refused(Refusal::MemoryLimit);

/// A filter, and what `RedisBloom` keeps of it.
type Linked = (Filter, Option<Link>);

/// The union of these stacks, at least one. Filters of the same size are merged if the capacity of one has
/// room for their items; the others are stacked, with the one with most room as the newest.
pub fn stacks(sources: &[&Stack]) -> Result<Stack, MergeError> {
    let (first, others) = sources.split_first().ok_or(MergeError::Kinds)?;
    for other in others {
        if first.hasher() != other.hasher() {
            return Err(MergeError::Seeds);
        }
        if first.cells() != other.cells() {
            return Err(MergeError::Kinds);
        }
    }
    let mut united = unite(sources)?;
    united.sort_by_key(|(filter, _)| filter.room());
    let mut place = united.len();
    united.retain(|(filter, _)| {
        place -= 1;
        place == 0 || !filter.is_empty()
    });
    let newest = united.len().saturating_sub(1);
    let mut rates = 0.0;
    for (index, (filter, _)) in united.iter_mut().enumerate() {
        rates += filter.rate_at(filter.capacity().max(filter.items()));
        // In a stack of our bits, every filter but the newest is full: files imply it.
        if index < newest && first.cells() == Cells::Bits {
            filter.seal();
        }
    }
    // The sum of the sources' rates, and at least what the law needs to continue from here.
    let requested: f64 = sources
        .iter()
        .map(|s| s.law().series().error_rate.get())
        .sum();
    let share = first.law().series().share_of(united.len() as u64);
    let error_rate = Fraction::new(requested.max(rates / share)).ok_or(MergeError::Rates)?;
    let mut filters = Vec::new();
    let room = filters.try_reserve_exact(united.len());
    room.map_err(|_| NO_MEMORY)?;
    let mut links = Vec::new();
    let linked = united.iter().filter(|(_, link)| link.is_some()).count();
    let room = links.try_reserve_exact(linked);
    room.map_err(|_| NO_MEMORY)?;
    for (filter, link) in united {
        filters.push(filter);
        links.extend(link);
    }
    let law = first.law().of_union(error_rate, links);
    let mut merged =
        Stack::from_filters(law, *first.hasher(), first.cells(), filters).map_err(|_| TOO_LARGE)?;
    merged.seal_overfull();
    Ok(merged)
}

/// The filters of all sources, with those merged that fit into one.
fn unite(sources: &[&Stack]) -> Result<Vec<Linked>, MergeError> {
    let filters: usize = sources.iter().map(|source| source.filters().len()).sum();
    let mut united: Vec<Linked> = Vec::new();
    let room = united.try_reserve_exact(filters);
    room.map_err(|_| NO_MEMORY)?;
    // The filters of each kind, the one with most room on top: what that one can't absorb, none can.
    let mut places = HashMap::new();
    for source in sources {
        for (index, filter) in source.filters().iter().enumerate() {
            let links = source.law().links();
            let link = links.and_then(|links| links.all.get(index).copied());
            places.try_reserve(1).map_err(|_| NO_MEMORY)?;
            let kind = (filter.merge_key(), link.map(|link| link.merge_key()));
            let alike: &mut BinaryHeap<(u64, Reverse<usize>)> = places.entry(kind).or_default();
            alike.try_reserve(1).map_err(|_| NO_MEMORY)?;
            let most = alike.peek().map(|(_, Reverse(place))| *place);
            let place = if let Some(place) = most.filter(|p| united[*p].0.can_absorb(filter)) {
                alike.pop();
                united[place].0.absorb(filter);
                place
            } else {
                united.push((filter.try_clone().ok_or(NO_MEMORY)?, link));
                united.len() - 1
            };
            alike.push((united[place].0.room(), Reverse(place)));
        }
    }
    Ok(united)
}

/// The union of these lists of periods, at least one: [`stacks`] merges each period, except that stacks with
/// ids stay as they are.
pub fn timelines(sources: &[&Timeline]) -> Result<Timeline, MergeError> {
    let (first, others) = sources.split_first().ok_or(MergeError::Kinds)?;
    for other in others {
        if first.hasher != other.hasher {
            return Err(MergeError::Seeds);
        }
        if first.shape.kind != other.shape.kind {
            return Err(MergeError::Kinds);
        }
    }
    let requested = sources.iter().map(|s| s.shape.params.error_rate.get());
    let requested = requested.sum();
    let mut sorted: Vec<&Period> = sources.iter().flat_map(|s| &s.periods).collect();
    sorted.sort_by_key(|period| period.number);
    let mut merged: Vec<Period> = Vec::new();
    let room = merged.try_reserve_exact(sorted.len());
    room.map_err(|_| NO_MEMORY)?;
    for of_one in sorted.chunk_by(|one, other| one.number == other.number) {
        let (with_ids, without): (Vec<&Period>, Vec<&Period>) =
            of_one.iter().partition(|period| period.ids.seen.is_some());
        for period in with_ids {
            merged.push(period.try_clone().ok_or(NO_MEMORY)?);
        }
        let of_one: Vec<&Stack> = without.iter().map(|period| &period.stack).collect();
        if let Some(period) = without.first() {
            merged.push(Period {
                number: period.number,
                stack: stacks(&of_one)?,
                ids: Ids::default(),
            });
        }
    }
    merged.shrink_to_fit();
    with_one_law(first, merged, requested)
}

/// Periods that all grow by one law, whose rate is stored once: the requested one, or as much as any of
/// them needs.
fn with_one_law(
    first: &Timeline,
    mut periods: Vec<Period>,
    requested: f64,
) -> Result<Timeline, MergeError> {
    let mut shape = first.shape;
    let law = shape.law().ok_or(MergeError::Rates)?;
    let needed = periods
        .iter_mut()
        .map(|period| rate_under(&law, &mut period.stack) * shape.parts());
    let error_rate = needed.fold(requested, f64::max);
    shape.params.error_rate = Fraction::new(error_rate).ok_or(MergeError::Rates)?;
    let law = shape.law().ok_or(MergeError::Rates)?;
    for period in &mut periods {
        period.stack.follow(law.clone());
    }
    Ok(Timeline {
        shape,
        hasher: first.hasher,
        periods,
    })
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
