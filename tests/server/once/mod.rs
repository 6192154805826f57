//! ONCE of BF.INSERT: answers that the server repeats. Their oracles are a set of items, and a plain list of answers.

mod clients;
mod kept;
mod keys;
mod refused;

use std::collections::{HashMap, HashSet};

use crate::harness::{Client, Reply, Server, array, bulk, error, int, wait_until};
use crate::support::Rng;
use crate::support::configured::{MAKERS, made_by};
use crate::support::protocols::{in_both_protocols, truths, with_fixed_seed};

/// Returns the receipt with these answers.
fn receipt(first: u64, answers: &[bool]) -> Vec<u8> {
    let mut bytes = format!("receipt1 {first:019} {:06}\n", answers.len()).into_bytes();
    bytes.extend(answers.chunks(8).map(|answers| {
        let bits = answers.iter().enumerate();
        bits.fold(0, |byte, (place, answer)| {
            byte | u8::from(*answer) << (7 - place)
        })
    }));
    bytes
}

/// A log of items, what was added of it, and the answers.
struct Log {
    key: &'static str,
    receipt: &'static str,
    options: &'static str,
    items: Vec<String>,
    answers: Vec<bool>,
    seen: HashSet<String>,
}

impl Log {
    fn new(key: &'static str, receipt: &'static str, options: &'static str) -> Self {
        Self {
            key,
            receipt,
            options,
            items: Vec::new(),
            answers: Vec::new(),
            seen: HashSet::new(),
        }
    }

    /// Writes items that were written before and others.
    fn write(&mut self, rng: &mut Rng, count: usize) {
        for _ in 0..count {
            let number = rng.below(self.items.len() + 20);
            self.items.push(format!("item-{number}"));
        }
    }

    /// Sends the items from a position on, and checks the answers.
    #[track_caller]
    fn read(&mut self, client: &mut Client, resp3: bool, position: usize, count: usize) {
        let Self {
            key,
            receipt,
            options,
            ..
        } = *self;
        let items = &self.items[position..position + count];
        let line = format!("BF.INSERT {key} {options} ONCE {receipt} {position} ITEMS");
        let reply = client.call_with(&line, items);
        for item in &self.items[self.answers.len().min(position + count)..position + count] {
            self.answers.push(self.seen.insert(item.clone()));
        }
        let expected = truths(resp3, &self.answers[position..position + count]);
        assert_eq!(reply, expected, "{line}");
    }

    /// Reads the log to its end, in batches of any length, and at times from an earlier position.
    fn read_all(&mut self, client: &mut Client, resp3: bool, rng: &mut Rng) {
        while self.answers.len() < self.items.len() {
            let end = self.answers.len();
            let position = end - rng.below(end.min(50) + 1);
            let most = self.items.len() - position;
            self.read(client, resp3, position, 1 + rng.below(most.min(40)));
        }
    }

    /// Returns the number of distinct items so far.
    fn count(&self) -> Reply {
        int(self.seen.len().try_into().expect("a small number"))
    }

    /// Checks what the server holds.
    #[track_caller]
    fn is_held(&self, client: &mut Client) {
        let (key, name) = (self.key, self.receipt);
        client.expect(format!("GET {name}"), bulk(receipt(0, &self.answers)));
        client.expect(format!("BF.CARD {key}"), self.count());
        if self.options.contains("COUNTING") {
            let mut counts: HashMap<&str, i64> = HashMap::new();
            for item in &self.items {
                *counts.entry(item).or_default() += 1;
            }
            for (item, count) in counts {
                client.expect(format!("BF.COUNT {key} {item}"), int(count));
            }
        }
    }
}

/// Options with which false positives are improbable. Windows end long after any test.
const KINDS: [&str; 6] = [
    "ERROR 1e-9",
    "ERROR 1e-9 CAPACITY 20",
    "ERROR 1e-9 NONSCALING",
    "ERROR 1e-9 COUNTING",
    "ERROR 1e-9 WINDOW 1000000000000 PERIODS 2",
    "ERROR 1e-9 SCALETO 1000",
];

#[test]
fn positions_that_are_asked_again_have_their_answers() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, resp3| {
        for (number, options) in KINDS.into_iter().enumerate() {
            client.ok("FLUSHALL");
            let mut rng = Rng::new(number as u64);
            let mut log = Log::new("k", "r", options);
            for _ in 0..3 {
                log.write(&mut rng, 200);
                log.read_all(client, resp3, &mut rng);
                log.is_held(client);
            }
            // All of it in one batch, and position by position.
            log.read(client, resp3, 0, 600);
            for position in 0..50 {
                log.read(client, resp3, position, 1);
            }
            log.is_held(client);
        }
    });
}

/// In any grammar, a receipt is one option more.
#[test]
fn filters_of_every_kind_have_receipts() {
    for maker in MAKERS {
        let server = made_by(maker).start();
        in_both_protocols(&server, |client, resp3| {
            let mut rng = Rng::new(7);
            let mut log = Log::new("k", "r", "ERROR 0.000000001");
            log.write(&mut rng, 300);
            log.read_all(client, resp3, &mut rng);
            log.is_held(client);
            let answers = truths(resp3, &[true, true, false]);
            let line = "bf.insert words once begun 1200 begin nocreate capacity 9 items a b a";
            client.expect(line, error("ERR not found"));
            client.expect("EXISTS words begun", int(0));
            let line = line.replace(" nocreate", "");
            client.expect(&line, &answers);
            client.expect(&line, &answers);
            client.expect("GET begun", bulk(receipt(1200, &[true, true, false])));
        });
    }
}

#[test]
fn a_receipt_begins_where_it_is_told() {
    let (_server, mut client) = Server::with_client();
    let mut said = |line: &str, answers: &[bool]| client.expect(line, truths(false, answers));
    said("BF.INSERT k ONCE r 500 BEGIN ITEMS a b", &[true, true]);
    // BEGIN keeps answers that are there.
    said("BF.INSERT k ONCE r 501 BEGIN ITEMS b c", &[true, true]);
    said("BF.INSERT k ONCE r 503 BEGIN ITEMS a", &[false]);
    said(
        "BF.INSERT k ONCE r 500 ITEMS a b c a",
        &[true, true, true, false],
    );
    // The receipt answers, whatever the items are now.
    said("BF.INSERT k ONCE r 502 ITEMS x y", &[true, false]);
    // It begins anew behind its end.
    said("BF.INSERT k ONCE r 505 BEGIN ITEMS d", &[true]);
    said("BF.INSERT k ONCE r 505 ITEMS d d", &[true, false]);
    // The largest position.
    let last = i64::MAX;
    said(
        &format!("BF.INSERT k ONCE r {last} BEGIN ITEMS e e"),
        &[true, false],
    );
    said(
        &format!("BF.INSERT k ONCE r {last} ITEMS e e e"),
        &[true, false, false],
    );
    client.expect(
        "GET r",
        bulk(receipt(i64::MAX as u64, &[true, false, false])),
    );
    // An empty batch answers nothing, and makes no receipt.
    client.expect("BF.INSERT new ONCE none 0", array([]));
    client.expect("EXISTS new none", int(1));
}

#[test]
fn the_oldest_answers_are_forgotten() {
    let (_server, mut client) = Server::with_client();
    client.ok("BF.RESERVE k 0.001 300000");
    let batch = |numbers: std::ops::Range<u64>| -> Vec<String> {
        numbers.map(|number| number.to_string()).collect()
    };
    let mut add = |first: u64, count: u64| {
        let line = format!("BF.INSERT k ONCE r {first} ITEMS");
        client.call_with(&line, &batch(first..first + count))
    };
    let first = add(0, 100_000);
    assert_eq!(first.as_array().len(), 100_000);
    assert_eq!(add(0, 100_000), first);
    add(100_000, 511);
    assert_eq!(add(0, 100_000), first);
    add(100_511, 1);
    let forgotten = error("FORGOTTEN answers are known from 512 to 100512");
    assert_eq!(add(0, 100_000), forgotten);
    assert_eq!(add(511, 1), forgotten);
    assert_eq!(add(512, 99_488).as_array(), &first.as_array()[512..]);
    add(100_512, 100_000);
    assert_eq!(
        add(100_000, 5),
        error("FORGOTTEN answers are known from 100352 to 200512")
    );
    client.expect("STRLEN r", int(36 + 100_160 / 8));
    let most = client.cmd("MEMORY USAGE r").as_int();
    assert!(most < 50_000, "{most}");
}

/// The call that was refused in its middle goes on there, once it is allowed.
#[test]
fn a_refused_item_is_tried_again() {
    let server = Server::start();
    in_both_protocols(&server, |client, resp3| {
        for kind in ["", " COUNTING"] {
            client.ok("FLUSHALL");
            client.ok("CONFIG SET bf.bloom-saturate-nonscaling no");
            client.ok(format!("BF.RESERVE k 0.000001 2 NONSCALING{kind}"));
            let known = truths(resp3, &[true, false, true]).as_array().to_vec();
            let full = [&known[..], &[error("ERR non scaling filter is full")]].concat();
            let line = "BF.INSERT k ONCE r 0 ITEMS a a b c d";
            for _ in 0..2 {
                client.expect(line, array(full.clone()));
                client.expect("GET r", bulk(receipt(0, &[true, false, true])));
            }
            // The first item that has no answer is refused.
            let refused = array([error("ERR non scaling filter is full")]);
            client.expect("BF.INSERT k ONCE r 3 ITEMS c d", &refused);
            client.expect("BF.INSERT k ONCE other 0 ITEMS c d", &refused);
            client.expect("EXISTS other", int(0));
            client.ok("CONFIG SET bf.bloom-saturate-nonscaling yes");
            let all = [true, false, true, true, true];
            client.expect(line, truths(resp3, &all));
            client.expect(line, truths(resp3, &all));
            client.expect("GET r", bulk(receipt(0, &all)));
        }
    });
}

/// A reader of the feed gets each new item once.
#[test]
fn feeds_list_new_items_once() {
    let (_server, mut client) = Server::with_client();
    let mut log = Log::new("k", "r", "ERROR 1e-9");
    client.ok("BF.RESERVE k 1e-9 1000");
    let begun = client.cmd("BF.READ k $");
    let mut rng = Rng::new(8);
    log.write(&mut rng, 500);
    log.read_all(&mut client, false, &mut rng);
    let cursor = begun.as_array()[0].text();
    let read = client.cmd(&format!("BF.READ k {cursor}"));
    let [_, count, items] = read.as_array() else {
        panic!("not a reply of BF.READ: {read:?}");
    };
    assert_eq!(*count, log.count());
    assert_eq!(items.as_bytes().len(), 16 * log.seen.len());
}

/// Items of a window keep their times to live, and answers outlive the items.
#[test]
fn answers_do_not_expire_with_the_items() {
    let (_server, mut client) = Server::with_client();
    let line = "BF.INSERT k WINDOW 5 PERIODS 2 ERROR 1e-9 ONCE r 0 ITEMS a b a";
    let answers = truths(false, &[true, true, false]);
    client.expect(line, &answers);
    wait_until("the window has passed", || {
        client.cmd("BF.CARD k") == int(0)
    });
    client.expect(line, &answers);
    client.expect("BF.CARD k", int(0));
    client.expect("BF.INSERT k ONCE r 3 ITEMS a", truths(false, &[true]));
    let long = error("ERR ttl is longer than the window");
    client.expect("BF.INSERT k TTL 11 ONCE r 4 ITEMS a", long);
    client.expect("GET r", bulk(receipt(0, &[true, true, false, true])));
}

#[test]
fn a_transaction_and_a_script_repeat_answers() {
    let (_server, mut client) = Server::with_client();
    let mut in_transaction = |expected: &[&[bool]]| {
        client.ok("MULTI");
        for line in [
            "BF.INSERT k ONCE r 0 ITEMS a b",
            "BF.INSERT k ONCE r 1 ITEMS b c",
        ] {
            client.expect(line, Reply::Simple("QUEUED".to_owned()));
        }
        client.expect(
            "EXEC",
            array(expected.iter().map(|answers| truths(false, answers))),
        );
    };
    in_transaction(&[&[true, true], &[true, true]]);
    in_transaction(&[&[true, true], &[true, true]]);
    let script: &[u8] =
        b"local a = redis.call('BF.INSERT', KEYS[1], 'ONCE', KEYS[2], ARGV[1], 'ITEMS', 'd') \
        local b = redis.pcall('BF.INSERT', KEYS[1], 'ONCE', KEYS[2], '9', 'ITEMS', 'e') \
        return {a[1], b.err}";
    let forgotten = bulk("FORGOTTEN answers are known from 0 to 4");
    for _ in 0..2 {
        let reply = client.call(&[b"EVAL", script, b"2", b"k", b"r", b"3"]);
        assert_eq!(reply, array([int(1), forgotten.clone()]));
    }
    client.expect("BF.CARD k", int(4));
}
