//! The words of the TOPK commands.

use valkeybloom_protocol::topk;
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::topk::Shape;

use crate::{NO_COUNTS, NO_NUMBERS, words};

const ARITY: &str = "ERR wrong number of arguments";
const BAD_K: &str = "TopK: invalid k";
const BAD_WIDTH: &str = "TopK: invalid width";
const BAD_DEPTH: &str = "TopK: invalid depth";
const BAD_DECAY: &str = "TopK: invalid decay value. must be '<= 1' & '> 0'";
const MEMORY: &str = "ERR Insufficient memory to create topk data structure";
const BAD_INCREMENT: &str = "TopK: increment must be an integer greater or equal to 0                            and smaller or equal to 100,000";
const BAD_OPTION: &str = "WITHCOUNT keyword expected";

fn reserve(line: &str) -> Result<Shape, String> {
    let words = words(line);
    topk::require_shape_words(&words[..]).map_err(|error| error.to_string())?;
    topk::shape(&words[..], Origin::Client).map_err(|error| error.to_string())
}

#[test]
fn reserve_takes_one_number_or_four() {
    for (line, k, width, depth, decay) in [
        ("k 5", 5, 8, 7, 0.9),
        ("k 4294967295", 4_294_967_295, 8, 7, 0.9),
        (" 5 2000 7 0.925", 5, 2000, 7, 0.925),
        ("k 1 1 1 1", 1, 1, 1, 1.0),
        ("k 1 4294967295 1 +.5", 1, 4_294_967_295, 1, 0.5),
        ("k 1 134217727 32 5.e-1", 1, 134_217_727, 32, 0.5),
        ("k 1 1 1 5e-324", 1, 1, 1, 5e-324),
    ] {
        let expected = Shape::new(k, width, depth, decay).unwrap();
        let reserved = reserve(&format!("TOPK.RESERVE {line}"));
        assert_eq!(reserved, Ok(expected), "{line}");
    }
    let deep = topk::shape(&words("TOPK.RESERVE k 1 2 65 0.9")[..], Origin::Elsewhere);
    assert_eq!(deep, Ok(Shape::new(1, 2, 65, 0.9).unwrap()));
}

#[test]
fn reserve_reports_the_first_error() {
    for (line, text) in [
        ("", ARITY),
        ("TOPK.RESERVE", ARITY),
        ("TOPK.RESERVE k", ARITY),
        ("TOPK.RESERVE k 1 2", ARITY),
        ("TOPK.RESERVE k 1 2 3", ARITY),
        ("TOPK.RESERVE k x 2 3 0.9 5", ARITY),
        ("TOPK.RESERVE k 0", BAD_K),
        ("TOPK.RESERVE k 4294967296", BAD_K),
        ("TOPK.RESERVE k 0 0 0 0", BAD_K),
        ("TOPK.RESERVE k 1 0 0 0", BAD_WIDTH),
        ("TOPK.RESERVE k 1 4294967296 0 0", BAD_WIDTH),
        ("TOPK.RESERVE k 1 1 0 0", BAD_DEPTH),
        ("TOPK.RESERVE k 1 1 4294967296 0", BAD_DEPTH),
        ("TOPK.RESERVE k 1 1 33 0", BAD_DEPTH),
        ("TOPK.RESERVE k 1 1 1 0", BAD_DECAY),
        ("TOPK.RESERVE k 1 1 1 -0.0", BAD_DECAY),
        ("TOPK.RESERVE k 1 1 1 -0.5", BAD_DECAY),
        ("TOPK.RESERVE k 1 1 1 1.01", BAD_DECAY),
        ("TOPK.RESERVE k 1 1 1 inf", BAD_DECAY),
        ("TOPK.RESERVE k 1 1 1 nan", BAD_DECAY),
        ("TOPK.RESERVE k 1 1 1 1e-400", BAD_DECAY),
        ("TOPK.RESERVE k 1 2147483648 2 0.9", MEMORY),
        ("TOPK.RESERVE k 1 134217728 32 0.9", MEMORY),
    ] {
        assert_eq!(reserve(line), Err(text.to_owned()), "{line}");
    }
    for word in NO_NUMBERS.iter().chain(&NO_COUNTS) {
        assert_eq!(
            reserve(&format!("TOPK.RESERVE k {word}")),
            Err(BAD_K.to_owned())
        );
        for (line, text) in [
            (format!("TOPK.RESERVE k {word} x x x"), BAD_K),
            (format!("TOPK.RESERVE k 1 {word} x x"), BAD_WIDTH),
            (format!("TOPK.RESERVE k 1 1 {word} x"), BAD_DEPTH),
        ] {
            assert_eq!(reserve(&line), Err(text.to_owned()), "{line}");
        }
    }
    for word in NO_NUMBERS {
        let line = format!("TOPK.RESERVE k 1 1 1 {word}");
        assert_eq!(reserve(&line), Err(BAD_DECAY.to_owned()), "{line}");
    }
}

#[test]
fn increments_have_a_range() {
    for (word, expected) in [("0", 0), ("1", 1), ("99999", 99_999), ("100000", 100_000)] {
        assert_eq!(topk::increment(word.as_bytes()), Ok(expected));
    }
    let more = ["100001", "-1", "4294967296", "9223372036854775807"];
    for word in NO_COUNTS.iter().chain(&NO_NUMBERS).chain(&more) {
        let error = topk::increment(word.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), BAD_INCREMENT, "{word}");
    }
}

#[test]
fn list_takes_one_word() {
    let list = |words: &[&[u8]]| topk::lists_counts(words).map_err(|error| error.to_string());
    assert_eq!(list(&[b"TOPK.LIST", b"k"]), Ok(false));
    for word in ["WITHCOUNT", "withcount", "wItHcOuNt"] {
        assert_eq!(list(&[b"TOPK.LIST", b"k", word.as_bytes()]), Ok(true));
    }
    for word in [
        &b""[..],
        b"W",
        b"WITHCOUN",
        b"WITHCOUNTS",
        b"withcount\0",
        b"x",
    ] {
        let refused = list(&[b"TOPK.LIST", b"k", word]);
        assert_eq!(refused, Err(BAD_OPTION.to_owned()), "{word:?}");
    }
    assert_eq!(list(&[b"TOPK.LIST"]), Err(ARITY.to_owned()));
    let long = list(&[b"TOPK.LIST", b"k", b"WITHCOUNT", b"x"]);
    assert_eq!(long, Err(ARITY.to_owned()));
}
