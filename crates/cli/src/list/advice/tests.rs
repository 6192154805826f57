//! Tests of the advice on rows that lines of text describe.

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
            "it has 16 filters of the 32 that bf.cf-max-expansions allows, and refuses items once all are full; fill a larger one, and \
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
    assert_eq!(commands(&both, Settings::default()), "UNLINK k");
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
