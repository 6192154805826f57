//! Recordings of RedisBloom 8.8: the same commands make the same bytes, and these give the same answers.

use std::collections::HashMap;

use serde_json::{Value, json};
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::cms::{CellSize, CountMin, MergeError, NotCounted, Shape, Term, wire};

use crate::foreign::{fields_of_type, unhex};
use crate::support::at_each_width;

use super::{assert_equal, fields_of, read, sketch};

const OBJECTS: &str = include_str!("../../../../../tests/data/redisbloom-8.8-cmstopk/objects.json");
const TYPE_ID: u64 = 0x08c4_a4f9_360f_1000;
const RDB_VERSION_AND_CHECKSUM: usize = 10;

fn word(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.as_bytes().to_vec(),
        other => unhex(other["hex"].as_str().unwrap()),
    }
}

fn number<N: std::str::FromStr<Err: std::fmt::Debug>>(word: &[u8]) -> N {
    std::str::from_utf8(word).unwrap().parse().unwrap()
}

/// Returns the recorded sketches in order of creation.
fn recorded() -> Vec<(String, Value)> {
    let all: Value = serde_json::from_str(OBJECTS).unwrap();
    let order = all["order"].as_array().unwrap().iter();
    let sketches: Vec<_> = order
        .map(|key| key.as_str().unwrap())
        .map(|key| (key.to_owned(), all["objects"][key].clone()))
        .filter(|(_, object)| object["type"] == wire::TYPE_NAME.to_str().unwrap())
        .collect();
    assert_eq!(sketches.len(), 18);
    sketches
}

fn dump(object: &Value, name: &str) -> Vec<u8> {
    unhex(object[name].as_str().unwrap())
}

/// Requires that a sketch is the recorded one.
fn assert_recorded(sketch: &CountMin, object: &Value, what: &str) {
    let fields = fields_of_type(&dump(object, "dump_plain"), TYPE_ID);
    assert_eq!(fields_of(sketch), fields, "{what}");
    let info = &object["info"];
    assert_eq!(sketch.shape().width(), info["width"], "{what}");
    assert_eq!(sketch.shape().depth(), info["depth"], "{what}");
    assert_eq!(sketch.count().cast_signed(), info["count"], "{what}");
    let probe = object["probe"].as_array().unwrap();
    let probe: Vec<_> = probe
        .iter()
        .map(|hex| unhex(hex.as_str().unwrap()))
        .collect();
    let mut answers = Vec::new();
    sketch.estimate_each(probe.iter().map(Vec::as_slice), |answer| {
        answers.push(answer);
    });
    assert_eq!(json!(answers), object["query"], "{what}");
    for (item, answer) in probe.iter().zip(answers) {
        assert_eq!(sketch.estimate(item), answer, "{what}");
    }
}

/// Runs the commands that made a sketch, and compares their replies.
fn replay(key: &str, object: &Value, others: &HashMap<String, CountMin>) -> CountMin {
    let mut made: Option<CountMin> = None;
    for command in object["made"].as_array().unwrap() {
        let words: Vec<_> = command[1].as_array().unwrap().iter().map(word).collect();
        // Other errors are found before the sketch is asked.
        let error = command[2]["error"].as_str();
        if error.is_some_and(|text| text != "CMS: MERGE overflow") {
            continue;
        }
        let reply = match command[0].as_str().unwrap() {
            "CMS.INITBYDIM" => {
                made = Some(sketch(number(&words[0]), number(&words[1]), CellSize::Four));
                json!("OK")
            }
            "CMS.INITBYPROB" => {
                let [error, probability] =
                    [&words[0], &words[1]].map(|word| Fraction::new(number(word)).unwrap());
                let shape = Shape::for_rates(error, probability, CellSize::Four).unwrap();
                made = Some(CountMin::new(shape, u64::MAX).unwrap());
                json!("OK")
            }
            "RESTORE" => {
                made = Some(read(0, fields_of_type(&words[1], TYPE_ID)).unwrap());
                json!("OK")
            }
            "CMS.INCRBY" => {
                let pairs = words.chunks_exact(2);
                let pairs = pairs.map(|pair| (&pair[0][..], number(&pair[1])));
                let mut replies = Vec::new();
                made.as_mut().unwrap().increment_each(pairs, |counted| {
                    replies.push(match counted {
                        Ok(estimate) => json!(estimate),
                        Err(NotCounted::Saturated) => json!({"error": "CMS: INCRBY overflow"}),
                        Err(other) => panic!("{other:?}"),
                    });
                });
                json!(replies)
            }
            "CMS.MERGE" => {
                let keys: usize = number(&words[0]);
                let own = made.take().unwrap();
                let terms: Vec<_> = (0..keys)
                    .map(|index| {
                        let name = std::str::from_utf8(&words[1 + index]).unwrap();
                        Term {
                            source: if name == key { &own } else { &others[name] },
                            // After the sources and the keyword.
                            weight: words.get(2 + keys + index).map_or(1, |word| number(word)),
                        }
                    })
                    .collect();
                let merged = CountMin::merged(&terms, true);
                let overflows = merged.as_ref().err() == Some(&MergeError::Overflow);
                made = Some(merged.unwrap_or(own));
                if overflows {
                    json!({"error": "CMS: MERGE overflow"})
                } else {
                    json!("OK")
                }
            }
            other => panic!("{other} was not recorded"),
        };
        assert_eq!(reply, command[2], "{key} {command}");
    }
    made.unwrap()
}

#[test]
fn its_commands_make_its_bytes() {
    at_each_width(|_| {
        let mut made = HashMap::new();
        for (key, object) in recorded() {
            let replayed = replay(&key, &object, &made);
            assert_recorded(&replayed, &object, &key);
            made.insert(key, replayed);
        }
    });
}

#[test]
fn its_dumps_are_read_and_written() {
    for (key, object) in recorded() {
        for name in ["dump", "dump_plain"] {
            let sketch = read(0, fields_of_type(&dump(&object, name), TYPE_ID)).unwrap();
            assert_recorded(&sketch, &object, &key);
            let copy = sketch.try_clone().unwrap();
            assert_recorded(&copy, &object, &key);
            assert_equal(&copy, &sketch);
        }
    }
}

/// The payload for RESTORE is RedisBloom's own DUMP, but for the version of the form and the checksum, which tests on
/// servers check.
#[test]
fn payloads_are_dumps() {
    for (key, object) in recorded() {
        let dump = dump(&object, "dump_plain");
        let sketch = read(0, fields_of_type(&dump, TYPE_ID)).unwrap();
        let payload = wire::payload(&sketch);
        let value = dump.len() - RDB_VERSION_AND_CHECKSUM;
        // The server writes four digits as a number.
        if key != "cms-digits" {
            assert_eq!(payload[..value], dump[..value], "{key}");
        }
        assert_eq!(
            fields_of_type(&payload, TYPE_ID),
            fields_of(&sketch),
            "{key}"
        );
    }
}
