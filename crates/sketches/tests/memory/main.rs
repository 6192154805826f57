//! Refused allocations: operations that grow with the input fail, the program does not end, objects stay valid, and a
//! second try succeeds.
//!
//! A failure ends this program: an allocation that cannot fail was refused.

mod cms;
mod refusing;
mod samples;
mod tdigest;
mod topk;

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::bloom::chunks::{self, Partial, Value};
use valkeybloom_sketches::bloom::{Added, Dialect, Limits, Object, Refusal, Time, dump, rdb};
use valkeybloom_sketches::cuckoo::wire as cuckoo_wire;
use valkeybloom_sketches::cuckoo::{self, Cuckoo};

use refusing::each_refused;
use samples::{Reading, cuckoo_filter, fields_of, item, last_time, samples};

fn complete(value: Value) -> Object {
    match value {
        Value::Complete(object) => object,
        Value::Partial(partial) => panic!("chunks are lacking: {partial:?}"),
    }
}

/// Returns the bytes of an object, with all that is stored of it.
fn stored(object: &Object) -> Vec<(u64, Vec<u8>)> {
    let pieces = chunks::pieces(object);
    pieces
        .map(|(next, piece)| (next, piece.bytes().to_vec()))
        .collect()
}

/// Requires that what was made under refusals is this object, or that memory was refused.
fn same_or_refused(made: Result<Object, DecodeError>, was_refused: bool, object: &Object) {
    match made {
        Ok(made) => {
            assert_eq!(made.check(), Ok(()));
            assert!(stored(&made) == stored(object), "other bytes");
        }
        Err(error) => assert_eq!((error, was_refused), (DecodeError::NoMemory, true)),
    }
}

#[test]
fn dumps_are_decoded() {
    let mut refusals = 0;
    for object in samples() {
        let Some(dump) = dump::encode(&object) else {
            continue;
        };
        let decode = |()| dump::decode(&dump);
        refusals += each_refused(
            || (),
            decode,
            |made, refused| same_or_refused(made, refused, &object),
        );
    }
    assert!(refusals > 0, "nothing was refused");
}

#[test]
fn dumps_are_encoded() {
    let mut refusals = 0;
    for object in samples()
        .iter()
        .filter(|object| Dialect::of(object).has_dump())
    {
        let expected = dump::encode(object);
        let encode = |()| (dump::encoded_len(object), dump::encode(object));
        refusals += each_refused(
            || (),
            encode,
            |(length, dump), refused| {
                assert!(dump == expected || dump.is_none() && refused);
                assert!(length == expected.as_ref().map(Vec::len) || length.is_none() && refused);
            },
        );
    }
    assert!(refusals > 0, "nothing was refused");
}

#[test]
fn fields_are_read() {
    let mut refusals = 0;
    for object in samples() {
        let (dialect, fields) = (
            Dialect::of(&object),
            fields_of(|to| rdb::write(&object, to)),
        );
        let read = |mut from: Reading| rdb::read(dialect, dialect.rdb_version(), &mut from);
        refusals += each_refused(
            || fields.read(),
            read,
            |made, refused| {
                same_or_refused(made.map(complete), refused, &object);
            },
        );
    }
    assert!(refusals > 0, "nothing was refused");
}

/// Returns the samples whose filters are interleaved.
fn interleaved() -> Vec<Object> {
    let is = |object: &Object| object.periods().iter().any(|period| !period.has_own_bits());
    let samples: Vec<_> = samples().into_iter().filter(is).collect();
    assert!(!samples.is_empty());
    samples
}

#[test]
fn blobs_are_copied() {
    let mut refusals = 0;
    for object in interleaved() {
        let expected: Vec<_> = object
            .blobs()
            .map(|blob| blob.unwrap().into_owned())
            .collect();
        let copy = |()| {
            let (mut same, mut lacking) = (0, 0);
            for (blob, expected) in object.blobs().zip(&expected) {
                same += usize::from(blob.as_ref().is_some_and(|blob| blob == expected));
                lacking += usize::from(blob.is_none());
            }
            (same, lacking)
        };
        refusals += each_refused(
            || (),
            copy,
            |(same, lacking), refused| {
                assert_eq!(same + lacking, expected.len());
                assert!(lacking <= usize::from(refused));
            },
        );
    }
    assert!(refusals > 0, "nothing was refused");
}

/// Loads chunks, each until there is memory for it.
fn load(header: &[u8], chunks: &[(u64, Vec<u8>)]) -> Result<Option<Object>, DecodeError> {
    let no_limits = |error: Option<DecodeError>| error.expect("there are no limits");
    let mut partial = match chunks::begin(header, Limits::NONE).map_err(no_limits)? {
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
    let mut refusals = 0;
    for object in samples() {
        let pieces = stored(&object);
        let (header, chunks) = pieces.split_first().unwrap();
        // Each chunk in two halves, so that blobs grow.
        let halves = |(end, chunk): &(u64, Vec<u8>)| {
            let (one, other) = chunk.split_at(chunk.len() / 2);
            [
                (end - other.len() as u64, one.to_vec()),
                (*end, other.to_vec()),
            ]
        };
        let halves: Vec<_> = chunks
            .iter()
            .flat_map(halves)
            .filter(|half| !half.1.is_empty())
            .collect();
        let load = |()| load(&header.1, &halves);
        refusals += each_refused(
            || (),
            load,
            |made, refused| {
                let made = made.map(|object| object.expect("all chunks came"));
                same_or_refused(made, refused, &object);
            },
        );
    }
    assert!(refusals > 0, "nothing was refused");
}

#[test]
fn partly_loaded_objects_are_copied() {
    let mut refusals = 0;
    for object in samples() {
        let pieces = stored(&object);
        let begun = chunks::begin(&pieces[0].1, Limits::NONE);
        let Ok(Value::Partial(mut partial)) = begun else {
            panic!("chunks are to come")
        };
        partial.load(pieces[1].0, &pieces[1].1).unwrap();
        refusals += each_refused(
            || (),
            |()| partial.try_clone(),
            |copy: Option<Partial>, refused| match copy {
                Some(copy) => assert!(copy.pieces().eq(partial.pieces())),
                None => assert!(refused),
            },
        );
        let fields = fields_of(|to| partial.write_rdb(to));
        let read = |mut from: Reading| {
            let dialect = partial.dialect();
            rdb::read(dialect, dialect.rdb_version(), &mut from)
        };
        refusals += each_refused(
            || fields.read(),
            read,
            |read, refused| match read {
                Ok(Value::Partial(read)) => assert!(read.pieces().eq(partial.pieces())),
                Ok(Value::Complete(_)) => panic!("chunks are lacking"),
                Err(error) => assert_eq!((error, refused), (DecodeError::NoMemory, true)),
            },
        );
    }
    assert!(refusals > 0, "nothing was refused");
}

#[test]
fn pieces_are_written() {
    let mut refusals = 0;
    for object in samples() {
        let mut cursor = 0;
        for (next, expected) in stored(&object) {
            let read = |()| chunks::piece(&object, cursor);
            refusals += each_refused(
                || (),
                read,
                |piece, refused| match piece {
                    Some((end, piece)) => assert!(end == next && piece.bytes() == expected),
                    None => assert!(refused),
                },
            );
            cursor = next;
        }
    }
    assert!(refusals > 0, "nothing was refused");
}

/// A log takes shorter chunks, since it cannot do without any.
#[test]
fn pieces_are_shorter() {
    let mut refusals = 0;
    for object in interleaved() {
        let expected = stored(&object);
        let cells: Vec<u8> = expected[1..]
            .iter()
            .flat_map(|(_, bytes)| bytes)
            .copied()
            .collect();
        let mut shorter = 0;
        let write = |pieces: Pieces| {
            let (mut end, mut count) = (0, 0);
            for (cursor, chunk) in pieces.skip(1) {
                let begin = end;
                end += chunk.bytes().len();
                assert!(chunk.bytes() == &cells[begin..end] && cursor == end as u64 + 1);
                count += 1;
            }
            (end, count)
        };
        refusals += each_refused(
            || -> Pieces { Box::new(chunks::pieces(&object)) },
            write,
            |(end, count), _| {
                assert_eq!(end, cells.len());
                shorter = shorter.max(count);
            },
        );
        assert!(shorter > expected.len() - 1, "none is shorter");
    }
    assert!(refusals > 0, "nothing was refused");
}

type Pieces<'o> = Box<dyn Iterator<Item = (u64, chunks::Piece<'o>)> + 'o>;

#[test]
fn objects_are_copied() {
    let mut refusals = 0;
    for object in samples() {
        refusals += each_refused(
            || (),
            |()| object.try_clone(),
            |copy, refused| {
                let copy = copy.ok_or(DecodeError::NoMemory);
                same_or_refused(copy, refused, &object);
            },
        );
    }
    assert!(refusals > 0, "nothing was refused");
}

/// Items are added one by one, and all together; filters are stacked, periods begun, interleaved and freed.
#[test]
fn items_are_added() {
    let mut refusals = 0;
    let items: Vec<_> = (100_000..100_400).map(item).collect();
    for object in samples() {
        let now = last_time(&object);
        let id = object.shape().is_counting().then_some(7);
        let copy = || object.try_clone().unwrap();
        let each = |mut object: Object| {
            let items = items.iter().map(|item| &item[..]);
            let mut refused = None;
            object.add_each(
                items,
                Time::at(now),
                id,
                || Limits::NONE,
                |outcome| {
                    refused = outcome.err();
                },
            );
            (object, refused)
        };
        refusals += each_refused(copy, each, |(object, refusal), refused| {
            valid_and_adds(object, &items, now);
            assert!(refusal.is_none() || refusal == Some(Refusal::OutOfMemory) && refused);
        });
        let one_by_one = |mut object: Object| {
            let mut refusal = None;
            for (index, item) in (0..).zip(&items) {
                let now = now + 5 * index;
                object.tidy(now);
                let added = object.add(item, Time::at(now), id, || Limits::NONE);
                refusal = refusal.or(added.err());
            }
            (object, refusal)
        };
        refusals += each_refused(copy, one_by_one, |(object, refusal), refused| {
            valid_and_adds(object, &items, now + 5 * items.len() as u64);
            assert!(refusal.is_none() || refusal == Some(Refusal::OutOfMemory) && refused);
        });
    }
    assert!(refusals > 0, "nothing was refused");
}

/// Requires that an object is valid, and takes these items.
fn valid_and_adds(mut object: Object, items: &[[u8; 8]], now: u64) {
    assert_eq!(object.check(), Ok(()));
    for item in items {
        let added = object.add(item, Time::at(now), None, || Limits::NONE);
        assert!(matches!(
            added,
            Ok(Added::New | Added::Present | Added::Again)
        ));
        assert!(object.contains(item, || now));
    }
    assert_eq!(object.check(), Ok(()));
}

#[test]
fn cuckoo_filters_are_read_and_copied() {
    let mut refusals = 0;
    let object = cuckoo_filter(3000);
    let fields = fields_of(|to| cuckoo_wire::write_rdb(&object, to));
    let same = |copy: &Cuckoo| {
        let again = fields_of(|to| cuckoo_wire::write_rdb(copy, to));
        assert!(again == fields, "other fields");
    };
    let read = |mut from: Reading| cuckoo_wire::read_rdb(cuckoo_wire::RDB_VERSION, &mut from);
    refusals += each_refused(
        || fields.read(),
        read,
        |read, refused| match read {
            Ok(read) => same(&read),
            Err(error) => assert_eq!((error, refused), (DecodeError::NoMemory, true)),
        },
    );
    refusals += each_refused(
        || (),
        |()| object.try_clone(),
        |copy, refused| match copy {
            Some(copy) => same(&copy),
            None => assert!(refused),
        },
    );
    let header = cuckoo_wire::write_header(&object);
    let load = |()| {
        let mut loaded = cuckoo_wire::begin(&header, &cuckoo::Limits::NONE).ok()?;
        for (cursor, chunk) in cuckoo_wire::chunks(&object) {
            let first = cuckoo_wire::load(&mut loaded, cursor, chunk);
            assert!(
                first
                    .or_else(|_| cuckoo_wire::load(&mut loaded, cursor, chunk))
                    .ok()?
            );
        }
        Some(loaded)
    };
    refusals += each_refused(
        || (),
        load,
        |loaded, refused| match loaded {
            Some(loaded) => same(&loaded),
            None => assert!(refused),
        },
    );
    assert!(refusals > 0, "nothing was refused");
}

#[test]
fn cuckoo_filters_grow() {
    let mut refusals = 0;
    let object = cuckoo_filter(1000);
    let add = |mut object: Cuckoo| {
        let mut refusal = None;
        for number in 1000..4000 {
            let added = object.add(&item(number), false, || cuckoo::Limits::NONE);
            refusal = refusal.or(added.err());
        }
        (object, refusal)
    };
    refusals += each_refused(
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
