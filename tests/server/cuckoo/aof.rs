//! The contents of a rewritten AOF, and of an RDB.

use crate::harness::{Server, digest, ok};
use crate::support::aof::rewrite_aof;

use super::{chunks, items, load};

#[test]
fn a_rewritten_log_makes_the_same_filters() {
    let mut server = Server::with(&[("appendonly", "yes"), ("aof-use-rdb-preamble", "no")]);
    let mut client = server.client();
    client.cmd("CF.RESERVE empty 1000");
    client.cmd("CF.ADD emptied a");
    client.cmd("CF.DEL emptied a");
    client.cmd(&format!(
        "CF.INSERT deep CAPACITY 8 ITEMS {}",
        items("i", 100)
    ));
    client.cmd("CF.RESERVE large 10000000");
    client.cmd(&format!("CF.INSERT large ITEMS {}", items("i", 300)));
    client.cmd("EXPIRE large 10000");
    let header = chunks(&mut client, "large").swap_remove(0);
    load(&mut client, "claimed", &[header]);
    let keys = ["empty", "emptied", "deep", "large", "claimed"];
    let before = keys.map(|key| digest(&mut client, key));
    for _ in 0..2 {
        rewrite_aof(&server);
        server.restart();
        let mut client = server.client();
        for reload in [false, true] {
            if reload {
                assert_eq!(client.cmd("DEBUG RELOAD"), ok());
            }
            assert_eq!(keys.map(|key| digest(&mut client, key)), before);
            assert!(client.cmd("TTL large").as_int() > 9000);
            // Claimed slots take no memory, whatever their source.
            assert!(client.cmd("MEMORY USAGE claimed").as_int() < 1000);
        }
    }
}
