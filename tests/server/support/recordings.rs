//! Objects that valkey-bloom 1.0 and RedisBloom 8.8 had on Valkey 9.1, and what they answered.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Client, Reply, Server, int, ok};
use crate::support::forged::{rdb_version, seal};
use crate::support::pieces::Pieces;
use crate::support::sums;

/// The program that wrote the files.
pub struct Program {
    folder: &'static str,
    /// The type of its objects.
    pub type_name: &'static str,
}

pub const VALKEY_BLOOM: Program = Program {
    folder: "tests/data/valkey-bloom-1.0",
    type_name: "bloomfltr",
};

pub const REDISBLOOM: Program = Program {
    folder: "tests/data/redisbloom-8.8",
    type_name: "MBbloom--",
};

pub const PROGRAMS: [&Program; 2] = [&VALKEY_BLOOM, &REDISBLOOM];

impl Program {
    pub fn data(&self, name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(self.folder)
            .join(name)
    }

    pub fn objects(&self) -> Vec<Recorded> {
        recorded(self)
    }
}

/// An object as the program had it.
pub struct Recorded {
    pub key: String,
    pub type_name: &'static str,
    /// The requested rate.
    pub rate: f64,
    /// Cursors and chunks; RedisBloom's only.
    pub chunks: Pieces,
    pub info: Value,
    pub card: i64,
    pub dump: Vec<u8>,
    /// The items that it was given, and then others.
    pub probe: Vec<Vec<u8>>,
    pub added: usize,
    /// Its answers, a digit an item.
    pub answers: String,
}

fn recorded(program: &Program) -> Vec<Recorded> {
    let text = fs::read_to_string(program.data("objects.json")).expect("the file is there");
    let objects: Value = serde_json::from_str(&text).expect("the file is JSON");
    let objects = objects.as_object().expect("an object per key");
    let objects: Vec<Recorded> = objects
        .iter()
        .map(|(key, object)| Recorded {
            key: key.clone(),
            type_name: program.type_name,
            rate: asked_rate(object),
            chunks: chunks(object),
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

/// Returns the rate that the object was reserved with; both programs' default is 0.01.
fn asked_rate(object: &Value) -> f64 {
    let rate = object["reserve"][0].as_str();
    rate.map_or(0.01, |rate| rate.parse().expect("a number"))
}

fn chunks(object: &Value) -> Pieces {
    let pairs = object["scandump"].as_array().into_iter().flatten();
    let pairs = pairs.map(|pair| (pair[0].as_u64().expect("a cursor"), hex(&pair[1])));
    pairs.filter(|(cursor, _)| *cursor != 0).collect()
}

pub fn hex(text: &Value) -> Vec<u8> {
    let text = text.as_str().expect("a text");
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

impl Recorded {
    pub fn answers_of(&self, client: &mut Client) -> String {
        let mut ask: Vec<&[u8]> = vec![b"BF.MEXISTS", self.key.as_bytes()];
        ask.extend(self.probe.iter().map(Vec::as_slice));
        let answers = client.call(&ask);
        let digits = answers.as_array().iter().map(|a| a.as_int().to_string());
        digits.collect()
    }

    /// Checks that the object gives its recorded answers, false positives included.
    #[track_caller]
    pub fn is_there(&self, client: &mut Client) {
        let key = &self.key;
        assert_eq!(client.cmd(&format!("TYPE {key}")).text(), self.type_name);
        assert_eq!(client.cmd(&format!("BF.CARD {key}")), int(self.card));
        assert_eq!(self.answers_of(client), self.answers, "{key}");
        self.has_its_info(client, true);
    }

    /// Checks that its DUMP is the recorded one, but for the RDB version.
    #[track_caller]
    pub fn has_its_dump(&self, client: &mut Client) {
        let version = rdb_version(client);
        let value = self.dump[..self.dump.len() - 10].to_vec();
        let had = client.call(&[b"DUMP", self.key.as_bytes()]);
        assert!(
            had.as_bytes() == seal(value, version),
            "{} has another dump",
            self.key
        );
    }

    /// Checks that BF.INFO replies what the recorded program replied, except for values that depend on the program:
    /// the memory, and how far an object can still grow.
    #[track_caller]
    pub fn has_its_info(&self, client: &mut Client, exact: bool) {
        let key = &self.key;
        let reply = client.cmd(&format!("BF.INFO {key}"));
        let fields = reply.as_array();
        let reported = |name: &str| {
            let pair = fields.chunks_exact(2).find(|pair| pair[0].text() == name);
            pair.map(|pair| pair[1].clone())
        };
        for (name, value) in self.info.as_object().expect("fields") {
            let reported = reported(name).unwrap_or_else(|| panic!("{key} has no {name}"));
            match (name.as_str(), value) {
                ("Size" | "Max scaled capacity", _) => assert!(reported.as_int() > 0),
                ("Capacity" | "Number of filters" | "Number of items inserted", _) if !exact => {}
                (_, Value::Null) => assert_eq!(reported, Reply::Nil, "{key}: {name}"),
                (_, Value::Number(number)) => {
                    assert_eq!(Some(reported.as_int()), number.as_i64(), "{key}: {name}");
                }
                (_, text) => assert_eq!(
                    Some(reported.text().as_str()),
                    text.as_str(),
                    "{key}: {name}"
                ),
            }
        }
    }
}

/// Reads the data set, and keeps using it.
pub fn all_are_there(server: &Server, recorded: &[Recorded]) {
    let mut client = server.client();
    assert_eq!(client.cmd("DBSIZE"), int(8));
    for object in recorded {
        object.is_there(&mut client);
    }
    sums::is_balanced(&mut client);
}

/// Restores a recorded payload under the RDB version of this server.
pub fn restore(client: &mut Client, object: &Recorded) -> Vec<u8> {
    let version = rdb_version(client);
    let value = object.dump[..object.dump.len() - 10].to_vec();
    let payload = seal(value, version);
    if version == [object.dump[object.dump.len() - 10], 0] {
        assert_eq!(payload, object.dump, "the checksum is right");
    }
    let args: [&[u8]; 4] = [b"RESTORE", object.key.as_bytes(), b"0", &payload];
    assert_eq!(client.call(&args), ok(), "{}", object.key);
    payload
}

/// Returns a server for each program, with what that wrote, and a check that another one has all of it.
pub fn stand_ins() -> Vec<(Server, impl Fn(&Server))> {
    let stand_in = |program: &'static Program| {
        let recorded = program.objects();
        let server = Server::start();
        let mut client = server.client();
        for object in &recorded {
            restore(&mut client, object);
        }
        (server, move |to: &Server| all_are_there(to, &recorded))
    };
    PROGRAMS.into_iter().map(stand_in).collect()
}
