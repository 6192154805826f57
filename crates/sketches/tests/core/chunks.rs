//! Objects piece by piece: what SCANDUMP returns, LOADCHUNK takes, and what lies between.

use valkeybloom_sketches::CHUNK_BYTES;
use valkeybloom_sketches::bloom::chunks::{self, LoadError, Partial, Value};
use valkeybloom_sketches::bloom::{Dialect, Limits, Object, Time};
use valkeybloom_sketches::{DecodeError, Seed};

use crate::plain::{Plain, PlainFilter};
use crate::support::{
    Field, Rng, Stream, begin, begin_partial, bitmaps, counting, dump_of, fields_of_partial,
    filter, filters, grow, header_of, object, object_of, of_filters, params, partial, pieces,
    read_value, scaled_to, windowed, within,
};

fn begun(object: &Object) -> Partial {
    begin_partial(&header_of(object)).unwrap()
}

/// Returns an object whose bitmaps are of these lengths, of random bits. (To have filters of many megabytes without
/// adding millions of items.)
fn of_bitmaps(lengths: &[usize], rng: &mut Rng) -> Object {
    let seed = rng.seed();
    let filters = lengths.iter().map(|length| {
        let items = *length as u64;
        filter(7, &seed, items, rng.bytes(*length))
    });
    of_filters(2, filters.collect())
}

/// Returns a small object with filters of different sizes.
fn small() -> Object {
    let mut rng = Rng::new(1);
    let mut object = object(&params(4, 0.01, 2), rng.seed());
    grow(&mut object, &mut rng, |object| object.totals().0 == 3);
    object
}

#[test]
fn chunks_are_of_4_mib_at_most_and_end_where_a_filter_ends() {
    assert_eq!(CHUNK_BYTES, 4 * 1024 * 1024);
    let mut rng = Rng::new(3);
    let around = [CHUNK_BYTES * 2 + 5, 1, CHUNK_BYTES, CHUNK_BYTES - 1, 7];
    let lengths = [&around[..], &[CHUNK_BYTES + 1]].concat();
    let object = of_bitmaps(&lengths, &mut rng);
    let pairs = pieces(&object);
    let (header, chunks) = pairs.split_first().unwrap();
    assert_eq!(*header, (1, header_of(&object)));
    let sizes = chunks.iter().map(|(_, chunk)| chunk.len());
    let full = CHUNK_BYTES;
    assert!(sizes.eq([full, full, 5, 1, full, full - 1, 7, full, 1]));
    let cells = chunks.iter().flat_map(|(_, chunk)| chunk);
    assert!(cells.eq(&bitmaps(&object)));

    let (mut partial, mut end) = (begun(&object), 1);
    for (index, (cursor, chunk)) in (1..).zip(chunks) {
        // The pairs loaded so far are returned unchanged.
        assert!(state(&partial) == pairs[..index]);
        end += chunk.len() as u64;
        assert_eq!(*cursor, end);
        let loaded = partial.load(*cursor, chunk).unwrap();
        assert_eq!(loaded.is_some(), index == chunks.len());
        if let Some(loaded) = loaded {
            assert!(dump_of(&loaded) == dump_of(&object));
            assert_eq!(loaded.memory_bytes(), object.memory_bytes());
        }
    }
}

/// Returns the end of each filter's bitmap when all are concatenated.
fn ends(object: &Object) -> Vec<usize> {
    let mut ends = Vec::new();
    for filter in filters(object) {
        ends.push(ends.last().unwrap_or(&0) + filter.bitmap().len());
    }
    ends
}

#[test]
fn any_cursor_returns_the_rest_of_its_filter() {
    let object = small();
    let all = bitmaps(&object);
    let ends = ends(&object);
    for offset in 0..all.len() {
        let end = *ends.iter().find(|end| **end > offset).unwrap();
        let (next, piece) = chunks::piece(&object, offset as u64 + 1).unwrap();
        assert_eq!(next, end as u64 + 1);
        assert_eq!(piece, &all[offset..end]);
    }
    let past = all.len() as u64 + 1;
    for cursor in [past, past + 1, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX] {
        let (next, piece) = chunks::piece(&object, cursor).unwrap();
        assert_eq!(next, 0);
        assert!(piece.is_empty());
    }
}

/// Returns the state of a partial object: the pieces that would rebuild it.
fn state(partial: &Partial) -> Vec<(u64, Vec<u8>)> {
    let pieces = partial.pieces();
    pieces
        .map(|(cursor, bytes)| (cursor, bytes.to_vec()))
        .collect()
}

#[test]
fn a_chunk_that_does_not_continue_changes_nothing() {
    let object = small();
    let all = bitmaps(&object);
    let ends = ends(&object);
    let mut partial = begun(&object);
    for offset in 0..all.len() {
        let end = *ends.iter().find(|end| **end > offset).unwrap();
        let before = state(&partial);
        let at = offset as u64 + 1;
        let next = &all[offset..=offset];
        let order = DecodeError::Malformed("chunk out of order");
        let across = DecodeError::Malformed("chunk across a filter's end");
        let mut refused = |name: &str, expected, cursor: u64, chunk: &[u8]| {
            let error = partial.load(cursor, chunk).err();
            assert_eq!(error, Some(expected), "{name} at {offset}");
            assert!(state(&partial) == before, "{name} at {offset}");
        };
        refused("empty", order, at, &[]);
        refused("empty, further on", order, at + 1, &[]);
        refused("a gap of one", order, at + 2, next);
        refused("a gap", order, at + 1000, next);
        refused("the last one again", order, at, next);
        refused("cursor of its start", order, at, &all[offset..end]);
        refused("cursor 0", order, 0, next);
        refused("cursor 1", order, 1, next);
        refused("cursor 1 and the header", order, 1, &header_of(&object));
        refused("last cursor", order, u64::MAX, next);
        refused("longer than its cursor", order, at, &vec![0; offset + 1]);
        if offset > 0 {
            refused("overlap", order, at + 1, &all[offset - 1..=offset]);
            refused("from the start", order, at, &all[..offset]);
        }
        let mut long = all[offset..end].to_vec();
        long.push(0);
        refused("one too long", across, at + long.len() as u64, &long);
        if end < all.len() {
            let rest = &all[offset..];
            refused("across", across, at + rest.len() as u64, rest);
        }
        let huge = vec![0; all.len() + 1000];
        refused("much too long", across, at + huge.len() as u64, &huge);

        // The loaded bytes stay, and the right chunk continues them.
        let loaded = partial.load(at + 1, next).unwrap();
        assert_eq!(loaded.is_some(), offset + 1 == all.len());
        if let Some(loaded) = loaded {
            assert!(dump_of(&loaded) == dump_of(&object));
        }
    }
    let behind = all.len() as u64 + 2;
    let error = partial.load(behind, &[0]).err();
    assert_eq!(error, Some("chunk behind the last one".into()));
}

fn read(stream: Stream) -> Result<Partial, DecodeError> {
    let mark = stream.0.front();
    assert_eq!(mark, Some(&Field::Uint(0)), "the count that no object has");
    read_value(Dialect::Bloomfltr, 1, stream).map(partial)
}

#[test]
fn fields_of_a_partial_object_are_the_header_and_the_loaded_cells() {
    let mut rng = Rng::new(5);
    let object = of_bitmaps(&[4, 3], &mut rng);
    let all = bitmaps(&object);
    let mut partial = begun(&object);
    let fields = |chunks: &[&[u8]]| {
        let mut fields = vec![Field::Uint(0), Field::Bytes(header_of(&object))];
        fields.extend(chunks.iter().map(|c| Field::Bytes(c.to_vec())));
        Stream(fields.into())
    };
    assert_eq!(fields_of_partial(&partial), fields(&[&[]]));
    for (end, chunk, held) in [
        (3, &all[..2], &[&all[..2]][..]),
        (5, &all[2..4], &[&all[..4], &[]]),
        (6, &all[4..5], &[&all[..4], &all[4..5]]),
    ] {
        let _ = partial.load(end, chunk).unwrap();
        assert_eq!(fields_of_partial(&partial), fields(held));
    }

    // Fields that no half loaded object has.
    let refused = |stream: Stream| read(stream).err().unwrap();
    let complete = "complete object among the half loaded".into();
    assert_eq!(refused(fields(&[&all[..4], &all[4..]])), complete);
    let across = "chunk across a filter's end".into();
    assert_eq!(refused(fields(&[&all[..5]])), across);
    assert_eq!(refused(fields(&[&all[..4], &all])), across);
    let empty = fields(&[&[]]);
    let other = empty.with(1, Field::Bytes(dump_of(&object)));
    assert_eq!(refused(other), DecodeError::UnsupportedVersion);
    for wrong in [
        Stream([Field::Uint(0)].into()),
        fields(&[]),
        fields(&[&all[..4]]),
        empty.with(1, Field::Uint(7)),
        empty.with(2, Field::Uint(7)),
    ] {
        assert_eq!(refused(wrong), DecodeError::Truncated);
    }
}

/// Returns the header of an object whose filters claim bitmaps of these lengths.
fn claim(lengths: &[u64]) -> Vec<u8> {
    let filters = lengths.iter().map(|length| PlainFilter {
        bitmap_bytes: Some(*length),
        ..PlainFilter::new(1, 1, Vec::new())
    });
    let plain = Plain {
        filters: filters.collect(),
        ..Plain::new()
    };
    plain.header()
}

/// Memory is taken for what came, never for what is claimed: this would need 2⁵⁸ bytes.
#[test]
fn memory_grows_with_the_loaded_bytes() {
    for lengths in [
        &[1 << 40][..],
        &[1 << 58],
        &[1000, 1 << 58],
        &[1 << 32; 100],
    ] {
        let header = claim(lengths);
        let mut partial = begin_partial(&header).unwrap();
        let start = partial.memory_bytes();
        assert!(start >= header.len() as u64);
        assert!(start < 500 + 4 * header.len() as u64, "{start} at first");
        let mut come = 0;
        for chunk in [1, 10, 989, 4096, 10_000, 100, 1, 65_536] {
            let chunk = vec![0xff; chunk];
            come += chunk.len() as u64;
            let _ = partial.load(come + 1, &chunk).unwrap();
            let bytes = partial.memory_bytes();
            assert!(bytes >= start + come, "{bytes} for {come}");
            assert!(bytes <= start + 2 * come + 45, "{bytes} for {come}");
        }
        // Nor is it taken by what was written and comes back.
        let stored = read(fields_of_partial(&partial)).unwrap();
        for copy in [stored, partial.try_clone().unwrap()] {
            let bytes = copy.memory_bytes();
            assert!(bytes >= start + come, "{bytes} for {come}");
            assert!(bytes <= start + 2 * come + 45, "{bytes} for {come}");
        }
    }
    // A filter that is nearly loaded takes no more than it claims.
    let mut partial = begin_partial(&claim(&[3000])).unwrap();
    let start = partial.memory_bytes();
    for (end, chunk) in [(2001, 2000), (2501, 500), (3000, 499)] {
        let _ = partial.load(end, &vec![0; chunk]).unwrap();
        assert!(partial.memory_bytes() <= start + 3000);
    }
}

#[test]
fn limits_admit_a_header_where_they_would_admit_its_object() {
    let object = small();
    let header = header_of(&object);
    let sizes = filters(&object).into_iter();
    let newest = sizes.map(|f| f.geometry().blob_bytes()).max().unwrap();
    let total = object.memory_bytes();
    let admitted = |filter_bytes, object_bytes| {
        let limits = within(filter_bytes, object_bytes);
        let admitted = match chunks::begin(&header, limits) {
            Ok(value) => matches!(value, Value::Partial(_)),
            Err(LoadError::TooLarge) => false,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(admitted, object.is_within(limits));
        admitted
    };
    assert!(admitted(newest, total));
    assert!(!admitted(newest - 1, total));
    assert!(!admitted(newest, total - 1));
    assert!(!admitted(0, u64::MAX));
    assert!(!admitted(u64::MAX, 0));
}

/// A bad header is refused as such before limits are checked.
#[test]
fn a_bad_header_is_an_error_of_decoding() {
    let nothing = within(0, 0);
    let header = header_of(&small());
    for end in 0..header.len() {
        let error = chunks::begin(&header[..end], nothing).err().unwrap();
        assert_eq!(error, DecodeError::Truncated.into());
    }
}

/// A step of an upload that arrives twice is known, at any time until the object changes.
#[test]
fn what_was_loaded_is_held() {
    let mut rng = Rng::new(11);
    let params = params(3000, 0.01, 2);
    let window = windowed(params, 1000, 4);
    let mut objects = vec![
        small(),
        of_bitmaps(&[CHUNK_BYTES + 5, 1, 300], &mut rng),
        object_of(&counting(params), Seed::FIXED),
        object_of(&window, Seed::FIXED),
        object_of(&scaled_to(params), Seed::FIXED),
    ];
    for object in &mut objects[2..] {
        for _ in 0..70_000 {
            let added = object.add(&rng.bytes(8), Time::default(), || Limits::NONE);
            added.unwrap();
        }
    }
    for object in objects {
        let pairs = pieces(&object);
        assert!(pairs.len() > 3);
        let mut value = begin(&pairs[0].1).unwrap();
        for (place, (cursor, chunk)) in pairs.iter().enumerate() {
            if place > 0 {
                assert!(!value.holds(*cursor, chunk), "{place}");
                let Value::Partial(partial) = &mut value else {
                    panic!("complete before {place}");
                };
                if let Some(object) = partial.load(*cursor, chunk).unwrap() {
                    value = Value::Complete(object);
                }
            }
            for (cursor, chunk) in &pairs[..=place] {
                assert!(value.holds(*cursor, chunk), "{cursor} after {place}");
                assert!(!value.holds(cursor + 1, chunk), "{cursor} after {place}");
                assert!(!value.holds(0, chunk) && !value.holds(u64::MAX, chunk));
                assert!(!value.holds(*cursor, b""));
                let mut other = chunk.clone();
                *other.last_mut().unwrap() ^= 1;
                assert!(!value.holds(*cursor, &other), "{cursor} after {place}");
            }
        }
        assert!(matches!(value, Value::Complete(_)));
    }
}
