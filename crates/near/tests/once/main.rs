//! Additions with receipts, at a server in memory that loses commands and replies.

mod callers;
mod debts;

use std::collections::{HashMap, HashSet};

use valkeybloom_near::once::{Adding, Addition, LACKING, Once, Receipts, Refusal};
use valkeybloom_sketches::Forgotten;

const CREATING: Adding = Adding {
    creates: true,
    may_skip_receipts: false,
};

/// The refusal of an item.
const FULL: &str = "ERR non scaling filter is full";

/// A set and its receipts. Each has its first position and its answers.
#[derive(Default)]
struct Server {
    items: HashSet<Vec<u8>>,
    receipts: HashMap<Vec<u8>, (u64, Vec<bool>)>,
    /// The most items; more are refused.
    room: Option<usize>,
    /// How a server without receipts refuses them.
    refusal: Option<&'static str>,
}

/// The answers for the first items, and an error.
#[derive(Debug, PartialEq, Eq)]
struct Reply(Vec<bool>, Option<String>);

impl Server {
    fn add(&mut self, item: &[u8]) -> Option<bool> {
        if self.items.contains(item) {
            return Some(false);
        }
        if self.room.is_some_and(|room| self.items.len() >= room) {
            return None;
        }
        Some(self.items.insert(item.to_vec()))
    }

    fn reply(&mut self, words: &[Vec<u8>], items: &[Vec<u8>]) -> Reply {
        let mut words = words.iter().map(|word| std::str::from_utf8(word).unwrap());
        let mut answers = Vec::new();
        let second = match words.next() {
            Some("BF.INSERT") => words.next(),
            other => other,
        };
        match second {
            Some("BF.MADD") => {
                for item in items {
                    match self.add(item) {
                        Some(answer) => answers.push(answer),
                        None => return Reply(answers, Some(FULL.into())),
                    }
                }
            }
            Some("ONCE") => {
                if let Some(refusal) = self.refusal {
                    return Reply(answers, Some(refusal.into()));
                }
                let name = words.next().unwrap().as_bytes().to_vec();
                let at: u64 = words.next().unwrap().parse().unwrap();
                let begins = words.next() == Some("BEGIN");
                let (mut from, mut held) = self.receipts.get(&name).cloned().unwrap_or_default();
                let to = from + held.len() as u64;
                let is_there = self.receipts.contains_key(&name);
                if !(from..=to).contains(&at) || (!is_there && at > 0) {
                    if !begins || at < from {
                        let text = format!("FORGOTTEN answers are known from {from} to {to}");
                        return Reply(answers, Some(text));
                    }
                    (from, held) = (at, Vec::new());
                }
                for (item, place) in items.iter().zip(usize::try_from(at - from).unwrap()..) {
                    if place == held.len() {
                        let Some(answer) = self.add(item) else {
                            self.receipts.insert(name, (from, held));
                            return Reply(answers, Some(FULL.into()));
                        };
                        held.push(answer);
                    }
                    answers.push(held[place]);
                }
                self.receipts.insert(name, (from, held));
            }
            other => panic!("{other:?}"),
        }
        Reply(answers, None)
    }
}

/// A command, as a client keeps it.
type Sent = (Vec<Vec<u8>>, Vec<Vec<u8>>);

fn next(addition: &mut Addition) -> Option<Sent> {
    let command = addition.command()?;
    let items = command.items().map(<[u8]>::to_vec).collect();
    Some((command.words, items))
}

/// Sends the next command of a call, and gets no reply.
fn sent(mut addition: Addition) -> Addition {
    next(&mut addition);
    addition
}

fn begin(once: &mut Once, items: &[&[u8]], at: u64) -> Addition {
    let mut addition = once.begin(at);
    for item in items {
        once.push(&mut addition, item, false).unwrap();
    }
    addition
}

/// Takes the error of a reply.
fn refuse(addition: &mut Addition, text: &str) -> Refusal {
    if text == FULL {
        addition.refuse_item();
        return Refusal::Other;
    }
    addition.refuse(text)
}

/// A client's state and the server that it calls.
struct Pair {
    once: Once,
    server: Server,
}

impl Pair {
    fn new(once: Once) -> Self {
        let server = Server::default();
        Self { once, server }
    }

    /// Adds the items, of a letter each. Returns a 1 for each new one and a 0 for each other one, or the refusal of the last
    /// command.
    fn call(&mut self, items: &str, at: u64) -> Result<String, Refusal> {
        let items: Vec<&[u8]> = items.as_bytes().chunks(1).collect();
        let mut addition = begin(&mut self.once, &items, at);
        let mut result = Ok(());
        while let Some((words, items)) = next(&mut addition) {
            let Reply(answers, error) = self.server.reply(&words, &items);
            addition.take(answers);
            match error.map(|error| refuse(&mut addition, &error)) {
                None | Some(Refusal::Without) => {}
                Some(refusal) => {
                    result = Err(refusal);
                    break;
                }
            }
        }
        let answers = addition.answers().into_iter();
        let answers = answers.map(|answer| if answer == Some(true) { '1' } else { '0' });
        let answers = answers.collect();
        self.once.end(addition, result.is_ok());
        result.map(|()| answers)
    }

    /// Adds items, of a letter each, in a command whose reply is lost.
    fn lose(&mut self, items: &str) {
        let items: Vec<&[u8]> = items.as_bytes().chunks(1).collect();
        let mut addition = begin(&mut self.once, &items, 0);
        let (words, items) = next(&mut addition).unwrap();
        self.server.reply(&words, &items);
        self.once.end(addition, false);
    }
}

fn forgotten(from: u64, to: u64) -> Result<String, Refusal> {
    Err(Refusal::Forgotten(Forgotten { from, to }))
}

fn own() -> Once {
    Once::new(b"seen", Receipts::Own(7), CREATING)
}

#[test]
fn receipts_are_in_the_slot_of_their_filter() {
    for (key, name) in [
        ("seen", "{seen}:once:c"),
        ("{a}seen", "{a}seen:once:c"),
        ("see{n", "{see{n}:once:c"),
        ("a{b}c{d}", "a{b}c{d}:once:c"),
        // The server's CLUSTER KEYSLOT gives each of these the slot of its key.
        ("", "{once-24509}:once:c"),
        ("a}", "{once-254}a}:once:c"),
        ("a{}b{c}", "{once-1789}a{}b{c}:once:c"),
    ] {
        let mut once = Once::new(key.as_bytes(), Receipts::Consumer(b"c", 0), CREATING);
        let mut addition = begin(&mut once, &[b"x"], 3);
        let (words, _) = next(&mut addition).unwrap();
        assert_eq!(words[1..], [&b"ONCE"[..], name.as_bytes(), b"3", b"ITEMS"]);
        let position = once.position_words().unwrap();
        assert_eq!(
            position,
            ["GETRANGE", name, "0", "34"].map(|word| word.as_bytes().to_vec())
        );
    }
    let mut addition = begin(&mut own(), &[b"x"], 0);
    let (words, _) = next(&mut addition).unwrap();
    assert_eq!(
        words[2],
        b"{seen}:once:own-00000000000000000000000000000007-1"
    );
    assert_eq!(own().position_words(), None);
}

#[test]
fn a_consumer_begins_where_it_says_and_reads_where_it_stands() {
    let mut pair = Pair::new(Once::new(b"seen", Receipts::Consumer(b"c", 1200), CREATING));
    let read = |held: &str| pair.once.position_in(held.as_bytes());
    assert_eq!(read(""), Some(1200));
    assert_eq!(read("receipt1 0000000000000001200 000003"), Some(1203));
    for wrong in ["receipt2 0000000000000001200 000003", "x", "receipt1 1"] {
        assert_eq!(read(wrong), None);
    }
    assert_eq!(pair.once.position_in(b"\xff"), None);
    for (items, at, expected) in [
        ("a", 1300, forgotten(0, 0)),
        ("aba", 1200, Ok("110".into())),
        ("aba", 1200, Ok("110".into())),
        ("bac", 1201, Ok("101".into())),
        ("c", 1205, forgotten(1200, 1204)),
        ("c", 1199, forgotten(1200, 1204)),
    ] {
        assert_eq!(pair.call(items, at), expected, "{items} at {at}");
    }
    // Only its first batch begins a receipt.
    pair.server.receipts.clear();
    assert_eq!(pair.call("c", 1204), forgotten(0, 0));
    assert_eq!(pair.call("a", 1200), Ok("0".into()));
}

#[test]
fn a_batch_is_cut_and_its_positions_go_on() {
    let items: Vec<Vec<u8>> = (0..25_000_u32)
        .map(|number| number.to_le_bytes().to_vec())
        .collect();
    let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
    for (mut once, at) in [
        (own(), 0),
        (Once::new(b"k", Receipts::Consumer(b"c", 5), CREATING), 5),
    ] {
        let mut server = Server::default();
        let mut addition = begin(&mut once, &items, at);
        let mut sent = Vec::new();
        while let Some((words, items)) = next(&mut addition) {
            sent.push((
                String::from_utf8_lossy(&words[3..].join(&b' ')).into_owned(),
                items.len(),
            ));
            let Reply(answers, None) = server.reply(&words, &items) else {
                panic!("it has room");
            };
            assert_eq!(addition.take(answers).len(), items.len());
        }
        // A consumer begins at one position; own receipts may vanish at any.
        let expected = if at > 0 {
            ["5 BEGIN ITEMS", "10005 ITEMS", "20005 ITEMS"]
        } else {
            ["0 ITEMS", "10000 BEGIN ITEMS", "20000 BEGIN ITEMS"]
        };
        let expected: Vec<_> = (expected.map(str::to_owned).into_iter())
            .zip([10_000, 10_000, 5000])
            .collect();
        assert_eq!(sent, expected);
        assert_eq!(addition.answers(), vec![Some(true); 25_000]);
        once.end(addition, true);
    }
}

#[test]
fn an_own_receipt_is_taken_again() {
    let mut once = own();
    let name = |once: &mut Once| {
        let mut addition = begin(once, &[b"x"], 0);
        let (words, _) = next(&mut addition).unwrap();
        addition.take([true]);
        let words = String::from_utf8(words[2..].join(&b' ')).unwrap();
        (words.split_once("07-").unwrap().1.to_owned(), addition)
    };
    let (first, mine) = name(&mut once);
    assert_eq!(first, "1 0 ITEMS");
    // Two calls at once have two receipts.
    let (second, two) = name(&mut once);
    assert_eq!(second, "2 0 ITEMS");
    once.end(two, true);
    once.end(mine, true);
    assert_eq!(name(&mut once).0, "1 1 BEGIN ITEMS");
}

#[test]
fn an_own_receipt_that_is_gone_begins_anew() {
    let mut pair = Pair::new(own());
    assert_eq!(pair.call("a", 0), Ok("1".into()));
    pair.server.receipts.clear();
    assert_eq!(pair.call("ab", 0), Ok("01".into()));
    let receipts: Vec<_> = pair.server.receipts.values().collect();
    assert_eq!(receipts, [&(1, vec![false, true])]);
    // The receipt of a failed call had the answers, which are lost.
    pair.lose("c");
    pair.server.receipts.clear();
    assert_eq!(pair.call("c", 0), forgotten(0, 0));
    assert_eq!(pair.call("c", 0), Ok("0".into()));
}

#[test]
fn a_refused_item_keeps_the_answers_before_it() {
    let mut pair = Pair::new(own());
    pair.server.room = Some(2);
    assert_eq!(pair.call("abc", 0), Err(Refusal::Other));
    pair.server.room = None;
    assert_eq!(pair.call("cba", 0), Ok("111".into()));
    assert!(!pair.once.has_debts());
    assert_eq!(pair.call("cba", 0), Ok("000".into()));
    // Each answer was given once, and no receipt was begun for the second and third call.
    assert_eq!(pair.server.receipts.len(), 1);
}

#[test]
fn an_error_is_about_items_of_its_call() {
    let failed = |lost: &str, room, items: &[&[u8]]| {
        let mut pair = Pair::new(own());
        let lost: Vec<&[u8]> = lost.as_bytes().chunks(1).collect();
        let never_arrived = sent(begin(&mut pair.once, &lost, 0));
        pair.once.end(never_arrived, false);
        pair.server.room = Some(room);
        let mut addition = begin(&mut pair.once, items, 0);
        while let Some((words, items)) = next(&mut addition) {
            let Reply(answers, error) = pair.server.reply(&words, &items);
            addition.take(answers);
            if let Some(error) = error {
                assert_eq!(refuse(&mut addition, &error), Refusal::Other);
                return addition.failed();
            }
        }
        panic!("there is room for all items");
    };
    // Of its own items, the one that was refused.
    assert_eq!(failed("", 1, &[b"a", b"b", b"c"]), [1]);
    assert_eq!(failed("xy", 0, &[b"y", b"x"]), [1]);
    // An item of the earlier call was refused.
    assert_eq!(failed("xy", 0, &[b"y"]), [0]);
    assert_eq!(failed("yx", 1, &[b"y", b"z"]), [1]);
    // Two calls that failed had the item, which was new to the first.
    let mut once = own();
    for addition in [(), ()].map(|()| begin(&mut once, &[b"y"], 0)) {
        once.end(sent(addition), false);
    }
    let mut addition = sent(begin(&mut once, &[b"y", b"z"], 0));
    addition.take([true]);
    let addition = sent(addition);
    assert_eq!(addition.answers(), [Some(true), None]);
    assert_eq!(addition.failed(), [1]);
}

#[test]
fn servers_without_receipts() {
    let with = |may_skip_receipts, refusal| {
        let adding = Adding {
            may_skip_receipts,
            ..CREATING
        };
        let mut pair = Pair::new(Once::new(b"seen", Receipts::Own(7), adding));
        pair.server.refusal = Some(refusal);
        pair
    };
    for refusal in [
        "ERR unknown argument received",
        "Unknown argument received",
        "ERR unknown command 'BF.INSERT', with args beginning with: 'k'",
    ] {
        assert_eq!(with(false, refusal).call("a", 0), Err(Refusal::Lacking));
        let mut pair = with(true, refusal);
        assert!(pair.once.has_receipts());
        assert_eq!(pair.call("a", 0), Ok("1".into()));
        // It is not tried again.
        assert!(!pair.once.has_receipts());
        pair.server.refusal = None;
        assert_eq!(pair.call("a", 0), Ok("0".into()));
        assert_eq!(pair.server.receipts.len(), 0);
    }
    assert!(LACKING.contains("load the module"));
    let forbidden = "NOPERM No permissions to access a key";
    assert_eq!(with(false, forbidden).call("a", 0), Err(Refusal::Other));
    assert_eq!(with(true, forbidden).call("a", 0), Ok("1".into()));
}
