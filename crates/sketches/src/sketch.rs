//! Objects of any family, from and to the payload of a server's DUMP.

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
/// use valkeybloom_sketches::cms::{CellSize, CountMin, Shape};
/// use valkeybloom_sketches::{Seed, Sketch};
///
/// let mut counts = CountMin::new(Shape::new(1000, 5, CellSize::Four).unwrap(), u64::MAX).unwrap();
/// counts.increment(b"apple", 3).unwrap();
/// // What `DUMP key` returns, and `RESTORE key 0 payload` takes.
/// let payload = Sketch::CountMin(counts).to_dump();
///
/// let Ok(Sketch::CountMin(again)) = Sketch::from_dump(&payload, Seed::FIXED) else {
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

/// Reads the fields of a value in an encoding version.
type Read<R> = fn(i32, &mut R, Seed) -> Result<Sketch, DecodeError>;

impl Sketch {
    /// Decodes a payload of DUMP. The seed is for searches in top-k lists, see [`TopK::new`].
    ///
    /// # Errors
    /// Any [`DecodeError`], also for a value of another type and for a Bloom filter that lacks chunks.
    pub fn from_dump(payload: &[u8], seed: Seed) -> Result<Self, DecodeError> {
        let mut fields = payload::Fields::of_dump(payload)?;
        let (type_id, version) = fields.type_and_version()?;
        let read = readers().find(|(name, _)| payload::type_id_of(name) == type_id);
        let (_, read) = read.ok_or("a value of another type")?;
        let sketch = read(version, &mut fields, seed)?;
        fields.end()?;
        Ok(sketch)
    }

    /// Reads the fields of a value of the type with this name, such as `MBbloom--`, in an encoding version.
    ///
    /// # Errors
    /// Those of [`from_dump`](Self::from_dump).
    pub fn read<R: RdbRead>(
        type_name: &[u8],
        version: i32,
        from: &mut R,
        seed: Seed,
    ) -> Result<Self, DecodeError> {
        let read = readers().find(|(name, _)| *name == type_name);
        let (_, read) = read.ok_or("a value of another type")?;
        read(version, from, seed)
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
        use payload::try_restore;
        match self {
            Self::Bloom(object) => {
                let dialect = Dialect::of(object);
                try_restore(dialect.type_name(), dialect.rdb_version(), |to| {
                    bloom::rdb::write(object, to);
                })
            }
            Self::Cuckoo(object) => {
                use cuckoo::wire::{RDB_VERSION, TYPE_NAME, write_rdb};
                try_restore(TYPE_NAME, RDB_VERSION, |to| write_rdb(object, to))
            }
            Self::CountMin(object) => {
                use cms::wire::{RDB_VERSION, TYPE_NAME, write_rdb};
                try_restore(TYPE_NAME, RDB_VERSION, |to| write_rdb(object, to))
            }
            Self::TopK(object) => {
                use topk::wire::{RDB_VERSION, TYPE_NAME, write_rdb};
                try_restore(TYPE_NAME, RDB_VERSION, |to| write_rdb(object, to))
            }
            Self::TDigest(object) => {
                use tdigest::wire::{RDB_VERSION, TYPE_NAME, write_rdb};
                try_restore(TYPE_NAME, RDB_VERSION, |to| write_rdb(object, to))
            }
        }
    }
}

/// Returns the names of the types, and how their values are read.
fn readers<R: RdbRead>() -> impl Iterator<Item = (&'static [u8], Read<R>)> {
    let blooms: [Read<R>; 3] = [
        |version, from, _| read_bloom(Dialect::Bloomfltr, version, from),
        |version, from, _| read_bloom(Dialect::RedisBloom, version, from),
        |version, from, _| read_bloom(Dialect::Bloomfltx, version, from),
    ];
    let names = Dialect::ALL.map(Dialect::type_name);
    let others: [(_, Read<R>); 4] = [
        (cuckoo::wire::TYPE_NAME, |version, from, _| {
            cuckoo::wire::read_rdb(version, from).map(Sketch::Cuckoo)
        }),
        (cms::wire::TYPE_NAME, |version, from, _| {
            cms::wire::read_rdb(version, from).map(Sketch::CountMin)
        }),
        (topk::wire::TYPE_NAME, |version, from, seed| {
            topk::wire::read_rdb(version, from, seed).map(Sketch::TopK)
        }),
        (tdigest::wire::TYPE_NAME, |version, from, _| {
            tdigest::wire::read_rdb(version, from).map(Sketch::TDigest)
        }),
    ];
    let all = names.into_iter().zip(blooms).chain(others);
    all.map(|(name, read)| (name.to_bytes(), read))
}

fn read_bloom(
    dialect: Dialect,
    version: i32,
    from: &mut impl RdbRead,
) -> Result<Sketch, DecodeError> {
    match bloom::rdb::read(dialect, version, from)? {
        Value::Complete(object) => Ok(Sketch::Bloom(object)),
        Value::Partial(_) => Err("a Bloom filter that lacks chunks".into()),
    }
}
