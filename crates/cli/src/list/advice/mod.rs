//! What is worth doing about a key, and why.
//!
//! Each piece of advice is true of the values that the server reported. Nothing is advised on values that are unknown.
//! docs/tool.md lists what is advised.

mod reason;

use std::fmt::{self, Display, Formatter};

use serde_json::{Value, json};

use valkeybloom_near::slot_prefix;
use valkeybloom_planner::TopK;
use valkeybloom_protocol::names::{FILTER_MEMORY, OBJECT_MEMORY};
use valkeybloom_sketches::bloom::Growth;

use crate::failure::word;
use crate::held::limits::{Settings, ending_growth};
use crate::held::row::{Bloom, Details, Row};
use crate::report::{counted, grouped, ratio, two_digits};

/// A value is near its limit from this share on.
const NEAR: f64 = 0.9;

/// A smaller filter is worth the work of filling it from this share of the bytes on.
const WORTH_SHARE: f64 = 0.25;

/// Fewer bytes are not worth it, whatever their share.
const WORTH_BYTES: u64 = 1024;

/// A stack is slow from this number of filters on, because a lookup may search all of them.
const DEEP: u64 = 4;

/// The estimate of a rate is right within a factor of 2 above this rate, and of 3 below: docs/sizing.md has the measurement.
const ESTIMATED_WELL: f64 = 0.001;

/// A piece of advice.
pub struct Advice {
    /// What is true of the key, and what to do about it.
    reason: String,
    /// The command to begin with.
    command: String,
}

impl Advice {
    pub fn json(&self) -> Value {
        json!({ "reason": self.reason, "command": self.command })
    }
}

impl Display for Advice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.command)
    }
}

/// What advice depends on beside the key.
#[derive(Clone, Copy)]
pub struct Advisor {
    pub settings: Settings,
    /// The days without use that make a key idle.
    pub idle_days: u64,
}

impl Advisor {
    /// Returns the advice on a key.
    pub fn advise(self, row: &Row) -> Vec<Advice> {
        let settings = self.settings;
        let of_type = match &row.details {
            Details::PartlyLoaded => vec![Some(unlink(row, reason::partly_loaded()))],
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
        let days = days.filter(|days| *days >= self.idle_days).map(grouped);
        let unused = days.map(|days| unlink(row, reason::unused(days)));
        of_type.into_iter().chain([unused]).flatten().collect()
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns the advice to delete a key.
fn unlink(row: &Row, reason: String) -> Advice {
    let command = format!("UNLINK {}", word(&row.key));
    Advice { reason, command }
}

/// Returns a name for the successor of a key, in the same slot of a cluster, so that it can be renamed.
fn new_key(row: &Row) -> String {
    word(&[&slot_prefix(&row.key)[..], b":new"].concat()).into_owned()
}

/// Returns the capacity to reserve for the items of a filter: half as many again.
fn with_headroom(items: u64) -> u64 {
    items.saturating_add(items / 2).max(1)
}

/// Warns of a Bloom filter that will take no more items soon.
fn near_limit(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
    let (items, reach) = (row.items?, bloom.reach?);
    let share = if reach == 0 { 1.0 } else { ratio(items, reach) };
    if share < NEAR {
        return None;
    }
    if bloom.growth == Some(Growth::Fixed) {
        let larger = bloom.plan(row.rate?, reach.saturating_mul(2))?;
        return Some(Advice {
            reason: reason::near_capacity(percent(share), grouped(reach)),
            command: larger.command(&new_key(row)),
        });
    }
    let hit = ending_growth(row, bloom, reach, settings)?;
    let names: Vec<&str> = hit.iter().map(|(name, _)| *name).collect();
    let end = if hit.len() == 1 { "ends" } else { "end" };
    let names_end = format!("{} {end}", names.join(" and "));
    let raised = hit.iter().map(|(name, bytes)| format!(" {name} {bytes}"));
    Some(Advice {
        reason: reason::near_reach(percent(share), grouped(reach), names_end),
        command: format!("CONFIG SET{}", raised.collect::<String>()),
    })
}

/// Warns of a cuckoo filter that does not grow, and will take no more items soon.
fn nearly_full(row: &Row) -> Option<Advice> {
    let (share, capacity) = (row.full()?, row.capacity?);
    (share >= NEAR).then(|| Advice {
        reason: reason::near_slots(percent(share)),
        command: format!("CF.RESERVE {} {}", new_key(row), capacity.saturating_mul(2)),
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
    let capacity = row.capacity?;
    // The slots of all filters that it may have, which are equal; or those that it has after one more filter, without the first:
    // for n filters of s to s·eⁿ⁻¹ slots, e·(s + … + s·eⁿ⁻¹) = s·e + … + s·eⁿ.
    let (slots, options) = match expansion {
        1 => (
            capacity.div_ceil(filters).saturating_mul(most),
            String::new(),
        ),
        _ => (
            capacity.saturating_mul(expansion),
            format!(" EXPANSION {expansion}"),
        ),
    };
    let slots = slots.max(with_headroom(row.items?));
    Some(Advice {
        reason: reason::near_filters(counted(filters, "filter"), grouped(most)),
        command: format!("CF.RESERVE {} {slots}{options}", new_key(row)),
    })
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
    let (limit, setting) = limits.min_by_key(|(limit, _)| *limit)?;
    let share = ratio(bytes, limit);
    (share >= NEAR).then(|| Advice {
        reason: reason::near_memory(percent(share), setting, grouped(limit)),
        command: format!("CONFIG SET {setting} {}", limit.saturating_mul(2)),
    })
}

/// Warns of a filter with more false positives than requested.
fn above_rate(row: &Row, bloom: &Bloom) -> Option<Advice> {
    let (requested, now) = (row.rate?, row.rate_now?);
    let certain = if now >= ESTIMATED_WELL { 2.0 } else { 3.0 };
    if now <= requested * certain {
        return None;
    }
    let larger = bloom.plan(requested, with_headroom(row.items.unwrap_or(0)))?;
    Some(Advice {
        reason: reason::above_rate(two_digits(now), requested),
        command: larger.command(&new_key(row)),
    })
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
    worth.then(|| Advice {
        reason: reason::stacked(
            grouped(capacity),
            grouped(new_bytes),
            grouped(bytes),
            counted(new_filters, "filter"),
            grouped(filters),
        ),
        command: new.command(&new_key(row)),
    })
}

/// Warns of a count-min sketch of 4 bytes a counter, whose counters may have reached their largest value.
fn saturated(row: &Row, width: u64, depth: u64) -> Option<Advice> {
    let (count, largest) = (row.items?, u64::from(u32::MAX));
    (count > largest).then(|| Advice {
        reason: reason::saturated(grouped(largest), grouped(count)),
        command: format!("CMS.INITBYDIM {} {width} {depth} CELL_SIZE 8", new_key(row)),
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
    Some(Advice {
        reason: reason::narrow(
            counted(list.width, "cell"),
            grouped(list.k),
            grouped(wide.width),
            grouped(wide.when_full()?),
            grouped(list.when_full()?),
        ),
        command: wide.command(&new_key(row)),
    })
}

#[cfg(test)]
mod tests {
    use redis::Value as Reply;

    use super::*;
    use crate::info::Info;

    /// Returns the row of a value that a line describes: its structure with some figures, and other fields of its INFO command.
    fn row(line: &str) -> Row {
        let (first, fields) = line.split_once(", ").unwrap_or((line, ""));
        let mut figures = first.split(' ');
        let (kind, names, usual) = match figures.next() {
            Some("bloom") => (
                "bloomfltr",
                "Number of items inserted, Capacity, Number of filters, Size",
                "Error rate 0.01, Expansion rate 2, Max scaled capacity 31000000",
            ),
            Some("cuckoo") => (
                "MBbloomCF",
                "Number of items inserted, Number of buckets, Number of filters, Expansion rate",
                "Bucket size 2",
            ),
            Some("counts") => ("CMSk-TYPE", "count, cell_size", "width 2000, depth 7"),
            Some("top") => ("TopK-TYPE", "width", "k 10, depth 7, decay 0.9"),
            _ => ("TDIS-TYPE", "", "Compression 100, Observations 1"),
        };
        let fields = usual.split(", ").chain(fields.split(", "));
        let fields = fields.filter_map(|field| field.rsplit_once(' '));
        let text = |text: &str| Reply::BulkString(text.into());
        let fields = names.split(", ").zip(figures).chain(fields);
        let fields = fields.map(|(name, value)| {
            let value = match (value, value.parse()) {
                ("nil", _) => Reply::Nil,
                (_, Ok(number)) => Reply::Int(number),
                (value, _) => text(value),
            };
            (text(name), value)
        });
        let mut row = Row {
            key: b"k".to_vec(),
            kind: kind.to_owned(),
            bytes: (kind == "TDIS-TYPE").then_some(950),
            ..Row::default()
        };
        row.fill(&Info::try_from(Reply::Map(fields.collect())).expect("it has fields"));
        row
    }

    fn advice(row: &Row, settings: Settings) -> Vec<Advice> {
        let idle_days = 30;
        Advisor {
            settings,
            idle_days,
        }
        .advise(row)
    }

    fn commands(row: &Row, settings: Settings) -> String {
        let commands = advice(row, settings).into_iter();
        let commands: Vec<String> = commands.map(|advice| advice.command).collect();
        commands.join(" ; ")
    }

    #[test]
    fn each_case_has_its_commands() {
        let cases = include_str!("cases.txt").lines();
        for case in cases.filter(|line| !line.starts_with('#')) {
            let (given, expected) = case.split_once(" => ").expect("a case");
            let (figures, settings) = given.split_once(" / ").expect("settings");
            let mut settings = settings.split(' ').map(|value| value.parse().ok());
            let mut next = || settings.next().expect("a setting");
            let settings = Settings {
                filter_limit: next(),
                object_limit: next(),
                cuckoo_filters: next(),
            };
            let expected = expected.trim_start_matches('-');
            assert_eq!(commands(&row(figures), settings), expected, "{case}");
        }
    }

    #[test]
    fn a_reason_names_the_figures_in_its_place() {
        let settings = Settings {
            filter_limit: Some(67_108_864),
            object_limit: Some(1_000),
            cuckoo_filters: Some(32),
        };
        let unlimited = Settings {
            object_limit: Some(0),
            ..settings
        };
        let limited = Settings {
            object_limit: Some(104_857_600),
            ..settings
        };
        for (line, settings, reason) in [
            (
                "bloom 1023000 1023000 10 2417967",
                unlimited,
                "it has stacked filters to grow; one reserved for 1,534,500 items (half as many again as now) takes 2,118,377 \
                 bytes instead of 2,417,967, and a lookup searches 1 filter instead of 10; fill it, and rename it",
            ),
            (
                "bloom 28000000 31000000 1 42796951",
                unlimited,
                "90.3 % of the 31,000,000 items at which bf.bloom-filter-max-memory-usage ends its growth are in it; raise the \
                 limit",
            ),
            (
                "bloom 28000000 31000000 1 42796951",
                limited,
                "90.3 % of the 31,000,000 items at which bf.bloom-filter-max-memory-usage and bf.bloom-memory-usage-limit end \
                 its growth are in it; raise the limit",
            ),
            (
                "bloom 28000000 31000000 1 42796951, Expansion rate nil",
                unlimited,
                "90.3 % of the 31,000,000 items that it takes are in it, and it does not grow; fill a larger one, and rename \
                 it",
            ),
            (
                "bloom 300 300 1 500, Estimated error rate 0.0314",
                unlimited,
                "its error rate is 0.031 now, and 0.01 was requested; fill a larger one, and rename it",
            ),
            (
                "cuckoo 94 50 1 0",
                settings,
                "94.0 % of its slots are taken, and it does not grow; fill a larger one, and rename it",
            ),
            (
                "cuckoo 14400 512 16 1",
                settings,
                "it has 16 filters, and refuses items once it has 32, which is bf.cf-max-expansions; fill one reserved for \
                 more, and rename it",
            ),
            (
                "top 49",
                settings,
                "its 49 cells a row are too few to find the 10 most frequent items; 200 a row take 12,064 bytes instead of \
                 3,608 with a full list",
            ),
            (
                "counts 4294967296 4",
                settings,
                "its counters end at 4,294,967,295, and it has counted 4,294,967,296, so frequent items may stand still; count \
                 in one with 8 bytes a counter",
            ),
            (
                "digest",
                settings,
                "its bytes are 95.0 % of bf.bloom-memory-usage-limit, 1,000; raise the limit",
            ),
        ] {
            let advice = advice(&row(line), settings);
            let reasons: Vec<&str> = advice.iter().map(|advice| &advice.reason[..]).collect();
            assert_eq!(reasons, [reason]);
        }
    }

    #[test]
    fn a_value_without_figures_has_no_advice() {
        for kind in [
            "bloomfltr",
            "MBbloomCF",
            "CMSk-TYPE",
            "TopK-TYPE",
            "TDIS-TYPE",
        ] {
            let mut row = Row {
                kind: kind.to_owned(),
                ..Row::default()
            };
            row.fill(&Info::try_from(Reply::Map(vec![])).expect("it is a map"));
            assert_eq!(commands(&row, Settings::default()), "", "{kind}");
        }
    }

    #[test]
    fn keys_that_answer_nothing_or_nobody_are_to_be_deleted() {
        let unused = |days: u64| Row {
            idle_seconds: Some(days * 86_400 + 86_399),
            ..row("top 50")
        };
        assert_eq!(commands(&unused(29), Settings::default()), "");
        assert_eq!(commands(&unused(30), Settings::default()), "UNLINK k");
        let both = Row {
            details: Details::PartlyLoaded,
            ..unused(30)
        };
        assert_eq!(commands(&both, Settings::default()), "UNLINK k ; UNLINK k");
    }

    /// A successor has the slot of its key, and keys are words of a command line.
    #[test]
    fn commands_name_keys_safely() {
        for (key, deleted, successor) in [
            ("seen", "seen", "{seen}:new"),
            ("{app}:seen", "{app}:seen", "{app}:seen:new"),
            ("a b", r#""a b""#, r#""{a b}:new""#),
            ("a{b", "a{b", "{a{b}:new"),
            ("a}b", "a}b", "{once-2996}a}b:new"),
            (r#"a "key""#, r#""a \"key\"""#, r#""{a \"key\"}:new""#),
        ] {
            let row = Row {
                key: key.into(),
                idle_seconds: Some(u64::MAX),
                ..row("top 49")
            };
            assert_eq!(
                commands(&row, Settings::default()),
                format!("TOPK.RESERVE {successor} 10 200 7 0.9 ; UNLINK {deleted}")
            );
        }
    }

    #[test]
    fn advice_is_a_line_or_an_object() {
        let advice = Advice {
            reason: "why; what".to_owned(),
            command: "UNLINK k".to_owned(),
        };
        assert_eq!(advice.to_string(), "why; what: UNLINK k");
        let object = json!({ "reason": "why; what", "command": "UNLINK k" });
        assert_eq!(advice.json(), object);
    }
}
