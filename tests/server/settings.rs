//! The settings: what they may be, where they can be given, and what each of them does.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write as _;

use bloomfilter::Bloom;

use crate::harness::{Client, Reply, Server, array, bulk, error, int, nil, ok};
use crate::pieces::pieces;
use crate::protocols::{field, truths, with_fixed_seed};

struct Setting {
    name: &'static str,
    /// The specification's name.
    alias: Option<&'static str>,
    default: &'static str,
    /// Another value, as it is given and as it is told.
    other: (&'static str, &'static str),
    /// Values that are refused, and why.
    wrong: &'static [(&'static str, &'static str)],
    /// The outermost values that are not.
    edges: &'static [&'static str],
}

const NO_INTEGER: &str = "argument couldn't be parsed into an integer";
const NO_MEMORY: &str = "argument must be a memory value";
const NO_SWITCH: &str = "argument must be 'yes' or 'no'";
const NO_RATE: &str = "argument must be a number between 0 and 1 exclusive";
const FROM_0: &str = "argument must be between 0 and 9223372036854775807 inclusive";
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
const RATES: &[&str] = &["1e-300", "0.9999999999999999", "0.25"];
const WRONG_SWITCHES: &[(&str, &str)] = &[("maybe", NO_SWITCH), ("1", NO_SWITCH), ("", NO_SWITCH)];
const SWITCHES: &[&str] = &["yes", "no"];

const SETTINGS: [Setting; 11] = [
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
        name: "bf.bloom-use-random-seed",
        alias: None,
        default: "yes",
        other: ("no", "no"),
        wrong: WRONG_SWITCHES,
        edges: SWITCHES,
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

/// The value of a setting, or `None` for what the server does not know.
fn get(client: &mut Client, name: &str) -> Option<String> {
    let told = client.cmd(&format!("CONFIG GET {name}"));
    let pair = told.as_array();
    assert!(pair.len() <= 2, "{told:?}");
    pair.get(1).map(Reply::text)
}

fn set(client: &mut Client, name: &str, value: &str) {
    let reply = client.cmd(&format!("CONFIG SET {name} {value}"));
    assert_eq!(reply, ok(), "{name} {value}");
}

/// All settings have these values, under each of their names.
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
                let refused = client.cmd(&format!("CONFIG SET {name} {value}"));
                assert_eq!(refused, refusal(name, why), "{value}");
            }
            assert_told(&mut client, default);
            for value in setting.edges.iter().chain([&setting.default]) {
                set(&mut client, name, value);
                for name in [Some(setting.name), setting.alias].into_iter().flatten() {
                    assert_eq!(get(&mut client, name).as_deref(), Some(*value), "{name}");
                }
            }
            set(&mut client, &name.to_uppercase(), setting.other.0);
            let told = get(&mut client, &name.to_uppercase());
            assert_eq!(told.as_deref(), Some(setting.other.1));
            set(&mut client, name, setting.default);
        }
    }
    assert_told(&mut client, default);

    // Of several settings all are set, or none.
    let several = "CONFIG SET bf.bloom-capacity 5 bf.bloom-fp-rate 0.5 bf.bloom-expansion -1";
    assert_eq!(client.cmd(several), refusal("bf.bloom-expansion", TO_U32));
    assert_told(&mut client, default);
    let several = "CONFIG SET bf.bloom-capacity 5 bf.bloom_fp_rate 0.5";
    assert_eq!(client.cmd(several), ok());
    assert_eq!(get(&mut client, "bf.bloom_capacity").as_deref(), Some("5"));
    assert_eq!(get(&mut client, "bf.bloom-fp-rate").as_deref(), Some("0.5"));
}

#[test]
fn only_the_names_with_hyphens_are_listed() {
    let server = Server::start();
    let mut client = server.client();
    let names = |client: &mut Client, pattern: &str| -> BTreeSet<String> {
        let told = client.cmd(&format!("CONFIG GET {pattern}"));
        let pairs = told.as_array().chunks(2);
        let names = pairs.map(|pair| pair[0].text());
        let own = names.filter(|name| name.starts_with("bf.") && !name.starts_with("bf.cf-"));
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

#[test]
fn new_objects_are_made_as_the_settings_say() {
    let server = Server::start();
    let mut client = server.client();
    set(&mut client, "bf.bloom-capacity", "500");
    set(&mut client, "bf.bloom-expansion", "3");
    set(&mut client, "bf.bloom-fp-rate", "0.0625");
    set(&mut client, "bf.bloom-tightening-ratio", "0.75");
    let told = |client: &mut Client, key: &str| {
        let info = client.cmd(&format!("BF.INFO {key}"));
        let fields = info.as_array();
        [1, 9, 11, 13].map(|index| fields[index].clone())
    };
    let expected = [int(500), int(3), bulk("0.0625"), bulk("0.75")];
    for (key, create) in [
        ("a", "BF.ADD a item"),
        ("m", "BF.MADD m item"),
        ("i", "BF.INSERT i"),
    ] {
        assert!(!client.cmd(create).is_error());
        assert_eq!(told(&mut client, key), expected, "{create}");
    }
    // What a command says goes before.
    assert_eq!(client.cmd("BF.RESERVE r 0.5 7"), ok());
    let expected = [int(7), int(3), bulk("0.5"), bulk("0.75")];
    assert_eq!(told(&mut client, "r"), expected);
    let insert = "BF.INSERT o CAPACITY 8 ERROR 0.25 EXPANSION 4 TIGHTENING 0.125";
    assert_eq!(client.cmd(insert), array([]));
    let expected = [int(8), int(4), bulk("0.25"), bulk("0.125")];
    assert_eq!(told(&mut client, "o"), expected);

    // The ratio gives each filter its rate: p·(1 − r)·r^i.
    assert_eq!(client.cmd("BF.RESERVE t 0.0625 1 EXPANSION 1"), ok());
    let mut items = 0;
    while field(&mut client, "t", "FILTERS") < 3 {
        client.cmd(&format!("BF.ADD t {items}"));
        items += 1;
    }
    let lines = client.cmd("BF.DEBUG t");
    let rates = lines.as_array()[1..].iter().map(|line| {
        let line = line.text();
        line.split_once(" ratio:")
            .unwrap()
            .1
            .parse::<f64>()
            .unwrap()
    });
    let expected = [1.0, 0.75, 0.5625].map(|power| 0.0625 * 0.25 * power);
    for (rate, expected) in rates.zip(expected) {
        assert!((rate / expected - 1.0).abs() < 1e-12, "{rate} {expected}");
    }

    // An expansion of 0 makes objects that do not grow, unless the command says otherwise.
    set(&mut client, "bf.bloom-expansion", "0");
    assert_eq!(client.cmd("BF.ADD fixed item"), int(1));
    assert_eq!(client.cmd("BF.INFO fixed EXPANSION"), array([nil()]));
    assert_eq!(client.cmd("BF.INFO fixed").as_array().len(), 14);
    assert_eq!(client.cmd("BF.RESERVE scaling 0.01 10 EXPANSION 2"), ok());
    assert_eq!(field(&mut client, "scaling", "EXPANSION"), 2);
    assert_eq!(client.cmd("BF.RESERVE fixed2 0.01 10"), ok());
    assert_eq!(client.cmd("BF.INFO fixed2 EXPANSION"), array([nil()]));
    // A setting does not reach what exists.
    assert_eq!(field(&mut client, "a", "EXPANSION"), 3);
}

#[test]
fn memory_limits_bind() {
    let server = Server::start();
    let mut client = server.client();
    let refused = error("ERR operation exceeds bloom object memory limit");
    // 122 bytes of bitmap and 45 before them.
    set(&mut client, "bf.bloom-filter-max-memory-usage", "166");
    assert_eq!(client.cmd("BF.RESERVE a 0.01 100 NONSCALING"), refused);
    set(&mut client, "bf.bloom_filter_max_memory_usage", "167");
    assert_eq!(client.cmd("BF.RESERVE a 0.01 100 NONSCALING"), ok());
    let size = field(&mut client, "a", "SIZE");
    set(&mut client, "bf.bloom-filter-max-memory-usage", "64mb");

    // All that the object takes.
    set(
        &mut client,
        "bf.bloom-memory-usage-limit",
        &(size - 1).to_string(),
    );
    assert_eq!(client.cmd("BF.RESERVE b 0.01 100 NONSCALING"), refused);
    set(
        &mut client,
        "bf.bloom-memory-usage-limit",
        &size.to_string(),
    );
    assert_eq!(client.cmd("BF.RESERVE b 0.01 100 NONSCALING"), ok());
    assert_eq!(field(&mut client, "b", "SIZE"), size);
    set(&mut client, "bf.bloom-memory-usage-limit", "0");
    assert_eq!(client.cmd("BF.RESERVE c 0.01 1000000"), ok());
}

#[test]
fn large_objects_are_freed_in_the_background() {
    let server = Server::start();
    let mut client = server.client();
    let freed = |server: &Server| server.info("memory")["lazyfreed_objects"].clone();
    // 64000 bytes and more.
    let reserve = "BF.RESERVE k 0.01 60000 NONSCALING";
    assert_eq!(client.cmd("CONFIG RESETSTAT"), ok());
    for (threshold, expected) in [("1mb", "0"), ("4096", "1"), ("128kb", "1"), ("0", "2")] {
        set(&mut client, "bf.bloom_large_item_threshold", threshold);
        assert_eq!(client.cmd(reserve), ok());
        assert_eq!(client.cmd("UNLINK k"), int(1));
        crate::harness::wait_until("nothing is left to be freed", || {
            server.info("memory")["lazyfree_pending_objects"] == "0"
        });
        assert_eq!(freed(&server), expected, "{threshold}");
    }
}

/// The seed in the header of an object.
fn seed(client: &mut Client, key: &str) -> Vec<u8> {
    pieces(client, key)[0].1[51..83].to_vec()
}

#[test]
fn the_seed_is_random_or_the_fixed_one() {
    const FIXED: [u8; 32] = [
        89, 15, 245, 34, 234, 120, 17, 218, 167, 20, 216, 9, 59, 62, 123, 217, 29, 137, 138, 115,
        62, 152, 136, 135, 48, 127, 151, 205, 40, 7, 51, 131,
    ];
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.cmd("BF.ADD a item"), int(1));
    assert_eq!(client.cmd("BF.ADD b item"), int(1));
    let (a, b) = (seed(&mut client, "a"), seed(&mut client, "b"));
    assert!(a != b && a != FIXED && b != FIXED);

    set(&mut client, "bf.bloom-use-random-seed", "no");
    assert_eq!(client.cmd("BF.ADD c item"), int(1));
    assert_eq!(client.cmd("BF.RESERVE d 0.01 100 NONSCALING"), ok());
    assert_eq!(seed(&mut client, "c"), FIXED);
    assert_eq!(seed(&mut client, "d"), FIXED);
    // The positions by which the format is known: the crate's, in 122 bytes.
    assert_eq!(client.cmd("BF.ADD d item"), int(1));
    let header = &pieces(&mut client, "d")[0].1;
    let blob = [
        &header[header.len() - 16 - 45..header.len() - 16],
        &[0; 122],
    ]
    .concat();
    let mut theirs = Bloom::<[u8]>::from_bytes(blob).expect("a filter of the crate");
    theirs.set(b"item");
    assert_eq!(pieces(&mut client, "d")[1].1, theirs.as_slice()[45..]);

    // A seed that is given goes before.
    let given = [7; 32];
    let insert: [&[u8]; 6] = [b"BF.INSERT", b"e", b"SEED", &given, b"ITEMS", b"item"];
    assert_eq!(client.call(&insert), truths(false, &[true]));
    assert_eq!(seed(&mut client, "e"), given);
    set(&mut client, "bf.bloom-use-random-seed", "yes");
    assert_eq!(client.cmd("BF.ADD f item"), int(1));
    assert_ne!(seed(&mut client, "f"), FIXED);
}

#[test]
fn a_full_object_goes_on_where_the_settings_say_so() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.cmd("BF.RESERVE k 0.01 100 NONSCALING"), ok());
    set(&mut client, "bf.bloom-saturate-nonscaling", "yes");
    let mut items = 0;
    // Some of these are taken for known ones.
    while client.cmd("BF.CARD k").as_int() < 150 {
        assert!(!client.cmd(&format!("BF.ADD k {items}")).is_error());
        items += 1;
    }
    for item in 0..items {
        assert_eq!(client.cmd(&format!("BF.EXISTS k {item}")), int(1));
    }
    assert_eq!(field(&mut client, "k", "FILTERS"), 1);
    assert_eq!(field(&mut client, "k", "CAPACITY"), 100);
    set(&mut client, "bf.bloom-saturate-nonscaling", "no");
    let full = error("ERR non scaling filter is full");
    let mut new = 0..1000;
    assert!(new.any(|i| client.cmd(&format!("BF.ADD k new{i}")) == full));
    assert_eq!(client.cmd("BF.CARD k"), int(150));
}

fn module() -> String {
    env::var("VALKEYBLOOM_SO").expect("the harness asks for it, too")
}

/// All settings, under the one name or the other, each made into a line or a pair of words.
fn all_of(alias: bool, form: impl Fn(&str, &str) -> String) -> Vec<String> {
    let named = SETTINGS.iter().map(|setting| {
        let name = setting.alias.filter(|_| alias).unwrap_or(setting.name);
        form(name, setting.other.0)
    });
    named.collect()
}

fn line(name: &str, value: &str) -> String {
    format!("{name} {value}")
}

fn without_prefix(name: &str, value: &str) -> String {
    format!("{} {value}", name.strip_prefix("bf.").unwrap())
}

#[test]
fn a_config_file_sets_before_and_after_loadmodule() {
    for alias in [false, true] {
        let lines = all_of(alias, line);
        let before = lines.iter().fold(Server::builder(), |builder, line| {
            builder.before_module(line)
        });
        assert_told(&mut before.start().client(), other);
        let after = lines.iter().fold(Server::builder(), |builder, line| {
            builder.after_module(line)
        });
        assert_told(&mut after.start().client(), other);
    }
    // Under two names the same setting: the one with hyphens wins.
    for names in [
        ["bf.bloom-capacity 6", "bf.bloom_capacity 5"],
        ["bf.bloom_capacity 5", "bf.bloom-capacity 6"],
    ] {
        let server = Server::builder()
            .before_module(names[0])
            .after_module(names[1])
            .start();
        let mut client = server.client();
        for name in ["bf.bloom-capacity", "bf.bloom_capacity"] {
            assert_eq!(get(&mut client, name).as_deref(), Some("6"), "{names:?}");
        }
    }
}

#[test]
fn module_arguments_set() {
    for alias in [false, true] {
        for form in [line, without_prefix] {
            let words = all_of(alias, form);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let server = Server::builder().module_args(&words).start();
            assert_told(&mut server.client(), other);
        }
    }
    // A line of the config file goes before an argument, also back to the default.
    let server = Server::builder()
        .module_args(&[
            "bloom-capacity 500",
            "BLOOM_FP_RATE 0.5",
            "bloom-expansion 7",
        ])
        .before_module("bf.bloom_capacity 100000")
        .after_module("bf.bloom-fp-rate 0.25")
        .start();
    let mut client = server.client();
    for (name, value) in [
        ("bf.bloom-capacity", "100000"),
        ("bf.bloom_capacity", "100000"),
        ("bf.bloom-fp-rate", "0.25"),
        ("bf.bloom_fp_rate", "0.25"),
        ("bf.bloom-expansion", "7"),
    ] {
        assert_eq!(get(&mut client, name).as_deref(), Some(value), "{name}");
    }
    // The server tells the arguments.
    let modules = client.cmd("MODULE LIST");
    let own = modules
        .as_array()
        .iter()
        .find(|module| module.as_array()[1] == bulk("bf"));
    let args = own.unwrap().as_array()[7].as_array();
    let words = [
        "bloom-capacity",
        "500",
        "BLOOM_FP_RATE",
        "0.5",
        "bloom-expansion",
        "7",
    ];
    assert_eq!(args, words.map(bulk));
    // Under two names it is one setting.
    let server = Server::builder()
        .module_args(&["bloom_capacity 500", "bf.bloom-capacity 600"])
        .start();
    let mut client = server.client();
    for name in ["bf.bloom-capacity", "bf.bloom_capacity"] {
        assert_eq!(get(&mut client, name).as_deref(), Some("600"), "{name}");
    }
}

#[test]
fn loadex_sets() {
    let so = module();
    for alias in [false, true] {
        for form in [line, without_prefix] {
            let server = Server::builder().without_module().start();
            let mut client = server.client();
            let args = all_of(alias, form).join(" ");
            let loaded = client.cmd(&format!("MODULE LOADEX {so} ARGS {args}"));
            assert_eq!(loaded, ok(), "{}", server.log());
            assert_told(&mut client, other);
        }
        let server = Server::builder().without_module().start();
        let mut client = server.client();
        let config = all_of(alias, |name, value| format!("CONFIG {name} {value}")).join(" ");
        let loaded = client.cmd(&format!("MODULE LOADEX {so} {config}"));
        assert_eq!(loaded, ok(), "{}", server.log());
        assert_told(&mut client, other);
    }

    let server = Server::builder().without_module().start();
    let mut client = server.client();
    let both = "CONFIG bf.bloom-capacity 6 CONFIG bf.bloom_capacity 5";
    assert_eq!(client.cmd(&format!("MODULE LOADEX {so} {both}")), ok());
    for name in ["bf.bloom-capacity", "bf.bloom_capacity"] {
        assert_eq!(get(&mut client, name).as_deref(), Some("6"), "{name}");
    }

    // A rewritten config file loads the module and has its settings.
    let mut server = Server::builder().without_module().start();
    let mut client = server.client();
    let loaded = client.cmd(&format!(
        "MODULE LOADEX {so} CONFIG bf.bloom_capacity 7 CONFIG bf.bloom-fp-rate 0.25 ARGS bloom-expansion 5 bloom-fp-rate 0.5"
    ));
    assert_eq!(loaded, ok(), "{}", server.log());
    for restarted in [false, true] {
        let mut client = server.client();
        for (name, value) in [
            ("bf.bloom-capacity", "7"),
            ("bf.bloom_capacity", "7"),
            ("bf.bloom_fp_rate", "0.25"),
            ("bf.bloom_expansion_rate", "5"),
        ] {
            let told = get(&mut client, name);
            assert_eq!(told.as_deref(), Some(value), "{name} {restarted}");
        }
        if !restarted {
            assert_eq!(client.cmd("CONFIG REWRITE"), ok());
            server.restart();
        }
    }
}

#[test]
fn a_server_does_not_start_with_a_wrong_value() {
    let refused = |builder: crate::harness::Builder, about: &str| {
        let log = builder
            .try_start()
            .err()
            .unwrap_or_else(|| panic!("it starts with {about}"));
        assert!(log.contains(about), "{about} is not in:\n{log}");
    };
    for (name, value) in [
        ("bloom-capacity", "0"),
        ("bloom_capacity", "x"),
        ("bloom-capacity", "01"),
        ("bloom-expansion", "+3"),
        ("bloom-fp-rate", "1"),
        ("bloom-use-random-seed", "maybe"),
        ("bloom-filter-max-memory-usage", "-1"),
    ] {
        let line = format!("bf.{name} {value}");
        refused(Server::builder().before_module(&line), name);
        refused(Server::builder().after_module(&line), name);
        let args = format!("{name} {value}");
        refused(Server::builder().module_args(&[&args]), name);
        refused(
            Server::builder().module_args(&["bloom-expansion 3", &line]),
            name,
        );
    }
    refused(Server::builder().module_args(&["nosuch 1"]), "nosuch");
    refused(
        Server::builder().module_args(&["bloom-capacity"]),
        "bloom-capacity",
    );
    refused(
        Server::builder().module_args(&["bloom-capacity 5 bloom-fp-rate"]),
        "bloom-fp-rate",
    );
    refused(Server::builder().after_module("bf.nosuch 1"), "onfig");
}

#[test]
fn loadex_fails_with_a_wrong_value_and_the_server_goes_on() {
    let so = module();
    for wrong in [
        "ARGS bloom-capacity 0",
        "ARGS bloom-capacity 5 bloom-expansion x",
        "ARGS nosuch 1",
        "ARGS bloom-capacity",
        "CONFIG bf.bloom-capacity 0",
        "CONFIG bf.bloom_capacity 7 CONFIG bf.bloom-fp-rate 1",
    ] {
        let server = Server::builder().without_module().start();
        let mut client = server.client();
        let refused = error("ERR Error loading the extension. Please check the server logs.");
        assert_eq!(
            client.cmd(&format!("MODULE LOADEX {so} {wrong}")),
            refused,
            "{wrong}"
        );
        // Nothing of the module is left to be called.
        for command in [
            "PING",
            "INFO bloom",
            "SET k v",
            "FLUSHALL",
            "SWAPDB 0 1",
            "INFO everything",
        ] {
            let reply = client.try_call(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            assert!(
                reply.is_ok(),
                "after {wrong} the server breaks down at {command}: {reply:?}"
            );
        }
        assert!(client.cmd("BF.ADD k a").is_error());
        assert_eq!(client.cmd("CONFIG GET bf.*"), array([]));
        // And what was given then is forgotten.
        assert_eq!(
            client.cmd(&format!("MODULE LOADEX {so}")),
            ok(),
            "{}",
            server.log()
        );
        assert_told(&mut client, default);
        assert_eq!(client.cmd("BF.ADD k a"), int(1));
        assert_eq!(field(&mut client, "k", "CAPACITY"), 100_000);
        assert!(
            client
                .cmd("INFO bloom")
                .text()
                .contains("bf_bloom_num_objects:1\r\n")
        );
        assert_eq!(client.cmd("FLUSHALL"), ok());
        assert!(
            client
                .cmd("INFO bloom")
                .text()
                .contains("bf_bloom_num_objects:0\r\n")
        );
    }
}

/// Rewrites the config file, restarts, and expects the settings to be the same, twice.
#[track_caller]
fn assert_kept(server: &mut Server, value: impl Fn(&Setting) -> &str) {
    for _ in 0..2 {
        assert_eq!(server.client().cmd("CONFIG REWRITE"), ok());
        server.restart();
        assert_told(&mut server.client(), &value);
    }
}

#[test]
fn config_rewrite_keeps_what_was_set() {
    let all = |form: fn(&Setting) -> &str| {
        SETTINGS
            .iter()
            .fold("CONFIG SET".to_owned(), |mut line, setting| {
                write!(line, " {} {}", setting.name, form(setting)).unwrap();
                line
            })
    };
    let args = all_of(false, line);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let aliases = all_of(true, line);
    let starts = [
        Server::builder(),
        // The default is another where the line that loads the module has arguments.
        Server::builder().module_args(&args),
        // The names that are given are not those that are set.
        aliases.iter().fold(Server::builder(), |builder, line| {
            builder.before_module(line)
        }),
    ];
    for start in starts {
        let mut server = start.start();
        for form in [other, default, other] {
            assert_eq!(server.client().cmd(&all(form)), ok());
            assert_kept(&mut server, form);
        }
    }
    // What was not set is as before, too.
    assert_kept(&mut Server::builder().module_args(&args).start(), other);
    assert_kept(&mut Server::start(), default);
}

#[test]
fn the_module_stays() {
    let server = Server::start();
    let mut client = server.client();
    let why = "the module exports one or more module-side data types, can't unload";
    let refused = error(&format!("ERR Error unloading module: {why}"));
    assert_eq!(client.cmd("MODULE UNLOAD bf"), refused);
    assert_eq!(client.cmd("BF.ADD k a"), int(1));
    assert!(
        client
            .cmd(&format!("MODULE LOADEX {}", module()))
            .is_error()
    );
    assert_eq!(client.cmd("BF.ADD k a"), int(0));
}

#[test]
fn info_bloom_is_info_bf() {
    let server = with_fixed_seed();
    for mut client in [server.client(), server.client3()] {
        assert_eq!(client.cmd("FLUSHALL"), ok());
        assert_eq!(client.cmd("BF.RESERVE k 0.01 100"), ok());
        assert!(!client.cmd("BF.MADD k a b c").is_error());
        let own = client.cmd("INFO bf");
        let size = field(&mut client, "k", "SIZE");
        let sections = format!(
            "# bf_bloom_core_metrics\r\n\
             bf_bloom_total_memory_bytes:{size}\r\n\
             bf_bloom_num_objects:1\r\n\
             bf_bloom_num_filters_across_objects:1\r\n\
             bf_bloom_num_items_across_objects:3\r\n\
             bf_bloom_capacity_across_objects:100\r\n\
             bf_bloom_num_redisbloom_objects:0\r\n\
             bf_bloom_num_half_loaded_objects:0\r\n\
             bf_bloom_max_filters_in_object:1\r\n\
             \r\n\
             # bf_bloom_defrag_metrics\r\n\
             bf_bloom_defrag_hits:0\r\n\
             bf_bloom_defrag_misses:0\r\n\
             \r\n\
             # bf_cuckoo_core_metrics\r\n\
             bf_cuckoo_total_memory_bytes:0\r\n\
             bf_cuckoo_num_objects:0\r\n\
             bf_cuckoo_num_filters_across_objects:0\r\n\
             bf_cuckoo_num_items_across_objects:0\r\n\
             bf_cuckoo_num_slots_across_objects:0\r\n\
             bf_cuckoo_max_filters_in_object:0\r\n\
             \r\n\
             # bf_carried_metrics\r\n\
             bf_carried_num_values:0\r\n\
             bf_carried_memory_bytes:0\r\n"
        );
        assert_eq!(own.text(), sections);
        for command in [
            "INFO bloom",
            "info BLOOM",
            "Info Bloom",
            "INFO bf bloom",
            "INFO bloom bloom",
        ] {
            assert_eq!(client.cmd(command), own, "{command}");
        }
        for command in [
            "INFO modules",
            "INFO everything",
            "INFO server bloom",
            "INFO bloom server",
            "INFO all bloom",
            "INFO default bloom keyspace",
            "INFO everything bloom",
        ] {
            let told = client.cmd(command).text();
            assert!(told.contains(&sections), "{command}: {told}");
            let others = told.contains("# Server\r\n");
            assert_eq!(others, command != "INFO modules", "{command}");
        }
        for command in ["INFO blooms", "INFO bloo", "INFO bloom_"] {
            assert_eq!(client.cmd(command).text(), "", "{command}");
        }

        assert_eq!(client.cmd("MULTI"), ok());
        client.cmd("INFO bloom");
        client.cmd("INFO server bloom");
        let told = client.cmd("EXEC");
        assert_eq!(told.as_array()[0], own);
        assert!(told.as_array()[1].text().contains(&sections));
        let script: [&[u8]; 3] = [b"EVAL", b"return redis.call('info', 'Bloom')", b"0"];
        assert_eq!(client.call(&script).text(), sections);
    }
}

#[test]
fn info_bloom_is_nothing_where_the_settings_say_so() {
    let server = Server::with(&[("bf.bloom-info-alias", "no")]);
    let mut client = server.client();
    let script: [&[u8]; 3] = [b"EVAL", b"return redis.call('INFO', 'bloom')", b"0"];
    // The server says how many filters a module has.
    let filters = |client: &mut Client| {
        let told = client.cmd("INFO modules").text();
        let own = told
            .lines()
            .find(|line| line.starts_with("module:name=bf,"))
            .unwrap();
        let count = own.split("filters=").nth(1).unwrap().split(',').next();
        count.unwrap().to_owned()
    };
    for on in [false, true, false, true, true, false] {
        set(
            &mut client,
            "bf.bloom-info-alias",
            if on { "yes" } else { "no" },
        );
        let own = client.cmd("INFO bf");
        assert!(own.text().contains("# bf_bloom_core_metrics\r\n"));
        let expected = if on { own } else { bulk("") };
        assert_eq!(client.cmd("INFO bloom"), expected);
        assert_eq!(client.cmd("INFO BLOOM"), expected);
        assert_eq!(client.call(&script), expected);
        assert_eq!(filters(&mut client), u8::from(on).to_string());
    }
    // Nothing but INFO reads the word.
    set(&mut client, "bf.bloom-info-alias", "yes");
    assert_eq!(client.cmd("SET bloom bloom"), ok());
    assert_eq!(client.cmd("GET bloom"), bulk("bloom"));
    assert_eq!(client.cmd("ECHO bloom"), bulk("bloom"));
}
