//! Values as people write them.

use std::num::NonZeroU32;

use valkeybloom_protocol::bloom::Maker;
use valkeybloom_protocol::numerals::memory_amount;
use valkeybloom_sketches::cms::CellSize;
use valkeybloom_sketches::{Fraction, MAX_CAPACITY};

use crate::bloom::Shards;

/// Reads a number of items: `1000000`, `1_000_000`, `1M` or `1.5M`.
///
/// # Errors
/// What is wrong with the word.
pub fn items(word: &str) -> Result<u64, String> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let zeros = match &word[digits.len()..] {
        "" => 0,
        "k" | "K" => 3,
        "m" | "M" => 6,
        "g" | "G" => 9,
        _ if digits.is_empty() => return Err("not a whole number".to_owned()),
        _ => return Err("the units are k, M and G".to_owned()),
    };
    let is_digit = |c: char| c.is_ascii_digit();
    let between_digits = |mark| {
        let mut parts = digits.split(mark);
        parts.all(|part| part.starts_with(is_digit) && part.ends_with(is_digit))
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let number = format!("{whole}{fraction:0<zeros$}").replace('_', "");
    let is_whole = fraction.len() <= zeros && number.chars().all(is_digit);
    if !is_whole || !between_digits('_') || !between_digits('.') {
        return Err("not a whole number".to_owned());
    }
    let number = number.parse().ok();
    let number = number.filter(|number| (1..=MAX_CAPACITY).contains(number));
    number.ok_or_else(|| "not between 1 and 2⁶³−1".to_owned())
}

/// Reads an error rate or a probability, which lies strictly between 0 and 1.
///
/// # Errors
/// What is wrong with the word.
pub fn rate(word: &str) -> Result<Fraction, String> {
    let rate = word.parse().map_err(|_| "not a number")?;
    Fraction::new(rate).ok_or_else(|| "not between 0 and 1".to_owned())
}

/// Reads an amount of memory in the server's form, like `64mb`.
///
/// # Errors
/// What is wrong with the word.
pub fn bytes(word: &str) -> Result<u64, String> {
    let bytes = memory_amount(word).and_then(|bytes| u64::try_from(bytes).ok());
    bytes.ok_or_else(|| "not an amount of memory, like 64mb".to_owned())
}

/// Reads a time, like `1h`, and returns the milliseconds.
///
/// # Errors
/// What is wrong with the word.
pub fn duration_ms(word: &str) -> Result<u64, String> {
    let duration = humantime::parse_duration(word).map_err(|error| error.to_string())?;
    match u64::try_from(duration.as_millis()).unwrap_or(u64::MAX) {
        0 => Err("less than a millisecond".to_owned()),
        ms => Ok(ms),
    }
}

/// Reads a number of shards, or `0` or `fewest` for the fewest that the limits allow.
///
/// # Errors
/// What is wrong with the word.
pub fn shards(word: &str) -> Result<Shards, String> {
    match word {
        "0" | "fewest" => Ok(Shards::Fewest),
        word => {
            let shards: Option<NonZeroU32> = word.parse().ok();
            shards
                .map(Shards::Exactly)
                .ok_or_else(|| "not a number of shards".to_owned())
        }
    }
}

/// Reads the size of a counter.
///
/// # Errors
/// What is wrong with the word.
pub fn cell_size(word: &str) -> Result<CellSize, String> {
    let bytes = word.parse().ok();
    let size = bytes.and_then(CellSize::of_bytes);
    size.ok_or_else(|| "not 1, 2, 4 or 8".to_owned())
}

/// Reads the kind of new Bloom filters, a value of `bf.bloom-new-filters`.
///
/// # Errors
/// What is wrong with the word.
pub fn maker(word: &str) -> Result<Maker, String> {
    let maker = Maker::ALL.into_iter().find(|maker| maker.name() == word);
    maker.ok_or_else(|| format!("not one of {}", Maker::NAMES.join(", ")))
}

/// Reads a decimal number.
///
/// # Errors
/// What is wrong with the word.
pub fn number(word: &str) -> Result<f64, String> {
    let number = word.parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "not a number".to_owned())
}
