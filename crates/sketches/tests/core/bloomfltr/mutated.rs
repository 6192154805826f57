//! Changed bytes: if they decode as a plain object, it bears every operation.

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Dialect, Limits, Object, Time, dump, rdb};

use crate::support::{
    Field, NO_CLOCK, Rng, add_each, begin_partial, capacity, complete, dump_of, fields_of, has,
    has_each,
};

use crate::plain::{FIXED, Plain as Draft};

/// Does everything with an object that can be done, within limits that keep it small. Any decoded object must bear
/// it, whatever its numbers are.
pub fn survives_use(mut object: Object) {
    let limits = Limits {
        filter_bytes: 1 << 16,
        object_bytes: 1 << 20,
        saturate: true,
    };
    for item in 0..20_u8 {
        if object
            .add(&[item], Time::default(), None, || limits)
            .is_ok()
        {
            assert!(has(&object, &[item]));
        }
    }
    let items = [&b"a"[..], b"b", b""].map(<[u8]>::to_vec);
    assert_eq!(has_each(&object, items.iter().map(Vec::as_slice)).len(), 3);
    add_each(&mut object, &items, limits);
    assert!(object.reach(NO_CLOCK, limits) >= capacity(&object));
    assert!(object.reach(NO_CLOCK, Limits::NONE) >= capacity(&object));
    for (_, _, rate) in object.filters(NO_CLOCK) {
        assert!((0.0..=1.0).contains(&rate), "rate {rate}");
    }
    let copy = object.try_clone().unwrap();
    let decoded = dump::decode(&dump_of(&copy)).unwrap();
    assert!(dump_of(&decoded) == dump_of(&object));
}

/// Returns the bytes of a valid object when it is written again: unchanged, except that the seed's flag follows from
/// the seed.
fn settled(mut dump: Vec<u8>) -> Vec<u8> {
    const FLAG: usize = 1 + 4 + 8 + 8;
    const SEED: usize = FLAG + 1 + 8 + 8 + 13;
    dump[FLAG] = u8::from(dump[SEED..SEED + 32] != FIXED);
    dump
}

/// Decodes what may be an object or not, in both forms of bytes.
fn try_bytes(dump: &[u8], header: &[u8]) -> usize {
    let mut valid = 0;
    if let Ok(object) = dump::decode(dump) {
        assert!(dump_of(&object) == settled(dump.to_vec()), "{dump:?}");
        survives_use(object);
        valid += 1;
    }
    if let Ok(partial) = begin_partial(header) {
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
    let fields = Draft::valid().stream();
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
            // Without filters, chunks would have to follow, and there are no chunks.
            let Ok(value) = rdb::read(Dialect::Bloomfltr, 1, &mut stream) else {
                continue;
            };
            let object = complete(value);
            // The server checks for bytes after the value.
            if !stream.0.is_empty() {
                continue;
            }
            if fields.0[4] == Field::Uint(1) {
                fields.0[4] = Field::Uint(u64::from(object.hasher().seed() != Some(&Seed::FIXED)));
            }
            assert_eq!(fields_of(&object), fields);
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
