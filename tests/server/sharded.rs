//! One filter over many keys of a cluster, through the client that the crate offers.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis::ProtocolVersion;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use tokio::runtime::Runtime;
use valkeybloom_client::{Error, ShardedFilter, shard_of};
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::Growth;

use crate::cluster::{migrate_keys, slot};
use crate::harness::cluster::{Cluster, SHARDS as PRIMARIES, SLOTS, id, is_primary};
use crate::harness::{PATIENCE, Server, int, wait_until};
use crate::pages;
use crate::recipes::{node, python};
use crate::soak;
use crate::support::Rng;

/// Some for every primary.
const SHARDS: u32 = 12;
/// No failover happens in tests that do not wait for one.
const NEVER: Duration = Duration::from_secs(30);

/// Connects to a cluster, with further options of the client.
pub async fn connect_with(
    cluster: &Cluster,
    options: impl FnOnce(ClusterClientBuilder) -> ClusterClientBuilder,
) -> ClusterConnection {
    let nodes = cluster.nodes.iter().map(Server::port);
    let client = ClusterClient::builder(nodes.map(|port| format!("redis://127.0.0.1:{port}/")))
        .retries(4)
        .min_retry_wait(10)
        .max_retry_wait(100);
    let client = options(client).build();
    let client = client.expect("the addresses are well formed");
    client.get_async_connection().await.expect("it is up")
}

async fn connect(cluster: &Cluster, protocol: ProtocolVersion) -> ClusterConnection {
    connect_with(cluster, |client| client.use_protocol(protocol)).await
}

async fn filter(cluster: &Cluster, name: &str, shards: u32) -> ShardedFilter {
    let connection = connect(cluster, ProtocolVersion::RESP2).await;
    let shards = NonZeroU32::new(shards).expect("some");
    let filter = ShardedFilter::new(connection, name, shards).expect("a name without braces");
    filter.timeout(PATIENCE)
}

fn rate(rate: f64) -> Fraction {
    Fraction::new(rate).expect("a rate")
}

fn by_two() -> Growth {
    Growth::from_expansion(2)
}

/// Returns the number of the primary that an item's shard starts on.
fn primary_of(name: &str, item: &[u8]) -> usize {
    let shard = shard_of(item, NonZeroU32::new(SHARDS).expect("some"));
    let slot = slot(format!("{name}:{shard}").as_bytes());
    let primary = (0..PRIMARIES).find(|primary| slot < (primary + 1) * SLOTS / PRIMARIES);
    primary.expect("every slot has one")
}

fn numbered(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    let items = numbers.into_iter().map(|number| format!("item {number}"));
    items.collect()
}

fn count_yes(answers: Vec<Result<bool, Error>>) -> u64 {
    let answers = answers.into_iter().map(|answer| answer.expect("an answer"));
    answers.filter(|yes| *yes).count() as u64
}

/// Sends a process a signal.
fn signal(server: &Server, name: &str) {
    let status = Command::new("kill")
        .args([name, &server.pid().to_string()])
        .status();
    assert!(status.expect("kill is there").success());
}

#[test]
fn answers_equal_those_of_a_set() {
    let cluster = Cluster::start(NEVER);
    let mut random = soak::random("sharded model");
    Runtime::new().expect("a runtime").block_on(async {
        for protocol in [ProtocolVersion::RESP2, ProtocolVersion::RESP3] {
            // One alone takes all of a batch, in several commands.
            for shards in [1, SHARDS] {
                let connection = connect(&cluster, protocol).await;
                let name = format!("model {protocol:?} {shards}");
                let of = NonZeroU32::new(shards).expect("some");
                let filter = ShardedFilter::new(connection, &name, of).expect("no braces");
                let filter = filter.timeout(PATIENCE);
                filter.create(100_000, rate(1e-9), by_two()).await.unwrap();
                is_like_a_set(&filter, &mut random).await;
            }
        }
    });
}

/// Adds and asks in batches of all sizes, of items that are often equal, and of any bytes.
async fn is_like_a_set(filter: &ShardedFilter, random: &mut Rng) {
    let mut set = HashSet::new();
    for size in [0, 1, 2, 100, 25_000, 0, 999] {
        let item = |random: &mut Rng| {
            let length = random.below(4);
            random.bytes(length)
        };
        let batch: Vec<Vec<u8>> = (0..size).map(|_| item(random)).collect();
        let others: Vec<Vec<u8>> = (0..size).map(|_| item(random)).collect();
        let expected: Vec<_> = batch
            .iter()
            .map(|item| Ok(set.insert(item.clone())))
            .collect();
        assert!(filter.add(&batch).await == expected, "{size} added");
        let expected: Vec<_> = others.iter().map(|item| Ok(set.contains(item))).collect();
        assert!(filter.ask(&others).await == expected, "{size} asked for");
        assert_eq!(filter.card().await, Ok(set.len() as u64));
        assert_eq!(filter.info().await.unwrap().items, set.len() as u64);
    }
}

#[test]
fn the_filter_keeps_its_rate_and_its_shards_their_capacity() {
    const ITEMS: u64 = 300_000;
    let cluster = Cluster::start(NEVER);
    Runtime::new().expect("a runtime").block_on(async {
        for (name, growth) in [("fixed", Growth::Fixed), ("growing", by_two())] {
            let filter = filter(&cluster, name, SHARDS).await;
            filter.create(ITEMS, rate(0.01), growth).await.unwrap();
            // Nothing is refused, and nothing is stacked.
            let new = count_yes(filter.add(&numbered(0..ITEMS)).await);
            let info = filter.info().await.unwrap();
            assert_eq!((info.filters, info.items), (u64::from(SHARDS), new));
            assert!((ITEMS..ITEMS * 21 / 20).contains(&info.capacity));
            assert_eq!(count_yes(filter.ask(&numbered(0..ITEMS)).await), ITEMS);
            let wrong = count_yes(filter.ask(&numbered(ITEMS..2 * ITEMS)).await);
            // The first filter of a growing object has half the rate. A fixed one has the rate itself, give or take
            // some standard deviations.
            let most = if growth == Growth::Fixed {
                3_300
            } else {
                3_000
            };
            assert!(wrong <= most, "{name}: {wrong} of {ITEMS} are wrong");
        }
    });
}

#[test]
fn creators_agree_and_refusals_are_reported_per_item() {
    let cluster = Cluster::start(NEVER);
    Runtime::new().expect("a runtime").block_on(async {
        let filter_of = |name, shards| filter(&cluster, name, shards);
        let filter = filter_of("created", SHARDS).await;
        // Never created.
        let reported = |error: &Error| error.to_string().to_lowercase();
        for answer in filter.add(&["a", "b"]).await {
            let error = answer.unwrap_err();
            assert!(reported(&error).contains("not found"), "{error}");
        }
        assert_eq!(filter.ask(&["a"]).await, [Ok(false)]);
        assert_eq!(filter.card().await, Ok(0));
        assert!(filter.info().await.is_err());

        let lasting = filter.clone().acknowledged_by(NonZeroU32::MIN, PATIENCE);
        let creators = (0..8).map(|creator| {
            let filter = [&filter, &lasting][creator % 2].clone();
            tokio::spawn(async move { filter.create(10_000, rate(0.01), by_two()).await })
        });
        for creator in creators.collect::<Vec<_>>() {
            assert_eq!(creator.await.expect("no panic"), Ok(()));
        }
        let info = filter.info().await.unwrap();
        assert_eq!(info.filters, u64::from(SHARDS));
        assert_eq!(filter.add(&["a"]).await, [Ok(true)]);
        let other = filter.create(77, rate(0.5), Growth::Fixed).await;
        assert_eq!(other, Ok(()));
        let kept = filter.info().await.unwrap();
        assert_eq!((kept.capacity, kept.items), (info.capacity, 1));

        let full = filter_of("full", 1).await;
        let rate = rate(1e-9);
        full.create(10, rate, Growth::Fixed).await.unwrap();
        for new in [true, false] {
            let answers = full.add(&numbered(0..20)).await;
            assert!(answers[..10].iter().all(|answer| *answer == Ok(new)));
            let refusal = answers[10].as_ref().unwrap_err();
            assert!(reported(refusal).contains("full"), "{refusal}");
            assert_eq!(answers[11..], [const { Err(Error::NotTried) }; 9]);
        }

        let refused = full.create(0, rate, by_two()).await.unwrap_err();
        assert!(reported(&refused).contains("capacity"), "{refused}");
        let connection = connect(&cluster, ProtocolVersion::RESP2).await;
        let braces = ShardedFilter::new(connection, "{tag}", NonZeroU32::MIN);
        assert_eq!(braces.unwrap_err(), Error::Name);
    });
}

/// A known item may still be on its way to the replica: a WAIT after a command that wrote nothing would not wait for
/// it.
#[test]
fn items_that_are_not_replicated_are_not_acknowledged() {
    let cluster = Cluster::start(NEVER);
    Runtime::new().expect("a runtime").block_on(async {
        let filter = filter(&cluster, "sync", SHARDS).await;
        let connection = connect(&cluster, ProtocolVersion::RESP2).await;
        let shards = NonZeroU32::new(SHARDS).expect("some");
        let acknowledged = ShardedFilter::new(connection, "sync", shards).expect("no braces");
        let acknowledged = acknowledged.timeout(PATIENCE);
        let soon = acknowledged
            .clone()
            .acknowledged_by(NonZeroU32::MIN, Duration::ZERO);
        let acknowledged = acknowledged.acknowledged_by(NonZeroU32::MIN, PATIENCE);
        acknowledged
            .create(1000, rate(1e-9), by_two())
            .await
            .unwrap();

        let replica = &cluster.nodes[primary_of("sync", b"item") + PRIMARIES];
        signal(replica, "-STOP");
        assert_eq!(filter.add(&["item"]).await, [Ok(true)]);
        let none = Err(Error::Unacknowledged { replicas: 0 });
        assert_eq!(soon.add(&["item"]).await, [none]);
        assert_eq!(filter.ask(&["item"]).await, [Ok(true)]);
        signal(replica, "-CONT");
        assert_eq!(acknowledged.add(&["item"]).await, [Ok(false)]);
    });
}

/// Adds items until all are acknowledged, and counts them. Returns the number of errors; only the primary `killed` causes any.
async fn add_all(
    filter: ShardedFilter,
    items: u64,
    killed: usize,
    acknowledged: &'static AtomicU64,
) -> u64 {
    const BATCH: u64 = 20_000;
    let (mut next, mut failed, mut errors) = (0, Vec::new(), 0);
    let mut progress = Instant::now();
    while next < items || !failed.is_empty() {
        // Failed items are retried before new ones.
        let fresh = next..items.min(next + BATCH - BATCH.min(failed.len() as u64));
        next = fresh.end;
        let batch: Vec<u64> = failed.drain(..).chain(fresh).collect();
        let words = numbered(batch.iter().copied());
        for ((number, word), answer) in batch.iter().zip(&words).zip(filter.add(&words).await) {
            if let Err(error) = answer {
                let primary = primary_of("lasting", word.as_bytes());
                assert_eq!(primary, killed, "{word}: {error}");
                failed.push(*number);
                errors += 1;
            } else {
                acknowledged.fetch_add(1, Ordering::Relaxed);
                progress = Instant::now();
            }
        }
        assert!(progress.elapsed() < PATIENCE, "nothing is acknowledged");
    }
    errors
}

#[test]
fn acknowledged_items_outlive_a_primary() {
    const ITEMS: u64 = 1_000_000;
    static ACKNOWLEDGED: AtomicU64 = AtomicU64::new(0);
    let mut cluster = Cluster::start(Duration::from_secs(3));
    let runtime = Runtime::new().expect("a runtime");
    let (adding, filter) = runtime.block_on(async {
        let filter = filter(&cluster, "lasting", SHARDS).await;
        let adding = filter
            .clone()
            .timeout(Duration::from_secs(10))
            .acknowledged_by(NonZeroU32::MIN, Duration::from_secs(10));
        filter.create(ITEMS, rate(0.01), by_two()).await.unwrap();
        (adding, filter)
    });
    cluster.in_sync();

    let killed = cluster.primary(1);
    let adder = runtime.spawn(add_all(adding, ITEMS, killed, &ACKNOWLEDGED));
    wait_until("a third is in", || {
        adder.is_finished() || ACKNOWLEDGED.load(Ordering::Relaxed) > ITEMS / 3
    });
    cluster.nodes[killed].kill();
    let replica = &cluster.nodes[killed + PRIMARIES];
    wait_until("the replica is the primary", || is_primary(replica));
    // It has no replica of its own, so nothing new of it is acknowledged until the dead one follows it.
    cluster.nodes[killed].start_again();
    let errors = runtime.block_on(adder).expect("the adder ends");
    assert!(errors > 0, "the outage caused no errors");
    assert_eq!(ACKNOWLEDGED.load(Ordering::Relaxed), ITEMS);

    for start in (0..ITEMS).step_by(100_000) {
        let batch = numbered(start..ITEMS.min(start + 100_000));
        for (item, answer) in batch.iter().zip(runtime.block_on(filter.ask(&batch))) {
            assert_eq!(answer, Ok(true), "{item}");
        }
    }
}

#[test]
fn a_node_without_a_replica_fails_alone() {
    let mut cluster = Cluster::start(NEVER);
    let runtime = Runtime::new().expect("a runtime");
    let batch = numbered(0..5000);
    let filter = runtime.block_on(async {
        let filter = filter(&cluster, "partly", SHARDS).await;
        filter.create(10_000, rate(1e-9), by_two()).await.unwrap();
        assert_eq!(count_yes(filter.add(&batch).await), 5000);
        filter
    });
    let dead = 2;
    cluster.nodes[dead + PRIMARIES].kill();
    cluster.nodes[dead].kill();

    let more = numbered(5000..10_000);
    let hasty = filter.clone().timeout(Duration::from_secs(10));
    runtime.block_on(async {
        for (batch, expected, answers) in [
            (&batch, true, hasty.ask(&batch).await),
            (&batch, false, hasty.add(&batch).await),
            (&more, false, hasty.ask(&more).await),
            (&more, true, hasty.add(&more).await),
        ] {
            let mut failed = 0;
            for (item, answer) in batch.iter().zip(answers) {
                if primary_of("partly", item.as_bytes()) == dead {
                    assert!(answer.is_err(), "{item}: {answer:?}");
                    failed += 1;
                } else {
                    assert_eq!(answer, Ok(expected), "{item}");
                }
            }
            assert!(0 < failed && failed < batch.len(), "{failed} failed");
        }
        assert!(hasty.card().await.is_err());
        assert!(hasty.info().await.is_err());
        let created = hasty.create(10_000, rate(1e-9), by_two()).await;
        assert!(created.is_err());
    });
}

/// If all of these calls were in flight at once, the client library would wait for its own lock when they break.
#[test]
fn a_batch_outlives_its_connections() {
    let cluster = Cluster::start(NEVER);
    let primaries = cluster.nodes[..PRIMARIES].iter();
    let mut clients: Vec<_> = primaries.map(Server::client).collect();
    let runtime = Runtime::new().expect("a runtime");
    let filter = runtime.block_on(filter(&cluster, "cut", 100));
    let created = runtime.block_on(filter.create(10_000, rate(1e-9), by_two()));
    assert_eq!(created, Ok(()));
    for start in [0, 1000, 2000] {
        for client in &mut clients {
            client.ok("CLIENT PAUSE 3600000 WRITE");
        }
        let filter = filter.clone();
        let items = numbered(start..start + 1000);
        let adding = runtime.spawn(async move { filter.add(&items).await });
        for client in &mut clients {
            wait_until("an addition is held up", || {
                client
                    .cmd("INFO clients")
                    .text()
                    .contains("blocked_clients:1")
            });
        }
        for client in &mut clients {
            client.cmd("CLIENT KILL TYPE normal");
            client.ok("CLIENT UNPAUSE");
        }
        let answers = runtime.block_on(adding).expect("no panic");
        assert_eq!(count_yes(answers), 1000);
    }
}

/// The key is at the other node already and the slot is not: every command is sent on by ASK.
#[test]
fn a_shard_keeps_working_while_its_slot_moves() {
    let cluster = Cluster::start(NEVER);
    let runtime = Runtime::new().expect("a runtime");
    let batch = numbered(0..1000);
    let filter = runtime.block_on(filter(&cluster, "moving", SHARDS));
    let filter = filter.acknowledged_by(NonZeroU32::MIN, PATIENCE);
    runtime.block_on(async {
        filter.create(10_000, rate(1e-9), by_two()).await.unwrap();
        assert_eq!(count_yes(filter.add(&batch[..500]).await), 500);
    });

    let from = primary_of("moving", batch[0].as_bytes());
    let to = (from + 1) % PRIMARIES;
    let shard = shard_of(&batch[0], NonZeroU32::new(SHARDS).expect("some"));
    let slot = slot(format!("moving:{shard}").as_bytes());
    let (near, far) = (&cluster.nodes[from], &cluster.nodes[to]);
    far.client()
        .ok(format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(near)));
    near.client()
        .ok(format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(far)));
    assert!(migrate_keys(&mut near.client(), far, slot, 10) > 0);

    runtime.block_on(async {
        assert_eq!(count_yes(filter.add(&batch).await), 500);
        assert_eq!(count_yes(filter.add(&batch).await), 0);
        assert_eq!(count_yes(filter.ask(&batch).await), 1000);
        assert_eq!(filter.card().await, Ok(1000));
    });
}

/// The programs of docs/sharded.md use the same shards as the crate, and report what a shard refuses.
#[test]
fn the_programs_of_the_page_find_the_shards_and_report_refusals() {
    let sections = [
        ("In Python without the package", "python"),
        ("In Node", "js"),
    ];
    for (section, language) in sections {
        let server = Server::start();
        let program = pages::block("docs/sharded.md", section, language);
        match language {
            "python" => python(&program, include_str!("recipes/sharded.py"), &server),
            _ => node(&program, include_str!("recipes/sharded.js"), &server),
        }
        let mut client = server.client();
        for n in 0..1000 {
            let item = format!("item {n}");
            let shard = shard_of(item.as_bytes(), NonZeroU32::new(12).expect("some"));
            let key = format!("seen:{shard}");
            let exists = client.call(&[b"BF.EXISTS", key.as_bytes(), item.as_bytes()]);
            assert_eq!(exists, int(1), "{language}: {item}");
        }
    }
}

/// Tasks of Spark fill one shard each. `BUILDS_PYTHON` is a Python that has `pyspark` and the package.
#[test]
#[ignore = "installs PySpark: ./build.sh builds"]
fn shards_that_spark_builds_have_the_same_answers_in_rust_and_python() {
    const BUILT: u64 = 100_000;
    const LIVE: u64 = 1000;
    const ASKED: u64 = 300_000;
    let cluster = Cluster::start(NEVER);
    let (port, dir) = (cluster.nodes[0].port(), cluster.nodes[0].dir());
    let program = pages::block("docs/builds.md", "Filters beyond one machine", "python");
    let program = program.replace("port=7000", &format!("port={port}"));
    std::fs::write(dir.join("program.py"), program).expect("the folder can be written to");
    let output =
        Command::new(std::env::var_os("BUILDS_PYTHON").expect("./build.sh builds sets it"))
            .args(["-B", "-c", include_str!("recipes/builds.py")])
            .args([u64::from(port), BUILT, LIVE, ASKED].map(|number| number.to_string()))
            .current_dir(dir)
            .output()
            .expect("there is a Python");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let answers = output.stdout.trim_ascii_end().iter();
    let in_python: Vec<_> = answers.map(|answer| Ok(*answer == b'1')).collect();

    let in_rust = Runtime::new().expect("a runtime").block_on(async {
        let filter = filter(&cluster, "seen", SHARDS).await;
        filter.ask(&numbered(0..ASKED)).await
    });
    assert!(in_rust == in_python);
    let found = count_yes(in_rust);
    let most = BUILT + LIVE + ASKED / 50;
    assert!((BUILT + LIVE..most).contains(&found), "{found} are found");
}
