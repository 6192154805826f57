//! Bytes that may be an object. What is taken for one has to bear all that can be done with it, and
//! has to come out as it went in; what is not is refused, and takes no memory.

use valkeybloom::bloom::chunks::{self, Begun, Partial, Progress};
use valkeybloom::bloom::codec::{self, DecodeError, RdbRead, RdbWrite};
use valkeybloom::bloom::{
    Added, AnyObject, BloomObject, Extended, Family, Filter, Fraction, Growth, Limits, Params,
    Parts, Seed, Shape, Time, Window,
};

use super::source::Source;
use super::{bounded, measured};

/// Tries an input: its first byte names the form of the rest.
pub fn run(bytes: &[u8]) {
    // Lengths of strings are written in 16 bits.
    if bytes.len() > usize::from(u16::MAX) {
        return;
    }
    let mut source = Source(bytes);
    match source.byte() {
        0 => dump(source.0),
        1 => fields(source),
        2 => pieces(source),
        3 => half_loaded(source),
        4 => put_together(source),
        5 => redisblooms_fields(source),
        6 => extended_dump(source),
        7 => extended_fields(source),
        8 => operations(source),
        _ => {}
    }
}

/// The payload of BF.LOAD.
fn dump(dump: &[u8]) {
    const FLAG: usize = 1 + 4 + 8 + 8;
    let Ok(object) = bounded(1000 + 10 * dump.len(), || codec::decode(dump)) else {
        return;
    };
    // The same bytes, but that the seed's flag follows from the seed.
    let mut expected = dump.to_vec();
    expected[FLAG] = u8::from(object.seed().is_random());
    assert!(codec::encode(&object) == expected, "other bytes");
    check(object);
}

/// The fields in an RDB.
fn fields(mut source: Source) {
    const FLAG: usize = 4 * 8;
    let whole = source.0;
    let Ok(object) = bounded(1000 + 20 * whole.len(), || read_fields(&mut source)) else {
        return;
    };
    let mut expected = whole[..whole.len() - source.0.len()].to_vec();
    expected[FLAG] = u8::from(object.seed().is_random());
    assert!(fields_of(&object) == expected, "other fields");
    check(object);
}

fn read_fields(source: &mut Source) -> Result<BloomObject, DecodeError> {
    let count = source.uint()?;
    codec::read_rdb(count, source)
}

/// The fields of an object of RedisBloom, behind their encoding version.
fn redisblooms_fields(mut source: Source) {
    let version = i32::from(source.byte());
    let whole = source.0;
    let read = bounded(1000 + 20 * whole.len(), || {
        read_redisbloom(&mut source, version)
    });
    let Ok(object) = read else {
        return;
    };
    assert!(object.is_redisbloom() && version <= 4);
    // The newest encoding is what is written.
    if version == 4 {
        let read = &whole[..whole.len() - source.0.len()];
        assert!(fields_of(&object) == read, "other fields");
    }
    check(object);
}

fn read_redisbloom(source: &mut Source, version: i32) -> Result<BloomObject, DecodeError> {
    let (items, count) = (source.uint()?, source.uint()?);
    codec::read_redisbloom(items, count, version, source)
}

/// The bytes that say all of an object.
fn bytes_of(object: &BloomObject) -> Vec<u8> {
    if object.is_redisbloom() {
        fields_of(object)
    } else {
        codec::encode(object)
    }
}

fn fields_of(object: &BloomObject) -> Vec<u8> {
    let mut written = Written::default();
    codec::write_rdb(object, &mut written);
    written.0
}

/// The header of a chunked dump, limits, and chunks, most of which continue where the last one ended.
fn pieces(mut source: Source) {
    let header = source.string();
    let limits = match source.byte() {
        0 => Limits::Obey,
        _ => Limits::Within {
            filter_bytes: source.u16().into(),
            object_bytes: source.u16().into(),
            saturate: false,
        },
    };
    let small = 1000 + 10 * header.len();
    let mut partial = match bounded(small, || chunks::begin(header, limits)) {
        Ok(Begun::Partial(partial)) => partial,
        Ok(Begun::Complete(AnyObject::Extended(object))) => {
            assert_eq!(object.totals(), (0, 0, 0), "bits that have not come");
            assert!(object.is_within(limits), "more than the limits admit");
            return check_extended(*object, source);
        }
        Ok(Begun::Complete(AnyObject::Plain(_))) => panic!("a plain object without chunks"),
        Err(_) => return,
    };
    let mut came = header.to_vec();
    while !source.0.is_empty() {
        let kind = source.byte();
        let chunk = source.string();
        let end = (came.len() - header.len() + chunk.len()) as u64;
        let cursor = if kind == 0 {
            end + 1
        } else {
            u64::from_le_bytes(source.array())
        };
        let most = small + 4 * (came.len() + chunk.len());
        match bounded(most, || partial.load(cursor, chunk)) {
            Ok(Progress::Complete(object)) => {
                came.extend(chunk);
                let bitmaps = object.all_filters().flat_map(Filter::bitmap);
                assert!(bitmaps.eq(&came[header.len()..]), "other bits");
                assert!(object.is_within(limits), "more than was announced");
                return match object {
                    AnyObject::Plain(object) => check(object),
                    AnyObject::Extended(object) => check_extended(*object, source),
                };
            }
            Ok(Progress::Partial) => came.extend(chunk),
            Err(_) => {}
        }
        assert!(partial.memory_bytes() <= (small + 2 * came.len()) as u64);
        same_pieces(&partial, &came);
    }
    same_pieces(&partial.try_clone().expect("there is memory"), &came);
    let mut written = Written::default();
    partial.write_rdb(&mut written);
    let mut from = Source(&written.0);
    for _ in 0..zeros(&partial) {
        assert_eq!(from.uint(), Ok(0));
    }
    let read = Partial::read_rdb(&mut from).expect("it was written");
    same_pieces(&read, &came);
}

#[track_caller]
fn same_pieces(partial: &Partial, came: &[u8]) {
    let pieces = partial.pieces().flat_map(|(_, bytes)| bytes);
    assert!(pieces.eq(came), "other pieces");
}

/// How many zeros stand before what is half loaded: the number of filters and, in one of RedisBloom,
/// that of items.
fn zeros(partial: &Partial) -> usize {
    1 + usize::from(partial.family() == Family::RedisBloom)
}

/// What an RDB holds of an object that was still coming.
fn half_loaded(mut source: Source) {
    let whole = source.0;
    let read = bounded(1000 + 20 * whole.len(), || Partial::read_rdb(&mut source));
    let Ok(partial) = read else {
        return;
    };
    let mut written = Written::default();
    partial.write_rdb(&mut written);
    let (zero, behind) = written.0.split_at(8 * zeros(&partial));
    assert!(zero.iter().all(|byte| *byte == 0));
    assert!(whole.starts_with(behind), "other fields");
    assert_eq!(behind.len(), whole.len() - source.0.len());
}

/// An object in parts, written in each form: all of them say the same of it.
fn put_together(source: Source) {
    let parts = { source }.parts();
    let (dump, header, fields) = (
        written(&parts, 1, false),
        written(&parts, 129, true),
        fields_written(&parts),
    );
    let older = parts
        .filters
        .split_last()
        .map_or(&[][..], |(_, older)| older);
    let in_fields = !parts.filters.is_empty() && older.iter().all(|f| f.items == f.capacity);
    let expected = BloomObject::from_parts(parts);
    let refusal = expected.as_ref().err();
    let refusal = refusal.map(|what| DecodeError::Malformed(what));

    let decoded = bounded(1000 + 10 * dump.len(), || codec::decode(&dump));
    assert_eq!(decoded.as_ref().err(), refusal.as_ref());
    let announced = bounded(1000 + 10 * header.len(), || {
        Partial::new(&header, Limits::Obey)
    });
    assert_eq!(announced.err(), refusal.map(Some));
    let read = in_fields.then(|| {
        bounded(1000 + 20 * fields.len(), || {
            read_fields(&mut Source(&fields))
        })
    });
    if let Some(read) = &read {
        // Of several reasons the reader comes upon another one first.
        assert_eq!(read.is_err(), refusal.is_some());
    }
    if let (Ok(expected), Ok(decoded)) = (expected, decoded) {
        same(&expected, &decoded);
        if let Some(Ok(read)) = read {
            same(&expected, &read);
        }
        check(expected);
    }
}

/// The dump of these parts, or their header, after the description of the format.
fn written(parts: &Parts, version: u8, cut: bool) -> Vec<u8> {
    let expansion = u32::try_from(parts.expansion).expect("it is made of 32 bits");
    let flag = u8::try_from(parts.seed_is_random).expect("it is made of a byte");
    let mut out = vec![version];
    out.extend(expansion.to_le_bytes());
    out.extend(parts.error_rate.to_le_bytes());
    out.extend(parts.tightening.to_le_bytes());
    out.push(flag);
    out.extend((parts.filters.len() as u64).to_le_bytes());
    for filter in &parts.filters {
        let blob = if cut {
            &filter.blob[..45]
        } else {
            &filter.blob
        };
        out.extend((blob.len() as u64).to_le_bytes());
        out.extend(blob);
        out.extend(filter.items.to_le_bytes());
        out.extend(filter.capacity.to_le_bytes());
    }
    out
}

/// The RDB fields of these parts, which do not say how many items older filters hold.
fn fields_written(parts: &Parts) -> Vec<u8> {
    let mut out = Written::default();
    out.uint(parts.filters.len() as u64);
    out.uint(parts.expansion);
    out.double(parts.error_rate);
    out.double(parts.tightening);
    out.uint(parts.seed_is_random);
    for filter in &parts.filters {
        out.bytes(&filter.blob);
        out.uint(filter.capacity);
    }
    out.uint(parts.filters.last().map_or(0, |f| f.items));
    out.0
}

#[track_caller]
fn same(left: &BloomObject, right: &BloomObject) {
    assert!(bytes_of(left) == bytes_of(right), "other bytes");
    assert_eq!(left.params(), right.params());
    assert_eq!(left.items(), right.items());
    assert_eq!(left.capacity(), right.capacity());
    assert_eq!(left.memory_bytes(), right.memory_bytes());
}

/// Does with an object what can be done with one, and sees that it comes out of each form again.
fn check(mut object: BloomObject) {
    comes_back(&object);
    let limits = Limits::Within {
        filter_bytes: 1 << 10,
        object_bytes: 1 << 14,
        saturate: object.items().is_multiple_of(2),
    };
    let items: [&[u8]; 6] = [b"", b"a", b"bc", b"ITEM", &[0xff; 9], &[0; 33]];
    let mut claims = Vec::new();
    object.contains_each(items.into_iter(), |claimed| claims.push(claimed));
    let alone = items.map(|item| object.contains(object.probe(item)));
    assert_eq!(claims, alone);
    for item in items {
        let probe = object.probe(item);
        let (claimed, before) = (object.contains(probe), object.items());
        match object.add(probe, || limits) {
            Ok(Added::New) => assert!(!claimed && object.items() == before + 1),
            Ok(Added::Present) => assert!(claimed && object.items() == before),
            Ok(Added::Again) => panic!("counted in an object of bits"),
            Err(_) => assert!(!claimed && object.items() == before),
        }
    }
    for limits in [limits, Limits::Obey] {
        assert!(object.max_scaled_capacity(limits) >= object.capacity());
    }
    for index in 0..=object.filters().len() {
        let rate = object.filter_rate(index);
        assert!((0.0..=1.0).contains(&rate), "a rate of {rate}");
    }
    let clone = object.try_clone().expect("there is memory");
    object.relocate_table(|table| table.into_iter().collect());
    for index in 0..object.filters().len() {
        assert!(object.relocate_filter(index, |blob| blob.to_vec().into()));
    }
    assert!(bytes_of(&object) == bytes_of(&clone), "other bytes");
    comes_back(&object);
}

fn comes_back(object: &BloomObject) {
    let fields = fields_of(object);
    let mut from = Source(&fields);
    let read = if object.is_redisbloom() {
        read_redisbloom(&mut from, codec::REDISBLOOM_RDB_VERSION)
    } else {
        let dump = codec::encode(object);
        assert_eq!(dump.len(), codec::encoded_len(object));
        same(object, &codec::decode(&dump).expect("it was encoded"));
        read_fields(&mut from)
    };
    same(object, &read.expect("it was written"));
    assert!(from.0.is_empty(), "fields behind the object");
    same(object, &object.try_clone().expect("there is memory"));

    let (mut cursor, header) = chunks::piece(object, 0);
    let partial = Partial::new(header.bytes(), Limits::Obey);
    let mut partial = partial.expect("it was written");
    loop {
        let (next, chunk) = chunks::piece(object, cursor);
        let loaded = partial.load(next, chunk.bytes());
        match loaded.expect("it was written") {
            Progress::Partial => cursor = next,
            Progress::Complete(copy) => {
                assert_eq!(chunks::piece(object, next).0, 0);
                let AnyObject::Plain(copy) = copy else {
                    panic!("another family");
                };
                return same(object, &copy);
            }
        }
    }
}

/// The payload of BF.LOAD for an object with periods or counters, and what is done with it.
fn extended_dump(mut source: Source) {
    let dump = [&[2], source.string()].concat();
    let decoded = bounded(1000 + 10 * dump.len(), || AnyObject::decode(&dump));
    let Ok(AnyObject::Extended(object)) = decoded else {
        return;
    };
    assert!(codec::encode_extended(&object) == dump, "other bytes");
    check_extended(*object, source);
}

/// Its fields in an RDB, behind the first.
fn extended_fields(mut source: Source) {
    let whole = source.0;
    let most = 1000 + 20 * whole.len();
    let Ok(object) = bounded(most, || codec::read_extended(&mut source)) else {
        return;
    };
    let read = &whole[..whole.len() - source.0.len()];
    assert!(extended_written(&object)[8..] == *read, "other fields");
    check_extended(object, source);
}

fn extended_written(object: &Extended) -> Vec<u8> {
    let mut written = Written::default();
    codec::write_extended(object, &mut written);
    written.0
}

/// A new one of a random shape.
fn operations(mut source: Source) {
    let params = Params {
        capacity: u64::from(source.byte() % 32) + 1,
        error_rate: Fraction::new(f64::from(source.byte()).max(0.5) / 256.0).expect("in range"),
        tightening: Fraction::new(f64::from(source.byte()).max(0.5) / 256.0).expect("in range"),
        growth: Growth::from_expansion((source.byte() % 4).into()),
    };
    let (options, seed) = (source.byte(), Seed::new([source.byte(); 32]));
    let window = Window::new(
        u64::from(source.byte()) + 1,
        u64::from(source.byte() % 8) + 1,
    );
    let windowed = options % 2 > 0;
    let shape = Shape {
        params,
        window: window.filter(|_| windowed),
        counting: !windowed,
    };
    let start = Time::at(source.u16().into());
    let object = Extended::new(&shape, seed, start, Limits::Obey);
    check_extended(object.expect("there is memory"), source);
}

/// Does with an object what can be done with one at any times, and with what comes out of its forms
/// the same.
fn check_extended(mut object: Extended, mut source: Source) {
    let shape = object.shape();
    assert_ne!(shape.window.is_some(), shape.counting, "no kind, or two");
    extended_comes_back(&object);
    let mut copy = object.try_clone().expect("there is memory");
    let window = object.shape().window.map_or(1000, Window::ms);
    // What was added to it and not taken back; a decoded one may hold other things.
    let mut held: Vec<([u8; 2], Option<u64>)> = Vec::new();
    let mut now = u64::from(source.u16());
    for _ in 0..30 {
        let (what, item) = (source.byte(), [source.byte() % 64, 7]);
        let probe = object.probe(&item);
        let limits = match what >> 5 {
            0 | 1 => Limits::Within {
                filter_bytes: 1 << 12,
                object_bytes: 1 << 15,
                saturate: true,
            },
            2 => Limits::Within {
                filter_bytes: 1 << 10,
                object_bytes: 1 << 14,
                saturate: true,
            },
            _ => Limits::Within {
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
                let claimed = object.contains(probe, now);
                let before = codec::encode_extended(&object);
                let was_within = object.is_within(limits);
                let added = object.add(probe, time, id, || limits);
                assert_eq!(copy.add(probe, time, id, || limits), added);
                match added {
                    Ok(added) => {
                        assert_eq!(added == Added::New, !claimed);
                        assert!(object.contains(probe, now), "denied at once");
                        assert!(!was_within || object.is_within(limits), "over its limits");
                        held.push((item, id));
                    }
                    Err(_) => assert!(codec::encode_extended(&object) == before, "changed"),
                }
                if added == Ok(Added::Present) {
                    assert!(codec::encode_extended(&object) == before, "changed");
                }
            }
            3 => {
                // Only what is there, in an object that holds nothing else in its place.
                let place = held
                    .iter()
                    .position(|(other, id)| *other == item && id.is_none());
                let count = object.count(probe);
                if place.is_some() || what & 8 != 0 {
                    let removed = object.remove(probe, None);
                    assert_eq!(copy.remove(probe, None), removed);
                    assert!(!removed || object.shape().counting && count > 0);
                }
            }
            4 => now = now.saturating_add(source.u16().into()),
            5 => now = now.saturating_sub(source.u16().into()),
            6 => {
                copy = extended_comes_back(&object);
                now = match source.byte() {
                    0 => now.saturating_mul(1000),
                    1 => i64::MAX as u64,
                    2 => 0,
                    _ => now.saturating_add(window).min(i64::MAX as u64),
                };
            }
            _ => {
                let both = [&object, &copy];
                if let Ok(merged) = Extended::merged(&both, limits) {
                    for (item, _) in &held {
                        let probe = object.probe(item);
                        assert!(merged.contains(probe, now) || !object.contains(probe, now));
                    }
                    assert!(merged.is_within(limits));
                    copy = extended_comes_back(&merged);
                    object = merged;
                }
            }
        }
        now = now.min(i64::MAX as u64);
        asked(&object, if what < 128 { now } else { now / 2 });
        if source.0.is_empty() {
            break;
        }
    }
    assert!(
        codec::encode_extended(&copy) == codec::encode_extended(&object),
        "other bytes"
    );
    extended_comes_back(&object);
}

fn tidy(object: &mut Extended, copy: &mut Extended, now: u64) {
    let tidied = object.tidy(now);
    assert_eq!(copy.tidy(now), tidied);
    assert!(!object.tidy(now), "not tidy at once");
}

/// What an object tells of itself at a time.
fn asked(object: &Extended, now: u64) {
    let items: [&[u8]; 5] = [b"", b"a", &[3, 7], &[9, 7], &[0; 33]];
    let mut claims = Vec::new();
    object.contains_each(items.into_iter(), now, |claimed| claims.push(claimed));
    let alone = items.map(|item| object.contains(object.probe(item), now));
    assert_eq!(claims, alone);
    for item in items {
        let probe = object.probe(item);
        let claimed = object.contains(probe, now);
        assert_eq!(object.count(probe) > 0, object.shape().counting && claimed);
    }
    let (mut items, mut capacity, mut filters) = (0, 0, 0);
    for (_, filter, rate) in object.filters(now) {
        items += filter.items();
        capacity += filter.capacity();
        filters += 1;
        assert!((0.0..=1.0).contains(&rate), "a rate of {rate}");
    }
    assert_eq!((object.items(now), object.capacity(now)), (items, capacity));
    let (all, ..) = object.totals();
    assert!(filters <= all && object.live_periods(now) <= all);
    assert!((0.0..=1.0).contains(&object.estimated_rate(now)));
    let most = object.max_scaled_capacity(now, Limits::Obey);
    assert!(most > 0 || object.live_periods(now) == 0, "{most} items");
}

/// Sees that an object comes out of each form as it went in.
fn extended_comes_back(object: &Extended) -> Extended {
    let dump = codec::encode_extended(object);
    let same = |copy: &Extended| {
        assert!(codec::encode_extended(copy) == dump, "other bytes");
        assert_eq!(copy.shape(), object.shape());
        assert_eq!(copy.totals(), object.totals());
    };
    let Ok(AnyObject::Extended(decoded)) = AnyObject::decode(&dump) else {
        panic!("it was encoded, and is no object");
    };
    same(&decoded);
    let fields = extended_written(object);
    let mut from = Source(&fields);
    assert_eq!(from.uint(), Ok(1));
    same(&codec::read_extended(&mut from).expect("it was written"));
    assert!(from.0.is_empty(), "fields behind the object");
    let (clone, took) = measured(|| object.try_clone().expect("there is memory"));
    same(&clone);
    let any = AnyObject::Extended(Box::new(clone));
    assert_eq!(any.encoded_len(), dump.len());
    if let Some(took) = took {
        let base = Extended::BASE_BYTES;
        assert_eq!(took as u64, any.memory_bytes() - base, "bytes of memory");
    }
    let (mut cursor, header) = any.piece(0);
    let begun = chunks::begin(header.bytes(), Limits::Obey);
    let mut partial = match begun.expect("it was written") {
        Begun::Partial(partial) => partial,
        Begun::Complete(AnyObject::Extended(copy)) => {
            assert_eq!(any.totals().0, 0, "chunks are lacking");
            same(&copy);
            return *decoded;
        }
        Begun::Complete(AnyObject::Plain(_)) => panic!("another family"),
    };
    loop {
        let (next, chunk) = any.piece(cursor);
        match partial.load(next, chunk.bytes()).expect("it was written") {
            Progress::Partial => cursor = next,
            Progress::Complete(AnyObject::Extended(copy)) => {
                assert_eq!(any.piece(next).0, 0);
                same(&copy);
                return *decoded;
            }
            Progress::Complete(AnyObject::Plain(_)) => panic!("another family"),
        }
    }
}

/// What [`Source`] reads as an RDB stream.
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
