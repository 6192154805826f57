//! The words of a command as the contract reads them.

use super::model::{BAD_CURSOR, Errors};
use super::object::{CAPACITY, ERROR_RATE, EXPANSION, Shape, TIGHTENING};

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

/// An integer as everybody reads it, and whether some would not: with a plus, zeros, spaces.
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

/// A cursor. Where some would not read it, its error is possible.
pub fn cursor(word: &[u8], errors: &mut Errors) -> Option<i128> {
    let (value, unsure) = integer(word);
    if unsure {
        errors.possible(BAD_CURSOR);
    }
    value.filter(|value| i64::try_from(*value).is_ok())
}

/// A number as everybody reads it, and whether some would not.
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

/// The number that a reply tells.
pub fn rate_of(text: &[u8]) -> Option<f64> {
    number(text).0
}

/// An option's value, with the errors of it. Of an option that is given twice the last counts; whether
/// an earlier one is looked at is not said.
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

    /// A value that some can't read.
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

    fn tell(&self, errors: &mut Errors) {
        errors.due.extend(&self.errors);
        errors.possible.extend(&self.possible);
    }
}

/// What BF.RESERVE or BF.INSERT is asked for.
#[derive(Default)]
pub struct Options {
    capacity: Slot<i64>,
    error_rate: Slot<f64>,
    tightening: Slot<f64>,
    expansion: Slot<u32>,
    non_scaling: bool,
    pub no_create: bool,
    pub validate: Option<i64>,
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
                b"EXPANSION" => options.take_expansion(words.next()),
                b"NONSCALING" => options.non_scaling = true,
                _ => errors.due(UNKNOWN),
            }
        }
        options.tell(errors);
        options
    }

    pub fn of_insert(words: &[Vec<u8>], errors: &mut Errors) -> Self {
        let mut options = Self::default();
        let mut validate = Slot::<i64>::default();
        let mut seed = Slot::<()>::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"CAPACITY" => options.take_capacity(words.next()),
                b"ERROR" => options.take_rate(words.next()),
                b"TIGHTENING" => options.take_tightening(words.next()),
                b"EXPANSION" => options.take_expansion(words.next()),
                b"NONSCALING" => options.non_scaling = true,
                b"NOCREATE" => options.no_create = true,
                b"SEED" => {
                    let right = words.next().is_some_and(|seed| seed.len() == 32);
                    let read = right.then_some(()).ok_or(vec![BAD_SEED]);
                    seed.take(read, false, "");
                }
                b"VALIDATESCALETO" => {
                    let (value, unsure) = words.next().map_or((None, false), |word| integer(word));
                    let value = value.and_then(|value| i64::try_from(value).ok());
                    validate.again();
                    validate.value = value.filter(|value| *value > 0);
                    // The contract has no words for a number that is none.
                    errors.any_possible |= validate.value.is_none() || unsure;
                    errors.any = validate.value.is_none();
                }
                b"ITEMS" => {
                    options.items = words.by_ref().cloned().collect();
                    options.no_items = options.items.is_empty();
                }
                _ => errors.due(UNKNOWN),
            }
        }
        seed.tell(errors);
        options.validate = validate.value;
        options.tell(errors);
        if options.no_create && (options.capacity.given || options.error_rate.given) {
            errors.due(NEEDLESS);
        }
        let non_scaling = options.non_scaling || options.expansion.value == Some(0);
        if non_scaling && validate.given {
            errors.due(FIXED_VALIDATION);
        }
        options
    }

    fn tell(&self, errors: &mut Errors) {
        self.capacity.tell(errors);
        self.error_rate.tell(errors);
        self.tightening.tell(errors);
        self.expansion.tell(errors);
        if self.non_scaling && self.expansion.value.is_some_and(|n| n > 0) {
            errors.due(FIXED_EXPANSION);
        }
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

    /// Whether every value could be read.
    pub fn are_read(&self) -> bool {
        self.capacity.errors.is_empty()
            && self.error_rate.errors.is_empty()
            && self.tightening.errors.is_empty()
            && self.expansion.errors.is_empty()
    }

    /// The object that these make, and the capacity of its first filter.
    pub fn shape(&self) -> (Shape, i64) {
        let expansion = self.expansion.value.unwrap_or(EXPANSION);
        let shape = Shape {
            expansion: if self.non_scaling { 0 } else { expansion },
            error_rate: self.error_rate.value.unwrap_or(ERROR_RATE),
            tightening: self.tightening.value.unwrap_or(TIGHTENING),
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
