//! Permissions for the commands.

use std::collections::BTreeSet;

use crate::acl::has_categories;
use crate::harness::{Reply, Server, ok};

use crate::support::commands::{CUCKOO, Command};

#[test]
fn the_category_cuckoo_holds_these_commands() {
    let server = Server::start();
    if !has_categories(&server.version()) {
        return;
    }
    let mut client = server.client();
    let reported = client.cmd("ACL CAT cuckoo");
    let names: BTreeSet<String> = reported.as_array().iter().map(Reply::text).collect();
    // Valkey 8.0 has the category, and does not list the commands of modules.
    if !(names.is_empty() && server.version().major == 8) {
        let expected = CUCKOO.iter().map(Command::name);
        assert_eq!(names, expected.collect());
    }
    for (name, rules) in [
        ("cuckoo", "~k -@all +@cuckoo"),
        ("looks", "~k -@all +@cuckoo -@write"),
        ("reads", "%R~k +@all"),
    ] {
        assert_eq!(
            client.cmd(&format!("ACL SETUSER {name} on nopass {rules}")),
            ok()
        );
    }
    for command in &CUCKOO {
        for (user, may) in [
            ("cuckoo", true),
            ("looks", !command.writes()),
            ("reads", !command.writes()),
        ] {
            let name = command.name();
            let tried = client.cmd(&format!("ACL DRYRUN {user} {}", command.on("k")));
            assert_eq!(tried.text() == "OK", may, "{user} {name}: {tried:?}");
            let other = client.cmd(&format!("ACL DRYRUN {user} {}", command.on("other")));
            assert_ne!(other.text(), "OK", "{user} {name}");
        }
    }
}
