//! What the tests have in common.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use valkeybloom::bloom::codec::{DecodeError, RdbRead, RdbWrite};
use valkeybloom::bloom::{
    Added, AnyObject, BloomObject, Fraction, Growth, Limits, Params, Refusal, Seed, Width,
};

/// Runs a test with words of every width that this processor has; other tests, which run at the same
/// time, may find any of them.
pub fn at_each_width(mut test: impl FnMut(Width)) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let guard = ONE_AT_A_TIME.lock();
    let _guard = guard.unwrap_or_else(PoisonError::into_inner);
    for width in Width::ALL {
        if width <= Width::of_processor() {
            width.limit_to();
            test(width);
        }
    }
}

/// `SplitMix64` (Steele, Lea and Flood 2014).
pub struct Rng(u64);

impl Rng {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`. (Its bias, for ends this small, is far below what a test can see.)
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 7);
        while bytes.len() < length {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    pub fn seed(&mut self) -> Seed {
        Seed::new(self.bytes(32).try_into().unwrap())
    }
}

pub fn fraction(value: f64) -> Fraction {
    Fraction::new(value).unwrap()
}

/// Parameters with the default tightening ratio.
pub fn params(capacity: u64, error_rate: f64, expansion: u32) -> Params {
    Params {
        capacity,
        error_rate: fraction(error_rate),
        tightening: Fraction::HALF,
        growth: Growth::from_expansion(expansion),
    }
}

/// An empty object without limits.
pub fn object(params: &Params, seed: Seed) -> BloomObject {
    BloomObject::new(params, seed, Limits::Obey).unwrap()
}

/// Limits that nothing in these tests reaches, other than [`Limits::Obey`] those of a client.
pub const ROOMY: Limits = Limits::Within {
    filter_bytes: u64::MAX,
    object_bytes: u64::MAX,
    saturate: false,
};

pub fn add(object: &mut BloomObject, item: &[u8]) -> Result<Added, Refusal> {
    object.add(object.probe(item), || ROOMY)
}

/// Adds an item that there is room for, and tells whether it was new.
pub fn add_new(object: &mut BloomObject, item: &[u8]) -> bool {
    add(object, item).unwrap() == Added::New
}

/// Adds random items until it is enough, and gives those that were new.
#[track_caller]
pub fn grow(
    object: &mut BloomObject,
    rng: &mut Rng,
    enough: impl Fn(&BloomObject) -> bool,
) -> Vec<Vec<u8>> {
    let mut new = Vec::new();
    for _ in 0..10_000_000 {
        if enough(object) {
            return new;
        }
        let item = rng.bytes(16);
        if add_new(object, &item) {
            new.push(item);
        }
    }
    panic!("never enough");
}

/// The object of bits that this is.
#[track_caller]
pub fn plain(object: AnyObject) -> BloomObject {
    match object {
        AnyObject::Plain(object) => object,
        AnyObject::Extended(object) => panic!("it has periods or counters: {:?}", object.shape()),
    }
}

pub fn has(object: &BloomObject, item: &[u8]) -> bool {
    object.contains(object.probe(item))
}

/// One value of an RDB stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    Uint(u64),
    Double(f64),
    Bytes(Vec<u8>),
}

/// An RDB stream in memory: what is written at its end is read from its front.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream(pub VecDeque<Field>);

impl RdbWrite for Stream {
    fn uint(&mut self, value: u64) {
        self.0.push_back(Field::Uint(value));
    }

    fn double(&mut self, value: f64) {
        self.0.push_back(Field::Double(value));
    }

    fn bytes(&mut self, value: &[u8]) {
        self.0.push_back(Field::Bytes(value.to_vec()));
    }
}

impl RdbRead for Stream {
    fn uint(&mut self) -> Result<u64, DecodeError> {
        match self.0.pop_front() {
            Some(Field::Uint(value)) => Ok(value),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn double(&mut self) -> Result<f64, DecodeError> {
        match self.0.pop_front() {
            Some(Field::Double(value)) => Ok(value),
            _ => Err(DecodeError::Truncated),
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>, DecodeError> {
        match self.0.pop_front() {
            Some(Field::Bytes(value)) => Ok(value),
            _ => Err(DecodeError::Truncated),
        }
    }
}
