//! Values of RedisBloom's sketches: kept as they came, counted, and not served. They are part of the `population`,
//! which tests them under persistence and replication.

use std::fs;
use std::path::Path;

use crate::acl::has_categories;
use crate::harness::{
    Client, Plugin, Reply, Server, array, bulk, digest, error, int, ok, simple, supported_servers,
    wait_until,
};
use crate::support::aof::{on_log_of, rewrite_aof, with_command_log};
use crate::support::forged::{Rdb, Refusing, rdb_version, seal};
use crate::support::protocols::in_both_protocols;
use crate::support::sketches::{COMMANDS, is_served, recorded, restore_all};
use crate::support::sums;
use crate::support::usage::nothing_is_being_freed;

const REFUSAL: &str = "ERR this server keeps sketches but does not serve their commands";

/// Returns the counts of INFO: the values and their bytes.
fn counted(client: &mut Client) -> (i64, i64) {
    let info = client.cmd("INFO bf").text();
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|rest| rest.strip_prefix(':'));
        number
            .expect("there is such a field")
            .parse()
            .expect("a number")
    };
    (
        field("bf_carried_num_values"),
        field("bf_carried_memory_bytes"),
    )
}

/// The recorded bytes come back, those that once were addresses included.
#[test]
fn values_are_dumped_as_they_were_restored() {
    let server = Server::start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    for sketch in &restore_all(&mut client) {
        let key = &sketch.key;
        assert_eq!(
            client.cmd(&format!("TYPE {key}")),
            simple(&sketch.type_name)
        );
        sketch.is_under(&mut client, key);
        let usage = client.cmd(&format!("MEMORY USAGE {key}")).as_int();
        let bytes = i64::try_from(sketch.plain.len()).expect("few");
        // A number of few digits takes fewer bytes in a dump than in memory.
        assert!(
            usage >= bytes / 2 && usage < 1000 + 10 * bytes,
            "{key}: {usage} of {bytes}"
        );
    }
    assert_eq!(client.cmd("CONFIG SET rdbcompression no"), ok());
    for sketch in &recorded() {
        let dumped = seal(sketch.plain.clone(), version);
        let dump = client.cmd(&format!("DUMP {}", sketch.key));
        assert_eq!(dump.as_bytes(), dumped, "{}", sketch.key);
    }
}

/// A file of RedisBloom with keys of all its types but Bloom filters loads on servers that know its version.
#[test]
fn a_file_with_everything_is_loaded() {
    let mut server = Server::start();
    let version = server.version();
    server.shutdown();
    let file = "tests/data/redisbloom-8.8-cuckoo/dump.rdb";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::copy(file, server.dir().join("dump.rdb")).expect("it can be copied");
    if !version.valkey || version.major < 9 {
        let log = server.try_start_again().unwrap_err();
        let refusals = ["Wrong signature", "Can't handle RDB format version 80"];
        assert!(refusals.iter().any(|text| log.contains(text)), "{log}");
        return;
    }
    server.start_again();
    for reload in [false, true] {
        if reload {
            server.restart_saving();
        }
        let mut client = server.client();
        for sketch in &recorded() {
            sketch.is_under(&mut client, &sketch.key);
        }
        assert_eq!(counted(&mut client).0, 9);
        let cuckoo = client.cmd("SCAN 0 COUNT 1000 TYPE MBbloomCF");
        let cuckoo = i64::try_from(cuckoo.as_array()[1].as_array().len()).expect("few");
        assert!(cuckoo > 15);
        assert_eq!(client.cmd("DBSIZE"), int(9 + cuckoo));
        sums::is_balanced(&mut client);
    }
}

/// A log is rewritten with RESTORE, whose payload every server reads.
#[test]
fn a_rewritten_log_is_loaded_by_every_server() {
    let from = Server::with(&[("appendonly", "yes"), ("aof-use-rdb-preamble", "no")]);
    let mut client = from.client();
    let sketches = restore_all(&mut client);
    assert_eq!(client.cmd("PEXPIREAT cms 9000000000000"), int(1));
    rewrite_aof(&from);
    let base = fs::read_dir(from.dir().join("appendonlydir")).expect("there is a log");
    let mut base = base.map(|file| file.expect("it can be read").path());
    let base = base.find(|path| path.to_string_lossy().ends_with(".base.aof"));
    let log = fs::read(base.expect("there is a base")).expect("it can be read");
    assert_eq!(
        log.windows(7).filter(|word| word == b"RESTORE").count(),
        sketches.len()
    );
    for program in supported_servers() {
        let to = on_log_of(Server::builder().program(&program), &log, b"");
        let mut far = to.client();
        assert_eq!(far.cmd("DEBUG DIGEST"), client.cmd("DEBUG DIGEST"));
        assert_eq!(far.cmd("PEXPIRETIME cms"), int(9_000_000_000_000));
        assert_eq!(counted(&mut far), counted(&mut client));
    }
}

/// Operations on values, and the number of values after each.
const LIVES: &[(&str, i64)] = &[
    ("COPY cms one", 10),
    ("COPY topk two DB 1", 11),
    ("COPY tdigest one REPLACE", 11),
    ("RENAME tdigest renamed", 11),
    ("MOVE renamed 1", 11),
    ("DEL one", 10),
    ("UNLINK topk", 9),
    ("SET cms x", 8),
    ("BF.ADD bloom a", 8),
    ("SWAPDB 0 1", 8),
    ("DEBUG RELOAD", 8),
    ("PEXPIREAT two 1", 7),
    ("FLUSHDB ASYNC", 6),
    ("FLUSHALL", 0),
];

#[test]
fn info_counts_the_values() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(counted(&mut client), (0, 0));
    restore_all(&mut client);
    let (values, bytes) = counted(&mut client);
    assert_eq!(values, 9);
    let usage: i64 = recorded()
        .iter()
        .map(|sketch| client.cmd(&format!("MEMORY USAGE {}", sketch.key)).as_int())
        .sum();
    assert!(
        (0..values * 200).contains(&(usage - bytes)),
        "{usage} of {bytes}"
    );
    for (command, values) in LIVES {
        let done = client.cmd(command);
        assert!(!done.is_error(), "{command}: {done:?}");
        nothing_is_being_freed(&server);
        assert_eq!(counted(&mut client).0, *values, "{command}");
    }
    assert_eq!(counted(&mut client), (0, 0));
    sums::is_balanced(&mut client);
}

/// One of 8 MiB: freed in the background, and nothing of it stays.
#[test]
fn large_values_leave_no_memory_behind() {
    let server = Server::start();
    let mut client = server.client();
    let (width, depth) = (1 << 18, 8);
    let value = sketch_of(0).uint(width).uint(depth).uint(0);
    let payload = value.string(&vec![1; 8 << 20]).payload([9, 0]);
    for delete in ["UNLINK large", "DEL large", "FLUSHALL ASYNC", "FLUSHALL"] {
        assert_eq!(client.call(&[b"RESTORE", b"large", b"0", &payload]), ok());
        assert_eq!(client.cmd("COPY large copy"), int(1));
        assert_eq!(digest(&mut client, "large"), digest(&mut client, "copy"));
        assert!(client.cmd("MEMORY USAGE large").as_int() > 8 << 20);
        assert!(counted(&mut client).1 > 16 << 20);
        assert!(!client.cmd("DEL copy").is_error());
        assert!(!client.cmd(delete).is_error());
        wait_until("it is freed", || counted(&mut client) == (0, 0));
    }
}

/// Returns the beginning of a payload of a type.
fn sketch_of(index: usize) -> Rdb {
    const IDS: [u64; 3] = [
        0x08c4_a4f9_360f_1000,
        0x4e8a_4af9_360f_1000,
        0x4c32_12f9_360f_1000,
    ];
    Rdb::of_type(IDS[index])
}

/// Returns payloads that are not values, and the text in the log; it is empty if the server itself refuses.
fn hostile() -> Vec<(&'static str, Rdb, &'static str)> {
    const LENGTH: &str = "string of another length";
    const ENDS: &str = "bytes end too early";
    let cms = |width, depth| sketch_of(0).uint(width).uint(depth).uint(0);
    let topk = |k, width, depth| sketch_of(1).uint(k).uint(width).uint(depth).double(0.9);
    let tdigest = |compression: f64, capacity, merged, unmerged| {
        let value = sketch_of(2).double(compression).double(0.0).double(1.0);
        let value = value.uint(capacity).uint(merged).uint(unmerged).uint(0);
        value.double(1.0).double(0.0)
    };
    let newer = |mut value: Rdb| {
        // The version is in the last bits of the type's id.
        value.0[9] |= 1;
        value
    };
    vec![
        ("no fields", sketch_of(0), ENDS),
        ("no counters", cms(0, 5).string(b""), "no counters"),
        ("2^62 by 4 counters", cms(1 << 62, 4).string(b""), LENGTH),
        ("counters of 3 bytes", cms(1, 1).string(b"123"), LENGTH),
        ("a field more", cms(1, 1).string(b"1234").uint(0), ""),
        (
            "a newer version",
            newer(cms(1, 1).string(b"1234")),
            "unsupported version",
        ),
        (
            "another kind",
            sketch_of(0).double(1.0).uint(1).uint(1).string(b"1234"),
            ENDS,
        ),
        ("k of 33 bits", topk(1 << 32, 1, 1), "size out of range"),
        (
            "2^64 cells",
            topk(1, u64::from(u32::MAX), u64::from(u32::MAX)).string(b""),
            LENGTH,
        ),
        (
            "2^32 entries",
            topk(u64::from(u32::MAX), 1, 1).string(&[0; 8]).string(b""),
            LENGTH,
        ),
        (
            "no item",
            topk(1, 1, 1).string(&[0; 8]).string(&[0; 24]),
            ENDS,
        ),
        (
            "an empty item",
            topk(1, 1, 1).string(&[0; 8]).string(&[0; 24]).string(b""),
            "item without its end",
        ),
        (
            "an item without end",
            topk(1, 1, 1).string(&[0; 8]).string(&[0; 24]).string(b"ab"),
            "item without its end",
        ),
        (
            "an item more",
            topk(1, 1, 1)
                .string(&[0; 8])
                .string(&[0; 24])
                .string(b"\0")
                .string(b"\0"),
            "",
        ),
        (
            "compression NaN",
            tdigest(f64::NAN, 610, 0, 0),
            "compression out of range",
        ),
        (
            "compression 10^18",
            tdigest(1e18, 610, 0, 0),
            "compression out of range",
        ),
        (
            "another capacity",
            tdigest(100.0, 1 << 40, 0, 0),
            "capacity of another compression",
        ),
        (
            "2^64 - 1 nodes",
            tdigest(100.0, 610, u64::MAX, 0),
            "nodes above the capacity",
        ),
        (
            "unmerged nodes",
            tdigest(100.0, 610, 600, 11),
            "nodes above the capacity",
        ),
        (
            "nodes that are not there",
            tdigest(100.0, 610, 610, 0),
            ENDS,
        ),
        (
            "a node more",
            tdigest(100.0, 610, 0, 0).double(1.0).double(1.0),
            "",
        ),
    ]
}

#[test]
fn hostile_values_are_refused() {
    let mut refusing = Refusing::start();
    for (what, value, refusal) in hostile() {
        refusing.refuses(what, &value, refusal);
    }
    assert_eq!(counted(&mut refusing.server().client()), (0, 0));
}

/// The commands that write sketches.
const UNKNOWN: &[&str] = &[
    "CMS.INITBYDIM k 2 2",
    "CMS.INITBYPROB k 0.01 0.01",
    "CMS.INCRBY cms item 1",
    "CMS.MERGE k 1 cms",
    "TOPK.RESERVE k 5",
    "TOPK.ADD topk item",
    "TOPK.INCRBY topk item 1",
    "TDIGEST.CREATE k",
    "TDIGEST.RESET tdigest",
    "TDIGEST.ADD tdigest 1",
    "TDIGEST.MERGE k 1 tdigest",
];

/// Commands of ours, which take a value of a sketch for one of another type.
const OURS: &[&str] = &[
    "BF.ADD {} a",
    "BF.MADD {} a b",
    "BF.EXISTS {} a",
    "BF.MEXISTS {} a b",
    "BF.CARD {}",
    "BF.INFO {}",
    "BF.RESERVE {} 0.01 100",
    "BF.RESERVE {} 0.01 100 NX",
    "BF.INSERT {} ITEMS a",
    "BF.SCANDUMP {} 0",
    "BF.LOADCHUNK {} 1 x",
    "BF.LOAD {} x",
    "BF.DEBUG {}",
    "BF.DEL {} a",
    "BF.MDEL {} a",
    "BF.COUNT {} a",
    "BF.MISSING {} a",
    "BF.MERGE {} bloom",
    "BF.MERGE bloom {}",
];

#[test]
fn commands_are_refused() {
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        let sketches = restore_all(client);
        assert!(!client.cmd("BF.ADD bloom a").is_error());
        assert_eq!(client.cmd("SET text x"), ok());
        let before = client.cmd("DEBUG DIGEST");
        for (command, rest) in COMMANDS {
            let keys = sketches.iter().map(|sketch| sketch.key.as_str());
            for key in keys.chain(["bloom", "text", "missing"]) {
                let line = format!("{command} {key} {rest}");
                assert_eq!(client.cmd(line.trim_end()), error(REFUSAL), "{line}");
            }
        }
        for line in UNKNOWN {
            let refused = client.cmd(line).text();
            assert!(
                refused.starts_with("ERR unknown command"),
                "{line}: {refused}"
            );
        }
        let wrong = error("WRONGTYPE Operation against a key holding the wrong kind of value");
        for command in OURS {
            for sketch in &sketches {
                let line = command.replace("{}", &sketch.key);
                assert_eq!(client.cmd(&line), wrong, "{line}");
            }
        }
        assert_eq!(client.cmd("DEBUG DIGEST"), before);
    });
}

/// A log of commands that change sketches can't be followed. The server says so, and does not start without them.
#[test]
fn a_log_that_writes_sketches_is_not_passed_over() {
    for line in UNKNOWN {
        let mut server = with_command_log();
        restore_all(&mut server.client());
        server.shutdown();
        let folder = fs::read_dir(server.dir().join("appendonlydir")).expect("there is a log");
        let mut files = folder.map(|file| file.expect("it can be read").path());
        let log = files.find(|path| path.to_string_lossy().ends_with(".incr.aof"));
        let log = log.expect("there is one");
        let mut bytes = fs::read(&log).expect("it can be read");
        let words: Vec<&str> = line.split(' ').collect();
        bytes.extend(format!("*{}\r\n", words.len()).bytes());
        for word in &words {
            bytes.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
        }
        fs::write(&log, bytes).expect("it can be written");
        let refusal = server.try_start_again().unwrap_err();
        // The text begins a sentence in some servers only.
        let unknown = format!("nknown command '{}'", words[0]);
        assert!(refusal.contains(&unknown), "{refusal}");
    }
}

/// Clients, clusters and ACLs find the keys, and what the commands would do.
#[test]
fn commands_are_described() {
    let server = Server::start();
    let mut client = server.client();
    let registered = client.cmd("COMMAND LIST FILTERBY MODULE bf");
    let registered = registered.as_array().iter().map(Reply::text);
    let refused = registered.filter(|name| !is_served(name)).count();
    assert_eq!(refused, COMMANDS.len());
    for (command, rest) in COMMANDS {
        let line = format!("COMMAND GETKEYS {command} k {rest}");
        assert_eq!(client.cmd(line.trim_end()), array([bulk("k")]), "{command}");
        let docs = client.cmd(&format!("COMMAND DOCS {command}"));
        let docs = format!("{docs:?}");
        assert!(
            docs.contains("Refused: this server keeps values of sketches"),
            "{docs}"
        );
    }
    if !has_categories(&server.version()) {
        return;
    }
    // The categories have RedisBloom's names, so that rules for its users hold.
    let rules = "on nopass ~k -@all +@cms +@tdigest";
    assert_eq!(client.cmd(&format!("ACL SETUSER reader {rules}")), ok());
    for (command, allowed) in [
        ("CMS.QUERY k item", true),
        ("TDIGEST.CDF k 1", true),
        ("TOPK.LIST k", false),
        ("BF.EXISTS k item", false),
        ("CMS.QUERY other item", false),
    ] {
        let dry = client.cmd(&format!("ACL DRYRUN reader {command}"));
        assert_eq!(dry == ok(), allowed, "{command}: {dry:?}");
    }
    let rules = "on nopass ~k -@all +@topk";
    assert_eq!(client.cmd(&format!("ACL SETUSER other {rules}")), ok());
    assert_eq!(client.cmd("ACL DRYRUN other TOPK.LIST k"), ok());
}

/// Types and commands of a module that was loaded before stay its own; all others are there.
#[test]
fn another_module_keeps_its_types_and_commands() {
    let plugin = Plugin::build("sketches.c");
    let server = Server::builder().before_module(&plugin.line()).start();
    let mut client = server.client();
    assert_eq!(client.cmd("CMS.INFO k"), simple("served"));
    assert_eq!(client.cmd("TOPK.INFO k"), error(REFUSAL));
    for reported in [
        "values of one type are not kept: the server refused the type \"CMSk-TYPE\"",
        "left to another module: the server refused the command \"cms.info\"",
    ] {
        assert!(server.log_contains(reported), "{reported}");
    }
    for sketch in recorded() {
        if sketch.type_name != "CMSk-TYPE" {
            sketch.restore(&mut client);
        }
    }
    assert_eq!(counted(&mut client).0, 6);
    assert_eq!(client.cmd("BF.ADD k a"), int(1));
}
