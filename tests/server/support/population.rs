//! Objects of every kind in a server, and whether they are what they were.

use crate::cuckoo;
use crate::harness::{Client, Reply, array, digest, error, int, ok, simple};
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

impl Population {
    #[track_caller]
    pub fn new(client: &mut Client) -> Self {
        let mut all: Vec<(String, Vec<Vec<u8>>, Pieces)> = Vec::new();
        let mut add = |key: &str, items: Vec<Vec<u8>>| all.push((key.to_owned(), items, vec![]));

        add("empty", fill(client, "empty", &[], 0));
        let create: [&[u8]; 2] = [b"CAPACITY", b"1000"];
        add("one-filter", fill(client, "one-filter", &create, 600));
        let five = grow(client, "five-filters", "CAPACITY 60 EXPANSION 2", 5);
        add("five-filters", five.clone());
        let twenty = grow(client, "twenty-filters", "CAPACITY 8 EXPANSION 1", 20);
        add("twenty-filters", twenty);
        let tight = "CAPACITY 30 ERROR 0.001 TIGHTENING 0.85 EXPANSION 3";
        add("tightened", grow(client, "tightened", tight, 4));
        let create: [&[u8]; 5] = [b"ERROR", b"0.02", b"NONSCALING", b"CAPACITY", b"300"];
        add("fixed", fill(client, "fixed", &create, 250));
        let seed: [u8; 32] = std::array::from_fn(|i| u8::try_from(i * 7).expect("below 256"));
        let create: [&[u8]; 4] = [b"SEED", &seed, b"CAPACITY", b"50"];
        add("given-seed", fill(client, "given-seed", &create, 200));

        assert_eq!(client.cmd("CONFIG SET bf.bloom-use-random-seed no"), ok());
        let create: [&[u8]; 2] = [b"CAPACITY", b"80"];
        add("fixed-seed", fill(client, "fixed-seed", &create, 200));
        assert_eq!(
            client.cmd("CONFIG SET bf.bloom-use-random-seed yes bf.bloom-saturate-nonscaling yes"),
            ok()
        );
        let create: [&[u8]; 3] = [b"NONSCALING", b"CAPACITY", b"100"];
        add("saturated", fill(client, "saturated", &create, 400));
        assert_eq!(
            client.cmd("CONFIG SET bf.bloom-saturate-nonscaling no"),
            ok()
        );

        load_chunks(client, "redisbloom", &link_of_redisbloom());
        add(
            "redisbloom",
            fill(client, "redisbloom", &[b"NOCREATE"], 400),
        );

        for (key, items) in extended(client) {
            add(key, items);
        }
        let create: [&[u8]; 4] = [b"SEED", &seed, b"CAPACITY", b"70"];
        let mut merged = fill(client, "merged", &create, 100);
        // In one slot.
        merged.extend(fill(client, "{merged}2", &create, 90));
        assert_eq!(client.cmd("BF.MERGE merged {merged}2"), ok());
        assert_eq!(client.cmd("DEL {merged}2"), int(1));
        add("merged", merged);

        for sketch in sketches::restore_all(client) {
            add(&sketch.key, vec![]);
        }
        for (key, items) in cuckoos(client) {
            add(key, items);
        }

        // One that came in chunks, and the same with chunks still to come: all of them, some of
        // the first filter, all but the first filter, some of the second, the last chunk.
        let chunks = split(&pieces(client, "five-filters"), 10);
        load_chunks(client, "chunked", &chunks);
        all.push(("chunked".to_owned(), five, vec![]));
        let with_ids = split(&pieces(client, "ids"), 100);
        let (come, to_come) = with_ids.split_at(with_ids.len() / 2);
        load_chunks(client, "half-ids", come);
        all.push(("half-ids".to_owned(), vec![], to_come.to_vec()));
        let count = chunks.len();
        let mut whole_first = 1;
        while whole_first < count && chunks[whole_first].1.len() == 10 {
            whole_first += 1;
        }
        for (stage, come) in [1, 3, whole_first + 1, whole_first + 2, count - 1]
            .into_iter()
            .enumerate()
        {
            let key = format!("half-{stage}");
            load_chunks(client, &key, &chunks[..come]);
            all.push((key, vec![], chunks[come..].to_vec()));
        }

        let whole = digest(client, "five-filters");
        let expiring = [("fixed", 1000), ("twenty-filters", 2000), ("half-2", 3000)];
        let specimens = all.into_iter().map(|(key, items, rest)| {
            let lasting = Seen::of(client, &key, &items);
            if let Some((_, seconds)) = expiring.iter().find(|(name, _)| *name == key) {
                let reply = client.cmd(&format!("EXPIRE {key} {seconds}"));
                assert_eq!(reply, int(1));
            }
            let whole = match &key[..] {
                "half-ids" => digest(client, "ids"),
                _ => whole.clone(),
            };
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
                "redisbloom" => "MBbloom--",
                key if key.starts_with("cms") => "CMSk-TYPE",
                key if key.starts_with("topk") => "TopK-TYPE",
                key if key.starts_with("tdigest") => "TDIS-TYPE",
                key if key.starts_with("cuckoo") => cuckoo::TYPE,
                "windowed" | "aging" | "counting" | "ids" | "half-ids" => "bloomfltx",
                _ => "bloomfltr",
            };
            assert_eq!(specimen.seen.kind, simple(kind));
            assert_eq!(specimen.seen.info, specimen.lasting.info);
            let silent = !specimen.rest.is_empty() || sketches::is_one(&specimen.key);
            assert_eq!(specimen.seen.info.is_error(), silent, "{}", specimen.key);
        }
        let filters = |key: &str| {
            let found = self.specimens.iter().find(|s| s.key == key);
            let Reply::Array(info) = &found.expect("it is one of them").seen.info else {
                panic!("no info of {key}");
            };
            info[5].as_int()
        };
        assert_eq!(filters("one-filter"), 1);
        assert_eq!(filters("five-filters"), 5);
        assert_eq!(filters("twenty-filters"), 20);
        let chunked = self.specimens.iter().find(|s| s.key == "chunked");
        assert!(chunked.is_some_and(|s| s.seen.digest == s.whole));
        assert!(filters("aging") > filters("windowed"));
        let aging = self.specimens.iter().find(|s| s.key == "aging");
        let info = &aging.expect("it is one of them").seen.info;
        let live = info.as_array().rchunks(2).nth(1).map(|pair| &pair[1]);
        assert_eq!(live, Some(&int(3)), "periods that answer");
        assert!(filters("counting") > 1 && filters("ids") > 1);
    }

    /// Returns the digest of the whole object, for an object that is half loaded.
    pub fn whole(&self, key: &str) -> &str {
        let found = self.specimens.iter().find(|s| s.key == key);
        &found.expect("it is one of them").whole
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
            assert_eq!(client.cmd(&format!("BF.CARD {key}")), error(STILL_LOADING));
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
        Self {
            digest: digest(client, key),
            info: client.cmd(&format!("{family}.INFO {key}")),
            debug: client.cmd(&format!("{family}.DEBUG {key}")),
            kind,
            answers,
            expires_ms: client.cmd(&format!("PEXPIRETIME {key}")).as_int(),
        }
    }
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

/// Adds items until the object has `filters` filters, and then a few more.
fn grow(client: &mut Client, key: &str, create: &str, filters: i64) -> Vec<Vec<u8>> {
    assert_eq!(
        client.cmd(&format!("BF.INSERT {key} {create}")),
        array([]),
        "{key}"
    );
    let mut items: Vec<Vec<u8>> = Vec::new();
    let count = |client: &mut Client| {
        let reply = client.cmd(&format!("BF.INFO {key} FILTERS"));
        reply.as_array()[0].as_int()
    };
    while count(client) < filters {
        items.push(format!("{key}\r\n\0{}", items.len()).into_bytes());
        let item = items.last().expect("one was pushed");
        client.call(&[b"BF.ADD", key.as_bytes(), item]);
    }
    items.push(Vec::new());
    client.call(&[b"BF.ADD", key.as_bytes(), b""]);
    items
}

fn fill(client: &mut Client, key: &str, create: &[&[u8]], count: usize) -> Vec<Vec<u8>> {
    let items: Vec<Vec<u8>> = (0..count)
        .map(|i| format!("{key} \u{e9} {i}").into_bytes())
        .collect();
    let mut args: Vec<&[u8]> = vec![b"BF.INSERT", key.as_bytes()];
    args.extend(create);
    if !items.is_empty() {
        args.push(b"ITEMS");
        args.extend(items.iter().map(Vec::as_slice));
    }
    let replies = client.call(&args);
    assert!(replies.as_array().iter().all(|r| !r.is_error()), "{key}");
    items
}

/// Makes objects with periods, with counters, with ids, and with several of them.
fn extended(client: &mut Client) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let mut all = Vec::new();
    let lasting = format!("{LASTING_WINDOW} CAPACITY 50");
    let lasting: Vec<&[u8]> = lasting.split(' ').map(str::as_bytes).collect();
    let windowed = fill(client, "windowed", &lasting, 200);
    // Into the period that passes first, the one after it, and the one to come.
    let ttls = ["1", "1000000000000", "2000000000000"];
    for (items, ttl) in windowed.chunks(70).zip(ttls) {
        let mut args: Vec<&[u8]> = vec![b"BF.INSERT", b"aging", b"TTL", ttl.as_bytes()];
        args.extend(&lasting);
        args.push(b"ITEMS");
        args.extend(items.iter().map(Vec::as_slice));
        assert_eq!(client.call(&args).as_array().len(), items.len());
    }
    all.push(("aging", windowed.clone()));
    all.push(("windowed", windowed));
    let create: [&[u8]; 3] = [b"COUNTING", b"CAPACITY", b"40"];
    let mut counted = fill(client, "counting", &create, 300);
    for item in counted.split_off(200) {
        client.call(&[b"BF.DEL", b"counting", &item]);
    }
    all.push(("counting", counted));
    let mut numbered = Vec::new();
    for id in 0..60_u32 {
        let (id, items) = (id.to_string(), [format!("a {id}"), format!("b {id}")]);
        let create = format!("ids COUNTING CAPACITY 20 ID {id} ITEMS").into_bytes();
        let mut args: Vec<&[u8]> = vec![b"BF.INSERT"];
        args.extend(create.split(|byte| *byte == b' '));
        args.extend(items.iter().map(String::as_bytes));
        assert_eq!(client.call(&args).as_array().len(), 2);
        let [kept, removed] = items;
        let args: [&[u8]; 5] = [b"BF.DEL", b"ids", removed.as_bytes(), b"ID", id.as_bytes()];
        assert_eq!(client.call(&args), int(1));
        numbered.push(kept.into_bytes());
    }
    all.push(("ids", numbered));
    all
}

/// Makes cuckoo filters: one that grew and shrank, one of wide buckets that can't grow, an empty one, and one of
/// which only the header and the first chunk came.
fn cuckoos(client: &mut Client) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let mut insert = |key: &str, options: &str, count: usize| {
        assert_eq!(client.cmd(&format!("CF.RESERVE {key} {options}")), ok());
        let items = (0..count).map(|i| format!("{key}\r\n\0{i}").into_bytes());
        let items: Vec<Vec<u8>> = items.collect();
        let mut args: Vec<&[u8]> = vec![b"CF.INSERT", key.as_bytes(), b"ITEMS"];
        args.extend(items.iter().map(Vec::as_slice));
        let added = client.call(&args);
        assert_eq!(added, array(vec![int(1); count]), "{key}");
        items
    };
    let mut grown = insert("cuckoo", "64 EXPANSION 2", 300);
    let wide = insert("cuckoo-wide", "500 BUCKETSIZE 4 EXPANSION 0", 400);
    for item in grown.split_off(280) {
        assert_eq!(client.call(&[b"CF.DEL", b"cuckoo", &item]), int(1));
    }
    assert_eq!(client.cmd("CF.RESERVE cuckoo-empty 100"), ok());
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

/// Returns an object of RedisBloom in chunks: an empty link of 20 items at 0.005, of 32 bytes.
fn link_of_redisbloom() -> Pieces {
    let mut header = Vec::new();
    header.extend(0_u64.to_le_bytes());
    for number in [1_u32, 5, 2] {
        header.extend(number.to_le_bytes());
    }
    for number in [32, 256, 0, 0.005_f64.to_bits(), 11.027_755_f64.to_bits()] {
        header.extend(u64::to_le_bytes(number));
    }
    header.extend(8_u32.to_le_bytes());
    header.extend(20_u64.to_le_bytes());
    header.push(0);
    vec![(1, header), (33, vec![0; 32])]
}
