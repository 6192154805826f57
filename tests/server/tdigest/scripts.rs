//! Scripts and transactions.

use crate::harness::{Client, Reply, Server, array, bulk, double, error, int, nil, ok, simple};
use crate::support::commands;
use crate::support::protocols::in_both_protocols;

/// Runs a script with the key `k`.
fn eval(client: &mut Client, script: &str, args: &[&str]) -> Reply {
    let words = [&["EVAL", script, "1", "k"], args].concat();
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    client.call(&words)
}

/// Scripts get doubles as strings, and with RESP3 as doubles.
#[test]
fn scripts_add_and_query() {
    let server = Server::start();
    in_both_protocols(&server, |client, resp3| {
        assert_eq!(client.cmd("TDIGEST.CREATE k"), ok());
        let script = "redis.call('TDIGEST.ADD', KEYS[1], unpack(ARGV)) \
            return redis.call('TDIGEST.QUANTILE', KEYS[1], '0', '0.5', '1')";
        let values = eval(client, script, &["1.5", "2.5", "30"]);
        let texts = ["1.5", "2.5", "30"].map(bulk);
        assert_eq!(values, array(texts));
        let script = "redis.setresp(3) local told = redis.call('TDIGEST.CDF', KEYS[1], '2.5') \
            return told[1].double == 0.5 and redis.call('TDIGEST.MAX', KEYS[1])";
        let expected = if resp3 { double(30.0) } else { bulk("30") };
        assert_eq!(eval(client, script, &[]), expected);
        // An error ends the script, and leaves what was done before it.
        let script = "redis.call('TDIGEST.ADD', KEYS[1], 40) \
            return redis.call('TDIGEST.ADD', KEYS[1], 50, 'x')";
        let refused = eval(client, script, &[]).text();
        let text = "ERR T-Digest: error parsing val parameter";
        assert!(refused.starts_with(text), "{refused}");
        let script = "return redis.pcall('TDIGEST.ADD', KEYS[1], 'inf').err";
        let text = "ERR T-Digest: val parameter needs to be a finite number";
        assert_eq!(eval(client, script, &[]), bulk(text));
        assert_eq!(client.cmd("TDIGEST.RANK k 40 45"), array([int(3), int(4)]));
    });
}

#[test]
fn scripts_that_only_read_may_only_read() {
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        for line in [
            "TDIGEST.CREATE k",
            "TDIGEST.CREATE other",
            "TDIGEST.CREATE another",
            "TDIGEST.ADD k 1 2 3",
        ] {
            assert_eq!(client.cmd(line), ok());
        }
        let own = commands::all().filter(|command| command.name().starts_with("tdigest."));
        let call = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
        let looks = format!("#!lua flags=no-writes\n{call}");
        let mut tried = 0;
        for command in own {
            let before = client.cmd("DEBUG DIGEST");
            let line = command.on("k");
            let words: Vec<&str> = line.split(' ').collect();
            let args = [&words[..1], &words[2..]].concat();
            for (name, script) in [("EVAL_RO", call), ("EVAL", &looks)] {
                let start = [name, script, "1", "k"];
                let all: Vec<&[u8]> = start
                    .iter()
                    .chain(&args)
                    .map(|word| word.as_bytes())
                    .collect();
                let reply = client.call(&all);
                let is_refused = reply.is_error()
                    && reply
                        .text()
                        .starts_with("ERR Write commands are not allowed from read-only scripts.");
                assert_eq!(is_refused, command.writes(), "{line}: {reply:?}");
                assert!(is_refused || !reply.is_error(), "{line}: {reply:?}");
                tried += 1;
            }
            assert_eq!(client.cmd("DEBUG DIGEST"), before, "{line}");
        }
        assert_eq!(tried, 28);
    });
}

#[test]
fn transactions_reply_at_once() {
    let server = Server::start();
    in_both_protocols(&server, |client, resp3| {
        let number = |value: f64| {
            if resp3 {
                double(value)
            } else {
                bulk(value.to_string())
            }
        };
        let lines = [
            ("TDIGEST.CREATE k COMPRESSION 50", ok()),
            ("TDIGEST.ADD k 1 2 3", ok()),
            ("TDIGEST.QUANTILE k 0.5", array([number(2.0)])),
            (
                "TDIGEST.ADD k 4 x",
                error("ERR T-Digest: error parsing val parameter"),
            ),
            (
                "TDIGEST.CREATE k",
                error("ERR T-Digest: key already exists"),
            ),
            ("TDIGEST.MERGE other 2 k k", ok()),
            ("TDIGEST.RANK other 2 7", array([int(3), int(6)])),
            ("TDIGEST.MAX k", number(3.0)),
            ("TDIGEST.RESET k", ok()),
            ("TDIGEST.RANK k 1", array([int(-2)])),
        ];
        // Nothing is done before EXEC.
        assert_eq!(client.cmd("MULTI"), ok());
        assert_eq!(client.cmd("TDIGEST.CREATE k"), simple("QUEUED"));
        assert_eq!(server.client().cmd("EXISTS k"), int(0));
        assert_eq!(client.cmd("DISCARD"), ok());
        assert_eq!(client.cmd("MULTI"), ok());
        for (line, _) in &lines {
            assert_eq!(client.cmd(line), simple("QUEUED"), "{line}");
        }
        let replies = lines.map(|(_, reply)| reply);
        assert_eq!(client.cmd("EXEC"), array(replies));
        // An error that the server sees ends the transaction.
        assert_eq!(client.cmd("MULTI"), ok());
        assert_eq!(client.cmd("TDIGEST.ADD k 9"), simple("QUEUED"));
        let wrong = error("ERR wrong number of arguments for 'tdigest.add' command");
        assert_eq!(client.cmd("TDIGEST.ADD k"), wrong);
        assert!(client.cmd("EXEC").text().starts_with("EXECABORT "));
        assert_eq!(client.cmd("TDIGEST.RANK k 1"), array([int(-2)]));
    });
}

/// A merge changes its destination, and not its sources.
#[test]
fn a_merge_changes_only_its_destination() {
    let server = Server::start();
    let (mut client, mut other) = (server.client(), server.client());
    for line in [
        "TDIGEST.CREATE k",
        "TDIGEST.CREATE to",
        "TDIGEST.ADD k 1 2 3",
    ] {
        assert_eq!(client.cmd(line), ok());
    }
    for (watched, is_broken) in [("k", false), ("to", true)] {
        assert_eq!(client.cmd(&format!("WATCH {watched}")), ok());
        assert_eq!(other.cmd("TDIGEST.MERGE to 1 k"), ok());
        assert_eq!(client.cmd("MULTI"), ok());
        client.cmd("PING");
        assert_eq!(client.cmd("EXEC") == nil(), is_broken, "{watched}");
    }
}
