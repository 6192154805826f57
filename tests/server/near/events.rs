//! Whatever happens to a filter, its copy becomes equal to it again.

use std::time::Duration;

use valkeybloom_near::{Options, State};

use super::Driven;
use crate::harness::{Client, Server, int, wait_in_sync};
use crate::read::{ENDS, MISSING, given, happen};
use crate::support::protocols::in_both_protocols;

fn server() -> Server {
    Server::with(&[
        ("bf.bloom-use-random-seed", "no"),
        ("enable-debug-command", "yes"),
    ])
}

/// What a follower does after an event whose reader gets this error.
fn state_after(error: &str) -> State {
    match error {
        MISSING => State::Missing,
        error if error.starts_with("RESYNC ") => State::Following,
        error if error.starts_with("WRONGTYPE ") => State::Refused,
        _ => State::Syncing,
    }
}

/// Each event happens to a copy that follows, and after each command of one that begins.
#[test]
fn every_event_ends_in_an_equal_copy() {
    let server = server();
    in_both_protocols(&server, |client, resp3| {
        for confirm in [false, true] {
            for (event, error) in ENDS {
                for commands in [0, 1, 2, 3, 4] {
                    given(client);
                    let options = Options {
                        confirm,
                        ..Options::default()
                    };
                    let reader = if resp3 {
                        server.client3()
                    } else {
                        server.client()
                    };
                    let mut near = Driven::new(reader, options);
                    for _ in 0..commands {
                        near.step();
                    }
                    happen(client, event);
                    let expected = state_after(error);
                    assert_eq!(near.catch_up(), expected, "{event} after {commands}");
                    is_like_its_server(&near, client, event, confirm);
                    if matches!(expected, State::Following | State::Missing) {
                        client.cmd("BF.MADD k later latest");
                        assert_eq!(near.catch_up(), State::Following, "{event}");
                        is_like_its_server(&near, client, event, confirm);
                    }
                }
            }
        }
    });
}

#[track_caller]
fn is_like_its_server(near: &Driven, client: &mut Client, event: &str, confirm: bool) {
    let state = near.follower.state(near.now);
    if state == State::Following {
        near.is_equal(client, event);
    }
    for item in [
        "a", "b", "c", "d", "e", "z", "later", "latest", "new7", "never",
    ] {
        let answer = near.contains(item);
        if matches!(state, State::Following | State::Missing) {
            let exists = client.cmd(&format!("BF.EXISTS k {item}"));
            let exists = exists == int(1) || exists == crate::harness::boolean(true);
            assert_eq!(
                answer,
                (exists || !confirm).then_some(exists),
                "{event}: {item}"
            );
        } else {
            assert_eq!(answer, None, "{event}: {item}");
        }
    }
}

/// The same feed goes on, so nothing is fetched anew.
#[test]
fn what_leaves_the_filter_as_it_is_needs_no_new_copy() {
    let server = server();
    in_both_protocols(&server, |client, _| {
        given(client);
        let mut near = Driven::new(server.client(), Options::default());
        assert_eq!(near.catch_up(), State::Following);
        for event in [
            "RENAME k away / RENAME away k",
            "SWAPDB 0 1 / SWAPDB 0 1",
            "SELECT 1 / SELECT 0",
            "COPY k another REPLACE",
            "EXPIRE k 1000 / PERSIST k",
            "BF.MADD k f g / BF.MADD k f h",
            "BF.INSERT k ITEMS i",
            "MULTI / BF.ADD k j / BF.ADD k k / EXEC",
            "BF.MERGE another k",
        ] {
            for line in event.split(" / ") {
                client.run(line);
            }
            assert_eq!(near.catch_up(), State::Following, "{event}");
            near.is_equal(client, event);
        }
        let stats = near.follower.stats();
        assert_eq!((stats.fetches, stats.resyncs), (1, 0), "{stats:?}");
    });
}

/// A full sync gives a replica another filter, and a promoted replica lacks what it had not received.
#[test]
fn replicas_are_followed_through_syncs_and_failovers() {
    let mut primary = Server::start();
    let replica = Server::replica_of(&primary).start();
    let mut here = primary.client();
    here.ok("BF.RESERVE k 0.000001 1000");
    here.cmd("BF.MADD k a b c");
    wait_in_sync(&primary, &replica);
    let lag = Options {
        lag: Duration::from_secs(1),
        ..Options::default()
    };
    let mut of_replica = Driven::new(replica.client(), lag);
    let mut of_primary = Driven::new(primary.client(), Options::default());
    for near in [&mut of_replica, &mut of_primary] {
        assert_eq!(near.catch_up(), State::Following);
    }
    here.cmd("BF.ADD k d");
    wait_in_sync(&primary, &replica);
    assert_eq!(of_replica.catch_up(), State::Following);
    of_replica.is_equal(&mut replica.client(), "an add");
    assert_eq!(of_replica.follower.stats().fetches, 1);

    // The primary starts anew, and the replica gets everything anew.
    here.cmd("BF.ADD k e");
    primary.restart_saving();
    let mut here = primary.client();
    here.cmd("BF.ADD k f");
    wait_in_sync(&primary, &replica);
    assert_eq!(of_replica.catch_up(), State::Following);
    of_replica.is_equal(&mut replica.client(), "a full sync");
    // Its connection is lost.
    of_primary.catch_up();
    of_primary.client = primary.client();
    assert_eq!(of_primary.catch_up(), State::Following);
    of_primary.is_equal(&mut here, "a restart");

    // The replica is promoted, and lacks what was added since.
    let mut there = replica.client();
    there.ok("REPLICAOF NO ONE");
    here.cmd("BF.MADD k lost lost2");
    assert_eq!(of_primary.catch_up(), State::Following);
    assert_eq!(of_primary.contains("lost"), Some(true));
    of_primary.client = replica.client();
    // The same number of items, but others.
    there.cmd("BF.MADD k other other2");
    assert_eq!(of_primary.catch_up(), State::Following);
    assert_eq!(of_primary.contains("lost"), Some(false));
    assert_eq!(of_primary.contains("other"), Some(true));
    of_primary.is_equal(&mut there, "a failover");
    assert_eq!(of_replica.catch_up(), State::Following);
    of_replica.is_equal(&mut there, "a promotion");
}
