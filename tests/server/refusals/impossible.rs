//! Bytes that are no object: patched, cut short, or with sizes that are only claimed.

use crate::harness::{Client, error, int, ok};
use crate::support::pieces::{dump, pieces};
use crate::support::protocols::{field, in_both_protocols, with_fixed_seed};

/// Offsets in a dump, and those in its first filter.
const EXPANSION: usize = 1;
const ERROR_RATE: usize = 5;
const TIGHTENING: usize = 13;
const SEED_IS_RANDOM: usize = 21;
const FILTERS: usize = 22;
const BLOB_BYTES: usize = 30;
const BLOB_VERSION: usize = 38;
const BITMAP_BYTES: usize = 39;
const HASHES: usize = 47;
const SEED: usize = 51;

fn number(value: u64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

/// The bytes with others in place of some.
fn with_patch(bytes: &[u8], offset: usize, patch: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[offset..offset + patch.len()].copy_from_slice(patch);
    bytes
}

/// What neither a dump nor a header of two filters of 10 items may hold.
fn impossible() -> Vec<(usize, Vec<u8>)> {
    let mut patches = vec![
        (SEED_IS_RANDOM, vec![2]),
        (FILTERS, number(0)),
        (FILTERS, number(1)),
        (FILTERS, number(3)),
        (FILTERS, number(u64::MAX)),
        (BLOB_BYTES, number(0)),
        (BLOB_BYTES, number(44)),
        (BLOB_BYTES, number(u64::MAX)),
        (BLOB_VERSION, vec![0]),
        (BLOB_VERSION, vec![2]),
        (BITMAP_BYTES, number(0)),
        (HASHES, vec![0; 4]),
        (HASHES, 5000_u32.to_le_bytes().to_vec()),
        (HASHES, vec![0xff; 4]),
        // A seed that is not the other filter's, nor the fixed one.
        (SEED, vec![1; 32]),
    ];
    for offset in [ERROR_RATE, TIGHTENING] {
        let rates = [0.0_f64, 1.0, -0.5, 1.5, f64::NAN, f64::INFINITY];
        patches.extend(rates.map(|rate| (offset, rate.to_le_bytes().to_vec())));
    }
    patches
}

/// The same, where the last filter's items and capacity stand: so far from the end.
fn impossible_at_the_end() -> [(usize, Vec<u8>); 5] {
    [
        (16, number(11)),
        (16, number(u64::MAX)),
        (8, number(0)),
        (8, number(u64::MAX)),
        (8, number(1 << 63)),
    ]
}

/// A dump of two filters, with its header, that leaves no key behind.
fn two_filters(client: &mut Client) -> (Vec<u8>, Vec<u8>) {
    let create = "BF.INSERT src CAPACITY 10 EXPANSION 1 ITEMS 0 1 2 3 4 5 6 7 8 9 10 11 12 13";
    assert!(!client.cmd(create).is_error());
    assert_eq!(field(client, "src", "FILTERS"), 2);
    let mut pieces = pieces(client, "src");
    assert_eq!(client.cmd("DEL src"), int(1));
    (dump(&pieces), pieces.swap_remove(0).1)
}

#[test]
fn what_is_no_object_is_not_loaded() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, _| {
        let (whole, header) = two_filters(client);
        let load = |client: &mut Client, bytes: &[u8], what: &str| {
            let refused = error("ERR bloom object decoding failed");
            assert_eq!(client.call(&[b"BF.LOAD", b"k", bytes]), refused, "{what}");
        };
        let begin = |client: &mut Client, bytes: &[u8], what: &str| {
            let refused = error("ERR received bad data");
            let reply = client.call(&[b"BF.LOADCHUNK", b"k", b"1", bytes]);
            assert_eq!(reply, refused, "{what}");
        };
        for (offset, patch) in impossible() {
            let what = format!("{offset}: {patch:?}");
            load(client, &with_patch(&whole, offset, &patch), &what);
            begin(client, &with_patch(&header, offset, &patch), &what);
        }
        for (offset, patch) in impossible_at_the_end() {
            let what = format!("-{offset}: {patch:?}");
            load(
                client,
                &with_patch(&whole, whole.len() - offset, &patch),
                &what,
            );
            begin(
                client,
                &with_patch(&header, header.len() - offset, &patch),
                &what,
            );
        }
        for end in 0..whole.len() {
            load(client, &whole[..end], &format!("the first {end} bytes"));
        }
        for end in 0..header.len() {
            begin(client, &header[..end], &format!("the first {end} bytes"));
        }
        // In a dump the bitmap is there, and has its length.
        let length = u64::from_le_bytes(whole[BITMAP_BYTES..][..8].try_into().unwrap());
        for wrong in [length - 1, length + 1, u64::MAX] {
            let bytes = with_patch(&whole, BITMAP_BYTES, &number(wrong));
            load(client, &bytes, &format!("a bitmap of {wrong}"));
        }
        assert_eq!(client.cmd("DBSIZE"), int(0));

        // The fixed seed may be noted as random, and any growth is possible.
        for (offset, patch) in [
            (SEED_IS_RANDOM, vec![1]),
            (EXPANSION, vec![0xff; 4]),
            (EXPANSION, vec![0; 4]),
        ] {
            let bytes = with_patch(&whole, offset, &patch);
            let loaded = client.call(&[b"BF.LOAD", b"k", &bytes]);
            assert_eq!(loaded, ok(), "{offset} {patch:?}");
            assert_eq!(client.cmd("DEL k"), int(1));
        }
    });
}

#[test]
fn nothing_is_taken_for_a_size_that_is_only_claimed() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, _| {
        let (_, header) = two_filters(client);
        let possible = 60 << 20;
        for bytes in [1, 100, possible, 1 << 40, 1 << 60, u64::MAX >> 4, u64::MAX] {
            let claim = with_patch(&header, BITMAP_BYTES, &number(bytes));
            let begun = client.call(&[b"BF.LOADCHUNK", b"k", b"1", &claim]);
            assert_eq!(begun == ok(), bytes <= possible, "{bytes}: {begun:?}");
            if begun == ok() {
                assert_eq!(client.cmd("BF.LOADCHUNK k 2 x"), ok());
                assert!(client.cmd("MEMORY USAGE k").as_int() < 2000);
                assert_eq!(client.cmd("DEL k"), int(1));
            }
            assert_eq!(client.cmd("DBSIZE"), int(0));
        }
    });
}
