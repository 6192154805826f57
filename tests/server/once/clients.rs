//! Additions of the Rust client behind a proxy that cuts connections: before a command, after it, and within its reply.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use tokio::runtime::Runtime;
use valkeybloom_client::near::Options;
use valkeybloom_client::{Error, Near, Once};

use crate::harness::{Server, int};
use crate::support::Rng;
use crate::support::cutter::Cutter;

async fn connection(port: u16) -> ConnectionManager {
    let client = redis::Client::open(("127.0.0.1", port)).expect("an address");
    let config = ConnectionManagerConfig::new()
        .set_min_delay(Duration::from_millis(1))
        .set_max_delay(Duration::from_millis(5));
    let manager = client.get_connection_manager_with_config(config).await;
    manager.expect("it is up")
}

/// What adds items, and returns whether each was new.
#[derive(Clone)]
enum Adder {
    Once(Once),
    Near(Near),
}

impl Adder {
    /// Adds items until all have an answer.
    async fn add(&self, items: &[String]) -> Vec<bool> {
        match self {
            Self::Once(once) => loop {
                match once.add(items).await {
                    Ok(answers) => return answers,
                    Err(Error::Node(_) | Error::Timeout) => {}
                    Err(error) => panic!("{error}"),
                }
            },
            Self::Near(near) => {
                let mut answers = vec![None; items.len()];
                while answers.contains(&None) {
                    let left: Vec<usize> = (0..items.len())
                        .filter(|at| answers[*at].is_none())
                        .collect();
                    let batch: Vec<&str> = left.iter().map(|at| &items[*at][..]).collect();
                    for (at, answer) in left.into_iter().zip(near.add_each(&batch).await) {
                        match answer {
                            Ok(answer) => answers[at] = Some(answer),
                            Err(Error::Node(_) | Error::Timeout | Error::NotTried) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
                answers.into_iter().flatten().collect()
            }
        }
    }
}

#[test]
fn cuts_do_not_spoil_an_answer() {
    let (server, mut client) = Server::with_client();
    let runtime = Runtime::new().expect("a runtime");
    for seed in 0..4 {
        let key = format!("k{seed}");
        client.ok(format!("BF.RESERVE {key} 0.000000001 100000"));
        let cutter = Cutter::of(server.port(), b"BF.", seed);
        let told = runtime.block_on(async {
            let connection = connection(cutter.port).await;
            let adder = if seed % 2 == 0 {
                Adder::Once(Once::new(connection, &key))
            } else {
                let reader = self::connection(server.port()).await;
                Adder::Near(Near::follow_replica(
                    reader,
                    connection,
                    &key,
                    Options::default(),
                ))
            };
            let callers = (0..8).map(|caller| {
                let adder = adder.clone();
                tokio::spawn(async move {
                    let mut rng = Rng::new(100 * seed + caller);
                    let mut told = Vec::new();
                    for _ in 0..50 {
                        let items: Vec<String> = (0..=rng.below(20))
                            .map(|_| format!("item {}", rng.below(1500)))
                            .collect();
                        let answers = adder.add(&items).await;
                        told.extend(items.into_iter().zip(answers));
                    }
                    told
                })
            });
            let mut told = Vec::new();
            for caller in callers.collect::<Vec<_>>() {
                told.extend(caller.await.expect("it does not panic"));
            }
            told
        });
        let mut times: HashMap<&str, usize> = HashMap::new();
        for (item, is_new) in &told {
            *times.entry(item).or_default() += usize::from(*is_new);
        }
        let wrong: HashSet<_> = times.iter().filter(|(_, times)| **times != 1).collect();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
        client.expect(
            format!("BF.CARD {key}"),
            int(i64::try_from(times.len()).unwrap()),
        );
        cutter.require_cuts();
    }
}

#[test]
fn a_consumer_gets_the_same_answers_again() {
    let (server, mut client) = Server::with_client();
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let connection = connection(server.port()).await;
        let clicks = Once::new(connection.clone(), "clicks").consumer("worker-7", 1200);
        assert_eq!(clicks.position().await, Ok(1200));
        for _ in 0..2 {
            assert_eq!(
                clicks.add(&["/a", "/b", "/a"], 1200).await,
                Ok(vec![true, true, false])
            );
        }
        assert_eq!(
            clicks.add(&["/b", "/a", "/c"], 1201).await,
            Ok(vec![true, false, true])
        );
        assert_eq!(clicks.position().await, Ok(1204));
        let forgotten = Err(Error::Forgotten {
            from: 1200,
            to: 1204,
        });
        assert_eq!(clicks.add(&["/d"], 1300).await, forgotten);
        client.ok("SET {clicks}:once:worker-7 text");
        assert_eq!(clicks.position().await, Err(Error::Unexpected));
        client.ok("RENAME {clicks}:once:worker-7 other");
        client.run("LPUSH {clicks}:once:worker-7 text");
        assert!(matches!(clicks.position().await, Err(Error::Node(_))));
        // The answers before a refusal come with the next call that has the items.
        client.ok("BF.RESERVE full 0.000000001 2 NONSCALING");
        let full = Once::new(connection, "full");
        assert!(matches!(
            full.add(&["a", "b", "c"]).await,
            Err(Error::Node(_))
        ));
        assert_eq!(full.add(&["b"]).await, Ok(vec![true]));
        assert_eq!(full.add(&["b"]).await, Ok(vec![false]));
    });
}

#[test]
fn a_server_without_receipts() {
    let server = Server::builder().without_module().start();
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let once = Once::new(connection(server.port()).await, "k");
        assert_eq!(once.add(&["a"]).await, Err(Error::NoReceipts));
    });
}
