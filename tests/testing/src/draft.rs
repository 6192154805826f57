//! Objects of RedisBloom as files hold them, and their rules written down once more.

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::bloom::{Dialect, Object, rdb};

use crate::support::{Field, Rng, Stream, complete};
use murmur2::{murmur2, murmur64a};

/// Returns the positions of an item in a link.
pub fn positions(item: &[u8], wide: bool, hashes: u64, modulus: u64) -> Vec<u64> {
    let (a, b) = if wide {
        let a = murmur64a(item, 0xc6a4_a793_5bd1_e995);
        (a, murmur64a(item, a))
    } else {
        let a = murmur2(item, 0x9747_b28c);
        (u64::from(a), u64::from(murmur2(item, a)))
    };
    (0..hashes)
        .map(|i| a.wrapping_add(i.wrapping_mul(b)) % modulus)
        .collect()
}

/// A link as a file may hold it.
#[derive(Clone, Debug)]
pub struct Link {
    pub entries: u64,
    pub error: f64,
    pub hashes: u64,
    pub bpe: f64,
    pub bits: u64,
    pub n2: u64,
    pub bitmap: Vec<u8>,
    pub items: u64,
}

impl Link {
    pub fn new(entries: u64, error: f64, bits: u64, n2: u64) -> Self {
        let bpe = -error.ln() / 0.480_453_013_918_201;
        Self {
            entries,
            error,
            hashes: 7,
            bpe,
            bits,
            n2,
            bitmap: vec![0; usize::try_from(bits.div_ceil(8)).unwrap()],
            items: 0,
        }
    }

    fn modulus(&self) -> u64 {
        if self.n2 > 0 { 1 << self.n2 } else { self.bits }
    }

    /// Returns an empty link of the size that `RedisBloom` 8.8 gives it. Where bits are rounded up to a power of two, there
    /// are more entries.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::approx_constant,
        reason = "so it is computed there"
    )]
    fn sized(mut entries: u64, error: f64, is_rounded: bool) -> Self {
        let bpe = Self::new(entries, error, 0, 0).bpe;
        let need = entries as f64 * bpe;
        let (mut bits, mut n2) = ((need as u64).max(1), 0);
        if is_rounded {
            n2 = need.log2().floor() as u64 + 1;
            entries += (((1_u64 << n2) as f64 - bits as f64) / bpe) as u64;
            bits = 1 << n2;
        }
        Self {
            hashes: (0.693_147_180_559_945 * bpe).ceil() as u64,
            ..Self::new(entries, error, bits.next_multiple_of(64), n2)
        }
    }

    pub fn add(&mut self, item: &[u8], wide: bool) {
        for position in positions(item, wide, self.hashes, self.modulus()) {
            self.bitmap[usize::try_from(position / 8).unwrap()] |= 1 << (position % 8);
        }
        self.items += 1;
    }

    pub fn has(&self, item: &[u8], wide: bool) -> bool {
        positions(item, wide, self.hashes, self.modulus())
            .into_iter()
            .all(|p| self.bitmap[usize::try_from(p / 8).unwrap()] >> (p % 8) & 1 == 1)
    }
}

/// An object as a file may hold it.
#[derive(Clone, Debug)]
pub struct Draft {
    pub version: i32,
    pub items: u64,
    pub options: u64,
    pub growth: u64,
    pub links: Vec<Link>,
}

impl Draft {
    pub fn fields(&self) -> Stream {
        let mut fields = vec![
            Field::Uint(self.items),
            Field::Uint(self.links.len() as u64),
        ];
        if self.version >= 2 {
            fields.push(Field::Uint(self.options));
        }
        if self.version >= 4 {
            fields.push(Field::Uint(self.growth));
        }
        for link in &self.links {
            fields.push(Field::Uint(link.entries));
            fields.push(Field::Double(link.error));
            fields.push(Field::Uint(link.hashes));
            fields.push(Field::Double(link.bpe));
            if self.version >= 1 {
                fields.push(Field::Uint(link.bits));
                fields.push(Field::Uint(link.n2));
            }
            fields.push(Field::Bytes(link.bitmap.clone()));
            fields.push(Field::Uint(link.items));
        }
        Stream(fields.into())
    }

    /// Returns a new object as `RedisBloom` 8.8 makes it.
    pub fn made(entries: u64, rate: f64, growth: u64, is_fixed: bool) -> Self {
        let rate = rate.min(0.25);
        let (options, first) = if is_fixed {
            (13, rate)
        } else {
            (5, 0.5 * rate)
        };
        Self {
            version: 4,
            items: 0,
            options,
            growth,
            links: vec![Link::sized(entries, first, false)],
        }
    }

    /// Adds an item, and a link if the newest is full. Returns whether the item was new, or `None` if there is no room.
    pub fn add(&mut self, item: &[u8]) -> Option<bool> {
        let wide = self.options & 4 != 0;
        if self.links.iter().any(|link| link.has(item, wide)) {
            return Some(false);
        }
        let newest = self.links.last().unwrap();
        if newest.items >= newest.entries {
            if self.options & 8 != 0 {
                return None;
            }
            let (entries, error) = (newest.entries * self.growth, 0.5 * newest.error);
            let next = Link::sized(entries, error, self.options & 1 == 0);
            self.links.push(next);
        }
        self.links.last_mut().unwrap().add(item, wide);
        self.items += 1;
        Some(true)
    }

    pub fn read(&self) -> Result<Object, DecodeError> {
        read(self.fields(), self.version)
    }

    /// Returns the header of a chunked dump.
    pub fn header(&self) -> Vec<u8> {
        let mut header = self.items.to_le_bytes().to_vec();
        header.extend(u32::try_from(self.links.len()).unwrap().to_le_bytes());
        header.extend(&self.options.to_le_bytes()[..4]);
        header.extend(&self.growth.to_le_bytes()[..4]);
        for link in &self.links {
            header.extend((link.bitmap.len() as u64).to_le_bytes());
            header.extend(link.bits.to_le_bytes());
            header.extend(link.items.to_le_bytes());
            header.extend(link.error.to_le_bytes());
            header.extend(link.bpe.to_le_bytes());
            header.extend(&link.hashes.to_le_bytes()[..4]);
            header.extend(link.entries.to_le_bytes());
            header.push(link.n2.to_le_bytes()[0]);
        }
        header
    }
}

pub fn read(mut stream: Stream, version: i32) -> Result<Object, DecodeError> {
    rdb::read(Dialect::RedisBloom, version, &mut stream).map(complete)
}

/// Returns an object of each encoding and option, half full.
pub fn drafts() -> Vec<Draft> {
    // 958 bits in 120 bytes, as the first release sized a filter for 100 at 0.01.
    let old = Link::new(100, 0.01, 958, 0);
    let rounded = Link::new(106, 0.01, 1024, 10);
    let padded = Link {
        bitmap: vec![0; 144],
        ..Link::new(100, 0.005, 1152, 0)
    };
    // Two to the power of 4 are used of 64 bits.
    let small = Link {
        bitmap: vec![0; 8],
        ..Link::new(2, 0.05, 64, 4)
    };
    let mut drafts = Vec::new();
    for (version, options, first) in [
        (0, 0, &old),
        (1, 0, &rounded),
        (1, 0, &old),
        (2, 4, &rounded),
        (2, 0, &small),
        (3, 4, &rounded),
        (3, 5, &padded),
        (4, 5, &padded),
        (4, 13, &padded),
        (4, 4, &rounded),
        (4, 7, &padded),
    ] {
        let mut links = vec![first.clone()];
        if options & 8 == 0 {
            let entries = first.entries * 2;
            links.push(match version {
                // The first encoding does not say how many bits there are.
                0 => Link::new(entries, first.error, 1917, 0),
                _ => Link {
                    entries,
                    ..first.clone()
                },
            });
        }
        drafts.push(Draft {
            version,
            items: 0,
            options,
            growth: 2,
            links,
        });
    }
    let mut rng = Rng::new(21);
    for draft in &mut drafts {
        let wide = draft.options & 4 != 0;
        let last = draft.links.len() - 1;
        for (index, link) in draft.links.iter_mut().enumerate() {
            let count = link.entries / if index < last { 1 } else { 2 };
            (0..count).for_each(|_| link.add(&rng.item(30), wide));
            draft.items += count;
        }
    }
    drafts
}
