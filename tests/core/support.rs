//! What the tests have in common.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use valkeybloom::bloom::chunks::{self, Begun, Progress};
use valkeybloom::bloom::codec::{self, DecodeError, RdbRead, RdbWrite};
use valkeybloom::bloom::{
    Added, AnyObject, BloomObject, Extended, Fraction, Growth, Limits, Params, Refusal, Seed,
    Shape, Time, Width, Window,
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

/// The shape of an object with a window.
pub fn windowed(params: Params, period_ms: u64, periods: u64) -> Shape {
    Shape {
        window: Some(Window::new(period_ms, periods).unwrap()),
        ..Shape::plain(params)
    }
}

/// The shape of an object with counters.
pub fn counting(params: Params) -> Shape {
    Shape {
        counting: true,
        ..Shape::plain(params)
    }
}

/// An empty object without limits, made at the epoch.
pub fn extended(shape: &Shape, seed: Seed) -> Extended {
    Extended::new(shape, seed, Time::at(0), Limits::Obey).unwrap()
}

/// Adds an item as a write does.
pub fn add_at(object: &mut Extended, item: &[u8], now_ms: u64) -> Result<Added, Refusal> {
    object.tidy(now_ms);
    object.add(object.probe(item), Time::at(now_ms), None, || ROOMY)
}

pub fn dump_of(object: &Extended) -> Vec<u8> {
    codec::encode_extended(object)
}

/// Whatever kind it is, the object of a piece after the other.
#[track_caller]
pub fn through_chunks(object: &AnyObject) -> AnyObject {
    let (mut cursor, header) = object.piece(0);
    let mut partial = match chunks::begin(header.bytes(), Limits::Obey).unwrap() {
        Begun::Partial(partial) => partial,
        Begun::Complete(copy) => {
            assert_eq!(object.piece(cursor).0, 0);
            return copy;
        }
    };
    loop {
        let (next, chunk) = object.piece(cursor);
        cursor = next;
        match partial.load(cursor, chunk.bytes()).unwrap() {
            Progress::Partial => {}
            Progress::Complete(copy) => {
                assert_eq!(chunks::piece_of_any(object, cursor).0, 0);
                return copy;
            }
        }
    }
}

/// What comes out of each of the stored forms, which has to be the same.
#[track_caller]
pub fn through_every_form(object: &Extended) -> Extended {
    let dump = dump_of(object);
    let any = AnyObject::Extended(Box::new(object.try_clone().unwrap()));
    assert_eq!(any.encoded_len(), dump.len());
    let mut stream = Stream::default();
    any.write_rdb(&mut stream);
    assert_eq!(RdbRead::uint(&mut stream), Ok(1));
    let read = codec::read_extended(&mut stream).unwrap();
    assert!(stream.0.is_empty(), "left behind: {stream:?}");
    for copy in [AnyObject::decode(&dump).unwrap(), through_chunks(&any)] {
        same(&of_periods(copy), object);
    }
    same(&read, object);
    read
}

#[track_caller]
fn same(copy: &Extended, object: &Extended) {
    assert!(dump_of(copy) == dump_of(object), "other bytes");
    assert_eq!(copy.shape(), object.shape());
    assert_eq!(copy.seed(), object.seed());
    assert_eq!(copy.totals(), object.totals());
}

/// The object with periods or counters that this is.
#[track_caller]
pub fn of_periods(object: AnyObject) -> Extended {
    match object {
        AnyObject::Extended(object) => *object,
        AnyObject::Plain(object) => panic!("a plain one: {:?}", object.params()),
    }
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
