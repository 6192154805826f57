//! Who may run the commands.

use std::collections::BTreeSet;

use crate::acl::has_categories;
use crate::harness::{Reply, Server, ok};

use super::COMMANDS;

#[test]
fn the_category_cuckoo_is_these_commands() {
    let server = Server::start();
    if !has_categories(&server.version()) {
        return;
    }
    let mut client = server.client();
    let told = client.cmd("ACL CAT cuckoo");
    let names: BTreeSet<String> = told.as_array().iter().map(Reply::text).collect();
    // Valkey 8.0 has the category, and does not list the commands of modules.
    if !(names.is_empty() && server.version().major == 8) {
        let expected = COMMANDS.iter().map(|told| told.name.to_owned());
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
    for told in &COMMANDS {
        for (user, may) in [
            ("cuckoo", true),
            ("looks", !told.write),
            ("reads", !told.write),
        ] {
            let tried = client
                .cmd(&format!("ACL DRYRUN {user} {}", told.example))
                .text();
            assert_eq!(tried == "OK", may, "{user} {}: {tried}", told.name);
            let other = told.example.replacen(" k", " other", 1);
            assert_ne!(
                client.cmd(&format!("ACL DRYRUN {user} {other}")).text(),
                "OK"
            );
        }
    }
}
