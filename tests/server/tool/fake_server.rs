//! `valkeybloom list` on a server that is played: its figures would take real keys long to have, and it lacks what
//! other modules and servers lack.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use serde_json::{Value, json};

use crate::harness::{Reply, Server, array, bulk, error, int, nil, ok};
use crate::support::primary::read_command;

use super::list::keys;
use super::{run, url};

/// A key of a played server.
#[derive(Clone)]
struct Key {
    name: &'static str,
    kind: String,
    /// The fields of its INFO command: `nil`, whole numbers, or texts.
    info: BTreeMap<String, String>,
    /// Other commands that describe it. The server refuses those that are missing.
    others: Vec<(&'static str, Reply)>,
}

/// Returns the key that a line describes: a type, or a structure with its first figures, and fields of its INFO command.
fn key(name: &'static str, line: &str) -> Key {
    let (first, fields) = line.split_once(", ").unwrap_or((line, ""));
    let mut figures = first.split(' ');
    let (kind, names, usual) = match figures.next().expect("a type") {
        "bloom" => (
            "bloomfltr",
            "Number of items inserted, Capacity, Number of filters, Size",
            "Error rate 0.01, Expansion rate 2, Max scaled capacity 31000000",
        ),
        "cuckoo" => (
            "MBbloomCF",
            "Number of items inserted, Number of buckets, Number of filters, Expansion rate",
            "Bucket size 2",
        ),
        "counts" => ("CMSk-TYPE", "count, cell_size", "width 2000, depth 7"),
        "top" => ("TopK-TYPE", "width", "k 10, depth 7, decay 0.9"),
        kind => (kind, "", ""),
    };
    let fields = usual.split(", ").chain(fields.split(", "));
    let fields = fields.filter_map(|field| field.rsplit_once(' '));
    let fields = names.split(", ").zip(figures).chain(fields);
    let info = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Key {
        name,
        kind: kind.to_owned(),
        info: info.collect(),
        others: Vec::new(),
    }
}

impl Key {
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
    /// The error of BF.INFO with ALL; `None` for this module, which must not get the plain form.
    refusal: Option<&'static str>,
    /// The number of such refusals.
    refused: AtomicUsize,
    /// The reply to CLUSTER SLOTS, if it is a node of a cluster.
    slots: Option<Reply>,
    /// The number of descriptions that are still refused because the cluster is down.
    down: AtomicUsize,
    /// A key whose DUMP is larger than the program takes.
    large: Option<&'static str>,
}

/// Starts a server with these keys, and returns its address.
fn play(keys: Vec<Key>) -> String {
    let played = Played {
        keys,
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
            if words[0] == "DUMP" && self.large == Some(words[1]) {
                stream.write_all(b"$2000000000\r\n")?;
                continue;
            }
            stream.write_all(&encoded(&self.reply(&words)))?;
        }
    }

    fn reply(&self, words: &[&str]) -> Reply {
        let named = |name: &str| self.keys.iter().find(|key| key.name == name);
        let info = |name| named(name).map_or_else(|| error("ERR not found"), Key::info);
        match *words {
            ["HELLO"] => {
                let mode = self.slots.as_ref().map_or("standalone", |_| "cluster");
                array([bulk("mode"), bulk(mode)])
            }
            ["CLUSTER", "SLOTS"] => self.slots.clone().expect("it is a node of a cluster"),
            ["PING"] => Reply::Simple("PONG".to_owned()),
            ["CLIENT", ..] => ok(),
            ["SCAN", .., kind] => {
                let found = self.keys.iter().filter(|key| key.kind == kind);
                array([bulk("0"), array(found.map(|key| bulk(key.name)))])
            }
            ["TYPE", name] => Reply::Simple(named(name).map_or("none", |key| &key.kind).to_owned()),
            ["BF.INFO", ..] if is_one_less(&self.down) => error("CLUSTERDOWN Hash slot not served"),
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

/// Lowers a number, unless it is 0.
fn is_one_less(number: &AtomicUsize) -> bool {
    let lower = number.fetch_update(Relaxed, Relaxed, |number| number.checked_sub(1));
    lower.is_ok()
}

/// Starts a server that replies with these bytes to SCAN, in turn, and with OK to all other commands. Its connection
/// ends after bytes that don't end a line.
pub fn scanned(replies: &'static [&'static str]) -> String {
    let listener = listen();
    let address = listener.local_addr().expect("it is bound").to_string();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the program connects");
        let reader = stream.try_clone().expect("it is open");
        let (mut commands, mut replies) = (BufReader::new(reader), replies.iter().cycle());
        while let Ok(words) = read_command(&mut commands)
            && let Some(word) = words.first()
        {
            let next = (word == b"SCAN").then(|| replies.next()).flatten();
            let reply = next.map_or("+OK\r\n", |reply| reply);
            if stream.write_all(reply.as_bytes()).is_err() || !reply.ends_with('\n') {
                break;
            }
        }
    });
    address
}

/// A server is not trusted with the program's memory and time.
#[test]
fn replies_without_bounds_end_a_run() {
    let large = "a reply is larger than this program takes";
    for (replies, why) in [
        (&["$400000000000\r\n"][..], large),
        (&["*2000000000\r\n"], large),
        (&["*2\r\n$1\r\n0\r\n*9000000\r\n"], large),
        (
            &["$\x0b400000000000\r\n"],
            "a reply has a malformed length or end of line",
        ),
        (
            &["*2\r\n$1\r\n5\r\n*0\r\n", "*2\r\n$1\r\n7\r\n*0\r\n"],
            ": SCAN does not end there",
        ),
        (&["HTTP/1.1 400 Bad Request\r\n"], "Unexpected `72`"),
    ] {
        let failed = run(&["list", &scanned(replies)]).failed(1);
        // Without advice: another attempt would fail as well.
        assert!(failed.ends_with(why), "{failed}");
    }
}

#[test]
fn a_connection_that_ends_within_a_reply_is_lost() {
    for replies in [&["*2\r\n$1"], &["*2\r\n$1\r\n5\r\n*1\r\n$3\r\nke"]] {
        let failed = run(&["list", &scanned(replies)]).failed(1);
        let advice = "; when the server is up again, run this again";
        assert!(failed.ends_with(advice), "{failed}");
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

/// Returns keys of the peers, with what they report and this module does not.
fn keys_of_peers() -> Vec<Key> {
    let list = array([bulk("a"), bulk("b"), nil()]);
    vec![
        key(
            "RedisBloom",
            "MBbloom--, Capacity 300, Size 1000, Number of filters 2, Number of items inserted 150, Expansion rate 2",
        ),
        // It does not grow, so its capacity is the limit.
        key(
            "valkey-bloom",
            "bloomfltr, Capacity 300, Size 1000, Number of filters 2, Number of items inserted 150, \
             Expansion rate nil, Error rate 0.01",
        ),
        key("unknown", "bloomfltr"),
        key("3 × 2", "cuckoo 0 10 3 2"),
        key("3 × 1", "cuckoo 0 10 3 1"),
        key("1 × 0", "cuckoo 0 10 1 0"),
        // The sum of increments wraps.
        key("counts", "counts -1 4"),
        // RedisBloom fills the list with nulls.
        key("top", "top 50, k 4").replying("TOPK.LIST", list),
    ]
}

#[test]
fn fields_that_a_server_lacks_are_unknown() {
    let none = Value::Null;
    let (of_redisbloom, of_valkey_bloom) = (
        json!({ "full": 0.5, "bytes": 1000, "error_rate": none, "can_grow_to": none, "expansion": 2, "ttl_ms": none }),
        json!({ "error_rate": 0.01, "error_rate_now": none, "can_grow_to": 300, "expansion": 0 }),
    );
    let of_unknown = json!({ "items": none, "bytes": none, "full": none });
    let of_counts =
        json!({ "items": u64::MAX, "error_rate": 0.001, "capacity": none, "full": none });
    let fields = [
        ("RedisBloom", of_redisbloom),
        ("valkey-bloom", of_valkey_bloom),
        ("unknown", of_unknown),
        ("3 × 2", json!({ "capacity": 140 })),
        ("3 × 1", json!({ "capacity": 60 })),
        ("1 × 0", json!({ "capacity": 20 })),
        ("counts", of_counts),
        ("top", json!({ "items": 2, "capacity": 4, "full": 0.5 })),
    ];
    for refusal in [
        "Invalid information value",
        "ERR invalid information value",
        "ERR wrong number of arguments for 'bf.info' command",
        // Servers before Redis 7 name the command as it was sent.
        "ERR wrong number of arguments for 'BF.INFO' command",
    ] {
        let peer = Arc::new(Played {
            keys: keys_of_peers(),
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
        assert_eq!(of, format!("missing does not exist at {address}"));
    }
}

#[test]
fn a_key_whose_description_is_refused_is_not_gone() {
    let peer = Played {
        keys: vec![key("damaged", "bloom 1 2 3 4")],
        refusal: Some("ERR it can't say"),
        ..Played::default()
    };
    let address = serve_all(listen(), peer.into());
    let failed = run(&["list", &address]).failed(1);
    assert!(
        failed.starts_with("1 key could not be read at "),
        "{failed}"
    );
    assert!(failed.ends_with(": ERR it can't say"), "{failed}");
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
        let key = |name| key(name, "bloom 1 10 1 100");
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
    let options = ["--json", "--type", "bloomfltr", "--rate", "40"];
    let found = run(&[&["list", &addresses[0]][..], &options].concat()).json();
    assert_eq!(keys(&found).len(), 8);
    assert_eq!(nodes.map(|node| node.refused.load(Relaxed)), [1, 0]);
}

/// The client library calls a command nine times.
#[test]
fn keys_are_read_once_their_cluster_is_up_again() {
    let listener = listen();
    let port = listener.local_addr().expect("it is bound").port();
    let own = array([bulk("127.0.0.1"), int(port.into())]);
    let node = Played {
        keys: vec![key("a", "bloom 1 10 1 100"), key("b", "bloom 2 10 1 100")],
        slots: Some(array([array([int(0), int(16383), own])])),
        down: AtomicUsize::new(25),
        ..Played::default()
    };
    let found = run(&["list", &serve_all(listener, node.into()), "--json"]).json();
    let items = keys(&found);
    assert_eq!(
        (&items["a"]["items"], &items["b"]["items"]),
        (&1.into(), &2.into())
    );
}

/// The reply ends a connection, and other keys need another one.
#[test]
fn a_value_whose_dump_is_too_large_is_refused_alone() {
    let to = Server::start();
    let mut far = to.client();
    far.ok("TOPK.RESERVE later 10");
    let later = far.cmd("DUMP later");
    let size = int(1 << 20);
    let replying = |key: Key| {
        let key = key.replying("MEMORY USAGE", size.clone());
        key.replying("PEXPIRETIME", int(-1))
    };
    let from = Played {
        keys: vec![
            replying(key("large", "top 8")),
            replying(key("later", "top 8").replying("DUMP", later)),
        ],
        large: Some("large"),
        ..Played::default()
    };
    let from = serve_all(listen(), from.into());
    for (command, outcome) in [("compare", "same"), ("move", "moved")] {
        if command == "move" {
            far.run("FLUSHALL");
        } else {
            far.ok("TOPK.RESERVE large 10");
        }
        let run = run(&[command, &from, &url(&to), "--json"]);
        assert_eq!(run.status, 1, "{}", run.err);
        let reported: Value = serde_json::from_str(&run.out).expect("it is JSON");
        let large = &reported["keys"][0];
        assert_eq!(
            (&large["key"], &large["outcome"]),
            (&"large".into(), &"refused".into())
        );
        let reason = format!("{from}: a reply is larger than this program takes");
        assert_eq!(large["reason"], reason);
        match command {
            "move" => assert_eq!(reported["keys"][1]["outcome"], outcome),
            _ => assert_eq!(reported["types"]["TopK-TYPE"][outcome], 1),
        }
    }
}

#[test]
fn numbers_descend_and_unknown_values_come_last_both_ways() {
    let all = [
        key("c", "counts 2 4").replying("PTTL", int(-1)),
        key("a", "counts nil 4").replying("PTTL", error("NOPERM no permission")),
        key("d", "counts 9 4").replying("PTTL", int(5)),
        key("b", "counts 2 4").replying("PTTL", int(70)),
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
            let words = ["list", &play(all.to_vec()), "--csv", "--sort", by];
            let csv = run(&[&words[..], options].concat()).done();
            let keys: String = csv.lines().skip(1).map(|line| &line[..1]).collect();
            assert_eq!(keys, order, "{by}");
        }
    }
}

#[test]
fn cells_have_a_form_in_tables_and_in_csv() {
    let filter = |name, now: &str, ttl| {
        let line = format!("bloom 1234567 2000000 3 5, Estimated error rate {now}");
        key(name, &line).replying("PTTL", int(ttl))
    };
    let all = [
        filter("a key\n", "0", -1),
        filter("b", "0.0000000000000321", 999),
        filter("c", "0.000001, Feed readers 3", 59_999),
        filter("d", "0.001234, Feed readers 0", 3_600_000),
        filter("e,\"f\"", "nil", 90_061_000),
    ];
    let form = |form| run(&["list", &play(all.to_vec()), form]).done();
    let csv = form("--csv");
    assert_eq!(csv.matches("\r\n").count(), csv.lines().count());
    let shown = form("--quiet") + &csv.replace('\r', "");
    assert_eq!(shown, include_str!("cells.txt"));
}
