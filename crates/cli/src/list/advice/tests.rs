//! Tests of the advice on rows that lines of text describe.

use std::iter;

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
fn each_case_has_its_advice() {
    let lines = include_str!("cases.txt").lines();
    let mut lines = lines.filter(|line| !line.starts_with('#')).peekable();
    while let Some(case) = lines.next() {
        let (figures, settings) = case.split_once(" / ").expect("settings");
        let mut settings = settings.split(' ');
        let mut next = || settings.next().expect("a setting").parse().ok();
        let settings = Settings {
            filter_limit: next(),
            object_limit: next(),
            cuckoo_filters: next(),
            maker: settings.next().and_then(|name| options::maker(name).ok()),
        };
        let expected = iter::from_fn(|| lines.next_if(|line| line.starts_with(' ')));
        let expected: Vec<&str> = expected.map(str::trim_start).collect();
        let found = advice(&row(figures), settings);
        let found: Vec<String> = found.iter().map(Advice::to_string).collect();
        assert_eq!(found, expected, "{case}");
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
    let [advice] = &advice(&unused(30), Settings::default())[..] else {
        panic!("one piece of advice")
    };
    let text = "it was not used for 30 days; delete it if nobody needs it: UNLINK k";
    assert_eq!(advice.to_string(), text);
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
