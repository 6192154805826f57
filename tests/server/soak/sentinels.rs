//! Sentinels put another server in the place of one that is gone, and nothing is lost that was waited for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::Budget;
use super::life::settings;
use crate::harness::{Client, Reply, Server, array, int, ok, wait_in_sync, wait_until};
use crate::replication::state;
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
    let port = replica.to_string();
    let expected = [
        ("port", &*port),
        ("flags", "slave"),
        ("master-link-status", "ok"),
    ];
    let follows = replicas.as_array().iter().any(|fields| {
        let words: Vec<String> = fields.as_array().iter().map(Reply::text).collect();
        let (pairs, _) = words.as_chunks::<2>();
        let has = |name: &str, value: &str| pairs.iter().any(|pair| pair == &[name, value]);
        expected.iter().all(|(name, value)| has(name, value)) && !has("slave-repl-offset", "0")
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

/// Adds items until the server is gone. Returns the writes that a replica is known to have: each has a key and its
/// items.
fn write_until_the_end(mut client: Client, acknowledged: &AtomicUsize, round: u64) -> Vec<String> {
    let mut safe = Vec::new();
    for number in 0_u64.. {
        let items = (0..20).map(|item| format!(" {round}-{number}-{item}"));
        let write = format!("key-{}{}", number % 7, items.collect::<String>());
        let words = ["BF.MADD"].into_iter().chain(write.split(' '));
        let words: Vec<&[u8]> = words.map(str::as_bytes).collect();
        let Ok(added) = client.try_call(&words) else {
            break;
        };
        assert_eq!(added.as_array().len(), 20);
        match client.try_call(&[b"WAIT", b"1", b"1000"]) {
            Ok(Reply::Int(1..)) => {
                safe.push(write);
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
    let sentinels = [(); SENTINELS].map(|()| {
        Server::builder()
            .without_module()
            .before_module(&monitor)
            .before_module("sentinel down-after-milliseconds main 60000")
            .before_module("sentinel failover-timeout main 3000")
            .flag("--sentinel")
            .start()
    });
    let mut views = Views(sentinels.iter().map(Server::client).collect());
    let views = &mut views.0;

    let mut safe = Vec::new();
    let mut budget = Budget::rounds(1);
    for round in budget.by_ref() {
        wait_until("the sentinels know the servers and each other", || {
            let mut views = views.iter_mut();
            views.all(|sentinel| is_ready(sentinel, replica.port()))
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
        be_patient_for(views, 1500);
        wait_until("the replica is made the primary", || {
            let mut views = views.iter_mut();
            views.all(|sentinel| primary_port(sentinel) == replica.port())
                && replica.info("replication")["role"] == "master"
        });
        be_patient_for(views, 60_000);
        std::mem::swap(&mut primary, &mut replica);

        let mut client = primary.client();
        for write in &safe {
            let found = client.cmd(&format!("BF.MEXISTS {write}"));
            assert_eq!(found, array(vec![int(1); 20]), "{write}");
        }
        sums::is_balanced(&mut client);
        // The old primary may hold writes that were not waited for. They are dropped.
        replica.start_again();
        let follow = format!("REPLICAOF 127.0.0.1 {}", primary.port());
        assert!(!replica.client().cmd(&follow).is_error());
        wait_in_sync(&primary, &replica);
        assert_eq!(state(&replica), state(&primary));
        sums::is_balanced(&mut replica.client());
    }
    eprintln!("{} failovers, {} writes safe", budget.done(), safe.len());
}
