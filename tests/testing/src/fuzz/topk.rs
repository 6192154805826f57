//! Decodes bytes that may be a top-k list.

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::topk::{INCREMENT_MAX, TopK, wire};

use super::forms::{self, read};
use super::source::Source;

/// The number of fields before the heap, in bytes, without the cells.
const NUMBERS: usize = 4 * 8;

/// Reads RDB fields, after their version, and then operations on the list.
pub fn fields(mut source: Source) {
    let read = read(&mut source, 20_000, |version, from| {
        wire::read_rdb(version, from, Seed::FIXED)
    });
    let Some((object, version, used)) = read else {
        return;
    };
    assert_eq!(version, wire::RDB_VERSION);
    let stored = written(&object);
    // Addresses and lengths are not kept. All else is, and each field is as long as it was.
    assert_eq!(stored.len(), used.len());
    assert_eq!(stored[..NUMBERS], used[..NUMBERS]);
    let is_kept = |part: std::ops::Range<usize>| stored[part.clone()] == used[part];
    let heap = NUMBERS + 2 + object.cells().len() + 2;
    assert!(is_kept(NUMBERS..heap));
    let items = heap + 24 * object.entries().len();
    assert!(is_kept(items..used.len()));
    for entry in (heap..items).step_by(24) {
        assert!(is_kept(entry..entry + 4) && is_kept(entry + 16..entry + 20));
    }
    operate(object, source);
}

/// Adds and queries, and sometimes replaces the list by a copy that is written and read.
fn operate(mut object: TopK, mut source: Source) {
    for _ in 0..50 {
        let (choice, item) = (source.byte(), [source.byte(), 0]);
        let item = &item[..usize::from(choice >> 6).min(2)];
        let increment = match choice % 5 {
            0 => 1,
            1 => source.byte().into(),
            2 => u32::from_le_bytes(source.array()) % (INCREMENT_MAX + 1),
            3 => {
                assert!(object.count(item) == 0 || object.cells().iter().any(|byte| *byte != 0));
                continue;
            }
            _ => {
                let stored = written(&object);
                let read = wire::read_rdb(wire::RDB_VERSION, &mut Source(&stored), Seed::FIXED);
                object = read.expect("it reads what it wrote");
                assert_eq!(written(&object), stored);
                continue;
            }
        };
        let (stored, was_listed) = (written(&object), object.contains(item));
        let added = object.add(item, increment, || u64::MAX).expect("memory");
        assert_eq!(added.changed, written(&object) != stored);
        assert!(object.contains(item) || !was_listed);
        let ranking = object.ranking().expect("memory");
        assert!(
            ranking
                .map(|(_, count)| count)
                .is_sorted_by(|one, next| one >= next)
        );
    }
}

/// Returns the fields of an object, in the form that a source reads.
fn written(object: &TopK) -> Vec<u8> {
    forms::written(|to| wire::write_rdb(object, to))
}
