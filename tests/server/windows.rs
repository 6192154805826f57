//! Objects with periods: their items pass, on a clock of milliseconds in real servers, and by times that
//! a log or a primary tells.

use std::collections::BTreeMap;
use std::fs;

use valkeybloom::bloom::{
    Fraction, Growth, Kind, Limits, Object, Params, Seed, Shape, Tightening, Time, Window, chunks,
};

use crate::aof::{Log, on_log_of, rewrite_aof, wire, with_command_log};
use crate::configured::other_settings;
use crate::harness::{
    Client, Reply, Server, array, digest, error, int, ok, simple, wait_in_sync, wait_until,
};
use crate::periods::{LASTING_WINDOW, clock};
use crate::pieces::{Pieces, pieces};
use crate::primary::played_primary;
use crate::random::Random;
use crate::sums;
use crate::usage::memory;

pub type Command = Vec<Vec<u8>>;

pub fn command(line: &str) -> Command {
    line.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

/// The objects of a server that was told some commands, made by the core alone.
#[derive(Default)]
pub struct Retold(BTreeMap<Vec<u8>, Object>);

impl Retold {
    pub fn obey_all<'c>(&mut self, commands: impl IntoIterator<Item = &'c Command>) {
        for command in commands {
            self.obey(command);
        }
    }

    fn obey(&mut self, command: &Command) {
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
        let (mut at_ms, mut ttl_ms, mut id) = (None, None, None);
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
        // What has periods is never written to without a time, and nothing else with one.
        assert_eq!(at_ms.is_some(), object.shape().window().is_some());
        object.tidy(time.now_ms);
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
        assert!(command.len() > 3, "one item is sent by BF.DEL");
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

    /// The server holds the same objects, byte for byte.
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

/// How objects are made that the tests write to; two keys of each.
const KINDS: [&str; 5] = [
    "CAPACITY 20 ERROR 1e-6 TIGHTENING 0.5 EXPANSION 2 WINDOW 1000 PERIODS 5",
    "CAPACITY 5 ERROR 1e-7 TIGHTENING 0.9 EXPANSION 1 WINDOW 60000 PERIODS 1",
    "CAPACITY 30 ERROR 1e-6 TIGHTENING 0.5 EXPANSION 3 WINDOW 777 PERIODS 40",
    "CAPACITY 500 ERROR 1e-6 TIGHTENING 0.5 NONSCALING WINDOW 86400000 PERIODS 30",
    "CAPACITY 10 ERROR 1e-6 TIGHTENING 0.5 EXPANSION 2 COUNTING",
];

const YEAR_MS: u64 = 31_557_600_000;

/// Some years of writes, in which clocks are set, too.
fn history(random: &mut Random, steps: usize) -> Vec<Command> {
    let mut now_ms: u64 = 40 * YEAR_MS;
    let mut commands = Vec::new();
    for (number, kind) in KINDS.iter().enumerate() {
        for twin in ["a", "b"] {
            let at = if kind.contains("WINDOW") {
                format!(" AT {now_ms}")
            } else {
                String::new()
            };
            commands.push(command(&format!("BF.INSERT {twin}{number} {kind}{at}")));
        }
    }
    for _ in 0..steps {
        let some = random.next();
        now_ms = match random.below(60) {
            0 => now_ms + some % (2 * YEAR_MS),
            1 => now_ms.saturating_sub(some % (2 * YEAR_MS)),
            2 => now_ms.saturating_sub(some % 5000),
            3 => now_ms.saturating_sub(some % 100_000),
            4..8 => now_ms + some % 5000,
            8 => now_ms + some % 10_000_000,
            9 if random.one_in(20) => 0,
            _ => now_ms + some % 300,
        };
        let kind = random.below(KINDS.len());
        let counting = kind == 4;
        let key = format!("{}{kind}", random.pick(&["a", "b"]));
        let items: Vec<String> = (0..random.below(6))
            .map(|_| format!("item-{}", random.below(300)))
            .collect();
        let id = match random.below(3) {
            0 if counting => format!(" ID {}", random.below(200)),
            _ => String::new(),
        };
        let at = if counting {
            String::new()
        } else {
            format!(" AT {now_ms}")
        };
        let line = match random.below(20) {
            0..4 if counting => format!("BF.DEL {key} item-{}{id}", random.below(300)),
            4 if random.one_in(10) => format!("BF.MERGE a{kind} b{kind}"),
            5 => format!("BF.INSERT {key} NOCREATE{at}"),
            _ if items.is_empty() => continue,
            choice => {
                let ttl = match choice {
                    6..10 if !counting => format!(" TTL {}", 1 + some % 100_000),
                    _ => String::new(),
                };
                let items = items.join(" ");
                format!("BF.INSERT {key} NOCREATE{at}{ttl}{id} ITEMS {items}")
            }
        };
        commands.push(command(&line));
    }
    commands
}

#[test]
fn a_log_gives_the_objects_of_its_time() {
    for seed in 0..4 {
        let history = history(&mut Random(seed), 3000);
        let mut expected = Retold::default();
        expected.obey_all(&history);
        let builder = other_settings(Server::builder());
        let mut server = on_log_of(builder, &wire(&history[..1000]), &wire(&history[1000..]));
        let mut client = server.client();
        expected.is_held_by(&mut client);
        sums::is_balanced(&mut client);
        // So it is with all that is made of them.
        assert_eq!(client.cmd("DEBUG RELOAD"), ok());
        expected.is_held_by(&mut client);
        assert!(!client.cmd("BGREWRITEAOF").is_error());
        wait_until("the log is rewritten", || {
            server.info("persistence")["aof_rewrite_in_progress"] == "0"
        });
        server.kill();
        server.start_again();
        expected.is_held_by(&mut server.client());
    }
}

/// A creation with a window and counters, or one of too many periods, is refused wherever it comes from,
/// and what follows it is obeyed.
#[test]
fn logs_and_primaries_do_not_combine_windows_with_counters() {
    let params = "CAPACITY 20 ERROR 1e-6 TIGHTENING 0.5 EXPANSION 2";
    let lines = [
        format!("BF.INSERT both {params} WINDOW 1000 PERIODS 5 COUNTING AT 5 ITEMS a"),
        format!("BF.INSERT order {params} COUNTING WINDOW 1000 PERIODS 5 AT 5 ITEMS a"),
        format!("BF.INSERT long {params} WINDOW 1000 PERIODS 1441 AT 5 ITEMS a"),
        "BF.RESERVE reserved 0.01 100 WINDOW 1000 PERIODS 5 COUNTING".to_owned(),
    ];
    let refused: Vec<Command> = lines.iter().map(|line| command(line)).collect();
    let seed = "a-seed-of-thirty-two-plain-bytes";
    let made: Vec<Command> = [
        format!("BF.INSERT window {params} SEED {seed} WINDOW 1000 PERIODS 1440 AT 5 ITEMS a"),
        format!("BF.INSERT counted {params} SEED {seed} COUNTING ITEMS a"),
    ]
    .iter()
    .map(|line| command(line))
    .collect();
    let mut expected = Retold::default();
    expected.obey_all(&made);
    let stream = [refused, made].concat();

    let builder = other_settings(Server::builder());
    let server = on_log_of(builder, &[], &wire(&stream));
    let mut client = server.client();
    expected.is_held_by(&mut client);
    assert_eq!(client.cmd("DBSIZE"), int(2));

    let replica = other_settings(Server::builder()).start();
    let mut stream = stream;
    stream.insert(0, command("SELECT 0"));
    let port = played_primary(empty_rdb(), Some(wire(&stream)));
    let mut client = replica.client();
    assert_eq!(client.cmd(&format!("REPLICAOF 127.0.0.1 {port}")), ok());
    wait_until("all has come", || client.cmd("DBSIZE") == int(2));
    expected.is_held_by(&mut client);
    sums::is_balanced(&mut client);
    // The words that a client would read.
    for server in [&server, &replica] {
        let log = server.log();
        let told = log.matches("ERR WINDOW and COUNTING cannot be combined");
        assert_eq!(told.count(), 3, "{log}");
        assert_eq!(log.matches("ERR bad periods").count(), 1, "{log}");
    }
}

/// An RDB without keys.
fn empty_rdb() -> Vec<u8> {
    let server = Server::start();
    assert_eq!(server.client().cmd("SAVE"), ok());
    fs::read(server.dir().join("dump.rdb")).expect("an RDB was saved")
}

#[test]
fn a_primary_tells_the_time() {
    let rdb = empty_rdb();
    for seed in 10..13 {
        let mut history = history(&mut Random(seed), 2000);
        let mut expected = Retold::default();
        expected.obey_all(&history);
        history.insert(0, command("SELECT 0"));
        history.push(command("SET end here"));
        let replica = other_settings(Server::builder()).start();
        let port = played_primary(rdb.clone(), Some(wire(&history)));
        let mut client = replica.client();
        assert_eq!(client.cmd(&format!("REPLICAOF 127.0.0.1 {port}")), ok());
        wait_until("all has come", || {
            client.cmd("GET end") == crate::harness::bulk("here")
        });
        expected.is_held_by(&mut client);
        sums::is_balanced(&mut client);
        // As a primary it goes by its own clock: all of this was long ago, or is to come.
        assert_eq!(client.cmd("REPLICAOF NO ONE"), ok());
        let settings = "CONFIG SET bf.bloom-filter-max-memory-usage 64mb \
            bf.bloom-memory-usage-limit 0";
        assert_eq!(client.cmd(settings), ok());
        for twin in ["a0", "b0", "a3"] {
            assert_eq!(client.cmd(&format!("BF.INSERT {twin}")), array([]));
            let live = client.cmd(&format!("BF.INFO {twin} FILTERS"));
            let before = client.cmd(&format!("BF.DEBUG {twin}"));
            assert_eq!(
                live.as_array()[0].as_int(),
                i64::try_from(before.as_array().len()).expect("few") - 1
            );
            assert!(!client.cmd(&format!("BF.ADD {twin} now")).is_error());
            assert_eq!(client.cmd(&format!("BF.EXISTS {twin} now")), int(1));
        }
        sums::is_balanced(&mut client);
    }
}

#[test]
fn no_client_tells_the_time() {
    let server = Server::start();
    let replica = Server::replica_of(&server)
        .config("replica-read-only", "no")
        .start();
    let mut client = server.client();
    let create = format!("BF.INSERT k {LASTING_WINDOW} ITEMS a");
    assert_eq!(client.cmd(&create), array([int(1)]));
    let create = "BF.INSERT counted COUNTING ITEMS a";
    assert_eq!(client.cmd(create), array([int(1)]));
    wait_in_sync(&server, &replica);
    let before = ["k", "counted"].map(|key| digest(&mut client, key));
    let refused = error("ERR unknown argument received");
    let script = "#!lua name=time\nredis.register_function('tell', \
        function(keys, args) return redis.pcall(args[1], keys[1], unpack(args, 2)) end)";
    let load: [&[u8]; 3] = [b"FUNCTION", b"LOAD", script.as_bytes()];
    assert!(!client.call(&load).is_error());
    wait_in_sync(&server, &replica);
    for client in [&mut client, &mut replica.client()] {
        for line in [
            "BF.INSERT k AT 5 ITEMS b",
            "BF.INSERT k NOCREATE AT 5",
            "BF.INSERT counted AT 5 ITEMS b",
            "BF.DEL counted a AT 5",
        ] {
            assert_eq!(client.cmd(line), refused, "{line}");
            // In a transaction, a script and a function as well.
            assert_eq!(client.cmd("MULTI"), ok());
            assert_eq!(client.cmd(line), simple("QUEUED"));
            assert_eq!(client.cmd("EXEC"), array([refused.clone()]));
            let (name, words) = line.split_once(' ').expect("a name");
            let (key, rest) = words.split_once(' ').expect("a key");
            assert_eq!(
                client.cmd(&format!("FCALL tell 1 {key} {name} {rest}")),
                refused
            );
            let mut eval: Vec<&[u8]> = vec![b"EVAL"];
            eval.push(b"return redis.pcall(ARGV[1], KEYS[1], unpack(ARGV, 2))");
            eval.extend([&b"1"[..], key.as_bytes(), name.as_bytes()]);
            eval.extend(rest.split(' ').map(str::as_bytes));
            assert_eq!(client.call(&eval), refused, "{line}");
        }
        assert_eq!(["k", "counted"].map(|key| digest(client, key)), before);
    }
}

fn info(client: &mut Client, key: &str, field: &str) -> i64 {
    client.cmd(&format!("BF.INFO {key} {field}")).as_array()[0].as_int()
}

#[test]
fn items_pass_and_those_that_are_added_again_stay() {
    let server = Server::start();
    let mut client = server.client();
    for (key, options) in [
        ("four", "WINDOW 300 PERIODS 4"),
        ("two", "WINDOW 600 PERIODS 2 NONSCALING"),
    ] {
        let create = format!("BF.RESERVE {key} 0.000001 100 {options}");
        assert_eq!(client.cmd(&create), ok());
        let both = array([int(1), int(1)]);
        assert_eq!(client.cmd(&format!("BF.MADD {key} passing kept")), both);
        wait_until("what was added once has passed", || {
            // At one go, so that nothing can come between.
            assert_eq!(client.cmd("MULTI"), ok());
            for line in [
                format!("BF.ADD {key} kept"),
                format!("BF.MEXISTS {key} kept passing"),
                format!("BF.MISSING {key} kept passing passing"),
                format!("BF.CARD {key}"),
            ] {
                assert_eq!(client.cmd(&line), simple("QUEUED"));
            }
            let replies = client.cmd("EXEC");
            let [_, found, missing, card] = replies.as_array() else {
                panic!("four replies: {replies:?}");
            };
            let [kept, passing] = found.as_array() else {
                panic!("two answers: {found:?}");
            };
            assert_eq!(*kept, int(1));
            // It may pass between the two.
            assert!((1 - passing.as_int()..=1).contains(&missing.as_int()));
            assert!(card.as_int() >= 1);
            *passing == int(0)
        });
        assert_eq!(client.cmd(&format!("BF.ADD {key} passing")), int(1));

        // Nothing is left in the end; what nobody writes to is held until somebody does.
        wait_until("all has passed", || {
            client.cmd(&format!("BF.MISSING {key} kept passing")) == int(2)
        });
        wait_until("no filter answers", || {
            info(&mut client, key, "FILTERS") == 0
        });
        for (field, nothing) in [("ITEMS", 0), ("CAPACITY", 0), ("LIVEPERIODS", 0)] {
            assert_eq!(info(&mut client, key, field), nothing, "{field}");
        }
        assert_eq!(client.cmd(&format!("BF.CARD {key}")), int(0));
        let lines = client.cmd(&format!("BF.DEBUG {key}"));
        assert_eq!(lines, array([crate::harness::bulk("size:0")]));
        let held = info(&mut client, key, "SIZE");
        sums::is_balanced(&mut client);
        assert_eq!(client.cmd(&format!("BF.INSERT {key} NOCREATE")), array([]));
        assert!(info(&mut client, key, "SIZE") < held, "{held}");
        sums::is_balanced(&mut client);
    }
}

#[test]
fn a_write_that_changes_nothing_frees_what_has_passed() {
    let server = with_command_log();
    let replica = Server::replica_of(&server).start();
    let mut client = server.client();
    let mut log = Log::of(&server);
    let lines = [
        ("BF.INSERT k", array([])),
        ("BF.INSERT k NOCREATE", array([])),
        ("BF.INSERT k CAPACITY 5", array([])),
    ];
    for (number, (line, reply)) in lines.iter().enumerate() {
        let line = line.replace(" k", &format!(" k{number}"));
        let key = format!("k{number}");
        let create = format!("BF.INSERT {key} WINDOW 20 PERIODS 1 CAPACITY 10 ITEMS a b c");
        assert_eq!(client.cmd(&create).as_array().len(), 3);
        wait_until("all has passed", || {
            client.cmd(&format!("BF.MISSING {key} a b c")) == int(3)
        });
        let held = info(&mut client, &key, "SIZE");
        log.since();
        for _ in 0..2 {
            assert_eq!(client.cmd(&line), *reply, "{line}");
            assert!(info(&mut client, &key, "SIZE") < held);
        }
        // The first is told of, as time that has passed; the second changed nothing.
        let told = log.since();
        assert_eq!(told.len(), 1, "{line}: {told:?}");
        let words = [
            b"BF.INSERT".to_vec(),
            key.clone().into_bytes(),
            b"NOCREATE".to_vec(),
            b"AT".to_vec(),
        ];
        assert_eq!(told[0][..4], words);
        assert_eq!(told[0].len(), 5);
        wait_in_sync(&server, &replica);
        let there = digest(&mut replica.client(), &key);
        assert_eq!(there, digest(&mut client, &key), "{line}");
    }
    sums::is_balanced(&mut replica.client());
}

/// Writes of clients, to objects of which periods pass all the time.
struct Clients {
    random: Random,
}

const LIVE: [(&str, &str); 6] = [
    ("w0", "WINDOW 3 PERIODS 4 CAPACITY 20"),
    ("w1", "WINDOW 20 PERIODS 2 CAPACITY 5 EXPANSION 1"),
    ("w2", "WINDOW 1 PERIODS 6 CAPACITY 100 NONSCALING"),
    ("w3", "WINDOW 5 PERIODS 3 CAPACITY 10"),
    // Filters that are interleaved.
    ("w4", "WINDOW 4 PERIODS 16 CAPACITY 3000"),
    ("c", "COUNTING CAPACITY 10 ERROR 0.0001"),
];

impl Clients {
    fn next(&mut self) -> Command {
        let random = &mut self.random;
        let (key, kind) = random.pick(&LIVE);
        let counting = kind.contains("COUNTING");
        let items: Vec<String> = (0..=random.below(5))
            .map(|_| random.below(400).to_string())
            .collect();
        let items = items.join(" ");
        let item = random.below(400);
        let ttl = match random.below(3) {
            0 if kind.contains("WINDOW") => " TTL 5",
            _ => "",
        };
        let id = match random.below(3) {
            0 if counting => format!(" ID {}", random.below(100)),
            _ => String::new(),
        };
        command(&match random.below(30) {
            0 => format!("DEL {key}"),
            1 => format!("BF.INSERT {key} {kind}"),
            2 => format!("BF.RESERVE {key} 0.01 50 WINDOW 2 PERIODS 2 NX"),
            3..6 => format!("BF.ADD {key} {item}"),
            6..10 => format!("BF.MADD {key} {items}"),
            10..14 if counting => format!("BF.DEL {key} {item}{id}"),
            14..18 if counting => format!("BF.MDEL {key} {items}"),
            18 => format!("BF.MERGE {key} {}", random.pick(&LIVE).0),
            19 => format!("BF.INSERT {key} NOCREATE"),
            _ => format!("BF.INSERT {key} {kind} ERROR 0.001{ttl}{id} ITEMS {items}"),
        })
    }
}

#[track_caller]
fn digests(client: &mut Client) -> Vec<String> {
    LIVE.iter().map(|(key, _)| digest(client, key)).collect()
}

#[test]
fn replicas_and_logs_hold_the_same_while_periods_pass() {
    let mut primary = Server::with(&[
        ("appendonly", "yes"),
        ("appendfsync", "no"),
        ("aof-use-rdb-preamble", "no"),
        ("auto-aof-rewrite-percentage", "0"),
    ]);
    let replica = other_settings(Server::replica_of(&primary)).start();
    wait_in_sync(&primary, &replica);
    let mut log = Log::of(&primary);
    let mut retold = Retold::default();
    let mut clients = Clients {
        random: Random(0x0077_696e_646f_7773),
    };
    for round in 0..6 {
        let mut client = primary.client();
        for _ in 0..60 {
            let commands: Vec<Command> = (0..10).map(|_| clients.next()).collect();
            client.call_all(&commands);
        }
        for (key, kind) in LIVE {
            // So that each key is there to be compared.
            client.cmd(&format!("BF.INSERT {key} {kind} ERROR 0.001 ITEMS {round}"));
        }
        wait_in_sync(&primary, &replica);
        let before = digests(&mut client);
        assert_eq!(digests(&mut replica.client()), before, "round {round}");
        sums::is_balanced(&mut client);
        sums::is_balanced(&mut replica.client());
        // Wherever a filter's bits are.
        for line in &client.cmd("BF.DEBUG w4").as_array()[1..] {
            let line = line.text();
            let field = |name: &str| {
                let value = line.split(' ').find_map(|field| field.strip_prefix(name));
                value.and_then(|value| value.parse::<u64>().ok())
            };
            assert!(field("bits:").is_some_and(|bits| bits > 0), "{line}");
            assert_eq!(
                field("bytes:").map(|bytes| bytes * 8),
                field("bits:"),
                "{line}"
            );
        }

        let written = log.since();
        assert!(written.len() > 100, "{}", written.len());
        retold.obey_all(&written);
        retold.is_held_by(&mut client);

        if round % 2 == 1 {
            // What a server finds in its log is what it was, whenever that is read.
            primary.shutdown();
            let started = std::time::SystemTime::now();
            wait_until("the windows have passed meanwhile", || {
                started
                    .elapsed()
                    .is_ok_and(|passed| passed.as_millis() > 100)
            });
            primary.start_again();
            let mut client = primary.client();
            assert_eq!(digests(&mut client), before, "after a restart");
            // All that was added has passed, but where a client made an object of another kind.
            let windowed = LIVE.iter().filter(|(key, _)| {
                let window = client.cmd(&format!("BF.INFO {key} WINDOW"));
                !window.is_error()
            });
            let windowed: Vec<&str> = windowed.map(|(key, _)| *key).collect();
            assert!(!windowed.is_empty());
            for key in windowed {
                assert_eq!(client.cmd(&format!("BF.EXISTS {key} {round}")), int(0));
            }
            wait_in_sync(&primary, &replica);
        }
    }
}

#[test]
fn a_file_is_loaded_after_its_windows_have_passed() {
    let mut server = Server::start();
    let mut client = server.client();
    for (key, options) in [("scaling", ""), ("fixed", "NONSCALING ")] {
        let create = format!("BF.INSERT {key} {options}WINDOW 10 PERIODS 3 CAPACITY 50 ITEMS a b");
        assert_eq!(client.cmd(&create).as_array().len(), 2);
    }
    let before = ["scaling", "fixed"].map(|key| digest(&mut client, key));
    server.shutdown_save();
    server.start_again();
    let mut client = server.client();
    for (key, before) in ["scaling", "fixed"].iter().zip(before) {
        assert_eq!(digest(&mut client, key), before);
        wait_until("the window has passed", || {
            client.cmd(&format!("BF.MISSING {key} a b")) == int(2)
        });
        assert_eq!(client.cmd(&format!("BF.CARD {key}")), int(0));
        assert_eq!(info(&mut client, key, "LIVEPERIODS"), 0);
        // It is held still, and INFO says so.
        sums::is_balanced(&mut client);
        let told = &server.info("bf")["bf_bloom_num_items_across_objects"];
        assert_ne!(told, "0");
        let held = info(&mut client, key, "SIZE");
        let same = client.cmd(&format!("BF.INSERT {key} NOCREATE"));
        assert_eq!(same, array([]));
        assert!(info(&mut client, key, "SIZE") < held);
        assert_eq!(client.cmd(&format!("BF.ADD {key} a")), int(1));
        sums::is_balanced(&mut client);
    }
}

/// What an object without any filter is kept in, and comes back from.
#[test]
fn an_object_without_filters_is_kept() {
    let mut server = with_command_log();
    let mut client = server.client();
    let create = "BF.INSERT k WINDOW 5 PERIODS 1 CAPACITY 50 ITEMS a";
    assert_eq!(client.cmd(create), array([int(1)]));
    wait_until("nothing is held", || {
        client.cmd("BF.INSERT k NOCREATE");
        pieces(&mut client, "k").len() == 1
    });
    let before = digest(&mut client, "k");
    let same = |client: &mut Client, key: &str| {
        assert_eq!(digest(client, key), before, "{key}");
        assert_eq!(client.cmd(&format!("BF.EXISTS {key} a")), int(0));
    };
    assert_eq!(client.cmd("COPY k copied"), int(1));
    same(&mut client, "copied");
    let dump = client.cmd("DUMP k");
    let restore: [&[u8]; 4] = [b"RESTORE", b"restored", b"0", dump.as_bytes()];
    assert_eq!(client.call(&restore), ok());
    same(&mut client, "restored");
    assert_eq!(client.cmd("DEBUG RELOAD"), ok());
    same(&mut client, "k");
    rewrite_aof(&server);
    server.kill();
    server.start_again();
    let mut client = server.client();
    same(&mut client, "k");
    sums::is_balanced(&mut client);
    assert_eq!(client.cmd("BF.ADD k a"), int(1));
    let header = &pieces(&mut client, "restored")[0].1;
    let load: [&[u8]; 4] = [b"BF.LOADCHUNK", b"chunked", b"1", header];
    assert_eq!(client.call(&load), ok());
    same(&mut client, "chunked");
    let behind: [&[u8]; 4] = [b"BF.LOADCHUNK", b"chunked", b"2", b"x"];
    assert_eq!(client.call(&behind), error("ERR received bad data"));
    assert_eq!(
        client.call(&load),
        error("BUSYKEY Target key name already exists.")
    );
    // The same header with counters besides: its options stand behind the form.
    let mut both = header.clone();
    assert_eq!(std::mem::replace(&mut both[9], 3), 1);
    let load: [&[u8]; 4] = [b"BF.LOADCHUNK", b"both", b"1", &both];
    assert_eq!(client.call(&load), error("ERR received bad data"));
    // Without filters it is the dump, but for its first byte.
    both[0] = 2;
    let load: [&[u8]; 3] = [b"BF.LOAD", b"both", &both];
    let refused = error("ERR bloom object decoding failed");
    assert_eq!(client.call(&load), refused);
    both[9] = 1;
    let load: [&[u8]; 3] = [b"BF.LOAD", b"both", &both];
    assert_eq!(client.call(&load), ok());
    same(&mut client, "both");
    sums::is_balanced(&mut client);
    assert_eq!(client.cmd("BF.ADD chunked a"), int(1));
}

#[test]
fn memory_stays_level_however_many_periods_pass() {
    let server = Server::start();
    let mut client = server.client();
    let mut begun = Vec::new();
    for period_ms in 1..=5 {
        let create = format!("BF.RESERVE k{period_ms} 0.01 1000 WINDOW {period_ms} PERIODS 3");
        assert_eq!(client.cmd(&create), ok());
        begun.push(info(&mut client, &format!("k{period_ms}"), "SIZE"));
    }
    let start = clock(&mut client);
    let mut used = Vec::new();
    let mut item = 0;
    wait_until("hundreds of periods have passed", || {
        for key in 1..=5 {
            let mut adds = Vec::new();
            for _ in 0..20 {
                item += 1;
                adds.push(command(&format!("BF.ADD k{key} {item}")));
            }
            for added in client.call_all(&adds) {
                assert!(!added.is_error(), "{added:?}");
            }
            // Three periods and one ahead, each of one filter as at the start.
            let size = info(&mut client, &format!("k{key}"), "SIZE");
            assert!(size <= 4 * begun[key - 1], "{size}");
        }
        used.push(memory(&server, "used_memory"));
        clock(&mut client) - start > 1500
    });
    let (first, rest) = used.split_at(used.len() / 4);
    let most = |used: &[i64]| *used.iter().max().expect("some");
    assert!(most(rest) < most(first) + 256 * 1024, "{used:?}");
    sums::is_balanced(&mut client);
}

/// Filters of periods that went on without a gap share memory, and yet what passes in a gap is freed.
#[test]
fn memory_follows_after_a_gap() {
    let (periods, period_ms) = (16, 100);
    let server = Server::start();
    let replica = Server::replica_of(&server).start();
    let mut client = server.client();
    let create = format!("BF.RESERVE k 0.01 4000 WINDOW {period_ms} PERIODS {periods}");
    assert_eq!(client.cmd(&create), ok());
    let filter = info(&mut client, "k", "SIZE");
    let mut items = 0..;
    let mut add = |client: &mut Client, count| {
        let items: Vec<String> = items
            .by_ref()
            .take(count)
            .map(|n: u32| n.to_string())
            .collect();
        client.cmd(&format!("BF.MADD k {}", items.join(" ")))
    };
    let start = clock(&mut client);
    wait_until("a window has passed", || {
        add(&mut client, 20);
        clock(&mut client) - start > (periods + 2) * period_ms
    });
    let last = clock(&mut client);
    wait_until("most of it has passed again", || {
        clock(&mut client) - last > (periods - 4) * period_ms
    });
    for _ in 0..40 {
        add(&mut client, 100);
    }
    // At the time of one more write.
    assert_eq!(client.cmd("MULTI"), ok());
    add(&mut client, 1);
    client.cmd("BF.INFO k LIVEPERIODS");
    let replies = client.cmd("EXEC");
    let live = replies.as_array()[1].as_array()[0].as_int();
    wait_in_sync(&server, &replica);
    for server in [&server, &replica] {
        let mut client = server.client();
        // Less than half is kept of what has passed, and one may pass meanwhile.
        let size = info(&mut client, "k", "SIZE");
        assert!(size <= (2 * live + 2) * filter, "{size} bytes of {live}");
        sums::is_balanced(&mut client);
    }
}

#[test]
fn info_tells_of_the_window() {
    let server = Server::start();
    let mut client = server.client3();
    let create = "BF.INSERT k WINDOW 1000000000000 PERIODS 2 CAPACITY 10 TTL 1 ITEMS a b";
    assert_eq!(client.cmd(create).as_array().len(), 2);
    assert_eq!(client.cmd("BF.ADD k a"), crate::harness::boolean(false));
    let Reply::Map(rows) = client.cmd("BF.INFO k") else {
        panic!("no map");
    };
    let titles: Vec<String> = rows.iter().map(|(title, _)| title.text()).collect();
    let expected = [
        "Capacity",
        "Size",
        "Number of filters",
        "Number of items inserted",
        "Expansion rate",
        "Error rate",
        "Tightening ratio",
        "Max scaled capacity",
        "Estimated error rate",
        "Window",
        "Periods",
        "Live periods",
    ];
    assert_eq!(titles, expected);
    let value = |title: &str| {
        let row = rows.iter().find(|(told, _)| told.text() == title);
        row.expect("it is told").1.clone()
    };
    assert_eq!(value("Capacity"), int(20));
    assert_eq!(value("Number of filters"), int(2));
    assert_eq!(value("Number of items inserted"), int(3));
    assert_eq!(value("Window"), int(1_000_000_000_000));
    assert_eq!(value("Periods"), int(2));
    assert_eq!(value("Live periods"), int(2));
    let debug = client.cmd("BF.DEBUG k");
    let lines: Vec<String> = debug.as_array().iter().map(Reply::text).collect();
    assert_eq!(lines[0], "size:3");
    let periods = lines[1..].iter().map(|line| -> u64 {
        let (_, period) = line.rsplit_once(" period:").expect("a period");
        period.parse().expect("a number")
    });
    let now = clock(&mut client) / 1_000_000_000_000;
    assert_eq!(periods.collect::<Vec<_>>(), [now - 1, now]);
}
