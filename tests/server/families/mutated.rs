//! Values cut short, and values with changed bytes: refused values leave no key, accepted ones can be used.

use crate::harness::{Client, Reply, Server, digest, error, int, ok};
use crate::support::forged::Rdb;
use crate::support::random::Random;
use crate::{cms, cuckoo, topk};

/// Values that are right, and commands that use them.
fn values() -> Vec<(Rdb, &'static [&'static str])> {
    const OF_CMS: &[&str] = &[
        "CMS.INCRBY k a 1 b 300",
        "CMS.QUERY k a b",
        "CMS.MERGE k 2 k k",
        "CMS.INFO k",
    ];
    let mut values: Vec<(Rdb, &'static [&'static str])> = vec![
        (
            cuckoo::hostile::right(),
            &["CF.ADD k a", "CF.DEL k a", "CF.COUNT k b", "CF.COMPACT k"],
        ),
        (
            topk::hostile::right(),
            &[
                "TOPK.INCRBY k a 1 b 300 c 100000",
                "TOPK.ADD k a b c d",
                "TOPK.QUERY k a b",
                "TOPK.COUNT k a b",
                "TOPK.LIST k WITHCOUNT",
                "TOPK.INFO k",
            ],
        ),
    ];
    values.extend(cms::hostile::right().map(|value| (value, OF_CMS)));
    values
}

fn restore(client: &mut Client, value: &[u8]) -> Reply {
    let payload = Rdb(value.to_vec()).payload([9, 0]);
    client.call(&[b"RESTORE", b"k", b"0", &payload])
}

#[test]
fn mutated_values_never_break_the_server() {
    let server = Server::start();
    let mut client = server.client();
    let mut random = Random(38);
    for (right, commands) in values() {
        let right = right.0;
        // A value that lacks fewer bytes than its footer has may continue in the footer.
        for length in 1..right.len() - 11 {
            let refused = restore(&mut client, &right[..length]);
            assert_eq!(refused, error("ERR Bad data format"), "{length} bytes");
        }
        let mut admitted = 0;
        for _ in 0..3000 {
            let mut forged = right.clone();
            for _ in 0..=random.below(3) {
                // The numbers come first.
                let end = if random.one_in(2) {
                    right.len().min(40)
                } else {
                    right.len()
                };
                forged[10 + random.below(end - 10)] =
                    random.pick(&[0, 1, 2, 5, 0x40, 0x80, 0x81, 0xff]);
            }
            if restore(&mut client, &forged) != ok() {
                continue;
            }
            admitted += 1;
            for command in commands {
                let reply = client.cmd(command);
                // Others refuse what overflows or is full.
                let may_fail = !command.starts_with("TOPK");
                assert!(may_fail || !reply.is_error(), "{command}: {reply:?}");
            }
            let before = digest(&mut client, "k");
            let dump = client.cmd("DUMP k");
            assert_eq!(client.cmd("DEL k"), int(1));
            let words: [&[u8]; 4] = [b"RESTORE", b"k", b"0", dump.as_bytes()];
            assert_eq!(client.call(&words), ok());
            assert_eq!(digest(&mut client, "k"), before);
            assert_eq!(client.cmd("DEL k"), int(1));
        }
        assert!(admitted > 30, "{admitted} for {commands:?}");
    }
}
