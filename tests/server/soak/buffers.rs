//! Replies and arguments that are larger than what the server has for them.

use super::{Budget, dump_of, set};
use crate::harness::{
    Client, Reply, Server, array, digest, error, int, ok, spaced, wait_in_sync, wait_until,
};
use crate::support::aof::rewrite_aof;
use crate::support::pieces::{load_chunks, pieces, split};
use crate::support::sums;
use crate::support::usage::memory;

#[track_caller]
fn limit_replies(client: &mut Client, limit: &str) {
    let name = b"client-output-buffer-limit";
    let set: [&[u8]; 4] = [b"CONFIG", b"SET", name, limit.as_bytes()];
    assert_eq!(client.call(&set), ok());
}

const MANY: usize = 100_000;

fn command<'i>(name: &'i str, key: &'i str, items: &'i [String]) -> Vec<&'i [u8]> {
    let words = [name, key].into_iter();
    let words = words.chain(items.iter().map(String::as_str));
    words.map(str::as_bytes).collect()
}

fn ones(answers: &Reply) -> usize {
    let answers = answers.as_array();
    answers.iter().filter(|answer| **answer == int(1)).count()
}

/// Sends commands whose replies are larger than permitted.
fn lose_replies(server: &Server, items: &[String]) {
    let mut insert = command("BF.INSERT", "key", items);
    insert.insert(2, b"ITEMS");
    for args in [
        command("BF.MEXISTS", "key", items),
        insert,
        command("BF.MADD", "other", items),
        vec![b"BF.SCANDUMP", b"large", b"1"],
    ] {
        let dropped = server.client().try_call(&args);
        assert!(dropped.is_err(), "{}", args[0].escape_ascii());
    }
}

#[test]
fn a_reply_larger_than_its_buffer_drops_the_client() {
    let (server, mut client) = Server::with_client();
    let items: Vec<String> = (0..MANY).map(|i| format!("item-{i}")).collect();
    client.ok("BF.RESERVE large 0.01 20000000");
    let added = client.call(&command("BF.MADD", "key", &items));
    assert_eq!(added.as_array().len(), MANY);
    let most = i64::try_from(MANY).expect("it fits");
    let new = i64::try_from(ones(&added)).expect("it fits");
    client.expect("BF.CARD key", int(new));
    // Nothing is to be kept of commands that are slow or large; some servers keep the slow ones only.
    for log in [
        "slowlog-log-slower-than",
        "commandlog-request-larger-than",
        "commandlog-reply-larger-than",
    ] {
        client.cmd(&format!("CONFIG SET {log} -1"));
    }
    let before = memory(&server, "used_memory");
    let memory_is_freed = || {
        wait_until("the memory is given back", || {
            memory(&server, "used_memory") < before + (512 << 10)
        });
    };
    let mut budget = Budget::rounds(2);
    for round in budget.by_ref() {
        limit_replies(&mut client, "normal 200kb 0 0");
        lose_replies(&server, &items);
        // The commands took effect, though no reply arrived.
        let other = client.cmd("BF.CARD other").as_int();
        assert!((most - most / 20..=most).contains(&other), "{other}");
        limit_replies(&mut client, "normal 0 0 0");
        for key in ["key", "other"] {
            let answers = server.client().call(&command("BF.MEXISTS", key, &items));
            assert_eq!(ones(&answers), MANY);
        }
        let answers = server.client3().call(&command("BF.MEXISTS", "key", &items));
        assert_eq!(answers, array(vec![Reply::Bool(true); MANY]));
        client.expect("DEL other", int(1));
        memory_is_freed();

        // All connections together.
        set(&mut client, "maxmemory-clients 1mb");
        let dropped = server
            .client()
            .try_call(&command("BF.MEXISTS", "key", &items));
        assert!(dropped.is_err(), "{round}");
        set(&mut client, "maxmemory-clients 0");
        memory_is_freed();
        sums::is_balanced(&mut client);
    }
    let more = memory(&server, "used_memory") - before;
    eprintln!("{} rounds, {more} bytes more than before", budget.done());
}

#[test]
fn arguments_too_large_for_the_protocol_are_refused() {
    let too_large = "ERR Protocol error: invalid bulk length";
    let mut server = Server::with(&[
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("aof-use-rdb-preamble", "no"),
        ("proto-max-bulk-len", "1mb"),
    ]);
    let replica = Server::replica_of(&server)
        .config("proto-max-bulk-len", "1mb")
        .start();
    wait_in_sync(&server, &replica);
    let mut client = server.client();
    client.ok("BF.RESERVE key 0.01 20000000");
    client.run(format!("BF.MADD key {}", spaced(0..20_000)));
    let expected = digest(&mut client, "key");

    // One chunk is as large as ever, and does not fit into an argument.
    let chunks = pieces(&mut client, "key");
    assert_eq!(chunks[1].1.len(), 4 << 20);
    load_chunks(&mut client, "chunked", &chunks[..1]);
    let cursor = chunks[1].0.to_string();
    let mut sender = server.client();
    let (of_cursor, of_chunk) = (cursor.len(), chunks[1].1.len());
    let begun = format!(
        "*4\r\n$12\r\nBF.LOADCHUNK\r\n$7\r\nchunked\r\n${of_cursor}\r\n{cursor}\r\n${of_chunk}\r\n"
    );
    assert_eq!(sender.raw(begun.as_bytes()), error(too_large));
    let finer = split(&chunks, 1 << 20);
    load_chunks(&mut client, "chunked", &finer[1..]);
    assert_eq!(digest(&mut client, "chunked"), expected);

    let dump = dump_of(&chunks);
    let load: [&[u8]; 3] = [b"BF.LOAD", b"loaded", &dump];
    let begun = format!("*3\r\n$7\r\nBF.LOAD\r\n$6\r\nloaded\r\n${}\r\n", dump.len());
    assert_eq!(server.client().raw(begun.as_bytes()), error(too_large));
    client.expect("EXISTS loaded", int(0));
    // The primary's word counts, and the log's.
    set(&mut client, "proto-max-bulk-len 512mb");
    assert_eq!(client.call(&load), ok());
    wait_in_sync(&server, &replica);
    let hold = |client: &mut Client| {
        for key in ["key", "chunked", "loaded"] {
            assert_eq!(digest(client, key), expected, "{key}");
        }
        sums::is_balanced(client);
    };
    hold(&mut replica.client());
    for rewritten in [false, true] {
        if rewritten {
            rewrite_aof(&server);
        }
        server.kill();
        server.start_again();
        let mut client = server.client();
        let limit = client.cmd("CONFIG GET proto-max-bulk-len");
        assert_eq!(limit.as_array()[1].text(), "1048576");
        hold(&mut client);
    }
}
