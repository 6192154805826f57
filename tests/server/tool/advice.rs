//! `valkeybloom list --advice`: its commands do what it says.

use serde_json::Value;

use crate::harness::{Server, int, ok};
use crate::support::protocols::with_fixed_seed;

use super::list::{keys, list};
use super::session::replay;
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
