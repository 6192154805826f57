//! The replies of each command, in both protocols.

use crate::harness::{Reply, Server, array, bulk, int, map, nil, ok, simple};
use crate::support::protocols::{in_both_protocols, truth, truths};

use super::{chunks, field, items, load};

#[test]
fn adding_replies_whether_the_item_was_added() {
    in_both_protocols(&Server::start(), |client, resp3| {
        let yes = truth(resp3, true);
        assert_eq!(client.cmd("CF.ADD k a"), yes);
        assert_eq!(client.cmd("CF.ADD k a"), yes, "a second copy");
        assert_eq!(client.cmd("CF.ADDNX k a"), truth(resp3, false));
        assert_eq!(client.cmd("CF.ADDNX k b"), yes);
        assert_eq!(client.cmd("CF.ADDNX new b"), yes);
        assert_eq!(client.cmd("CF.COUNT k a"), int(2));
        // The empty item is one, and so are any bytes.
        assert_eq!(client.call(&[b"CF.ADD", b"k", b""]), yes);
        assert_eq!(client.call(&[b"CF.EXISTS", b"k", b""]), yes);
        assert_eq!(client.call(&[b"CF.ADD", b"k", b"\r\n\0\xff"]), yes);
        assert_eq!(client.call(&[b"CF.COUNT", b"k", b"\r\n\0\xff"]), int(1));
    });
}

#[test]
fn inserting_replies_for_each_item() {
    in_both_protocols(&Server::start(), |client, resp3| {
        let insert = "CF.INSERT k CAPACITY 64 ITEMS a a b";
        assert_eq!(client.cmd(insert), truths(resp3, &[true; 3]));
        assert_eq!(field(client, "k", "Size"), 40 + 16 + 64);
        // Numbers in both protocols.
        let known = client.cmd("CF.INSERTNX k NOCREATE ITEMS a b c c");
        assert_eq!(known, array([int(0), int(0), int(1), int(0)]));
        assert_eq!(client.cmd("CF.RESERVE full 4 EXPANSION 0"), ok());
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
        let words = "CF.INSERT x nocreate capacity 5 NoCreate CAPACITY 9 items ITEMS CAPACITY";
        assert_eq!(client.cmd(words).text(), "ERR not found");
        let words = "CF.INSERT x capacity 5 CAPACITY 900 items ITEMS CAPACITY NOCREATE";
        assert_eq!(client.cmd(words), truths(resp3, &[true; 3]));
        assert_eq!(field(client, "x", "Number of buckets"), 512);
    });
}

#[test]
fn queries_find_added_items() {
    in_both_protocols(&Server::start(), |client, resp3| {
        assert_eq!(client.cmd("CF.EXISTS k a"), truth(resp3, false));
        assert_eq!(client.cmd("CF.MEXISTS k a b"), truths(resp3, &[false; 2]));
        assert_eq!(client.cmd("CF.COUNT k a"), int(0));
        client.cmd("CF.INSERT k ITEMS a b b");
        assert_eq!(client.cmd("CF.EXISTS k a"), truth(resp3, true));
        assert_eq!(client.cmd("CF.EXISTS k c"), truth(resp3, false));
        let reply = client.cmd("CF.MEXISTS k b c a");
        assert_eq!(reply, truths(resp3, &[true, false, true]));
        assert_eq!(client.cmd("CF.COUNT k b"), int(2));
        // More than are looked up together.
        client.cmd(&format!(
            "CF.INSERT many CAPACITY 10000 ITEMS {}",
            items("i", 200)
        ));
        let reply = client.cmd(&format!("CF.MEXISTS many {}", items("i", 200)));
        assert_eq!(reply, truths(resp3, &[true; 200]));
        let reply = client.cmd(&format!("CF.MEXISTS many {}", items("j", 200)));
        let absent = reply
            .as_array()
            .iter()
            .filter(|r| **r == truth(resp3, false));
        assert!(absent.count() > 180, "{reply:?}");
        assert_eq!(client.cmd("TYPE k"), simple("MBbloomCF"));
    });
}

#[test]
fn removing_takes_one_copy() {
    in_both_protocols(&Server::start(), |client, resp3| {
        client.cmd("CF.INSERT k ITEMS a a b");
        assert_eq!(client.cmd("CF.DEL k a"), truth(resp3, true));
        assert_eq!(client.cmd("CF.COUNT k a"), int(1));
        assert_eq!(client.cmd("CF.DEL k a"), truth(resp3, true));
        assert_eq!(client.cmd("CF.DEL k a"), truth(resp3, false));
        assert_eq!(client.cmd("CF.EXISTS k a"), truth(resp3, false));
        assert_eq!(field(client, "k", "Number of items inserted"), 1);
        assert_eq!(field(client, "k", "Number of items deleted"), 2);
        assert_eq!(client.cmd("CF.DEL k b"), truth(resp3, true));
        assert_eq!(client.cmd("EXISTS k"), int(1), "an empty one stays");
        assert_eq!(client.cmd("CF.COMPACT k"), ok());
        assert_eq!(field(client, "k", "Number of items deleted"), 0);
    });
}

#[test]
fn info_and_debug_return_every_field() {
    in_both_protocols(&Server::start(), |client, resp3| {
        let reserve = "CF.RESERVE k 777 expansion 3 BUCKETSIZE 3 MaxIterations 7";
        assert_eq!(client.cmd(reserve), ok());
        client.cmd("CF.ADD k a");
        let pairs = [
            ("Size", 40 + 16 + 3 * 512),
            ("Number of buckets", 512),
            ("Number of filters", 1),
            ("Number of items inserted", 1),
            ("Number of items deleted", 0),
            ("Bucket size", 3),
            ("Expansion rate", 4),
            ("Max iterations", 7),
        ]
        .map(|(name, value)| (simple(name), int(value)));
        let expected = if resp3 {
            map(pairs)
        } else {
            array(pairs.into_iter().flat_map(|(name, value)| [name, value]))
        };
        assert_eq!(client.cmd("CF.INFO k"), expected);
        let line = "bktsize:3 buckets:512 items:1 deletes:0 filters:1 max_iterations:7 expansion:4";
        assert_eq!(client.cmd("CF.DEBUG k"), bulk(line));
        // The first of a repeated option counts.
        client.cmd("CF.RESERVE twice 64 BUCKETSIZE 4 BUCKETSIZE 2");
        assert_eq!(field(client, "twice", "Bucket size"), 4);
        // A name of an option is a key as any other.
        assert_eq!(client.cmd("CF.RESERVE EXPANSION 64"), ok());
        assert_eq!(field(client, "EXPANSION", "Expansion rate"), 1);
    });
}

#[test]
fn chunks_carry_a_filter() {
    in_both_protocols(&Server::start(), |client, _| {
        client.cmd("CF.RESERVE k 64 EXPANSION 2");
        assert_eq!(
            client.cmd("CF.SCANDUMP k 0"),
            array([int(0), nil()]),
            "without items"
        );
        client.cmd(&format!("CF.INSERT k ITEMS {}", items("i", 100)));
        let pieces = chunks(client, "k");
        let ends: Vec<i64> = pieces.iter().map(|(cursor, _)| *cursor).collect();
        assert_eq!(ends[..3], [1, 65, 193]);
        assert_eq!(pieces[0].1.len(), 38);
        // From the middle of a filter to its end; and past all.
        let reply = client.cmd("CF.SCANDUMP k 11");
        assert_eq!(reply, array([int(65), bulk(&pieces[1].1[10..])]));
        for cursor in ["100000", "9223372036854775807"] {
            let reply = client.cmd(&format!("CF.SCANDUMP k {cursor}"));
            assert_eq!(reply, array([int(0), nil()]), "{cursor}");
        }
        load(client, "copy", &pieces);
        let mut backwards = pieces.clone();
        backwards[1..].reverse();
        load(client, "again", &backwards);
        let dump = client.cmd("DUMP k");
        for copy in ["copy", "again"] {
            assert_eq!(client.cmd(&format!("DUMP {copy}")), dump);
        }
    });
}

/// A filter larger than a chunk.
#[test]
fn a_large_filter_goes_in_chunks_of_four_megabytes() {
    let server = Server::start();
    let mut client = server.client();
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
    assert_eq!(client.cmd("DUMP copy"), client.cmd("DUMP k"));
    let after: i64 = server.info("bf")["bf_cuckoo_total_memory_bytes"]
        .parse()
        .unwrap();
    assert_eq!(after, 2 * before);
}
