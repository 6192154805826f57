//! Sentinels put another server in the place of one that is gone, and nothing is lost that was waited for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::Budget;
use super::life::settings;
use crate::harness::{Client, Reply, Server, digest, int, ok, wait_in_sync, wait_until};
use crate::support::sums;

/// Returns the port of what the sentinels take for the primary.
fn primary_port(sentinel: &mut Client) -> u16 {
    let address = sentinel.cmd("SENTINEL GET-MASTER-ADDR-BY-NAME main");
    let port = address.as_array()[1].text();
    port.parse().expect("a port")
}

/// Returns whether a sentinel sees this replica follow the primary, and sees the other sentinels.
fn is_ready(sentinel: &mut Client, replica: u16) -> bool {
    let replicas = sentinel.cmd("SENTINEL REPLICAS main");
    let follows = replicas.as_array().iter().any(|fields| {
        let words: Vec<String> = fields.as_array().iter().map(Reply::text).collect();
        let reported = |name: &str| {
            let pair = words.chunks_exact(2).find(|pair| pair[0] == name);
            pair.map_or_else(String::new, |pair| pair[1].clone())
        };
        reported("port") == replica.to_string()
            && reported("flags") == "slave"
            && reported("master-link-status") == "ok"
            && reported("slave-repl-offset") != "0"
    });
    let others = sentinel.cmd("SENTINEL SENTINELS main");
    follows && others.as_array().len() == SENTINELS - 1
}

const SENTINELS: usize = 3;

/// Connections to sentinels, whose views are printed on a failure.
struct Views(Vec<Client>);

impl Drop for Views {
    fn drop(&mut self) {
        if thread::panicking() {
            for sentinel in &mut self.0 {
                for what in ["MASTER", "REPLICAS"] {
                    let words: [&[u8]; 3] = [b"SENTINEL", what.as_bytes(), b"main"];
                    eprintln!("{what}: {:?}", sentinel.try_call(&words));
                }
            }
        }
    }
}

/// Sets how long a server may be silent before it counts as down. Short only while a server is down, so that a busy
/// machine makes no failover that the test does not want.
#[track_caller]
fn be_patient_for(sentinels: &mut [Client], ms: u32) {
    for sentinel in sentinels {
        let set = format!("SENTINEL SET main down-after-milliseconds {ms}");
        assert_eq!(sentinel.cmd(&set), ok());
    }
}

/// Adds items until the server is gone. Returns the items that a replica is known to have.
fn write_until_the_end(
    mut client: Client,
    acknowledged: &AtomicUsize,
    round: u64,
) -> Vec<(String, String)> {
    let mut safe = Vec::new();
    for number in 0_u64.. {
        let key = format!("key-{}", number % 7);
        let items: Vec<String> = (0..20).map(|i| format!("{round}-{number}-{i}")).collect();
        let line = format!("BF.MADD {key} {}", items.join(" "));
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let Ok(added) = client.try_call(&words) else {
            break;
        };
        assert_eq!(added.as_array().len(), items.len());
        match client.try_call(&[b"WAIT", b"1", b"1000"]) {
            Ok(Reply::Int(1..)) => {
                safe.extend(items.into_iter().map(|item| (key.clone(), item)));
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    safe
}

#[test]
fn sentinels_lose_no_write_that_was_waited_for() {
    let mut primary = settings(40).start();
    let mut replica = settings(25).start();
    let follow = format!("REPLICAOF 127.0.0.1 {}", primary.port());
    assert_eq!(replica.client().cmd(&follow), ok());
    wait_in_sync(&primary, &replica);
    let monitor = format!("sentinel monitor main 127.0.0.1 {} 2", primary.port());
    let sentinels: Vec<Server> = (0..SENTINELS)
        .map(|_| {
            Server::builder()
                .without_module()
                .before_module(&monitor)
                .before_module("sentinel down-after-milliseconds main 60000")
                .before_module("sentinel failover-timeout main 3000")
                .flag("--sentinel")
                .start()
        })
        .collect();
    let mut reported = Views(sentinels.iter().map(Server::client).collect());
    let reported = &mut reported.0;

    let mut safe: Vec<(String, String)> = Vec::new();
    let mut budget = Budget::rounds(1);
    for round in budget.by_ref() {
        wait_until("the sentinels know the servers and each other", || {
            let mut all = reported.iter_mut();
            all.all(|sentinel| is_ready(sentinel, replica.port()))
        });
        let client = primary.client();
        let acknowledged = AtomicUsize::new(0);
        let written = thread::scope(|scope| {
            let writer = scope.spawn(|| write_until_the_end(client, &acknowledged, round));
            wait_until("some writes have been waited for", || {
                acknowledged.load(Ordering::Relaxed) >= 200
            });
            primary.kill();
            writer.join().expect("the writer meets an end it expects")
        });
        safe.extend(written);
        be_patient_for(reported, 1500);
        wait_until("the replica is made the primary", || {
            let mut all = reported.iter_mut();
            all.all(|sentinel| primary_port(sentinel) == replica.port())
                && replica.info("replication")["role"] == "master"
        });
        be_patient_for(reported, 60_000);
        std::mem::swap(&mut primary, &mut replica);

        let mut client = primary.client();
        for (key, item) in &safe {
            client.send(&format!("BF.EXISTS {key} {item}"));
        }
        let denied = safe.iter().filter(|_| client.read() != int(1)).count();
        assert_eq!(denied, 0, "of {}", safe.len());
        sums::is_balanced(&mut client);
        // The old primary may hold writes that were not waited for. They are dropped.
        replica.start_again();
        let follow = format!("REPLICAOF 127.0.0.1 {}", primary.port());
        assert!(!replica.client().cmd(&follow).is_error());
        wait_in_sync(&primary, &replica);
        let mut other = replica.client();
        for key in client.cmd("KEYS *").as_array() {
            let key = key.text();
            assert_eq!(digest(&mut client, &key), digest(&mut other, &key), "{key}");
        }
        assert_eq!(client.cmd("DBSIZE"), other.cmd("DBSIZE"));
        sums::is_balanced(&mut other);
    }
    eprintln!("{} failovers, {} items safe", budget.done(), safe.len());
}
