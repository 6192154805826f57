//! Carried sketches: opaque values that are saved, copied, moved and freed, but refused to commands.

mod commands;

pub use commands::GROUPS;

use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::carried::Sketch;

pub use valkeybloom_sketches::carried::Carried;

use crate::family::Family;
use crate::ffi::{AofWriter, Digest, Form, RdbReader, RdbWriter, TypeHandle};
use crate::ledger::{InfoSection, Totals};
use crate::mover::Mover;
use crate::settings::Setting;
use crate::values::Entered;

static HANDLES: [TypeHandle; Sketch::ALL.len()] = [const { TypeHandle::new() }; Sketch::ALL.len()];

const fn form(sketch: Sketch) -> Form {
    Form {
        name: sketch.type_name(),
        version: Sketch::RDB_VERSION,
    }
}

impl Family for Carried {
    type Object = Self;

    const NUMBER: usize = 2;
    const FORMS: &'static [Form] = &{
        let [one, two, three] = Sketch::ALL;
        [form(one), form(two), form(three)]
    };
    const YIELDS: bool = true;
    const SETTINGS: &'static [&'static Setting] = &[];
    const INFO: InfoSection = InfoSection {
        section: c"carried_metrics",
        sums: &[c"carried_num_values", c"carried_memory_bytes"],
        largest: None,
    };

    fn handles() -> &'static [TypeHandle] {
        &HANDLES
    }

    fn form(&self) -> usize {
        let sketch = self.sketch();
        Sketch::ALL.iter().position(|s| *s == sketch).unwrap_or(0)
    }

    fn object(&self) -> Result<&Self, Error> {
        Err(Error::Unserved)
    }

    fn object_mut(&mut self) -> Result<&mut Self, Error> {
        Err(Error::Unserved)
    }

    fn load(from: &mut RdbReader, form: usize, _version: i32) -> Result<Self, DecodeError> {
        Self::read(Sketch::ALL[form], from)
    }

    fn save(&self, to: &mut RdbWriter) {
        self.write(to);
    }

    fn rewrite(&self, to: &mut AofWriter) {
        to.emit_numbered(c"RESTORE", 0, &self.payload());
    }

    fn digest(&self, to: &mut Digest) {
        for part in self.parts() {
            to.add_bytes(part);
        }
    }

    fn memory_bytes(&self) -> u64 {
        size_of::<Entered<Self>>() as u64 + self.memory_bytes()
    }

    fn totals(&self) -> Totals {
        [1, Family::memory_bytes(self), 0, 0, 0, 0, 0]
    }

    fn try_clone(&self) -> Option<Self> {
        self.try_clone()
    }

    fn relocate(&mut self, begin: usize, by: &mut Mover) -> Option<usize> {
        self.relocate(begin, by)
    }
}
