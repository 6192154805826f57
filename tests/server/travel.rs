//! Data goes from the server that the tests run on to each one that the project supports, newer or
//! older. The run on each server is a part: together they are all ways.

use std::fs;

use crate::harness::{Server, int, supported_servers, wait_in_sync, wait_until};
use crate::support::aof::{on_log_of, part, rewrite_aof, with_command_log};
use crate::support::population::Population;
use crate::support::sums;

/// Returns the version of the RDB that a server writes, which it saves for that.
fn rdb_version(server: &Server) -> u32 {
    server.client().ok("SAVE");
    let rdb = fs::read(server.dir().join("dump.rdb")).expect("an RDB was saved");
    // Behind the word REDIS or VALKEY.
    let digits = String::from_utf8_lossy(&rdb[5..9]).into_owned();
    digits.trim_start_matches('Y').parse().expect("a number")
}

/// Returns whether a server reads an RDB of this version. Versions 12 to 79 are Redis' alone.
fn reads(server: &Server, version: u32) -> bool {
    let foreign = server.version().valkey && (12..80).contains(&version);
    version <= rdb_version(server) && !foreign
}

/// Checks that the server has the whole population.
#[track_caller]
fn has_all(server: &Server, population: &Population) {
    let mut client = server.client();
    population.is_unchanged(&mut client);
    population.finish_loading(&mut client, str::to_owned);
    sums::is_balanced(&mut client);
}

#[test]
fn an_rdb_is_loaded_by_every_server_that_knows_its_version() {
    let mut from = Server::start();
    let population = Population::new(&mut from.client());
    let written = rdb_version(&from);
    from.shutdown();
    let mut loaded = 0;
    for program in supported_servers() {
        let mut to = Server::builder().program(&program).start();
        let readable = reads(&to, written);
        to.shutdown();
        fs::copy(from.dir().join("dump.rdb"), to.dir().join("dump.rdb")).unwrap();
        if readable {
            to.start_again();
            has_all(&to, &population);
            loaded += 1;
            continue;
        }
        let log = to.try_start_again().unwrap_err();
        // Some servers refuse the word VALKEY.
        let refusals = [
            format!("Can't handle RDB format version {written}"),
            "Wrong signature trying to load DB from file".to_owned(),
        ];
        assert!(refusals.iter().any(|text| log.contains(text)), "{log}");
    }
    assert!(loaded > 0, "one of them is the same server, or newer");
}

/// Commands have no version: this is the way back to an older server.
#[test]
fn a_log_is_loaded_by_every_server() {
    let from = with_command_log();
    let population = Population::new(&mut from.client());
    let log = |end: &str| fs::read(part(&from, end)).expect("it can be read");
    let commands = log(".incr.aof");
    rewrite_aof(&from);
    let rewritten = log(".base.aof");
    for program in supported_servers() {
        for bytes in [&commands, &rewritten] {
            let to = on_log_of(Server::builder().program(&program), bytes, b"");
            has_all(&to, &population);
        }
    }
}

/// How servers are replaced: another one follows, until it takes the first one's place. Valkey sends
/// an older Valkey what that can read, and Redis what Redis 7.2 could.
#[test]
fn one_server_follows_another() {
    let from = Server::start();
    let mut near = from.client();
    let population = Population::new(&mut near);
    let own = rdb_version(&from);
    let mut followed = 0;
    for program in supported_servers() {
        let to = Server::builder().program(&program).start();
        let mut far = to.client();
        let sent = match (from.version().valkey, to.version().valkey) {
            (true, true) => None,
            (true, false) => Some(11),
            (false, _) => Some(own),
        };
        // A replica stores the RDB that it receives in place of its own.
        let refused = sent.filter(|sent| !reads(&to, *sent));
        far.follow(from.port());
        if let Some(sent) = refused {
            wait_until("it has refused the RDB", || {
                to.log_contains(&format!("Can't handle RDB format version {sent}"))
            });
            far.ok("REPLICAOF NO ONE");
            far.expect("DBSIZE", int(0));
            sums::is_balanced(&mut far);
            continue;
        }
        wait_in_sync(&from, &to);
        // Some of it comes in the RDB, some as commands.
        let later = format!("later-{followed}");
        near.run(format!("BF.INSERT {later} CAPACITY 2 ITEMS a b c d e f"));
        wait_in_sync(&from, &to);
        population.is_unchanged(&mut far);
        far.expect("DEBUG DIGEST", near.cmd("DEBUG DIGEST"));
        far.ok("REPLICAOF NO ONE");
        has_all(&to, &population);
        followed += 1;
    }
    assert!(followed > 0, "one of them is the same server");
}
