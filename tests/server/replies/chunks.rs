//! An object in chunks, and as BF.LOAD takes it.

use std::fs;

use crate::harness::{Client, Server, array, bulk, digest, error, int, ok, simple, wait_until};
use crate::support::pieces::{dump, load_piece, pieces};
use crate::support::protocols::{in_both_protocols, truth, truths, with_fixed_seed};

use super::{answers, debug_bytes, fill};

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
                (piece.0.cast_signed(), piece.1.len()),
                (cursor, usize::try_from(length).unwrap())
            );
        }
        let header = client.cmd("BF.SCANDUMP k 0");
        assert_eq!(header, array([int(1), bulk(&walk[0].1)]));
        // A cursor may point inside a bitmap; the chunk ends with the bitmap.
        let inside = client.cmd("BF.SCANDUMP k 3");
        assert_eq!(
            inside,
            array([int(walk[1].0.cast_signed()), bulk(&walk[1].1[2..])])
        );
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
        // Both keep growing alike.
        for i in 200..400 {
            let add = |key| format!("BF.ADD {key} item{i}");
            assert_eq!(elsewhere.cmd(&add("k")), client.cmd(&add("copy")), "{i}");
        }
        assert_eq!(answers(&mut elsewhere, "k"), answers(client, "copy"));

        // Chunks may be cut elsewhere than they were handed out.
        assert_eq!(load_piece(client, "bits", &walk[0]), ok());
        let mut cursor = 1;
        for part in walk[1..].iter().flat_map(|(_, bytes)| bytes.chunks(17)) {
            cursor += part.len() as u64;
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
            // A chunk that does not continue the object changes nothing.
            let before = digest(client, "half");
            let (next, later) = (&walk[index + 1], &walk[(index + 2) % walk.len()]);
            let [at, at_next, at_later] = [piece, next, later].map(|of| of.0.cast_signed());
            let wrong = [
                (at, piece.1.clone()),
                (at_later, later.1.clone()),
                (at_next - 1, next.1.clone()),
                (at_next + 1, next.1.clone()),
                (at, Vec::new()),
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
        // A time to live changes the server's digest of a key.
        assert_eq!(client.cmd("COPY ttl lasting"), int(1));
        assert_eq!(client.cmd("PERSIST lasting"), int(1));
        assert_eq!(answers(client, "lasting"), expected);
        assert_eq!(client.call(&[b"BF.LOAD", b"short", &bytes, b"1"]), ok());
        wait_until("the key has expired", || {
            client.cmd("EXISTS short") == int(0)
        });

        // The published sizes of the format: 30 bytes, and per filter 24 beside the blob.
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
