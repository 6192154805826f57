//! Recordings of RedisBloom 8.8: its commands, dumps, files and logs give its bytes and answers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Client, Server, array, error, int, ok, wait_in_sync};
use crate::support::aof::{commands, on_log_of, rewrite_aof, wire};
use crate::support::forged::{rdb_version, seal};
use crate::support::protocols::{in_both_protocols, table};
use crate::support::recordings::hex;
use crate::support::sketches::{reseal, starts_on};

/// RDB version and checksum at the end of a DUMP.
const FOOTER_BYTES: usize = 10;

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

/// Returns the text of an error with a code, which RedisBloom's lack.
fn with_code(text: &str) -> String {
    let code = if text.starts_with("CMS: ") {
        "ERR "
    } else {
        ""
    };
    format!("{code}{text}")
}

struct Recorded {
    key: String,
    value: Value,
    probe: Vec<Vec<u8>>,
}

/// Returns the recorded sketches in order of creation.
fn sketches() -> Vec<Recorded> {
    let all = json("objects.json");
    let order = all["order"].as_array().unwrap().iter();
    let sketches = order.map(|key| {
        let value = all["objects"][key.as_str().unwrap()].clone();
        Recorded {
            key: key.as_str().unwrap().to_owned(),
            probe: value["probe"].as_array().unwrap().iter().map(hex).collect(),
            value,
        }
    });
    let sketches: Vec<_> = sketches
        .filter(|sketch| sketch.value["type"] == "CMSk-TYPE")
        .collect();
    assert_eq!(sketches.len(), 18);
    sketches
}

impl Recorded {
    /// Returns a DUMP of it under this server's version of the RDB form.
    fn payload(&self, name: &str, version: [u8; 2]) -> Vec<u8> {
        let dump = hex(&self.value[name]);
        seal(dump[..dump.len() - FOOTER_BYTES].to_vec(), version)
    }

    /// Checks that the server has the recorded value. Servers may compress differently, but these do not.
    #[track_caller]
    fn is_there(&self, client: &mut Client, resp3: bool) {
        let key = &self.key;
        let dump = client.cmd(&format!("DUMP {key}"));
        let dump = dump.as_bytes();
        let version = dump[dump.len() - FOOTER_BYTES..][..2].try_into().unwrap();
        assert!(
            dump == self.payload("dump", version),
            "{key} has another dump"
        );
        let mut query: Vec<&[u8]> = vec![b"CMS.QUERY", key.as_bytes()];
        query.extend(self.probe.iter().map(Vec::as_slice));
        let estimates = self.value["query"].as_array().unwrap();
        let estimates: Vec<_> = estimates.iter().map(|n| int(n.as_i64().unwrap())).collect();
        assert_eq!(client.call(&query), array(estimates.clone()), "{key}");
        for (item, estimate) in self.probe.iter().zip(estimates) {
            let query: [&[u8]; 3] = [b"CMS.QUERY", key.as_bytes(), item];
            assert_eq!(client.call(&query), array([estimate]), "{key}");
        }
        let field = |name| int(self.value["info"][name].as_i64().unwrap());
        let rows = ["width", "depth", "count"].map(|name| (name, field(name)));
        let info = client.cmd(&format!("CMS.INFO {key}"));
        assert_eq!(info, table(resp3, rows.into()), "{key}");
        assert_eq!(client.cmd(&format!("TYPE {key}")).text(), "CMSk-TYPE");
    }
}

#[track_caller]
fn all_are_there(server: &Server, recorded: &[Recorded]) {
    for (mut client, resp3) in [(server.client(), false), (server.client3(), true)] {
        for sketch in recorded {
            sketch.is_there(&mut client, resp3);
        }
    }
}

/// The commands one by one, with the replies that RedisBloom gave. A negative increment is one here.
#[test]
fn its_commands_have_its_replies() {
    let server = Server::start();
    let replica = Server::replica_of(&server)
        .config("bf.bloom-filter-max-memory-usage", "1")
        .config("bf.bloom-memory-usage-limit", "1")
        .start();
    wait_in_sync(&server, &replica);
    let mut client = server.client();
    let version = rdb_version(&mut client);
    let recorded = sketches();
    for sketch in &recorded {
        for made in sketch.value["made"].as_array().unwrap() {
            let name = made[0].as_str().unwrap().as_bytes();
            let mut words = vec![name.to_vec(), sketch.key.clone().into_bytes()];
            words.extend(made[1].as_array().unwrap().iter().map(word));
            if name == b"RESTORE" {
                let value = words[3].len() - FOOTER_BYTES;
                words[3].truncate(value);
                words[3] = seal(words[3].clone(), version);
            }
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let reply = |value: &Value| match value {
                Value::String(text) if text == "OK" => ok(),
                Value::Number(number) => int(number.as_i64().unwrap()),
                other => match other["error"].as_str().unwrap() {
                    "CMS: Number cannot be negative" => error("ERR CMS: Cannot parse number"),
                    text => error(&with_code(text)),
                },
            };
            let expected = match &made[2] {
                Value::Array(all) => array(all.iter().map(reply)),
                one => reply(one),
            };
            assert_eq!(client.call(&words), expected, "{} {made}", sketch.key);
        }
    }
    all_are_there(&server, &recorded);
    // Replicas have all of it, whatever they are set to.
    wait_in_sync(&server, &replica);
    all_are_there(&replica, &recorded);
}

#[test]
fn its_dumps_are_loaded() {
    let mut server = Server::start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    let recorded = sketches();
    for sketch in &recorded {
        for name in ["dump_plain", "dump"] {
            let payload = sketch.payload(name, version);
            let words: [&[u8]; 5] = [
                b"RESTORE",
                sketch.key.as_bytes(),
                b"0",
                &payload,
                b"REPLACE",
            ];
            assert_eq!(client.call(&words), ok(), "{} {name}", sketch.key);
        }
    }
    all_are_there(&server, &recorded);
    server.restart_saving();
    all_are_there(&server, &recorded);
    let replica = Server::replica_of(&server).start();
    wait_in_sync(&server, &replica);
    all_are_there(&replica, &recorded);
}

/// Its log of commands, and its rewritten log, without the values of other types. Limits do not apply to them.
#[test]
fn its_logs_are_replayed() {
    let version = rdb_version(&mut Server::start().client());
    let recorded = sketches();
    for name in ["commands.aof", "rewritten.aof"] {
        let log = fs::read(file(name)).unwrap();
        // Lines about times are not commands.
        let start = log.iter().position(|byte| *byte == b'*').unwrap();
        let mut log = commands(&log[start..]);
        log.retain(|words| words.get(1).is_some_and(|key| key.starts_with(b"cms")));
        reseal(&mut log, version);
        assert!(log.len() >= recorded.len(), "{name}");
        let builder = Server::builder()
            .config("bf.bloom-filter-max-memory-usage", "1")
            .config("bf.bloom-memory-usage-limit", "1");
        let mut server = on_log_of(builder, &wire(&log), b"");
        all_are_there(&server, &recorded);
        server.restart();
        all_are_there(&server, &recorded);
        rewrite_aof(&server);
        server.restart();
        all_are_there(&server, &recorded);
    }
}

#[test]
fn its_file_is_loaded() {
    let mut server = Server::start();
    if starts_on(&mut server, &file("dump.rdb")) {
        all_are_there(&server, &sketches());
    }
}

/// Commands whose replies differ by decision, and ours.
const DIFFERENT: [(&[&str], &str); 1] = [(
    // A negative increment is one.
    &["CMS.INCRBY", "c", "a", "1", "b", "-1", "c", "x"],
    "-ERR CMS: Cannot parse number\r\n",
)];

/// A script of commands on an empty server, with the bytes of each reply.
#[test]
fn its_replies_are_sent_byte_for_byte() {
    let server = Server::start();
    let script = json("replies.json");
    let script: Vec<&Value> = script
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| !row[0][0].as_str().unwrap().starts_with("TOPK."))
        .collect();
    assert!(script.len() > 80);
    in_both_protocols(&server, |_, resp3| {
        let mut connection = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        connection
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        if resp3 {
            speak_resp3(&mut connection);
        }
        for row in &script {
            let words: Vec<Vec<u8>> = row[0].as_array().unwrap().iter().map(word).collect();
            let recorded = row[2]
                .as_str()
                .filter(|_| resp3)
                .or(row[1].as_str())
                .unwrap();
            let differs = DIFFERENT.iter().find(|(own, _)| {
                own.iter()
                    .map(|word| word.as_bytes())
                    .eq(words.iter().map(|word| &word[..]))
            });
            let expected = match differs {
                Some((_, own)) => (*own).to_owned(),
                None => recorded.replace("-CMS: ", "-ERR CMS: "),
            };
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
