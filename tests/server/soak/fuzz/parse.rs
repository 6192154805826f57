//! The words of a command as the contract reads them.

use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::Tightening;

use super::errors::{BAD_CURSOR, BAD_TTL, Errors};
use super::object::{CAPACITY, ERROR_RATE, EXPANSION, Shape, TIGHTENING, Window};

pub const BAD_CAPACITY: &str = "ERR bad capacity";
pub const NO_CAPACITY: &str = "ERR (capacity should be larger than 0)";
pub const BAD_EXPANSION: &str = "ERR bad expansion";
pub const BAD_RATE: &str = "ERR bad error rate";
pub const RATE_RANGE: &str = "ERR (0 < error rate range < 1)";
pub const BAD_TIGHTENING: &str = "ERR bad tightening ratio";
pub const TIGHTENING_RANGE: &str = "ERR (0 < tightening ratio range < 1)";
pub const BAD_SEED: &str = "ERR invalid seed";
pub const UNKNOWN: &str = "ERR unknown argument received";
pub const NEEDLESS: &str = "ERR NOCREATE cannot be used with CAPACITY or ERROR";
pub const FIXED_EXPANSION: &str = "ERR nonscaling filters cannot expand";
pub const FIXED_VALIDATION: &str = "ERR cannot use NONSCALING and VALIDATESCALETO options together";
pub const BAD_WINDOW: &str = "ERR bad window";
pub const NO_WINDOW_LENGTH: &str = "ERR (window should be larger than 0)";
pub const BAD_PERIODS: &str = "ERR bad periods";
pub const NO_PERIODS: &str = "ERR (periods should be larger than 0)";
pub const HALF_WINDOW: &str = "ERR WINDOW and PERIODS have to be given together";
pub const COMBINED: &str = "ERR WINDOW and COUNTING cannot be combined";
pub const TWO_TTLS: &str = "ERR EX and PX cannot be combined";
pub const NO_TTL: &str = "ERR (ttl should be larger than 0)";
pub const BAD_ID: &str = "ERR bad id";

/// The most periods that a window may have.
const MAX_PERIODS: i64 = 1_440;
/// Times in milliseconds up to this one, from now on, are times.
const LAST_MS: i64 = 1 << 62;

/// Returns an integer as most parsers read it, and whether some would refuse it: with a plus, zeros, spaces.
pub fn integer(word: &[u8]) -> (Option<i128>, bool) {
    let Ok(text) = std::str::from_utf8(word) else {
        return (None, false);
    };
    let bare = text.trim_matches(' ');
    let (sign, digits) = match bare.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, bare.strip_prefix('+').unwrap_or(bare)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return (None, false);
    }
    let value = digits.parse::<i128>().unwrap_or(i128::MAX) * sign;
    (Some(value), value.to_string() != text && value != i128::MAX)
}

/// Returns a cursor. If some parsers would refuse it, its error is possible.
pub fn cursor(word: &[u8], errors: &mut Errors) -> Option<i128> {
    let (value, unsure) = integer(word);
    if unsure {
        errors.possible(BAD_CURSOR);
    }
    value.filter(|value| i64::try_from(*value).is_ok())
}

/// Returns a number as most parsers read it, and whether some would refuse it.
fn number(word: &[u8]) -> (Option<f64>, bool) {
    let Ok(text) = std::str::from_utf8(word) else {
        return (None, false);
    };
    let bare = text.trim_matches(' ');
    let Ok(value) = bare.parse::<f64>() else {
        return (None, false);
    };
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let common = matches!(text, "nan" | "inf" | "-inf")
        || unsigned.starts_with(|first: char| first.is_ascii_digit())
            && !unsigned.ends_with('.')
            && !text.contains(' ');
    (Some(value), !common)
}

/// Returns the number in a reply.
pub fn rate_of(text: &[u8]) -> Option<f64> {
    number(text).0
}

/// An option's value, with its errors. The last of a repeated option counts; the contract does not specify whether
/// earlier ones are checked.
#[derive(Default)]
struct Slot<T> {
    value: Option<T>,
    given: bool,
    errors: Vec<&'static str>,
    possible: Vec<&'static str>,
}

impl<T> Slot<T> {
    fn again(&mut self) {
        let earlier = std::mem::take(&mut self.errors);
        self.possible.extend(earlier);
        self.value = None;
        self.given = true;
    }

    /// Takes a value that some parsers refuse.
    fn take(&mut self, read: Result<T, Vec<&'static str>>, unsure: bool, bad: &'static str) {
        self.again();
        match read {
            Ok(value) => self.value = Some(value),
            Err(errors) => self.errors = errors,
        }
        if unsure {
            self.possible.push(bad);
        }
    }

    fn report(&self, errors: &mut Errors) {
        errors.due.extend(&self.errors);
        errors.possible.extend(&self.possible);
    }
}

impl Slot<i64> {
    /// Takes a number above 0 whose product must fit.
    fn take_positive(
        &mut self,
        word: Option<&Vec<u8>>,
        bad: &'static str,
        zero: &'static str,
        factor: i64,
    ) {
        let (value, unsure) = word.map_or((None, false), |word| integer(word));
        let read = match value.map(i64::try_from) {
            Some(Ok(0)) => Err(vec![zero]),
            Some(Ok(value @ 1..)) => value.checked_mul(factor).ok_or(vec![bad]),
            _ => Err(vec![bad]),
        };
        self.take(read, unsure, bad);
    }
}

impl Slot<u64> {
    fn take_id(&mut self, word: Option<&Vec<u8>>) {
        let (value, unsure) = word.map_or((None, false), |word| integer(word));
        let read = value.and_then(|value| u64::try_from(value).ok());
        self.take(read.ok_or(vec![BAD_ID]), unsure, BAD_ID);
    }
}

/// The options of BF.RESERVE, BF.INSERT or BF.DEL.
#[derive(Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "they do not depend on each other"
)]
pub struct Options {
    capacity: Slot<i64>,
    error_rate: Slot<f64>,
    tightening: Slot<f64>,
    expansion: Slot<u32>,
    period_ms: Slot<i64>,
    periods: Slot<i64>,
    pub counting: bool,
    non_scaling: bool,
    pub no_create: bool,
    pub validate: Option<i64>,
    /// The time to live of items.
    ttl_ms: Slot<i64>,
    /// The time to live of the key.
    key_ttl: Slot<i64>,
    in_seconds: bool,
    in_milliseconds: bool,
    id: Slot<u64>,
    seed: Slot<Vec<u8>>,
    /// Whether an existing object is not an error.
    pub unless_exists: bool,
    pub items: Vec<Vec<u8>>,
    /// ITEMS, and nothing after it.
    pub no_items: bool,
}

impl Options {
    pub fn of_reserve(words: &[Vec<u8>], errors: &mut Errors) -> Self {
        let mut options = Self::default();
        options.take_rate(Some(&words[0]));
        options.take_capacity(Some(&words[1]));
        let mut words = words[2..].iter();
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"EX" => options
                    .seconds()
                    .take_positive(words.next(), BAD_TTL, NO_TTL, 1000),
                b"PX" => options
                    .milliseconds()
                    .take_positive(words.next(), BAD_TTL, NO_TTL, 1),
                b"NX" => options.unless_exists = true,
                word if options.takes_of_shape(word, &mut words) => {}
                _ => errors.due(UNKNOWN),
            }
        }
        options.report(errors);
        options
    }

    pub fn of_insert(words: &[Vec<u8>], errors: &mut Errors) -> Self {
        let mut options = Self::default();
        let mut validate = Slot::<i64>::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"CAPACITY" => options.take_capacity(words.next()),
                b"ERROR" => options.take_rate(words.next()),
                b"TIGHTENING" => options.take_tightening(words.next()),
                b"NOCREATE" => options.no_create = true,
                b"TTL" => options
                    .ttl_ms
                    .take_positive(words.next(), BAD_TTL, NO_TTL, 1),
                b"ID" => options.id.take_id(words.next()),
                b"AT" => {
                    // A client does not say what time it is.
                    words.next();
                    errors.due(UNKNOWN);
                }
                b"SEED" => {
                    let right = words.next().filter(|seed| seed.len() == 32);
                    let read = right.cloned().ok_or(vec![BAD_SEED]);
                    options.seed.take(read, false, "");
                }
                b"VALIDATESCALETO" => {
                    let (value, unsure) = words.next().map_or((None, false), |word| integer(word));
                    let value = value.and_then(|value| i64::try_from(value).ok());
                    validate.again();
                    validate.value = value.filter(|value| *value > 0);
                    // The contract does not name the error for a word that is not a number.
                    errors.any_possible |= validate.value.is_none() || unsure;
                    errors.any = validate.value.is_none();
                }
                b"ITEMS" => {
                    options.items = words.by_ref().cloned().collect();
                    options.no_items = options.items.is_empty();
                }
                word if options.takes_of_shape(word, &mut words) => {}
                _ => errors.due(UNKNOWN),
            }
        }
        options.validate = validate.value;
        options.report(errors);
        if options.no_create && (options.capacity.given || options.error_rate.given) {
            errors.due(NEEDLESS);
        }
        let non_scaling = options.non_scaling || options.expansion.value == Some(0);
        if non_scaling && validate.given {
            errors.due(FIXED_VALIDATION);
        }
        options
    }

    pub fn of_del(words: &[Vec<u8>], errors: &mut Errors) -> Self {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"ID" => options.id.take_id(words.next()),
                b"AT" => {
                    words.next();
                    errors.due(UNKNOWN);
                }
                _ => errors.due(UNKNOWN),
            }
        }
        options.report(errors);
        options
    }

    /// Takes an option that BF.RESERVE and BF.INSERT share. Returns whether the word is one.
    fn takes_of_shape<'w>(
        &mut self,
        word: &[u8],
        words: &mut impl Iterator<Item = &'w Vec<u8>>,
    ) -> bool {
        match word {
            b"EXPANSION" => self.take_expansion(words.next()),
            b"NONSCALING" => self.non_scaling = true,
            b"COUNTING" => self.counting = true,
            b"WINDOW" => {
                let word = words.next();
                self.period_ms
                    .take_positive(word, BAD_WINDOW, NO_WINDOW_LENGTH, 1);
            }
            b"PERIODS" => {
                let word = words.next();
                self.periods.take_positive(word, BAD_PERIODS, NO_PERIODS, 1);
                if self.periods.value.is_some_and(|n| n > MAX_PERIODS) {
                    self.periods.value = None;
                    self.periods.errors.push(BAD_PERIODS);
                }
            }
            _ => return false,
        }
        true
    }

    fn report(&self, errors: &mut Errors) {
        self.capacity.report(errors);
        self.error_rate.report(errors);
        self.tightening.report(errors);
        self.expansion.report(errors);
        self.period_ms.report(errors);
        self.periods.report(errors);
        self.ttl_ms.report(errors);
        self.key_ttl.report(errors);
        self.id.report(errors);
        self.seed.report(errors);
        if self.non_scaling && self.expansion.value.is_some_and(|n| n > 0) {
            errors.due(FIXED_EXPANSION);
        }
        if self.period_ms.given != self.periods.given {
            errors.due(HALF_WINDOW);
        }
        if self.counting && self.period_ms.given && self.periods.given {
            errors.due(COMBINED);
        }
        if self.in_seconds && self.in_milliseconds {
            errors.due(TWO_TTLS);
        }
        if let (Some(period_ms), Some(periods)) = (self.period_ms.value, self.periods.value)
            && period_ms.checked_mul(periods).is_none()
        {
            errors.due(BAD_WINDOW);
        }
    }

    fn seconds(&mut self) -> &mut Slot<i64> {
        self.in_seconds = true;
        &mut self.key_ttl
    }

    fn milliseconds(&mut self) -> &mut Slot<i64> {
        self.in_milliseconds = true;
        &mut self.key_ttl
    }

    pub fn ttl_ms(&self) -> Option<i64> {
        self.ttl_ms.value
    }

    pub fn id(&self) -> Option<u64> {
        self.id.value
    }

    pub fn seed(&self) -> Option<&Vec<u8>> {
        self.seed.value.as_ref()
    }

    /// Returns whether the expiry of a key created now would overflow.
    pub fn lives_too_long(&self) -> bool {
        self.key_ttl.value.is_some_and(|ms| ms > LAST_MS)
    }

    fn take_capacity(&mut self, word: Option<&Vec<u8>>) {
        let (value, unsure) = word.map_or((None, false), |word| integer(word));
        let read = match value.map(i64::try_from) {
            Some(Ok(0)) => Err(vec![NO_CAPACITY]),
            Some(Ok(value @ 1..)) => Ok(value),
            _ => Err(vec![BAD_CAPACITY]),
        };
        self.capacity.take(read, unsure, BAD_CAPACITY);
    }

    fn take_expansion(&mut self, word: Option<&Vec<u8>>) {
        let (value, unsure) = word.map_or((None, false), |word| integer(word));
        let read = value.and_then(|value| u32::try_from(value).ok());
        let read = read.ok_or(vec![BAD_EXPANSION]);
        self.expansion.take(read, unsure, BAD_EXPANSION);
    }

    fn take_rate(&mut self, word: Option<&Vec<u8>>) {
        let (read, unsure) = between_0_and_1(word, BAD_RATE, RATE_RANGE);
        self.error_rate.take(read, unsure, BAD_RATE);
    }

    fn take_tightening(&mut self, word: Option<&Vec<u8>>) {
        let (read, unsure) = between_0_and_1(word, BAD_TIGHTENING, TIGHTENING_RANGE);
        self.tightening.take(read, unsure, BAD_TIGHTENING);
    }

    /// Returns whether every value could be read.
    pub fn are_read(&self) -> bool {
        self.capacity.errors.is_empty()
            && self.error_rate.errors.is_empty()
            && self.tightening.errors.is_empty()
            && self.expansion.errors.is_empty()
            && self.period_ms.errors.is_empty()
            && self.periods.errors.is_empty()
            && self.window_ms().is_ok()
    }

    /// Length of the window, where there is one that can be.
    fn window_ms(&self) -> Result<Option<i64>, ()> {
        match (self.period_ms.value, self.periods.value) {
            (None, None) => Ok(None),
            (Some(period_ms), Some(periods)) => period_ms.checked_mul(periods).map(Some).ok_or(()),
            _ => Err(()),
        }
    }

    /// Returns the object that these make, and the capacity of its first filter.
    pub fn shape(&self) -> (Shape, i64) {
        let expansion = self.expansion.value.unwrap_or(EXPANSION);
        let shape = Shape {
            expansion: if self.non_scaling { 0 } else { expansion },
            error_rate: self.error_rate.value.unwrap_or(ERROR_RATE),
            // Cut to fifteen digits.
            tightening: Fraction::new(self.tightening.value.unwrap_or(TIGHTENING))
                .map_or(TIGHTENING, |ratio| Tightening::ours(ratio).ratio()),
            window: match (self.period_ms.value, self.periods.value) {
                (Some(period_ms), Some(periods)) => Some(Window { period_ms, periods }),
                _ => None,
            },
            counting: self.counting,
        };
        (shape, self.capacity.value.unwrap_or(CAPACITY))
    }
}

fn between_0_and_1(
    word: Option<&Vec<u8>>,
    bad: &'static str,
    range: &'static str,
) -> (Result<f64, Vec<&'static str>>, bool) {
    let (value, unsure) = word.map_or((None, false), |word| number(word));
    let read = match value {
        Some(value) if value > 0.0 && value < 1.0 => Ok(value),
        Some(_) => Err(vec![range]),
        None => Err(vec![bad]),
    };
    (read, unsure)
}
