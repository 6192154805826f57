//! The server's own commands on a key that holds an object.

use crate::harness::{Client, Server, array, bulk, error, int, ok, simple, wait_until};
use crate::support::protocols::{in_both_protocols, truth, truths, with_fixed_seed};

use super::{answers, fill};

#[test]
fn a_key_works_like_any_other() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, resp3| {
        fill(client, "k");
        let expected = answers(client, "k");
        assert_eq!(client.cmd("SET string v"), ok());
        assert_eq!(client.cmd("TYPE k"), simple("bloomfltr"));
        assert_eq!(client.cmd("EXISTS k k none"), int(2));
        assert_eq!(client.cmd("TOUCH k none"), int(1));
        let scanned = client.cmd("SCAN 0 COUNT 1000 TYPE bloomfltr");
        assert_eq!(scanned, array([bulk("0"), array([bulk("k")])]));
        let scanned = client.cmd("SCAN 0 COUNT 1000 TYPE string");
        assert_eq!(scanned, array([bulk("0"), array([bulk("string")])]));

        assert_eq!(client.cmd("OBJECT ENCODING k"), bulk("raw"));
        assert_eq!(client.cmd("OBJECT REFCOUNT k"), int(1));
        assert!(client.cmd("OBJECT IDLETIME k").as_int() < 100);
        assert!(client.cmd("OBJECT FREQ k").is_error());
        assert_eq!(client.cmd("CONFIG SET maxmemory-policy allkeys-lfu"), ok());
        assert_eq!(client.cmd("BF.ADD lfu a"), truth(resp3, true));
        assert!((1..=255).contains(&client.cmd("OBJECT FREQ lfu").as_int()));
        assert!(client.cmd("OBJECT IDLETIME lfu").is_error());
        assert_eq!(client.cmd("CONFIG SET maxmemory-policy noeviction"), ok());

        assert_eq!(client.cmd("RENAME k r"), ok());
        assert_eq!(client.cmd("EXISTS k"), int(0));
        assert_eq!(answers(client, "r"), expected);
        assert_eq!(client.cmd("RENAMENX r string"), int(0));
        assert_eq!(client.cmd("RENAMENX r k"), int(1));
        assert_eq!(answers(client, "k"), expected);

        // A copy is independent.
        assert_eq!(client.cmd("COPY k c"), int(1));
        assert_eq!(answers(client, "c"), expected);
        assert_eq!(client.cmd("BF.ADD c of-its-own"), truth(resp3, true));
        assert_eq!(answers(client, "k"), expected);
        assert_eq!(client.cmd("COPY k c"), int(0));
        assert_eq!(client.cmd("COPY k c REPLACE"), int(1));
        assert_eq!(answers(client, "c"), expected);
        assert_eq!(client.cmd("COPY k there DB 3"), int(1));
        assert_eq!(client.cmd("MOVE c 3"), int(1));
        assert_eq!(client.cmd("EXISTS c"), int(0));
        assert_eq!(client.cmd("SELECT 3"), ok());
        for key in ["there", "c"] {
            assert_eq!(answers(client, key), expected, "{key}");
        }
        assert_eq!(client.cmd("SELECT 0"), ok());

        let bytes = client.cmd("DUMP k");
        let restore = |client: &mut Client, key: &[u8], ttl: &[u8]| {
            client.call(&[b"RESTORE", key, ttl, bytes.as_bytes()])
        };
        assert_eq!(restore(client, b"d", b"0"), ok());
        assert_eq!(answers(client, "d"), expected);
        let busy = error("BUSYKEY Target key name already exists.");
        assert_eq!(restore(client, b"d", b"0"), busy);
        assert_eq!(restore(client, b"t", b"100000"), ok());
        assert!(client.cmd("PTTL t").as_int() > 0);

        // A write keeps the time to live.
        assert_eq!(client.cmd("PTTL k"), int(-1));
        assert_eq!(client.cmd("EXPIRE k 100"), int(1));
        assert_eq!(client.cmd("BF.ADD k one-more"), truth(resp3, true));
        assert!((1..=100_000).contains(&client.cmd("PTTL k").as_int()));
        assert_eq!(client.cmd("PERSIST k"), int(1));
        assert_eq!(client.cmd("PTTL k"), int(-1));
        assert_eq!(client.cmd("PEXPIRE k 1"), int(1));
        wait_until("the key has expired", || client.cmd("BF.CARD k") == int(0));
        assert_eq!(client.cmd("BF.INFO k"), error("ERR not found"));
        assert_eq!(client.cmd("BF.ADD k a"), truth(resp3, true));
        assert_eq!(client.cmd("PTTL k"), int(-1));
        assert_eq!(client.cmd("BF.CARD k"), int(1));
        assert_eq!(client.cmd("UNLINK k d"), int(2));
        assert_eq!(client.cmd("DEL t"), int(1));
        assert_eq!(client.cmd("BF.EXISTS k a"), truth(resp3, false));
    });
}

#[test]
fn an_expired_key_is_missing() {
    let server = Server::start();
    in_both_protocols(&server, |client, resp3| {
        // So that it is the command itself that finds the key to be over.
        assert_eq!(client.cmd("DEBUG SET-ACTIVE-EXPIRE 0"), ok());
        let one = |value| truth(resp3, value);
        let rows = [
            ("BF.EXISTS k a", one(false)),
            ("BF.MEXISTS k a b", truths(resp3, &[false, false])),
            ("BF.CARD k", int(0)),
            ("BF.INFO k", error("ERR not found")),
            ("BF.DEBUG k", error("ERR not found")),
            ("BF.SCANDUMP k 0", error("ERR not found")),
            ("BF.INSERT k NOCREATE ITEMS b", error("ERR not found")),
            ("BF.LOADCHUNK k 2 x", error("ERR received bad data")),
            ("BF.ADD k a", one(true)),
            ("BF.MADD k a b", truths(resp3, &[true, true])),
            ("BF.INSERT k ITEMS a", truths(resp3, &[true])),
            ("BF.RESERVE k 0.01 100", ok()),
        ];
        for (command, reply) in rows {
            client.cmd("DEL k");
            assert_eq!(client.cmd("BF.ADD k a"), one(true));
            assert_eq!(client.cmd("PEXPIRE k 2"), int(1));
            let start = milliseconds(client);
            wait_until("the time is over", || milliseconds(client) > start + 2);
            assert_eq!(client.cmd(command), reply, "{command}");
            // A new object does not inherit the time.
            let ttl = if reply.is_error() || command.contains("EXISTS") || command.contains("CARD")
            {
                -2
            } else {
                -1
            };
            assert_eq!(client.cmd("PTTL k"), int(ttl), "{command}");
        }
        assert_eq!(client.cmd("DEBUG SET-ACTIVE-EXPIRE 1"), ok());
    });
}

/// Returns the server's clock.
fn milliseconds(client: &mut Client) -> i64 {
    let time = client.cmd("TIME");
    let parts = time
        .as_array()
        .iter()
        .map(|part| part.text().parse::<i64>().unwrap());
    let parts: Vec<i64> = parts.collect();
    parts[0] * 1000 + parts[1] / 1000
}
