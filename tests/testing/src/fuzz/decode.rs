//! Decodes bytes that may be an object. An accepted object must survive every operation, and must be written with the
//! same bytes again; anything else is refused, and takes no memory.

use valkeybloom_sketches::bloom::chunks::{self, Partial, Value};
use valkeybloom_sketches::bloom::{Dialect, Kind, Limits, Object, dump, rdb};
use valkeybloom_sketches::{DecodeError, Seed};

use super::forms::{fields_of, fields_of_partial, written};
use super::memory::bounded;
use super::operations::{check, operations};
use super::source::Source;
use super::{cms, cuckoo, tdigest, topk};
use crate::plain::Plain;
use crate::support::same;

/// Tries an input: its first byte names the form of the rest.
pub fn run(bytes: &[u8]) {
    // Lengths of strings are written in 16 bits.
    if bytes.len() > usize::from(u16::MAX) {
        return;
    }
    let mut source = Source(bytes);
    match source.byte() {
        0 => whole_dump(source.0, Source(&[])),
        1 => fields(Dialect::Bloomfltr, 1, source),
        2 => pieces(source),
        3 => half_loaded(source),
        4 => plain_in_each_form(source),
        5 => {
            let version = i32::from(source.byte());
            fields(Dialect::RedisBloom, version, source);
        }
        6 => {
            let dump = [&[2], source.string()].concat();
            whole_dump(&dump, source);
        }
        7 => {
            // After the field with the form.
            let fields_of_it = [&1_u64.to_le_bytes(), source.0].concat();
            fields(Dialect::Bloomfltx, 1, Source(&fields_of_it));
        }
        8 => operations(source),
        9 => cuckoo::fields(source),
        10 => cuckoo::pieces(source),
        11 => cms::fields(source),
        12 => topk::fields(source),
        13 => tdigest::fields(source),
        _ => {}
    }
}

/// Decodes a payload of BF.LOAD, and operates on the object.
fn whole_dump(dump: &[u8], source: Source) {
    const FLAG: usize = 1 + 4 + 8 + 8;
    let Ok(object) = bounded(1000 + 10 * dump.len(), || dump::decode(dump)) else {
        return;
    };
    let mut expected = dump.to_vec();
    match Dialect::of(&object) {
        // The flag follows from the seed.
        Dialect::Bloomfltr => expected[FLAG] = seed_flag(&object),
        // The same entries may be coded, and cut into pieces, in other ways.
        Dialect::Bloomfltx => return check_tables(object, source),
        Dialect::RedisBloom => panic!("it has no dump"),
    }
    assert!(dump::encode(&object) == Some(expected), "the bytes differ");
    check(object, source);
}

/// Operates on an object of tables; its own bytes are the only ones for its contents.
fn check_tables(object: Object, source: Source) {
    let written = dump::encode(&object).expect("there is memory");
    let again = dump::decode(&written).expect("it was written");
    assert!(dump::encode(&again) == Some(written), "the bytes differ");
    check(object, source);
}

fn seed_flag(object: &Object) -> u8 {
    u8::from(object.hasher().seed() != Some(&Seed::FIXED))
}

/// Reads RDB fields in an encoding version, and operates on the object.
fn fields(dialect: Dialect, version: i32, mut source: Source) {
    const FLAG: usize = 4 * 8;
    let whole = source.0;
    // After two zeros and a length comes the header of an object that lacks chunks; it allocates its bytes at once.
    let is_before = dialect == Dialect::RedisBloom && whole.starts_with(&[0; 16]);
    let header = whole.get(16..).filter(|_| is_before);
    let Some(claimed) = few_claimed_bytes(header.map_or(&[], string_in)) else {
        return;
    };
    let most = 1000 + 20 * whole.len() + claimed;
    let read = bounded(most, || rdb::read(dialect, version, &mut source));
    let Ok(value) = read else {
        return;
    };
    let mut expected = whole[..whole.len() - source.0.len()].to_vec();
    match value {
        Value::Complete(object) => {
            assert_eq!(Dialect::of(&object), dialect);
            assert!(
                version <= dialect.rdb_version(),
                "an unknown encoding version"
            );
            match dialect {
                Dialect::Bloomfltr => expected[FLAG] = seed_flag(&object),
                Dialect::Bloomfltx => return check_tables(object, source),
                Dialect::RedisBloom => {}
            }
            // Only the newest encoding is ever written. RedisBloom's filters count no more items than their capacity.
            let is_cut = dialect == Dialect::RedisBloom
                && !expected.starts_with(&object.totals().1.to_le_bytes());
            if version == dialect.rdb_version() && !is_cut {
                assert!(fields_of(&object) == expected, "the fields differ");
            }
            check(object, source);
        }
        Value::Partial(partial) => {
            assert_eq!(partial.dialect(), dialect);
            // An object without filters is not checked.
            let pieces = || partial.pieces().map(|(_, bytes)| bytes);
            let loaded_bytes: Vec<u8> = pieces().flatten().copied().collect();
            if let Some(mark) = mark_len(&partial) {
                expected[..mark].fill(0);
                assert!(fields_of_partial(&partial) == expected, "the fields differ");
            } else if pieces()
                .next()
                .is_none_or(|it| few_claimed_bytes(it).is_some())
            {
                assert_same_pieces(&reread(&partial), &loaded_bytes);
            }
        }
    }
}

/// Reads the header of a chunked dump, limits, and chunks. Most chunks continue where the last one ended.
fn pieces(mut source: Source) {
    let header = source.string();
    let limits = limits(&mut source);
    let small = 1000 + 10 * header.len();
    // A RedisBloom object without items allocates its bytes at once, and missing bytes are written as zeros.
    let Some(claimed) = few_claimed_bytes(header) else {
        return;
    };
    let whole = small + claimed;
    let mut partial = match bounded(whole, || chunks::begin(header, limits)) {
        Ok(Value::Partial(partial)) => partial,
        Ok(Value::Complete(object)) if Dialect::of(&object) == Dialect::RedisBloom => {
            assert_eq!(object.totals().1, 0, "bits that were not loaded");
            assert!(object.is_within(limits), "more than the limits admit");
            return check(object, source);
        }
        Ok(Value::Complete(_)) => panic!("complete without its filters"),
        Err(_) => return,
    };
    let pieces = partial.pieces().flat_map(|(_, bytes)| bytes);
    let mut loaded_bytes: Vec<u8> = pieces.copied().collect();
    // RedisBloom's claims of more items than the capacity are cut.
    assert!(loaded_bytes == header || partial.dialect() == Dialect::RedisBloom);
    assert_eq!(loaded_bytes.len(), header.len());
    while !source.0.is_empty() {
        let kind = source.byte();
        let chunk = source.string();
        let is_of_tables = partial.dialect() == Dialect::Bloomfltx;
        let end = match (kind, chunk.get(8..16)) {
            // A piece of tables ends where it says.
            (0, Some(end)) if is_of_tables => u64::from_le_bytes(end.try_into().expect("eight")),
            (0, _) => (loaded_bytes.len() - header.len() + chunk.len()) as u64,
            _ => u64::from_le_bytes(source.array()).wrapping_sub(1),
        };
        let cursor = end.wrapping_add(1);
        let most = small + 10 * (loaded_bytes.len() + chunk.len());
        match bounded(most, || partial.load(cursor, chunk)) {
            Ok(Some(object)) => {
                loaded_bytes.extend(chunk);
                if is_of_tables {
                    return check_tables(object, source);
                }
                let bitmaps = object.filters().map(|(filter, _)| filter.bitmap());
                let bitmaps = bitmaps.collect::<Vec<_>>().concat();
                assert!(bitmaps == loaded_bytes[header.len()..], "the bits differ");
                assert!(object.is_within(limits), "more than the header claims");
                return check(object, source);
            }
            Ok(None) => loaded_bytes.extend(chunk),
            Err(_) => {}
        }
        assert!(partial.memory_bytes() <= (whole + 2 * loaded_bytes.len()) as u64);
        assert_same_pieces(&partial, &loaded_bytes);
    }
    assert_same_pieces(
        &partial.try_clone().expect("there is memory"),
        &loaded_bytes,
    );
    assert_same_pieces(&reread(&partial), &loaded_bytes);
}

fn limits(source: &mut Source) -> Limits {
    match source.byte() {
        0 => Limits::NONE,
        _ => Limits {
            filter_bytes: source.u16().into(),
            object_bytes: source.u16().into(),
            saturate: false,
        },
    }
}

/// Returns the bytes of cells that a header of `RedisBloom` claims, 0 for other headers; or `None` for more than a
/// mebibyte.
fn few_claimed_bytes(header: &[u8]) -> Option<usize> {
    let (links, rest) = header.get(20..).unwrap_or_default().as_chunks::<53>();
    let count = header.get(8..12).unwrap_or_default();
    if !rest.is_empty() || count != &links.len().to_le_bytes()[..4] {
        return Some(0);
    }
    let claims = links.iter().filter_map(|link| link.first_chunk().copied());
    let claimed = claims.map(u64::from_le_bytes).fold(0, u64::saturating_add);
    (claimed <= 1 << 20).then(|| usize::try_from(claimed).expect("few"))
}

/// Returns the string after its length, cut off at the end of the bytes.
fn string_in(bytes: &[u8]) -> &[u8] {
    let (length, rest) = bytes.split_first_chunk().unwrap_or((&[0; 8], &[]));
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    &rest[..rest.len().min(length)]
}

#[track_caller]
fn assert_same_pieces(partial: &Partial, loaded_bytes: &[u8]) {
    let pieces = partial.pieces().flat_map(|(_, bytes)| bytes);
    assert!(pieces.eq(loaded_bytes), "the pieces differ");
}

/// Writes a half-loaded object to RDB fields and reads it back.
fn reread(partial: &Partial) -> Partial {
    let written = fields_of_partial(partial);
    if let Some(mark) = mark_len(partial) {
        let (mark, rest) = written.split_at(mark);
        assert!(mark.iter().all(|byte| *byte == 0));
        let mut from = Source(rest);
        Partial::read_rdb(&mut from).expect("it was written");
        assert!(from.0.is_empty(), "fields are left");
    }

    let (dialect, mut from) = (partial.dialect(), Source(&written));
    let read = rdb::read(dialect, dialect.rdb_version(), &mut from);
    assert!(from.0.is_empty(), "fields are left");
    match read.expect("it was written") {
        Value::Partial(read) => *read,
        Value::Complete(_) => panic!("complete without all chunks"),
    }
}

/// Returns the number of zero bytes that mark a half-loaded object, in place of the number of filters. `RedisBloom`'s
/// has no mark, because it is written as a whole object.
fn mark_len(partial: &Partial) -> Option<usize> {
    match partial.dialect() {
        Dialect::Bloomfltr | Dialect::Bloomfltx => Some(8),
        Dialect::RedisBloom => None,
    }
}

/// Reads the RDB fields of a half-loaded object, after its mark.
fn half_loaded(mut source: Source) {
    let whole = source.0;
    let Some(claimed) = few_claimed_bytes(string_in(whole)) else {
        return;
    };
    let most = 1000 + 20 * whole.len() + claimed;
    let read = bounded(most, || Partial::read_rdb(&mut source));
    let Ok(partial) = read else {
        return;
    };
    let Some(mark) = mark_len(&partial) else {
        return;
    };
    let written = fields_of_partial(&partial);
    let rest = &written[mark..];
    assert!(whole.starts_with(rest), "the fields differ");
    assert_eq!(rest.len(), whole.len() - source.0.len());
    assert!(
        fields_of_partial(&reread(&partial)) == written,
        "the fields differ"
    );
}

/// Writes a plain object in each form, and asserts that all forms decode to the same object.
fn plain_in_each_form(mut source: Source) {
    let plain = source.plain();
    let (dump, header) = (plain.dump(), plain.header());
    let fields = written(|to| plain.fields().into_iter().for_each(|field| to.field(field)));
    let older = plain
        .filters
        .split_last()
        .map_or(&[][..], |(_, older)| older);
    let in_fields = !plain.filters.is_empty() && older.iter().all(|f| f.items == f.capacity);

    let decoded = bounded(1000 + 10 * dump.len(), || dump::decode(&dump));
    let begun = bounded(1000 + 10 * header.len(), || {
        chunks::begin(&header, Limits::NONE)
    });
    let read = in_fields.then(|| {
        bounded(1000 + 20 * fields.len(), || {
            rdb::read(Dialect::Bloomfltr, 1, &mut Source(&fields))
        })
    });
    match decoded {
        Ok(object) => {
            assert_consists_of(&object, &plain);
            same(
                &object,
                &filled(begun.expect("the dump is an object"), &plain),
            );
            if let Some(read) = read {
                let Ok(Value::Complete(read)) = read else {
                    panic!("the dump is valid, but the fields are not");
                };
                same(&object, &read);
            }
            check(object, Source(&[]));
        }
        Err(refusal) => {
            assert!(matches!(refusal, DecodeError::Malformed(_)), "{refusal}");
            assert_eq!(begun.err(), Some(refusal.into()));
            // If there are several reasons, each reader may find a different one first.
            assert!(read.is_none_or(|read| read.is_err()));
        }
    }
}

/// Asserts that an object consists of what a plain one says.
fn assert_consists_of(object: &Object, plain: &Plain) {
    let shape = object.shape();
    assert_eq!(shape.kind, Kind::Plain);
    assert_eq!(
        Some(shape.params.capacity),
        plain.filters.first().map(|f| f.capacity)
    );
    assert_eq!(u64::from(shape.params.growth.expansion()), plain.expansion);
    let (rate, tightening) = (shape.params.error_rate, shape.params.tightening);
    assert_eq!(
        [rate.get(), tightening.to_stored()].map(f64::to_bits),
        [plain.error_rate, plain.tightening].map(f64::to_bits)
    );
    let filters = object.filters();
    let filters = filters.map(|(f, _)| (f.blob().to_vec(), f.capacity(), f.items()));
    let expected = plain.filters.iter();
    assert!(filters.eq(expected.map(|f| (f.blob(), f.capacity, f.items))));
}

/// Completes a begun object with the cells of a plain one.
fn filled(begun: Value, plain: &Plain) -> Object {
    let Value::Partial(mut partial) = begun else {
        panic!("complete without cells");
    };
    let mut cursor = 1;
    for chunk in plain.filters.iter().map(|f| &f.bitmap) {
        cursor += chunk.len() as u64;
        if let Some(object) = partial.load(cursor, chunk).expect("the dump is an object") {
            return object;
        }
    }
    panic!("not complete with all cells");
}
