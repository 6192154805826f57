//! What a key holds, and what the server does with it: save, load, copy, move, free.

use crate::config;
use crate::ffi::{AofWriter, Defrag, Digest, Form, NativeType, RdbReader, RdbWriter, TypeHandle};
use crate::ledger::{self, Entered, Family, Footprint, Weighed};
use crate::mover;
use valkeybloom_sketches::cuckoo::Cuckoo;
use valkeybloom_sketches::cuckoo::wire;

/// What a key holds, and the ledger in which it is entered.
pub type Stored = Entered<Cuckoo>;

impl Weighed for Cuckoo {
    const FAMILY: Family = Family::Cuckoo;

    #[inline]
    fn footprint(&self) -> Footprint {
        Footprint {
            bytes: memory_bytes(self),
            objects: 1,
            filters: self.filters().len() as u64,
            // Of damaged files any number may come.
            items: self.items().min(self.size()),
            capacity: self.size(),
            ..Footprint::default()
        }
    }
}

impl Stored {
    /// Bytes that a stored object takes in addition to the object.
    pub const OVERHEAD_BYTES: u64 = size_of::<Self>() as u64 - Cuckoo::BASE_BYTES;
}

#[inline]
fn memory_bytes(object: &Cuckoo) -> u64 {
    object.memory_bytes() + Stored::OVERHEAD_BYTES
}

static HANDLE: [TypeHandle; 1] = [TypeHandle::new()];

impl NativeType for Stored {
    const FORMS: &'static [Form] = &[Form {
        name: wire::TYPE_NAME,
        version: wire::RDB_VERSION,
    }];

    fn handles() -> &'static [TypeHandle] {
        &HANDLE
    }

    fn form(&self) -> usize {
        0
    }

    fn load(
        from: &mut RdbReader,
        _form: usize,
        version: i32,
        database: i32,
    ) -> Result<Self, String> {
        let object = wire::read_rdb(version, from).map_err(|error| error.to_string())?;
        Ok(Self::new(object, ledger::of_loaded(database)))
    }

    fn save(&self, to: &mut RdbWriter) {
        wire::write_rdb(self.value(), to);
    }

    fn rewrite(&self, to: &mut AofWriter) {
        let header = wire::write_header(self.value());
        to.emit_numbered(c"CF.LOADCHUNK", 1, &header);
        for (cursor, chunk) in wire::chunks(self.value()) {
            to.emit_numbered(c"CF.LOADCHUNK", cursor, chunk);
        }
    }

    fn memory_bytes(&self) -> u64 {
        memory_bytes(self.value())
    }

    fn digest(&self, to: &mut Digest) {
        to.add_bytes(&wire::write_header(self.value()));
        for (index, filter) in (0..).zip(self.value().filters()) {
            // Whether an empty one takes memory makes no difference.
            if filter.occupied() > 0 {
                to.add(index);
                to.add_bytes(filter.slots());
            }
        }
        to.end_sequence();
    }

    fn frees_in_background(&self) -> bool {
        self.memory_bytes() > config::large_bytes()
    }

    fn unlinked(&mut self) {
        self.enter_in(ledger::unlinked());
    }

    fn copy(&self, database: i32) -> Option<Self> {
        let copy = self.value().try_clone()?;
        Some(Self::new(copy, ledger::of_database(database)))
    }

    fn defrag(value: Box<Self>, by: &Defrag) -> (Box<Self>, bool) {
        mover::defrag(value, by, |object, begin, by| object.relocate(begin, by))
    }
}
