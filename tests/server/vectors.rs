//! The golden vectors of tests/vectors, which docs/vectors.md describes. Commands have the replies and make the values
//! that are in the files, and the stored bytes there are the bytes here.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Client, Reply, Server, digest, ok};
use crate::support::aof::{Command, on_log_of, wire};
use crate::support::recordings::{call, hex, word};

/// The fields of a step besides its name.
const OPTIONS: [(&str, &[u8]); 2] = [("at_ms", b"AT"), ("ttl_ms", b"TTL")];

fn command(words: &[&[u8]]) -> Command {
    words.iter().map(|word| word.to_vec()).collect()
}

/// Returns the command that creates the object of a case under a key.
fn creation(family: &str, create: &Value) -> Command {
    // The words of each name in the order of the command: "" for a number alone.
    let (start, names): (&[&[u8]], &[(&str, &str)]) = match family {
        _ if create.get("dump").is_some() => {
            return command(&[b"RESTORE", b"k", b"0", &hex(&create["dump"])]);
        }
        "bloom" => (
            &[b"BF.INSERT"],
            &[
                ("error_rate", "ERROR"),
                ("capacity", "CAPACITY"),
                ("window_ms", "WINDOW"),
                ("periods", "PERIODS"),
                ("scale_to", "SCALETO"),
            ],
        ),
        "cuckoo" => (
            &[b"CF.RESERVE"],
            &[
                ("capacity", ""),
                ("bucket_size", "BUCKETSIZE"),
                ("max_iterations", "MAXITERATIONS"),
                ("expansion", "EXPANSION"),
            ],
        ),
        "count-min" if create.get("width").is_some() => {
            (&[b"CMS.INITBYDIM"], &[("width", ""), ("depth", "")])
        }
        "count-min" => (
            &[b"CMS.INITBYPROB"],
            &[("error_rate", ""), ("probability", "")],
        ),
        "top-k" => (
            &[b"TOPK.RESERVE"],
            &[("k", ""), ("width", ""), ("depth", ""), ("decay", "")],
        ),
        _ => (&[b"TDIGEST.CREATE"], &[("compression", "COMPRESSION")]),
    };
    let mut words = command(start);
    words.push(b"k".to_vec());
    for (name, before) in names {
        if let Some(value) = create.get(name) {
            words.extend(
                [before.as_bytes().to_vec(), word(value)]
                    .into_iter()
                    .filter(|word| !word.is_empty()),
            );
        }
    }
    if family == "bloom" {
        match create["expansion"].as_u64().unwrap() {
            0 => words.push(b"NONSCALING".to_vec()),
            more => words.extend([b"EXPANSION".to_vec(), more.to_string().into_bytes()]),
        }
        if create["counting"] == true {
            words.push(b"COUNTING".to_vec());
        }
        words.extend([b"SEED".to_vec(), hex(&create["seed"])]);
    }
    words
}

/// Returns the commands of a step: one, or one for each of its items.
fn commands(family: &str, name: &str, step: &Value) -> Vec<Command> {
    let (command, takes_many): (&str, bool) = match (family, name) {
        ("bloom", "add") => ("BF.INSERT", true),
        ("bloom", "contains") => ("BF.MEXISTS", true),
        ("bloom", "remove") => ("BF.DEL", false),
        ("bloom", "count") => ("BF.COUNT", false),
        ("bloom", _) => ("BF.CARD", true),
        ("cuckoo", "add") => ("CF.ADD", false),
        ("cuckoo", "add_new") => ("CF.ADDNX", false),
        ("cuckoo", "contains") => ("CF.MEXISTS", true),
        ("cuckoo", "remove") => ("CF.DEL", false),
        ("cuckoo", _) => ("CF.COUNT", false),
        ("count-min", "increment") => ("CMS.INCRBY", true),
        ("count-min", _) => ("CMS.QUERY", true),
        ("top-k", "add") => ("TOPK.ADD", true),
        ("top-k", "increment") => ("TOPK.INCRBY", true),
        ("top-k", "contains") => ("TOPK.QUERY", true),
        ("top-k", _) => ("TOPK.LIST", true),
        (_, "add") => ("TDIGEST.ADD", true),
        (_, "quantile") => ("TDIGEST.QUANTILE", true),
        (_, "cdf") => ("TDIGEST.CDF", true),
        (_, "rank") => ("TDIGEST.RANK", true),
        (_, "reverse_rank") => ("TDIGEST.REVRANK", true),
        (_, "by_rank") => ("TDIGEST.BYRANK", true),
        (_, "by_reverse_rank") => ("TDIGEST.BYREVRANK", true),
        (_, "trimmed_mean") => ("TDIGEST.TRIMMED_MEAN", true),
        (_, "min") => ("TDIGEST.MIN", true),
        _ => ("TDIGEST.MAX", true),
    };
    let start = [command.as_bytes().to_vec(), b"k".to_vec()];
    let options = OPTIONS
        .iter()
        .filter_map(|(name, word)| Some([word.to_vec(), self::word(step.get(name)?)]));
    let options: Vec<_> = options.flatten().collect();
    let values: Vec<_> = step[name]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|item| match item {
            Value::Array(pair) => pair.iter().map(word).collect(),
            item => vec![word(item)],
        })
        .collect();
    if !takes_many {
        let of_item = |item: &Vec<u8>| [&start[..], std::slice::from_ref(item), &options].concat();
        return values.iter().map(of_item).collect();
    }
    let mut words = start.to_vec();
    match command {
        "BF.INSERT" => {
            words.push(b"NOCREATE".to_vec());
            words.extend(options);
            words.push(b"ITEMS".to_vec());
        }
        "TOPK.LIST" => words.push(b"WITHCOUNT".to_vec()),
        _ => {}
    }
    words.extend(values);
    vec![words]
}

/// Returns whether a reply in RESP2 is the one in the file.
fn agrees(reply: &Reply, expected: &Value) -> bool {
    match (reply, expected) {
        (Reply::Array(replies), Value::Array(expected)) => {
            // TOPK.LIST replies items and counts in turn.
            let flat: Vec<&Value> = expected
                .iter()
                .flat_map(|one| match one {
                    Value::Array(pair) => pair.iter().collect(),
                    one => vec![one],
                })
                .collect();
            replies.len() == flat.len()
                && replies
                    .iter()
                    .zip(flat)
                    .all(|(reply, one)| agrees(reply, one))
        }
        (Reply::Int(number), Value::Bool(expected)) => *number == i64::from(*expected),
        (Reply::Int(number), expected) => expected.as_i64() == Some(*number),
        (reply, Value::Null) => *reply == crate::harness::nil(),
        (reply, Value::Number(expected)) => reply.text().parse().ok() == expected.as_f64(),
        (reply, Value::Object(fields)) if fields.contains_key("error") => {
            reply.is_error() && reply.text().trim_start_matches("ERR ") == fields["error"]
        }
        (reply, item) => reply.as_bytes() == word(item),
    }
}

/// Runs the steps of a case, and compares the replies.
fn run(client: &mut Client, family: &str, case: &Value) {
    for step in case["steps"].as_array().unwrap() {
        let is_name =
            |name: &&String| *name != "reply" && OPTIONS.iter().all(|(option, _)| name != option);
        let name = step.as_object().unwrap().keys().find(is_name).unwrap();
        let commands = commands(family, name, step);
        let replies: Vec<Reply> = commands
            .iter()
            .map(|command| call(client, command))
            .collect();
        match (&replies[..], step.get("reply")) {
            ([reply], None) => assert_eq!(*reply, ok(), "{}", case["name"]),
            // One command for all items; a single number is the reply of a command for one.
            ([reply], Some(expected)) if agrees(reply, expected) => {}
            (replies, Some(expected)) => {
                let are_alike = agrees(&Reply::Array(replies.to_vec()), expected);
                assert!(
                    are_alike,
                    "{family}, {}, {name}: {replies:?}, {expected}",
                    case["name"]
                );
            }
            (replies, None) => panic!("{replies:?}"),
        }
    }
}

/// Returns a server whose log has the steps of a case that change something: only a log or a primary may send the time.
fn on_log(family: &str, case: &Value) -> Server {
    let mut stream = vec![command(&[b"SELECT", b"0"])];
    stream.push(creation(family, &case["create"]));
    let steps = case["steps"].as_array().unwrap().iter();
    let adding = steps.filter(|step| step.get("add").is_some());
    stream.extend(adding.flat_map(|step| commands(family, "add", step)));
    on_log_of(Server::builder(), &[], &wire(&stream))
}

#[test]
fn commands_have_the_replies_and_values_of_the_vectors() {
    for family in ["bloom", "cuckoo", "count-min", "top-k", "t-digest"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
        let text = fs::read_to_string(folder.join(format!("{family}.json"))).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        let shared = Server::start();
        for case in file["cases"].as_array().unwrap() {
            let has_time = case["create"].get("window_ms").is_some();
            let own = has_time.then(|| on_log(family, case));
            let mut client = own.as_ref().unwrap_or(&shared).client();
            if !has_time {
                client.ok("FLUSHALL");
                assert!(
                    !call(&mut client, &creation(family, &case["create"])).is_error(),
                    "{case}"
                );
                run(&mut client, family, case);
            }
            let made = digest(&mut client, "k");
            let dump = hex(&case["dump"]);
            assert_eq!(client.call(&[b"RESTORE", b"restored", b"0", &dump]), ok());
            assert_eq!(
                digest(&mut client, "restored"),
                made,
                "{family}, {}",
                case["name"]
            );
            if let Some(load) = case.get("load") {
                assert_eq!(client.call(&[b"BF.LOAD", b"loaded", &hex(load)]), ok());
                assert_eq!(digest(&mut client, "loaded"), made);
            }
            let Some(chunks) = case["chunks"].as_array() else {
                continue;
            };
            let prefix = if family == "bloom" { "BF" } else { "CF" };
            for chunk in chunks {
                let (cursor, bytes) = (chunk[0].to_string(), hex(&chunk[1]));
                let load = format!("{prefix}.LOADCHUNK");
                let loaded = client.call(&[load.as_bytes(), b"chunks", cursor.as_bytes(), &bytes]);
                assert_eq!(loaded, ok());
            }
            assert_eq!(digest(&mut client, "chunks"), made);
        }
    }
}
