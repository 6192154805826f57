//! A module in a server of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use valkeybloom_testing::harness::{Client, Reply, Server, given};

use super::case::Case;
use super::section;

/// The number of dumps, or loads, that are measured together.
const DUMPS: u64 = 20;

/// The number of lookups that measure a filter's rate.
pub(super) const LOOKUPS: u64 = 200_000;

/// A module in its server.
pub(super) struct Side {
    pub(super) name: String,
    pub(super) server: Server,
}

impl Side {
    /// Starts a server through a launcher, and makes the keys that the cases query.
    pub(super) fn start(
        module: &Path,
        launcher: &[&str],
        is_wanted: impl Fn(&str) -> bool,
    ) -> Self {
        let server = Server::builder()
            .without_module()
            .before_module(&format!("loadmodule \"{}\"", module.display()))
            .config("proto-max-bulk-len", "1gb")
            // Nothing but the commands is to take processor time.
            .config("lazyfree-lazy-user-del", "no")
            .config("hz", "1")
            .launched_by(launcher)
            .start();
        let mut client = server.client();
        for [line, ..] in section("setup").filter(|[line, ..]| is_wanted(line)) {
            send(&mut client, line);
        }
        let modules = client.run("MODULE LIST");
        let mut modules = modules.as_array().iter().map(Reply::as_array);
        let fields = modules.find(|fields| fields[1].text() == "bf");
        let version = fields.expect("a module called bf")[3].as_int();
        let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
        let file = module.file_stem().expect("a file").to_string_lossy();
        let name = format!("{file} {major}.{minor}.{patch}");
        Self { name, server }
    }

    pub(super) fn knows(&self, command: &str) -> bool {
        knows(&mut self.server.client(), command)
    }

    /// Returns the nanoseconds of the server's processor time that a command of the case takes.
    pub(super) fn measure(&self, case: &Case) -> f64 {
        let mut client = self.server.client();
        case.begin(&mut client);
        let (family, command) = case.command().split_once('.').unwrap_or_default();
        let key = &case.words[1];
        let mut pieces = Vec::new();
        if command == "LOADCHUNK" {
            pieces = dump(&mut client, family, key);
        }
        let cpu_seconds = || {
            let info = self.server.info("cpu");
            let field = |name: &str| info[name].parse::<f64>().expect("seconds");
            field("used_cpu_user") + field("used_cpu_sys")
        };
        let begin = cpu_seconds();
        let mut count = DUMPS;
        match command {
            "SCANDUMP" => (0..DUMPS).for_each(|_| drop(dump(&mut client, family, key))),
            "LOADCHUNK" => (0..DUMPS).for_each(|_| load(&mut client, family, &pieces)),
            _ => {
                count = case.requests;
                benchmark(&self.server, case);
            }
        }
        (cpu_seconds() - begin) * 1e9 / precise(count)
    }

    /// Returns the wrong answers of each family.
    pub(super) fn faults(&self) -> BTreeMap<&'static str, Vec<String>> {
        let mut client = self.server.client();
        client.run("SELECT 2");
        let mut faults: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for [line, bounds, ..] in section("answers") {
            let mut words = line.split(' ');
            let command = words.next().expect("a command");
            let (family, name) = command.split_once('.').expect("a module's command");
            match (name, words.next()) {
                ("SCANDUMP", Some(key)) if self.knows(command) => {
                    let pieces = dump(&mut client, family, key);
                    load(&mut client, family, &pieces);
                    continue;
                }
                // A module without chunks has copies.
                ("SCANDUMP", Some(key)) => drop(client.cmd(&format!("COPY {key} copy"))),
                _ => {}
            }
            let numbers = send(&mut client, line);
            let Some((least, most)) = bounds.split_once(' ') else {
                continue;
            };
            let [least, most] = [least, most].map(|bound| bound.parse().expect("a number"));
            let wrong = numbers
                .iter()
                .filter(|number| !(least..=most).contains(*number));
            let wrong = wrong.count();
            if wrong > 0 {
                let fault = format!("{command}: {wrong} of {}", numbers.len());
                faults.entry(family).or_default().push(fault);
            }
        }
        faults
    }

    /// Makes a filter, and returns its rate of false positives and its bits an item.
    pub(super) fn size(&self, reserve: &str, add: &str, count: u64) -> Option<(f64, f64)> {
        let command = reserve.split(' ').next().expect("a command");
        let family = command.split('.').next().expect("a family");
        let mut client = self.server.client();
        client.run("DEL size");
        if !self.knows(command) {
            return None;
        }
        client.run(reserve);
        send(&mut client, &format!("{add} 0..{count}"));
        let lookups = 10_000_000..10_000_000 + LOOKUPS;
        let lookups = format!("{family}.MEXISTS size {}..{}", lookups.start, lookups.end);
        let found: f64 = send(&mut client, &lookups).iter().sum();
        let bytes = send(&mut client, "MEMORY USAGE size")[0];
        Some((found / precise(LOOKUPS), bytes * 8.0 / precise(count)))
    }
}

fn knows(client: &mut Client, command: &str) -> bool {
    let info = client.run(format!("COMMAND INFO {command}"));
    matches!(info.as_array(), [Reply::Array(_)])
}

/// Runs a command unless the module lacks it, with numbered items a thousand at a time, and returns the numbers of the replies.
pub(super) fn send(client: &mut Client, line: &str) -> Vec<f64> {
    let words: Vec<&str> = line.split(' ').collect();
    if !knows(client, words[0]) {
        return Vec::new();
    }
    let Some(place) = words.iter().position(|word| word.contains("..")) else {
        return numbers(&client.run(line));
    };
    let (begin, end) = words[place].split_once("..").expect("two numbers");
    let [begin, end] = [begin, end].map(|number| number.parse::<u64>().expect("a number"));
    let batch = |first: u64| {
        let items = (first..end.min(first + 1000)).map(|item| format!("{item:012}"));
        let items = items.flat_map(|item| [vec![item], owned(&words[place + 1..])].concat());
        let all = [owned(&words[..place]), items.collect()].concat();
        let reply = client.call_words(&all);
        assert!(!reply.is_error(), "{line}: {reply:?}");
        numbers(&reply)
    };
    (begin..end).step_by(1000).flat_map(batch).collect()
}

pub(super) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Returns the numbers of a reply, and NaN for anything else.
pub(super) fn numbers(reply: &Reply) -> Vec<f64> {
    match reply {
        Reply::Array(replies) => replies.iter().flat_map(numbers).collect(),
        Reply::Int(number) => vec![number.to_string().parse().expect("a number")],
        Reply::Bulk(_) | Reply::Simple(_) => vec![reply.text().parse().unwrap_or(f64::NAN)],
        _ => vec![f64::NAN],
    }
}

/// Returns all pieces of a filter, each with the cursor after it.
fn dump(client: &mut Client, family: &str, key: &str) -> Vec<(i64, Vec<u8>)> {
    let mut pieces = Vec::new();
    let mut cursor = 0;
    loop {
        let reply = client.run(format!("{family}.SCANDUMP {key} {cursor}"));
        cursor = reply.as_array()[0].as_int();
        if cursor == 0 {
            return pieces;
        }
        pieces.push((cursor, reply.as_array()[1].as_bytes().to_vec()));
    }
}

/// Makes the filter `copy` of the pieces of another one.
fn load(client: &mut Client, family: &str, pieces: &[(i64, Vec<u8>)]) {
    client.run("DEL copy");
    for (cursor, piece) in pieces {
        let reply = client.call_with(&format!("{family}.LOADCHUNK copy {cursor}"), &[piece]);
        assert!(!reply.is_error(), "{reply:?}");
    }
}

/// Sends the requests of a case.
fn benchmark(server: &Server, case: &Case) {
    let generator = given("VALKEY_SERVER").with_file_name("valkey-benchmark");
    let output = Command::new("taskset")
        .args(["--cpu-list", "1"])
        .arg(&generator)
        .args(["-q", "-p", &server.port().to_string()])
        .args(["--dbnum", case.database()])
        .args(["-n", &case.requests.to_string()])
        .args(["-P", &case.pipeline.to_string()])
        .args(["-r", &case.range.to_string()])
        .args(
            case.words
                .iter()
                .map(|word| word.replace('#', "__rand_int__")),
        )
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("taskset {}: {e}", generator.display()));
    assert!(output.status.success(), "{}: {output:?}", case.name);
}

#[allow(clippy::cast_precision_loss, reason = "less than 2^52")]
pub(super) fn precise(count: u64) -> f64 {
    count as f64
}
