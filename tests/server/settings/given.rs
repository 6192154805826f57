//! Sources of settings: the config file, arguments of the module, and MODULE LOADEX; and that CONFIG REWRITE keeps
//! them.

use std::env;
use std::fmt::Write as _;

use crate::harness::{Builder, Server, array, bulk, error, int, ok};
use crate::support::protocols::field;

use super::{SETTINGS, Setting, assert_told, default, get, other};

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
fn module_arguments_set_the_settings() {
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
    // The server lists the arguments.
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
fn loadex_sets_the_settings() {
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
            let reported = get(&mut client, name);
            assert_eq!(reported.as_deref(), Some(value), "{name} {restarted}");
        }
        if !restarted {
            assert_eq!(client.cmd("CONFIG REWRITE"), ok());
            server.restart();
        }
    }
}

#[test]
fn a_server_does_not_start_with_a_wrong_value() {
    let refused = |builder: Builder, about: &str| {
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
        // Arguments in the line that loads the module change the default.
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
    // The other settings did not change either.
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
