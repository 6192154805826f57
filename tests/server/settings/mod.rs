//! The settings: what they may be, where they can be given, and what each of them does.

mod effects;
mod given;
mod info;

use std::collections::BTreeSet;

use crate::harness::{Client, Reply, Server, error};

struct Setting {
    name: &'static str,
    /// The specification's name.
    alias: Option<&'static str>,
    default: &'static str,
    /// Another value, as it is set and as it is read.
    other: (&'static str, &'static str),
    /// Values that are refused, and why.
    wrong: &'static [(&'static str, &'static str)],
    /// The outermost values that are not.
    edges: &'static [&'static str],
}

const NO_INTEGER: &str = "argument couldn't be parsed into an integer";
const NO_MEMORY: &str = "argument must be a memory value";
const NO_SWITCH: &str = "argument must be 'yes' or 'no'";
const MAKERS: &str = "argument must be 'own', 'valkey-bloom' or 'redisbloom'";
const NO_RATE: &str = "argument must be a number between 0 and 1 exclusive";
const FROM_0: &str = "argument must be between 0 and 9223372036854775807 inclusive";
const FROM_1024: &str = "argument must be between 1024 and 9223372036854775807 inclusive";
const FROM_1: &str = "argument must be between 1 and 9223372036854775807 inclusive";
const TO_U32: &str = "argument must be between 0 and 4294967295 inclusive";

const WRONG_RATES: &[(&str, &str)] = &[
    ("0", NO_RATE),
    ("1", NO_RATE),
    ("-0.1", NO_RATE),
    ("1.5", NO_RATE),
    ("nan", NO_RATE),
    ("inf", NO_RATE),
    ("x", NO_RATE),
    ("", NO_RATE),
];
const FIELDS: &str = "argument must be 'five', 'valkey-bloom' or 'all'";
const RATES: &[&str] = &["1e-300", "0.9999999999999999", "0.25"];
const WRONG_SWITCHES: &[(&str, &str)] = &[("maybe", NO_SWITCH), ("1", NO_SWITCH), ("", NO_SWITCH)];
const SWITCHES: &[&str] = &["yes", "no"];

const SETTINGS: [Setting; 14] = [
    Setting {
        name: "bf.bloom-capacity",
        alias: Some("bf.bloom_capacity"),
        default: "100000",
        other: ("500", "500"),
        wrong: &[
            ("0", FROM_1),
            ("-1", FROM_1),
            ("9223372036854775808", NO_INTEGER),
            ("x", NO_INTEGER),
            ("1.5", NO_INTEGER),
            ("", NO_INTEGER),
        ],
        edges: &["1", "9223372036854775807"],
    },
    Setting {
        name: "bf.bloom-expansion",
        alias: Some("bf.bloom_expansion_rate"),
        default: "2",
        other: ("3", "3"),
        wrong: &[("-1", TO_U32), ("4294967296", TO_U32), ("x", NO_INTEGER)],
        edges: &["0", "4294967295"],
    },
    Setting {
        name: "bf.bloom-fp-rate",
        alias: Some("bf.bloom_fp_rate"),
        default: "0.01",
        other: ("0.0625", "0.0625"),
        wrong: WRONG_RATES,
        edges: RATES,
    },
    Setting {
        name: "bf.bloom-tightening-ratio",
        alias: None,
        default: "0.5",
        other: ("0.75", "0.75"),
        wrong: WRONG_RATES,
        edges: RATES,
    },
    Setting {
        name: "bf.bloom-filter-max-memory-usage",
        alias: Some("bf.bloom_filter_max_memory_usage"),
        default: "67108864",
        other: ("32mb", "33554432"),
        wrong: &[
            ("0", FROM_1),
            ("-1", NO_MEMORY),
            ("x", NO_MEMORY),
            ("1tbb", NO_MEMORY),
        ],
        edges: &["1", "9223372036854775807"],
    },
    Setting {
        name: "bf.bloom-memory-usage-limit",
        alias: None,
        default: "0",
        other: ("1gb", "1073741824"),
        wrong: &[
            ("-1", NO_MEMORY),
            ("x", NO_MEMORY),
            ("9223372036854775808", FROM_0),
        ],
        edges: &["0", "9223372036854775807"],
    },
    Setting {
        name: "bf.bloom-large-item-threshold",
        alias: Some("bf.bloom_large_item_threshold"),
        default: "4096",
        other: ("64k", "64000"),
        wrong: &[("-1", NO_MEMORY), ("x", NO_MEMORY)],
        edges: &["0", "9223372036854775807"],
    },
    Setting {
        name: "bf.bloom-saturate-nonscaling",
        alias: None,
        default: "no",
        other: ("yes", "yes"),
        wrong: WRONG_SWITCHES,
        edges: SWITCHES,
    },
    Setting {
        name: "bf.bloom-new-filters",
        alias: None,
        default: "own",
        other: ("RedisBloom", "redisbloom"),
        wrong: &[("mine", MAKERS), ("", MAKERS)],
        edges: &["own", "valkey-bloom", "redisbloom"],
    },
    Setting {
        name: "bf.bloom-info-fields",
        alias: None,
        default: "five",
        other: ("ALL", "all"),
        wrong: &[("eight", FIELDS), ("", FIELDS)],
        edges: &["five", "valkey-bloom", "all"],
    },
    Setting {
        name: "bf.bloom-use-random-seed",
        alias: None,
        default: "yes",
        other: ("no", "no"),
        wrong: WRONG_SWITCHES,
        edges: SWITCHES,
    },
    Setting {
        name: "bf.bloom-feed-bytes",
        alias: None,
        default: "1048576",
        other: ("64kb", "65536"),
        wrong: &[("1023", FROM_1024), ("-1", NO_MEMORY), ("x", NO_MEMORY)],
        edges: &["1024", "9223372036854775807"],
    },
    Setting {
        name: "bf.bloom-defrag-enabled",
        alias: None,
        default: "yes",
        other: ("no", "no"),
        wrong: WRONG_SWITCHES,
        edges: SWITCHES,
    },
    Setting {
        name: "bf.bloom-info-alias",
        alias: None,
        default: "yes",
        other: ("no", "no"),
        wrong: WRONG_SWITCHES,
        edges: SWITCHES,
    },
];

/// Returns the value of a setting, or `None` if the server does not have it.
fn get(client: &mut Client, name: &str) -> Option<String> {
    let reported = client.cmd(&format!("CONFIG GET {name}"));
    let pair = reported.as_array();
    assert!(pair.len() <= 2, "{reported:?}");
    pair.get(1).map(Reply::text)
}

fn set(client: &mut Client, name: &str, value: &str) {
    client.ok(format!("CONFIG SET {name} {value}"));
}

/// Checks that all settings have these values, under each of their names.
#[track_caller]
fn assert_told(client: &mut Client, value: impl Fn(&Setting) -> &str) {
    for setting in &SETTINGS {
        let value = value(setting);
        for name in [Some(setting.name), setting.alias].into_iter().flatten() {
            assert_eq!(get(client, name).as_deref(), Some(value), "{name}");
        }
    }
}

fn default(setting: &Setting) -> &str {
    setting.default
}

fn other(setting: &Setting) -> &str {
    setting.other.1
}

fn refusal(name: &str, why: &str) -> Reply {
    error(&format!(
        "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
    ))
}

#[test]
fn settings_have_their_defaults_and_ranges() {
    let server = Server::start();
    let mut client = server.client();
    assert_told(&mut client, default);
    for setting in &SETTINGS {
        for name in [Some(setting.name), setting.alias].into_iter().flatten() {
            for (value, why) in setting.wrong {
                client.expect(format!("CONFIG SET {name} {value}"), refusal(name, why));
            }
            assert_told(&mut client, default);
            for value in setting.edges.iter().chain([&setting.default]) {
                set(&mut client, name, value);
                for name in [Some(setting.name), setting.alias].into_iter().flatten() {
                    assert_eq!(get(&mut client, name).as_deref(), Some(*value), "{name}");
                }
            }
            set(&mut client, &name.to_uppercase(), setting.other.0);
            let reported = get(&mut client, &name.to_uppercase());
            assert_eq!(reported.as_deref(), Some(setting.other.1));
            set(&mut client, name, setting.default);
        }
    }
    assert_told(&mut client, default);

    // Several settings are all set, or not at all.
    client.expect(
        "CONFIG SET bf.bloom-capacity 5 bf.bloom-fp-rate 0.5 bf.bloom-expansion -1",
        refusal("bf.bloom-expansion", TO_U32),
    );
    assert_told(&mut client, default);
    client.ok("CONFIG SET bf.bloom-capacity 5 bf.bloom_fp_rate 0.5");
    assert_eq!(get(&mut client, "bf.bloom_capacity").as_deref(), Some("5"));
    assert_eq!(get(&mut client, "bf.bloom-fp-rate").as_deref(), Some("0.5"));
}

#[test]
fn only_the_names_with_hyphens_are_listed() {
    let server = Server::start();
    let mut client = server.client();
    let names = |client: &mut Client, pattern: &str| -> BTreeSet<String> {
        let reported = client.cmd(&format!("CONFIG GET {pattern}"));
        let pairs = reported.as_array().chunks(2);
        let names = pairs.map(|pair| pair[0].text());
        let own = names.filter(|name| name.starts_with("bf.bloom"));
        own.collect()
    };
    let expected: BTreeSet<String> = SETTINGS.iter().map(|s| s.name.to_owned()).collect();
    assert_eq!(names(&mut client, "bf.*"), expected);
    assert_eq!(names(&mut client, "*"), expected);
    for pattern in ["bf.bloom_*", "*bloom_capacity", "bf.bloom_capacit?"] {
        assert_eq!(names(&mut client, pattern), BTreeSet::new(), "{pattern}");
    }
    assert_eq!(get(&mut client, "bf.bloom-nosuch"), None);
}
