//! A dump, as BF.LOAD takes it and a log has it.

use std::fs;

use crate::harness::ok;
use crate::support::aof::{part, rewrite_aof, with_command_log};
use crate::support::pieces::{dump, pieces};

use super::{answers, fill};

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
