//! Values as people write them.

use std::num::NonZeroU32;

use valkeybloom_protocol::bloom::Maker;
use valkeybloom_protocol::numerals::memory_amount;
use valkeybloom_sketches::cms::CellSize;
use valkeybloom_sketches::{Fraction, MAX_CAPACITY};

use crate::bloom::Shards;

const NOT_WHOLE: &str = "not a whole number";
const TOO_LARGE: &str = "too large";

/// Reads a number of items: `1000000`, `1_000_000`, `1,000,000`, `1e6`, `1M` or `1.5M`.
///
/// # Errors
/// What is wrong with the word.
pub fn items(word: &str) -> Result<u64, String> {
    let number = whole(word)?.filter(|number| (1..=MAX_CAPACITY).contains(number));
    number.ok_or_else(|| "not between 1 and 2⁶³−1".to_owned())
}

/// Reads a number from 1 in the forms of [`items`], within a type.
///
/// # Errors
/// What is wrong with the word.
pub fn positive<T: TryFrom<u64>>(word: &str) -> Result<T, String> {
    T::try_from(items(word)?).map_err(|_| TOO_LARGE.to_owned())
}

/// Reads a number from 0 in the forms of [`items`].
///
/// # Errors
/// What is wrong with the word.
pub fn count(word: &str) -> Result<u64, String> {
    whole(word)?.ok_or_else(|| "not between 0 and 2⁶⁴−1".to_owned())
}

/// Reads a whole number; `None` if it is negative or too large.
fn whole(word: &str) -> Result<Option<u64>, String> {
    let (sign, word) = word.split_at(usize::from(word.starts_with('-')));
    let (digits, zeros) = power_of_ten(word)?;
    let is_digit = |c: char| c.is_ascii_digit();
    let between_digits = |mark| {
        let mut parts = digits.split(mark);
        parts.all(|part| part.starts_with(is_digit) && part.ends_with(is_digit))
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut groups = whole.split(',');
    let is_grouped = match groups.next() {
        Some(first) if first.len() < whole.len() => {
            (1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3)
        }
        _ => true,
    };
    let fraction = fraction.trim_end_matches('0');
    let zeros = zeros.filter(|zeros| fraction.len() <= *zeros && is_grouped);
    let Some(zeros) = zeros.filter(|_| between_digits('_') && between_digits('.')) else {
        return Err(NOT_WHOLE.to_owned());
    };
    let number = format!("{}{fraction:0<zeros$}", whole.replace(',', "")).replace('_', "");
    if !number.chars().all(is_digit) {
        return Err(NOT_WHOLE.to_owned());
    }
    Ok(number.parse().ok().filter(|_| sign.is_empty()))
}

/// Splits a number into its digits, and the zeros that its exponent or its unit stands for.
fn power_of_ten(word: &str) -> Result<(&str, Option<usize>), String> {
    if let Some((digits, exponent)) = word.split_once(['e', 'E']) {
        let exponent = exponent.strip_prefix('+').unwrap_or(exponent);
        let is_written = !exponent.is_empty() && exponent.chars().all(|c| c.is_ascii_digit());
        // No number that fits has more zeros.
        let zeros = exponent.parse().unwrap_or(u8::MAX);
        return Ok((digits, is_written.then_some(zeros.into())));
    }
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let zeros = match &word[digits.len()..] {
        "" => Some(0),
        "k" | "K" => Some(3),
        "m" | "M" => Some(6),
        "g" | "G" => Some(9),
        _ if digits.is_empty() => None,
        _ => return Err("the units are k, M and G".to_owned()),
    };
    Ok((digits, zeros))
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
    let duration = humantime::parse_duration(word).map_err(|_| "not a time, like 5s, 1h or 30d")?;
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
        word => shard_count(word).map(Shards::Exactly),
    }
}

/// Reads a number of shards.
///
/// # Errors
/// What is wrong with the word.
pub fn shard_count(word: &str) -> Result<NonZeroU32, String> {
    NonZeroU32::new(positive(word)?).ok_or_else(|| NOT_WHOLE.to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_several_forms() {
        let same =
            "1500000 1_500_000 1,500,000 1500k 1,500k 1.5M 1.50m 0.0015G 1_500.0K 1.5e6 15E+5";
        for word in same.split(' ') {
            assert_eq!(items(word), Ok(1_500_000), "{word}");
        }
        for (word, number) in [("1e0", 1), ("2.5G", 2_500_000_000), ("10.0", 10)] {
            assert_eq!(items(word), Ok(number), "{word}");
        }
        assert_eq!(count("0"), Ok(0));
        assert_eq!(positive::<u8>("255"), Ok(255));
    }

    #[test]
    fn other_words_are_no_numbers() {
        assert_eq!(items(""), Err(NOT_WHOLE.to_owned()));
        let others = "one e6 1e 1e-6 1e6k 1.5 1.2345k .5M 1.M 1,5M 1,0000 1,000.5 1000,000 ,000 1__0 1.5_M 1,_000 \
                      1.500,000 +1 --1 ½";
        for word in others.split(' ') {
            assert_eq!(items(word), Err(NOT_WHOLE.to_owned()), "{word}");
        }
        let range = "not between 1 and 2⁶³−1";
        for word in "0 -1 -1e6 1e19 1e300 1e99999999999 99999999999G".split(' ') {
            assert_eq!(items(word), Err(range.to_owned()), "{word}");
        }
        assert_eq!(items("1T"), Err("the units are k, M and G".to_owned()));
        assert_eq!(positive::<u8>("256"), Err(TOO_LARGE.to_owned()));
    }
}
