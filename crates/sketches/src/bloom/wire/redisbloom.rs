//! The dialect of `RedisBloom`'s objects: the type `MBbloom--`. `RedisBloom` can read the bytes that this module
//! writes.
//!
//! `RedisBloom` calls a filter a *link*, and its capacity *entries*.
//!
//! | form | fields |
//! |---|---|
//! | RDB, encoding versions 0 to 4 | items in all, number of links, options (from version 2 on), growth factor (from version 4 on); per link entries, error rate, hash functions, bits per entry, bits and exponent of two (both from version 1 on), bitmap, items |
//! | header of chunks | items u64, number of links u32, options u32, growth factor u32; per link bytes u64, bits u64, items u64, error rate f64, bits per entry f64, hash functions u32, entries u64, exponent of two u8 |
//!
//! Numbers are little endian. The bits of a link are numbered the way those of our filters are.

use std::cmp::Ordering;

use crate::bloom::filter::{Filter, Geometry};
use crate::bloom::law::{Law, Link, Links, bits_per_entry, hashes_of};
use crate::bloom::object::{FilterOutline, Ids, Object, Outline, PeriodOutline, Shape};
use crate::hash::Hasher;
use crate::machine::memory;

use crate::bytes::{Buffer, DecodeError, RdbRead, RdbWrite, push};

/// The encoding version that is written, which is also the highest that is read.
pub const RDB_VERSION: i32 = 4;

/// A link, unchecked.
struct StoredLink {
    entries: u64,
    hashes: u64,
    items: u64,
    /// Length of the bitmap in bytes.
    bytes: u64,
    /// The bitmap, or empty if it is elsewhere.
    bitmap: Vec<u8>,
    link: Link,
}

impl StoredLink {
    /// Returns the fields of a filter, without its bitmap.
    fn of(link: &Link, geometry: Geometry, entries: u64, items: u64) -> Self {
        Self {
            entries,
            hashes: geometry.hashes.into(),
            items,
            bytes: geometry.cell_bytes,
            bitmap: Vec::new(),
            link: *link,
        }
    }

    fn write(&self, bitmap: &[u8], to: &mut impl RdbWrite) {
        to.uint(self.entries);
        to.double(self.link.error_rate);
        to.uint(self.hashes);
        to.double(self.link.bits_per_entry);
        to.uint(self.link.bits);
        to.uint(self.link.exponent.into());
        to.bytes(bitmap);
        to.uint(self.items);
    }
}

/// An object, unchecked.
struct Stored {
    items: u64,
    options: u64,
    growth: u64,
    links: Vec<StoredLink>,
}

impl Stored {
    /// Returns the header of the object's chunks.
    fn header(self) -> Result<Vec<u8>, DecodeError> {
        let narrow = |number: u64| u32::try_from(number).map_err(|_| "number out of range");
        let (options, growth) = (narrow(self.options)?, narrow(self.growth)?);
        let count = self.links.len() as u64;
        let header = header(self.items, options, growth, count, self.links.into_iter());
        header.ok_or(DecodeError::NoMemory)
    }

    fn outline(mut self) -> Result<Outline, DecodeError> {
        let count = self.links.len();
        // A mark is left where RedisBloom changed an object that was half loaded here: to it the object is whole.
        for StoredLink { link, .. } in &mut self.links {
            if let Some((_, original)) = decode_mark(link) {
                link.bits_per_entry = original;
            }
        }
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
            ids: Ids::default(),
            periods: vec![PeriodOutline { number: 0, filters }],
        })
    }
}

/// The point where the loading of an object's chunks stopped, as encoded by a mark in its links.
///
/// `RedisBloom` has no form for a partly loaded object: it reads missing bytes as zeros. It keeps a filter's bits per
/// entry for information only, and requires only that they yield its number of hash functions. So the lowest 45 of
/// their 64 bits can encode the point: the difference of the number from the one computed here, a mark of eight bits,
/// and the number of bytes loaded.
struct Unfinished {
    /// The index of the first filter that lacks bytes.
    filter: usize,
    /// The number of bytes that this filter has.
    loaded: usize,
    /// The bits per entry of this filter without the mark.
    bits_per_entry: f64,
}

/// The most missing bytes of an object that is written as fields. A header of a few bytes can claim any number.
const MAX_MISSING: u64 = 1 << 30;

/// The mark.
const MARK: u64 = 0xA7;

/// The mask of the bits that encode the point.
const POINT_MASK: u64 = (1 << 45) - 1;

/// The most units in the last place by which bits per entry may differ from ours: not all programs round logarithms
/// alike.
const MAX_OFF: u64 = 15;

impl Unfinished {
    /// Finds the mark in the links of an object.
    fn find(links: &[StoredLink]) -> Option<Self> {
        let mut marks = links
            .iter()
            .map(|stored| decode_mark(&stored.link))
            .enumerate();
        let (filter, (loaded, bits_per_entry)) =
            marks.find_map(|(filter, mark)| Some((filter, mark?)))?;
        let rest = links[filter].bitmap.get(loaded..)?;
        let mut later = links[filter + 1..].iter().map(|stored| &stored.bitmap[..]);
        // The mark counts only if bytes are missing, and all of them are zeros.
        let is_missing = !rest.is_empty() && is_zero(rest) && later.all(is_zero);
        is_missing.then_some(Self {
            filter,
            loaded,
            bits_per_entry,
        })
    }
}

/// Decodes the mark of a link, if it has one: the number of bytes loaded, and the original bits per entry.
fn decode_mark(link: &Link) -> Option<(usize, f64)> {
    let marked = link.bits_per_entry.to_bits();
    let own = bits_per_entry(link.error_rate).to_bits();
    let is_near = own.abs_diff(marked) <= 2 * POINT_MASK;
    // A computed number that is near ours is not a mark. No program computes one that is further off.
    let is_computed = own.abs_diff(marked) < 1 << 16;
    if marked >> 32 & 0xff != MARK || !is_near || is_computed {
        return None;
    }
    let off = marked >> 40 & 31;
    let original = (own + off).checked_sub(MAX_OFF + 1)?;
    let loaded = usize::try_from(marked & u64::from(u32::MAX)).ok()?;
    Some((loaded, f64::from_bits(original)))
}

/// Returns a link with the mark that `loaded` bytes were loaded, if the link can encode it.
fn encode_mark(link: &Link, hashes: u32, loaded: usize) -> Option<Link> {
    let loaded = u32::try_from(loaded).ok()?;
    let (own, original) = (bits_per_entry(link.error_rate), link.bits_per_entry);
    let (own, original) = (own.to_bits(), original.to_bits());
    if own.abs_diff(original) > MAX_OFF {
        return None;
    }
    let point = (original + MAX_OFF + 1 - own) << 40 | MARK << 32 | u64::from(loaded);
    let high = own & !POINT_MASK;
    let near = [high, high - POINT_MASK - 1, high + POINT_MASK + 1];
    let near = near.map(|high| f64::from_bits(high | point));
    Some(Link {
        bits_per_entry: near.into_iter().find(|value| hashes_of(*value) == hashes)?,
        ..*link
    })
}

/// Returns whether all bytes are 0. Without a branch per byte, the compiler vectorizes the comparison.
fn is_zero(bytes: &[u8]) -> bool {
    let piece_is = |piece: &[u8]| piece.iter().fold(0, |all, byte| all | byte) == 0;
    bytes.chunks(4096).all(piece_is)
}

/// Writes an object whose loading stopped in filter `filter`: as the fields of an object whose missing bytes are
/// zeros, with a mark. Returns whether it could; if not, nothing is written.
pub fn write_partial(outline: &Outline, filter: usize, to: &mut impl RdbWrite) -> bool {
    let Some(links) = outline.law.links() else {
        return false;
    };
    let filters: Vec<&FilterOutline> = outline.filters().collect();
    let (Some(current), Some(link)) = (filters.get(filter), links.all.get(filter)) else {
        return false;
    };
    let missing = filters
        .iter()
        .map(|filter| filter.geometry.cell_bytes - filter.blob.len() as u64);
    if missing.fold(0, u64::saturating_add) > MAX_MISSING {
        return false;
    }
    let loaded = current.blob.len();
    let longest = filters[filter..]
        .iter()
        .map(|filter| filter.geometry.cell_bytes)
        .max();
    let zeros = longest.and_then(|bytes| memory::zeroed(usize::try_from(bytes).ok()?));
    let (Some(marked), Some(mut zeros)) =
        (encode_mark(link, current.geometry.hashes, loaded), zeros)
    else {
        return false;
    };
    to.uint(filters.iter().map(|filter| filter.items).sum());
    to.uint(filters.len() as u64);
    to.uint(links.options.into());
    to.uint(links.factor.into());
    for (index, (link, outline)) in links.all.iter().zip(filters).enumerate() {
        let bytes = usize::try_from(outline.geometry.cell_bytes).unwrap_or(usize::MAX);
        let (link, bitmap) = match index.cmp(&filter) {
            Ordering::Less => (link, &outline.blob[..]),
            Ordering::Equal => {
                zeros[..loaded].copy_from_slice(&outline.blob);
                (&marked, &zeros[..bytes])
            }
            Ordering::Greater => {
                zeros[..loaded.min(bytes)].fill(0);
                (link, &zeros[..bytes])
            }
        };
        StoredLink::of(link, outline.geometry, outline.capacity, outline.items).write(bitmap, to);
    }
    true
}

/// The contents of the fields in RDB.
pub enum Fields {
    /// A complete object.
    Whole(Outline),
    /// The header of an object that lacks chunks, and the cells loaded so far.
    Unfinished(Vec<u8>, Vec<Vec<u8>>),
    /// No fields of an object: a header and cells follow.
    Absent,
}

/// Reads the fields in RDB.
pub fn read_rdb(version: i32, from: &mut impl RdbRead) -> Result<Fields, DecodeError> {
    let (items, count) = (from.uint()?, from.uint()?);
    if count == 0 {
        return Ok(Fields::Absent);
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
    let mut stored = Stored {
        items,
        options,
        growth,
        links,
    };
    let Some(stopped) = Unfinished::find(&stored.links) else {
        return stored.outline().map(Fields::Whole);
    };
    let filter = stopped.filter;
    let mut cells = memory::reserved(filter + 1).ok_or(DecodeError::NoMemory)?;
    let links = &mut stored.links[..=filter];
    cells.extend(
        links
            .iter_mut()
            .map(|link| std::mem::take(&mut link.bitmap)),
    );
    cells[filter].truncate(stopped.loaded);
    links[filter].link.bits_per_entry = stopped.bits_per_entry;
    Ok(Fields::Unfinished(stored.header()?, cells))
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
        reason = "RedisBloom's definition; impossible numbers are refused later"
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

/// Returns the links of an object of this dialect, each with its filter.
fn links_of(object: &Object) -> impl Iterator<Item = (StoredLink, &Filter)> {
    let links = object.links().into_iter().flat_map(|links| &links.all);
    links.zip(object.all_filters()).map(|(link, filter)| {
        let (entries, items) = (filter.capacity(), filter.items());
        (
            StoredLink::of(link, filter.geometry(), entries, items),
            filter,
        )
    })
}

fn options_and_growth(object: &Object) -> (u32, u32) {
    let links = object.links();
    links.map_or((0, 0), |links| (links.options, links.factor))
}

/// Writes the fields in RDB of [`RDB_VERSION`].
pub fn write_rdb(object: &Object, to: &mut impl RdbWrite) {
    let (count, items, _) = object.totals();
    let (options, growth) = options_and_growth(object);
    to.uint(items);
    to.uint(count);
    to.uint(u64::from(options));
    to.uint(u64::from(growth));
    for (link, filter) in links_of(object) {
        link.write(filter.bitmap(), to);
    }
}

/// Size of items, number of links, options and growth factor.
const PREFIX_BYTES: usize = 8 + 4 + 4 + 4;

/// Size of bytes, bits, items, error rate, bits per entry, hash functions, entries and exponent.
const PER_LINK_BYTES: usize = 8 + 8 + 8 + 8 + 8 + 4 + 8 + 1;

/// Writes the header of chunks, or returns `None` if allocation fails.
pub fn write_header(object: &Object) -> Option<Vec<u8>> {
    let (count, items, _) = object.totals();
    let (options, growth) = options_and_growth(object);
    let links = links_of(object).map(|(link, _)| link);
    header(items, options, growth, count, links)
}

/// Encodes the header of chunks of these links, or returns `None` if allocation fails.
fn header(
    items: u64,
    options: u32,
    growth: u32,
    count: u64,
    links: impl Iterator<Item = StoredLink>,
) -> Option<Vec<u8>> {
    let mut out = Buffer::new();
    out.put(&items.to_le_bytes());
    out.put(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    out.put(&options.to_le_bytes());
    out.put(&growth.to_le_bytes());
    for stored in links {
        let link = stored.link;
        out.put(&stored.bytes.to_le_bytes());
        out.put(&link.bits.to_le_bytes());
        out.put(&stored.items.to_le_bytes());
        out.put(&link.error_rate.to_le_bytes());
        out.put(&link.bits_per_entry.to_le_bytes());
        let hashes = u32::try_from(stored.hashes).unwrap_or(u32::MAX);
        out.put(&hashes.to_le_bytes());
        out.put(&stored.entries.to_le_bytes());
        out.put(&[link.exponent]);
    }
    out.end()
}

/// Reads the header of chunks, which the bitmaps follow.
pub fn read_header(header: &[u8]) -> Result<Outline, DecodeError> {
    let (prefix, rest) = header
        .split_first_chunk::<PREFIX_BYTES>()
        .ok_or(DecodeError::Truncated)?;
    let (links, surplus) = rest.as_chunks::<PER_LINK_BYTES>();
    let count = number(&prefix[8..12]);
    if !surplus.is_empty() || links.len() as u64 != count {
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

/// Splits a valid header into the parameters of the object and those of each filter. Omits the number of filters, the
/// items, and the bits per entry, whose last digit depends on the program.
pub fn parameters(header: &[u8]) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let (prefix, rest) = header.split_first_chunk::<PREFIX_BYTES>()?;
    let (links, _) = rest.as_chunks::<PER_LINK_BYTES>();
    let filters = links
        .iter()
        .map(|link| [&link[..16], &link[24..32], &link[40..]].concat());
    Some((prefix[12..].to_vec(), filters.collect()))
}

/// Reads a little-endian number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    let digits = bytes.iter().rev();
    digits.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
