//! Advice on Bloom filters.

use valkeybloom_planner as planner;
use valkeybloom_protocol::bloom::Maker;
use valkeybloom_sketches::bloom::{Dialect, Growth, Kind};

use super::piece::{Advice, is_near, names, near_memory, new_key, number_of, with_headroom};
use crate::family::dialect_of;
use crate::held::limits::{Limit, Settings, Sizes};
use crate::held::row::{Bloom, Row};
use crate::report::{counted, grouped, ratio, two_digits};

/// A smaller filter is worth the work of filling it from this share of the bytes on.
const WORTH_SHARE: f64 = 0.25;

/// Fewer bytes are not worth it, whatever their share.
const WORTH_BYTES: u64 = 1024;

/// A stack is slow from this number of filters on, because a lookup may search all of them.
const DEEP: u64 = 4;

/// The estimate of a rate is right within a factor of 2 above this rate, and of 3 below: docs/sizing.md has the measurement.
const ESTIMATED_WELL: f64 = 0.001;

/// If an estimate takes more than this share of a limit, that limit may end growth.
const LIKELY_SHARE: f64 = 0.5;

/// If an estimate takes this part of the largest share of another limit, that limit may end growth as well.
const AS_LIKELY: f64 = 0.875;

/// The eighths of a filter's limit that the newest of several tables is taken to have, unless the object has fewer bytes.
const NEWEST_TABLE_EIGHTHS: u64 = 7;

/// What ends the growth of a filter.
enum End {
    /// The limits that the next filter exceeds, with values that admit it.
    Limits(Vec<Limit>),
    /// Probably one of these limits, with values that admit more.
    Likely(Vec<Limit>),
    /// The error rate of the next filter, which would be too small.
    Rate,
}

/// Advises to raise the limits that end a filter's growth, and to fill at most one new filter in its place.
pub fn advise(row: &Row, bloom: &Bloom, settings: Settings) -> Vec<Advice> {
    let raise = near_reach(row, bloom, settings).or_else(|| near_limit(row, bloom, settings));
    let fill = near_capacity(row, bloom, settings)
        .or_else(|| above_rate(row, bloom, settings))
        .or_else(|| stacked(row, bloom, settings));
    raise.into_iter().chain(fill).collect()
}

/// Advises to fill a filter instead of the old one.
fn fill(row: &Row, why: &str, new: &planner::Bloom, settings: Settings) -> Option<Advice> {
    let what = format!("fill one for {}, and rename it", room(new));
    make(row, why, &what, new, settings)
}

/// Advises to make a filter.
fn make(
    row: &Row,
    why: &str,
    what: &str,
    new: &planner::Bloom,
    settings: Settings,
) -> Option<Advice> {
    let command = new.command(&new_key(row));
    Some(Advice::make(why, what, command, full_sizes(new)?, settings))
}

/// Returns the sizes that limits have to admit for a filter with all its items.
fn full_sizes(new: &planner::Bloom) -> Option<Sizes> {
    let figures = new.figures().ok()?;
    Some(Sizes {
        filter: figures.least_filter_limit,
        object: figures.least_object_limit,
    })
}

/// Returns the items that a filter is reserved for. The number is that of BF.RESERVE, which counts one period of a window. Its
/// `PERIODS` does not count the current period.
fn room(new: &planner::Bloom) -> String {
    let items = counted(new.items, "item");
    match new.kind {
        Kind::Windowed(window) => format!("{items} in each of {} periods", window.periods() + 1),
        _ => items,
    }
}

/// Returns the plan of a new filter like this one, made the way the server makes filters. If that is unknown, a plain one has
/// this module's way, because sizes differ little. There is no plan for others, which the server may not make.
fn planned(bloom: &Bloom, rate: f64, items: u64, settings: Settings) -> Option<planner::Bloom> {
    let assumed = (bloom.kind == Kind::Plain).then_some(Maker::Own);
    Some(planner::Bloom {
        maker: settings.maker.or(assumed)?,
        ..bloom.plan(rate, items)?
    })
}

/// Returns the number of items of a filter; with a window, once all its periods have as many as the live ones, or as the current
/// one.
fn items_to_hold(row: &Row, bloom: &Bloom) -> Option<u64> {
    let items = row.items?;
    let Kind::Windowed(window) = bloom.kind else {
        return Some(items);
    };
    let of_live = items.div_ceil(bloom.live_periods?.max(1));
    let of_each = of_live.max(bloom.period_items?);
    Some(of_each.saturating_mul(window.periods() + 1))
}

/// Warns of a filter that does not grow, and will take no more items soon.
fn near_capacity(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
    if bloom.growth != Some(Growth::Fixed) {
        return None;
    }
    let (items, capacity) = row.items.zip(bloom.reach).filter(is_near)?;
    let least = with_headroom(items_to_hold(row, bloom)?);
    let least = least.max(capacity.saturating_mul(2));
    let larger = planned(bloom, row.rate?, least, settings)?;
    let (items, room) = (
        counted(items, "item"),
        room(&bloom.plan(row.rate?, capacity)?),
    );
    let why = format!("it has {items}, was reserved for {room}, and does not grow");
    fill(row, &why, &larger, settings)
}

/// Warns of a filter whose growth ends soon.
fn near_reach(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
    if bloom.growth == Some(Growth::Fixed) {
        return None;
    }
    let (items, reach) = row.items.zip(bloom.reach).filter(is_near)?;
    let (limits, end) = match end_of_growth(row, bloom, reach, settings)? {
        End::Limits(limits) => {
            let end = number_of(&limits, "ends", "end");
            (limits, end)
        }
        End::Likely(limits) => (limits, "may end"),
        End::Rate => return None,
    };
    let names = names(&limits);
    // Tables take at least as many items, and limits that were lowered may not even admit the first one.
    let at = if reach == 0 || items > reach {
        "now".to_owned()
    } else {
        format!("at {}", grouped(reach))
    };
    let items = counted(items, "item");
    let why = format!("it has {items}, and {names} {end} its growth {at}");
    Some(Advice::raise(&why, &limits))
}

/// Warns of a table that does not grow, and that a memory limit keeps from taking all its items.
fn near_limit(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
    if bloom.kind == Kind::Plain || bloom.growth != Some(Growth::Fixed) {
        return None;
    }
    let full = full_sizes(&bloom.plan(row.rate?, row.capacity?)?)?;
    let is_refused = !settings.exceeded(full).is_empty();
    near_memory(row.bytes.filter(|_| is_refused).map(Sizes::whole), settings)
}

/// Returns the implementation that a stack follows. Those of this module and of valkey-bloom have the same type.
fn maker_of(row: &Row, settings: Settings) -> Maker {
    match (dialect_of(&row.kind), settings.maker) {
        (Some(Dialect::RedisBloom), _) => Maker::RedisBloom,
        (_, Some(Maker::ValkeyBloom)) => Maker::ValkeyBloom,
        _ => Maker::Own,
    }
}

/// Returns what ends a filter's growth; `None` if a figure for it is unknown.
fn end_of_growth(row: &Row, bloom: &Bloom, reach: u64, settings: Settings) -> Option<End> {
    let (filter_limit, _) = settings.filter_limit.zip(settings.object_limit)?;
    let (bytes, filters) = (row.bytes?, row.filters?);
    let sizes = match (bloom.kind, filters) {
        (Kind::Plain, _) => {
            let stack = planner::Bloom {
                maker: maker_of(row, settings),
                ..bloom.plan(row.rate?, row.capacity?)?
            };
            let (filter, object) = stack.growth_to(reach.saturating_add(1), filters)?;
            // A stack may have grown by another law before. What RedisBloom reports leaves out what only this module has.
            let object = object.max(bytes.saturating_add(filter));
            Sizes { filter, object }
        }
        (_, 1) => Sizes::whole(bytes),
        // The size of the newest table is unknown.
        _ => Sizes {
            filter: bytes.min(filter_limit / 8 * NEWEST_TABLE_EIGHTHS),
            object: bytes,
        },
    };
    let exceeded = settings.exceeded(sizes);
    if !exceeded.is_empty() {
        return Some(End::Limits(exceeded));
    }
    // The sizes of tables, and of the filters of other modules, are estimates.
    let nearest = settings.nearest(sizes)?.share();
    if nearest <= LIKELY_SHARE {
        return Some(End::Rate);
    }
    let likely = settings.demands(sizes);
    let likely = likely.filter(|demand| demand.share() >= nearest * AS_LIKELY);
    Some(End::Likely(likely.map(|demand| demand.raised()).collect()))
}

/// Warns of a filter with more false positives than requested.
fn above_rate(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
    let (requested, now) = (row.rate?, row.rate_now?);
    let certain = if now >= ESTIMATED_WELL { 2.0 } else { 3.0 };
    if now <= requested * certain {
        return None;
    }
    let least = with_headroom(items_to_hold(row, bloom)?);
    let larger = planned(bloom, requested, least, settings)?;
    // RedisBloom's filters of few items have a higher rate than requested, so another one may be no better.
    if now <= larger.figures().ok()?.rate * certain {
        return None;
    }
    let now = two_digits(now);
    let why = format!("its error rate is {now} now, and {requested} was requested");
    fill(row, &why, &larger, settings)
}

/// Advises a new filter for the items of a stack, if it is smaller or quicker.
fn stacked(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
    let (filters, bytes, rate) = (row.filters?, row.bytes?, row.rate?);
    if filters == 1 {
        return None;
    }
    let least = with_headroom(items_to_hold(row, bloom)?);
    let new = planned(bloom, rate, least, settings)?;
    let figures = new.figures().ok()?;
    let (new_bytes, new_filters) = (figures.bytes, figures.filters);
    let saved = bytes.saturating_sub(new_bytes);
    let smaller = saved >= WORTH_BYTES && ratio(saved, bytes) >= WORTH_SHARE;
    let quicker = filters >= DEEP && new_filters < filters;
    // A quicker filter must not be much larger.
    let worth = smaller || quicker && new_bytes <= bytes.saturating_mul(2);
    if !worth {
        return None;
    }
    let why = format!(
        "it has stacked filters to grow; one reserved for {} (half as many again as now) takes {} bytes instead of {}, and \
         a lookup searches {} instead of {}",
        room(&new),
        grouped(new_bytes),
        grouped(bytes),
        counted(new_filters, "filter"),
        grouped(filters),
    );
    make(row, &why, "fill it, and rename it", &new, settings)
}
