//! The memory limits of a server, and which of them stops a filter.

use std::collections::HashMap;

use redis::cmd;

use valkeybloom_protocol::names::{CUCKOO_FILTERS, FILTER_MEMORY, OBJECT_MEMORY};
use valkeybloom_sketches::bloom::{self, Dialect, Kind, Limits, Params, Shape, Tightening, Window};
use valkeybloom_sketches::{Fraction, MAX_CAPACITY};

use super::row::{Bloom, Growth, Row};
use crate::failure::Fault;
use crate::options;
use crate::report::{double, ratio};
use crate::server::{Server, dialect_of};

/// The settings of a server; `None` if they are unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// The memory limit of a filter in bytes.
    pub filter_limit: Option<u64>,
    /// The memory limit of an object in bytes; 0 for no limit.
    pub object_limit: Option<u64>,
    /// The most filters of a cuckoo filter's stack.
    pub cuckoo_filters: Option<u64>,
}

impl Settings {
    /// Reads the settings of a server, as far as the user may.
    pub fn of(server: &Server) -> Result<Self, Fault> {
        let mut settings = Self::default();
        let Some(node) = server.primaries()?.into_iter().next() else {
            return Ok(settings);
        };
        for (name, setting) in [
            (FILTER_MEMORY, &mut settings.filter_limit),
            (OBJECT_MEMORY, &mut settings.object_limit),
            (CUCKOO_FILTERS, &mut settings.cuckoo_filters),
        ] {
            let command = cmd("CONFIG").arg("GET").arg(name).to_owned();
            *setting = match server.call_on::<HashMap<String, String>>(&node, &command) {
                Ok(found) => found.get(name).and_then(|value| options::bytes(value).ok()),
                Err(Fault::Refused(_)) => None,
                Err(fault @ Fault::Lost(_)) => return Err(fault),
            };
        }
        Ok(settings)
    }

    /// Returns the settings that refuse an object: its largest filter has at least `filter` bytes, and the whole at
    /// least `object`. Returns no settings if a limit is unknown.
    pub fn refusing(self, filter: u64, object: u64) -> Vec<&'static str> {
        let (Some(filter_limit), Some(object_limit)) = (self.filter_limit, self.object_limit)
        else {
            return Vec::new();
        };
        let is_limited = object_limit > 0;
        let mut names = Vec::new();
        if filter > filter_limit || !is_limited {
            names.push(FILTER_MEMORY);
        }
        // An object has more bytes than any of its filters.
        let is_least = names.is_empty() && object_limit <= filter_limit;
        if is_limited && (object > object_limit || is_least) {
            names.push(OBJECT_MEMORY);
        }
        names
    }
}

/// Returns the settings that refuse the next filter, each with a value that admits it.
pub fn ending_growth(
    row: &Row,
    bloom: &Bloom,
    reach: u64,
    settings: Settings,
) -> Option<Vec<(&'static str, u64)>> {
    let (filter, object) = (settings.filter_limit?, settings.object_limit?);
    // A period with the reserved capacity is within the limit of a filter.
    let next = match reach {
        0 => row.bytes?.checked_div(bloom.live_periods?)?,
        _ => next_filter_bytes(row, bloom, reach)?,
    };
    let all = row.bytes?.saturating_add(next);
    let limits = [(FILTER_MEMORY, filter, next), (OBJECT_MEMORY, object, all)];
    let limits = limits.into_iter().filter(|(_, limit, _)| *limit > 0);
    let raised = |(name, limit, needed): (&'static str, u64, u64)| {
        (name, needed.max(limit.saturating_mul(2)))
    };
    let hit: Vec<_> = limits
        .clone()
        .filter(|(_, limit, needed)| needed > limit)
        .map(raised)
        .collect();
    if !hit.is_empty() {
        return Some(hit);
    }
    // The sizes are estimates for the filters of other modules.
    let share = |(_, limit, needed): &(&str, u64, u64)| ratio(*needed, *limit);
    let nearest = limits.max_by(|one, other| share(one).total_cmp(&share(other)));
    Some(nearest.map(raised).into_iter().collect())
}

/// Returns the bytes of the filter that a stack of this capacity needs next.
fn next_filter_bytes(row: &Row, bloom: &Bloom, capacity: u64) -> Option<u64> {
    let Growth::By(expansion) = bloom.growth else {
        return None;
    };
    let filters = row
        .filters?
        .div_ceil(bloom.live_periods.unwrap_or(1).max(1));
    // Capacities are a geometric series. Each stacked filter has at least a sixteenth of the items below it.
    let (factor, depth) = (f64::from(expansion), double(filters));
    let next = if expansion == 1 {
        double(capacity) * (1.0 / depth).max(1.0 / 16.0)
    } else {
        double(capacity) * (factor - 1.0) / (1.0 - factor.powf(-depth))
    };
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from a double saturates"
    )]
    let next = (next as u64).clamp(1, MAX_CAPACITY);
    // The filter's share of the rate; the first filter of a stack has half of it.
    let rate = row.rate? * 2.0 / ((depth + 1.0) * (depth + 2.0));
    let plan = shape(row, bloom, rate, next)?
        .plan(next, Limits::NONE)
        .ok()?;
    plan.filters.first().map(|(_, size)| size.blob_bytes())
}

/// Returns the shape of a filter like this one.
pub fn shape(row: &Row, bloom: &Bloom, rate: f64, capacity: u64) -> Option<Shape> {
    let Growth::By(expansion) = bloom.growth else {
        return None;
    };
    Some(Shape {
        params: Params {
            capacity,
            error_rate: Fraction::new(rate)?,
            tightening: Tightening::HALF,
            growth: bloom::Growth::from_expansion(expansion),
        },
        kind: match bloom.window {
            Some((ms, periods)) => Kind::Windowed(Window::new(ms, periods)?),
            None if is_counting(row) => Kind::Counting,
            None => Kind::Plain,
        },
    })
}

pub fn is_counting(row: &Row) -> bool {
    dialect_of(&row.kind) == Some(Dialect::Bloomfltx)
}
