//! Sources of settings: the config file, arguments of the module, and MODULE LOADEX; and that CONFIG REWRITE keeps
//! them.

use std::env;
use std::fmt::Write as _;

use valkeybloom_testing::loader::Dump;

use crate::harness::{Builder, Client, Server, array, error, int, ok};
use crate::support::protocols::field;

use super::{SETTINGS, Setting, assert_told, default, get, other, refusal};

fn module() -> String {
    env::var("VALKEYBLOOM_SO").expect("the harness asks for it, too")
}

/// Returns all settings, under the one name or the other, each made into a line or a pair of words.
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

fn before(lines: &[String]) -> Builder {
    let lines = lines.iter();
    lines.fold(Server::builder(), |builder, line| {
        builder.before_module(line)
    })
}

fn after(lines: &[String]) -> Builder {
    let lines = lines.iter();
    lines.fold(Server::builder(), |builder, line| {
        builder.after_module(line)
    })
}

fn with_args(lines: &[String]) -> Builder {
    let words: Vec<&str> = lines.iter().map(String::as_str).collect();
    Server::builder().module_args(&words)
}

/// Starts a server, which then loads the module with these words.
#[track_caller]
fn load(words: &str) -> Server {
    let server = Server::builder().without_module().start();
    let loaded = server
        .client()
        .cmd(&format!("MODULE LOADEX {} {words}", module()));
    assert_eq!(loaded, ok(), "{words}: {}", server.log());
    server
}

#[test]
fn every_source_sets_every_setting_under_each_name() {
    for alias in [false, true] {
        let [lines, short] = [line, without_prefix].map(|form| all_of(alias, form));
        let config = all_of(alias, |name, value| format!("CONFIG {name} {value}"));
        for server in [
            before(&lines).start(),
            after(&lines).start(),
            with_args(&lines).start(),
            with_args(&short).start(),
            load(&format!("ARGS {}", lines.join(" "))),
            load(&format!("ARGS {}", short.join(" "))),
            load(&config.join(" ")),
        ] {
            assert_told(&mut server.client(), other);
        }
    }
}

#[test]
fn one_source_goes_before_another() {
    let capacity_is = |server: &Server, value: &str| {
        for name in ["bf.bloom-capacity", "bf.bloom_capacity"] {
            let reported = get(&mut server.client(), name);
            assert_eq!(reported.as_deref(), Some(value), "{name}");
        }
    };
    // Under two names the same setting: the one with hyphens wins, or the later argument.
    let [hyphen, underscore] = ["bf.bloom-capacity 6", "bf.bloom_capacity 5"];
    for server in [
        Server::builder()
            .before_module(hyphen)
            .after_module(underscore)
            .start(),
        Server::builder()
            .before_module(underscore)
            .after_module(hyphen)
            .start(),
        Server::builder()
            .module_args(&[underscore, "bloom-capacity 6"])
            .start(),
        load(&format!("CONFIG {hyphen} CONFIG {underscore}")),
    ] {
        capacity_is(&server, "6");
    }
    // A line of the config file goes before an argument, also back to the default.
    let args = [
        "BLOOM_CAPACITY 500",
        "bloom-fp-rate 0.5",
        "bloom-expansion 7",
    ];
    let server = Server::builder()
        .module_args(&args)
        .before_module("bf.bloom_capacity 100000")
        .after_module("bf.bloom-fp-rate 0.25")
        .start();
    capacity_is(&server, "100000");
    for (name, value) in [("bf.bloom_fp_rate", "0.25"), ("bf.bloom-expansion", "7")] {
        let reported = get(&mut server.client(), name);
        assert_eq!(reported.as_deref(), Some(value), "{name}");
    }
}

/// Names and values that no source takes.
const WRONG: [(&str, &str); 8] = [
    ("bloom-capacity", "0"),
    ("bloom_capacity", "x"),
    ("bloom-capacity", "01"),
    ("bloom-expansion", "+3"),
    ("bloom-fp-rate", "1"),
    ("bloom-use-random-seed", "maybe"),
    ("bloom-filter-max-memory-usage", "-1"),
    ("cms-encoding", "2"),
];

#[test]
fn a_server_does_not_start_with_a_wrong_value() {
    let refused = |builder: Builder, about: &str| {
        let log = builder.try_start().err();
        let log = log.unwrap_or_else(|| panic!("it starts with {about}"));
        assert!(log.contains(about), "{about} is not in:\n{log}");
    };
    for (name, value) in WRONG {
        let line = format!("bf.{name} {value}");
        refused(Server::builder().before_module(&line), name);
        refused(Server::builder().after_module(&line), name);
        refused(
            Server::builder().module_args(&["bloom-expansion 3", &line]),
            name,
        );
    }
    for (args, about) in [
        ("nosuch 1", "nosuch"),
        ("CF_MAX_EXPANSIONS 0", "CF_MAX_EXPANSIONS"),
        ("bloom-capacity", "bloom-capacity"),
        ("bloom-capacity 5 bloom-fp-rate", "bloom-fp-rate"),
    ] {
        refused(Server::builder().module_args(&[args]), about);
    }
    refused(Server::builder().after_module("bf.nosuch 1"), "onfig");
}

#[test]
fn loadex_fails_with_a_wrong_value_and_the_server_goes_on() {
    let so = module();
    for wrong in [
        "ARGS bloom-capacity 5 bloom-expansion x",
        "ARGS nosuch 1",
        "CONFIG bf.bloom_capacity 7 CONFIG bf.bloom-fp-rate 1",
        "CONFIG bf.families bf",
        "ARGS families bf",
        "ARGS families bloom cf-bucket-size 4",
    ] {
        let server = Server::builder().without_module().start();
        let mut client = server.client();
        let refused = error("ERR Error loading the extension. Please check the server logs.");
        client.expect(format!("MODULE LOADEX {so} {wrong}"), &refused);
        // Nothing of the module is left to be called.
        client.run_all(["INFO everything", "SET k v", "FLUSHALL", "SWAPDB 0 1"]);
        assert!(client.cmd("BF.ADD k a").is_error());
        client.expect("CONFIG GET bf.*", array([]));
        // And what was given then is forgotten.
        let loaded = client.cmd(&format!("MODULE LOADEX {so}"));
        assert_eq!(loaded, ok(), "{}", server.log());
        assert_told(&mut client, default);
        client.expect("BF.ADD k a", int(1));
        assert_eq!(field(&mut client, "k", "CAPACITY"), 100_000);
        assert_eq!(server.info("bf")["bf_bloom_num_objects"], "1");
    }
}

/// Rewrites the config file, restarts, and expects the settings to be the same, twice.
#[track_caller]
fn assert_kept(server: &mut Server, value: impl Fn(&Setting) -> &str) {
    for _ in 0..2 {
        server.client().ok("CONFIG REWRITE");
        server.restart();
        assert_told(&mut server.client(), &value);
    }
}

#[test]
fn config_rewrite_keeps_what_was_set() {
    let all = |form: fn(&Setting) -> &str| {
        let mut line = "CONFIG SET".to_owned();
        for setting in SETTINGS.iter() {
            write!(line, " {} {}", setting.name, form(setting)).unwrap();
        }
        line
    };
    for mut server in [
        Server::start(),
        // Arguments in the line that loads the module change the default.
        with_args(&all_of(false, line)).start(),
        // The names that are given are not those that are set.
        before(&all_of(true, line)).start(),
        load(&all_of(true, |name, value| format!("CONFIG {name} {value}")).join(" ")),
    ] {
        for form in [other, default] {
            server.client().ok(all(form));
            assert_kept(&mut server, form);
        }
    }
    // Settings that were not set did not change either.
    assert_kept(&mut with_args(&all_of(false, line)).start(), other);
    assert_kept(&mut Server::start(), default);
}

/// A type is registered with its encoding, and a family with its commands: these settings are fixed then.
#[test]
fn fixed_settings_are_given_in_any_source() {
    let encodes = |client: &mut Client| {
        client.cmd("CMS.INITBYDIM k 7 3");
        let dump = Dump::of(client.cmd("DUMP k").as_bytes()).expect("a module's value");
        assert_eq!(dump.version, 1);
    };
    let serves = |client: &mut Client| {
        client.run("CMS.INITBYDIM k 7 3");
        assert!(client.cmd("BF.ADD b a").is_error());
        client.run("DEL k");
    };
    let rows: [(_, _, _, _, fn(&mut Client)); 2] = [
        (
            "families",
            "TopK,topk,CMS",
            "cms,topk",
            ["cms", "bloom"],
            serves,
        ),
        ("cms-encoding", "1", "1", ["0", "1"], encodes),
    ];
    for (name, value, kept, others, check) in rows {
        let (short, line) = (format!("{name} {value}"), format!("bf.{name} {value}"));
        let other = format!("{name} {}", others[0]);
        for mut server in [
            Server::builder().module_args(&[&short]).start(),
            Server::builder()
                .module_args(&[&other, &line.to_uppercase()])
                .start(),
            Server::builder().before_module(&line).start(),
            // A line of the config file goes before an argument.
            Server::builder()
                .module_args(&[&other])
                .after_module(&line)
                .start(),
            load(&format!("ARGS {short}")),
            load(&format!("CONFIG {line} ARGS {other}")),
        ] {
            for _ in 0..2 {
                let mut client = server.client();
                let name = format!("bf.{name}");
                assert_eq!(get(&mut client, &name).as_deref(), Some(kept));
                for value in others {
                    let refused = refusal(&name, "can't set immutable config");
                    client.expect(format!("CONFIG SET {name} {value}"), refused);
                }
                check(&mut client);
                client.ok("CONFIG REWRITE");
                server.restart();
            }
        }
    }
}

#[test]
fn the_module_stays() {
    let (_server, mut client) = Server::with_client();
    let why = "the module exports one or more module-side data types, can't unload";
    let refused = error(&format!("ERR Error unloading module: {why}"));
    client.expect("MODULE UNLOAD bf", &refused);
    let again = client.cmd(&format!("MODULE LOADEX {}", module()));
    assert!(again.is_error());
    client.expect("BF.ADD k a", int(1));
}
