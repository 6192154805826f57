//! Bytes that are no object: each is refused, takes no memory, and leaves the server up.

use std::fs;

use valkeybloom::bloom::{
    Fraction, Growth, Kind, Limits, Object, Params, Seed, Shape, Tightening, Time, Window, chunks,
    dump,
};

use crate::harness::{Client, Reply, Server, array, digest, error, int, ok, simple, wait_until};
use crate::persistence::{load_chunks, object, pieces, rewrite_aof, with_command_log};

/// An object's fields, right ones or wrong ones, to be written in any of the three forms.
#[derive(Clone)]
pub struct Forged {
    /// The number of filters that is claimed, if it is not the true one.
    pub count: Option<u64>,
    pub expansion: u64,
    pub error_rate: f64,
    pub tightening: f64,
    pub seed_is_random: u64,
    pub filters: Vec<ForgedFilter>,
    /// Bytes behind the object.
    pub trailing: Vec<u8>,
}

#[derive(Clone)]
pub struct ForgedFilter {
    pub version: u8,
    /// The length of the bitmap that is claimed.
    pub bitmap_bytes: u64,
    pub hashes: u32,
    pub seed: [u8; 32],
    pub bitmap: Vec<u8>,
    pub items: u64,
    pub capacity: u64,
    /// The length of the blob that is claimed, if it is not the true one.
    pub blob_bytes: Option<u64>,
}

impl ForgedFilter {
    pub fn new(capacity: u64, items: u64, bitmap: Vec<u8>) -> Self {
        Self {
            version: 1,
            bitmap_bytes: bitmap.len() as u64,
            hashes: 3,
            seed: [7; 32],
            bitmap,
            items,
            capacity,
            blob_bytes: None,
        }
    }

    fn head(&self) -> Vec<u8> {
        let mut head = vec![self.version];
        head.extend(self.bitmap_bytes.to_le_bytes());
        head.extend(self.hashes.to_le_bytes());
        head.extend(self.seed);
        head
    }

    fn blob(&self) -> Vec<u8> {
        [self.head(), self.bitmap.clone()].concat()
    }
}

impl Forged {
    /// A right one: a full filter, and one on it that is half full.
    pub fn new() -> Self {
        Self {
            count: None,
            expansion: 2,
            error_rate: 0.01,
            tightening: 0.5,
            seed_is_random: 1,
            filters: vec![
                ForgedFilter::new(10, 10, vec![0x5a; 16]),
                ForgedFilter::new(20, 10, vec![0x21; 40]),
            ],
            trailing: Vec::new(),
        }
    }

    fn count(&self) -> u64 {
        self.count.unwrap_or(self.filters.len() as u64)
    }

    /// As the fields of an RDB value.
    pub fn rdb(&self) -> Rdb {
        let mut out = Rdb::default()
            .uint(self.count())
            .uint(self.expansion)
            .double(self.error_rate)
            .double(self.tightening)
            .uint(self.seed_is_random);
        for filter in &self.filters {
            out = out.string(&filter.blob()).uint(filter.capacity);
        }
        match self.filters.last() {
            Some(newest) => out.uint(newest.items),
            None => out,
        }
    }

    /// As BF.LOAD takes it.
    pub fn dump(&self) -> Vec<u8> {
        self.flat(1, ForgedFilter::blob)
    }

    /// As BF.LOADCHUNK takes it at cursor 1.
    pub fn header(&self) -> Vec<u8> {
        self.flat(0x81, ForgedFilter::head)
    }

    fn flat(&self, version: u8, body: fn(&ForgedFilter) -> Vec<u8>) -> Vec<u8> {
        let mut out = vec![version];
        let expansion = u32::try_from(self.expansion).expect("no more in these forms");
        out.extend(expansion.to_le_bytes());
        out.extend(self.error_rate.to_le_bytes());
        out.extend(self.tightening.to_le_bytes());
        out.push(u8::try_from(self.seed_is_random).expect("no more in these forms"));
        out.extend(self.count().to_le_bytes());
        for filter in &self.filters {
            let body = body(filter);
            let length = filter.blob_bytes.unwrap_or(body.len() as u64);
            out.extend(length.to_le_bytes());
            out.extend(body);
            out.extend(filter.items.to_le_bytes());
            out.extend(filter.capacity.to_le_bytes());
        }
        out.extend(&self.trailing);
        out
    }
}

/// The fields of an RDB value of the type `bloomfltr`, as RESTORE takes them.
#[derive(Clone)]
pub struct Rdb(pub Vec<u8>);

/// What a value starts with: a value of a module, and the module's type with its encoding version,
/// nine characters of six bits and ten bits.
const PREFIX: [u8; 10] = [7, 0x81, 0x6e, 0x5a, 0x28, 0x99, 0xf9, 0x6d, 0xac, 0x01];

impl Default for Rdb {
    fn default() -> Self {
        Self(PREFIX.to_vec())
    }
}

impl Rdb {
    pub fn uint(mut self, value: u64) -> Self {
        self.0.push(2);
        self.length(value);
        self
    }

    pub fn double(mut self, value: f64) -> Self {
        self.0.push(4);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn string(mut self, value: &[u8]) -> Self {
        self.0.push(5);
        self.length(value.len() as u64);
        self.0.extend(value);
        self
    }

    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn length(&mut self, value: u64) {
        match value {
            0..0x40 => self.0.push(value.to_le_bytes()[0]),
            0x40..0x4000 => {
                let [.., high, low] = value.to_be_bytes();
                self.0.extend([0x40 | high, low]);
            }
            0x4000..=0xffff_ffff => {
                self.0.push(0x80);
                self.0.extend(&value.to_be_bytes()[4..]);
            }
            _ => {
                self.0.push(0x81);
                self.0.extend(value.to_be_bytes());
            }
        }
    }

    /// The beginning of a value of a module's type: nine characters of six bits, and ten bits of encoding version.
    pub fn of_type(id: u64) -> Self {
        Self(vec![7, 0x81]).raw(&id.to_be_bytes())
    }

    /// A file with the value under the key `forged`.
    fn file(&self) -> Vec<u8> {
        let mut file = b"REDIS0009\xfe\0\x07\x06forged".to_vec();
        file.extend(&self.0[1..]);
        file.extend([0, 0xff]);
        file.extend(crc64(&file).to_le_bytes());
        file
    }

    /// With the mark that ends a value, and a footer that is right.
    pub fn payload(mut self, version: [u8; 2]) -> Vec<u8> {
        self.0.push(0);
        seal(self.0, version)
    }
}

/// Puts the footer of a DUMP behind a value: the version of the RDB form, and a checksum.
pub fn seal(mut value: Vec<u8>, version: [u8; 2]) -> Vec<u8> {
    value.extend(version);
    let checksum = crc64(&value);
    value.extend(checksum.to_le_bytes());
    value
}

/// The version of the RDB form that a server writes, as its dumps have it.
pub fn rdb_version(client: &mut Client) -> [u8; 2] {
    assert_eq!(client.cmd("SET rdb-version x"), ok());
    let dump = client.cmd("DUMP rdb-version");
    assert_eq!(client.cmd("DEL rdb-version"), int(1));
    let bytes = dump.as_bytes();
    let footer = &bytes[bytes.len() - 10..];
    [footer[0], footer[1]]
}

/// CRC-64 with the polynomial of Jones, reflected, as RDB files have it.
pub fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc: u64, byte| {
        CRC64[usize::from(crc.to_le_bytes()[0] ^ byte)] ^ (crc >> 8)
    })
}

/// The checksum of each byte.
const CRC64: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (0x95ac_9329_ac4b_c9b5 * (crc & 1));
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// Requires that a value is refused, by RESTORE and in the file that a server starts on, and that the log says so in
/// these words.
pub struct Refusing {
    server: Server,
    /// It is down, and never comes up.
    on_file: Server,
}

impl Refusing {
    pub fn start() -> Self {
        let mut on_file = Server::start();
        on_file.shutdown();
        Self {
            server: Server::start(),
            on_file,
        }
    }

    /// The server that goes on.
    pub fn server(&self) -> &Server {
        &self.server
    }

    #[track_caller]
    pub fn refuses(&mut self, what: &str, value: &Rdb, words: &str) {
        let mut client = self.server.client();
        let length = self.server.log().len();
        let payload = value.clone().payload([9, 0]);
        let restore: [&[u8]; 4] = [b"RESTORE", b"forged", b"0", &payload];
        refuses(&mut client, what, &restore, "ERR Bad data format");
        let log = self.server.log().split_off(length);
        assert!(log.contains(words), "{what}: no {words:?} in {log}");

        let file = self.on_file.dir().join("dump.rdb");
        fs::write(file, value.file()).expect("the folder can be written to");
        let log = self.on_file.try_start_again().expect_err(what);
        assert!(log.contains(words), "{what}: no {words:?} in {log}");
        assert!(!log.contains("BUG REPORT"), "{what}: {log}");
    }
}

/// A generator of a fixed sequence (splitmix64), so that a failure comes again.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("less than a usize")
    }

    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let words = std::iter::repeat_with(|| self.next().to_le_bytes());
        words.flatten().take(count).collect()
    }
}

/// A field of INFO memory.
pub fn memory(server: &Server, field: &str) -> i64 {
    server.info("memory")[field].parse().expect("a number")
}

/// The most address space that the server has ever had, in bytes: what a claim makes it ask for
/// shows here, even if it gives it back at once and never touches it.
fn peak_address_space(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid()));
    let status = status.expect("the tests run on Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kilobytes
        .and_then(|text| text.parse::<u64>().ok())
        .expect("a size")
        * 1024
}

const RDB: u8 = 1;
const DUMP: u8 = 2;
const HEADER: u8 = 4;
const ALL: u8 = RDB | DUMP | HEADER;

/// What is wrong, in which forms it can be written, and how to make it so of a right object.
type Fault = (&'static str, u8, fn(&mut Forged));

const TERABYTE: u64 = 1 << 40;

const FAULTS: &[Fault] = &[
    ("no filters", ALL, |o| o.filters.clear()),
    ("no filters claimed, two there", ALL, |o| o.count = Some(0)),
    ("a filter less claimed", ALL, |o| o.count = Some(1)),
    ("a filter more claimed", ALL, |o| o.count = Some(3)),
    ("2^32 filters claimed", ALL, |o| o.count = Some(1 << 32)),
    ("2^64 - 1 filters claimed", ALL, |o| {
        o.count = Some(u64::MAX);
    }),
    ("expansion over u32", RDB, |o| o.expansion = 1 << 32),
    ("expansion of 64 bits", RDB, |o| o.expansion = u64::MAX),
    ("rate of 0", ALL, |o| o.error_rate = 0.0),
    ("rate of 1", ALL, |o| o.error_rate = 1.0),
    ("rate below 0", ALL, |o| o.error_rate = -0.1),
    ("rate above 1", ALL, |o| o.error_rate = 1.1),
    ("rate that is no number", ALL, |o| o.error_rate = f64::NAN),
    ("infinite rate", ALL, |o| o.error_rate = f64::INFINITY),
    ("tightening of 0", ALL, |o| o.tightening = 0.0),
    ("tightening of 1", ALL, |o| o.tightening = 1.0),
    ("tightening below 0", ALL, |o| o.tightening = -0.5),
    ("tightening that is no number", ALL, |o| {
        o.tightening = f64::NAN;
    }),
    ("tightening of minus infinity", ALL, |o| {
        o.tightening = f64::NEG_INFINITY;
    }),
    ("random seed called fixed", ALL, |o| o.seed_is_random = 0),
    ("seed flag of 2", ALL, |o| o.seed_is_random = 2),
    ("filters of different seeds", ALL, |o| {
        o.filters[1].seed[31] = 8;
    }),
    ("filter of version 0", ALL, |o| o.filters[0].version = 0),
    ("filter of version 2", ALL, |o| o.filters[1].version = 2),
    ("filter of zero bits", ALL, |o| {
        o.filters[0].bitmap.clear();
        o.filters[0].bitmap_bytes = 0;
    }),
    ("zero bits claimed", ALL, |o| o.filters[1].bitmap_bytes = 0),
    ("a byte too few", RDB | DUMP, |o| {
        o.filters[0].bitmap.truncate(15);
    }),
    ("a byte too many", RDB | DUMP, |o| {
        o.filters[1].bitmap.push(0);
    }),
    ("no bitmap", RDB | DUMP, |o| o.filters[0].bitmap.clear()),
    ("a terabyte of bitmap claimed", RDB | DUMP, |o| {
        o.filters[0].bitmap_bytes = TERABYTE;
    }),
    ("2^63 bytes of bitmap claimed", ALL, |o| {
        o.filters[0].bitmap_bytes = 1 << 63;
    }),
    ("2^64 - 1 bytes of bitmap claimed", ALL, |o| {
        o.filters[1].bitmap_bytes = u64::MAX;
    }),
    ("ten bitmaps of together over 2^63 bytes", ALL, |o| {
        // Each can be counted in bits, not all.
        let mut filter = o.filters[0].clone();
        filter.bitmap_bytes = u64::MAX / 16;
        o.filters = vec![filter; 10];
    }),
    ("a blob shorter than its header", DUMP | HEADER, |o| {
        o.filters[0].blob_bytes = Some(44);
    }),
    ("an empty blob", DUMP | HEADER, |o| {
        o.filters[1].blob_bytes = Some(0);
    }),
    ("a terabyte of blob claimed", DUMP | HEADER, |o| {
        o.filters[0].blob_bytes = Some(TERABYTE);
    }),
    ("2^64 - 1 bytes of blob claimed", DUMP | HEADER, |o| {
        o.filters[0].blob_bytes = Some(u64::MAX);
    }),
    ("no hash functions", ALL, |o| o.filters[0].hashes = 0),
    ("4097 hash functions", ALL, |o| o.filters[1].hashes = 4097),
    ("2^32 - 1 hash functions", ALL, |o| {
        o.filters[0].hashes = u32::MAX;
    }),
    ("capacity of 0", ALL, |o| o.filters[0].capacity = 0),
    ("capacity of 0 in the newest", ALL, |o| {
        o.filters[1].capacity = 0;
    }),
    ("capacity over i64", ALL, |o| {
        o.filters[1].capacity = 1 << 63;
    }),
    ("capacity of u64", ALL, |o| {
        o.filters[1].capacity = u64::MAX;
    }),
    ("capacities of together over i64", ALL, |o| {
        o.filters[0].capacity = 1 << 62;
        o.filters[0].items = 1 << 62;
        o.filters[1].capacity = 1 << 62;
    }),
    ("capacities of together over u64", ALL, |o| {
        let mut filter = o.filters[0].clone();
        filter.capacity = i64::MAX.unsigned_abs();
        filter.items = filter.capacity;
        o.filters = vec![filter.clone(), filter.clone(), filter];
    }),
    ("more items than capacity", ALL, |o| {
        o.filters[1].items = 21;
    }),
    ("items over i64", ALL, |o| o.filters[1].items = 1 << 63),
    ("items of u64 in a fixed object", ALL, |o| {
        o.expansion = 0;
        o.filters.truncate(1);
        o.filters[0].items = u64::MAX;
    }),
    ("a filter on one that is not full", DUMP | HEADER, |o| {
        o.filters[0].items = 9;
    }),
    ("a byte behind the object", DUMP | HEADER, |o| {
        o.trailing = vec![0];
    }),
    ("an object behind the object", DUMP | HEADER, |o| {
        o.trailing = o.dump();
    }),
];

#[track_caller]
fn refuses(client: &mut Client, what: &str, args: &[&[u8]], text: &str) {
    assert_eq!(client.call(args), error(text), "{what}");
    assert_eq!(client.cmd("EXISTS forged"), int(0), "{what}");
}

#[test]
fn forged_fields_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    let right = Forged::new();
    let calls = |client: &mut Client, object: &Forged, forms: u8| {
        let mut replies = Vec::new();
        if forms & RDB != 0 {
            let payload = object.rdb().payload(version);
            replies.push(client.call(&[b"RESTORE", b"forged", b"0", &payload]));
        }
        if forms & DUMP != 0 {
            replies.push(client.call(&[b"BF.LOAD", b"forged", &object.dump()]));
        }
        if forms & HEADER != 0 {
            replies.push(client.call(&[b"BF.LOADCHUNK", b"forged", b"1", &object.header()]));
        }
        replies
    };
    // Each form is right but for what a fault changes in it.
    for form in [RDB, DUMP, HEADER] {
        assert_eq!(calls(&mut client, &right, form), [ok()], "form {form}");
        assert_eq!(client.cmd("TYPE forged").text(), "bloomfltr");
        assert_eq!(client.cmd("DEL forged"), int(1));
    }

    // Only what is wrong in itself is to be refused here, not what a limit forbids.
    let most = i64::MAX.to_string();
    let unlimited = format!("CONFIG SET bf.bloom-filter-max-memory-usage {most}");
    assert_eq!(client.cmd(&unlimited), ok());
    let used = memory(&server, "used_memory");
    let peak = peak_address_space(&server);
    for (what, forms, spoil) in FAULTS {
        let mut object = right.clone();
        spoil(&mut object);
        for (form, text) in [
            (RDB, "ERR Bad data format"),
            (DUMP, "ERR bloom object decoding failed"),
            (HEADER, "ERR received bad data"),
        ] {
            if forms & form != 0 {
                let replies = calls(&mut client, &object, form);
                assert_eq!(replies, [error(text)], "{what}, form {form}");
            }
        }
        assert_eq!(client.cmd("EXISTS forged"), int(0), "{what}");
    }
    let grown = memory(&server, "used_memory") - used;
    assert!(grown < 1 << 20, "{grown} bytes are kept");
    let grown = peak_address_space(&server) - peak;
    assert!(grown < 1 << 30, "{grown} bytes were asked for");
}

#[test]
fn bytes_that_end_early_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    let right = Forged::new();

    let dump = right.dump();
    for end in 0..dump.len() {
        let what = format!("{end} bytes of a dump");
        let args: [&[u8]; 3] = [b"BF.LOAD", b"forged", &dump[..end]];
        refuses(
            &mut client,
            &what,
            &args,
            "ERR bloom object decoding failed",
        );
    }
    let header = right.header();
    for end in 0..header.len() {
        let what = format!("{end} bytes of a header");
        let args: [&[u8]; 4] = [b"BF.LOADCHUNK", b"forged", b"1", &header[..end]];
        refuses(&mut client, &what, &args, "ERR received bad data");
    }
    let Rdb(fields) = right.rdb();
    for end in PREFIX.len()..fields.len() {
        let what = format!("{end} bytes of an RDB value");
        let mut payloads = vec![Rdb(fields[..end].to_vec()).payload(version)];
        // The server reads on into the footer, whose start may pass for the last number.
        if end + 1 < fields.len() {
            payloads.push(seal(fields[..end].to_vec(), version));
        }
        for payload in payloads {
            let args: [&[u8]; 4] = [b"RESTORE", b"forged", b"0", &payload];
            refuses(&mut client, &what, &args, "ERR Bad data format");
        }
    }
    // The mark at the end is missing, or there is something before it.
    for value in [right.rdb(), right.rdb().uint(1).raw(&[0])] {
        let payload = seal(value.0, version);
        let args: [&[u8]; 4] = [b"RESTORE", b"forged", b"0", &payload];
        refuses(&mut client, "the end", &args, "ERR Bad data format");
    }
}

#[test]
fn other_versions_and_forms_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    let right = Forged::new();
    let (dump, header) = (right.dump(), right.header());
    for version in [0, 2, 127, 0x81, 255] {
        let other = [&[version], &dump[1..]].concat();
        refuses(
            &mut client,
            &format!("version {version}"),
            &[b"BF.LOAD", b"forged", &other],
            "ERR bloom object decoding failed. Unsupported version",
        );
    }
    for version in [0, 1, 0x80, 0x82, 255] {
        let other = [&[version], &header[1..]].concat();
        refuses(
            &mut client,
            &format!("version {version}"),
            &[b"BF.LOADCHUNK", b"forged", b"1", &other],
            "ERR received bad data",
        );
    }
    // Neither form passes for the other, even with its version.
    let args: [&[u8]; 3] = [b"BF.LOAD", b"forged", &header];
    let text = "ERR bloom object decoding failed. Unsupported version";
    refuses(&mut client, "a header", &args, text);
    let mistaken = [&[1], &header[1..]].concat();
    let args: [&[u8]; 3] = [b"BF.LOAD", b"forged", &mistaken];
    let text = "ERR bloom object decoding failed";
    refuses(&mut client, "a header", &args, text);
    let mistaken = [&[0x81], &dump[1..]].concat();
    for bytes in [&dump, &mistaken] {
        let args: [&[u8]; 4] = [b"BF.LOADCHUNK", b"forged", b"1", bytes];
        refuses(&mut client, "a dump", &args, "ERR received bad data");
    }

    let version = rdb_version(&mut client);
    // The type's encoding version is the last ten bits of its id.
    let mut newer = right.rdb();
    newer.0[9] = 2;
    let payload = newer.payload(version);
    let args: [&[u8]; 4] = [b"RESTORE", b"forged", b"0", &payload];
    refuses(&mut client, "a newer type", &args, "ERR Bad data format");
}

#[test]
fn forged_half_loaded_objects_are_refused() {
    let server = Server::start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    let right = Forged::new();
    let header = right.header();
    let partial = |bitmaps: &[&[u8]]| {
        let begun = Rdb::default().uint(0).string(&header);
        bitmaps
            .iter()
            .fold(begun, |value, bitmap| value.string(bitmap))
    };
    let (first, second) = (&right.filters[0].bitmap, &right.filters[1].bitmap);

    // So that a dump can be compared with what was forged.
    assert_eq!(client.cmd("CONFIG SET rdbcompression no"), ok());
    for (stage, value) in [
        partial(&[b""]),
        partial(&[&first[..7]]),
        partial(&[first, b""]),
        partial(&[first, &second[..39]]),
    ]
    .into_iter()
    .enumerate()
    {
        let payload = value.payload(version);
        let reply = client.call(&[b"RESTORE", b"forged", b"0", &payload]);
        assert_eq!(reply, ok(), "stage {stage}");
        let loading = error("ERR bloom object is still being loaded");
        assert_eq!(client.cmd("BF.CARD forged"), loading, "stage {stage}");
        assert_eq!(client.cmd("DUMP forged").as_bytes(), payload);
        assert_eq!(client.cmd("DEL forged"), int(1));
    }

    let mut other = right.clone();
    other.filters[1].hashes = 0;
    for (what, value) in [
        ("nothing behind the 0", Rdb::default().uint(0)),
        ("no header", Rdb::default().uint(0).string(b"").string(b"")),
        (
            "a dump as header",
            Rdb::default().uint(0).string(&right.dump()).string(b""),
        ),
        (
            "a header that is wrong",
            Rdb::default().uint(0).string(&other.header()).string(b""),
        ),
        ("no bitmap", partial(&[])),
        ("no second bitmap", partial(&[first])),
        ("a complete object", partial(&[first, second])),
        (
            "a bitmap that is too long",
            partial(&[&[first.as_slice(), b"x"].concat()]),
        ),
        (
            "a second bitmap that is too long",
            partial(&[first, &[second.as_slice(), b"x"].concat()]),
        ),
        ("a bitmap too many", partial(&[&first[..3], &first[3..]])),
        ("a number for a bitmap", partial(&[]).uint(1)),
        ("a number for a header", Rdb::default().uint(0).uint(1)),
    ] {
        let payload = value.payload(version);
        let args: [&[u8]; 4] = [b"RESTORE", b"forged", b"0", &payload];
        refuses(&mut client, what, &args, "ERR Bad data format");
    }
}

#[test]
fn a_claim_takes_no_memory() {
    let server = Server::start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    let mut object = Forged::new();
    object.filters.truncate(1);
    let header = |object: &mut Forged, bytes: u64| {
        object.filters[0].bitmap_bytes = bytes;
        object.header()
    };

    let terabyte = header(&mut object, TERABYTE);
    let limit = error("ERR operation exceeds bloom object memory limit");
    let begin: [&[u8]; 4] = [b"BF.LOADCHUNK", b"forged", b"1", &terabyte];
    assert_eq!(client.call(&begin), limit);
    assert_eq!(client.cmd("EXISTS forged"), int(0));

    let unlimited = format!("CONFIG SET bf.bloom-filter-max-memory-usage {}", i64::MAX);
    assert_eq!(client.cmd(&unlimited), ok());
    let used = memory(&server, "used_memory");
    let peak = peak_address_space(&server);
    assert_eq!(client.call(&begin), ok());
    assert_eq!(client.cmd("BF.LOADCHUNK forged 2 x"), ok());
    assert_eq!(client.cmd("BF.LOADCHUNK forged 7 abcde"), ok());

    // The same state from an RDB, with the most that can be claimed.
    let most = header(&mut object, u64::MAX / 16);
    let value = Rdb::default().uint(0).string(&most).string(b"xabcde");
    let payload = value.payload(version);
    let reply = client.call(&[b"RESTORE", b"restored", b"0", &payload]);
    assert_eq!(reply, ok());
    assert_eq!(client.cmd("COPY restored copied"), int(1));
    for key in ["forged", "restored", "copied"] {
        let usage = client.cmd(&format!("MEMORY USAGE {key}")).as_int();
        assert!(usage < 1000, "{key} takes {usage} bytes");
    }

    let grown = memory(&server, "used_memory") - used;
    assert!(grown < 1 << 20, "{grown} bytes are kept");
    let grown = peak_address_space(&server) - peak;
    assert!(grown < 1 << 30, "{grown} bytes were asked for");

    // What a string of the server's own framing claims fails in the server, which may have asked
    // for it.
    let value = Rdb::default()
        .uint(0)
        .raw(&[5, 0x81, 0, 0, 1, 0, 0, 0, 0, 0]);
    let payload = value.payload(version);
    let args: [&[u8]; 4] = [b"RESTORE", b"again", b"0", &payload];
    assert_eq!(client.call(&args), error("ERR Bad data format"));
    let grown = memory(&server, "used_memory") - used;
    assert!(grown < 1 << 20, "{grown} bytes are kept");
    assert_eq!(client.cmd("DEL forged restored copied"), int(3));
}

#[test]
fn chunks_out_of_order_change_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let right = Forged::new();
    let bits: Vec<u8> = right
        .filters
        .iter()
        .flat_map(|filter| filter.bitmap.clone())
        .collect();
    let bad = error("ERR received bad data");
    let chunk = |client: &mut Client, cursor: &str, bytes: &[u8]| {
        client.call(&[b"BF.LOADCHUNK", b"k", cursor.as_bytes(), bytes])
    };
    // Nothing is being loaded.
    assert_eq!(chunk(&mut client, "5", b"abcd"), bad);
    assert_eq!(chunk(&mut client, "0", b""), bad);
    assert_eq!(client.cmd("EXISTS k"), int(0));

    assert_eq!(chunk(&mut client, "1", &right.header()), ok());
    let busy = error("BUSYKEY Target key name already exists.");
    assert_eq!(chunk(&mut client, "1", &right.header()), busy);
    assert_eq!(chunk(&mut client, "5", &bits[..4]), ok());
    let digest = client.cmd("DEBUG DIGEST-VALUE k");
    let past = i64::MAX.to_string();
    for (what, cursor, bytes) in [
        ("again", "5", &bits[..4]),
        ("a gap", "10", &bits[5..9]),
        ("an overlap", "8", &bits[3..7]),
        ("nothing", "5", &bits[..0]),
        ("across a filter's end", "21", &bits[4..20]),
        ("cursor 0", "0", &bits[4..8]),
        ("a cursor below 0", "-9", &bits[4..8]),
        ("a cursor within the chunk", "4", &bits[4..8]),
        ("the last cursor of all", &past, &bits[4..8]),
    ] {
        assert_eq!(chunk(&mut client, cursor, bytes), bad, "{what}");
        assert_eq!(client.cmd("DEBUG DIGEST-VALUE k"), digest, "{what}");
    }
    for cursor in ["", "x", "9223372036854775808", "1.5", " 5"] {
        let reply = chunk(&mut client, cursor, &bits[4..8]);
        assert_eq!(reply, error("ERR bad cursor"), "{cursor:?}");
    }
    assert_eq!(chunk(&mut client, "17", &bits[4..16]), ok());
    assert_eq!(chunk(&mut client, "57", &bits[16..]), ok());
    assert_eq!(client.cmd("BF.CARD k"), int(20));
    assert_eq!(chunk(&mut client, "58", b"x"), bad);

    assert_eq!(client.cmd("SET s x"), ok());
    for cursor in ["1", "2"] {
        let reply = client.call(&[b"BF.LOADCHUNK", b"s", cursor.as_bytes(), b"x"]);
        assert!(reply.text().starts_with("WRONGTYPE "), "{reply:?}");
    }
}

/// Bytes with one to four changes, none of them in the first `fixed`.
fn mutated(random: &mut Random, bytes: &[u8], fixed: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let length = bytes.len() - fixed;
        if length < 2 {
            break;
        }
        // Half of them where the fields are, in front of the bits.
        let length = if random.one_in(2) {
            length.min(90)
        } else {
            length
        };
        let at = fixed + random.below(length);
        match random.below(8) {
            0 | 1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = random.pick(&[0, 1, 2, 5, 0x3f, 0x40, 0x7f, 0x80, 0x81, 0xff]),
            3 => {
                bytes.remove(at);
            }
            4 => bytes.insert(at, random.next().to_le_bytes()[0]),
            5 => bytes.truncate(at),
            6 => {
                let some = bytes[at..].iter().take(8).count();
                let value = random.pick(&[0, 1, u64::MAX, 1 << 62, 1 << 63, 1 << 32, 1 << 40]);
                bytes[at..at + some].copy_from_slice(&value.to_le_bytes()[..some]);
            }
            _ => {
                let end = (at + random.below(60)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = fixed + random.below(length);
                bytes.splice(to..to, piece);
            }
        }
    }
    bytes
}

/// Whatever was accepted has to act as an object.
#[track_caller]
fn acts_as_object(client: &mut Client, key: &str, from: &[u8]) {
    let shown = || format!("accepted from {}", from.escape_ascii());
    let loading = error("ERR bloom object is still being loaded");
    let mut call = |line: &str| match client.try_call(
        &line
            .replace("KEY", key)
            .split(' ')
            .map(str::as_bytes)
            .collect::<Vec<_>>(),
    ) {
        Ok(reply) => reply,
        Err(e) => panic!("{line}: {e}, {}", shown()),
    };
    let info = call("BF.INFO KEY");
    if info == loading {
        assert_eq!(call("BF.EXISTS KEY item"), loading, "{}", shown());
        assert_eq!(call("BF.ADD KEY item"), loading, "{}", shown());
    } else {
        assert!(matches!(info, Reply::Array(_)), "{info:?}, {}", shown());
        assert!(!call("BF.EXISTS KEY item").is_error(), "{}", shown());
        let added = call("BF.ADD KEY item");
        if !added.is_error() {
            assert_eq!(call("BF.EXISTS KEY item"), int(1), "{}", shown());
        }
        assert!(!call("BF.DEBUG KEY").is_error(), "{}", shown());
        assert!(!call("BF.SCANDUMP KEY 1").is_error(), "{}", shown());
    }
    let dump = call("DUMP KEY");
    assert!(matches!(dump, Reply::Bulk(_)), "{dump:?}, {}", shown());
    assert_eq!(call("DEBUG DIGEST-VALUE KEY").as_array().len(), 1);
    assert_eq!(call("DEL KEY"), int(1), "{}", shown());
}

/// Objects whose bytes are mostly fields.
fn samples() -> [Forged; 4] {
    let sample = Forged::new();
    let mut fixed = sample.clone();
    fixed.expansion = 0;
    fixed.filters.truncate(1);
    fixed.filters[0].items = 25;
    let mut deep = sample.clone();
    deep.filters = vec![ForgedFilter::new(3, 3, vec![9; 4]); 12];
    let mut single = sample.clone();
    single.filters.truncate(1);
    [sample, fixed, deep, single]
}

#[test]
fn mutations_never_break_the_server() {
    let server = Server::start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    let samples = samples();

    // Values as they stand in a DUMP: forged, half loaded, and two from a server, compressed.
    let mut values: Vec<Vec<u8>> = samples
        .iter()
        .map(|object| object.rdb().raw(&[0]).0)
        .collect();
    for object in &samples {
        let bitmap = &object.filters[0].bitmap;
        let value = Rdb::default().uint(0).string(&object.header());
        values.push(value.string(&bitmap[..3]).raw(&[0]).0);
    }
    for line in [
        "BF.INSERT made CAPACITY 20 ERROR 0.01 ITEMS a b c",
        "BF.INSERT made CAPACITY 2 EXPANSION 1 ITEMS a b c d e f",
    ] {
        assert!(!client.cmd(line).is_error());
        let dump = client.cmd("DUMP made");
        let bytes = dump.as_bytes();
        values.push(bytes[..bytes.len() - 10].to_vec());
        assert_eq!(client.cmd("DEL made"), int(1));
    }
    for value in &values {
        let payload = seal(value.clone(), version);
        let reply = client.call(&[b"RESTORE", b"k", b"0", &payload]);
        assert_eq!(reply, ok(), "unchanged");
        acts_as_object(&mut client, "k", &payload);
    }

    let used = memory(&server, "used_memory");
    let mut random = Random(0x686f_7374_696c_6501);
    let mut accepted = 0;
    for _ in 0..3000 {
        let value = random.pick(&values);
        let payload = seal(mutated(&mut random, &value, PREFIX.len()), version);
        match client.try_call(&[b"RESTORE", b"k", b"0", &payload]) {
            Ok(reply) if reply == ok() => {
                accepted += 1;
                acts_as_object(&mut client, "k", &payload);
            }
            Ok(reply) => assert_eq!(reply, error("ERR Bad data format")),
            Err(e) => panic!("{e} after RESTORE of {}", payload.escape_ascii()),
        }
    }
    assert!(accepted > 100, "only {accepted} mutations were accepted");

    let mut accepted = 0;
    for _ in 0..1500 {
        let object = random.pick(&samples);
        let dump = mutated(&mut random, &object.dump(), 0);
        match client.try_call(&[b"BF.LOAD", b"k", &dump]) {
            Ok(reply) if reply == ok() => {
                accepted += 1;
                acts_as_object(&mut client, "k", &dump);
            }
            Ok(reply) => assert!(
                reply.text().starts_with("ERR bloom object decoding failed")
                    || reply == error("ERR operation exceeds bloom object memory limit"),
                "{reply:?}"
            ),
            Err(e) => panic!("{e} after BF.LOAD of {}", dump.escape_ascii()),
        }
    }
    assert!(accepted > 50, "only {accepted} mutations were accepted");

    let mut accepted = 0;
    for _ in 0..1500 {
        let object = random.pick(&samples);
        let header = mutated(&mut random, &object.header(), 0);
        match client.try_call(&[b"BF.LOADCHUNK", b"k", b"1", &header]) {
            Ok(reply) if reply == ok() => {
                accepted += 1;
                // Whatever length the header claims, there is a first byte.
                let reply = client.cmd("BF.LOADCHUNK k 2 x");
                assert_eq!(reply, ok(), "{}", header.escape_ascii());
                acts_as_object(&mut client, "k", &header);
            }
            Ok(reply) => assert!(
                reply == error("ERR received bad data")
                    || reply == error("ERR operation exceeds bloom object memory limit"),
                "{reply:?}"
            ),
            Err(e) => panic!("{e} after BF.LOADCHUNK of {}", header.escape_ascii()),
        }
    }
    assert!(accepted > 50, "only {accepted} mutations were accepted");

    assert_eq!(client.cmd("FLUSHALL"), ok());
    wait_until("the memory is as it was", || {
        memory(&server, "used_memory") - used < 512 * 1024
    });
    let ledger = server.info("bf");
    assert_eq!(ledger["bf_bloom_num_objects"], "0");
    assert_eq!(ledger["bf_bloom_total_memory_bytes"], "0");
}

/// Objects with periods, with counters and with ids, some of several filters.
fn extended_samples() -> Vec<Object> {
    let fraction = |value| Fraction::new(value).expect("a fraction");
    let params = |capacity, expansion| Params {
        capacity,
        error_rate: fraction(0.01),
        tightening: Tightening::HALF,
        growth: Growth::from_expansion(expansion),
    };
    // So long that nothing passes, nor is ahead, however many periods are claimed.
    let windowed = Kind::Windowed(Window::new(1_000_000_000_000, 3).expect("a window"));
    let now_ms = 1_700_000_000_000;
    let shapes = [
        (params(3, 2), windowed),
        (params(2, 1), Kind::Counting),
        (params(4, 2), windowed),
        (params(4, 2), Kind::Counting),
        (params(20, 0), windowed),
        (params(20, 0), Kind::Counting),
    ];
    let mut samples = Vec::new();
    for (params, kind) in shapes {
        let counting = kind == Kind::Counting;
        for ids in [false, true] {
            let shape = Shape { params, kind };
            let made = Object::new(&shape, Seed::FIXED, Time::at(now_ms), Limits::NONE);
            let mut object = made.expect("a small object");
            for number in 0..12_u64 {
                let time = Time {
                    now_ms,
                    ttl_ms: (number % 3 == 0).then_some(1 + number * 200_000_000_000),
                };
                let (item, id) = (number.to_le_bytes(), (ids && counting).then_some(number));
                object.add(&item, time, id, || Limits::NONE).expect("room");
            }
            samples.push(object);
            if !counting {
                break;
            }
        }
    }
    samples
}

/// Whatever was accepted has to act as an object with periods or counters.
#[track_caller]
fn acts_as_extended(client: &mut Client, from: &[u8]) {
    let shown = || format!("accepted from {}", from.escape_ascii());
    let card = client.cmd("BF.CARD k");
    if card != error("ERR bloom object is still being loaded") {
        assert!(card.as_int() >= 0, "{}", shown());
        let reply = client.cmd("BF.INFO k");
        let info = reply.as_array();
        let missing = client.cmd("BF.MISSING k x x").as_int();
        assert!((0..=1).contains(&missing), "{}", shown());
        for line in [
            "BF.MEXISTS k x y",
            "BF.DEBUG k",
            "BF.SCANDUMP k 0",
            "COPY k copy REPLACE",
        ] {
            assert!(!client.cmd(line).is_error(), "{line}, {}", shown());
        }
        // With ids where there are counters.
        let counting = !client.cmd("BF.COUNT k x").is_error();
        let lines: &[&str] = if counting {
            &[
                "BF.INSERT k ID 7 ITEMS y z",
                "BF.DEL k z ID 7",
                "BF.DEL k z",
                "BF.MDEL k y x y",
            ]
        } else {
            &["BF.MADD k y z"]
        };
        for line in lines {
            assert!(!client.cmd(line).is_error(), "{line}, {}", shown());
        }
        let window = info.iter().position(|told| *told == simple("Window"));
        let ms = window.map(|at| info[at + 1].as_int());
        if let Some(ms) = ms {
            for ttl in [1, ms] {
                let line = format!("BF.INSERT k TTL {ttl} ITEMS ttl-{ttl}");
                assert!(!client.cmd(&line).is_error(), "{line}, {}", shown());
            }
        }
        let merged = client.cmd("BF.MERGE merged copy k");
        let rates = error("ERR error rates of the filters add up to 1 or more");
        assert!(merged == ok() || merged == rates, "{merged:?}, {}", shown());
        let added = client.cmd("BF.ADD k item");
        // Where periods are short the item may have passed by now.
        if !added.is_error() && ms.is_none_or(|ms| ms > 1_000_000) {
            assert_eq!(client.cmd("BF.EXISTS k item"), int(1), "{}", shown());
        }
        client.cmd("DEL copy merged");
    }
    assert!(
        matches!(client.cmd("DUMP k"), Reply::Bulk(_)),
        "{}",
        shown()
    );
    assert!(client.cmd("MEMORY USAGE k").as_int() > 0);
    assert_eq!(client.cmd("DEBUG DIGEST-VALUE k").as_array().len(), 1);
    assert_eq!(client.cmd("DEL k"), int(1), "{}", shown());
}

#[test]
fn mutations_of_periods_and_counters_never_break_the_server() {
    let server = Server::start();
    let mut client = server.client();
    let version = rdb_version(&mut client);
    let samples = extended_samples();
    assert_eq!(client.cmd("CONFIG SET rdbcompression no"), ok());
    let mut forms: [Vec<Vec<u8>>; 3] = Default::default();
    for object in &samples {
        let dump = dump::encode(object).expect("an object of ours");
        assert_eq!(client.call(&[b"BF.LOAD", b"k", &dump]), ok());
        let payload = client.cmd("DUMP k");
        let bytes = payload.as_bytes();
        forms[0].push(bytes[..bytes.len() - 10].to_vec());
        acts_as_extended(&mut client, &dump);
        let header = chunks::piece(object, 0).1.bytes().to_vec();
        let begin: [&[u8]; 4] = [b"BF.LOADCHUNK", b"k", b"1", &header];
        assert_eq!(client.call(&begin), ok());
        assert_eq!(client.cmd("BF.LOADCHUNK k 2 x"), ok());
        let payload = client.cmd("DUMP k");
        let bytes = payload.as_bytes();
        forms[0].push(bytes[..bytes.len() - 10].to_vec());
        assert_eq!(client.cmd("DEL k"), int(1));
        forms[1].push(dump);
        forms[2].push(header);
    }

    let used = memory(&server, "used_memory");
    let peak = peak_address_space(&server);
    let mut random = Random(0x686f_7374_696c_6502);
    for (form, values) in forms.iter().enumerate() {
        let mut accepted = 0;
        for _ in 0..2000 {
            let value = random.pick(values);
            let bytes = match form {
                0 => seal(mutated(&mut random, &value, PREFIX.len()), version),
                // The version stands first.
                _ => mutated(&mut random, &value, 1),
            };
            let words: &[&[u8]] = match form {
                0 => &[b"RESTORE", b"k", b"0", &bytes],
                1 => &[b"BF.LOAD", b"k", &bytes],
                _ => &[b"BF.LOADCHUNK", b"k", b"1", &bytes],
            };
            match client.try_call(words) {
                Ok(reply) if reply == ok() => {
                    accepted += 1;
                    acts_as_extended(&mut client, &bytes);
                }
                Ok(reply) => {
                    let refusals = [
                        "ERR Bad data format",
                        "ERR bloom object decoding failed",
                        "ERR bloom object decoding failed. Unsupported version",
                        "ERR received bad data",
                        "ERR operation exceeds bloom object memory limit",
                    ];
                    assert!(refusals.contains(&&*reply.text()), "{reply:?}");
                }
                Err(e) => panic!("{e} after {}", bytes.escape_ascii()),
            }
        }
        assert!(
            accepted > 50,
            "only {accepted} of form {form} were accepted"
        );
    }

    // Bytes that end early, in each form and at each place.
    for (form, values) in forms.iter().enumerate() {
        let value = &values[0];
        for end in 1..value.len() - 1 {
            let cut = &value[..end.max(if form == 0 { PREFIX.len() } else { 1 })];
            let sealed = seal([cut, &[0]].concat(), version);
            let (words, text): (&[&[u8]], &str) = match form {
                0 => (
                    &[b"RESTORE", b"forged", b"0", &sealed],
                    "ERR Bad data format",
                ),
                1 => (
                    &[b"BF.LOAD", b"forged", cut],
                    "ERR bloom object decoding failed",
                ),
                _ => (
                    &[b"BF.LOADCHUNK", b"forged", b"1", cut],
                    "ERR received bad data",
                ),
            };
            refuses(
                &mut client,
                &format!("{end} bytes of form {form}"),
                words,
                text,
            );
        }
    }
    assert_eq!(client.cmd("FLUSHALL"), ok());
    wait_until("the memory is as it was", || {
        memory(&server, "used_memory") - used < 512 * 1024
    });
    let grown = peak_address_space(&server) - peak;
    assert!(grown < 1 << 30, "{grown} bytes were asked for");
    let ledger = server.info("bf");
    assert_eq!(ledger["bf_bloom_num_objects"], "0");
    assert_eq!(ledger["bf_bloom_total_memory_bytes"], "0");
}

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
        bitmap_bytes: 2,
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
    // Two stacks of one period, as no write makes them.
    let mut twice = extended(1, &[1_000_000_000_000, 3]);
    let filter = [ForgedFilter::new(1, 1, vec![0x21; 8])];
    add(&mut twice, &[2, 1, 1], &filter);
    add(&mut twice, &[1, 1], &filter);
    all.push(("twice", twice, "ITEMS x", new()));

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
fn what_was_accepted_is_loaded_again() {
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

#[test]
fn a_corrupt_file_is_refused_in_words() {
    let mut server = Server::start();
    let mut client = server.client();
    let seed = b"a seed of thirty-two plain bytes";
    let create: [&[u8]; 6] = [b"BF.INSERT", b"k", b"SEED", seed, b"CAPACITY", b"10"];
    assert!(!client.call(&create).is_error());
    // The bits are compressed otherwise, the header with them.
    assert_eq!(client.cmd("CONFIG SET rdbcompression no"), ok());
    server.shutdown_save();

    let file = server.dir().join("dump.rdb");
    let mut bytes = fs::read(&file).unwrap();
    let found = bytes.windows(32).position(|window| window == seed);
    let seed_at = found.expect("the seed is in the file");
    // The number of hash functions stands before the seed.
    bytes[seed_at - 4..seed_at].copy_from_slice(&[0; 4]);
    let end = bytes.len() - 8;
    let checksum = crc64(&bytes[..end]);
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&file, &bytes).unwrap();

    let log = server.try_start_again().unwrap_err();
    assert!(
        log.contains("number of hash functions out of range"),
        "{log}"
    );
    assert!(!log.contains("BUG REPORT"), "{log}");
}

#[test]
fn a_log_of_nonsense_breaks_nothing() {
    let mut server = Server::with(&[("appendonly", "yes"), ("aof-use-rdb-preamble", "no")]);
    server.shutdown();
    let mut forged = Forged::new();
    forged.filters[0].hashes = 0;
    let (dump, header) = (forged.dump(), forged.header());
    let right = Forged::new().header();
    let commands: [&[&[u8]]; 8] = [
        &[b"SELECT", b"0"],
        &[b"BF.ADD", b"first", b"item"],
        &[b"BF.LOAD", b"bad", &dump],
        &[b"BF.LOADCHUNK", b"bad", b"1", &header],
        &[b"BF.LOADCHUNK", b"half", b"1", &right],
        &[b"BF.LOADCHUNK", b"half", b"9", b"abc"],
        &[b"BF.INSERT", b"bad", b"CAPACITY", b"0", b"ITEMS", b"a"],
        &[b"BF.ADD", b"last", b"item"],
    ];
    let mut log = Vec::new();
    for command in commands {
        log.extend(format!("*{}\r\n", command.len()).bytes());
        for word in command {
            log.extend(format!("${}\r\n", word.len()).bytes());
            log.extend(*word);
            log.extend(b"\r\n");
        }
    }
    let file = "appendonlydir/appendonly.aof.1.incr.aof";
    fs::write(server.dir().join(file), log).unwrap();
    server.start_again();
    let mut client = server.client();
    assert_eq!(client.cmd("BF.EXISTS first item"), int(1));
    assert_eq!(client.cmd("BF.EXISTS last item"), int(1));
    assert_eq!(client.cmd("BF.LOADCHUNK half 4 abc"), ok());
    assert_eq!(client.cmd("DBSIZE"), int(3));
}
