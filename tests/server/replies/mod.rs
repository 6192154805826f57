//! The replies of every command, in both protocols, and the server's own commands on a key that holds an object.

mod chunks;
mod info;
mod keys;

use std::collections::HashSet;
use std::fmt::Write as _;

use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{Cells, Geometry};

use crate::harness::{Client, Reply, Server, array, bulk, digest, error, int, ok};
use crate::support::protocols::{field, in_both_protocols, truth, truths, with_fixed_seed};

/// Returns a filter's size. The core's tests check it against an independent implementation.
fn size(capacity: u32, rate: f64) -> Geometry {
    let rate = Fraction::new(rate).expect("a rate");
    Geometry::for_rate(capacity.into(), rate, Cells::Bits)
}

/// Returns the rate of a filter in a scaling object.
fn filter_rate(rate: f64, index: u32) -> f64 {
    rate / (f64::from(index + 1) * f64::from(index + 2))
}

/// Length of each filter's bitmap.
fn debug_bytes(client: &mut Client, key: &str) -> Vec<i64> {
    let reported = client.cmd(&format!("BF.DEBUG {key}"));
    let lines = reported.as_array()[1..].iter().map(Reply::text);
    let bytes = lines.map(|line| {
        let start = line.split(' ').next().unwrap().to_owned();
        start.strip_prefix("bytes:").unwrap().parse().unwrap()
    });
    bytes.collect()
}

/// Fills a key with an object of three filters.
fn fill(client: &mut Client, key: &str) {
    assert_eq!(client.cmd(&format!("BF.RESERVE {key} 0.01 50")), ok());
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
        client.cmd(&format!("BF.INFO {key}")),
        client.cmd(&format!("BF.DEBUG {key}")),
        bulk(digest(client, key)),
    ]
}

#[test]
fn every_command_replies_in_its_shape() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, resp3| {
        let one = |value| truth(resp3, value);
        let each = |values: &[bool]| truths(resp3, values);
        let rows = [
            ("BF.ADD k a", one(true)),
            ("BF.ADD k a", one(false)),
            ("BF.EXISTS k a", one(true)),
            ("BF.EXISTS k b", one(false)),
            // An item that comes twice in one command is new once.
            (
                "BF.MADD k a b c b b",
                each(&[false, true, true, false, false]),
            ),
            ("BF.MADD new x", each(&[true])),
            ("BF.MEXISTS k a x b a", each(&[true, false, true, true])),
            ("BF.MEXISTS k x", each(&[false])),
            ("BF.CARD k", int(3)),
            ("BF.RESERVE r 0.01 100", ok()),
            ("BF.CARD r", int(0)),
            ("BF.INSERT r ITEMS a b a", each(&[true, true, false])),
            ("BF.INSERT r ITEMS a", each(&[false])),
            ("BF.INSERT r", array([])),
            ("BF.INSERT made", array([])),
            ("BF.CARD made", int(0)),
            ("BF.INSERT made NOCREATE ITEMS a", each(&[true])),
            ("BF.SCANDUMP k 999999999", array([int(0), bulk("")])),
            // Nothing there.
            ("BF.EXISTS none a", one(false)),
            ("BF.MEXISTS none a b c", each(&[false, false, false])),
            ("BF.CARD none", int(0)),
            ("EXISTS none", int(0)),
            // Command names and options are read without regard to case.
            ("bf.add k A", one(true)),
            ("Bf.InSeRt r nocreate items z", each(&[true])),
        ];
        for (command, reply) in rows {
            assert_eq!(client.cmd(command), reply, "{command}");
        }
    });
}

#[test]
fn items_and_keys_are_any_bytes() {
    let server = Server::start();
    let large = vec![b'x'; 1 << 20];
    let mut other = large.clone();
    *other.last_mut().unwrap() = b'y';
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
    let absent: [&[u8]; 5] = [b" ", b"\0\0", b"\n", b"a", &other];
    let yes: &[bool] = &[true; 8];
    in_both_protocols(&server, |client, resp3| {
        for key in [&b""[..], b"\0", b"k\r\n", b"\xff", &large] {
            for item in items {
                let missing = truth(resp3, false);
                assert_eq!(client.call(&[b"BF.EXISTS", key, item]), missing);
                let new = truth(resp3, true);
                assert_eq!(client.call(&[b"BF.ADD", key, item]), new);
                assert_eq!(client.call(&[b"BF.EXISTS", key, item]), new);
            }
            let with = |words: &[&'static [u8]], items: &[&[u8]]| {
                let mut args: Vec<Vec<u8>> = vec![words[0].to_vec(), key.to_vec()];
                args.extend(words[1..].iter().chain(items).map(|word| word.to_vec()));
                args
            };
            let mut ask = |args: Vec<Vec<u8>>| {
                let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                client.call(&args)
            };
            assert_eq!(ask(with(&[b"BF.MADD"], &items)), truths(resp3, &[false; 8]));
            assert_eq!(ask(with(&[b"BF.MEXISTS"], &items)), truths(resp3, yes));
            assert_eq!(
                ask(with(&[b"BF.INSERT", b"ITEMS"], &items)),
                truths(resp3, &[false; 8])
            );
            assert_eq!(
                ask(with(&[b"BF.MEXISTS"], &absent)),
                truths(resp3, &[false; 5])
            );
            assert_eq!(ask(with(&[b"BF.CARD"], &[])), int(8));
        }
        // Words that are options elsewhere.
        let rows = [
            ("BF.INSERT ITEMS ITEMS ITEMS CAPACITY NOCREATE", 3),
            ("BF.MADD NOCREATE ITEMS EXPANSION", 2),
            ("BF.INSERT CAPACITY NONSCALING ITEMS ", 1),
        ];
        for (command, items) in rows {
            assert_eq!(
                client.cmd(command),
                truths(resp3, &yes[..items]),
                "{command}"
            );
        }
        assert_eq!(client.cmd("BF.RESERVE EXPANSION 0.1 10"), ok());
        assert_eq!(client.cmd("BF.CARD EXPANSION"), int(0));
    });
}

#[test]
fn an_item_that_fails_ends_the_array() {
    let server = with_fixed_seed();
    let full = error("ERR non scaling filter is full");
    in_both_protocols(&server, |client, resp3| {
        let (new, known) = (truth(resp3, true), truth(resp3, false));
        let reserve = "BF.RESERVE k 0.000000001 3 NONSCALING";
        assert_eq!(client.cmd(reserve), ok());
        let rows = [
            ("BF.MADD k a b", array([new.clone(), new.clone()])),
            (
                "BF.MADD k a c d e a",
                array([known.clone(), new.clone(), full.clone()]),
            ),
            (
                "BF.MEXISTS k a b c d e",
                truths(resp3, &[true, true, true, false, false]),
            ),
            ("BF.CARD k", int(3)),
            ("BF.MADD k d", array([full.clone()])),
            (
                "BF.INSERT k ITEMS a d",
                array([known.clone(), full.clone()]),
            ),
            ("BF.MADD k a b c", truths(resp3, &[false; 3])),
            ("BF.ADD k a", known.clone()),
            ("BF.ADD k d", full.clone()),
            // The command that creates the object fails no other way.
            (
                "BF.INSERT n ERROR 0.000000001 CAPACITY 2 NONSCALING ITEMS a a b c d",
                array([new.clone(), known.clone(), new.clone(), full.clone()]),
            ),
            (
                "BF.MEXISTS n a b c d",
                truths(resp3, &[true, true, false, false]),
            ),
            ("BF.CARD n", int(2)),
        ];
        for (command, reply) in rows {
            assert_eq!(client.cmd(command), reply, "{command}");
        }

        // Growth that memory does not allow: of the second filter, to the byte.
        let limit = "CONFIG SET bf.bloom-filter-max-memory-usage ";
        let second = size(6, filter_rate(0.000_001, 1)).blob_bytes();
        assert!(second > size(3, filter_rate(0.000_001, 0)).blob_bytes());
        assert_eq!(client.cmd(&format!("{limit}{}", second - 1)), ok());
        assert_eq!(client.cmd("BF.RESERVE g 0.000001 3"), ok());
        let grown = array([
            new.clone(),
            new.clone(),
            new,
            error("ERR operation exceeds bloom object memory limit"),
        ]);
        assert_eq!(client.cmd("BF.MADD g a b c d e"), grown);
        assert_eq!(
            client.cmd("BF.MEXISTS g c d e"),
            truths(resp3, &[true, false, false])
        );
        let before = digest(client, "g");
        assert!(client.cmd("BF.ADD g d").is_error());
        assert_eq!(client.cmd("BF.MADD g a").as_array(), [known]);
        assert_eq!(digest(client, "g"), before);
        assert_eq!(client.cmd(&format!("{limit}64mb")), ok());
        assert_eq!(client.cmd("BF.MADD g d e"), truths(resp3, &[true, true]));
    });
}

#[test]
fn a_pipeline_of_a_thousand_is_answered_in_order() {
    let server = Server::start();
    in_both_protocols(&server, |client, resp3| {
        let reserve = "BF.RESERVE p 0.000000001 10000";
        assert_eq!(client.cmd(reserve), ok());
        let mut known = HashSet::new();
        let mut replies = Vec::new();
        for i in 0..1000_u32 {
            let items = [i * 7 % 300, i * 11 % 500, i * 13 % 700];
            let [a, b, c] = items;
            let (command, reply) = match i % 6 {
                0 => (format!("BF.ADD p {a}"), truth(resp3, known.insert(a))),
                1 => (format!("BF.EXISTS p {a}"), truth(resp3, known.contains(&a))),
                2 => {
                    let new = items.map(|item| known.insert(item));
                    (format!("BF.MADD p {a} {b} {c}"), truths(resp3, &new))
                }
                3 => {
                    let found = items.map(|item| known.contains(&item));
                    (format!("BF.MEXISTS p {a} {b} {c}"), truths(resp3, &found))
                }
                4 => (
                    "BF.CARD p".to_owned(),
                    int(i64::try_from(known.len()).unwrap()),
                ),
                _ => ("BF.INFO none".to_owned(), error("ERR not found")),
            };
            client.send(&command);
            replies.push((command, reply));
        }
        for (command, reply) in replies {
            assert_eq!(client.read(), reply, "{command}");
        }
    });
}

#[test]
fn one_command_takes_many_items() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, resp3| {
        let count = 30_000;
        let items: Vec<String> = (0..count).map(|item| item.to_string()).collect();
        let line = |start: &str| format!("{start} {}", items.join(" "));
        let reply = client.cmd(&line("BF.INSERT k CAPACITY 1000 ITEMS"));
        let new = reply
            .as_array()
            .iter()
            .filter(|new| **new == truth(resp3, true));
        let new = new.count();
        // The rest was taken for known, at the rate of 0.01.
        assert!(new > count - count / 50, "{new}");
        assert_eq!(reply.as_array().len(), count);
        assert_eq!(client.cmd("BF.CARD k"), int(i64::try_from(new).unwrap()));
        assert_eq!(
            client.cmd(&line("BF.MEXISTS k")),
            truths(resp3, &vec![true; count])
        );
        assert_eq!(
            client.cmd(&line("BF.MADD k")),
            truths(resp3, &vec![false; count])
        );
        assert_eq!(
            client.cmd(&line("BF.MEXISTS none")),
            truths(resp3, &vec![false; count])
        );
    });
}

#[test]
fn a_popular_client_reads_the_replies() {
    let server = Server::start();
    for protocol in ["", "?protocol=resp3"] {
        let address = format!("redis://127.0.0.1:{}/{protocol}", server.port());
        let client = redis::Client::open(address).unwrap();
        let mut client = client.get_connection().unwrap();
        let () = redis::cmd("FLUSHALL").exec(&mut client).unwrap();
        let binary: &[u8] = b"\0\r\n\xff";
        let added: Vec<bool> = redis::cmd("BF.MADD")
            .arg("k")
            .arg(&[binary, b"", b"a", binary])
            .query(&mut client)
            .unwrap();
        assert_eq!(added, [true, true, true, false]);
        let found: Vec<bool> = redis::cmd("BF.MEXISTS")
            .arg("k")
            .arg(&[binary, b"b"])
            .query(&mut client)
            .unwrap();
        assert_eq!(found, [true, false]);
        let exists: bool = redis::cmd("BF.EXISTS")
            .arg("k")
            .arg(binary)
            .query(&mut client)
            .unwrap();
        assert!(exists);
        let (added, count): (bool, u64) = redis::pipe()
            .cmd("BF.ADD")
            .arg("k")
            .arg(binary)
            .cmd("BF.CARD")
            .arg("k")
            .query(&mut client)
            .unwrap();
        assert_eq!((added, count), (false, 3));
        let info: std::collections::HashMap<String, redis::Value> =
            redis::cmd("BF.INFO").arg("k").query(&mut client).unwrap();
        assert_eq!(info["Number of items inserted"], redis::Value::Int(3));
        assert_eq!(info.len(), 9);
        let refused = redis::cmd("BF.INFO")
            .arg("none")
            .exec(&mut client)
            .unwrap_err();
        assert_eq!(refused.detail(), Some("not found"));
        // The kind of connection that the other tests use.
        let mut client = server.redis_connection();
        let count: u64 = redis::cmd("BF.CARD").arg("k").query(&mut client).unwrap();
        assert_eq!(count, 3);
    }
}
