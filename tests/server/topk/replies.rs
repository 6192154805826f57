//! The replies of each command, in both protocols.

use crate::harness::{Client, Reply, Server, array, int, nil};
use crate::support::protocols::{in_both_protocols, truths};

fn nils(count: usize) -> Reply {
    array(vec![nil(); count])
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
