//! The list of families, the setting that selects some of them, and the module's tables derived from the list.

use crate::bloom;
use crate::cms;
use crate::cuckoo;
use crate::family::Family;
use crate::ffi::{self, Bundle, Command, InfoWriter, server};
use crate::settings::Setting;
use crate::sums::{self, InfoSection};
use crate::tdigest;
use crate::topk;
use crate::values::Stored;

macro_rules! families {
    ($($number:literal $value:ty, $commands:path;)*) => {
        /// The types, commands and settings of all families.
        pub static BUNDLES: &[Bundle] = &[$(bundle::<$value>($commands)),*];
        /// The sections of INFO of all families.
        static SECTIONS: &[InfoSection; sums::FAMILIES] = &[$(section::<$value>($number)),*];
        /// The families that are loaded. The other ones have no types, commands, settings or sections of INFO.
        pub static FAMILIES: Setting =
            Setting::subset(c"families", &[$(<$value>::NAME),*]).fixed();
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
    // If the second of two types were refused, the first one would stay registered.
    assert!(!V::YIELDS || V::FORMS.len() == 1);
    Bundle {
        name: V::NAME,
        types: V::FORMS,
        register_types: ffi::register_types::<Stored<V>>,
        commands,
        settings: V::settings,
        yields: V::YIELDS,
    }
}

/// Returns a family's section of INFO, and checks that the family's number is its index in the list.
const fn section<V: Family>(number: usize) -> InfoSection {
    assert!(V::NUMBER == number);
    V::INFO
}

/// Writes the sections of INFO of the families that are loaded.
pub fn write_info(to: &mut InfoWriter) {
    sums::write_info(SECTIONS, |number| FAMILIES.has(number), to);
}

/// Logs which families are not loaded, if there are any, before the server reads data that may hold their values. It
/// stops at such a value, and its own error names only the type or the command.
pub fn log_left_out() {
    let bundles = BUNDLES.iter().enumerate();
    let left_out = bundles.filter(|(number, _)| !FAMILIES.has(*number));
    let names = left_out.map(|(_, bundle)| {
        let types = bundle.types.iter().map(|form| form.name.to_string_lossy());
        let types = types.collect::<Vec<_>>().join(", ");
        let prefix = bundle.commands.first().map(Command::prefix);
        let (name, prefix) = (bundle.name, prefix.unwrap_or_default());
        format!("{name} ({prefix}.*, {types})")
    });
    let names: Vec<_> = names.collect();
    if !names.is_empty() {
        server::log_warning(&format!(
            "families that are not loaded: {}. If the data has their values or commands, loading stops there: \
             add the family to bf.families",
            names.join(", ")
        ));
    }
}
