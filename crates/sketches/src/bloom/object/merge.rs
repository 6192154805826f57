//! Unions: merging several stacks into one.
//!
//! A filter that holds all bits of another one of its size holds its items too. If two filters of one size overlap,
//! their bits are combined if one of them has room for the items of both, whose number is estimated from the bits. All
//! other filters are stacked. So repeating a merge changes nothing.
//!
//! The filters of the union are chosen, and checked against limits and rates, before any are copied. Choosing and
//! copying read each filter a small number of times (`union.rs`).

use std::collections::HashMap;

use crate::bloom::filter::{Cells, Filter};
use crate::bloom::law::{Limits, MAX_FILTERS, Refusal};
use crate::bloom::stack::Stack;
use crate::machine::{memory, work};
use crate::number::Fraction;

use super::union::{Member, SameSize, Search};

/// The reason that objects can't be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeError {
    /// Their hash functions differ.
    Seeds,
    /// Their kinds, or the cells of their filters, differ.
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
struct Budget {
    limits: Limits,
    bytes: u64,
    search: Search,
}

impl Budget {
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

/// Returns the union of stacks, if its rate is below 1, or `None` if the first one already equals it.
pub fn stacks(sources: &[&Stack], limits: Limits) -> Result<Option<Stack>, MergeError> {
    let Some(mut members) = unite(sources, limits)? else {
        return Ok(None);
    };
    let first = sources[0];
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
        if least > CERTAINLY_ALL {
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
        if index + 1 < count && law.cells() == Cells::Bits {
            member.items = member.items.max(1);
            member.capacity = member.items;
        }
    }
    let error_rate = if is_rated {
        // The rate of the first stack, or a larger one that lets the law continue from here.
        let share = law.series().share_of(count as u64);
        let requested = law.requested_rate().max(rates / share);
        Fraction::new(requested).ok_or(MergeError::Rates)?
    } else {
        Fraction::HALF
    };
    let mut filters = reserved(count)?;
    let linked = members.iter().filter(|member| member.link.is_some());
    let mut links = reserved(linked.count())?;
    for member in members {
        links.extend(member.link);
        filters.push(member.into_filter().ok_or(NO_MEMORY)?);
    }
    let law = law.of_union(error_rate, links);
    let mut merged = Stack::from_filters(law, *first.hasher(), filters).map_err(|_| TOO_LARGE)?;
    merged.seal_overfull();
    Ok(Some(merged))
}

/// Returns the filters of the union, or `None` if they are the first stack's, unchanged.
fn unite<'s>(sources: &[&'s Stack], limits: Limits) -> Result<Option<Vec<Member<'s>>>, MergeError> {
    let filters = sources.iter().flat_map(|stack| stack.filters());
    let mut budget = Budget {
        limits,
        bytes: Stack::BASE_BYTES,
        search: Search::among(filters.map(|filter| filter.geometry().cell_bytes).sum()),
    };
    let mut members: Vec<Member> = Vec::new();
    let mut changed = false;
    // The members of each size.
    let mut same_size: HashMap<_, SameSize> = HashMap::new();
    for (source, stack) in sources.iter().enumerate() {
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
