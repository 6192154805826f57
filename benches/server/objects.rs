//! Objects to measure.

use std::ops::Range;

use valkeybloom_testing::support::Rng;

use crate::harness::{Client, Reply};
use crate::run;

/// Returns `count` bytes that do not compress, like those of a filter in use.
pub(crate) fn random(count: usize) -> Vec<u8> {
    Rng::new(1).bytes(count)
}

/// Makes an object of one filter with random bits, and returns the number of their bytes.
pub(crate) fn fill_random(client: &mut Client, key: &str, capacity: u64) -> usize {
    run(client, &format!("BF.RESERVE shape 0.01 {capacity}"));
    let mut cursor = "0".to_owned();
    let mut bytes = 0;
    loop {
        let reply = run(client, &format!("BF.SCANDUMP shape {cursor}"));
        let (next, mut chunk) = (
            reply.as_array()[0].as_int(),
            reply.as_array()[1].as_bytes().to_vec(),
        );
        if next == 0 {
            break;
        }
        // The first chunk is the header.
        if cursor != "0" {
            chunk = random(chunk.len());
            bytes += chunk.len();
        }
        cursor = next.to_string();
        let load: [&[u8]; 4] = [b"BF.LOADCHUNK", key.as_bytes(), cursor.as_bytes(), &chunk];
        let loaded = client.call(&load);
        assert!(!loaded.is_error(), "{loaded:?}");
    }
    run(client, "DEL shape");
    bytes
}

/// Makes an object of 24 periods of nearly a million items each. An item with a time to live goes into the period that
/// expires when that time is over.
pub(crate) fn window(client: &mut Client) {
    const HOUR_MS: u64 = 3_600_000;
    let line = format!("BF.RESERVE window 0.01 1000000 WINDOW {HOUR_MS} PERIODS 24");
    run(client, &line);
    for period in 0..24 {
        let begin = period * 1_000_000;
        let end = begin + 970_000;
        let ttl_ms = period * HOUR_MS + 1;
        let insert = format!("BF.INSERT window TTL {ttl_ms} ITEMS");
        batches(client, &insert, begin..end).for_each(drop);
    }
}

/// Adds numbered items.
pub(crate) fn fill(client: &mut Client, command: &str, key: &str, numbers: Range<u64>) {
    batches(client, &format!("{command} {key}"), numbers).for_each(drop);
}

/// Sends these words with numbered items, a thousand at a time, and returns the replies.
pub(crate) fn batches(
    client: &mut Client,
    words: &str,
    numbers: Range<u64>,
) -> impl Iterator<Item = Reply> {
    let end = numbers.end;
    numbers.step_by(1000).map(move |start| {
        let items = (start..end.min(start + 1000)).map(|number| format!(" {number:012}"));
        run(client, &format!("{words}{}", items.collect::<String>()))
    })
}

/// Adds items until an object has `filters` filters, and the newest is half full.
pub(crate) fn stack(client: &mut Client, key: &str, filters: i64) {
    let items = |client: &mut Client| run(client, &format!("BF.CARD {key}")).as_int();
    let mut next = 0;
    loop {
        let missing = filters * 1000 - 500 - items(client);
        let Ok(missing) = u64::try_from(missing) else {
            return;
        };
        if missing == 0 {
            return;
        }
        fill(client, "BF.MADD", key, next..next + missing);
        next += missing;
    }
}
