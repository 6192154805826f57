//! The list of families, and the module's tables derived from it.

use crate::bloom;
use crate::cms;
use crate::cuckoo;
use crate::family::Family;
use crate::ffi::{self, Bundle, CommandGroup, Configure, DatabaseEvent, InfoWriter};
use crate::keys;
use crate::ledger::{self, InfoSection};
use crate::settings::{self, Setting};
use crate::tdigest;
use crate::topk;
use crate::values::Entered;

macro_rules! families {
    ($($number:literal $value:ty, $groups:expr;)*) => {
        /// The types and commands of all families.
        pub static BUNDLES: &[Bundle] = &[$(bundle::<$value>($groups)),*];
        /// The settings of all families, except shared settings.
        static SETTINGS: &[&[&Setting]] = &[$(<$value>::SETTINGS),*];
        /// The sections of INFO of all families.
        static SECTIONS: &[InfoSection] = &[$(section::<$value>($number)),*];
        /// The functions that enter the unplaced values of a database in the database's own ledger.
        static PLACE: &[fn(i32)] = &[$(keys::place::<$value>),*];
    };
}

families! {
    0 bloom::Value, bloom::GROUPS;
    1 cuckoo::Cuckoo, cuckoo::GROUPS;
    2 cms::CountMin, cms::GROUPS;
    3 topk::TopK, topk::GROUPS;
    4 tdigest::TDigest, tdigest::GROUPS;
}

const fn bundle<V: Family>(groups: &'static [CommandGroup]) -> Bundle {
    Bundle {
        register_types: ffi::register_types::<Entered<V>>,
        groups,
        yields: V::YIELDS,
    }
}

/// Returns a family's section of INFO, and checks that the family's number is its index in the list.
const fn section<V: Family>(number: usize) -> InfoSection {
    assert!(V::NUMBER == number && number < ledger::FAMILIES);
    V::INFO
}

/// Takes the arguments after the module's path, and returns the settings to register.
pub const CONFIGURE: Configure = |words| settings::configure(SETTINGS, words);

/// Writes the sections of INFO; `crashing` is set while the server crashes.
pub fn write_info(to: &mut InfoWriter, crashing: bool) {
    ledger::write_info(SECTIONS, to, crashing);
}

/// Updates the ledgers at an event that concerns whole databases, and logs what a load mended.
pub fn on_database(event: DatabaseEvent) {
    if let DatabaseEvent::Flush(Some(database)) = event {
        for place in PLACE {
            place(database);
        }
    }
    match event {
        DatabaseEvent::Loaded => tdigest::log_mended(),
        event => ledger::on_database(event),
    }
}
