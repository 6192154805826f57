//! The stored forms of objects with a window or with counters: golden bytes. As in `bloomfltr`, the
//! bytes follow the description of the format, not the code that reads it.

pub mod draft;

use valkeybloom_sketches::bloom::{Added, Dialect, Limits, Object, Time, chunks, dump};
use valkeybloom_sketches::{DecodeError, Seed};

use crate::counting::add;
use crate::refused::survives_use;
use crate::sizes;
use crate::support::{
    Field, HALF_OF_OURS, NO_CLOCK, ROOMY, Rng, Stream, add_at, begin, begin_partial, counting,
    dump_of, fields_of, header_of, object_of, params, read_fields, read_value, tightening,
    windowed,
};

use draft::{Draft, FilterDraft, StackDraft};

fn read(stream: Stream) -> Result<Object, DecodeError> {
    read_fields(Dialect::Bloomfltx, stream)
}

/// An object for 100 items at 1 %, non-scaling, the fixed seed, holding `item`, with a window, and with
/// counters.
#[test]
fn a_known_object_in_every_form() {
    let size = sizes::least(100, 0.01).unwrap();
    let mut theirs = sizes::crates(size, &Seed::FIXED);
    theirs.set(b"item");
    let bits = &theirs.as_slice()[45..];
    let hashes = theirs.number_of_hash_functions();
    // One period, and one ahead: each has half of the rate.
    let mut seen = object_of(&windowed(params(100, 0.02, 0), 60_000, 1), Seed::FIXED);
    add_at(&mut seen, b"item", 60_000 * 29_000_000 + 5).unwrap();
    let filter = FilterDraft::new(1, bits, hashes, 100, 1);
    let of_window = Draft {
        expansion: 0,
        error_rate: 0.02,
        capacity: 100,
        window: (60_000, 1),
        ..Draft::new(1, vec![StackDraft::new(29_000_000, vec![filter])])
    };
    let mut counted = object_of(&counting(params(100, 0.01, 0)), Seed::FIXED);
    for id in [4, 9, 7] {
        let added = counted.add(b"item", Time::at(0), Some(id), || Limits::NONE);
        assert!(added.is_ok());
    }
    let mut anonymous = object_of(&counting(params(100, 0.01, 0)), Seed::FIXED);
    for _ in 0..3 {
        add_at(&mut anonymous, b"item", 0).unwrap();
    }
    // Counters have room for a few more.
    let filter = counted.views().next().unwrap();
    let size = (filter.geometry().positions / 8, filter.geometry().hashes);
    let mut theirs = sizes::crates(size, &Seed::FIXED);
    theirs.set(b"item");
    let bits = &theirs.as_slice()[45..];
    let mut counters = vec![0; bits.len() * 4];
    for position in (0..bits.len() * 8).filter(|at| bits[at / 8] >> (at % 8) & 1 == 1) {
        counters[position / 2] |= 3 << (position % 2 * 4);
    }
    let filter = FilterDraft::new(2, &counters, size.1, 100, 1);
    let without_ids = Draft {
        expansion: 0,
        error_rate: 0.01,
        capacity: 100,
        ..Draft::new(2, vec![StackDraft::new(0, vec![filter])])
    };
    let mut with_ids = without_ids.clone();
    with_ids.form = 2;
    with_ids.stacks[0].filters[0].took = Some((4, 9));
    for (object, draft) in [
        (seen, of_window),
        (anonymous, without_ids),
        (counted, with_ids),
    ] {
        assert!(dump_of(&object) == draft.dump(), "other bytes");
        assert_eq!(fields_of(&object), draft.stream());
        assert!(header_of(&object) == draft.header());
    }
}

/// The first builds did not mark the ratio of these as ours; no other program makes such objects.
#[test]
fn an_object_whose_ratio_is_not_marked_is_ours() {
    for draft in [Draft::windowed(), Draft::counting()] {
        for (ratio, marked) in [(0.5, HALF_OF_OURS), (0.7, 0.7_f64.next_up())] {
            let (mut old, mut new) = (draft.clone(), draft.clone());
            (old.tightening, new.tightening) = (ratio, marked);
            for object in [
                dump::decode(&old.dump()).unwrap(),
                read(old.stream()).unwrap(),
            ] {
                assert_eq!(object.shape().params.tightening, tightening(ratio));
                assert!(dump_of(&object) == new.dump());
            }
        }
    }
}

#[test]
fn odd_values_are_kept() {
    type Change = fn(&mut Draft);
    let odd: [(&str, Draft, Change); 17] = [
        ("a window", Draft::windowed(), |_| ()),
        ("counters", Draft::counting(), |_| ()),
        ("counters without ids", Draft::counting(), |d| d.form = 1),
        ("no period", Draft::windowed(), |d| d.stacks.clear()),
        ("the last period", Draft::windowed(), |d| {
            d.stacks[2].period = u64::MAX;
        }),
        ("the longest window", Draft::windowed(), |d| {
            d.window = (i64::MAX as u64, 1);
        }),
        ("the most periods", Draft::windowed(), |d| {
            d.window = (1, 1_440);
        }),
        ("saturated", Draft::windowed(), |d| {
            (d.expansion, d.stacks[2].filters[0].items) = (0, 1_000);
        }),
        ("the largest capacity", Draft::windowed(), |d| {
            d.capacity = i64::MAX as u64;
        }),
        ("the most items in each period", Draft::windowed(), |d| {
            for stack in &mut d.stacks {
                let newest = stack.filters.last_mut().unwrap();
                (newest.capacity, newest.items) = ((1 << 63) - 4, (1 << 63) - 4);
            }
        }),
        ("all ids", Draft::counting(), |d| {
            d.stacks[0].filters[0].took = Some((0, u64::MAX));
            d.stacks[0].filters[1].took = Some((u64::MAX, u64::MAX));
        }),
        ("more repeats than items", Draft::repeating(), |d| {
            d.stacks[0].repeats = u64::MAX;
        }),
        ("ids of several filters", Draft::counting(), |d| {
            d.stacks[0].filters[0].took = Some((50, 60));
        }),
        ("a filter without ids", Draft::counting(), |d| {
            d.stacks[0].filters[1].took = None;
        }),
        ("no ids left", Draft::counting(), |d| {
            for filter in &mut d.stacks[0].filters {
                filter.took = None;
            }
        }),
        ("an older filter with room", Draft::counting(), |d| {
            d.stacks[0].filters[0].items = 0;
        }),
        ("more items than capacity", Draft::counting(), |d| {
            d.stacks[0].filters[0].items = 50;
        }),
    ];
    for (name, mut draft, change) in odd {
        change(&mut draft);
        let object = dump::decode(&draft.dump()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(dump_of(&object) == draft.dump(), "{name}");
        let object = read(draft.stream()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(dump_of(&object) == draft.dump(), "{name}");
        begin(&draft.header()).unwrap_or_else(|e| panic!("{name}: {e}"));
        survives_use(object);
    }
}

/// A file may claim any number of items that are in several filters. Adds and merges make more of them.
#[test]
fn claimed_repeats_saturate() {
    let claiming = |first: u64| {
        let mut object = object_of(&counting(params(5, 0.0001, 1)), Seed::FIXED);
        for item in first..first + 12 {
            add(&mut object, item, Some(item)).unwrap();
        }
        let again = |object: &mut Object, item| {
            assert_eq!(add(object, item, Some(u64::MAX)), Ok(Added::Again));
        };
        again(&mut object, first);
        let mut stream = fields_of(&object);
        assert_eq!(stream.0[9], Field::Uint(1), "repeats");
        stream.0[9] = Field::Uint(u64::MAX);
        let mut object = read(stream).unwrap();
        again(&mut object, first + 1);
        object
    };
    let sources = [claiming(0), claiming(20)];
    let union = Object::merged(&[&sources[0], &sources[1]], ROOMY).unwrap();
    for object in sources.iter().chain([&union]) {
        assert_eq!(object.items(NO_CLOCK), 0);
    }
}

/// Earlier builds wrote ids as ranges and several stacks: ranges become intervals within the ids seen, and the stacks
/// become one.
#[test]
fn earlier_forms_are_read_as_the_current_one() {
    type Change = fn(&mut Draft);
    type Took = [Option<(u64, u64)>; 2];
    let earlier: [(Change, Took); 9] = [
        (|_| (), [Some((5, 39)), Some((40, 90))]),
        (|d| d.stacks[0].ids = (7, 7), [Some((7, 7)), None]),
        (
            |d| d.stacks[0].ids = (39, 40),
            [Some((39, 39)), Some((40, 40))],
        ),
        (|d| d.stacks[0].ids = (60, 70), [None, Some((60, 70))]),
        (
            |d| d.stacks[0].ids = (0, u64::MAX),
            [Some((0, 39)), Some((40, u64::MAX))],
        ),
        (
            |d| {
                d.stacks[0].ids = (0, u64::MAX);
                d.stacks[0].ranges[1].0 = u64::MAX;
            },
            [Some((0, u64::MAX - 1)), Some((u64::MAX, u64::MAX))],
        ),
        (|d| d.stacks[0].ranges = vec![(0, 1)], [None, Some((5, 90))]),
        (|d| d.stacks[0].ranges = vec![(0, 0)], [Some((5, 90)), None]),
        (|d| d.stacks[0].ranges.clear(), [None, None]),
    ];
    for (number, (change, took)) in earlier.into_iter().enumerate() {
        for (mut draft, mut expected) in [
            (Draft::ranged(), Draft::counting()),
            (Draft::merged(), Draft::counting()),
        ] {
            change(&mut draft);
            let filters = expected.stacks[0].filters.iter_mut();
            filters
                .zip(took)
                .for_each(|(filter, took)| filter.took = took);
            if draft.stacks.len() > 1 {
                expected.stacks[0]
                    .filters
                    .push(draft.stacks[1].filters[0].clone());
                // The one without ids is the first.
                if number % 2 == 0 {
                    draft.stacks.swap(0, 1);
                    expected.stacks[0].filters.rotate_right(1);
                }
            }
            if took == [None; 2] {
                expected.form = 1;
            }
            let object = dump::decode(&draft.dump()).unwrap();
            assert!(dump_of(&object) == expected.dump(), "{number}");
            assert_eq!(fields_of(&read(draft.stream()).unwrap()), expected.stream());
            let mut partial = begin_partial(&draft.header()).unwrap();
            let mut loaded = None;
            for (cursor, chunk) in chunks::pieces(&object).skip(1) {
                loaded = partial.load(cursor, &chunk).unwrap();
            }
            let loaded = loaded.expect("complete with its last chunk");
            assert!(dump_of(&loaded) == expected.dump(), "{number}");
            let same = dump::decode(&expected.dump()).unwrap();
            for copy in [&object, &loaded] {
                assert_eq!(copy.memory_bytes(), same.memory_bytes());
            }
            survives_use(object);
        }
    }
}

/// The pieces of one that is large enough for several, and each half of it through an RDB.
#[test]
fn half_loaded_objects_are_kept() {
    let mut rng = Rng::new(1);
    let mut object = object_of(&windowed(params(50, 0.05, 2), 100, 3), rng.seed());
    for now in 0..400 {
        add_at(&mut object, &rng.next().to_le_bytes(), now).unwrap();
    }
    let mut cursor = 1;
    let mut partial = begin_partial(&header_of(&object)).unwrap();
    loop {
        let (next, chunk) = chunks::piece(&object, cursor).unwrap();
        let bytes = &chunk;
        let half = bytes.len() / 2;
        let middle = cursor + half as u64;
        assert!(matches!(partial.load(middle, &bytes[..half]), Ok(None)));
        let mut stream = Stream::default();
        partial.write_rdb(&mut stream);
        assert_eq!(stream.0.front(), Some(&Field::Uint(0)));
        let read = read_value(Dialect::Bloomfltx, 1, stream);
        partial = crate::support::partial(read.unwrap());
        assert!(partial.load(middle + 1, &bytes[half..]).is_err(), "a hole");
        match partial.load(next, &bytes[half..]).unwrap() {
            None => cursor = next,
            Some(copy) => {
                assert!(dump_of(&copy) == dump_of(&object));
                return;
            }
        }
    }
}

/// The most filters that an object may have, each in a period of its own.
#[test]
fn the_most_periods_are_loaded_and_kept() {
    let mut draft = Draft::windowed();
    let one = draft.stacks.swap_remove(1);
    let numbered = |period| StackDraft {
        period,
        ..one.clone()
    };
    draft.stacks = (1..=4_096).map(numbered).collect();
    let object = dump::decode(&draft.dump()).unwrap();
    let mut partial = begin_partial(&draft.header()).unwrap();
    let mut pieces = chunks::pieces(&object).skip(1).peekable();
    while let Some((cursor, chunk)) = pieces.next() {
        let loaded = partial.load(cursor, &chunk).unwrap();
        if pieces.peek().is_some() {
            assert!(loaded.is_none());
            assert!(partial.memory_bytes() > 0);
        } else {
            assert!(dump_of(&loaded.unwrap()) == draft.dump(), "other bytes");
        }
    }
    draft.stacks.push(numbered(4_097));
    let refused = DecodeError::Malformed("more filters or hash functions than any program makes");
    assert_eq!(dump::decode(&draft.dump()).err(), Some(refused));
}
