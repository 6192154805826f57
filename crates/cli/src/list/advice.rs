//! What is worth doing about a key, and why.
//!
//! Each piece of advice is true of the values that the server reported. Nothing is advised on values that are unknown.

use serde_json::{Value, json};

use valkeybloom_planner::STORED_BYTES;
use valkeybloom_protocol::names::{BF_RESERVE, CUCKOO_FILTERS, FILTER_MEMORY, OBJECT_MEMORY};
use valkeybloom_sketches::bloom::Limits;
use valkeybloom_sketches::topk::{self, TopK};

use super::limits::{Settings, ending_growth, is_counting, shape};
use super::row::{Bloom, Details, Growth, Row};
use crate::failure::word;
use crate::report::{grouped, ratio, two_digits};
use crate::upload::slot;

/// A value is near its limit from this share on.
const NEAR: f64 = 0.9;

/// A new filter is worth its work from this share of the bytes on, or of the filters.
const WORTH_SHARE: f64 = 0.25;

/// Fewer bytes are not worth it.
const WORTH_BYTES: u64 = 1024;

/// The stack from which a lookup searches too many filters.
const DEEP: u64 = 4;

/// The estimate of a rate is right within a factor of 2 above this rate, and of 3 below.
const ESTIMATED_WELL: f64 = 0.001;

/// A piece of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Why, and what to do, in a sentence.
    pub text: String,
    /// The command to begin with.
    pub command: String,
}

impl Advice {
    fn new(text: String, command: String) -> Self {
        Self { text, command }
    }

    /// Returns a line, which begins with the key.
    pub fn line(&self, key: &str) -> String {
        format!("{key}: {}: {}", self.text, self.command)
    }

    pub fn json(&self) -> Value {
        json!({ "reason": self.text, "command": self.command })
    }
}

/// Returns the advice for a key. A key is idle if nobody has used it for `idle_days`.
pub fn of(row: &Row, settings: Settings, idle_days: u64) -> Vec<Advice> {
    let mut all = Vec::new();
    match &row.details {
        Details::PartlyLoaded => all.push(Advice::new(
            "a copy of it was not finished, so it answers nothing; finish the copy, or delete it"
                .to_owned(),
            format!("UNLINK {}", word(&row.key)),
        )),
        Details::Bloom(bloom) => {
            all.extend(near_limit(row, bloom, settings));
            all.extend(above_rate(row, bloom));
            all.extend(reserve_anew(row, bloom));
        }
        Details::Cuckoo { expansion: Some(0) } => {
            if let (Some(full), Some(capacity)) =
                (row.full().filter(|full| *full >= NEAR), row.capacity)
            {
                let (percent, larger) = (percent(full), capacity.saturating_mul(2));
                let text = format!(
                    "{percent} of its slots are taken, and it does not grow; fill a larger one, and rename it"
                );
                let command = format!("CF.RESERVE {} {larger}", new_key(&row.key));
                all.push(Advice::new(text, command));
            }
            all.extend(near_memory(row, settings));
        }
        Details::Cuckoo { .. } => {
            all.extend(near_last_filter(row, settings));
            all.extend(near_memory(row, settings));
        }
        Details::CountMin { cell_size, .. } => all.extend(saturated(row, *cell_size)),
        Details::TopK { .. } => {
            all.extend(narrow(row));
            all.extend(near_memory(row, settings));
        }
        Details::TDigest { .. } => all.extend(near_memory(row, settings)),
    }
    let days = row.idle_seconds.map(|seconds| seconds / 86_400);
    if let Some(days) = days.filter(|days| *days >= idle_days) {
        let text = format!(
            "it was not used for {} days; delete it if nobody needs it",
            grouped(days)
        );
        all.push(Advice::new(text, format!("UNLINK {}", word(&row.key))));
    }
    all
}

/// Returns a name for the successor of a key, in the same slot of a cluster, so that it can be renamed.
fn new_key(key: &[u8]) -> String {
    let joined = |parts: &[&[u8]]| parts.concat();
    // A key without a hash tag becomes one, unless it has braces of its own.
    let short = [joined(&[key, b":new"]), joined(&[b"{", key, b"}:new"])];
    let numbered = (0_u64..).map(|number| joined(&[key, format!(":new:{number}").as_bytes()]));
    let mut names = short.into_iter().chain(numbered);
    let name = names.find(|name| slot(name) == slot(key));
    word(&name.expect("the numbers reach every slot")).into_owned()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Warns of a Bloom filter, or of the current period of a window, that will take no more items soon.
fn near_limit(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
    let (items, reach) = (bloom.reaching?, bloom.reach?);
    let share = if reach == 0 { 1.0 } else { ratio(items, reach) };
    if share < NEAR {
        return None;
    }
    let (percent, limit) = (percent(share), grouped(reach));
    let (what, place) = match bloom.window {
        Some(_) => ("a period", "the current one"),
        None => ("it", "it"),
    };
    if bloom.growth == Growth::Fixed {
        let text = format!(
            "{percent} of the {limit} items that {what} takes are in {place}, and it does not grow; fill a larger one, \
             and rename it"
        );
        let command = reserve(row, bloom, row.rate?, reach.saturating_mul(2));
        return Some(Advice::new(text, command));
    }
    let hit = ending_growth(row, bloom, reach, settings)?;
    let names: Vec<&str> = hit.iter().map(|(name, _)| *name).collect();
    let which = names.join(" and ");
    let end = if hit.len() == 1 { "ends" } else { "end" };
    let text = if reach == 0 {
        format!("it has no room for a new period within {which}; raise the limit")
    } else {
        format!(
            "{percent} of the {limit} items at which {which} {end} the growth of {what} are in {place}; raise the limit"
        )
    };
    let words = hit.iter().map(|(name, bytes)| format!(" {name} {bytes}"));
    let command = format!("CONFIG SET{}", words.collect::<String>());
    Some(Advice::new(text, command))
}

/// Warns of a cuckoo filter that has stacked half of the filters that it may, as a key does that nobody reserved.
fn near_last_filter(row: &Row, settings: Settings) -> Option<Advice> {
    let (filters, most) = (row.filters?, settings.cuckoo_filters?);
    if filters.saturating_mul(2) < most.max(4) {
        return None;
    }
    let text = format!(
        "it has {} of the {} filters that {CUCKOO_FILTERS} allows, and refuses items when the last one is full; fill one \
         reserved for more, and rename it",
        grouped(filters),
        grouped(most),
    );
    // As many slots as all the filters that it may have.
    let capacity = row.capacity?.div_ceil(filters).saturating_mul(most);
    let capacity = capacity.max(with_headroom(row.items?));
    let command = format!("CF.RESERVE {} {capacity}", new_key(&row.key));
    Some(Advice::new(text, command))
}

/// Warns of a value that grows and has nearly as many bytes as the limits allow.
fn near_memory(row: &Row, settings: Settings) -> Option<Advice> {
    let bytes = row.bytes?;
    let object = settings.object_limit.filter(|limit| *limit > 0);
    // A cuckoo filter consists of several filters, and other sketches of a single piece.
    let filter = match row.details {
        Details::Cuckoo { .. } => None,
        _ => settings.filter_limit,
    };
    let limits = [(FILTER_MEMORY, filter), (OBJECT_MEMORY, object)];
    let limits = limits
        .into_iter()
        .filter_map(|(name, limit)| Some((name, limit?)));
    let (name, limit) = limits.min_by_key(|(_, limit)| *limit)?;
    let share = ratio(bytes, limit);
    (share >= NEAR).then(|| {
        let text = format!(
            "its bytes are {} of {name}, {}; raise the limit",
            percent(share),
            grouped(limit)
        );
        Advice::new(
            text,
            format!("CONFIG SET {name} {}", limit.saturating_mul(2)),
        )
    })
}

/// Warns of a filter with more false positives than requested.
fn above_rate(row: &Row, bloom: &Bloom) -> Option<Advice> {
    let (rate, now) = (row.rate?, row.rate_now?);
    let certain = if now >= ESTIMATED_WELL { 2.0 } else { 3.0 };
    (now > rate * certain).then(|| {
        let text = format!(
            "its error rate is {} now, and {rate} was requested; fill a larger one, and rename it",
            two_digits(now)
        );
        let items = with_headroom(row.items.unwrap_or(0));
        Advice::new(text, reserve(row, bloom, rate, items))
    })
}

/// Returns the capacity to reserve for the items of a filter: half as many again.
fn with_headroom(items: u64) -> u64 {
    items.saturating_add(items / 2).max(1)
}

/// Advises a new filter for the items of a stack, if it is smaller or quicker.
fn reserve_anew(row: &Row, bloom: &Bloom) -> Option<Advice> {
    let (filters, bytes, rate) = (row.filters?, row.bytes?, row.rate?);
    let periods = match bloom.window {
        Some(_) => bloom.live_periods.filter(|periods| *periods > 0)?,
        None => 1,
    };
    if filters <= periods {
        return None;
    }
    let capacity = with_headroom(row.items?.div_ceil(periods));
    let shape = shape(row, bloom, rate, capacity)?;
    let plan = shape.plan(capacity, Limits::NONE).ok()?;
    let new_bytes = match bloom.window {
        Some(_) => plan.full_bytes / shape.most_periods() * periods,
        None => plan.full_bytes.saturating_add(STORED_BYTES),
    };
    let new_filters = (plan.filters.len() as u64).saturating_mul(periods);
    let saved = bytes.saturating_sub(new_bytes);
    let smaller = saved >= WORTH_BYTES && ratio(saved, bytes) >= WORTH_SHARE;
    let quicker = filters >= DEEP.saturating_mul(periods) && new_filters < filters;
    // A quicker filter must not be much larger.
    let worth = smaller || quicker && new_bytes <= bytes.saturating_mul(2);
    if !worth {
        return None;
    }
    let (capacity, per_period) = match bloom.window {
        Some(_) => (grouped(capacity), " in each period"),
        None => (grouped(capacity), ""),
    };
    let cause = match bloom.window {
        Some(_) => "its periods are too small, so they stack filters",
        None => "it has stacked filters to grow",
    };
    let text = format!(
        "{cause}; one reserved for {capacity} items{per_period} (half as many again as now) takes {} bytes instead of \
         {}, and a lookup searches {} instead of {}; fill it, and rename it",
        grouped(new_bytes),
        grouped(bytes),
        counted(new_filters, "filter"),
        grouped(filters),
    );
    let command = reserve(row, bloom, rate, shape.params.capacity);
    Some(Advice::new(text, command))
}

fn counted(number: u64, what: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {what}{end}", grouped(number))
}

/// Returns the command that creates the successor of a filter.
fn reserve(row: &Row, bloom: &Bloom, rate: f64, capacity: u64) -> String {
    let kind = match (bloom.window, bloom.growth) {
        (Some((ms, periods)), _) => format!(" WINDOW {ms} PERIODS {periods}"),
        (None, _) if is_counting(row) => " COUNTING".to_owned(),
        (None, _) => String::new(),
    };
    let growth = match bloom.growth {
        Growth::Fixed => " NONSCALING".to_owned(),
        Growth::By(2) | Growth::Unknown => String::new(),
        Growth::By(expansion) => format!(" EXPANSION {expansion}"),
    };
    format!(
        "{BF_RESERVE} {} {rate} {capacity}{growth}{kind}",
        new_key(&row.key)
    )
}

/// Warns of a count-min sketch whose counters may have reached their largest value.
fn saturated(row: &Row, cell_size: u64) -> Option<Advice> {
    let (Details::CountMin { width, depth, .. }, 4) = (&row.details, cell_size) else {
        return None;
    };
    let (count, largest) = (row.items?, u64::from(u32::MAX));
    (count > largest).then_some(())?;
    let text = format!(
        "its counters end at {}, and it has counted {}, so frequent items may stand still; count in one with 8 bytes a \
         counter",
        grouped(largest),
        grouped(count)
    );
    let (width, depth) = ((*width)?, (*depth)?);
    let command = format!(
        "CMS.INITBYDIM {} {width} {depth} CELL_SIZE 8",
        new_key(&row.key)
    );
    Some(Advice::new(text, command))
}

/// Warns of a Top-K whose sketch is too narrow for the length of its list.
fn narrow(row: &Row) -> Option<Advice> {
    let Details::TopK {
        k,
        width,
        depth,
        decay,
    } = row.details
    else {
        return None;
    };
    let (k, width, depth, decay) = (k?, width?, depth?, decay?);
    if !valkeybloom_planner::TopK::is_narrow(k, width) {
        return None;
    }
    let wide = valkeybloom_planner::TopK::advised_width(k);
    let bytes = TopK::bytes_of(&topk::Shape::new(k, wide, depth, decay).ok()?);
    let now = TopK::bytes_of(&topk::Shape::new(k, width, depth, decay).ok()?);
    let text = format!(
        "its {} a row are too few to find the {} most frequent items; {} a row take {} bytes instead of {} \
         with a full list",
        counted(width, "cell"),
        grouped(k),
        grouped(wide),
        grouped(bytes.saturating_add(STORED_BYTES)),
        grouped(now.saturating_add(STORED_BYTES)),
    );
    let command = format!(
        "TOPK.RESERVE {} {k} {wide} {depth} {decay}",
        new_key(&row.key)
    );
    Some(Advice::new(text, command))
}

#[cfg(test)]
mod tests;
