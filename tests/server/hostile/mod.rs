//! Bytes that are not an object: each is refused, takes no memory, and leaves the server up.

mod accepted;
mod faults;

use std::fs;

use crate::harness::{Client, Server, error, int, ok};
use crate::support::aof::wire;
use crate::support::configured::made_by;
use crate::support::forged::{Forged, Rdb, rdb_version, refuses};
use crate::support::pieces::pieces;
use crate::support::usage::{memory, peak_address_space};

use faults::{DUMP, FAULTS, HEADER, RDB, TERABYTE};

#[test]
fn forged_fields_are_refused() {
    let (server, mut client) = Server::with_client();
    let version = rdb_version(&mut client);
    let right = Forged::new();
    let calls = |client: &mut Client, object: &Forged, forms: u8| {
        let mut replies = Vec::new();
        if forms & RDB != 0 {
            let payload = Rdb::of(object).payload(version);
            replies.push(client.restore("forged", &payload));
        }
        if forms & DUMP != 0 {
            replies.push(client.call(&[b"BF.LOAD", b"forged", &object.dump()]));
        }
        if forms & HEADER != 0 {
            replies.push(client.call(&[b"BF.LOADCHUNK", b"forged", b"1", &object.header()]));
        }
        replies
    };
    // Each form is right but for what a fault changes in it.
    for form in [RDB, DUMP, HEADER] {
        assert_eq!(calls(&mut client, &right, form), [ok()], "form {form}");
        assert_eq!(client.cmd("TYPE forged").text(), "bloomfltr");
        client.expect("DEL forged", int(1));
    }

    // Only what is wrong in itself is to be refused here, not what a limit forbids.
    let most = i64::MAX.to_string();
    client.ok(format!(
        "CONFIG SET bf.bloom-filter-max-memory-usage {most}"
    ));
    let used = memory(&server, "used_memory");
    let peak = peak_address_space(&server);
    for (what, forms, spoil) in FAULTS {
        let mut object = right.clone();
        spoil(&mut object);
        for (form, text) in [
            (RDB, "ERR Bad data format"),
            (DUMP, "ERR bloom object decoding failed"),
            (HEADER, "ERR received bad data"),
        ] {
            if forms & form != 0 {
                let replies = calls(&mut client, &object, form);
                assert_eq!(replies, [error(text)], "{what}, form {form}");
            }
        }
        client.expect("EXISTS forged", int(0));
    }
    let grown = memory(&server, "used_memory") - used;
    assert!(grown < 1 << 20, "{grown} bytes are kept");
    let grown = peak_address_space(&server) - peak;
    assert!(grown < 1 << 30, "{grown} bytes were asked for");
}

#[test]
fn forged_half_loaded_objects_are_refused() {
    let (_server, mut client) = Server::with_client();
    let version = rdb_version(&mut client);
    let right = Forged::new();
    let header = right.header();
    let partial = |bitmaps: &[&[u8]]| {
        let begun = Rdb::default().uint(0).string(&header);
        bitmaps
            .iter()
            .fold(begun, |value, bitmap| value.string(bitmap))
    };
    let (first, second) = (&right.filters[0].bitmap, &right.filters[1].bitmap);

    // So that a dump can be compared with what was forged.
    client.ok("CONFIG SET rdbcompression no");
    for (stage, value) in [
        partial(&[b""]),
        partial(&[&first[..7]]),
        partial(&[first, b""]),
        partial(&[first, &second[..39]]),
    ]
    .into_iter()
    .enumerate()
    {
        let payload = value.payload(version);
        let reply = client.restore("forged", &payload);
        assert_eq!(reply, ok(), "stage {stage}");
        let loading = error("ERR bloom object is still being loaded");
        client.expect("BF.CARD forged", &loading);
        assert_eq!(client.cmd("DUMP forged").as_bytes(), payload);
        client.expect("DEL forged", int(1));
    }

    for (what, value) in [
        ("nothing behind the 0", Rdb::default().uint(0)),
        (
            "a dump as header",
            Rdb::default().uint(0).string(&right.dump()).string(b""),
        ),
        ("no bitmap", partial(&[])),
        ("a complete object", partial(&[first, second])),
        (
            "a second bitmap that is too long",
            partial(&[first, &[second.as_slice(), b"x"].concat()]),
        ),
        ("a bitmap too many", partial(&[&first[..3], &first[3..]])),
        ("a number for a bitmap", partial(&[]).uint(1)),
        ("a number for a header", Rdb::default().uint(0).uint(1)),
    ] {
        let payload = value.payload(version);
        let args: [&[u8]; 4] = [b"RESTORE", b"forged", b"0", &payload];
        refuses(&mut client, what, &args, "ERR Bad data format");
    }
}

#[test]
fn a_claim_takes_no_memory() {
    let (server, mut client) = Server::with_client();
    let version = rdb_version(&mut client);
    let mut object = Forged::new();
    object.filters.truncate(1);
    let header = |object: &mut Forged, bytes: u64| {
        object.filters[0].bitmap_bytes = Some(bytes);
        object.header()
    };

    let terabyte = header(&mut object, TERABYTE);
    let limit = error("ERR operation exceeds bloom object memory limit");
    let begin: [&[u8]; 4] = [b"BF.LOADCHUNK", b"forged", b"1", &terabyte];
    assert_eq!(client.call(&begin), limit);
    client.expect("EXISTS forged", int(0));

    client.ok(format!(
        "CONFIG SET bf.bloom-filter-max-memory-usage {}",
        i64::MAX
    ));
    let used = memory(&server, "used_memory");
    let peak = peak_address_space(&server);
    assert_eq!(client.call(&begin), ok());
    client.ok("BF.LOADCHUNK forged 2 x");
    client.ok("BF.LOADCHUNK forged 7 abcde");

    // A value in an RDB with the largest possible claim.
    let most = header(&mut object, u64::MAX / 16);
    let value = Rdb::default().uint(0).string(&most).string(b"xabcde");
    let payload = value.payload(version);
    let reply = client.restore("restored", &payload);
    assert_eq!(reply, ok());
    client.expect("COPY restored copied", int(1));
    for key in ["forged", "restored", "copied"] {
        let usage = client.cmd(&format!("MEMORY USAGE {key}")).as_int();
        assert!(usage < 1000, "{key} takes {usage} bytes");
    }

    let grown = memory(&server, "used_memory") - used;
    assert!(grown < 1 << 20, "{grown} bytes are kept");
    let grown = peak_address_space(&server) - peak;
    assert!(grown < 1 << 30, "{grown} bytes were asked for");

    // The server itself fails on a claim in its own framing of strings, and may have reserved the memory.
    let value = Rdb::default()
        .uint(0)
        .raw(&[5, 0x81, 0, 0, 1, 0, 0, 0, 0, 0]);
    let payload = value.payload(version);
    assert_eq!(
        client.restore("again", &payload),
        error("ERR Bad data format")
    );
    let grown = memory(&server, "used_memory") - used;
    assert!(grown < 1 << 20, "{grown} bytes are kept");
    client.expect("DEL forged restored copied", int(3));
}

#[test]
fn a_log_of_nonsense_breaks_nothing() {
    let mut server = Server::with(&[("appendonly", "yes"), ("aof-use-rdb-preamble", "no")]);
    server.shutdown();
    let mut forged = Forged::new();
    forged.filters[0].hashes = 0;
    let (dump, header) = (forged.dump(), forged.header());
    let right = Forged::new().header();
    let commands: [&[&[u8]]; 8] = [
        &[b"SELECT", b"0"],
        &[b"BF.ADD", b"first", b"item"],
        &[b"BF.LOAD", b"bad", &dump],
        &[b"BF.LOADCHUNK", b"bad", b"1", &header],
        &[b"BF.LOADCHUNK", b"half", b"1", &right],
        &[b"BF.LOADCHUNK", b"half", b"9", b"abc"],
        &[b"BF.INSERT", b"bad", b"CAPACITY", b"0", b"ITEMS", b"a"],
        &[b"BF.ADD", b"last", b"item"],
    ];
    let owned = |command: &[&[u8]]| command.iter().map(|word| word.to_vec()).collect();
    let log = wire(&commands.map(owned));
    let file = "appendonlydir/appendonly.aof.1.incr.aof";
    fs::write(server.dir().join(file), log).unwrap();
    server.start_again();
    let mut client = server.client();
    client.expect("BF.EXISTS first item", int(1));
    client.expect("BF.EXISTS last item", int(1));
    client.ok("BF.LOADCHUNK half 4 abc");
    client.expect("DBSIZE", int(3));
}

/// A half-loaded filter of RedisBloom is stored with zeros for its missing bytes, or, where its header claims more than the
/// server has reserved, without them.
#[test]
fn a_claim_of_redisbloom_takes_no_memory() {
    let server = made_by("redisbloom").start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    client.ok("BF.RESERVE real 0.01 100");
    let mut header = pieces(&mut client, "real")[0].1.clone();
    let prefix = client.cmd("DUMP real").as_bytes()[..10].to_vec();
    client.expect("DEL real", int(1));
    let used = memory(&server, "used_memory");
    let peak = peak_address_space(&server);
    for claim in [1 << 29, 1 << 30, TERABYTE] {
        header[20..28].copy_from_slice(&claim.to_le_bytes());
        header[28..36].copy_from_slice(&(claim * 8).to_le_bytes());
        let value = Rdb(prefix.clone()).uint(0).uint(0);
        let value = value.string(&header).string(b"abcdef");
        let payload = value.payload(version);
        assert_eq!(client.restore("restored", &payload), ok());
        client.expect("COPY restored copied", int(1));
        client.ok("DEBUG RELOAD");
        for key in ["restored", "copied"] {
            let usage = client.cmd(&format!("MEMORY USAGE {key}")).as_int();
            assert!(usage < 1000, "{key} takes {usage} bytes");
            let bytes = client.cmd(&format!("DUMP {key}")).as_bytes().len();
            assert!(bytes <= payload.len(), "{key} of {claim}");
            client.ok(format!("BF.LOADCHUNK {key} 8 g"));
        }
        client.expect("DEL restored copied", int(2));
    }
    let grown = memory(&server, "used_memory") - used;
    assert!(grown < 1 << 20, "{grown} bytes are kept");
    let grown = peak_address_space(&server) - peak;
    assert!(grown < 1 << 29, "{grown} bytes were asked for");
}
