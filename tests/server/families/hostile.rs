//! Invalid payloads: each is refused with an error, and creates no key. The core's tests have every fault; here is one of
//! each kind, and some of them have crashed `RedisBloom`. Accepted payloads can be used.

use crate::harness::{Client, Reply, Server, digest, error, int, ok};
use crate::support::Rng;
use crate::support::cuckoo::header;
use crate::support::forged::{Forged, Rdb, Refusing, seal};
use crate::support::sums;
use crate::support::usage::peak_address_space;

/// The ids of the types, without an encoding version.
const CMS: u64 = 0x08c4_a4f9_360f_1000;
const TOPK: u64 = 0x4e8a_4af9_360f_1000;
const CUCKOO: u64 = 0x3016_e5a2_8982_1400;

/// Returns a count-min sketch with this width, depth and count.
fn cms(numbers: [u64; 3], counters: usize) -> Rdb {
    let value = numbers.into_iter().fold(Rdb::of_type(CMS), Rdb::uint);
    value.string(&vec![1; counters])
}

/// Returns a count-min sketch of the form that RedisBloom 8.12 writes.
fn newer_cms(count: u64, size: u64, counters: usize) -> Rdb {
    let numbers = [3, 2, count, size].into_iter();
    let value = numbers.fold(Rdb::of_type(CMS | 1), Rdb::uint);
    value.string(&vec![1; counters])
}

/// Returns a list of one row with this k, width and depth, and these items, the second of which is listed.
fn topk(numbers: [u64; 3], items: [&[u8]; 2]) -> Rdb {
    let value = numbers.into_iter().fold(Rdb::of_type(TOPK), Rdb::uint);
    // Fingerprints, lengths, an address of another process, and counts.
    let entry = |[fingerprint, length, count]: [u32; 3]| {
        let address = 0x7f36_1854_fd30_u64.to_le_bytes();
        let begin = [fingerprint, length].map(u32::to_le_bytes).concat();
        let end = [count, 0].map(u32::to_le_bytes).concat();
        [&begin[..], &address, &end].concat()
    };
    let heap = [entry([0; 3]), entry([0xf23c_f517, 1, 5])].concat();
    let value = value.double(0.9).string(&[0; 24]).string(&heap);
    items.into_iter().fold(value, Rdb::string)
}

/// Returns a cuckoo filter of 96 items, with this number of filters, and with filters of so many buckets and slots.
fn cuckoo(version: u64, filters: u64, stored: &[(u64, usize)]) -> Rdb {
    let numbers = [filters, 32, 96, 3, 2, 20, 2].into_iter();
    let value = numbers.fold(Rdb::of_type(CUCKOO | version), Rdb::uint);
    let slots = |count: usize| [7, 0].repeat(count.div_ceil(2))[..count].to_vec();
    stored.iter().fold(value, |value, (buckets, count)| {
        value.uint(*buckets).string(&slots(*count))
    })
}

const ITEMS: [&[u8]; 2] = [b"\0", b"a\0"];
const FILTERS: [(u64, usize); 2] = [(32, 64), (64, 128)];

/// Values that are right, and commands that use them.
fn values() -> [(Rdb, &'static [&'static str]); 5] {
    const OF_CMS: &[&str] = &[
        "CMS.INCRBY k a 1 b 300",
        "CMS.QUERY k a b",
        "CMS.MERGE k 2 k k",
        "CMS.INFO k",
    ];
    const OF_CUCKOO: &[&str] = &["CF.ADD k a", "CF.DEL k a", "CF.COUNT k b", "CF.COMPACT k"];
    const OF_TOPK: &[&str] = &[
        "TOPK.INCRBY k a 1 b 300 c 100000",
        "TOPK.ADD k a b c d",
        "TOPK.QUERY k a b",
        "TOPK.COUNT k a b",
        "TOPK.LIST k WITHCOUNT",
        "TOPK.INFO k",
    ];
    [
        (cuckoo(4, 2, &FILTERS), OF_CUCKOO),
        (topk([2, 3, 1], ITEMS), OF_TOPK),
        (cms([3, 2, 7], 24), OF_CMS),
        (cms([3, 2, 7], 48).uint(8), OF_CMS),
        (newer_cms(7, 2, 12), OF_CMS),
    ]
}

#[test]
fn forged_values_are_refused() {
    const ENDS: &str = "bytes end too early";
    const VERSION: &str = "unsupported version";
    let many = u64::from(u32::MAX);
    let (bloom, mut spoilt) = (Forged::new(), Forged::new());
    spoilt.filters[0].hashes = 0;
    // The type's encoding version is the last ten bits of its id.
    let mut newer = Rdb::of(&bloom);
    newer.0[9] = 2;
    let mut refusing = Refusing::start();
    for (what, value, words) in [
        ("a claim of counters", cms([1 << 60, 1, 7], 8), ENDS),
        ("a number after counters", cms([3, 2, 7], 24).uint(4), ""),
        ("a newer sketch", Rdb::of_type(CMS | 2).uint(3), VERSION),
        (
            "a claim of cells",
            topk([2, many, 1], ITEMS),
            "string of another length",
        ),
        // It reads beyond the bytes.
        (
            "an item without an end",
            topk([2, 3, 1], [b"\0", b"a"]),
            "item without its end",
        ),
        ("a newer list", Rdb::of_type(TOPK | 1).uint(2), VERSION),
        (
            "a claim of filters",
            cuckoo(4, u64::MAX, &FILTERS),
            "number of filters out of range",
        ),
        // The server itself finds bytes after the object.
        ("a filter too many", cuckoo(4, 1, &FILTERS), ""),
        ("a newer filter", cuckoo(5, 2, &FILTERS), VERSION),
        (
            "no hash functions",
            Rdb::of(&spoilt),
            "number of hash functions out of range",
        ),
        ("a field after a Bloom filter", Rdb::of(&bloom).uint(1), ""),
        ("a newer Bloom filter", newer, VERSION),
        (
            "an old filter",
            cuckoo(1, 2, &FILTERS),
            "RedisBloom 2.0 or older",
        ),
    ] {
        refusing.refuses(what, &value, words);
    }
    let peak = peak_address_space(refusing.server());
    assert!(peak < 4 << 30, "a claim took memory");
}

/// Headers of chunks that are wrong in themselves, and right ones beyond the limits.
#[test]
fn forged_headers_are_refused() {
    let (_server, mut client) = Server::with_client();
    let mut begin = |header: &[u8]| client.call(&[b"CF.LOADCHUNK", b"forged", b"1", header]);
    for (buckets, filters) in [
        (1 << 63, 1),
        (1 << 26, 1),
        (1 << 25, 33),
        (2, 33),
        (2, 65_535),
    ] {
        let claim = header([1, buckets, 0, filters], [2, 20, 1]);
        let refused = error("Couldn't create filter!");
        assert_eq!(begin(&claim), refused, "{filters} of {buckets}");
    }
    assert_eq!(begin(&[0; 37]), error("Invalid header"));
    assert_eq!(begin(&header([1, 2, 0, 32], [2, 20, 1])), ok());
}

/// An upload repeats its first step if the reply was lost. RedisBloom 2.2.0 to 2.2.10 ends headers with an address.
#[test]
fn a_header_may_arrive_again() {
    let (_server, mut client) = Server::with_client();
    let mut begin = |header: &[u8]| client.call(&[b"CF.LOADCHUNK", b"k", b"1", header]);
    let short = header([5, 2, 0, 1], [2, 20, 1]);
    let long = [&short[..], &[7; 8]].concat();
    for header in [&long, &long, &short] {
        assert_eq!(begin(header), ok(), "{} bytes", header.len());
    }
    let another = header([6, 2, 0, 1], [2, 20, 1]);
    assert_eq!(begin(&another), error("ERR item exists"));
}

fn restore(client: &mut Client, value: &[u8]) -> Reply {
    let payload = Rdb(value.to_vec()).payload([9, 0]);
    client.restore("k", &payload)
}

/// Bloom filters, and commands that use them.
const BLOOM: [&str; 3] = [
    "BF.INSERT k CAPACITY 3 TIGHTENING 0.9 EXPANSION 3 ITEMS 1 2 3 4 5 6 7",
    "BF.INSERT k CAPACITY 1 COUNTING ITEMS 1 2 3 3 3 3 3 3 3 3 3 3 3 3",
    "BF.INSERT k CAPACITY 5 WINDOW 1000000000000 PERIODS 2 TTL 2000000000000 ITEMS 1 2 3 4 5 6 7",
];
const OF_BLOOM: &[&str] = &[
    "BF.INFO k",
    "BF.MADD k 1 x y",
    "BF.EXISTS k x",
    "BF.DEBUG k",
    "BF.SCANDUMP k 1",
    "BF.INSERT k ITEMS y z",
    "BF.DEL k z",
    "BF.INSERT k TTL 1 ITEMS z",
    "BF.MERGE k k",
];

/// Returns what a command makes, as RDB has it.
fn made_by(client: &mut Client, command: &str) -> Rdb {
    client.run(command);
    let dump = client.cmd("DUMP k").as_bytes().to_vec();
    client.expect("DEL k", int(1));
    // Without the mark that ends a value, the version and the checksum.
    Rdb(dump[..dump.len() - 11].to_vec())
}

#[test]
fn mutated_values_never_break_the_server() {
    let (_server, mut client) = Server::with_client();
    let mut random = Rng::new(38);
    let bloom = BLOOM.map(|command| (made_by(&mut client, command), OF_BLOOM));
    for (right, commands) in values().into_iter().chain(bloom) {
        let right = right.0;
        // A value that lacks fewer bytes than its footer has may continue in the footer.
        for length in 1..right.len() - 11 {
            let cut = Rdb(right[..length].to_vec());
            // With the mark at the end of a value, and without.
            for payload in [cut.clone().payload([9, 0]), seal(cut.0, [9, 0])] {
                let refused = client.restore("k", &payload);
                assert_eq!(refused, error("ERR Bad data format"), "{length} bytes");
            }
        }
        let mut admitted = 0;
        for _ in 0..3000 {
            let mut forged = right.clone();
            for _ in 0..=random.below(3) {
                // The numbers come first.
                let end = if random.one_in(2) {
                    right.len().min(40)
                } else {
                    right.len()
                };
                forged[10 + random.below(end - 10)] =
                    *random.pick(&[0, 1, 2, 5, 0x40, 0x80, 0x81, 0xff]);
            }
            if restore(&mut client, &forged) != ok() {
                continue;
            }
            admitted += 1;
            for command in commands {
                let reply = client.cmd(command);
                // Others refuse what overflows or is full.
                let may_fail = !command.starts_with("TOPK");
                assert!(may_fail || !reply.is_error(), "{command}: {reply:?}");
            }
            let before = digest(&mut client, "k");
            let dump = client.cmd("DUMP k");
            client.expect("DEL k", int(1));
            assert_eq!(client.restore("k", dump.as_bytes()), ok());
            assert_eq!(digest(&mut client, "k"), before);
            client.expect("DEL k", int(1));
        }
        assert!(admitted > 30, "{admitted} for {commands:?}");
        sums::is_balanced(&mut client);
    }
}
