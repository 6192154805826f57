//! t-digests whose allocations are refused.

use valkeybloom_sketches::tdigest::{Compression, Refusal, TDigest, wire};

use valkeybloom_testing::support::state_of;

use crate::refusing::{Family, each_refused, each_refused_of};

const COMPRESSION: u64 = 100;

fn new() -> TDigest {
    TDigest::new(Compression::new(COMPRESSION).unwrap())
}

fn values(count: u32) -> Vec<f64> {
    let values = (0..count).map(|number| number * 37 % 1009);
    values.map(f64::from).collect()
}

/// Returns a digest with merged nodes, and with a buffer of `unmerged` nodes.
fn digest(unmerged: u32) -> TDigest {
    let mut digest = new();
    digest.add_each(&values(5000)).unwrap();
    digest.compress();
    digest.add_each(&values(unmerged)).unwrap();
    assert_eq!(digest.unmerged_nodes(), usize::try_from(unmerged).unwrap());
    assert!(digest.merged_nodes() > 40);
    // Without spare room.
    digest.try_clone().unwrap()
}

const FAMILY: Family<TDigest> = Family {
    write: |digest, to| wire::write_rdb(digest, to),
    read: |from| wire::read_rdb(wire::RDB_VERSION, from),
    copy: TDigest::try_clone,
};

#[test]
fn t_digests_are_read_and_copied() {
    let mut refusals = 0;
    for unmerged in [0, 300] {
        let object = digest(unmerged);
        let before = state_of(&object);
        refusals += FAMILY.is_read_and_copied(&object);
        refusals += each_refused_of(
            || object.compressed_copy(),
            |copy, refused| match copy {
                Some(copy) => assert_eq!(copy.unmerged_nodes(), 0),
                None => assert!(refused),
            },
        );
        assert!(state_of(&object) == before, "changed");
    }
    assert!(refusals > 10, "{refusals} were refused");
}

/// An empty digest allocates nothing that grows.
#[test]
fn t_digests_are_made() {
    let refusals = each_refused_of(new, |made, _| assert!(made.is_empty()));
    assert_eq!(refusals, 0);
}

/// The buffer grows, and is compressed many times. A refusal adds nothing, and the next attempt succeeds.
#[test]
fn t_digests_fill() {
    let (mut refusals, mut not_added) = (0, 0);
    for (unmerged, count) in [(0, 1), (0, 40), (100, 200), (300, 5000)] {
        let more = values(count);
        let before = state_of(&digest(unmerged));
        let mut expected = digest(unmerged);
        expected.add_each(&more).unwrap();
        let expected = state_of(&expected);
        let one_by_one = |mut object: TDigest| {
            let mut left = Vec::new();
            for (index, value) in more.iter().enumerate() {
                let observations = object.observations();
                if let Err(refusal) = object.add_each(&[*value]) {
                    assert_eq!(refusal, Refusal::OutOfMemory);
                    assert_eq!(object.observations(), observations);
                    left.push(index);
                    object.add_each(&[*value]).unwrap();
                }
            }
            (object, left.len())
        };
        refusals += each_refused(
            || digest(unmerged),
            one_by_one,
            |(object, left), refused| {
                // Sorting goes on without its scratch space.
                assert!(left <= usize::from(refused));
                not_added += left;
                assert!(state_of(&object) == expected, "other nodes");
            },
        );
        refusals += each_refused(
            || digest(unmerged),
            |mut object| (object.add_each(&more), object),
            |(added, mut object), refused| {
                if let Err(refusal) = added {
                    not_added += 1;
                    assert_eq!((refusal, refused), (Refusal::OutOfMemory, true));
                    assert!(state_of(&object) == before, "added in part");
                    object.add_each(&more).unwrap();
                }
                assert!(state_of(&object) == expected, "other nodes");
            },
        );
    }
    assert!(
        refusals > not_added && not_added >= 8,
        "{refusals}, {not_added}"
    );
}

#[test]
fn t_digests_are_merged() {
    let sources = [digest(0), digest(300), digest(200)];
    let before = sources.each_ref().map(state_of);
    let compression = Compression::new(2 * COMPRESSION).unwrap();
    let twice = || sources.iter().chain(&sources);
    let expected = state_of(&TDigest::merged(compression, twice()).unwrap());
    let refusals = each_refused_of(
        || TDigest::merged(compression, twice()),
        |merged, refused| {
            match merged {
                Ok(merged) => assert!(state_of(&merged) == expected, "other nodes"),
                Err(refusal) => assert_eq!((refusal, refused), (Refusal::OutOfMemory, true)),
            }
            assert!(sources.each_ref().map(state_of) == before, "changed");
        },
    );
    // The compressed nodes of each source, and the nodes of the result as they grow.
    assert!(refusals > 8, "{refusals}");
}

/// The nodes that queries need are prepared the next time.
#[test]
fn t_digests_are_queried() {
    for unmerged in [0, 300] {
        let object = digest(unmerged);
        let (before, bytes) = (state_of(&object), object.memory_bytes());
        let median = digest(unmerged).compressed().unwrap().quantile(0.5);
        for keeps in [true, false] {
            let refusals = each_refused(
                || object.try_clone().unwrap(),
                |object| {
                    let median = if keeps {
                        object.compressed().map(|of| of.quantile(0.5))
                    } else {
                        object.compressed_once(|of| of.quantile(0.5))
                    };
                    (object, median)
                },
                |(object, answer), refused| {
                    // Sorting goes on without its scratch space.
                    assert!(answer == Some(median) || answer.is_none() && refused);
                    let has_kept = keeps && answer.is_some();
                    assert_eq!(object.memory_bytes() > bytes, has_kept);
                    assert!(state_of(&object) == before, "changed");
                    let again = object.compressed().unwrap().quantile(0.5);
                    assert_eq!(again.to_bits(), median.to_bits());
                    let again = object.compressed_once(|of| of.quantile(0.5));
                    assert_eq!(again, Some(median));
                },
            );
            assert!(refusals >= 1, "{refusals}");
        }
    }
}
