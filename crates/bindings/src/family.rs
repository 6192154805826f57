//! What all families share: copies, equality, bytes, and chunks.

use valkeybloom_sketches::Sketch;
pub(crate) use valkeybloom_sketches::SketchRef;
use valkeybloom_sketches::bloom::{Dialect, dump};

use super::decode::{decode, undecodable};
use super::error::{Code, Error};

/// An object of a family.
pub trait Family: Sized {
    /// The name of the family, in the singular.
    const NAME: &'static str;

    /// Converts an object of any family; `None` if it is of another family.
    fn of_sketch(sketch: Sketch) -> Option<Self>;

    /// Converts the object to one of any family.
    fn into_sketch(self) -> Sketch;

    /// Borrows the object.
    fn by_ref(&self) -> SketchRef<'_>;

    /// Copies the object.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    fn try_clone(&self) -> Result<Self, Error>;

    /// Encodes the object: a Bloom filter as a payload of BF.LOAD, unless it is one of `RedisBloom`; all others as a
    /// payload of RESTORE.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let bytes = match self.by_ref() {
            SketchRef::Bloom(object) if Dialect::of(object).has_dump() => dump::encode(object),
            sketch => sketch.to_dump(),
        };
        bytes.ok_or(Error::NO_MEMORY)
    }

    /// Decodes an object of this family, in any form that [`decode`] reads.
    ///
    /// # Errors
    /// [`Code::Undecodable`] or [`Code::NoMemory`].
    fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let sketch = decode(bytes)?;
        let name = name_of(&sketch);
        Self::of_sketch(sketch)
            .ok_or_else(|| Error::new(Code::Undecodable, format!("a {name}, not a {}", Self::NAME)))
    }

    /// Returns whether two objects are equal, which means that their bytes are.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    fn equals(&self, other: &Self) -> Result<bool, Error> {
        Ok(self.to_bytes()? == other.to_bytes()?)
    }
}

/// Defines the type of a family, which has the methods of the library's own type as well. All of these keep the object
/// valid, and the new type promises nothing more, so callers may have `&mut` to what it wraps.
macro_rules! family {
    ($(#[$doc:meta])* $family:ident($object:ty), $name:literal) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $family($object);

        impl From<$object> for $family {
            fn from(object: $object) -> Self {
                Self(object)
            }
        }

        impl std::ops::Deref for $family {
            type Target = $object;

            fn deref(&self) -> &$object {
                &self.0
            }
        }

        impl std::ops::DerefMut for $family {
            fn deref_mut(&mut self) -> &mut $object {
                &mut self.0
            }
        }

        impl $crate::Family for $family {
            const NAME: &'static str = $name;

            fn of_sketch(sketch: $crate::Sketch) -> Option<Self> {
                match sketch {
                    $crate::Sketch::$family(object) => Some(Self(object)),
                    _ => None,
                }
            }

            fn into_sketch(self) -> $crate::Sketch {
                $crate::Sketch::$family(self.0)
            }

            fn by_ref(&self) -> $crate::family::SketchRef<'_> {
                $crate::family::SketchRef::$family(&self.0)
            }

            fn try_clone(&self) -> Result<Self, $crate::Error> {
                self.0.try_clone().map(Self).ok_or($crate::Error::NO_MEMORY)
            }
        }
    };
}
pub(crate) use family;

/// A family whose objects can be split into chunks: pairs of a cursor and bytes, as SCANDUMP returns and LOADCHUNK
/// takes them.
pub trait Chunked: Family {
    /// An object that is being loaded.
    type Loading;

    /// Returns the cursor and the bytes of the chunk after a cursor; 0 and no bytes past the end. The first cursor is
    /// 0.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    fn chunk(&self, cursor: u64) -> Result<(u64, Vec<u8>), Error>;

    /// Begins with the first chunk, whose cursor is 1.
    ///
    /// # Errors
    /// [`Code::Undecodable`] or [`Code::NoMemory`].
    fn begin(header: &[u8]) -> Result<Self::Loading, Error>;

    /// Loads the next chunk.
    ///
    /// # Errors
    /// [`Code::Undecodable`] or [`Code::NoMemory`]. Then nothing has changed.
    fn load(loading: &mut Self::Loading, cursor: u64, chunk: &[u8]) -> Result<(), Error>;

    /// Returns the object.
    ///
    /// # Errors
    /// [`Code::Undecodable`]: chunks are missing.
    fn end(loading: Self::Loading) -> Result<Self, Error>;
}

/// Loads an object chunk by chunk.
#[derive(Debug)]
pub struct Loader<F: Chunked>(Option<F::Loading>);

impl<F: Chunked> Default for Loader<F> {
    fn default() -> Self {
        Self(None)
    }
}

impl<F: Chunked> Loader<F> {
    /// Loads the next chunk, with its cursor. A cursor of 0, the end of SCANDUMP, has no effect.
    ///
    /// # Errors
    /// [`Code::Undecodable`] or [`Code::NoMemory`].
    pub fn load(&mut self, cursor: u64, chunk: &[u8]) -> Result<(), Error> {
        match (cursor, &mut self.0) {
            (0, _) => {}
            (1, None) => self.0 = Some(F::begin(chunk)?),
            (_, None) => return Err(undecodable("the first chunk has cursor 1")),
            (_, Some(loading)) => F::load(loading, cursor, chunk)?,
        }
        Ok(())
    }

    /// Returns the object.
    ///
    /// # Errors
    /// [`Code::Undecodable`]: chunks are missing.
    pub fn end(self) -> Result<F, Error> {
        F::end(self.0.ok_or_else(|| undecodable("there are no chunks"))?)
    }
}

/// Returns the name of an object's family.
pub fn name_of(sketch: &Sketch) -> &'static str {
    match sketch {
        Sketch::Bloom(_) => super::Bloom::NAME,
        Sketch::Cuckoo(_) => super::Cuckoo::NAME,
        Sketch::CountMin(_) => super::CountMin::NAME,
        Sketch::TopK(_) => super::TopK::NAME,
        Sketch::TDigest(_) => super::TDigest::NAME,
    }
}
