//! Objects of every kind in a server, and whether they are what they were.

use crate::harness::{Client, Reply, array, bulk, digest, error, int, simple, wait_until};
use crate::support::cuckoo;
use crate::support::periods::LASTING_WINDOW;
use crate::support::pieces::{Pieces, load_chunks, pieces, split};
use crate::support::sketches;

/// Objects of every kind in a server, and what they were when they were made.
pub struct Population {
    pub specimens: Vec<Specimen>,
}

pub struct Specimen {
    pub key: String,
    /// The items added to it.
    items: Vec<Vec<u8>>,
    /// The chunks that are still to come.
    pub rest: Pieces,
    /// The digest of the whole object, for an object that is half loaded.
    whole: String,
    pub seen: Seen,
    /// What was seen before the key got a time to live, which changes a digest.
    pub lasting: Seen,
}

/// All that a client can see of an object.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    kind: Reply,
    pub digest: String,
    info: Reply,
    debug: Reply,
    /// The answers for its own items and for others, a digit each; or the refusal to answer.
    answers: String,
    pub expires_ms: i64,
}

const STILL_LOADING: &str = "ERR bloom object is still being loaded";
const OTHERS: usize = 10_000;

/// Objects of every kind: the key, a setting of the server, the options of the
/// creation, and the number of items.
const MADE: [(&str, &str, &str, usize); 13] = [
    ("empty", "", "", 0),
    ("one-filter", "", "CAPACITY 1000", 600),
    ("five-filters", "", "CAPACITY 60 EXPANSION 2", 1000),
    ("twenty-filters", "", "CAPACITY 8 EXPANSION 1", 180),
    (
        "tightened",
        "",
        "CAPACITY 30 ERROR 0.001 TIGHTENING 0.85 EXPANSION 3",
        500,
    ),
    ("fixed", "", "CAPACITY 300 ERROR 0.02 NONSCALING", 250),
    (
        "given-seed",
        "",
        "CAPACITY 50 SEED 0123456789abcdef0123456789abcdef",
        200,
    ),
    (
        "fixed-seed",
        "bf.bloom-use-random-seed no",
        "CAPACITY 80",
        200,
    ),
    (
        "saturated",
        "bf.bloom-saturate-nonscaling yes",
        "CAPACITY 100 NONSCALING",
        400,
    ),
    (
        "redisbloom",
        "bf.bloom-new-filters redisbloom",
        "CAPACITY 20",
        400,
    ),
    (
        "windowed",
        "",
        "CAPACITY 50 WINDOW 1000000000000 PERIODS 2",
        200,
    ),
    ("counting", "", "CAPACITY 10 COUNTING EXPANSION 1", 300),
    ("scaled", "", "SCALETO 30 EXPANSION 1 ERROR 0.1", 300),
];

/// The settings of [`MADE`] as they are by default.
const DEFAULTS: &str =
    "bf.bloom-use-random-seed yes bf.bloom-saturate-nonscaling no bf.bloom-new-filters own";

/// A key, its items, and the chunks that are still to come to make it equal to another key.
type Made = (String, Vec<Vec<u8>>, Option<(Pieces, &'static str)>);

fn complete(key: &str, items: Vec<Vec<u8>>) -> Made {
    (key.to_owned(), items, None)
}

/// Makes the objects of [`MADE`].
fn make_each(client: &mut Client) -> Vec<Made> {
    let made = MADE.map(|(key, setting, options, count)| {
        client.ok(format!("CONFIG SET {DEFAULTS}"));
        if !setting.is_empty() {
            client.ok(format!("CONFIG SET {setting}"));
        }
        let mut items = named(key, count);
        insert(client, key, options, &items);
        if key == "counting" {
            for item in items.split_off(200) {
                client.call(&[b"BF.DEL", key.as_bytes(), &item]);
            }
        }
        complete(key, items)
    });
    client.ok(format!("CONFIG SET {DEFAULTS}"));
    made.into()
}

/// Makes objects that take more than one command.
fn make_in_steps(client: &mut Client) -> Vec<Made> {
    // Into the period that passes first, the one after it, and the one to come.
    let aging = named("aging", 200);
    let ttls = [1, 1_000_000_000_000_u64, 2_000_000_000_000];
    for (items, ttl) in aging.chunks(70).zip(ttls) {
        let options = format!("CAPACITY 50 {LASTING_WINDOW} TTL {ttl}");
        insert(client, "aging", &options, items);
    }
    // In one slot.
    let merged = named("merged", 190);
    for (key, items) in [("merged", &merged[..100]), ("{merged}2", &merged[100..])] {
        let options = "CAPACITY 70 SEED 0123456789abcdef0123456789abcdef";
        insert(client, key, options, items);
    }
    client.ok("BF.MERGE merged {merged}2");
    client.expect("DEL {merged}2", int(1));
    // Whose periods are over: held until the next write, and dropped.
    for key in ["expired", "bare"] {
        let options = "CAPACITY 50 WINDOW 5 PERIODS 1";
        insert(client, key, options, &named(key, 3));
        wait_until("the window has passed", || {
            client.cmd(&format!("BF.CARD {key}")) == int(0)
        });
    }
    client.expect("BF.INSERT bare NOCREATE", array([]));
    vec![
        complete("aging", aging),
        complete("merged", merged),
        complete("expired", vec![]),
        complete("bare", vec![]),
    ]
}

/// Makes an object that came in chunks, and the same with chunks still to come: all of them, some of the first filter,
/// all but the first filter, some of the second, the last chunk.
fn make_halves(client: &mut Client) -> Vec<Made> {
    let chunks = split(&pieces(client, "five-filters"), 10);
    let count = chunks.len();
    let is_whole = |piece: &&(u64, Vec<u8>)| piece.1.len() == 10;
    let whole_first = 1 + chunks[1..].iter().take_while(is_whole).count();
    let stages = [1, 3, whole_first + 1, whole_first + 2, count - 1, count];
    let of_five = (0..).zip(stages).map(|(number, come)| {
        let key = format!("half-{number}");
        (key, chunks.clone(), come, "five-filters")
    });
    let mut halves: Vec<_> = of_five.collect();
    let chunks = split(&pieces(client, "redisbloom"), 100);
    let come = chunks.len() / 2;
    halves.push(("half-redisbloom".to_owned(), chunks, come, "redisbloom"));
    let chunks = pieces(client, "counting");
    halves.push(("half-counting".to_owned(), chunks, 1, "counting"));
    let made = halves.into_iter().map(|(key, chunks, come, whole)| {
        let (come, rest) = chunks.split_at(come);
        let is_whole = rest.is_empty();
        let key = if is_whole { "chunked".to_owned() } else { key };
        load_chunks(client, &key, come);
        let items = if is_whole { named(whole, 1000) } else { vec![] };
        (key, items, Some((rest.to_vec(), whole)))
    });
    made.collect()
}

impl Population {
    #[track_caller]
    pub fn new(client: &mut Client) -> Self {
        let mut all = make_each(client);
        all.extend(make_in_steps(client));
        let restored = sketches::restore_all(client).into_iter();
        all.extend(restored.map(|sketch| complete(&sketch.key, vec![])));
        let cuckoos = cuckoos(client).into_iter();
        all.extend(cuckoos.map(|(key, items)| complete(key, items)));
        all.extend(make_halves(client));

        let expiring = [("fixed", 1000), ("twenty-filters", 2000), ("half-2", 3000)];
        let specimens = all.into_iter().map(|(key, items, rest)| {
            let lasting = Seen::of(client, &key, &items);
            let (rest, whole) = rest.unwrap_or_default();
            let whole = digest(client, whole);
            if let Some((_, seconds)) = expiring.iter().find(|(name, _)| *name == key) {
                client.expect(format!("EXPIRE {key} {seconds}"), int(1));
            }
            Specimen {
                seen: Seen::of(client, &key, &items),
                lasting,
                whole,
                key,
                items,
                rest,
            }
        });
        let population = Self {
            specimens: specimens.collect(),
        };
        population.is_sound();
        population
    }

    /// Checks that the population has the objects that the tests are about.
    #[track_caller]
    fn is_sound(&self) {
        for specimen in &self.specimens {
            let kind = match &specimen.key[..] {
                "redisbloom" | "half-redisbloom" => "MBbloom--",
                key if key.starts_with("cms") => "CMSk-TYPE",
                key if key.starts_with("topk") => "TopK-TYPE",
                key if key.starts_with("tdigest") => "TDIS-TYPE",
                key if key.starts_with("cuckoo") => cuckoo::TYPE,
                "windowed" | "aging" | "expired" | "bare" | "counting" | "half-counting"
                | "scaled" => "bloomfltx",
                _ => "bloomfltr",
            };
            assert_eq!(specimen.seen.kind, simple(kind));
            assert_eq!(specimen.seen.info, specimen.lasting.info);
            let silent = !specimen.rest.is_empty() || sketches::is_one(&specimen.key);
            assert_eq!(specimen.seen.info.is_error(), silent, "{}", specimen.key);
        }
        let field = |key: &str, name: &str| {
            let info = self.get(key).seen.info.as_array().chunks(2);
            let mut values = info.filter(|pair| pair[0] == simple(name));
            values.next().expect("it is reported")[1].as_int()
        };
        let filters = |key: &str| field(key, "Number of filters");
        assert_eq!(["one-filter", "five-filters"].map(filters), [1, 5]);
        assert!(filters("twenty-filters") >= 20);
        assert!(filters("counting") > 1 && filters("scaled") > 1);
        assert_eq!(self.get("chunked").seen.digest, self.get("chunked").whole);
        assert_eq!(field("aging", "Live periods"), 3);
    }

    fn get(&self, key: &str) -> &Specimen {
        let found = self.specimens.iter().find(|s| s.key == key);
        found.expect("it is one of them")
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.specimens.iter().map(|specimen| specimen.key.as_str())
    }

    /// Every key holds what it held when it was made.
    #[track_caller]
    pub fn is_unchanged(&self, client: &mut Client) {
        for specimen in &self.specimens {
            let seen = Seen::of(client, &specimen.key, &specimen.items);
            assert!(
                seen == specimen.seen,
                "{}: {:?} was {:?}",
                specimen.key,
                seen.shortened(),
                specimen.seen.shortened()
            );
        }
    }

    /// Checks copies under other names, and that they have the times to live of their originals.
    #[track_caller]
    pub fn is_copied(&self, client: &mut Client, name: impl Fn(&str) -> String) {
        for specimen in &self.specimens {
            let key = name(&specimen.key);
            client.cmd(&format!("PERSIST {key}"));
            let seen = Seen::of(client, &key, &specimen.items);
            assert!(
                seen == specimen.lasting,
                "{key}: {:?} was {:?}",
                seen.shortened(),
                specimen.lasting.shortened()
            );
        }
    }

    /// Loads what is still to come of the half loaded ones.
    #[track_caller]
    pub fn finish_loading(&self, client: &mut Client, name: impl Fn(&str) -> String) {
        for specimen in self.specimens.iter().filter(|s| !s.rest.is_empty()) {
            let key = name(&specimen.key);
            client.cmd(&format!("PERSIST {key}"));
            client.expect(format!("BF.CARD {key}"), error(STILL_LOADING));
            load_chunks(client, &key, &specimen.rest);
            assert_eq!(digest(client, &key), specimen.whole, "{key}");
        }
    }
}

impl Seen {
    #[track_caller]
    pub fn of(client: &mut Client, key: &str, items: &[Vec<u8>]) -> Self {
        let kind = client.cmd(&format!("TYPE {key}"));
        let family = if kind == simple(cuckoo::TYPE) {
            "CF"
        } else {
            "BF"
        };
        let all = if family == "BF" { " ALL" } else { "" };
        let ask = format!("{family}.MEXISTS");
        let others: Vec<String> = (0..OTHERS).map(|i| format!("other {i}")).collect();
        let mut ask: Vec<&[u8]> = vec![ask.as_bytes(), key.as_bytes()];
        ask.extend(items.iter().map(Vec::as_slice));
        ask.extend(others.iter().map(String::as_bytes));
        let answers = match client.call(&ask) {
            Reply::Array(answers) => {
                let (own, _) = answers.split_at(items.len());
                assert!(own.iter().all(|answer| *answer == int(1)), "{key}");
                answers.iter().map(|a| a.as_int().to_string()).collect()
            }
            refusal => refusal.text(),
        };
        let mut debug = client.cmd(&format!("{family}.DEBUG {key}"));
        // How much memory a table takes depends on what it held before.
        let is_table = kind == simple("bloomfltx");
        if let Reply::Array(lines) = &mut debug
            && is_table
        {
            for line in &mut lines[1..] {
                *line = bulk(line.text().split_once(" capacity").expect("it has one").1);
            }
        }
        Self {
            digest: digest(client, key),
            info: lasting(client.cmd(&format!("{family}.INFO {key}{all}")), is_table),
            debug,
            kind,
            answers,
            expires_ms: client.cmd(&format!("PEXPIRETIME {key}")).as_int(),
        }
    }
}

/// Returns a reply of INFO without what is only there while the key is read, and without the size of tables.
fn lasting(info: Reply, is_table: bool) -> Reply {
    let Reply::Array(fields) = info else {
        return info;
    };
    let (rows, _) = fields.as_chunks::<2>();
    let left_out = ["Feed bytes", "Feed readers", "Size"].map(simple);
    let left_out = &left_out[..if is_table { 3 } else { 2 }];
    let rows = rows.iter().filter(|[title, _]| !left_out.contains(title));
    Reply::Array(rows.flatten().cloned().collect())
}

impl Seen {
    /// Returns a copy that is short enough for a message.
    fn shortened(&self) -> Self {
        let mut answers = self.answers.clone();
        answers.truncate(60);
        Self {
            answers,
            ..self.clone()
        }
    }
}

/// Returns items of any bytes, the first of them empty.
fn named(key: &str, count: usize) -> Vec<Vec<u8>> {
    let item = |number| match number {
        0 => Vec::new(),
        number => format!("{key} \u{e9}\r\n\0{number}").into_bytes(),
    };
    (0..count).map(item).collect()
}

/// Makes an object, or adds to it.
#[track_caller]
fn insert(client: &mut Client, key: &str, options: &str, items: &[Vec<u8>]) {
    let line = format!("BF.INSERT {key} {options}");
    let mut args: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
    if !items.is_empty() {
        args.push(b"ITEMS");
        args.extend(items.iter().map(Vec::as_slice));
    }
    let replies = client.call(&args);
    assert_eq!(replies.as_array().len(), items.len(), "{key}");
    assert!(!replies.as_array().iter().any(Reply::is_error), "{key}");
}

/// Makes cuckoo filters: one that grew and shrank, one of wide buckets that can't grow, an empty one, and one of
/// which only the header and the first chunk came.
fn cuckoos(client: &mut Client) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let mut insert = |key: &str, options: &str, count: usize| {
        client.ok(format!("CF.RESERVE {key} {options}"));
        let items = (0..count).map(|i| format!("{key}\r\n\0{i}").into_bytes());
        let items: Vec<Vec<u8>> = items.collect();
        let added = client.call_with(&format!("CF.INSERT {key} ITEMS"), &items);
        assert_eq!(added, array(vec![int(1); count]), "{key}");
        items
    };
    let mut grown = insert("cuckoo", "64 EXPANSION 2", 300);
    let wide = insert("cuckoo-wide", "500 BUCKETSIZE 4 EXPANSION 0", 400);
    for item in grown.split_off(280) {
        assert_eq!(client.call(&[b"CF.DEL", b"cuckoo", &item]), int(1));
    }
    client.ok("CF.RESERVE cuckoo-empty 100");
    let chunks = cuckoo::chunks(client, "cuckoo");
    assert!(chunks.len() > 3, "a header and several filters");
    cuckoo::load(client, "cuckoo-half", &chunks[..2]);
    vec![
        ("cuckoo", grown),
        ("cuckoo-wide", wide),
        ("cuckoo-empty", vec![]),
        ("cuckoo-half", vec![]),
    ]
}
