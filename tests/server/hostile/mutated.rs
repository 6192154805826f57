//! Mutated bytes, most of which are no object: whatever is accepted acts as one.

use valkeybloom_sketches::bloom::{
    Growth, Kind, Limits, Object, Params, Shape, Tightening, Time, Window, chunks, dump,
};
use valkeybloom_sketches::{Fraction, Seed};

use crate::harness::{Client, Reply, Server, error, int, ok, simple, wait_until};
use crate::support::forged::{Forged, ForgedFilter, PREFIX, Rdb, rdb_version, refuses, seal};
use crate::support::random::Random;
use crate::support::usage::{memory, peak_address_space};

/// Bytes with one to four changes, none of them in the first `fixed`.
fn mutated(random: &mut Random, bytes: &[u8], fixed: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let length = bytes.len() - fixed;
        if length < 2 {
            break;
        }
        // Half of them where the fields are, in front of the bits.
        let length = if random.one_in(2) {
            length.min(90)
        } else {
            length
        };
        let at = fixed + random.below(length);
        match random.below(8) {
            0 | 1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = random.pick(&[0, 1, 2, 5, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xff]),
            3 => {
                bytes.remove(at);
            }
            4 => bytes.insert(at, random.next().to_le_bytes()[0]),
            5 => bytes.truncate(at),
            6 => {
                let some = bytes[at..].iter().take(8).count();
                let value = random.pick(&[0, 1, u64::MAX, 1 << 62, 1 << 63, 1 << 32, 1 << 40]);
                bytes[at..at + some].copy_from_slice(&value.to_le_bytes()[..some]);
            }
            _ => {
                let end = (at + random.below(60)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = fixed + random.below(length);
                bytes.splice(to..to, piece);
            }
        }
    }
    bytes
}

/// Whatever was accepted has to act as an object.
#[track_caller]
fn acts_as_object(client: &mut Client, key: &str, from: &[u8]) {
    let shown = || format!("accepted from {}", from.escape_ascii());
    let loading = error("ERR bloom object is still being loaded");
    let mut call = |line: &str| match client.try_call(
        &line
            .replace("KEY", key)
            .split(' ')
            .map(str::as_bytes)
            .collect::<Vec<_>>(),
    ) {
        Ok(reply) => reply,
        Err(e) => panic!("{line}: {e}, {}", shown()),
    };
    let info = call("BF.INFO KEY");
    if info == loading {
        assert_eq!(call("BF.EXISTS KEY item"), loading, "{}", shown());
        assert_eq!(call("BF.ADD KEY item"), loading, "{}", shown());
    } else {
        assert!(matches!(info, Reply::Array(_)), "{info:?}, {}", shown());
        assert!(!call("BF.EXISTS KEY item").is_error(), "{}", shown());
        let added = call("BF.ADD KEY item");
        if !added.is_error() {
            assert_eq!(call("BF.EXISTS KEY item"), int(1), "{}", shown());
        }
        assert!(!call("BF.DEBUG KEY").is_error(), "{}", shown());
        assert!(!call("BF.SCANDUMP KEY 1").is_error(), "{}", shown());
    }
    let dump = call("DUMP KEY");
    assert!(matches!(dump, Reply::Bulk(_)), "{dump:?}, {}", shown());
    assert_eq!(call("DEBUG DIGEST-VALUE KEY").as_array().len(), 1);
    assert_eq!(call("DEL KEY"), int(1), "{}", shown());
}

/// Objects whose bytes are mostly fields.
fn samples() -> [Forged; 4] {
    let sample = Forged::new();
    let mut fixed = sample.clone();
    fixed.expansion = 0;
    fixed.filters.truncate(1);
    fixed.filters[0].items = 25;
    let mut deep = sample.clone();
    deep.filters = vec![ForgedFilter::new(3, 3, vec![9; 4]); 12];
    let mut single = sample.clone();
    single.filters.truncate(1);
    [sample, fixed, deep, single]
}

#[test]
fn mutations_never_break_the_server() {
    let server = Server::start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    let samples = samples();

    // Values as they stand in a DUMP: forged, half loaded, and two from a server, compressed.
    let mut values: Vec<Vec<u8>> = samples
        .iter()
        .map(|object| object.rdb().raw(&[0]).0)
        .collect();
    for object in &samples {
        let bitmap = &object.filters[0].bitmap;
        let value = Rdb::default().uint(0).string(&object.header());
        values.push(value.string(&bitmap[..3]).raw(&[0]).0);
    }
    for line in [
        "BF.INSERT made CAPACITY 20 ERROR 0.01 ITEMS a b c",
        "BF.INSERT made CAPACITY 2 EXPANSION 1 ITEMS a b c d e f",
    ] {
        assert!(!client.cmd(line).is_error());
        let dump = client.cmd("DUMP made");
        let bytes = dump.as_bytes();
        values.push(bytes[..bytes.len() - 10].to_vec());
        assert_eq!(client.cmd("DEL made"), int(1));
    }
    for value in &values {
        let payload = seal(value.clone(), version);
        let reply = client.call(&[b"RESTORE", b"k", b"0", &payload]);
        assert_eq!(reply, ok(), "unchanged");
        acts_as_object(&mut client, "k", &payload);
    }

    let used = memory(&server, "used_memory");
    let mut random = Random(0x686f_7374_696c_6501);
    let mut accepted = 0;
    for _ in 0..3000 {
        let value = random.pick(&values);
        let payload = seal(mutated(&mut random, &value, PREFIX.len()), version);
        match client.try_call(&[b"RESTORE", b"k", b"0", &payload]) {
            Ok(reply) if reply == ok() => {
                accepted += 1;
                acts_as_object(&mut client, "k", &payload);
            }
            Ok(reply) => assert_eq!(reply, error("ERR Bad data format")),
            Err(e) => panic!("{e} after RESTORE of {}", payload.escape_ascii()),
        }
    }
    assert!(accepted > 100, "only {accepted} mutations were accepted");

    let mut accepted = 0;
    for _ in 0..1500 {
        let object = random.pick(&samples);
        let dump = mutated(&mut random, &object.dump(), 0);
        match client.try_call(&[b"BF.LOAD", b"k", &dump]) {
            Ok(reply) if reply == ok() => {
                accepted += 1;
                acts_as_object(&mut client, "k", &dump);
            }
            Ok(reply) => assert!(
                reply.text().starts_with("ERR bloom object decoding failed")
                    || reply == error("ERR operation exceeds bloom object memory limit"),
                "{reply:?}"
            ),
            Err(e) => panic!("{e} after BF.LOAD of {}", dump.escape_ascii()),
        }
    }
    assert!(accepted > 50, "only {accepted} mutations were accepted");

    let mut accepted = 0;
    for _ in 0..1500 {
        let object = random.pick(&samples);
        let header = mutated(&mut random, &object.header(), 0);
        match client.try_call(&[b"BF.LOADCHUNK", b"k", b"1", &header]) {
            Ok(reply) if reply == ok() => {
                accepted += 1;
                // Whatever length the header claims, there is a first byte.
                let reply = client.cmd("BF.LOADCHUNK k 2 x");
                assert_eq!(reply, ok(), "{}", header.escape_ascii());
                acts_as_object(&mut client, "k", &header);
            }
            Ok(reply) => assert!(
                reply == error("ERR received bad data")
                    || reply == error("ERR operation exceeds bloom object memory limit"),
                "{reply:?}"
            ),
            Err(e) => panic!("{e} after BF.LOADCHUNK of {}", header.escape_ascii()),
        }
    }
    assert!(accepted > 50, "only {accepted} mutations were accepted");

    assert_eq!(client.cmd("FLUSHALL"), ok());
    wait_until("the memory is as it was", || {
        memory(&server, "used_memory") - used < 512 * 1024
    });
    let ledger = server.info("bf");
    assert_eq!(ledger["bf_bloom_num_objects"], "0");
    assert_eq!(ledger["bf_bloom_total_memory_bytes"], "0");
}

/// Objects with periods, with counters and with ids, some of several filters.
fn extended_samples() -> Vec<Object> {
    let fraction = |value| Fraction::new(value).expect("a fraction");
    let params = |capacity, expansion| Params {
        capacity,
        error_rate: fraction(0.01),
        tightening: Tightening::HALF,
        growth: Growth::from_expansion(expansion),
    };
    // So long that nothing passes, nor is ahead, however many periods are claimed.
    let windowed = Kind::Windowed(Window::new(1_000_000_000_000, 3).expect("a window"));
    let now_ms = 1_700_000_000_000;
    let shapes = [
        (params(3, 2), windowed),
        (params(2, 1), Kind::Counting),
        (params(4, 2), windowed),
        (params(4, 2), Kind::Counting),
        (params(20, 0), windowed),
        (params(20, 0), Kind::Counting),
    ];
    let mut samples = Vec::new();
    for (params, kind) in shapes {
        let counting = kind == Kind::Counting;
        for ids in [false, true] {
            let shape = Shape { params, kind };
            let made = Object::new(&shape, Seed::FIXED, Time::at(now_ms), Limits::NONE);
            let mut object = made.expect("a small object");
            for number in 0..12_u64 {
                let time = Time {
                    now_ms,
                    ttl_ms: (number % 3 == 0).then_some(1 + number * 200_000_000_000),
                };
                let (item, id) = (number.to_le_bytes(), (ids && counting).then_some(number));
                object.add(&item, time, id, || Limits::NONE).expect("room");
            }
            samples.push(object);
            if !counting {
                break;
            }
        }
    }
    samples
}

/// Whatever was accepted has to act as an object with periods or counters.
#[track_caller]
fn acts_as_extended(client: &mut Client, from: &[u8]) {
    let shown = || format!("accepted from {}", from.escape_ascii());
    let card = client.cmd("BF.CARD k");
    if card != error("ERR bloom object is still being loaded") {
        assert!(card.as_int() >= 0, "{}", shown());
        let reply = client.cmd("BF.INFO k");
        let info = reply.as_array();
        let missing = client.cmd("BF.MISSING k x x").as_int();
        assert!((0..=1).contains(&missing), "{}", shown());
        for line in [
            "BF.MEXISTS k x y",
            "BF.DEBUG k",
            "BF.SCANDUMP k 0",
            "COPY k copy REPLACE",
        ] {
            assert!(!client.cmd(line).is_error(), "{line}, {}", shown());
        }
        // With ids where there are counters.
        let counting = !client.cmd("BF.COUNT k x").is_error();
        let lines: &[&str] = if counting {
            &[
                "BF.INSERT k ID 7 ITEMS y z",
                "BF.DEL k z ID 7",
                "BF.DEL k z",
                "BF.MDEL k y x y",
            ]
        } else {
            &["BF.MADD k y z"]
        };
        for line in lines {
            assert!(!client.cmd(line).is_error(), "{line}, {}", shown());
        }
        let window = info.iter().position(|told| *told == simple("Window"));
        let ms = window.map(|at| info[at + 1].as_int());
        if let Some(ms) = ms {
            for ttl in [1, ms] {
                let line = format!("BF.INSERT k TTL {ttl} ITEMS ttl-{ttl}");
                assert!(!client.cmd(&line).is_error(), "{line}, {}", shown());
            }
        }
        let merged = client.cmd("BF.MERGE merged copy k");
        let rates = error("ERR error rates of the filters add up to 1 or more");
        assert!(merged == ok() || merged == rates, "{merged:?}, {}", shown());
        let added = client.cmd("BF.ADD k item");
        // Where periods are short the item may have passed by now.
        if !added.is_error() && ms.is_none_or(|ms| ms > 1_000_000) {
            assert_eq!(client.cmd("BF.EXISTS k item"), int(1), "{}", shown());
        }
        client.cmd("DEL copy merged");
    }
    assert!(
        matches!(client.cmd("DUMP k"), Reply::Bulk(_)),
        "{}",
        shown()
    );
    assert!(client.cmd("MEMORY USAGE k").as_int() > 0);
    assert_eq!(client.cmd("DEBUG DIGEST-VALUE k").as_array().len(), 1);
    assert_eq!(client.cmd("DEL k"), int(1), "{}", shown());
}

#[test]
fn mutations_of_periods_and_counters_never_break_the_server() {
    let server = Server::start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    let samples = extended_samples();
    assert_eq!(client.cmd("CONFIG SET rdbcompression no"), ok());
    let mut forms: [Vec<Vec<u8>>; 3] = Default::default();
    for object in &samples {
        let dump = dump::encode(object).expect("an object of ours");
        assert_eq!(client.call(&[b"BF.LOAD", b"k", &dump]), ok());
        let payload = client.cmd("DUMP k");
        let bytes = payload.as_bytes();
        forms[0].push(bytes[..bytes.len() - 10].to_vec());
        acts_as_extended(&mut client, &dump);
        let header = chunks::piece(object, 0).unwrap().1.bytes().to_vec();
        let begin: [&[u8]; 4] = [b"BF.LOADCHUNK", b"k", b"1", &header];
        assert_eq!(client.call(&begin), ok());
        assert_eq!(client.cmd("BF.LOADCHUNK k 2 x"), ok());
        let payload = client.cmd("DUMP k");
        let bytes = payload.as_bytes();
        forms[0].push(bytes[..bytes.len() - 10].to_vec());
        assert_eq!(client.cmd("DEL k"), int(1));
        forms[1].push(dump);
        forms[2].push(header);
    }

    let used = memory(&server, "used_memory");
    let peak = peak_address_space(&server);
    let mut random = Random(0x686f_7374_696c_6502);
    for (form, values) in forms.iter().enumerate() {
        let mut accepted = 0;
        for _ in 0..2000 {
            let value = random.pick(values);
            let bytes = match form {
                0 => seal(mutated(&mut random, &value, PREFIX.len()), version),
                // The version stands first.
                _ => mutated(&mut random, &value, 1),
            };
            let words: &[&[u8]] = match form {
                0 => &[b"RESTORE", b"k", b"0", &bytes],
                1 => &[b"BF.LOAD", b"k", &bytes],
                _ => &[b"BF.LOADCHUNK", b"k", b"1", &bytes],
            };
            match client.try_call(words) {
                Ok(reply) if reply == ok() => {
                    accepted += 1;
                    acts_as_extended(&mut client, &bytes);
                }
                Ok(reply) => {
                    let refusals = [
                        "ERR Bad data format",
                        "ERR bloom object decoding failed",
                        "ERR bloom object decoding failed. Unsupported version",
                        "ERR received bad data",
                        "ERR operation exceeds bloom object memory limit",
                    ];
                    assert!(refusals.contains(&&*reply.text()), "{reply:?}");
                }
                Err(e) => panic!("{e} after {}", bytes.escape_ascii()),
            }
        }
        assert!(
            accepted > 50,
            "only {accepted} of form {form} were accepted"
        );
    }

    // Bytes that end early, in each form and at each place.
    for (form, values) in forms.iter().enumerate() {
        let value = &values[0];
        for end in 1..value.len() - 1 {
            let cut = &value[..end.max(if form == 0 { PREFIX.len() } else { 1 })];
            let sealed = seal([cut, &[0]].concat(), version);
            let (words, text): (&[&[u8]], &str) = match form {
                0 => (
                    &[b"RESTORE", b"forged", b"0", &sealed],
                    "ERR Bad data format",
                ),
                1 => (
                    &[b"BF.LOAD", b"forged", cut],
                    "ERR bloom object decoding failed",
                ),
                _ => (
                    &[b"BF.LOADCHUNK", b"forged", b"1", cut],
                    "ERR received bad data",
                ),
            };
            refuses(
                &mut client,
                &format!("{end} bytes of form {form}"),
                words,
                text,
            );
        }
    }
    assert_eq!(client.cmd("FLUSHALL"), ok());
    wait_until("the memory is as it was", || {
        memory(&server, "used_memory") - used < 512 * 1024
    });
    let grown = peak_address_space(&server) - peak;
    assert!(grown < 1 << 30, "{grown} bytes were asked for");
    let ledger = server.info("bf");
    assert_eq!(ledger["bf_bloom_num_objects"], "0");
    assert_eq!(ledger["bf_bloom_total_memory_bytes"], "0");
}
