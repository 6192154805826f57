//! The worst objects that are accepted, and every command on each of them. A test checks the rule of docs/speed.md on
//! them in counted work, and a benchmark in time.
//!
//! Forged filters have nearly all bits set, so that a lookup of any item reads hundreds of positions in each.

use valkeybloom_sketches::bloom::{
    Growth, Kind, Limits, Object, Params, Shape, Tightening, Time, dump,
};
use valkeybloom_sketches::{Fraction, Seed};

use super::{Client, Reply, ok, spaced};
use crate::draft::{Draft, Link};
use crate::plain::{Plain, PlainFilter, cuckoo_header};

/// The key of the object, and that of a copy for commands that change it.
pub const KEY: &str = "deep";
const COPY: &str = "copy";

/// The number of items in a command with many.
pub const ITEMS: u64 = 10_000;

/// An object.
pub struct Worst {
    /// A short description.
    pub name: &'static str,
    /// The prefix of its commands.
    pub prefix: &'static str,
    make: Make,
}

/// The way an object is made.
enum Make {
    /// From this dump.
    Dump(fn() -> Vec<u8>),
    /// By commands.
    Commands(fn(&mut Client)),
}

impl Worst {
    const fn of_dump(name: &'static str, dump: fn() -> Vec<u8>) -> Self {
        let (prefix, make) = ("bf.", Make::Dump(dump));
        Self { name, prefix, make }
    }

    const fn of_commands(
        prefix: &'static str,
        name: &'static str,
        commands: fn(&mut Client),
    ) -> Self {
        let make = Make::Commands(commands);
        Self { name, prefix, make }
    }

    /// Makes it under [`KEY`].
    pub fn make(&self, client: &mut Client) {
        match self.make {
            Make::Dump(dump) => {
                assert_eq!(client.call(&[b"BF.LOAD", KEY.as_bytes(), &dump()]), ok());
            }
            Make::Commands(commands) => commands(client),
        }
    }
}

/// All of them.
pub const OBJECTS: [Worst; 17] = [
    Worst::of_commands("bf.", "1,440 periods of 60 items, reserved for 1", adapted),
    Worst::of_commands(
        "bf.",
        "1,440 of 60,000 periods, reserved for 1 item",
        unadapted,
    ),
    Worst::of_dump("a counting filter of many tables", many_tables),
    Worst::of_dump("a counting filter, all items in a crowd", crowded),
    Worst::of_dump("16 forged filters, 1,100 hashes", || plain(16, 970)),
    Worst::of_dump("1,100 forged filters, 1,100 hashes", || plain(1_100, 250)),
    Worst::of_dump("valkey-bloom's deepest", deepest),
    Worst::of_commands("bf.", "1,100 forged links of RedisBloom", linked),
    Worst::of_commands("cf.", "65,535 claimed cuckoo filters", claimed),
    Worst::of_commands("cf.", "32 full cuckoo filters of 0 items", miscounted),
    Worst::of_commands("cf.", "32 cuckoo filters, grown", grown),
    Worst::of_commands("cms.", "256 rows of 64,000 counters", |client| {
        counted(client, "64000 256");
    }),
    Worst::of_commands("cms.", "4 rows of 16,000,000 small counters", |client| {
        counted(client, "16000000 4 CELL_SIZE 1");
    }),
    Worst::of_commands("topk.", "32 contested rows, a slow decay", |client| {
        contested(client, "0.99999");
    }),
    Worst::of_commands("topk.", "32 contested rows, a quick decay", |client| {
        contested(client, "0.95");
    }),
    Worst::of_commands("topk.", "a list of 300,000 items", listed),
    Worst::of_commands("tdigest.", "600,009 unmerged nodes", unmerged),
];

/// All commands that the module serves, and those of the server that read a whole value, on [`KEY`] or on its copy. `*`
/// stands for many items, `*1` and `*100000` for pairs of them and this number, `*shares` for numbers from 0 to 1,
/// `*numbers` for whole numbers, `@dump` and `@header` for the replies of the object's own commands.
pub const CALLS: [&str; 75] = [
    "bf.add copy stranger",
    "bf.madd copy *",
    "bf.exists deep stranger",
    "bf.mexists deep *",
    "bf.card deep",
    "bf.reserve deep 0.01 1000",
    "bf.insert copy ITEMS *",
    "bf.info deep ALL",
    "bf.load new @dump",
    "bf.read deep $",
    "bf.scandump deep 0",
    "bf.scandump deep 1",
    "bf.loadchunk new 1 @header",
    "bf.debug deep",
    "bf.del copy stranger",
    "bf.mdel copy *",
    "bf.count deep stranger",
    "bf.missing deep *",
    "bf.merge copy deep",
    "bf.merge new deep copy",
    "cf.reserve deep 1000",
    "cf.add copy stranger",
    "cf.addnx copy stranger",
    "cf.insert copy ITEMS *",
    "cf.insertnx copy ITEMS *",
    "cf.exists deep stranger",
    "cf.mexists deep *",
    "cf.count deep stranger",
    "cf.del copy stranger",
    "cf.info deep",
    "cf.scandump deep 0",
    "cf.scandump deep 1",
    "cf.loadchunk new 1 @header",
    "cf.compact copy",
    "cf.debug deep",
    "cms.initbydim deep 1000 5",
    "cms.initbyprob deep 0.01 0.01",
    "cms.incrby copy stranger 1",
    "cms.incrby copy *1",
    "cms.query deep stranger",
    "cms.query deep *",
    "cms.merge copy 1 deep",
    "cms.merge copy 2 deep copy",
    "cms.merge copy 2 deep copy WEIGHTS 0 1",
    "cms.info deep",
    "topk.reserve deep 1000",
    "topk.add copy stranger",
    "topk.add copy *",
    "topk.incrby copy stranger 100000",
    "topk.incrby copy *100000",
    "topk.query deep *",
    "topk.count deep *",
    "topk.list deep WITHCOUNT",
    "topk.info deep",
    "tdigest.create deep",
    "tdigest.reset copy",
    "tdigest.add copy 0.5",
    "tdigest.add copy *shares",
    "tdigest.merge new 1 deep",
    "tdigest.merge copy 1 deep OVERRIDE",
    "tdigest.min deep",
    "tdigest.max deep",
    "tdigest.quantile deep *shares",
    "tdigest.cdf deep *numbers",
    "tdigest.rank deep *numbers",
    "tdigest.revrank deep *numbers",
    "tdigest.byrank deep *numbers",
    "tdigest.byrevrank deep *numbers",
    "tdigest.trimmed_mean deep 0.1 0.9",
    "tdigest.info deep",
    "dump deep",
    "restore new 0 @payload",
    "copy deep new",
    "debug digest-value deep",
    "memory usage deep",
];

/// Returns whether a command is an exception of the rule that the pages name: it compacts cuckoo filters, or adds to a
/// full one.
pub fn is_named(call: &str) -> bool {
    let named = [
        "cf.add",
        "cf.addnx",
        "cf.insert",
        "cf.insertnx",
        "cf.del",
        "cf.compact",
    ];
    named.contains(&name_of(call))
}

/// Returns the name of the command.
pub fn name_of(call: &str) -> &str {
    call.split(' ').next().unwrap_or_default()
}

/// Returns whether the command is for the type of the object.
pub fn suits(call: &str, object: &Worst) -> bool {
    let name = name_of(call);
    name.starts_with(object.prefix) || !name.contains('.')
}

/// Makes what the command needs beside the object. Returns its words; `None` if the object has no dump, or no header.
pub fn prepare(client: &mut Client, call: &str, object: &Worst) -> Option<Vec<Vec<u8>>> {
    client.cmd("DEL copy new");
    if call.contains(COPY) && name_of(call) != "copy" {
        client.expect("COPY deep copy", Reply::Int(1));
        if call.contains("merge") {
            client.cmd("BF.MADD copy one another");
        }
    }
    let mut words: Vec<Vec<u8>> = Vec::new();
    for word in call.split(' ') {
        match word {
            "*" => words.extend((0..ITEMS).map(|item| format!("stranger:{item}").into_bytes())),
            "*1" | "*100000" => {
                let number = &word.as_bytes()[1..];
                let pair = |item| [format!("stranger:{item}").into_bytes(), number.to_vec()];
                words.extend((0..ITEMS).flat_map(pair));
            }
            "*shares" => words.extend((0..ITEMS).map(|share| format!("0.{share:05}").into_bytes())),
            "*numbers" => words.extend((0..ITEMS).map(|number| number.to_string().into_bytes())),
            "@dump" => match object.make {
                Make::Dump(dump) => words.push(dump()),
                Make::Commands(_) => return None,
            },
            "@header" => {
                let pair = client.call(&[
                    format!("{}scandump", object.prefix).as_bytes(),
                    KEY.as_bytes(),
                    b"0",
                ]);
                // A cuckoo filter without items has no chunks.
                match &pair.as_array()[1] {
                    Reply::Nil => return None,
                    header => words.push(header.as_bytes().to_vec()),
                }
            }
            "@payload" => words.push(client.cmd("DUMP deep").as_bytes().to_vec()),
            _ => words.push(word.as_bytes().to_vec()),
        }
    }
    Some(words)
}

/// Makes the largest t-digest that the limits allow, one value before it merges its nodes.
fn unmerged(client: &mut Client) {
    client.run("TDIGEST.CREATE deep COMPRESSION 100000");
    let mut left = 6 * 100_000 + 9;
    while left > 0 {
        let count = left.min(100_000);
        client.run(format!(
            "TDIGEST.ADD deep {}",
            spaced((0..count).map(|value| value * 7919 % 100_003))
        ));
        left -= count;
    }
}

/// Returns bytes with all bits set but eight.
fn nearly_full(bytes: usize) -> Vec<u8> {
    let mut cells = vec![0xff; bytes];
    cells[bytes / 2] = 0;
    cells
}

/// Returns a dump of a plain object, of a tightening ratio of valkey-bloom's.
fn plain(filters: usize, bytes: usize) -> Vec<u8> {
    let filter = PlainFilter {
        hashes: 1_100,
        ..PlainFilter::new(1, 1, nearly_full(bytes))
    };
    let object = Plain {
        tightening: 0.6,
        filters: vec![filter; filters],
        ..Plain::new()
    };
    object.dump()
}

const PERIOD_MS: u64 = 3_600_000;

/// Loads a header as BF.LOADCHUNK or CF.LOADCHUNK takes it, and then the chunks.
fn load(client: &mut Client, family: &str, header: &[u8], chunks: impl Iterator<Item = Vec<u8>>) {
    let command = format!("{family}.LOADCHUNK");
    let mut call = |cursor: usize, bytes: &[u8]| {
        let cursor = cursor.to_string();
        let words = [command.as_bytes(), KEY.as_bytes(), cursor.as_bytes(), bytes];
        assert_eq!(client.call(&words), ok(), "{command} {cursor}");
    };
    let mut cursor = 1;
    call(cursor, header);
    for chunk in chunks {
        cursor += chunk.len();
        call(cursor, &chunk);
    }
}

/// Loads the header that RedisBloom writes, and then the bits of each link.
fn linked(client: &mut Client) {
    let bitmap = nearly_full(248);
    let link = Link {
        hashes: 1_100,
        bpe: 1_400.0,
        bitmap: bitmap.clone(),
        items: 1,
        ..Link::new(1, 1e-300, 8 * bitmap.len() as u64, 0)
    };
    let object = Draft {
        version: 4,
        items: 1_100,
        // Hashes of 64 bits, sizes that are not rounded.
        options: 5,
        growth: 2,
        links: vec![link; 1_100],
    };
    load(
        client,
        "BF",
        &object.header(),
        vec![bitmap; 1_100].into_iter(),
    );
}

fn made(kind: Kind, tightening: Tightening, capacity: u64) -> Object {
    let shape = Shape {
        params: Params {
            capacity,
            error_rate: Fraction::new(0.01).expect("a rate"),
            tightening,
            growth: Growth::from_expansion(1),
        },
        kind,
    };
    Object::new(&shape, Seed::FIXED, Limits::NONE).expect("there is memory")
}

/// It ends where its rate becomes too small for a double.
fn deepest() -> Vec<u8> {
    let tightening = Tightening::of_valkey_bloom(Fraction::HALF);
    let mut object = made(Kind::Plain, tightening, 1);
    let items: Vec<_> = (0..4_000_u64).map(u64::to_le_bytes).collect();
    let items = items.iter().map(<[u8; 8]>::as_slice);
    object.add_each(items, Time::default(), || Limits::NONE, |_| ());
    dump::encode(&object).expect("there is memory")
}

/// Its tables are as many as growth makes of one item each.
fn many_tables() -> Vec<u8> {
    let mut object = made(Kind::Counting, Tightening::HALF, 1);
    for item in 0..100_000_u64 {
        let added = object.add(&item.to_le_bytes(), Time::default(), || Limits::NONE);
        if added.is_err() {
            break;
        }
    }
    dump::encode(&object).expect("there is memory")
}

/// The hashes of all items begin with ten zeros.
fn crowded() -> Vec<u8> {
    let mut object = made(Kind::Counting, Tightening::HALF, 1_000_000);
    let items = (0_u64..).map(u64::to_le_bytes);
    let hash = |item: &[u8; 8]| object.probe(item).hashes().0;
    let alike = items.filter(|item| hash(item) >> 54 == 0);
    let alike: Vec<_> = alike.take(10_000).collect();
    for item in &alike {
        let added = object.add(item, Time::default(), || Limits::NONE);
        added.expect("there is memory");
    }
    dump::encode(&object).expect("there is memory")
}

fn adapted(client: &mut Client) {
    fill_window(client, 1_440, |_| 60);
}

/// Only every other period has many items.
fn unadapted(client: &mut Client) {
    fill_window(
        client,
        60_000,
        |period| if period % 2 == 0 { 60 } else { 1 },
    );
}

fn fill_window(client: &mut Client, periods: u64, items: fn(u64) -> u64) {
    client.ok(format!(
        "BF.RESERVE deep 0.01 1 WINDOW {PERIOD_MS} PERIODS {periods} EXPANSION 1"
    ));
    for period in 1..=1_440_u64 {
        let ttl = period * PERIOD_MS;
        client.run(format!(
            "BF.INSERT deep TTL {ttl} ITEMS {}",
            spaced((0..items(period)).map(|item| format!("{period}:{item}")))
        ));
    }
}

/// Loads a header with the most filters, which clients may claim if the settings allow it, and primaries always.
fn claimed(client: &mut Client) {
    client.ok("CONFIG SET bf.cf-max-expansions 65535");
    let header = cuckoo_header([0, 2, 0, 65_535], [255, 20, 1]);
    load(client, "CF", &header, [].into_iter());
    client.ok("CONFIG SET bf.cf-max-expansions 32");
}

fn miscounted(client: &mut Client) {
    const BYTES: usize = 1 << 16;
    let header = cuckoo_header([0, BYTES as u64 / 2, 0, 32], [2, 20, 1]);
    let slots = |filter: usize| {
        let slot = |at: usize| u8::try_from(1 + (at * 31 + filter * 7) % 255).unwrap_or(1);
        (0..BYTES)
            .map(|at| if at % 64 == 0 { 0 } else { slot(at) })
            .collect()
    };
    load(client, "CF", &header, (0..32).map(slots));
}

/// Makes a count-min sketch of a shape that fits the default limit.
fn counted(client: &mut Client, shape: &str) {
    client.run(format!("CMS.INITBYDIM deep {shape}"));
    client.run("CMS.INCRBY deep one 1 another 2");
}

/// Items of all but one of these adds find the cells of another one, with a count that they may take many units off.
fn contested(client: &mut Client, decay: &str) {
    client.run(format!("TOPK.RESERVE deep 1 1 32 {decay}"));
    client.run("TOPK.INCRBY deep item 140");
}

/// Short items, so that there are many entries for a byte.
fn listed(client: &mut Client) {
    client.run("TOPK.RESERVE deep 300000 1000000 4 0.9");
    for start in (0..300_000).step_by(10_000) {
        client.run(format!("TOPK.ADD deep {}", spaced(start..start + 10_000)));
    }
}

fn grown(client: &mut Client) {
    client.cmd("CF.RESERVE deep 4096 EXPANSION 1");
    for item in (0_u64..).step_by(4_096) {
        let items = spaced(item..item + 4_096);
        let reply = client.cmd(&format!("CF.INSERT deep ITEMS {items}"));
        let took_all = |added: &[Reply]| added.iter().all(|added| *added == Reply::Int(1));
        if reply.is_error() || !took_all(reply.as_array()) {
            return;
        }
    }
}
