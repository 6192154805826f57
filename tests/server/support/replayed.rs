//! The objects that the commands of a log or of a primary make, made by the core alone.

use std::collections::BTreeMap;

use valkeybloom_sketches::bloom::{
    Growth, Kind, Limits, Object, Params, Shape, Tightening, Time, Window, chunks,
};
use valkeybloom_sketches::{Fraction, Seed};

use crate::harness::Client;
use crate::support::pieces::{Pieces, pieces};

pub type Command = Vec<Vec<u8>>;

pub fn command(line: &str) -> Command {
    line.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

/// The objects that commands make, made by the core alone.
#[derive(Default)]
pub struct Replayed(BTreeMap<Vec<u8>, Object>);

impl Replayed {
    pub fn apply_all<'c>(&mut self, commands: impl IntoIterator<Item = &'c Command>) {
        for command in commands {
            self.apply(command);
        }
    }

    fn apply(&mut self, command: &Command) {
        match command[0].as_slice() {
            b"MULTI" | b"EXEC" | b"SELECT" | b"SET" => {}
            b"DEL" => drop(self.0.remove(&command[1])),
            b"BF.INSERT" => self.insert(command),
            b"BF.ADD" | b"BF.MADD" => {
                let object = self.0.get_mut(&command[1]).expect("it was made");
                assert!(object.is_plain(), "without a time");
                add_each(object, &command[2..], Time::default(), None);
            }
            b"BF.DEL" => self.remove(command),
            b"BF.MDEL" => self.remove_each(command),
            b"BF.MERGE" => self.merge(command),
            other => panic!("not written here: {}", other.escape_ascii()),
        }
    }

    fn insert(&mut self, command: &Command) {
        let mut words = command[2..].iter().map(Vec::as_slice);
        let (mut capacity, mut error_rate, mut tightening) = (0, 0.0, 0.0);
        let (mut seed, mut expansion, mut counting) = (Seed::FIXED, 0, false);
        let (mut period_ms, mut periods, mut create) = (0, 0, true);
        let (mut at_ms, mut ttl_ms, mut id, mut room) = (None, None, None, None);
        let mut items: &[Vec<u8>] = &[];
        while let Some(option) = words.next() {
            match option {
                b"CAPACITY" => capacity = number(words.next()),
                b"ERROR" => error_rate = number(words.next()),
                b"TIGHTENING" => tightening = number(words.next()),
                b"SEED" => {
                    let bytes = words.next().expect("a seed").try_into();
                    seed = Seed::new(bytes.expect("32 bytes"));
                }
                b"EXPANSION" => expansion = number(words.next()),
                b"NONSCALING" => expansion = 0,
                b"WINDOW" => period_ms = number(words.next()),
                b"PERIODS" => periods = number(words.next()),
                b"COUNTING" => counting = true,
                b"NOCREATE" => create = false,
                b"AT" => at_ms = Some(number(words.next())),
                b"TTL" => ttl_ms = Some(number(words.next())),
                b"ID" => id = Some(number(words.next())),
                b"ROOM" => room = Some(number(words.next())),
                // Additions here have no limits.
                b"SATURATE" => {}
                b"ITEMS" => {
                    items = &command[command.len() - words.len()..];
                    break;
                }
                other => panic!("no option: {}", other.escape_ascii()),
            }
        }
        let fraction = |value| Fraction::new(value).expect("a fraction");
        let time = Time {
            now_ms: at_ms.unwrap_or(0),
            ttl_ms,
        };
        if create {
            let kind = match (Window::new(period_ms, periods), counting) {
                (None, false) => Kind::Plain,
                (None, true) => Kind::Counting,
                (Some(window), false) => Kind::Windowed(window),
                (Some(_), true) => panic!("a window with counters"),
            };
            // Only ours have periods or counters, whatever the ratio.
            let ratio = Tightening::from_stored(tightening).expect("a ratio");
            let tightening = match kind {
                Kind::Plain => ratio,
                Kind::Windowed(_) | Kind::Counting => ratio.as_ours(),
            };
            let shape = Shape {
                params: Params {
                    capacity,
                    error_rate: fraction(error_rate),
                    tightening,
                    growth: Growth::from_expansion(expansion),
                },
                kind,
            };
            let object = Object::new(&shape, seed, time, Limits::NONE);
            let before = self.0.insert(command[1].clone(), object.expect("room"));
            assert!(before.is_none(), "it was there");
        }
        let object = self.0.get_mut(&command[1]).expect("it was made");
        // Writes to windows have a time, and no other write does.
        assert_eq!(at_ms.is_some(), object.shape().window().is_some());
        object.tidy(time.now_ms);
        if !create && !items.is_empty() {
            // Only what is said of it enlarges a period.
            let room = room.unwrap_or(object.shape().params.capacity);
            let begun = object.begin_period(time, room, Limits::NONE);
            begun.expect("there is memory");
        }
        add_each(object, items, time, id);
    }

    fn remove(&mut self, command: &Command) {
        let id = match &command[3..] {
            [] => None,
            [word, id] if word == b"ID" => Some(number(Some(id))),
            other => panic!("no options: {other:?}"),
        };
        let object = self.0.get_mut(&command[1]).expect("it was made");
        assert!(object.shape().is_counting(), "no counters");
        object.remove(&command[2], id);
    }

    fn remove_each(&mut self, command: &Command) {
        let object = self.0.get_mut(&command[1]).expect("it was made");
        for item in &command[2..] {
            assert!(object.remove(item, None), "what is sent was done");
        }
    }

    fn merge(&mut self, command: &Command) {
        let sources: Vec<&Object> = command[1..]
            .iter()
            .filter_map(|key| self.0.get(key))
            .collect();
        if let Ok(merged) = Object::merged(&sources, Limits::NONE) {
            self.0.insert(command[1].clone(), merged);
        }
    }

    /// Checks that the server holds the same objects, byte for byte.
    #[track_caller]
    pub fn is_held_by(&self, client: &mut Client) {
        for (key, object) in &self.0 {
            let key = String::from_utf8_lossy(key);
            assert!(pieces(client, &key) == pieces_of(object), "{key}");
        }
    }
}

fn add_each(object: &mut Object, items: &[Vec<u8>], time: Time, id: Option<u64>) {
    object.add_each(
        items.iter().map(Vec::as_slice),
        time,
        id,
        || Limits::NONE,
        |added| {
            added.expect("what is sent was done");
        },
    );
}

fn number<T: std::str::FromStr>(word: Option<&[u8]>) -> T {
    let text = std::str::from_utf8(word.expect("a value")).expect("a text");
    text.parse().ok().expect("a number")
}

fn pieces_of(object: &Object) -> Pieces {
    let pieces = chunks::pieces(object);
    pieces
        .map(|(next, piece)| (next, piece.bytes().to_vec()))
        .collect()
}
