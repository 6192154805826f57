//! The server's description of the commands and of the module.

use std::collections::BTreeSet;

use crate::acl::has_categories;
use crate::harness::{Reply, Server, array, bulk, int};
use crate::support::commands::{self, Access, BLOOM, Command};

/// Returns the flags of each key specification, and its index.
fn specs(command: &Command) -> Vec<(BTreeSet<String>, i64)> {
    let reads = set(&["RO", "access"]);
    let has_sources = !command.sources().is_empty();
    let first = match command.access {
        Access::Read => reads.clone(),
        Access::Remove => set(&["RW", "delete"]),
        Access::Write if has_sources => set(&["RW", "access", "insert"]),
        Access::Write => set(&["RW", "insert"]),
        Access::Change => set(&["RW", "update"]),
        Access::ReadAndChange => set(&["RW", "access", "update"]),
    };
    let sources = has_sources.then_some((reads, 2));
    [(first, 1)].into_iter().chain(sources).collect()
}

fn words(reply: &Reply) -> BTreeSet<String> {
    reply.as_array().iter().map(Reply::text).collect()
}

fn set(words: &[&str]) -> BTreeSet<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns the value of a name in a map.
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

/// The types of arguments, by name. Arguments that are composed, or are a token alone, have other types.
const TYPES: [(&str, &str); 4] = [
    (
        "double",
        "decay error error_rate high_cut_quantile low_cut_quantile probability quantile tightening_ratio value",
    ),
    (
        "integer",
        "bucketsize capacity cell_size compression cursor depth expansion increment max_count maxiterations milliseconds \
         numkeys period_ms periods position rank reverse_rank scale_to seconds topk ttl_ms validate_scale_to weight width",
    ),
    ("key", "key receipt source"),
    ("string", "cursor data dump item seed"),
];

/// Checks the type and the key specification of an argument, and those of its parts.
#[track_caller]
fn has_its_type(argument: &Reply) {
    let name = text(argument, "name").unwrap();
    let kind = text(argument, "type").unwrap();
    let known = TYPES
        .iter()
        .filter(|(_, names)| names.split(' ').any(|known| known == name));
    let mut known: Vec<_> = known.map(|(kind, _)| *kind).collect();
    if known.is_empty() || kind == "pure-token" {
        known = vec!["block", "oneof", "pure-token"];
    }
    assert!(known.contains(&&*kind), "{name}: {kind}");
    if let Some(parts) = get(argument, "arguments") {
        parts.as_array().iter().for_each(has_its_type);
    }
    // Newer servers add a text to show to arguments without parts.
    if let Some(display) = text(argument, "display_text") {
        assert_eq!(display, name);
    }
    let key = get(argument, "key_spec_index").map(Reply::as_int);
    let spec = i64::from(name != "key");
    assert_eq!(key, (kind == "key").then_some(spec), "{name}");
}

/// The commands whose replies clients should not cache: those of RedisBloom 8.10, and BF.READ.
const UNCACHED: [&str; 9] = [
    "bf.info",
    "bf.debug",
    "bf.scandump",
    "bf.read",
    "cf.info",
    "cf.debug",
    "cf.scandump",
    "cms.info",
    "tdigest.info",
];

#[test]
fn command_info_tells_arity_flags_keys_and_categories() {
    let server = Server::start();
    let version = server.version();
    let mut client = server.client3();
    for command in commands::all() {
        let name = &*command.name();
        let reply = client.cmd(&format!("COMMAND INFO {name}"));
        let [reported] = reply.as_array() else {
            panic!("not one command: {reply:?}");
        };
        let reported = reported.as_array();
        assert_eq!(reported[0], bulk(name));
        assert_eq!(reported[1], int(command.arity), "{name}");
        assert_eq!(words(&reported[2]), flags_of(command), "{name}");
        let specs = specs(command);
        let ends_in_sources = specs.len() > 1 && !command.has_numbered_sources();
        let last = if ends_in_sources { -1 } else { 1 };
        assert_eq!(reported[3..6], [int(1), int(last), int(1)], "{name}");
        let categories = if has_categories(&version) {
            categories_of(command)
        } else {
            BTreeSet::new()
        };
        assert_eq!(words(&reported[6]), categories, "{name}");
        let tips = UNCACHED.contains(&name).then_some("dont_cache");
        assert_eq!(words(&reported[7]), set(tips.as_slice()), "{name}");

        let (fixed, optional) = reported[8].as_array().split_at(specs.len());
        is_of_option(optional, command);
        for (spec, (flags, index)) in fixed.iter().zip(specs) {
            assert_eq!(words(get(spec, "flags").unwrap()), flags, "{name}");
            is_at(spec, command, index);
        }
        assert_eq!(
            words(&reported[9]),
            BTreeSet::new(),
            "{name} has no subcommands"
        );
    }
}

fn flags_of(command: &Command) -> BTreeSet<String> {
    let mut flags = set(&["module"]);
    flags.extend(match command.access {
        Access::Read => set(&["readonly"]),
        // Removals may run where memory is short.
        Access::Remove => set(&["write"]),
        _ => set(&["write", "denyoom"]),
    });
    if command.has_numbered_sources() || command.key_option().is_some() {
        flags.insert("movablekeys".to_owned());
    }
    if command.fast {
        flags.insert("fast".to_owned());
    }
    flags
}

fn categories_of(command: &Command) -> BTreeSet<String> {
    let access = if command.writes() { "@write" } else { "@read" };
    let speed = if command.fast { "@fast" } else { "@slow" };
    let name = command.name();
    let (family, _) = name.split_once('.').expect("a prefix");
    let own = match family {
        "bf" => "@bloom",
        "cf" => "@cuckoo",
        family => &format!("@{family}"),
    };
    set(&[access, speed, own])
}

/// Checks the specification of the keys that begin at an index among the words.
#[track_caller]
fn is_at(spec: &Reply, command: &Command, index: i64) {
    let name = command.name();
    let found = |what: &str, kind: &str, numbers: &[(&str, i64)]| {
        let how = get(spec, what).unwrap();
        assert_eq!(text(how, "type").unwrap(), kind, "{name}");
        for (field, number) in numbers {
            let reported = get(get(how, "spec").unwrap(), field);
            assert_eq!(reported, Some(&int(*number)), "{name} {field}");
        }
    };
    found("begin_search", "index", &[("index", index)]);
    let step = ("keystep", 1);
    if index == 2 && command.has_numbered_sources() {
        let numbers = [("keynumidx", 0), ("firstkey", 1), step];
        found("find_keys", "keynum", &numbers);
    } else {
        let last = if index == 2 { -1 } else { 0 };
        let numbers = [("lastkey", last), step, ("limit", 0)];
        found("find_keys", "range", &numbers);
    }
}

/// Checks the specification of a key after an option. Items may be the same word, so the server has to ask for it.
#[track_caller]
fn is_of_option(specs: &[Reply], command: &Command) {
    assert_eq!(specs.len(), usize::from(command.key_option().is_some()));
    for (spec, option) in specs.iter().zip(command.key_option()) {
        let flags = set(&["RW", "access", "update", "variable_flags"]);
        assert_eq!(words(get(spec, "flags").unwrap()), flags);
        let begin = get(spec, "begin_search").unwrap();
        assert_eq!(text(begin, "type").as_deref(), Some("keyword"));
        let keyword = text(get(begin, "spec").unwrap(), "keyword");
        assert_eq!(keyword.as_deref(), Some(option));
    }
}

/// The pages are compared with the summary, the complexity and the syntax in `pages`.
#[test]
fn command_docs_have_every_field() {
    let server = Server::start();
    let mut client = server.client3();
    for command in commands::all() {
        let name = &*command.name();
        let reply = client.cmd(&format!("COMMAND DOCS {name}"));
        let docs = get(&reply, name).unwrap();
        for (field, expected) in [("since", "3.0.0"), ("group", "module"), ("module", "bf")] {
            assert_eq!(text(docs, field).as_deref(), Some(expected), "{name}");
        }
        assert!(text(docs, "summary").unwrap().ends_with('.'), "{name}");
        let complexity = text(docs, "complexity").unwrap();
        assert!(complexity.starts_with("O("), "{name}: {complexity}");
        let arguments = get(docs, "arguments").unwrap().as_array();
        assert_eq!(text(&arguments[0], "name").as_deref(), Some("key"));
        arguments.iter().for_each(has_its_type);
        let Reply::Map(fields) = docs else {
            panic!("not a map: {docs:?}");
        };
        assert_eq!(fields.len(), 6, "{name}: {fields:?}");
    }
}

#[test]
fn the_server_finds_the_key() {
    let server = Server::start();
    let mut client = server.client3();
    for command in commands::all() {
        let line = command.on("k");
        let expected = [&["k"], command.sources()].concat();
        client.expect(
            format!("COMMAND GETKEYS {line}"),
            array(expected.iter().copied().map(bulk)),
        );
        let keys = client.cmd(&format!("COMMAND GETKEYSANDFLAGS {line}"));
        let specs = specs(command);
        assert_eq!(keys.as_array().len(), expected.len(), "{line}");
        for (index, (pair, key)) in keys.as_array().iter().zip(expected).enumerate() {
            let (flags, _) = &specs[index.min(specs.len() - 1)];
            assert_eq!(pair.as_array()[0], bulk(key), "{line}");
            assert_eq!(words(&pair.as_array()[1]), *flags, "{line}");
        }
    }
}

#[test]
fn the_module_has_these_commands_and_this_version() {
    let server = Server::start();
    let mut client = server.client3();
    let names: BTreeSet<String> = commands::all().map(Command::name).collect();
    let registered = words(&client.cmd("COMMAND LIST FILTERBY MODULE bf"));
    assert_eq!(registered, names);
    let listed = words(&client.cmd("COMMAND LIST"));
    assert_eq!(
        listed.iter().filter(|name| name.starts_with("bf.")).count(),
        BLOOM.len()
    );

    let reply = client.cmd("MODULE LIST");
    let modules = reply.as_array().iter();
    let mut own = modules.filter(|module| text(module, "name").as_deref() == Some("bf"));
    let reported = own.next().unwrap();
    assert_eq!(own.next(), None);
    let parts = env!("CARGO_PKG_VERSION").split('.');
    let version = parts.fold(0, |version, part| {
        version * 100 + part.parse::<i64>().unwrap()
    });
    assert_eq!(get(reported, "ver"), Some(&int(version)));
    // Clients take this version for a ReBloom that has BF.CARD, and not for a RedisBloom 8.
    assert!((20405..80000).contains(&version));
    assert_eq!(get(reported, "args"), Some(&array([])));
}
