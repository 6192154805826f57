//! The stored forms of objects with periods or counters: golden bytes, and what is refused. As in
//! `codec.rs`, the bytes are put together after the description of the format and not after the codec.

use valkeybloom::bloom::chunks::{self, Begun, Partial, Progress};
use valkeybloom::bloom::codec::{self, DecodeError};
use valkeybloom::bloom::{AnyObject, Extended, Limits, Seed, Time};

use crate::support::{
    Field, Rng, Stream, add_at, counting, dump_of, extended, of_periods, params,
    through_every_form, windowed,
};

#[derive(Clone)]
struct Draft {
    form: u64,
    options: u64,
    expansion: u64,
    error_rate: f64,
    tightening: f64,
    capacity: u64,
    seed: Vec<u8>,
    window: (u64, u64),
    /// What is written for the number of stacks, if it is not their number.
    count: Option<u64>,
    stacks: Vec<StackDraft>,
    behind: &'static [u8],
}

#[derive(Clone)]
struct StackDraft {
    period: u64,
    range_count: Option<u64>,
    ids: (u64, u64),
    ranges: Vec<(u64, u64)>,
    count: Option<u64>,
    filters: Vec<FilterDraft>,
}

#[derive(Clone)]
struct FilterDraft {
    version: u8,
    bitmap_bytes: Option<u64>,
    hashes: u32,
    seed: Vec<u8>,
    cells: Vec<u8>,
    cut: Option<usize>,
    capacity: u64,
    items: u64,
}

impl FilterDraft {
    fn new(version: u8, cells: &[u8], hashes: u32, capacity: u64, items: u64) -> Self {
        Self {
            version,
            bitmap_bytes: None,
            hashes,
            seed: Seed::FIXED.as_bytes().to_vec(),
            cells: cells.to_vec(),
            cut: None,
            capacity,
            items,
        }
    }

    fn blob(&self) -> Vec<u8> {
        let each = if self.version == 2 { 4 } else { 1 };
        let bytes = self
            .bitmap_bytes
            .unwrap_or((self.cells.len() / each) as u64);
        let mut blob = vec![self.version];
        blob.extend(bytes.to_le_bytes());
        blob.extend(self.hashes.to_le_bytes());
        blob.extend(&self.seed);
        blob.extend(&self.cells);
        blob.truncate(self.cut.unwrap_or(blob.len()));
        blob
    }
}

impl StackDraft {
    fn new(period: u64, filters: Vec<FilterDraft>) -> Self {
        Self {
            period,
            range_count: None,
            ids: (0, 0),
            ranges: Vec::new(),
            count: None,
            filters,
        }
    }
}

impl Draft {
    fn new(options: u64, stacks: Vec<StackDraft>) -> Self {
        Self {
            form: 1,
            options,
            expansion: 2,
            error_rate: 0.1,
            tightening: 0.5,
            capacity: 3,
            seed: Seed::FIXED.as_bytes().to_vec(),
            window: (1_000, 4),
            count: None,
            stacks,
            behind: &[],
        }
    }

    /// A valid one with a window, of three periods.
    fn windowed() -> Self {
        let full = FilterDraft::new(1, &[0xa5, 0x01, 0x80], 4, 3, 3);
        let newest = FilterDraft::new(1, &[0x11, 0x22, 0x33, 0x44, 0], 6, 6, 2);
        let one = |items| FilterDraft::new(1, &[0x0f, 0xf0, 0x55], 3, 3, items);
        Self::new(
            1,
            vec![
                StackDraft::new(7, vec![full, newest]),
                StackDraft::new(8, vec![one(1)]),
                StackDraft::new(10, vec![one(3)]),
            ],
        )
    }

    /// A valid one with counters and ids.
    fn counting() -> Self {
        let older = FilterDraft::new(2, &[0x10, 0xf2, 0x03, 0x40], 4, 3, 2);
        let newest = FilterDraft::new(2, &[1, 2, 3, 4, 5, 6, 7, 0xff], 6, 6, 7);
        let mut stack = StackDraft::new(0, vec![older, newest]);
        stack.ids = (5, 90);
        stack.ranges = vec![(0, 0), (40, 1)];
        Self::new(2, vec![stack])
    }

    /// A valid one with counters, of a stack with ids and one without, as a merge makes them.
    fn merged() -> Self {
        let mut stacks = Self::counting().stacks;
        let filters = vec![FilterDraft::new(2, &[0; 4], 3, 3, 0)];
        stacks.push(StackDraft::new(0, filters));
        Self::new(2, stacks)
    }

    /// One with a window and counters, which is refused, and right in all else.
    fn both() -> Self {
        let mut both = Self::merged();
        both.options = 3;
        both.stacks[0].period = 7;
        both.stacks[1].period = 9;
        both
    }

    fn fields(&self, cut: bool) -> Vec<Field> {
        let mut fields = vec![
            Field::Uint(self.form),
            Field::Uint(self.options),
            Field::Uint(self.expansion),
            Field::Double(self.error_rate),
            Field::Double(self.tightening),
            Field::Uint(self.capacity),
            Field::Bytes(self.seed.clone()),
        ];
        if self.options & 1 != 0 {
            fields.extend([self.window.0, self.window.1].map(Field::Uint));
        }
        let count = |said: Option<u64>, length: usize| Field::Uint(said.unwrap_or(length as u64));
        fields.push(count(self.count, self.stacks.len()));
        for stack in &self.stacks {
            fields.push(Field::Uint(stack.period));
            if self.options & 2 != 0 {
                fields.push(count(stack.range_count, stack.ranges.len()));
                if stack.range_count.unwrap_or(stack.ranges.len() as u64) > 0 {
                    fields.extend([stack.ids.0, stack.ids.1].map(Field::Uint));
                }
                for (first, index) in &stack.ranges {
                    fields.extend([*first, *index].map(Field::Uint));
                }
            }
            fields.push(count(stack.count, stack.filters.len()));
            for filter in &stack.filters {
                let mut blob = filter.blob();
                if cut {
                    blob.truncate(45);
                }
                fields.push(Field::Bytes(blob));
                fields.extend([filter.capacity, filter.items].map(Field::Uint));
            }
        }
        fields
    }

    fn bytes(&self, version: u8, cut: bool) -> Vec<u8> {
        let mut bytes = vec![version];
        for field in self.fields(cut) {
            match field {
                Field::Uint(value) => bytes.extend(value.to_le_bytes()),
                Field::Double(value) => bytes.extend(value.to_le_bytes()),
                Field::Bytes(value) => {
                    bytes.extend((value.len() as u64).to_le_bytes());
                    bytes.extend(value);
                }
            }
        }
        bytes.extend(self.behind);
        bytes
    }

    fn dump(&self) -> Vec<u8> {
        self.bytes(2, false)
    }

    fn header(&self) -> Vec<u8> {
        self.bytes(0x82, true)
    }

    fn stream(&self) -> Stream {
        Stream(self.fields(false).into())
    }
}

/// Reads a whole stream, whose first field the server has read.
fn read(mut stream: Stream) -> Result<Extended, DecodeError> {
    stream.0.pop_front();
    let object = codec::read_extended(&mut stream)?;
    assert_eq!(stream, Stream::default(), "left behind");
    Ok(object)
}

fn decode(dump: &[u8]) -> Result<Extended, DecodeError> {
    AnyObject::decode(dump).map(of_periods)
}

fn announced(header: &[u8]) -> Result<Begun, DecodeError> {
    chunks::begin(header, Limits::Obey).map_err(|error| error.expect("refused by limits"))
}

#[track_caller]
fn partial(header: &[u8]) -> Partial {
    match announced(header).unwrap() {
        Begun::Partial(partial) => partial,
        Begun::Complete(object) => panic!("complete without chunks: {:?}", object.shape()),
    }
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
    let mut seen = extended(&windowed(params(100, 0.02, 0), 60_000, 1), Seed::FIXED);
    add_at(&mut seen, b"item", 60_000 * 29_000_000 + 5).unwrap();
    let filter = FilterDraft::new(1, &bits, 7, 100, 1);
    let of_window = Draft {
        expansion: 0,
        error_rate: 0.02,
        capacity: 100,
        window: (60_000, 1),
        ..Draft::new(1, vec![StackDraft::new(29_000_000, vec![filter])])
    };
    let mut counted = extended(&counting(params(100, 0.01, 0)), Seed::FIXED);
    for id in [4, 9, 7] {
        let probe = counted.probe(b"item");
        let added = counted.add(probe, Time::at(0), Some(id), || Limits::Obey);
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
        let mut stream = Stream::default();
        codec::write_extended(&object, &mut stream);
        assert_eq!(stream, draft.stream());
        let any = AnyObject::Extended(Box::new(object));
        assert!(any.piece(0).1.bytes() == draft.header());
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
        let object = decode(&draft.dump()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(dump_of(&object) == draft.dump(), "{name}");
        let object = read(draft.stream()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(dump_of(&object) == draft.dump(), "{name}");
        announced(&draft.header()).unwrap_or_else(|e| panic!("{name}: {e}"));
        survives_use(object);
    }
}

/// Does with an object what can be done, at any time, within limits that keep this small.
fn survives_use(mut object: Extended) {
    through_every_form(&object);
    let limits = Limits::Within {
        filter_bytes: 1 << 12,
        object_bytes: 1 << 14,
        saturate: true,
    };
    for now_ms in [0, 7_500, 10_001, 50_000, 3, i64::MAX as u64] {
        let time = Time {
            now_ms,
            ttl_ms: (now_ms % 2 == 1).then_some(i64::MAX as u64),
        };
        object.tidy(now_ms);
        for item in 0..8_u8 {
            let probe = object.probe(&[item]);
            let id = (item % 3 == 0).then_some(u64::from(item) * 30);
            if object.add(probe, time, id, || limits).is_ok() {
                assert!(object.contains(probe, now_ms));
            }
            let removed = object.remove(probe, id);
            let claimed = object.contains(probe, now_ms);
            if object.shape().counting {
                assert_eq!(object.count(probe) > 0, claimed);
            } else {
                assert!(!removed);
                assert_eq!(object.count(probe), 0);
            }
        }
        assert!((0.0..=1.0).contains(&object.estimated_rate(now_ms)));
        assert!(
            object
                .filters(now_ms)
                .all(|(.., rate)| (0.0..=1.0).contains(&rate))
        );
        let _ = object.max_scaled_capacity(now_ms, limits);
        if let Ok(merged) = Extended::merged(&[&object, &object], limits) {
            through_every_form(&merged);
        }
    }
}

#[track_caller]
fn refused_with(name: &str, draft: Draft, error: DecodeError, change: impl FnOnce(&mut Draft)) {
    let mut draft = draft;
    change(&mut draft);
    assert_eq!(decode(&draft.dump()).err(), Some(error), "dump: {name}");
    assert_eq!(
        announced(&draft.header()).err(),
        Some(error),
        "header: {name}"
    );
    assert_eq!(
        read(draft.stream()).err(),
        Some(error),
        "RDB fields: {name}"
    );
}

#[track_caller]
fn refused(what: &'static str, draft: Draft, change: impl FnOnce(&mut Draft)) {
    refused_with(what, draft, DecodeError::Malformed(what), change);
}

#[test]
fn wrong_fields_are_refused() {
    let drafts = || [Draft::windowed(), Draft::counting(), Draft::merged()];
    for draft in drafts() {
        for options in [4, 8, 1 << 32, u64::MAX] {
            refused("unknown options", draft.clone(), |d| d.options |= options);
        }
        for expansion in [1 << 32, u64::MAX] {
            refused("expansion out of range", draft.clone(), |d| {
                d.expansion = expansion;
            });
        }
        let out = [
            0.0,
            -0.0,
            1.0,
            -0.1,
            1.5,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ];
        for number in out {
            refused("error rate out of range", draft.clone(), |d| {
                d.error_rate = number;
            });
            refused("tightening ratio out of range", draft.clone(), |d| {
                d.tightening = number;
            });
        }
        for capacity in [0, 1 << 63, u64::MAX] {
            refused("capacity out of range", draft.clone(), |d| {
                d.capacity = capacity;
            });
        }
        for length in [0, 31, 33] {
            refused("seed of another length", draft.clone(), |d| {
                d.seed.resize(length, 0);
            });
        }
        refused("filters of different seeds", draft.clone(), |d| {
            d.seed[0] ^= 1;
        });
        refused("filters of different seeds", draft.clone(), |d| {
            for filter in d
                .stacks
                .iter_mut()
                .flat_map(|stack| &mut stack.filters)
                .skip(1)
            {
                filter.seed[31] ^= 1;
            }
        });
        refused("no filters", draft.clone(), |d| {
            d.stacks[0].filters.clear();
            d.stacks[0].ranges.clear();
        });
    }
}

#[test]
fn wrong_filters_are_refused() {
    for draft in [Draft::windowed(), Draft::counting(), Draft::merged()] {
        let last = draft.stacks.len() - 1;
        for stack in [0, last] {
            let with = |change: fn(&mut FilterDraft)| {
                move |d: &mut Draft| change(&mut d.stacks[stack].filters[0])
            };
            refused(
                "filter of unknown version",
                draft.clone(),
                with(|f| f.version = 3),
            );
            refused(
                "filter of unknown version",
                draft.clone(),
                with(|f| f.version = 0),
            );
            refused(
                "filter of other cells",
                draft.clone(),
                with(|f| (f.version, f.bitmap_bytes) = (3 - f.version, Some(1))),
            );
            refused(
                "filter of zero bits",
                draft.clone(),
                with(|f| f.bitmap_bytes = Some(0)),
            );
            let error = "filter larger than memory";
            refused(
                error,
                draft.clone(),
                with(|f| f.bitmap_bytes = Some(1 << 60)),
            );
            refused(
                error,
                draft.clone(),
                with(|f| f.bitmap_bytes = Some(u64::MAX)),
            );
            let error = "number of hash functions out of range";
            refused(error, draft.clone(), with(|f| f.hashes = 0));
            refused(error, draft.clone(), with(|f| f.hashes = 4097));
            refused("capacity of zero", draft.clone(), with(|f| f.capacity = 0));
        }
    }
}

#[test]
fn what_does_not_fit_together_is_refused() {
    refused("neither window nor counters", Draft::counting(), |d| {
        d.options = 0;
        for filter in &mut d.stacks[0].filters {
            filter.version = 1;
        }
    });
    // Whatever else is in it: an item that passes by itself can't be removed afterwards.
    let error = "window with counters";
    refused(error, Draft::both(), |_| ());
    refused(error, Draft::both(), |d| d.stacks.truncate(1));
    refused(error, Draft::both(), |d| d.stacks.clear());
    refused(error, Draft::both(), |d| d.window = (1, 1_440));
    refused(error, Draft::both(), |d| {
        for stack in &mut d.stacks {
            stack.ranges.clear();
        }
    });
    refused(error, Draft::counting(), |d| d.options = 3);
    refused(error, Draft::windowed(), |d| d.options = 3);
    // Half of what a double holds at least is left to no period.
    refused("error rate out of range", Draft::windowed(), |d| {
        d.error_rate = 5e-324;
    });
    for window in [
        (0, 4),
        (1_000, 0),
        (1, 1_441),
        (1, 65_535),
        (1, u64::MAX),
        (6_405_119_470_038_039, 1_440),
        (1 << 62, 2),
        (u64::MAX, 1),
        (u64::MAX, 1_440),
    ] {
        refused("window out of range", Draft::windowed(), |d| {
            d.window = window;
        });
    }
    refused("no filters", Draft::counting(), |d| d.stacks.clear());
    for (place, period) in [(1, 6), (1, 11), (2, 0), (0, u64::MAX)] {
        refused("periods out of order", Draft::windowed(), |d| {
            d.stacks[place].period = period;
        });
    }
    refused("periods out of order", Draft::counting(), |d| {
        d.stacks[0].period = 1;
    });
    let error = "filter stacked on one that is not full";
    refused(error, Draft::windowed(), |d| {
        d.stacks[0].filters[0].items = 2;
    });
    refused(error, Draft::windowed(), |d| {
        d.stacks[0].filters[0].items = 4;
    });
    let error = "more items than capacity";
    refused(error, Draft::windowed(), |d| {
        d.stacks[1].filters[0].items = 4;
    });
    for draft in [Draft::windowed(), Draft::counting(), Draft::merged()] {
        let last = draft.stacks.len() - 1;
        refused("sum out of range", draft, |d| {
            d.stacks[0].filters[1].capacity = 1 << 62;
            let filters = &mut d.stacks[last].filters;
            let place = filters.len() - 1;
            (filters[0].capacity, filters[0].items) =
                (1 << 62, if place > 0 { 1 << 62 } else { 0 });
            filters[place].capacity = 1 << 62;
        });
    }
}

#[test]
fn wrong_ids_are_refused() {
    type Change = fn(&mut StackDraft);
    let wrong: [(&str, Change); 9] = [
        ("ids out of order", |s| s.ids = (91, 90)),
        ("ranges out of order", |s| s.ranges[0].0 = 1),
        ("ranges out of order", |s| s.ranges[1].0 = 0),
        ("ranges out of order", |s| s.ranges[1].1 = 0),
        ("ranges out of order", |s| s.ranges[1].1 = 2),
        ("ranges out of order", |s| s.ranges[1].1 = u64::MAX),
        ("ranges out of order", |s| s.ranges.swap(0, 1)),
        ("ranges out of order", |s| s.ranges.push((50, 1))),
        ("ranges out of order", |s| s.ranges = vec![(0, 2)]),
    ];
    for draft in [Draft::counting(), Draft::merged()] {
        for (what, change) in &wrong {
            refused(what, draft.clone(), |d| change(&mut d.stacks[0]));
        }
    }
}

#[test]
fn wrong_lengths_are_refused() {
    for draft in [Draft::windowed(), Draft::counting(), Draft::merged()] {
        for count in [1 << 16, 1 << 40, u64::MAX] {
            for change in [
                (|d, count| d.count = Some(count)) as fn(&mut Draft, u64),
                |d, count| d.stacks.last_mut().unwrap().count = Some(count),
            ] {
                refused_with("a number", draft.clone(), DecodeError::Truncated, |d| {
                    change(d, count);
                });
            }
        }
        let mut fewer = draft.clone();
        fewer.stacks.last_mut().unwrap().count = Some(0);
        assert!(decode(&fewer.dump()).is_err());
        fewer = draft.clone();
        fewer.behind = &[0];
        let behind = Some(DecodeError::Malformed("bytes behind the object"));
        assert_eq!(decode(&fewer.dump()).err(), behind);
        assert_eq!(announced(&fewer.header()).err(), behind);
        // Cells that are not what the header says, where there are cells.
        let length = Some(DecodeError::Malformed(
            "filter's length is not what its header says",
        ));
        for change in [
            (|f| f.cut = Some(47)) as fn(&mut FilterDraft),
            |f| f.bitmap_bytes = Some(f.cells.len() as u64 * 2),
            |f| f.bitmap_bytes = Some(1 << 40),
        ] {
            let mut draft = draft.clone();
            change(&mut draft.stacks[0].filters[0]);
            assert_eq!(decode(&draft.dump()).err(), length);
            assert_eq!(read(draft.stream()).err(), length);
        }
        for cut in [0, 1, 44] {
            let mut draft = draft.clone();
            draft.stacks[0].filters[0].cut = Some(cut);
            let short = Some(DecodeError::Malformed("filter shorter than its header"));
            assert_eq!(decode(&draft.dump()).err(), short);
            assert_eq!(read(draft.stream()).err(), short);
        }
        let full = draft.bytes(0x82, false);
        let error = DecodeError::Malformed("header holds more than headers");
        assert_eq!(announced(&full).err(), Some(error));
    }
    // Claims of what no machine has are no reason to take it.
    let mut large = Draft::windowed();
    for filter in large.stacks.iter_mut().flat_map(|stack| &mut stack.filters) {
        filter.bitmap_bytes = Some(1 << 50);
    }
    let partial = partial(&large.header());
    assert!(partial.memory_bytes() < 1_000 + 10 * large.header().len() as u64);
}

#[test]
fn other_versions_are_refused() {
    for draft in [Draft::windowed(), Draft::counting()] {
        for form in [0, 2, u64::MAX] {
            let mut draft = draft.clone();
            draft.form = form;
            let unsupported = Some(DecodeError::UnsupportedVersion);
            assert_eq!(decode(&draft.dump()).err(), unsupported);
            assert_eq!(announced(&draft.header()).err(), unsupported);
        }
        for version in [0, 1, 3, 0x81, 0x82, 0xff] {
            assert!(AnyObject::decode(&draft.bytes(version, false)).is_err());
        }
        for version in [0, 1, 2, 3, 0x81, 0xff] {
            assert!(announced(&draft.bytes(version, true)).is_err());
        }
        assert!(codec::decode(&draft.dump()).is_err(), "it is no plain one");
    }
}

#[test]
fn every_truncation_is_refused() {
    for draft in [Draft::windowed(), Draft::counting(), Draft::merged()] {
        for end in 0..draft.dump().len() {
            let error = AnyObject::decode(&draft.dump()[..end]).err();
            assert_eq!(error, Some(DecodeError::Truncated), "dump of {end} bytes");
        }
        let header = draft.header();
        for end in 0..header.len() {
            let error = announced(&header[..end]).err();
            assert_eq!(error, Some(DecodeError::Truncated), "header of {end} bytes");
        }
        let fields = draft.stream();
        for end in 1..fields.0.len() {
            let cut = Stream(fields.0.iter().take(end).cloned().collect());
            assert_eq!(
                read(cut).err(),
                Some(DecodeError::Truncated),
                "{end} fields"
            );
        }
        for index in 1..fields.0.len() {
            for other in [
                Field::Uint(1),
                Field::Double(0.5),
                Field::Bytes(vec![1; 60]),
            ] {
                if std::mem::discriminant(&other) != std::mem::discriminant(&fields.0[index]) {
                    let mut fields = fields.clone();
                    fields.0[index] = other;
                    assert_eq!(
                        read(fields).err(),
                        Some(DecodeError::Truncated),
                        "field {index}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_flipped_bit_is_refused_or_another_object() {
    let (mut valid, mut tried) = (0, 0);
    for draft in [Draft::windowed(), Draft::counting(), Draft::merged()] {
        let (dump, header) = (draft.dump(), draft.header());
        for bit in 0..dump.len() * 8 {
            let mut dump = dump.clone();
            dump[bit / 8] ^= 1 << (bit % 8);
            tried += 1;
            if let Ok(AnyObject::Extended(object)) = AnyObject::decode(&dump) {
                assert!(dump_of(&object) == dump, "bit {bit}");
                survives_use(*object);
                valid += 1;
            }
        }
        for bit in 0..header.len() * 8 {
            let mut header = header.clone();
            header[bit / 8] ^= 1 << (bit % 8);
            if let Ok(Begun::Partial(partial)) = announced(&header) {
                assert!(partial.memory_bytes() < 1_000 + 10 * header.len() as u64);
            }
        }
    }
    assert!(
        valid > 300 && valid < tried / 2,
        "{valid} of {tried} were valid"
    );
}

/// The pieces of one that is large enough for several, and each half of it through an RDB.
#[test]
fn half_loaded_objects_are_kept() {
    let mut rng = Rng::new(1);
    let mut object = extended(&windowed(params(50, 0.05, 2), 100, 3), rng.seed());
    for now in 0..400 {
        add_at(&mut object, &rng.next().to_le_bytes(), now).unwrap();
    }
    let any = AnyObject::Extended(Box::new(object.try_clone().unwrap()));
    let (mut cursor, header) = any.piece(0);
    let mut partial = partial(header.bytes());
    loop {
        let (next, chunk) = any.piece(cursor);
        let bytes = chunk.bytes();
        let half = bytes.len() / 2;
        let middle = cursor + half as u64;
        assert!(matches!(
            partial.load(middle, &bytes[..half]),
            Ok(Progress::Partial)
        ));
        let mut stream = Stream::default();
        partial.write_rdb(&mut stream);
        assert_eq!(stream.0.pop_front(), Some(Field::Uint(0)));
        partial = Partial::read_rdb(&mut stream).unwrap();
        assert!(partial.load(middle + 1, &bytes[half..]).is_err(), "a hole");
        match partial.load(next, &bytes[half..]).unwrap() {
            Progress::Partial => cursor = next,
            Progress::Complete(copy) => {
                assert!(dump_of(&of_periods(copy)) == dump_of(&object));
                return;
            }
        }
    }
}
