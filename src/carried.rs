//! Values of sketches, as the server has them: saved, copied, moved and freed, and never looked into.

use crate::config;
use crate::ffi::{
    AofWriter, Ctx, Defrag, Digest, Form, NativeType, RdbReader, RdbWriter, TypeHandle,
    register_type,
};
use crate::ledger::{self, Entered, Family, Footprint, Weighed};
use crate::mover;
use valkeybloom_sketches::carried::{Carried, Sketch};

/// A value that is carried, and the ledger in which it is entered.
pub type Kept = Entered<Carried>;

impl Weighed for Carried {
    const FAMILY: Family = Family::Carried;

    fn footprint(&self) -> Footprint {
        Footprint {
            bytes: size_of::<Kept>() as u64 + self.memory_bytes(),
            objects: 1,
            ..Footprint::default()
        }
    }
}

/// Registers the types. One that another module has is that module's to serve.
pub fn register_types(ctx: Ctx) {
    for register in [
        register_type::<Kept, 0>,
        register_type::<Kept, 1>,
        register_type::<Kept, 2>,
    ] {
        if let Err(why) = register(ctx) {
            Ctx::log_warning(&format!("values of one type are not kept: {why}"));
        }
    }
}

static HANDLES: [TypeHandle; Sketch::ALL.len()] = [const { TypeHandle::new() }; Sketch::ALL.len()];

const fn form(sketch: Sketch) -> Form {
    Form {
        name: sketch.type_name(),
        version: Sketch::RDB_VERSION,
    }
}

impl NativeType for Kept {
    const FORMS: &'static [Form] = &{
        let [one, two, three] = Sketch::ALL;
        [form(one), form(two), form(three)]
    };

    fn handles() -> &'static [TypeHandle] {
        &HANDLES
    }

    fn form(&self) -> usize {
        let sketch = self.value().sketch();
        Sketch::ALL.iter().position(|s| *s == sketch).unwrap_or(0)
    }

    fn load(
        from: &mut RdbReader,
        form: usize,
        _version: i32,
        database: i32,
    ) -> Result<Self, String> {
        let carried = Carried::read(Sketch::ALL[form], from).map_err(|error| error.to_string())?;
        Ok(Self::new(carried, ledger::of_loaded(database)))
    }

    fn save(&self, to: &mut RdbWriter) {
        self.value().write(to);
    }

    fn rewrite(&self, to: &mut AofWriter) {
        to.emit_numbered(c"RESTORE", 0, &self.value().payload());
    }

    fn memory_bytes(&self) -> u64 {
        self.value().footprint().bytes
    }

    fn digest(&self, to: &mut Digest) {
        for part in self.value().parts() {
            to.add_bytes(part);
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
        mover::defrag(value, by, |value, begin, by| value.relocate(begin, by))
    }
}
