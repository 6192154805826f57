//! The hash functions of an object.

use super::murmur;
use super::probe::Probe;
use super::sip::Seed;

/// The hash function of an object's items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hasher {
    /// `SipHash` with a seed, for our own objects.
    Sip(Seed),
    /// 64-bit `MurmurHash`, for `RedisBloom`'s objects.
    Murmur64,
    /// 32-bit `MurmurHash`, for `RedisBloom`'s oldest objects.
    Murmur32,
}

impl Hasher {
    /// Hashes an item.
    #[inline(always)]
    pub fn probe(&self, item: &[u8]) -> Probe {
        match self {
            Self::Sip(seed) => seed.probe(item),
            Self::Murmur64 => murmur::probe_64(item),
            Self::Murmur32 => murmur::probe_32(item),
        }
    }

    /// Returns the number of bits of a hash.
    pub const fn bits(&self) -> u32 {
        match self {
            Self::Sip(_) | Self::Murmur64 => 64,
            Self::Murmur32 => 32,
        }
    }

    /// Returns the seed of `SipHash`, or `None` for `MurmurHash`, which has no seed.
    pub const fn seed(&self) -> Option<&Seed> {
        match self {
            Self::Sip(seed) => Some(seed),
            Self::Murmur64 | Self::Murmur32 => None,
        }
    }
}
