//! Recordings of RedisBloom 8.8: its commands, dumps, chunks and logs give its bytes and answers.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Client, Server, array, error, int, ok, wait_in_sync};
use crate::support::aof::on_log_of;
use crate::support::forged::{rdb_version, seal};
use crate::support::recordings::hex;

use super::{chunks, load};

fn file(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("tests/data/redisbloom-8.8-cuckoo").join(name)
}

struct Recorded {
    key: String,
    value: Value,
    probe: Vec<Vec<u8>>,
}

fn objects() -> Vec<Recorded> {
    let text = fs::read_to_string(file("objects.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let all = all.as_object().unwrap().iter();
    all.map(|(key, value)| Recorded {
        key: key.clone(),
        value: value.clone(),
        probe: value["probe"].as_array().unwrap().iter().map(hex).collect(),
    })
    .collect()
}

impl Recorded {
    /// Returns its DUMP under this server's version of the RDB form.
    fn payload(&self, version: [u8; 2]) -> Vec<u8> {
        let dump = hex(&self.value["dump"]);
        seal(dump[..dump.len() - 10].to_vec(), version)
    }

    /// Checks that the server has the recorded value. Servers may compress differently, but these do not.
    #[track_caller]
    fn is_there(&self, client: &mut Client) {
        let key = &self.key;
        let dump = client.cmd(&format!("DUMP {key}"));
        let version = &dump.as_bytes()[dump.as_bytes().len() - 10..][..2];
        let expected = self.payload(version.try_into().unwrap());
        assert!(dump.as_bytes() == expected, "{key} has another dump");
        let mut ask: Vec<&[u8]> = vec![b"CF.MEXISTS", key.as_bytes()];
        ask.extend(self.probe.iter().map(Vec::as_slice));
        let answers = self.value["answers"].as_str().unwrap().bytes();
        let answers = answers.map(|digit| int(i64::from(digit - b'0')));
        assert_eq!(client.call(&ask), array(answers), "{key}");
        let counts = self.value["counts"].as_array().unwrap();
        for (item, count) in self.probe.iter().zip(counts) {
            let words: [&[u8]; 3] = [b"CF.COUNT", key.as_bytes(), item];
            assert_eq!(client.call(&words), int(count.as_i64().unwrap()), "{key}");
        }
        let info = client.cmd(&format!("CF.INFO {key}"));
        for pair in info.as_array().chunks(2) {
            let expected = &self.value["info"][pair[0].text()];
            assert_eq!(
                pair[1],
                int(expected.as_i64().unwrap()),
                "{key} {}",
                pair[0].text()
            );
        }
        let debug = client.cmd(&format!("CF.DEBUG {key}")).text();
        assert_eq!(debug, self.value["debug"].as_str().unwrap());
        let recorded = self.value["scandump"].as_array().unwrap().iter();
        let recorded: Vec<_> = recorded
            .map(|pair| (pair[0].as_i64().unwrap(), hex(&pair[1])))
            .collect();
        assert_eq!(chunks(client, key), recorded, "{key}");
    }
}

#[track_caller]
fn all_are_there(server: &Server, recorded: &[Recorded]) {
    let mut client = server.client();
    for object in recorded {
        object.is_there(&mut client);
    }
}

/// The commands one by one. Errors have a code in front, and what is an option of ours has to be one.
#[test]
fn its_commands_have_its_replies() {
    let server = Server::start();
    let replica = Server::replica_of(&server)
        .config("bf.cf-initial-size", "20")
        .config("bf.cf-bucket-size", "7")
        .config("bf.cf-max-expansions", "1")
        .config("bf.bloom-filter-max-memory-usage", "1")
        .start();
    wait_in_sync(&server, &replica);
    let mut client = server.client();
    let recorded = objects();
    for object in &recorded {
        for made in object.value["made"].as_array().unwrap() {
            let mut words = vec![
                made[0].as_str().unwrap().as_bytes().to_vec(),
                object.key.clone().into_bytes(),
            ];
            words.extend(made[1].as_array().unwrap().iter().map(|word| match word {
                Value::String(text) => text.clone().into_bytes(),
                other => hex(&other["hex"]),
            }));
            let items = made[2].as_array().unwrap().iter();
            words.extend(items.map(|index| {
                object.probe[usize::try_from(index.as_u64().unwrap()).unwrap()].clone()
            }));
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let expected = match &made[3] {
                Value::String(text) if text == "OK" => ok(),
                Value::Number(number) => int(number.as_i64().unwrap()),
                Value::Array(all) => array(all.iter().map(|n| int(n.as_i64().unwrap()))),
                other => {
                    let text = other["error"].as_str().unwrap();
                    let code = if text.starts_with("ERR ") { "" } else { "ERR " };
                    error(&format!("{code}{text}"))
                }
            };
            assert_eq!(client.call(&words), expected, "{} {made}", object.key);
        }
    }
    all_are_there(&server, &recorded);
    // Replicas have all of it, whatever they are set to.
    wait_in_sync(&server, &replica);
    all_are_there(&replica, &recorded);
}

#[test]
fn its_dumps_and_chunks_are_loaded() {
    let mut server = Server::start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    let recorded = objects();
    for object in &recorded {
        let payload = object.payload(version);
        let words: [&[u8]; 4] = [b"RESTORE", object.key.as_bytes(), b"0", &payload];
        assert_eq!(client.call(&words), ok(), "{}", object.key);
        let plain = hex(&object.value["dump_plain"]);
        let payload = seal(plain[..plain.len() - 10].to_vec(), version);
        let words: [&[u8]; 5] = [
            b"RESTORE",
            object.key.as_bytes(),
            b"0",
            &payload,
            b"REPLACE",
        ];
        assert_eq!(client.call(&words), ok(), "{}", object.key);
        let pieces = chunks(&mut client, &object.key);
        load(&mut client, "chunked", &pieces);
        if !pieces.is_empty() {
            let copy = client.cmd("DUMP chunked");
            assert_eq!(copy, client.cmd(&format!("DUMP {}", object.key)));
            client.cmd("DEL chunked");
        }
    }
    all_are_there(&server, &recorded);
    server.restart_saving();
    all_are_there(&server, &recorded);
    let replica = Server::replica_of(&server).start();
    wait_in_sync(&server, &replica);
    all_are_there(&replica, &recorded);
}

/// Returns the commands in a log whose names begin so, and the databases that they go to.
fn only(log: &[u8], prefix: &[u8]) -> Vec<u8> {
    let (mut rest, mut kept) = (log, Vec::new());
    let line = |from: &[u8]| {
        let end = from.windows(2).position(|two| two == b"\r\n").unwrap();
        let number: usize = std::str::from_utf8(&from[1..end]).unwrap().parse().unwrap();
        (number, end + 2)
    };
    while !rest.is_empty() {
        if rest[0] == b'#' {
            // A note of when.
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap();
            rest = &rest[end + 1..];
            continue;
        }
        let (count, mut at) = line(rest);
        let mut name = &b""[..];
        for index in 0..count {
            let (length, after) = line(&rest[at..]);
            let word = &rest[at + after..at + after + length];
            if index == 0 {
                name = word;
            }
            at += after + length + 2;
        }
        if name.to_ascii_uppercase().starts_with(prefix) || name.eq_ignore_ascii_case(b"SELECT") {
            kept.extend(&rest[..at]);
        }
        rest = &rest[at..];
    }
    kept
}

/// Its logs hold other types, too, which this module does not serve.
#[test]
fn its_logs_are_replayed() {
    for (log, without) in [("commands.aof", Some("loaded")), ("rewritten.aof", None)] {
        let mut recorded = objects();
        // RedisBloom does not log the data of chunks.
        recorded.retain(|object| Some(&object.key[..]) != without);
        let log = only(&fs::read(file(log)).unwrap(), b"CF.");
        // Commands of a log are executed whatever the limits.
        let builder = Server::builder()
            .config("bf.cf-max-expansions", "1")
            .config("bf.bloom-filter-max-memory-usage", "1");
        let mut server = on_log_of(builder, &log, b"");
        all_are_there(&server, &recorded);
        server.restart();
        all_are_there(&server, &recorded);
        crate::support::aof::rewrite_aof(&server);
        server.restart();
        all_are_there(&server, &recorded);
    }
}

/// The stream of its primary: bare commands that mean its settings, which are the same here; options that it reads by
/// their first letter or ignores; and growth beyond the limits here.
#[test]
fn its_stream_is_applied() {
    let log = [
        "CF.ADD bare a",
        "CF.INSERT letters Cxyz 100 Iwhat a b",
        "CF.RESERVE ignored 64 FOO 7 BUCKETSIZE 4 BUCKETSIZE 2",
        "CF.RESERVE EXPANSION 8",
        "CF.RESERVE huge 1073741824",
        "CF.DEL bare none",
        "CF.COMPACT bare",
    ];
    let mut bytes = Vec::new();
    let add = |bytes: &mut Vec<u8>, line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        bytes.extend(format!("*{}\r\n", words.len()).bytes());
        for word in words {
            bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
        }
    };
    for line in log {
        add(&mut bytes, line);
    }
    let copies = vec!["one"; 400].join(" ");
    add(&mut bytes, &format!("CF.INSERT copies ITEMS {copies}"));
    let builder = Server::builder()
        .config("bf.cf-initial-size", "200")
        .config("bf.cf-bucket-size", "4")
        .config("bf.cf-max-iterations", "3")
        .config("bf.cf-expansion-factor", "1");
    let server = on_log_of(builder, &bytes, b"");
    let mut client = server.client();
    for (key, line) in [
        (
            "bare",
            "bktsize:4 buckets:64 items:1 deletes:0 filters:1 max_iterations:3 expansion:1",
        ),
        (
            "letters",
            "bktsize:4 buckets:32 items:2 deletes:0 filters:1 max_iterations:3 expansion:1",
        ),
        (
            "ignored",
            "bktsize:4 buckets:16 items:0 deletes:0 filters:1 max_iterations:3 expansion:1",
        ),
        (
            "EXPANSION",
            "bktsize:4 buckets:2 items:0 deletes:0 filters:1 max_iterations:3 expansion:8",
        ),
        (
            "copies",
            "bktsize:4 buckets:64 items:400 deletes:0 filters:50 max_iterations:3 expansion:1",
        ),
    ] {
        assert_eq!(client.cmd(&format!("CF.DEBUG {key}")).text(), line, "{key}");
    }
    assert_eq!(
        super::field(&mut client, "huge", "Number of buckets"),
        1 << 28
    );
    let more = client.cmd("CF.ADD copies other");
    assert_eq!(more, error("ERR Maximum expansions reached"));
}
