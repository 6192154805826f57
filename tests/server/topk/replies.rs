//! The replies of each command, in both protocols.

use crate::harness::{Client, Reply, Server, array, bulk, double, error, int, nil};
use crate::support::protocols::{in_both_protocols, table, truths};

use super::refusals::BAD_INCREMENT;

fn nils(count: usize) -> Reply {
    array(vec![nil(); count])
}

fn list(items: &[&str]) -> Reply {
    array(items.iter().map(bulk))
}

#[test]
fn adding_replies_with_what_left_the_list() {
    in_both_protocols(&Server::start(), |client, resp3| {
        client.ok("TOPK.RESERVE k 3 50 4 1");
        client.expect("TOPK.LIST k", list(&[]));
        client.expect("TOPK.ADD k a b a c", nils(4));
        // A newcomer that ties with the least takes its place.
        client.expect("TOPK.ADD k d", list(&["b"]));
        client.expect("TOPK.QUERY k a b d", truths(resp3, &[true, false, true]));
        client.expect("TOPK.INCRBY k e 5 a 7", array([bulk("c"), nil()]));
        client.expect("TOPK.LIST k", list(&["a", "e", "d"]));
        let counted = array([bulk("a"), int(9), bulk("e"), int(5), bulk("d"), int(1)]);
        for word in ["WITHCOUNT", "withcount", "wItHcOuNt"] {
            client.expect(format!("TOPK.LIST k {word}"), &counted);
        }
        client.expect("TOPK.COUNT k a b z", array([int(9), int(1), int(0)]));
        assert_eq!(client.cmd("TYPE k").text(), "TopK-TYPE");
    });
}

#[test]
fn info_returns_the_parameters() {
    in_both_protocols(&Server::start(), |client, resp3| {
        for (words, numbers, decay) in [
            ("3", [3, 8, 7], 0.9),
            ("5 2000 6 0.925", [5, 2000, 6], 0.925),
            ("1 1 1 +1", [1, 1, 1], 1.0),
            ("1 1 32 1e-300", [1, 1, 32], 1e-300),
        ] {
            client.ok(format!("TOPK.RESERVE k {words}"));
            let info = client.cmd("TOPK.INFO k");
            let shown = match &info {
                Reply::Map(pairs) => pairs[3].1.clone(),
                flat => flat.as_array()[7].clone(),
            };
            if resp3 {
                assert_eq!(shown, double(decay));
            } else {
                assert_eq!(shown.text().parse(), Ok(decay));
            }
            let rows = ["k", "width", "depth"].into_iter().zip(numbers.map(int));
            let rows = rows.chain([("decay", shown)]).collect();
            assert_eq!(info, table(resp3, rows));
            client.cmd("DEL k");
        }
    });
}

/// Items are bytes: the empty one, and zero bytes anywhere, which RedisBloom loses in a restart.
#[test]
fn items_are_bytes() {
    let server = Server::start();
    in_both_protocols(&server, |client, resp3| {
        let items: [&[u8]; 6] = [b"", b"\0", b"\0abc", b"abc\0", b"abc\0def", b"\r\n\xff"];
        client.cmd("TOPK.RESERVE k 6 100 5 0.9");
        let call = |client: &mut Client, name: &[u8]| {
            let words: Vec<&[u8]> = [name, b"k"].into_iter().chain(items).collect();
            client.call(&words)
        };
        assert_eq!(call(client, b"TOPK.ADD"), nils(6));
        for reload in [false, true] {
            if reload {
                client.ok("DEBUG RELOAD");
            }
            assert_eq!(call(client, b"TOPK.QUERY"), truths(resp3, &[true; 6]));
            assert_eq!(call(client, b"TOPK.COUNT"), array(vec![int(1); 6]));
            let listed = client.cmd("TOPK.LIST k");
            let mut listed: Vec<&[u8]> = listed.as_array().iter().map(Reply::as_bytes).collect();
            let mut expected = items.to_vec();
            listed.sort_unstable();
            expected.sort_unstable();
            assert_eq!(listed, expected);
        }
        // Each is named in full when it leaves.
        let mut left = Vec::new();
        for number in 0..6 {
            let reply = client.cmd(&format!("TOPK.INCRBY k {number} 1000"));
            left.push(reply.as_array()[0].as_bytes().to_vec());
        }
        left.sort_unstable();
        let mut expected = items.map(<[u8]>::to_vec);
        expected.sort_unstable();
        assert_eq!(left, expected);
    });
}

/// A bad increment ends a command: pairs before it are added, and the reply has all of its elements.
#[test]
fn a_bad_increment_ends_the_command() {
    in_both_protocols(&Server::start(), |client, _| {
        client.cmd("TOPK.RESERVE k 2 100 5 1");
        let bad = || error(BAD_INCREMENT);
        for (line, expected) in [
            ("a x", vec![bad()]),
            ("a 100001", vec![bad()]),
            ("a -1 b 5", vec![bad(), nil()]),
            ("a 3 b -1", vec![nil(), bad()]),
            (
                "a 3 b 2 c x d 9 e y",
                vec![nil(), nil(), bad(), nil(), nil()],
            ),
            (
                "f 100000 b 7 c x a 1",
                vec![bulk("b"), bulk("a"), bad(), nil()],
            ),
        ] {
            client.expect(format!("TOPK.INCRBY k {line}"), array(expected));
        }
        assert_eq!(client.cmd("PING").text(), "PONG");
        let counts = client.cmd("TOPK.COUNT k a b c d e f");
        let numbers: Vec<_> = counts.as_array().iter().map(Reply::as_int).collect();
        assert_eq!(numbers, [6, 9, 0, 0, 0, 100_000]);
    });
}

/// Duplicates in one command are added in order, and a transaction replies like the commands in it.
#[test]
fn scripts_and_transactions_get_the_same_replies() {
    in_both_protocols(&Server::start(), |client, _| {
        client.cmd("TOPK.RESERVE k 1 100 5 1");
        client.ok("MULTI");
        client.cmd("TOPK.ADD k a a b");
        client.cmd("TOPK.INCRBY k c 5 x y d 1");
        client.cmd("TOPK.LIST k WITHCOUNT");
        let replies = client.cmd("EXEC");
        let expected = [
            nils(3),
            array([bulk("a"), error(BAD_INCREMENT), nil()]),
            array([bulk("c"), int(5)]),
        ];
        assert_eq!(replies, array(expected));
        let script = "return redis.call('TOPK.ADD', KEYS[1], 'c', 'z')";
        let call: [&[u8]; 4] = [b"EVAL", script.as_bytes(), b"1", b"k"];
        assert_eq!(client.call(&call), nils(2));
        let script = "return redis.call('TOPK.LIST', KEYS[1])";
        let call: [&[u8]; 4] = [b"EVAL", script.as_bytes(), b"1", b"k"];
        assert_eq!(client.call(&call), list(&["c"]));
    });
}
