//! Permissions for the commands and their keys.

use std::collections::BTreeSet;

use crate::acl::has_categories;
use crate::harness::{Client, Reply, Server, array, bulk, int, ok};
use crate::support::commands;

fn allow(client: &mut Client, user: &str, rules: &str) {
    let set = format!("ACL SETUSER {user} reset on nopass {rules}");
    assert_eq!(client.cmd(&set), ok());
}

#[test]
fn the_category_topk_holds_these_commands() {
    let server = Server::start();
    if !has_categories(&server.version()) {
        return;
    }
    let mut client = server.client();
    let reported = client.cmd("ACL CAT topk");
    let names: BTreeSet<String> = reported.as_array().iter().map(Reply::text).collect();
    let own: Vec<_> = commands::all()
        .filter(|command| command.name().starts_with("topk."))
        .collect();
    assert_eq!(own.len(), 7);
    // Valkey 8.0 has the category, and does not list the commands of modules.
    if !(names.is_empty() && server.version().major == 8) {
        assert_eq!(names, own.iter().map(|command| command.name()).collect());
    }
    allow(&mut client, "all", "~* -@all +@topk");
    allow(&mut client, "looks", "~* -@all +@topk -@write");
    for command in own {
        for (user, may) in [("all", true), ("looks", !command.writes())] {
            let tried = client.cmd(&format!("ACL DRYRUN {user} {}", command.on("k")));
            assert_eq!(tried.text() == "OK", may, "{user} {}", command.name());
        }
    }
}

/// RedisBloom does not declare what a command does to its key: with it, a user who may only read a list can change it.
#[test]
fn permissions_on_keys_are_kept() {
    let server = Server::start();
    let mut client = server.client();
    for (rules, line, may) in [
        ("%R~k", "TOPK.QUERY k a", true),
        ("%R~k", "TOPK.COUNT k a", true),
        ("%R~k", "TOPK.LIST k", true),
        ("%R~k", "TOPK.INFO k", true),
        ("%R~k", "TOPK.RESERVE k 5", false),
        ("%R~k", "TOPK.ADD k a", false),
        ("%R~k", "TOPK.INCRBY k a 1", false),
        ("%W~k", "TOPK.QUERY k a", false),
        ("%W~k", "TOPK.COUNT k a", false),
        ("%W~k", "TOPK.LIST k", false),
        ("%W~k", "TOPK.INFO k", false),
        ("%W~k", "TOPK.RESERVE k 5", true),
        // The reply names items of the list.
        ("%W~k", "TOPK.ADD k a", false),
        ("%W~k", "TOPK.INCRBY k a 1", false),
        ("%RW~k", "TOPK.ADD k a", true),
        ("%RW~k", "TOPK.INCRBY k a 1", true),
        ("%RW~k", "TOPK.ADD other a", false),
    ] {
        allow(&mut client, "user", &format!("{rules} +@all"));
        let tried = client.cmd(&format!("ACL DRYRUN user {line}"));
        assert_eq!(tried.text() == "OK", may, "{rules}: {line}: {tried:?}");
    }
    for line in ["TOPK.RESERVE k 5", "TOPK.INCRBY k a 1 b 2", "TOPK.LIST k"] {
        let found = client.cmd(&format!("COMMAND GETKEYS {line}"));
        assert_eq!(found, array([bulk("k")]), "{line}");
    }
    assert_eq!(client.cmd("DBSIZE"), int(0));
}
