//! The words of the CMS commands.

use valkeybloom_protocol::cms::{
    Merge, error, increment, require_count, shape_by_rates, shape_by_size,
};
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::cms::{CellSize, Shape};

use super::{NO_COUNTS, NO_NUMBERS, words};

const WIDTH: &str = "CMS: invalid width";
const DEPTH: &str = "CMS: invalid depth";
const SHAPE: &str = "CMS: invalid init arguments";
const OPTION: &str = "CMS: unknown argument";
const CELL_SIZE: &str = "CMS: CELL_SIZE must be 1, 2, 4 or 8";
const ERROR_RATE: &str = "CMS: invalid overestimation value";
const PROBABILITY: &str = "CMS: invalid prob value";

/// Parses the words after the name and the key.
fn by_size(line: &str) -> Result<Shape, String> {
    let line = format!("CMS.INITBYDIM k {line}");
    require_count(&words(&line)[..]).map_err(|error| error.to_string())?;
    shape_by_size(&words(&line)[..], Origin::Client).map_err(|error| error.to_string())
}

fn by_rates(line: &str) -> Result<Shape, String> {
    let line = format!("CMS.INITBYPROB k {line}");
    require_count(&words(&line)[..]).map_err(|error| error.to_string())?;
    shape_by_rates(&words(&line)[..]).map_err(|error| error.to_string())
}

#[test]
fn sizes_are_parsed() {
    let most = i64::MAX as u64;
    for (line, width, depth, size) in [
        ("1 1", 1, 1, CellSize::Four),
        ("2000 7", 2000, 7, CellSize::Four),
        ("1 256", 1, 256, CellSize::Four),
        ("9223372036854775807 1", most, 1, CellSize::Four),
        ("4611686018427387903 2", most / 2, 2, CellSize::Four),
        ("10 5 CELL_SIZE 1", 10, 5, CellSize::One),
        ("10 5 cell_size 2", 10, 5, CellSize::Two),
        ("10 5 Cell_Size 4", 10, 5, CellSize::Four),
        ("10 5 CELL_SIZE 8", 10, 5, CellSize::Eight),
    ] {
        assert_eq!(by_size(line).ok(), Shape::new(width, depth, size), "{line}");
    }
    let deep = shape_by_size(&words("CMS.INITBYDIM k 1 1500")[..], Origin::Elsewhere);
    assert_eq!(deep.ok(), Shape::new(1, 1500, CellSize::Four));
    for (line, text) in [
        ("x 0", WIDTH),
        ("0 x CELL_SIZE 3", WIDTH),
        ("9223372036854775808 1", WIDTH),
        ("1 0", DEPTH),
        ("1 x word 3", DEPTH),
        ("1 257", DEPTH),
        ("1 9223372036854775808", DEPTH),
        ("1 1 CELLSIZE 3", OPTION),
        ("1 1  4", OPTION),
        ("9223372036854775807 2 WORD 4", OPTION),
        ("1 1 CELL_SIZE 3", CELL_SIZE),
        ("1 1 CELL_SIZE 0", CELL_SIZE),
        ("1 1 CELL_SIZE 16", CELL_SIZE),
        ("9223372036854775807 2 CELL_SIZE 08", CELL_SIZE),
        ("9223372036854775807 2", SHAPE),
        ("4611686018427387904 2", SHAPE),
    ] {
        assert_eq!(by_size(line), Err(text.to_owned()), "{line}");
    }
    for word in NO_NUMBERS.into_iter().chain(NO_COUNTS) {
        assert_eq!(
            by_size(&format!("{word} 5")),
            Err(WIDTH.to_owned()),
            "{word}"
        );
        assert_eq!(
            by_size(&format!("5 {word}")),
            Err(DEPTH.to_owned()),
            "{word}"
        );
    }
}

#[test]
fn rates_are_parsed() {
    for (line, width, depth, size) in [
        ("+0.5 5.e-1", 4, 1, CellSize::Four),
        ("0.001 0.01", 2000, 7, CellSize::Four),
        (".5 1e-45", 4, 149, CellSize::Four),
        ("0.1 0.5 CELL_SIZE 8", 20, 1, CellSize::Eight),
    ] {
        assert_eq!(
            by_rates(line).ok(),
            Shape::new(width, depth, size),
            "{line}"
        );
    }
    for (line, text) in [
        ("0 x", ERROR_RATE),
        ("1 0.1", ERROR_RATE),
        ("-0.1 0.1", ERROR_RATE),
        ("nan 0.1", ERROR_RATE),
        ("inf 0.1", ERROR_RATE),
        ("0x0.8p0 0.5", ERROR_RATE),
        ("1e-400 0.5", ERROR_RATE),
        (" 0.5", ERROR_RATE),
        ("0.1 0", PROBABILITY),
        ("0.1 1", PROBABILITY),
        ("0.1 y word 3", PROBABILITY),
        ("0.1 nan", PROBABILITY),
        ("0.1 0.1 size 4", OPTION),
        ("0.1 0.1 CELL_SIZE 5", CELL_SIZE),
        ("0.9 0.9999999999999999", SHAPE),
        ("1e-19 0.5", SHAPE),
        ("3e-19 0.1", SHAPE),
        ("0.5 7e-46", SHAPE),
    ] {
        assert_eq!(by_rates(line), Err(text.to_owned()), "{line}");
    }
}

#[test]
fn increments_are_integers() {
    for (word, number) in [
        ("0", 0),
        ("1", 1),
        ("-1", -1),
        ("9223372036854775807", i64::MAX),
        ("-9223372036854775807", -i64::MAX),
    ] {
        assert_eq!(increment(word.as_bytes(), || false), Ok(number));
    }
    for word in NO_NUMBERS.into_iter().chain(["9223372036854775808", "1.5"]) {
        assert_eq!(
            increment(word.as_bytes(), || false),
            Err(error::BAD_INCREMENT),
            "{word}"
        );
    }
    let least = increment(b"-9223372036854775808", || false).unwrap_err();
    assert_eq!(least.to_string(), "CMS: invalid increment");
    // RedisBloom 8.8 has no negative increments.
    for word in ["-1", "-9223372036854775808"] {
        let refused = increment(word.as_bytes(), || true);
        assert_eq!(refused, Err(error::NEGATIVE_INCREMENT));
    }
    assert_eq!(increment(b"0", || true), Ok(0));
}

/// Parses the words after the name and the destination, and returns the sources with their weights.
fn merge(line: &str) -> Result<Vec<(String, i64)>, String> {
    let line = format!("CMS.MERGE d {line}");
    let words = words(&line);
    let merge = Merge::parse(&words[..]).map_err(|error| error.to_string())?;
    let sources = merge.sources.clone().map(|index| {
        let name = String::from_utf8(words[index].to_vec()).unwrap();
        let weight = merge.weight(&words[..], index);
        weight
            .map(|weight| (name, weight))
            .map_err(|error| error.to_string())
    });
    sources.collect()
}

#[test]
fn sources_and_weights_are_found() {
    const NUMBER: &str = "CMS: invalid numkeys";
    const POSITIVE: &str = "CMS: Number of keys must be positive";
    const SOURCES: &str = "CMS: wrong number of keys";
    const WEIGHTS: &str = "CMS: wrong number of keys/weights";
    const WEIGHT: &str = "CMS: invalid weight value";
    for (line, expected) in [
        ("1 a", &[("a", 1)][..]),
        ("2 a b", &[("a", 1), ("b", 1)]),
        ("2 a a weights 3 -7", &[("a", 3), ("a", -7)]),
        ("1 a WEIGHTS 0", &[("a", 0)]),
        ("1 a WeIgHtS 9223372036854775807", &[("a", i64::MAX)]),
        ("1 a weights -9223372036854775808", &[("a", i64::MIN)]),
        // Keys may have the keyword's name.
        ("1 weights", &[("weights", 1)]),
        ("2 a weights", &[("a", 1), ("weights", 1)]),
        (
            "2 weights weights weights 1 2",
            &[("weights", 1), ("weights", 2)],
        ),
        ("1 weights WEIGHTS 5", &[("weights", 5)]),
        ("1 ", &[("", 1)]),
    ] {
        let parsed = format!("CMS.MERGE d {line}");
        let parsed = words(&parsed);
        let parsed =
            Merge::parse(&parsed[..]).map(|merge| merge.has_source_like_keyword(&parsed[..]));
        let has_one = expected.iter().any(|(name, _)| *name == "weights");
        assert_eq!(parsed, Ok(has_one), "{line}");
        let expected = expected
            .iter()
            .map(|(name, weight)| ((*name).to_owned(), *weight));
        assert_eq!(merge(line), Ok(expected.collect()), "{line}");
    }
    for (line, text) in [
        ("x c", NUMBER),
        ("1.0 c", NUMBER),
        ("9223372036854775808 c", NUMBER),
        ("0 c", POSITIVE),
        ("-1 c", POSITIVE),
        ("2 c", SOURCES),
        ("1 c e", SOURCES),
        ("1 c e f", SOURCES),
        ("9223372036854775807 c", SOURCES),
        ("1 c WEIGHTS", WEIGHTS),
        ("1 c WEIGHTS 1 2", WEIGHTS),
        ("1 c d WEIGHTS 1 2", WEIGHTS),
        ("2 c WEIGHTS 1", WEIGHTS),
        ("3 c WEIGHTS", WEIGHTS),
        ("9223372036854775807 c WEIGHTS 2", WEIGHTS),
        ("1 c WEIGHTS x", WEIGHT),
        ("1 c WEIGHTS 1.5", WEIGHT),
        ("1 c WEIGHTS 9223372036854775808", WEIGHT),
        ("2 c e WEIGHTS 1 +1", WEIGHT),
    ] {
        assert_eq!(merge(line), Err(text.to_owned()), "{line}");
    }
}
