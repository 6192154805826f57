//! The dialect of our plain objects: the type `bloomfltr`, shared with valkey-bloom.
//!
//! | form | fields |
//! |---|---|
//! | RDB, encoding version 1 | number of filters, expansion, error rate, tightening ratio, seed-is-random; per filter capacity, for the last filter its items (the others are full), blob |
//! | dump, version 1 | version byte, expansion u32, error rate f64, tightening ratio f64, seed-is-random u8, number of filters u64; per filter length u64, blob, items i64, capacity i64 |
//! | header of chunks, version 129 | the fields of the dump, with every blob cut after its own header |
//!
//! The field widths of the dump are those of bincode 1.3's fixed-width encoding, little endian. The codec is written
//! by hand: the format is frozen, and a cursor that refuses before it allocates is shorter than a guard around a
//! general decoder.

use crate::bloom::law::Params;
use crate::bloom::object::{FilterOutline, Object, Outline};
use crate::hash::Seed;
use crate::machine::memory;

use super::extent::Extent;
use crate::bytes::{Buffer, ByteCursor, DecodeError, RdbRead, RdbWrite, push};

/// The encoding version in RDB.
pub const RDB_VERSION: i32 = 1;

/// The version of dumps and headers.
const VERSION: u8 = 1;

/// Returns the seed-is-random flag in files: whether the seed differs from the fixed one.
fn is_random(seed: &Seed) -> bool {
    *seed != Seed::FIXED
}

/// The fields of an object, unchecked.
struct Stored {
    expansion: u64,
    error_rate: f64,
    tightening: f64,
    seed_is_random: u64,
    filters: Vec<FilterOutline>,
}

impl Stored {
    fn outline(mut self) -> Result<Outline, DecodeError> {
        // The outline takes the capacity of the first filter.
        let params = Params::from_stored(0, self.error_rate, self.tightening, self.expansion)?;
        memory::fit(&mut self.filters);
        let outline = Outline::plain(params, self.filters)?;
        let seed = outline.hasher.seed();
        let wrong = match (self.seed_is_random, seed.is_some_and(is_random)) {
            (0, false) | (1, _) => return Ok(outline),
            (0, true) => "fixed seed that is not the fixed one",
            _ => "seed flag out of range",
        };
        // Errors of the filters take precedence, such as different seeds.
        Err(outline.check().err().unwrap_or(wrong).into())
    }
}

/// Reads the fields in RDB, or returns `None` if a partly loaded object follows.
pub fn read_rdb(from: &mut impl RdbRead) -> Result<Option<Outline>, DecodeError> {
    let count = from.uint()?;
    if count == 0 {
        return Ok(None);
    }
    let mut stored = Stored {
        expansion: from.uint()?,
        error_rate: from.double()?,
        tightening: from.double()?,
        seed_is_random: from.uint()?,
        filters: Vec::new(),
    };
    for left in (0..count).rev() {
        let capacity = from.uint()?;
        let items = if left == 0 { from.uint()? } else { capacity };
        // It refuses a blob without a whole header at once: its few bytes in a file would take many more in memory.
        let filter = FilterOutline::headed(from.bytes()?, capacity, items)?;
        push(&mut stored.filters, filter)?;
    }
    stored.outline().map(Some)
}

pub fn write_rdb(object: &Object, to: &mut impl RdbWrite) {
    let params = object.shape().params;
    to.uint(object.totals().0);
    to.uint(u64::from(params.growth.expansion()));
    to.double(params.error_rate.get());
    to.double(params.tightening.to_stored());
    to.uint(u64::from(object.hasher().seed().is_some_and(is_random)));
    let mut left = object.totals().0;
    for filter in object.all_filters() {
        left -= 1;
        to.uint(filter.capacity());
        if left == 0 {
            to.uint(filter.items());
        }
        to.bytes(filter.blob());
    }
}

/// Writes a dump or a header, or returns `None` if allocation fails.
pub fn write(object: &Object, extent: Extent) -> Option<Vec<u8>> {
    let params = object.shape().params;
    let mut out = Buffer::default();
    out.put(&[extent.version(VERSION)]);
    out.put(&params.growth.expansion().to_le_bytes());
    out.double(params.error_rate.get());
    out.double(params.tightening.to_stored());
    out.put(&[object.hasher().seed().is_some_and(is_random).into()]);
    out.uint(object.totals().0);
    for filter in object.all_filters() {
        out.bytes(extent.of(filter.blob()));
        out.uint(filter.items());
        out.uint(filter.capacity());
    }
    out.end()
}

/// Reads a whole dump or header.
pub fn read(bytes: &[u8], extent: Extent) -> Result<Outline, DecodeError> {
    let mut from = ByteCursor(bytes);
    if from.array::<1>()? != [extent.version(VERSION)] {
        return Err(DecodeError::UnsupportedVersion);
    }
    let mut stored = Stored {
        expansion: u64::from(u32::from_le_bytes(from.array()?)),
        error_rate: from.double()?,
        tightening: from.double()?,
        seed_is_random: u64::from(from.array::<1>()?[0]),
        filters: Vec::new(),
    };
    for _ in 0..from.uint()? {
        let blob = from.bytes()?;
        // The format's numbers are signed. Negative ones are out of range when read as unsigned.
        let items = from.uint()?;
        let filter = FilterOutline::headed(blob, from.uint()?, items)?;
        push(&mut stored.filters, filter)?;
    }
    from.end()?;
    extent.check(&stored.filters)?;
    stored.outline()
}
