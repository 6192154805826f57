//! Refusals of ONCE: nothing is added, and the receipt stays as it is.

use crate::harness::{Client, Server, error};
use crate::support::Rng;
use crate::support::configured::{MAKERS, made_by};
use crate::support::protocols::{in_both_protocols, truths};

use super::receipt;

/// Refused commands, each with its error.
const REFUSED: &str = "
BF.INSERT k ONCE r ITEMS a => ERR bad position
BF.INSERT k ONCE r => ERR bad position
BF.INSERT k ONCE r -1 ITEMS a => ERR bad position
BF.INSERT k ONCE r x ITEMS a => ERR bad position
BF.INSERT k ONCE r 9223372036854775808 ITEMS a => ERR bad position
BF.INSERT k ONCE r ANSWERED x ITEMS a => ERR bad position
BF.INSERT k ONCE k 0 ITEMS z => ERR filter and receipt need different keys
BF.INSERT new ONCE new 0 ITEMS z => ERR filter and receipt need different keys
BF.INSERT k ONCE r 9 ITEMS z => FORGOTTEN answers are known from 5 to 8
BF.INSERT k ONCE r 4 ITEMS z => FORGOTTEN answers are known from 5 to 8
BF.INSERT k ONCE r 0 ITEMS z => FORGOTTEN answers are known from 5 to 8
BF.INSERT k ONCE r 4 BEGIN ITEMS z => FORGOTTEN answers are known from 5 to 8
BF.INSERT k ONCE none 1 ITEMS z => FORGOTTEN answers are known from 0 to 0
BF.INSERT new ONCE none 1 ITEMS z => FORGOTTEN answers are known from 0 to 0
BF.INSERT k ONCE text 0 ITEMS z => ERR key does not hold a receipt
BF.INSERT k ONCE text 0 BEGIN ITEMS z => ERR key does not hold a receipt
BF.INSERT k ONCE number 0 ITEMS z => ERR key does not hold a receipt
BF.INSERT k ONCE empty 0 ITEMS z => ERR key does not hold a receipt
BF.INSERT new ONCE text 0 ITEMS z => ERR key does not hold a receipt
BF.INSERT k ONCE list 0 ITEMS z => WRONGTYPE Operation against a key holding the wrong kind of value
BF.INSERT k ONCE filter 0 ITEMS z => WRONGTYPE Operation against a key holding the wrong kind of value
BF.INSERT list ONCE r 8 ITEMS z => WRONGTYPE Operation against a key holding the wrong kind of value
BF.INSERT r ONCE new 0 ITEMS z => WRONGTYPE Operation against a key holding the wrong kind of value
BF.INSERT new NOCREATE ONCE r 8 ITEMS z => ERR not found
BF.INSERT new NOCREATE ONCE r 7 ITEMS y z => ERR not found
";

fn prepare(client: &mut Client) {
    client.ok("FLUSHALL");
    client.run("BF.INSERT k ONCE r 5 BEGIN ITEMS a b a");
    client.run("BF.ADD filter a");
    client.ok("SET text receipt");
    client.ok("SET number 12345678901");
    client.ok("SET empty ");
    client.run("RPUSH list a");
}

#[test]
fn every_refusal_has_its_text_and_changes_nothing() {
    for maker in MAKERS {
        let server = made_by(maker).start();
        in_both_protocols(&server, |client, resp3| {
            prepare(client);
            let data = client.cmd("DEBUG DIGEST");
            for line in REFUSED.lines().filter(|line| !line.is_empty()) {
                let (line, text) = line.split_once(" => ").expect("a reply");
                client.expect(line, error(text));
                client.expect("DEBUG DIGEST", &data);
            }
            let head: Vec<&[u8]> = "BF.INSERT k ONCE r 8 ITEMS"
                .split(' ')
                .map(str::as_bytes)
                .collect();
            let items = vec![&b"z"[..]; 100_001];
            let long = client.call(&[head, items].concat());
            assert_eq!(long, error("ERR ONCE takes at most 100000 items"));
            client.expect("DEBUG DIGEST", &data);
            // What the receipt has is answered, whatever the filter is by now.
            client.ok("SET k text");
            let answers = truths(resp3, &[true, true, false]);
            client.expect("BF.INSERT k ONCE r 5 ITEMS a b a", answers);
            client.expect(
                "BF.INSERT k ONCE r 5 ITEMS a b a a",
                error("WRONGTYPE Operation against a key holding the wrong kind of value"),
            );
        });
    }
}

/// A client may store any string where a receipt is expected.
#[test]
fn forged_receipts_are_refused_or_read() {
    let (_server, mut client) = Server::with_client();
    client.run("BF.RESERVE k 1e-9 100000");
    let mut rng = Rng::new(9);
    let mut refused = 0;
    let (mut added, mut expected) = (0, 0);
    for round in 0..400 {
        let answers: Vec<bool> = (0..rng.below(30)).map(|_| rng.one_in(2)).collect();
        let mut bytes = receipt(0, &answers);
        for _ in 0..rng.below(3) {
            let place = rng.below(bytes.len());
            bytes[place] = if rng.one_in(2) {
                *rng.pick(b"0129")
            } else {
                rng.bytes(1)[0]
            };
        }
        if rng.one_in(8) {
            bytes = rng.item(60);
        }
        client.call(&[b"SET", b"r", &bytes]);
        let item = format!("item-{round}");
        let reply = client.cmd(&format!(
            "BF.INSERT k ONCE r {} ITEMS {item}",
            answers.len()
        ));
        let after = client.cmd("GET r");
        added = client.cmd("BF.CARD k").as_int();
        if reply.is_error() {
            refused += 1;
            assert_eq!(after.as_bytes(), bytes);
        } else if after.as_bytes() != bytes {
            expected += 1;
            assert_eq!(reply, truths(false, &[true]));
        }
        assert_eq!(added, expected, "{}", bytes.escape_ascii());
    }
    assert!((100..390).contains(&refused), "{refused}");
    assert!(added > 50);
}
