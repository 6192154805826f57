//! What every user of the library may call: extreme arguments, payloads of servers, buffers with offsets.

use valkeybloom_sketches::bloom::{
    self, Added, Dialect, Growth, Kind, New, Object, Params, Tightening, Time, Window, chunks,
    shard_capacity,
};
use valkeybloom_sketches::cms::{self, CellSize, CountMin, MergeError, Term};
use valkeybloom_sketches::cuckoo::{self, Cuckoo};
use valkeybloom_sketches::tdigest::{self, Compression, TDigest};
use valkeybloom_sketches::topk::{self, Chance, Collision, Contest, Decay, Derived, TopK};
use valkeybloom_sketches::{
    Bitmap, DecodeError, Fraction, Relocate, Seed, Sketch, Slices, payload,
};

use crate::foreign::{fields_of_type, unhex};
use crate::support::{object_of, params, through_every_form, windowed};

/// What `DUMP` of Valkey 9.1 returned for each family, with compressed strings and digits as integers.
const DUMPS: &str = include_str!("library.txt");

const DOUBLES: [f64; 12] = [
    f64::NAN,
    f64::NEG_INFINITY,
    f64::MIN,
    -1.0,
    -0.0,
    0.0,
    f64::MIN_POSITIVE,
    0.5,
    1.0,
    2.0,
    f64::MAX,
    f64::INFINITY,
];
const NUMBERS: [u64; 9] = [
    0,
    1,
    2,
    63,
    1 << 31,
    1 << 32,
    1 << 53,
    i64::MAX.cast_unsigned(),
    u64::MAX,
];

fn params_of(capacity: u64, error_rate: Fraction) -> Params {
    Params {
        capacity,
        error_rate,
        ..params(1, 0.1, 1)
    }
}

fn dumps() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let lines = DUMPS.lines().map(|line| line.split_once(' ').unwrap());
    lines.map(|(name, hex)| (name, unhex(hex)))
}

#[test]
fn payloads_of_servers_are_read_and_written() {
    for (name, payload) in dumps() {
        let mut sketch = Sketch::from_dump(&payload, Seed::FIXED).unwrap();
        for _ in 0..2 {
            match (name, &sketch) {
                ("bloom", Sketch::Bloom(object)) => {
                    assert!(object.contains(b"apple", || 0) && !object.contains(b"pear", || 0));
                }
                ("cuckoo", Sketch::Cuckoo(object)) => {
                    assert!(object.contains(b"apple") && !object.contains(b"pear"));
                }
                ("cms", Sketch::CountMin(object)) => assert_eq!(object.estimate(b"apple"), 300),
                ("topk", Sketch::TopK(object)) => {
                    let listed = ["-300", "70000"].map(|item| object.contains(item.as_bytes()));
                    assert_eq!((listed, object.contains(b"apple")), ([true; 2], false));
                }
                ("tdigest", Sketch::TDigest(object)) => {
                    assert_eq!((object.min(), object.max()), (1.0, 3.0));
                }
                _ => panic!("{name}: {sketch:?}"),
            }
            sketch = Sketch::from_dump(&sketch.to_dump(), Seed::FIXED).unwrap();
        }
    }
}

/// With the right checksum, no change of a byte makes the decoder panic, and no cut is accepted.
#[test]
fn damaged_payloads_are_refused_or_read() {
    for (name, payload) in dumps() {
        let wrong = Err(DecodeError::Malformed("wrong checksum"));
        for at in 0..payload.len() {
            let mut damaged = payload.clone();
            damaged[at] ^= 1;
            let read = Sketch::from_dump(&damaged, Seed::FIXED);
            assert_eq!(read.map(|_| ()), wrong, "{name} {at}");
        }
        let value = &payload[..payload.len() - 10];
        let read = |value: &[u8]| {
            let mut payload = value.to_vec();
            valkeybloom_sketches::payload::dump_footer(&mut payload, 9);
            Sketch::from_dump(&payload, Seed::FIXED)
        };
        for at in 0..value.len() {
            assert!(read(&value[..at]).is_err(), "{name} {at}");
            for byte in 0..=255 {
                let mut damaged = value.to_vec();
                damaged[at] = byte;
                drop(read(&damaged));
            }
        }
    }
}

#[test]
fn offsets_are_checked_and_items_not_copied() {
    let good: [(&[i32], &[&[u8]]); 4] = [
        (&[], &[]),
        (&[3], &[]),
        (&[0, 2, 2, 6], &[b"ab", b"", b"cdef"]),
        (&[1, 6], &[b"bcdef"]),
    ];
    for (offsets, items) in good {
        let slices = Slices::new(b"abcdef", offsets).unwrap();
        assert_eq!(slices.len(), items.len());
        assert!(slices.eq(items.iter().copied()), "{offsets:?}");
    }
    let bad: [&[i64]; 5] = [&[-1, 2], &[0, 7], &[3, 2], &[7], &[0, i64::MAX]];
    for offsets in bad {
        assert!(Slices::new(b"abcdef", offsets).is_err(), "{offsets:?}");
    }
    let mut bytes = [0xff; 2];
    let mut bits = Bitmap::new(&mut bytes);
    (0..20).for_each(|index| bits.push(index % 3 == 0));
    assert_eq!((bits.len(), bytes), (16, [0b0100_1001, 0b1001_0010]));
}

#[test]
fn digests_answer_any_double() {
    for count in [0, 1, 2, 1000] {
        let mut digest = TDigest::new(Compression::DEFAULT);
        let values: Vec<f64> = (0..count).map(f64::from).collect();
        digest.add_each(&values).unwrap();
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(digest.add_each(&[1.0, bad]).is_err());
        }
        digest.compress();
        let compressed = digest.compressed().unwrap();
        for one in DOUBLES {
            let is_share = (0.0..=1.0).contains(&one);
            let has_answer = is_share && count > 0;
            assert_eq!(compressed.quantile(one).is_nan(), !has_answer, "{one}");
            let is_unknown = one.is_nan() || count == 0;
            assert_eq!(compressed.cdf(one).is_nan(), is_unknown, "{one}");
            assert_eq!(compressed.rank(one) == -2, is_unknown, "{one}");
            assert_eq!(compressed.reverse_rank(one) == -2, is_unknown, "{one}");
            for other in DOUBLES {
                let has_mean = has_answer && one <= other && other <= 1.0;
                let mean = compressed.trimmed_mean(one, other);
                assert_eq!(mean.is_nan(), !has_mean, "{one} {other}");
            }
        }
        for rank in NUMBERS {
            let (up, down) = (compressed.by_rank(rank), compressed.by_reverse_rank(rank));
            assert_eq!(up.is_nan() && down.is_nan(), count == 0, "{rank}");
        }
    }
}

#[test]
fn fields_are_read_by_the_name_of_their_type() {
    for (family, payload) in dumps() {
        let payload = Sketch::from_dump(&payload, Seed::FIXED).unwrap().to_dump();
        let (name, version) = match family {
            "bloom" => (
                Dialect::Bloomfltr.type_name(),
                Dialect::Bloomfltr.rdb_version(),
            ),
            "cuckoo" => (cuckoo::wire::TYPE_NAME, cuckoo::wire::RDB_VERSION),
            "cms" => (cms::wire::TYPE_NAME, cms::wire::RDB_VERSION),
            "topk" => (topk::wire::TYPE_NAME, topk::wire::RDB_VERSION),
            "tdigest" => (tdigest::wire::TYPE_NAME, tdigest::wire::RDB_VERSION),
            _ => panic!("{family}"),
        };
        let type_id = payload::type_id(name) | u64::from(version.unsigned_abs());
        let fields = fields_of_type(&payload, type_id);
        let read =
            |name: &[u8], version| Sketch::read(name, version, &mut fields.clone(), Seed::FIXED);
        let again = read(name.to_bytes(), version).unwrap();
        assert_eq!(again.to_dump(), payload, "{family}");
        for bad in [i32::MIN, -1, 1023, i32::MAX] {
            assert!(read(name.to_bytes(), bad).is_err(), "{family} {bad}");
        }
        assert!(read(b"hash", version).is_err() && read(b"", version).is_err());
    }
    for (name, version) in [
        (c"bloomfltr", -1),
        (c"bloomfltr", 1024),
        (c"bloom", 1),
        (c"bloom filt", 1),
        (c"bloom:ftr", 1),
    ] {
        let made = std::panic::catch_unwind(|| payload::restore(name, version, |_| ()));
        assert!(made.is_err(), "{name:?} {version}");
    }
}

#[test]
fn any_time_and_id_leave_an_object_valid() {
    let longest = i64::MAX.cast_unsigned();
    for (period_ms, periods) in [
        (1, 1),
        (1, 1440),
        (1000, 3),
        (longest, 1),
        (longest / 1440, 1440),
    ] {
        let shape = windowed(params(4, 0.1, 2), period_ms, periods);
        for first in NUMBERS {
            let mut object =
                Object::new(&shape, Seed::FIXED, Time::at(first), bloom::Limits::NONE).unwrap();
            for now_ms in NUMBERS.into_iter().rev().chain(NUMBERS) {
                for ttl_ms in [None, Some(0), Some(1), Some(u64::MAX)] {
                    let time = Time { now_ms, ttl_ms };
                    let clock = || now_ms;
                    object.tidy(now_ms);
                    let item = now_ms.to_le_bytes();
                    object
                        .add(&item, time, Some(first), || bloom::Limits::NONE)
                        .unwrap();
                    assert!(object.contains(&item, clock), "{shape:?} {first} {time:?}");
                    object.begin_period(time, 5, bloom::Limits::NONE).unwrap();
                    assert!(object.room(time).is_some());
                    let live = object.live_periods(clock).unwrap();
                    assert!(
                        (1..=periods + 1).contains(&live),
                        "{shape:?} {first} {time:?}"
                    );
                    assert!(object.period_items(clock).unwrap() <= object.items(clock));
                    assert!(object.reach(clock, bloom::Limits::NONE) > 0);
                    assert!((0.0..=1.0).contains(&object.estimated_rate(clock)));
                    let union =
                        Object::union(&[&object, &object], Some(now_ms), bloom::Limits::NONE);
                    assert!(union.unwrap().is_none());
                }
            }
            through_every_form(&object);
        }
    }
    let shape = bloom::Shape {
        params: params(1, 0.1, 2),
        kind: Kind::Counting,
    };
    let mut object = object_of(&shape, Seed::FIXED);
    for id in NUMBERS {
        for other in NUMBERS {
            let item = other.to_le_bytes();
            object
                .add(&item, Time::at(id), Some(id), || bloom::Limits::NONE)
                .unwrap();
            assert!(object.count(&item) > 0);
            object.remove(&item, Some(other));
        }
    }
    through_every_form(&object);
}

/// One object of each kind, law, hash and family of shapes.
#[allow(clippy::cast_possible_truncation, reason = "there are few objects")]
fn blooms() -> Vec<Object> {
    let window = |period_ms, periods| windowed(params(20, 0.1, 2), period_ms, periods);
    let valkey_bloom = Params {
        tightening: Tightening::of_valkey_bloom(Fraction::HALF),
        ..params(20, 0.1, 2)
    };
    let mut blooms: Vec<_> = [
        bloom::Shape::plain(params(1, 0.1, 2)),
        bloom::Shape::plain(params(20, 0.1, 0)),
        bloom::Shape::plain(params(5000, 0.001, 2)),
        bloom::Shape::plain(valkey_bloom),
        bloom::Shape {
            params: params(20, 0.1, 2),
            kind: Kind::Counting,
        },
        window(1000, 3),
        window(1, 1440),
    ]
    .iter()
    .flat_map(|shape| [Seed::FIXED, Seed::new([7; 32])].map(|seed| object_of(shape, seed)))
    .collect();
    for growth in [0, 2].map(Growth::from_expansion) {
        let params = Params {
            growth,
            ..params(20, 0.1, 2)
        };
        let new = New::RedisBloom { params, factor: 2 };
        blooms.push(Object::make(&new, Seed::FIXED, Time::default(), bloom::Limits::NONE).unwrap());
    }
    for (number, object) in blooms.iter_mut().enumerate() {
        for item in 0..40_u8 {
            let added = object.add(&[number as u8, item], Time::at(0), None, || {
                bloom::Limits::NONE
            });
            assert!(added.is_ok());
        }
    }
    blooms
}

#[test]
#[allow(clippy::cast_possible_truncation, reason = "there are few objects")]
fn any_objects_are_merged_or_refused() {
    let blooms = blooms();
    assert_eq!(
        Object::merged(&[], bloom::Limits::NONE).unwrap_err(),
        bloom::MergeError::Kinds
    );
    let mut merged = 0;
    for (one, a) in blooms.iter().enumerate() {
        for (other, b) in blooms.iter().enumerate() {
            for now_ms in [None, Some(0), Some(u64::MAX)] {
                let Ok(union) = Object::union(&[a, b], now_ms, bloom::Limits::NONE) else {
                    continue;
                };
                let union = union.unwrap_or_else(|| a.try_clone().unwrap());
                through_every_form(&union);
                merged += 1;
                for item in 0..40 {
                    let items = [[one as u8, item], [other as u8, item]];
                    assert!(
                        items
                            .iter()
                            .all(|item| now_ms == Some(u64::MAX) || union.contains(item, || 0))
                    );
                }
            }
            // The probe of another hasher is another item's.
            let mut copy = b.try_clone().unwrap();
            let probe = a.probe(b"item");
            copy.add_probe(probe, Time::at(0), None, || bloom::Limits::NONE)
                .unwrap();
            assert!(copy.contains_probe(probe, || 0));
        }
    }
    assert!(merged > 3 * blooms.len(), "{merged}");

    let counts = [CellSize::One, CellSize::Four, CellSize::Eight].map(|size| {
        [(10, 2), (20, 1)].map(|(width, depth)| {
            let mut sketch =
                CountMin::new(cms::Shape::new(width, depth, size).unwrap(), u64::MAX).unwrap();
            sketch.increment(b"item", 200).unwrap();
            sketch
        })
    });
    assert_eq!(CountMin::merged(&[], true).unwrap_err(), MergeError::Shape);
    let weights = [0, 1, -1, 3, i64::MIN, i64::MAX];
    for (a, b) in pairs(counts.as_flattened()) {
        for (one, other) in pairs(&weights) {
            let terms = [
                Term {
                    source: a,
                    weight: *one,
                },
                Term {
                    source: b,
                    weight: *other,
                },
            ];
            let sum = 200 * (i128::from(*one) + i128::from(*other));
            match CountMin::merged(&terms, true) {
                Ok(merged) => {
                    assert_eq!(
                        (
                            i128::from(merged.count()),
                            i128::from(merged.estimate(b"item"))
                        ),
                        (sum, sum)
                    );
                }
                Err(MergeError::Shape) => assert_ne!(a.shape(), b.shape()),
                Err(MergeError::Overflow) => {
                    let bound = i128::from(a.shape().cell_size().max());
                    let steps = [200 * i128::from(*one), sum];
                    assert!(
                        sum > bound
                            || steps.iter().any(|step| i64::try_from(*step).is_err())
                            || sum < 0
                    );
                }
                Err(MergeError::OutOfMemory) => panic!("little memory"),
            }
        }
    }

    let extremes = [f64::MIN, -1.0, -0.0, 0.0, f64::MIN_POSITIVE, f64::MAX];
    let digests = [1, 20, 1 << 31, 1 << 53].map(|compression| {
        let mut digest = TDigest::new(Compression::new(compression).unwrap());
        let added = extremes
            .iter()
            .cycle()
            .take(500)
            .copied()
            .collect::<Vec<_>>();
        let _ = digest.add_each(&added);
        digest
    });
    assert!(Compression::new(0).is_none() && Compression::new(u64::MAX).is_none());
    for (a, b) in pairs(&digests) {
        for (compression, _) in pairs(&digests) {
            let Ok(merged) = TDigest::merged(compression.compression(), [a, b]) else {
                continue;
            };
            assert_eq!(merged.observations(), a.observations() + b.observations());
            let payload = Sketch::TDigest(merged).to_dump();
            assert!(Sketch::from_dump(&payload, Seed::FIXED).is_ok());
        }
    }
}

fn pairs<T>(all: &[T]) -> impl Iterator<Item = (&T, &T)> {
    all.iter()
        .flat_map(|one| all.iter().map(move |other| (one, other)))
}

#[test]
fn any_cursor_is_answered_or_refused() {
    let around = |end: u64| NUMBERS.into_iter().chain([end - 1, end, end + 1, end + 2]);
    for mut object in blooms() {
        let end: u64 = object.views().map(|view| view.cell_bytes()).sum();
        for cursor in around(end) {
            let (next, piece) = chunks::piece(&object, cursor).unwrap();
            let is_past = cursor > end;
            assert_eq!(
                (next == 0, piece.bytes().is_empty()),
                (is_past, is_past),
                "{cursor}"
            );
        }
        let before = Sketch::Bloom(object.try_clone().unwrap()).to_dump();
        for cursor in around(end) {
            for length in [0, 1, 1 << 16] {
                if chunks::overwrite(&mut object, cursor, &vec![0xff; length]).is_ok() {
                    assert!(
                        (2..=end + 1).contains(&cursor) && length == 1,
                        "{cursor} {length}"
                    );
                    object.check().unwrap();
                }
            }
        }
        if Dialect::of(&object) != Dialect::RedisBloom {
            assert!(Sketch::Bloom(object.try_clone().unwrap()).to_dump() == before);
        }
        let header = chunks::header(&object).unwrap();
        let Ok(chunks::Value::Partial(mut partial)) = chunks::begin(&header, bloom::Limits::NONE)
        else {
            panic!("it has cells");
        };
        for cursor in around(end) {
            for length in [0, 1, 1 << 16] {
                let loaded = partial.load(cursor, &vec![0xff; length]);
                assert!(
                    loaded.is_err() || (cursor, length) == (2, 1),
                    "{cursor} {length}"
                );
            }
        }
        for begin in NUMBERS {
            relocate_from(begin, |begin, by| object.relocate(begin, by));
        }
    }
    for mut sketch in dumps().map(|(_, payload)| Sketch::from_dump(&payload, Seed::FIXED).unwrap())
    {
        let before = sketch.to_dump();
        for begin in NUMBERS {
            relocate_from(begin, |begin, by| match &mut sketch {
                Sketch::Bloom(object) => object.relocate(begin, by),
                Sketch::Cuckoo(object) => object.relocate(begin, by),
                Sketch::CountMin(object) => {
                    object.relocate(by);
                    None
                }
                Sketch::TopK(object) => object.relocate(begin, by),
                Sketch::TDigest(object) => object.relocate(begin, by),
            });
        }
        assert_eq!(sketch.to_dump(), before);
        let Sketch::Cuckoo(mut object) = sketch else {
            continue;
        };
        for cursor in around(object.size()) {
            let chunk = cuckoo::wire::chunk(&object, cursor).unwrap();
            assert_eq!(
                chunk.is_some(),
                (1..=object.size()).contains(&cursor),
                "{cursor}"
            );
            for length in [0, 1, 1 << 16] {
                let loaded = cuckoo::wire::load(&mut object, cursor, &vec![1; length]).unwrap();
                let is_within = (2..=object.size() + 1).contains(&cursor) && length == 1;
                assert_eq!(loaded, is_within, "{cursor} {length}");
            }
        }
    }
}

/// Moves memory in single steps, from a step on.
fn relocate_from(begin: u64, mut relocate: impl FnMut(usize, &mut Moving) -> Option<usize>) {
    let mut step = Some(usize::try_from(begin).unwrap());
    while let Some(begin) = step {
        step = relocate(begin, &mut Moving);
        assert!(step.is_none_or(|next| next > begin));
    }
}

struct Moving;

impl Relocate for Moving {
    fn should_stop(&mut self) -> bool {
        true
    }

    fn table<T>(&mut self, mut table: Vec<T>) -> Vec<T> {
        table.shrink_to_fit();
        table
    }

    fn blob(&mut self, blob: Box<[u8]>) -> Box<[u8]> {
        blob.to_vec().into_boxed_slice()
    }
}

#[test]
fn any_contest_has_an_outcome() {
    for base in DOUBLES {
        let Some(decay) = Decay::new(base) else {
            assert!(!(base > 0.0 && base <= 1.0), "{base}");
            continue;
        };
        for (count, draws) in
            pairs(&NUMBERS.map(|number| u32::try_from(number).unwrap_or(u32::MAX)))
        {
            let collision = Collision {
                fingerprint: 1,
                cell: u32::MAX,
                owner: 2,
                count: *count,
                draws: *draws,
                number: u64::MAX,
            };
            match Derived.contest(&collision, &decay) {
                Contest::Kept(left) => {
                    assert!((1..=*count).contains(&left), "{base} {collision:?}")
                }
                Contest::Taken(left) => assert!(left <= *draws, "{base} {collision:?}"),
            }
        }
    }
}

/// Objects that are made at all are valid: they are read back from all that they write.
#[test]
#[allow(clippy::cast_possible_truncation, reason = "any number will do")]
fn blooms_of_any_numbers_are_refused_or_valid() {
    let limits = bloom::Limits {
        filter_bytes: 1 << 20,
        object_bytes: 1 << 20,
        ..bloom::Limits::NONE
    };
    for rate in DOUBLES.into_iter().filter_map(Fraction::new) {
        for (capacity, expansion) in NUMBERS.into_iter().flat_map(|n| [(n, 0), (n, u32::MAX)]) {
            for kind in [
                Kind::Plain,
                Kind::Counting,
                Kind::Windowed(Window::new(1, 2).unwrap()),
            ] {
                let mut params = params_of(capacity, rate);
                params.growth = Growth::from_expansion(expansion);
                let shape = bloom::Shape { params, kind };
                for now_ms in [0, u64::MAX] {
                    let time = Time {
                        now_ms,
                        ttl_ms: Some(now_ms),
                    };
                    let Ok(mut made) = Object::new(&shape, Seed::FIXED, time, limits) else {
                        continue;
                    };
                    let added = made.add(b"", time, None, || limits);
                    assert_eq!(added, Ok(Added::New), "{shape:?}");
                    through_every_form(&made);
                }
                let plan = shape.plan(u64::MAX, limits);
                assert!(plan.is_err(), "{shape:?}");
            }
            let ends = [f64::MIN_POSITIVE, 0.5, 1.0_f64.next_down()];
            let ends = ends.map(|ratio| Fraction::new(ratio).unwrap());
            let laws =
                ends.map(|ratio| [Tightening::ours(ratio), Tightening::of_valkey_bloom(ratio)]);
            let growth = Growth::from_expansion(expansion);
            let laws = laws.as_flattened().iter().map(|tightening| {
                New::Own(bloom::Shape::plain(Params {
                    tightening: *tightening,
                    growth,
                    ..params_of(capacity, rate)
                }))
            });
            let params = Params {
                growth,
                ..params_of(capacity, rate)
            };
            let foreign = NUMBERS.map(|n| New::RedisBloom {
                params,
                factor: n as u32,
            });
            for new in laws.chain(foreign) {
                let (reach, _) = new.reach(limits);
                assert_eq!(new.plan(1, limits).is_ok(), reach > 0, "{new:?}");
                assert!(new.plan(u64::MAX, limits).is_err(), "{new:?}");
                let Ok(mut made) = Object::make(&new, Seed::FIXED, Time::default(), limits) else {
                    assert_eq!(reach, 0, "{new:?}");
                    continue;
                };
                for item in 0..3_u8 {
                    let _ = made.add(&[item], Time::default(), None, || limits);
                }
                through_every_form(&made);
            }
        }
    }
    for number in NUMBERS {
        for shards in [1, u32::MAX] {
            assert!(
                shard_capacity(number, shards.try_into().unwrap()) >= number / u64::from(shards)
            );
        }
        let shape = bloom::Shape {
            params: params(10, 0.1, 1),
            kind: Kind::Windowed(Window::new(1000, 3).unwrap()),
        };
        let mut object = object_of(&shape, Seed::FIXED);
        let time = Time::at(5000);
        if object.begin_period(time, number, limits).is_ok() {
            assert_eq!(object.room(time), Some(number.max(1)));
        }
        through_every_form(&object);
        for view in object.views() {
            let length = usize::try_from(view.cell_bytes()).unwrap();
            #[allow(clippy::reversed_empty_ranges, reason = "it is to be refused")]
            for outside in [0..length + 1, length + 1..length + 1, 2..1, 0..usize::MAX] {
                assert_eq!(view.bitmap_part(outside), None);
            }
            assert_eq!(view.bitmap_part(0..length), view.bitmap());
            assert!(!view.is_in_use(u64::MAX));
        }
    }
}

#[test]
#[allow(clippy::cast_possible_truncation, reason = "any number will do")]
fn other_shapes_of_any_numbers_are_refused_or_valid() {
    let limits = cuckoo::Limits {
        filter_bytes: 1 << 20,
        ..cuckoo::Limits::NONE
    };
    for one in NUMBERS {
        for other in NUMBERS {
            let params = cuckoo::Params {
                capacity: one,
                bucket_size: other as u8,
                max_iterations: other as u16,
                expansion: other as u16,
            };
            let shape = cuckoo::Shape::new(&params);
            if let Some(Ok(mut filter)) = shape.map(|shape| Cuckoo::new(shape, &limits)) {
                assert_eq!(filter.add(b"", true, || limits), Ok(true));
                assert!(filter.outline().check().is_ok(), "{params:?}");
                assert_eq!(filter.find(u64::MAX), None);
                assert_eq!(filter.write(u64::MAX, b"1"), Ok(false));
            }
            if let Some(shape) = cms::Shape::new(one, other, CellSize::Eight)
                && let Ok(mut sketch) = CountMin::new(shape, 1 << 20)
            {
                for by in [0, i64::MIN, i64::MAX, i64::MAX, i64::MAX] {
                    let _ = sketch.increment(b"", by);
                }
                let wider = cms::Shape::new(one + 1, other, CellSize::Eight).unwrap();
                let wider = CountMin::new(wider, u64::MAX).unwrap();
                assert_eq!(sketch.replace(wider), Err(MergeError::Shape));
                assert_eq!(*sketch.shape(), shape);
            }
            for decay in DOUBLES {
                if let Ok(shape) = topk::Shape::new(one, other, 1, decay)
                    && let Ok(mut sketch) = TopK::new(shape, Seed::FIXED, 1 << 20)
                {
                    for by in [0, 1, u32::MAX] {
                        sketch.add(b"", by, || u64::MAX).unwrap();
                    }
                    let payload = Sketch::TopK(sketch).to_dump();
                    assert!(
                        Sketch::from_dump(&payload, Seed::FIXED).is_ok(),
                        "{shape:?}"
                    );
                }
            }
        }
    }
}
