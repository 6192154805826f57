//! The list of families, and the module's tables derived from it.

use crate::bloom;
use crate::cms;
use crate::cuckoo;
use crate::family::Family;
use crate::ffi::{self, Bundle, Command, Configure, InfoWriter};
use crate::settings::{self, Setting};
use crate::sums::{self, InfoSection};
use crate::tdigest;
use crate::topk;
use crate::values::Stored;

macro_rules! families {
    ($($number:literal $value:ty, $commands:path;)*) => {
        /// The types and commands of all families.
        pub static BUNDLES: &[Bundle] = &[$(bundle::<$value>($commands)),*];
        /// The settings of all families, except shared settings.
        static SETTINGS: &[&[&Setting]] = &[$(<$value>::SETTINGS),*];
        /// The sections of INFO of all families.
        static SECTIONS: &[InfoSection] = &[$(section::<$value>($number)),*];
    };
}

families! {
    0 bloom::Value, bloom::COMMANDS;
    1 cuckoo::Cuckoo, cuckoo::COMMANDS;
    2 cms::CountMin, cms::COMMANDS;
    3 topk::TopK, topk::COMMANDS;
    4 tdigest::TDigest, tdigest::COMMANDS;
}

const fn bundle<V: Family>(commands: &'static [Command]) -> Bundle {
    Bundle {
        register_types: ffi::register_types::<Stored<V>>,
        category: V::CATEGORY,
        commands,
        yields: V::YIELDS,
    }
}

/// Returns a family's section of INFO, and checks that the family's number is its index in the list.
const fn section<V: Family>(number: usize) -> InfoSection {
    assert!(V::NUMBER == number && number < sums::FAMILIES);
    V::INFO
}

/// Takes the arguments after the module's path, and returns all settings.
pub const CONFIGURE: Configure = |words| settings::configure(SETTINGS, words);

/// Writes the sections of INFO.
pub fn write_info(to: &mut InfoWriter) {
    sums::write_info(SECTIONS, to);
}
