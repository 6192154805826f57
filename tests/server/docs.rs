//! What a server tells of the commands and of the module.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::acl::has_categories;
use crate::cuckoo;
use crate::harness::{Reply, Server, array, bulk, int, ok, simple};
use crate::support::population::Population;
use crate::support::sketches;

/// What a command is told to be.
pub struct Told {
    pub name: &'static str,
    pub arity: i64,
    pub write: bool,
    pub fast: bool,
    pub summary: &'static str,
    pub complexity: &'static str,
    /// Behind the key, as [`shown`] writes them.
    pub arguments: &'static [&'static str],
    /// The command with arguments, for the server to find the key `k` in.
    pub example: &'static str,
}

static COMMANDS: [Told; 17] = [
    Told {
        name: "bf.add",
        arity: 3,
        write: true,
        fast: true,
        summary: "Adds an item to a bloom filter. Creates the filter if it does not exist.",
        complexity: "O(N), where N is the number of stacked filters.",
        arguments: &["item string"],
        example: "BF.ADD k item",
    },
    Told {
        name: "bf.madd",
        arity: -3,
        write: true,
        fast: true,
        summary: "Adds items to a bloom filter. Creates the filter if it does not exist.",
        complexity: "O(N * K), where N is the number of stacked filters and K the number of items.",
        arguments: &["item string multiple"],
        example: "BF.MADD k a b c",
    },
    Told {
        name: "bf.exists",
        arity: 3,
        write: false,
        fast: true,
        summary: "Checks whether an item was added to a bloom filter.",
        complexity: "O(N), where N is the number of stacked filters.",
        arguments: &["item string"],
        example: "BF.EXISTS k item",
    },
    Told {
        name: "bf.mexists",
        arity: -3,
        write: false,
        fast: true,
        summary: "Checks for each item whether it was added to a bloom filter.",
        complexity: "O(N * K), where N is the number of stacked filters and K the number of items.",
        arguments: &["item string multiple"],
        example: "BF.MEXISTS k a b c",
    },
    Told {
        name: "bf.card",
        arity: 2,
        write: false,
        fast: true,
        summary: "Returns the number of items that were new to a bloom filter when they were added.",
        complexity: "O(N), where N is the number of periods of its window; O(1) without one.",
        arguments: &[],
        example: "BF.CARD k",
    },
    Told {
        name: "bf.reserve",
        arity: -4,
        write: true,
        fast: true,
        summary: "Creates a bloom filter with an error rate and a capacity.",
        complexity: "O(1)",
        arguments: &[
            "error_rate double",
            "capacity integer",
            "growth oneof optional (expansion integer token EXPANSION, nonscaling pure-token token NONSCALING)",
            "kind oneof optional (window block (period_ms integer token WINDOW, periods integer token PERIODS), counting pure-token token COUNTING)",
            "expiration oneof optional (seconds integer token EX, milliseconds integer token PX)",
            "condition pure-token token NX optional",
        ],
        example: "BF.RESERVE k 0.01 100 EXPANSION 2",
    },
    Told {
        name: "bf.insert",
        arity: -2,
        write: true,
        fast: true,
        summary: "Creates a bloom filter with the given parameters unless it exists, and adds items to it.",
        complexity: "O(N * K), where N is the number of stacked filters and K the number of items.",
        arguments: &[
            "capacity integer token CAPACITY optional",
            "error_rate double token ERROR optional",
            "growth oneof optional (expansion integer token EXPANSION, nonscaling pure-token token NONSCALING)",
            "kind oneof optional (window block (period_ms integer token WINDOW, periods integer token PERIODS), counting pure-token token COUNTING)",
            "nocreate pure-token token NOCREATE optional",
            "tightening_ratio double token TIGHTENING optional",
            "seed string token SEED optional",
            "validate_scale_to integer token VALIDATESCALETO optional",
            "ttl_ms integer token TTL optional",
            "id integer token ID optional",
            "items block optional (items_token pure-token token ITEMS, item string multiple)",
        ],
        example: "BF.INSERT k CAPACITY 100 ITEMS a b c",
    },
    Told {
        name: "bf.info",
        arity: -2,
        write: false,
        fast: true,
        summary: "Returns the parameters, size and fill of a bloom filter.",
        complexity: "O(N), where N is the number of stacked filters.",
        arguments: &["field oneof optional (capacity pure-token token CAPACITY, \
            size pure-token token SIZE, filters pure-token token FILTERS, \
            items pure-token token ITEMS, expansion pure-token token EXPANSION, \
            error pure-token token ERROR, tightening pure-token token TIGHTENING, \
            maxscaledcapacity pure-token token MAXSCALEDCAPACITY, \
            estimatederror pure-token token ESTIMATEDERROR, window pure-token token WINDOW, \
            periods pure-token token PERIODS, liveperiods pure-token token LIVEPERIODS)"],
        example: "BF.INFO k SIZE",
    },
    Told {
        name: "bf.load",
        arity: -3,
        write: true,
        fast: false,
        summary: "Restores a bloom filter from its dump, as written to an AOF.",
        complexity: "O(N), where N is the size of the dump.",
        arguments: &["dump string", "ttl_ms integer optional"],
        example: "BF.LOAD k dump 1000",
    },
    Told {
        name: "bf.scandump",
        arity: 3,
        write: false,
        fast: false,
        summary: "Returns one chunk of a bloom filter, and the cursor of the next.",
        complexity: "O(N + S), where N is the number of stacked filters and S the size of the chunk.",
        arguments: &["cursor integer"],
        example: "BF.SCANDUMP k 0",
    },
    Told {
        name: "bf.loadchunk",
        arity: 4,
        write: true,
        fast: false,
        summary: "Restores a bloom filter chunk by chunk.",
        complexity: "O(S), where S is the size of the chunk; with the last one, that of all.",
        arguments: &["cursor integer", "data string"],
        example: "BF.LOADCHUNK k 1 data",
    },
    Told {
        name: "bf.debug",
        arity: 2,
        write: false,
        fast: false,
        summary: "Returns the sizes of each filter in a bloom filter's stack.",
        complexity: "O(N), where N is the number of stacked filters.",
        arguments: &[],
        example: "BF.DEBUG k",
    },
    Told {
        name: "bf.del",
        arity: -3,
        write: true,
        fast: true,
        summary: "Removes an item once from a counting bloom filter, if it is certain which filter of its stack holds it.",
        complexity: "O(N), where N is the number of stacked filters.",
        arguments: &["item string", "id integer token ID optional"],
        example: "BF.DEL k item ID 5",
    },
    Told {
        name: "bf.mdel",
        arity: -3,
        write: true,
        fast: true,
        summary: "Removes items from a counting bloom filter, each as BF.DEL without ID does.",
        complexity: "O(N * K), where N is the number of stacked filters and K the number of items.",
        arguments: &["item string multiple"],
        example: "BF.MDEL k a b",
    },
    Told {
        name: "bf.count",
        arity: 3,
        write: false,
        fast: true,
        summary: "Returns how often, at most, an item was added to a counting bloom filter and not removed.",
        complexity: "O(N), where N is the number of stacked filters.",
        arguments: &["item string"],
        example: "BF.COUNT k item",
    },
    Told {
        name: "bf.missing",
        arity: -3,
        write: false,
        fast: true,
        summary: "Counts the distinct items that are not in a bloom filter.",
        complexity: "O(N * K), where N is the number of stacked filters and K the number of items.",
        arguments: &["item string multiple"],
        example: "BF.MISSING k a b",
    },
    Told {
        name: "bf.merge",
        arity: -3,
        write: true,
        fast: false,
        summary: "Merges bloom filters into one. Creates it if it does not exist.",
        complexity: "O(N), where N is the size of all filters.",
        arguments: &["source key multiple"],
        example: "BF.MERGE k other another",
    },
];

/// The commands for every kind of object.
fn commands() -> impl Iterator<Item = &'static Told> {
    COMMANDS.iter().chain(&cuckoo::COMMANDS)
}

/// Of each key specification: its flags, its index, and its last key counted from there.
fn specs(command: &Told) -> Vec<(BTreeSet<String>, i64, i64)> {
    let reads = set(&["RO", "access"]);
    match command.name {
        "bf.merge" => vec![(set(&["RW", "access", "insert"]), 1, 0), (reads, 2, -1)],
        "bf.del" | "bf.mdel" | "cf.del" | "cf.compact" => vec![(set(&["RW", "delete"]), 1, 0)],
        _ if command.write => vec![(set(&["RW", "insert"]), 1, 0)],
        _ => vec![(reads, 1, 0)],
    }
}

fn words(reply: &Reply) -> BTreeSet<String> {
    reply.as_array().iter().map(Reply::text).collect()
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The value of a name in a map.
fn get<'r>(map: &'r Reply, name: &str) -> Option<&'r Reply> {
    let Reply::Map(pairs) = map else {
        panic!("not a map: {map:?}");
    };
    let pair = pairs.iter().find(|(key, _)| key.text() == name);
    pair.map(|(_, value)| value)
}

fn text(map: &Reply, name: &str) -> Option<String> {
    get(map, name).map(Reply::text)
}

/// An argument in one line: name, type, token, flags, and what it is composed of.
fn shown(argument: &Reply) -> String {
    let name = text(argument, "name").unwrap();
    let kind = text(argument, "type").unwrap();
    let mut line = format!("{name} {kind}");
    if let Some(token) = text(argument, "token") {
        write!(line, " token {token}").unwrap();
    }
    for flag in get(argument, "flags").map(words).unwrap_or_default() {
        write!(line, " {flag}").unwrap();
    }
    if let Some(parts) = get(argument, "arguments") {
        let parts: Vec<String> = parts.as_array().iter().map(shown).collect();
        write!(line, " ({})", parts.join(", ")).unwrap();
    }
    // Newer servers tell a text to show, too, for all that is not composed.
    if let Some(display) = text(argument, "display_text") {
        assert_eq!(display, name);
    }
    let key = get(argument, "key_spec_index").map(Reply::as_int);
    let spec = i64::from(name == "source");
    assert_eq!(key, (kind == "key").then_some(spec), "{line}");
    line
}

#[test]
fn command_info_tells_arity_flags_keys_and_categories() {
    let server = Server::start();
    let version = server.version();
    let mut client = server.client3();
    for command in commands() {
        let reply = client.cmd(&format!(
            "COMMAND INFO {}",
            command.example.split(' ').next().unwrap()
        ));
        let [told] = reply.as_array() else {
            panic!("not one command: {reply:?}");
        };
        let told = told.as_array();
        assert_eq!(told[0], bulk(command.name));
        let name = command.name;
        assert_eq!(told[1], int(command.arity), "{name}");
        let mut flags = set(&["module"]);
        let specs = specs(command);
        flags.extend(if !command.write {
            set(&["readonly"])
        } else if specs[0].0.contains("delete") {
            // What takes away may run where memory is short.
            set(&["write"])
        } else {
            set(&["write", "denyoom"])
        });
        if command.fast {
            flags.insert("fast".to_owned());
        }
        assert_eq!(words(&told[2]), flags, "{name}");
        let last = if specs.len() > 1 { -1 } else { 1 };
        assert_eq!(told[3..6], [int(1), int(last), int(1)], "{name}");
        let categories = if has_categories(&version) {
            let access = if command.write { "@write" } else { "@read" };
            let speed = if command.fast { "@fast" } else { "@slow" };
            let own = if name.starts_with("cf.") {
                "@cuckoo"
            } else {
                "@bloom"
            };
            set(&[access, speed, own])
        } else {
            BTreeSet::new()
        };
        assert_eq!(words(&told[6]), categories, "{name}");
        assert_eq!(words(&told[7]), BTreeSet::new(), "{name} has no tips");

        assert_eq!(told[8].as_array().len(), specs.len(), "{name}");
        for (spec, (flags, index, last)) in told[8].as_array().iter().zip(specs) {
            assert_eq!(words(get(spec, "flags").unwrap()), flags, "{name}");
            let found = |what: &str, kind: &str, numbers: &[(&str, i64)]| {
                let how = get(spec, what).unwrap();
                assert_eq!(text(how, "type").unwrap(), kind, "{name}");
                for (field, number) in numbers {
                    let told = get(get(how, "spec").unwrap(), field);
                    assert_eq!(told, Some(&int(*number)), "{name} {field}");
                }
            };
            found("begin_search", "index", &[("index", index)]);
            found(
                "find_keys",
                "range",
                &[("lastkey", last), ("keystep", 1), ("limit", 0)],
            );
        }
        assert_eq!(
            words(&told[9]),
            BTreeSet::new(),
            "{name} has no subcommands"
        );
    }
}

#[test]
fn merging_has_the_keys_of_the_servers_own_merge() {
    let server = Server::start();
    let mut client = server.client3();
    let mut keys = |name: &str| {
        let reply = client.cmd(&format!("COMMAND INFO {name}"));
        reply.as_array()[0].as_array()[8].clone()
    };
    assert_eq!(keys("BF.MERGE"), keys("PFMERGE"));
}

#[test]
fn command_docs_tell_everything() {
    let server = Server::start();
    let mut client = server.client3();
    for command in commands() {
        let name = command.name;
        let reply = client.cmd(&format!("COMMAND DOCS {name}"));
        let told = get(&reply, name).unwrap();
        let texts = [
            ("summary", command.summary),
            ("complexity", command.complexity),
            ("since", "3.0.0"),
            ("group", "module"),
            ("module", "bf"),
        ];
        for (field, expected) in texts {
            assert_eq!(
                text(told, field).as_deref(),
                Some(expected),
                "{name} {field}"
            );
        }
        let arguments = get(told, "arguments").unwrap().as_array();
        let arguments: Vec<String> = arguments.iter().map(shown).collect();
        assert_eq!(arguments[0], "key key", "{name}");
        assert_eq!(arguments[1..], *command.arguments, "{name}");
        let Reply::Map(fields) = told else {
            panic!("not a map: {told:?}");
        };
        assert_eq!(fields.len(), 6, "{name}: {fields:?}");
    }
}

#[test]
fn the_server_finds_the_key() {
    let server = Server::start();
    let mut client = server.client3();
    for command in commands() {
        let line = command.example;
        let expected: &[&str] = match command.name {
            "bf.merge" => &["k", "other", "another"],
            _ => &["k"],
        };
        let keys = client.cmd(&format!("COMMAND GETKEYS {line}"));
        assert_eq!(keys, array(expected.iter().map(bulk)), "{line}");
        let keys = client.cmd(&format!("COMMAND GETKEYSANDFLAGS {line}"));
        let specs = specs(command);
        assert_eq!(keys.as_array().len(), expected.len(), "{line}");
        for (index, (pair, key)) in keys.as_array().iter().zip(expected).enumerate() {
            let (flags, ..) = &specs[index.min(specs.len() - 1)];
            assert_eq!(pair.as_array()[0], bulk(key), "{line}");
            assert_eq!(words(&pair.as_array()[1]), *flags, "{line}");
        }
    }
}

#[test]
fn the_module_has_these_commands_and_this_version() {
    let server = Server::start();
    let mut client = server.client3();
    let names: BTreeSet<String> = commands().map(|told| told.name.to_owned()).collect();
    let mut names_served = words(&client.cmd("COMMAND LIST FILTERBY MODULE bf"));
    names_served.retain(|name| sketches::is_served(name));
    assert_eq!(names_served, names);
    let listed = words(&client.cmd("COMMAND LIST"));
    assert_eq!(
        listed.iter().filter(|name| name.starts_with("bf.")).count(),
        COMMANDS.len()
    );

    let reply = client.cmd("MODULE LIST");
    let modules = reply.as_array().iter();
    let mut own = modules.filter(|module| text(module, "name").as_deref() == Some("bf"));
    let told = own.next().unwrap();
    assert_eq!(own.next(), None);
    let parts = env!("CARGO_PKG_VERSION").split('.');
    let version = parts.fold(0, |version, part| {
        version * 100 + part.parse::<i64>().unwrap()
    });
    assert_eq!(get(told, "ver"), Some(&int(version)));
    // What clients take for a ReBloom that has BF.CARD, and not for a RedisBloom 8.
    assert!((20405..80000).contains(&version));
    assert_eq!(get(told, "args"), Some(&array([])));
}

/// TYPE, SCAN and OBJECT tell the same of each type that the module has, and INFO and MODULE LIST of the module.
#[test]
fn every_type_is_told_alike() {
    let server = Server::start();
    let mut client = server.client();
    let population = Population::new(&mut client);
    let mut by_type: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for key in population.keys() {
        let type_name = client.cmd(&format!("TYPE {key}")).text();
        by_type.entry(type_name).or_default().insert(key.to_owned());
        assert_eq!(client.cmd(&format!("OBJECT ENCODING {key}")), bulk("raw"));
        assert_eq!(client.cmd(&format!("OBJECT REFCOUNT {key}")), int(1));
    }
    let types: BTreeSet<String> = by_type.keys().cloned().collect();
    let own = ["bloomfltr", "bloomfltx", "MBbloom--", cuckoo::TYPE];
    assert_eq!(types, set(&[&own[..], &sketches::TYPES].concat()));
    for text in ["text", "bloomfltr-text"] {
        assert_eq!(client.cmd(&format!("SET {text} x")), ok());
    }
    for (type_name, keys) in &by_type {
        let found = client.cmd(&format!("SCAN 0 COUNT 1000 TYPE {type_name}"));
        assert_eq!(found.as_array()[0], bulk("0"));
        assert_eq!(words(&found.as_array()[1]), *keys, "{type_name}");
    }
    let none = client.cmd("SCAN 0 COUNT 1000 TYPE bloomfilter");
    // Some servers refuse what is the name of no type.
    assert!(none.is_error() || none.as_array()[1] == array([]));

    let listed = client.cmd("MODULE LIST");
    let mut modules = listed.as_array().iter().map(Reply::as_array);
    let own = modules.find(|module| module[1] == bulk("bf")).unwrap();
    let told = format!("module:name=bf,ver={},", own[3].as_int());
    let info = client.cmd("INFO modules").text();
    assert_eq!(info.matches(&told).count(), 1, "{info}");
}

#[test]
fn statistics_have_the_name_of_the_command() {
    let server = Server::start();
    let mut client = server.client();
    for _ in 0..3 {
        client.cmd("BF.ADD k a");
    }
    assert!(client.cmd("bf.add k").is_error());
    assert!(client.cmd("BF.INFO none").is_error());
    assert_eq!(client.cmd("SET string v"), simple("OK"));
    assert!(client.cmd("BF.ADD string a").is_error());
    let stats = server.info("commandstats");
    let counted = |name: &str, field: &str| {
        let fields = stats[name].split(',');
        let mut fields = fields.filter_map(|part| part.split_once('='));
        fields
            .find(|(key, _)| *key == field)
            .unwrap()
            .1
            .parse::<u32>()
            .unwrap()
    };
    assert_eq!(counted("cmdstat_bf.add", "calls"), 4);
    assert_eq!(counted("cmdstat_bf.add", "rejected_calls"), 1);
    assert_eq!(counted("cmdstat_bf.add", "failed_calls"), 1);
    assert_eq!(counted("cmdstat_bf.info", "failed_calls"), 1);
    let errors = server.info("errorstats");
    assert_eq!(errors["errorstat_WRONGTYPE"], "count=1");
    assert_eq!(errors["errorstat_ERR"], "count=2");
}
