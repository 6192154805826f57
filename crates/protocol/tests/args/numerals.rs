//! Numbers as text.

use valkeybloom_protocol::numerals::{double, integer, natural, six_digits};
use valkeybloom_testing::support::Rng;

use super::words;

/// Words that are not numbers of any width.
const NO_NUMBERS: &str = "- + +0 +1 -+1 --1 -0 -01 00 01 007 00000000000000000001 1_0 0x1 1.0 1e1 \
     99999999999999999999 \u{661}";

#[test]
fn whole_numbers_are_what_63_bits_and_a_sign_hold_or_64_bits() {
    for (word, number) in [
        ("0", 0),
        ("1", 1),
        ("-1", -1),
        ("10", 10),
        ("-100", -100),
        ("9223372036854775807", i64::MAX.into()),
        ("-9223372036854775808", i64::MIN.into()),
        ("9223372036854775808", 1_i128 << 63),
        ("18446744073709551615", u64::MAX.into()),
        ("18446744073709551616", 1 << 64),
        ("-9223372036854775809", -(1 << 63) - 1),
    ] {
        assert_eq!(integer(word.as_bytes()), number.try_into().ok(), "{word}");
        assert_eq!(natural(word.as_bytes()), number.try_into().ok(), "{word}");
    }
    let others: [&[u8]; 5] = [b"", b" 1", b"1 ", b"1\0", b"\xff"];
    for word in words(NO_NUMBERS).into_iter().chain(others) {
        assert_eq!((integer(word), natural(word)), (None, None), "{word:?}");
    }
}

#[test]
fn doubles_have_the_grammar_of_the_server() {
    let digits = |count| "1".repeat(count);
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
    let bad = "+ - . e e5 1e 1e+ 1_0 0x1p3 nan -nan 1e400 1.7976931348623159e308 1e-400 2e-324 -1e-400 in \
         infinit 1f \u{661}";
    let others: [&[u8]; 5] = [b"", b" 1", b"1 ", b"1\0", b"\xff"];
    for word in words(bad).into_iter().chain(others) {
        assert_eq!(double(word), None, "{word:?}");
    }
    assert_eq!(double(digits(400).as_bytes()), None);
    assert!(double(format!("0.{}", digits(400)).as_bytes()).is_some());
}

/// Words of up to 16 digits are read in another way.
#[test]
fn short_doubles_are_those_of_the_standard_library() {
    let mut rng = Rng::new(1);
    for _ in 0..200_000 {
        let digits = 1 + rng.below(18);
        let mut word: String = (0..digits)
            .map(|_| char::from(b"0123456789"[rng.below(10)]))
            .collect();
        if rng.below(2) == 0 {
            word.insert(rng.below(digits + 1), '.');
        }
        if rng.below(3) == 0 {
            word.insert(0, '-');
        }
        let expected: f64 = word.parse().expect("a number");
        let read = double(word.as_bytes()).map(f64::to_bits);
        assert_eq!(read, Some(expected.to_bits()), "{word}");
    }
}

/// Texts of C's `printf("%g")`.
#[test]
fn six_digits_are_those_of_c() {
    for (value, text) in [
        (0.0, "0"),
        (1.0, "1"),
        (0.5, "0.5"),
        (5e-7, "5e-07"),
        (0.000_1, "0.0001"),
        (0.000_099_999_949, "9.99999e-05"),
        (0.000_099_999_99, "0.0001"),
        (0.003_333_333_333, "0.00333333"),
        (1.953_125e-5, "1.95313e-05"),
        (0.999_999_9, "1"),
        (100_000.0, "100000"),
        (123_456.7, "123457"),
        (999_999.7, "1e+06"),
        (1.25e300, "1.25e+300"),
        (5e-324, "4.94066e-324"),
    ] {
        assert_eq!(six_digits(value), text, "{value:?}");
    }
}
