//! Conversions between numbers and text.

/// Returns the shortest text that reads back as this double.
pub fn double_text(value: f64) -> String {
    format!("{value:?}")
}

/// Returns a double the way that C prints it with `%g`: six digits at most, without zeros at the end.
pub fn six_digits(value: f64) -> String {
    let scientific = format!("{value:.5e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |digits: &str| {
        let whole = digits.trim_end_matches('0').trim_end_matches('.');
        let has_point = digits.contains('.');
        if has_point { whole } else { digits }.to_owned()
    };
    match usize::try_from(5 - exponent) {
        Ok(decimals) if decimals <= 9 => trimmed(&format!("{value:.decimals$}")),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
        }
    }
}

/// Reads a whole number the way the server's own commands do. Each number has one form: digits without leading
/// zeros, after a minus if the number is negative.
#[must_use]
pub fn integer(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        None => natural(word)?.try_into().ok(),
        Some(digits) => match natural(digits)? {
            0 => None,
            number => 0_i64.checked_sub_unsigned(number),
        },
    }
}

/// Reads an [`integer`] that fits a type.
pub(crate) fn whole<T: TryFrom<i64>>(word: &[u8]) -> Option<T> {
    integer(word)?.try_into().ok()
}

/// Reads a whole number of up to 64 bits that is not negative: digits without leading zeros.
#[must_use]
pub fn natural(word: &[u8]) -> Option<u64> {
    match word {
        [b'0', _, ..] | [] => None,
        digits => digits.iter().try_fold(0, |number: u64, byte| {
            let digit = u64::from(byte.wrapping_sub(b'0'));
            let number = number.checked_mul(10)?.checked_add(digit)?;
            (digit < 10).then_some(number)
        }),
    }
}

/// Reads a double in the grammar of the server: decimal digits with a point and an exponent, both optional, after an
/// optional sign; or `inf` or `infinity`, after an optional sign. A number that is too large for a double, or that is
/// rounded to zero, is refused.
#[must_use]
pub fn double(word: &[u8]) -> Option<f64> {
    if let Some(number) = short_double(word) {
        return Some(number);
    }
    let number: f64 = str::from_utf8(word).ok()?.parse().ok()?;
    let is_word = matches!(word, [.., b'f' | b'F' | b'y' | b'Y']);
    let mantissa = word.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
    let is_zero = mantissa.clone().all(|byte| !matches!(byte, b'1'..=b'9'));
    let is_exact = match number {
        0.0 => is_zero,
        _ => number.is_finite() || number.is_infinite() && is_word,
    };
    is_exact.then_some(number)
}

/// Reads the usual kind of double, up to 16 digits and a point, in half the instructions. Returns `None` for all other
/// words. Both operands of the division are exact, so the quotient is the double nearest to the number.
///
/// Source: Clinger 1990, How to read floating point numbers accurately.
fn short_double(word: &[u8]) -> Option<f64> {
    const POWERS: [f64; 17] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    ];
    let (sign, digits) = match word {
        [b'-', rest @ ..] => (-1.0, rest),
        _ => (1.0, word),
    };
    let (mut number, mut decimals, mut has_point) = (0_u64, 0, false);
    if digits.len() > 17 {
        return None;
    }
    for byte in digits {
        match byte {
            b'0'..=b'9' => {
                number = 10 * number + u64::from(byte - b'0');
                decimals += usize::from(has_point);
            }
            b'.' if !has_point => has_point = true,
            _ => return None,
        }
    }
    let is_exact = number <= 1 << 53 && digits.len() > usize::from(has_point);
    let power = POWERS.get(decimals)?;
    #[allow(clippy::cast_precision_loss, reason = "up to 2^53 none is lost")]
    is_exact.then(|| sign * number as f64 / power)
}

/// Reads an amount of memory in the form of the server's config file, like `64mb`, and returns the bytes.
pub fn memory_amount(text: &str) -> Option<i64> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = &text[..text.len() - unit.len()];
    let unit: i64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit)
}
