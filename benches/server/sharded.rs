//! Compares a filter over a cluster of three nodes with one key on one node. The same client looks up the same items.
//! Servers and client share all processors.

use std::env;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use redis::cluster::ClusterClient;
use tokio::runtime::Runtime;
use valkeybloom_client::ShardedFilter;
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::Growth;

use crate::harness::Server;
use crate::harness::cluster::nodes;
use crate::times::cpu_seconds;
use crate::{pin_to, run};

/// The items of a batch. Each task has one batch in flight.
const BATCH: u64 = 60_000;
const TASKS: u64 = 2;

pub(crate) fn table(wanted: &dyn Fn(&str) -> bool) -> String {
    let mut table = String::new();
    if !wanted("sharded") {
        return table;
    }
    let items = env::var("SHARDED_ITEMS").map_or(100_000_000, |text| {
        text.parse().expect("SHARDED_ITEMS is a number")
    });
    pin_to(std::process::id(), "0-1");
    table +=
        "| filter | items looked up | false positives | items a second | servers' time an item |\n";
    table += "|---|---|---|---|---|\n";
    for (name, primaries, shards) in [("one key, one node", 1, 1), ("3 shards, 3 nodes", 3, 3)] {
        let servers = nodes(primaries, primaries, Duration::from_secs(30));
        for server in &servers {
            let mut client = server.client();
            run(
                &mut client,
                "CONFIG SET bf.bloom-filter-max-memory-usage 1gb bf.bloom-info-alias no",
            );
        }
        let figures = Runtime::new()
            .expect("a runtime")
            .block_on(measure(&servers, shards, items));
        let Figures {
            wrong,
            seconds,
            cpu,
        } = figures;
        #[allow(clippy::cast_precision_loss, reason = "counts below 2^53")]
        let (rate, per_second, ns) = (
            wrong as f64 / (items / 2) as f64 * 100.0,
            items as f64 / seconds / 1e6,
            cpu / items as f64 * 1e9,
        );
        writeln!(
            table,
            "| {name} | {items} in {seconds:.1} s | {rate:.3} % | {per_second:.2} M | {ns:.0} ns |"
        )
        .expect("a String takes all");
    }
    pin_to(std::process::id(), "1");
    table
}

struct Figures {
    /// The number of false positives.
    wrong: u64,
    seconds: f64,
    /// The servers' processor time in seconds.
    cpu: f64,
}

/// Fills a filter with `items` items, and looks up the same number, half of them in the filter.
async fn measure(servers: &[Server], shards: u32, items: u64) -> Figures {
    let addresses = servers
        .iter()
        .map(|server| format!("redis://127.0.0.1:{}/", server.port()));
    let client = ClusterClient::new(addresses).expect("the addresses are well formed");
    let connection = client.get_async_connection().await.expect("it is up");
    let shards = NonZeroU32::new(shards).expect("some");
    let filter = ShardedFilter::new(connection, "bench", shards).expect("no braces");
    let rate = Fraction::new(0.01).expect("a rate");
    filter
        .create(items, rate, Growth::Fixed)
        .await
        .expect("it is created");

    in_batches(&filter, 0..items, true).await;
    let before: f64 = servers.iter().map(cpu_seconds).sum();
    let start = Instant::now();
    let found = in_batches(&filter, items / 2..items, false).await;
    assert_eq!(
        found,
        items - items / 2,
        "every item that was added is found"
    );
    let wrong = in_batches(&filter, items..items + items / 2, false).await;
    let seconds = start.elapsed().as_secs_f64();
    let cpu = servers.iter().map(cpu_seconds).sum::<f64>() - before;
    Figures {
        wrong,
        seconds,
        cpu,
    }
}

/// Adds or looks up the items of these numbers, and counts the positive answers.
async fn in_batches(filter: &ShardedFilter, numbers: std::ops::Range<u64>, add: bool) -> u64 {
    let tasks = (0..TASKS).map(|task| {
        let (filter, numbers) = (filter.clone(), numbers.clone());
        tokio::spawn(async move {
            let mut yes = 0;
            let mut start = numbers.start + task * BATCH;
            while start < numbers.end {
                let batch = start..numbers.end.min(start + BATCH);
                let items: Vec<[u8; 8]> = batch.map(u64::to_le_bytes).collect();
                let answers = if add {
                    filter.add(&items).await
                } else {
                    filter.ask(&items).await
                };
                for answer in answers {
                    yes += u64::from(answer.expect("an answer"));
                }
                start += TASKS * BATCH;
            }
            yes
        })
    });
    let mut yes = 0;
    for task in tasks.collect::<Vec<_>>() {
        yes += task.await.expect("no panic");
    }
    yes
}
