//! Scripts, functions and transactions.

mod allowed;

use crate::harness::{Client, Reply, Server, array, bulk, double, error, int, ok, simple};
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

/// Scripts speak RESP2 by default: then numbers come through. With RESP3 they get booleans and maps, and pass them on in
/// the client's protocol.
#[test]
fn lua_gets_what_a_client_gets() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, resp3| {
        for (words, by_default, in_resp3, kind) in [
            ("BF.RESERVE 0.01 100", ok(), ok(), "table"),
            ("BF.ADD a", int(1), truth(resp3, true), "boolean"),
            (
                "BF.MADD a a",
                array([int(1), int(0)]),
                truths(resp3, &[true, false]),
                "table",
            ),
            ("BF.CARD", int(0), int(0), "number"),
            (
                "CF.INSERTNX ITEMS a a",
                array([int(1), int(0)]),
                array([int(1), int(0)]),
                "table",
            ),
            ("CF.ADDNX b", int(1), truth(resp3, true), "boolean"),
            ("CF.COUNT a", int(0), int(0), "number"),
        ] {
            let kind_of = CALL3.replace("return ", "local reply = ") + " return type(reply)";
            let expected = [
                (CALL, by_default),
                (CALL3, in_resp3),
                (&kind_of, bulk(kind)),
            ];
            for (script, reply) in expected {
                assert_eq!(eval(client, script, words), reply, "{words}");
                client.cmd("DEL k");
            }
        }
        client.ok("BF.RESERVE k 0.01 100");
        assert_eq!(eval(client, CALL, "BF.INFO ERROR"), array([bulk("0.01")]));
        let field = CALL3.replace("return ", "local told = ")
            + " for name, value in pairs(told.map) do return {name.ok, value} end";
        let capacity = array([bulk("Capacity"), int(100)]);
        assert_eq!(eval(client, &field, "BF.INFO CAPACITY"), capacity);

        let try_it = "return redis.pcall(ARGV[1], KEYS[1], unpack(ARGV, 2))";
        for (words, refusal) in [
            ("BF.RESERVE 0.01 2", "ERR item exists"),
            ("BF.RESERVE 2 2", "ERR (0 < error rate range < 1)"),
            ("CF.ADD a", WRONG_TYPE),
        ] {
            let refused = eval(client, CALL, words);
            assert!(
                refused.is_error() && refused.text().starts_with(refusal),
                "{refused:?}"
            );
            assert_eq!(eval(client, try_it, words), error(refusal));
        }
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
            client.ok("BF.RESERVE k 1e-9 2 NONSCALING");
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
            client.expect("BF.CARD k", int(2));

            let called =
                format!("local r = redis.call({add}) return redis.call('SET', KEYS[1], #r)");
            let reply = eval(client, &called, "");
            if in_place_of_the_list {
                let raised = reply.is_error() && reply.text().starts_with(full);
                assert!(raised, "{add}: {reply:?}");
                client.expect("TYPE k", simple("bloomfltr"));
            } else {
                assert_eq!(reply, ok(), "{add}");
                client.expect("GET k", bulk(count.to_string()));
            }
            client.expect("DEL k", int(1));
        }
        // A client gets the list from every server.
        client.ok("BF.RESERVE k 1e-9 2 NONSCALING");
        let list = array([truth(resp3, true), truth(resp3, true), error(full)]);
        client.expect("BF.MADD k a b c d", &list);
    });
}

#[test]
fn the_script_of_the_page_detects_a_refusal_on_every_server() {
    let script = pages::block("docs/commands.md", "BF.MADD", "lua");
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, _| {
        client.ok("BF.RESERVE k 1e-9 2 NONSCALING");
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
        client.expect("BF.CARD k", int(2));
        client.ok("SET k string");
        assert_eq!(eval(client, &script, "a"), bulk(WRONG_TYPE));
    });
}

#[test]
fn transactions_reply_at_once() {
    let server = with_fixed_seed();
    in_both_protocols(&server, |client, resp3| {
        let lines = [
            ("BF.RESERVE k 0.01 100", ok()),
            ("BF.MADD k a b a", truths(resp3, &[true, true, false])),
            ("BF.RESERVE k 0.01 100", error("ERR item exists")),
            ("BF.CARD k", int(2)),
            ("CF.ADD c a", truth(resp3, true)),
            ("CF.ADD k a", error(WRONG_TYPE)),
            ("TDIGEST.CREATE t", ok()),
            ("TDIGEST.ADD t 1 2.5", ok()),
            (
                "TDIGEST.MAX t",
                if resp3 { double(2.5) } else { bulk("2.5") },
            ),
        ];
        client.ok("MULTI");
        for (line, _) in &lines {
            client.expect(line, simple("QUEUED"));
        }
        server.client().expect("EXISTS k c t", int(0));
        let replies = lines.map(|(_, reply)| reply);
        client.expect("EXEC", array(replies));
    });
}
