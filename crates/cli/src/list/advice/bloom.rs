//! Advice on Bloom filters.

use valkeybloom_planner as planner;
use valkeybloom_protocol::bloom::Maker;
use valkeybloom_sketches::bloom::{Growth, Kind};

use super::piece::{Advice, names, near, new_key, with_headroom};
use super::reason;
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

/// Advises to raise the limits that end a filter's growth, and to fill at most one new filter in its place.
pub fn advise(row: &Row, bloom: &Bloom, settings: Settings) -> Vec<Advice> {
    let raise = near_reach(row, bloom, settings);
    let fill = near_capacity(row, bloom, settings)
        .or_else(|| above_rate(row, bloom, settings))
        .or_else(|| stacked(row, bloom, settings));
    raise.into_iter().chain(fill).collect()
}

/// Advises to make a filter.
fn make(row: &Row, reason: String, new: &planner::Bloom, settings: Settings) -> Option<Advice> {
    let (filter, object) = new.when_made().ok()?;
    let command = new.command(&new_key(row));
    let sizes = Sizes { filter, object };
    Some(Advice::make(reason, command, sizes, settings))
}

/// Returns the plan of a filter like this one, for this number of items, as the server makes new filters. Those of a server that does
/// not say how differ little in size from this module's.
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
    let (items, capacity) = (row.items?, bloom.reach?);
    let share = near(items, capacity)?;
    let least = capacity.saturating_mul(2).max(with_headroom(items));
    let larger = planned(bloom, row.rate?, least, settings)?;
    let reason = reason::near_capacity(share, grouped(capacity));
    make(row, reason, &larger, settings)
}

/// Warns of a filter whose growth ends soon.
fn near_reach(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
    if bloom.growth == Some(Growth::Fixed) {
        return None;
    }
    let reach = bloom.reach?;
    let share = near(row.items?, reach)?;
    let ending = ending_growth(row, bloom, reach, settings)?;
    let end = if ending.len() == 1 { "ends" } else { "end" };
    let names_end = format!("{} {end}", names(&ending));
    let reason = reason::near_reach(share, grouped(reach), names_end);
    Some(Advice::raise(reason, &ending))
}

/// Returns the limits that end a filter's growth, with values that admit more; `None` if a limit is unknown, or the error rate ends it.
fn ending_growth(row: &Row, bloom: &Bloom, reach: u64, settings: Settings) -> Option<Vec<Limit>> {
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
            filter: filter_limit / 8 * 7,
            object: bytes,
        },
    };
    let exceeded = settings.exceeded(sizes);
    if !exceeded.is_empty() {
        return Some(exceeded);
    }
    // The sizes are estimates for the filters of other modules, so a limit that is near is it. If none is, the error rate of the
    // next filter would be too small.
    let nearest = settings.nearest(sizes)?;
    (nearest.share() > 0.5).then(|| vec![nearest.raised()])
}

/// Warns of a filter with more false positives than requested.
fn above_rate(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
    let (requested, now) = (row.rate?, row.rate_now?);
    let certain = if now >= ESTIMATED_WELL { 2.0 } else { 3.0 };
    if now <= requested * certain {
        return None;
    }
    let larger = planned(bloom, requested, with_headroom(row.items?), settings)?;
    let reason = reason::above_rate(two_digits(now), requested);
    make(row, reason, &larger, settings)
}

/// Advises a new filter for the items of a stack, if it is smaller or quicker.
fn stacked(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
    let (filters, bytes, rate) = (row.filters?, row.bytes?, row.rate?);
    if filters == 1 {
        return None;
    }
    let capacity = with_headroom(row.items?);
    let new = planned(bloom, rate, capacity, settings)?;
    let (new_bytes, new_filters) = new.when_full().ok()?;
    let saved = bytes.saturating_sub(new_bytes);
    let smaller = saved >= WORTH_BYTES && ratio(saved, bytes) >= WORTH_SHARE;
    let quicker = filters >= DEEP && new_filters < filters;
    // A quicker filter must not be much larger.
    let worth = smaller || quicker && new_bytes <= bytes.saturating_mul(2);
    if !worth {
        return None;
    }
    let reason = reason::stacked(
        grouped(capacity),
        grouped(new_bytes),
        grouped(bytes),
        counted(new_filters, "filter"),
        grouped(filters),
    );
    make(row, reason, &new, settings)
}
