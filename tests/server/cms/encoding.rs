//! `bf.cms-encoding`: the form in which sketches are saved, dumped and rewritten. Either is read.

use std::fs;

use valkeybloom_testing::loader::Dump;

use crate::harness::{Client, Server, int, ok, wait_in_sync, wait_until};
use crate::support::aof::{commands, part, rewrite_aof};

const SIZES: [u64; 4] = [1, 2, 4, 8];

/// Makes a sketch of each size of counters, and a copy of each.
fn make(client: &mut Client) {
    for size in SIZES {
        client.ok(format!("CMS.INITBYDIM k{size} 7 3 CELL_SIZE {size}"));
        client.cmd(&format!("CMS.INCRBY k{size} a 200 b 7 c {size}"));
        client.expect(format!("COPY k{size} copy{size}"), int(1));
    }
}

/// Requires that the payload of DUMP and of a rewritten log has this version, and holds the sketch.
fn has_version(payload: &[u8], size: u64, version: u64) {
    let dump = Dump::of(payload).expect("a module's value");
    assert_eq!((&*dump.type_name, dump.version), ("CMSk-TYPE", version));
    if version == 1 || size == 4 {
        let loaded = dump.count_min().expect("RedisBloom 8.12 loads it");
        assert_eq!((loaded.width, loaded.depth), (7, 3));
        assert_eq!((loaded.count, loaded.cell_bytes), (207 + size, size));
        assert_eq!(loaded.counters.iter().sum::<u64>(), 3 * (207 + size));
    } else {
        assert_eq!(dump.fields.len(), 5);
    }
}

#[test]
fn every_form_has_the_encoding() {
    for encoding in [0, 1] {
        let mut server = Server::builder()
            .module_args(&["cms-encoding", &encoding.to_string()])
            .config("appendonly", "yes")
            .config("aof-use-rdb-preamble", "no")
            .start();
        let other = Server::with(&[("bf.cms-encoding", if encoding == 0 { "1" } else { "0" })]);
        let mut client = server.client();
        make(&mut client);
        for size in SIZES {
            for key in ["k", "copy"].map(|key| format!("{key}{size}")) {
                let payload = client.cmd(&format!("DUMP {key}")).as_bytes().to_vec();
                has_version(&payload, size, encoding);
                assert_eq!(other.client().restore(&key, &payload), ok());
                let there = other.client().cmd(&format!("DUMP {key}"));
                has_version(there.as_bytes(), size, 1 - encoding);
            }
        }
        let expected = client.cmd("DEBUG DIGEST");
        other.client().expect("DEBUG DIGEST", &expected);

        rewrite_aof(&server);
        let log = commands(&fs::read(part(&server, ".base.aof")).expect("it can be read"));
        assert_eq!(log.len(), 2 * SIZES.len());
        for words in log {
            let size = u64::from(words[1].last().expect("a digit") - b'0');
            has_version(&words[3], size, encoding);
        }
        server.restart();
        server.client().expect("DEBUG DIGEST", &expected);

        let replica = Server::replica_of(&server)
            .config("bf.cms-encoding", if encoding == 0 { "1" } else { "0" })
            .start();
        wait_in_sync(&server, &replica);
        replica.client().expect("DEBUG DIGEST", &expected);
        // A file of either version.
        let mut reader = Server::with(&[("bf.cms-encoding", "0")]);
        reader.shutdown();
        // The save for the replica may not have ended.
        wait_until("the server has saved", || {
            server.client().cmd("SAVE") == ok()
        });
        let file = |server: &Server| server.dir().join("dump.rdb");
        fs::copy(file(&server), file(&reader)).expect("it can be copied");
        reader.start_again();
        reader.client().expect("DEBUG DIGEST", &expected);
    }
}
