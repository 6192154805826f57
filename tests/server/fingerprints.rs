//! Objects of tables of fingerprints: their pieces while others write, and their growth within limits.

use crate::harness::{Client, Reply, Server, array, digest, error, int, ok, spaced};
use crate::support::periods::LASTING_WINDOW;
use crate::support::pieces::{Pieces, load_chunks, load_piece, pieces};
use crate::support::protocols::field;
use crate::support::repeated::Repeated;
use crate::support::sums;

const BAD: &str = "ERR received bad data";
const OVER: &str = "ERR operation exceeds bloom object memory limit";

/// Returns a line of a command with numbered items.
fn line(start: &str, name: &str, numbers: std::ops::Range<u32>) -> String {
    let items = spaced(numbers.map(|number| format!("{name}-{number}")));
    format!("{start} {items}")
}

fn kinds() -> [String; 3] {
    ["COUNTING", LASTING_WINDOW, "SCALETO 70000"].map(str::to_owned)
}

/// An item that is there from the first piece to the last is in the copy, with its count, whatever is added or removed
/// meanwhile.
#[test]
fn pieces_hold_what_stays_while_others_write() {
    let (server, mut client) = Server::with_client();
    for kind in kinds() {
        let make = format!("BF.INSERT k CAPACITY 70000 EXPANSION 1 {kind} ITEMS");
        let stay = line(&make, "stays", 0..50_000);
        assert_eq!(client.cmd(&stay).as_array().len(), 50_000);
        let counts = kind == "COUNTING";
        if counts {
            client.cmd(&line("BF.MADD k", "stays", 0..10));
        }
        let mut writer = server.client();
        // Some are removed again, and the rest makes the object grow.
        let others = Repeated::start(move |round| {
            let first = 500 * u32::try_from(round).unwrap();
            let others = first..first + 500;
            writer.cmd(&line("BF.MADD k", "comes", others.clone()));
            if counts && round % 4 > 0 {
                writer.cmd(&line("BF.MDEL k", "comes", others));
            }
        });
        let copies: Vec<Pieces> = (0..10).map(|_| pieces(&mut client, "k")).collect();
        others.end();
        for copy in copies {
            assert!(copy.len() > 2, "{kind}: {} pieces", copy.len());
            load_chunks(&mut client, "copy", &copy);
            client.expect(line("BF.MISSING copy", "stays", 0..50_000), int(0));
            if counts {
                for (item, count) in [(0, 2), (9, 2), (10, 1), (49_999, 1)] {
                    let found = client.cmd(&format!("BF.COUNT copy stays-{item}")).as_int();
                    assert!(found >= count, "{found} of {item}");
                }
            }
            client.expect("DEL copy", int(1));
        }
        let quiet = pieces(&mut client, "k");
        load_chunks(&mut client, "copy", &quiet);
        assert_eq!(digest(&mut client, "copy"), digest(&mut client, "k"));
        sums::is_balanced(&mut client);
        client.expect("DEL k copy", int(2));
    }
}

/// A refused piece changes nothing: the next one is taken all the same.
#[test]
fn pieces_come_in_order_and_within_limits() {
    let (_server, mut client) = Server::with_client();
    for kind in kinds() {
        let make = format!("BF.INSERT k CAPACITY 70000 {kind} ITEMS");
        client.cmd(&line(&make, "item", 0..70_000));
        let whole = pieces(&mut client, "k");
        let [header, first, second, ..] = &whole[..] else {
            panic!("{kind}: {} pieces", whole.len());
        };
        let bad = |client: &mut Client, piece: (u64, Vec<u8>)| {
            let before = digest(client, "copy");
            assert_eq!(load_piece(client, "copy", &piece), error(BAD), "{kind}");
            assert_eq!(digest(client, "copy"), before);
        };
        assert_eq!(load_piece(&mut client, "copy", header), ok());
        bad(&mut client, second.clone());
        bad(&mut client, (first.0 + 1, first.1.clone()));
        bad(
            &mut client,
            (first.0, first.1[..first.1.len() - 1].to_vec()),
        );
        bad(&mut client, (first.0, [&first.1[..], b"x"].concat()));
        // One more table than there are, and a longer fingerprint.
        for at in [32, 56] {
            let mut forged = first.clone();
            forged.1[at] ^= 0x40;
            bad(&mut client, forged);
        }
        for _ in 0..2 {
            assert_eq!(load_piece(&mut client, "copy", first), ok());
        }
        bad(&mut client, (first.0, vec![0; first.1.len()]));
        let (last, others) = whole[2..].split_last().expect("at least one");
        load_chunks(&mut client, "copy", others);
        // The pieces are admitted, and the object that they make is not.
        let limit = "CONFIG SET bf.bloom-memory-usage-limit";
        let size = field(&mut client, "k", "SIZE");
        client.ok(format!("{limit} {}", size * 9 / 10));
        let before = digest(&mut client, "copy");
        for _ in 0..2 {
            assert_eq!(load_piece(&mut client, "copy", last), error(OVER), "{kind}");
            assert_eq!(digest(&mut client, "copy"), before);
        }
        // Not even a piece is admitted.
        assert_eq!(load_piece(&mut client, "other", header), ok());
        client.ok(format!("{limit} 1000"));
        assert_eq!(load_piece(&mut client, "other", first), error(OVER));
        client.ok(format!("{limit} 0"));
        assert_eq!(load_piece(&mut client, "copy", last), ok());
        assert_eq!(digest(&mut client, "copy"), digest(&mut client, "k"));
        sums::is_balanced(&mut client);
        client.expect("DEL k copy other", int(3));
    }
}

/// An object that SCALETO admits gets there within its limits, and is refused more than these hold.
#[test]
fn scaled_objects_grow_to_their_number_within_limits() {
    const LIMIT: i64 = 200_000;
    let server = Server::with(&[("bf.bloom-memory-usage-limit", &LIMIT.to_string())]);
    let mut client = server.client();
    let too_far = "ERR provided SCALETO causes bloom object to exceed memory limit";
    for kind in ["", " COUNTING", &format!(" {LASTING_WINDOW}")] {
        let reserve = |to: u32| format!("BF.RESERVE k 0.01 10 SCALETO {to}{kind}");
        // The largest number that is admitted.
        let (mut admitted, mut refused) = (1_000_u32, 1_000_000);
        while refused - admitted > 1 {
            let middle = admitted.midpoint(refused);
            let reply = client.cmd(&reserve(middle));
            if reply == ok() {
                admitted = middle;
                client.expect("DEL k", int(1));
            } else {
                assert_eq!(reply, error(too_far), "{kind} {middle}");
                refused = middle;
            }
        }
        client.ok(reserve(admitted));
        assert!(field(&mut client, "k", "SIZE") < 1000, "{kind}");
        for start in (0..admitted).step_by(1000) {
            let items = start..admitted.min(start + 1000);
            let added = client.cmd(&line("BF.MADD k", "item", items));
            assert!(!added.as_array().iter().any(Reply::is_error), "{kind}");
        }
        assert_eq!(field(&mut client, "k", "FILTERS"), 1, "{kind}");
        assert!(field(&mut client, "k", "SIZE") <= LIMIT, "{kind}");
        let strangers = client.cmd(&line("BF.MEXISTS k", "stranger", 0..100_000));
        let claimed = strangers.as_array().iter().filter(|it| **it == int(1));
        let claimed = claimed.count();
        assert!(claimed < 1200, "{kind}: {claimed} of 100,000");
        // Beyond, it takes what the limits hold.
        let more = client.cmd(&line("BF.MADD k", "more", 0..1_000_000));
        assert_eq!(more.as_array().last(), Some(&error(OVER)), "{kind}");
        assert!(field(&mut client, "k", "SIZE") <= LIMIT, "{kind}");
        client.expect("BF.MADD k item-0", array([int(0)]));
        sums::is_balanced(&mut client);
        client.expect("DEL k", int(1));
    }
}
