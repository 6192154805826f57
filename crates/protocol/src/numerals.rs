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
