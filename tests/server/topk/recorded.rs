//! Recordings of RedisBloom 8.8: its commands, dumps, files and logs give its bytes and answers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::harness::{
    Client, Reply, Server, array, bulk, double, error, int, nil, ok, wait_in_sync,
};
use crate::plain::Field;
use crate::support::aof::{commands, on_log_of, rewrite_aof, wire};
use crate::support::forged::{rdb_version, seal};
use crate::support::protocols::{in_both_protocols, table, truth};
use crate::support::recordings::hex;
use crate::support::sketches::{reseal, starts_on};

/// RDB version and checksum at the end of a DUMP.
const FOOTER_BYTES: usize = 10;

/// Where the heap is among the fields.
const HEAP: usize = 5;

fn file(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("tests/data/redisbloom-8.8-cmstopk").join(name)
}

fn json(name: &str) -> Value {
    let text = fs::read_to_string(file(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn word(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        other => hex(&other["hex"]),
    }
}

/// Returns the text of an error with a code, which most of RedisBloom's lack.
fn with_code(text: &str) -> String {
    let has_code = text.starts_with("ERR ") || text.starts_with("WRONGTYPE ");
    let code = if has_code { "" } else { "ERR " };
    format!("{code}{text}")
}

/// RedisBloom cuts an item at a zero byte.
fn cut(item: &[u8]) -> &[u8] {
    item.split(|byte| *byte == 0).next().unwrap()
}

/// Returns a reply with its items cut.
fn cut_all(reply: Reply) -> Reply {
    match reply {
        Reply::Bulk(item) => bulk(cut(&item)),
        Reply::Array(all) => array(all.into_iter().map(cut_all)),
        other => other,
    }
}

/// The bytes of a DUMP without compression that are left to read.
struct Dumped<'d>(&'d [u8]);

impl<'d> Dumped<'d> {
    fn take(&mut self, count: u64) -> &'d [u8] {
        let (taken, rest) = self.0.split_at(usize::try_from(count).unwrap());
        self.0 = rest;
        taken
    }

    fn length(&mut self) -> u64 {
        match self.take(1)[0] {
            short @ 0..0x40 => short.into(),
            long @ 0x40..0x80 => u64::from(long & 0x3f) << 8 | u64::from(self.take(1)[0]),
            0x80 => u32::from_be_bytes(self.take(4).try_into().unwrap()).into(),
            0x81 => u64::from_be_bytes(self.take(8).try_into().unwrap()),
            other => panic!("{other:#x} is not a length"),
        }
    }
}

/// Returns the fields of a DUMP without compression.
fn fields(dump: &[u8]) -> Vec<Field> {
    let mut from = Dumped(&dump[10..dump.len() - FOOTER_BYTES]);
    let mut fields = Vec::new();
    loop {
        fields.push(match from.length() {
            0 => return fields,
            2 => Field::Uint(from.length()),
            4 => Field::Double(f64::from_le_bytes(from.take(8).try_into().unwrap())),
            5 => {
                let length = from.length();
                Field::Bytes(from.take(length).to_vec())
            }
            other => panic!("no field is of kind {other}"),
        });
    }
}

/// Returns fields without addresses, with items as RedisBloom cuts them. If an item was cut before it was restored,
/// its length is lost, too: then `lengths` is not set.
fn masked(mut fields: Vec<Field>, lengths: bool) -> Vec<Field> {
    for (index, field) in fields.iter_mut().enumerate().skip(HEAP) {
        if let Field::Bytes(bytes) = field {
            if index > HEAP {
                *bytes = [cut(bytes), &[0]].concat();
                continue;
            }
            for entry in bytes.chunks_mut(24) {
                entry[8..16].fill(0);
                if !lengths {
                    entry[4..8].fill(0);
                }
            }
        }
    }
    fields
}

struct Recorded {
    key: String,
    value: Value,
    probe: Vec<Vec<u8>>,
}

/// Returns the recorded lists in order of creation.
fn lists() -> Vec<Recorded> {
    let all = json("objects.json");
    let order = all["order"].as_array().unwrap().iter();
    let lists = order.map(|key| {
        let value = all["objects"][key.as_str().unwrap()].clone();
        Recorded {
            key: key.as_str().unwrap().to_owned(),
            probe: value["probe"].as_array().unwrap().iter().map(hex).collect(),
            value,
        }
    });
    let lists: Vec<_> = lists
        .filter(|list| list.value["type"] == "TopK-TYPE")
        .collect();
    assert_eq!(lists.len(), 18);
    lists
}

/// Where a list on the server comes from.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    /// From commands: items are as long as they were.
    Commands,
    /// From a DUMP of RedisBloom, which cuts items at a zero byte.
    Dump,
}

impl Recorded {
    /// Returns whether its state hangs on random numbers of RedisBloom's process.
    fn hangs_on_chance(&self) -> bool {
        self.value["exact"] == "replay"
    }

    /// Returns a DUMP of it under this server's version of the RDB form.
    fn payload(&self, name: &str, version: [u8; 2]) -> Vec<u8> {
        let dump = hex(&self.value[name]);
        seal(dump[..dump.len() - FOOTER_BYTES].to_vec(), version)
    }

    /// Checks that the server has the recorded value.
    #[track_caller]
    fn is_there(&self, client: &mut Client, resp3: bool, source: Source) {
        let key = &self.key;
        let dump = client.cmd(&format!("DUMP {key}"));
        let own = fields(dump.as_bytes());
        let recorded = fields(&hex(&self.value["dump_plain"]));
        let lengths = source == Source::Commands;
        assert_eq!(masked(own, lengths), masked(recorded, lengths), "{key}");
        let of_all = |command: &str| -> Vec<Vec<u8>> {
            let words = [command.as_bytes(), key.as_bytes()].map(<[u8]>::to_vec);
            words
                .into_iter()
                .chain(self.probe.iter().cloned())
                .collect()
        };
        // An item that was cut can't be found.
        let is_whole = |item: &&Vec<u8>| source == Source::Commands || !item.contains(&0);
        for (command, name) in [("TOPK.QUERY", "query"), ("TOPK.COUNT", "count")] {
            let words = of_all(command);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let replies = client.call(&words);
            let recorded = self.value[name].as_array().unwrap().iter();
            let recorded = recorded.map(|number| match number.as_i64().unwrap() {
                yes if name == "query" => truth(resp3, yes == 1),
                count => int(count),
            });
            let replies = replies.as_array().iter().zip(&self.probe);
            for ((own, item), recorded) in replies.zip(recorded) {
                if is_whole(&item) {
                    assert_eq!(*own, recorded, "{key} {name} {item:?}");
                }
            }
        }
        let list = self.value["list"].as_array().unwrap().iter();
        let list: Vec<_> = list
            .map(|value| value.as_i64().map_or_else(|| bulk(word(value)), int))
            .collect();
        let own = client.cmd(&format!("TOPK.LIST {key} WITHCOUNT"));
        assert_eq!(cut_all(own), array(list.clone()), "{key}");
        let own = client.cmd(&format!("TOPK.LIST {key}"));
        let items = list.into_iter().step_by(2);
        assert_eq!(cut_all(own), array(items), "{key}");
        let info = &self.value["info"];
        let number = |name| int(info[name].as_i64().unwrap());
        let decay: f64 = info["decay"].as_str().unwrap().parse().unwrap();
        let own = client.cmd(&format!("TOPK.INFO {key}"));
        let own_decay = match &own {
            Reply::Map(pairs) => pairs[3].1.clone(),
            flat => flat.as_array()[7].clone(),
        };
        if resp3 {
            assert_eq!(own_decay, double(decay), "{key}");
        } else {
            // The digits are the server's.
            assert_eq!(own_decay.text().parse(), Ok(decay), "{key}");
        }
        let rows = ["k", "width", "depth"].map(|name| (name, number(name)));
        let rows = rows.into_iter().chain([("decay", own_decay)]);
        assert_eq!(own, table(resp3, rows.collect()), "{key}");
        assert_eq!(client.cmd(&format!("TYPE {key}")).text(), "TopK-TYPE");
    }
}

#[track_caller]
fn all_are_there(server: &Server, recorded: &[Recorded], source: Source) {
    for (mut client, resp3) in [(server.client(), false), (server.client3(), true)] {
        assert_eq!(client.cmd("CONFIG SET rdbcompression no"), ok());
        for list in recorded {
            list.is_there(&mut client, resp3, source);
        }
    }
}

/// Returns the lists that do not hang on chance, and are not restored.
fn certain() -> Vec<Recorded> {
    let mut certain = lists();
    certain.retain(|list| !list.hangs_on_chance());
    assert_eq!(certain.len(), 11);
    certain
}

/// Returns the commands of a list as they were given.
fn made(list: &Recorded) -> Vec<(Vec<Vec<u8>>, &Value)> {
    let made = list.value["made"].as_array().unwrap().iter();
    let made = made.map(|made| {
        let mut words = vec![made[0].as_str().unwrap().as_bytes().to_vec()];
        words.push(list.key.clone().into_bytes());
        words.extend(made[1].as_array().unwrap().iter().map(word));
        (words, &made[2])
    });
    made.collect()
}

fn reply(value: &Value) -> Reply {
    match value {
        Value::Null => nil(),
        Value::String(text) if text == "OK" => ok(),
        Value::Array(all) => array(all.iter().map(reply)),
        Value::Object(fields) if fields.contains_key("error") => {
            error(&with_code(fields["error"].as_str().unwrap()))
        }
        text => bulk(word(text)),
    }
}

/// The commands one by one, with the replies that RedisBloom gave, where chance plays no part in them. A replica and a
/// restart on the log have all of it.
#[test]
fn its_commands_have_its_replies() {
    let mut server = Server::with(&[("appendonly", "yes"), ("aof-use-rdb-preamble", "no")]);
    let replica = Server::replica_of(&server)
        .config("bf.bloom-filter-max-memory-usage", "1")
        .config("bf.bloom-memory-usage-limit", "1")
        .start();
    wait_in_sync(&server, &replica);
    let mut client = server.client();
    let recorded = certain();
    for list in &recorded {
        for (words, recorded) in made(list) {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let own = cut_all(client.call(&words));
            assert_eq!(own, reply(recorded), "{} {words:?}", list.key);
        }
    }
    all_are_there(&server, &recorded, Source::Commands);
    wait_in_sync(&server, &replica);
    all_are_there(&replica, &recorded, Source::Commands);
    server.restart();
    all_are_there(&server, &recorded, Source::Commands);
    rewrite_aof(&server);
    server.restart();
    all_are_there(&server, &recorded, Source::Commands);
}

/// Where chance plays a part, two servers with the same commands agree, and so do their replies.
#[test]
fn equal_commands_make_equal_lists() {
    let servers = [Server::start(), Server::start()];
    let mut clients = servers.each_ref().map(Server::client);
    let version = rdb_version(&mut clients[0]);
    for list in lists() {
        for (mut words, _) in made(&list) {
            if words[0] == b"RESTORE" {
                let value = words[3].len() - FOOTER_BYTES;
                words[3] = seal(words[3][..value].to_vec(), version);
            }
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let [one, other] = clients.each_mut().map(|client| client.call(&words));
            assert_eq!(one, other, "{}", list.key);
        }
    }
    let [one, other] = clients.each_mut().map(|client| client.cmd("DEBUG DIGEST"));
    assert_eq!(one, other);
}

#[test]
fn its_dumps_are_loaded() {
    let mut server = Server::start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    let recorded = lists();
    for list in &recorded {
        for name in ["dump_plain", "dump"] {
            let payload = list.payload(name, version);
            let key = list.key.as_bytes();
            let words: [&[u8]; 5] = [b"RESTORE", key, b"0", &payload, b"REPLACE"];
            assert_eq!(client.call(&words), ok(), "{} {name}", list.key);
        }
    }
    all_are_there(&server, &recorded, Source::Dump);
    server.restart_saving();
    all_are_there(&server, &recorded, Source::Dump);
    let replica = Server::replica_of(&server).start();
    wait_in_sync(&server, &replica);
    all_are_there(&replica, &recorded, Source::Dump);
}

/// Its log of commands makes the lists that don't hang on chance, its rewritten log all of them. Limits do not apply.
#[test]
fn its_logs_are_replayed() {
    let version = rdb_version(&mut Server::start().client());
    for (name, recorded, source) in [
        ("commands.aof", certain(), Source::Commands),
        ("rewritten.aof", lists(), Source::Dump),
    ] {
        let log = fs::read(file(name)).unwrap();
        // Lines about times are not commands.
        let start = log.iter().position(|byte| *byte == b'*').unwrap();
        let mut log = commands(&log[start..]);
        let keys: Vec<_> = recorded.iter().map(|list| list.key.as_bytes()).collect();
        log.retain(|words| words.get(1).is_some_and(|key| keys.contains(&&key[..])));
        reseal(&mut log, version);
        assert!(log.len() >= recorded.len(), "{name}");
        let builder = Server::builder()
            .config("bf.bloom-filter-max-memory-usage", "1")
            .config("bf.bloom-memory-usage-limit", "1");
        let mut server = on_log_of(builder, &wire(&log), b"");
        all_are_there(&server, &recorded, source);
        server.restart();
        all_are_there(&server, &recorded, source);
        rewrite_aof(&server);
        server.restart();
        all_are_there(&server, &recorded, source);
    }
}

#[test]
fn its_file_is_loaded() {
    let mut server = Server::start();
    if starts_on(&mut server, &file("dump.rdb")) {
        all_are_there(&server, &lists(), Source::Dump);
    }
}

/// A script of commands on an empty server, with the bytes of each reply.
#[test]
fn its_replies_are_sent_byte_for_byte() {
    let server = Server::start();
    // Other digits on other servers.
    let has_shortest_doubles = server.version().valkey && server.version().major >= 9;
    let script = json("replies.json");
    let is_shown = |words: &Value| has_shortest_doubles || words[0] != "TOPK.INFO";
    let script: Vec<&Value> = script
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| !row[0][0].as_str().unwrap().starts_with("CMS.") && is_shown(&row[0]))
        .collect();
    let own = |row: &&&Value| row[0][0].as_str().unwrap().starts_with("TOPK.");
    assert!(script.iter().filter(own).count() > 40);
    in_both_protocols(&server, |client, resp3| {
        // The script asks for a count-min sketch, whose commands have tests of their own.
        assert_eq!(client.cmd("SADD c a"), int(1));
        let mut connection = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        let limit = Some(Duration::from_secs(60));
        connection.set_read_timeout(limit).unwrap();
        if resp3 {
            speak_resp3(&mut connection);
        }
        for row in &script {
            let words: Vec<Vec<u8>> = row[0].as_array().unwrap().iter().map(word).collect();
            let recorded = row[2].as_str().filter(|_| resp3).or(row[1].as_str());
            let mut expected = recorded.unwrap().replace("-TopK: ", "-ERR TopK: ");
            expected = expected.replace("-WITHCOUNT", "-ERR WITHCOUNT");
            connection.write_all(&wire(&[words])).unwrap();
            let mut reply = vec![0; expected.len()];
            connection.read_exact(&mut reply).unwrap();
            assert_eq!(String::from_utf8_lossy(&reply), expected, "{row}");
        }
        // No byte was left.
        connection.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
        let mut reply = [0; 7];
        connection.read_exact(&mut reply).unwrap();
        assert_eq!(reply, *b"+PONG\r\n");
    });
}

/// Switches a new connection to RESP3, and reads up to the end of the server's greeting.
fn speak_resp3(connection: &mut TcpStream) {
    let hello = b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*1\r\n$4\r\nPING\r\n";
    connection.write_all(hello).unwrap();
    let mut greeting = Vec::new();
    while !greeting.ends_with(b"+PONG\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte).unwrap();
        greeting.push(byte[0]);
    }
}
