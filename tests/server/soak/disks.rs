//! Files that can't grow, or whose folder has gone.

use std::collections::{BTreeMap, HashSet};
use std::fs;

use super::{Budget, random, set};
use crate::harness::{Client, Reply, Server, digest, int, spaced, wait_until};
use crate::support::Rng;
use crate::support::sums;
use crate::support::usage::limit_process;

/// The items that each filter was seen to take, and how many of these it called new.
#[derive(Default)]
struct Known(BTreeMap<String, (HashSet<usize>, i64)>);

impl Known {
    /// Adds items to a random key, new or not. Returns the text of a refusal.
    #[track_caller]
    fn write(&mut self, client: &mut Client, random: &mut Rng, count: usize) -> Option<String> {
        let key = format!("key-{}", random.below(10));
        let items: Vec<usize> = (0..count).map(|_| random.below(1_000_000)).collect();
        let kind = match key.as_str() {
            "key-7" => " SCALETO 20000",
            "key-8" => " COUNTING",
            // None of its periods ends while a test runs.
            "key-9" => " WINDOW 1000000000000 PERIODS 2",
            _ => "",
        };
        let capacity = random.pick(&["100", "30000"]);
        let insert = format!(
            "BF.INSERT {key} CAPACITY {capacity}{kind} ITEMS {}",
            words(&items)
        );
        let answers = match client.cmd(&insert) {
            Reply::Error(text) => return Some(text),
            answers => answers,
        };
        let (known, cardinality) = self.0.entry(key).or_default();
        for (item, answer) in items.into_iter().zip(answers.as_array()) {
            let new = answer.as_int();
            assert!(new == 0 || !known.contains(&item), "{item} was denied");
            *cardinality += new;
            known.insert(item);
        }
        None
    }

    /// Checks that all items are there, and are counted.
    #[track_caller]
    fn is_there(&self, client: &mut Client) {
        for (key, (items, cardinality)) in &self.0 {
            client.expect(format!("BF.CARD {key}"), int(*cardinality));
            let missing = client.cmd(&format!("BF.MISSING {key} {}", words(items)));
            assert_eq!(missing, int(0), "items of {key} are denied");
        }
    }

    fn digests(&self, client: &mut Client) -> Vec<String> {
        self.0.keys().map(|key| digest(client, key)).collect()
    }
}

fn words<'i>(items: impl IntoIterator<Item = &'i usize>) -> String {
    spaced(items.into_iter().map(|item| format!("item-{item}")))
}

/// Limits every file of the server to this number of bytes, or to none, its log among them.
#[track_caller]
fn limit_files(server: &Server, bytes: &str) {
    limit_process(server.pid(), &format!("--fsize={bytes}:"));
}

#[track_caller]
fn save(server: &Server, status: &str) {
    server.client().run("BGSAVE");
    wait_until("the RDB is saved, or is not", || {
        server.info("persistence")["rdb_bgsave_in_progress"] == "0"
    });
    let info = server.info("persistence");
    assert_eq!(info["rdb_last_bgsave_status"], status);
}

fn writes_are_refused(client: &mut Client) {
    for line in [
        "BF.ADD new x",
        "BF.MADD key-0 x y",
        "BF.INSERT new ITEMS x",
        "BF.RESERVE new 0.01 10",
        "BF.LOADCHUNK new 1 x",
        "BF.LOAD new x",
    ] {
        let refused = client.cmd(line).text();
        assert!(refused.starts_with("MISCONF "), "{line}: {refused}");
    }
    client.expect("EXISTS new", int(0));
}

#[test]
fn failed_saves_lose_nothing() {
    let mut random = random("failed_saves_lose_nothing");
    // A file that cannot grow, as on a full disk, sends a signal that would end the server by default.
    let mut server = Server::builder()
        .launched_by(&["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .config("save", "1000000 1")
        .config("enable-protected-configs", "yes")
        .start();
    let mut known = Known::default();
    let home = server.dir().to_path_buf();
    let mut budget = Budget::rounds(6);
    for round in budget.by_ref() {
        let mut client = server.client();
        for _ in 0..10 {
            assert_eq!(known.write(&mut client, &mut random, 200), None);
        }
        let compression = random.pick(&["yes", "no"]);
        set(&mut client, &format!("rdbcompression {compression}"));
        let full = random.one_in(2);
        if full {
            // Bytes that can't be made fewer, and more of them than are allowed.
            set(&mut client, "rdbcompression no");
            client.ok("BF.RESERVE large 0.01 1000000");
            limit_files(&server, "1000000");
        } else {
            let gone = home.join(format!("gone-{round}"));
            fs::create_dir(&gone).expect("the folder can be written to");
            set(&mut client, &format!("dir {}", gone.display()));
            fs::remove_dir(&gone).expect("it is empty");
        }
        save(&server, "err");
        assert!(client.cmd("SAVE").is_error());
        writes_are_refused(&mut client);
        known.is_there(&mut client);
        sums::is_balanced(&mut client);
        set(&mut client, "stop-writes-on-bgsave-error no");
        assert_eq!(known.write(&mut client, &mut random, 200), None);
        set(&mut client, "stop-writes-on-bgsave-error yes");
        let refused = known.write(&mut client, &mut random, 1);
        assert!(refused.is_some_and(|text| text.starts_with("MISCONF ")));

        limit_files(&server, "unlimited");
        set(&mut client, &format!("dir {}", home.display()));
        set(&mut client, "stop-writes-on-bgsave-error no");
        client.expect("DEL large", int(i64::from(full)));
        set(&mut client, "stop-writes-on-bgsave-error yes");
        save(&server, "ok");
        assert_eq!(known.write(&mut client, &mut random, 200), None);
        save(&server, "ok");
        let digests = known.digests(&mut client);
        server.kill();
        server.start_again();
        let mut client = server.client();
        known.is_there(&mut client);
        sums::is_balanced(&mut client);
        assert_eq!(known.digests(&mut client), digests);
    }
    eprintln!("{} rounds", budget.done());
}
