//! `Near` itself, with its task and its connections.

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use tokio::runtime::Runtime;
use valkeybloom_client::near::{Options, State};
use valkeybloom_client::{Error, Near};

use crate::harness::{Client, PATIENCE, Server, int, ok, wait_in_sync, wait_until};
use crate::support::protocols::with_fixed_seed;

use super::KEY;

/// Polls that come quickly, so that no test waits long.
pub fn quick() -> Options {
    Options {
        every: Duration::from_millis(5),
        ..Options::default()
    }
}

pub fn url(port: u16, resp3: bool) -> String {
    let protocol = if resp3 { "?protocol=resp3" } else { "" };
    format!("redis://127.0.0.1:{port}/{protocol}")
}

pub async fn manager(port: u16, resp3: bool) -> ConnectionManager {
    let client = redis::Client::open(url(port, resp3)).expect("a valid address");
    let config = ConnectionManagerConfig::new().set_response_timeout(Some(PATIENCE));
    let manager = client.get_connection_manager_with_config(config).await;
    manager.expect("the server is up")
}

async fn multiplexed(port: u16) -> MultiplexedConnection {
    let client = redis::Client::open(url(port, false)).expect("a valid address");
    let connection = client.get_multiplexed_async_connection().await;
    connection.expect("the server is up")
}

/// Enough items to hit false positives, so that equal answers imply equal bits.
pub fn many_items() -> Vec<String> {
    let named = ["a", "b", "c", "d", "e", "z", "mine"].map(str::to_owned);
    named
        .into_iter()
        .chain((0..200).map(|n| format!("item{n}")))
        .collect()
}

/// Waits until the copy alone answers as the server does.
#[track_caller]
pub fn becomes_equal(near: &Near, mut exists: impl FnMut(&str) -> bool, after: &str) {
    let items = many_items();
    let expected: Vec<_> = items.iter().map(|item| Some(exists(item))).collect();
    wait_until(&format!("the copy is equal after {after}"), || {
        let answers = items.iter().map(|item| near.local(item));
        answers.eq(expected.iter().copied())
    });
}

#[test]
fn what_a_program_adds_it_finds() {
    let server = with_fixed_seed();
    let mut client = server.client();
    let runtime = Runtime::new().expect("a runtime");
    for (confirm, resp3) in [(false, false), (true, true)] {
        client.ok("FLUSHALL");
        runtime.block_on(async {
            let connection = manager(server.port(), resp3).await;
            let near = Near::follow(connection, KEY, Options { confirm, ..quick() });
            assert_eq!(near.ready().await, Ok(()));
            assert_eq!(near.state(), State::Missing);
            assert_eq!(near.contains("a").await, Ok(false));
            // The first add makes the filter, where that is wanted.
            let missing = near.add("a").await.unwrap_err();
            assert!(missing.to_string().contains("not found"), "{missing}");
            assert_eq!(near.add_each(&["a", "b"]).await[1], Err(missing));
            client.expect("EXISTS k", int(0));
            let near = near.creating();
            assert_eq!(near.add("a").await, Ok(true));
            assert_eq!(near.contains("a").await, Ok(true));
            for number in 0..500 {
                let item = format!("item {number}");
                assert_eq!(near.contains(&item).await, Ok(false));
                assert_eq!(near.add(&item).await, Ok(true));
                assert_eq!(near.contains(&item).await, Ok(true));
                assert_eq!(near.clone().add(&item).await, Ok(false));
            }
            let batch = ["a", "x", "item 3", "y", "x"];
            let expected = [true, false, true, false, false];
            assert_eq!(near.contains_each(&batch).await, Ok(expected.to_vec()));
            let expected = [false, true, false, true, false].map(Ok);
            assert_eq!(near.add_each(&batch).await, expected);
            assert_eq!(near.contains_each(&batch).await, Ok(vec![true; 5]));
            assert_eq!(near.contains_each(&[""; 0]).await, Ok(vec![]));
            assert_eq!(near.add_each(&[""; 0]).await, []);
        });
        client.expect("BF.CARD k", int(503));
    }
}

/// Batches that take several commands and several looks at the copy.
#[test]
fn large_batches() {
    let (server, mut client) = Server::with_client();
    client.ok("BF.RESERVE k 0.000000001 100000");
    let items: Vec<_> = (0..50_000).map(|n| format!("item {n}")).collect();
    let even: Vec<_> = items.iter().step_by(2).collect();
    let is_even: Vec<_> = (0..items.len()).map(|n| n % 2 == 0).collect();
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let connection = manager(server.port(), false).await;
        let asking = Near::follow(
            connection.clone(),
            KEY,
            Options {
                confirm: true,
                ..quick()
            },
        );
        let trusting = Near::follow(connection, KEY, quick());
        assert_eq!(trusting.ready().await, Ok(()));
        assert_eq!(trusting.add_each(&even).await, vec![Ok(true); even.len()]);
        assert_eq!(asking.ready().await, Ok(()));
        for near in [&trusting, &asking] {
            assert_eq!(near.contains_each(&items).await, Ok(is_even.clone()));
        }
        assert!(asking.stats().asked >= 25_000, "{:?}", asking.stats());
        let added = is_even.iter().map(|is_even| Ok(!is_even));
        assert_eq!(trusting.add_each(&items).await, added.collect::<Vec<_>>());
        client.expect("BF.CARD k", int(50_000));
    });
}

/// What is refused for one item is reported for it, and the items after it are not tried.
#[test]
fn refused_items_are_reported() {
    let (server, mut client) = Server::with_client();
    client.ok("BF.RESERVE k 0.000001 3 NONSCALING");
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let near = Near::follow(manager(server.port(), true).await, KEY, quick());
        assert_eq!(near.ready().await, Ok(()));
        assert_eq!(near.add("a").await, Ok(true));
        let answers = near.add_each(&["a", "b", "c", "d", "e"]).await;
        assert_eq!(answers[..3], [Ok(false), Ok(true), Ok(true)]);
        let full = answers[3].as_ref().unwrap_err();
        assert!(
            full.to_string().contains("non scaling filter is full"),
            "{full}"
        );
        assert_eq!(answers[4], Err(Error::NotTried));
        let full = near.add("f").await.unwrap_err();
        assert!(
            full.to_string().contains("non scaling filter is full"),
            "{full}"
        );
        let found = near.contains_each(&["a", "b", "c", "d"]).await;
        assert_eq!(found, Ok(vec![true, true, true, false]));
    });
}

/// Returns the number of the server's connections.
fn connections(client: &mut Client) -> usize {
    client.cmd("CLIENT LIST").text().lines().count()
}

#[test]
fn the_task_ends_when_it_is_closed_or_dropped() {
    let (server, mut client) = Server::with_client();
    client.ok("BF.RESERVE k 0.01 100");
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let before = connections(&mut client);
        let near = Near::follow(multiplexed(server.port()).await, KEY, quick());
        assert_eq!(near.ready().await, Ok(()));
        let clone = near.clone();
        drop(near);
        assert_eq!(clone.ready().await, Ok(()));
        assert_eq!(connections(&mut client), before + 1);
        drop(clone);
        wait_until("the connection is closed", || {
            connections(&mut client) == before
        });

        let (reads, asks) = (
            multiplexed(server.port()).await,
            multiplexed(server.port()).await,
        );
        let near = Near::follow_replica(reads, asks, KEY, quick());
        assert_eq!(near.ready().await, Ok(()));
        near.close().await;
        wait_until("one is closed", || connections(&mut client) == before + 1);
        assert_eq!(near.ready().await, Err(Error::Closed));
        wait_until("the copy is too old", || near.local("a").is_none());
        // The server is asked.
        let asked = near.stats().asked;
        assert_eq!(near.add("a").await, Ok(true));
        assert_eq!(near.contains("a").await, Ok(true));
        assert_eq!(near.stats().asked, asked + 1);
        near.close().await;
    });
}

#[test]
fn servers_without_the_module_are_refused() {
    Runtime::new().expect("a runtime").block_on(async {
        let plain = Server::builder().without_module().start();
        let near = Near::follow(multiplexed(plain.port()).await, KEY, quick());
        let refused = near.ready().await.unwrap_err().to_string();
        let advice = "; set Options::refresh to follow a server without BF.READ";
        assert!(
            refused.contains("unknown command") && refused.ends_with(advice),
            "{refused}"
        );
        let refresh = Some(Duration::from_millis(20));
        let options = Options { refresh, ..quick() };
        let near = Near::follow(multiplexed(plain.port()).await, KEY, options);
        let refused = near.ready().await.unwrap_err().to_string();
        assert!(refused.contains("unknown command"), "{refused}");
    });
}

#[test]
fn refusals_are_reported_to_those_who_wait() {
    let (server, mut client) = Server::with_client();
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let connection = manager(server.port(), false).await;
        for (make, why) in [
            (
                "BF.RESERVE k 0.01 100 COUNTING",
                "the filter can't be followed: ERR filters with WINDOW, COUNTING or SCALETO have no feed",
            ),
            (
                "SET k text",
                "the filter can't be followed: WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
        ] {
            client.ok("FLUSHALL");
            client.ok(make);
            let near = Near::follow(connection.clone(), KEY, quick());
            let refused = near.ready().await.unwrap_err();
            assert_eq!(refused.to_string(), why);
            assert_eq!(near.state(), State::Refused);
            assert_eq!(near.age(), None);
            assert_eq!(near.local("a"), None);
            // The key gets a filter after all.
            client.expect("DEL k", int(1));
            client.expect("BF.ADD k a", int(1));
            wait_until("it is followed", || near.local("a") == Some(true));
        }
        client.ok("FLUSHALL");
        client.ok("BF.RESERVE k 0.01 100");
        client.expect("BF.ADD k a", int(1));
        let user = client.cmd("ACL SETUSER near on nopass ~* +bf.exists +bf.scandump +ping");
        assert_eq!(user, ok());
        let refresh = Some(Duration::from_millis(20));
        let denied = format!("redis://near:any@127.0.0.1:{}/", server.port());
        let denied = redis::Client::open(denied).expect("a valid address");
        let connection = denied.get_multiplexed_async_connection().await.expect("it is up");
        let near = Near::follow(connection.clone(), KEY, quick());
        let refused = near.ready().await.unwrap_err().to_string();
        assert!(refused.contains("NOPERM ") && refused.contains("bf.read"), "{refused}");
        // Lookups go to the server.
        assert_eq!(near.contains("a").await, Ok(true));
        let manager = denied.get_connection_manager().await.expect("it is up");
        let near = Near::follow(connection, KEY, Options { refresh, ..quick() });
        assert_eq!(near.ready().await, Ok(()));
        assert_eq!(near.contains_each(&["a", "b"]).await, Ok(vec![true, false]));
        assert_eq!(near.stats().asked, 0);
        client.expect("BF.ADD k b", int(1));
        wait_until("the copy is fetched anew", || near.local("b") == Some(true));
        // The password is changed.
        let user = client.cmd("ACL SETUSER near resetpass >other +bf.read");
        assert_eq!(user, ok());
        let near = Near::follow(manager, KEY, quick());
        assert_eq!(near.ready().await, Ok(()));
        client.cmd("CLIENT KILL USER near");
        wait_until("the login fails", || near.state() == State::Refused);
        let refused = near.ready().await.unwrap_err().to_string();
        assert!(refused.contains("WRONGPASS"), "{refused}");
    });
}

/// The copy of a replica, beside a primary that is written to.
#[test]
fn a_replica_is_read_and_its_primary_written_to() {
    let primary = Server::start();
    let replica = Server::replica_of(&primary).start();
    let mut client = primary.client();
    client.ok("BF.RESERVE k 0.000001 10000");
    wait_in_sync(&primary, &replica);
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let reads = manager(replica.port(), false).await;
        let connection = manager(primary.port(), true).await;
        let near = Near::follow_replica(reads, connection, KEY, quick());
        assert_eq!(near.ready().await, Ok(()));
        for number in 0..1000 {
            let item = format!("item {number}");
            assert_eq!(near.add(&item).await, Ok(true));
            assert_eq!(near.contains(&item).await, Ok(true));
        }
    });
    let reads = |server: &Server| {
        let info = server.client().cmd("INFO commandstats").text();
        info.contains("cmdstat_bf.read") || info.contains("cmdstat_BF.READ")
    };
    assert!(reads(&replica) && !reads(&primary));
}
