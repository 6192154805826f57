//! Decodes bytes that may be an object. An accepted object must survive every operation, and must be written with the
//! same bytes again; anything else is refused, and takes no memory.

use std::borrow::Cow;
use std::ops::Range;

use valkeybloom_sketches::bloom::chunks::{self, Partial, Value};
use valkeybloom_sketches::bloom::{
    Added, Dialect, Growth, HEADER_BYTES, Kind, Limits, Object, Params, Shape, Tightening, Time,
    Window, dump, rdb,
};
use valkeybloom_sketches::{DecodeError, Fraction, MAX_CAPACITY, RdbWrite, Relocate, Seed};

use super::memory::{bounded, measured};
use super::source::{Parts, Source};
use super::{cms, cuckoo, tdigest, topk};

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
        4 => parts_in_each_form(source),
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
    const RATIO: Range<usize> = 1 + 4 * 8..1 + 5 * 8;
    let Ok(object) = bounded(1000 + 10 * dump.len(), || dump::decode(dump)) else {
        return;
    };
    let mut expected = dump.to_vec();
    match Dialect::of(&object) {
        // The flag follows from the seed.
        Dialect::Bloomfltr => expected[FLAG] = seed_flag(&object),
        // The form of counters has changed since earlier builds.
        Dialect::Bloomfltx if object.shape().is_counting() => {
            let written = dump::encode(&object).expect("it has a dump");
            let again = dump::decode(&written).expect("it is its own");
            assert!(dump::encode(&again) == Some(written), "the bytes differ");
            return check(object, source);
        }
        // The ratio is marked as ours, even if it was not.
        Dialect::Bloomfltx => {
            let ratio = object.shape().params.tightening.to_stored();
            expected[RATIO].copy_from_slice(&ratio.to_bits().to_le_bytes());
        }
        Dialect::RedisBloom => panic!("it has no dump"),
    }
    assert!(dump::encode(&object) == Some(expected), "the bytes differ");
    check(object, source);
}

fn seed_flag(object: &Object) -> u8 {
    u8::from(object.hasher().seed() != Some(&Seed::FIXED))
}

/// Reads RDB fields in an encoding version, and operates on the object.
fn fields(dialect: Dialect, version: i32, mut source: Source) {
    const FLAG: usize = 4 * 8;
    const RATIO: Range<usize> = 4 * 8..5 * 8;
    let whole = source.0;
    // After two zeros and a length comes the header of an object that lacks chunks; it allocates its bytes at once.
    let is_before = dialect == Dialect::RedisBloom && whole.starts_with(&[0; 16]);
    let header = whole.get(16..).filter(|_| is_before);
    let claimed = header.map_or(0, |header| claimed_bytes(string_in(header)));
    if claimed > 1 << 20 {
        return;
    }
    let most = 1000 + 20 * whole.len() + usize::try_from(claimed).expect("few");
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
                // The ratio is marked as ours, even if it was not.
                Dialect::Bloomfltx => {
                    let ratio = object.shape().params.tightening.to_stored();
                    expected[RATIO].copy_from_slice(&ratio.to_bits().to_le_bytes());
                }
                Dialect::RedisBloom => {}
            }
            // Only the newest encoding, and the newest form of counters, is ever written.
            if version == dialect.rdb_version() && !object.shape().is_counting() {
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
            } else if pieces().next().map_or(0, claimed_bytes) <= 1 << 20 {
                assert_same_pieces(&reread(&partial), &loaded_bytes);
            }
        }
    }
}

/// Returns the bytes that describe all of an object.
fn bytes_of(object: &Object) -> Vec<u8> {
    dump::encode(object).unwrap_or_else(|| fields_of(object))
}

fn fields_of(object: &Object) -> Vec<u8> {
    let mut written = Written::default();
    rdb::write(object, &mut written);
    written.0
}

fn fields_of_partial(partial: &Partial) -> Vec<u8> {
    let mut written = Written::default();
    partial.write_rdb(&mut written);
    written.0
}

/// Reads the header of a chunked dump, limits, and chunks. Most chunks continue where the last one ended.
fn pieces(mut source: Source) {
    let header = source.string();
    let limits = match source.byte() {
        0 => Limits::NONE,
        _ => Limits {
            filter_bytes: source.u16().into(),
            object_bytes: source.u16().into(),
            saturate: false,
        },
    };
    let small = 1000 + 10 * header.len();
    // A RedisBloom object without items allocates its bytes at once, and missing bytes are written as zeros.
    let claimed = claimed_bytes(header);
    if claimed > 1 << 20 {
        return;
    }
    let whole = small + usize::try_from(claimed).expect("few");
    let mut partial = match bounded(whole, || chunks::begin(header, limits)) {
        Ok(Value::Partial(partial)) => partial,
        Ok(Value::Complete(object)) if Dialect::of(&object) == Dialect::RedisBloom => {
            assert_eq!(object.totals().1, 0, "bits that were not loaded");
            assert!(object.is_within(limits), "more than the limits admit");
            return check(object, source);
        }
        Ok(Value::Complete(object)) => {
            assert!(object.shape().window().is_some(), "no filters");
            assert_eq!(object.totals(), (0, 0, 0), "bits that were not loaded");
            assert!(object.is_within(limits), "more than the limits admit");
            return check(object, source);
        }
        Err(_) => return,
    };
    let mut loaded_bytes = header.to_vec();
    while !source.0.is_empty() {
        let kind = source.byte();
        let chunk = source.string();
        let end = (loaded_bytes.len() - header.len() + chunk.len()) as u64;
        let cursor = if kind == 0 {
            end + 1
        } else {
            u64::from_le_bytes(source.array())
        };
        let most = small + 4 * (loaded_bytes.len() + chunk.len());
        match bounded(most, || partial.load(cursor, chunk)) {
            Ok(Some(object)) => {
                loaded_bytes.extend(chunk);
                let bitmaps = object.views().map(|f| f.bitmap().expect("there is memory"));
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

/// Returns the bytes of cells that a header of `RedisBloom` claims, or 0 for other headers.
fn claimed_bytes(header: &[u8]) -> u64 {
    let (links, rest) = header.get(20..).unwrap_or_default().as_chunks::<53>();
    let count = header
        .get(8..12)
        .map(|count| u32::from_le_bytes(count.try_into().expect("four")));
    if !rest.is_empty() || count.map(u64::from) != Some(links.len() as u64) {
        return 0;
    }
    let claims = links.iter().filter_map(|link| link.first_chunk().copied());
    claims.map(u64::from_le_bytes).fold(0, u64::saturating_add)
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
    let claimed = claimed_bytes(string_in(whole));
    if claimed > 1 << 20 {
        return;
    }
    let most = 1000 + 20 * whole.len() + usize::try_from(claimed).expect("few");
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

/// Writes the parts of an object in each form, and asserts that all forms decode to the same object.
fn parts_in_each_form(source: Source) {
    let parts = { source }.parts();
    let (dump, fields) = (parts.dump(), fields_written(&parts));
    // The dump, with every blob cut after its own header.
    let header = parts.written(129, |blob| &blob[..HEADER_BYTES]);
    let older = parts
        .filters
        .split_last()
        .map_or(&[][..], |(_, older)| older);
    let in_fields = !parts.filters.is_empty() && older.iter().all(|f| f.items == f.capacity);

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
            assert_consists_of(&object, &parts);
            same(
                &object,
                &filled(begun.expect("the dump is an object"), &parts),
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
            assert_eq!(begun.err(), Some(Some(refusal)));
            // If there are several reasons, each reader may find a different one first.
            assert!(read.is_none_or(|read| read.is_err()));
        }
    }
}

/// Asserts that an object consists of these parts.
fn assert_consists_of(object: &Object, parts: &Parts) {
    let shape = object.shape();
    assert_eq!(shape.kind, Kind::Plain);
    assert_eq!(
        Some(shape.params.capacity),
        parts.filters.first().map(|f| f.capacity)
    );
    assert_eq!(shape.params.growth.expansion(), parts.expansion);
    let (rate, tightening) = (shape.params.error_rate, shape.params.tightening);
    assert_eq!(
        [rate.get(), tightening.to_stored()].map(f64::to_bits),
        [parts.error_rate, parts.tightening].map(f64::to_bits)
    );
    let filters = object.views();
    let filters = filters.map(|f| (f.blob(), f.capacity(), f.items()));
    let expected = parts.filters.iter();
    assert!(filters.eq(expected.map(|f| (Some(Cow::from(&f.blob[..])), f.capacity, f.items))));
}

/// Completes a begun object with the cells of these parts.
fn filled(begun: Value, parts: &Parts) -> Object {
    let Value::Partial(mut partial) = begun else {
        panic!("complete without cells");
    };
    let mut cursor = 1;
    for chunk in parts.filters.iter().map(|f| &f.blob[HEADER_BYTES..]) {
        cursor += chunk.len() as u64;
        if let Some(object) = partial.load(cursor, chunk).expect("the dump is an object") {
            return object;
        }
    }
    panic!("not complete with all cells");
}

/// Returns the RDB fields of these parts, which lack the number of items of older filters.
fn fields_written(parts: &Parts) -> Vec<u8> {
    let mut out = Written::default();
    out.uint(parts.filters.len() as u64);
    out.uint(parts.expansion.into());
    out.double(parts.error_rate);
    out.double(parts.tightening);
    out.uint(parts.seed_is_random.into());
    for (index, filter) in parts.filters.iter().enumerate() {
        out.uint(filter.capacity);
        if index + 1 == parts.filters.len() {
            out.uint(filter.items);
        }
        out.bytes(&filter.blob);
    }
    out.0
}

#[track_caller]
fn same(left: &Object, right: &Object) {
    assert_eq!((left.check(), right.check()), (Ok(()), Ok(())));
    assert_eq!(Dialect::of(left), Dialect::of(right));
    assert!(bytes_of(left) == bytes_of(right), "the bytes differ");
    assert_eq!(left.shape(), right.shape());
    assert_eq!(left.hasher(), right.hasher());
    assert_eq!(left.totals(), right.totals());
    // A table of periods may have spare capacity.
    if left.is_plain() {
        assert_eq!(left.memory_bytes(), right.memory_bytes());
    }
}

/// Asserts that an object survives each form unchanged, and returns a decoded copy.
fn assert_survives_each_form(object: &Object) -> Object {
    let dialect = Dialect::of(object);
    let fields = fields_of(object);
    let mut from = Source(&fields);
    let read = rdb::read(dialect, dialect.rdb_version(), &mut from);
    let Ok(Value::Complete(mut copy)) = read else {
        panic!("it can't read what it wrote");
    };
    assert!(from.0.is_empty(), "fields are left");
    same(object, &copy);

    let dump = dump::encode(object);
    assert_eq!(dump.is_none(), dialect == Dialect::RedisBloom);
    assert_eq!(dump.as_ref().map(Vec::len), dump::encoded_len(object));
    if let Some(dump) = dump {
        copy = dump::decode(&dump).expect("it was encoded");
        same(object, &copy);
    }

    let (clone, took) = measured(|| object.try_clone().expect("there is memory"));
    same(object, &clone);
    if let Some(took) = took {
        let base = Object::BASE_BYTES;
        assert_eq!(took as u64, clone.memory_bytes() - base, "bytes of memory");
    }
    same(object, &by_pieces(object));
    copy
}

/// Copies an object piece by piece.
fn by_pieces(object: &Object) -> Object {
    let mut pieces = chunks::pieces(object);
    let mut piece = |cursor| {
        let (next, piece) = chunks::piece(object, cursor).unwrap();
        let same = pieces
            .next()
            .map(|(next, piece)| (next, piece.bytes().to_vec()));
        let expected = (next > 0).then(|| (next, piece.bytes().to_vec()));
        assert!(same == expected, "one pass gives other pieces");
        (next, piece)
    };
    let (mut cursor, header) = piece(0);
    let begun = chunks::begin(header.bytes(), Limits::NONE);
    let mut partial = match begun.expect("it was written") {
        Value::Partial(partial) => partial,
        // The object has no filters, or is RedisBloom's and has no items.
        Value::Complete(mut copy) => loop {
            let (next, chunk) = piece(cursor);
            if next == 0 {
                return copy;
            }
            let loaded = chunks::overwrite(&mut copy, next, chunk.bytes());
            loaded.expect("it was written");
            cursor = next;
        },
    };
    loop {
        let (next, chunk) = piece(cursor);
        let loaded = partial.load(next, chunk.bytes());
        cursor = next;
        if let Some(copy) = loaded.expect("it was written") {
            assert_eq!(piece(cursor).0, 0);
            return copy;
        }
    }
}

/// Applies every operation to an object, and asserts that it survives each form.
fn check(mut object: Object, source: Source) {
    assert_survives_each_form(&object);
    if object.is_plain() {
        check_adds(&mut object);
    }
    let clone = object.try_clone().expect("there is memory");
    assert_eq!(object.relocate(0, &mut Copying), None);
    same(&object, &clone);
    operate(object, source);
}

/// Relocates everything at once.
pub struct Copying;

impl Relocate for Copying {
    fn should_stop(&mut self) -> bool {
        false
    }

    fn table<T>(&mut self, table: Vec<T>) -> Vec<T> {
        table.into_iter().collect()
    }

    fn blob(&mut self, blob: Box<[u8]>) -> Box<[u8]> {
        blob.to_vec().into()
    }
}

/// Adds some items to a plain object, which never reads the time.
fn check_adds(object: &mut Object) {
    let never = || panic!("a plain object reads the time");
    let limits = Limits {
        filter_bytes: 1 << 10,
        object_bytes: 1 << 14,
        saturate: object.items(never).is_multiple_of(2),
    };
    let items: [&[u8]; 6] = [b"", b"a", b"bc", b"ITEM", &[0xff; 9], &[0; 33]];
    let mut claims = Vec::new();
    object.contains_each(items.into_iter(), never, |claimed| claims.push(claimed));
    assert_eq!(claims, items.map(|item| object.contains(item, never)));
    for item in items {
        let (claimed, before) = (object.contains(item, never), object.items(never));
        let added = object.add(item, Time::default(), None, || limits);
        assert_eq!(object.check(), Ok(()));
        match added {
            Ok(Added::New) => assert!(!claimed && object.items(never) == before + 1),
            Ok(Added::Present) => assert!(claimed && object.items(never) == before),
            Ok(Added::Again) => panic!("counted in an object of bits"),
            Err(_) => assert!(!claimed && object.items(never) == before),
        }
    }
    for limits in [limits, Limits::NONE] {
        assert!(object.reach(never, limits) >= object.capacity(never));
    }
    assert_eq!(object.filters(never).count(), object.views().count());
    assert_survives_each_form(object);
}

/// Operates on a new object of a random shape.
fn operations(mut source: Source) {
    let fraction = |byte| Fraction::new(f64::from(byte).max(0.5) / 256.0).expect("in range");
    let params = Params {
        capacity: u64::from(source.byte() % 32) + 1,
        error_rate: fraction(source.byte()),
        tightening: Tightening::ours(fraction(source.byte())),
        growth: Growth::from_expansion((source.byte() % 4).into()),
    };
    let (options, seed) = (source.byte(), Seed::new([source.byte(); 32]));
    let window = Window::new(
        u64::from(source.byte()) + 1,
        u64::from(source.byte() % 8) + 1,
    );
    let kind = if options % 2 > 0 {
        Kind::Windowed(window.expect("in range"))
    } else {
        Kind::Counting
    };
    let start = Time::at(source.u16().into());
    let object = Object::new(&Shape { params, kind }, seed, start, Limits::NONE);
    check(object.expect("there is memory"), source);
}

/// Applies operations at any time to an object, and to a copy that sometimes passes through every form. Asserts that
/// both stay equal.
fn operate(mut object: Object, mut source: Source) {
    let counting = object.shape().is_counting();
    let mut copy = object.try_clone().expect("there is memory");
    let window = object.shape().window().map_or(1000, Window::ms);
    // The items that were added. A decoded object may hold others.
    let mut held: Vec<([u8; 2], Option<u64>)> = Vec::new();
    let mut now = u64::from(source.u16());
    for _ in 0..30 {
        let (what, item) = (source.byte(), [source.byte() % 64, 7]);
        let limits = match what >> 5 {
            0 | 1 => Limits {
                filter_bytes: 1 << 12,
                object_bytes: 1 << 15,
                saturate: true,
            },
            2 => Limits {
                filter_bytes: 1 << 10,
                object_bytes: 1 << 14,
                saturate: true,
            },
            _ => Limits {
                filter_bytes: 1 << 9,
                object_bytes: 1 << 12,
                saturate: false,
            },
        };
        match what % 8 {
            0..=2 => {
                let time = Time {
                    now_ms: now,
                    ttl_ms: (what & 8 != 0).then(|| source.u16().into()),
                };
                let id = (what & 16 != 0).then(|| source.byte().into());
                tidy(&mut object, &mut copy, now);
                let claimed = object.contains(&item, || now);
                let before = bytes_of(&object);
                let was_within = object.is_within(limits);
                let added = object.add(&item, time, id, || limits);
                assert_eq!(copy.add(&item, time, id, || limits), added);
                match added {
                    Ok(added) => {
                        assert_eq!(added == Added::New, !claimed);
                        assert!(object.contains(&item, || now), "denied right after the add");
                        assert!(!was_within || object.is_within(limits), "over its limits");
                        held.push((item, id));
                    }
                    Err(_) => assert!(bytes_of(&object) == before, "changed"),
                }
                if added == Ok(Added::Present) {
                    assert!(bytes_of(&object) == before, "changed");
                }
            }
            3 => {
                // Usually removes only items that were added.
                let place = held
                    .iter()
                    .position(|(other, id)| *other == item && id.is_none());
                let count = object.count(&item);
                if place.is_some() || what & 8 != 0 {
                    let removed = object.remove(&item, None);
                    assert_eq!(copy.remove(&item, None), removed);
                    assert!(!removed || counting && count > 0);
                }
            }
            4 => now = now.saturating_add(source.u16().into()),
            5 => now = now.saturating_sub(source.u16().into()),
            6 => {
                copy = assert_survives_each_form(&object);
                now = match source.byte() {
                    0 => now.saturating_mul(1000),
                    1 => i64::MAX as u64,
                    2 => 0,
                    _ => now.saturating_add(window).min(i64::MAX as u64),
                };
            }
            _ => {
                if let Ok(merged) = Object::merged(&[&object, &copy], limits) {
                    for (item, _) in &held {
                        let claimed = object.contains(item, || now);
                        assert!(!claimed || merged.contains(item, || now));
                    }
                    assert!(merged.is_within(limits));
                    copy = assert_survives_each_form(&merged);
                    object = merged;
                }
            }
        }
        assert_eq!((object.check(), copy.check()), (Ok(()), Ok(())));
        now = now.min(i64::MAX as u64);
        check_answers(&object, if what < 128 { now } else { now / 2 });
        if source.0.is_empty() {
            break;
        }
    }
    assert!(bytes_of(&copy) == bytes_of(&object), "the bytes differ");
    assert_survives_each_form(&object);
}

fn tidy(object: &mut Object, copy: &mut Object, now: u64) {
    let tidied = object.tidy(now);
    assert_eq!(copy.tidy(now), tidied);
    assert!(!object.tidy(now), "not tidy after tidying");
    assert_eq!((object.check(), copy.check()), (Ok(()), Ok(())));
}

/// Asserts that the answers of an object at a time agree with each other.
fn check_answers(object: &Object, now: u64) {
    let items: [&[u8]; 5] = [b"", b"a", &[3, 7], &[9, 7], &[0; 33]];
    let mut claims = Vec::new();
    object.contains_each(items.into_iter(), || now, |claimed| claims.push(claimed));
    assert_eq!(claims, items.map(|item| object.contains(item, || now)));
    let shape = object.shape();
    for item in items {
        let claimed = object.contains(item, || now);
        assert_eq!(object.count(item) > 0, shape.is_counting() && claimed);
    }
    let (mut items, mut capacity, mut filters) = (0_u64, 0_u64, 0);
    for (period, filter, rate) in object.filters(|| now) {
        items = items.saturating_add(filter.items());
        capacity = capacity.saturating_add(filter.capacity());
        filters += 1;
        assert!((0.0..=1.0).contains(&rate), "a rate of {rate}");
        assert_eq!(period.is_some(), shape.window().is_some());
    }
    let different = object.items(|| now);
    if shape.is_counting() {
        // With ids, several filters may count an item that is counted once in all.
        assert!(different <= items);
    } else {
        assert_eq!(different, items.min(MAX_CAPACITY));
    }
    assert_eq!(object.capacity(|| now), capacity.min(MAX_CAPACITY));
    assert_eq!(object.filter_count(|| now), filters);
    assert!(filters <= object.totals().0);
    let periods = object.live_periods(|| now);
    assert_eq!(periods.is_some(), shape.window().is_some());
    assert!(periods.is_none_or(|periods| periods <= filters));
    // These two calls take as long as all the others, so they are made rarely.
    if object.items(|| now) % 16 == 1 {
        assert!((0.0..=1.0).contains(&object.estimated_rate(|| now)));
        let most = object.reach(|| now, Limits::NONE);
        assert!(most > 0 || filters == 0, "{most} items");
    }
}

/// An RDB stream in the format that `Source` reads.
#[derive(Default)]
pub struct Written(pub Vec<u8>);

impl RdbWrite for Written {
    fn uint(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn double(&mut self, value: f64) {
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        let length = u16::try_from(value.len()).expect("no input is as long");
        self.0.extend(length.to_le_bytes());
        self.0.extend(value);
    }
}
