//! `valkeybloom list` on a server that is played: its figures would take real keys long to have, and it lacks what
//! other modules and servers lack.

use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use serde_json::{Value, json};

use crate::harness::{Reply, array, bulk, error, int, nil, ok};
use crate::support::primary::read_command;

use super::list::keys;
use super::run;

const FILTER_MEMORY: &str = "bf.bloom-filter-max-memory-usage";
const OBJECT_MEMORY: &str = "bf.bloom-memory-usage-limit";
const CUCKOO_FILTERS: &str = "bf.cf-max-expansions";

const BLOOM: &str = "bloomfltr";
const CUCKOO: &str = "MBbloomCF";
const COUNT_MIN: &str = "CMSk-TYPE";
const TOP_K: &str = "TopK-TYPE";
const T_DIGEST: &str = "TDIS-TYPE";

/// A key of a played server.
#[derive(Clone)]
struct Key {
    name: &'static str,
    kind: &'static str,
    /// The fields of its INFO command: `nil`, whole numbers, or texts.
    info: Vec<(&'static str, String)>,
    /// Other commands that describe it. The server refuses those that are missing.
    others: Vec<(&'static str, Reply)>,
}

fn key(name: &'static str, kind: &'static str, info: &[(&'static str, &str)]) -> Key {
    let info = info
        .iter()
        .map(|(field, value)| (*field, (*value).to_owned()));
    Key {
        name,
        kind,
        info: info.collect(),
        others: Vec::new(),
    }
}

impl Key {
    /// Sets a field of the INFO command.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "numbers and texts are given alike"
    )]
    fn with(mut self, field: &'static str, value: impl ToString) -> Self {
        self.info.retain(|(name, _)| *name != field);
        self.info.push((field, value.to_string()));
        self
    }

    /// Sets the reply to another command.
    fn replying(mut self, command: &'static str, reply: Reply) -> Self {
        self.others.push((command, reply));
        self
    }

    fn info(&self) -> Reply {
        array(self.info.iter().flat_map(|(field, value)| {
            let number = value.parse().map(int);
            let value = match &value[..] {
                "nil" => nil(),
                text => number.unwrap_or_else(|_| bulk(text)),
            };
            [bulk(field), value]
        }))
    }
}

/// A server that is played.
#[derive(Default)]
struct Played {
    keys: Vec<Key>,
    settings: Vec<(&'static str, u64)>,
    /// The error of BF.INFO with ALL; `None` for this module, which must not get the plain form.
    refusal: Option<&'static str>,
    /// The number of such refusals.
    refused: AtomicUsize,
    /// The reply to CLUSTER SLOTS, if it is a node of a cluster.
    slots: Option<Reply>,
}

/// Starts a server with these keys and settings, and returns its address.
fn play(keys: Vec<Key>, settings: &[(&'static str, u64)]) -> String {
    let played = Played {
        keys,
        settings: settings.to_vec(),
        ..Played::default()
    };
    serve_all(listen(), played.into())
}

fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port is free")
}

/// Starts a server, and returns its address. It ends with the process.
fn serve_all(listener: TcpListener, server: Arc<Played>) -> String {
    let address = listener.local_addr().expect("it is bound").to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, server) = (stream.expect("the program connects"), Arc::clone(&server));
            thread::spawn(move || server.serve(&stream));
        }
    });
    address
}

impl Played {
    fn serve(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let mut commands = BufReader::new(stream.try_clone()?);
        loop {
            let words = read_command(&mut commands)?;
            let words: Vec<_> = words
                .iter()
                .map(|word| String::from_utf8_lossy(word))
                .collect();
            let words: Vec<&str> = words.iter().map(|word| &word[..]).collect();
            if words.is_empty() {
                return Ok(());
            }
            stream.write_all(&encoded(&self.reply(&words)))?;
        }
    }

    fn reply(&self, words: &[&str]) -> Reply {
        let named = |name: &str| self.keys.iter().find(|key| key.name == name);
        let info = |name| named(name).map_or_else(|| error("ERR not found"), Key::info);
        match *words {
            ["INFO", ..] => bulk(format!(
                "cluster_enabled:{}",
                i32::from(self.slots.is_some())
            )),
            ["CLUSTER", "SLOTS"] => self.slots.clone().expect("it is a node of a cluster"),
            ["PING"] => Reply::Simple("PONG".to_owned()),
            ["CLIENT", ..] => ok(),
            ["SCAN", .., kind] => {
                let found = self.keys.iter().filter(|key| key.kind == kind);
                array([bulk("0"), array(found.map(|key| bulk(key.name)))])
            }
            ["CONFIG", "GET", name] => {
                let found = self.settings.iter().find(|(setting, _)| *setting == name);
                let found = found.map(|(_, value)| array([bulk(name), bulk(value.to_string())]));
                found.unwrap_or_else(|| error("NOPERM no permission"))
            }
            ["TYPE", name] => Reply::Simple(named(name).map_or("none", |key| key.kind).to_owned()),
            ["BF.INFO", name, "ALL"] => match self.refusal {
                None => info(name),
                Some(refusal) => {
                    self.refused.fetch_add(1, Relaxed);
                    error(refusal)
                }
            },
            ["BF.INFO", _] if self.refusal.is_none() => error("NOPERM not without ALL"),
            [command, name] if matches!(command.split_once('.'), Some((_, "INFO"))) => info(name),
            [command, .., name] => {
                let others = named(name).into_iter().flat_map(|key| &key.others);
                let mut others = others.filter(|(name, _)| name.starts_with(command));
                let reply = others.next().map(|(_, reply)| reply.clone());
                reply.unwrap_or_else(|| error("NOPERM no permission"))
            }
            _ => error("NOPERM no permission"),
        }
    }
}

/// Returns a reply in RESP2.
fn encoded(reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::Simple(text) => format!("+{text}\r\n").into_bytes(),
        Reply::Error(text) => format!("-{text}\r\n").into_bytes(),
        Reply::Int(number) => format!(":{number}\r\n").into_bytes(),
        Reply::Nil => b"$-1\r\n".to_vec(),
        Reply::Bulk(bytes) => {
            let length = format!("${}\r\n", bytes.len()).into_bytes();
            [&length[..], bytes, b"\r\n"].concat()
        }
        Reply::Array(items) => {
            let count = format!("*{}\r\n", items.len()).into_bytes();
            let items = items.iter().flat_map(encoded);
            count.into_iter().chain(items).collect()
        }
        other => panic!("not in RESP2: {other:?}"),
    }
}

/// Requires that the commands of the advice on a key are these.
#[track_caller]
fn assert_advised(key: &Key, settings: &[(&'static str, u64)], commands: &[&str]) {
    let address = play(vec![key.clone()], settings);
    let found = run(&["list", &address, "--json", "--advice"]).json();
    let advice = found["keys"][0]["advice"].as_array().expect("a list");
    let advised: Vec<_> = advice.iter().map(|advice| &advice["command"]).collect();
    assert_eq!(advised, commands, "{:?} {settings:?}", key.info);
}

fn bloom(items: u64, capacity: u64, filters: u64, bytes: u64) -> Key {
    key(
        "k",
        BLOOM,
        &[("Error rate", "0.01"), ("Expansion rate", "2")],
    )
    .with("Number of items inserted", items)
    .with("Capacity", capacity)
    .with("Number of filters", filters)
    .with("Size", bytes)
    .with("Max scaled capacity", 31_000_000)
}

/// Makes it a filter with a window.
fn windowed(key: Key, live_periods: u64, items_in_period: u64) -> Key {
    key.with("Window", 3_600_000)
        .with("Periods", 24)
        .with("Live periods", live_periods)
        .with("Items in current period", items_in_period)
}

#[test]
fn stacks_that_one_filter_could_replace_are_advised_on() {
    for (key, advised) in [
        (bloom(500_000, 500_000, 1, 1_380_575), None),
        // The figures of `valkeybloom size`: 10 filters from 1,000, when full.
        (bloom(1_023_000, 1_023_000, 10, 2_417_967), Some("1534500")),
        // Two filters that take hardly more than one are good enough.
        (bloom(1_500_000, 1_500_000, 2, 2_200_000), None),
        (windowed(bloom(40_000, 40_000, 2, 90_000), 4, 0), None),
        (
            windowed(bloom(40_000, 40_000, 20, 130_000), 4, 0),
            Some("2400 WINDOW 3600000 PERIODS 24"),
        ),
    ] {
        let command = advised.map(|words| format!("BF.RESERVE {{k}}:new 0.01 {words}"));
        let commands: Vec<&str> = command.iter().map(String::as_str).collect();
        let settings = [(FILTER_MEMORY, 64 << 20), (OBJECT_MEMORY, 0)];
        assert_advised(&key, &settings, &commands);
        // Nothing is advised on values of a server that reports little.
        assert_advised(&key.with("Error rate", "nil"), &settings, &[]);
    }
}

#[test]
fn limits_that_end_growth_are_advised_on() {
    let full = |items: u64| bloom(items, 31_000_000, 1, 42_796_951);
    let fixed = |key: Key| key.with("Expansion rate", "nil");
    let reserve = "BF.RESERVE {k}:new 0.01 62000000 NONSCALING";
    let (near, mib) = (28_000_000, 1 << 20);
    let set = |values: &str| format!("CONFIG SET {values}");
    // The next filter has some 100 MB: 62,000,000 items at a rate of 0.01 / 6.
    for (key, limits, command) in [
        (full(27_000_000), Some([64 * mib, 0]), None),
        (full(near), None, None),
        (
            full(near),
            Some([64 * mib, 0]),
            Some(set(&format!("{FILTER_MEMORY} 134217728"))),
        ),
        (
            full(near),
            Some([1024 * mib, 100 * mib]),
            Some(set(&format!("{OBJECT_MEMORY} 209715200"))),
        ),
        (
            full(near),
            Some([64 * mib, 1024 * mib]),
            Some(set(&format!("{FILTER_MEMORY} 134217728"))),
        ),
        (
            full(near),
            Some([64 * mib, 100 * mib]),
            Some(set(&format!(
                "{FILTER_MEMORY} 134217728 {OBJECT_MEMORY} 209715200"
            ))),
        ),
        (fixed(full(near)), None, Some(reserve.to_owned())),
        // The items of all periods count.
        (
            windowed(full(near), 4, 7),
            Some([64 * mib, 0]),
            Some(set(&format!("{FILTER_MEMORY} 134217728"))),
        ),
        (
            fixed(windowed(full(near), 1, near)),
            None,
            Some("BF.RESERVE {k}:new 0.01 2480000 NONSCALING WINDOW 3600000 PERIODS 24".to_owned()),
        ),
        // Not even the first table has room.
        (
            windowed(full(near), 4, 0).with("Max scaled capacity", 0),
            Some([64 * mib, 50_000_000]),
            Some(set(&format!("{OBJECT_MEMORY} 100000000"))),
        ),
    ] {
        let settings =
            limits.map(|[filter, object]| [(FILTER_MEMORY, filter), (OBJECT_MEMORY, object)]);
        let commands: Vec<&str> = command.iter().map(String::as_str).collect();
        assert_advised(
            &key,
            settings.as_ref().map_or(&[], |all| &all[..]),
            &commands,
        );
    }
}

#[test]
fn a_rate_counts_as_exceeded_beyond_the_error_of_the_estimate() {
    for (rate, now, commands) in [
        ("0.01", "0.019", &[][..]),
        ("0.01", "0.03", &["BF.RESERVE {k}:new 0.01 450"]),
        ("0.0001", "0.00025", &[]),
    ] {
        let key = bloom(300, 300, 1, 500).with("Error rate", rate);
        assert_advised(&key.with("Estimated error rate", now), &[], commands);
    }
}

fn cuckoo(items: u64, buckets: u64, filters: u64, expansion: u64) -> Key {
    key("k", CUCKOO, &[("Bucket size", "2")])
        .with("Number of items inserted", items)
        .with("Number of buckets", buckets)
        .with("Number of filters", filters)
        .with("Expansion rate", expansion)
}

fn counts(count: i64, cell_size: u64) -> Key {
    key("k", COUNT_MIN, &[("width", "2000"), ("depth", "7")])
        .with("count", count)
        .with("cell_size", cell_size)
}

fn top_k(width: u64) -> Key {
    let info = [("k", "10"), ("depth", "7"), ("decay", "0.9")];
    key("k", TOP_K, &info).with("width", width)
}

#[test]
fn sketches_have_advice_of_their_own() {
    let digest = key(
        "k",
        T_DIGEST,
        &[("Compression", "100"), ("Observations", "1")],
    );
    let digest = digest.replying("MEMORY USAGE", int(950));
    let most = i64::from(u32::MAX);
    let settings = [
        (FILTER_MEMORY, 64 << 20),
        (OBJECT_MEMORY, 1000),
        (CUCKOO_FILTERS, 32),
    ];
    for (key, commands) in [
        (cuckoo(94, 50, 1, 0), &["CF.RESERVE {k}:new 200"][..]),
        (cuckoo(89, 50, 1, 0), &[]),
        (cuckoo(94, 50, 1, 1), &[]),
        (cuckoo(15 * 900, 512, 15, 1), &[]),
        (cuckoo(16 * 900, 512, 16, 1), &["CF.RESERVE {k}:new 32768"]),
        (top_k(49), &["TOPK.RESERVE {k}:new 10 200 7 0.9"]),
        (top_k(50), &[]),
        (counts(most, 4), &[]),
        (
            counts(most + 1, 4),
            &["CMS.INITBYDIM {k}:new 2000 7 CELL_SIZE 8"],
        ),
        (counts(most + 1, 8), &[]),
        (
            digest.clone(),
            &["CONFIG SET bf.bloom-memory-usage-limit 2000"],
        ),
    ] {
        assert_advised(&key, &settings, commands);
    }
    // Without these settings, nothing is known.
    assert_advised(&cuckoo(16 * 900, 512, 16, 1), &[], &[]);
    assert_advised(
        &digest,
        &[(FILTER_MEMORY, 64 << 20), (OBJECT_MEMORY, 0)],
        &[],
    );
}

/// A successor has the slot of its key, whatever its braces, and keys are words of a command line.
#[test]
fn commands_of_advice_name_keys_safely() {
    for (name, successor) in [
        ("seen", "{seen}:new"),
        ("{app}:seen", "{app}:seen:new"),
        ("a b", "\"{a b}:new\""),
        ("a{b", "{a{b}:new"),
        ("a}b", "a}b:new:29388"),
    ] {
        let named = Key { name, ..top_k(49) };
        let command = format!("TOPK.RESERVE {successor} 10 200 7 0.9");
        assert_advised(&named, &[], &[&command]);
    }
    let idle = Key {
        name: "a \"key\"",
        ..top_k(50)
    };
    for (days, commands) in [(29, &[][..]), (30, &[r#"UNLINK "a \"key\"""#])] {
        let idle = idle.clone().replying("OBJECT IDLETIME", int(days * 86_400));
        assert_advised(&idle, &[], commands);
    }
}

/// What the peers report, and this module does not.
#[test]
fn fields_that_a_server_lacks_are_unknown() {
    let peer = [
        ("Capacity", "300"),
        ("Size", "1000"),
        ("Number of filters", "2"),
        ("Number of items inserted", "150"),
        ("Expansion rate", "2"),
    ];
    let list = array([bulk("a"), bulk("b"), nil()]);
    let all = [
        key("RedisBloom", "MBbloom--", &peer),
        // It does not grow, so its capacity is the limit.
        key("valkey-bloom", BLOOM, &peer)
            .with("Expansion rate", "nil")
            .with("Error rate", "0.01"),
        key("unknown", BLOOM, &[]),
        Key {
            name: "3 × 2",
            ..cuckoo(0, 10, 3, 2)
        },
        Key {
            name: "3 × 1",
            ..cuckoo(0, 10, 3, 1)
        },
        Key {
            name: "1 × 0",
            ..cuckoo(0, 10, 1, 0)
        },
        // The sum of increments wraps.
        Key {
            name: "counts",
            ..counts(-1, 4)
        },
        // RedisBloom fills the list with nulls.
        Key {
            name: "top",
            ..top_k(50).with("k", 4)
        }
        .replying("TOPK.LIST", list),
    ];
    let none = Value::Null;
    let fields = [
        (
            "RedisBloom",
            json!({ "full": 0.5, "bytes": 1000, "error_rate": none, "can_grow_to": none, "expansion": 2, "ttl_ms": none }),
        ),
        (
            "valkey-bloom",
            json!({ "error_rate": 0.01, "error_rate_now": none, "can_grow_to": 300, "expansion": 0 }),
        ),
        (
            "unknown",
            json!({ "items": none, "bytes": none, "full": none }),
        ),
        (r#""3 \xc3\x97 2""#, json!({ "capacity": 140 })),
        (r#""3 \xc3\x97 1""#, json!({ "capacity": 60 })),
        (r#""1 \xc3\x97 0""#, json!({ "capacity": 20 })),
        (
            "counts",
            json!({ "items": u64::MAX, "error_rate": 0.001, "capacity": none, "full": none }),
        ),
        ("top", json!({ "items": 2, "capacity": 4, "full": 0.5 })),
    ];
    for refusal in [
        "Invalid information value",
        "ERR invalid information value",
        "ERR wrong number of arguments for 'bf.info' command",
    ] {
        let peer = Arc::new(Played {
            keys: all.to_vec(),
            refusal: Some(refusal),
            ..Played::default()
        });
        let address = serve_all(listen(), Arc::clone(&peer));
        // Five keys at a time: the first batch has one filter, which shows that there is no ALL.
        let found = run(&["list", &address, "--json", "--rate", "100"]).json();
        assert_eq!(peer.refused.load(Relaxed), 1, "{refusal}");
        let found = keys(&found);
        for (name, fields) in &fields {
            for (field, value) in fields.as_object().expect("an object") {
                assert_eq!(found[*name][field], *value, "{name}: {field}");
            }
        }
        let of = run(&["size", "--json", "of", &address, "RedisBloom"]).json();
        assert_eq!((&of["bytes"], &of["error_rate"]), (&1000.into(), &none));
        let of = run(&["size", "of", &address, "missing"]).failed(1);
        assert!(of.ends_with(": ERR not found"), "{of}");
    }
}

/// The nodes of a cluster differ while it is upgraded.
#[test]
fn each_node_of_a_cluster_gets_the_form_of_info_that_it_has() {
    let listeners = [(); 2].map(|()| listen());
    let [lower, upper] = listeners.each_ref().map(|listener| {
        let port = listener.local_addr().expect("it is bound").port();
        array([bulk("127.0.0.1"), int(port.into())])
    });
    let slots = array([
        array([int(0), int(8191), lower]),
        array([int(8192), int(16383), upper]),
    ]);
    // The slots of the first four keys are in the lower half.
    let names = [["b", "c", "f", "g"], ["a", "d", "e", "h"]];
    let refusals = [Some("Invalid information value"), None];
    let nodes = [0, 1].map(|at| {
        let key = |name| Key {
            name,
            ..bloom(1, 10, 1, 100)
        };
        Arc::new(Played {
            keys: names[at].map(key).to_vec(),
            refusal: refusals[at],
            slots: Some(slots.clone()),
            ..Played::default()
        })
    });
    let started = listeners.into_iter().zip(&nodes);
    let addresses: Vec<_> = started
        .map(|(listener, node)| serve_all(listener, Arc::clone(node)))
        .collect();
    // Two keys at a time, one of each node.
    let options = ["--json", "--type", BLOOM, "--rate", "40"];
    let found = run(&[&["list", &addresses[0]][..], &options].concat()).json();
    assert_eq!(keys(&found).len(), 8);
    assert_eq!(nodes.map(|node| node.refused.load(Relaxed)), [1, 0]);
}

#[test]
fn numbers_descend_and_unknown_values_come_last_both_ways() {
    let counts = |name, count: &str, ttl: Reply| {
        let info = [("width", "10"), ("depth", "2"), ("count", count)];
        key(name, COUNT_MIN, &info).replying("PTTL", ttl)
    };
    let all = [
        counts("c", "2", int(-1)),
        counts("a", "nil", error("NOPERM no permission")),
        counts("d", "9", int(5)),
        counts("b", "2", int(70)),
    ];
    for (by, down, up) in [
        ("key", "abcd", "dcba"),
        // Equal numbers are in the order of keys.
        ("items", "dbca", "bcda"),
        // Nothing is known.
        ("bytes", "abcd", "abcd"),
        // A key that never expires has the longest time to live.
        ("ttl", "cbda", "dbca"),
    ] {
        for (options, order) in [(&[][..], down), (&["--reverse"], up)] {
            let words = ["list", &play(all.to_vec(), &[]), "--csv", "--sort", by];
            let csv = run(&[&words[..], options].concat()).done();
            let keys: String = csv.lines().skip(1).map(|line| &line[..1]).collect();
            assert_eq!(keys, order, "{by}");
        }
    }
}

#[test]
fn cells_have_a_form_in_tables_and_in_csv() {
    let filter = |name, ttl, now| {
        let key = Key {
            name,
            ..bloom(1_234_567, 2_000_000, 3, 5)
        };
        key.with("Estimated error rate", now)
            .replying("PTTL", int(ttl))
    };
    let all = [
        filter("a key\n", -1, "0"),
        filter("b", 999, "0.0000000000000321"),
        filter("c", 59_999, "0.000001").with("Feed readers", 3),
        filter("d", 3_600_000, "0.001234").with("Feed readers", 0),
        filter("e,\"f\"", 90_061_000, "nil"),
    ];
    let table = run(&["list", &play(all.to_vec(), &[]), "--quiet"]).done();
    let expected = "\
key        type           items   capacity  full %  rate  rate now  filters  bytes    ttl  readers
\"a key\\n\"  bloomfltr  1,234,567  2,000,000    61.7  0.01         0        3      5  never        -
b          bloomfltr  1,234,567  2,000,000    61.7  0.01   3.2e-14        3      5     0s        -
c          bloomfltr  1,234,567  2,000,000    61.7  0.01  0.000001        3      5    59s        3
d          bloomfltr  1,234,567  2,000,000    61.7  0.01    0.0012        3      5     1h        0
e,\"f\"      bloomfltr  1,234,567  2,000,000    61.7  0.01         -        3      5  1d 1h        -
5 keys, 25 bytes: 5 bloomfltr
";
    assert_eq!(table, expected);
    let csv = run(&["list", &play(all.to_vec(), &[]), "--csv"]).done();
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(lines.len(), 7, "{csv}");
    for (line, expected) in [
        (
            0,
            "key,type,items,capacity,full,error_rate,error_rate_now,filters,bytes,ttl_ms,readers",
        ),
        (
            1,
            r#""""a key\n""",bloomfltr,1234567,2000000,0.6172835,0.01,0,3,5,-1,"#,
        ),
        (
            2,
            "b,bloomfltr,1234567,2000000,0.6172835,0.01,0.0000000000000321,3,5,999,",
        ),
        (
            5,
            r#""e,""f""",bloomfltr,1234567,2000000,0.6172835,0.01,,3,5,90061000,"#,
        ),
    ] {
        assert_eq!(lines[line], expected);
    }
}
