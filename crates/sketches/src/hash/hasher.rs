//! The hash functions of an object.

use super::murmur;
use super::probe::Probe;
use super::sip::Seed;

/// How the items of an object are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hasher {
    /// `SipHash` under a seed: our own objects.
    Sip(Seed),
    /// `MurmurHash` of 64 bits: `RedisBloom`'s objects.
    Murmur64,
    /// `MurmurHash` of 32 bits: `RedisBloom`'s oldest objects.
    Murmur32,
}

impl Hasher {
    /// Hashes an item.
    #[inline]
    pub fn probe(&self, item: &[u8]) -> Probe {
        match self {
            Self::Sip(seed) => seed.probe(item),
            Self::Murmur64 => murmur::probe_64(item),
            Self::Murmur32 => murmur::probe_32(item),
        }
    }

    /// The number of bits of a hash.
    pub const fn bits(&self) -> u32 {
        match self {
            Self::Sip(_) | Self::Murmur64 => 64,
            Self::Murmur32 => 32,
        }
    }

    /// The seed of `SipHash`. `MurmurHash` has none.
    pub const fn seed(&self) -> Option<&Seed> {
        match self {
            Self::Sip(seed) => Some(seed),
            Self::Murmur64 | Self::Murmur32 => None,
        }
    }
}
