//! Which commands are allowed where only reads are, by scripts and functions too. The server decides by the flags of
//! each command.

use crate::harness::{Client, Reply, Server, bulk};
use crate::support::commands::{self, Access, Command};

use super::CALL;

/// Passes a command on to a script or function with its keys.
fn through(client: &mut Client, start: &[&str], command: &Command) -> Reply {
    let line = command.on("k");
    let (name, rest) = line.split_once(' ').expect("a key");
    let (key, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let rest = rest.split_whitespace();
    let words = start.iter().copied().chain(["1", key, name]).chain(rest);
    let words: Vec<&[u8]> = words.map(str::as_bytes).collect();
    client.call(&words)
}

#[track_caller]
fn is_refused(reply: &Reply, refused: &str, command: &Command) {
    let is_refused = reply.is_error() && reply.text().starts_with(refused);
    assert!(is_refused, "{}: {reply:?}", command.example);
}

/// A command that is served may fail, because there is no key.
#[track_caller]
fn is_served(reply: &Reply, refused: &str, command: &Command) {
    let is_refused = reply.is_error() && reply.text().contains(refused);
    assert!(!is_refused, "{}: {reply:?}", command.example);
}

#[test]
fn scripts_that_only_read_may_only_read() {
    let (_server, mut client) = Server::with_client();
    let library = "#!lua name=bloom\n\
        local function call(keys, args) return redis.call(args[1], keys[1], unpack(args, 2)) end\n\
        redis.register_function{function_name = 'look', callback = call, flags = {'no-writes'}}\n";
    let load: [&[u8]; 3] = [b"FUNCTION", b"LOAD", library.as_bytes()];
    assert_eq!(client.call(&load), bulk("bloom"));
    let refused = "ERR Write commands are not allowed from read-only scripts.";
    // A script may say so of itself.
    let looks = format!("#!lua flags=no-writes\n{CALL}");
    for start in [["EVAL_RO", CALL], ["EVAL", &looks]] {
        for command in commands::all() {
            let reply = through(&mut client, &start, command);
            if command.writes() {
                is_refused(&reply, refused, command);
            } else {
                is_served(&reply, refused, command);
            }
        }
    }
    for command in commands::all().filter(|command| command.writes()) {
        is_refused(
            &through(&mut client, &["FCALL_RO", "look"], command),
            refused,
            command,
        );
    }
}

/// States of a server: the command that sets one, the command that ends it, the error for writes, and whether it is
/// also for writes that take no memory.
const STATES: &[(&str, &str, &str, bool)] = &[
    (
        "CONFIG SET maxmemory 1",
        "CONFIG SET maxmemory 0",
        "OOM command not allowed when used memory > 'maxmemory'.",
        false,
    ),
    (
        "CONFIG SET min-replicas-to-write 1",
        "CONFIG SET min-replicas-to-write 0",
        "NOREPLICAS Not enough good replicas to write.",
        true,
    ),
    (
        "REPLICAOF 127.0.0.1 1",
        "REPLICAOF NO ONE",
        "READONLY You can't write against a read only replica.",
        true,
    ),
];

#[test]
fn only_reads_are_served_if_writes_are_forbidden() {
    let (_server, mut client) = Server::with_client();
    for (forbid, allow, refused, all) in STATES {
        client.ok(forbid);
        for command in commands::all() {
            let direct = client.cmd(&command.on("k"));
            let in_script = through(&mut client, &["EVAL", CALL], command);
            let is_forbidden = match command.access {
                Access::Read => false,
                Access::Remove => *all,
                _ => true,
            };
            for reply in [direct, in_script] {
                if is_forbidden {
                    is_refused(&reply, refused, command);
                } else {
                    is_served(&reply, refused, command);
                }
            }
        }
        client.ok(allow);
    }
}
