//! Replies in both protocols that the recordings of `RedisBloom` (`recorded::wire`) don't have.

mod chunks;
mod info;

use std::fmt::Write as _;
use std::ops::Range;

use crate::harness::{Client, Reply, Server, array, bulk, digest, error, int, nil, ok, spaced};
use crate::support::protocols::{field, in_both_protocols, truth, truths, with_fixed_seed};

/// Fills a key with an object of three filters.
fn fill(client: &mut Client, key: &str) {
    client.ok(format!("BF.RESERVE {key} 0.01 50"));
    for i in 0..200 {
        client.cmd(&format!("BF.ADD {key} item{i}"));
    }
    assert_eq!(field(client, key, "FILTERS"), 3);
}

/// Returns all answers about an object: items that are in it and items that are not, and its sizes.
fn answers(client: &mut Client, key: &str) -> Vec<Reply> {
    let mut items = String::new();
    for i in 0..1000 {
        write!(items, " item{i}").unwrap();
    }
    vec![
        client.cmd(&format!("BF.MEXISTS {key}{items}")),
        client.cmd(&format!("BF.CARD {key}")),
        client.cmd(&format!("BF.INFO {key} ALL")),
        client.cmd(&format!("BF.DEBUG {key}")),
        bulk(digest(client, key)),
    ]
}

#[test]
fn commands_reply_in_their_shapes() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, resp3| {
        let one = |value| truth(resp3, value);
        let each = |digits: &str| {
            let values: Vec<bool> = digits.bytes().map(|digit| digit == b'1').collect();
            truths(resp3, &values)
        };
        let rows = [
            ("BF.ADD k a", one(true)),
            // An item that comes twice in one command is new once.
            ("BF.MADD k a b c b b", each("01100")),
            ("BF.MISSING k a x b x y", int(2)),
            ("BF.CARD k", int(3)),
            ("BF.RESERVE r 0.01 100", ok()),
            ("BF.RESERVE r 0.01 100 NX", nil()),
            ("BF.INSERT r ITEMS a b a", each("110")),
            ("BF.INSERT r", array([])),
            ("BF.INSERT made", array([])),
            ("BF.CARD made", int(0)),
            ("BF.INSERT made NOCREATE ITEMS a", each("1")),
            ("BF.SCANDUMP k 999999999", array([int(0), bulk("")])),
            ("BF.MERGE merged r made", ok()),
            // With counters.
            ("BF.INSERT n COUNTING ITEMS a a b", each("101")),
            ("BF.COUNT n a", int(2)),
            ("BF.DEL n a", one(true)),
            ("BF.DEL n x", one(false)),
            ("BF.MDEL n a a b", each("101")),
            ("BF.INSERT n ITEMS a", each("1")),
            ("BF.DEL n a", one(true)),
            ("BF.INSERT far SCALETO 99 ITEMS a a", each("10")),
            // A write keeps the time to live.
            ("PEXPIREAT n 33000000000000", int(1)),
            ("BF.ADD n a", one(true)),
            ("BF.MERGE n r", error("ERR filters are of different kinds")),
            ("PEXPIREAT merged 33000000000000", int(1)),
            ("BF.ADD r c", one(true)),
            ("BF.MERGE merged r", ok()),
            ("BF.EXISTS merged c", one(true)),
            ("PEXPIRETIME n", int(33_000_000_000_000)),
            ("PEXPIRETIME merged", int(33_000_000_000_000)),
            // Nothing there.
            ("BF.MISSING none a a", int(1)),
            ("BF.DEL none a", one(false)),
            ("EXISTS none", int(0)),
            // Command names and options are read without regard to case.
            ("bf.add k A", one(true)),
            ("Bf.InSeRt r nocreate items z", each("1")),
            // Words that are options elsewhere.
            ("BF.INSERT ITEMS ITEMS ITEMS CAPACITY NOCREATE", each("111")),
            ("BF.MADD NOCREATE ITEMS EXPANSION", each("11")),
            ("BF.RESERVE EXPANSION 0.1 10", ok()),
        ];
        client.replies(rows);
    });
}

#[test]
fn items_and_keys_are_any_bytes() {
    let server = Server::start();
    let large = vec![b'x'; 1 << 20];
    let items: [&[u8]; 8] = [
        b"",
        b"\0",
        b"\r\n",
        b"a\0b",
        b"a\0c",
        b"\xff\xfe",
        &large,
        b"*1\r\n",
    ];
    let absent: [&[u8]; 5] = [b" ", b"\0\0", b"\n", b"a", &large[1..]];
    let mut client = server.client();
    for key in items {
        for item in items {
            assert_eq!(client.call(&[b"BF.ADD", key, item]), int(1));
            assert_eq!(client.call(&[b"BF.EXISTS", key, item]), int(1));
        }
        let mut call = |words: &[&[u8]], items: &[&[u8]]| {
            client.call(&[&[words[0], key], &words[1..], items].concat())
        };
        assert_eq!(call(&[b"BF.MADD"], &items), truths(false, &[false; 8]));
        let insert = call(&[b"BF.INSERT", b"ITEMS"], &items);
        assert_eq!(insert, truths(false, &[false; 8]));
        assert_eq!(call(&[b"BF.MEXISTS"], &items), truths(false, &[true; 8]));
        assert_eq!(call(&[b"BF.MEXISTS"], &absent), truths(false, &[false; 5]));
        assert_eq!(call(&[b"BF.CARD"], &[]), int(8));
    }
}

/// Every missing item counts once, also where thousands are asked for more than once.
#[test]
fn missing_items_are_counted_once() {
    let server = with_fixed_seed();
    let mut client = server.client();
    for options in ["", " COUNTING", " WINDOW 1000000000000 PERIODS 2"] {
        client.ok(format!("BF.RESERVE k 0.0000000001 3000{options}"));
        let words = |numbers: Range<u32>| -> String { spaced(numbers.map(|n| n * 7919 % 10_000)) };
        client.expect(
            format!("BF.MADD k {}", words(0..3000)),
            truths(false, &[true; 3000]),
        );
        // Twice the first 9,000.
        client.expect(
            format!("BF.MISSING k {} {}", words(0..9000), words(0..9000)),
            int(6000),
        );
        client.expect("DEL k", int(1));
    }
}
