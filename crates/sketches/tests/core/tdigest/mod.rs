//! t-digests: against what RedisBloom recorded, against its rules written down once more, and against bytes that mean
//! harm.

mod agreement;
mod order;
mod streams;

use valkeybloom_sketches::tdigest::{Compression, Refusal, TDigest, wire};
use valkeybloom_sketches::{DecodeError, RdbWrite};

use crate::support::{Field, Rng, Stream};
use valkeybloom_testing::loader::loaded;

/// Returns the fields of a digest in RDB.
fn fields_of(digest: &TDigest) -> Stream {
    // RedisBloom 8.12 loads no larger one.
    const COMPRESSION_MAX: u64 = 357_913_939;
    let fields = Stream::of(|to| wire::write_rdb(digest, to));
    if digest.compression().get() > COMPRESSION_MAX {
        return fields;
    }
    loaded(wire::TYPE_NAME, wire::RDB_VERSION, fields)
}

/// Reads all of the fields.
fn read(mut fields: Stream) -> Result<TDigest, DecodeError> {
    let digest = wire::read_rdb(wire::RDB_VERSION, &mut fields)?;
    assert!(fields.0.is_empty(), "bytes after the digest");
    Ok(digest)
}

/// A mean and its weight.
type Node = (f64, f64);

/// Returns the fields of a compressed digest with these ends and nodes.
fn fields(compression: Compression, ends: [f64; 2], nodes: &[Node]) -> Stream {
    let weights = nodes.iter().map(|node| node.1);
    let mut fields = Stream::default();
    for double in [compression.as_double(), ends[0], ends[1]] {
        fields.double(double);
    }
    for number in [compression.stored_capacity(), nodes.len() as u64, 0, 0] {
        fields.uint(number);
    }
    fields.double(weights.clone().sum());
    fields.double(0.0);
    for number in nodes.iter().map(|node| node.0).chain(weights) {
        fields.double(number);
    }
    fields
}

/// Returns the sum of the weights that are exact in a compressed digest.
fn few_in(digest: &TDigest) -> f64 {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let fields = fields_of(digest);
    let weights = fields.0.iter().rev().take(digest.merged_nodes());
    let weights = weights.map(|field| match field {
        Field::Double(weight) => *weight,
        other => panic!("{other:?} is not a weight"),
    });
    weights.filter(|weight| *weight < EXACT).sum()
}

/// Beside 2^62 observations, others are lost in every sum. Yet each of them is kept, in no more nodes than usual, and
/// what is written can be read.
#[test]
fn few_observations_are_kept_beside_many() {
    let compression = Compression::new(10).unwrap();
    let mut many = TDigest::new(compression);
    many.add_each(&[0.0]).unwrap();
    for _ in 0..62 {
        many = TDigest::merged(compression, [&many, &many]).unwrap();
    }
    many.compress();
    assert_eq!(many.observations(), 1 << 62);
    for (sign, at_once) in [(1.0, 1), (1.0, 7), (1.0, 500), (-1.0, 1), (-1.0, 500)] {
        let mut digest = many.try_clone().unwrap();
        let values: Vec<f64> = (1..=2000).map(|number| sign * f64::from(number)).collect();
        for values in values.chunks(at_once) {
            digest.add_each(values).unwrap();
            let nodes = digest.merged_nodes() + digest.unmerged_nodes();
            assert!(nodes as u64 <= compression.capacity(), "{nodes}");
        }
        digest.compress();
        let fields = fields_of(&digest);
        // Light nodes of zeros may have gone into heavy ones.
        let (few, zeros) = (few_in(&digest), few_in(&many));
        assert!((2000.0..=2000.0 + zeros).contains(&few), "{few}, {zeros}");
        let ends = [digest.min(), digest.max()];
        let has_both = ends.contains(&(sign * 2000.0)) && ends.contains(&0.0);
        assert!(has_both, "{ends:?}");
        assert_eq!(fields_of(&read(fields.clone()).unwrap()), fields);
    }
}

/// Means that are not finite become the nearest finite ones in order. Bounds are finite where no mean has to be mended.
#[test]
fn means_that_overflowed_are_mended() {
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    const LOW: f64 = f64::MIN;
    const HIGH: f64 = f64::MAX;
    type Means = &'static [f64];
    let cases: [(f64, f64, Means, Option<Means>); 14] = [
        (1.0, 9.0, &[1.0, NAN, 9.0], Some(&[1.0, 1.0, 9.0])),
        (
            1.0,
            9.0,
            &[1.0, INF, -INF, 9.0],
            Some(&[1.0, 1.0, 9.0, 9.0]),
        ),
        (1.0, 9.0, &[NAN, 4.0, 5.0, INF], Some(&[1.0, 4.0, 5.0, 9.0])),
        // Halfway, the lower mean is taken, but the upper one in the last run.
        (
            1.0,
            9.0,
            &[1.0, NAN, NAN, NAN, 5.0, 9.0],
            Some(&[1.0, 1.0, 1.0, 5.0, 5.0, 9.0]),
        ),
        (1.0, 9.0, &[1.0, NAN, NAN, NAN], Some(&[1.0, 1.0, 9.0, 9.0])),
        (1.0, 9.0, &[NAN, NAN, NAN], Some(&[1.0, 9.0, 9.0])),
        // A NaN breaks the order of a sort.
        (
            1.0,
            9.0,
            &[1.0, 7.0, NAN, 3.0, 9.0],
            Some(&[1.0, 3.0, 7.0, 7.0, 9.0]),
        ),
        (LOW, INF, &[LOW, 2.0, INF], Some(&[LOW, 2.0, 2.0])),
        (
            -INF,
            INF,
            &[-INF, 2.0, 3.0, INF],
            Some(&[2.0, 2.0, 3.0, 3.0]),
        ),
        (INF, INF, &[INF, NAN], Some(&[LOW, HIGH])),
        (-INF, INF, &[1.0, 2.0], None),
        (1.0, NAN, &[1.0, NAN], None),
        (9.0, 1.0, &[1.0, NAN], None),
        (1.0, 9.0, &[NAN, 99.0], None),
    ];
    for (min, max, means, expected) in cases {
        let nodes: Vec<Node> = means.iter().map(|mean| (*mean, 1.0)).collect();
        let mut fields = fields(Compression::new(5).unwrap(), [min, max], &nodes);
        let loaded = wire::load_rdb(wire::RDB_VERSION, &mut fields);
        let Some(means) = expected else {
            assert!(loaded.is_err(), "{means:?}");
            continue;
        };
        let loaded = loaded.unwrap();
        assert!(loaded.is_mended);
        let ends = (loaded.digest.min(), loaded.digest.max());
        assert_eq!(ends, (means[0], means[means.len() - 1]));
        let stored = fields_of(&loaded.digest).0.into_iter().skip(9);
        let stored = stored.take(means.len());
        let expected = means.iter().copied().map(Field::Double);
        assert!(stored.eq(expected), "{means:?}");
        require_sound(&loaded.digest, "mended");
    }
}

/// `RedisBloom` cuts the capacity to 32 bits, and refuses more nodes than that.
#[test]
fn huge_compressions_load_and_answer() {
    for (compression, stored, takes) in [
        (100_001, 600_016, 20),
        (357_913_939, 2_147_483_644, 20),
        (357_913_940, (-2_147_483_646_i64).cast_unsigned(), 0),
        (400_000_000, (-1_894_967_286_i64).cast_unsigned(), 0),
        (715_827_882, 6, 6),
        (1_000_000_000, 1_705_032_714, 20),
    ] {
        let compression = Compression::new(compression).unwrap();
        assert!(!compression.is_within_limits());
        let mut digest = TDigest::new(compression);
        let added = (0..20).take_while(|value| digest.add_each(&[f64::from(*value)]).is_ok());
        assert_eq!(added.count(), takes);
        let fields = fields_of(&digest);
        assert!(matches!(fields.0[3], Field::Uint(capacity) if capacity == stored));
        if takes > 0 {
            require_sound(&digest, "huge");
            assert_eq!(digest.compressed().unwrap().rank(3.0), 3);
        }
        assert_eq!(read(fields).unwrap().compression(), compression);
        let twice = TDigest::merged(compression, [&digest, &digest]);
        let observations = twice.map_or(0, |twice| twice.observations());
        assert!([0, 2 * digest.observations()].contains(&observations));
    }
    assert!(Compression::new(0).is_none() && Compression::new(u64::MAX).is_none());
}

/// Requires that a digest can be stored and read, and that its answers are in their ranges.
fn require_sound(digest: &TDigest, what: &str) {
    let fields = fields_of(digest);
    let stored = read(fields.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(fields_of(&stored), fields, "{what}");
    for digest in [digest, &stored] {
        let (min, max, observations) = (digest.min(), digest.max(), digest.observations());
        let answers = digest.compressed().unwrap();
        let outside = [min.next_down(), max.next_up()];
        assert_eq!(outside.map(|value| answers.rank(value)), [-1, observations]);
        let reverse = outside.map(|value| answers.reverse_rank(value));
        assert_eq!(reverse, [observations, -1], "{what}");
        let (values, ranks) = (min..=max, 0..=observations);
        for share in [0.0, 1e-18, 1e-9, 0.01, 0.3, 0.5, 0.9, 1.0 - 1e-9, 1.0] {
            let value = answers.quantile(share);
            assert!(values.contains(&value), "{what}: quantile {share}: {value}");
            for value in [value, (min + (max - min) * share).min(max)] {
                let below = answers.cdf(value);
                assert!((0.0..=1.0).contains(&below), "{what}: cdf {value}: {below}");
                for rank in [answers.rank(value), answers.reverse_rank(value)] {
                    assert!(ranks.contains(&rank), "{what}: rank of {value}: {rank}");
                }
            }
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
            let rank = ((observations as f64 * share) as i64).min(observations - 1);
            let rank = rank.cast_unsigned();
            for value in [answers.by_rank(rank), answers.by_reverse_rank(rank)] {
                assert!(values.contains(&value), "{what}: {rank}: {value}");
            }
            if share < 0.9 {
                let mean = answers.trimmed_mean(share, 0.9);
                assert!(values.contains(&mean), "{what}: mean from {share}: {mean}");
            }
        }
    }
}

const NEAR: [f64; 9] = [0.0, 1e-308, -1e-308, 1e-3, 1e6, -1e6, 1e300, 1e308, -1e308];

/// Small digests of heavy weights, made at random: nodes of few observations beside those of 2^62 on either side.
#[test]
fn whatever_commands_make_is_stored_and_answers_in_range() {
    let mut rng = Rng::new(1);
    for round in 0..1500 {
        let compression = *rng.pick(&[1, 1, 1, 2, 2, 3, 4, 5, 7, 10, 20]);
        let compression = Compression::new(compression).unwrap();
        let mut digest = TDigest::new(compression);
        let mut steps = Vec::new();
        for _ in 0..6 {
            let (count, near) = (rng.below(30) + 1, *rng.pick(&NEAR));
            let spread = *rng.pick(&[0.0, 1.0, 1e6]);
            #[allow(clippy::cast_precision_loss)]
            let value = |_| near + spread * (rng.below(1 << 20) as f64 / f64::from(1 << 20));
            let values: Vec<f64> = (0..count).map(value).collect();
            match digest.add_each(&values) {
                Ok(()) | Err(Refusal::Overflow) => {}
                Err(refusal) => panic!("{refusal:?}"),
            }
            let doublings = rng.below(45);
            steps.push((values, doublings));
            for _ in 0..doublings {
                match TDigest::merged(compression, [&digest, &digest]) {
                    Ok(merged) => digest = merged,
                    Err(refusal) => {
                        assert_eq!(refusal, Refusal::Overflow);
                        break;
                    }
                }
            }
            let nodes = digest.merged_nodes() + digest.unmerged_nodes();
            let what = format!("{round}: {} {steps:?}", compression.get());
            assert!(nodes as u64 <= compression.capacity(), "{what}: {nodes}");
            require_sound(&digest, &what);
        }
    }
}

/// The distance from the smallest value to the first mean exceeds the largest double.
#[test]
fn values_at_both_ends_of_doubles_are_found_by_rank() {
    for ends in [[-1.7e308, 1.7e308], [1.7e308, -1.7e308]] {
        let mut digest = TDigest::new(Compression::new(1).unwrap());
        digest.add_each(&[ends[0]]).unwrap();
        digest.add_each(&[ends[1]; 100]).unwrap();
        require_sound(&digest, "both ends");
    }
}
