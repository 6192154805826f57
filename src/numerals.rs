//! Numbers as text, and back.

/// The shortest text that reads back as this double.
pub fn double_text(value: f64) -> String {
    format!("{value:?}")
}

/// Reads a whole number as the server's own commands do: digits, perhaps with a minus before them.
#[must_use]
pub fn integer(word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok()?;
    let number = text.parse().ok()?;
    (!text.starts_with('+')).then_some(number)
}

/// Reads an amount of memory as the server's config file writes it, in bytes: `64mb`.
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

    #[test]
    fn whole_numbers_are_what_63_bits_and_a_sign_hold() {
        for (word, number) in [
            ("0", 0),
            ("1", 1),
            ("-1", -1),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(integer(word.as_bytes()), Some(number), "{word}");
        }
        for word in [
            "",
            "-",
            "+1",
            " 1",
            "1 ",
            "0x1",
            "1.0",
            "1e1",
            "9223372036854775808",
        ] {
            assert_eq!(integer(word.as_bytes()), None, "{word}");
        }
        assert_eq!(integer(b"1\0"), None);
        assert_eq!(integer(b"\xff"), None);
    }
}
