//! Users who may do some of it. The server decides by the categories and the keys that each command declares.

use std::collections::BTreeSet;

use crate::harness::{Client, Reply, Server, Version, error};
use crate::selected::FAMILIES;
use crate::support::commands::{self, Access, Command};

/// Returns whether a server has categories for the commands of a module.
pub fn has_categories(version: &Version) -> bool {
    let since = if version.valkey { (8, 0) } else { (7, 4) };
    (version.major, version.minor) >= since
}

fn user(client: &mut Client, rules: &str) {
    client.ok(format!("ACL SETUSER u reset on nopass {rules}"));
}

/// Returns whether the server would let the user do this.
fn may(client: &mut Client, command: &str) -> bool {
    let reported = client.cmd(&format!("ACL DRYRUN u {command}")).text();
    let is_refused = reported.contains("has no permissions");
    assert!(reported == "OK" || is_refused, "{command}: {reported}");
    !is_refused
}

/// Returns whether a command reads its first key.
fn reads(command: &Command) -> bool {
    matches!(command.access, Access::Read | Access::ReadAndChange) || merges(command)
}

fn merges(command: &Command) -> bool {
    !command.sources().is_empty()
}

/// Rules, and the commands that they leave to a user: their first key is `k`, and those of sources end in `other`.
type Row = (&'static str, fn(&Command) -> bool);

const ROWS: [Row; 12] = [
    ("~* +@all", |_| true),
    ("~* -@all", |_| false),
    ("+@all", |_| false),
    ("~other +@all", |_| false),
    ("%R~k %R~*other +@all", |command| !command.writes()),
    ("%W~k %R~*other +@all", |command| !reads(command)),
    ("%RW~k %R~*other +@all", |_| true),
    ("%RW~k %W~*other +@all", |command| !merges(command)),
    ("%RW~k %R~other +@all", |command| !merges(command)),
    ("%RW~k +@all", |command| !merges(command)),
    ("~* -@all +bf.add", |command| command.name() == "bf.add"),
    ("~* +@all -bf.madd", |command| command.name() != "bf.madd"),
];

#[test]
fn users_run_the_commands_and_reach_the_keys_that_they_were_given() {
    let (server, mut client) = Server::with_client();
    for (rules, allows) in &ROWS {
        user(&mut client, rules);
        for command in commands::all() {
            let line = command.on("k");
            assert_eq!(may(&mut client, &line), allows(command), "{rules}: {line}");
        }
    }
    // A refused call changes nothing.
    user(&mut client, "%R~k +@all");
    let mut own = server.client();
    own.ok("AUTH u any");
    let refused = own.cmd("BF.ADD k a").text();
    assert!(refused.starts_with("NOPERM "), "{refused}");
    own.expect("BF.INFO k", error("ERR not found"));
}

#[test]
fn each_family_has_a_category() {
    let (server, mut client) = Server::with_client();
    let version = server.version();
    for family in FAMILIES {
        let (category, prefix) = (family.name, family.prefix);
        let reported = client.cmd(&format!("ACL CAT {category}"));
        if !has_categories(&version) {
            let unknown = format!("ERR Unknown category '{category}'");
            assert_eq!(reported, error(&unknown));
            continue;
        }
        let names: BTreeSet<String> = reported.as_array().iter().map(Reply::text).collect();
        let own = commands::all().map(Command::name);
        let own: BTreeSet<String> = own.filter(|name| name.starts_with(prefix)).collect();
        // Valkey 8.0 has the category, and does not list the commands of modules.
        if !(names.is_empty() && version.valkey && version.major == 8) {
            assert_eq!(names, own);
        }
        user(&mut client, &format!("~* -@all +@{category} -@write"));
        for command in commands::all() {
            let expected = own.contains(&command.name()) && !command.writes();
            let line = command.on("k");
            assert_eq!(may(&mut client, &line), expected, "{category}: {line}");
        }
    }
}

/// The user of docs/operating.md.
#[test]
fn a_user_for_lookups_reads_no_bits() {
    let (_server, mut client) = Server::with_client();
    let page = include_str!("../../docs/operating.md");
    let mut lines = page.lines().filter_map(|line| line.strip_prefix("> "));
    let made = lines.find(|line| line.starts_with("ACL SETUSER lookups "));
    let made = made.expect("the page has it").replace(" lookups ", " u ");
    client.ok(&made);
    let lookups = [
        "bf.exists",
        "bf.mexists",
        "bf.missing",
        "bf.card",
        "bf.info",
    ];
    for command in commands::all() {
        let expected = lookups.contains(&&*command.name());
        let line = command.on("seen:today");
        assert_eq!(may(&mut client, &line), expected, "{line}");
        assert!(!may(&mut client, &command.on("other")), "{line}");
    }
    for line in ["DUMP seen:today", "GET seen:today"] {
        assert!(!may(&mut client, line), "{line}");
    }
}
