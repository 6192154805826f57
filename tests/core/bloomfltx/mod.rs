//! The stored forms of objects with a window or with counters: golden bytes, and what is refused. As in
//! `bloomfltr`, the bytes are put together after the description of the format and not after the code that
//! reads it.

pub mod draft;
mod mutated;
mod refused;

use valkeybloom::bloom::{DecodeError, Dialect, Limits, Object, Seed, Time, chunks, dump};

use crate::support::{
    Field, Rng, Stream, add_at, begin, begin_partial, counting, dump_of, fields_of, header_of,
    object_of, params, read_fields, read_value, windowed,
};

use draft::{Draft, FilterDraft, StackDraft};
use mutated::survives_use;

fn read(stream: Stream) -> Result<Object, DecodeError> {
    read_fields(Dialect::Bloomfltx, stream)
}

/// The object of the published vector (100 items at 1 %, non-scaling, the fixed seed, holding `item`)
/// with a window, and with counters.
#[test]
fn the_published_vector_in_every_form() {
    const POSITIONS: [usize; 7] = [701, 8, 461, 213, 925, 677, 429];
    let mut bits = [0; 120];
    let mut counters = [0; 480];
    for position in POSITIONS {
        bits[position / 8] |= 1 << (position % 8);
        counters[position / 2] |= 3 << (position % 2 * 4);
    }
    // One period, and one ahead: each has half of the rate.
    let mut seen = object_of(&windowed(params(100, 0.02, 0), 60_000, 1), Seed::FIXED);
    add_at(&mut seen, b"item", 60_000 * 29_000_000 + 5).unwrap();
    let filter = FilterDraft::new(1, &bits, 7, 100, 1);
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
    let mut stack = StackDraft::new(0, vec![FilterDraft::new(2, &counters, 7, 100, 1)]);
    stack.ids = (4, 9);
    stack.ranges = vec![(0, 0)];
    let of_counters = Draft {
        expansion: 0,
        error_rate: 0.01,
        capacity: 100,
        ..Draft::new(2, vec![stack])
    };
    for (object, draft, length) in [(seen, of_window, 318), (counted, of_counters, 702)] {
        assert!(dump_of(&object) == draft.dump(), "other bytes");
        assert_eq!(draft.dump().len(), length);
        assert_eq!(fields_of(&object), draft.stream());
        assert!(header_of(&object) == draft.header());
    }
}

#[test]
fn what_is_odd_is_kept_as_it_is() {
    type Change = fn(&mut Draft);
    let odd: [(&str, Draft, Change); 16] = [
        ("a window", Draft::windowed(), |_| ()),
        ("counters", Draft::counting(), |_| ()),
        ("counters with and without ids", Draft::merged(), |_| ()),
        ("no period", Draft::windowed(), |d| d.stacks.clear()),
        ("equal periods", Draft::windowed(), |d| {
            d.stacks[1].period = 7;
        }),
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
        ("all ids", Draft::counting(), |d| {
            d.stacks[0].ids = (0, u64::MAX);
            d.stacks[0].ranges = vec![(0, 0), (u64::MAX, 1)];
        }),
        ("one id", Draft::counting(), |d| d.stacks[0].ids = (7, 7)),
        ("a filter without ids", Draft::counting(), |d| {
            d.stacks[0].ranges = vec![(0, 1)];
        }),
        ("no ids", Draft::counting(), |d| d.stacks[0].ranges.clear()),
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
        let (next, chunk) = chunks::piece(&object, cursor);
        let bytes = chunk.bytes();
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

/// So many that anything that walks all periods for each of them would take minutes.
#[test]
fn very_many_periods_of_one_number_are_loaded_and_kept() {
    let mut draft = Draft::windowed();
    let one = draft.stacks.swap_remove(0);
    draft.stacks = vec![one; 200_000];
    let object = dump::decode(&draft.dump()).unwrap();
    let mut partial = begin_partial(&draft.header()).unwrap();
    let mut pieces = chunks::pieces(&object).skip(1).peekable();
    while let Some((cursor, chunk)) = pieces.next() {
        let loaded = partial.load(cursor, chunk.bytes()).unwrap();
        if pieces.peek().is_some() {
            assert!(loaded.is_none());
            assert!(partial.memory_bytes() > 0);
        } else {
            assert!(dump_of(&loaded.unwrap()) == draft.dump(), "other bytes");
            return;
        }
        if cursor == 4_001 {
            assert!(partial.try_clone().is_some());
        }
    }
    panic!("no last chunk");
}
