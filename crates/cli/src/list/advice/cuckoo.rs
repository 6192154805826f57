//! Advice on cuckoo filters.

use valkeybloom_planner as planner;
use valkeybloom_protocol::names::CUCKOO_FILTERS;
use valkeybloom_sketches::cuckoo::{Limits, Params, Shape, ranges};

use super::piece::{Advice, is_near, near_memory, new_key, with_headroom};
use crate::held::limits::{Limit, Settings, Sizes};
use crate::held::row::Row;
use crate::report::{counted, grouped};

/// Warns of a filter that will take no more items soon.
pub fn advise(row: &Row, filter: &Params, settings: Settings) -> Vec<Advice> {
    let new = near_last_filter(row, filter, settings);
    if filter.expansion == 0 {
        return Vec::from_iter(new.or_else(|| nearly_full(row, filter, settings)));
    }
    // The limit of a filter holds for each of the filters that it stacks, and not for all together.
    let sizes = row.bytes.map(|object| Sizes { filter: 0, object });
    let raise = near_memory(sizes, settings);
    new.into_iter().chain(raise).collect()
}

/// Warns of a filter that does not grow, and will take no more items soon: one that finds no room is refused, long before all
/// slots are in use.
fn nearly_full(row: &Row, filter: &Params, settings: Settings) -> Option<Advice> {
    let (items, slots) = (row.items?, row.capacity?);
    if !is_near(&(items, filter.sure_items(slots))) {
        return None;
    }
    let why = format!(
        "it has {} in {}, does not grow, and may refuse items before all are used",
        counted(items, "item"),
        counted(slots, "slot")
    );
    let least = filter.sure_slots(with_headroom(items));
    let slots = slots.saturating_mul(2).max(least);
    larger(row, filter, slots, &why, settings)
}

/// Warns of a filter with half of the filters at which the server refuses all items, as a key has that nobody reserved. If each
/// filter is larger than the one before, the last but one matters. A single filter is too early, unless it is refused.
fn near_last_filter(row: &Row, filter: &Params, settings: Settings) -> Option<Advice> {
    let expansion = u64::from(filter.expansion);
    let (filters, most) = (row.filters?, settings.cuckoo_filters?);
    let is_late = match expansion {
        0 => filters >= most,
        1 => filters.saturating_mul(2) >= most,
        _ => filters.saturating_add(1) >= most,
    };
    if filters < most.min(2) || !is_late {
        return None;
    }
    let why = format!(
        "it has {}, and {CUCKOO_FILTERS} refuses items at {}",
        counted(filters, "filter"),
        grouped(most)
    );
    if most < 2 {
        // Then it refuses the items of any filter.
        let bytes = planner::Limits::default().cuckoo_filters;
        let name = CUCKOO_FILTERS;
        return Some(Advice::raise(&why, &[Limit { name, bytes }]));
    }
    // Twice the slots, or more if each filter is larger than the one before: those that it has with the next one, but for the
    // first one's. For n filters of s to s·eⁿ⁻¹ slots, e·(s + … + s·eⁿ⁻¹) = s·e + … + s·eⁿ.
    let slots = row.capacity?.saturating_mul(expansion.max(2));
    let slots = slots.max(with_headroom(row.items?));
    larger(row, filter, slots, &why, settings)
}

/// Advises a filter like this one, reserved for these slots or for the most that one can have.
fn larger(row: &Row, filter: &Params, slots: u64, why: &str, settings: Settings) -> Option<Advice> {
    let capacity = Params::capacity_for(slots, filter.bucket_size.into());
    let new = Params {
        capacity: capacity.min(ranges::CAPACITY_MAX),
        ..*filter
    };
    // It may have more filters than the setting allows now.
    let most = reach(filter, settings).max(row.capacity);
    let what = if reach(&new, settings) > most {
        "fill a larger one, and rename it"
    } else {
        "none can be larger, so spread the items over several keys"
    };
    let made = Shape::new(&new)?.plan(0, &Limits::NONE).ok()?;
    let sizes = Sizes {
        filter: made.slots,
        object: planner::stored(made.bytes),
    };
    let command = planner::Cuckoo::command(&new, &new_key(row));
    Some(Advice::make(why, what, command, sizes, settings))
}

/// Returns the slots that a filter has once it takes no more items when it is full.
fn reach(filter: &Params, settings: Settings) -> Option<u64> {
    let growing = planner::Limits {
        filter: u64::MAX,
        object: 0,
        cuckoo_filters: settings.cuckoo_filters.unwrap_or(u64::MAX),
    };
    // A loaded filter may have more slots than one that a client makes.
    let capacity = filter.capacity.min(ranges::CAPACITY_MAX);
    let shape = Shape::new(&Params {
        capacity,
        ..*filter
    })?;
    Some(shape.reach(&growing.of_cuckoo()).0.slots)
}
