//! What is worth doing about a key, and why.
//!
//! Each piece of advice is true of the values that the server reported. Nothing is advised on values that are unknown.
//! docs/tool.md lists what is advised.

mod piece;
mod reason;

use valkeybloom_planner::{self as planner, TopK, stored};
use valkeybloom_protocol::bloom::Maker;
use valkeybloom_protocol::names::{FILTER_MEMORY, OBJECT_MEMORY};
use valkeybloom_sketches::bloom::Growth;
use valkeybloom_sketches::cms::{self, CellSize, CountMin};
use valkeybloom_sketches::cuckoo::{Limits, Params, Shape, ranges};

use crate::held::limits::{Settings, Sizes, ending_growth};
use crate::held::row::{Bloom, Details, Row};
use crate::report::{counted, grouped, ratio, two_digits};
use crate::upload::is_temporary;

pub use self::piece::Advice;
use self::piece::{names, new_key};

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

/// What advice depends on beside the key.
#[derive(Clone, Copy)]
pub struct Advisor {
    pub settings: Settings,
    /// The days without use that make a key idle.
    pub idle_days: u64,
}

impl Advisor {
    /// Returns the advice on a key. A temporary key has none: a run may be filling it, and otherwise it expires.
    pub fn advise(self, row: &Row) -> Vec<Advice> {
        if is_temporary(&row.key) {
            return vec![];
        }
        let settings = self.settings;
        let of_type = match &row.details {
            Details::PartlyLoaded => vec![Some(Advice::unlink(row, reason::partly_loaded()))],
            Details::Bloom(bloom) => vec![
                near_limit(row, bloom, settings),
                above_rate(row, bloom, settings),
                reserve_anew(row, bloom, settings),
            ],
            Details::Cuckoo(filter) if filter.expansion == 0 => {
                vec![nearly_full(row, filter, settings)]
            }
            Details::Cuckoo(filter) => vec![
                near_last_filter(row, filter, settings),
                near_memory(row, settings),
            ],
            Details::CountMin {
                width,
                depth,
                cell_size: cell_size @ (None | Some(4)),
            } => {
                // A field that is absent leaves open whether the server has other sizes.
                let size = if cell_size.is_some() || settings.has_cell_sizes() {
                    CellSize::Eight
                } else {
                    CellSize::Four
                };
                vec![saturated(row, *width, *depth, size, settings)]
            }
            Details::TopK(list) => vec![narrow(row, list, settings), near_memory(row, settings)],
            Details::TDigest(_) => vec![near_memory(row, settings)],
            Details::Unknown | Details::CountMin { .. } => vec![],
        };
        let days = row.idle_seconds.map(|seconds| seconds / 86_400);
        let days = days.filter(|days| *days >= self.idle_days).map(grouped);
        let unused = days.map(|days| Advice::unlink(row, reason::unused(days)));
        of_type.into_iter().chain([unused]).flatten().collect()
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Advises to make a Bloom filter.
fn make_bloom(
    row: &Row,
    reason: String,
    new: &planner::Bloom,
    settings: Settings,
) -> Option<Advice> {
    let (filter, object) = new.when_made().ok()?;
    let command = new.command(&new_key(row));
    let sizes = Sizes { filter, object };
    Some(Advice::make(reason, command, sizes, settings))
}

/// Returns the plan of a filter like this one, for this number of items, as the server makes new filters.
fn planned(bloom: &Bloom, rate: f64, items: u64, settings: Settings) -> Option<planner::Bloom> {
    Some(planner::Bloom {
        maker: settings.maker.unwrap_or(Maker::Own),
        ..bloom.plan(rate, items)?
    })
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
        let least = reach.saturating_mul(2).max(with_headroom(items));
        let larger = planned(bloom, row.rate?, least, settings)?;
        let reason = reason::near_capacity(percent(share), grouped(reach));
        return make_bloom(row, reason, &larger, settings);
    }
    let hit = ending_growth(row, bloom, reach, settings)?;
    let end = if hit.len() == 1 { "ends" } else { "end" };
    let names_end = format!("{} {end}", names(&hit));
    let reason = reason::near_reach(percent(share), grouped(reach), names_end);
    Some(Advice::raise(reason, &hit))
}

/// Warns of a cuckoo filter that does not grow, and will take no more items soon.
fn nearly_full(row: &Row, filter: &Params, settings: Settings) -> Option<Advice> {
    let (share, capacity) = (row.full()?, row.capacity?);
    if share < NEAR {
        return None;
    }
    let why = reason::near_slots(percent(share));
    larger_cuckoo(row, filter, capacity.saturating_mul(2), &why, settings)
}

/// Warns of a cuckoo filter that has stacked half of the filters that it may, as a key does that nobody reserved. If each filter
/// is larger than the one before, the last two matter.
fn near_last_filter(row: &Row, filter: &Params, settings: Settings) -> Option<Advice> {
    let expansion = u64::from(filter.expansion);
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
    let slots = match expansion {
        1 => capacity.div_ceil(filters).saturating_mul(most),
        _ => capacity.saturating_mul(expansion),
    };
    let slots = slots.max(with_headroom(row.items?));
    let why = reason::near_filters(counted(filters, "filter"), grouped(most));
    larger_cuckoo(row, filter, slots, &why, settings)
}

/// Advises a cuckoo filter like this one, reserved for these slots or for the most that one can have.
fn larger_cuckoo(
    row: &Row,
    filter: &Params,
    slots: u64,
    why: &str,
    settings: Settings,
) -> Option<Advice> {
    let with = |capacity| {
        Shape::new(&Params {
            capacity,
            ..*filter
        })
    };
    let least = 2 * u64::from(filter.bucket_size);
    let capacity = slots.clamp(least, ranges::CAPACITY_MAX);
    let growing = Limits {
        filters: settings.cuckoo_filters.unwrap_or(u64::MAX),
        ..Limits::NONE
    };
    let reach = |capacity| with(capacity).map(|shape| shape.reach(&growing).0.slots);
    let is_larger = reach(capacity) > reach(filter.capacity.min(ranges::CAPACITY_MAX));
    let reason = if is_larger {
        reason::larger(why)
    } else {
        reason::largest(why)
    };
    let made = with(capacity)?.plan(0, &Limits::NONE).ok()?;
    let sizes = Sizes {
        filter: made.slots,
        object: stored(made.bytes),
    };
    let (size, moves, factor) = (filter.bucket_size, filter.max_iterations, filter.expansion);
    // The settings may have other defaults than this filter.
    let options = format!("BUCKETSIZE {size} MAXITERATIONS {moves} EXPANSION {factor}");
    let command = format!("CF.RESERVE {} {capacity} {options}", new_key(row));
    Some(Advice::make(reason, command, sizes, settings))
}

/// Warns of a value that grows and has nearly as many bytes as the limits allow.
fn near_memory(row: &Row, settings: Settings) -> Option<Advice> {
    let bytes = row.bytes?;
    let object = settings.object_limit.filter(|limit| *limit > 0);
    // A cuckoo filter consists of several filters, and other sketches of a single piece.
    let filter = match row.details {
        Details::Cuckoo(_) => None,
        _ => settings.filter_limit,
    };
    let limits = [
        filter.zip(Some(FILTER_MEMORY)),
        object.zip(Some(OBJECT_MEMORY)),
    ];
    let limits = limits.into_iter().flatten();
    let (limit, setting) = limits.min_by_key(|(limit, _)| *limit)?;
    let share = ratio(bytes, limit);
    (share >= NEAR).then(|| {
        let reason = reason::near_memory(percent(share), setting, grouped(limit));
        Advice::raise(reason, &[(setting, limit.saturating_mul(2))])
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
    let reason = reason::above_rate(two_digits(now), requested);
    make_bloom(row, reason, &larger, settings)
}

/// Advises a new filter for the items of a stack, if it is smaller or quicker.
fn reserve_anew(row: &Row, bloom: &Bloom, settings: Settings) -> Option<Advice> {
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
    make_bloom(row, reason, &new, settings)
}

/// Warns of a count-min sketch of 4 bytes a counter, whose counters may have reached their largest value.
fn saturated(
    row: &Row,
    width: u64,
    depth: u64,
    size: CellSize,
    settings: Settings,
) -> Option<Advice> {
    let (count, largest) = (row.items?, u64::from(u32::MAX));
    if count <= largest {
        return None;
    }
    let (new, option) = match size {
        CellSize::Eight => ("one with 8 bytes a counter", " CELL_SIZE 8"),
        _ => ("a new one", ""),
    };
    let reason = reason::saturated(grouped(largest), grouped(count), new);
    let command = format!("CMS.INITBYDIM {} {width} {depth}{option}", new_key(row));
    let counters = cms::Shape::new(width, depth, size)?.bytes()?;
    let bytes = stored(counters.saturating_add(CountMin::BASE_BYTES));
    let sizes = Sizes {
        filter: bytes,
        object: bytes,
    };
    Some(Advice::make(reason, command, sizes, settings))
}

/// Warns of a Top-K whose sketch is too narrow for the length of its list.
fn narrow(row: &Row, list: &TopK, settings: Settings) -> Option<Advice> {
    if !list.is_narrow() {
        return None;
    }
    let wide = TopK {
        width: TopK::advised_width(list.k),
        ..list.clone()
    };
    let bytes = wide.when_full()?;
    let reason = reason::narrow(
        counted(list.width, "cell"),
        grouped(list.k),
        grouped(wide.width),
        grouped(bytes),
        grouped(list.when_full()?),
    );
    let sizes = Sizes {
        filter: bytes,
        object: bytes,
    };
    let command = wide.command(&new_key(row));
    Some(Advice::make(reason, command, sizes, settings))
}

#[cfg(test)]
mod tests {
    use redis::Value as Reply;

    use super::*;
    use crate::info::Info;
    use crate::options;

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
                "Bucket size 2, Max iterations 20",
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
            bytes: matches!(kind, "MBbloomCF" | "TDIS-TYPE").then_some(950),
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
            let mut settings = settings.split(' ');
            let mut next = || settings.next().expect("a setting").parse().ok();
            let settings = Settings {
                filter_limit: next(),
                object_limit: next(),
                cuckoo_filters: next(),
                maker: settings.next().and_then(|name| options::maker(name).ok()),
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
            maker: None,
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
                Settings::default(),
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
                unlimited,
                "it has 16 filters, and refuses items once it has 32, which is bf.cf-max-expansions; fill a larger one, and \
                 rename it",
            ),
            (
                "cuckoo 65000000 33554432 1 0",
                unlimited,
                "96.9 % of its slots are taken, and it does not grow; fill a larger one, and rename it; first raise \
                 bf.bloom-filter-max-memory-usage, which refuses it",
            ),
            (
                "cuckoo 1000000000 536870912 1 0",
                Settings::default(),
                "93.1 % of its slots are taken, and it does not grow; none can be larger, so spread the items over several \
                 keys",
            ),
            (
                "top 49",
                unlimited,
                "its 49 cells a row are too few to find the 10 most frequent items; 200 a row take 12,064 bytes instead of \
                 3,608 with a full list",
            ),
            (
                "counts 4294967296 4",
                unlimited,
                "its counters end at 4,294,967,295, and it has counted 4,294,967,296, so frequent items may stand still; count \
                 in one with 8 bytes a counter",
            ),
            (
                "counts 4294967296 nil",
                unlimited,
                "its counters end at 4,294,967,295, and it has counted 4,294,967,296, so frequent items may stand still; count \
                 in a new one",
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
        let temporary = Row {
            key: b"k:valkeybloom-unfinished-000000000000002a:{k}".to_vec(),
            ..both
        };
        assert_eq!(commands(&temporary, Settings::default()), "");
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
}
