//! The stored forms: golden bytes, and what is refused. The bytes here are put together by a writer
//! of this file's own, after the description of the format and not after the codec.

use std::collections::VecDeque;

use valkeybloom::bloom::chunks::{self, Partial};
use valkeybloom::bloom::codec::{self, DecodeError, RdbRead};
use valkeybloom::bloom::{BloomObject, Limits, Seed};

use crate::support::{Field, Rng, Stream, add_new, grow, has, object, params};

/// The seed of objects without randomness, as users of the format know it.
const FIXED: [u8; 32] = [
    89, 15, 245, 34, 234, 120, 17, 218, 167, 20, 216, 9, 59, 62, 123, 217, 29, 137, 138, 115, 62,
    152, 136, 135, 48, 127, 151, 205, 40, 7, 51, 131,
];

/// An object of which each field can be written as it must not be.
#[derive(Clone)]
struct Draft {
    version: u8,
    expansion: u64,
    error_rate: f64,
    tightening: f64,
    seed_is_random: u64,
    /// What is written for the number of filters, if it is not their number.
    count: Option<u64>,
    filters: Vec<FilterDraft>,
    behind: &'static [u8],
}

#[derive(Clone)]
struct FilterDraft {
    version: u8,
    /// What is written for the length of the bitmap, if it is not its length.
    bitmap_bytes: Option<u64>,
    hashes: u32,
    seed: [u8; 32],
    bitmap: Vec<u8>,
    /// What is left of the blob, if it is cut.
    cut: Option<usize>,
    /// What is written for the length of the blob, if it is not its length.
    length: Option<u64>,
    capacity: u64,
    items: u64,
}

impl FilterDraft {
    fn blob(&self) -> Vec<u8> {
        let mut blob = vec![self.version];
        let bytes = self.bitmap_bytes.unwrap_or(self.bitmap.len() as u64);
        blob.extend(bytes.to_le_bytes());
        blob.extend(self.hashes.to_le_bytes());
        blob.extend(self.seed);
        blob.extend(&self.bitmap);
        blob.truncate(self.cut.unwrap_or(blob.len()));
        blob
    }
}

impl Draft {
    /// A valid one of two filters, the first of them full.
    fn valid() -> Self {
        let filter = |bitmap: &[u8], hashes, capacity, items| FilterDraft {
            version: 1,
            bitmap_bytes: None,
            hashes,
            seed: FIXED,
            bitmap: bitmap.to_vec(),
            cut: None,
            length: None,
            capacity,
            items,
        };
        Self {
            version: 1,
            expansion: 2,
            error_rate: 0.1,
            tightening: 0.5,
            seed_is_random: 0,
            count: None,
            filters: vec![
                filter(&[0xa5, 0x01, 0x80], 4, 3, 3),
                filter(&[0x11, 0x22, 0x33, 0x44, 0x00], 6, 6, 2),
            ],
            behind: &[],
        }
    }

    fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut draft = Self::valid();
        change(&mut draft);
        draft
    }

    fn bytes(&self, version: u8, cut: bool) -> Vec<u8> {
        let mut out = vec![version];
        out.extend(u32::try_from(self.expansion).unwrap().to_le_bytes());
        out.extend(self.error_rate.to_le_bytes());
        out.extend(self.tightening.to_le_bytes());
        out.push(u8::try_from(self.seed_is_random).unwrap());
        let count = self.count.unwrap_or(self.filters.len() as u64);
        out.extend(count.to_le_bytes());
        for filter in &self.filters {
            let mut blob = filter.blob();
            if cut {
                blob.truncate(45);
            }
            let length = filter.length.unwrap_or(blob.len() as u64);
            out.extend(length.to_le_bytes());
            out.extend(blob);
            out.extend(filter.items.to_le_bytes());
            out.extend(filter.capacity.to_le_bytes());
        }
        out.extend(self.behind);
        out
    }

    fn dump(&self) -> Vec<u8> {
        self.bytes(self.version, false)
    }

    fn header(&self) -> Vec<u8> {
        self.bytes(self.version | 0x80, true)
    }

    fn rdb(&self) -> Stream {
        let count = self.count.unwrap_or(self.filters.len() as u64);
        let mut fields = VecDeque::from([
            Field::Uint(count),
            Field::Uint(self.expansion),
            Field::Double(self.error_rate),
            Field::Double(self.tightening),
            Field::Uint(self.seed_is_random),
        ]);
        for filter in &self.filters {
            fields.push_back(Field::Bytes(filter.blob()));
            fields.push_back(Field::Uint(filter.capacity));
        }
        if let Some(newest) = self.filters.last() {
            fields.push_back(Field::Uint(newest.items));
        }
        Stream(fields)
    }
}

/// Reads a whole stream: the count, and what is behind it.
fn read_rdb(mut stream: Stream) -> Result<BloomObject, DecodeError> {
    let count = stream.uint()?;
    let object = codec::read_rdb(count, &mut stream)?;
    assert_eq!(stream, Stream::default(), "left behind");
    Ok(object)
}

fn written_rdb(object: &BloomObject) -> Stream {
    let mut stream = Stream::default();
    codec::write_rdb(object, &mut stream);
    stream
}

/// Reads a header; no limits are in the way here, so an error is one of decoding.
fn read_header(header: &[u8]) -> Result<Partial, DecodeError> {
    Partial::new(header, Limits::Obey).map_err(|error| error.expect("refused by limits"))
}

fn header_of(object: &BloomObject) -> Vec<u8> {
    let (next, piece) = chunks::piece(object, 0);
    assert_eq!(next, 1);
    piece.bytes().to_vec()
}

/// The published vector: 100 items at 1 %, non-scaling, the fixed seed, holding `item`.
#[test]
fn the_published_vector_to_the_byte() {
    let mut object = object(&params(100, 0.01, 0), Seed::FIXED);
    add_new(&mut object, b"item");

    let mut blob = vec![1, 0x78, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0];
    blob.extend(FIXED);
    let mut bitmap = [0_u8; 120];
    for bit in [701, 8, 461, 213, 925, 677, 429] {
        bitmap[bit / 8] |= 1 << (bit % 8);
    }
    blob.extend(bitmap);
    assert!(object.filters()[0].blob() == blob);

    let prefix = |version| {
        let mut bytes = vec![version, 0, 0, 0, 0];
        bytes.extend([0x7b, 0x14, 0xae, 0x47, 0xe1, 0x7a, 0x84, 0x3f]);
        bytes.extend([0, 0, 0, 0, 0, 0, 0xe0, 0x3f]);
        bytes.push(0);
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    };
    let counts = [1, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0];
    let mut dump = prefix(1);
    dump.extend([165, 0, 0, 0, 0, 0, 0, 0]);
    dump.extend(&blob);
    dump.extend(counts);
    assert_eq!(dump.len(), 219);
    assert!(codec::encode(&object) == dump);
    assert_eq!(codec::encoded_len(&object), 219);

    let mut header = prefix(129);
    header.extend([45, 0, 0, 0, 0, 0, 0, 0]);
    header.extend(&blob[..45]);
    header.extend(counts);
    assert!(header_of(&object) == header);

    let fields = Stream(VecDeque::from([
        Field::Uint(1),
        Field::Uint(0),
        Field::Double(0.01),
        Field::Double(0.5),
        Field::Uint(0),
        Field::Bytes(blob),
        Field::Uint(100),
        Field::Uint(1),
    ]));
    assert_eq!(written_rdb(&object), fields);

    for read in [codec::decode(&dump).unwrap(), read_rdb(fields).unwrap()] {
        assert!(has(&read, b"item"));
        assert!(!has(&read, b"other"));
        assert_eq!((read.items(), read.capacity()), (1, 100));
        assert_eq!(*read.seed(), Seed::FIXED);
    }
}

#[test]
fn sizes_of_the_default_object() {
    // As valkey-bloom makes it (non-scaling, or its first filter at the whole rate) and as this
    // program makes a scaling one: the first filter at half the rate, so 138 bytes and not 120.
    for (expansion, bytes) in [(0, 219), (2, 237)] {
        let object = object(&params(100, 0.01, expansion), Seed::FIXED);
        assert_eq!(codec::encode(&object).len(), bytes);
    }
}

#[test]
fn every_form_is_as_the_description_says() {
    let mut rng = Rng::new(1);
    for filters in [1, 2, 7, 30] {
        let seed = rng.seed();
        let mut object = object(&params(4, 0.1, 1), seed);
        grow(&mut object, &mut rng, |object| {
            object.filters().len() == filters
        });
        let draft = Draft {
            expansion: 1,
            seed_is_random: 1,
            filters: object
                .filters()
                .iter()
                .map(|filter| FilterDraft {
                    version: 1,
                    bitmap_bytes: None,
                    hashes: filter.hashes(),
                    seed: *seed.as_bytes(),
                    bitmap: filter.bitmap().to_vec(),
                    cut: None,
                    length: None,
                    capacity: filter.capacity(),
                    items: filter.items(),
                })
                .collect(),
            ..Draft::valid()
        };
        assert!(codec::encode(&object) == draft.dump());
        assert!(header_of(&object) == draft.header());
        assert_eq!(written_rdb(&object), draft.rdb());
        // Unequal items would show if those of the last filter went to another.
        assert_eq!(
            codec::decode(&draft.dump()).unwrap().items(),
            object.items()
        );
        assert_eq!(read_rdb(draft.rdb()).unwrap().items(), object.items());
    }
}

/// What is unusual and still an object: it is read, and comes out as it went in.
#[test]
fn what_is_odd_is_kept_as_it_is() {
    type Change = fn(&mut Draft);
    let odd: [(&str, Change); 11] = [
        ("as it is", |_| ()),
        ("one hash", |d| d.filters[1].hashes = 1),
        ("4096 hashes", |d| d.filters[1].hashes = 4096),
        ("no items in the newest", |d| d.filters[1].items = 0),
        ("newest is full", |d| d.filters[1].items = 6),
        ("smaller newest filter", |d| {
            (d.filters[1].capacity, d.filters[1].items) = (1, 1);
        }),
        ("largest capacity", |d| {
            d.filters[1].capacity = (1 << 63) - 1 - 3;
        }),
        ("largest expansion", |d| d.expansion = u64::from(u32::MAX)),
        ("rates at their ends", |d| {
            (d.error_rate, d.tightening) = (5e-324, 1.0 - f64::EPSILON / 2.0);
        }),
        ("another seed", |d| {
            d.seed_is_random = 1;
            d.filters[0].seed = [0; 32];
            d.filters[1].seed = [0; 32];
        }),
        ("saturated", |d| {
            (d.expansion, d.filters[1].items) = (0, 1_000_000);
        }),
    ];
    for (name, change) in odd {
        let draft = Draft::with(change);
        let decoded = codec::decode(&draft.dump()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(codec::encode(&decoded) == draft.dump(), "{name}");
        let read = read_rdb(draft.rdb()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(written_rdb(&read), draft.rdb(), "{name}");
        let partial = read_header(&draft.header()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let pieces: Vec<_> = partial.pieces().collect();
        assert!(pieces == [(1, &draft.header()[..])], "{name}");
        survives_use(decoded);
        survives_use(read);
    }
}

/// The flag tells where the seed came from; a drawn one may be the fixed one by chance or by
/// wish, and is written as such from then on.
#[test]
fn a_drawn_seed_may_be_the_fixed_one() {
    let draft = Draft::with(|d| d.seed_is_random = 1);
    let expected = Draft::valid();
    let decoded = codec::decode(&draft.dump()).unwrap();
    assert!(codec::encode(&decoded) == expected.dump());
    assert_eq!(written_rdb(&read_rdb(draft.rdb()).unwrap()), expected.rdb());
}

/// What each form answers to a draft: `None` where the form has no way to say such a thing.
struct Refusals {
    dump: Option<DecodeError>,
    header: Option<DecodeError>,
    rdb: Option<DecodeError>,
}

const fn all(what: &'static str) -> Refusals {
    let error = Some(DecodeError::Malformed(what));
    Refusals {
        dump: error,
        header: error,
        rdb: error,
    }
}

/// A length or a count of filters that only the bytes tell, each form in its own way.
const TRUNCATED: Refusals = Refusals {
    dump: Some(DecodeError::Truncated),
    header: Some(DecodeError::Truncated),
    rdb: Some(DecodeError::Truncated),
};

const fn not_in_header(what: &'static str) -> Refusals {
    Refusals {
        header: None,
        ..all(what)
    }
}

const fn not_in_rdb(what: &'static str) -> Refusals {
    Refusals {
        rdb: None,
        ..all(what)
    }
}

#[track_caller]
fn refused(name: &str, expected: &Refusals, change: impl FnOnce(&mut Draft)) {
    let draft = Draft::with(change);
    if expected.dump.is_some() {
        let error = codec::decode(&draft.dump()).err();
        assert_eq!(error, expected.dump, "dump: {name}");
    }
    if expected.header.is_some() {
        let error = read_header(&draft.header()).err();
        assert_eq!(error, expected.header, "header: {name}");
    }
    if expected.rdb.is_some() {
        let mut stream = draft.rdb();
        let count = stream.uint().unwrap();
        let error = codec::read_rdb(count, &mut stream).err();
        assert_eq!(error, expected.rdb, "RDB fields: {name}");
    }
}

#[test]
fn wrong_numbers_of_filters_are_refused() {
    refused("none", &all("no filters"), |d| d.filters.clear());
    for more in [3, 1 << 16, 1 << 32, 1 << 63, u64::MAX] {
        refused("more than there are", &TRUNCATED, |d| d.count = Some(more));
    }
    let behind = Refusals {
        rdb: Some(DecodeError::Truncated),
        ..all("bytes behind the object")
    };
    refused("fewer than there are", &behind, |d| d.count = Some(1));
    refused(
        "none, and two behind",
        &not_in_rdb("bytes behind the object"),
        |d| {
            d.count = Some(0);
        },
    );
    refused(
        "bytes behind",
        &not_in_rdb("bytes behind the object"),
        |d| {
            d.behind = &[0];
        },
    );
}

#[test]
fn wrong_blobs_are_refused() {
    for index in [0, 1] {
        for cut in [0, 1, 9, 13, 44] {
            let short = Refusals {
                header: Some("header holds more than headers".into()),
                ..all("filter shorter than its header")
            };
            refused("cut header", &short, |d| d.filters[index].cut = Some(cut));
        }
        let length = not_in_header("filter's length is not what its header says");
        for cut in [45, 47] {
            refused("cut bitmap", &length, |d| d.filters[index].cut = Some(cut));
        }
        refused("short bitmap", &length, |d| {
            d.filters[index].bitmap_bytes = Some(d.filters[index].bitmap.len() as u64 + 1);
        });
        refused("long bitmap", &length, |d| {
            d.filters[index].bitmap_bytes = Some(d.filters[index].bitmap.len() as u64 - 1);
        });
        for claim in [1 << 32, 1 << 40, (1 << 59) - 1] {
            refused("claim of a large bitmap", &length, |d| {
                d.filters[index].bitmap_bytes = Some(claim);
            });
        }
        for claim in [1 << 60, 1 << 61, 1 << 63, u64::MAX - 44, u64::MAX] {
            refused(
                "claim beyond memory",
                &all("filter larger than memory"),
                |d| {
                    d.filters[index].bitmap_bytes = Some(claim);
                },
            );
        }
        refused("zero bits", &all("filter of zero bits"), |d| {
            d.filters[index].bitmap.clear();
        });
        refused("zero bits are said", &all("filter of zero bits"), |d| {
            d.filters[index].bitmap_bytes = Some(0);
        });
        for version in [0, 3, 255] {
            refused(
                "blob of another version",
                &all("filter of unknown version"),
                |d| {
                    d.filters[index].version = version;
                },
            );
        }
        refused("counters", &all("filter of other cells"), |d| {
            d.filters[index].version = 2;
        });
        for hashes in [0, 4097, 1 << 31, u32::MAX] {
            let error = all("number of hash functions out of range");
            refused("absurd k", &error, |d| d.filters[index].hashes = hashes);
        }
    }
    for length in [1 << 32, 1 << 63, u64::MAX - 8, u64::MAX] {
        let error = Refusals {
            rdb: None,
            ..TRUNCATED
        };
        refused("blob longer than the bytes", &error, |d| {
            d.filters[1].length = Some(length);
        });
    }
    refused(
        "sum of claims over 63 bits",
        &all("sum out of range"),
        |d| {
            d.filters[0].bitmap_bytes = Some(1 << 59);
            d.filters = vec![d.filters[0].clone(); 17];
        },
    );
}

#[test]
fn wrong_parameters_are_refused() {
    let out = [
        0.0,
        -0.0,
        1.0,
        -0.1,
        1.5,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        1.0 + f64::EPSILON,
        -5e-324,
    ];
    for rate in out {
        refused("error rate", &all("error rate out of range"), |d| {
            d.error_rate = rate;
        });
        refused("ratio", &all("tightening ratio out of range"), |d| {
            d.tightening = rate;
        });
    }
    for expansion in [1 << 32, u64::MAX] {
        let error = Refusals {
            dump: None,
            header: None,
            ..all("expansion out of range")
        };
        refused("expansion over u32", &error, |d| d.expansion = expansion);
    }
    for flag in [2, 3, 255] {
        refused("flag", &all("seed flag out of range"), |d| {
            d.seed_is_random = flag;
        });
    }
    for flag in [256, 1 << 32, u64::MAX] {
        let error = Refusals {
            dump: None,
            header: None,
            ..all("seed flag out of range")
        };
        refused("flag of many bytes", &error, |d| d.seed_is_random = flag);
    }
    refused(
        "unnamed seed",
        &all("fixed seed that is not the fixed one"),
        |d| {
            d.filters[0].seed[31] ^= 1;
            d.filters[1].seed[31] ^= 1;
        },
    );
    for (flag, index) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        refused("two seeds", &all("filters of different seeds"), |d| {
            d.seed_is_random = flag;
            d.filters[index].seed[0] ^= 0x80;
        });
    }
}

#[test]
fn wrong_counts_of_items_are_refused() {
    for items in [7, 1 << 32, (1 << 63) - 4] {
        refused(
            "more items than capacity",
            &all("more items than capacity"),
            |d| {
                d.filters[1].items = items;
            },
        );
    }
    for items in [0, 2, 4, 1 << 62] {
        let error = not_in_rdb("filter stacked on one that is not full");
        refused("older filter not just full", &error, |d| {
            d.filters[0].items = items;
        });
    }
    for index in [0, 1] {
        refused("capacity 0", &all("capacity of zero"), |d| {
            (d.filters[index].capacity, d.filters[index].items) = (0, 0);
        });
        // Negative numbers, in the signed fields of the dump.
        for capacity in [1 << 63, u64::MAX - 2, u64::MAX] {
            refused("capacity over i64", &all("sum out of range"), |d| {
                d.filters[index].capacity = capacity;
                // An older filter is full, so that only the capacity is wrong.
                d.filters[0].items = d.filters[0].capacity;
            });
        }
    }
    for expansion in [0, 2] {
        refused("capacities over i64", &all("sum out of range"), |d| {
            d.expansion = expansion;
            d.filters[1].capacity = (1 << 63) - 3;
        });
    }
    for items in [(1 << 63) - 3, 1 << 63, u64::MAX - 2, u64::MAX] {
        refused("items over i64", &all("sum out of range"), |d| {
            d.expansion = 0;
            d.filters[1].items = items;
        });
    }
}

#[test]
fn other_versions_are_refused_as_such() {
    let unsupported = Some(DecodeError::UnsupportedVersion);
    for version in 0..=255 {
        let dump = Draft::with(|d| d.version = version).dump();
        let header = Draft::valid().bytes(version, true);
        if version != 1 {
            assert_eq!(codec::decode(&dump).err(), unsupported, "{version}");
            assert_eq!(codec::decode(&[version]).err(), unsupported, "{version}");
        }
        if version != 0x81 {
            assert_eq!(read_header(&header).err(), unsupported, "{version}");
        }
    }
    // Neither form is taken for the other.
    assert_eq!(codec::decode(&Draft::valid().header()).err(), unsupported);
    assert_eq!(read_header(&Draft::valid().dump()).err(), unsupported);
    // Nor bytes that hold bitmaps for a header, where they have its version.
    let full = Draft::valid().bytes(0x81, false);
    let error = DecodeError::Malformed("header holds more than headers");
    assert_eq!(read_header(&full).err(), Some(error));
}

#[test]
fn every_truncation_is_refused() {
    let dump = Draft::valid().dump();
    assert!(codec::decode(&dump).is_ok());
    for end in 0..dump.len() {
        let error = codec::decode(&dump[..end]).err();
        assert_eq!(error, Some(DecodeError::Truncated), "dump of {end} bytes");
    }
    let header = Draft::valid().header();
    assert!(read_header(&header).is_ok());
    for end in 0..header.len() {
        let error = read_header(&header[..end]).err();
        assert_eq!(error, Some(DecodeError::Truncated), "header of {end} bytes");
    }
    let fields = Draft::valid().rdb();
    assert!(read_rdb(fields.clone()).is_ok());
    for end in 0..fields.0.len() {
        let cut = Stream(fields.0.iter().take(end).cloned().collect());
        let error = read_rdb(cut).err();
        assert_eq!(error, Some(DecodeError::Truncated), "{end} fields");
    }
}

#[test]
fn a_field_of_another_kind_is_refused() {
    let fields = Draft::valid().rdb();
    for index in 0..fields.0.len() {
        for other in [
            Field::Uint(1),
            Field::Double(0.5),
            Field::Bytes(vec![1; 60]),
        ] {
            let same = std::mem::discriminant(&other) == std::mem::discriminant(&fields.0[index]);
            if !same {
                let mut fields = fields.clone();
                fields.0[index] = other;
                let error = read_rdb(fields).err();
                assert_eq!(error, Some(DecodeError::Truncated), "field {index}");
            }
        }
    }
}

/// Does with an object all that can be done, within limits that keep this small. What was decoded
/// must bear it, whatever its numbers are.
fn survives_use(mut object: BloomObject) {
    let limits = Limits::Within {
        filter_bytes: 1 << 16,
        object_bytes: 1 << 20,
        saturate: true,
    };
    for item in 0..20_u8 {
        let probe = object.probe(&[item]);
        if object.add(probe, || limits).is_ok() {
            assert!(object.contains(probe));
        }
    }
    let items = [&b"a"[..], b"b", b""];
    object.contains_each(items.into_iter(), |_| ());
    object.add_each(items.into_iter(), || limits, |_| ());
    assert!(object.max_scaled_capacity(limits) >= object.capacity());
    assert!(object.max_scaled_capacity(Limits::Obey) >= object.capacity());
    for index in 0..object.filters().len() {
        let rate = object.filter_rate(index);
        assert!((0.0..=1.0).contains(&rate), "rate {rate}");
    }
    let copy = object.try_clone().unwrap();
    assert!(
        codec::encode(&codec::decode(&codec::encode(&copy)).unwrap()) == codec::encode(&object)
    );
}

/// What a valid object's bytes are when they are written again: the same, but that the seed's flag
/// follows from the seed.
fn settled(mut dump: Vec<u8>) -> Vec<u8> {
    const FLAG: usize = 1 + 4 + 8 + 8;
    const SEED: usize = FLAG + 1 + 8 + 8 + 13;
    dump[FLAG] = u8::from(dump[SEED..SEED + 32] != FIXED);
    dump
}

/// Decodes what may be an object or not, in both forms of bytes.
fn try_bytes(dump: &[u8], header: &[u8]) -> usize {
    let mut valid = 0;
    if let Ok(object) = codec::decode(dump) {
        assert!(codec::encode(&object) == settled(dump.to_vec()), "{dump:?}");
        survives_use(object);
        valid += 1;
    }
    if let Ok(partial) = read_header(header) {
        assert_eq!(partial.pieces().count(), 1);
        // No more memory than a small multiple of what came, whatever it claims.
        assert!(partial.memory_bytes() < 1000 + 10 * header.len() as u64);
        valid += 1;
    }
    valid
}

#[test]
fn every_flipped_bit_is_refused_or_another_object() {
    let (dump, header) = (Draft::valid().dump(), Draft::valid().header());
    let mut valid = 0;
    for bit in 0..dump.len() * 8 {
        let mut dump = dump.clone();
        dump[bit / 8] ^= 1 << (bit % 8);
        valid += try_bytes(&dump, &[]);
    }
    for bit in 0..header.len() * 8 {
        let mut header = header.clone();
        header[bit / 8] ^= 1 << (bit % 8);
        valid += try_bytes(&[], &header);
    }
    // Both kinds are among them: the bits of the bitmaps alone are 64 objects.
    assert!(valid > 100, "{valid} were valid");
    assert!(
        valid < (dump.len() + header.len()) * 4,
        "{valid} were valid"
    );
}

#[test]
fn every_flipped_bit_of_the_fields_is_refused_or_another_object() {
    let fields = Draft::valid().rdb();
    let mut valid = 0;
    for index in 0..fields.0.len() {
        let bits = match &fields.0[index] {
            Field::Bytes(bytes) => bytes.len() * 8,
            _ => 64,
        };
        for bit in 0..bits {
            let mut fields = fields.clone();
            match &mut fields.0[index] {
                Field::Uint(value) => *value ^= 1 << bit,
                Field::Double(value) => *value = f64::from_bits(value.to_bits() ^ 1 << bit),
                Field::Bytes(bytes) => bytes[bit / 8] ^= 1 << (bit % 8),
            }
            let mut stream = fields.clone();
            let count = stream.uint().unwrap();
            let Ok(object) = codec::read_rdb(count, &mut stream) else {
                continue;
            };
            // The server looks at what is behind the value, as at the count before it.
            if !stream.0.is_empty() {
                continue;
            }
            if fields.0[4] == Field::Uint(1) {
                fields.0[4] = Field::Uint(u64::from(object.seed().is_random()));
            }
            assert_eq!(written_rdb(&object), fields);
            survives_use(object);
            valid += 1;
        }
    }
    assert!(valid > 64, "{valid} were valid");
}

/// Mutations of several places at once, by the numbers that have hurt decoders.
#[test]
fn mutated_bytes_are_refused_or_another_object() {
    const NUMBERS: [u64; 14] = [
        0,
        1,
        2,
        7,
        45,
        48,
        255,
        u32::MAX as u64,
        1 << 32,
        (1 << 60) - 1,
        (1 << 63) - 1,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ];
    let mut rng = Rng::new(2);
    let mutate = |rng: &mut Rng, bytes: &mut Vec<u8>| {
        for _ in 0..=rng.below(3) {
            let at = rng.below(bytes.len());
            match rng.below(5) {
                0 => bytes[at] = u8::try_from(rng.below(256)).unwrap(),
                1 => bytes[at] ^= 1 << rng.below(8),
                2 => {
                    let number = rng.pick(&NUMBERS).to_le_bytes();
                    let end = bytes.len().min(at + 8);
                    bytes[at..end].copy_from_slice(&number[..end - at]);
                }
                3 => {
                    // Some bytes come twice, or are left out.
                    let end = bytes.len().min(at + 1 + rng.below(80));
                    let run = bytes[at..end].to_vec();
                    if rng.below(2) == 0 {
                        bytes.splice(at..at, run);
                    } else {
                        bytes.drain(at..end);
                    }
                }
                _ => {
                    let end = bytes.len().min(at + 8);
                    let value = rng.next().to_le_bytes();
                    bytes[at..end].copy_from_slice(&value[..end - at]);
                }
            }
            if bytes.is_empty() {
                bytes.push(1);
            }
        }
    };
    let mut valid = 0;
    for _ in 0..100_000 {
        let (mut dump, mut header) = (Draft::valid().dump(), Draft::valid().header());
        mutate(&mut rng, &mut dump);
        mutate(&mut rng, &mut header);
        valid += try_bytes(&dump, &header);
    }
    assert!(valid > 1000, "{valid} were valid");
}

#[test]
fn any_object_is_the_same_after_a_round_trip() {
    let mut rng = Rng::new(3);
    for _ in 0..200 {
        let capacity = 1 + rng.below(50) as u64;
        let expansion = *rng.pick(&[0, 1, 2, 5]);
        let rate = *rng.pick(&[0.4, 0.01, 1e-7]);
        let mut object = object(&params(capacity, rate, expansion), rng.seed());
        let mut items = Vec::new();
        for _ in 0..rng.below(300) {
            let item = rng.bytes(8);
            let probe = object.probe(&item);
            object.add(probe, || Limits::Obey).unwrap();
            items.push(item);
        }
        let dump = codec::encode(&object);
        assert_eq!(codec::encoded_len(&object), dump.len());
        for copy in [
            codec::decode(&dump).unwrap(),
            read_rdb(written_rdb(&object)).unwrap(),
        ] {
            assert!(codec::encode(&copy) == dump);
            assert_eq!(written_rdb(&copy), written_rdb(&object));
            assert_eq!(copy.params(), object.params());
            assert_eq!(copy.memory_bytes(), object.memory_bytes());
            assert!(items.iter().all(|item| has(&copy, item)));
        }
    }
}
