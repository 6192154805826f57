//! Writes of every kind, at random.

use std::collections::HashMap;

use valkeybloom_sketches::bloom::{
    Growth, Kind, Limits, Object, Params, Shape, Tightening, Time, Window, chunks, dump,
};
use valkeybloom_sketches::{Fraction, Seed};

use crate::harness::{Client, Reply, ok};
use crate::support::aof::command;
use crate::support::pieces::{Pieces, split};
use crate::support::random::Random;

/// A fixed sequence of writes of every kind.
pub struct Workload {
    random: Random,
    pub dumps: Vec<Vec<u8>>,
    pub chunked: Vec<Pieces>,
    /// The load under each key, and how many of its pieces have come.
    loading: HashMap<String, (usize, usize)>,
}

const KEYS: usize = 40;

/// Adds three items one by one, and then two of them again with a new one.
const SCRIPT: &str = "for i = 1, 3 do redis.call('BF.ADD', KEYS[1], ARGV[1] .. i) end \
    return redis.call('BF.MADD', KEYS[1], ARGV[1], ARGV[1] .. '1', ARGV[1])";

impl Workload {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let objects: Vec<Object> = (0..10).map(|_| random_object(&mut random)).collect();
        let chunked = objects.iter().map(|object| {
            let pieces = chunks::pieces(object).map(|(next, piece)| (next, piece.to_vec()));
            split(&pieces.collect::<Pieces>(), 100)
        });
        let dumps = objects
            .iter()
            .map(|object| dump::encode(object).expect("an object of ours"));
        Self {
            chunked: chunked.collect(),
            dumps: dumps.collect(),
            random,
            loading: HashMap::new(),
        }
    }

    fn key(&mut self) -> String {
        format!("key-{}", self.random.below(KEYS))
    }

    fn item(&mut self) -> Vec<u8> {
        match self.random.below(100) {
            0 => Vec::new(),
            1 => self.random.bytes(40),
            2 => b"\r\n$3\r\n\0\xff".to_vec(),
            _ => format!("item {}", self.random.below(3000)).into_bytes(),
        }
    }

    fn items(&mut self) -> Vec<Vec<u8>> {
        let mut items: Vec<Vec<u8>> = (0..=self.random.below(20)).map(|_| self.item()).collect();
        if self.random.one_in(2) {
            let again = self.random.pick(&items);
            items.push(again);
        }
        items
    }

    /// Returns a creation's options; some of them contradict each other.
    fn options(&mut self) -> Vec<Vec<u8>> {
        const WITH_VALUES: [(usize, &str, &[&str]); 7] = [
            (2, "CAPACITY", &["1", "5", "30", "100", "700", "100000"]),
            (3, "ERROR", &["0.5", "0.1", "0.001", "1e-7"]),
            (
                4,
                "TIGHTENING",
                &["0.5", "0.85", "0.1", "0.333333333333333333"],
            ),
            (4, "EXPANSION", &["0", "1", "2", "5", "4294967295"]),
            (6, "VALIDATESCALETO", &["10", "1000", "1000000"]),
            (8, "TTL", &["1", "5", "100"]),
            (8, "SCALETO", &["1", "70", "5000"]),
        ];
        // Short periods expire during the test, long ones do not.
        const WINDOWS: [&str; 4] = ["1", "7", "100", "1000000000000"];
        let random = &mut self.random;
        let mut options: Vec<Vec<u8>> = Vec::new();
        let mut option = |line: &str| options.extend(command(line));
        for (times, word, values) in WITH_VALUES {
            if random.one_in(times) {
                option(&format!("{word} {}", random.pick(values)));
            }
        }
        for (times, word) in [(5, "NONSCALING"), (10, "NOCREATE"), (4, "COUNTING")] {
            if random.one_in(times) {
                option(word);
            }
        }
        if random.one_in(4) {
            let (period_ms, periods) = (random.pick(&WINDOWS), random.pick(&["1", "2", "5"]));
            option(&format!("WINDOW {period_ms} PERIODS {periods}"));
        }
        if random.one_in(4) {
            options.push(b"SEED".to_vec());
            options.push(random.bytes(32));
        }
        options
    }

    /// Returns a write of items, by one of the commands that write items.
    fn adding(&mut self) -> Vec<Vec<u8>> {
        let key = self.key().into_bytes();
        match self.random.below(4) {
            0 => vec![b"bf.add".to_vec(), key, self.item()],
            1 => [vec![b"BF.MADD".to_vec(), key], self.items()].concat(),
            2 => {
                let start = vec![b"BF.INSERT".to_vec(), key];
                [start, self.options()].concat()
            }
            _ => {
                let start = vec![b"BF.INSERT".to_vec(), key];
                let items = vec![b"ITEMS".to_vec()];
                [start, self.options(), items, self.items()].concat()
            }
        }
    }

    /// Returns a removal of items, by one of the commands that remove them.
    fn removing(&mut self) -> Vec<Vec<u8>> {
        let key = self.key().into_bytes();
        if self.random.one_in(4) {
            return [vec![b"BF.MDEL".to_vec(), key], self.items()].concat();
        }
        vec![b"BF.DEL".to_vec(), key, self.item()]
    }

    /// Returns a creation without items.
    fn reserving(&mut self) -> String {
        let key = self.key();
        let growth = self.random.pick(&["", " NONSCALING", " EXPANSION 3"]);
        let capacity = self.random.pick(&["1", "25", "90", "100000000"]);
        let more = self.random.pick(&[
            "",
            " NX",
            " EX 9000",
            " PX 3",
            " COUNTING",
            " WINDOW 5 PERIODS 3 PX 800000",
            " SCALETO 200",
        ]);
        format!("BF.RESERVE {key} 0.02 {capacity}{growth}{more}")
    }

    fn load_some(&mut self, client: &mut Client) {
        let key = format!("key-{}", self.random.below(6));
        let (object, come) = match self.loading.get(&key) {
            Some(known) => *known,
            None => (self.random.below(self.chunked.len()), 0),
        };
        let Some((cursor, bytes)) = self.chunked[object].get(come) else {
            self.loading.remove(&key);
            return;
        };
        let cursor = cursor.to_string();
        let args: [&[u8]; 4] = [b"BF.LOADCHUNK", key.as_bytes(), cursor.as_bytes(), bytes];
        if client.call(&args) == ok() {
            self.loading.insert(key, (object, come + 1));
        } else {
            // There is an object, or what was being loaded is gone.
            self.loading.remove(&key);
        }
    }

    /// Sends the next write. It may fail, as a client's may.
    #[allow(
        clippy::too_many_lines,
        reason = "a line or two for each kind of write"
    )]
    pub fn step(&mut self, client: &mut Client) {
        let (key, other) = (self.key(), self.key());
        match self.random.below(120) {
            0..50 => {
                let write = self.adding();
                client.call_words(&write);
            }
            50..54 => {
                let removal = self.removing();
                client.call_words(&removal);
            }
            54 => drop(client.cmd(&format!("BF.MERGE {key} {other}"))),
            55..58 => {
                let creation = self.reserving();
                client.cmd(&creation);
            }
            58..61 => {
                let dump = self.random.pick(&self.dumps);
                let load: [&[u8]; 3] = [b"BF.LOAD", key.as_bytes(), &dump];
                client.call(&load);
            }
            61..65 => {
                let dump = self.random.pick(&self.dumps);
                let ttl = self.random.pick(&["0", "3", "800000"]).as_bytes();
                let load: [&[u8]; 4] = [b"BF.LOAD", key.as_bytes(), &dump, ttl];
                client.call(&load);
            }
            65..83 => self.load_some(client),
            83..88 => {
                let options = self
                    .random
                    .pick(&["", " REPLACE", " DB 1", " DB 1 REPLACE"]);
                client.cmd(&format!("COPY {key} {other}{options}"));
            }
            88..92 => {
                if let Reply::Bulk(dump) = client.cmd(&format!("DUMP {key}")) {
                    let ttl = self.random.pick(&["0", "0", "2", "900000"]).as_bytes();
                    let to = other.as_bytes();
                    let restore: [&[u8]; 5] = [b"RESTORE", to, ttl, &dump, b"REPLACE"];
                    client.call(&restore);
                }
            }
            92..98 => {
                let ms = self.random.pick(&["1", "5", "700000", "9000000"]);
                client.cmd(&format!("PEXPIRE {key} {ms}"));
            }
            98 => drop(client.cmd(&format!("PERSIST {key}"))),
            99..101 => {
                let delete = self.random.pick(&["DEL", "UNLINK"]);
                client.cmd(&format!("{delete} {key}"));
            }
            101 => drop(client.cmd(&format!("RENAME {key} {other}"))),
            102 => drop(client.cmd(&format!("MOVE {key} 1"))),
            103..108 => {
                let item = self.item();
                let eval: [&[u8]; 5] = [b"EVAL", SCRIPT.as_bytes(), b"1", key.as_bytes(), &item];
                client.call(&eval);
            }
            108..112 => {
                let item = self.item();
                let call: [&[u8]; 5] = [b"FCALL", b"adds", b"1", key.as_bytes(), &item];
                client.call(&call);
            }
            112..116 => {
                client.ok("MULTI");
                for _ in 0..self.random.below(5) {
                    let write = self.adding();
                    client.call_words(&write);
                }
                client.cmd("EXEC");
            }
            116 => {
                // The primary's own settings change as it goes.
                let yes = self.random.pick(&["yes", "no"]);
                let capacity = self.random.pick(&["10", "40", "300"]);
                let maker = self.random.pick(&["own", "valkey-bloom", "redisbloom"]);
                client.ok(format!(
                    "CONFIG SET bf.bloom-saturate-nonscaling {yes} bf.bloom-capacity {capacity} \
                     bf.bloom-use-random-seed {yes} bf.bloom-new-filters {maker}"
                ));
            }
            117 => {
                client.cmd(&format!("SET {key} string"));
                client.cmd(&format!("BF.ADD {key} item"));
                client.cmd(&format!("DEL {key}"));
            }
            118 if self.random.one_in(4) => {
                client.ok("SWAPDB 0 1");
            }
            _ => drop(client.cmd(&format!("BF.EXISTS {key} item"))),
        }
    }

    pub fn run(&mut self, client: &mut Client, steps: usize) {
        let library = format!(
            "#!lua name=bloom\nredis.register_function('adds', function(KEYS, ARGV) {SCRIPT} end)"
        );
        let load: [&[u8]; 4] = [b"FUNCTION", b"LOAD", b"REPLACE", library.as_bytes()];
        assert!(!client.call(&load).is_error());
        for _ in 0..steps {
            self.step(client);
        }
    }
}

fn random_object(random: &mut Random) -> Object {
    let fraction = |value: f64| Fraction::new(value).expect("a fraction");
    let params = Params {
        capacity: random.pick(&[3, 20, 150]),
        error_rate: fraction(random.pick(&[0.1, 0.01, 0.0003])),
        tightening: Tightening::ours(fraction(random.pick(&[0.5, 0.8]))),
        growth: Growth::from_expansion(random.pick(&[0, 1, 2, 4])),
    };
    let seed = match random.below(3) {
        0 => Seed::FIXED,
        _ => Seed::new(random.bytes(32).try_into().expect("32 bytes")),
    };
    let kind = match random.below(5) {
        0 => Kind::Windowed(Window::new(1_000_000_000_000, 2).expect("a window")),
        1 => Kind::Counting,
        2 => Kind::ScaledTo,
        _ => Kind::Plain,
    };
    let now = Time::at(1_500_000_000_000);
    let made = Object::new(&Shape { params, kind }, seed, Limits::NONE);
    let mut object = made.expect("a small object");
    let items: Vec<String> = (0..random.below(300))
        .map(|i| format!("loaded {i}"))
        .collect();
    let items = items.iter().map(String::as_bytes);
    object.add_each(
        items,
        now,
        || Limits::NONE,
        |added| {
            added.expect("room");
        },
    );
    object
}
