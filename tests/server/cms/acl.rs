//! Permissions for the commands and for each of their keys.

use std::collections::BTreeSet;

use crate::acl::has_categories;
use crate::harness::{Client, Reply, Server, array, int, ok};
use crate::support::commands;

fn allow(client: &mut Client, user: &str, rules: &str) {
    let set = format!("ACL SETUSER {user} reset on nopass {rules}");
    assert_eq!(client.cmd(&set), ok());
}

#[test]
fn the_category_cms_holds_these_commands() {
    let server = Server::start();
    if !has_categories(&server.version()) {
        return;
    }
    let mut client = server.client();
    let reported = client.cmd("ACL CAT cms");
    let names: BTreeSet<String> = reported.as_array().iter().map(Reply::text).collect();
    let own: Vec<_> = commands::all()
        .filter(|command| command.name().starts_with("cms."))
        .collect();
    assert_eq!(own.len(), 6);
    // Valkey 8.0 has the category, and does not list the commands of modules.
    if !(names.is_empty() && server.version().major == 8) {
        assert_eq!(names, own.iter().map(|command| command.name()).collect());
    }
    allow(&mut client, "all", "~* -@all +@cms");
    allow(&mut client, "looks", "~* -@all +@cms -@write");
    for command in own {
        for (user, may) in [("all", true), ("looks", !command.writes())] {
            let tried = client.cmd(&format!("ACL DRYRUN {user} {}", command.on("k")));
            assert_eq!(tried.text() == "OK", may, "{user} {}", command.name());
        }
    }
}

/// RedisBloom declares neither what a command does to its key nor the sources of a merge: a user without any right on
/// a key could copy it into one of their own.
#[test]
fn permissions_on_keys_are_kept() {
    let server = Server::start();
    let mut client = server.client();
    for (rules, line, may) in [
        ("%R~k", "CMS.QUERY k a", true),
        ("%R~k", "CMS.INFO k", true),
        ("%R~k", "CMS.INCRBY k a 1", false),
        ("%R~k", "CMS.INITBYDIM k 10 5", false),
        ("%W~k", "CMS.QUERY k a", false),
        ("%W~k", "CMS.INFO k", false),
        ("%W~k", "CMS.INITBYDIM k 10 5", true),
        ("%W~k", "CMS.INITBYPROB k 0.1 0.1", true),
        // The reply contains what the key holds.
        ("%W~k", "CMS.INCRBY k a 1", false),
        ("%RW~k", "CMS.INCRBY k a 1", true),
        ("%RW~k", "CMS.MERGE k 1 k", true),
        ("%RW~k", "CMS.MERGE k 1 secret", false),
        ("%RW~k %R~other", "CMS.MERGE k 2 k other", true),
        ("%RW~k %R~other", "CMS.MERGE k 2 other secret", false),
        ("%RW~k %W~other", "CMS.MERGE k 1 other", false),
        ("%RW~k %R~other", "CMS.MERGE other 1 k", false),
        // Weights are not keys.
        ("%RW~k %R~other", "CMS.MERGE k 2 other k WEIGHTS 1 2", true),
    ] {
        allow(&mut client, "user", &format!("{rules} +@all"));
        let tried = client.cmd(&format!("ACL DRYRUN user {line}"));
        assert_eq!(tried.text() == "OK", may, "{rules}: {line}: {tried:?}");
    }
}

#[test]
fn keys_are_found() {
    let server = Server::start();
    let mut client = server.client();
    for (line, keys) in [
        ("CMS.INITBYDIM k 10 5 CELL_SIZE 1", &["k"][..]),
        ("CMS.INCRBY k a 1 b 2", &["k"]),
        ("CMS.MERGE d 1 s", &["d", "s"]),
        ("CMS.MERGE d 2 s t WEIGHTS 1 2", &["d", "s", "t"]),
        ("CMS.MERGE d 1 weights WEIGHTS 5", &["d", "weights"]),
    ] {
        let found = client.cmd(&format!("COMMAND GETKEYS {line}"));
        let keys = keys.iter().map(crate::harness::bulk);
        assert_eq!(found, array(keys), "{line}");
    }
    assert_eq!(client.cmd("DBSIZE"), int(0));
}
