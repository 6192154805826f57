//! The replies of each command, in both protocols.

use crate::harness::{Reply, Server, array, bulk, int, nil};
use crate::support::protocols::{in_both_protocols, truth, truths};

use super::{chunks, field, items, load};

#[test]
fn inserting_replies_for_each_item() {
    in_both_protocols(&Server::start(), |client, resp3| {
        client.expect(
            "CF.INSERT k CAPACITY 64 ITEMS a a b",
            truths(resp3, &[true; 3]),
        );
        assert_eq!(field(client, "k", "Size"), 40 + 16 + 64);
        // Numbers in both protocols.
        client.expect(
            "CF.INSERTNX k NOCREATE ITEMS a b c c",
            array([int(0), int(0), int(1), int(0)]),
        );
        client.ok("CF.RESERVE full 4 EXPANSION 0");
        let none = if resp3 { truth(true, false) } else { int(-1) };
        let full = client.cmd("CF.INSERT full ITEMS foo foo foo foo foo foo foo");
        let (there, refused) = full.as_array().split_at(4);
        assert_eq!(array(there.to_vec()), truths(resp3, &[true; 4]));
        assert!(refused.iter().all(|reply| *reply == none), "{refused:?}");
        let full = client.cmd("CF.INSERTNX full ITEMS foo other");
        assert_eq!(full.as_array()[0], int(0));
        // An item that finds no room in its buckets is refused, and is not found later.
        let others = client.cmd(&format!("CF.INSERTNX full ITEMS {}", items("o", 9)));
        let numbers: Vec<i64> = others.as_array().iter().map(Reply::as_int).collect();
        assert!(
            numbers.iter().all(|number| [0, -1].contains(number)),
            "{numbers:?}"
        );
        assert_eq!(field(client, "full", "Number of items inserted"), 4);
        // Options in any case and order, and then items whatever they look like.
        client.expect(
            "CF.INSERT x capacity 5 CAPACITY 900 items ITEMS CAPACITY NOCREATE",
            truths(resp3, &[true; 3]),
        );
        assert_eq!(field(client, "x", "Number of buckets"), 512);
    });
}

#[test]
fn chunks_carry_a_filter() {
    in_both_protocols(&Server::start(), |client, _| {
        client.cmd("CF.RESERVE k 64 EXPANSION 2");
        client.expect("CF.SCANDUMP k 0", array([int(0), nil()]));
        client.cmd(&format!("CF.INSERT k ITEMS {}", items("i", 100)));
        let pieces = chunks(client, "k");
        let ends: Vec<i64> = pieces.iter().map(|(cursor, _)| *cursor).collect();
        assert_eq!(ends[..3], [1, 65, 193]);
        assert_eq!(pieces[0].1.len(), 38);
        // From the middle of a filter to its end; and past all.
        client.expect(
            "CF.SCANDUMP k 11",
            array([int(65), bulk(&pieces[1].1[10..])]),
        );
        for cursor in ["100000", "9223372036854775807"] {
            client.expect(format!("CF.SCANDUMP k {cursor}"), array([int(0), nil()]));
        }
        load(client, "copy", &pieces);
        let mut backwards = pieces.clone();
        backwards[1..].reverse();
        load(client, "again", &backwards);
        let dump = client.cmd("DUMP k");
        for copy in ["copy", "again"] {
            client.expect(format!("DUMP {copy}"), &dump);
        }
    });
}

/// A filter larger than a chunk.
#[test]
fn a_large_filter_goes_in_chunks_of_four_megabytes() {
    let (server, mut client) = Server::with_client();
    client.cmd("CF.RESERVE k 10000000");
    client.cmd(&format!("CF.INSERT k ITEMS {}", items("i", 1000)));
    let pieces = chunks(&mut client, "k");
    let sizes: Vec<usize> = pieces.iter().map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(sizes, [38, 4 << 20, 4 << 20, 4 << 20, 4 << 20]);
    let before: i64 = server.info("bf")["bf_cuckoo_total_memory_bytes"]
        .parse()
        .unwrap();
    load(&mut client, "copy", &pieces[..1]);
    let claimed = client.cmd("MEMORY USAGE copy").as_int();
    assert!(claimed < 1000, "{claimed} bytes for a header");
    load(&mut client, "copy", &pieces[1..]);
    let dump = client.cmd("DUMP k");
    client.expect("DUMP copy", dump);
    let after: i64 = server.info("bf")["bf_cuckoo_total_memory_bytes"]
        .parse()
        .unwrap();
    assert_eq!(after, 2 * before);
}
