//! The worst objects that are accepted, and every command on each of them. A test checks the rule of docs/speed.md on
//! them in counted work, and a benchmark in time.
//!
//! Forged filters have nearly all bits set, so that a lookup of any item reads hundreds of positions in each.

use valkeybloom_sketches::bloom::{
    Growth, Kind, Limits, Object, Params, Shape, Tightening, Time, dump,
};
use valkeybloom_sketches::{Fraction, Seed};

use super::{Client, Reply};

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
            Make::Dump(dump) => done(&client.call(&[b"BF.LOAD", KEY.as_bytes(), &dump()])),
            Make::Commands(commands) => commands(client),
        }
    }
}

/// All of them.
pub const OBJECTS: [Worst; 15] = [
    Worst::of_commands("bf.", "1,440 periods of 60 items, reserved for 1", adapted),
    Worst::of_commands(
        "bf.",
        "1,440 of 60,000 periods, reserved for 1 item",
        unadapted,
    ),
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

#[track_caller]
fn done(reply: &Reply) {
    assert!(!reply.is_error(), "{reply:?}");
}

/// A command on [`KEY`], or on its copy. `*` stands for many items, `*1` and `*100000` for pairs of them and this number,
/// `*shares` for numbers from 0 to 1, `*numbers` for whole numbers, `@dump` and `@header` for the replies of the object's
/// own commands.
pub struct Call {
    /// Its words.
    pub line: &'static str,
    /// Whether it is an exception of the rule that the pages name: it compacts cuckoo filters, or adds to a full one.
    pub is_named: bool,
}

const fn call(line: &'static str) -> Call {
    Call {
        line,
        is_named: false,
    }
}

const fn named(line: &'static str) -> Call {
    Call {
        line,
        is_named: true,
    }
}

/// All commands that the module serves, and those of the server that read a whole value.
pub const CALLS: [Call; 75] = [
    call("bf.add copy stranger"),
    call("bf.madd copy *"),
    call("bf.exists deep stranger"),
    call("bf.mexists deep *"),
    call("bf.card deep"),
    call("bf.reserve deep 0.01 1000"),
    call("bf.insert copy ITEMS *"),
    call("bf.info deep ALL"),
    call("bf.load new @dump"),
    call("bf.read deep $"),
    call("bf.scandump deep 0"),
    call("bf.scandump deep 1"),
    call("bf.loadchunk new 1 @header"),
    call("bf.debug deep"),
    call("bf.del copy stranger"),
    call("bf.mdel copy *"),
    call("bf.count deep stranger"),
    call("bf.missing deep *"),
    call("bf.merge copy deep"),
    call("bf.merge new deep copy"),
    call("cf.reserve deep 1000"),
    named("cf.add copy stranger"),
    named("cf.addnx copy stranger"),
    named("cf.insert copy ITEMS *"),
    named("cf.insertnx copy ITEMS *"),
    call("cf.exists deep stranger"),
    call("cf.mexists deep *"),
    call("cf.count deep stranger"),
    named("cf.del copy stranger"),
    call("cf.info deep"),
    call("cf.scandump deep 0"),
    call("cf.scandump deep 1"),
    call("cf.loadchunk new 1 @header"),
    named("cf.compact copy"),
    call("cf.debug deep"),
    call("cms.initbydim deep 1000 5"),
    call("cms.initbyprob deep 0.01 0.01"),
    call("cms.incrby copy stranger 1"),
    call("cms.incrby copy *1"),
    call("cms.query deep stranger"),
    call("cms.query deep *"),
    call("cms.merge copy 1 deep"),
    call("cms.merge copy 2 deep copy"),
    call("cms.merge copy 2 deep copy WEIGHTS 0 1"),
    call("cms.info deep"),
    call("topk.reserve deep 1000"),
    call("topk.add copy stranger"),
    call("topk.add copy *"),
    call("topk.incrby copy stranger 100000"),
    call("topk.incrby copy *100000"),
    call("topk.query deep *"),
    call("topk.count deep *"),
    call("topk.list deep WITHCOUNT"),
    call("topk.info deep"),
    call("tdigest.create deep"),
    call("tdigest.reset copy"),
    call("tdigest.add copy 0.5"),
    call("tdigest.add copy *shares"),
    call("tdigest.merge new 1 deep"),
    call("tdigest.merge copy 1 deep OVERRIDE"),
    call("tdigest.min deep"),
    call("tdigest.max deep"),
    call("tdigest.quantile deep *shares"),
    call("tdigest.cdf deep *numbers"),
    call("tdigest.rank deep *numbers"),
    call("tdigest.revrank deep *numbers"),
    call("tdigest.byrank deep *numbers"),
    call("tdigest.byrevrank deep *numbers"),
    call("tdigest.trimmed_mean deep 0.1 0.9"),
    call("tdigest.info deep"),
    call("dump deep"),
    call("restore new 0 @payload"),
    call("copy deep new"),
    call("debug digest-value deep"),
    call("memory usage deep"),
];

/// Returns the name of the command.
pub fn name_of(call: &Call) -> &'static str {
    call.line.split(' ').next().unwrap_or_default()
}

/// Returns whether the command is for the type of the object.
pub fn suits(call: &Call, object: &Worst) -> bool {
    let name = name_of(call);
    name.starts_with(object.prefix) || !name.contains('.')
}

/// Makes what the command needs beside the object. Returns its words; `None` if the object has no dump, or no header.
pub fn prepare(client: &mut Client, call: &Call, object: &Worst) -> Option<Vec<Vec<u8>>> {
    client.cmd("DEL copy new");
    if call.line.contains(COPY) && name_of(call) != "copy" {
        client.expect("COPY deep copy", Reply::Int(1));
        if call.line.contains("merge") {
            client.cmd("BF.MADD copy one another");
        }
    }
    let mut words: Vec<Vec<u8>> = Vec::new();
    for word in call.line.split(' ') {
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
    done(&client.cmd("TDIGEST.CREATE deep COMPRESSION 100000"));
    let mut left = 6 * 100_000 + 9;
    while left > 0 {
        let count = left.min(100_000);
        let values: Vec<String> = (0..count)
            .map(|value| (value * 7919 % 100_003).to_string())
            .collect();
        done(&client.cmd(&format!("TDIGEST.ADD deep {}", values.join(" "))));
        left -= count;
    }
}

/// Returns bytes with all bits set but eight.
fn nearly_full(bytes: usize) -> Vec<u8> {
    let mut cells = vec![0xff; bytes];
    cells[bytes / 2] = 0;
    cells
}

fn blob(hashes: u32, bytes: usize) -> Vec<u8> {
    let mut blob = vec![1];
    blob.extend((bytes as u64).to_le_bytes());
    blob.extend(hashes.to_le_bytes());
    blob.extend([7; 32]);
    blob.extend(nearly_full(bytes));
    blob
}

/// Fields as a dump has them.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn uint(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.uint(value.len() as u64);
        self.0.extend(value);
    }

    fn filter(&mut self, hashes: u32, bytes: usize) {
        self.bytes(&blob(hashes, bytes));
        self.uint(1);
        self.uint(1);
    }
}

/// Returns a dump of a plain object, of a tightening ratio of valkey-bloom's.
fn plain(filters: u64, bytes: usize) -> Vec<u8> {
    let mut fields = Fields(vec![1]);
    fields.0.extend(2_u32.to_le_bytes());
    fields.0.extend(0.01_f64.to_le_bytes());
    fields.0.extend(0.6_f64.to_le_bytes());
    fields.0.push(1);
    fields.uint(filters);
    for _ in 0..filters {
        fields.filter(1_100, bytes);
    }
    fields.0
}

const PERIOD_MS: u64 = 3_600_000;

/// Loads the header that RedisBloom writes, and then the bits of each link.
fn linked(client: &mut Client) {
    const LINKS: u32 = 1_100;
    let bits = nearly_full(248);
    let mut header = Fields::default();
    header.uint(u64::from(LINKS));
    header.0.extend(LINKS.to_le_bytes());
    // Hashes of 64 bits, sizes that are not rounded.
    header.0.extend(5_u32.to_le_bytes());
    header.0.extend(2_u32.to_le_bytes());
    for _ in 0..LINKS {
        header.uint(bits.len() as u64);
        header.uint(8 * bits.len() as u64);
        header.uint(1);
        header.0.extend(1e-300_f64.to_le_bytes());
        header.0.extend(1_400_f64.to_le_bytes());
        header.0.extend(1_100_u32.to_le_bytes());
        header.uint(1);
        header.0.push(0);
    }
    let mut cursor = 1_u64;
    let begun = client.call(&[b"BF.LOADCHUNK", KEY.as_bytes(), b"1", &header.0]);
    done(&begun);
    for _ in 0..LINKS {
        cursor += bits.len() as u64;
        let cursor = cursor.to_string();
        let loaded = client.call(&[b"BF.LOADCHUNK", KEY.as_bytes(), cursor.as_bytes(), &bits]);
        done(&loaded);
    }
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
    let made = client.cmd(&format!(
        "BF.RESERVE deep 0.01 1 WINDOW {PERIOD_MS} PERIODS {periods} EXPANSION 1"
    ));
    done(&made);
    for period in 1..=1_440_u64 {
        let mut words = vec![
            b"BF.INSERT".to_vec(),
            KEY.into(),
            b"TTL".to_vec(),
            (period * PERIOD_MS).to_string().into_bytes(),
            b"ITEMS".to_vec(),
        ];
        let items = (0..items(period)).map(|item| format!("{period}:{item}").into_bytes());
        words.extend(items);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        client.call(&words);
    }
}

fn cuckoo_header(items: u64, buckets: u64, filters: u64, bucket_size: u16) -> Vec<u8> {
    let mut header = Fields::default();
    for number in [items, buckets, 0, filters] {
        header.uint(number);
    }
    for number in [bucket_size, 20, 1] {
        header.0.extend(number.to_le_bytes());
    }
    header.0
}

/// Loads a header with the most filters, which clients may claim if the settings allow it, and primaries always.
fn claimed(client: &mut Client) {
    client.cmd("CONFIG SET bf.cf-max-expansions 65535");
    let header = cuckoo_header(0, 2, 65_535, 255);
    let begun = client.call(&[b"CF.LOADCHUNK", KEY.as_bytes(), b"1", &header]);
    client.cmd("CONFIG SET bf.cf-max-expansions 32");
    done(&begun);
}

fn miscounted(client: &mut Client) {
    const BYTES: usize = 1 << 16;
    let header = cuckoo_header(0, BYTES as u64 / 2, 32, 2);
    let begun = client.call(&[b"CF.LOADCHUNK", KEY.as_bytes(), b"1", &header]);
    done(&begun);
    let mut cursor = 1;
    for filter in 0..32_usize {
        let slot = |at: usize| u8::try_from(1 + (at * 31 + filter * 7) % 255).unwrap_or(1);
        let slots: Vec<u8> = (0..BYTES)
            .map(|at| if at % 64 == 0 { 0 } else { slot(at) })
            .collect();
        cursor += BYTES;
        let cursor = cursor.to_string();
        let loaded = client.call(&[b"CF.LOADCHUNK", KEY.as_bytes(), cursor.as_bytes(), &slots]);
        done(&loaded);
    }
}

/// Makes a count-min sketch of a shape that fits the default limit.
fn counted(client: &mut Client, shape: &str) {
    done(&client.cmd(&format!("CMS.INITBYDIM deep {shape}")));
    done(&client.cmd("CMS.INCRBY deep one 1 another 2"));
}

/// Items of all but one of these adds find the cells of another one, with a count that they may take many units off.
fn contested(client: &mut Client, decay: &str) {
    done(&client.cmd(&format!("TOPK.RESERVE deep 1 1 32 {decay}")));
    done(&client.cmd("TOPK.INCRBY deep item 140"));
}

/// Short items, so that there are many entries for a byte.
fn listed(client: &mut Client) {
    done(&client.cmd("TOPK.RESERVE deep 300000 1000000 4 0.9"));
    for start in (0..300_000).step_by(10_000) {
        let items: Vec<_> = (start..start + 10_000)
            .map(|item: u32| item.to_string())
            .collect();
        done(&client.cmd(&format!("TOPK.ADD deep {}", items.join(" "))));
    }
}

fn grown(client: &mut Client) {
    client.cmd("CF.RESERVE deep 4096 EXPANSION 1");
    let mut item = 0_u64;
    loop {
        let mut words = vec![b"CF.INSERT".to_vec(), KEY.into(), b"ITEMS".to_vec()];
        words.extend((0..4_096).map(|_| {
            item += 1;
            item.to_string().into_bytes()
        }));
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let reply = client.call(&words);
        let took_all = |added: &[Reply]| added.iter().all(|added| *added == Reply::Int(1));
        if reply.is_error() || !took_all(reply.as_array()) {
            return;
        }
    }
}
