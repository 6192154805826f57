//! Decodes bytes that may be a cuckoo filter.

use valkeybloom_sketches::cuckoo::wire;
use valkeybloom_sketches::cuckoo::{Buckets, Cuckoo, Limits};

use super::forms::{self, read};
use super::memory::bounded;
use super::source::Source;

/// Bounds the growth of filters here.
const LIMITS: Limits = Limits {
    filters: 40,
    filter_bytes: 1 << 14,
    object_bytes: 1 << 18,
};

/// Reads RDB fields, after their version, and then operations on the object.
pub fn fields(mut source: Source) {
    let read = read(&mut source, 1000, |version, from| {
        wire::read_rdb(version, from)
    });
    let Some((object, version, used)) = read else {
        return;
    };
    assert_eq!(version, wire::RDB_VERSION);
    assert_eq!(written(&object), used);
    operate(object, source);
}

/// Reads a header, and chunks for any place.
pub fn pieces(mut source: Source) {
    let header = source.bytes(38);
    // A header may claim the table of 65,535 filters.
    let begun = bounded(1000 + 65_535 * size_of::<Buckets>(), || {
        wire::begin(header, &LIMITS)
    });
    let Ok(mut object) = begun else {
        return;
    };
    assert_eq!(wire::write_header(&object), header);
    for _ in 0..20 {
        let (cursor, chunk) = (source.number(), source.string());
        let before = object.filters().iter().map(Buckets::occupied).sum::<u64>();
        if wire::load(&mut object, cursor, chunk) == Ok(()) {
            let start = cursor - chunk.len() as u64;
            let (_, own) = wire::chunk(&object, start).expect("memory");
            assert!(own.starts_with(chunk));
        } else {
            let after = object.filters().iter().map(Buckets::occupied).sum::<u64>();
            assert_eq!(before, after);
        }
        if source.0.is_empty() {
            break;
        }
    }
    if object.filters().len() < 100 {
        operate(object, source);
    }
}

/// Adds, removes and compacts, and sometimes replaces the object by a copy that is written and read.
fn operate(mut object: Cuckoo, mut source: Source) {
    for _ in 0..50 {
        let (choice, item) = (source.byte(), [source.byte()]);
        let count = object.count(&item);
        match choice % 5 {
            0 | 1 => {
                let added = object.add(&item, choice % 5 == 1, || LIMITS);
                assert_eq!(added == Ok(true), object.count(&item) > count);
            }
            2 => {
                assert_eq!(object.remove(&item), count > 0);
            }
            3 => {
                let stored = written(&object);
                assert_eq!(object.compact(), written(&object) != stored);
            }
            _ => {
                let stored = written(&object);
                let read = wire::read_rdb(wire::RDB_VERSION, &mut Source(&stored));
                object = read.expect("it reads what it wrote");
                assert_eq!(written(&object), stored);
            }
        }
        assert_eq!(object.contains(&item), object.count(&item) > 0);
    }
}

/// Returns the RDB fields in the format of a [`Source`].
fn written(object: &Cuckoo) -> Vec<u8> {
    forms::written(|to| wire::write_rdb(object, to))
}
