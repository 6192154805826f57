//! Bytes that no command makes, and that are an object all the same.

use valkeybloom_sketches::bloom::dump;

use crate::harness::{Client, Reply, Server, array, digest, error, int, ok};
use crate::support::aof::{rewrite_aof, with_command_log};
use crate::support::forged::{Forged, ForgedFilter};
use crate::support::pieces::{load_chunks, object, pieces};

/// Dumps of objects that no command makes, each with a write and its reply.
fn odd() -> Vec<(&'static str, Vec<u8>, &'static str, Reply)> {
    // An object of one table, whose one entry is all of these bits.
    let table = |kind: u64, window: &[u64], newest: u64, step: [u64; 3], k: u64, entry: &[u8]| {
        let bytes =
            |numbers: &[u64]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_le_bytes()).collect() };
        let fields = [0, 1 << 52, newest, 0, 1];
        let entries = [u64::from(!entry.is_empty()), k, entry.len() as u64];
        let piece = [&bytes(&[&fields[..], &step, &entries].concat()), entry].concat();
        [
            &[2][..],
            &bytes(&[1, kind, 2, 0.01_f64.to_bits(), 1, 32]),
            &[9; 32],
            &bytes(window),
            &bytes(&[piece.len() as u64]),
            &piece,
            &[0; 8],
        ]
        .concat()
    };
    let new = || array([int(1)]);
    let mut all = Vec::new();

    // A table far along, for as many items as its fingerprints permit.
    let most = i64::MAX.unsigned_abs();
    let scaled = table(3, &[], 0, [u64::MAX, 1 << 53, 60], 0, &[]);
    all.push(("scaled", scaled, "ITEMS x", new()));
    // A count of 2⁶³.
    let count = (u128::from(u64::MAX) - 1).to_le_bytes();
    let counted = table(2, &[], 0, [0, 1, 40], 0, &count);
    all.push(("counted", counted, "ITEMS x", new()));
    // Periods long after now.
    let window = table(
        1,
        &[1_000_000_000_000, 3],
        5_000_000,
        [0, 4, 40],
        40,
        &[0; 6],
    );
    let write = "TTL 3000000000000 ITEMS x";
    all.push(("window", window, write, new()));
    let plain = |expansion, capacity, items| Forged {
        expansion,
        filters: vec![ForgedFilter::new(capacity, items, vec![0x21; 8])],
        ..Forged::new()
    };
    all.push(("largest", plain(2, most, 5).dump(), "ITEMS x", new()));
    let full = error("ERR non scaling filter is full");
    let overfull = plain(0, 1, most).dump();
    all.push(("overfull", overfull, "ITEMS x", array([full])));
    all
}

#[test]
fn accepted_objects_are_loaded_again() {
    for mut server in [Server::start(), with_command_log()] {
        let mut client = server.client();
        let logs = client.cmd("CONFIG GET appendonly").as_array()[1].text() == "yes";
        let mut keys = Vec::new();
        for (name, dump, write, reply) in odd() {
            let [loaded, chunked, restored] =
                ["load", "chunks", "restore"].map(|form| format!("{name}-{form}"));
            let load: [&[u8]; 3] = [b"BF.LOAD", loaded.as_bytes(), &dump];
            assert_eq!(client.call(&load), ok(), "{name}");
            let chunks = pieces(&mut client, &loaded);
            let written = dump::encode(&dump::decode(&dump).unwrap());
            assert_eq!(dump::encode(&object(&chunks)), written, "{name}");
            load_chunks(&mut client, &chunked, &chunks);
            let payload = client.cmd(&format!("DUMP {loaded}"));
            assert_eq!(
                client.restore(&restored, payload.as_bytes()),
                ok(),
                "{name}"
            );
            for key in [loaded, chunked, restored] {
                client.expect(format!("BF.INSERT {key} NOCREATE {write}"), &reply);
                keys.push(key);
            }
        }
        let digests = |client: &mut Client| -> Vec<String> {
            keys.iter().map(|key| digest(client, key)).collect()
        };
        let before = digests(&mut client);
        if logs {
            // Each write is in the log, and then what a rewrite makes of the objects.
            server.kill();
            server.start_again();
            assert_eq!(digests(&mut server.client()), before);
            rewrite_aof(&server);
            server.kill();
            server.start_again();
        } else {
            server.restart_saving();
        }
        assert_eq!(digests(&mut server.client()), before);
    }
}
