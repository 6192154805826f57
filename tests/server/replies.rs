//! What every command answers, in both protocols, and what the server does with a key that holds an
//! object.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;

use valkeybloom::bloom::{Cells, Fraction, Geometry};

use crate::harness::{
    Client, Reply, Server, array, boolean, bulk, digest, double, error, int, map, nil, ok, simple,
    wait_until,
};

/// A server whose objects all have one seed: small filters then tell the same items apart each time.
pub fn with_fixed_seed() -> Server {
    Server::with(&[("bf.bloom-use-random-seed", "no")])
}

/// Runs a test in RESP2 and in RESP3, each time on empty databases. It is told whether it is RESP3.
pub fn in_both_protocols(server: &Server, mut test: impl FnMut(&mut Client, bool)) {
    for resp3 in [false, true] {
        let mut client = if resp3 {
            server.client3()
        } else {
            server.client()
        };
        assert_eq!(client.cmd("FLUSHALL"), ok());
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

/// A rate, as the protocol says it.
fn rate(resp3: bool, value: f64) -> Reply {
    if resp3 {
        double(value)
    } else {
        bulk(format!("{value:?}"))
    }
}

/// Named values, as the protocol says them.
fn table(resp3: bool, rows: Vec<(&str, Reply)>) -> Reply {
    let named = rows.into_iter().map(|(name, value)| (simple(name), value));
    if resp3 {
        map(named)
    } else {
        array(named.flat_map(|(name, value)| [name, value]))
    }
}

/// One field of BF.INFO, as a number.
pub fn field(client: &mut Client, key: &str, field: &str) -> i64 {
    match client.cmd(&format!("BF.INFO {key} {field}")) {
        Reply::Map(pairs) => pairs[0].1.as_int(),
        other => other.as_array()[0].as_int(),
    }
}

/// The pairs that BF.SCANDUMP hands out, all but the last, empty one.
pub fn pieces(client: &mut Client, key: &str) -> Vec<(i64, Vec<u8>)> {
    let mut pieces = Vec::new();
    let mut cursor = 0;
    loop {
        let reply = client.cmd(&format!("BF.SCANDUMP {key} {cursor}"));
        let [next, bytes] = reply.as_array() else {
            panic!("not a pair: {reply:?}");
        };
        cursor = next.as_int();
        if cursor == 0 {
            assert_eq!(*bytes, bulk(""));
            return pieces;
        }
        pieces.push((cursor, bytes.as_bytes().to_vec()));
    }
}

pub fn load_piece(client: &mut Client, key: &str, piece: &(i64, Vec<u8>)) -> Reply {
    let cursor = piece.0.to_string();
    client.call(&[b"BF.LOADCHUNK", key.as_bytes(), cursor.as_bytes(), &piece.1])
}

/// The dump that BF.LOAD takes, made of the pieces: every bitmap goes back behind its header.
pub fn dump(pieces: &[(i64, Vec<u8>)]) -> Vec<u8> {
    const PREFIX: usize = 1 + 4 + 8 + 8 + 1 + 8;
    const HEADER: usize = 45;
    let (header, filters) = pieces[0].1.split_at(PREFIX);
    let mut bitmaps = pieces[1..].iter().flat_map(|(_, bytes)| bytes).copied();
    let mut dump = header.to_vec();
    dump[0] = 1;
    // Of each filter the length, the blob's header, and the numbers of items and capacity.
    for filter in filters.chunks(8 + HEADER + 16) {
        let (blob, numbers) = filter[8..].split_at(HEADER);
        let bitmap_bytes = usize::from_le_bytes(blob[1..9].try_into().unwrap());
        dump.extend((HEADER + bitmap_bytes).to_le_bytes());
        dump.extend(blob);
        dump.extend(bitmaps.by_ref().take(bitmap_bytes));
        dump.extend(numbers);
    }
    assert_eq!(bitmaps.next(), None);
    dump
}

/// A filter's size. The core's tests hold it against an implementation of their own.
pub fn size(capacity: u32, rate: f64) -> Geometry {
    let rate = Fraction::new(rate).expect("a rate");
    Geometry::for_rate(capacity.into(), rate, Cells::Bits)
}

/// The rate of a filter in a scaling object.
fn filter_rate(rate: f64, index: u32) -> f64 {
    rate / (f64::from(index + 1) * f64::from(index + 2))
}

#[test]
fn every_command_answers_in_its_shape() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, resp3| {
        let one = |value| truth(resp3, value);
        let each = |values: &[bool]| truths(resp3, values);
        let rows = [
            ("BF.ADD k a", one(true)),
            ("BF.ADD k a", one(false)),
            ("BF.EXISTS k a", one(true)),
            ("BF.EXISTS k b", one(false)),
            // What comes twice in one command is new once.
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
fn info_tells_all_fields_in_order_and_each_alone() {
    let server = Server::start();
    in_both_protocols(&server, |client, resp3| {
        assert_eq!(client.cmd("BF.RESERVE s 0.01 100 EXPANSION 3"), ok());
        assert_eq!(client.cmd("BF.RESERVE f 0.02 100 NONSCALING"), ok());
        assert_eq!(client.cmd("BF.ADD s a"), truth(resp3, true));
        assert_eq!(client.cmd("BF.ADD f a"), truth(resp3, true));

        // Up to where a filter would pass the limit of 64 MiB.
        let (mut reach, mut capacity, mut index) = (0, 100, 0);
        while size(capacity, filter_rate(0.01, index)).blob_bytes() <= 64 << 20 {
            reach += i64::from(capacity);
            capacity *= 3;
            index += 1;
        }
        let size = |client: &mut Client, key| int(field(client, key, "SIZE"));
        // With one item of a hundred, very little; how much is a matter of the core's tests.
        let mut estimated = |key: &str, made_at| {
            let told = match client.cmd(&format!("BF.INFO {key} ESTIMATEDERROR")) {
                Reply::Map(pairs) => match pairs[0].1 {
                    Reply::Double(told) => told,
                    ref other => panic!("not a double: {other:?}"),
                },
                other => other.as_array()[0].text().parse().expect("a number"),
            };
            assert!((0.0..made_at / 10.0).contains(&told), "{told}");
            rate(resp3, told)
        };
        let (of_scaling, of_fixed) = (estimated("s", filter_rate(0.01, 0)), estimated("f", 0.02));
        let scaling = vec![
            ("CAPACITY", "Capacity", int(100)),
            ("SIZE", "Size", size(client, "s")),
            ("FILTERS", "Number of filters", int(1)),
            ("ITEMS", "Number of items inserted", int(1)),
            ("EXPANSION", "Expansion rate", int(3)),
            ("ERROR", "Error rate", rate(resp3, 0.01)),
            ("TIGHTENING", "Tightening ratio", rate(resp3, 0.5)),
            ("MAXSCALEDCAPACITY", "Max scaled capacity", int(reach)),
            ("ESTIMATEDERROR", "Estimated error rate", of_scaling),
        ];
        let fixed = vec![
            ("CAPACITY", "Capacity", int(100)),
            ("SIZE", "Size", size(client, "f")),
            ("FILTERS", "Number of filters", int(1)),
            ("ITEMS", "Number of items inserted", int(1)),
            ("EXPANSION", "Expansion rate", nil()),
            ("ERROR", "Error rate", rate(resp3, 0.02)),
            ("ESTIMATEDERROR", "Estimated error rate", of_fixed),
        ];
        for (key, rows) in [("s", scaling), ("f", fixed)] {
            for (word, title, value) in &rows {
                let alone = if resp3 {
                    map([(simple(title), value.clone())])
                } else {
                    array([value.clone()])
                };
                assert_eq!(client.cmd(&format!("BF.INFO {key} {word}")), alone);
                let lower = word.to_lowercase();
                assert_eq!(client.cmd(&format!("bf.info {key} {lower}")), alone);
            }
            let rows = rows.into_iter().map(|(_, title, value)| (title, value));
            assert_eq!(
                client.cmd(&format!("BF.INFO {key}")),
                table(resp3, rows.collect())
            );
        }
    });
}

#[test]
fn max_scaled_capacity_is_where_growth_ends() {
    let server = Server::start();
    let mut client = server.client();
    let limit = "CONFIG SET bf.bloom-memory-usage-limit";
    assert_eq!(client.cmd(&format!("{limit} 100000")), ok());
    let create = "BF.INSERT full CAPACITY 100 EXPANSION 1";
    assert_eq!(client.cmd(create), array([]));
    let within = field(&mut client, "full", "MAXSCALEDCAPACITY");
    // Each filter takes 138 bytes and more for a hundred items. Sixteen have the same capacity, and then
    // they are larger and larger.
    assert!((1600..100_000 / 138 * 100).contains(&within), "{within}");
    let to = |n: i64| create.replace("full", &format!("v{n} VALIDATESCALETO {n}"));
    assert_eq!(client.cmd(&to(within)), array([]));
    let beyond = "ERR provided VALIDATESCALETO causes bloom object to exceed memory limit";
    assert_eq!(client.cmd(&to(within + 1)), error(beyond));
    // What is told is what is had.
    let refusal = error("ERR operation exceeds bloom object memory limit");
    let mut item = 0;
    loop {
        let mut add = "BF.MADD full".to_owned();
        for _ in 0..1000 {
            write!(add, " {item}").unwrap();
            item += 1;
        }
        if client.cmd(&add).as_array().last() == Some(&refusal) {
            break;
        }
        assert!(item < 10 * within);
    }
    assert_eq!(client.cmd("BF.CARD full"), int(within));
    assert_eq!(field(&mut client, "full", "MAXSCALEDCAPACITY"), within);
    assert!(field(&mut client, "full", "SIZE") <= 100_000);
    assert_eq!(client.cmd(&format!("{limit} 0")), ok());

    // A steep ratio soon makes filters that no limit admits.
    let steep = "BF.INSERT steep CAPACITY 1 EXPANSION 1 TIGHTENING 0.1";
    assert_eq!(client.cmd(steep), array([]));
    let within = field(&mut client, "steep", "MAXSCALEDCAPACITY");
    assert!((5..30).contains(&within), "{within}");
    let to = |n: i64| steep.replace("steep", &format!("v{n} VALIDATESCALETO {n}"));
    assert_eq!(client.cmd(&to(within)), array([]));
    assert_eq!(client.cmd(&to(within + 1)), error(beyond));

    // The widest numbers that an object can be made of.
    let widest = "BF.RESERVE wide 0.9999999999999999 9223372036854775807";
    assert_eq!(client.cmd(widest), refusal);
    let widest = "BF.RESERVE wide 0.01 1 EXPANSION 4294967295";
    assert_eq!(client.cmd(widest), ok());
    assert_eq!(field(&mut client, "wide", "MAXSCALEDCAPACITY"), 1);
    assert_eq!(field(&mut client, "wide", "EXPANSION"), i64::from(u32::MAX));
}

#[test]
fn max_scaled_capacity_is_all_where_nothing_ends_growth() {
    let server = Server::start();
    let mut client = server.client();
    // No limit on the object, nor on a filter.
    let limit = "CONFIG SET bf.bloom-filter-max-memory-usage 9223372036854775807";
    assert_eq!(client.cmd(limit), ok());
    let reserve = "BF.RESERVE k 0.01 1 EXPANSION 1";
    assert_eq!(client.cmd(reserve), ok());
    assert_eq!(field(&mut client, "k", "MAXSCALEDCAPACITY"), i64::MAX);
    for capacity in [1, 1000, 100_000] {
        let create = format!("BF.INSERT v{capacity} CAPACITY {capacity} EXPANSION 1");
        let validate = format!("{create} VALIDATESCALETO 9223372036854775807");
        assert_eq!(client.cmd(&validate), array([]));
        let key = format!("v{capacity}");
        assert_eq!(field(&mut client, &key, "MAXSCALEDCAPACITY"), i64::MAX);
    }
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
fn debug_tells_the_sizes_of_every_filter() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, resp3| {
        assert_eq!(client.cmd("BF.RESERVE f 0.01 100 NONSCALING"), ok());
        assert_eq!(client.cmd("BF.ADD f item"), truth(resp3, true));
        let line = "bytes:122 bits:976 hashes:6 hashwidth:64 capacity:100 size:1 ratio:0.01";
        assert_eq!(
            client.cmd("BF.DEBUG f"),
            array([bulk("size:1"), bulk(line)])
        );

        let rate = 0.000_001;
        assert_eq!(client.cmd("BF.RESERVE s 0.000001 10 EXPANSION 2"), ok());
        for i in 0..65 {
            assert_eq!(client.cmd(&format!("BF.ADD s {i}")), truth(resp3, true));
        }
        let told = client.cmd("BF.DEBUG s");
        let [total, lines @ ..] = told.as_array() else {
            panic!("nothing in {told:?}");
        };
        assert_eq!(*total, bulk("size:65"));
        let stack = [(10, 10), (20, 20), (40, 35)];
        assert_eq!(lines.len(), stack.len());
        for (index, ((capacity, items), line)) in (0..).zip(stack.iter().zip(lines)) {
            let rate = filter_rate(rate, index);
            let made = size(*capacity, rate);
            let (bytes, bits, hashes) = (made.cell_bytes, made.positions, made.hashes);
            let line = line.text();
            let (sizes, ratio) = line.split_once(" ratio:").unwrap();
            assert_eq!(
                sizes,
                format!(
                    "bytes:{bytes} bits:{bits} hashes:{hashes} hashwidth:64 capacity:{capacity} size:{items}"
                )
            );
            assert!(
                (ratio.parse::<f64>().unwrap() / rate - 1.0).abs() < 1e-9,
                "{line}"
            );
        }
        let counted = [("FILTERS", 3), ("CAPACITY", 70), ("ITEMS", 65)];
        for (name, count) in counted {
            assert_eq!(field(client, "s", name), count, "{name}");
        }
    });
}

#[test]
fn size_is_what_the_object_takes() {
    let server = with_fixed_seed();
    let mut client = server.client();
    let usage = |client: &mut Client, key: &str| {
        let told = client
            .cmd(&format!("MEMORY USAGE {key} SAMPLES 0"))
            .as_int();
        (field(client, key, "SIZE"), told)
    };
    // 122 and 1203 bytes of bitmap, and all else the same.
    assert_eq!(client.cmd("BF.RESERVE a 0.01 100 NONSCALING"), ok());
    assert_eq!(client.cmd("BF.RESERVE b 0.01 1000 NONSCALING"), ok());
    let (small, large) = (usage(&mut client, "a"), usage(&mut client, "b"));
    assert_eq!(large.0 - small.0, 1203 - 122);
    assert!(small.0 > 122 + 45);
    // The server adds what the key takes.
    let per_key = small.1 - small.0;
    assert!(per_key > 0);
    assert_eq!(large.1 - large.0, per_key);

    // A filter more is its blob, and as much for each.
    assert_eq!(client.cmd("BF.RESERVE c 0.000001 10"), ok());
    let mut sizes = vec![usage(&mut client, "c")];
    let mut items = 0;
    for capacity in [10, 20, 40, 80] {
        for _ in 0..capacity {
            assert_eq!(client.cmd(&format!("BF.ADD c {items}")), int(1));
            items += 1;
        }
        sizes.push(usage(&mut client, "c"));
    }
    let grown = sizes.windows(2).map(|pair| pair[1].0 - pair[0].0);
    let blobs: Vec<i64> = debug_bytes(&mut client, "c")
        .iter()
        .map(|bytes| bytes + 45)
        .collect();
    // The first step filled the first filter only.
    let overheads: Vec<i64> = grown
        .skip(1)
        .zip(&blobs[1..])
        .map(|(grown, blob)| grown - blob)
        .collect();
    assert_eq!(sizes[0].0, sizes[1].0);
    assert_eq!(overheads, [overheads[0]; 3]);
    assert!((0..256).contains(&overheads[0]), "{overheads:?}");
    assert!(sizes.iter().all(|(size, told)| told - size == per_key));
    let sum: i64 = ["a", "b", "c"]
        .map(|key| field(&mut client, key, "SIZE"))
        .iter()
        .sum();
    assert_eq!(
        server.info("bf")["bf_bloom_total_memory_bytes"],
        sum.to_string()
    );
}

/// Length of each filter's bitmap.
fn debug_bytes(client: &mut Client, key: &str) -> Vec<i64> {
    let told = client.cmd(&format!("BF.DEBUG {key}"));
    let lines = told.as_array()[1..].iter().map(Reply::text);
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

/// All that can be asked of an object: items that are in it and that are not, and its sizes.
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
fn an_object_travels_in_chunks() {
    let (server, second) = (Server::start(), Server::start());
    in_both_protocols(&server, |client, resp3| {
        fill(client, "k");
        let expected = answers(client, "k");
        let walk = pieces(client, "k");
        // The header, and then each filter's bitmap.
        let lengths = debug_bytes(client, "k");
        assert_eq!(walk.len(), 4);
        assert_eq!(walk[0].0, 1);
        let mut cursor = 1;
        for (piece, length) in walk[1..].iter().zip(lengths) {
            cursor += length;
            assert_eq!(
                (piece.0, piece.1.len()),
                (cursor, usize::try_from(length).unwrap())
            );
        }
        let header = client.cmd("BF.SCANDUMP k 0");
        assert_eq!(header, array([int(1), bulk(&walk[0].1)]));
        // A cursor may stand inside a bitmap, and a chunk ends with it.
        let inside = client.cmd("BF.SCANDUMP k 3");
        assert_eq!(inside, array([int(walk[1].0), bulk(&walk[1].1[2..])]));
        for past in [cursor, cursor + 1, i64::MAX] {
            let end = client.cmd(&format!("BF.SCANDUMP k {past}"));
            assert_eq!(end, array([int(0), bulk("")]));
        }

        let mut elsewhere = if resp3 {
            second.client3()
        } else {
            second.client()
        };
        assert_eq!(elsewhere.cmd("FLUSHALL"), ok());
        for piece in &walk {
            assert_eq!(load_piece(client, "copy", piece), ok());
            assert_eq!(load_piece(&mut elsewhere, "k", piece), ok());
        }
        assert_eq!(answers(client, "copy"), expected);
        assert_eq!(answers(&mut elsewhere, "k"), expected);
        // Both go on growing alike.
        for i in 200..400 {
            let add = |key| format!("BF.ADD {key} item{i}");
            assert_eq!(elsewhere.cmd(&add("k")), client.cmd(&add("copy")), "{i}");
        }
        assert_eq!(answers(&mut elsewhere, "k"), answers(client, "copy"));

        // Chunks may be cut elsewhere than they were handed out.
        assert_eq!(load_piece(client, "bits", &walk[0]), ok());
        let mut cursor = 1;
        for part in walk[1..].iter().flat_map(|(_, bytes)| bytes.chunks(17)) {
            cursor += i64::try_from(part.len()).unwrap();
            assert_eq!(load_piece(client, "bits", &(cursor, part.to_vec())), ok());
        }
        assert_eq!(answers(client, "bits"), expected);
    });
}

#[test]
fn a_chunk_is_at_most_4_mib() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.cmd("BF.RESERVE k 0.01 4000000 NONSCALING"), ok());
    assert_eq!(client.cmd("BF.ADD k a"), int(1));
    let length = debug_bytes(&mut client, "k")[0];
    let walk = pieces(&mut client, "k");
    let lengths: Vec<usize> = walk.iter().map(|(_, bytes)| bytes.len()).collect();
    let whole = 4 << 20;
    assert_eq!(
        lengths[1..],
        [whole, usize::try_from(length).unwrap() - whole]
    );
    for piece in &walk {
        assert_eq!(load_piece(&mut client, "copy", piece), ok());
    }
    assert_eq!(digest(&mut client, "copy"), digest(&mut client, "k"));
    assert_eq!(
        client.cmd("BF.MEXISTS copy a b"),
        truths(false, &[true, false])
    );
}

#[test]
fn a_half_loaded_object_answers_nothing() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, resp3| {
        fill(client, "k");
        let expected = answers(client, "k");
        let walk = pieces(client, "k");
        let whole = dump(&walk);
        for (index, piece) in walk.iter().enumerate() {
            assert_eq!(load_piece(client, "half", piece), ok());
            if index + 1 == walk.len() {
                break;
            }
            half_loaded(client, &whole);
            assert_eq!(client.cmd("TYPE half"), simple("bloomfltr"));
            assert!(client.cmd("MEMORY USAGE half").as_int() > 0);
            // What does not continue it changes nothing.
            let before = digest(client, "half");
            let wrong = [
                (piece.0, piece.1.clone()),
                walk[(index + 2) % walk.len()].clone(),
                (walk[index + 1].0 - 1, walk[index + 1].1.clone()),
                (walk[index + 1].0 + 1, walk[index + 1].1.clone()),
                (piece.0, Vec::new()),
                (0, walk[0].1.clone()),
                (-1, b"x".to_vec()),
                (i64::MAX, b"x".to_vec()),
                (i64::MIN, b"x".to_vec()),
            ];
            for (cursor, bytes) in wrong.into_iter().filter(|(cursor, _)| *cursor != 1) {
                let refused = load_piece(client, "half", &(cursor, bytes));
                assert_eq!(refused, error("ERR received bad data"), "{cursor}");
            }
            let busy = error("BUSYKEY Target key name already exists.");
            assert_eq!(load_piece(client, "half", &walk[0]), busy);
            assert_eq!(digest(client, "half"), before);
        }
        assert_eq!(answers(client, "half"), expected);
        let refused = load_piece(client, "half", walk.last().unwrap());
        assert_eq!(refused, error("ERR received bad data"));

        // Such an object is a key as any other.
        assert_eq!(load_piece(client, "half2", &walk[0]), ok());
        assert_eq!(load_piece(client, "half2", &walk[1]), ok());
        assert_eq!(client.cmd("COPY half2 copy"), int(1));
        assert_eq!(client.cmd("RENAME half2 renamed"), ok());
        let bytes = client.cmd("DUMP renamed");
        assert_eq!(
            client.call(&[b"RESTORE", b"restored", b"0", bytes.as_bytes()]),
            ok()
        );
        for key in ["copy", "renamed", "restored"] {
            for piece in &walk[2..] {
                let loading = error("ERR bloom object is still being loaded");
                assert_eq!(client.cmd(&format!("BF.EXISTS {key} item1")), loading);
                assert_eq!(load_piece(client, key, piece), ok());
            }
            assert_eq!(answers(client, key), expected, "{key}");
        }
        assert_eq!(load_piece(client, "gone", &walk[0]), ok());
        assert_eq!(client.cmd("PEXPIRE gone 1"), int(1));
        wait_until("the key has expired", || {
            client.cmd("EXISTS gone") == int(0)
        });
        assert_eq!(client.cmd("BF.EXISTS gone item1"), truth(resp3, false));
        assert_eq!(load_piece(client, "gone", &walk[0]), ok());
        assert_eq!(client.cmd("DEL gone"), int(1));
    });
}

fn half_loaded(client: &mut Client, dump: &[u8]) {
    let refused = error("ERR bloom object is still being loaded");
    let commands = [
        "BF.ADD half item1",
        "BF.MADD half item1 item2",
        "BF.EXISTS half item1",
        "BF.MEXISTS half item1 item2",
        "BF.CARD half",
        "BF.RESERVE half 0.01 100",
        "BF.INSERT half ITEMS item1",
        "BF.INSERT half",
        "BF.INSERT half NOCREATE ITEMS item1",
        "BF.INFO half",
        "BF.INFO half SIZE",
        "BF.SCANDUMP half 0",
        "BF.SCANDUMP half 1",
        "BF.DEBUG half",
    ];
    for command in commands {
        assert_eq!(client.cmd(command), refused, "{command}");
    }
    assert_eq!(client.call(&[b"BF.LOAD", b"half", dump]), refused);
}

#[test]
fn load_restores_a_dump() {
    let mut server = Server::builder()
        .config("appendonly", "yes")
        .config("aof-use-rdb-preamble", "no")
        .start();
    in_both_protocols(&server, |client, _| {
        fill(client, "k");
        let expected = answers(client, "k");
        let bytes = dump(&pieces(client, "k"));
        assert_eq!(client.call(&[b"BF.LOAD", b"copy", &bytes]), ok());
        assert_eq!(client.cmd("PTTL copy"), int(-1));
        assert_eq!(answers(client, "copy"), expected);

        assert_eq!(client.call(&[b"BF.LOAD", b"ttl", &bytes, b"100000"]), ok());
        let ttl = client.cmd("PTTL ttl").as_int();
        assert!((1..=100_000).contains(&ttl), "{ttl}");
        // To the server a key that expires has another digest.
        assert_eq!(client.cmd("COPY ttl lasting"), int(1));
        assert_eq!(client.cmd("PERSIST lasting"), int(1));
        assert_eq!(answers(client, "lasting"), expected);
        assert_eq!(client.call(&[b"BF.LOAD", b"short", &bytes, b"1"]), ok());
        wait_until("the key has expired", || {
            client.cmd("EXISTS short") == int(0)
        });

        // The sizes that the format is known by: 30 bytes, and per filter 24 beside the blob.
        assert_eq!(client.cmd("BF.RESERVE f 0.01 100 NONSCALING"), ok());
        assert_eq!(dump(&pieces(client, "f")).len(), 30 + 24 + 45 + 122);
    });

    // An AOF holds the same bytes.
    let mut client = server.client();
    let bytes = dump(&pieces(&mut client, "k"));
    // Settings may say that a rewrite is under way already.
    wait_until("the AOF can be rewritten", || {
        !client.cmd("BGREWRITEAOF").is_error()
    });
    wait_until("the AOF is rewritten", || {
        let info = server.info("persistence");
        info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
    });
    let folder = server.dir().join("appendonlydir");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    // The file from before may not be removed yet.
    let base = files.filter(|path| path.to_string_lossy().ends_with(".base.aof"));
    let base: Vec<Vec<u8>> = base.filter_map(|path| fs::read(path).ok()).collect();
    let mut command =
        format!("*3\r\n$7\r\nBF.LOAD\r\n$1\r\nk\r\n${}\r\n", bytes.len()).into_bytes();
    command.extend(&bytes);
    let holds = |aof: &Vec<u8>| aof.windows(command.len()).any(|window| window == command);
    assert!(base.iter().any(holds));
    let expected = answers(&mut client, "k");
    server.restart();
    let mut client = server.client();
    assert_eq!(answers(&mut client, "k"), expected);
    assert_eq!(answers(&mut client, "copy"), expected);
    assert!(client.cmd("PTTL ttl").as_int() > 0);
}

#[test]
fn a_key_is_a_key_as_any_other() {
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

        // A copy has a life of its own.
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
fn a_key_whose_time_is_over_is_no_key() {
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
            // What is made then does not inherit the time.
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

/// The server's clock.
fn milliseconds(client: &mut Client) -> i64 {
    let time = client.cmd("TIME");
    let parts = time
        .as_array()
        .iter()
        .map(|part| part.text().parse::<i64>().unwrap());
    let parts: Vec<i64> = parts.collect();
    parts[0] * 1000 + parts[1] / 1000
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
