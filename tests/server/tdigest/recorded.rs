//! Recordings of RedisBloom 8.8: its commands, dumps, files and logs give its bytes and answers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Client, Reply, Server, int, ok, wait_in_sync};
use crate::support::aof::{commands, on_log_of, rewrite_aof, wire};
use crate::support::forged::{rdb_version, seal};
use crate::support::protocols::in_both_protocols;
use crate::support::recordings::hex;
use crate::support::sketches::{refuses_version, reseal};

/// RDB version and checksum at the end of a DUMP.
const FOOTER_BYTES: usize = 10;

/// The case whose differences overflow. There they make means infinite or NaN, which are mended; here they don't.
const OVERFLOWING: &str = "overflow";

/// The cases that recorded NaN where there is an answer: an outermost node of weight 2, a sum that overflows, and a node
/// of weight 0 in place of a lost observation.
const WITHOUT_ANSWERS: [&str; 3] = ["ends", "huge", "oneloaded"];

/// The cases and commands whose replies differ. In RedisBloom, queries, dumps and merges compress the digests that they
/// read, which later answers depend on.
const DIFFERING: &[(&str, &str)] = &[
    ("doubling", "INFO"),
    ("ends", "BYRANK"),
    ("ends", "QUANTILE"),
    ("merge", "INFO"),
    ("mixed", "BYRANK"),
    ("mixed", "BYREVRANK"),
    ("mixed", "CDF"),
    ("mixed", "INFO"),
    ("mixed", "QUANTILE"),
    ("mixed", "RANK"),
    ("mixed", "REVRANK"),
    ("mixed", "TRIMMED_MEAN"),
    ("one", "INFO"),
    ("onebyone", "QUANTILE"),
    ("reads", "BYRANK"),
    ("reads", "BYREVRANK"),
    ("reads", "INFO"),
    ("reads", "QUANTILE"),
    ("reads", "REVRANK"),
    ("reads", "TRIMMED_MEAN"),
];

/// The keys whose nodes differ from those that RedisBloom makes of its log: merges compressed these between additions.
const MERGED_FROM: [&str; 2] = ["mixed", "mixed:q"];

fn file(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("tests/data/redisbloom-8.8-tdigest").join(name)
}

fn json(name: &str) -> Value {
    let text = fs::read_to_string(file(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

struct Case {
    name: String,
    value: Value,
}

impl Case {
    fn keys(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.value["keys"].as_object().unwrap().iter()
    }

    fn history(&self) -> &[Value] {
        self.value["history"].as_array().unwrap()
    }
}

fn cases_in(name: &str) -> Vec<Case> {
    let all = json(name);
    let all = all["cases"].as_object().unwrap().iter();
    let case = |(name, value): (&String, &Value)| Case {
        name: name.clone(),
        value: value.clone(),
    };
    all.map(case).collect()
}

/// Returns the cases of 8.8, and for those that lost a lone observation the recordings of a later build.
fn cases() -> Vec<Case> {
    let mut all = cases_in("objects.json");
    let repaired = cases_in("repaired.json");
    all.retain(|case| repaired.iter().all(|other| other.name != case.name));
    all.extend(repaired);
    assert_eq!(all.len(), 35);
    all
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Returns the words of a recorded command, with payloads in this server's version of the RDB form.
fn words(recorded: &Value, version: [u8; 2]) -> Vec<Vec<u8>> {
    let word = |word: &Value| match word {
        Value::String(text) => text.clone().into_bytes(),
        other => sealed(&hex(&other["hex"]), version),
    };
    recorded.as_array().unwrap().iter().map(word).collect()
}

fn sealed(dump: &[u8], version: [u8; 2]) -> Vec<u8> {
    seal(dump[..dump.len() - FOOTER_BYTES].to_vec(), version)
}

fn call(client: &mut Client, words: &[Vec<u8>]) -> Reply {
    client.call(&words.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Returns the recorded answer to a query, with the pairs of own and recorded answers that are not the same.
fn differing(own: &Reply, recorded: &Value) -> Vec<(String, String)> {
    let is_same = match (own, recorded) {
        (Reply::Array(own), Value::Array(recorded)) if own.len() == recorded.len() => {
            let pairs = own.iter().zip(recorded);
            return pairs
                .flat_map(|(own, recorded)| differing(own, recorded))
                .collect();
        }
        (Reply::Map(pairs), Value::Array(recorded)) if 2 * pairs.len() == recorded.len() => {
            let own = pairs.iter().flat_map(|(name, value)| [name, value]);
            let pairs = own.zip(recorded);
            return pairs
                .flat_map(|(own, recorded)| differing(own, recorded))
                .collect();
        }
        (Reply::Int(own), Value::Number(recorded)) => recorded.as_i64() == Some(*own),
        (Reply::Simple(own), Value::String(recorded)) => own == recorded,
        (Reply::Error(own), recorded) => Some(&**own) == recorded["error"].as_str(),
        // The digits are the server's.
        (Reply::Bulk(_), Value::String(recorded)) => {
            same_number(own.text().parse().unwrap(), recorded)
        }
        (Reply::Double(own), Value::String(recorded)) => same_number(*own, recorded),
        _ => false,
    };
    if is_same {
        Vec::new()
    } else {
        vec![(format!("{own:?}"), recorded.to_string())]
    }
}

fn same_number(own: f64, recorded: &str) -> bool {
    let recorded: f64 = recorded.parse().unwrap();
    own.to_bits() == recorded.to_bits() || own.is_nan() && recorded.is_nan()
}

/// Returns the value of a key without the footer of its DUMP.
fn dumped(client: &mut Client, key: &str) -> Vec<u8> {
    let dump = client.cmd(&format!("DUMP {key}"));
    let dump = dump.as_bytes();
    dump[..dump.len() - FOOTER_BYTES].to_vec()
}

/// Returns the value that RedisBloom makes of its log, or of the commands themselves if that is the same.
fn replayed(value: &Value) -> Vec<u8> {
    let mut dump = hex(value.get("dump_from_aof").unwrap_or(&value["dump"]));
    dump.truncate(dump.len() - FOOTER_BYTES);
    dump
}

/// Checks that the server has what its log makes of the cases.
#[track_caller]
fn all_are_replayed(server: &Server) {
    let mut client = server.client();
    for case in cases() {
        for (key, value) in case.keys() {
            let same = dumped(&mut client, key) == replayed(value);
            let differs = key == OVERFLOWING || MERGED_FROM.contains(&key.as_str());
            assert_eq!(same, !differs, "{key}");
        }
    }
}

/// The commands one by one, with the replies that RedisBloom gave. A replica and a restart on the log have the same
/// digests, although both got none of the queries.
#[test]
fn its_commands_have_its_replies() {
    let mut server = Server::with(&[("appendonly", "yes"), ("aof-use-rdb-preamble", "no")]);
    let replica = Server::replica_of(&server)
        .config("bf.bloom-filter-max-memory-usage", "1")
        .config("bf.bloom-memory-usage-limit", "1")
        .start();
    wait_in_sync(&server, &replica);
    let mut client = server.client();
    let version = rdb_version(&mut client);
    assert_eq!(client.cmd("SET mergebad-string x"), ok());
    let mut differ = BTreeSet::new();
    for case in cases() {
        for step in case.history() {
            let reply = call(&mut client, &words(&step[0], version));
            let command = text(&step[0][0]);
            // A dump in a history shows what compressed before it, which the table names for answers.
            if command != "DUMP" && !differing(&reply, &step[1]).is_empty() {
                let name = command.strip_prefix("TDIGEST.").unwrap();
                differ.insert((case.name.clone(), name.to_owned()));
            }
        }
    }
    let expected = DIFFERING.iter();
    let expected = expected.map(|(case, name)| ((*case).to_owned(), (*name).to_owned()));
    assert_eq!(differ, expected.collect());
    all_are_replayed(&server);
    wait_in_sync(&server, &replica);
    all_are_replayed(&replica);
    server.restart();
    all_are_replayed(&server);
    rewrite_aof(&server);
    server.restart();
    all_are_replayed(&server);
}

/// If the sources of merges are compressed first, as RedisBloom does, the nodes are the same.
#[test]
fn merges_of_compressed_digests_make_its_nodes() {
    let server = Server::start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    let case = cases().into_iter().find(|case| case.name == "mixed");
    let case = case.unwrap();
    for step in case.history() {
        let words = words(&step[0], version);
        if words[0] == b"TDIGEST.MERGE" {
            let count: usize = text(&step[0][2]).parse().unwrap();
            for key in words[3..].iter().take(count).chain([&words[1]]) {
                if let Reply::Bulk(dump) = client.call(&[b"DUMP", key]) {
                    let restored = client.call(&[b"RESTORE", key, b"0", &dump, b"REPLACE"]);
                    assert_eq!(restored, ok());
                }
            }
        }
        call(&mut client, &words);
    }
    for (key, value) in case.keys() {
        assert_eq!(dumped(&mut client, key), replayed(value), "{key}");
    }
}

/// Checks that a digest gives the recorded answers, and those that were missing.
#[track_caller]
fn answers(client: &mut Client, case: &Case, key: &str, value: &Value) {
    let has_lost = value["info_after_dump"][5] == 0 && value["info_after_dump"][7] == 1;
    let mut require = |words: &[&str], recorded: &Value| {
        let line = format!("TDIGEST.{} {key} {}", words[0], words[1..].join(" "));
        for (own, recorded) in differing(&client.cmd(line.trim_end()), recorded) {
            let is_missing = recorded == "\"nan\"" || recorded == "-9223372036854775808";
            let is_known = has_lost || WITHOUT_ANSWERS.contains(&&*case.name);
            assert!(is_missing && is_known, "{line}: {own}, {recorded}");
            assert!(!own.to_lowercase().contains("nan"), "{line}: {own}");
        }
    };
    for name in ["MIN", "MAX"] {
        require(&[name], &value[name.to_lowercase()]);
    }
    for name in ["QUANTILE", "CDF", "RANK", "REVRANK", "BYRANK", "BYREVRANK"] {
        let recorded = &value[name.to_lowercase()];
        let points = recorded[0].as_array().unwrap().iter().map(text);
        let words: Vec<&str> = [name].into_iter().chain(points).collect();
        require(&words, &recorded[1]);
    }
    for cut in value["trimmed_mean"].as_array().unwrap() {
        require(&["TRIMMED_MEAN", text(&cut[0]), text(&cut[1])], &cut[2]);
    }
    if !has_lost {
        require(&["INFO"], &value["info_after_dump"]);
    }
    assert_eq!(client.cmd(&format!("TYPE {key}")).text(), "TDIS-TYPE");
}

/// Checks that all digests of these cases are there, but for the one that is not finite.
#[track_caller]
fn all_answer(server: &Server, cases: &[Case]) {
    for mut client in [server.client(), server.client3()] {
        for case in cases.iter().filter(|case| case.name != OVERFLOWING) {
            for (key, value) in case.keys() {
                answers(&mut client, case, key, value);
            }
        }
    }
}

#[test]
fn its_dumps_are_loaded() {
    for cases in [cases(), cases_in("objects.json")] {
        let mut server = Server::start();
        let mut client = server.client();
        let version = rdb_version(&mut client);
        let mut restored = 0;
        for case in &cases {
            for (key, value) in case.keys() {
                let payload = sealed(&hex(&value["dump"]), version);
                let reply = client.call(&[b"RESTORE", key.as_bytes(), b"0", &payload]);
                assert_eq!(reply, ok(), "{key}");
                restored += 1;
            }
        }
        assert_eq!(client.cmd("DBSIZE"), int(restored));
        assert!(restored >= 50, "{restored}");
        all_answer(&server, &cases);
        server.restart_saving();
        all_answer(&server, &cases);
        let replica = Server::replica_of(&server).start();
        wait_in_sync(&server, &replica);
        all_answer(&replica, &cases);
    }
}

/// Its log of commands makes the same digests. Limits do not apply.
#[test]
fn its_log_is_replayed() {
    let log = commands(&fs::read(file("commands.aof")).unwrap());
    let log: Vec<_> = log
        .into_iter()
        .filter(|words| words[0] != b"RESTORE")
        .collect();
    let builder = Server::builder()
        .config("bf.bloom-filter-max-memory-usage", "1")
        .config("bf.bloom-memory-usage-limit", "1");
    let server = on_log_of(builder, &wire(&log), b"");
    let mut client = server.client();
    let mut checked = 0;
    let restored = [
        "reloaded:copy",
        "oneloaded:copy",
        "oneloaded:with",
        "oneloaded:again",
    ];
    for case in cases() {
        for (key, value) in case.keys() {
            if restored.contains(&key.as_str()) {
                continue;
            }
            let same = dumped(&mut client, key) == replayed(value);
            let differs = key == OVERFLOWING || MERGED_FROM.contains(&key.as_str());
            assert_eq!(same, !differs, "{key}");
            checked += 1;
        }
    }
    assert_eq!(checked, 64);
}

/// Its rewritten log holds payloads.
#[test]
fn its_rewritten_log_is_loaded() {
    let probe = Server::start();
    let version = rdb_version(&mut probe.client());
    let mut log = commands(&fs::read(file("rewritten.aof")).unwrap());
    reseal(&mut log, version);
    let server = on_log_of(Server::builder(), &wire(&log), b"");
    all_answer(&server, &cases_in("objects.json"));
}

/// Its file is loaded, and the digest that is not finite is mended.
#[test]
fn its_file_is_loaded() {
    let mut server = Server::start();
    let version = server.version();
    server.shutdown();
    fs::copy(file("dump.rdb"), server.dir().join("dump.rdb")).unwrap();
    if !version.valkey || version.major < 9 {
        refuses_version(&server.try_start_again().unwrap_err());
        return;
    }
    server.start_again();
    assert!(server.log_contains("infinite or not numbers: 1"));
    all_answer(&server, &cases_in("objects.json"));
}

/// Returns a reply in the notation of the recording.
fn notation(reply: &Reply) -> String {
    let list = |sign: &str, count: usize, parts: Vec<String>| {
        let head = format!("{sign}{count}");
        [vec![head], parts].concat().join(" ")
    };
    match reply {
        Reply::Simple(text) => format!("+{text}"),
        Reply::Error(text) => format!("-{text}"),
        Reply::Int(number) => format!(":{number}"),
        Reply::Bulk(bytes) => format!("${} {}", bytes.len(), reply.text()),
        Reply::Double(number) if number.is_nan() => ",nan".to_owned(),
        Reply::Double(number) => format!(",{number}"),
        Reply::Array(all) => list("*", all.len(), all.iter().map(notation).collect()),
        Reply::Map(pairs) => {
            let parts = pairs.iter().flat_map(|(name, value)| [name, value]);
            list("%", pairs.len(), parts.map(notation).collect())
        }
        other => panic!("what is {other:?}?"),
    }
}

#[test]
fn its_replies_have_its_types() {
    let server = Server::start();
    // Other digits on other servers.
    let has_shortest_doubles = server.version().valkey && server.version().major >= 9;
    let script = json("wire.json");
    let script = script.as_array().unwrap();
    assert_eq!(script.len(), 138);
    in_both_protocols(&server, |client, resp3| {
        let twenty: Vec<String> = (1..=20).map(|number| number.to_string()).collect();
        for line in [
            "SET w-str x",
            "TDIGEST.CREATE w-empty",
            "TDIGEST.CREATE w-some COMPRESSION 50",
            &format!("TDIGEST.ADD w-some {}", twenty.join(" ")),
            "TDIGEST.CREATE w-b",
            "TDIGEST.ADD w-b 1 2.5",
        ] {
            assert_eq!(client.cmd(line), ok(), "{line}");
        }
        let mut other = 0;
        for row in script {
            let words = words(&row[0], [0, 0]);
            let reply = notation(&call(client, &words));
            let recorded = row.get(2).filter(|text| resp3 && text.is_string());
            let recorded = text(recorded.unwrap_or(&row[1]));
            // Sketches can be copied here.
            if words[0] == b"COPY" {
                assert_eq!(reply, ":1");
                continue;
            }
            // Queries change nothing here, so the digest is never compressed.
            if words[0] == b"TDIGEST.INFO" && reply != recorded {
                other += 1;
                continue;
            }
            if resp3 || has_shortest_doubles || !recorded.contains('.') {
                assert_eq!(reply, recorded, "{row}");
            }
        }
        assert!(other <= 1, "{other}");
    });
}
