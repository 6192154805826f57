//! Objects of RedisBloom: its hash functions, its sizes, its bytes.
//!
//! Such an object answers and grows as there, bit for bit, and what is written can be read there. A
//! filter is called a *link* in those bytes, its capacity *entries*.
//!
//! | form | fields |
//! |---|---|
//! | RDB, encoding versions 0 to 4 | items in all, number of links, options (from 2 on), growth factor (from 4 on); per link entries, error rate, hash functions, bits per entry, bits and exponent of two (both from 1 on), bitmap, items |
//! | header of a chunked dump | items u64, number of links u32, options u32, growth factor u32; per link bytes u64, bits u64, items u64, error rate f64, bits per entry f64, hash functions u32, entries u64, exponent of two u8 |
//!
//! Numbers are little endian. The bits of a link are numbered as in a filter of this module, and
//! position `i` of an item is `(a + i·b) mod 2⁶⁴ mod bits`, of hashes `a` and `b`: `MurmurHash64A` of
//! the item, and again with the first for its seed; in old objects `MurmurHash2` of 32 bits.
//! (MurmurHash: Austin Appleby, in the public domain.)

use std::hash::Hash;

use super::codec::{DecodeError, RdbRead, RdbWrite};
use super::filter::{Filter, MAX_HASHES};
use super::machine;
use super::object::Refusal;
use super::probe::Probe;
use super::sizing::{Fraction, Limits, MAX_CAPACITY, Sums};

/// The encoding version that is written, and the highest that is read.
pub const RDB_VERSION: i32 = 4;

/// Bits are not rounded up to a power of two.
const NO_ROUND: u32 = 1;
/// Hashes of 64 bits.
const WIDE: u32 = 4;
/// The object does not grow.
const NO_SCALING: u32 = 8;
/// All options that there are; 2 says that a capacity was given as an exponent of two.
const OPTIONS: u32 = 15;

/// What an object of RedisBloom is, beside its filters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RedisBloom {
    pub(super) options: u32,
    pub(super) growth: u32,
    pub(super) links: Vec<Link>,
}

/// What a link is, beside its bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Link {
    pub(super) error_rate: f64,
    pub(super) bits_per_entry: f64,
    /// As written, which need not be what positions are reduced by.
    pub(super) bits: u64,
    /// Where it is not 0, positions are reduced by two to the power of it.
    pub(super) exponent: u8,
}

impl Link {
    /// What is alike in links of one kind.
    pub(super) fn kind(&self) -> impl Eq + Hash + use<> {
        let numbers = [self.error_rate, self.bits_per_entry].map(f64::to_bits);
        (numbers, self.bits, self.exponent)
    }
}

/// A link as it was stored.
#[derive(Debug)]
pub struct LinkParts {
    entries: u64,
    hashes: u64,
    items: u64,
    /// Length of the bitmap in bytes; in a header there is none yet.
    pub(super) bytes: u64,
    pub(super) bitmap: Vec<u8>,
    link: Link,
}

/// An object as it was stored, not checked yet.
#[derive(Debug)]
pub struct Parts {
    items: u64,
    options: u64,
    growth: u64,
    pub(super) links: Vec<LinkParts>,
}

impl Parts {
    /// Checks all that does not need the bitmaps.
    ///
    /// # Errors
    /// What is wrong, in words for a log.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.links.is_empty() {
            return Err("no filters");
        }
        if self.options > u64::from(OPTIONS) {
            return Err("unknown options");
        }
        if self.growth > u64::from(u32::MAX) {
            return Err("growth factor out of range");
        }
        let mut sums = Sums::default();
        for part in &self.links {
            part.check()?;
            sums.add(part.entries, part.items, part.bytes)?;
        }
        if sums.items != self.items {
            return Err("items of the filters are not the object's");
        }
        Ok(())
    }

    /// What becomes of the parts: the object's own, and its filters.
    ///
    /// # Errors
    /// What is wrong, in words for a log.
    pub(super) fn finish(self) -> Result<(RedisBloom, Vec<Filter>), &'static str> {
        self.check()?;
        let (mut links, mut filters) = (Vec::new(), Vec::new());
        links.reserve_exact(self.links.len());
        filters.reserve_exact(self.links.len());
        for part in self.links {
            let hashes = u32::try_from(part.hashes).map_err(|_| "hash functions out of range")?;
            if part.bitmap.len() as u64 != part.bytes {
                return Err("filter's length is not what its header says");
            }
            let bitmap = part.bitmap.into_boxed_slice();
            let bits = part.link.modulus();
            let filter = Filter::plain(bitmap, bits, hashes, part.entries, part.items);
            filters.push(filter.ok_or("more bytes than bits")?);
            links.push(part.link);
        }
        let origin = RedisBloom {
            options: u32::try_from(self.options).map_err(|_| "unknown options")?,
            growth: u32::try_from(self.growth).map_err(|_| "growth factor out of range")?,
            links,
        };
        Ok((origin, filters))
    }
}

impl LinkParts {
    fn check(&self) -> Result<(), &'static str> {
        let link = &self.link;
        if self.entries == 0 {
            return Err("capacity of zero");
        }
        if Fraction::new(link.error_rate).is_none() {
            return Err("error rate out of range");
        }
        if !(link.bits_per_entry > 0.0 && link.bits_per_entry.is_finite()) {
            return Err("bits per entry out of range");
        }
        if !(1..=u64::from(MAX_HASHES)).contains(&self.hashes) {
            return Err("number of hash functions out of range");
        }
        if link.bits == 0 {
            return Err("filter of zero bits");
        }
        if link.exponent > 63 || link.bits < link.modulus() {
            return Err("exponent out of range");
        }
        if self.bytes > u64::MAX / 16 || self.bytes * 8 < link.bits {
            return Err("bitmap shorter than its bits");
        }
        if Filter::slack(self.bytes, link.modulus()).is_none() {
            return Err("more bytes than bits");
        }
        Ok(())
    }
}

impl Link {
    /// What positions are reduced by.
    const fn modulus(&self) -> u64 {
        match self.exponent {
            0 => self.bits,
            exponent => 1 << (exponent % 64),
        }
    }
}

/// A link to be made.
pub(super) struct NextLink {
    link: Link,
    entries: u64,
    hashes: u32,
    bytes: u64,
}

impl RedisBloom {
    /// Whether hashes have 64 bits, and not 32.
    pub(super) const fn is_wide(&self) -> bool {
        self.options & WIDE != 0
    }

    /// The growth factor, 0 for an object that does not grow.
    pub(super) const fn expansion(&self) -> u32 {
        if self.options & NO_SCALING == 0 {
            self.growth
        } else {
            0
        }
    }

    /// The rate of the whole object: the links' rates, and the last one's again for all that are to
    /// come, as links halve it. From the end on, the sum of what was halved is exact.
    pub(super) fn error_rate(&self) -> Option<Fraction> {
        let rates = self.links.iter().rev().map(|link| link.error_rate);
        let last = self.links.last()?.error_rate;
        let to_come = if self.expansion() == 0 { 0.0 } else { last };
        let asked = rates.fold(to_come, |sum, rate| sum + rate);
        Fraction::new(asked).or(Fraction::new(self.links.first()?.error_rate))
    }

    /// Bytes beside the object and its filters.
    pub(super) const fn memory_bytes(&self) -> u64 {
        (size_of::<Self>() + self.links.capacity() * size_of::<Link>()) as u64
    }

    /// The link behind one of so many entries at this rate: half the rate, `growth` times the entries.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::approx_constant,
        reason = "the formulas are in doubles, of so many digits; a cast from a double saturates"
    )]
    fn behind(&self, entries: u64, error_rate: f64) -> Result<NextLink, Refusal> {
        let growth = u64::from(self.growth);
        let mut entries = entries
            .checked_mul(growth)
            .filter(|entries| (1..=MAX_CAPACITY).contains(entries))
            .ok_or(Refusal::MemoryLimit)?;
        let error_rate = error_rate * 0.5;
        let rate = Fraction::new(error_rate).filter(|_| error_rate.is_normal());
        let rate = rate.ok_or(Refusal::RateTooSmall)?.get();
        // ln 2 and its square, to the digits that RedisBloom has.
        let bits_per_entry = -rate.ln() / 0.480_453_013_918_201;
        let hashes = (0.693_147_180_559_945 * bits_per_entry).ceil() as u32;
        let least = entries as f64 * bits_per_entry;
        // More than memory: no limit admits it.
        if least >= (1_u64 << 60) as f64 {
            return Err(Refusal::MemoryLimit);
        }
        let (mut bits, mut exponent) = ((least as u64).max(1), 0);
        if self.options & NO_ROUND == 0 {
            let rounded = least.max(1.0).log2().floor() as u32 + 1;
            // The surplus takes more entries.
            entries += (((1_u64 << rounded) - bits) as f64 / bits_per_entry) as u64;
            bits = 1 << rounded;
            exponent = rounded.to_le_bytes()[0];
        }
        let bytes = bits.div_ceil(64) * 8;
        Ok(NextLink {
            link: Link {
                error_rate,
                bits_per_entry,
                bits: bytes * 8,
                exponent,
            },
            entries,
            hashes,
            bytes,
        })
    }

    /// The next link, within these limits.
    pub(super) fn next(
        &self,
        newest: &Filter,
        capacity: u64,
        object_bytes: u64,
        limits: Limits,
    ) -> Result<NextLink, Refusal> {
        let link = self.links.last().ok_or(Refusal::MemoryLimit)?;
        let next = self.behind(newest.capacity(), link.error_rate)?;
        next.admit(capacity, object_bytes, limits)?;
        Ok(next)
    }

    /// How many items the object can come to hold before something stops its growth.
    pub(super) fn reach(&self, newest: &Filter, capacity: u64, bytes: u64, limits: Limits) -> u64 {
        let (mut capacity, mut bytes) = (capacity, bytes);
        let (mut entries, mut rate) = (
            newest.capacity(),
            self.links.last().map_or(0.0, |link| link.error_rate),
        );
        // The rate halves: there are some thousand turns at the most.
        while self.expansion() > 0 {
            let Ok(next) = self.behind(entries, rate) else {
                break;
            };
            if next.admit(capacity, bytes, limits).is_err() {
                break;
            }
            capacity += next.entries;
            bytes = bytes.saturating_add(next.cost());
            (entries, rate) = (next.entries, next.link.error_rate);
        }
        capacity
    }
}

impl NextLink {
    fn cost(&self) -> u64 {
        self.bytes + (size_of::<Filter>() + size_of::<Link>()) as u64
    }

    fn admit(&self, capacity: u64, object_bytes: u64, limits: Limits) -> Result<(), Refusal> {
        let total = capacity.checked_add(self.entries);
        let fits = total.is_some_and(|total| total <= MAX_CAPACITY)
            && limits.admit_filter(self.bytes)
            && limits.admit_object(object_bytes.saturating_add(self.cost()));
        if fits {
            Ok(())
        } else {
            Err(Refusal::MemoryLimit)
        }
    }

    /// The link, and an empty filter for it.
    pub(super) fn make(self) -> Result<(Link, Filter), Refusal> {
        let bytes = usize::try_from(self.bytes).map_err(|_| Refusal::OutOfMemory)?;
        let bitmap = machine::zeroed(bytes).ok_or(Refusal::OutOfMemory)?;
        let bits = self.link.modulus();
        let filter = Filter::plain(bitmap, bits, self.hashes, self.entries, 0);
        Ok((self.link, filter.ok_or(Refusal::OutOfMemory)?))
    }
}

/// Both hashes of an item.
#[inline]
pub(super) fn probe(wide: bool, item: &[u8]) -> Probe {
    if wide {
        let a = murmur_64(item, 0xc6a4_a793_5bd1_e995);
        Probe::new(a, murmur_64(item, a))
    } else {
        let a = murmur_32(item, 0x9747_b28c);
        Probe::new(u64::from(a), u64::from(murmur_32(item, a)))
    }
}

/// `MurmurHash64A`.
#[inline]
fn murmur_64(item: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = seed ^ (item.len() as u64).wrapping_mul(M);
    let (blocks, tail) = item.as_chunks::<8>();
    for block in blocks {
        let mut k = u64::from_le_bytes(*block).wrapping_mul(M);
        k ^= k >> 47;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !tail.is_empty() {
        let rest = tail
            .iter()
            .rev()
            .fold(0, |rest, byte| rest << 8 | u64::from(*byte));
        hash = (hash ^ rest).wrapping_mul(M);
    }
    hash ^= hash >> 47;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 47
}

/// `MurmurHash2`.
#[inline]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the length modulo 2³² is what is mixed in"
)]
fn murmur_32(item: &[u8], seed: u32) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = seed ^ item.len() as u32;
    let (blocks, tail) = item.as_chunks::<4>();
    for block in blocks {
        let mut k = u32::from_le_bytes(*block).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        let rest = tail
            .iter()
            .rev()
            .fold(0, |rest, byte| rest << 8 | u32::from(*byte));
        hash = (hash ^ rest).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

/// Reads RDB fields, whose first two, the items and the number of links, were read already.
///
/// # Errors
/// Any [`DecodeError`].
pub(super) fn read_rdb(
    items: u64,
    count: u64,
    version: i32,
    from: &mut impl RdbRead,
) -> Result<Parts, DecodeError> {
    if !(0..=RDB_VERSION).contains(&version) {
        return Err(DecodeError::UnsupportedVersion);
    }
    let options = if version >= 2 { from.uint()? } else { 0 };
    let growth = if version >= 4 { from.uint()? } else { 2 };
    let mut links = Vec::new();
    for _ in 0..count {
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
        let items = from.uint()?;
        links.push(LinkParts {
            entries,
            hashes,
            items,
            bytes: bitmap.len() as u64,
            bitmap,
            link: Link {
                error_rate,
                bits_per_entry,
                bits,
                exponent: u8::try_from(exponent).map_err(|_| "exponent out of range")?,
            },
        });
    }
    Ok(Parts {
        items,
        options,
        growth,
        links,
    })
}

/// Writes RDB fields of [`RDB_VERSION`].
pub(super) fn write_rdb(
    origin: &RedisBloom,
    items: u64,
    filters: &[Filter],
    to: &mut impl RdbWrite,
) {
    to.uint(items);
    to.uint(filters.len() as u64);
    to.uint(u64::from(origin.options));
    to.uint(u64::from(origin.growth));
    for (link, filter) in origin.links.iter().zip(filters) {
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

/// Writes the header of a chunked dump.
pub(super) fn encode_header(origin: &RedisBloom, items: u64, filters: &[Filter]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PREFIX_BYTES + filters.len() * PER_LINK_BYTES);
    out.extend(items.to_le_bytes());
    out.extend(
        u32::try_from(filters.len())
            .unwrap_or(u32::MAX)
            .to_le_bytes(),
    );
    out.extend(origin.options.to_le_bytes());
    out.extend(origin.growth.to_le_bytes());
    for (link, filter) in origin.links.iter().zip(filters) {
        out.extend((filter.bitmap().len() as u64).to_le_bytes());
        out.extend(link.bits.to_le_bytes());
        out.extend(filter.items().to_le_bytes());
        out.extend(link.error_rate.to_le_bytes());
        out.extend(link.bits_per_entry.to_le_bytes());
        out.extend(filter.hashes().to_le_bytes());
        out.extend(filter.capacity().to_le_bytes());
        out.push(link.exponent);
    }
    out
}

/// Reads the header of a chunked dump; bitmaps are to come.
///
/// # Errors
/// Any [`DecodeError`].
pub(super) fn decode_header(header: &[u8]) -> Result<Parts, DecodeError> {
    let (prefix, rest) = header
        .split_first_chunk::<PREFIX_BYTES>()
        .ok_or(DecodeError::Truncated)?;
    let (links, behind) = rest.as_chunks::<PER_LINK_BYTES>();
    let count = number(&prefix[8..12]);
    if !behind.is_empty() || links.len() as u64 != count {
        return Err("header's length is not that of its links".into());
    }
    let links = links.iter().map(|link| LinkParts {
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
    });
    Ok(Parts {
        items: number(&prefix[..8]),
        options: number(&prefix[12..16]),
        growth: number(&prefix[16..20]),
        links: links.collect(),
    })
}

/// A little-endian number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_hashes() {
        for (item, a, b) in [
            ("foo", 0x822b_4f99_b121_f10d, 0x9d63_d52a_557f_61c2),
            ("", 0x1ab1_1ea5_a7b2_c56e, 0xbbdd_cb5a_b56d_d547),
            ("a", 0x4292_cee2_27b9_150a, 0x7e9b_5270_31f5_0c11),
            ("item", 0x369c_43a9_71e0_ac3f, 0x013d_6bb1_8d1a_6a54),
            ("12345678", 0x700b_ea34_3394_41c4, 0x94cc_ce09_94c5_c064),
            ("123456789", 0xb791_da69_f9d3_95e3, 0xabf3_563d_45e8_173b),
        ] {
            assert_eq!(probe(true, item.as_bytes()).hashes(), (a, b), "{item}");
        }
        let narrow = probe(false, b"foo").hashes();
        assert_eq!(narrow, (0x23a2_56d0, 0x9fbc_0655));
    }

    #[test]
    fn the_published_sizes() {
        // Of an object at twice the rate, one that is grown by 1: the same entries at half the rate.
        for (rate, entries, bytes, hashes) in [
            (0.005, 100, 144, 8),
            (0.0005, 50_000, 98_880, 11),
            (0.005, 10, 16, 8),
            (0.0025, 20, 32, 9),
            (0.00125, 40, 72, 10),
            (0.000_625, 80, 160, 11),
            (0.0005, 100, 200, 11),
            (0.000_25, 200, 432, 12),
            (0.000_015_625, 3200, 9216, 16),
        ] {
            let origin = RedisBloom {
                options: NO_ROUND | WIDE,
                growth: 1,
                links: Vec::new(),
            };
            let next = origin.behind(entries, rate * 2.0).unwrap();
            assert_eq!((next.bytes, next.link.bits), (bytes, bytes * 8), "{rate}");
            assert_eq!((next.hashes, next.entries), (hashes, entries), "{rate}");
        }
    }
}
