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
//! Numbers are little endian. The bits of a link are numbered the way those of our filters are. A filter that is full
//! and still takes items counts no more of them.

use std::cmp::Ordering;

use crate::bloom::law::{Law, Link, Links, bits_per_entry, hashes_of};
use crate::bloom::object::{FilterFields, FilterOutline, Object, Outline};
use crate::hash::Hasher;
use crate::machine::memory;
use crate::number::{to_double, to_whole};

use crate::bytes::{Buffer, DecodeError, RdbRead, RdbWrite, push};

/// The encoding version that is written, which is also the highest that is read.
pub const RDB_VERSION: i32 = 4;

/// An object, unchecked.
struct Stored {
    items: u64,
    options: u64,
    growth: u64,
    /// The links, each with its filter.
    links: Vec<Link>,
    filters: Vec<FilterOutline>,
}

impl Stored {
    fn outline(mut self) -> Result<Outline, DecodeError> {
        // A mark is left where RedisBloom changed an object that was half loaded here: to it the object is whole.
        for link in &mut self.links {
            if let Some((_, original)) = decode_mark(link) {
                link.bits_per_entry = original;
            }
        }
        memory::fit(&mut self.links);
        memory::fit(&mut self.filters);
        let links = Links::from_stored(self.options, self.growth, self.links)?;
        let items = self.filters.iter().map(|filter| filter.items);
        if items.fold(0, u64::saturating_add) != self.items {
            return Err("items of the filters are not the object's".into());
        }
        // RedisBloom from 8.12 on loads no filter that counts more items than its capacity.
        for filter in &mut self.filters {
            filter.items = filter.items.min(filter.capacity);
        }
        let hasher = if links.is_wide() {
            Hasher::Murmur64
        } else {
            Hasher::Murmur32
        };
        let capacity = self.filters.first().ok_or("no filters")?.capacity;
        Ok(Outline {
            params: links.series().params(capacity),
            hasher,
            law: Law::RedisBloom(Box::new(links)),
            filters: self.filters,
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
    fn find(stored: &Stored) -> Option<Self> {
        let mut marks = stored.links.iter().map(decode_mark).enumerate();
        let (filter, (loaded, bits_per_entry)) =
            marks.find_map(|(filter, mark)| Some((filter, mark?)))?;
        let rest = stored.filters[filter].blob.get(loaded..)?;
        let mut later = stored.filters[filter + 1..].iter();
        // The mark counts only if bytes are missing, and all of them are zeros.
        let is_missing = !rest.is_empty() && is_zero(rest) && later.all(|f| is_zero(&f.blob));
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
    let filters: Vec<&FilterOutline> = outline.filters.iter().collect();
    let (Some(current), Some(link)) = (filters.get(filter), links.all.get(filter)) else {
        return false;
    };
    let missing = |filter: &&FilterOutline| filter.geometry.cell_bytes - filter.blob.len() as u64;
    let missing = filters.iter().map(missing);
    if missing.fold(0, u64::saturating_add) > MAX_MISSING {
        return false;
    }
    let loaded = current.blob.len();
    let incomplete = filters[filter..].iter();
    let longest = incomplete.map(|filter| filter.geometry.cell_bytes).max();
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
        write_link(link, &outline.into(), bitmap, to);
    }
    true
}

/// The contents of the fields in RDB.
pub enum Fields {
    /// A complete stack.
    Whole(Outline),
    /// A complete object of tables.
    Tables(Object),
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
    let options = if version >= 2 { from.uint()? } else { 0 };
    let growth = if version >= 4 { from.uint()? } else { 2 };
    let mut stored = Stored {
        items,
        options,
        growth,
        links: Vec::new(),
        filters: Vec::new(),
    };
    for _ in 0..count {
        let (link, filter) = read_link(version, from)?;
        push(&mut stored.links, link)?;
        push(&mut stored.filters, filter)?;
    }
    let Some(stopped) = Unfinished::find(&stored) else {
        return stored.outline().map(Fields::Whole);
    };
    let filter = stopped.filter;
    stored.links[filter].bits_per_entry = stopped.bits_per_entry;
    let mut cells = memory::reserved(filter + 1).ok_or(DecodeError::NoMemory)?;
    let loaded = stored.filters[..=filter].iter_mut();
    cells.extend(loaded.map(|filter| std::mem::take(&mut filter.blob)));
    cells[filter].truncate(stopped.loaded);
    let outline = stored.outline()?;
    let items = outline.filters.iter().map(|filter| filter.items);
    let items = items.fold(0, u64::saturating_add);
    let filters = outline.filters.iter().map(FilterFields::from);
    let links = outline.law.links();
    let header = links.and_then(|links| header(items, links, filters));
    let header = header.ok_or(DecodeError::NoMemory)?;
    Ok(Fields::Unfinished(header, cells))
}

fn read_link(version: i32, from: &mut impl RdbRead) -> Result<(Link, FilterOutline), DecodeError> {
    let capacity = from.uint()?;
    let error_rate = from.double()?;
    let hashes = from.uint()?;
    let bits_per_entry = from.double()?;
    let (bits, exponent) = if version >= 1 {
        (from.uint()?, from.uint()?)
    } else {
        // RedisBloom's definition. Impossible numbers are refused later.
        (to_whole(to_double(capacity) * bits_per_entry), 0)
    };
    let link = Link {
        error_rate,
        bits_per_entry,
        bits,
        exponent: u8::try_from(exponent).map_err(|_| "exponent out of range")?,
    };
    let blob = from.bytes()?;
    let filter = FilterOutline {
        geometry: link.geometry(blob.len() as u64, hashes)?,
        capacity,
        items: from.uint()?,
        blob,
    };
    Ok((link, filter))
}

/// Writes the fields in RDB of [`RDB_VERSION`].
pub fn write_rdb(object: &Object, to: &mut impl RdbWrite) {
    let Some(links) = object.links() else {
        return;
    };
    let (count, items, _) = object.totals();
    to.uint(items);
    to.uint(count);
    to.uint(links.options.into());
    to.uint(links.factor.into());
    for (link, filter) in links.all.iter().zip(object.all_filters()) {
        write_link(link, &filter.into(), filter.bitmap(), to);
    }
}

fn write_link(link: &Link, filter: &FilterFields, bitmap: &[u8], to: &mut impl RdbWrite) {
    to.uint(filter.capacity);
    to.double(link.error_rate);
    to.uint(filter.geometry.hashes.into());
    to.double(link.bits_per_entry);
    to.uint(link.bits);
    to.uint(link.exponent.into());
    to.bytes(bitmap);
    to.uint(filter.items);
}

/// Size of items, number of links, options and growth factor.
const PREFIX_BYTES: usize = 8 + 4 + 4 + 4;

/// Size of bytes, bits, items, error rate, bits per entry, hash functions, entries and exponent.
const PER_LINK_BYTES: usize = 8 + 8 + 8 + 8 + 8 + 4 + 8 + 1;

/// Writes the header of chunks, or returns `None` if allocation fails.
pub fn write_header(object: &Object) -> Option<Vec<u8>> {
    let filters = object.all_filters().iter().map(FilterFields::from);
    header(object.totals().1, object.links()?, filters)
}

/// Encodes the header of chunks of these filters, or returns `None` if allocation fails.
fn header<'f>(
    items: u64,
    links: &Links,
    filters: impl Iterator<Item = FilterFields<'f>>,
) -> Option<Vec<u8>> {
    let count = u32::try_from(links.all.len()).unwrap_or(u32::MAX);
    let mut out = Buffer::default();
    out.uint(items);
    out.put(&count.to_le_bytes());
    out.put(&links.options.to_le_bytes());
    out.put(&links.factor.to_le_bytes());
    for (link, filter) in links.all.iter().zip(filters) {
        out.uint(filter.geometry.cell_bytes);
        out.uint(link.bits);
        out.uint(filter.items);
        out.double(link.error_rate);
        out.double(link.bits_per_entry);
        out.put(&filter.geometry.hashes.to_le_bytes());
        out.uint(filter.capacity);
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
    if !surplus.is_empty() || links.len() as u64 != number(&prefix[8..12]) {
        return Err("header's length is not that of its links".into());
    }
    let mut stored = Stored {
        items: number(&prefix[..8]),
        options: number(&prefix[12..16]),
        growth: number(&prefix[16..20]),
        links: memory::reserved(links.len()).ok_or(DecodeError::NoMemory)?,
        filters: memory::reserved(links.len()).ok_or(DecodeError::NoMemory)?,
    };
    for fields in links {
        let link = Link {
            bits: number(&fields[8..16]),
            error_rate: f64::from_bits(number(&fields[24..32])),
            bits_per_entry: f64::from_bits(number(&fields[32..40])),
            exponent: fields[52],
        };
        stored.filters.push(FilterOutline {
            geometry: link.geometry(number(&fields[..8]), number(&fields[40..44]))?,
            capacity: number(&fields[44..52]),
            items: number(&fields[16..24]),
            blob: Vec::new(),
        });
        stored.links.push(link);
    }
    stored.outline()
}

/// Writes the items of an outline into the header that it was read from, which may claim more of them.
pub fn write_items(outline: &Outline, header: &mut [u8]) {
    let (prefix, links) = header.split_at_mut(PREFIX_BYTES);
    let mut total = 0;
    for (link, filter) in links.chunks_mut(PER_LINK_BYTES).zip(outline.filters.iter()) {
        link[16..24].copy_from_slice(&filter.items.to_le_bytes());
        total += filter.items;
    }
    prefix[..8].copy_from_slice(&u64::to_le_bytes(total));
}

/// Reads a little-endian number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    let digits = bytes.iter().rev();
    digits.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
