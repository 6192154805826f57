//! Values that are not a top-k list: each is refused with a text, and the server goes on. Most of them have crashed
//! `RedisBloom`, or it took them for something else.

use crate::harness::{Server, digest, error, int, ok};
use crate::support::forged::{Rdb, Refusing};
use crate::support::protocols::truths;
use crate::support::usage::peak_address_space;

use super::TYPE_ID;

/// Returns an entry of the heap.
fn entry(fingerprint: u32, length: u32, count: u32) -> Vec<u8> {
    let mut bytes = [fingerprint, length].map(u32::to_le_bytes).concat();
    // An address of another process.
    bytes.extend(0x7f36_1854_fd30_u64.to_le_bytes());
    bytes.extend([count, 0].map(u32::to_le_bytes).as_flattened());
    bytes
}

/// A list of one row with this width, k entries, and their items.
fn forged(numbers: [u64; 3], decay: f64, cells: usize, heap: &[u8], items: &[&[u8]]) -> Rdb {
    let value = Rdb::of_type(TYPE_ID);
    let value = numbers.into_iter().fold(value, Rdb::uint);
    let value = value.double(decay).string(&vec![0; cells]).string(heap);
    items.iter().fold(value, |value, item| value.string(item))
}

/// Returns a right one: `a` has this fingerprint.
pub fn right() -> Rdb {
    let heap = [entry(0, 0, 0), entry(0xf23c_f517, 1, 5)].concat();
    forged([2, 3, 1], 0.9, 24, &heap, &[b"\0", b"a\0"])
}

#[test]
fn forged_values_are_refused() {
    const SIZE: &str = "size out of range";
    const DEPTH: &str = "depth out of range";
    const DECAY: &str = "decay out of range";
    const LENGTH: &str = "string of another length";
    const ENDS: &str = "bytes end too early";
    const ITEM: &str = "item without its end";
    let mut refusing = Refusing::start();
    let mut client = refusing.server().client();
    let payload = right().payload([9, 0]);
    assert_eq!(client.call(&[b"RESTORE", b"right", b"0", &payload]), ok());
    assert_eq!(
        client.cmd("TOPK.QUERY right a b"),
        truths(false, &[true, false])
    );
    let before = digest(&mut client, "right");
    let heap = [entry(0, 0, 0), entry(0xf23c_f517, 1, 5)].concat();
    let items: [&[u8]; 2] = [b"\0", b"a\0"];
    let numbers = |numbers| forged(numbers, 0.9, 24, &heap, &items);
    let decay = |decay| forged([2, 3, 1], decay, 24, &heap, &items);
    let many = u64::from(u32::MAX);
    for (what, value, words) in [
        ("nothing", Rdb::of_type(TYPE_ID), ENDS),
        ("no entries", numbers([0, 3, 1]), SIZE),
        ("no columns", numbers([2, 0, 1]), SIZE),
        ("no rows", numbers([2, 3, 0]), DEPTH),
        (
            "a k that 32 bits cut to 2",
            numbers([(1 << 32) + 2, 3, 1]),
            SIZE,
        ),
        (
            "a width that 32 bits cut",
            numbers([2, (1 << 32) + 3, 1]),
            SIZE,
        ),
        ("too many cells", numbers([2, many, 2]), SIZE),
        ("a claim of cells", numbers([2, many, 1]), LENGTH),
        ("a claim of entries", numbers([many, 3, 1]), LENGTH),
        ("a decay of 0", decay(0.0), DECAY),
        ("a decay of 2", decay(2.0), DECAY),
        ("a decay that is not a number", decay(f64::NAN), DECAY),
        ("an endless decay", decay(f64::NEG_INFINITY), DECAY),
        (
            "a byte too few",
            forged([2, 3, 1], 0.9, 23, &heap, &items),
            LENGTH,
        ),
        (
            "a byte too many",
            forged([2, 3, 1], 0.9, 25, &heap, &items),
            LENGTH,
        ),
        (
            "a heap too short",
            forged([2, 3, 1], 0.9, 24, &heap[..47], &items),
            LENGTH,
        ),
        // It ends RedisBloom.
        (
            "an item too few",
            forged([2, 3, 1], 0.9, 24, &heap, &items[..1]),
            ENDS,
        ),
        ("an item too many", right().string(b"x\0"), ""),
        // It reads beyond the bytes.
        (
            "an item without an end",
            forged([2, 3, 1], 0.9, 24, &heap, &[b"\0", b"a"]),
            ITEM,
        ),
        (
            "an item without a byte",
            forged([2, 3, 1], 0.9, 24, &heap, &[b"\0", b""]),
            ITEM,
        ),
        (
            "a number for decay",
            Rdb::of_type(TYPE_ID).uint(2).uint(3).uint(1).uint(1),
            ENDS,
        ),
        ("a double for k", Rdb::of_type(TYPE_ID).double(2.0), ENDS),
        (
            "a newer version",
            Rdb::of_type(TYPE_ID | 1).uint(2),
            "unsupported version",
        ),
    ] {
        refusing.refuses(what, &value, words);
    }
    assert_eq!(digest(&mut client, "right"), before);
    assert!(
        peak_address_space(refusing.server()) < 4 << 30,
        "a claim took memory"
    );
}

/// Values that RedisBloom loads, and that then end it or can't be used.
#[test]
fn odd_values_can_be_used() {
    let server = Server::start();
    let mut client = server.client();
    let one = |entry: &[u8], item: &[u8]| forged([1, 3, 1], 0.9, 24, entry, &[item]);
    let copies = |number: usize| {
        let heap = entry(0xf23c_f517, 1, 5).repeat(number);
        forged(
            [number as u64, 3, 1],
            0.9,
            24,
            &heap,
            &vec![&b"a\0"[..]; number],
        )
    };
    for value in [
        // What is left of an item that began with a zero byte. Asking for that item ends RedisBloom.
        one(&entry(0xf23c_f517, 4, 5), b"\0"),
        one(&entry(0xf23c_f517, u32::MAX, 5), b"a\0"),
        one(&entry(0x4a85_66e0, 0, 0), b"\0"),
        one(&entry(7, 0, 7), b"\0"),
        copies(2),
        copies(64),
    ] {
        let payload = value.payload([9, 0]);
        assert_eq!(client.call(&[b"RESTORE", b"k", b"0", &payload]), ok());
        for item in [&b""[..], b"a", b"\0", b"\0abc"] {
            for name in [
                &b"TOPK.QUERY"[..],
                b"TOPK.COUNT",
                b"TOPK.ADD",
                b"TOPK.QUERY",
            ] {
                assert!(!client.call(&[name, b"k", item]).is_error());
            }
        }
        assert!(!client.cmd("TOPK.LIST k WITHCOUNT").is_error());
        let before = digest(&mut client, "k");
        assert_eq!(client.cmd("DEBUG RELOAD"), ok());
        assert_eq!(digest(&mut client, "k"), before);
        assert_eq!(client.cmd("DEL k"), int(1));
    }
    let payload = copies(65).payload([9, 0]);
    let refused = client.call(&[b"RESTORE", b"k", b"0", &payload]);
    assert_eq!(refused, error("ERR Bad data format"));
}
