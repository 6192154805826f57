//! Every reply of RedisBloom to 1,788 commands of all families, right and wrong, byte for byte in both protocols. Where a
//! reply differs, docs/compatibility.md has a row for the kind of the difference. Refused commands change nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Server, spaced};
use crate::support::aof::{Command, command, wire};
use crate::support::recordings::{COUNTS, DIGESTS, REPLIES, hex};

/// A kind of difference: the beginning of its row on the page, and whether a command with RedisBloom's reply and ours is
/// an example of it.
type Kind = (&'static str, fn(&Exchange) -> bool);

#[derive(Debug)]
struct Exchange {
    words: Vec<String>,
    recorded: String,
    own: String,
}

impl Exchange {
    fn is(&self, commands: &[&str]) -> bool {
        commands.contains(&&*self.words[0])
    }
}

const KINDS: [Kind; 3] = [
    ("a lookup in a key of another type", |it| {
        let looks_up = [
            "BF.EXISTS",
            "BF.MEXISTS",
            "CF.EXISTS",
            "CF.MEXISTS",
            "CF.COUNT",
        ];
        it.is(&looks_up)
            && it.own == "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
            && !it.recorded.contains(":1")
            && !it.recorded.contains("#t")
    }),
    ("`CF.SCANDUMP` from within a filter", |it| {
        it.is(&["CF.SCANDUMP"]) && it.own.starts_with("*2\r\n:")
    }),
    ("`TDIGEST.INFO` after a query", |it| {
        it.is(&["TDIGEST.INFO"]) && it.own.len() == it.recorded.len()
    }),
];

/// A connection that returns replies as bytes.
struct Raw {
    stream: TcpStream,
    sent: u32,
}

impl Raw {
    /// Sends a command, and ECHO with a mark that no reply has: the bytes before the mark are the reply.
    fn call(&mut self, words: &[Vec<u8>]) -> String {
        self.sent += 1;
        let mark = format!("the reply before is number {}", self.sent);
        let request = wire(&[
            words.to_vec(),
            vec![b"ECHO".to_vec(), mark.clone().into_bytes()],
        ]);
        self.stream.write_all(&request).expect("the server reads");
        let end = format!("${}\r\n{mark}\r\n", mark.len()).into_bytes();
        let mut reply = Vec::new();
        while !reply.ends_with(&end) {
            let mut part = [0; 1 << 12];
            let length = self.stream.read(&mut part).expect("the server replies");
            assert!(length > 0, "the server closed the connection");
            reply.extend(&part[..length]);
        }
        reply.truncate(reply.len() - end.len());
        reply.into_iter().map(char::from).collect()
    }
}

/// Returns whether two replies are equal but for the digits of doubles, which are the server's: parts that are numbers are
/// equal, and their lengths may differ.
fn equal_but_for_digits(one: &str, other: &str) -> bool {
    let parts = |reply: &str| -> Vec<String> {
        let parts = reply.split_whitespace();
        let parts = parts.filter(|part| !part.starts_with('$'));
        let parts = parts.map(|part| match part.trim_start_matches(',').parse::<f64>() {
            Ok(number) => number.to_string(),
            Err(_) => part.to_owned(),
        });
        parts.collect()
    };
    parts(one) == parts(other)
}

/// Returns the commands of all scripts, each with its reply in both protocols. Every script starts with an empty server, the
/// last one with some values.
fn exchanges() -> Vec<(Command, [String; 2])> {
    let script = |script: Value| script.as_array().expect("a list").clone();
    // The bytes are recorded as Latin-1, or in hexadecimal digits.
    let word = |word: &Value| match word {
        Value::String(text) => text.chars().map(|c| u8::try_from(c).unwrap()).collect(),
        other => hex(&other["hex"]),
    };
    let exchange = |row: Value| {
        let words = row[0].as_array().expect("words").iter().map(word);
        let reply = row[1].as_str().expect("a reply");
        let replies = [reply, row[2].as_str().unwrap_or(reply)];
        (words.collect(), replies.map(str::to_owned))
    };
    let making = [
        "FLUSHALL",
        "SET w-str x",
        "TDIGEST.CREATE w-empty",
        "TDIGEST.CREATE w-some COMPRESSION 50",
        &format!("TDIGEST.ADD w-some {}", spaced(1..=20)),
        "TDIGEST.CREATE w-b",
        "TDIGEST.ADD w-b 1 2.5",
    ];
    let making = making.map(|line| (command(line), ["+OK", "+OK"].map(str::to_owned)));
    let mut of_digests = script(DIGESTS.json("wire.json"));
    // Here, sketches can be copied.
    of_digests.retain(|row| row[0][0] != "COPY");
    let [all, of_counts] =
        [REPLIES, COUNTS].map(|recording| script(recording.json("replies.json")));
    let exchanges = |script: Vec<Value>| script.into_iter().map(exchange);
    exchanges(all)
        .chain([making[0].clone()])
        .chain(exchanges(of_counts))
        .chain(making)
        .chain(exchanges(of_digests))
        .collect()
}

#[test]
fn the_page_has_a_row_for_each_kind() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/compatibility.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let rows: Vec<_> = page
        .lines()
        .skip_while(|line| !line.starts_with("<!-- replies:"))
        .take_while(|line| !line.is_empty())
        .skip(3)
        .collect();
    for (name, _) in KINDS {
        let row = rows
            .iter()
            .find(|row| row.starts_with(&format!("| {name}")));
        assert!(row.is_some(), "the page has no row for {name}");
    }
    assert!(rows.len() <= 12, "a dozen kinds at most");
}

#[test]
fn replies_are_redisbloom_s_byte_for_byte() {
    let mut examples = [0; KINDS.len()];
    for protocol in [2, 3] {
        let server = Server::builder()
            .config("bf.bloom-new-filters", "redisbloom")
            .config("bf.bloom-capacity", "100")
            .config("bf.cms-overflow", "saturate")
            .start();
        let has_shortest_doubles = server.version().valkey && server.version().major >= 9;
        let stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server is up");
        let mut client = Raw { stream, sent: 0 };
        client.call(&[b"HELLO".to_vec(), protocol.to_string().into_bytes()]);
        for (words, recorded) in exchanges() {
            // One script has spaces between the lines of a reply.
            let in_line = |reply: &str| reply.trim_end_matches("\r\n").replace("\r\n", " ");
            let recorded = &recorded[protocol - 2];
            let digest = [&b"DEBUG"[..], b"DIGEST"].map(<[u8]>::to_vec);
            let before = client.call(&digest);
            let own = client.call(&words);
            if own.starts_with('-') {
                assert_eq!(
                    client.call(&digest),
                    before,
                    "{}",
                    wire(&[words]).escape_ascii()
                );
            }
            if in_line(&own) == in_line(recorded)
                || !has_shortest_doubles && equal_but_for_digits(&own, recorded)
            {
                continue;
            }
            let words = words.iter().map(|word| String::from_utf8_lossy(word));
            let exchange = Exchange {
                words: words.map(Into::into).collect(),
                recorded: recorded.clone(),
                own,
            };
            let kind = KINDS
                .iter()
                .position(|(_, is_example)| is_example(&exchange));
            let kind = kind.unwrap_or_else(|| panic!("{exchange:?}"));
            examples[kind] += 1;
        }
    }
    for ((name, _), count) in KINDS.iter().zip(examples) {
        assert!(count > 0, "{name} does not occur");
    }
}
