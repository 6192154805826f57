//! The server's memory: what objects take of it, how they behave without it, and how the server gets it back.

use std::collections::BTreeMap;
use std::env;

use crate::harness::{Client, Reply, Server, array, digest, error, int, ok, spaced, wait_until};
use crate::support::forged::{Forged, ForgedFilter};
use crate::support::pieces::load_piece;
use crate::support::population::Population;
use crate::support::protocols::field;
use crate::support::sketches;
use crate::support::sums;
use crate::support::usage::{address_space, limit_process, memory, usage};

fn size(client: &mut Client, key: &str) -> i64 {
    field(client, key, "SIZE")
}

/// Memory that the server takes for itself from one moment to another.
const NOISE: i64 = 128 * 1024;

#[test]
fn memory_is_taken_and_given_back() {
    let (server, mut client) = Server::with_client();
    client.ok("CONFIG SET bf.bloom-filter-max-memory-usage 1gb");
    for (create, remove) in [
        ("BF.RESERVE object 0.01 1000000", "DEL object"),
        ("BF.RESERVE object 0.01 10000000", "UNLINK object"),
        ("BF.RESERVE object 0.01 20000000", "FLUSHALL SYNC"),
        ("BF.RESERVE object 0.01 20000000", "FLUSHALL ASYNC"),
        // The server frees large ones in the background.
        ("CMS.INITBYDIM object 262144 8", "UNLINK object"),
        ("CMS.INITBYDIM object 262144 8", "DEL object"),
        ("CMS.INITBYDIM object 262144 8", "FLUSHALL ASYNC"),
        ("BF.RESERVE object 0.01 5000000", "SET object string"),
    ] {
        let before = memory(&server, "used_memory");
        client.ok(create);
        let size = sums::Sums::read(&mut client).bytes();
        assert!(size > 1_000_000, "{create}: {size}");
        let taken = memory(&server, "used_memory") - before;
        // The allocator rounds up, by a fifth at the most where blocks are large.
        let most = size + size / 5 + NOISE;
        assert!(
            (size - NOISE..most).contains(&taken),
            "{create}: {taken} for {size}"
        );
        client.expect("COPY object copy", int(1));
        client.run("DEL copy");
        client.run(remove);
        wait_until("the memory is given back", || {
            (memory(&server, "used_memory") - before).abs() < NOISE
        });
        assert_eq!(sums::Sums::read(&mut client).bytes(), 0, "{remove}");
    }
}

/// Returns the bytes of bitmap of each filter, from BF.DEBUG.
fn bitmaps(client: &mut Client, key: &str) -> Vec<i64> {
    let lines = client.cmd(&format!("BF.DEBUG {key}"));
    let lines = lines.as_array()[1..].iter().map(|line| {
        let text = line.text();
        let words = text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let bytes = words[0].strip_prefix("bytes:").map(str::parse);
        bytes.expect("it comes first").expect("a number")
    });
    lines.collect()
}

/// Returns the bytes of a filter or table beside those that BF.DEBUG tells: a header, and a row in a list; in an
/// object of RedisBloom, what RedisBloom counts.
fn per_filter(kind: &str) -> i64 {
    match kind {
        "MBbloom--" => 64,
        "bloomfltx" => 168,
        _ => 45 + 48,
    }
}

#[test]
fn the_size_is_exact() {
    let (_server, mut client) = Server::with_client();
    let population = Population::new(&mut client);
    population.finish_loading(&mut client, str::to_owned);
    let is_other = |key: &&str| sketches::is_one(key) || key.starts_with("cuckoo");
    let (others, keys): (Vec<&str>, Vec<&str>) = population.keys().partition(is_other);
    let keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
    for key in others {
        client.expect(format!("DEL {key}"), int(1));
    }
    // However an object came to be.
    for (index, key) in keys.iter().enumerate() {
        client.cmd(&format!("PERSIST {key}"));
        client.expect(format!("COPY {key} copy-{index}"), int(1));
        let dump = client.cmd(&format!("DUMP {key}"));
        let name = format!("dump-{index}");
        assert_eq!(client.restore(&name, dump.as_bytes()), ok());
    }
    assert_eq!(
        client.call_with("BF.LOAD loaded", &[Forged::new().dump()]),
        ok()
    );
    client.ok("BF.RESERVE reserved 0.001 54321");
    client.ok("BF.RESERVE renamed 0.001 54321 NONSCALING");
    client.ok("RENAME renamed renamed-2");
    client.expect("BF.ADD renamed-2 item", int(1));

    let mut constants = BTreeMap::new();
    for reload in [false, true] {
        if reload {
            client.ok("DEBUG RELOAD");
        }
        let keys = client.cmd("KEYS *");
        assert!(keys.as_array().len() > 40);
        for key in keys.as_array() {
            let key = key.text();
            let filters = bitmaps(&mut client, &key);
            let kind = client.cmd(&format!("TYPE {key}")).text();
            let each = per_filter(&kind);
            let filters = filters.iter().map(|bytes| bytes + each).sum::<i64>();
            let beyond = size(&mut client, &key) - filters;
            let reported = *constants.entry(kind).or_insert(beyond);
            assert_eq!(reported, beyond, "{key}");
        }
    }
    assert_eq!(constants.len(), 3);
    // RedisBloom reports this for its objects, and so does this module.
    assert_eq!(constants.remove("MBbloom--"), Some(32));
    assert!(
        constants
            .values()
            .all(|constant| (50..500).contains(constant))
    );
}

/// Returns the commands that make tiny and larger values, a line each, under a key.
fn tiny_and_larger_values() -> Vec<String> {
    let numbers = |count: usize| spaced(0..count);
    let (few, many) = (numbers(300), numbers(2000));
    vec![
        "BF.RESERVE key 0.01 1".to_owned(),
        "BF.RESERVE key 0.01 100000".to_owned(),
        format!("BF.INSERT key CAPACITY 10 EXPANSION 1 ITEMS {few}"),
        "BF.RESERVE key 0.01 1000 COUNTING".to_owned(),
        "BF.RESERVE key 0.01 1000 WINDOW 1000 PERIODS 7".to_owned(),
        format!("BF.INSERT key CAPACITY 100 COUNTING ITEMS {many} {few}"),
        format!("BF.INSERT key CAPACITY 50 WINDOW 1000000000000 PERIODS 2 ITEMS {many}"),
        format!("BF.INSERT key SCALETO 100000 ITEMS {many}"),
        "CF.RESERVE key 4".to_owned(),
        "CF.RESERVE key 100000".to_owned(),
        format!("CF.INSERT key CAPACITY 64 ITEMS {few}"),
        "CMS.INITBYDIM key 1 1".to_owned(),
        "CMS.INITBYDIM key 3000 5".to_owned(),
        "TOPK.RESERVE key 1 1 1 0.9".to_owned(),
        format!("TOPK.RESERVE key 100 500 5 0.9\nTOPK.ADD key {few}"),
        "TDIGEST.CREATE key COMPRESSION 1".to_owned(),
        format!("TDIGEST.CREATE key\nTDIGEST.ADD key {many}"),
        // A query makes a cache, which the next write drops.
        format!("TDIGEST.CREATE key\nTDIGEST.ADD key {many}\nTDIGEST.RANK key 3"),
        "TDIGEST.CREATE key\nTDIGEST.ADD key 1\nTDIGEST.RANK key 3\nTDIGEST.ADD key 1".to_owned(),
        format!(
            "TDIGEST.CREATE key{}",
            "\nTDIGEST.ADD key 1\nTDIGEST.RANK key 3".repeat(50)
        ),
        // The allocator gives a tenth more for this cache than the module requests.
        format!(
            "TDIGEST.CREATE key\nTDIGEST.ADD key {}\nTDIGEST.RANK key 3",
            numbers(22)
        ),
    ]
}

/// The sums and MEMORY USAGE are what the server's allocator gives, for tiny values and for larger ones.
#[test]
fn reported_memory_is_what_the_allocator_gives() {
    /// Values made at once, so that the noise of one does not matter.
    const KEYS: i64 = 100;
    /// What the server may take more for a module's value than for a number, and a size class more or less.
    const PER_KEY: i64 = 48;
    /// A wrong figure is wrong in each of these.
    const ROUNDS: usize = 20;

    let server = Server::with(&[("activerehashing", "no"), ("hz", "1")]);
    let mut client = server.client();
    // The same filters grow in the same way.
    client.ok("CONFIG SET bf.bloom-use-random-seed no");
    for lines in tiny_and_larger_values() {
        let usage_of_all = |client: &mut Client| -> i64 {
            let keys = (0..KEYS).map(|key| format!("key-{key}"));
            keys.map(|key| usage(client, &key)).sum()
        };
        let mut differences = Vec::new();
        // The server's own buffers grow in the first round, and its cron may shrink those of clients during any other. Two
        // rounds have to agree, one after the other.
        let mut agreed = 0;
        let agree = (0..ROUNDS).any(|_| {
            for key in 0..KEYS {
                client.cmd(&format!("SET key-{key} 1"));
            }
            let before = memory(&server, "used_memory");
            let usage_before = usage_of_all(&mut client);
            for key in 0..KEYS {
                client.cmd(&format!("DEL key-{key}"));
                for line in lines.lines() {
                    let line = line.replacen("key", &format!("key-{key}"), 1);
                    client.run(&line);
                }
            }
            let taken = memory(&server, "used_memory") - before;
            let reported = sums::Sums::read(&mut client).bytes();
            let usage = usage_of_all(&mut client) - usage_before;
            differences.push((taken, reported - taken, usage - taken));
            let most = PER_KEY * KEYS + taken * 3 / 100;
            let differ = [reported, usage].map(|bytes| (taken - bytes).abs() > most);
            agreed = if differ.contains(&true) {
                0
            } else {
                agreed + 1
            };
            agreed == 2
        });
        let shown = &lines[..lines.len().min(70)];
        assert!(
            agree,
            "{shown}: taken, beyond it in INFO and MEMORY USAGE: {differences:?}"
        );
    }
    client.ok("FLUSHALL");
    assert_eq!(sums::Sums::read(&mut client).bytes(), 0);
}

/// Queries are answered when memory is out, but nothing is kept for the next ones.
#[test]
fn a_query_of_a_digest_takes_no_memory_when_it_is_out() {
    let (_server, mut client) = Server::with_client();
    client.ok("TDIGEST.CREATE k");
    client.ok(format!("TDIGEST.ADD k {}", spaced(0..2000)));
    let before = usage(&mut client, "k");
    let queries = ["TDIGEST.RANK k 3 70", "TDIGEST.TRIMMED_MEAN k 0.1 0.7"];
    client.ok("CONFIG SET maxmemory 1");
    let answers = queries.map(|query| client.cmd(query));
    assert_eq!(usage(&mut client, "k"), before);
    client.ok("CONFIG SET maxmemory 0");
    for (query, answer) in queries.iter().zip(&answers) {
        client.expect(query, answer);
    }
    let with_nodes = usage(&mut client, "k");
    assert!(with_nodes > before);
    // Nodes that are there already are used.
    client.ok("CONFIG SET maxmemory 1");
    assert_eq!(queries.map(|query| client.cmd(query)), answers);
    assert_eq!(usage(&mut client, "k"), with_nodes);
}

/// A half loaded object takes the loaded bytes.
#[test]
fn chunks_are_counted_as_they_come() {
    let (_server, mut client) = Server::with_client();
    let mut object = Forged::new();
    object.filters[0].bitmap_bytes = Some(1_000_000);
    assert_eq!(load_piece(&mut client, "half", &(1, object.header())), ok());
    let empty = usage(&mut client, "half");
    assert!(empty < 2000, "{empty}");
    let chunk = (400_001, vec![1; 400_000]);
    assert_eq!(load_piece(&mut client, "half", &chunk), ok());
    let come = usage(&mut client, "half") - empty;
    assert!((400_000..=800_000).contains(&come), "{come}");
}

/// At the limit, each new key of about 40 kB replaces about one other. Were values of this size freed in the background,
/// the server would not see memory come back in time, evict every key, and refuse commands.
#[test]
fn objects_are_evicted() {
    const KEPT: i64 = 500;
    for lazy in ["no", "yes"] {
        let server = Server::with(&[
            ("maxmemory-policy", "allkeys-lru"),
            ("lazyfree-lazy-eviction", lazy),
        ]);
        let mut client = server.client();
        let mut create = |number: i64| {
            let line = match number % 5 {
                0 => format!("BF.RESERVE key-{number} 0.01 33000"),
                1 => format!("CF.RESERVE key-{number} 32768"),
                2 => format!("CMS.INITBYDIM key-{number} 2000 5"),
                3 => format!("TOPK.RESERVE key-{number} 10 1000 5 0.9"),
                _ => format!("TDIGEST.CREATE key-{number} COMPRESSION 400"),
            };
            client.ok(&line);
        };
        (0..KEPT).for_each(&mut create);
        let limit = memory(&server, "used_memory");
        let mut other = server.client();
        other.ok(format!("CONFIG SET maxmemory {limit}"));
        (KEPT..12_000).for_each(&mut create);
        other.ok("CONFIG SET maxmemory 0");
        sums::is_balanced(&mut other);
        let left = other.cmd("DBSIZE").as_int();
        assert!((KEPT * 9 / 10..=KEPT * 11 / 10).contains(&left), "{left}");
        let evicted: i64 = server.info("stats")["evicted_keys"].parse().unwrap();
        assert_eq!(left, 12_000 - evicted);
    }
}

#[test]
fn large_objects_are_freed_in_the_background() {
    let (server, mut client) = Server::with_client();
    let freed = || memory(&server, "lazyfreed_objects");
    client.ok("CONFIG RESETSTAT");
    // Bytes and allocations count, for the object as a whole.
    let small = "BF.RESERVE small 0.01 1400000";
    let large = "BF.RESERVE large 0.01 1700000";
    let many = format!(
        "TOPK.RESERVE many 3000 4000 5 0.9\nTOPK.ADD many {}",
        spaced(0..3000)
    );
    let mut expected = 0;
    let mut unlink = |create: &str, key: &str, background: bool| {
        client.run_all(create.lines());
        client.expect(format!("UNLINK {key}"), int(1));
        expected += i64::from(background);
        // Were a small one freed in the background too, the next large one would show it.
        wait_until("it is freed", || freed() >= expected);
        assert_eq!(freed(), expected, "{key}");
    };
    unlink(small, "small", false);
    unlink(large, "large", true);
    unlink(&many, "many", true);
    unlink(small, "small", false);
    unlink(large, "large", true);

    // The setting moves it.
    let mut client = server.client();
    let threshold = "CONFIG SET bf.bloom-large-item-threshold 3mb";
    client.ok(threshold);
    client.ok(large);
    client.expect("UNLINK large", int(1));
    client.ok("CONFIG SET bf.bloom-large-item-threshold 0");
    client.ok(small);
    client.expect("UNLINK small", int(1));
    client.ok(large);
    client.expect("UNLINK large", int(1));
    wait_until("it is freed", || freed() >= 4);
    assert_eq!(freed(), 4);
}

#[test]
fn commands_that_cannot_allocate_are_refused() {
    let (_server, mut client) = Server::with_client();
    let most = i64::MAX;
    client.ok(format!(
        "CONFIG SET bf.bloom-filter-max-memory-usage {most}"
    ));
    let oom = error("OOM not enough memory for bloom object");
    for line in [
        "BF.RESERVE new 0.01 1000000000000000",
        "BF.RESERVE new 0.01 1000000000000000 NONSCALING",
        "BF.INSERT new CAPACITY 1000000000000000 ITEMS a",
    ] {
        client.expect(line, &oom);
    }
    client.ok("CONFIG SET bf.bloom-capacity 1000000000000000");
    client.expect("BF.ADD new a", &oom);
    client.expect("BF.MADD new a b", &oom);
    // The largest capacity of all.
    let reply = client.cmd(&format!("BF.RESERVE new 0.01 {most}"));
    assert!(reply.is_error(), "{reply:?}");
    client.expect("EXISTS new", int(0));

    // A scale-out of an object that holds items: the object keeps working.
    client.expect(
        "BF.INSERT full CAPACITY 250000 EXPANSION 4294967295 ERROR 1e-9",
        array([]),
    );
    let mut next = 0;
    let refused = loop {
        let reply = client.cmd(&format!("BF.MADD full {}", spaced(next..next + 10_000)));
        next += 10_000;
        if let Some(Reply::Error(text)) = reply.as_array().last() {
            break error(text);
        }
        assert!(next < 300_000, "it holds more than its capacity");
    };
    assert_eq!(refused, oom);
    client.expect("BF.CARD full", int(250_000));
    let before = digest(&mut client, "full");
    client.expect("BF.EXISTS full 0", int(1));
    client.expect("BF.ADD full 0", int(0));
    let last = client.cmd("BF.INSERT full ITEMS 0 none-of-them-1 none-of-them-2 none-of-them-3");
    assert_eq!(last.as_array().last(), Some(&oom));
    assert_eq!(digest(&mut client, "full"), before);
    sums::is_balanced(&mut client);
}

/// An object that comes in chunks grows with them.
#[test]
fn chunks_that_do_not_fit_in_memory_are_refused() {
    const CHUNK: usize = 4 << 20;
    let (server, mut client) = Server::with_client();
    client.ok("CONFIG SET bf.bloom-filter-max-memory-usage 2gb");
    let mut large = Forged::new();
    large.filters = vec![ForgedFilter {
        bitmap_bytes: Some(1 << 30),
        ..ForgedFilter::new(100, 1, Vec::new())
    }];
    assert_eq!(load_piece(&mut client, "k", &(1, large.header())), ok());
    // With AddressSanitizer, which needs all addresses, the tests are run with a limit of their own.
    if env::var_os("MEMCHECK_DIR").is_none() {
        let limit = address_space(server.pid()) + (200 << 20);
        limit_process(server.pid(), &format!("--as={limit}"));
    }
    let chunk = vec![0xa5; CHUNK];
    let mut load = |come: usize| load_piece(&mut client, "k", &(come + CHUNK + 1, chunk.clone()));
    let mut come = 0;
    let refused = loop {
        match load(come) {
            reply if reply == ok() => come += CHUNK,
            refused => break refused,
        }
        assert!(come < 1 << 30, "there was enough");
    };
    let oom = error("OOM not enough memory for bloom object");
    assert_eq!(refused, oom);
    assert_eq!(load(come), oom);
    client.expect("DEL k", int(1));
    client.expect("BF.ADD k a", int(1));
    sums::is_balanced(&mut client);
}
