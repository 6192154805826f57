//! Helpers that the tests share.

mod relocation;
mod stream;

use std::sync::{Mutex, PoisonError};

use valkeybloom_sketches::bloom::chunks::{self, LoadError, Partial, Value};
use valkeybloom_sketches::bloom::{
    Added, Dialect, Filter, Growth, Kind, Limits, Object, Params, Refusal, Shape, Tightening, Time,
    Window, dump, rdb,
};
use valkeybloom_sketches::tdigest::{self, TDigest};
use valkeybloom_sketches::{DecodeError, Fraction, Seed, Width};

pub use crate::plain::Field;
use crate::plain::{Plain, PlainFilter};
pub use relocation::{Moving, Weighing, relocate};
pub use stream::Stream;

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

    /// Returns the seed of what follows.
    pub const fn state(&self) -> u64 {
        self.0
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`. (Its bias, for ends this small, is far below what a test can see.)
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// Returns true once in `times` calls, on average.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
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

    /// Returns bytes of any length below `end`.
    pub fn item(&mut self, end: usize) -> Vec<u8> {
        let length = self.below(end);
        self.bytes(length)
    }

    pub fn seed(&mut self) -> Seed {
        Seed::new(self.bytes(32).try_into().unwrap())
    }
}

/// Numbers that are neither an error rate nor a tightening ratio.
pub const NO_FRACTIONS: [f64; 12] = [
    0.0,
    -0.0,
    1.0,
    -0.1,
    1.5,
    f64::NAN,
    -f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::MAX,
    1.0 + f64::EPSILON,
    -5e-324,
];

/// Returns the bytes of hexadecimal digits.
pub fn unhex(digits: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.as_bytes().chunks(2).map(byte).collect()
}

pub fn fraction(value: f64) -> Fraction {
    Fraction::new(value).unwrap()
}

/// Returns a tightening ratio of an object that this module makes.
pub fn tightening(ratio: f64) -> Tightening {
    Tightening::ours(fraction(ratio))
}

/// Returns the tightening of an object that valkey-bloom made.
pub fn of_valkey_bloom(ratio: f64) -> Tightening {
    Tightening::of_valkey_bloom(fraction(ratio))
}

/// Parameters with the default tightening ratio.
pub fn params(capacity: u64, error_rate: f64, expansion: u32) -> Params {
    Params {
        capacity,
        error_rate: fraction(error_rate),
        tightening: Tightening::HALF,
        growth: Growth::from_expansion(expansion),
    }
}

/// Returns parameters with another tightening ratio.
pub const fn tightened(tightening: Tightening, params: Params) -> Params {
    Params {
        tightening,
        ..params
    }
}

/// Returns the shape of an object with a window.
pub fn windowed(params: Params, period_ms: u64, periods: u64) -> Shape {
    Shape {
        params,
        kind: Kind::Windowed(Window::new(period_ms, periods).unwrap()),
    }
}

/// Returns the shape of an object that counts.
pub const fn counting(params: Params) -> Shape {
    Shape {
        params,
        kind: Kind::Counting,
    }
}

/// Returns the shape of an object that begins small.
pub const fn scaled_to(params: Params) -> Shape {
    Shape {
        params,
        kind: Kind::ScaledTo,
    }
}

/// Returns the laws of growth by a series, written down once more: the rate of filter `index`, or `None` where growth
/// ends because a double can't hold it.
#[allow(clippy::cast_precision_loss, reason = "indices are small")]
pub fn rate_of(params: &Params, index: u64) -> Option<Fraction> {
    let (p, r) = (params.error_rate.get(), params.tightening.ratio().get());
    if params.growth == Growth::Fixed {
        return Some(params.error_rate);
    }
    if params.tightening == Tightening::HALF {
        return Fraction::new(p / ((index as f64 + 1.0) * (index as f64 + 2.0)));
    }
    // By squaring, since the last bit counts.
    let (mut power, mut base, mut exponent) = (1.0, r, index);
    while exponent > 0 {
        if exponent % 2 == 1 {
            power *= base;
        }
        base *= base;
        exponent /= 2;
    }
    if params.tightening.is_ours() {
        return Fraction::new(p * (1.0 - r) * power);
    }
    // valkey-bloom stops at the least number that has all its digits.
    Fraction::new(p * power).filter(|rate| rate.get() > f64::MIN_POSITIVE)
}

/// Limits that nothing in these tests reaches, other than [`Limits::NONE`] those of a client.
pub const ROOMY: Limits = Limits {
    filter_bytes: u64::MAX,
    object_bytes: u64::MAX,
    saturate: false,
};

/// Returns limits on a filter and on an object, in bytes.
pub const fn within(filter_bytes: u64, object_bytes: u64) -> Limits {
    Limits {
        filter_bytes,
        object_bytes,
        saturate: false,
    }
}

/// The clock of objects without a window, which never look at it.
pub const NO_CLOCK: fn() -> u64 = || panic!("only a window has to do with the time");

/// Returns an empty plain object without limits.
pub fn object(params: &Params, seed: Seed) -> Object {
    Object::plain(params, seed, Limits::NONE).unwrap()
}

/// Returns an empty object without limits.
pub fn object_of(shape: &Shape, seed: Seed) -> Object {
    Object::new(shape, seed, Limits::NONE).unwrap()
}

/// Adds an item to an object without a window.
pub fn add(object: &mut Object, item: &[u8]) -> Result<Added, Refusal> {
    object.add(item, Time::default(), || ROOMY)
}

/// Adds an item that there is room for. Returns whether it was new.
pub fn add_new(object: &mut Object, item: &[u8]) -> bool {
    add(object, item).unwrap() == Added::New
}

/// Adds an item as a write does.
pub fn add_at(object: &mut Object, item: &[u8], now_ms: u64) -> Result<Added, Refusal> {
    object.tidy(now_ms);
    object.add(item, Time::at(now_ms), || ROOMY)
}

/// Adds items together to an object without a window, and returns the outcomes.
pub fn add_each<I: AsRef<[u8]>>(
    object: &mut Object,
    items: &[I],
    limits: Limits,
) -> Vec<Result<Added, Refusal>> {
    add_each_at(object, items, Time::default(), limits)
}

/// Adds items together at a time, and returns the outcomes.
pub fn add_each_at<I: AsRef<[u8]>>(
    object: &mut Object,
    items: &[I],
    time: Time,
    limits: Limits,
) -> Vec<Result<Added, Refusal>> {
    let mut outcomes = Vec::new();
    let items = items.iter().map(AsRef::as_ref);
    object.add_each(items, time, || limits, |o| outcomes.push(o));
    outcomes
}

/// Returns whether an object without a window claims an item.
pub fn has(object: &Object, item: &[u8]) -> bool {
    object.contains(item, NO_CLOCK)
}

/// Returns whether an object claims an item at a time.
pub fn has_at(object: &Object, item: &[u8], now_ms: u64) -> bool {
    object.contains(item, || now_ms)
}

/// Which of the items an object without a window claims, looked up together.
pub fn has_each<I: AsRef<[u8]>>(object: &Object, items: &[I]) -> Vec<bool> {
    has_each_by(object, items, NO_CLOCK)
}

/// Which of the items an object claims at a time, looked up together.
pub fn has_each_at<I: AsRef<[u8]>>(object: &Object, items: &[I], now_ms: u64) -> Vec<bool> {
    has_each_by(object, items, || now_ms)
}

fn has_each_by<I: AsRef<[u8]>>(object: &Object, items: &[I], now: impl Fn() -> u64) -> Vec<bool> {
    let mut answers = Vec::new();
    let items = items.iter().map(AsRef::as_ref);
    object.contains_each(items, now, |answer| answers.push(answer));
    answers
}

/// Number of items of an object without a window.
pub fn items(object: &Object) -> u64 {
    object.items(NO_CLOCK)
}

/// Returns the filters of a stack, oldest first.
pub fn filters(object: &Object) -> Vec<&Filter> {
    object.filters().map(|(filter, _)| filter).collect()
}

/// Returns the cells of all filters of an object, concatenated.
pub fn bitmaps(object: &Object) -> Vec<u8> {
    let bitmaps = object.filters().map(|(filter, _)| filter.bitmap());
    bitmaps.collect::<Vec<_>>().concat()
}

/// The size of a filter in the table of a stack, in bytes.
pub const FILTER_BYTES: u64 = 48;

/// Adds random items until it is enough, and returns those that were new.
#[track_caller]
pub fn grow(object: &mut Object, rng: &mut Rng, enough: impl Fn(&Object) -> bool) -> Vec<Vec<u8>> {
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

/// Returns whether an object without a window has `filters` filters, all of them full.
pub fn is_full(object: &Object, filters: u64) -> bool {
    let (count, items, capacity) = object.totals();
    count == filters && items == capacity
}

/// Returns whether an object has `filters` filters, the newest of them half full.
pub fn is_half_full(object: &Object, filters: usize) -> bool {
    let newest = object.filters().last().unwrap().0;
    object.filters().count() == filters && newest.items() * 2 >= newest.capacity()
}

/// Returns a full filter of these bits.
pub fn filter(hashes: u32, seed: &Seed, items: u64, bitmap: Vec<u8>) -> PlainFilter {
    PlainFilter {
        hashes,
        seed: *seed.as_bytes(),
        ..PlainFilter::new(items, items, bitmap)
    }
}

/// Returns the plain object, of a rate of 1 %, that holds these filters. Their seed is not the fixed one.
pub fn of_filters(expansion: u32, filters: Vec<PlainFilter>) -> Object {
    let plain = Plain {
        expansion: expansion.into(),
        filters,
        ..Plain::new()
    };
    dump::decode(&plain.dump()).unwrap()
}

#[track_caller]
pub fn dump_of(object: &Object) -> Vec<u8> {
    dump::encode(object).unwrap()
}

/// Returns the fields of an object in RDB.
pub fn fields_of(object: &Object) -> Stream {
    Stream::of(|to| rdb::write(object, to))
}

/// Returns the fields of a partial object in RDB.
pub fn fields_of_partial(partial: &Partial) -> Stream {
    Stream::of(|to| partial.write_rdb(to))
}

/// Returns all that can be said of an object in bytes.
pub fn said_of(object: &Object) -> (Stream, Option<Vec<u8>>) {
    (fields_of(object), dump::encode(object))
}

/// Returns all that can be observed of a digest.
pub fn state_of(digest: &TDigest) -> (Stream, [usize; 2], [i64; 3]) {
    (
        Stream::of(|to| tdigest::wire::write_rdb(digest, to)),
        [digest.merged_nodes(), digest.unmerged_nodes()],
        [
            digest.merged_weight(),
            digest.unmerged_weight(),
            digest.compressions(),
        ],
    )
}

/// Returns the value that a stream holds, all of it.
pub fn read_value(
    dialect: Dialect,
    version: i32,
    mut stream: Stream,
) -> Result<Value, DecodeError> {
    let value = rdb::read(dialect, version, &mut stream)?;
    assert_eq!(stream, Stream::default(), "left over");
    Ok(value)
}

/// Returns the object that a stream holds, of this dialect in its newest version.
pub fn read_fields(dialect: Dialect, stream: Stream) -> Result<Object, DecodeError> {
    read_value(dialect, dialect.rdb_version(), stream).map(complete)
}

/// Returns the header and all chunks, with the cursors after them.
pub fn pieces(object: &Object) -> Vec<(u64, Vec<u8>)> {
    let pieces = chunks::pieces(object);
    pieces.map(|(next, piece)| (next, piece.to_vec())).collect()
}

pub fn header_of(object: &Object) -> Vec<u8> {
    let (next, piece) = chunks::piece(object, 0).unwrap();
    assert_eq!(next, 1);
    piece.to_vec()
}

/// Reads a header; no limits are in the way here, so an error is one of decoding.
pub fn begin(header: &[u8]) -> Result<Value, DecodeError> {
    chunks::begin(header, Limits::NONE).map_err(|error| match error {
        LoadError::Decode(error) => error,
        LoadError::TooLarge => panic!("refused by limits"),
    })
}

/// Begins a partial object from a header that chunks follow.
pub fn begin_partial(header: &[u8]) -> Result<Partial, DecodeError> {
    begin(header).map(partial)
}

#[track_caller]
pub fn complete(value: Value) -> Object {
    match value {
        Value::Complete(object) => object,
        Value::Partial(partial) => panic!("chunks are lacking: {partial:?}"),
    }
}

#[track_caller]
pub fn partial(value: Value) -> Partial {
    match value {
        Value::Partial(partial) => *partial,
        Value::Complete(object) => panic!("complete without chunks: {:?}", object.shape()),
    }
}

/// Returns the object that the pieces of an object build, which one pass and single calls give alike.
#[track_caller]
pub fn through_chunks(object: &Object) -> Object {
    let mut pieces = chunks::pieces(object);
    let mut piece = |cursor| {
        let (next, piece) = chunks::piece(object, cursor).unwrap();
        let same = pieces.next().map(|(next, piece)| (next, piece.to_vec()));
        let expected = (next > 0).then(|| (next, piece.to_vec()));
        assert!(same == expected, "one pass gives other pieces");
        (next, piece)
    };
    let (mut cursor, header) = piece(0);
    let begun = chunks::begin(&header, Limits::NONE);
    let mut partial = match begun.expect("it was written") {
        Value::Partial(partial) => partial,
        // The object has no filters, or is RedisBloom's and has no items.
        Value::Complete(mut copy) => loop {
            let (next, chunk) = piece(cursor);
            if next == 0 {
                return copy;
            }
            let loaded = chunks::overwrite(&mut copy, next, &chunk);
            loaded.expect("it was written");
            cursor = next;
        },
    };
    loop {
        let (next, chunk) = piece(cursor);
        let loaded = partial.load(next, &chunk);
        cursor = next;
        if let Some(copy) = loaded.expect("it was written") {
            assert_eq!(piece(cursor).0, 0);
            return copy;
        }
    }
}

/// Returns the object read from each of the stored forms, which must be equal.
#[track_caller]
pub fn through_every_form(object: &Object) -> Object {
    let dump = dump::encode(object);
    if object.is_plain() {
        assert_eq!(dump::encoded_len(object), dump.as_ref().map(Vec::len));
    }
    let decoded = dump.map(|dump| dump::decode(&dump).unwrap());
    for copy in decoded.iter().chain([&through_chunks(object)]) {
        same(copy, object);
    }
    let read = read_fields(Dialect::of(object), fields_of(object)).unwrap();
    same(&read, object);
    read
}

/// Asserts that two objects are valid, and equal in all that can be observed.
#[track_caller]
pub fn same(copy: &Object, object: &Object) {
    assert_eq!((copy.check(), object.check()), (Ok(()), Ok(())));
    assert!(said_of(copy) == said_of(object), "other bytes");
    assert!(header_of(copy) == header_of(object), "another header");
    assert_eq!(copy.shape(), object.shape());
    assert_eq!(copy.hasher(), object.hasher());
    assert_eq!(copy.totals(), object.totals());
    // The shards of a table depend on its history.
    if object.is_plain() {
        assert_eq!(copy.memory_bytes(), object.memory_bytes());
    }
}
