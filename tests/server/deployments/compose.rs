//! Projects of Compose that run: data survive, primaries fail, a cluster is made.

use std::collections::HashSet;

use super::project::Project;
use crate::harness::wait_until;

#[test]
fn a_single_server_keeps_its_data() {
    let project = Project::new("single");
    let valkey = project.start("valkey");
    assert_eq!(valkey.cli("BF.ADD seen item"), "1");
    let refused = valkey.cli("--user default --pass wrong BF.EXISTS seen item");
    assert!(refused.contains("NOAUTH"), "{refused}");
    valkey.stop();
    let valkey = project.start("valkey");
    assert_eq!(valkey.cli("BF.EXISTS seen item"), "1");
    assert_eq!(valkey.cli("BF.EXISTS seen other"), "0");
}

const SENTINELS: [&str; 3] = ["sentinel-1", "sentinel-2", "sentinel-3"];

#[test]
fn a_replica_takes_over_from_a_primary_that_fails() {
    let project = Project::new("sentinel");
    let mut nodes = ["valkey-1", "valkey-2", "valkey-3"].map(|name| Some(project.start(name)));
    let sentinels = SENTINELS.map(|name| project.start(name));
    let primary = || {
        let address = sentinels[0].cli("sentinel get-primary-addr-by-name filters");
        let (host, port) = address.split_once('\n').expect("an address");
        assert_eq!(host, "localhost", "names, not addresses");
        project.at(port).to_owned()
    };
    assert_eq!(primary(), "valkey-1");
    for sentinel in &sentinels {
        wait_until("the sentinels know all", || {
            let known = sentinel.cli("info sentinel");
            known.contains("status=ok") && known.contains("slaves=2,sentinels=3")
        });
    }
    let first = nodes[0].take().expect("the primary");
    assert_eq!(first.cli("BF.RESERVE seen 0.01 1000"), "OK");
    assert_eq!(first.cli("BF.ADD seen item"), "1");
    assert_eq!(first.cli("WAIT 2 0"), "2");

    drop(first);
    wait_until("a replica is promoted", || primary() != "valkey-1");
    let promoted = primary();
    let [_, two, three] = nodes;
    let others = [two, three].map(|node| node.expect("a replica"));
    let [promoted, other] = if others[0].service == promoted {
        others
    } else {
        let [two, three] = others;
        [three, two]
    };
    wait_until("it is a primary", || {
        promoted.cli("ROLE").starts_with("master")
    });
    assert_eq!(promoted.cli("BF.EXISTS seen item"), "1");
    assert_eq!(promoted.cli("BF.ADD seen later"), "1");
    wait_until("the other one follows it", || {
        other.cli("BF.EXISTS seen later") == "1"
    });

    // Sentinel made it write its configuration, which still loads the module, once.
    let service = other.service;
    other.stop();
    let other = project.start(service);
    let role = other.cli("ROLE");
    let role: Vec<&str> = role.lines().collect();
    assert_eq!((role[0], project.at(role[2])), ("slave", promoted.service));
    assert_eq!(promoted.cli("BF.ADD seen last"), "1");
    wait_until("it still follows", || {
        other.cli("BF.EXISTS seen last") == "1"
    });
}

#[test]
fn a_cluster_is_made_once() {
    let project = Project::new("cluster");
    let names = ["node-1", "node-2", "node-3"];
    let [first, second, third] = names.map(|name| project.start(name));
    let created = project.run("create");
    let text = String::from_utf8_lossy(&created.stdout);
    assert!(created.status.success(), "{text}");
    assert!(text.contains("All 16384 slots covered"), "{text}");
    for node in [&first, &second, &third] {
        wait_until("the cluster serves", || {
            node.cli("cluster info").contains("cluster_state:ok")
        });
    }
    let key = |number: u32| format!("filter:{number}");
    let holders: HashSet<String> = (0..20)
        .map(|number| {
            assert_eq!(first.cli(&format!("-c BF.ADD {} item", key(number))), "1");
            let reply = first.cli(&format!("BF.EXISTS {} item", key(number)));
            let port = reply.rsplit_once(':').map(|(_, port)| project.at(port));
            port.unwrap_or("node-1").to_owned()
        })
        .collect();
    assert_eq!(holders, names.map(str::to_owned).into());

    // The next start finds the cluster and its filters.
    for node in [first, second, third] {
        node.stop();
    }
    let nodes = names.map(|name| project.start(name));
    let again = project.run("create");
    assert!(again.status.success() && again.stdout.is_empty());
    wait_until("the cluster serves again", || {
        (0..20).all(|number| nodes[2].cli(&format!("-c BF.EXISTS {} item", key(number))) == "1")
    });
}
