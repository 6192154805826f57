//! Values that are not top-k lists, and limits.

use valkeybloom_sketches::topk::{COPIES_MAX, Fault, Refusal, Shape, TopK};
use valkeybloom_sketches::{DecodeError, Seed};

use crate::support::{Field, Stream};
use murmur2::murmur2;

use super::{add, fields_of, fields_with, ranking, read, sketch, stored_entry};

/// Two of three entries in use, four cells in two rows.
fn sample() -> Stream {
    let mut object = sketch(3, 2, 2, 0.9);
    add(&mut object, b"one", 1);
    add(&mut object, b"two", 2);
    fields_of(&object)
}

#[test]
fn other_fields_are_refused() {
    const SIZE: &str = "size out of range";
    const DEPTH: &str = "depth out of range";
    const DECAY: &str = "decay out of range";
    const LENGTH: &str = "string of another length";
    const ENDS: &str = "bytes end too early";
    const ITEM: &str = "item without its end";
    let uint = |at: usize, number: u64| (at, Field::Uint(number));
    let double = |at: usize, number: f64| (at, Field::Double(number));
    let bytes = |at: usize, length: usize| (at, Field::Bytes(vec![0; length]));
    let rows = [
        (vec![uint(0, 0)], SIZE),
        (vec![uint(1, 0)], SIZE),
        (vec![uint(2, 0)], DEPTH),
        (vec![uint(0, 1 << 32)], SIZE),
        (vec![uint(0, (1 << 32) + 3)], SIZE),
        (vec![uint(1, (1 << 32) + 2)], SIZE),
        (vec![uint(2, (1 << 32) + 2)], DEPTH),
        (vec![uint(1, u64::from(u32::MAX))], SIZE),
        (vec![uint(1, 1 << 31), bytes(4, 0)], SIZE),
        (vec![uint(1, 1 << 30), bytes(4, 0)], LENGTH),
        (vec![uint(1, 3)], LENGTH),
        (vec![uint(0, u64::from(u32::MAX))], LENGTH),
        (vec![double(3, 0.0)], DECAY),
        (vec![double(3, -0.0)], DECAY),
        (vec![double(3, f64::NAN)], DECAY),
        (vec![double(3, 2.0)], DECAY),
        (vec![double(3, f64::INFINITY)], DECAY),
        (vec![double(3, f64::NEG_INFINITY)], DECAY),
        (vec![bytes(4, 31)], LENGTH),
        (vec![bytes(4, 33)], LENGTH),
        (vec![bytes(4, 0)], LENGTH),
        (vec![bytes(5, 71)], LENGTH),
        (vec![bytes(5, 48)], LENGTH),
        (vec![bytes(6, 0)], ITEM),
        (vec![(7, Field::Bytes(b"item".to_vec()))], ITEM),
        // A fourth entry whose item is missing.
        (vec![uint(0, 4), bytes(5, 96)], ENDS),
        // Other kinds.
        (vec![double(0, 3.0)], ENDS),
        (vec![uint(3, 1)], ENDS),
        (vec![uint(4, 1)], ENDS),
        (vec![double(5, 0.0)], ENDS),
        (vec![uint(8, 0)], ENDS),
    ];
    for (changes, text) in rows {
        let mut forged = sample();
        for (at, field) in &changes {
            forged.0[*at] = field.clone();
        }
        let error = read(forged).unwrap_err();
        assert_eq!(error.to_string(), text, "{changes:?}");
    }
    for version in [-1, 1, 2, 1023] {
        let read = valkeybloom_sketches::topk::wire::read_rdb;
        let error = read(version, &mut sample(), Seed::FIXED).unwrap_err();
        assert_eq!(error, DecodeError::UnsupportedVersion);
    }
}

#[test]
fn shapes_have_limits() {
    let most = u64::from(u32::MAX);
    for (k, width, depth, decay, fault) in [
        (0, 1, 1, 0.9, Fault::K),
        (most + 1, 1, 1, 0.9, Fault::K),
        (1, 0, 1, 0.9, Fault::Width),
        (1, most + 1, 1, 0.9, Fault::Width),
        (1, 1, 0, 0.9, Fault::Depth),
        (1, 1, most + 1, 0.9, Fault::Depth),
        (1, 1, u64::MAX, 0.9, Fault::Depth),
        (1, 1, 1, 0.0, Fault::Decay),
        (1, 1, 1, 1.000_001, Fault::Decay),
        (1, 1, 1, f64::NAN, Fault::Decay),
        (1, 1 << 31, 2, 0.9, Fault::Cells),
        (1, most, 64, 0.9, Fault::Cells),
    ] {
        let shape = Shape::new(k, width, depth, decay);
        assert_eq!(shape, Err(fault), "{k} {width} {depth} {decay}");
    }
    for (k, width, depth, decay) in [(most, most, 1, 1.0), (1, (1 << 26) - 1, 64, 5e-324)] {
        assert!(Shape::new(k, width, depth, decay).is_ok());
    }
}

#[test]
fn limits_hold_for_the_whole_sketch() {
    let shape = Shape::new(1000, 10, 2, 0.9).unwrap();
    let bytes = TopK::bytes_of(&shape);
    let new = |most| TopK::new(shape, Seed::FIXED, most);
    assert_eq!(new(bytes - 1).unwrap_err(), Refusal::MemoryLimit);
    let mut object = new(bytes).unwrap();
    let mut add = |item: &[u8], increment, most| object.add(item, increment, || most).map(|_| ());
    let refused = Err(Refusal::MemoryLimit);
    assert_eq!(add(b"item", 5, bytes + 3), refused);
    assert_eq!(add(b"item", 5, bytes + 4), Ok(()));
    // It is in the list already.
    assert_eq!(add(b"item", 5, 0), Ok(()));
    assert_eq!(add(b"items", 1, bytes + 8), refused);
    assert_eq!(add(b"items", 1, bytes + 9), Ok(()));
    assert_eq!(object.memory_bytes() + 488 * 24, bytes + 9);
    // A refused item changes nothing.
    let before = fields_of(&object);
    assert!(object.add(b"other", 1, || bytes).is_err());
    assert!(fields_of(&object) == before);
    // Instead of a longer one.
    let mut one = sketch(1, 8, 2, 0.9);
    let bytes = TopK::bytes_of(one.shape());
    assert!(one.add(b"longer", 1, || bytes + 6).is_ok());
    assert!(one.add(b"large", 100, || bytes + 5).is_ok());
    assert!(one.add(b"larger", 1000, || bytes + 5).is_err());
    // An item that can't enter the list needs no memory.
    assert!(one.add(b"larger", 1, || 0).is_ok());
}

/// A zero byte alone stands for a free entry, for the empty item, and for what is left of an item that began with a
/// zero byte.
#[test]
fn one_byte_alone_has_three_meanings() {
    let fingerprint = murmur2(b"\0abc", 1919);
    let empty = murmur2(b"", 1919);
    assert_eq!(empty, 0x4a85_66e0);
    for ((fingerprint, length, count), is_free) in [
        ((0, 0, 0), true),
        ((empty, 0, 0), false),
        ((empty, 0, 9), false),
        ((fingerprint, 4, 0), false),
        ((fingerprint, 4, 9), false),
        ((fingerprint, 0, 9), false),
        ((0, 0, 9), false),
    ] {
        let entry = stored_entry(fingerprint, length, 0, count);
        let fields = fields_with(100, &[(entry, b"\0")]);
        let mut object = read(fields).unwrap();
        let items = object.entries().filter(|(_, item)| item.is_some());
        assert_eq!(items.count(), usize::from(!is_free));
        let is_empty_item = fingerprint == empty;
        assert_eq!(object.contains(b""), is_empty_item);
        assert!(!object.contains(b"\0abc"));
        let mut listed = vec![(vec![], count)];
        listed.retain(|(_, count)| *count > 0);
        assert_eq!(ranking(&object), listed);
        assert_eq!(object.listed() as usize, listed.len());
        let own = fields_of(&object);
        let again = fields_of(&read(own.clone()).unwrap());
        assert_eq!(own, again);
        // This item takes its place and names it, whatever it was.
        let left = add(&mut object, b"\0abc", 10);
        assert_eq!(left, (!is_free).then(Vec::new));
        assert!(object.contains(b"\0abc"));
        assert!(read(fields_of(&object)).unwrap().contains(b"\0abc"));
    }
}

/// Lengths beyond the items, and fingerprints of other items, are those of items that RedisBloom cut.
#[test]
fn cut_items_age_out() {
    let fingerprint = murmur2(b"item\0rest", 1919);
    let entry = stored_entry(fingerprint, 9, 0x7f12_3456_789a, 5);
    let cut = || (entry.clone(), &b"item\0"[..]);
    let mut object = read(fields_with(100, &[cut(), cut(), cut()])).unwrap();
    assert_eq!(object.collisions(), 0);
    for item in [&b"item"[..], b"item\0rest", b"item\0"] {
        assert!(!object.contains(item));
    }
    assert_eq!(ranking(&object).len(), 3);
    for number in 0..3 {
        let left = add(&mut object, format!("item {number}").as_bytes(), 100_000);
        assert_eq!(left.unwrap(), b"item");
    }
    let kept = Field::Bytes(stored_entry(fingerprint, 4, 0, 5));
    let one = read(fields_with(100, &[cut()])).unwrap();
    assert_eq!(fields_of(&one).0[5], kept);
    // An item of many zero bytes is one item.
    let zeros = [0; 100];
    let long = stored_entry(murmur2(&zeros[..99], 1919), u32::MAX, 0, 1);
    let object = read(fields_with(100, &[(long, &zeros)])).unwrap();
    assert!(object.contains(&zeros[..99]));
}

/// Old versions listed an item more than once. The one that is last in the heap is found first.
#[test]
fn copies_are_limited() {
    let fingerprint = murmur2(b"item", 1919);
    let copy = |count| (stored_entry(fingerprint, 4, 0, count), &b"item\0"[..]);
    let copies = |number: usize| fields_with(100, &vec![copy(3); number]);
    let mut object = read(copies(3)).unwrap();
    assert_eq!(ranking(&object).len(), 3);
    add(&mut object, b"item", 10);
    let counts: Vec<_> = object.entries().map(|(count, _)| count).collect();
    assert_eq!(counts, [3, 3, 10]);
    for other in 0..3_u8 {
        let left = add(&mut object, &[other], 100_000);
        assert_eq!(left.as_deref(), Some(&b"item"[..]));
        assert_eq!(object.contains(b"item"), other < 2);
    }
    // A short list has no limit.
    assert!(read(copies(100)).is_ok());
    let other = stored_entry(murmur2(b"other", 1919), 5, 0, 3);
    let other = (other, &b"other\0"[..]);
    let copies = |number: usize| {
        let mut entries = vec![copy(3); number];
        entries.resize_with(number + 40, || other.clone());
        entries.resize_with(number + 80, || (stored_entry(0, 0, 0, 0), &b"\0"[..]));
        fields_with(100, &entries)
    };
    assert!(read(copies(COPIES_MAX)).is_ok());
    let error = read(copies(COPIES_MAX + 1)).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "item that is listed too often");
}

/// The number of collisions is stored where RedisBloom has an address, which it ignores.
#[test]
fn the_number_of_collisions_is_stored() {
    let number = 0x1234_5678_9abc_def0_u64;
    for (address, collisions) in [
        (0, 0),
        (number, 0),
        (number | 1 << 63, number),
        (1 << 63, 0),
        (u64::MAX, (1 << 63) - 1),
    ] {
        let entries = [address, u64::MAX].map(|at| (stored_entry(0, 0, at, 0), &b"\0"[..]));
        let mut object = read(fields_with(1, &entries)).unwrap();
        assert_eq!(object.collisions(), collisions);
        let again = read(fields_of(&object)).unwrap();
        assert_eq!(again.collisions(), collisions);
        let Some(Field::Bytes(heap)) = fields_of(&object).0.remove(5) else {
            panic!("no heap");
        };
        let stored = collisions | u64::from(collisions > 0) << 63;
        assert_eq!(heap[8..16], stored.to_le_bytes());
        assert_eq!(heap[32..40], [0; 8]);
        // It wraps.
        add(&mut object, b"a", 1);
        add(&mut object, b"b", 1);
        assert_eq!(object.collisions(), (collisions + 1) & !(1 << 63));
    }
}
