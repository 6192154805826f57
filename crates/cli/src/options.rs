//! Options and value parsers that several subcommands share.

use clap::Args;

use valkeybloom_protocol::numerals::memory_amount;
use valkeybloom_sketches::bloom::{Growth, Params, Tightening};
use valkeybloom_sketches::{Fraction, MAX_CAPACITY};

/// The bytes that a server counts for each value besides the filters or the sketch.
pub const STORED_BYTES: u64 = 8;

/// The options for a new filter.
#[derive(Args, Clone, Copy)]
pub struct FilterOptions {
    /// Make a filter that does not grow: it is smaller, and full at its capacity
    #[arg(long)]
    pub nonscaling: bool,
    /// Growth factor from one filter to the next stacked on it
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "nonscaling",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub expansion: u32,
}

impl FilterOptions {
    pub fn params(self, capacity: u64, error_rate: Fraction) -> Params {
        Params {
            capacity,
            error_rate,
            tightening: Tightening::HALF,
            growth: Growth::from_expansion(if self.nonscaling { 0 } else { self.expansion }),
        }
    }

    /// Returns the words of BF.RESERVE for options that are not the defaults.
    pub fn words(self) -> String {
        match (self.nonscaling, self.expansion) {
            (true, _) => " NONSCALING".to_owned(),
            (false, 2) => String::new(),
            (false, expansion) => format!(" EXPANSION {expansion}"),
        }
    }
}

/// Reads a number of items: `1000000`, `1_000_000`, `1M` or `1.5M`.
pub fn items(word: &str) -> Result<u64, String> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let zeros = match &word[digits.len()..] {
        "" => 0,
        "k" | "K" => 3,
        "m" | "M" => 6,
        "g" | "G" => 9,
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

/// Reads an error rate, which lies strictly between 0 and 1.
pub fn rate(word: &str) -> Result<Fraction, String> {
    let rate = word.parse().map_err(|_| "not a number")?;
    Fraction::new(rate).ok_or_else(|| "not between 0 and 1".to_owned())
}

/// Reads an amount of memory in the server's form, like `64mb`.
pub fn bytes(word: &str) -> Result<u64, String> {
    let bytes = memory_amount(word).and_then(|bytes| u64::try_from(bytes).ok());
    bytes.ok_or_else(|| "not an amount of memory, like 64mb".to_owned())
}

/// Reads a time, and returns the milliseconds.
pub fn duration_ms(word: &str) -> Result<u64, String> {
    let duration = humantime::parse_duration(word).map_err(|error| error.to_string())?;
    match u64::try_from(duration.as_millis()).unwrap_or(u64::MAX) {
        0 => Err("less than a millisecond".to_owned()),
        ms => Ok(ms),
    }
}
