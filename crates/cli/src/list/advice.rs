//! What is worth doing about a key, and why.
//!
//! Each piece of advice is true of the values that the server reported. Nothing is advised on values that are unknown.

use serde_json::{Value, json};

use valkeybloom_planner::STORED_BYTES;
use valkeybloom_protocol::names::{BF_RESERVE, FILTER_MEMORY, OBJECT_MEMORY};
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{self, Dialect, Kind, Limits, Params, Shape, Tightening, Window};
use valkeybloom_sketches::topk::{self, TopK};

use super::row::{Bloom, Details, Growth, Row};
use crate::failure::{shown, word};
use crate::report::{grouped, print_line, ratio, two_digits};
use crate::server::dialect_of;
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

/// The cells in a row of a Top-K for each item that it lists: at least, and as advised.
const CELLS_PER_ITEM: (u64, u64) = (5, 20);

/// A piece of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// Why, and what to do, in a sentence.
    pub text: String,
    /// The command to begin with.
    pub command: String,
}

/// The settings of a server; `None` if they are unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// The memory limit of a filter in bytes.
    pub filter_limit: Option<u64>,
    /// The memory limit of an object in bytes; 0 for no limit.
    pub object_limit: Option<u64>,
}

impl Advice {
    fn new(text: String, command: String) -> Self {
        Self { text, command }
    }

    /// Prints a line, which begins with the key.
    pub fn print(&self, key: &[u8]) {
        print_line(format_args!(
            "{}: {}: {}",
            shown(key),
            self.text,
            self.command
        ));
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
        Details::CountMin { cell_size, .. } => all.extend(saturated(row, *cell_size)),
        Details::TopK { .. } => {
            all.extend(narrow(row));
            all.extend(near_memory(row, settings));
        }
        Details::Cuckoo { .. } | Details::TDigest { .. } => all.extend(near_memory(row, settings)),
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

/// Warns of a Bloom filter that will take no more items soon.
fn near_limit(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
    let (items, reach) = (row.items?, bloom.reach.filter(|reach| *reach > 0)?);
    let share = ratio(items, reach);
    // The capacity of a window is that of all its periods: the present one may be full before.
    if share < NEAR || bloom.window.is_some() {
        return None;
    }
    let (percent, limit) = (percent(share), grouped(reach));
    if bloom.growth == Growth::Fixed {
        let text = format!(
            "{percent} of the {limit} items that it takes are in it, and it does not grow; fill a larger one, and rename it"
        );
        let command = reserve(row, bloom, row.rate?, reach.saturating_mul(2));
        return Some(Advice::new(text, command));
    }
    let (filter, object) = (settings.filter_limit?, settings.object_limit?);
    let double = |name: &str, bytes: u64| format!(" {name} {}", bytes.saturating_mul(2));
    let (which, what) = match object {
        0 => (FILTER_MEMORY.to_owned(), double(FILTER_MEMORY, filter)),
        object => (
            format!("{FILTER_MEMORY} or {OBJECT_MEMORY}"),
            double(FILTER_MEMORY, filter) + &double(OBJECT_MEMORY, object),
        ),
    };
    let text = format!(
        "{percent} of the {limit} items at which {which} ends its growth are in it; raise the limit"
    );
    Some(Advice::new(text, format!("CONFIG SET{what}")))
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
    let Growth::By(expansion) = bloom.growth else {
        return None;
    };
    let periods = match bloom.window {
        Some(_) => bloom.live_periods.filter(|periods| *periods > 0)?,
        None => 1,
    };
    if filters <= periods {
        return None;
    }
    let capacity = with_headroom(row.items?.div_ceil(periods));
    let shape = Shape {
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
    };
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

fn is_counting(row: &Row) -> bool {
    dialect_of(&row.kind) == Some(Dialect::Bloomfltx)
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
    let (least, advised) = CELLS_PER_ITEM;
    if width >= k.saturating_mul(least) {
        return None;
    }
    let wide = k.saturating_mul(advised);
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
mod tests {
    use super::*;

    const NO_LIMITS: Settings = Settings {
        filter_limit: Some(64 << 20),
        object_limit: Some(0),
    };

    fn filter(items: u64, capacity: u64, filters: u64, bytes: u64) -> Row {
        let mut row = Row::partly_loaded(b"seen".to_vec(), "bloomfltr");
        row.items = Some(items);
        row.capacity = Some(capacity);
        row.filters = Some(filters);
        row.bytes = Some(bytes);
        row.rate = Some(0.01);
        row.details = Details::Bloom(Bloom {
            growth: Growth::By(2),
            reach: Some(31_000_000),
            ..Bloom::default()
        });
        row
    }

    fn sketch(kind: &str, details: Details) -> Row {
        let mut row = Row::partly_loaded(b"k".to_vec(), kind);
        row.details = details;
        row
    }

    /// Returns the commands of the advice.
    fn commands(row: &Row, settings: Settings) -> Vec<String> {
        let all = of(row, settings, 30).into_iter();
        all.map(|advice| advice.command).collect()
    }

    #[test]
    fn a_filter_that_is_as_reserved_gets_no_advice() {
        let mut row = filter(500_000, 1_000_000, 1, 1_380_575);
        row.rate_now = Some(0.000_1);
        row.idle_seconds = Some(29 * 86_400);
        assert_eq!(of(&row, NO_LIMITS, 30), []);
        // Nor do values of a server that reports little.
        (row.rate, row.rate_now, row.idle_seconds) = (None, None, None);
        assert_eq!(of(&row, Settings::default(), 30), []);
    }

    #[test]
    fn a_deep_stack_is_worth_a_new_filter() {
        // The figures of `valkeybloom size`: 10 filters from 1,000 take 2,417,967 bytes when full, and one for half as
        // many items again, 1,534,500, takes 1.5345 × 1,380,575 bytes.
        let row = filter(1_023_000, 1_023_000, 10, 2_417_967);
        let advice = of(&row, NO_LIMITS, 30);
        assert_eq!(advice.len(), 1);
        assert_eq!(advice[0].command, "BF.RESERVE {seen}:new 0.01 1534500");
        let text = &advice[0].text;
        assert!(text.contains("1 filter instead of 10"), "{text}");
        let bytes: u64 = text
            .split_once("takes ")
            .and_then(|(_, rest)| rest.split_once(" bytes"))
            .and_then(|(bytes, _)| bytes.replace(',', "").parse().ok())
            .expect("the bytes");
        assert!(bytes.abs_diff(2_118_492) < 200, "{text}");
        // Two filters that take hardly more than one are good enough.
        assert_eq!(
            of(&filter(1_500_000, 3_000_000, 2, 2_200_000), NO_LIMITS, 30),
            []
        );
    }

    #[test]
    fn limits_are_told_when_they_are_near() {
        let row = filter(28_000_000, 31_000_000, 1, 50_000_000);
        let raise = "CONFIG SET bf.bloom-filter-max-memory-usage 134217728";
        assert_eq!(commands(&row, NO_LIMITS), [raise]);
        assert_eq!(commands(&row, Settings::default()), [""; 0]);
        let both = Settings {
            object_limit: Some(100),
            ..NO_LIMITS
        };
        let raise = format!("{raise} bf.bloom-memory-usage-limit 200");
        assert_eq!(commands(&row, both), [raise]);
        assert_eq!(
            commands(&filter(27_000_000, 31_000_000, 1, 50), NO_LIMITS),
            [""; 0]
        );

        let mut fixed = filter(90, 100, 1, 200);
        fixed.details = Details::Bloom(Bloom {
            growth: Growth::Fixed,
            reach: Some(100),
            ..Bloom::default()
        });
        let larger = "BF.RESERVE {seen}:new 0.01 200 NONSCALING";
        assert_eq!(commands(&fixed, Settings::default()), [larger]);

        let mut digest = sketch(
            "TDIS-TYPE",
            Details::TDigest {
                compression: Some(100),
            },
        );
        digest.bytes = Some(950);
        let limited = Settings {
            object_limit: Some(1000),
            ..NO_LIMITS
        };
        assert_eq!(
            commands(&digest, limited),
            ["CONFIG SET bf.bloom-memory-usage-limit 2000"]
        );
        assert_eq!(commands(&digest, NO_LIMITS), [""; 0]);
        let mut cuckoo = sketch("MBbloomCF", Details::Cuckoo { expansion: Some(0) });
        (cuckoo.items, cuckoo.capacity) = (Some(95), Some(100));
        assert_eq!(commands(&cuckoo, NO_LIMITS), ["CF.RESERVE {k}:new 200"]);
        cuckoo.details = Details::Cuckoo { expansion: Some(1) };
        assert_eq!(commands(&cuckoo, NO_LIMITS), [""; 0]);
    }

    #[test]
    fn a_rate_counts_as_exceeded_beyond_the_error_of_the_estimate() {
        let mut row = filter(300, 300, 1, 500);
        row.rate_now = Some(0.019);
        assert_eq!(commands(&row, NO_LIMITS), [""; 0]);
        row.rate_now = Some(0.03);
        assert_eq!(
            commands(&row, NO_LIMITS),
            ["BF.RESERVE {seen}:new 0.01 450"]
        );
        (row.rate, row.rate_now) = (Some(0.000_1), Some(0.000_25));
        assert_eq!(commands(&row, NO_LIMITS), [""; 0]);
    }

    #[test]
    fn a_window_whose_periods_stack_is_reserved_too_small() {
        let mut row = filter(40_000, 45_000, 20, 130_000);
        row.kind = "bloomfltx".to_owned();
        row.details = Details::Bloom(Bloom {
            growth: Growth::By(2),
            reach: None,
            window: Some((3_600_000, 24)),
            live_periods: Some(4),
        });
        let reserve = "BF.RESERVE {seen}:new 0.01 15000 WINDOW 3600000 PERIODS 24";
        assert_eq!(commands(&row, NO_LIMITS), [reserve]);
        // A filter a period is how it should be.
        row.filters = Some(4);
        assert_eq!(commands(&row, NO_LIMITS), [""; 0]);
    }

    #[test]
    fn sketches_have_advice_of_their_own() {
        let narrow = |width| Details::TopK {
            k: Some(10),
            width: Some(width),
            depth: Some(7),
            decay: Some(0.9),
        };
        let wide = "TOPK.RESERVE {k}:new 10 200 7 0.9";
        assert_eq!(
            commands(&sketch("TopK-TYPE", narrow(49)), NO_LIMITS),
            [wide]
        );
        assert_eq!(
            commands(&sketch("TopK-TYPE", narrow(50)), NO_LIMITS),
            [""; 0]
        );

        let counters = |cell_size| Details::CountMin {
            width: Some(2000),
            depth: Some(7),
            cell_size,
        };
        let mut row = sketch("CMSk-TYPE", counters(4));
        row.items = Some(u64::from(u32::MAX));
        assert_eq!(commands(&row, NO_LIMITS), [""; 0]);
        row.items = Some(1 << 32);
        let larger = "CMS.INITBYDIM {k}:new 2000 7 CELL_SIZE 8";
        assert_eq!(commands(&row, NO_LIMITS), [larger]);
        row.details = counters(8);
        assert_eq!(commands(&row, NO_LIMITS), [""; 0]);
    }

    #[test]
    fn unused_and_unfinished_keys_may_be_deleted() {
        let mut row = filter(1, 100, 1, 200);
        row.key = b"a \"key\"".to_vec();
        row.idle_seconds = Some(30 * 86_400);
        assert_eq!(commands(&row, NO_LIMITS), [r#"UNLINK "a \"key\"""#]);
        let row = Row::partly_loaded(b"k".to_vec(), "bloomfltr");
        assert_eq!(commands(&row, NO_LIMITS), ["UNLINK k"]);
    }

    #[test]
    fn a_successor_has_the_slot_of_its_key() {
        assert_eq!(new_key(b"seen"), "{seen}:new");
        assert_eq!(new_key(b"{app}:seen"), "{app}:seen:new");
        assert_eq!(new_key(b"a b"), r#""{a b}:new""#);
        for key in ["a{b", "a}b", "a{}b", "}{", "{", "{}"] {
            let name = new_key(key.as_bytes());
            assert_eq!(slot(name.as_bytes()), slot(key.as_bytes()), "{key}");
        }
    }
}
