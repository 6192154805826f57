//! Files that the releases of this program wrote. Every later one loads them, and answers alike. How
//! the files are made: tests/data/README.md.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::harness::{Client, Reply, Server, error, int, ok};
use crate::support::aof::{on_log, part, rewrite_aof, with_command_log};
use crate::support::pieces::{Pieces, dump, load_chunks, pieces, split};
use crate::support::recordings::hex;
use crate::support::sums;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// Returns a folder per release.
fn releases() -> Vec<PathBuf> {
    let folders = fs::read_dir(data())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_release = |path: &PathBuf| path.to_string_lossy().contains("/valkeybloom-");
    let releases: Vec<PathBuf> = folders.filter(is_release).collect();
    assert!(releases.contains(&data().join("valkeybloom-3.0")));
    releases
}

/// Keys, what they were created with, and how many items they were given.
const OBJECTS: [(&str, &str, usize); 9] = [
    ("roomy", "CAPACITY 1000", 5),
    ("empty", "CAPACITY 10 ERROR 0.2", 0),
    ("one-filter", "CAPACITY 100", 60),
    ("grown", "CAPACITY 20 EXPANSION 2", 400),
    ("even", "CAPACITY 10 ERROR 0.1 EXPANSION 1", 100),
    (
        "tightened",
        "CAPACITY 30 ERROR 0.1 TIGHTENING 0.85 EXPANSION 3",
        200,
    ),
    ("fixed", "CAPACITY 200 ERROR 0.05 NONSCALING", 150),
    (
        "given-seed",
        "CAPACITY 50 SEED 0123456789abcdef0123456789abcdef",
        80,
    ),
    ("saturated", "CAPACITY 50 NONSCALING", 150),
];

/// The key whose chunks came only in part, under another name.
const HALF: (&str, &str) = ("half", "grown");
const STILL_LOADING: &str = "ERR bloom object is still being loaded";

/// The number of strangers looked up in a key, besides its items.
const OTHERS: usize = 500;

fn items(key: &str, added: usize) -> Vec<Vec<u8>> {
    let item = |number| match number {
        0 => Vec::new(),
        1 => (0..=255).collect(),
        number => format!("{key} {number}").into_bytes(),
    };
    (0..added).map(item).collect()
}

fn answers(client: &mut Client, key: &str, added: usize) -> String {
    let others = (0..OTHERS).map(|number| format!("{key} other {number}").into_bytes());
    let asked: Vec<Vec<u8>> = items(key, added).into_iter().chain(others).collect();
    let reply = client.call_with(&format!("BF.MEXISTS {key}"), &asked);
    let digits = reply
        .as_array()
        .iter()
        .map(|answer| answer.as_int().to_string());
    digits.collect()
}

/// Returns the reply of BF.INFO without the memory, which depends on the program.
fn info(client: &mut Client, key: &str) -> Value {
    let reported = client.cmd(&format!("BF.INFO {key} ALL"));
    let fields = reported.as_array().chunks_exact(2).map(|pair| {
        let value = match &pair[1] {
            Reply::Int(number) => json!(number),
            Reply::Nil => Value::Null,
            text => json!(text.text()),
        };
        (pair[0].text(), value)
    });
    // Limits of this server end the growth.
    let own = ["Size", "Max scaled capacity"];
    fields
        .filter(|(name, _)| !own.contains(&name.as_str()))
        .collect()
}

fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(digit).collect()
}

fn recorded(release: &Path) -> Map<String, Value> {
    let text = fs::read_to_string(release.join("objects.json")).unwrap();
    let Ok(Value::Object(objects)) = serde_json::from_str(&text) else {
        panic!("not an object per key");
    };
    assert!(objects.len() >= OBJECTS.len());
    objects
}

/// Returns the pieces of an object, cut small.
fn recorded_pieces(object: &Value) -> Pieces {
    let pieces = object["scandump"].as_array().unwrap().iter();
    let pieces = pieces.map(|piece| (piece[0].as_u64().unwrap(), hex(&piece[1])));
    split(&pieces.collect::<Pieces>(), 40)
}

/// Checks that an object is unchanged, false positives included, and that this program writes the same bytes of it.
#[track_caller]
fn is_there(client: &mut Client, key: &str, object: &Value) {
    assert_eq!(client.cmd(&format!("TYPE {key}")).text(), "bloomfltr");
    let added = usize::try_from(object["added"].as_u64().unwrap()).unwrap();
    assert_eq!(
        answers(client, key, added),
        object["answers"].as_str().unwrap(),
        "{key}"
    );
    // A release may report more fields than those before it.
    let reported = info(client, key);
    for (field, value) in object["info"].as_object().unwrap() {
        assert_eq!(reported.get(field), Some(value), "{key} {field}");
    }
    let card = client.cmd(&format!("BF.CARD {key}"));
    assert_eq!(Some(card.as_int()), object["card"].as_i64(), "{key}");
    assert_eq!(dump(&pieces(client, key)), hex(&object["dump"]), "{key}");
}

/// Checks that the data set is there, and that the half loaded object can be completed.
#[track_caller]
fn all_are_there(server: &Server, objects: &Map<String, Value>) {
    let mut client = server.client();
    let count = i64::try_from(objects.len()).unwrap();
    client.expect("DBSIZE", int(count + 1));
    for (key, object) in objects {
        is_there(&mut client, key, object);
    }
    let (half, whole) = HALF;
    client.expect(format!("BF.CARD {half}"), error(STILL_LOADING));
    let chunks = recorded_pieces(&objects[whole]);
    load_chunks(&mut client, half, &chunks[chunks.len() / 2..]);
    let rebuilt = pieces(&mut client, half);
    assert_eq!(dump(&rebuilt), hex(&objects[whole]["dump"]));
    sums::is_balanced(&mut client);
}

/// Checks objects made anew by commands: their sizes are those of this program, and their items are found.
fn all_are_made_again(server: &Server, objects: &Map<String, Value>) {
    let mut client = server.client();
    let count = i64::try_from(objects.len()).unwrap();
    client.expect("DBSIZE", int(count + 1));
    for (key, object) in objects {
        let added = usize::try_from(object["added"].as_u64().unwrap()).unwrap();
        let there = answers(&mut client, key, added)[..added]
            .matches('1')
            .count();
        // One that does not grow is full after another number of items.
        assert!(there * 20 >= added * 19, "{there} of {added} in {key}");
    }
    sums::is_balanced(&mut client);
}

#[test]
fn an_rdb_of_every_release_is_loaded() {
    for release in releases() {
        let mut server = Server::start();
        server.shutdown();
        fs::copy(release.join("dump.rdb"), server.dir().join("dump.rdb")).unwrap();
        server.start_again();
        all_are_there(&server, &recorded(&release));
    }
}

#[test]
fn a_log_of_every_release_is_loaded() {
    for release in releases() {
        for name in ["commands.aof", "rewritten.aof"] {
            let log = fs::read(release.join(name)).unwrap();
            for (base, since) in [(&log[..], &[][..]), (&[], &log)] {
                let server = on_log(base, since);
                if name == "rewritten.aof" {
                    all_are_there(&server, &recorded(&release));
                } else {
                    all_are_made_again(&server, &recorded(&release));
                }
            }
        }
    }
}

#[test]
fn a_dump_of_every_release_is_loaded() {
    for release in releases() {
        let objects = recorded(&release);
        let (_server, mut client) = Server::with_client();
        for (key, object) in &objects {
            let load: [&[u8]; 3] = [b"BF.LOAD", key.as_bytes(), &hex(&object["dump"])];
            assert_eq!(client.call(&load), ok(), "{key}");
            is_there(&mut client, key, object);
            client.expect(format!("DEL {key}"), int(1));

            load_chunks(&mut client, key, &recorded_pieces(object));
            is_there(&mut client, key, object);
        }
        sums::is_balanced(&mut client);
    }
}

/// Not a test: it makes the folder of this release.
#[test]
#[ignore = "writes tests/data; see the README there"]
fn write_the_files_of_this_release() {
    let version = env!("CARGO_PKG_VERSION");
    let (minor, _) = version.rsplit_once('.').unwrap();
    let folder = data().join(format!("valkeybloom-{minor}"));
    fs::create_dir(&folder).expect("what was released is not written again");

    let server = with_command_log();
    let mut client = server.client();
    client.ok("CONFIG SET bf.bloom-saturate-nonscaling yes");
    let mut objects = Map::new();
    for (key, options, added) in OBJECTS {
        let create = format!("BF.INSERT {key} {options}");
        client.run(create.trim());
        for item in items(key, added) {
            let add: [&[u8]; 3] = [b"BF.ADD", key.as_bytes(), &item];
            assert!(!client.call(&add).is_error(), "{key}");
        }
        let pieces = pieces(&mut client, key);
        let scandump = pieces
            .iter()
            .map(|(cursor, bytes)| json!([cursor, to_hex(bytes)]));
        let scandump: Value = scandump.collect();
        let object = json!({
            "added": added,
            "answers": answers(&mut client, key, added),
            "card": client.cmd(&format!("BF.CARD {key}")).as_int(),
            "dump": to_hex(&dump(&pieces)),
            "info": info(&mut client, key),
            "scandump": scandump,
        });
        objects.insert(key.to_owned(), object);
    }
    let (half, whole) = HALF;
    let chunks = recorded_pieces(&objects[whole]);
    load_chunks(&mut client, half, &chunks[..chunks.len() / 2]);

    let log = |end: &str| part(&server, end);
    fs::copy(log(".incr.aof"), folder.join("commands.aof")).unwrap();
    rewrite_aof(&server);
    fs::copy(log(".base.aof"), folder.join("rewritten.aof")).unwrap();
    client.ok("SAVE");
    fs::copy(server.dir().join("dump.rdb"), folder.join("dump.rdb")).unwrap();
    let text = serde_json::to_string_pretty(&objects).unwrap();
    fs::write(folder.join("objects.json"), text + "\n").unwrap();
}
