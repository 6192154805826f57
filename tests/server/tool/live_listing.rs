//! What happens in the middle of a listing: keys change, rows are written while others are read, and the server may end.

use std::io::Read;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::Value;

use crate::harness::{Server, int, wait_until};
use crate::support::repeated::Repeated;
use crate::support::usage::most_resident;

use super::list::{keys, list};
use super::{Way, add, command, kill, numbered, run, url};

/// Makes keys, each with a command that depends on its number.
fn make_keys(server: &Server, count: u32, command: impl Fn(u32) -> String) {
    let words = |number| {
        let command = command(number);
        command.split(' ').map(Into::into).collect()
    };
    let commands: Vec<Vec<Vec<u8>>> = (0..count).map(words).collect();
    let mut client = server.client();
    for batch in commands.chunks(1000) {
        assert!(client.call_all(batch).iter().all(|reply| !reply.is_error()));
    }
}

/// Returns a way to a server on which something happens once the first 400 filters are described: two batches.
fn way_midway(server: &Server, then: impl FnOnce() + Send + 'static) -> Way {
    let mut described = 0;
    let is_third_batch = move |sent: &[u8]| {
        // A server without ALL of BF.INFO gets that command twice for the first keys, but this one once for each.
        described += sent.windows(4).filter(|word| word == b"PTTL").count();
        described > 400
    };
    Way::at(server, is_third_batch, then)
}

/// The key changes just before it is described.
#[test]
fn keys_that_change_are_listed_as_what_they_are_now() {
    for (change, left) in [
        ("DEL changing", None),
        ("SET changing text", None),
        ("PEXPIRE changing 0", None),
        ("CF.ADD changing item", Some("MBbloomCF")),
        ("BF.RESERVE changing 0.01 100 COUNTING", Some("bloomfltx")),
    ] {
        let server = Server::start();
        let mut client = server.client();
        for key in ["changing", "other"] {
            add(&mut client, key, &numbered("item", 0..3));
        }
        let way = Way::before(&server, "BF.INFO", 1, move || {
            if !change.starts_with("PEXPIRE") {
                client.expect("DEL changing", int(1));
            }
            client.run(change);
        });
        let found = run(&["list", &way.url(), "--json"]).json();
        let all = keys(&found);
        assert_eq!(all["other"]["items"], 3, "{change}");
        let kind = all.get("changing").and_then(|row| row["type"].as_str());
        assert_eq!(kind, left, "{change}");
        assert_eq!(found["unreadable"], 0, "{change}");
    }
}

/// There are ten thousand keys. A third of them are made, deleted, change their types or expire during the listing.
#[test]
fn a_listing_under_churn_has_every_lasting_key() {
    const KEYS: u32 = 10_000;
    let server = Server::start();
    make_keys(&server, KEYS, |number| match number % 3 {
        0 => format!("BF.ADD key:{number} item"),
        1 => format!("CF.ADD key:{number} item"),
        _ => format!("TDIGEST.CREATE key:{number}"),
    });
    let mut client = server.client();
    let writer = Repeated::start(move |round| {
        // Every third key changes.
        let key = format!("key:{}", round * 3 % u64::from(KEYS) / 3 * 3);
        client.cmd(&match round % 4 {
            0 => format!("SET {key} text"),
            1 => format!("UNLINK {key}"),
            2 => format!("PEXPIRE {key} 1"),
            _ => format!("TOPK.RESERVE {key} 3"),
        });
    });
    writer.goes_on();
    for rate in ["20000", "0"] {
        let found = list(&server, &["--rate", rate]);
        let all = keys(&found);
        assert_eq!(found["unreadable"], 0);
        for number in (0..KEYS).filter(|number| number % 3 != 0) {
            let kind = ["", "MBbloomCF", "TDIS-TYPE"][number as usize % 3];
            let row = all.get(&format!("key:{number}"));
            let row = row.unwrap_or_else(|| panic!("key:{number} is missing"));
            assert_eq!(row["type"], kind, "key:{number}");
        }
    }
    writer.end();
}

/// The server waits in the middle of a listing until its first rows are written.
#[test]
fn rows_are_written_while_others_are_read() {
    let server = Server::start();
    make_keys(&server, 1000, |key| format!("BF.ADD key:{key} item"));
    for (form, row) in [("--json", "\"key\":\"key:0\""), ("--csv", "key:0,")] {
        let written = Arc::new(AtomicBool::new(false));
        let way = way_midway(&server, {
            let written = Arc::clone(&written);
            move || wait_until("rows are written", || written.load(Relaxed))
        });
        let mut list = command(&["list", &way.url(), form, "--rate", "0", "--quiet"]);
        let list = list.stdout(Stdio::piped()).spawn();
        let mut list = list.expect("the program runs");
        let mut out = list.stdout.take().expect("a pipe");
        let mut text = vec![0; 1000];
        out.read_exact(&mut text).expect("there are more rows");
        written.store(true, Relaxed);
        out.read_to_end(&mut text).expect("it ends");
        let text = String::from_utf8(text).expect("it writes UTF-8");
        assert!(text.contains(row), "{text}");
        assert!(list.wait().expect("it is ours").success());
        let named = text.matches("bloomfltr").count();
        assert_eq!(named, 1000 + usize::from(form == "--json"));
    }
}

/// Lists these keys as JSON. Returns the number of rows, and the most memory that the program has held.
fn most_held(server: &Server, pattern: &str) -> (usize, u64) {
    let words = ["list", &url(server), "--json", "--rate", "0", "--quiet"];
    let mut list = command(&words);
    list.args(["--match", pattern]).stdout(Stdio::piped());
    let mut list = list.spawn().expect("the program runs");
    let mut out = list.stdout.take().expect("a pipe");
    let (mut text, mut most) = (Vec::new(), None);
    // The program can't end before all of its output but a pipe's capacity is read.
    let mut piece = vec![0; 1 << 16];
    loop {
        most = most_resident(list.id()).max(most);
        let count = out.read(&mut piece).expect("it is readable");
        if count == 0 {
            break;
        }
        text.extend(&piece[..count]);
    }
    assert!(list.wait().expect("it is ours").success());
    let text = String::from_utf8(text).expect("it writes UTF-8");
    (text.matches("\"key\":").count(), most.expect("it ran"))
}

/// A long listing keeps the names of its keys, and no rows.
#[test]
fn a_listing_in_json_keeps_no_rows() {
    const FEW: u32 = 1_000;
    const MANY: u32 = 40_000;
    // A name takes about 120, and a row 400 more.
    const BYTES_OF_KEY: u64 = 256;
    let server = Server::start();
    make_keys(&server, MANY, |key| {
        let group = if key < FEW { "few" } else { "more" };
        format!("TDIGEST.CREATE key:{group}:{key} COMPRESSION 1")
    });
    let (rows, least) = most_held(&server, "key:few:*");
    assert_eq!(rows, FEW as usize);
    let (rows, most) = most_held(&server, "key:*");
    assert_eq!(rows, MANY as usize);
    let each = most.saturating_sub(least) / u64::from(MANY);
    let range = format!("{each} bytes a key, from {least} to {most}");
    assert!(each < BYTES_OF_KEY, "{range}");
}

/// JSON that has begun ends with the error, and the rows up to then.
#[test]
fn a_listing_that_breaks_off_is_still_one_object() {
    let mut server = Server::start();
    make_keys(&server, 1000, |key| format!("BF.ADD key:{key} item"));
    let pid = server.pid();
    let way = way_midway(&server, move || kill(pid));
    let broken = run(&["list", &way.url(), "--json", "--rate", "0", "--quiet"]);
    let found: Value = serde_json::from_str(&broken.out).expect("one object");
    assert_eq!(found["keys"].as_array().map(Vec::len), Some(400));
    let why = broken.failed(1);
    assert_eq!(found["error"], why);
    server.kill();
}
