//! Users who may do some of it.

use std::collections::BTreeSet;

use crate::harness::{Client, Server, Version, array, error, int, ok, simple};
use crate::support::commands::{BLOOM, Command};
use crate::support::protocols::truths;

/// Returns whether a server has categories for the commands of a module.
pub fn has_categories(version: &Version) -> bool {
    let since = if version.valkey { (8, 0) } else { (7, 4) };
    (version.major, version.minor) >= since
}

/// The command with several keys.
const MERGE: &str = "bf.merge";

/// Returns the commands for Bloom filters that have one key.
fn commands() -> impl Iterator<Item = &'static Command> {
    BLOOM.iter().filter(|command| command.name() != MERGE)
}

fn user(client: &mut Client, name: &str, rules: &str) {
    let made = client.cmd(&format!("ACL SETUSER {name} reset on nopass {rules}"));
    assert_eq!(made, ok(), "{rules}");
}

/// Returns whether the server would let a user do this.
fn may(client: &mut Client, name: &str, command: &str) -> bool {
    let reported = client.cmd(&format!("ACL DRYRUN {name} {command}")).text();
    assert!(
        reported == "OK" || reported.contains("has no permissions"),
        "{reported}"
    );
    reported == "OK"
}

fn connect(server: &Server, name: &str) -> Client {
    let mut client = server.client();
    assert_eq!(client.cmd(&format!("AUTH {name} any")), ok());
    client
}

#[track_caller]
fn assert_refused(client: &mut Client, command: &str) {
    let reply = client.cmd(command);
    assert!(
        reply.is_error() && reply.text().starts_with("NOPERM "),
        "{command}: {reply:?}"
    );
}

#[test]
fn the_category_bloom_holds_these_commands() {
    let server = Server::start();
    let mut client = server.client();
    let version = server.version();
    let reported = client.cmd("ACL CAT bloom");
    if !has_categories(&version) {
        assert_eq!(reported, error("ERR Unknown category 'bloom'"));
        let refused = client.cmd("ACL SETUSER u on nopass ~* +@bloom");
        assert!(
            refused.is_error() && refused.text().contains("+@bloom"),
            "{refused:?}"
        );
        return;
    }
    let names: BTreeSet<String> = reported
        .as_array()
        .iter()
        .map(crate::harness::Reply::text)
        .collect();
    let expected: BTreeSet<String> = BLOOM.iter().map(Command::name).collect();
    // Valkey 8.0 has the category, and does not list the commands of modules.
    if !(names.is_empty() && version.valkey && version.major == 8) {
        assert_eq!(names, expected);
    }
    let categories = client.cmd("ACL CAT");
    assert!(
        categories
            .as_array()
            .iter()
            .any(|name| name.text() == "bloom")
    );
}

#[test]
fn categories_let_users_run_commands() {
    let server = Server::start();
    let mut client = server.client();
    let known = has_categories(&server.version());
    for category in ["read", "write", "fast", "slow"] {
        user(&mut client, category, &format!("~* -@all +@{category}"));
        user(
            &mut client,
            &format!("not_{category}"),
            &format!("~* +@all -@{category}"),
        );
    }
    if known {
        user(&mut client, "bloom", "~* -@all +@bloom");
        user(&mut client, "not_bloom", "~* +@all -@bloom");
        user(&mut client, "looks", "~* -@all +@bloom -@write");
    }
    for command in commands() {
        let line = command.on("k");
        let (writes, fast) = (command.writes(), command.fast);
        let categories = [
            ("read", !writes),
            ("write", writes),
            ("fast", fast),
            ("slow", !fast),
        ];
        for (category, within) in categories {
            // Servers without categories for modules put the commands into no category, not even @write.
            let within = within && known;
            assert_eq!(
                may(&mut client, category, &line),
                within,
                "{category} {line}"
            );
            let others = may(&mut client, &format!("not_{category}"), &line);
            assert_eq!(others, !within, "not {category} {line}");
        }
        if known {
            assert!(may(&mut client, "bloom", &line), "{line}");
            assert!(!may(&mut client, "not_bloom", &line), "{line}");
            assert_eq!(may(&mut client, "looks", &line), !writes, "{line}");
        }
    }
    if known {
        assert!(!may(&mut client, "bloom", "get k"));
        let mut own = connect(&server, "looks");
        assert_refused(&mut own, "BF.ADD k a");
        assert_eq!(own.cmd("BF.EXISTS k a"), int(0));
    }
}

#[test]
fn users_run_the_commands_that_they_were_given() {
    let server = Server::start();
    let mut client = server.client();
    user(&mut client, "some", "~* -@all +bf.add +bf.exists");
    user(&mut client, "most", "~* +@all -bf.load -bf.loadchunk");
    for command in commands() {
        let name = &*command.name();
        let line = command.on("k");
        let some = ["bf.add", "bf.exists"].contains(&name);
        assert_eq!(may(&mut client, "some", &line), some, "{line}");
        let most = !["bf.load", "bf.loadchunk"].contains(&name);
        assert_eq!(may(&mut client, "most", &line), most, "{line}");
    }
    let mut own = connect(&server, "some");
    assert_eq!(own.cmd("BF.ADD k a"), int(1));
    assert_eq!(own.cmd("bf.exists k a"), int(1));
    for command in [
        "BF.MADD k b",
        "bf.info k",
        "BF.CARD k",
        "BF.RESERVE other 0.01 100",
    ] {
        assert_refused(&mut own, command);
    }
    let name = if server.version().valkey {
        "User some"
    } else {
        "this user"
    };
    let refused = format!("NOPERM {name} has no permissions to run the 'bf.card' command");
    assert_eq!(own.cmd("BF.CARD k"), error(&refused));
    assert_eq!(client.cmd("BF.CARD k"), int(1));
    assert_eq!(client.cmd("EXISTS other"), int(0));
}

#[test]
fn users_reach_the_keys_that_they_were_given() {
    let server = Server::start();
    let mut client = server.client();
    user(&mut client, "own", "~own:* +@all");
    user(
        &mut client,
        "apart",
        "%R~look:* %W~change:* %RW~both:* +@all",
    );
    let keys = ["own:k", "look:k", "change:k", "both:k", "k"];
    for key in keys {
        for command in commands() {
            let (line, writes) = (command.on(key), command.writes());
            assert_eq!(may(&mut client, "own", &line), key == "own:k", "{line}");
            let apart = match key {
                "look:k" => !writes,
                "change:k" => writes,
                key => key == "both:k",
            };
            assert_eq!(may(&mut client, "apart", &line), apart, "{line}");
        }
    }

    let mut own = connect(&server, "own");
    assert_eq!(own.cmd("BF.MADD own:k a b"), truths(false, &[true, true]));
    assert_eq!(own.cmd("BF.EXISTS own:k a"), int(1));
    assert_refused(&mut own, "BF.ADD k a");
    assert_refused(&mut own, "BF.EXISTS k a");
    let mut apart = connect(&server, "apart");
    assert_eq!(client.cmd("BF.ADD look:k a"), int(1));
    assert_eq!(apart.cmd("BF.EXISTS look:k a"), int(1));
    assert_refused(&mut apart, "BF.ADD look:k b");
    assert_eq!(apart.cmd("BF.ADD change:k a"), int(1));
    assert_refused(&mut apart, "BF.EXISTS change:k a");
    assert_refused(&mut apart, "BF.SCANDUMP change:k 0");
    assert_eq!(
        apart.cmd("BF.INSERT both:k ITEMS a"),
        truths(false, &[true])
    );
    assert_eq!(apart.cmd("BF.CARD both:k"), int(1));

    // Also in a transaction and in a script.
    assert_eq!(own.cmd("MULTI"), ok());
    assert_refused(&mut own, "BF.ADD k a");
    assert_eq!(own.cmd("BF.ADD own:k c"), simple("QUEUED"));
    assert!(own.cmd("EXEC").text().starts_with("EXECABORT "));
    let script = b"return redis.pcall('BF.ADD', KEYS[1], 'a')";
    assert!(own.call(&[b"EVAL", script, b"1", b"k"]).is_error());
    assert_eq!(own.call(&[b"EVAL", script, b"1", b"own:k"]), int(0));
    assert_eq!(client.cmd("EXISTS k"), int(0));
    assert_eq!(client.cmd("BF.CARD look:k"), int(1));
    assert_eq!(client.cmd("BF.MEXISTS own:k c k"), array([int(0), int(0)]));
}

/// The reason of a refusal: the command, or a key.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Refused {
    Command,
    Key,
}

/// Rules, a key, and what they make of a command, given its name and whether it writes.
type Row = (
    &'static str,
    &'static str,
    fn(&str, bool) -> Option<Refused>,
);

const NOTHING: fn(&str, bool) -> Option<Refused> = |_, _| None;
const COMMAND: fn(&str, bool) -> Option<Refused> = |_, _| Some(Refused::Command);
const KEY: fn(&str, bool) -> Option<Refused> = |_, _| Some(Refused::Key);
const WRITES: fn(&str, bool) -> Option<Refused> = |_, writes| writes.then_some(Refused::Key);
const READS: fn(&str, bool) -> Option<Refused> = |_, writes| (!writes).then_some(Refused::Key);

const ROWS: [Row; 22] = [
    ("~* +@all", "k", NOTHING),
    ("~* -@all", "k", COMMAND),
    ("+@all", "k", KEY),
    ("~own:* +@all", "own:k", NOTHING),
    ("~own:* +@all", "k", KEY),
    ("~own:* +@all", "own", KEY),
    ("%R~k +@all", "k", WRITES),
    ("%W~k +@all", "k", READS),
    ("%RW~k +@all", "k", NOTHING),
    ("%R~k %W~k +@all", "k", NOTHING),
    ("%R~k %W~other +@all", "k", WRITES),
    ("%RW~other +@all", "k", KEY),
    // A refused command is reported before a refused key.
    ("%R~other -@all", "k", COMMAND),
    ("~* -@all +bf.add", "k", |name, _| {
        (name != "bf.add").then_some(Refused::Command)
    }),
    ("~* +@all -bf.madd", "k", |name, _| {
        (name == "bf.madd").then_some(Refused::Command)
    }),
    // Another selector may allow what the first does not.
    ("-@all (+@all ~k)", "k", NOTHING),
    ("~* -@all (+@all %R~k)", "k", WRITES),
    // From here on for servers that have categories for the commands of modules.
    ("~* -@all +@bloom", "k", NOTHING),
    ("~* +@all -@bloom", "k", COMMAND),
    ("%R~k -@all +@bloom", "k", WRITES),
    ("~* -@all +@bloom -@write", "k", |_, writes| {
        writes.then_some(Refused::Command)
    }),
    ("~* -@all +@bloom -@read", "k", |_, writes| {
        (!writes).then_some(Refused::Command)
    }),
];

const WITHOUT_CATEGORIES: usize = 17;

#[test]
fn every_command_is_allowed_or_refused_in_the_servers_words() {
    let server = Server::start();
    let mut client = server.client();
    let version = server.version();
    let who = if version.valkey {
        "User u"
    } else {
        "This user"
    };
    let rows = if has_categories(&version) {
        ROWS.len()
    } else {
        WITHOUT_CATEGORIES
    };
    // The texts for core commands, with other names in them.
    let dry = |refused, name: &str, key: &str| match refused {
        None => "OK".to_owned(),
        Some(Refused::Command) => format!("{who} has no permissions to run the '{name}' command"),
        Some(Refused::Key) => format!("{who} has no permissions to access the '{key}' key"),
    };
    let reported = |refused, name: &str| match refused {
        Refused::Command => format!(
            "NOPERM {} has no permissions to run the '{name}' command",
            who.replace("This", "this")
        ),
        Refused::Key if version.valkey => "NOPERM No permissions to access a key".to_owned(),
        Refused::Key => {
            "NOPERM this user has no permissions to access one of the keys used as arguments"
                .to_owned()
        }
    };
    let in_script = |refused, name: &str| {
        match refused {
        Refused::Command if version.valkey => format!(
            "ERR ACL failure in script: {who} has no permissions to run the '{name}' command"
        ),
        Refused::Command => {
            "ERR The user executing the script can't run this command or subcommand".to_owned()
        }
        Refused::Key if version.valkey => {
            "ERR ACL failure in script: No permissions to access a key".to_owned()
        }
        Refused::Key => {
            "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
                .to_owned()
        }
    }
    };
    let script = b"return redis.pcall(unpack(ARGV))";
    for (rules, key, refused) in &ROWS[..rows] {
        user(&mut client, "u", &format!("{rules} +auth +eval"));
        let mut own = connect(&server, "u");
        for command in commands() {
            let (line, name) = (command.on(key), &*command.name());
            let what = format!("{rules}: {line}");
            let refused = refused(name, command.writes());
            let reply = client.cmd(&format!("ACL DRYRUN u {line}")).text();
            assert_eq!(reply, dry(refused, name, key), "{what}");

            // In a script that names no keys, so that only its call is judged.
            let mut words: Vec<&[u8]> = vec![b"EVAL", script, b"0"];
            words.extend(line.split(' ').map(str::as_bytes));
            for (reply, expected) in [
                (
                    own.cmd(&line),
                    refused.map(|refused| reported(refused, name)),
                ),
                (
                    own.call(&words),
                    refused.map(|refused| in_script(refused, name)),
                ),
            ] {
                match expected {
                    Some(text) => assert_eq!(reply, error(&text), "{what}"),
                    // It may fail for other reasons, such as a key that is not there.
                    None if reply.is_error() => {
                        let text = reply.text();
                        assert!(
                            !text.contains("ermission") && !text.contains("user"),
                            "{text}"
                        );
                    }
                    None => {}
                }
            }
            client.cmd(&format!("DEL {key}"));
        }
    }
}

/// BF.MERGE reads all of its keys and writes to the first.
#[test]
fn merging_needs_permission_for_each_key() {
    let server = Server::start();
    let mut client = server.client();
    let seed = "0123456789abcdef0123456789abcdef";
    for key in ["to", "from1", "from2"] {
        let made = client.cmd(&format!("BF.INSERT {key} SEED {seed} ITEMS {key}"));
        assert_eq!(made, truths(false, &[true]));
    }
    for (rules, allowed) in [
        ("~* +@all", true),
        ("~* +@all -bf.merge", false),
        ("~* -@all +bf.merge", true),
        ("~to ~from1 ~from2 +@all", true),
        ("%RW~to %R~from* +@all", true),
        ("%W~to %R~from* +@all", false),
        ("%R~to %R~from* +@all", false),
        ("%W~to %W~from* +@all", false),
        ("%W~to %R~from1 +@all", false),
        ("%R~from* +@all", false),
    ] {
        user(&mut client, "u", &format!("{rules} +auth"));
        let line = "BF.MERGE to from1 from2";
        assert_eq!(may(&mut client, "u", line), allowed, "{rules}");
        let mut own = connect(&server, "u");
        if allowed {
            assert_eq!(own.cmd(line), ok(), "{rules}");
        } else {
            assert_refused(&mut own, line);
        }
    }
    for (category, within) in [
        ("read", false),
        ("write", true),
        ("fast", false),
        ("slow", true),
    ] {
        let within = within && has_categories(&server.version());
        user(&mut client, "u", &format!("~* -@all +@{category}"));
        assert_eq!(may(&mut client, "u", "bf.merge a b"), within, "{category}");
    }
}

/// The user of docs/operating.md.
#[test]
fn a_user_for_lookups_reads_no_bits() {
    let server = Server::start();
    let mut client = server.client();
    let page = include_str!("../../docs/operating.md");
    let mut lines = page.lines().filter_map(|line| line.strip_prefix("> "));
    let made = lines.find(|line| line.starts_with("ACL SETUSER lookups "));
    assert_eq!(client.cmd(made.expect("the page has it")), ok());
    for command in commands() {
        let name = &*command.name();
        let lookups = [
            "bf.exists",
            "bf.mexists",
            "bf.missing",
            "bf.card",
            "bf.info",
        ];
        let line = command.on("seen:today");
        assert_eq!(
            may(&mut client, "lookups", &line),
            lookups.contains(&name),
            "{line}"
        );
        assert!(!may(&mut client, "lookups", &command.on("other")), "{name}");
    }
    for line in ["DUMP seen:today", "GET seen:today"] {
        assert!(!may(&mut client, "lookups", line), "{line}");
    }
}
