//! t-digests: against what RedisBloom recorded, against its rules written down once more, and against bytes that mean
//! harm.

mod recorded;

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::tdigest::{Compression, TDigest, wire};

use crate::support::{Field, Stream};

/// Returns the fields of a digest in RDB.
fn fields_of(digest: &TDigest) -> Stream {
    let mut fields = Stream::default();
    wire::write_rdb(digest, &mut fields);
    fields
}

/// Reads all of the fields.
fn read(mut fields: Stream) -> Result<TDigest, DecodeError> {
    let digest = wire::read_rdb(wire::RDB_VERSION, &mut fields)?;
    assert!(fields.0.is_empty(), "bytes after the digest");
    Ok(digest)
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
        assert!(
            ends.contains(&(sign * 2000.0)) && ends.contains(&0.0),
            "{ends:?}"
        );
        assert_eq!(fields_of(&read(fields.clone()).unwrap()), fields);
    }
}
