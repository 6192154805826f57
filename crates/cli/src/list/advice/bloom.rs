//! Advice on Bloom filters.

use valkeybloom_planner as planner;
use valkeybloom_protocol::bloom::Maker;
use valkeybloom_sketches::bloom::{Growth, Kind};

use super::piece::{Advice, is_near, names, new_key, number_of, with_headroom};
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

/// A limit of which an estimate takes more than this share may be the one that ends growth.
const LIKELY_SHARE: f64 = 0.5;

/// The eighths of a filter's limit that the newest of several tables is taken to have.
const NEWEST_TABLE_EIGHTHS: u64 = 7;

/// What ends the growth of a filter.
enum End {
    /// The limits that the next filter exceeds, with values that admit it.
    Limits(Vec<Limit>),
    /// Probably this limit, with a value that admits more.
    Likely(Limit),
    /// The error rate of the next filter, which would be too small.
    Rate,
}

/// Advises to raise the limits that end a filter's growth, and to fill at most one new filter in its place.
pub fn advise(row: &Row, bloom: &Bloom, settings: Settings) -> Vec<Advice> {
    let raise = near_reach(row, bloom, settings);
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
    let (filter, object) = new.when_made().ok()?;
    let command = new.command(&new_key(row));
    let sizes = Sizes { filter, object };
    Some(Advice::make(why, what, command, sizes, settings))
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

/// Returns the plan of a new filter like this one, made the way the server makes filters. If that is unknown, the plan has this
/// module's way; sizes differ little.
fn planned(bloom: &Bloom, rate: f64, items: u64, settings: Settings) -> Option<planner::Bloom> {
    Some(planner::Bloom {
        maker: settings.maker.unwrap_or(Maker::Own),
        ..bloom.plan(rate, items)?
    })
}

/// Warns of a filter that does not grow, and will take no more items soon.
fn near_capacity(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
    if bloom.growth != Some(Growth::Fixed) {
        return None;
    }
    let (items, capacity) = row.items.zip(bloom.reach).filter(is_near)?;
    let least = capacity.saturating_mul(2).max(with_headroom(items));
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
        End::Likely(limit) => (vec![limit], "may end"),
        End::Rate => return None,
    };
    let (items, names) = (counted(items, "item"), names(&limits));
    // Limits that were lowered may not even admit the first table.
    let at = match reach {
        0 => "any number of items".to_owned(),
        _ => grouped(reach),
    };
    let why = format!("it has {items}, and {names} {end} its growth at {at}");
    Some(Advice::raise(&why, &limits))
}

/// Returns what ends a filter's growth; `None` if a figure for it is unknown.
fn end_of_growth(row: &Row, bloom: &Bloom, reach: u64, settings: Settings) -> Option<End> {
    let (filter_limit, _) = settings.filter_limit.zip(settings.object_limit)?;
    let (bytes, filters) = (row.bytes?, row.filters?);
    let sizes = match (bloom.kind, filters) {
        (Kind::Plain, _) => {
            let filter = bloom.plan(row.rate?, reach)?.next_filter_bytes(filters)?;
            let object = bytes.saturating_add(filter);
            Sizes { filter, object }
        }
        (_, 1) => Sizes::whole(bytes),
        // The size of the newest table is unknown. It ends the growth unless the object is near its own limit.
        _ => Sizes {
            filter: filter_limit / 8 * NEWEST_TABLE_EIGHTHS,
            object: bytes,
        },
    };
    let exceeded = settings.exceeded(sizes);
    if !exceeded.is_empty() {
        return Some(End::Limits(exceeded));
    }
    // The sizes of tables, and of the filters of other modules, are estimates.
    let nearest = settings.nearest(sizes)?;
    Some(if nearest.share() > LIKELY_SHARE {
        End::Likely(nearest.raised())
    } else {
        End::Rate
    })
}

/// Warns of a filter with more false positives than requested.
fn above_rate(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
    let (requested, now) = (row.rate?, row.rate_now?);
    let certain = if now >= ESTIMATED_WELL { 2.0 } else { 3.0 };
    if now <= requested * certain {
        return None;
    }
    let larger = planned(bloom, requested, with_headroom(row.items?), settings)?;
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
    let new = planned(bloom, rate, with_headroom(row.items?), settings)?;
    let (new_bytes, new_filters) = new.when_full().ok()?;
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
