//! Fields that are not an object of RedisBloom.

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::bloom::chunks;
use valkeybloom_sketches::bloom::{Added, Dialect, Limits, Time};

use crate::support::{
    Field, NO_CLOCK, ROOMY, Rng, begin, begin_partial, capacity, fields_of, has, items,
};

use super::draft::{Draft, drafts, read};

type Change = fn(&mut Draft);

/// The error of each forged object.
#[test]
fn impossible_fields_are_refused() {
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
        ("hashes", |d| d.links[0].hashes = 1101),
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
        // These numbers do not fit the 32 bits, or eight, that a header has for them.
        let wraps = ["growth", "hashes of 2^32 + 8", "all options", "exponent"];
        if !wraps.contains(&name) {
            let header = forged.header();
            assert!(begin(&header).is_err(), "{name} in a header");
        }
    }
    let mut newer = draft.clone();
    newer.version = 5;
    assert_eq!(newer.read().unwrap_err(), DecodeError::UnsupportedVersion);
    for length in 0..draft.header().len() {
        let header = &draft.header()[..length];
        assert!(begin(header).is_err(), "{length} bytes");
    }
    let mut longer = draft.header();
    longer.push(0);
    assert!(begin(&longer).is_err());
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
fn a_claim_takes_its_memory_within_limits() {
    let draft = drafts().into_iter().rfind(|d| d.options == 5).unwrap();
    let mut header = draft.header();
    let claim = |header: &mut Vec<u8>, bytes: u64| {
        header[20..28].copy_from_slice(&bytes.to_le_bytes());
        header[28..36].copy_from_slice(&(8 * bytes).to_le_bytes());
    };
    claim(&mut header, 1 << 20);
    let mut partial = begin_partial(&header).unwrap();
    assert_eq!(partial.dialect(), Dialect::RedisBloom);
    let taken = partial.memory_bytes();
    assert!(taken > 1 << 20);
    assert!(matches!(partial.load(6, b"bytes"), Ok(None)));
    assert_eq!(partial.memory_bytes(), taken);
    assert_eq!(partial.try_clone().unwrap().memory_bytes(), taken);
    // A client's limits hold before anything is taken, and no machine has all that can be claimed.
    claim(&mut header, 1 << 50);
    let small = Limits {
        filter_bytes: 1 << 20,
        ..ROOMY
    };
    assert!(matches!(chunks::begin(&header, small), Err(None)));
    let refused = chunks::begin(&header, ROOMY).err().unwrap();
    assert_eq!(refused, Some(DecodeError::NoMemory));
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
        let limits = Limits {
            filter_bytes: 1 << 20,
            object_bytes: u64::MAX,
            saturate: false,
        };
        let before = items(&object);
        match object.add(&item, Time::default(), None, || limits) {
            Ok(Added::New) => assert_eq!(items(&object), before + 1),
            _ => assert_eq!(items(&object), before),
        }
        assert!(object.reach(NO_CLOCK, Limits::NONE) >= capacity(&object));
        let again = read(fields_of(&object), 4).unwrap();
        assert_eq!(has(&again, &item), has(&object, &item));
        assert_eq!(items(&again), items(&object));
    }
    assert!(read_back > 1000 && refused > 1000, "{read_back}, {refused}");
}
