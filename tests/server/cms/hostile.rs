//! Values that are not a count-min sketch: each is refused with a text, and the server goes on. Some of them have
//! crashed `RedisBloom`.

use crate::harness::{Server, digest, int, ok};
use crate::support::forged::{Rdb, Refusing};
use crate::support::protocols::{in_both_protocols, table};
use crate::support::usage::peak_address_space;

use super::TYPE_ID;

fn forged(numbers: &[u64], counters: usize) -> Rdb {
    let value = Rdb::of_type(TYPE_ID);
    let value = numbers
        .iter()
        .fold(value, |value, number| value.uint(*number));
    value.string(&vec![1; counters])
}

/// Returns a value of the form that RedisBloom 8.12 writes.
fn newer(width: u64, depth: u64, count: u64, size: u64, counters: usize) -> Rdb {
    let value = Rdb::of_type(TYPE_ID | 1);
    let numbers = [width, depth, count, size].into_iter();
    numbers.fold(value, Rdb::uint).string(&vec![1; counters])
}

/// Returns a right value of each form.
pub fn right() -> [Rdb; 3] {
    [
        forged(&[3, 2, 7], 24),
        forged(&[3, 2, 7], 48).uint(8),
        newer(3, 2, 7, 2, 12),
    ]
}

#[test]
fn forged_values_are_refused() {
    const SHAPE: &str = "shape out of range";
    const SIZE: &str = "counters of another size";
    const ENDS: &str = "bytes end too early";
    let mut refusing = Refusing::start();
    let mut client = refusing.server().client();
    let right = forged(&[3, 2, 7], 24);
    let payload = right.clone().payload([9, 0]);
    assert_eq!(client.call(&[b"RESTORE", b"right", b"0", &payload]), ok());
    let before = digest(&mut client, "right");
    let most = i64::MAX as u64;
    for (what, value, words) in [
        ("nothing", Rdb::of_type(TYPE_ID), ENDS),
        ("no columns", forged(&[0, 2, 7], 0), SHAPE),
        ("no rows", forged(&[3, 0, 7], 0), SHAPE),
        ("a byte too few", forged(&[3, 2, 7], 23), ENDS),
        ("a byte too many", forged(&[3, 2, 7], 25), ENDS),
        // It loads in RedisBloom, and the next query ends the server.
        (
            "a product that wraps to 0",
            forged(&[1 << 62, 4, 7], 0),
            SHAPE,
        ),
        (
            "a claim without its bytes",
            forged(&[1 << 60, 1, 7], 8),
            ENDS,
        ),
        (
            "a double for a number",
            Rdb::of_type(TYPE_ID).double(3.0),
            ENDS,
        ),
        (
            "a number for counters",
            Rdb::of_type(TYPE_ID).uint(3).uint(2).uint(7).uint(1),
            ENDS,
        ),
        ("a number after it", right.uint(4), ""),
        (
            "three bytes a counter",
            forged(&[3, 2, 7], 18).uint(3),
            "size of a counter out of range",
        ),
        (
            "another size than it says",
            forged(&[3, 2, 7], 12).uint(1),
            SIZE,
        ),
        (
            "a count out of range",
            forged(&[3, 2, most + 1], 6).uint(1),
            "count out of range",
        ),
        (
            "a newer version's count",
            newer(3, 2, most + 1, 4, 24),
            "count out of range",
        ),
        ("a newer version's size", newer(3, 2, 7, 8, 24), SIZE),
        (
            "a version still newer",
            Rdb::of_type(TYPE_ID | 2).uint(3),
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

/// The form of RedisBloom 8.12 is read, and written in the one that every release reads.
#[test]
fn newer_values_are_loaded() {
    let server = Server::start();
    in_both_protocols(&server, |client, resp3| {
        for (size, counters) in [(1, 6), (2, 12), (4, 24), (8, 48)] {
            let payload = newer(3, 2, 7, size, counters).payload([9, 0]);
            assert_eq!(client.call(&[b"RESTORE", b"k", b"0", &payload]), ok());
            let mut rows = vec![("width", int(3)), ("depth", int(2)), ("count", int(7))];
            if size != 4 {
                rows.push(("cell_size", int(i64::try_from(size).unwrap())));
            }
            assert_eq!(client.cmd("CMS.INFO k"), table(resp3, rows), "{size}");
            let before = digest(client, "k");
            assert_eq!(client.cmd("DEBUG RELOAD"), ok());
            assert_eq!(digest(client, "k"), before);
            let dump = client.cmd("DUMP k");
            // The mark of a module's value and of an id of 64 bits, and the id with the version.
            assert_eq!(dump.as_bytes()[2..10], TYPE_ID.to_be_bytes());
            assert_eq!(client.cmd("DEL k"), int(1));
        }
    });
}

/// A count that is not the sum of anything, as RedisBloom loads it.
#[test]
fn any_count_is_loaded() {
    let server = Server::start();
    in_both_protocols(&server, |client, resp3| {
        for count in [0, 1 << 63, u64::MAX] {
            let payload = forged(&[3, 2, count], 24).payload([9, 0]);
            assert_eq!(client.call(&[b"RESTORE", b"k", b"0", &payload]), ok());
            let shown = int(count.cast_signed());
            let rows = vec![("width", int(3)), ("depth", int(2)), ("count", shown)];
            assert_eq!(client.cmd("CMS.INFO k"), table(resp3, rows));
            for command in ["CMS.INCRBY k a 9", "CMS.INCRBY k a -9", "CMS.MERGE k 1 k"] {
                client.cmd(command);
            }
            assert_eq!(client.cmd("DEL k"), int(1));
        }
    });
}
