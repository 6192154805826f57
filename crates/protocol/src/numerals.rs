//! Conversions between numbers and text.

/// Returns the shortest text that reads back as this double.
pub fn double_text(value: f64) -> String {
    format!("{value:?}")
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

/// Reads a whole number of up to 64 bits that is not negative: digits without leading zeros.
#[must_use]
pub fn natural(word: &[u8]) -> Option<u64> {
    let is_written = match word {
        b"0" => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let text = str::from_utf8(word).ok()?;
    is_written.then(|| text.parse().ok())?
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
    let is_word = word
        .last()
        .is_some_and(|letter| matches!(letter, b'f' | b'F' | b'y' | b'Y'));
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
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that are not numbers of any width.
    const NO_NUMBERS: [&str; 21] = [
        "",
        "-",
        "+",
        "+0",
        "+1",
        "-+1",
        "--1",
        "-0",
        "-01",
        "00",
        "01",
        "007",
        "00000000000000000001",
        " 1",
        "1 ",
        "1_0",
        "0x1",
        "1.0",
        "1e1",
        "99999999999999999999",
        "\u{661}",
    ];

    #[test]
    fn whole_numbers_are_what_63_bits_and_a_sign_hold() {
        for (word, number) in [
            ("0", 0),
            ("1", 1),
            ("-1", -1),
            ("10", 10),
            ("-100", -100),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(integer(word.as_bytes()), Some(number), "{word}");
        }
        for word in NO_NUMBERS {
            assert_eq!(integer(word.as_bytes()), None, "{word}");
        }
        assert_eq!(integer(b"9223372036854775808"), None);
        assert_eq!(integer(b"-9223372036854775809"), None);
        assert_eq!(integer(b"1\0"), None);
        assert_eq!(integer(b"\xff"), None);
    }

    #[test]
    fn doubles_have_the_grammar_of_the_server() {
        for (word, number) in [
            ("0", 0.0),
            ("-0", -0.0),
            ("0e5", 0.0),
            ("1", 1.0),
            ("+0.5", 0.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("5.e-1", 0.5),
            ("1e5", 1e5),
            ("1E+5", 1e5),
            ("007", 7.0),
            ("5e-324", 5e-324),
            ("1.7976931348623157e308", f64::MAX),
            ("1.0000000000000001", 1.0),
            ("inf", f64::INFINITY),
            ("-INF", f64::NEG_INFINITY),
            ("+Infinity", f64::INFINITY),
        ] {
            let read = double(word.as_bytes()).map(f64::to_bits);
            assert_eq!(read, Some(number.to_bits()), "{word}");
        }
        for word in [
            "",
            "+",
            "-",
            ".",
            "e",
            "e5",
            "1e",
            "1e+",
            " 1",
            "1 ",
            "1_0",
            "0x1p3",
            "nan",
            "-nan",
            "1e400",
            "1.7976931348623159e308",
            "1e-400",
            "2e-324",
            "-1e-400",
            "in",
            "infinit",
            "1f",
            "\u{661}",
        ] {
            assert_eq!(double(word.as_bytes()), None, "{word}");
        }
        let digits = |count| "1".repeat(count);
        assert_eq!(double(digits(400).as_bytes()), None);
        assert!(double(format!("0.{}", digits(400)).as_bytes()).is_some());
        assert_eq!(double(b"1\0"), None);
        assert_eq!(double(b"\xff"), None);
    }

    #[test]
    fn short_doubles_are_those_of_the_standard_library() {
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).expect("31 bits") % below
        };
        let mut short = 0;
        for _ in 0..200_000 {
            let digits = 1 + random(18);
            let mut word: String = (0..digits)
                .map(|_| char::from(b"0123456789"[random(10)]))
                .collect();
            if random(2) == 0 {
                word.insert(random(digits + 1), '.');
            }
            if random(3) == 0 {
                word.insert(0, '-');
            }
            let expected: f64 = word.parse().expect("a number");
            if let Some(number) = short_double(word.as_bytes()) {
                assert_eq!(number.to_bits(), expected.to_bits(), "{word}");
                short += 1;
            }
        }
        assert!(short > 100_000, "{short}");
        for (word, number) in [
            ("9007199254740992", 9_007_199_254_740_992.0),
            (".9007199254740992", 0.900_719_925_474_099_2),
            ("-0", -0.0),
            ("5.", 5.0),
            ("0000000000000000.", 0.0),
        ] {
            let read = short_double(word.as_bytes()).map(f64::to_bits);
            assert_eq!(read, Some(f64::to_bits(number)), "{word}");
        }
        for word in [
            "",
            "-",
            ".",
            "-.",
            "--1",
            "1.2.3",
            "1e5",
            "9007199254740993",
            " 1",
            "1 ",
        ] {
            assert_eq!(short_double(word.as_bytes()), None, "{word}");
        }
    }

    #[test]
    fn natural_numbers_are_what_64_bits_hold() {
        for (word, number) in [
            ("0", 0),
            ("1", 1),
            ("10", 10),
            ("9223372036854775808", 1 << 63),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(natural(word.as_bytes()), Some(number), "{word}");
        }
        for word in NO_NUMBERS {
            assert_eq!(natural(word.as_bytes()), None, "{word}");
        }
        assert_eq!(natural(b"-1"), None);
        assert_eq!(natural(b"18446744073709551616"), None);
        assert_eq!(natural(b"1\0"), None);
        assert_eq!(natural(b"\xff"), None);
    }
}
