//! INFO bf equals the sum over the keyspace once the server frees nothing in the background.

use std::fs;

use crate::harness::{Server, int, wait_until};
use crate::support::population::Population;
use crate::support::primary::played_primary;
use crate::support::sums::{Sums, is_balanced};

/// Objects of every kind, in every database.
fn populate(server: &Server) -> Population {
    let mut client = server.client();
    let population = Population::new(&mut client);
    for (index, key) in population.keys().enumerate() {
        client.expect(format!("COPY {key} {key} DB {}", 1 + index % 3), int(1));
    }
    is_balanced(&mut client);
    population
}

#[test]
fn a_full_resync_that_breaks_off_leaves_the_sums() {
    let source = Server::start();
    populate(&source);
    let mut client = source.client();
    client.ok("SAVE");
    let rdb = fs::read(source.dir().join("dump.rdb")).unwrap();

    let server = Server::with(&[("repl-diskless-load", "swapdb")]);
    let mut client = server.client();
    let population = populate(&server);
    let before = Sums::read(&mut client);
    // It ends within one object or the other.
    for (round, part) in [3, 5, 8].into_iter().enumerate() {
        let port = played_primary(rdb[..rdb.len() * part / 10].to_vec(), None);
        client.follow(port);
        wait_until("the transfer has failed", || {
            let failed = "Failed trying to load the";
            server.log().matches(failed).count() > round
        });
        client.ok("REPLICAOF NO ONE");
        assert_eq!(Sums::read(&mut client), before, "{part} tenths");
        population.is_unchanged(&mut client);
    }
}
