//! Scripts, functions, transactions, and clients that keep copies.

mod allowed;
mod changes;

use crate::harness::{Client, Reply, Server, array, bulk, double, error, int, map, ok, simple};
use crate::pages;
use crate::support::protocols::{in_both_protocols, truth, truths, with_fixed_seed};

fn eval(client: &mut Client, script: &str, words: &str) -> Reply {
    call_script(client, "EVAL", script, words)
}

/// Runs a script with the key `k` and these arguments.
fn call_script(client: &mut Client, command: &str, script: &str, words: &str) -> Reply {
    let mut args: Vec<&[u8]> = vec![command.as_bytes(), script.as_bytes(), b"1", b"k"];
    args.extend(words.split_whitespace().map(str::as_bytes));
    client.call(&args)
}

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

const CALL: &str = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
const CALL3: &str = "redis.setresp(3) return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";

#[test]
fn lua_gets_what_a_client_gets() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, resp3| {
        // Scripts speak RESP2 by default: they pass on numbers to every client.
        let rows = [
            ("BF.RESERVE 0.01 100", ok()),
            ("BF.ADD a", int(1)),
            ("BF.ADD a", int(0)),
            ("BF.EXISTS b", int(0)),
            ("BF.MADD a b c", array([int(0), int(1), int(1)])),
            ("BF.MEXISTS a d", array([int(1), int(0)])),
            ("BF.INSERT NOCREATE ITEMS a d", array([int(0), int(1)])),
            ("BF.CARD", int(4)),
            ("BF.INFO CAPACITY", array([int(100)])),
            ("BF.INFO ERROR", array([bulk("0.01")])),
            ("RENAME bloom", ok()),
            ("CF.RESERVE 100", ok()),
            ("CF.ADD a", int(1)),
            ("CF.ADD a", int(1)),
            ("CF.ADDNX a", int(0)),
            ("CF.EXISTS b", int(0)),
            ("CF.MEXISTS a b", array([int(1), int(0)])),
            ("CF.INSERT NOCREATE ITEMS a b", array([int(1), int(1)])),
            ("CF.INSERTNX ITEMS a c", array([int(0), int(1)])),
            ("CF.COUNT a", int(3)),
            ("CF.DEL a", int(1)),
            ("CF.DEL d", int(0)),
            ("CF.COMPACT", ok()),
            ("CF.SCANDUMP 10000", array([int(0), Reply::Nil])),
            ("RENAME cuckoo", ok()),
        ];
        for (words, reply) in rows {
            assert_eq!(eval(client, CALL, words), reply, "{words}");
        }
        // Then booleans and maps, which scripts can distinguish.
        let rows = [
            ("BF.ADD e", "boolean"),
            ("BF.ADD e", "boolean"),
            ("BF.EXISTS e", "boolean"),
            ("BF.CARD", "number"),
            ("BF.MADD e f", "table"),
            ("RENAME bloom", "table"),
            ("CF.ADD e", "boolean"),
            ("CF.ADDNX e", "boolean"),
            ("CF.EXISTS f", "boolean"),
            ("CF.DEL e", "boolean"),
            ("CF.COUNT e", "number"),
            ("CF.MEXISTS e f", "table"),
            ("CF.INFO", "table"),
            ("RENAME cuckoo", "table"),
        ];
        assert_eq!(client.cmd("RENAME bloom k"), ok());
        for (words, kind) in rows {
            let script =
                format!("{} ", CALL3.replace("return ", "local reply = ")) + "return type(reply)";
            assert_eq!(eval(client, &script, words), bulk(kind), "{words}");
        }
        let rows = [
            ("BF.ADD g", truth(resp3, true)),
            ("BF.ADD g", truth(resp3, false)),
            ("BF.EXISTS g", truth(resp3, true)),
            (
                "BF.MADD g h",
                array([truth(resp3, false), truth(resp3, true)]),
            ),
            (
                "BF.MEXISTS g i",
                array([truth(resp3, true), truth(resp3, false)]),
            ),
            ("BF.INSERT ITEMS i", array([truth(resp3, true)])),
            ("RENAME bloom", ok()),
            ("CF.ADD g", truth(resp3, true)),
            ("CF.ADDNX g", truth(resp3, false)),
            ("CF.EXISTS g", truth(resp3, true)),
            (
                "CF.MEXISTS g h",
                array([truth(resp3, true), truth(resp3, false)]),
            ),
            ("CF.INSERT ITEMS h", array([truth(resp3, true)])),
            ("CF.INSERTNX ITEMS h i", array([int(0), int(1)])),
            ("CF.DEL h", truth(resp3, true)),
        ];
        assert_eq!(client.cmd("RENAME bloom k"), ok());
        for (words, reply) in rows {
            assert_eq!(eval(client, CALL3, words), reply, "{words}");
        }
        let field = CALL3.replace("return ", "local told = ")
            + " for name, value in pairs(told.map) do return {name.ok, value} end";
        assert_eq!(eval(client, &field, "CF.INFO").as_array().len(), 2);
        assert_eq!(client.cmd("RENAME bloom k"), ok());
        let capacity = array([bulk("Capacity"), int(100)]);
        assert_eq!(eval(client, &field, "BF.INFO CAPACITY"), capacity);
        if resp3 {
            let rate = array([bulk("Error rate"), double(0.01)]);
            assert_eq!(eval(client, &field, "BF.INFO ERROR"), rate);
            let alone = map([(simple("Capacity"), int(100))]);
            assert_eq!(eval(client, CALL3, "BF.INFO CAPACITY"), alone);
        }
        assert_eq!(eval(client, CALL, "BF.CARD"), int(9));
    });
}

#[test]
fn lua_gets_refusals() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, _| {
        assert_eq!(client.cmd("BF.RESERVE k 0.01 2 NONSCALING"), ok());
        let try_it = "return redis.pcall(ARGV[1], KEYS[1], unpack(ARGV, 2))";
        for (words, refusal) in [
            ("BF.RESERVE 0.01 2", "ERR item exists"),
            ("BF.RESERVE 2 2", "ERR (0 < error rate range < 1)"),
            ("BF.INFO X", "ERR invalid information value"),
            ("CF.ADD a", WRONG_TYPE),
            ("CF.DEL a", WRONG_TYPE),
            (
                "CF.RESERVE 3",
                "ERR Capacity must be in the range [2 * BUCKETSIZE, 1073741824]",
            ),
            ("CF.INSERT X a", "ERR Unknown argument received"),
        ] {
            let refused = eval(client, CALL, words);
            assert!(
                refused.is_error() && refused.text().starts_with(refusal),
                "{refused:?}"
            );
            assert_eq!(eval(client, try_it, words), error(refusal));
        }
        // Servers count the words of a command in a script themselves.
        assert!(eval(client, CALL, "BF.ADD").is_error());
        let wrong_type =
            "redis.call('SET', KEYS[1], 'v') return redis.pcall('BF.ADD', KEYS[1], 'a')";
        assert_eq!(eval(client, wrong_type, ""), error(WRONG_TYPE));
        assert_eq!(client.cmd("DEL k"), int(1));
    });
}

/// From Valkey 9.1 on, Lua is given the error in place of the list that has it.
pub fn takes_an_error_for_the_list(server: &Server) -> bool {
    let version = server.version();
    version.valkey && (version.major, version.minor) >= (9, 1)
}

#[test]
fn an_item_that_fails_in_a_script_ends_the_list_or_the_script() {
    let server = with_fixed_seed();
    let in_place_of_the_list = takes_an_error_for_the_list(&server);
    let full = "ERR non scaling filter is full";
    in_both_protocols(&server, |client, resp3| {
        for (add, answer) in [
            ("'BF.MADD', KEYS[1], 'a', 'b', 'c', 'd'", 1),
            ("'BF.INSERT', KEYS[1], 'ITEMS', 'a', 'b', 'c', 'd'", 1),
            ("'BF.INSERT', KEYS[1], 'ITEMS', 'a', 'a', 'b', 'c'", 0),
        ] {
            assert_eq!(client.cmd("BF.RESERVE k 1e-9 2 NONSCALING"), ok());
            let tried = format!(
                "local r = redis.pcall({add}) \
                 if r.err then return {{#r, r.err}} end return {{#r, r[2], r[#r].err}}"
            );
            let count = 3 + i64::from(answer == 0);
            let reported = if in_place_of_the_list {
                array([int(0), bulk(full)])
            } else {
                array([int(count), int(answer), bulk(full)])
            };
            assert_eq!(eval(client, &tried, ""), reported, "{add}");
            // Items added before the failed one stay.
            assert_eq!(client.cmd("BF.CARD k"), int(2), "{add}");

            let called =
                format!("local r = redis.call({add}) return redis.call('SET', KEYS[1], #r)");
            let reply = eval(client, &called, "");
            if in_place_of_the_list {
                let raised = reply.is_error() && reply.text().starts_with(full);
                assert!(raised, "{add}: {reply:?}");
                assert_eq!(client.cmd("TYPE k"), simple("bloomfltr"), "{add}");
            } else {
                assert_eq!(reply, ok(), "{add}");
                assert_eq!(client.cmd("GET k"), bulk(count.to_string()), "{add}");
            }
            assert_eq!(client.cmd("DEL k"), int(1));
        }
        // A client gets the list from every server.
        assert_eq!(client.cmd("BF.RESERVE k 1e-9 2 NONSCALING"), ok());
        let list = array([truth(resp3, true), truth(resp3, true), error(full)]);
        assert_eq!(client.cmd("BF.MADD k a b c d"), list);
    });
}

#[test]
fn the_script_of_the_page_detects_a_refusal_on_every_server() {
    let script = pages::block("docs/commands.md", "BF.MADD", "lua");
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, _| {
        assert_eq!(client.cmd("BF.RESERVE k 1e-9 2 NONSCALING"), ok());
        let script = format!("{script} return refused or 'none'");
        for (items, refused) in [
            ("a", "none"),
            ("a b a", "none"),
            ("b c", "ERR non scaling filter is full"),
            ("c", "ERR non scaling filter is full"),
            ("b a", "none"),
        ] {
            assert_eq!(eval(client, &script, items), bulk(refused), "{items}");
        }
        assert_eq!(client.cmd("BF.CARD k"), int(2));
        assert_eq!(client.cmd("SET k string"), ok());
        assert_eq!(eval(client, &script, "a"), bulk(WRONG_TYPE));
    });
}

#[test]
fn transactions_reply_at_once() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, resp3| {
        let lines = [
            ("BF.RESERVE k 0.01 100", ok()),
            ("BF.ADD k a", truth(resp3, true)),
            ("BF.MADD k a b", truths(resp3, &[false, true])),
            ("BF.RESERVE k 0.01 100", error("ERR item exists")),
            (
                "BF.INSERT k ITEMS",
                error("ERR wrong number of arguments for 'bf.insert' command"),
            ),
            ("BF.EXISTS k b", truth(resp3, true)),
            (
                "BF.INFO k ITEMS",
                if resp3 {
                    map([(simple("Number of items inserted"), int(2))])
                } else {
                    array([int(2)])
                },
            ),
            ("BF.CARD k", int(2)),
            ("CF.RESERVE c 64", ok()),
            ("CF.ADD c a", truth(resp3, true)),
            ("CF.ADDNX c a", truth(resp3, false)),
            ("CF.INSERT c ITEMS a b", truths(resp3, &[true, true])),
            ("CF.INSERTNX c ITEMS b c", array([int(0), int(1)])),
            ("CF.RESERVE c 64", error("ERR item exists")),
            ("CF.INSERT c X a", error("ERR Unknown argument received")),
            ("CF.ADD k a", error(WRONG_TYPE)),
            ("CF.DEL c a", truth(resp3, true)),
            ("CF.COMPACT c", ok()),
            ("CF.COUNT c a", int(1)),
        ];
        // Nothing is done before EXEC; in a pipeline as one by one.
        assert_eq!(client.cmd("MULTI"), ok());
        assert_eq!(client.cmd("BF.ADD k a"), simple("QUEUED"));
        assert_eq!(server.client().cmd("EXISTS k"), int(0));
        assert_eq!(client.cmd("DISCARD"), ok());
        assert_eq!(client.cmd("EXISTS k"), int(0));

        for _ in 0..50 {
            client.send("DEL k c");
            client.send("MULTI");
            for (line, _) in &lines {
                client.send(line);
            }
            client.send("EXEC");
        }
        for round in 0..50 {
            assert_eq!(client.read(), int(if round > 0 { 2 } else { 0 }));
            assert_eq!(client.read(), ok());
            for (line, _) in &lines {
                assert_eq!(client.read(), simple("QUEUED"), "{line}");
            }
            let replies = lines.iter().map(|(_, reply)| reply.clone());
            assert_eq!(client.read(), array(replies));
        }

        // An error that the server sees ends the transaction.
        assert_eq!(client.cmd("MULTI"), ok());
        assert_eq!(client.cmd("BF.ADD k c"), simple("QUEUED"));
        let wrong = error("ERR wrong number of arguments for 'bf.madd' command");
        assert_eq!(client.cmd("BF.MADD k"), wrong);
        let discarded = "EXECABORT Transaction discarded because of previous errors.";
        assert_eq!(client.cmd("EXEC"), error(discarded));
        assert_eq!(client.cmd("BF.CARD k"), int(2));
    });
}
