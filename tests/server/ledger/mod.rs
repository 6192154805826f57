//! INFO bf equals the sum over the keyspace, at every moment.

mod steps;

use std::{fs, iter};

use crate::harness::{Client, Reply, Server, int, ok, wait_in_sync, wait_until};
use crate::support::pieces::{load_chunks, pieces, split};
use crate::support::population::Population;
use crate::support::primary::played_primary;
use crate::support::protocols::with_fixed_seed;
use crate::support::sums::{Sums, is_balanced, is_balanced_after};
use crate::support::usage::nothing_is_being_freed;

#[test]
fn info_reports_the_deepest_stack_after_every_change() {
    let server = with_fixed_seed();
    let mut client = server.client();
    let mut next = |line: &str, deepest: i64| {
        assert!(!client.cmd(line).is_error(), "{line}");
        nothing_is_being_freed(&server);
        assert_eq!(Sums::read(&mut client).max_filters, deepest, "{line}");
    };
    // With this seed and rate no item is a false positive.
    next("BF.RESERVE one 1e-9 1 EXPANSION 1", 1);
    next("BF.MADD one 1 2 3 4 5 6", 6);
    next(
        "BF.INSERT other ERROR 1e-9 CAPACITY 2 EXPANSION 1 ITEMS 1 2 3",
        6,
    );
    next("COPY one same", 6);
    next("DEL one", 6);
    next("RENAME same one", 6);
    next("UNLINK one", 2);
    next("BF.MADD other 4 5 6 7 8", 4);
    next("COPY other other DB 3", 4);
    next("SWAPDB 0 1", 4);
    next("FLUSHDB ASYNC", 4);
    next("DEBUG RELOAD", 4);
    next("SWAPDB 1 2", 4);
    next("SELECT 3", 4);
    next("BF.MADD other 9 10", 5);
    next("FLUSHDB", 4);
    next("FLUSHALL ASYNC", 0);
}

#[test]
fn an_expired_key_counts_until_it_is_deleted() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.cmd("DEBUG SET-ACTIVE-EXPIRE 0"), ok());
    assert_eq!(client.cmd("BF.ADD lasting item"), int(1));
    assert_eq!(client.cmd("BF.ADD brief item"), int(1));
    assert_eq!(client.cmd("PEXPIRE brief 1"), int(1));
    wait_until("the time is over", || {
        client.cmd("KEYS *").as_array().len() == 1
    });
    assert_eq!(client.cmd("DBSIZE"), int(2));
    assert_eq!(Sums::read(&mut client).objects, 2);
    assert_eq!(client.cmd("BF.EXISTS brief item"), int(0));
    assert_eq!(client.cmd("DBSIZE"), int(1));
    is_balanced(&mut client);
}

#[test]
fn a_renamed_value_stays_counted() {
    let server = Server::start();
    let mut client = server.client();
    let population = Population::new(&mut client);
    let before = Sums::read(&mut client);
    for key in population.keys() {
        assert_eq!(client.cmd(&format!("RENAME {key} {key}-renamed")), ok());
    }
    nothing_is_being_freed(&server);
    assert_eq!(Sums::read(&mut client), before);
    is_balanced(&mut client);
    for key in population.keys() {
        assert_eq!(client.cmd(&format!("MOVE {key}-renamed 2")), int(1));
    }
    assert_eq!(Sums::read(&mut client), before);
    is_balanced(&mut client);
    assert_eq!(client.cmd("SWAPDB 0 2"), ok());
    assert_eq!(Sums::read(&mut client), before);
    assert_eq!(client.cmd("FLUSHALL SYNC"), ok());
    assert_eq!(Sums::read(&mut client), Sums::default());
}

/// INFO at a moment at which the server is freeing something in the background.
#[track_caller]
fn told_while_freeing(client: &mut Client) -> Sums {
    let fill = "for i = 1, 300000, 5000 do local items = {} \
        for j = i, i + 4999 do items[j - i + 1] = 'item number ' .. j end \
        redis.call('SADD', KEYS[1], unpack(items)) end";
    let eval: [&[u8]; 4] = [b"EVAL", fill.as_bytes(), b"1", b"a large set"];
    assert_eq!(client.call(&eval), Reply::Nil);
    for line in ["MULTI", "UNLINK KEY", "INFO memory", "INFO bf"] {
        let words = line.split(' ').map(|word| match word {
            "KEY" => b"a large set".as_slice(),
            word => word.as_bytes(),
        });
        client.call(&words.collect::<Vec<_>>());
    }
    let replies = client.cmd("EXEC");
    let replies = replies.as_array();
    let memory = replies[1].text();
    assert!(memory.contains("lazyfree_pending_objects:"), "{memory}");
    assert!(!memory.contains("lazyfree_pending_objects:0"), "{memory}");
    Sums::of(&replies[2].text())
}

#[test]
fn a_write_to_a_renamed_value_counts_it_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let items: Vec<String> = (0..100).map(|i| i.to_string()).collect();
    let create = format!("BF.INSERT ready CAPACITY 20 ITEMS {}", items.join(" "));
    assert!(!client.cmd(&create).is_error());
    let pieces = split(&pieces(&mut client, "ready"), 64);
    let (last, first) = pieces.split_last().expect("some pieces");
    let (next, first) = first.split_last().expect("some pieces");
    load_chunks(&mut client, "half", first);
    for key in ["ready", "half"] {
        assert_eq!(client.cmd(&format!("RENAME {key} {key}-renamed")), ok());
    }
    assert_eq!(client.cmd("BF.ADD ready-renamed 0"), int(0));
    load_chunks(&mut client, "half-renamed", std::slice::from_ref(next));
    assert_eq!(told_while_freeing(&mut client).objects, 2, "half loaded");
    load_chunks(&mut client, "half-renamed", std::slice::from_ref(last));
    let reported = told_while_freeing(&mut client);
    assert_eq!(reported.objects, 2, "loaded to its end");
    assert_eq!(Sums::read(&mut client), reported);
    is_balanced(&mut client);
}

/// Returns the data of a server in every database: objects of all kinds, some of them renamed.
fn populate(server: &Server) -> Population {
    let mut client = server.client();
    let population = Population::new(&mut client);
    for (index, key) in population.keys().enumerate() {
        let reply = client.cmd(&format!("COPY {key} {key} DB {}", 1 + index % 3));
        assert_eq!(reply, int(1));
    }
    is_balanced(&mut client);
    population
}

#[test]
fn a_replica_counts_its_own_objects() {
    let primary = Server::start();
    let mut client = primary.client();
    for (without_file, load) in [("no", "disabled"), ("yes", "disabled"), ("yes", "swapdb")] {
        let population = populate(&primary);
        let expected = Sums::read(&mut client);
        let set = format!("CONFIG SET repl-diskless-sync {without_file}");
        assert_eq!(client.cmd(&set), ok());
        let replica = Server::with(&[("repl-diskless-load", load)]);
        let mut own = replica.client();
        populate(&replica);
        for key in ["fixed", "half-1", "saturated"] {
            assert_eq!(own.cmd(&format!("RENAME {key} {key}-own")), ok());
        }
        let follow = format!("REPLICAOF 127.0.0.1 {}", primary.port());
        assert_eq!(own.cmd(&follow), ok());
        wait_in_sync(&primary, &replica);
        nothing_is_being_freed(&replica);
        let reported = Sums::read(&mut own);
        assert_eq!(
            reported.counts(),
            expected.counts(),
            "{without_file} {load}"
        );
        is_balanced(&mut own);
        population.is_unchanged(&mut own);

        assert_eq!(client.cmd("BF.MADD empty a b c").as_array().len(), 3);
        assert_eq!(client.cmd("COPY empty copied DB 3"), int(1));
        assert_eq!(client.cmd("UNLINK empty"), int(1));
        assert_eq!(client.cmd("COPY one-filter copied DB 2"), int(1));
        wait_in_sync(&primary, &replica);
        is_balanced(&mut own);
        assert_eq!(client.cmd("FLUSHALL ASYNC"), ok());
        wait_in_sync(&primary, &replica);
        assert_eq!(Sums::read(&mut own), Sums::default());
    }
}

/// A full resync may load data beside the old; not every server names the database of that data.
#[test]
fn a_database_is_flushed_alone_after_a_full_resync() {
    let primary = Server::with(&[("databases", "4")]);
    let mut client = primary.client();
    populate(&primary);
    let replica = Server::with(&[("databases", "4"), ("repl-diskless-load", "swapdb")]);
    let mut own = replica.client();
    populate(&replica);
    let follow = format!("REPLICAOF 127.0.0.1 {}", primary.port());
    assert_eq!(own.cmd(&follow), ok());
    wait_in_sync(&primary, &replica);
    is_balanced_after(&mut own, "the resync");
    for line in [
        "BF.ADD one-filter another",
        "COPY one-filter copied DB 2",
        "RENAME five-filters renamed",
        "BF.ADD renamed another",
        "UNLINK twenty-filters",
        "SWAPDB 0 1",
        "FLUSHDB ASYNC",
        "SWAPDB 2 3",
        "SELECT 2",
        "FLUSHDB SYNC",
        "FLUSHDB",
        "BF.ADD new item",
        "SWAPDB 2 3",
        "SELECT 1",
    ] {
        assert!(!client.cmd(line).is_error(), "{line}");
        wait_in_sync(&primary, &replica);
        nothing_is_being_freed(&replica);
        is_balanced_after(&mut own, line);
    }
    // Even before flushed objects are freed.
    assert_eq!(own.cmd("REPLICAOF NO ONE"), ok());
    let left = Sums::read(&mut own);
    assert!(left.objects > 10, "{left:?}");
    for line in ["MULTI", "SELECT 1", "FLUSHDB ASYNC", "INFO bf", "SELECT 0"] {
        own.cmd(line);
    }
    let replies = own.cmd("EXEC");
    let reported = Sums::of(&replies.as_array()[2].text());
    assert_eq!(Sums::read(&mut own), reported);
    is_balanced_after(&mut own, "FLUSHDB of a database of many objects");
    assert_eq!(own.cmd("FLUSHALL ASYNC"), ok());
    assert_eq!(Sums::read(&mut own), Sums::default());
}

#[test]
fn a_full_resync_that_breaks_off_leaves_the_sums() {
    let source = Server::start();
    populate(&source);
    let mut client = source.client();
    assert_eq!(client.cmd("SAVE"), ok());
    let rdb = fs::read(source.dir().join("dump.rdb")).unwrap();

    let server = Server::with(&[("repl-diskless-load", "swapdb")]);
    let mut client = server.client();
    let population = populate(&server);
    assert_eq!(client.cmd("RENAME fixed fixed-2"), ok());
    assert_eq!(client.cmd("RENAME fixed-2 fixed"), ok());
    let before = Sums::read(&mut client);
    // It ends within one object or the other.
    for (round, part) in [3, 5, 8].into_iter().enumerate() {
        let port = played_primary(rdb[..rdb.len() * part / 10].to_vec(), None);
        let follow = format!("REPLICAOF 127.0.0.1 {port}");
        assert_eq!(client.cmd(&follow), ok());
        wait_until("the transfer has failed", || {
            let failed = "Failed trying to load the";
            server.log().matches(failed).count() > round
        });
        assert_eq!(client.cmd("REPLICAOF NO ONE"), ok());
        nothing_is_being_freed(&server);
        assert_eq!(Sums::read(&mut client), before, "{part} tenths");
        is_balanced(&mut client);
        population.is_unchanged(&mut client);
    }
    // And a whole one after them.
    let follow = format!("REPLICAOF 127.0.0.1 {}", source.port());
    assert_eq!(client.cmd(&follow), ok());
    wait_in_sync(&source, &server);
    is_balanced(&mut client);
    let reported = Sums::read(&mut source.client());
    assert_eq!(Sums::read(&mut client).counts(), reported.counts());
}

#[test]
fn many_databases_are_summed() {
    let server = Server::with(&[("databases", "100")]);
    let mut client = server.client();
    for database in iter::once(0).chain((1..100).step_by(7)) {
        assert_eq!(client.cmd(&format!("SELECT {database}")), ok());
        assert_eq!(client.cmd("BF.ADD k item"), int(1));
    }
    is_balanced(&mut client);
    assert_eq!(client.cmd("SWAPDB 99 50"), ok());
    assert_eq!(client.cmd("SWAPDB 2 50"), ok());
    is_balanced(&mut client);
    assert_eq!(client.cmd("SELECT 2"), ok());
    assert_eq!(client.cmd("FLUSHDB ASYNC"), ok());
    is_balanced(&mut client);
}
