//! Objects of `RedisBloom`: the type `MBbloom--`. `RedisBloom` can read what is written.
//!
//! A filter is called a *link* in these bytes, its capacity *entries*.
//!
//! | form | fields |
//! |---|---|
//! | RDB, encoding versions 0 to 4 | items in all, number of links, options (from 2 on), growth factor (from 4 on); per link entries, error rate, hash functions, bits per entry, bits and exponent of two (both from 1 on), bitmap, items |
//! | header of chunks | items u64, number of links u32, options u32, growth factor u32; per link bytes u64, bits u64, items u64, error rate f64, bits per entry f64, hash functions u32, entries u64, exponent of two u8 |
//!
//! Numbers are little endian. The bits of a link are numbered as in a filter of ours.

use crate::bloom::filter::Filter;
use crate::bloom::hash::Hasher;
use crate::bloom::law::{Law, Link, Links};
use crate::bloom::machine::memory;
use crate::bloom::object::{FilterOutline, Ids, Object, Outline, PeriodOutline, Shape};

use super::fields::{DecodeError, RdbRead, RdbWrite, Written, push};

/// The encoding version that is written, and the highest that is read.
pub const RDB_VERSION: i32 = 4;

/// A link as it was read.
struct StoredLink {
    entries: u64,
    hashes: u64,
    items: u64,
    /// Length of the bitmap in bytes.
    bytes: u64,
    /// The bitmap; none, in a header.
    bitmap: Vec<u8>,
    link: Link,
}

/// An object as it was read.
struct Stored {
    items: u64,
    options: u64,
    growth: u64,
    links: Vec<StoredLink>,
}

impl Stored {
    fn outline(self) -> Result<Outline, DecodeError> {
        let count = self.links.len();
        let mut links = memory::reserved(count).ok_or(DecodeError::NoMemory)?;
        links.extend(self.links.iter().map(|stored| stored.link));
        let links = Links::from_stored(self.options, self.growth, links)?;
        let mut filters = memory::reserved(count).ok_or(DecodeError::NoMemory)?;
        let mut items = 0_u64;
        for stored in self.links {
            items = items.saturating_add(stored.items);
            filters.push(FilterOutline {
                geometry: stored.link.geometry(stored.bytes, stored.hashes)?,
                capacity: stored.entries,
                items: stored.items,
                blob: stored.bitmap,
            });
        }
        if items != self.items {
            return Err("items of the filters are not the object's".into());
        }
        let hasher = if links.is_wide() {
            Hasher::Murmur64
        } else {
            Hasher::Murmur32
        };
        let first: &FilterOutline = filters.first().ok_or("no filters")?;
        let capacity = first.capacity;
        Ok(Outline {
            shape: Shape::plain(links.series().params(capacity)),
            hasher,
            law: Law::RedisBloom(Box::new(links)),
            periods: vec![PeriodOutline {
                number: 0,
                ids: Ids::default(),
                filters,
            }],
        })
    }
}

/// Reads the fields in RDB, or returns `None` if a partly loaded object follows.
pub fn read_rdb(version: i32, from: &mut impl RdbRead) -> Result<Option<Outline>, DecodeError> {
    let (items, count) = (from.uint()?, from.uint()?);
    if count == 0 {
        return Ok(None);
    }
    if !(0..=RDB_VERSION).contains(&version) {
        return Err(DecodeError::UnsupportedVersion);
    }
    let options = if version >= 2 { from.uint()? } else { 0 };
    let growth = if version >= 4 { from.uint()? } else { 2 };
    let mut links = Vec::new();
    for _ in 0..count {
        push(&mut links, read_link(version, from)?)?;
    }
    let stored = Stored {
        items,
        options,
        growth,
        links,
    };
    stored.outline().map(Some)
}

fn read_link(version: i32, from: &mut impl RdbRead) -> Result<StoredLink, DecodeError> {
    let entries = from.uint()?;
    let error_rate = from.double()?;
    let hashes = from.uint()?;
    let bits_per_entry = from.double()?;
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "so it is defined; what can't be is refused later"
    )]
    let (bits, exponent) = if version >= 1 {
        (from.uint()?, from.uint()?)
    } else {
        ((entries as f64 * bits_per_entry) as u64, 0)
    };
    let bitmap = from.bytes()?;
    Ok(StoredLink {
        entries,
        hashes,
        items: from.uint()?,
        bytes: bitmap.len() as u64,
        bitmap,
        link: Link {
            error_rate,
            bits_per_entry,
            bits,
            exponent: u8::try_from(exponent).map_err(|_| "exponent out of range")?,
        },
    })
}

/// The links of an object of this dialect, each with its filter.
fn linked(object: &Object) -> impl Iterator<Item = (&Link, &Filter)> {
    let links = object.links().into_iter().flat_map(|links| &links.all);
    links.zip(object.all_filters())
}

fn options_and_growth(object: &Object) -> (u32, u32) {
    let links = object.links();
    links.map_or((0, 0), |links| (links.options, links.factor))
}

/// Writes the fields in RDB, of [`RDB_VERSION`].
pub fn write_rdb(object: &Object, to: &mut impl RdbWrite) {
    let (count, items, _) = object.totals();
    let (options, growth) = options_and_growth(object);
    to.uint(items);
    to.uint(count);
    to.uint(u64::from(options));
    to.uint(u64::from(growth));
    for (link, filter) in linked(object) {
        to.uint(filter.capacity());
        to.double(link.error_rate);
        to.uint(u64::from(filter.hashes()));
        to.double(link.bits_per_entry);
        to.uint(link.bits);
        to.uint(u64::from(link.exponent));
        to.bytes(filter.bitmap());
        to.uint(filter.items());
    }
}

/// Items, number of links, options, growth factor.
const PREFIX_BYTES: usize = 8 + 4 + 4 + 4;

/// Bytes, bits, items, error rate, bits per entry, hash functions, entries, exponent.
const PER_LINK_BYTES: usize = 8 + 8 + 8 + 8 + 8 + 4 + 8 + 1;

/// Writes the header of chunks, unless there is no memory for it.
pub fn write_header(object: &Object) -> Option<Vec<u8>> {
    let (count, items, _) = object.totals();
    let (options, growth) = options_and_growth(object);
    let mut out = Written::new();
    out.put(&items.to_le_bytes());
    out.put(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    out.put(&options.to_le_bytes());
    out.put(&growth.to_le_bytes());
    for (link, filter) in linked(object) {
        out.put(&(filter.bitmap().len() as u64).to_le_bytes());
        out.put(&link.bits.to_le_bytes());
        out.put(&filter.items().to_le_bytes());
        out.put(&link.error_rate.to_le_bytes());
        out.put(&link.bits_per_entry.to_le_bytes());
        out.put(&filter.hashes().to_le_bytes());
        out.put(&filter.capacity().to_le_bytes());
        out.put(&[link.exponent]);
    }
    out.end()
}

/// Reads the header of chunks; the bitmaps follow.
pub fn read_header(header: &[u8]) -> Result<Outline, DecodeError> {
    let (prefix, rest) = header
        .split_first_chunk::<PREFIX_BYTES>()
        .ok_or(DecodeError::Truncated)?;
    let (links, behind) = rest.as_chunks::<PER_LINK_BYTES>();
    let count = number(&prefix[8..12]);
    if !behind.is_empty() || links.len() as u64 != count {
        return Err("header's length is not that of its links".into());
    }
    let mut stored = memory::reserved(links.len()).ok_or(DecodeError::NoMemory)?;
    stored.extend(links.iter().map(|link| StoredLink {
        bytes: number(&link[..8]),
        items: number(&link[16..24]),
        hashes: number(&link[40..44]),
        entries: number(&link[44..52]),
        bitmap: Vec::new(),
        link: Link {
            bits: number(&link[8..16]),
            error_rate: f64::from_bits(number(&link[24..32])),
            bits_per_entry: f64::from_bits(number(&link[32..40])),
            exponent: link[52],
        },
    }));
    let stored = Stored {
        items: number(&prefix[..8]),
        options: number(&prefix[12..16]),
        growth: number(&prefix[16..20]),
        links: stored,
    };
    stored.outline()
}

/// A little-endian number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    let digits = bytes.iter().rev();
    digits.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
