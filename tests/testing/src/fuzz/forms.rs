//! The forms of a Bloom object, which give the same object again.

use valkeybloom_sketches::bloom::chunks::{self, Partial, Value};
use valkeybloom_sketches::bloom::{Dialect, Limits, Object, dump, rdb};
use valkeybloom_sketches::{RdbWrite, Relocate};

use super::memory::measured;
use super::source::Source;

/// Returns the bytes that describe all of an object.
pub(super) fn bytes_of(object: &Object) -> Vec<u8> {
    dump::encode(object).unwrap_or_else(|| fields_of(object))
}

pub(super) fn fields_of(object: &Object) -> Vec<u8> {
    let mut written = Written::default();
    rdb::write(object, &mut written);
    written.0
}

pub(super) fn fields_of_partial(partial: &Partial) -> Vec<u8> {
    let mut written = Written::default();
    partial.write_rdb(&mut written);
    written.0
}

#[track_caller]
pub(super) fn same(left: &Object, right: &Object) {
    assert_eq!((left.check(), right.check()), (Ok(()), Ok(())));
    assert_eq!(Dialect::of(left), Dialect::of(right));
    assert!(bytes_of(left) == bytes_of(right), "the bytes differ");
    assert_eq!(left.shape(), right.shape());
    assert_eq!(left.hasher(), right.hasher());
    assert_eq!(left.totals(), right.totals());
    // The shards of a table depend on its history.
    if left.is_plain() {
        assert_eq!(left.memory_bytes(), right.memory_bytes());
    }
}

/// Asserts that an object survives each form unchanged, and returns a decoded copy.
pub(super) fn assert_survives_each_form(object: &Object) -> Object {
    let dialect = Dialect::of(object);
    let fields = fields_of(object);
    let mut from = Source(&fields);
    let read = rdb::read(dialect, dialect.rdb_version(), &mut from);
    let Ok(Value::Complete(mut copy)) = read else {
        panic!("it can't read what it wrote");
    };
    assert!(from.0.is_empty(), "fields are left");
    same(object, &copy);

    let dump = dump::encode(object);
    assert_eq!(dump.is_none(), dialect == Dialect::RedisBloom);
    if object.is_plain() {
        assert_eq!(dump.as_ref().map(Vec::len), dump::encoded_len(object));
    }
    if let Some(dump) = dump {
        copy = dump::decode(&dump).expect("it was encoded");
        same(object, &copy);
    }

    let (clone, took) = measured(|| object.try_clone().expect("there is memory"));
    same(object, &clone);
    if let Some(took) = took {
        let base = Object::BASE_BYTES;
        assert_eq!(took as u64, clone.memory_bytes() - base, "bytes of memory");
    }
    same(object, &by_pieces(object));
    copy
}

/// Copies an object piece by piece.
fn by_pieces(object: &Object) -> Object {
    let mut pieces = chunks::pieces(object);
    let mut piece = |cursor| {
        let (next, piece) = chunks::piece(object, cursor).unwrap();
        let same = pieces.next().map(|(next, piece)| (next, piece.to_vec()));
        let expected = (next > 0).then(|| (next, piece.to_vec()));
        assert!(same == expected, "one pass gives other pieces");
        (next, piece)
    };
    let (mut cursor, header) = piece(0);
    let begun = chunks::begin(&header, Limits::NONE);
    let mut partial = match begun.expect("it was written") {
        Value::Partial(partial) => partial,
        // The object has no filters, or is RedisBloom's and has no items.
        Value::Complete(mut copy) => loop {
            let (next, chunk) = piece(cursor);
            if next == 0 {
                return copy;
            }
            let loaded = chunks::overwrite(&mut copy, next, &chunk);
            loaded.expect("it was written");
            cursor = next;
        },
    };
    loop {
        let (next, chunk) = piece(cursor);
        let loaded = partial.load(next, &chunk);
        cursor = next;
        if let Some(copy) = loaded.expect("it was written") {
            assert_eq!(piece(cursor).0, 0);
            return copy;
        }
    }
}

/// Relocates everything at once.
pub struct Copying;

impl Relocate for Copying {
    fn should_stop(&mut self) -> bool {
        false
    }

    fn table<T>(&mut self, table: Vec<T>) -> Vec<T> {
        table.into_iter().collect()
    }

    fn blob(&mut self, blob: Box<[u8]>) -> Box<[u8]> {
        blob.to_vec().into()
    }
}

/// An RDB stream in the format that `Source` reads.
#[derive(Default)]
pub struct Written(pub Vec<u8>);

impl RdbWrite for Written {
    fn uint(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn double(&mut self, value: f64) {
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        let length = u16::try_from(value.len()).expect("no input is as long");
        self.0.extend(length.to_le_bytes());
        self.0.extend(value);
    }
}
