//! Scripts of commands with the bytes of each reply, for an empty server.

use serde_json::Value;

use crate::harness::{Reply, Server};
use crate::support::protocols::in_both_protocols;
use crate::support::recordings::{COUNTS, DIGESTS, call, words};

use super::compress_as_redisbloom;

/// The command whose reply differs by decision, and ours: sketches can be copied.
const DIFFERENT: (&str, &str) = ("COPY w-some w-copy", ":1");

/// Returns a reply in words: its types, and what they hold.
fn notation(reply: &Reply) -> String {
    let list = |sign: &str, count: usize, parts: Vec<String>| {
        let head = format!("{sign}{count}");
        [vec![head], parts].concat().join(" ")
    };
    match reply {
        Reply::Simple(text) => format!("+{text}"),
        Reply::Error(text) => format!("-{text}"),
        Reply::Int(number) => format!(":{number}"),
        Reply::Bool(value) => format!("#{}", if *value { "t" } else { "f" }),
        Reply::Bulk(bytes) => format!("${} {}", bytes.len(), reply.text()),
        Reply::Double(number) if number.is_nan() => ",nan".to_owned(),
        Reply::Double(number) => format!(",{number:?}").trim_end_matches(".0").to_owned(),
        Reply::Nil => "_".to_owned(),
        Reply::Array(all) => list("*", all.len(), all.iter().map(notation).collect()),
        Reply::Map(pairs) => {
            let parts = pairs.iter().flat_map(|(name, value)| [name, value]);
            list("%", pairs.len(), parts.map(notation).collect())
        }
        other => panic!("what is {other:?}?"),
    }
}

/// Returns a recorded reply in that notation.
fn recorded_notation(reply: &str) -> String {
    let text = reply.strip_suffix("\r\n").unwrap_or(reply);
    text.replace("\r\n", " ").replace("$-1", "_")
}

#[test]
fn replies_are_the_recorded_ones() {
    let server = Server::builder()
        .config("bf.bloom-new-filters", "redisbloom")
        .config("bf.cms-overflow", "saturate")
        .start();
    // Other digits on other servers.
    let has_shortest_doubles = server.version().valkey && server.version().major >= 9;
    let scripts = [COUNTS.json("replies.json"), DIGESTS.json("wire.json")];
    let rows = scripts.iter().filter_map(Value::as_array).flatten();
    in_both_protocols(&server, |client, resp3| {
        let twenty: Vec<String> = (1..=20).map(|number| number.to_string()).collect();
        client.all_ok([
            "SET w-str x",
            "TDIGEST.CREATE w-empty",
            "TDIGEST.CREATE w-some COMPRESSION 50",
            &format!("TDIGEST.ADD w-some {}", twenty.join(" ")),
            "TDIGEST.CREATE w-b",
            "TDIGEST.ADD w-b 1 2.5",
        ]);
        let mut count = 0;
        for row in rows.clone() {
            let command = words(&row[0]);
            let recorded = row[2].as_str().filter(|_| resp3).or(row[1].as_str());
            let recorded = recorded_notation(recorded.expect("a reply"));
            if !recorded.starts_with('-') {
                compress_as_redisbloom(client, &(command.clone(), Value::Null));
            }
            let line = String::from_utf8_lossy(&command.join(&b' ')).into_owned();
            let (different, own) = DIFFERENT;
            let expected = if different == line { own } else { &*recorded };
            let before = client.cmd("DEBUG DIGEST");
            let reply = call(client, &command);
            let has_digits = expected.contains('.') || line.starts_with("TOPK.INFO ");
            if resp3 || has_shortest_doubles || !has_digits {
                assert_eq!(notation(&reply), expected, "{line}");
            }
            // Refused commands change nothing.
            if reply.is_error() {
                client.expect("DEBUG DIGEST", &before);
            }
            count += 1;
        }
        assert_eq!(count, 144 + 138);
    });
}
