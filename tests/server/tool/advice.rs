//! `valkeybloom list --advice`: its commands do what it says.

use serde_json::Value;

use crate::harness::{Client, Server, int, ok};

use super::list::{keys, list};
use super::{add, info, numbered};

/// Loads the header of a filter under another key, as an aborted copy does.
fn load_partly(client: &mut Client, key: &str) {
    assert_eq!(client.cmd("BF.RESERVE whole 0.01 100000"), ok());
    let piece = client.cmd("BF.SCANDUMP whole 0");
    let header = piece.as_array()[1].as_bytes().to_vec();
    let load: [&[u8]; 4] = [b"BF.LOADCHUNK", key.as_bytes(), b"1", &header];
    assert_eq!(client.call(&load), ok());
    assert_eq!(client.cmd("DEL whole"), int(1));
}

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
    let server = Server::with(&[("bf.bloom-use-random-seed", "no")]);
    let mut client = server.client();
    assert_eq!(client.cmd("BF.RESERVE fine 0.01 1000"), ok());
    add(&mut client, "fine", &numbered("item", 0..500));
    assert_eq!(client.cmd("BF.RESERVE grown 0.01 100"), ok());
    add(&mut client, "grown", &numbered("item", 0..6000));
    assert_eq!(client.cmd("BF.RESERVE full 0.01 100 NONSCALING"), ok());
    add(&mut client, "full", &numbered("item", 0..99));
    // All its periods are for 100 items together.
    let window = "WINDOW 100000000000 PERIODS 4";
    let reserve = format!("BF.RESERVE lately 0.01 20 NONSCALING {window}");
    assert_eq!(client.cmd(&reserve), ok());
    add(&mut client, "lately", &numbered("item", 0..99));
    // Nobody reserved it, so it ends at 32 filters of 1,024 slots.
    assert_eq!(client.cmd("CONFIG SET bf.cf-max-expansions 4"), ok());
    let words = |count: u32| numbered("", 0..count).concat();
    assert!(
        !client
            .cmd(&format!("CF.INSERT made ITEMS{}", words(1500)))
            .is_error()
    );
    assert_eq!(client.cmd("TOPK.RESERVE narrow 100"), ok());
    load_partly(&mut client, "half");
    assert_eq!(client.cmd("CMS.INITBYDIM many 10 2"), ok());
    for item in ["a", "b"] {
        let count = client.cmd(&format!("CMS.INCRBY many {item} 4000000000"));
        assert_eq!(count.as_array().len(), 1);
    }
    let found = list(&server, &["--advice"]);
    assert_eq!(keys(&found)["fine"]["advice"], Value::Array(vec![]));

    let (command, reason) = advised(&found, "grown");
    let items = info(&mut client, "grown", "Number of items inserted").as_int();
    assert_eq!(
        command,
        format!("BF.RESERVE {{grown}}:new 0.01 {}", items + items / 2)
    );
    assert_eq!(client.cmd(&command), ok());
    let bytes = info(&mut client, "{grown}:new", "Size")
        .as_int()
        .to_string();
    let plain = reason.replace(',', "");
    assert!(
        plain.contains(&format!(" takes {bytes} bytes instead of ")),
        "{reason}"
    );
    assert!(plain.contains("searches 1 filter instead of 6"), "{reason}");

    let (command, reason) = advised(&found, "narrow");
    assert_eq!(command, "TOPK.RESERVE {narrow}:new 100 2000 7 0.9");
    assert_eq!(client.cmd(&command), ok());
    assert!(reason.contains("2,000 a row take "), "{reason}");

    let (command, reason) = advised(&found, "made");
    assert_eq!(command, "CF.RESERVE {made}:new 4096");
    let why = "it has 2 of the 4 filters that bf.cf-max-expansions allows";
    assert!(reason.starts_with(why), "{reason}");
    assert_eq!(client.cmd(&command), ok());
    let insert = |key: &str| format!("CF.INSERT {key} ITEMS{}", words(4050));
    let full = |client: &mut Client, key: &str| {
        let reply = client.cmd(&insert(key));
        reply.as_array().iter().any(|added| *added != int(1))
    };
    assert!(full(&mut client, "made") && !full(&mut client, "{made}:new"));

    let (command, _) = advised(&found, "many");
    assert_eq!(command, "CMS.INITBYDIM {many}:new 10 2 CELL_SIZE 8");
    assert_eq!(client.cmd(&command), ok());
    let (command, _) = advised(&found, "full");
    assert_eq!(command, "BF.RESERVE {full}:new 0.01 200 NONSCALING");
    assert_eq!(client.cmd(&command), ok());
    let (command, reason) = advised(&found, "lately");
    assert_eq!(
        command,
        format!("BF.RESERVE {{lately}}:new 0.01 40 NONSCALING {window}")
    );
    assert!(reason.contains(" of the 100 items "), "{reason}");
    assert_eq!(client.cmd(&command), ok());

    let (command, _) = advised(&found, "half");
    assert_eq!(keys(&found)["half"]["partly_loaded"], true);
    assert_eq!(keys(&found)["half"]["items"], Value::Null);
    assert_eq!(client.cmd(&command), int(1));
}

/// A cuckoo filter is to have as many slots as all the filters that it may have, or more if it holds more than they would.
#[test]
fn an_advised_cuckoo_filter_has_room_for_what_is_there() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.cmd("CONFIG SET bf.cf-max-expansions 4"), ok());
    let items = |count: u32| numbered("", 0..count).concat();
    let made = client.cmd(&format!("CF.INSERT made ITEMS{}", items(1500)));
    assert_eq!(made.as_array().len(), 1500);
    // It has two filters of 1,024 slots. The limit may be lowered later.
    for (most, capacity) in [(4, 4096), (3, 3072), (2, 2250), (1, 2250)] {
        assert_eq!(
            client.cmd(&format!("CONFIG SET bf.cf-max-expansions {most}")),
            ok()
        );
        let (command, _) = advised(&list(&server, &["--advice", "--match", "made"]), "made");
        assert_eq!(
            command,
            format!("CF.RESERVE {{made}}:new {capacity}"),
            "{most}"
        );
    }
}

#[test]
fn advice_names_the_setting_that_ends_growth() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.cmd("BF.RESERVE fine 0.01 1000"), ok());
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
        let set = format!("CONFIG SET {filter} {of_filter} {object} {of_object}");
        assert_eq!(client.cmd(&set), ok());
        let reach = info(&mut client, "fine", "Max scaled capacity").as_int();
        assert!(reach < 2000, "{reach}");
        let more = u32::try_from(reach).expect("small");
        add(&mut client, "fine", &numbered("item", 500..more - 10));
        let found = list(&server, &["--advice", "--match", "fine"]);
        let (command, reason) = advised(&found, "fine");
        assert_eq!(command, format!("CONFIG SET {name} {raised}"));
        let why = format!(" at which {name} ends its growth ");
        assert!(reason.contains(&why), "{reason}");
        assert_eq!(client.cmd(&command), ok());
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
    assert_eq!(client.cmd("DEL old"), int(1));
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
    assert_eq!(client.cmd("CONFIG SET maxmemory-policy allkeys-lfu"), ok());
    let found = list(&server, &["--advice"]);
    assert_eq!(keys(&found)["old"]["advice"], Value::Array(vec![]));
}
