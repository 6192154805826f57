//! Refused allocations: operations that grow with the input fail, the program does not end, objects stay valid, and a
//! second try succeeds.
//!
//! A failure ends this program: an allocation that cannot fail was refused.

mod cms;
#[allow(unsafe_code, reason = "an allocator is unsafe")]
mod refusing;
mod samples;
mod table;
mod tdigest;
mod topk;

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::bloom::chunks::{self, LoadError, Value};
use valkeybloom_sketches::bloom::{Dialect, Limits, MergeError, Object, Refusal, Time, dump, rdb};
use valkeybloom_sketches::cuckoo::wire as cuckoo_wire;
use valkeybloom_sketches::cuckoo::{self, Cuckoo};

use valkeybloom_sketches::Seed;
use valkeybloom_testing::support::{
    Stream, begin_partial, complete, object_of, params, pieces, scaled_to,
};

use refusing::{Family, each_refused, each_refused_of, most_bytes};
use samples::{cuckoo_filter, item, last_time, samples};

/// Requires that what was made under refusals is this object, or that memory was refused.
fn same_or_refused(made: Result<Object, DecodeError>, was_refused: bool, object: &Object) {
    match made {
        Ok(made) => {
            assert_eq!(made.check(), Ok(()));
            assert!(pieces(&made) == pieces(object), "other bytes");
        }
        Err(error) => assert_eq!((error, was_refused), (DecodeError::NoMemory, true)),
    }
}

/// Runs a case on each object. Something has to be refused.
fn on_each(objects: &[Object], case: impl FnMut(&Object) -> usize) {
    let refusals: usize = objects.iter().map(case).sum();
    assert!(refusals > 0, "nothing was refused");
}

#[test]
fn dumps_are_decoded_and_encoded() {
    let mut objects = samples();
    objects.retain(|object| Dialect::of(object).has_dump());
    on_each(&objects, |object| {
        let expected = dump::encode(object).unwrap();
        let decoded = each_refused_of(
            || dump::decode(&expected),
            |made, refused| same_or_refused(made, refused, object),
        );
        let encoded = each_refused_of(
            || (dump::encoded_len(object), dump::encode(object)),
            |(length, dump), refused| {
                let is_length = |length| length == expected.len() || !object.is_plain();
                assert!(length.is_none_or(is_length));
                assert!(dump.as_ref().is_none_or(|dump| *dump == expected));
                assert!(refused || length.is_some() && dump.is_some());
            },
        );
        decoded + encoded
    });
}

#[test]
fn fields_are_read_and_objects_copied() {
    on_each(&samples(), |object| {
        let dialect = Dialect::of(object);
        let fields = Stream::of(|to| rdb::write(object, to));
        let read = |mut from: Stream| rdb::read(dialect, dialect.rdb_version(), &mut from);
        let read = each_refused(
            || fields.clone(),
            read,
            |made, refused| same_or_refused(made.map(complete), refused, object),
        );
        let copied = each_refused_of(
            || object.try_clone().ok_or(DecodeError::NoMemory),
            |copy, refused| same_or_refused(copy, refused, object),
        );
        read + copied
    });
}

/// Loads chunks, each until there is memory for it.
fn load(header: &[u8], chunks: &[(u64, Vec<u8>)]) -> Result<Option<Object>, DecodeError> {
    let begun = chunks::begin(header, Limits::NONE).map_err(|error| match error {
        LoadError::Decode(error) => error,
        LoadError::TooLarge => panic!("there are no limits"),
    });
    let mut partial = match begun? {
        Value::Partial(partial) => partial,
        Value::Complete(object) => return Ok(Some(object)),
    };
    for (cursor, chunk) in chunks {
        let loaded = match partial.load(*cursor, chunk) {
            Err(DecodeError::NoMemory) => partial.load(*cursor, chunk),
            loaded => loaded,
        };
        if let Some(object) = loaded? {
            return Ok(Some(object));
        }
    }
    Ok(None)
}

#[test]
fn chunks_are_loaded() {
    on_each(&samples(), |object| {
        let all = pieces(object);
        let (header, chunks) = all.split_first().unwrap();
        // Each chunk of cells in two halves, so that blobs grow.
        let halves = |(end, chunk): &(u64, Vec<u8>)| {
            let (one, other) = chunk.split_at(chunk.len() / 2);
            let middle = end - other.len() as u64;
            [(middle, one.to_vec()), (*end, other.to_vec())]
        };
        let mut halves: Vec<_> = chunks.iter().flat_map(halves).collect();
        halves.retain(|half| !half.1.is_empty());
        if !object.parts().is_empty() {
            halves = chunks.to_vec();
        }
        each_refused_of(
            || load(&header.1, &halves),
            |made, refused| {
                let made = made.map(|object| object.expect("all chunks came"));
                same_or_refused(made, refused, object);
            },
        )
    });
}

#[test]
fn partly_loaded_objects_are_read_and_copied() {
    on_each(&samples(), |object| {
        let all = pieces(object);
        let mut partial = begin_partial(&all[0].1).unwrap();
        if all.len() > 2 {
            partial.load(all[1].0, &all[1].1).unwrap();
        }
        let fields = Stream::of(|to| partial.write_rdb(to));
        let (dialect, version) = (partial.dialect(), partial.dialect().rdb_version());
        let check = |made, refused| match made {
            Ok(Value::Partial(made)) => assert!(made.pieces().eq(partial.pieces())),
            Ok(Value::Complete(_)) => panic!("chunks are lacking"),
            Err(error) => assert_eq!((error, refused), (DecodeError::NoMemory, true)),
        };
        let copy = || partial.try_clone().ok_or(DecodeError::NoMemory);
        let copied = each_refused_of(|| copy().map(Box::new).map(Value::Partial), check);
        let read = |mut from: Stream| rdb::read(dialect, version, &mut from);
        copied + each_refused(|| fields.clone(), read, check)
    });
}

#[test]
fn pieces_are_written() {
    on_each(&samples(), |object| {
        let (mut cursor, mut refusals) = (0, 0);
        for (next, expected) in pieces(object) {
            refusals += each_refused_of(
                || chunks::piece(object, cursor),
                |piece, refused| match piece {
                    Some((end, piece)) => assert!(end == next && *piece == *expected),
                    None => assert!(refused),
                },
            );
            cursor = next;
        }
        refusals
    });
}

/// Items are added one by one, and all together; filters are stacked, tables begun, split, swept and freed.
#[test]
fn items_are_added() {
    let items: Vec<_> = (100_000..100_400).map(item).collect();
    on_each(&samples(), |object| {
        let now = last_time(object);
        let copy = || object.try_clone().unwrap();
        let each = |mut object: Object| {
            let items = items.iter().map(|item| &item[..]);
            let mut refused = None;
            let outcome = |outcome: Result<_, _>| refused = outcome.err();
            object.add_each(items, Time::at(now), || Limits::NONE, outcome);
            (object, refused, now)
        };
        let one_by_one = |mut object: Object| {
            let mut refusal = None;
            for (index, item) in (0..).zip(&items) {
                let now = now + 5 * index;
                object.tidy(now);
                let added = object.add(item, Time::at(now), || Limits::NONE);
                refusal = refusal.or(added.err());
            }
            (object, refusal, now + 5 * items.len() as u64)
        };
        let check = |(object, refusal, now): (_, Option<_>, _), refused| {
            valid_and_adds(object, &items, now);
            assert!(refusal.is_none() || refusal == Some(Refusal::OutOfMemory) && refused);
        };
        each_refused(copy, each, check) + each_refused(copy, one_by_one, check)
    });
}

/// Requires that an object is valid, and takes these items.
fn valid_and_adds(mut object: Object, items: &[[u8; 8]], now: u64) {
    assert_eq!(object.check(), Ok(()));
    for item in items {
        let added = object.add(item, Time::at(now), || Limits::NONE);
        assert!(added.is_ok() && object.contains(item, || now));
    }
    assert_eq!(object.check(), Ok(()));
}

/// Removals and expiry need no memory. Shards that lack it are split or joined later.
#[test]
fn items_are_removed_and_expire() {
    let mut objects = samples();
    objects.retain(|object| object.shape().is_counting() || object.shape().window().is_some());
    on_each(&objects, |object| {
        let now = last_time(object);
        let copy = || object.try_clone().unwrap();
        let items = || (0..4000).map(item);
        let remove = |mut object: Object| {
            let removed = items().filter(|item| object.remove(item)).count();
            (object, removed)
        };
        let (expected, count) = remove(copy());
        let removed = each_refused(copy, remove, |(object, removed), _| {
            assert_eq!((object.check(), removed), (Ok(()), count));
            assert!(pieces(&object) == pieces(&expected));
        });
        // Forward, so that some expire, and back to before that.
        let times = [now + 1_000, now.saturating_sub(500), now / 2, now];
        let set = |mut object: Object| {
            let mut refused = 0;
            for now in times {
                object.tidy(now);
                for number in now..now + 50 {
                    let added = object.add(&item(number), Time::at(now), || Limits::NONE);
                    refused += u32::from(added.is_err());
                    assert!(added.is_err() || object.contains(&item(number), || now));
                }
            }
            (object, refused)
        };
        let (expected, _) = set(copy());
        let set = each_refused(copy, set, |(object, refused), was_refused| {
            assert!(refused == 0 || was_refused);
            assert_eq!(object.check(), Ok(()));
            assert!(was_refused || pieces(&object) == pieces(&expected));
        });
        removed + set
    });
}

#[test]
fn objects_are_merged() {
    on_each(&samples(), |object| {
        let (now, mut other) = (last_time(object), object.try_clone().unwrap());
        for number in 10_000..12_000 {
            let added = other.add(&item(number), Time::at(now), || Limits::NONE);
            added.unwrap();
        }
        let union = |sources: [&Object; 2]| Object::union(&sources, Some(now), Limits::NONE);
        let expected = union([object, &other]).unwrap().as_ref().map(pieces);
        each_refused_of(
            || union([object, &other]),
            |merged, refused| match merged {
                Ok(merged) => assert!(merged.as_ref().map(pieces) == expected),
                Err(error) => {
                    let out_of_memory = MergeError::Refused(Refusal::OutOfMemory);
                    assert_eq!((error, refused), (out_of_memory, true));
                }
            },
        )
    });
}

/// Each table alone is within the limits.
#[test]
fn unions_are_refused_before_they_take_more_than_an_object_may() {
    let shape = scaled_to(params(20_000, 0.01, 2));
    let [one, other] = [0..500_000, 500_000..1_000_000].map(|numbers| {
        let mut object = object_of(&shape, Seed::FIXED);
        for number in numbers {
            let added = object.add(&item(number), Time::default(), || Limits::NONE);
            added.unwrap();
        }
        object
    });
    let union = |object_bytes| {
        let limits = Limits {
            object_bytes,
            ..Limits::NONE
        };
        most_bytes(|| Object::union(&[&one, &other], None, limits))
    };
    let bytes = union(u64::MAX).1.unwrap().unwrap().memory_bytes();
    assert!(union(bytes).1.is_ok());
    assert_eq!(
        union(bytes - 1).1.err(),
        Some(MergeError::Refused(Refusal::MemoryLimit))
    );
    let (most, refused) = union(bytes / 2);
    assert_eq!(
        refused.err(),
        Some(MergeError::Refused(Refusal::MemoryLimit))
    );
    assert!(4 * (most as u64) < 3 * bytes, "{most} of {bytes} bytes");
}

/// A few bytes may claim many fingerprints, or have many that are alike: neither takes much more memory than the bytes.
#[test]
fn forged_tables_take_little_memory() {
    let shape = scaled_to(params(1_000_000, 0.000_01, 2));
    let header = chunks::header(&object_of(&shape, Seed::FIXED)).unwrap();
    for (bits, k, payload) in [
        (12, 0, 0),
        (44, 0, 0),
        (44, 0, 255),
        (44, 30, 0),
        (60, 2, 36),
    ] {
        for bytes in [1, 100, 10_000, 1 << 20] {
            for count in [bytes / 4, 2 * bytes, 8 * bytes, 1 << 40, u64::MAX] {
                let mut piece = Vec::new();
                // A piece of the whole range, with one table.
                for field in [0, 1 << 60, 0, 1, 0, 1_000_000, bits, count, k, bytes] {
                    piece.extend(u64::to_le_bytes(field));
                }
                piece.extend(vec![payload; usize::try_from(bytes).unwrap()]);
                let (most, _) = most_bytes(|| {
                    let mut partial = begin_partial(&header).unwrap();
                    partial.load((1 << 60) + 1, &piece).map(drop)
                });
                let name = format!("{bits} bits, k {k}, {count} fingerprints in {bytes} bytes");
                assert!(most < 20_000 + 20 * piece.len(), "{most} bytes: {name}");
            }
        }
    }
}

const CUCKOO: Family<Cuckoo> = Family {
    write: |object, to| cuckoo_wire::write_rdb(object, to),
    read: |from| cuckoo_wire::read_rdb(cuckoo_wire::RDB_VERSION, from),
    copy: Cuckoo::try_clone,
};

#[test]
fn cuckoo_filters_are_read_copied_and_loaded() {
    let object = cuckoo_filter(3000);
    let refusals = CUCKOO.is_read_and_copied(&object);
    let fields = Stream::of(|to| cuckoo_wire::write_rdb(&object, to));
    let header = cuckoo_wire::write_header(&object);
    let load = || {
        let mut loaded = cuckoo_wire::begin(&header, &cuckoo::Limits::NONE).ok()?;
        for (cursor, chunk) in cuckoo_wire::chunks(&object) {
            let first = cuckoo_wire::load(&mut loaded, cursor, chunk);
            let written = first.or_else(|_| cuckoo_wire::load(&mut loaded, cursor, chunk));
            written.ok()?;
        }
        Some(loaded)
    };
    let loads = each_refused_of(load, |loaded, refused| {
        let loaded = loaded.map(|it| Stream::of(|to| (CUCKOO.write)(&it, to)));
        assert!(loaded.map_or(refused, |loaded| loaded == fields));
    });
    assert!(refusals > 0 && loads > 0, "nothing was refused");
}

#[test]
fn cuckoo_filters_grow() {
    let object = cuckoo_filter(1000);
    let add = |mut object: Cuckoo| {
        let mut refusal = None;
        for number in 1000..4000 {
            let added = object.add(&item(number), false, || cuckoo::Limits::NONE);
            refusal = refusal.or(added.err());
        }
        (object, refusal)
    };
    let refusals = each_refused(
        || object.try_clone().unwrap(),
        add,
        |(mut object, refusal), refused| {
            assert!(refusal.is_none() || refusal == Some(cuckoo::Refusal::OutOfMemory) && refused);
            for number in 1000..4000 {
                let added = object.add(&item(number), true, || cuckoo::Limits::NONE);
                assert!(added.is_ok() && object.contains(&item(number)));
            }
        },
    );
    assert!(refusals > 0, "nothing was refused");
}
