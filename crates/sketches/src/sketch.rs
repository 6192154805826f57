//! Objects of any family, from and to the payload of a server's DUMP.

use std::ffi::CStr;

use crate::bloom::chunks::Value;
use crate::bloom::{self, Dialect};
use crate::bytes::{DecodeError, RdbRead};
use crate::cms::{self, CountMin};
use crate::cuckoo::{self, Cuckoo};
use crate::hash::Seed;
use crate::payload;
use crate::tdigest::{self, TDigest};
use crate::topk::{self, TopK};

/// An object of any family.
///
/// ```
/// use valkeybloom_sketches::cms::{CellSize, CountMin, Overflow, Shape};
/// use valkeybloom_sketches::{Seed, Sketch};
///
/// let mut counts = CountMin::new(Shape::new(1000, 5, CellSize::Four).unwrap(), u64::MAX).unwrap();
/// counts.increment(b"apple", 3, Overflow::Refuse).unwrap();
/// // What `DUMP key` returns, and `RESTORE key 0 payload` takes.
/// let payload = Sketch::CountMin(counts).to_dump();
///
/// let Ok(Sketch::CountMin(again)) = Sketch::from_dump(&payload, Seed::random()) else {
///     panic!("not a count-min sketch");
/// };
/// assert_eq!(again.estimate(b"apple"), 3);
/// ```
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a program holds few sketches")]
pub enum Sketch {
    /// A Bloom filter, in any of the [`Dialect`]s.
    Bloom(bloom::Object),
    /// A cuckoo filter.
    Cuckoo(Cuckoo),
    /// A count-min sketch.
    CountMin(CountMin),
    /// A top-k list.
    TopK(TopK),
    /// A t-digest.
    TDigest(TDigest),
}

impl Sketch {
    /// Decodes a payload of DUMP. The seed is for searches in top-k lists, see [`TopK::new`].
    ///
    /// # Errors
    /// Any [`DecodeError`], also for a value of another type and for a Bloom filter that lacks chunks.
    pub fn from_dump(payload: &[u8], seed: Seed) -> Result<Self, DecodeError> {
        let mut fields = payload::Fields::of_dump(payload)?;
        let (type_name, version) = fields.type_and_version()?;
        let sketch = Self::read(&type_name, version, &mut fields, seed)?;
        fields.end()?;
        Ok(sketch)
    }

    /// Reads the fields of a value of the type with this name, such as `MBbloom--`, in an encoding version.
    ///
    /// # Errors
    /// Those of [`from_dump`](Self::from_dump).
    pub fn read(
        type_name: &[u8],
        version: i32,
        from: &mut impl RdbRead,
        seed: Seed,
    ) -> Result<Self, DecodeError> {
        let is = |name: &CStr| name.to_bytes() == type_name;
        if let Some(dialect) = Dialect::ALL.into_iter().find(|it| is(it.type_name())) {
            match bloom::rdb::read(dialect, version, from)? {
                Value::Complete(object) => Ok(Self::Bloom(object)),
                Value::Partial(_) => Err("a Bloom filter that lacks chunks".into()),
            }
        } else if is(cuckoo::wire::TYPE_NAME) {
            cuckoo::wire::read_rdb(version, from).map(Self::Cuckoo)
        } else if is(cms::wire::TYPE_NAME) {
            cms::wire::read_rdb(version, from).map(Self::CountMin)
        } else if is(topk::wire::TYPE_NAME) {
            topk::wire::read_rdb(version, from, seed).map(Self::TopK)
        } else if is(tdigest::wire::TYPE_NAME) {
            tdigest::wire::read_rdb(version, from).map(Self::TDigest)
        } else {
            Err("a value of another type".into())
        }
    }

    /// Encodes the object as a payload of RESTORE.
    ///
    /// # Panics
    /// If memory can't be allocated.
    pub fn to_dump(&self) -> Vec<u8> {
        self.by_ref().to_dump().expect("no memory for a payload")
    }

    /// Borrows the object.
    pub const fn by_ref(&self) -> SketchRef<'_> {
        match self {
            Self::Bloom(object) => SketchRef::Bloom(object),
            Self::Cuckoo(object) => SketchRef::Cuckoo(object),
            Self::CountMin(object) => SketchRef::CountMin(object),
            Self::TopK(object) => SketchRef::TopK(object),
            Self::TDigest(object) => SketchRef::TDigest(object),
        }
    }
}

/// A borrowed object of any family.
#[derive(Clone, Copy, Debug)]
pub enum SketchRef<'s> {
    /// A Bloom filter, in any of the [`Dialect`]s.
    Bloom(&'s bloom::Object),
    /// A cuckoo filter.
    Cuckoo(&'s Cuckoo),
    /// A count-min sketch.
    CountMin(&'s CountMin),
    /// A top-k list.
    TopK(&'s TopK),
    /// A t-digest.
    TDigest(&'s TDigest),
}

impl SketchRef<'_> {
    /// Encodes the object as a payload of RESTORE, or returns `None` if allocation fails.
    pub fn to_dump(self) -> Option<Vec<u8>> {
        let (type_name, version) = match self {
            Self::Bloom(object) => {
                let dialect = Dialect::of(object);
                (dialect.type_name(), dialect.rdb_version())
            }
            Self::Cuckoo(_) => (cuckoo::wire::TYPE_NAME, cuckoo::wire::RDB_VERSION),
            Self::CountMin(_) => (cms::wire::TYPE_NAME, cms::wire::RDB_VERSION),
            Self::TopK(_) => (topk::wire::TYPE_NAME, topk::wire::RDB_VERSION),
            Self::TDigest(_) => (tdigest::wire::TYPE_NAME, tdigest::wire::RDB_VERSION),
        };
        payload::try_restore(type_name, version, |to| match self {
            Self::Bloom(object) => bloom::rdb::write(object, to),
            Self::Cuckoo(object) => cuckoo::wire::write_rdb(object, to),
            Self::CountMin(object) => cms::wire::write_rdb(object, version, to),
            Self::TopK(object) => topk::wire::write_rdb(object, to),
            Self::TDigest(object) => tdigest::wire::write_rdb(object, to),
        })
    }
}
