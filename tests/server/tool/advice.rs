//! `valkeybloom list --advice`: its commands do what it says.

use serde_json::Value;

use crate::harness::{Client, Server, int, ok};
use crate::support::protocols::with_fixed_seed;

use super::list::{keys, list};
use super::session::replay;
use super::size::fill;
use super::{add, info, load_partly, numbered};

/// Returns the command of the only advice for a key, and its reason.
fn advised(found: &Value, key: &str) -> (String, String) {
    let advice = &keys(found)[key]["advice"];
    let [advice] = &advice.as_array().expect("a list")[..] else {
        panic!("{key}: {advice}")
    };
    let text = |name: &str| advice[name].as_str().expect("a text").to_owned();
    (text("command"), text("reason"))
}

/// Returns the commands of all advice for a key.
fn commands(server: &Server, key: &str) -> Vec<String> {
    let found = list(server, &["--advice", "--match", key]);
    let advice = &keys(&found)[key]["advice"];
    let commands = advice.as_array().expect("a list").iter();
    let commands = commands.map(|advice| advice["command"].as_str().expect("a text"));
    commands.map(str::to_owned).collect()
}

/// Each command does what its reason promises.
#[test]
fn advice_is_true() {
    let server = with_fixed_seed();
    load_partly(&mut server.client(), "half");
    replay("advice.txt", &[&server]);
}

#[test]
fn advice_names_the_setting_that_ends_growth() {
    let server = Server::start();
    let mut client = server.client();
    client.ok("BF.RESERVE fine 0.01 1000");
    add(&mut client, "fine", &numbered("item", 0..500));
    let (filter, object) = (
        "bf.bloom-filter-max-memory-usage",
        "bf.bloom-memory-usage-limit",
    );
    for (limits, name, raised) in [
        ([2500, 0], filter, 5000),
        ([67_108_864, 4000], object, 8000),
    ] {
        let [of_filter, of_object] = limits;
        client.ok(format!(
            "CONFIG SET {filter} {of_filter} {object} {of_object}"
        ));
        let reach = info(&mut client, "fine", "Max scaled capacity").as_int();
        assert!(reach < 2000, "{reach}");
        let more = u32::try_from(reach).expect("small");
        add(&mut client, "fine", &numbered("item", 500..more - 10));
        let found = list(&server, &["--advice", "--match", "fine"]);
        let (command, reason) = advised(&found, "fine");
        assert_eq!(command, format!("CONFIG SET {name} {raised}"));
        let why = format!(" {name} ends its growth at ");
        assert!(reason.contains(&why), "{reason}");
        client.ok(&command);
        assert!(info(&mut client, "fine", "Max scaled capacity").as_int() > reach);
    }
}

/// Also where one more filter takes many times the memory of the stack, or the stack has several filters of the same capacity.
#[test]
fn a_raised_limit_admits_another_filter() {
    let server = Server::start();
    let mut client = server.client();
    for (maker, shape, limit) in [
        ("own", "0.01 1000 EXPANSION 10", 2000),
        ("own", "0.01 50 EXPANSION 1", 6000),
        ("own", "0.0001 200 EXPANSION 40", 60_000),
        ("redisbloom", "0.01 1000 EXPANSION 10", 2000),
        ("redisbloom", "0.01 50 EXPANSION 1", 6000),
        ("valkey-bloom", "0.001 200 EXPANSION 40", 60_000),
    ] {
        client.ok(format!(
            "CONFIG SET bf.bloom-new-filters {maker} bf.bloom-memory-usage-limit {limit}"
        ));
        client.ok(format!("BF.RESERVE key {shape}"));
        let reach = info(&mut client, "key", "Max scaled capacity").as_int();
        fill(&mut client, reach);
        client.ok(&commands(&server, "key")[0]);
        fill(&mut client, reach + 1);
        client.ok("CONFIG SET bf.bloom-memory-usage-limit 0");
        client.expect("DEL key", int(1));
    }
}

/// A limit stops tables before they are full, and BF.RESERVE with SCALETO refuses those that it would stop.
#[test]
fn tables_are_told_the_limit_that_stops_them() {
    let server = Server::start();
    let mut client = server.client();
    for (limit, reserve) in [
        (20_000, "0.01 20000 NONSCALING WINDOW 3600000 PERIODS 3"),
        (20_000, "0.01 20000 NONSCALING COUNTING"),
        (10_004, "0.01 5 SCALETO 5"),
        (1500, "0.000001 1 SCALETO 1"),
    ] {
        let set = "CONFIG SET bf.bloom-memory-usage-limit";
        client.ok(format!("{set} {limit}"));
        client.ok(format!("BF.RESERVE k {reserve}"));
        let mut items = 0_u32..;
        let mut is_added = |client: &mut Client| {
            let item = items.next().expect("a number");
            !client.cmd(&format!("BF.ADD k {item}")).is_error()
        };
        while is_added(&mut client) {}
        let advised = commands(&server, "k");
        assert!(advised[0].starts_with(&format!("{set} ")), "{advised:?}");
        for command in advised {
            client.ok(command);
        }
        assert!(is_added(&mut client), "{reserve}");
        // The server accepts what is advised then.
        for command in commands(&server, "k") {
            client.ok(command);
        }
        client.ok(format!("{set} 0"));
        client.cmd("DEL k {k}:new");
    }
}

/// Listing doesn't count as use, and keys that nobody used for long are pointed out.
#[test]
fn unused_keys_are_pointed_out() {
    let server = Server::start();
    let mut client = server.client();
    add(&mut client, "old", &numbered("item", 0..3));
    let dump = client.cmd("DUMP old").as_bytes().to_vec();
    client.expect("DEL old", int(1));
    let forty_days = (40 * 86_400).to_string();
    let restore: [&[u8]; 6] = [
        b"RESTORE",
        b"old",
        b"0",
        &dump,
        b"IDLETIME",
        forty_days.as_bytes(),
    ];
    assert_eq!(client.call(&restore), ok());
    add(&mut client, "new", &numbered("item", 0..3));
    let found = list(&server, &["--advice"]);
    assert_eq!(keys(&found)["new"]["advice"], Value::Array(vec![]));
    let (command, reason) = advised(&found, "old");
    assert_eq!(command, "UNLINK old");
    assert!(
        reason.starts_with("it was not used for 40 days"),
        "{reason}"
    );
    if !client.cmd("CLIENT NO-TOUCH OFF").is_error() {
        let found = list(&server, &["--advice"]);
        assert_eq!(advised(&found, "old").0, "UNLINK old");
        assert!(
            list(&server, &["--advice", "--idle", "50"])["keys"][1]["advice"]
                == Value::Array(vec![])
        );
    }
    // Where the server counts uses instead, there is no idle time.
    client.ok("CONFIG SET maxmemory-policy allkeys-lfu");
    let found = list(&server, &["--advice"]);
    assert_eq!(keys(&found)["old"]["advice"], Value::Array(vec![]));
}
