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
