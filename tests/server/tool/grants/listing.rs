//! The permissions of `list`, `watch` and `info`.

use std::time::Duration;

use crate::harness::cluster::nodes;
use crate::harness::{Server, array, int};
use crate::tool::list::keys;
use crate::tool::{Way, add, numbered, run};

use super::{assert_names, grants, refusal, set_user, url, without};

/// A listing goes on without a key that expires or is replaced, although its user may not read what the key has become.
#[test]
fn a_key_that_changes_does_not_end_a_listing() {
    let grants = grants(&["list, watch"]);
    for (change, unreadable) in [("PEXPIRE app:1 0", 0), ("CF.ADD app:1 item", 1)] {
        let server = Server::start();
        let mut client = server.client();
        set_user(&mut client, &grants);
        for key in ["app:1", "app:2"] {
            add(&mut client, key, &numbered("item", 0..3));
        }
        let way = Way::before(&server, "BF.INFO", 1, move || {
            if unreadable > 0 {
                client.expect("DEL app:1", int(1));
            }
            client.run(change);
        });
        let from = way.url().replace("redis://", "redis://u:secret@");
        let run = run(&["list", &from, "--json", "--match", "app:*"]);
        let found = serde_json::from_str(&run.out).expect("it is JSON");
        let listed: Vec<String> = keys(&found).into_keys().collect();
        assert_eq!(listed, ["app:2"], "{change}: {}", run.err);
        assert_eq!(found["unreadable"], unreadable, "{change}: {}", run.err);
        assert_eq!(run.status, unreadable, "{change}: {}", run.err);
        assert_eq!(run.err.contains(&refusal("+type")), unreadable > 0);
    }
}

#[test]
fn databases_and_clusters_need_the_documented_permissions() {
    let from = Server::start();
    let mut near = from.client();
    near.ok("SELECT 3");
    near.expect("BF.INSERT app:seen CAPACITY 100 ITEMS a", array([int(1)]));
    let to = nodes(2, 2, Duration::from_secs(30));
    let source = grants(&["move, source", "database not 0, also"]);
    let target = grants(&["move, target", "cluster, also"]);
    let source_url = url(&from) + "/3";
    let owner = to
        .iter()
        .position(|node| !node.client().cmd("TYPE app:seen").is_error());
    // A node that the key is not on.
    let entry = &to[1 - owner.expect("one of them has it")];
    let words = ["move", &source_url, &url(entry)];
    let all = |target: &[&str]| {
        for node in &to {
            set_user(&mut node.client(), target);
        }
    };
    set_user(&mut near, &source);
    for grant in grants(&["cluster, also"]) {
        all(&without(&target, grant));
        let why = run(&words);
        let name = grant
            .trim_start_matches('+')
            .replace('|', " ")
            .to_uppercase();
        assert!(
            why.err.to_uppercase().replace('|', " ").contains(&name),
            "{grant}: {}",
            why.err
        );
        assert!(
            why.err.contains(&format!("127.0.0.1:{}", entry.port())),
            "{}",
            why.err
        );
        assert_eq!(why.status, 1);
    }
    all(&target);
    set_user(&mut near, &without(&source, "+select"));
    let why = run(&words);
    assert_names(&why, "+select", &from);
    set_user(&mut near, &source);
    run(&words).done();
    // A cluster as a source.
    all(&grants(&["move, source", "cluster, also"]));
    let one = Server::start();
    set_user(&mut one.client(), &grants(&["move, target"]));
    run(&["move", &url(entry), &url(&one)]).done();
    one.client().expect("DBSIZE", int(1));
}

/// What a user may not read is left out or unknown, and `list` says which permission it takes.
#[test]
fn listing_needs_the_documented_permissions_and_no_more() {
    let server = Server::start();
    let mut client = server.client();
    add(&mut client, "app:bloom", &numbered("item", 0..10));
    for command in [
        "CF.ADD app:cuckoo item",
        "CMS.INITBYDIM app:counts 100 2",
        "TOPK.RESERVE app:top 3",
        "TDIGEST.CREATE app:digest",
    ] {
        client.run(command);
    }
    let address = url(&server);
    let all = grants(&["list, watch", "--advice, also"]);
    let words = ["list", &address, "--json", "--advice", "--match", "app:*"];
    set_user(&mut client, &all);
    let found = run(&words).json();
    let count = |found: &serde_json::Value, name: &str| {
        let keys = found["keys"].as_array().expect("a list").iter();
        keys.filter(|key| !key[name].is_null()).count()
    };
    let known = |found: &serde_json::Value| {
        ["key", "items", "bytes", "ttl_ms", "idle_seconds"].map(|name| count(found, name))
    };
    assert_eq!(known(&found), [5, 5, 5, 5, 5]);
    for grant in &all {
        set_user(&mut client, &without(&all, grant));
        let run = run(&words);
        let left = match *grant {
            "+scan" => {
                assert_names(&run, grant, &server);
                continue;
            }
            "+memory|usage" => [5, 5, 1, 5, 5],
            "+pttl" => [5, 5, 5, 0, 5],
            "+topk.list" => [5, 4, 5, 5, 5],
            "+object|idletime" => [5, 5, 5, 5, 0],
            // Without the settings, there is no advice about limits.
            "+config|get" => [5, 5, 5, 5, 5],
            _ => {
                assert_names(&run, grant, &server);
                [4, 4, 4, 4, 4]
            }
        };
        let found = serde_json::from_str(&run.out).expect("it is JSON");
        assert_eq!(known(&found), left, "{grant}");
        assert_eq!(i32::from(left[0] < 5), run.status, "{grant}");
    }
    // The memory of the server is left out without INFO.
    for (more, lines) in [(vec![], 0), (grants(&["--prometheus, also"]), 1)] {
        set_user(&mut client, &[grants(&["list, watch"]), more].concat());
        let text = run(&["list", &address, "--prometheus"]).done();
        assert_eq!(
            text.matches("\nvalkeybloom_server_memory_used_bytes{")
                .count(),
            lines
        );
    }
}
