//! Permissions for the commands and for each of their keys.

use std::collections::BTreeSet;

use crate::acl::has_categories;
use crate::harness::{Client, Reply, Server, array, bulk, int, ok};
use crate::support::commands::{self, Command};

fn allow(client: &mut Client, user: &str, rules: &str) {
    let set = format!("ACL SETUSER {user} reset on nopass {rules}");
    assert_eq!(client.cmd(&set), ok());
}

fn own_commands() -> Vec<&'static Command> {
    let own = commands::all().filter(|command| command.name().starts_with("tdigest."));
    let own: Vec<_> = own.collect();
    assert_eq!(own.len(), 14);
    own
}

#[test]
fn the_category_tdigest_holds_these_commands() {
    let server = Server::start();
    if !has_categories(&server.version()) {
        return;
    }
    let mut client = server.client();
    let reported = client.cmd("ACL CAT tdigest");
    let names: BTreeSet<String> = reported.as_array().iter().map(Reply::text).collect();
    let own = own_commands();
    // Valkey 8.0 has the category, and does not list the commands of modules.
    if !(names.is_empty() && server.version().major == 8) {
        assert_eq!(names, own.iter().map(|command| command.name()).collect());
    }
    allow(&mut client, "all", "~* -@all +@tdigest");
    allow(&mut client, "looks", "~* -@all +@tdigest -@write");
    for command in own {
        for (user, may) in [("all", true), ("looks", !command.writes())] {
            let tried = client.cmd(&format!("ACL DRYRUN {user} {}", command.on("k")));
            assert_eq!(tried.text() == "OK", may, "{user} {}", command.name());
        }
    }
}

/// RedisBloom does not declare what a command does to its keys: with it, a user who may only read a digest can change
/// it, and one who may only change it can read it.
#[test]
fn permissions_on_keys_are_kept() {
    let server = Server::start();
    let mut client = server.client();
    let mut require = |rules: &str, line: &str, may: bool| {
        allow(&mut client, "user", &format!("{rules} +@all"));
        let tried = client.cmd(&format!("ACL DRYRUN user {line}"));
        assert_eq!(tried.text() == "OK", may, "{rules}: {line}: {tried:?}");
    };
    for command in own_commands() {
        if command.name() != "tdigest.merge" {
            let line = command.on("k");
            require("%R~k", &line, !command.writes());
            require("%W~k", &line, command.writes());
            require("%RW~k", &line, true);
            require("%RW~other", &line, false);
        }
    }
    for (rules, line, may) in [
        ("%R~k", "TDIGEST.MERGE k 1 k", false),
        // The observations of the destination count.
        ("%W~k", "TDIGEST.MERGE k 1 k", false),
        ("%RW~k", "TDIGEST.MERGE k 1 k", true),
        ("%RW~k", "TDIGEST.MERGE k 1 secret", false),
        ("%RW~k %R~other", "TDIGEST.MERGE k 1 other", true),
        ("%R~k %R~other", "TDIGEST.MERGE k 1 other", false),
        ("%RW~k %W~other", "TDIGEST.MERGE k 1 other", false),
        ("%RW~k %R~other", "TDIGEST.MERGE k 2 other secret", false),
        ("%RW~k %R~other", "TDIGEST.MERGE other 1 k", false),
        // Options are not keys.
        (
            "%RW~k %R~other",
            "TDIGEST.MERGE k 2 k other OVERRIDE COMPRESSION 5",
            true,
        ),
    ] {
        require(rules, line, may);
    }
}

#[test]
fn keys_are_found() {
    let server = Server::start();
    let mut client = server.client();
    for (line, keys) in [
        ("TDIGEST.CREATE k COMPRESSION 5", &["k"][..]),
        ("TDIGEST.ADD k 1 2", &["k"]),
        ("TDIGEST.QUANTILE k 0.5 1", &["k"]),
        ("TDIGEST.MERGE d 1 s", &["d", "s"]),
        (
            "TDIGEST.MERGE d 2 s t OVERRIDE COMPRESSION 5",
            &["d", "s", "t"],
        ),
        ("TDIGEST.MERGE d 1 override OVERRIDE", &["d", "override"]),
    ] {
        let found = client.cmd(&format!("COMMAND GETKEYS {line}"));
        assert_eq!(found, array(keys.iter().map(bulk)), "{line}");
    }
    assert_eq!(client.cmd("DBSIZE"), int(0));
}
