//! What every user of the library may call: extreme arguments, payloads of servers, buffers with offsets.

mod extremes;

use std::mem::discriminant;

use valkeybloom_sketches::bloom::{
    self, Added, Dialect, Kind, New, Object, Time, Window, shard_capacity,
};
use valkeybloom_sketches::cms::{self, CellSize, CountMin, MergeError, Overflow};
use valkeybloom_sketches::cuckoo::{self, Cuckoo};
use valkeybloom_sketches::tdigest::{self, Compression, TDigest};
use valkeybloom_sketches::topk::{self, TopK};
use valkeybloom_sketches::{DecodeError, Fraction, Seed, Sketch, Slices, payload};

use crate::support::{
    Field, Stream, of_valkey_bloom, params, through_every_form, tightened, tightening, unhex,
    within,
};
use valkeybloom_testing::loader::Dump;

/// A server that saves without a fork writes objects on one thread while another one reads them.
const fn are_read_by_threads<T: Sync>() {}
const _: () = are_read_by_threads::<(Object, bloom::chunks::Partial)>();

/// What `DUMP` of Valkey 9.1 returned for each family, with compressed strings and digits as integers.
const DUMPS: &str = include_str!("dumps.txt");

#[rustfmt::skip]
const DOUBLES: [f64; 12] = [
    f64::NAN, f64::NEG_INFINITY, f64::MIN, -1.0, -0.0, 0.0, f64::MIN_POSITIVE, 0.5, 1.0, 2.0, f64::MAX, f64::INFINITY,
];
const NUMBERS: [u64; 9] = [
    0,
    1,
    2,
    63,
    1 << 31,
    1 << 32,
    1 << 53,
    u64::MAX >> 1,
    u64::MAX,
];

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
            "bloom" => {
                let dialect = Dialect::Bloomfltr;
                (dialect.type_name(), dialect.rdb_version())
            }
            "cuckoo" => (cuckoo::wire::TYPE_NAME, cuckoo::wire::RDB_VERSION),
            "cms" => (cms::wire::TYPE_NAME, cms::wire::RDB_VERSION),
            "topk" => (topk::wire::TYPE_NAME, topk::wire::RDB_VERSION),
            "tdigest" => (tdigest::wire::TYPE_NAME, tdigest::wire::RDB_VERSION),
            _ => panic!("{family}"),
        };
        let dump = Dump::of(&payload).unwrap();
        assert_eq!(dump.type_name.as_bytes(), name.to_bytes());
        assert_eq!(dump.version, u64::from(version.unsigned_abs()));
        let fields = Stream(dump.fields.into());
        let read =
            |name: &[u8], version| Sketch::read(name, version, &mut fields.clone(), Seed::FIXED);
        let again = read(name.to_bytes(), version).unwrap();
        assert_eq!(again.to_dump(), payload, "{family}");
        for bad in [i32::MIN, -1, 1023, i32::MAX] {
            assert!(read(name.to_bytes(), bad).is_err(), "{family} {bad}");
        }
        assert!(read(b"hash", version).is_err() && read(b"", version).is_err());
        // Cut, and with a field of another kind.
        let is_cut = |mut fields: Stream| {
            let read = Sketch::read(name.to_bytes(), version, &mut fields, Seed::FIXED);
            assert_eq!(read.err(), Some(DecodeError::Truncated), "{family}");
        };
        for (index, field) in fields.0.iter().enumerate() {
            is_cut(Stream(fields.0.iter().take(index).cloned().collect()));
            let (uint, double) = (Field::Uint(64), Field::Double(2.0));
            let mut others = vec![uint, double, Field::Bytes(b"2".to_vec())];
            others.retain(|other| discriminant(other) != discriminant(field));
            for other in others {
                is_cut(fields.with(index, other));
            }
        }
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

/// Objects that are made at all are valid: they are read back from all that they write.
#[test]
#[allow(clippy::cast_possible_truncation, reason = "any number will do")]
fn blooms_of_any_numbers_are_refused_or_valid() {
    let limits = within(1 << 20, 1 << 20);
    let window = Kind::Windowed(Window::new(1, 2).unwrap());
    for rate in DOUBLES
        .into_iter()
        .filter(|rate| Fraction::new(*rate).is_some())
    {
        for (capacity, expansion) in NUMBERS.into_iter().flat_map(|n| [(n, 0), (n, u32::MAX)]) {
            for kind in [Kind::Plain, Kind::Counting, Kind::ScaledTo, window] {
                let params = params(capacity, rate, expansion);
                let shape = bloom::Shape { params, kind };
                for now_ms in [0, u64::MAX] {
                    let ttl_ms = Some(now_ms);
                    let time = Time { now_ms, ttl_ms };
                    let Ok(mut made) = Object::new(&shape, Seed::FIXED, limits) else {
                        continue;
                    };
                    let added = made.add(b"", time, || limits);
                    assert_eq!(added, Ok(Added::New), "{shape:?}");
                    through_every_form(&made);
                }
                let plan = shape.plan(u64::MAX, limits);
                assert!(plan.is_err(), "{shape:?}");
            }
            let params = params(capacity, rate, expansion);
            let ends = [f64::MIN_POSITIVE, 0.5, 1.0_f64.next_down()];
            let laws = ends.map(|ratio| [tightening(ratio), of_valkey_bloom(ratio)]);
            let laws = laws.as_flattened().iter();
            let laws = laws.map(|law| New::Own(bloom::Shape::plain(tightened(*law, params))));
            let foreign = NUMBERS.map(|n| New::RedisBloom {
                params,
                factor: n as u32,
            });
            for new in laws.chain(foreign) {
                let (reach, _) = new.reach(limits);
                assert_eq!(new.plan(1, limits).is_ok(), reach > 0, "{new:?}");
                assert!(new.plan(u64::MAX, limits).is_err(), "{new:?}");
                let Ok(mut made) = Object::make(&new, Seed::FIXED, limits) else {
                    assert_eq!(reach, 0, "{new:?}");
                    continue;
                };
                for item in 0..3_u8 {
                    let _ = made.add(&[item], Time::default(), || limits);
                }
                through_every_form(&made);
            }
        }
    }
    for (number, shards) in NUMBERS.into_iter().flat_map(|it| [(it, 1), (it, u32::MAX)]) {
        let each = shard_capacity(number, shards.try_into().unwrap());
        assert!(each >= number / u64::from(shards));
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
                assert_eq!(
                    filter.write(u64::MAX, b"1"),
                    Err(cuckoo::ChunkError::Misplaced)
                );
            }
            if let Some(shape) = cms::Shape::new(one, other, CellSize::Eight)
                && let Ok(mut sketch) = CountMin::new(shape, 1 << 20)
            {
                for by in [0, i64::MIN, i64::MAX, i64::MAX, i64::MAX] {
                    let _ = sketch.increment(b"", by, Overflow::Refuse);
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
                    let read = Sketch::from_dump(&Sketch::TopK(sketch).to_dump(), Seed::FIXED);
                    assert!(read.is_ok(), "{shape:?}");
                }
            }
        }
    }
}
