//! What a family of values has to say; the server's side of it is written once, over [`Family`].

use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::DecodeError;

use crate::ffi::{AofWriter, Digest, Form, RdbReader, RdbWriter, TypeHandle};
use crate::ledger::{InfoSection, Totals};
use crate::mover::Mover;
use crate::settings::Setting;

/// A family of values that keys can hold. It is implemented for the value.
pub trait Family: Sized + Send + Sync + 'static {
    /// What commands read and change.
    type Object;

    /// The family's place in the list of families.
    const NUMBER: usize;
    /// The server's types for these values, at most three.
    const FORMS: &'static [Form];
    /// Whether types and commands that another module has are left to that module.
    const YIELDS: bool = false;
    /// The settings.
    const SETTINGS: &'static [&'static Setting];
    /// The section of INFO.
    const INFO: InfoSection;

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

    /// Bytes that the value takes, with its entry in a ledger.
    fn memory_bytes(&self) -> u64;
    /// The value's share of the sums that [`INFO`](Self::INFO) names.
    fn totals(&self) -> Totals;
    /// Copies the value, or returns `None` if there is no memory for a copy.
    fn try_clone(&self) -> Option<Self>;
    /// Moves the allocations within the value, beginning at a step. Returns the step to resume at if it ran out of
    /// time.
    fn relocate(&mut self, begin: usize, by: &mut Mover) -> Option<usize>;
}
