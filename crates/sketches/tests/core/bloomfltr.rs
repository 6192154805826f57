//! The stored forms of plain objects: golden bytes. The bytes here are put together by a writer of the tests' own, after the description of the format and not after the code that reads it.

use std::collections::VecDeque;

use valkeybloom_sketches::bloom::{Dialect, Object, Tightening, dump};
use valkeybloom_sketches::{DecodeError, Fraction, Seed};

use crate::support::{
    Field, Rng, Stream, add_new, begin_partial, dump_of, fields_of, filters, grow, has, header_of,
    items, object, of_valkey_bloom, params, read_fields, through_every_form, tightened, tightening,
};

use crate::plain::{FIXED, Plain as Draft};
use valkeybloom_testing::fuzz::decode;

fn read(stream: Stream) -> Result<Object, DecodeError> {
    read_fields(Dialect::Bloomfltr, stream)
}

/// The published vector, an object of valkey-bloom: 100 items at 1 %, non-scaling, the fixed seed, holding
/// `item`.
#[test]
fn the_published_vector_holds_to_the_byte() {
    let theirs = tightened(of_valkey_bloom(0.5), params(100, 0.01, 0));
    let mut object = object(&theirs, Seed::FIXED);
    add_new(&mut object, b"item");

    let mut blob = vec![1, 0x78, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0];
    blob.extend(FIXED);
    let mut bitmap = [0_u8; 120];
    for bit in [701, 8, 461, 213, 925, 677, 429] {
        bitmap[bit / 8] |= 1 << (bit % 8);
    }
    blob.extend(bitmap);
    assert!(filters(&object)[0].blob() == blob);

    let prefix = |version| {
        let mut bytes = vec![version, 0, 0, 0, 0];
        bytes.extend([0x7b, 0x14, 0xae, 0x47, 0xe1, 0x7a, 0x84, 0x3f]);
        bytes.extend([0, 0, 0, 0, 0, 0, 0xe0, 0x3f]);
        bytes.push(0);
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    };
    let counts = [1, 0, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0];
    let mut bytes = prefix(1);
    bytes.extend([165, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(&blob);
    bytes.extend(counts);
    assert_eq!(bytes.len(), 219);
    assert!(dump_of(&object) == bytes);
    assert_eq!(dump::encoded_len(&object), Some(219));

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
        Field::Uint(100),
        Field::Uint(1),
        Field::Bytes(blob),
    ]));
    assert_eq!(fields_of(&object), fields);

    for read in [dump::decode(&bytes).unwrap(), read(fields).unwrap()] {
        assert!(has(&read, b"item"));
        assert!(!has(&read, b"other"));
        assert_eq!(read.totals(), (1, 1, 100));
        assert_eq!((items(&read), read.capacity()), (1, 100));
        assert_eq!(read.hasher().seed(), Some(&Seed::FIXED));
    }
}

/// The last digit of the ratio, and nothing else, marks whose law an object follows.
#[test]
fn the_ratio_tells_the_law_in_every_form() {
    let mut rng = Rng::new(4);
    for ratio in [0.5, 0.1, 0.3, 0.75, 0.9, 0.123_456_789_012_345] {
        for (tightening, stored) in [
            (tightening(ratio), ratio.next_up()),
            (of_valkey_bloom(ratio), ratio),
        ] {
            for (expansion, filters) in [(0, 1), (1, 4), (2, 3)] {
                let params = tightened(tightening, params(5, 0.1, expansion));
                let mut object = object(&params, rng.seed());
                grow(&mut object, &mut rng, |object| object.totals().0 == filters);
                let reported = |bytes: &[u8]| f64::from_le_bytes(bytes[13..21].try_into().unwrap());
                assert_eq!(reported(&dump_of(&object)).to_bits(), stored.to_bits());
                assert_eq!(reported(&header_of(&object)).to_bits(), stored.to_bits());
                assert_eq!(fields_of(&object).0[3], Field::Double(stored));
                let mut copy = through_every_form(&object);
                assert_eq!(copy.shape().params.tightening, tightening);
                // It grows by the same law.
                if expansion > 0 {
                    let mut same = Rng::new(5);
                    grow(&mut object, &mut same, |o| o.totals().0 == filters + 3);
                    grow(&mut copy, &mut Rng::new(5), |o| o.totals().0 == filters + 3);
                    assert!(dump_of(&copy) == dump_of(&object), "{params:?}");
                }
            }
        }
    }
}

fn from_stored(stored: f64) -> Option<Tightening> {
    Fraction::new(stored).map(Tightening::from_stored)
}

/// A ratio of 15 digits is reported as it was written, and is marked as ours when it is stored.
#[test]
fn fifteen_digits_of_a_ratio_are_kept() {
    let mut rng = Rng::new(6);
    let ends = [100_000_000_000_000, 999_999_999_999_999];
    let any = (0..20_000).map(|_| ends[0] + rng.next() % (ends[1] - ends[0]));
    for (digits, exponent) in ends.into_iter().chain(any).zip((1..=290).cycle()) {
        let digits = digits.to_string();
        for exponent in [1, exponent] {
            let text = format!("{}.{}e-{exponent}", &digits[..1], &digits[1..]);
            let ours = tightening(text.parse().unwrap());
            assert_eq!(format!("{:.14e}", ours.ratio().get()), text);
            assert_eq!(from_stored(ours.to_stored()), Some(ours));
            assert!(ours.is_ours(), "{text}");
        }
    }
}

/// Subnormal ratios are valkey-bloom's: they have too few digits for a mark of ours, whose least ratio is larger.
#[test]
fn subnormal_ratios_are_valkey_blooms() {
    let ends = [1, 2, 2024, f64::MIN_POSITIVE.to_bits()];
    let mut rng = Rng::new(7);
    let any = (0..20_000).map(|_| 1 + rng.next() % f64::MIN_POSITIVE.to_bits());
    for ratio in ends.into_iter().chain(any).map(f64::from_bits) {
        let theirs = of_valkey_bloom(ratio);
        assert_eq!(theirs.to_stored().to_bits(), ratio.to_bits());
        assert_eq!(from_stored(ratio), Some(theirs), "{ratio:e}");
        let ours = tightening(ratio);
        assert_eq!(ours, tightening(1e-307), "{ratio:e}");
        assert_eq!(from_stored(ours.to_stored()), Some(ours));
    }
}

/// Unusual values are valid: they are read and written unchanged.
#[test]
fn odd_values_are_kept() {
    type Change = fn(&mut Draft);
    let odd: [(&str, Change); 11] = [
        ("as it is", |_| ()),
        ("one hash", |d| d.filters[1].hashes = 1),
        ("1100 hashes", |d| d.filters[1].hashes = 1100),
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
        let decoded = dump::decode(&draft.dump()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(dump_of(&decoded) == draft.dump(), "{name}");
        let read = read(draft.stream()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(fields_of(&read), draft.stream(), "{name}");
        let partial = begin_partial(&draft.header()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let pieces: Vec<_> = partial.pieces().collect();
        assert!(pieces == [(1, &draft.header()[..])], "{name}");
        decode::run(&[&[0], &draft.dump()[..]].concat());
    }
}

/// The flag says where the seed came from; a drawn one may be the fixed one by chance or by
/// wish, and is written as such from then on.
#[test]
fn a_drawn_seed_may_be_the_fixed_one() {
    let draft = Draft::with(|d| d.seed_is_random = 1);
    let expected = Draft::valid();
    let decoded = dump::decode(&draft.dump()).unwrap();
    assert!(dump_of(&decoded) == expected.dump());
    assert_eq!(fields_of(&read(draft.stream()).unwrap()), expected.stream());
}
