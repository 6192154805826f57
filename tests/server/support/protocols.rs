//! Both protocols, and how each says the same.

use crate::harness::{Client, Reply, Server, array, boolean, bulk, double, int, map, simple};

/// Returns a server whose objects all have one seed: small filters then have the same false positives each time.
pub fn with_fixed_seed() -> Server {
    Server::with(&[("bf.bloom-use-random-seed", "no")])
}

/// Runs a test in RESP2 and in RESP3, each time on empty databases. Its second argument is whether it runs in RESP3.
pub fn in_both_protocols(server: &Server, mut test: impl FnMut(&mut Client, bool)) {
    for resp3 in [false, true] {
        let mut client = if resp3 {
            server.client3()
        } else {
            server.client()
        };
        client.ok("FLUSHALL");
        test(&mut client, resp3);
    }
}

/// Yes or no, as the protocol says it.
pub fn truth(resp3: bool, value: bool) -> Reply {
    if resp3 {
        boolean(value)
    } else {
        int(i64::from(value))
    }
}

pub fn truths(resp3: bool, values: &[bool]) -> Reply {
    array(values.iter().map(|value| truth(resp3, *value)))
}

/// Returns a rate, as the protocol says it.
pub fn rate(resp3: bool, value: f64) -> Reply {
    if resp3 {
        double(value)
    } else {
        bulk(format!("{value:?}"))
    }
}

/// Named values, as the protocol says them.
pub fn table(resp3: bool, rows: Vec<(&str, Reply)>) -> Reply {
    let named = rows.into_iter().map(|(name, value)| (simple(name), value));
    if resp3 {
        map(named)
    } else {
        array(named.flat_map(|(name, value)| [name, value]))
    }
}

/// Returns one field of BF.INFO, as a number.
pub fn field(client: &mut Client, key: &str, field: &str) -> i64 {
    match client.cmd(&format!("BF.INFO {key} {field}")) {
        Reply::Map(pairs) => pairs[0].1.as_int(),
        other => other.as_array()[0].as_int(),
    }
}
