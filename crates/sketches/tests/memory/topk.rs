//! Top-k lists.

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::topk::{Refusal, Shape, TopK, wire};

use crate::refusing::{Family, each_refused, each_refused_of};
use crate::samples::item;

/// Returns a list of 3,000 with `items` in it.
fn top_k(items: u64) -> TopK {
    let shape = Shape::new(3000, 20_000, 3, 0.9).unwrap();
    let mut object = TopK::new(shape, Seed::FIXED, u64::MAX).unwrap();
    for number in 0..items {
        object.add(&item(number), 1, || u64::MAX).unwrap();
    }
    assert_eq!(u64::from(object.listed()), items);
    object
}

const FAMILY: Family<TopK> = Family {
    write: |object, to| wire::write_rdb(object, to),
    read: |from| wire::read_rdb(wire::RDB_VERSION, from, Seed::FIXED),
    copy: TopK::try_clone,
};

#[test]
fn top_k_lists_are_made_read_copied_and_ranked() {
    let object = top_k(2000);
    let made = each_refused_of(
        || TopK::new(*object.shape(), Seed::FIXED, u64::MAX),
        |made, refused| match made {
            Ok(made) => assert_eq!(made.listed(), 0),
            Err(error) => assert_eq!((error, refused), (Refusal::OutOfMemory, true)),
        },
    );
    let ranked = each_refused_of(
        || object.ranking().map(|ranking| ranking.len()),
        |listed, refused| assert!(listed == Some(2000) || refused),
    );
    let refusals = FAMILY.is_read_and_copied(&object);
    assert!(made > 1 && ranked > 0 && refusals > 3, "{refusals}");
}

/// Items that are refused leave the list as it is, and enter it the next time.
#[test]
fn top_k_lists_fill() {
    // Large enough that their memory is refused.
    let long: Vec<_> = (0..20).map(|number| [number; 600]).collect();
    let add = |mut object: TopK| {
        let mut refused_items = Vec::new();
        for item in &long {
            let added = object.add(item, 1000, || u64::MAX);
            assert!(matches!(added, Ok(_) | Err(Refusal::OutOfMemory)));
            if added.is_err() {
                assert_eq!(object.count(item), 0);
                refused_items.push(item);
            }
        }
        (object, refused_items)
    };
    let refusals = each_refused(
        || top_k(500).try_clone().unwrap(),
        add,
        |(mut object, refused_items), refused| {
            assert_eq!(refused_items.len(), usize::from(refused));
            for item in refused_items {
                object.add(item, 1000, || u64::MAX).unwrap();
            }
            assert!(long.iter().all(|item| object.contains(item)));
            assert_eq!(object.listed(), 520);
        },
    );
    assert!(refusals > 10, "{refusals} were refused");
}
