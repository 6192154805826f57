//! Recordings of RedisBloom 8.8: the same commands make the same bytes, and these give the same answers.

use serde_json::Value;
use valkeybloom_sketches::cuckoo::wire;
use valkeybloom_sketches::cuckoo::{Cuckoo, Limits, Params, Refusal, Shape};

use crate::foreign;
use crate::support::Stream;

use super::{fields_of, read};

const OBJECTS: &str = include_str!("../../../../../tests/data/redisbloom-8.8-cuckoo/objects.json");
const TYPE_ID: u64 = 0x3016_e5a2_8982_1404;
/// RedisBloom's setting at the time.
const MAX_FILTERS: u64 = 32;

fn hex(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn word(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.as_bytes().to_vec(),
        other => hex(&other["hex"]),
    }
}

/// A recorded object.
pub struct Recorded {
    pub key: String,
    value: Value,
    probe: Vec<Vec<u8>>,
}

pub fn objects() -> Vec<Recorded> {
    let all: Value = serde_json::from_str(OBJECTS).unwrap();
    let all = all.as_object().unwrap();
    let objects = all.iter().map(|(key, value)| Recorded {
        key: key.clone(),
        value: value.clone(),
        probe: value["probe"].as_array().unwrap().iter().map(hex).collect(),
    });
    objects.collect()
}

impl Recorded {
    pub fn fields(&self) -> Stream {
        foreign::fields_of_type(&hex(&self.value["dump_plain"]), TYPE_ID)
    }

    /// Returns the pairs of cursors and chunks, the header first.
    fn chunks(&self) -> Vec<(u64, Vec<u8>)> {
        let pairs = self.value["scandump"].as_array().unwrap().iter();
        pairs
            .map(|pair| (pair[0].as_u64().unwrap(), hex(&pair[1])))
            .collect()
    }

    fn assert_answers(&self, object: &Cuckoo, what: &str) {
        let key = &self.key;
        assert_eq!(fields_of(object), self.fields(), "{key} {what}");
        let answers = self.value["answers"].as_str().unwrap();
        let mut found = String::new();
        let items = self.probe.iter().map(Vec::as_slice);
        object.contains_each(items, |has| found.push(if has { '1' } else { '0' }));
        assert_eq!(found, answers, "{key} {what}");
        for (item, count) in self
            .probe
            .iter()
            .zip(self.value["counts"].as_array().unwrap())
        {
            let count = count.as_u64().unwrap();
            assert_eq!(object.count(item), count, "{key} {what}");
            assert_eq!(object.contains(item), count > 0, "{key} {what}");
        }
    }

    /// Runs the commands that made it, each with the reply that it had.
    fn replay(&self) -> Cuckoo {
        let mut object = None;
        for command in self.value["made"].as_array().unwrap() {
            let name = command[0].as_str().unwrap();
            let words: Vec<_> = command[1].as_array().unwrap().iter().map(word).collect();
            let items = command[2].as_array().unwrap().iter();
            let mut items =
                items.map(|i| &self.probe[usize::try_from(i.as_u64().unwrap()).unwrap()][..]);
            let reply = &command[3];
            let option = |name: &str, default: u64| {
                let at = words.iter().position(|word| word == name.as_bytes());
                at.map_or(default, |at| number(&words[at + 1]))
            };
            let unless_present = name.ends_with("NX");
            match name {
                "CF.RESERVE" => {
                    object = Some(create(&Params {
                        capacity: number(&words[0]),
                        bucket_size: u8::try_from(option("BUCKETSIZE", 2)).unwrap(),
                        max_iterations: u16::try_from(option("MAXITERATIONS", 20)).unwrap(),
                        expansion: u16::try_from(option("EXPANSION", 1)).unwrap(),
                    }));
                }
                "CF.LOADCHUNK" if words[0] == b"1" => {
                    object = Some(wire::begin(&words[1], &Limits::NONE).unwrap());
                }
                "CF.LOADCHUNK" => {
                    let object = object.as_mut().unwrap();
                    assert_eq!(wire::load(object, number(&words[0]), &words[1]), Ok(true));
                }
                "CF.DEL" => {
                    let removed = object.as_mut().unwrap().remove(items.next().unwrap());
                    assert_eq!(u64::from(removed), reply.as_u64().unwrap());
                }
                "CF.COMPACT" => {
                    object.as_mut().unwrap().compact();
                }
                "CF.ADD" | "CF.ADDNX" | "CF.INSERT" | "CF.INSERTNX" => {
                    let capacity = option("CAPACITY", 1024);
                    let object = object.get_or_insert_with(|| {
                        create(&Params {
                            capacity,
                            ..Params::REDISBLOOM
                        })
                    });
                    if object.filters().len() as u64 >= MAX_FILTERS {
                        assert_eq!(reply["error"], "Maximum expansions reached");
                        continue;
                    }
                    let mut replies = Vec::new();
                    object.add_each(
                        items,
                        unless_present,
                        || Limits::NONE,
                        |added| {
                            replies.push(match added {
                                Ok(added) => Value::from(u64::from(added)),
                                Err(Refusal::Full) if name.starts_with("CF.INSERT") => {
                                    Value::from(-1)
                                }
                                Err(Refusal::Full) => {
                                    serde_json::json!({"error": "Filter is full"})
                                }
                                Err(other) => panic!("{other:?}"),
                            });
                        },
                    );
                    let replies = if name.starts_with("CF.INSERT") {
                        Value::from(replies)
                    } else {
                        replies.remove(0)
                    };
                    assert_eq!(&replies, reply, "{} {name}", self.key);
                }
                other => panic!("{other} was not recorded"),
            }
        }
        object.unwrap()
    }
}

fn create(params: &Params) -> Cuckoo {
    Cuckoo::new(Shape::new(params).unwrap(), &Limits::NONE).unwrap()
}

fn number(word: &[u8]) -> u64 {
    std::str::from_utf8(word).unwrap().parse().unwrap()
}

#[test]
fn its_commands_make_its_bytes() {
    let objects = objects();
    assert_eq!(objects.len(), 19);
    for recorded in objects {
        recorded.assert_answers(&recorded.replay(), "replayed");
    }
}

#[test]
fn its_dumps_and_chunks_are_read_and_written() {
    for recorded in objects() {
        let object = read(recorded.fields()).unwrap();
        recorded.assert_answers(&object, "restored");
        recorded.assert_answers(&object.try_clone().unwrap(), "copied");
        let chunks = recorded.chunks();
        // RedisBloom writes no chunks for an object without items.
        assert_eq!(chunks.is_empty(), object.items() == 0);
        let Some(((_, header), data)) = chunks.split_first() else {
            continue;
        };
        assert_eq!(&wire::write_header(&object), header, "{}", recorded.key);
        let mut cursor = 1;
        for (next, bytes) in data {
            let (own_next, own) = wire::chunk(&object, cursor).unwrap().unwrap();
            assert_eq!((own_next, &*own), (*next, &bytes[..]), "{}", recorded.key);
            cursor = own_next;
        }
        assert_eq!(wire::chunk(&object, cursor), Ok(None));
        // In order, and in the other order, with one of them twice.
        let in_order: Vec<_> = data.iter().collect();
        let backwards: Vec<_> = data.iter().rev().chain(data.first()).collect();
        for chunks in [in_order, backwards] {
            let mut loaded = wire::begin(header, &Limits::NONE).unwrap();
            for (cursor, chunk) in chunks {
                assert_eq!(wire::load(&mut loaded, *cursor, chunk), Ok(true));
            }
            recorded.assert_answers(&loaded, "loaded");
        }
        let rebuilt: Vec<_> = wire::chunks(&object)
            .map(|(next, c)| (next, c.to_vec()))
            .collect();
        assert_eq!(rebuilt, data, "{}", recorded.key);
    }
}
