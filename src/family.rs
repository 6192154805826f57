//! The trait of a family of values; the code for the server is written once, over [`Family`].

use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::{DecodeError, RdbWrite, Relocate, payload};

use crate::digest::digest_fields;
use crate::ffi::{AofWriter, Digest, Form, RdbReader};
use crate::settings::Setting;
use crate::sums::{InfoSection, Totals};

/// A family of values that keys can hold. The type of the values implements it.
pub trait Family: Holds + Send + Sync + 'static {
    /// The family's index in the list of families.
    const NUMBER: usize;
    /// The server's types for these values, at most three.
    const FORMS: &'static [Form];
    /// Whether the family is left to another module that has already registered its only type or one of its commands, such
    /// as the count-min sketches if `CMSk-TYPE` is taken. Its settings and its section of INFO stay. Otherwise loading
    /// fails.
    const YIELDS: bool = false;
    /// The family's name in the setting that selects families, and the ACL category of its commands.
    const NAME: &'static str;
    /// The section of INFO.
    const INFO: InfoSection;

    /// Returns the settings, except those that all families share.
    fn settings() -> &'static [&'static Setting] {
        &[]
    }

    /// Returns the index of this value's type in [`FORMS`](Self::FORMS).
    fn form(&self) -> usize {
        0
    }

    /// Panics if decoding the value's encoding would not give it back, in builds with debug assertions. Large values are not
    /// checked.
    #[inline]
    fn assert_stored(&self) {}

    /// Reads a value of a form from an RDB stream, in an encoding version.
    ///
    /// # Errors
    /// Any [`DecodeError`].
    fn load(from: &mut RdbReader, form: usize, version: i32) -> Result<Self, DecodeError>;

    /// Returns why no client may have sent the value, if it is too large. Files, logs and primaries may have such values.
    fn beyond_limits(&self) -> Option<&'static str> {
        None
    }

    /// Writes the value's fields of an RDB stream. A server that saves without a fork calls this on another thread, while
    /// the main thread may read the value, so this uses only the value, the stream, and settings that can't change.
    fn write(&self, to: &mut impl RdbWrite);

    /// Writes commands that build the value: one that restores it, unless the family has others.
    fn rewrite(&self, to: &mut AofWriter) {
        let form = &Self::FORMS[self.form()];
        let payload = payload::restore(form.name, form.version(), |to| self.write(to));
        to.emit_numbered(c"RESTORE", 0, &payload);
    }

    /// Feeds the digest that compares the values of two servers: the value's fields, unless the family has others.
    fn digest(&self, to: &mut Digest) {
        digest_fields(to, |to| self.write(to));
    }

    /// Returns the bytes that the value asks the allocator for.
    fn memory_bytes(&self) -> u64;

    /// Returns about how many allocations the value consists of.
    fn allocations(&self) -> u64;

    /// Returns the value's share of the sums that [`INFO`](Self::INFO) lists.
    fn totals(&self) -> Totals;

    /// Returns the bytes that the value's feed may take.
    fn feed_bytes(&self) -> u64 {
        0
    }

    /// Copies the value, or returns `None` if there is no memory for a copy.
    fn try_clone(&self) -> Option<Self>;

    /// Replaces, through `by`, the allocations within the value, beginning at a step. If time runs out, returns the step to
    /// resume at.
    fn relocate(&mut self, begin: usize, by: &mut impl Relocate) -> Option<usize>;
}

/// A stored value; commands work on the object inside. A Bloom filter's value holds its object only once all chunks of it
/// are loaded.
pub trait Holds: Sized {
    /// The object that commands read and change.
    type Object;

    /// Returns the object.
    ///
    /// # Errors
    /// The value cannot be used yet.
    fn object(&self) -> Result<&Self::Object, Error>;

    /// Returns the object for changing.
    ///
    /// # Errors
    /// The value cannot be used yet.
    fn object_mut(&mut self) -> Result<&mut Self::Object, Error>;
}

/// A value that is its own object, such as a count-min sketch.
pub trait Whole: Sized {}

impl<V: Whole> Holds for V {
    type Object = Self;

    #[inline]
    fn object(&self) -> Result<&Self, Error> {
        Ok(self)
    }

    #[inline]
    fn object_mut(&mut self) -> Result<&mut Self, Error> {
        Ok(self)
    }
}
