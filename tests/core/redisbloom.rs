//! Objects of RedisBloom: its encodings, old ones too, against its rules written down once more.
//!
//! What RedisBloom itself wrote, and how its objects grow, is tested on servers.

use valkeybloom::bloom::chunks::{self, Partial, Progress};
use valkeybloom::bloom::codec::{self, DecodeError, RdbRead};
use valkeybloom::bloom::{Added, BloomObject, Family, Limits, Refusal};

use crate::support::{Field, ROOMY, Rng, Stream, add, at_each_width, has};

/// `MurmurHash64A` by its published description, byte by byte.
fn murmur_64(item: &[u8], seed: u64) -> u64 {
    let m = 0xc6a4_a793_5bd1_e995_u64;
    let mut hash = seed ^ m.wrapping_mul(item.len() as u64);
    let whole = item.len() / 8 * 8;
    for start in (0..whole).step_by(8) {
        let mut k = u64::from_le_bytes(item[start..start + 8].try_into().unwrap());
        k = k.wrapping_mul(m);
        k ^= k >> 47;
        k = k.wrapping_mul(m);
        hash ^= k;
        hash = hash.wrapping_mul(m);
    }
    for index in (whole..item.len()).rev() {
        hash ^= u64::from(item[index]) << (8 * (index - whole));
        if index == whole {
            hash = hash.wrapping_mul(m);
        }
    }
    hash ^= hash >> 47;
    hash = hash.wrapping_mul(m);
    hash ^ (hash >> 47)
}

/// `MurmurHash2` of 32 bits, likewise.
fn murmur_32(item: &[u8], seed: u32) -> u32 {
    let m = 0x5bd1_e995_u32;
    let mut hash = seed ^ u32::try_from(item.len()).unwrap();
    let whole = item.len() / 4 * 4;
    for start in (0..whole).step_by(4) {
        let mut k = u32::from_le_bytes(item[start..start + 4].try_into().unwrap());
        k = k.wrapping_mul(m);
        k ^= k >> 24;
        k = k.wrapping_mul(m);
        hash = hash.wrapping_mul(m) ^ k;
    }
    for index in (whole..item.len()).rev() {
        hash ^= u32::from(item[index]) << (8 * (index - whole));
        if index == whole {
            hash = hash.wrapping_mul(m);
        }
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(m);
    hash ^ (hash >> 15)
}

/// The positions of an item in a link.
fn positions(item: &[u8], wide: bool, hashes: u64, modulus: u64) -> Vec<u64> {
    let (a, b) = if wide {
        let a = murmur_64(item, 0xc6a4_a793_5bd1_e995);
        (a, murmur_64(item, a))
    } else {
        let a = murmur_32(item, 0x9747_b28c);
        (u64::from(a), u64::from(murmur_32(item, a)))
    };
    (0..hashes)
        .map(|i| a.wrapping_add(i.wrapping_mul(b)) % modulus)
        .collect()
}

/// A link as a file may hold it.
#[derive(Clone, Debug)]
struct Link {
    entries: u64,
    error: f64,
    hashes: u64,
    bpe: f64,
    bits: u64,
    n2: u64,
    bitmap: Vec<u8>,
    items: u64,
}

impl Link {
    fn new(entries: u64, error: f64, bits: u64, n2: u64) -> Self {
        let bpe = -error.ln() / 0.480_453_013_918_201;
        Self {
            entries,
            error,
            hashes: 7,
            bpe,
            bits,
            n2,
            bitmap: vec![0; usize::try_from(bits.div_ceil(8)).unwrap()],
            items: 0,
        }
    }

    fn modulus(&self) -> u64 {
        if self.n2 > 0 { 1 << self.n2 } else { self.bits }
    }

    fn add(&mut self, item: &[u8], wide: bool) {
        for position in positions(item, wide, self.hashes, self.modulus()) {
            self.bitmap[usize::try_from(position / 8).unwrap()] |= 1 << (position % 8);
        }
        self.items += 1;
    }

    fn has(&self, item: &[u8], wide: bool) -> bool {
        positions(item, wide, self.hashes, self.modulus())
            .into_iter()
            .all(|p| self.bitmap[usize::try_from(p / 8).unwrap()] >> (p % 8) & 1 == 1)
    }
}

/// An object as a file may hold it.
#[derive(Clone, Debug)]
struct Draft {
    version: i32,
    items: u64,
    options: u64,
    growth: u64,
    links: Vec<Link>,
}

impl Draft {
    fn fields(&self) -> Stream {
        let mut fields = vec![
            Field::Uint(self.items),
            Field::Uint(self.links.len() as u64),
        ];
        if self.version >= 2 {
            fields.push(Field::Uint(self.options));
        }
        if self.version >= 4 {
            fields.push(Field::Uint(self.growth));
        }
        for link in &self.links {
            fields.push(Field::Uint(link.entries));
            fields.push(Field::Double(link.error));
            fields.push(Field::Uint(link.hashes));
            fields.push(Field::Double(link.bpe));
            if self.version >= 1 {
                fields.push(Field::Uint(link.bits));
                fields.push(Field::Uint(link.n2));
            }
            fields.push(Field::Bytes(link.bitmap.clone()));
            fields.push(Field::Uint(link.items));
        }
        Stream(fields.into())
    }

    fn read(&self) -> Result<BloomObject, DecodeError> {
        read(self.fields(), self.version)
    }

    /// The header of a chunked dump.
    fn header(&self) -> Vec<u8> {
        let mut header = self.items.to_le_bytes().to_vec();
        header.extend(u32::try_from(self.links.len()).unwrap().to_le_bytes());
        header.extend(&self.options.to_le_bytes()[..4]);
        header.extend(&self.growth.to_le_bytes()[..4]);
        for link in &self.links {
            header.extend((link.bitmap.len() as u64).to_le_bytes());
            header.extend(link.bits.to_le_bytes());
            header.extend(link.items.to_le_bytes());
            header.extend(link.error.to_le_bytes());
            header.extend(link.bpe.to_le_bytes());
            header.extend(&link.hashes.to_le_bytes()[..4]);
            header.extend(link.entries.to_le_bytes());
            header.push(link.n2.to_le_bytes()[0]);
        }
        header
    }
}

fn read(mut stream: Stream, version: i32) -> Result<BloomObject, DecodeError> {
    let items = stream.uint()?;
    let links = stream.uint()?;
    codec::read_redisbloom(items, links, version, &mut stream)
}

/// An object of each encoding and option, half full.
fn drafts() -> Vec<Draft> {
    // 958 bits in 120 bytes, as the first release sized a filter for 100 at 0.01.
    let old = Link::new(100, 0.01, 958, 0);
    let rounded = Link::new(106, 0.01, 1024, 10);
    let padded = Link {
        bitmap: vec![0; 144],
        ..Link::new(100, 0.005, 1152, 0)
    };
    // Two to the power of 4 are used of 64 bits.
    let small = Link {
        bitmap: vec![0; 8],
        ..Link::new(2, 0.05, 64, 4)
    };
    let mut drafts = Vec::new();
    for (version, options, first) in [
        (0, 0, &old),
        (1, 0, &rounded),
        (1, 0, &old),
        (2, 4, &rounded),
        (2, 0, &small),
        (3, 4, &rounded),
        (3, 5, &padded),
        (4, 5, &padded),
        (4, 13, &padded),
        (4, 4, &rounded),
        (4, 7, &padded),
    ] {
        let mut links = vec![first.clone()];
        if options & 8 == 0 {
            let entries = first.entries * 2;
            links.push(match version {
                // The first encoding does not say how many bits there are.
                0 => Link::new(entries, first.error, 1917, 0),
                _ => Link {
                    entries,
                    ..first.clone()
                },
            });
        }
        drafts.push(Draft {
            version,
            items: 0,
            options,
            growth: 2,
            links,
        });
    }
    let mut rng = Rng::new(21);
    for draft in &mut drafts {
        let wide = draft.options & 4 != 0;
        let last = draft.links.len() - 1;
        for (index, link) in draft.links.iter_mut().enumerate() {
            let count = if index < last {
                link.entries
            } else {
                link.entries / 2
            };
            for _ in 0..count {
                let length = rng.below(30);
                link.add(&rng.bytes(length), wide);
                draft.items += 1;
            }
        }
    }
    drafts
}

#[test]
fn the_published_vectors() {
    for (item, expected) in [
        ("foo", [269, 847, 145, 723, 21, 599, 25, 475]),
        ("item", [1087, 659, 231, 955, 527, 99, 823, 395]),
        ("", [366, 1077, 764, 451, 138, 849, 536, 223]),
        ("a", [1034, 539, 172, 829, 462, 1119, 752, 257]),
        ("12345678", [68, 680, 12, 624, 1108, 568, 1052, 512]),
        ("123456789", [611, 414, 217, 1044, 847, 650, 325, 128]),
    ] {
        assert_eq!(
            positions(item.as_bytes(), true, 8, 1152),
            expected,
            "{item}"
        );
        // An object with these bits alone has this item.
        let mut link = Link::new(100, 0.005, 1152, 0);
        link.hashes = 8;
        for position in expected {
            link.bitmap[usize::try_from(position / 8).unwrap()] |= 1 << (position % 8);
        }
        link.items = 1;
        let draft = Draft {
            version: 4,
            items: 1,
            options: 5,
            growth: 2,
            links: vec![link],
        };
        let object = draft.read().unwrap();
        assert!(has(&object, item.as_bytes()));
        assert!(!has(&object, b"another"));
    }
}

#[test]
fn every_encoding_answers_by_its_rules() {
    let mut rng = Rng::new(22);
    for draft in drafts() {
        let object = draft.read().unwrap();
        let name = format!("version {}, options {}", draft.version, draft.options);
        let wide = draft.options & 4 != 0;
        assert!(object.is_redisbloom());
        assert_eq!(object.hash_bits(), if wide { 64 } else { 32 }, "{name}");
        assert_eq!(object.items(), draft.items, "{name}");
        assert_eq!(object.filters().len(), draft.links.len(), "{name}");
        let items: Vec<Vec<u8>> = (0..3000)
            .map(|_| {
                let length = rng.below(30);
                rng.bytes(length)
            })
            .collect();
        let expected: Vec<bool> = items
            .iter()
            .map(|item| draft.links.iter().any(|link| link.has(item, wide)))
            .collect();
        assert!(expected.contains(&true), "{name}: nothing is claimed");
        assert!(expected.contains(&false), "{name}: all is claimed");
        for (item, expected) in items.iter().zip(&expected) {
            assert_eq!(has(&object, item), *expected, "{name}");
        }
        at_each_width(|width| {
            let mut answers = Vec::new();
            let slices = items.iter().map(Vec::as_slice);
            object.contains_each(slices, |answer| answers.push(answer));
            assert_eq!(answers, expected, "{name}, {width:?}");
        });

        // It is written in the newest encoding, with nothing else changed.
        let mut written = Stream::default();
        codec::write_rdb(&object, &mut written);
        let mut newest = draft.clone();
        newest.version = 4;
        assert_eq!(written, newest.fields(), "{name}");
        assert_eq!(
            chunks::piece(&object, 0).1.bytes(),
            draft.header(),
            "{name}"
        );
        assert!(object.try_clone().unwrap().memory_bytes() <= object.memory_bytes());
    }
}

/// Growth of what has its bits rounded up to a power of two, and of what has not.
#[test]
#[allow(
    clippy::approx_constant,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
fn every_encoding_grows_by_its_rules() {
    let mut rng = Rng::new(23);
    for draft in drafts().into_iter().filter(|draft| draft.options & 8 == 0) {
        let wide = draft.options & 4 != 0;
        at_each_width(|_| {
            let mut object = draft.read().unwrap();
            let mut model = draft.clone();
            while model.links.len() < draft.links.len() + 4 {
                let items: Vec<Vec<u8>> = (0..33).map(|_| rng.bytes(9)).collect();
                let mut expected = Vec::new();
                for item in &items {
                    if model.links.iter().any(|link| link.has(item, wide)) {
                        expected.push(Ok(Added::Present));
                        continue;
                    }
                    let last = model.links.last().unwrap().clone();
                    if last.items == last.entries {
                        let error = last.error * 0.5;
                        let bpe = -error.ln() / 0.480_453_013_918_201;
                        let mut entries = last.entries * model.growth;
                        let need = entries as f64 * bpe;
                        let (mut bits, mut n2) = (need as u64, 0);
                        if draft.options & 1 == 0 {
                            n2 = need.log2().floor() as u64 + 1;
                            entries += ((2.0_f64.powi(n2 as i32) - bits as f64) / bpe) as u64;
                            bits = 1 << n2;
                        }
                        let bytes = bits.div_ceil(64) * 8;
                        model.links.push(Link {
                            hashes: (0.693_147_180_559_945 * bpe).ceil() as u64,
                            bitmap: vec![0; usize::try_from(bytes).unwrap()],
                            bits: bytes * 8,
                            n2,
                            ..Link::new(entries, error, 8, 0)
                        });
                    }
                    model.links.last_mut().unwrap().add(item, wide);
                    model.items += 1;
                    expected.push(Ok(Added::New));
                }
                let mut outcomes = Vec::new();
                let slices = items.iter().map(Vec::as_slice);
                object.add_each(slices, || ROOMY, |outcome| outcomes.push(outcome));
                assert_eq!(outcomes, expected);
            }
            let mut written = Stream::default();
            codec::write_rdb(&object, &mut written);
            model.version = 4;
            assert_eq!(written, model.fields(), "options {}", draft.options);
        });
    }
}

#[test]
fn a_full_one_that_does_not_grow_refuses() {
    let draft = drafts().into_iter().find(|d| d.options & 8 != 0).unwrap();
    let mut object = draft.read().unwrap();
    let mut rng = Rng::new(24);
    while object.items() < 100 {
        add(&mut object, &rng.bytes(12)).unwrap();
    }
    let mut refused = 0;
    for _ in 0..50 {
        match add(&mut object, &rng.bytes(12)) {
            Err(Refusal::Full) => refused += 1,
            other => assert_eq!(other, Ok(Added::Present)),
        }
    }
    assert!(refused > 0);
    assert_eq!(object.items(), 100);
    assert_eq!(object.max_scaled_capacity(ROOMY), 100);
}

#[test]
fn limits_hold_its_growth() {
    let draft = drafts().into_iter().rfind(|d| d.options == 5).unwrap();
    let object = draft.read().unwrap();
    // Twice the entries each time: 100 and 200 so far, then 400 in at most 600 bytes, then 800.
    let within = |filter_bytes, object_bytes| Limits::Within {
        filter_bytes,
        object_bytes,
        saturate: false,
    };
    assert_eq!(object.max_scaled_capacity(within(100, u64::MAX)), 300);
    assert_eq!(object.max_scaled_capacity(within(1000, u64::MAX)), 700);
    assert_eq!(object.max_scaled_capacity(within(u64::MAX, 0)), 300);
    assert!(object.max_scaled_capacity(Limits::Obey) > 1 << 40);
    let mut small = draft.read().unwrap();
    let mut rng = Rng::new(25);
    let refusal = loop {
        let probe = small.probe(&rng.bytes(12));
        if let Err(refusal) = small.add(probe, || within(1000, u64::MAX)) {
            break refusal;
        }
    };
    assert_eq!(refusal, Refusal::MemoryLimit);
    assert_eq!((small.items(), small.capacity()), (700, 700));
}

type Change = fn(&mut Draft);

/// What a forged object is refused for.
#[test]
fn what_can_not_be_is_refused() {
    let draft = drafts().into_iter().rfind(|d| d.options == 5).unwrap();
    let changes: [(&str, Change); 29] = [
        ("no links", |d| d.links.clear()),
        ("total too large", |d| d.items += 1),
        ("total too small", |d| d.items -= 1),
        ("unknown option", |d| d.options = 16),
        ("all options", |d| d.options = u64::MAX),
        ("growth", |d| d.growth = 1 << 32),
        ("no entries", |d| d.links[0].entries = 0),
        ("entries", |d| d.links[0].entries = 1 << 63),
        ("sum of entries", |d| {
            d.links.iter_mut().for_each(|link| link.entries = 1 << 62);
        }),
        ("rate 0", |d| d.links[0].error = 0.0),
        ("rate 1", |d| d.links[1].error = 1.0),
        ("rate below 0", |d| d.links[0].error = -0.01),
        ("rate NaN", |d| d.links[0].error = f64::NAN),
        ("rate infinite", |d| d.links[0].error = f64::INFINITY),
        ("no hashes", |d| d.links[0].hashes = 0),
        ("hashes", |d| d.links[0].hashes = 4097),
        ("hashes of 2^31", |d| d.links[1].hashes = 1 << 31),
        ("hashes of 2^32 + 8", |d| d.links[1].hashes = (1 << 32) + 8),
        ("bits per entry NaN", |d| d.links[0].bpe = f64::NAN),
        ("bits per entry 0", |d| d.links[0].bpe = 0.0),
        ("bits per entry infinite", |d| {
            d.links[0].bpe = f64::INFINITY;
        }),
        ("no bits", |d| d.links[0].bits = 0),
        ("more bits than bytes", |d| d.links[0].bits += 1),
        ("bits of 2^63", |d| d.links[0].bits = 1 << 63),
        ("exponent above the bits", |d| d.links[0].n2 = 11),
        ("exponent", |d| d.links[0].n2 = 64),
        ("no bitmap", |d| d.links[0].bitmap.clear()),
        ("far more bytes than bits", |d| {
            d.links[0].bitmap = vec![0; 10_000];
        }),
        ("items of a link", |d| d.links[0].items = u64::MAX),
    ];
    for (name, change) in changes {
        let mut forged = draft.clone();
        change(&mut forged);
        assert!(forged.read().is_err(), "{name} in RDB fields");
        // What a header's 32 bits, or eight, can't say, it does not say.
        let wraps = ["growth", "hashes of 2^32 + 8", "all options", "exponent"];
        if !wraps.contains(&name) {
            let header = forged.header();
            assert!(
                Partial::new(&header, Limits::Obey).is_err(),
                "{name} in a header"
            );
        }
    }
    let mut newer = draft.clone();
    newer.version = 5;
    assert_eq!(newer.read().unwrap_err(), DecodeError::UnsupportedVersion);
    for length in 0..draft.header().len() {
        let header = &draft.header()[..length];
        assert!(
            Partial::new(header, Limits::Obey).is_err(),
            "{length} bytes"
        );
    }
    let mut longer = draft.header();
    longer.push(0);
    assert!(Partial::new(&longer, Limits::Obey).is_err());
    let mut fields = draft.fields();
    while fields.0.pop_back().is_some() {
        assert!(
            read(fields.clone(), 4).is_err(),
            "{} fields",
            fields.0.len()
        );
    }
}

/// A header claims sizes; memory is taken for what comes.
#[test]
fn a_claim_takes_no_memory() {
    let mut draft = drafts().into_iter().rfind(|d| d.options == 5).unwrap();
    let mut header = draft.header();
    header[20..28].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    header[28..36].copy_from_slice(&(1_u64 << 43).to_le_bytes());
    let mut partial = Partial::new(&header, Limits::Obey).unwrap();
    assert_eq!(partial.family(), Family::RedisBloom);
    assert!(partial.memory_bytes() < 2000);
    assert!(matches!(partial.load(6, b"bytes"), Ok(Progress::Partial)));
    assert!(partial.memory_bytes() < 2000);
    // A client's limits hold before anything is taken.
    assert!(Partial::new(&header, ROOMY).is_ok());
    let small = Limits::Within {
        filter_bytes: 100,
        object_bytes: u64::MAX,
        saturate: false,
    };
    draft.links[0].entries = 100;
    assert!(matches!(Partial::new(&draft.header(), small), Err(None)));
}

/// Its bytes at random: refused, or an object that works.
#[test]
fn mutated_fields_are_refused_or_another_object() {
    let mut rng = Rng::new(26);
    let drafts = drafts();
    let edges = [
        0,
        1,
        7,
        8,
        63,
        64,
        65,
        1 << 31,
        1 << 32,
        1 << 53,
        1 << 62,
        1 << 63,
        u64::MAX,
    ];
    let (mut read_back, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let draft = rng.pick(&drafts).clone();
        let mut stream = draft.fields();
        for _ in 0..=rng.below(3) {
            let index = rng.below(stream.0.len());
            stream.0[index] = match &stream.0[index] {
                Field::Uint(value) => Field::Uint(match rng.below(4) {
                    0 => *rng.pick(&edges),
                    1 => value.wrapping_add(1),
                    2 => value.wrapping_sub(1),
                    _ => rng.next() >> rng.below(64),
                }),
                Field::Double(value) => Field::Double(match rng.below(3) {
                    0 => f64::from_bits(rng.next()),
                    1 => *rng.pick(&[0.0, -0.0, 1.0, 1e-308, f64::NAN, f64::INFINITY]),
                    _ => value * 0.5,
                }),
                Field::Bytes(bytes) => {
                    let length = match rng.below(3) {
                        0 => bytes.len(),
                        1 => rng.below(bytes.len() + 1),
                        _ => rng.below(200),
                    };
                    Field::Bytes(rng.bytes(length))
                }
            };
        }
        let Ok(mut object) = read(stream, draft.version) else {
            refused += 1;
            continue;
        };
        read_back += 1;
        let item = rng.bytes(5);
        let limits = Limits::Within {
            filter_bytes: 1 << 20,
            object_bytes: u64::MAX,
            saturate: false,
        };
        let before = object.items();
        match object.add(object.probe(&item), || limits) {
            Ok(Added::New) => assert_eq!(object.items(), before + 1),
            _ => assert_eq!(object.items(), before),
        }
        assert!(object.max_scaled_capacity(Limits::Obey) >= object.capacity());
        let mut written = Stream::default();
        codec::write_rdb(&object, &mut written);
        let again = read(written, 4).unwrap();
        assert_eq!(has(&again, &item), has(&object, &item));
        assert_eq!(again.items(), object.items());
    }
    assert!(read_back > 1000 && refused > 1000, "{read_back}, {refused}");
}
