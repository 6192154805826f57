//! Files that valkey-bloom 1.0 wrote on Valkey 9.1.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Builder, Client, Reply, Server, int, ok};
use crate::hostile::{rdb_version, seal};
use crate::ledger;

/// An object as valkey-bloom had it.
struct Recorded {
    key: String,
    info: Value,
    card: i64,
    dump: Vec<u8>,
    /// The items that it was given, and then others.
    probe: Vec<Vec<u8>>,
    added: usize,
    /// What it answered for each, a digit an item.
    answers: String,
}

fn data(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/valkey-bloom-1.0");
    folder.join(name)
}

pub fn hex(text: &Value) -> Vec<u8> {
    let text = text.as_str().expect("a text");
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

fn recorded() -> Vec<Recorded> {
    let text = fs::read_to_string(data("objects.json")).expect("the file is there");
    let objects: Value = serde_json::from_str(&text).expect("the file is JSON");
    let objects = objects.as_object().expect("an object per key");
    let objects: Vec<Recorded> = objects
        .iter()
        .map(|(key, object)| Recorded {
            key: key.clone(),
            info: object["info"].clone(),
            card: object["card"].as_i64().expect("a number"),
            dump: hex(&object["dump"]),
            probe: object["probe"]
                .as_array()
                .expect("items")
                .iter()
                .map(hex)
                .collect(),
            added: usize::try_from(object["added"].as_u64().expect("a number")).expect("few"),
            answers: object["answers"].as_str().expect("digits").to_owned(),
        })
        .collect();
    assert_eq!(objects.len(), 8);
    objects
}

impl Recorded {
    fn answers_of(&self, client: &mut Client) -> String {
        let mut ask: Vec<&[u8]> = vec![b"BF.MEXISTS", self.key.as_bytes()];
        ask.extend(self.probe.iter().map(Vec::as_slice));
        let answers = client.call(&ask);
        let digits = answers.as_array().iter().map(|a| a.as_int().to_string());
        digits.collect()
    }

    /// The object is there, and answers as it did, false positives included.
    #[track_caller]
    fn is_there(&self, client: &mut Client) {
        let key = &self.key;
        assert_eq!(client.cmd(&format!("TYPE {key}")).text(), "bloomfltr");
        assert_eq!(client.cmd(&format!("BF.CARD {key}")), int(self.card));
        assert_eq!(self.answers_of(client), self.answers, "{key}");
        self.has_its_info(client, true);
    }

    /// BF.INFO tells what valkey-bloom told, but for what depends on the program: the memory, and
    /// how far an object can still grow.
    #[track_caller]
    fn has_its_info(&self, client: &mut Client, exact: bool) {
        let key = &self.key;
        let reply = client.cmd(&format!("BF.INFO {key}"));
        let fields = reply.as_array();
        let told = |name: &str| {
            let pair = fields.chunks_exact(2).find(|pair| pair[0].text() == name);
            pair.map(|pair| pair[1].clone())
        };
        for (name, value) in self.info.as_object().expect("fields") {
            let told = told(name).unwrap_or_else(|| panic!("{key} has no {name}"));
            match (name.as_str(), value) {
                ("Size" | "Max scaled capacity", _) => assert!(told.as_int() > 0),
                ("Capacity" | "Number of filters" | "Number of items inserted", _) if !exact => {}
                (_, Value::Null) => assert_eq!(told, Reply::Nil, "{key}: {name}"),
                (_, Value::Number(number)) => {
                    assert_eq!(Some(told.as_int()), number.as_i64(), "{key}: {name}");
                }
                (_, text) => assert_eq!(Some(told.text().as_str()), text.as_str(), "{key}: {name}"),
            }
        }
    }
}

/// Reads the data set, and goes on using it.
fn all_are_there(server: &Server, recorded: &[Recorded]) {
    let mut client = server.client();
    assert_eq!(client.cmd("DBSIZE"), int(8));
    for object in recorded {
        object.is_there(&mut client);
    }
    ledger::is_balanced(&mut client);
}

/// A server that is started on a log: a base, and what was written since.
pub fn on_log(base: &[u8], since: &[u8]) -> Server {
    on_log_of(Server::builder(), base, since)
}

pub fn on_log_of(builder: Builder, base: &[u8], since: &[u8]) -> Server {
    let mut server = builder
        .config("appendonly", "yes")
        .config("aof-use-rdb-preamble", "no")
        .start();
    server.shutdown();
    let folder = server.dir().join("appendonlydir");
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    let (old, new) = ("appendonly.aof.1.base.aof", "appendonly.aof.1.incr.aof");
    for (bytes, file) in [(base, old), (since, new)] {
        fs::write(folder.join(file), bytes).unwrap();
    }
    let manifest = format!("file {old} seq 1 type b\nfile {new} seq 1 type i\n");
    fs::write(folder.join("appendonly.aof.manifest"), manifest).unwrap();
    server.start_again();
    server
}

#[test]
fn its_rdb_is_loaded() {
    let recorded = recorded();
    let mut server = Server::start();
    let reads_it = server.version().valkey && server.version().major >= 9;
    server.shutdown();
    let file = server.dir().join("dump.rdb");
    fs::copy(data("dump.rdb"), &file).unwrap();
    if !reads_it {
        let log = server.try_start_again().unwrap_err();
        assert!(log.contains("Wrong signature"), "{log}");
        return;
    }
    server.start_again();
    all_are_there(&server, &recorded);
    // What this program writes of it is the same again.
    server.restart_saving();
    all_are_there(&server, &recorded);
}

#[test]
fn its_dumps_are_restored() {
    let recorded = recorded();
    let server = Server::start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    for object in &recorded {
        let value = object.dump[..object.dump.len() - 10].to_vec();
        let payload = seal(value, version);
        if version == [object.dump[object.dump.len() - 10], 0] {
            assert_eq!(payload, object.dump, "the checksum is right");
        }
        let args: [&[u8]; 4] = [b"RESTORE", object.key.as_bytes(), b"0", &payload];
        assert_eq!(client.call(&args), ok(), "{}", object.key);
        // The same fields in the same order; strings are compressed alike.
        let dump = client.cmd(&format!("DUMP {}", object.key));
        assert_eq!(dump.as_bytes(), payload, "{}", object.key);
    }
    all_are_there(&server, &recorded);
}

#[test]
fn its_rewritten_log_is_loaded() {
    let recorded = recorded();
    let log = fs::read(data("rewritten.aof")).unwrap();
    for (base, since) in [(&log[..], &[][..]), (&[], &log)] {
        let mut server = on_log(base, since);
        all_are_there(&server, &recorded);
        server.restart();
        all_are_there(&server, &recorded);
    }
}

#[test]
fn its_log_of_commands_is_replayed() {
    let recorded = recorded();
    let log = fs::read(data("commands.aof")).unwrap();
    for (base, since) in [(&log[..], &[][..]), (&[], &log)] {
        let server = on_log(base, since);
        let mut client = server.client();
        assert_eq!(client.cmd("DBSIZE"), int(8));
        ledger::is_balanced(&mut client);
        for object in &recorded {
            let key = &object.key;
            assert_eq!(client.cmd(&format!("TYPE {key}")).text(), "bloomfltr");
            let answers = object.answers_of(&mut client);
            assert!(
                answers[..object.added].bytes().all(|digit| digit == b'1'),
                "{key}"
            );
            if object.info["Expansion rate"].is_null() {
                // A filter alone is made at the same rate, so it is the same filter.
                object.is_there(&mut client);
                continue;
            }
            // A scaling object is built anew from the commands, by this program's law: it has other
            // false positives, in all no more than were asked for.
            object.has_its_info(&mut client, false);
            let rate: f64 = object.info["Error rate"].as_str().unwrap().parse().unwrap();
            let others = &answers[object.added..];
            assert_eq!(others.len(), 2000);
            let wrong: f64 = others.bytes().map(|digit| f64::from(digit - b'0')).sum();
            let most = rate * 2000.0;
            // Four standard deviations above what may be expected at the most.
            assert!(wrong <= most + 4.0 * most.sqrt(), "{key}: {wrong}");
        }
    }
}
