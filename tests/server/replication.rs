//! Replicas and logs are told what happened, and hold the same whatever their own settings.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;

use valkeybloom::bloom::{
    Fraction, Growth, Kind, Limits, Object, Params, Seed, Shape, Tightening, Time, Window, chunks,
    dump,
};

use crate::harness::{
    Client, Reply, Server, array, digest, error, int, ok, wait_in_sync, wait_until,
};
use crate::ledger;
use crate::persistence::{Pieces, Population, configure, load_chunks, rewrite_aof, split};
use crate::random::Random;

/// Settings under which all objects would come out other than under a primary's.
pub const OTHER_SETTINGS: [(&str, &str); 8] = [
    ("bf.bloom-capacity", "7"),
    ("bf.bloom-expansion", "0"),
    ("bf.bloom-fp-rate", "0.2"),
    ("bf.bloom-tightening-ratio", "0.9"),
    ("bf.bloom-filter-max-memory-usage", "1"),
    ("bf.bloom-memory-usage-limit", "1"),
    ("bf.bloom-saturate-nonscaling", "no"),
    ("bf.bloom-use-random-seed", "no"),
];

/// What a primary of these tests is set to: objects that grow soon, and limits that are met.
const SETTINGS: [(&str, &str); 4] = [
    ("bf.bloom-capacity", "40"),
    ("bf.bloom-filter-max-memory-usage", "4kb"),
    ("bf.bloom-memory-usage-limit", "12kb"),
    ("bf.bloom-saturate-nonscaling", "yes"),
];

/// A fixed sequence of writes of every kind.
pub struct Workload {
    random: Random,
    dumps: Vec<Vec<u8>>,
    chunked: Vec<Pieces>,
    /// What is being loaded under a key, and how many pieces of it have come.
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
            let pieces = chunks::pieces(object).map(|(next, piece)| (next, piece.bytes().to_vec()));
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

    /// A creation's options; some of them contradict each other.
    fn options(&mut self) -> Vec<Vec<u8>> {
        let mut options: Vec<Vec<u8>> = Vec::new();
        let mut option = |words: &[&str]| {
            options.extend(words.iter().map(|word| word.as_bytes().to_vec()));
        };
        let random = &mut self.random;
        if random.one_in(2) {
            let capacity = random.pick(&["1", "5", "30", "100", "700", "100000"]);
            option(&["CAPACITY", capacity]);
        }
        if random.one_in(3) {
            option(&["ERROR", random.pick(&["0.5", "0.1", "0.001", "1e-7"])]);
        }
        if random.one_in(4) {
            let ratio = random.pick(&["0.5", "0.85", "0.1", "0.333333333333333333"]);
            option(&["TIGHTENING", ratio]);
        }
        match random.below(16) {
            0..4 => option(&[
                "EXPANSION",
                random.pick(&["0", "1", "2", "5", "4294967295"]),
            ]),
            4..7 => option(&["NONSCALING"]),
            _ => {}
        }
        if random.one_in(6) {
            option(&["VALIDATESCALETO", random.pick(&["10", "1000", "1000000"])]);
        }
        if random.one_in(10) {
            option(&["NOCREATE"]);
        }
        if random.one_in(4) {
            option(&["COUNTING"]);
        }
        if random.one_in(4) {
            // Short periods pass while the test goes on, long ones do not.
            let period_ms = random.pick(&["1", "7", "100", "1000000000000"]);
            option(&[
                "WINDOW",
                period_ms,
                "PERIODS",
                random.pick(&["1", "2", "5"]),
            ]);
        }
        if random.one_in(8) {
            option(&["TTL", random.pick(&["1", "5", "100"])]);
        }
        if random.one_in(8) {
            option(&[
                "ID",
                random.pick(&["0", "7", "500", "18446744073709551615"]),
            ]);
        }
        if random.one_in(4) {
            options.push(b"SEED".to_vec());
            options.push(random.bytes(32));
        }
        options
    }

    /// A write of items, by one of the commands that write items.
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

    /// A removal of items, by one of the commands that remove them.
    fn removing(&mut self) -> Vec<Vec<u8>> {
        let key = self.key().into_bytes();
        if self.random.one_in(4) {
            return [vec![b"BF.MDEL".to_vec(), key], self.items()].concat();
        }
        let mut words = vec![b"BF.DEL".to_vec(), key, self.item()];
        if self.random.one_in(3) {
            let id = self.random.pick(&["0", "7", "500"]);
            words.extend([b"ID".to_vec(), id.as_bytes().to_vec()]);
        }
        words
    }

    /// A creation without items.
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

    /// The next write. It may fail, as a client's may.
    #[allow(
        clippy::too_many_lines,
        reason = "a line or two for each kind of write"
    )]
    pub fn step(&mut self, client: &mut Client) {
        let (key, other) = (self.key(), self.key());
        let call = |client: &mut Client, args: &[Vec<u8>]| {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            client.call(&args)
        };
        match self.random.below(120) {
            0..50 => {
                let write = self.adding();
                call(client, &write);
            }
            50..54 => {
                let removal = self.removing();
                call(client, &removal);
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
                assert_eq!(client.cmd("MULTI"), ok());
                for _ in 0..self.random.below(5) {
                    let write = self.adding();
                    call(client, &write);
                }
                client.cmd("EXEC");
            }
            116 => {
                // The primary's own settings change as it goes.
                let yes = self.random.pick(&["yes", "no"]);
                let capacity = self.random.pick(&["10", "40", "300"]);
                let set = format!(
                    "CONFIG SET bf.bloom-saturate-nonscaling {yes} bf.bloom-capacity {capacity} \
                     bf.bloom-use-random-seed {yes}"
                );
                assert_eq!(client.cmd(&set), ok());
            }
            117 => {
                client.cmd(&format!("SET {key} string"));
                client.cmd(&format!("BF.ADD {key} item"));
                client.cmd(&format!("DEL {key}"));
            }
            118 if self.random.one_in(4) => {
                assert_eq!(client.cmd("SWAPDB 0 1"), ok());
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
    let kind = match random.below(4) {
        0 => Kind::Windowed(Window::new(1_000_000_000_000, 2).expect("a window")),
        1 => Kind::Counting,
        _ => Kind::Plain,
    };
    let now = Time::at(1_500_000_000_000);
    let made = Object::new(&Shape { params, kind }, seed, now, Limits::NONE);
    let mut object = made.expect("a small object");
    let items: Vec<String> = (0..random.below(300))
        .map(|i| format!("loaded {i}"))
        .collect();
    let items = items.iter().map(String::as_bytes);
    object.add_each(
        items,
        now,
        None,
        || Limits::NONE,
        |added| {
            added.expect("room");
        },
    );
    object
}

/// Every key of the first two databases, with its digest and the time at which it expires.
pub fn state(server: &Server) -> BTreeMap<(u8, String), (String, i64)> {
    let mut client = server.client();
    let mut state = BTreeMap::new();
    for database in 0..2 {
        assert_eq!(client.cmd(&format!("SELECT {database}")), ok());
        for key in client.cmd("KEYS *").as_array() {
            let key = key.text();
            let digest = digest(&mut client, &key);
            let expires_ms = client.cmd(&format!("PEXPIRETIME {key}")).as_int();
            state.insert((database, key), (digest, expires_ms));
        }
    }
    state
}

/// Awaits that no key is left that expires while a test looks at it.
fn settle(server: &Server) {
    let mut client = server.client();
    wait_until("the short times are over", || {
        (0..2).all(|database| {
            client.cmd(&format!("SELECT {database}"));
            let keys = client.cmd("KEYS *");
            keys.as_array().iter().all(|key| {
                let ttl = client.cmd(&format!("PTTL {}", key.text())).as_int();
                ttl == -1 || ttl > 60_000
            }) && keys.as_array().len() == usize::try_from(client.cmd("DBSIZE").as_int()).unwrap()
        })
    });
}

#[track_caller]
fn hold_the_same(servers: &[&Server]) {
    let [primary, replicas @ ..] = servers else {
        panic!("no primary");
    };
    settle(primary);
    for replica in replicas {
        wait_in_sync(primary, replica);
    }
    let expected = state(primary);
    assert!(expected.len() > 20, "{expected:?}");
    for replica in replicas {
        let state = state(replica);
        for (key, value) in &expected {
            assert_eq!(state.get(key), Some(value), "{key:?}");
        }
        assert_eq!(state.len(), expected.len());
        is_balanced(replica);
    }
    is_balanced(primary);
}

/// INFO leaves out what was renamed while the server frees something else, see info.rs.
#[track_caller]
fn is_balanced(server: &Server) {
    wait_until("nothing is being freed", || {
        server.info("memory")["lazyfree_pending_objects"] == "0"
    });
    ledger::is_balanced(&mut server.client());
}

pub fn other_settings(mut builder: crate::harness::Builder) -> crate::harness::Builder {
    for (name, value) in OTHER_SETTINGS {
        builder = builder.config(name, value);
    }
    builder
}

#[test]
fn replicas_with_other_settings_hold_the_same() {
    let primary = Server::with(&SETTINGS);
    let replica = other_settings(Server::replica_of(&primary)).start();
    let behind = other_settings(Server::replica_of(&replica))
        .config("bf.bloom-capacity", "3")
        .start();
    wait_in_sync(&primary, &replica);
    wait_in_sync(&replica, &behind);
    let full_syncs = |server: &Server| server.info("stats")["sync_full"].clone();
    let before = [&primary, &replica].map(full_syncs);
    let mut workload = Workload::new(0x7265_706c_6963_6131);
    for _ in 0..4 {
        workload.run(&mut primary.client(), 1500);
        settle(&primary);
        wait_in_sync(&primary, &replica);
        wait_in_sync(&replica, &behind);
        hold_the_same(&[&primary, &replica, &behind]);
    }
    let after = [&primary, &replica].map(full_syncs);
    assert_eq!(after, before, "all came over the wire");
}

#[test]
fn a_log_is_replayed_whatever_the_settings() {
    let mut server = SETTINGS
        .iter()
        .fold(Server::builder(), |b, (name, value)| b.config(name, value))
        .config("appendonly", "yes")
        .config("aof-use-rdb-preamble", "no")
        .start();
    let mut workload = Workload::new(0x6c6f_6773);
    workload.run(&mut server.client(), 2500);
    settle(&server);
    for rewritten in [false, true] {
        if rewritten {
            rewrite_aof(&server);
            workload.run(&mut server.client(), 500);
            settle(&server);
        }
        let before = state(&server);
        server.shutdown();
        let lines = OTHER_SETTINGS.map(|(name, value)| format!("{name} {value}\n"));
        configure(&server, &lines.concat());
        server.start_again();
        assert_eq!(state(&server), before);
        is_balanced(&server);
    }
}

/// The ways of a full resync: whether the primary writes a file first, and whether the replica
/// does, empties itself, or loads beside what it has.
const WAYS: [(&str, &str); 4] = [
    ("no", "disabled"),
    ("yes", "disabled"),
    ("yes", "swapdb"),
    ("yes", "on-empty-db"),
];

#[test]
fn a_full_resync_brings_the_same() {
    let primary = Server::with(&SETTINGS);
    let mut client = primary.client();
    Workload::new(0x6675_6c6c).run(&mut client, 1500);
    settle(&primary);
    for (without_file, load) in WAYS {
        let set = format!("CONFIG SET repl-diskless-sync {without_file}");
        assert_eq!(client.cmd(&set), ok());
        let replica = other_settings(Server::builder())
            .config("repl-diskless-load", load)
            .start();
        // It has data of its own, which goes; one of its keys is one of the primary's.
        let mut own = replica.client();
        assert_eq!(own.cmd("CONFIG SET bf.bloom-memory-usage-limit 0"), ok());
        let unlimited = "CONFIG SET bf.bloom-filter-max-memory-usage 64mb";
        assert_eq!(own.cmd(unlimited), ok());
        Workload::new(0x006f_776e).run(&mut own, 500);
        assert_eq!(own.cmd("BF.MADD own a b c").as_array().len(), 3);
        let follow = format!("REPLICAOF 127.0.0.1 {}", primary.port());
        assert_eq!(own.cmd(&follow), ok());
        hold_the_same(&[&primary, &replica]);

        // The same again, with data of the same history: the replica missed more than the
        // primary kept. A replica that loads beside it goes on serving.
        let full = primary.info("stats")["sync_full"].clone();
        assert_eq!(client.cmd("CONFIG SET repl-backlog-size 16384"), ok());
        client.send("MULTI");
        client.send("CLIENT KILL TYPE replica");
        let value = "v".repeat(100_000);
        for _ in 0..4 {
            client.send(&format!("SET padding {value}"));
        }
        client.send("DEL padding");
        client.send("EXEC");
        for _ in 0..8 {
            assert!(!client.read().is_error());
        }
        wait_until("the primary has begun a full resync", || {
            primary.info("stats")["sync_full"] != full
        });
        hold_the_same(&[&primary, &replica]);
        assert_eq!(client.cmd("BF.ADD key-new item"), int(1));
        hold_the_same(&[&primary, &replica]);
        assert_eq!(client.cmd("DEL key-new"), int(1));
    }
}

#[test]
fn a_replica_that_takes_over_goes_on() {
    for (without_file, load) in WAYS {
        let primary = Server::with(&[("repl-diskless-sync", without_file)]);
        let mut client = primary.client();
        // Some objects come by a full resync, some by commands.
        let population = Population::new(&mut client);
        let replica = other_settings(Server::replica_of(&primary))
            .config("repl-diskless-load", load)
            .start();
        wait_in_sync(&primary, &replica);
        assert_eq!(client.cmd("COPY half-2 half-by-command"), int(1));
        let mut workload = Workload::new(0x6661_696c);
        for pieces in &mut workload.chunked {
            pieces.truncate(4);
        }
        for (index, pieces) in workload.chunked.iter().enumerate() {
            load_chunks(&mut client, &format!("chunks-{index}"), pieces);
        }
        wait_in_sync(&primary, &replica);
        drop(primary);

        let mut client = replica.client();
        let refused = client.cmd("BF.ADD new item").text();
        assert!(refused.starts_with("READONLY "), "{refused}");
        assert_eq!(client.cmd("REPLICAOF NO ONE"), ok());
        // Its own settings count now: BF.INFO tells how far objects can still grow.
        let settings = "CONFIG SET bf.bloom-filter-max-memory-usage 64mb \
            bf.bloom-memory-usage-limit 0";
        let limit = error("ERR operation exceeds bloom object memory limit");
        assert_eq!(client.cmd("BF.ADD new item"), limit);
        assert_eq!(client.cmd(settings), ok());
        population.is_unchanged(&mut client);
        population.finish_loading(&mut client, str::to_owned);

        let whole = Workload::new(0x6661_696c);
        for (index, (pieces, dump)) in whole.chunked.iter().zip(&whole.dumps).enumerate() {
            let key = format!("chunks-{index}");
            if pieces.len() > 4 {
                load_chunks(&mut client, &key, &pieces[4..]);
            }
            let load: [&[u8]; 3] = [b"BF.LOAD", b"whole", dump];
            assert_eq!(client.call(&load), ok());
            let (loaded, whole) = (digest(&mut client, &key), digest(&mut client, "whole"));
            assert_eq!(loaded, whole, "{key}");
            assert_eq!(client.cmd("DEL whole"), int(1));
        }
        ledger::is_balanced(&mut client);
    }
}

/// The commands that a server has written to its AOF.
pub struct Log {
    file: PathBuf,
    read: usize,
}

impl Log {
    pub fn of(server: &Server) -> Self {
        let file = server.dir().join("appendonlydir/appendonly.aof.1.incr.aof");
        Self { file, read: 0 }
    }

    /// Those since the last call; the choice of the first database is left out.
    #[track_caller]
    pub fn since(&mut self) -> Vec<Vec<Vec<u8>>> {
        let bytes = fs::read(&self.file).expect("the server has an AOF");
        let mut rest = &bytes[self.read..];
        self.read = bytes.len();
        let mut commands = Vec::new();
        while !rest.is_empty() {
            let count = number(&mut rest, b'*');
            let command: Vec<Vec<u8>> = (0..count)
                .map(|_| {
                    let length = number(&mut rest, b'$');
                    let (arg, behind) = rest.split_at(length);
                    rest = behind.strip_prefix(b"\r\n").expect("the end of a line");
                    arg.to_vec()
                })
                .collect();
            if command != [b"SELECT".to_vec(), b"0".to_vec()] {
                commands.push(command);
            }
        }
        commands
    }
}

fn number(rest: &mut &[u8], kind: u8) -> usize {
    let end = rest.windows(2).position(|window| window == b"\r\n");
    let (line, behind) = rest.split_at(end.expect("a whole line"));
    *rest = &behind[2..];
    assert_eq!(line[0], kind);
    let text = std::str::from_utf8(&line[1..]).expect("digits");
    text.parse().expect("a number")
}

/// A command in one line. A seed is told by its kind, since most are random.
fn shown(command: &[Vec<u8>]) -> String {
    let words = command.iter().enumerate().map(|(index, word)| {
        if index > 0 && command[index - 1] == b"SEED" {
            assert_eq!(word.len(), 32);
            return match word.as_slice() {
                seed if seed == Seed::FIXED.as_bytes() => "<fixed>".to_owned(),
                b"a seed of thirty-two plain bytes" => "<given>".to_owned(),
                _ => "<random>".to_owned(),
            };
        }
        if index > 0 && command[index - 1] == b"AT" || command[0] == b"PEXPIREAT" && index == 2 {
            let ms: u64 = String::from_utf8_lossy(word).parse().expect("a time");
            // After this was written, and in this century.
            assert!((1_700_000_000_000..4_000_000_000_000).contains(&ms), "{ms}");
            return "<time>".to_owned();
        }
        word.escape_ascii().to_string()
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A command, and what the log holds of it.
const LOGGED: &[(&str, &[&str])] = &[
    // A creation has every parameter, whoever gave it.
    (
        "BF.RESERVE reserved 0.02 100",
        &[
            "BF.INSERT reserved CAPACITY 100 ERROR 0.02 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3",
        ],
    ),
    (
        "BF.RESERVE fixed 0.1 2 NONSCALING",
        &[
            "BF.INSERT fixed CAPACITY 2 ERROR 0.1 TIGHTENING 0.5000000000000001 SEED <fixed> NONSCALING",
        ],
    ),
    (
        "BF.RESERVE zero 0.1 2 EXPANSION 0",
        &[
            "BF.INSERT zero CAPACITY 2 ERROR 0.1 TIGHTENING 0.5000000000000001 SEED <fixed> NONSCALING",
        ],
    ),
    (
        "BF.INSERT inserted",
        &[
            "BF.INSERT inserted CAPACITY 50 ERROR 0.03 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3",
        ],
    ),
    (
        "bf.insert full expansion 7 tightening 0.25 error 1e-5 capacity 9 items a b a",
        &[
            "BF.INSERT full CAPACITY 9 ERROR 1e-5 TIGHTENING 0.25000000000000006 SEED <fixed> EXPANSION 7 ITEMS a b",
        ],
    ),
    (
        "BF.INSERT scaled VALIDATESCALETO 1000 CAPACITY 10 ITEMS a",
        &[
            "BF.INSERT scaled CAPACITY 10 ERROR 0.03 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3 ITEMS a",
        ],
    ),
    (
        "bf.add added a",
        &[
            "BF.INSERT added CAPACITY 50 ERROR 0.03 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3 ITEMS a",
        ],
    ),
    (
        "BF.MADD many a b a",
        &[
            "BF.INSERT many CAPACITY 50 ERROR 0.03 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3 ITEMS a b",
        ],
    ),
    // An add is sent with what was new.
    ("BF.ADD added b", &["BF.ADD added b"]),
    ("bf.add added c", &["bf.add added c"]),
    ("BF.ADD added ", &["BF.ADD added "]),
    ("BF.MADD added d e", &["BF.MADD added d e"]),
    ("BF.MADD added a f b g f", &["BF.MADD added f g"]),
    ("BF.INSERT added ITEMS h", &["BF.MADD added h"]),
    (
        "BF.INSERT added CAPACITY 9 ERROR 0.5 ITEMS a i",
        &["BF.MADD added i"],
    ),
    (
        "BF.INSERT added NOCREATE ITEMS j j k",
        &["BF.MADD added j k"],
    ),
    // What changed nothing is not sent.
    ("BF.ADD added a", &[]),
    ("BF.MADD added a b a", &[]),
    ("BF.INSERT added ITEMS a b", &[]),
    ("BF.INSERT added", &[]),
    ("BF.RESERVE added 0.1 10", &[]),
    ("BF.INSERT missing NOCREATE ITEMS a", &[]),
    ("BF.INSERT missing CAPACITY 0 ITEMS a", &[]),
    ("BF.RESERVE missing 0.1 100000000000", &[]),
    (
        "BF.INSERT missing VALIDATESCALETO 100000000000 ITEMS a",
        &[],
    ),
    ("BF.EXISTS added a", &[]),
    ("BF.MEXISTS added a x", &[]),
    ("BF.CARD added", &[]),
    ("BF.INFO added", &[]),
    ("BF.DEBUG added", &[]),
    ("BF.SCANDUMP added 0", &[]),
    ("BF.LOAD missing nonsense", &[]),
    ("BF.LOADCHUNK missing 1 nonsense", &[]),
    ("BF.LOADCHUNK added 2 nonsense", &[]),
    // Neither is an item that failed, nor one behind it.
    ("BF.MADD fixed a a b c a", &["BF.MADD fixed a b"]),
    ("BF.MADD fixed c", &[]),
    ("BF.ADD fixed c", &[]),
    ("BF.INSERT fixed ITEMS a b c", &[]),
    (
        "BF.INSERT new CAPACITY 2 NONSCALING ITEMS a b a c d",
        &[
            "BF.INSERT new CAPACITY 2 ERROR 0.03 TIGHTENING 0.5000000000000001 SEED <fixed> NONSCALING ITEMS a b",
        ],
    ),
    // Nor is there anything that a server has to be told of a scale-out, or of saturation.
    (
        "BF.MADD scaled b c d e f g h i j k l m n",
        &["BF.MADD scaled b c d e f g h i j k l m n"],
    ),
    ("CONFIG SET bf.bloom-saturate-nonscaling yes", &[]),
    ("BF.MADD fixed a c d", &["BF.MADD fixed c d"]),
    ("BF.ADD fixed e", &["BF.ADD fixed e"]),
    // A seed is sent wherever it is from.
    (
        "CONFIG SET bf.bloom-use-random-seed yes bf.bloom-fp-rate 0.25",
        &[],
    ),
    (
        "CONFIG SET bf.bloom-expansion 0 bf.bloom-tightening-ratio 0.75",
        &[],
    ),
    (
        "BF.ADD seedless a",
        &[
            "BF.INSERT seedless CAPACITY 50 ERROR 0.25 TIGHTENING 0.7500000000000001 SEED <random> NONSCALING ITEMS a",
        ],
    ),
    ("BF.RESERVE seedless 0.1 10", &[]),
    // Time, where it matters, comes with every write; a removal is sent as what was removed.
    (
        "CONFIG SET bf.bloom-use-random-seed no bf.bloom-expansion 3 bf.bloom-tightening-ratio 0.5",
        &[],
    ),
    (
        "BF.RESERVE counted 0.001 10 COUNTING",
        &[
            "BF.INSERT counted CAPACITY 10 ERROR 0.001 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3 COUNTING",
        ],
    ),
    (
        "BF.MADD counted a b a",
        &["BF.INSERT counted NOCREATE ITEMS a b a"],
    ),
    ("BF.ADD counted a", &["BF.INSERT counted NOCREATE ITEMS a"]),
    (
        "BF.INSERT counted CAPACITY 7 ID 9 ITEMS c",
        &["BF.INSERT counted NOCREATE ID 9 ITEMS c"],
    ),
    ("BF.DEL counted a", &["BF.DEL counted a"]),
    ("BF.DEL counted c ID 9", &["BF.DEL counted c ID 9"]),
    ("BF.DEL counted c ID 9", &[]),
    ("BF.DEL counted x", &[]),
    ("BF.MDEL counted a x b b", &["BF.MDEL counted a b"]),
    ("BF.MDEL counted x a", &["BF.DEL counted a"]),
    ("BF.MDEL counted x y", &[]),
    ("BF.COUNT counted a", &[]),
    ("BF.MISSING counted a b", &[]),
    (
        "BF.INSERT windowed WINDOW 1000000000000 PERIODS 2 CAPACITY 9 ERROR 0.001 TTL 1 ITEMS a b",
        &[
            "BF.INSERT windowed CAPACITY 9 ERROR 0.001 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3 WINDOW 1000000000000 PERIODS 2 AT <time> TTL 1 ITEMS a b",
        ],
    ),
    (
        "BF.MADD windowed a x",
        &["BF.INSERT windowed NOCREATE AT <time> ITEMS a x"],
    ),
    ("BF.ADD windowed a", &[]),
    ("BF.INSERT windowed TTL 1 ITEMS b", &[]),
    (
        "BF.INSERT windowed TTL 2000000000000 ITEMS b",
        &["BF.INSERT windowed NOCREATE AT <time> TTL 2000000000000 ITEMS b"],
    ),
    ("BF.INSERT windowed TTL 2000000000001 ITEMS y", &[]),
    ("BF.DEL windowed a", &[]),
    ("BF.RESERVE added 0.1 10 NX", &[]),
    ("BF.RESERVE added 0.1 10 NX EX 10", &[]),
    (
        "BF.RESERVE brief 0.1 10 PX 900000",
        &[
            "MULTI",
            "BF.INSERT brief CAPACITY 10 ERROR 0.1 TIGHTENING 0.5000000000000001 SEED <fixed> EXPANSION 3",
            "PEXPIREAT brief <time>",
            "EXEC",
        ],
    ),
    // Sources are there wherever it is sent to.
    ("BF.MERGE united counted", &["BF.MERGE united counted"]),
    ("BF.MERGE united united", &[]),
    ("BF.MERGE united missing", &[]),
    ("BF.MERGE united windowed", &[]),
    (
        "CONFIG SET bf.bloom-use-random-seed yes bf.bloom-expansion 0 bf.bloom-tightening-ratio 0.75",
        &[],
    ),
    // The server's own commands.
    ("COPY added copied", &["COPY added copied"]),
    ("RENAME copied renamed", &["RENAME copied renamed"]),
    ("DEL renamed missing", &["DEL renamed missing"]),
    ("UNLINK many", &["UNLINK many"]),
    ("PERSIST added", &[]),
    // Several at once stand together.
    ("MULTI", &[]),
    ("BF.ADD full z", &[]),
    ("BF.ADD full a", &[]),
    ("BF.MADD full a y", &[]),
    (
        "EXEC",
        &["MULTI", "BF.ADD full z", "BF.MADD full y", "EXEC"],
    ),
    ("MULTI", &[]),
    ("BF.ADD full a", &[]),
    ("BF.EXISTS full a", &[]),
    ("EXEC", &[]),
];

/// The C library works out logarithms in another way without these instructions, and then their last digits
/// differ. Nothing that decides a size may follow from them.
#[test]
fn a_replica_on_another_processor_has_the_same_bits() {
    let server = Server::start();
    let replica = Server::replica_of(&server)
        .launched_by(&["env", "GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-AVX2"])
        .start();
    wait_in_sync(&server, &replica);
    let mut client = server.client();
    // By the classic formula, a byte longer with these instructions than without.
    let mut shapes = vec![(19_068_649, 0.057_771_945, "NONSCALING".to_owned())];
    let mut random = Random(11);
    for index in 0..400_u32 {
        let capacity = 1 + random.next() % [50, 2000, 100_000][index as usize % 3];
        // Six digits, as people write them, from a half to some millionths.
        let digits = 100_000 + random.next() % 400_000;
        let rate = f64::from(u32::try_from(digits).unwrap()) / 1e6 / f64::from(1 << (index % 17));
        let growth = match index % 4 {
            0 => "NONSCALING".to_owned(),
            factor => format!("EXPANSION {factor}"),
        };
        shapes.push((capacity, rate, growth));
    }
    for (index, (capacity, rate, growth)) in shapes.iter().enumerate() {
        let create = format!("BF.RESERVE key{index} {rate} {capacity} {growth}");
        assert_eq!(client.cmd(&create), ok(), "{create}");
        // So that small ones are stacked.
        for round in 0..3 {
            let items: Vec<String> = (0..70).map(|n| format!("{round}-{n}")).collect();
            client.cmd(&format!("BF.MADD key{index} {}", items.join(" ")));
        }
    }
    // Objects of valkey-bloom go on by its formula.
    for index in 0..60 {
        let capacity = 1 + random.next() % 300;
        let rate = f64::from(u32::try_from(1 + random.next() % 300_000).unwrap()) / 1e6;
        let params = Params {
            capacity,
            error_rate: Fraction::new(rate).expect("a rate"),
            tightening: Tightening::of_valkey_bloom(Fraction::HALF),
            growth: Growth::from_expansion(1 + index % 3),
        };
        let object = Object::plain(&params, Seed::FIXED, Limits::NONE).expect("room");
        let dump = dump::encode(&object).expect("it has a dump");
        let key = format!("key{}", shapes.len());
        let load: [&[u8]; 3] = [b"BF.LOAD", key.as_bytes(), &dump];
        assert_eq!(client.call(&load), ok());
        for round in 0..8 {
            let items: Vec<String> = (0..100).map(|n| format!("{round}-{n}")).collect();
            client.cmd(&format!("BF.MADD {key} {}", items.join(" ")));
        }
        shapes.push((capacity, rate, "by valkey-bloom".to_owned()));
    }
    wait_in_sync(&server, &replica);
    let mut there = replica.client();
    for (index, shape) in shapes.iter().enumerate() {
        let key = format!("key{index}");
        let digests = [digest(&mut client, &key), digest(&mut there, &key)];
        assert_eq!(digests[0], digests[1], "{shape:?}");
    }
}

#[test]
fn the_log_holds_what_happened() {
    let server = Server::with(&[
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("aof-use-rdb-preamble", "no"),
        ("bf.bloom-capacity", "50"),
        ("bf.bloom-fp-rate", "0.03"),
        ("bf.bloom-expansion", "3"),
        // So that the same items are new every time.
        ("bf.bloom-use-random-seed", "no"),
    ]);
    let mut client = server.client();
    let mut log = Log::of(&server);
    let mut logged = || -> Vec<String> { log.since().iter().map(|c| shown(c)).collect() };
    for (command, expected) in LOGGED {
        client.cmd(command);
        assert_eq!(logged(), *expected, "{command}");
    }

    let seed: [&[u8]; 4] = [
        b"BF.INSERT",
        b"seeded",
        b"SEED",
        b"a seed of thirty-two plain bytes",
    ];
    assert_eq!(client.call(&seed), array([]));
    assert_eq!(
        logged(),
        [
            "BF.INSERT seeded CAPACITY 50 ERROR 0.25 TIGHTENING 0.7500000000000001 SEED <given> NONSCALING"
        ]
    );

    // A script is what it did.
    let script = "redis.call('BF.ADD', KEYS[1], 'x') redis.call('BF.ADD', KEYS[1], 'x') \
        redis.call('BF.MADD', KEYS[1], 'x', 'w') redis.call('BF.EXISTS', KEYS[1], 'v')";
    let eval: [&[u8]; 4] = [b"EVAL", script.as_bytes(), b"1", b"full"];
    assert_eq!(client.call(&eval), Reply::Nil);
    assert_eq!(
        logged(),
        ["MULTI", "BF.ADD full x", "BF.MADD full w", "EXEC"]
    );
    let alone = "return redis.call('BF.MADD', KEYS[1], 'x', 'u')";
    let eval: [&[u8]; 4] = [b"EVAL", alone.as_bytes(), b"1", b"full"];
    assert_eq!(client.call(&eval), array([int(0), int(1)]));
    assert_eq!(logged(), ["BF.MADD full u"]);
}

#[test]
fn the_log_holds_loads_as_they_came() {
    let server = Server::with(&[
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("aof-use-rdb-preamble", "no"),
    ]);
    let mut client = server.client();
    let mut log = Log::of(&server);
    let workload = Workload::new(1);
    let dump = &workload.dumps[0];
    let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();

    let load: [&[u8]; 3] = [b"BF.LOAD", b"plain", dump];
    assert_eq!(client.call(&load), ok());
    assert_eq!(log.since(), [words(&load)]);
    let again = error("BUSYKEY Target key name already exists.");
    assert_eq!(client.call(&load), again);
    assert!(log.since().is_empty());

    let load: [&[u8]; 4] = [b"bf.load", b"expiring", dump, b"1000000"];
    assert_eq!(client.call(&load), ok());
    let time = client.cmd("PEXPIRETIME expiring").as_int().to_string();
    assert_eq!(
        log.since(),
        [
            words(&[b"MULTI"]),
            words(&[b"BF.LOAD", b"expiring", dump]),
            words(&[b"PEXPIREAT", b"expiring", time.as_bytes()]),
            words(&[b"EXEC"]),
        ]
    );

    let pieces = &workload.chunked[0];
    for (cursor, bytes) in pieces {
        let cursor = cursor.to_string();
        let args: [&[u8]; 4] = [b"BF.LOADCHUNK", b"chunked", cursor.as_bytes(), bytes];
        assert_eq!(client.call(&args), ok());
        assert_eq!(log.since(), [words(&args)]);
        // The same again changes nothing.
        assert!(client.call(&args).is_error());
        assert!(log.since().is_empty());
    }

    // RESTORE is the server's: its time to live becomes a point in time.
    let payload = client.cmd("DUMP plain");
    let args: [&[u8]; 4] = [b"RESTORE", b"restored", b"900000", payload.as_bytes()];
    assert_eq!(client.call(&args), ok());
    let time = client.cmd("PEXPIRETIME restored").as_int().to_string();
    let told = words(&[
        b"RESTORE",
        b"restored",
        time.as_bytes(),
        payload.as_bytes(),
        b"ABSTTL",
    ]);
    assert_eq!(log.since(), [told]);

    // A key that expires is deleted in the log, in the way that the server is set to.
    let set = "lazyfree-lazy-expire";
    let lazy = client.cmd(&format!("CONFIG GET {set}")).as_array()[1].text();
    let delete: &[u8] = if lazy == "yes" { b"UNLINK" } else { b"DEL" };
    let load: [&[u8]; 4] = [b"BF.LOAD", b"brief", dump, b"1"];
    assert_eq!(client.call(&load), ok());
    wait_until("the key is gone", || client.cmd("EXISTS brief") == int(0));
    let told = log.since();
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!(told[4], words(&[delete, b"brief"]));
    assert_eq!(client.cmd("BF.CARD brief"), int(0));
    assert!(log.since().is_empty());
}
