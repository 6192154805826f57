//! Top-k lists.

use valkeybloom_sketches::topk::{Refusal, Shape, TopK, wire};
use valkeybloom_sketches::{DecodeError, Seed};

use crate::refusing::each_refused;
use crate::samples::{Reading, fields_of, item};

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

#[test]
fn top_k_lists_are_read_and_copied() {
    let mut refusals = 0;
    let object = top_k(2000);
    let fields = fields_of(|to| wire::write_rdb(&object, to));
    let same = |copy: &TopK| {
        let again = fields_of(|to| wire::write_rdb(copy, to));
        assert!(again == fields, "other fields");
        assert_eq!(copy.memory_bytes(), object.memory_bytes());
    };
    let read = |mut from: Reading| wire::read_rdb(wire::RDB_VERSION, &mut from, Seed::FIXED);
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
    refusals += each_refused(
        || (),
        |()| TopK::new(*object.shape(), Seed::FIXED, u64::MAX),
        |made, refused| match made {
            Ok(made) => assert_eq!(made.listed(), 0),
            Err(error) => assert_eq!((error, refused), (Refusal::OutOfMemory, true)),
        },
    );
    refusals += each_refused(
        || (),
        |()| object.ranking().map(|ranking| ranking.len()),
        |listed, refused| assert!(listed == Some(2000) || refused),
    );
    assert!(refusals > 10, "{refusals} were refused");
}

/// Items that are refused leave the list as it is, and enter it the next time.
#[test]
fn top_k_lists_fill() {
    let mut refusals = 0;
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
    refusals += each_refused(
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
