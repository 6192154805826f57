//! Debts beside a model of them, and their bound.

use std::collections::BTreeSet;

use valkeybloom_testing::support::Rng;

use super::*;

const LETTERS: &[u8] = b"abcdefgh";

fn at(id: u64) -> usize {
    usize::try_from(id).expect("a small number")
}

fn items<T: AsRef<[u8]>>(list: impl IntoIterator<Item = T>) -> Items {
    let mut items = Items::default();
    for item in list {
        items.push(item.as_ref()).expect("there is memory");
    }
    items
}

/// What a model knows of a debt's answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    InReceipt,
    /// The number of known answers.
    Known(usize),
}

/// A debt as a list of letters.
struct Command {
    letters: Vec<u8>,
    /// What the server answers, as often as it is asked.
    answers: Vec<bool>,
    state: State,
    open: BTreeSet<u8>,
    calls: usize,
}

impl Command {
    fn index_of(&self, letter: u8) -> usize {
        let index = self.letters.iter().position(|other| *other == letter);
        index.expect("a letter of the command")
    }

    fn may_be_new(&self, letter: u8) -> bool {
        let index = self.index_of(letter);
        match self.state {
            State::InReceipt => true,
            State::Known(count) => index < count && self.answers[index],
        }
    }

    fn lose_receipt(&mut self) {
        if self.state == State::InReceipt {
            self.state = State::Known(0);
        }
    }
}

/// The commands that a call sends again, and the letters that it took of them.
type Call = Vec<(Repeat, Vec<u8>)>;

/// Debts, and a model of them that remembers every command.
struct Pair {
    rng: Rng,
    debts: Debts,
    model: Vec<Command>,
}

impl Pair {
    /// Inserts a command, or letters that were new.
    fn insert(&mut self, is_new: bool) {
        let count = 1 + self.rng.below(5);
        let letters: Vec<u8> = (0..count).map(|_| *self.rng.pick(LETTERS)).collect();
        let is_first = |index: &usize| !letters[..*index].contains(&letters[*index]);
        let answers = (0..count)
            .map(|index| is_first(&index) && (is_new || self.rng.below(2) == 0))
            .collect();
        let (receipt, position) = (self.model.len() as u64, 100);
        let list = items(letters.chunks(1));
        let state = if is_new {
            self.debts.insert_new(&list);
            State::Known(count)
        } else {
            self.debts.insert(Cursor { receipt, position }, list);
            State::InReceipt
        };
        self.model.push(Command {
            open: letters.iter().copied().collect(),
            letters,
            answers,
            state,
            calls: 0,
        });
    }

    /// Begins a call with some letters.
    fn begin(&mut self) -> Call {
        let mut call = Call::new();
        for _ in 0..=self.rng.below(3) {
            let letter = *self.rng.pick(LETTERS);
            let mut expected = Lost::default();
            for (id, command) in self.model.iter_mut().enumerate() {
                if command.open.remove(&letter) {
                    let (id, index) = (id as u64, command.index_of(letter));
                    match command.state {
                        State::InReceipt => expected.places.push(Place { id, index }),
                        State::Known(_) => expected.is_new = true,
                    }
                }
            }
            let mut lost = self.debts.take(&[letter]).unwrap_or_default();
            lost.places.sort_by_key(|place| place.id);
            assert_eq!(lost.is_new, expected.is_new);
            assert_eq!(lost.places, expected.places);
            for Place { id, .. } in lost.places {
                if let Some((_, taken)) = call.iter_mut().find(|(of, _)| of.id() == id) {
                    taken.push(letter);
                    continue;
                }
                let repeat = self.debts.begin_repeat(id);
                call.push((repeat.expect("a receipt"), vec![letter]));
                self.model[at(id)].calls += 1;
            }
        }
        call
    }

    /// Ends a call with any of the answers, or with all.
    fn end(&mut self, call: Call, has_all: bool) {
        for (repeat, mut taken) in call {
            let command = &mut self.model[at(repeat.id())];
            let count = command.letters.len();
            match if has_all { 3 } else { self.rng.below(4) } {
                // The reply was lost.
                0 => {}
                1 => {
                    self.debts.abandon(&repeat);
                    command.lose_receipt();
                }
                outcome => {
                    let is_refused = outcome == 2;
                    let answered = if is_refused {
                        self.rng.below(count)
                    } else {
                        count
                    };
                    let answers = command.answers[..answered].to_vec();
                    let free = self.debts.answer(&repeat, answers);
                    let is_final = answered == count || command.calls == 1;
                    let frees = answered == count && command.state == State::InReceipt;
                    let end = Cursor {
                        receipt: repeat.id(),
                        position: 100 + answered as u64,
                    };
                    assert_eq!(free, frees.then_some(end));
                    match command.state {
                        State::InReceipt if !is_final => {}
                        State::Known(known) if known >= answered => {}
                        _ => command.state = State::Known(answered),
                    }
                }
            }
            taken.retain(|_| !has_all && self.rng.below(2) == 0);
            let untold = taken.iter().map(|letter| command.index_of(*letter));
            self.debts.end_repeat(repeat, untold);
            command.calls -= 1;
            command.open.extend(&taken);
            self.compare();
        }
    }

    /// Compares the open items, and which debts there are.
    fn compare(&mut self) {
        let mut open = vec![BTreeSet::new(); self.model.len()];
        for (item, places) in &self.debts.by_item {
            for place in places {
                open[at(place.id)].insert(item[0]);
            }
        }
        for (id, (command, open)) in self.model.iter_mut().zip(open).enumerate() {
            let mut expected = std::mem::take(&mut command.open);
            expected.retain(|letter| command.may_be_new(*letter));
            assert_eq!(open, expected, "{id}");
            let is_there = command.calls > 0 || !open.is_empty();
            let debt = self.debts.by_id.get(&(id as u64));
            assert_eq!(debt.is_some(), is_there, "{id}");
            command.open = expected;
        }
    }
}

#[test]
fn debts_are_as_in_a_model_of_letters() {
    for seed in 0..300 {
        let mut pair = Pair {
            rng: Rng::new(seed),
            debts: Debts::default(),
            model: Vec::new(),
        };
        let mut calls = Vec::new();
        for _ in 0..200 {
            match pair.rng.below(10) {
                0..3 => pair.insert(false),
                3 => pair.insert(true),
                4..7 => calls.push(pair.begin()),
                7..9 if !calls.is_empty() => {
                    let call = calls.swap_remove(pair.rng.below(calls.len()));
                    pair.end(call, false);
                }
                _ if pair.rng.one_in(20) => {
                    pair.debts.drop_receipts();
                    pair.model.iter_mut().for_each(Command::lose_receipt);
                }
                _ => {}
            }
            pair.compare();
        }
        for call in calls {
            pair.end(call, true);
        }
        while !pair.debts.is_empty() {
            let call = pair.begin();
            pair.end(call, true);
        }
        assert_eq!((pair.debts.kept, pair.debts.by_item.len()), (0, 0));
    }
}

/// Inserts ten commands of ten thousand items, which are all that there is room for.
fn full() -> Debts {
    let mut debts = Debts::default();
    for number in 0..10 {
        insert_long(&mut debts, number);
    }
    assert_eq!(debts.kept, MOST_ITEMS);
    debts
}

fn insert_long(debts: &mut Debts, number: u64) {
    let cursor = Cursor {
        receipt: number,
        position: 0,
    };
    let list = (0..COMMAND_ITEMS).map(|index| format!("{number} {index}"));
    debts.insert(cursor, items(list));
}

fn repeat(debts: &mut Debts, item: &str) -> Repeat {
    let lost = debts.take(item.as_bytes()).expect("a debt");
    debts.begin_repeat(lost.places[0].id).expect("a receipt")
}

#[test]
fn the_bound_drops_the_oldest_debts_that_no_call_repeats() {
    let mut debts = full();
    let oldest = repeat(&mut debts, "0 0");
    insert_long(&mut debts, 10);
    let ids = |debts: &Debts| debts.by_id.keys().copied().collect::<Vec<_>>();
    assert_eq!(ids(&debts), [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    debts.end_repeat(oldest, [0]);
    insert_long(&mut debts, 11);
    assert_eq!(ids(&debts), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    // If calls are sending all of them again, there is no room for a new one.
    let repeats: Vec<Repeat> = (2..12)
        .map(|number| repeat(&mut debts, &format!("{number} 0")))
        .collect();
    insert_long(&mut debts, 12);
    assert_eq!(ids(&debts), [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    for repeat in repeats {
        debts.end_repeat(repeat, [0]);
    }
    insert_long(&mut debts, 13);
    assert_eq!(ids(&debts), [3, 4, 5, 6, 7, 8, 9, 10, 11, 13]);
}

/// A command is kept as a whole, so a single open item counts as much as all of them.
#[test]
fn the_bound_counts_the_items_that_are_kept() {
    let mut debts = full();
    for number in 0..10 {
        let repeat = repeat(&mut debts, &format!("{number} 0"));
        let mut answers = vec![false; COMMAND_ITEMS];
        answers[7] = true;
        assert!(debts.answer(&repeat, answers).is_some());
        debts.end_repeat(repeat, []);
    }
    assert_eq!((debts.kept, debts.by_item.len()), (MOST_ITEMS, 10));
    insert_long(&mut debts, 10);
    assert!(debts.take(b"0 7").is_none());
    assert!(debts.take(b"1 7").is_some_and(|lost| lost.is_new));
}
