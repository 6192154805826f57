//! An object in chunks, and as BF.LOAD takes it.

use std::fs;

use crate::harness::{Server, array, bulk, int, ok};
use crate::support::aof::{part, rewrite_aof, with_command_log};
use crate::support::pieces::{dump, load_piece, pieces};
use crate::support::protocols::in_both_protocols;

use super::{answers, debug_bytes, fill};

#[test]
fn an_object_is_read_and_loaded_in_chunks() {
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        fill(client, "k");
        let expected = answers(client, "k");
        let walk = pieces(client, "k");
        // The header, and then each filter's bitmap.
        let mut cursors = vec![1];
        for length in debug_bytes(client, "k") {
            cursors.push(cursors[cursors.len() - 1] + length);
        }
        let reported = walk.iter().map(|(cursor, _)| cursor.cast_signed());
        assert_eq!(reported.collect::<Vec<_>>(), cursors);
        client.expect("BF.SCANDUMP k 0", array([int(1), bulk(&walk[0].1)]));
        // A cursor may point inside a bitmap; the chunk ends with the bitmap.
        client.expect(
            "BF.SCANDUMP k 3",
            array([int(cursors[1]), bulk(&walk[1].1[2..])]),
        );
        for past in [cursors[3], i64::MAX] {
            client.expect(format!("BF.SCANDUMP k {past}"), array([int(0), bulk("")]));
        }
        for piece in &walk {
            assert_eq!(load_piece(client, "copy", piece), ok());
        }
        assert_eq!(answers(client, "copy"), expected);
    });
}

/// A rewritten log loads an object by one BF.LOAD of its dump.
#[test]
fn a_dump_is_loaded_and_written() {
    let server = with_command_log();
    let mut client = server.client();
    fill(&mut client, "k");
    let bytes = dump(&pieces(&mut client, "k"));
    assert_eq!(client.call(&[b"BF.LOAD", b"copy", &bytes]), ok());
    assert_eq!(answers(&mut client, "copy"), answers(&mut client, "k"));
    let load: [&[u8]; 4] = [b"BF.LOAD", b"ttl", &bytes, b"100000"];
    assert_eq!(client.call(&load), ok());
    let ttl = client.cmd("PTTL ttl").as_int();
    assert!((1..=100_000).contains(&ttl), "{ttl}");
    // The published sizes of the format: 30 bytes, and per filter 24 beside the blob.
    client.ok("BF.RESERVE f 0.01 100 NONSCALING");
    assert_eq!(dump(&pieces(&mut client, "f")).len(), 30 + 24 + 45 + 122);

    rewrite_aof(&server);
    let log = fs::read(part(&server, ".2.base.aof")).expect("it can be read");
    let mut load = format!("*3\r\n$7\r\nBF.LOAD\r\n$1\r\nk\r\n${}\r\n", bytes.len()).into_bytes();
    load.extend(&bytes);
    assert!(log.windows(load.len()).any(|window| window == load));
}
