//! Bytes that no command makes, and that are an object all the same.

use valkeybloom_sketches::bloom::dump;

use crate::harness::{Client, Reply, Server, array, digest, error, int, ok};
use crate::support::aof::{rewrite_aof, with_command_log};
use crate::support::forged::{Forged, ForgedFilter};
use crate::support::pieces::{load_chunks, object, pieces};

/// Dumps of objects that no command makes, each with a write and its reply.
fn odd() -> Vec<(&'static str, Vec<u8>, &'static str, Reply)> {
    let seed = ForgedFilter::new(1, 0, Vec::new()).seed;
    let extended = |options: u64, window: &[u64]| {
        let mut bytes = vec![2];
        bytes.extend([1, options, 2].map(u64::to_le_bytes).as_flattened());
        bytes.extend([0.01_f64, 0.5].map(f64::to_le_bytes).as_flattened());
        bytes.extend([1, 32].map(u64::to_le_bytes).as_flattened());
        bytes.extend(seed);
        bytes.extend(window.iter().flat_map(|n| n.to_le_bytes()));
        bytes
    };
    let add = |bytes: &mut Vec<u8>, numbers: &[u64], filters: &[ForgedFilter]| {
        bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        for filter in filters {
            let blob = filter.blob();
            bytes.extend((blob.len() as u64).to_le_bytes());
            bytes.extend(blob);
            bytes.extend(
                [filter.capacity, filter.items]
                    .map(u64::to_le_bytes)
                    .as_flattened(),
            );
        }
    };
    let counters = ForgedFilter {
        version: 2,
        bitmap_bytes: Some(2),
        ..ForgedFilter::new(1, 1, vec![0x10; 8])
    };
    let new = || array([int(1)]);
    let mut all = Vec::new();

    // A range of ids begins above all that were seen, and its filter is full.
    let mut ids = extended(2, &[]);
    add(
        &mut ids,
        &[1, 0, 2, 0, 5, 0, 0, 10, 1, 2],
        &[counters.clone(), counters.clone()],
    );
    all.push(("ids", ids, "ID 10 ITEMS x", new()));
    // Half of all capacity that there is in a period, and an item for the one that follows.
    let most = (1 << 62) - 1;
    let mut window = extended(1, &[1_000_000_000_000, 3]);
    add(
        &mut window,
        &[1, 1, 1],
        &[ForgedFilter::new(most, 1, vec![0x21; 8])],
    );
    let write = "TTL 3000000000000 ITEMS x";
    all.push(("window", window, write, new()));
    let plain = |expansion, capacity, items| Forged {
        expansion,
        filters: vec![ForgedFilter::new(capacity, items, vec![0x21; 8])],
        ..Forged::new()
    };
    let largest = i64::MAX.unsigned_abs();
    all.push(("largest", plain(2, largest, 5).dump(), "ITEMS x", new()));
    let full = error("ERR non scaling filter is full");
    let overfull = plain(0, 1, largest).dump();
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
            let restore: [&[u8]; 4] = [b"RESTORE", restored.as_bytes(), b"0", payload.as_bytes()];
            assert_eq!(client.call(&restore), ok(), "{name}");
            for key in [loaded, chunked, restored] {
                let line = format!("BF.INSERT {key} NOCREATE {write}");
                assert_eq!(client.cmd(&line), reply, "{key}");
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
