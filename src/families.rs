//! The families of values: what each has to say, and the one list of them.
//!
//! Registration, callbacks, keys, ledgers, settings and INFO are written once, over [`Family`] and [`ALL`].

use std::ffi::CStr;

use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::DecodeError;

use crate::bloom::Value;
use crate::carried::Carried;
use crate::cuckoo::Cuckoo;
use crate::ffi::{self, AofWriter, Digest, Form, Group, Part, RdbReader, RdbWriter, TypeHandle};
use crate::keys;
use crate::ledger::{SUMS, Totals};
use crate::mover::Mover;
use crate::settings::Setting;
use crate::values::Entered;

/// A family of values that keys can hold. It is implemented for the value.
pub trait Family: Sized + Send + Sync + 'static {
    /// What commands read and change.
    type Object;

    /// The family's place in [`ALL`].
    const NUMBER: usize;
    /// The server's types for these values, at most three.
    const FORMS: &'static [Form];
    /// The commands, by ACL category.
    const GROUPS: &'static [Group];
    /// Whether types and commands that another module has are left to that module.
    const YIELDS: bool = false;
    /// The settings.
    const SETTINGS: &'static [&'static Setting];
    /// The section of INFO.
    const INFO: Info;

    /// The server's handles of [`FORMS`](Self::FORMS), in the same order.
    fn handles() -> &'static [TypeHandle];
    /// The place of this value's type in [`FORMS`](Self::FORMS).
    fn form(&self) -> usize {
        0
    }

    /// The object.
    ///
    /// # Errors
    /// The value cannot be used yet.
    fn object(&self) -> Result<&Self::Object, Error>;
    /// The object, to be changed.
    ///
    /// # Errors
    /// The value cannot be used yet.
    fn object_mut(&mut self) -> Result<&mut Self::Object, Error>;

    /// Reads a value from an RDB stream, which holds a form in an encoding version.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    fn load(from: &mut RdbReader, form: usize, version: i32) -> Result<Self, DecodeError>;
    /// Writes the value to an RDB stream. A server that saves without a fork calls this on another thread while the
    /// main one may read the value, so it touches the value and the stream alone.
    fn save(&self, to: &mut RdbWriter);
    /// Writes commands that build the value.
    fn rewrite(&self, to: &mut AofWriter);
    /// Feeds the digest by which the values of two servers are compared.
    fn digest(&self, to: &mut Digest);

    /// Bytes that the value takes, with its entry in a ledger ([`Entered`]).
    fn memory_bytes(&self) -> u64;
    /// The value's share of the sums that [`INFO`](Self::INFO) names.
    fn totals(&self) -> Totals;
    /// Copies the value, or returns `None` if there is no memory for a copy.
    fn try_clone(&self) -> Option<Self>;
    /// Moves the allocations within the value, beginning at a step. Returns the step to resume at if it ran out of
    /// time.
    fn relocate(&mut self, begin: usize, by: &mut Mover) -> Option<usize>;
}

/// A family's section of INFO. The server puts the module's name before all names.
pub struct Info {
    /// The section.
    pub section: &'static CStr,
    /// The fields that are sums over all values, in the order of [`Totals`]. The first is positive for every value.
    pub sums: &'static [&'static CStr],
    /// The field that is the largest of the values' numbers in one of these sums.
    pub largest: Option<(&'static CStr, usize)>,
}

/// A family, without its type.
pub struct Listed {
    /// Its settings.
    pub settings: &'static [&'static Setting],
    /// Its section of INFO.
    pub info: Info,
    /// Moves the values of a database that are in the ledger of the unplaced to that database's own.
    pub place: fn(database: i32),
}

impl Listed {
    const fn new<V: Family>(number: usize) -> Self {
        assert!(V::NUMBER == number && V::INFO.sums.len() <= SUMS);
        Self {
            settings: V::SETTINGS,
            info: V::INFO,
            place: keys::place::<V>,
        }
    }
}

/// The types and commands of a family.
const fn part<V: Family>() -> Part {
    Part {
        register_types: ffi::register_types::<Entered<V>>,
        groups: V::GROUPS,
        yields: V::YIELDS,
    }
}

macro_rules! families {
    ($($number:literal $family:ty,)*) => {
        /// The number of families.
        pub const COUNT: usize = [$($number),*].len();
        /// All families. Their sections of INFO and their settings have this order.
        pub static ALL: [Listed; COUNT] = [$(Listed::new::<$family>($number)),*];
        /// Their types and commands, in the same order.
        pub static PARTS: [Part; COUNT] = [$(part::<$family>()),*];
    };
}

families! {
    0 Value,
    1 Cuckoo,
    2 Carried,
}
