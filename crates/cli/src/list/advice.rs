//! What is worth doing about a key, and why.
//!
//! Each piece of advice is true of the values that the server reported. Nothing is advised on values that are unknown.

use serde_json::{Value, json};

use valkeybloom_near::slot_prefix;
use valkeybloom_planner::TopK;
use valkeybloom_protocol::names::{CUCKOO_FILTERS, FILTER_MEMORY, OBJECT_MEMORY};
use valkeybloom_sketches::bloom::Growth;

use crate::failure::word;
use crate::held::limits::{Settings, ending_growth};
use crate::held::row::{Bloom, Details, Row};
use crate::report::{counted, grouped, ratio, two_digits};

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

/// A piece of advice: why, and what to do, in a sentence, and the command to begin with.
pub struct Advice(String, String);

impl Advice {
    /// Returns a line, which begins with the key.
    pub fn line(&self, key: &str) -> String {
        format!("{key}: {}: {}", self.0, self.1)
    }

    pub fn json(&self) -> Value {
        json!({ "reason": self.0, "command": self.1 })
    }
}

/// Returns the advice for a key. A key is idle if nobody has used it for `idle_days`.
pub fn of(row: &Row, settings: Settings, idle_days: u64) -> Vec<Advice> {
    let unlink = || format!("UNLINK {}", word(&row.key));
    let of_type = match &row.details {
        Details::PartlyLoaded => {
            let text = "a copy of it was not finished, so it answers nothing; finish the copy, or delete it";
            vec![Some(Advice(text.to_owned(), unlink()))]
        }
        Details::Bloom(bloom) => vec![
            near_limit(row, bloom, settings),
            above_rate(row, bloom),
            reserve_anew(row, bloom),
        ],
        Details::Cuckoo { expansion: 0 } => {
            vec![nearly_full(row), near_memory(row, settings)]
        }
        Details::Cuckoo { expansion } => vec![
            near_last_filter(row, *expansion, settings),
            near_memory(row, settings),
        ],
        Details::CountMin {
            width,
            depth,
            cell_size: 4,
        } => vec![saturated(row, *width, *depth)],
        Details::TopK(list) => vec![narrow(row, list), near_memory(row, settings)],
        Details::TDigest(_) => vec![near_memory(row, settings)],
        Details::Unknown | Details::CountMin { .. } => vec![],
    };
    let days = row.idle_seconds.map(|seconds| seconds / 86_400);
    let days = days.filter(|days| *days >= idle_days).map(grouped);
    let idle = days.map(|days| {
        let text = format!("it was not used for {days} days; delete it if nobody needs it");
        Advice(text, unlink())
    });
    of_type.into_iter().chain([idle]).flatten().collect()
}

/// Returns a name for the successor of a key, in the same slot of a cluster, so that it can be renamed.
fn new_key(key: &[u8]) -> String {
    word(&[&slot_prefix(key)[..], b":new"].concat()).into_owned()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Warns of a Bloom filter that will take no more items soon.
fn near_limit(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
    let (items, reach) = (row.items?, bloom.reach?);
    let share = if reach == 0 { 1.0 } else { ratio(items, reach) };
    if share < NEAR {
        return None;
    }
    let (percent, limit) = (percent(share), grouped(reach));
    if bloom.growth == Some(Growth::Fixed) {
        let text = format!(
            "{percent} of the {limit} items that it takes are in it, and it does not grow; fill a larger one, and rename it"
        );
        let larger = bloom.plan(row.rate?, reach.saturating_mul(2))?;
        return Some(Advice(text, larger.command(&new_key(&row.key))));
    }
    let hit = ending_growth(row, bloom, reach, settings)?;
    let names: Vec<&str> = hit.iter().map(|(name, _)| *name).collect();
    let which = names.join(" and ");
    let end = if hit.len() == 1 { "ends" } else { "end" };
    let text = format!(
        "{percent} of the {limit} items at which {which} {end} its growth are in it; raise the limit"
    );
    let words = hit.iter().map(|(name, bytes)| format!(" {name} {bytes}"));
    let command = format!("CONFIG SET{}", words.collect::<String>());
    Some(Advice(text, command))
}

/// Warns of a cuckoo filter that does not grow, and will take no more items soon.
fn nearly_full(row: &Row) -> Option<Advice> {
    let (full, capacity) = (row.full()?, row.capacity?);
    (full >= NEAR).then(|| {
        let (percent, larger) = (percent(full), capacity.saturating_mul(2));
        let text = format!(
            "{percent} of its slots are taken, and it does not grow; fill a larger one, and rename it"
        );
        Advice(text, format!("CF.RESERVE {} {larger}", new_key(&row.key)))
    })
}

/// Warns of a cuckoo filter that has stacked half of the filters that it may, as a key does that nobody reserved. If each filter
/// is larger than the one before, the last two matter.
fn near_last_filter(row: &Row, expansion: u64, settings: Settings) -> Option<Advice> {
    let (filters, most) = (row.filters?, settings.cuckoo_filters?);
    let is_near = match expansion {
        1 => filters.saturating_mul(2) >= most.max(4),
        _ => filters > 1 && filters.saturating_add(1) >= most,
    };
    if !is_near {
        return None;
    }
    let text = format!(
        "it has {}, and refuses items once it has {}, which is {CUCKOO_FILTERS}; fill one reserved for more, and rename it",
        counted(filters, "filter"),
        grouped(most),
    );
    // As many slots as all the filters that it may have, or as one more filter would bring.
    let (capacity, options) = match expansion {
        1 => (
            row.capacity?.div_ceil(filters).saturating_mul(most),
            String::new(),
        ),
        _ => (
            row.capacity?.saturating_mul(expansion),
            format!(" EXPANSION {expansion}"),
        ),
    };
    let capacity = capacity.max(with_headroom(row.items?));
    let command = format!("CF.RESERVE {} {capacity}{options}", new_key(&row.key));
    Some(Advice(text, command))
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
    let limits = [
        filter.zip(Some(FILTER_MEMORY)),
        object.zip(Some(OBJECT_MEMORY)),
    ];
    let limits = limits.into_iter().flatten();
    let (limit, name) = limits.min_by_key(|(limit, _)| *limit)?;
    let share = ratio(bytes, limit);
    (share >= NEAR).then(|| {
        let text = format!(
            "its bytes are {} of {name}, {}; raise the limit",
            percent(share),
            grouped(limit)
        );
        let command = format!("CONFIG SET {name} {}", limit.saturating_mul(2));
        Advice(text, command)
    })
}

/// Warns of a filter with more false positives than requested.
fn above_rate(row: &Row, bloom: &Bloom) -> Option<Advice> {
    let (rate, now) = (row.rate?, row.rate_now?);
    let certain = if now >= ESTIMATED_WELL { 2.0 } else { 3.0 };
    if now <= rate * certain {
        return None;
    }
    let now = two_digits(now);
    let text = format!(
        "its error rate is {now} now, and {rate} was requested; fill a larger one, and rename it"
    );
    let larger = bloom.plan(rate, with_headroom(row.items.unwrap_or(0)))?;
    Some(Advice(text, larger.command(&new_key(&row.key))))
}

/// Returns the capacity to reserve for the items of a filter: half as many again.
fn with_headroom(items: u64) -> u64 {
    items.saturating_add(items / 2).max(1)
}

/// Advises a new filter for the items of a stack, if it is smaller or quicker.
fn reserve_anew(row: &Row, bloom: &Bloom) -> Option<Advice> {
    let (filters, bytes, rate) = (row.filters?, row.bytes?, row.rate?);
    if filters == 1 {
        return None;
    }
    let capacity = with_headroom(row.items?);
    let new = bloom.plan(rate, capacity)?;
    let (new_bytes, new_filters) = new.when_full().ok()?;
    let saved = bytes.saturating_sub(new_bytes);
    let smaller = saved >= WORTH_BYTES && ratio(saved, bytes) >= WORTH_SHARE;
    let quicker = filters >= DEEP && new_filters < filters;
    // A quicker filter must not be much larger.
    let worth = smaller || quicker && new_bytes <= bytes.saturating_mul(2);
    if !worth {
        return None;
    }
    let text = format!(
        "it has stacked filters to grow; one reserved for {} items (half as many again as now) takes {} bytes instead of {}, and a \
         lookup searches {} instead of {}; fill it, and rename it",
        grouped(capacity),
        grouped(new_bytes),
        grouped(bytes),
        counted(new_filters, "filter"),
        grouped(filters),
    );
    Some(Advice(text, new.command(&new_key(&row.key))))
}

/// Warns of a count-min sketch of 4 bytes a counter, whose counters may have reached their largest value.
fn saturated(row: &Row, width: u64, depth: u64) -> Option<Advice> {
    let (count, largest) = (row.items?, u64::from(u32::MAX));
    (count > largest).then(|| {
        let text = format!(
            "its counters end at {}, and it has counted {}, so frequent items may stand still; count in one with 8 \
             bytes a counter",
            grouped(largest),
            grouped(count)
        );
        let key = new_key(&row.key);
        let command = format!("CMS.INITBYDIM {key} {width} {depth} CELL_SIZE 8");
        Advice(text, command)
    })
}

/// Warns of a Top-K whose sketch is too narrow for the length of its list.
fn narrow(row: &Row, list: &TopK) -> Option<Advice> {
    if !list.is_narrow() {
        return None;
    }
    let wide = TopK {
        width: TopK::advised_width(list.k),
        ..list.clone()
    };
    let text = format!(
        "its {} a row are too few to find the {} most frequent items; {} a row take {} bytes instead of {} with a full \
         list",
        counted(list.width, "cell"),
        grouped(list.k),
        grouped(wide.width),
        grouped(wide.when_full()?),
        grouped(list.when_full()?),
    );
    Some(Advice(text, wide.command(&new_key(&row.key))))
}
