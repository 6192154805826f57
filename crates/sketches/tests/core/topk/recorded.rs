//! Recordings of RedisBloom 8.8: the same commands with the same random numbers make the same bytes and replies.

use std::collections::VecDeque;

use serde_json::Value;
use valkeybloom_sketches::topk::{
    Chance, Collision, Contest, Decay, INCREMENT_MAX, TopK, one_by_one,
};
use valkeybloom_sketches::{Seed, Sketch};

use crate::recorded::{dump, values};
use crate::support::{Field, Rng, Stream, unhex};
use valkeybloom_testing::loader::Dump;

use super::{Drawn, fields_of, ranking, read, sketch};

/// Where the heap is among the fields.
const HEAP: usize = 5;

/// The random numbers that were recorded.
struct Recorded {
    draws: VecDeque<u32>,
    made: usize,
}

impl Chance for Recorded {
    fn contest(&mut self, collision: &Collision, decay: &Decay) -> Contest {
        one_by_one(collision, decay, || {
            self.made += 1;
            self.draws.pop_front().expect("a recorded draw")
        })
    }
}

/// Returns the fields of a payload.
fn fields(payload: &[u8]) -> Stream {
    Stream(Dump::of(payload).unwrap().fields.into())
}

fn text(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.as_bytes().to_vec(),
        other => unhex(other["hex"].as_str().expect("text or bytes")),
    }
}

fn texts(value: &Value) -> Vec<Vec<u8>> {
    value.as_array().unwrap().iter().map(text).collect()
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).unwrap().parse().ok()
}

/// RedisBloom cuts items at a zero byte.
fn cut(item: &[u8]) -> &[u8] {
    item.split(|byte| *byte == 0).next().unwrap()
}

/// Returns fields without addresses and with items cut as RedisBloom cuts them. The lengths of items that were cut
/// before they came are lost, too: without `lengths`, none is compared.
fn masked(mut fields: Stream, lengths: bool) -> Stream {
    for (index, field) in fields.0.iter_mut().enumerate().skip(HEAP) {
        if let Field::Bytes(bytes) = field {
            if index > HEAP {
                *bytes = [cut(bytes), &[0]].concat();
                continue;
            }
            for entry in bytes.chunks_mut(24) {
                entry[if lengths { 8 } else { 4 }..16].fill(0);
            }
        }
    }
    fields
}

/// Returns the recorded draws of an object.
fn recorded_draws(value: &Value) -> Recorded {
    let draws = unhex(value["draws"].as_str().unwrap_or_default());
    let (draws, _) = draws.as_chunks();
    let draws = draws.iter().map(|draw| u32::from_le_bytes(*draw));
    let mut chance = Recorded {
        draws: draws.collect(),
        made: 0,
    };
    // Draws that can't matter were not recorded. Some are needed here: their probability is above 0.
    if value["exact"] == "sure" {
        chance.draws = std::iter::repeat_n(1 << 30, 100_000).collect();
    }
    chance
}

/// Runs the commands, and hands each answer to an addition on with the recorded one.
fn replay(
    value: &Value,
    chance: &mut impl Chance,
    answered: impl Fn(Option<&[u8]>, Option<&[u8]>),
) -> TopK {
    let mut object = None;
    for command in value["made"].as_array().unwrap() {
        let words = texts(&command[1]);
        if command[2]["error"].is_string() {
            continue;
        }
        match command[0].as_str().unwrap() {
            "RESTORE" => object = Some(read(fields(&words[1])).unwrap()),
            "TOPK.RESERVE" => {
                let decay = words.get(3).map_or(0.9, |word| number(word).unwrap());
                let whole = |index: usize, default| {
                    let word = words.get(index);
                    word.map_or(default, |word| number(word).unwrap())
                };
                object = Some(sketch(whole(0, 0), whole(1, 8), whole(2, 7), decay));
            }
            name => {
                let step = if name == "TOPK.ADD" { 1 } else { 2 };
                let object = object.as_mut().unwrap();
                let replies = command[2].as_array().unwrap();
                for (pair, reply) in words.chunks(step).zip(replies) {
                    let increment = pair.get(1).map_or(Some(1), |word| number(word));
                    let Some(increment) = increment.filter(|by| *by <= INCREMENT_MAX) else {
                        assert!(reply["error"].is_string(), "{reply}");
                        break;
                    };
                    let added = object.add_by(chance, &pair[0], increment, || u64::MAX);
                    let left = added.unwrap().left;
                    let expected = (!reply.is_null()).then(|| text(reply));
                    answered(left.as_deref().map(cut), expected.as_deref());
                }
            }
        }
    }
    object.unwrap()
}

fn assert_answers(key: &str, value: &Value, object: &TopK) {
    let probe = value["probe"].as_array().unwrap().iter();
    let probe: Vec<_> = probe.map(|item| unhex(item.as_str().unwrap())).collect();
    let each = |answer: fn(&TopK, &[u8]) -> u32| {
        let answers = probe.iter().map(|item| answer(object, item));
        Value::from(answers.collect::<Vec<_>>())
    };
    assert_eq!(
        each(|object, item| object.contains(item).into()),
        value["query"],
        "{key}"
    );
    assert_eq!(each(TopK::count), value["count"], "{key}");
    let expected = value["list"].as_array().unwrap();
    let expected = expected.chunks(2).map(|pair| {
        let count = u32::try_from(pair[1].as_u64().unwrap()).unwrap();
        (text(&pair[0]), count)
    });
    let own = ranking(object).into_iter();
    assert!(
        own.map(|(item, count)| (cut(&item).to_vec(), count))
            .eq(expected),
        "{key}"
    );
    let (info, shape) = (&value["info"], object.shape());
    let numbers = ["k", "width", "depth"].map(|name| info[name].as_u64());
    let own = [shape.k(), shape.width(), shape.depth()].map(|it| Some(it.into()));
    assert_eq!(numbers, own, "{key}");
    let decay: f64 = info["decay"].as_str().unwrap().parse().unwrap();
    assert_eq!(shape.decay().to_bits(), decay.to_bits(), "{key}");
}

fn stored(value: &Value) -> Stream {
    let fields = fields(&dump(value, "dump_plain"));
    let compressed = Sketch::from_dump(&dump(value, "dump"), Seed::FIXED);
    let Ok(Sketch::TopK(compressed)) = compressed else {
        panic!("{compressed:?}");
    };
    let plain = read(fields.clone()).unwrap();
    assert_eq!(fields_of(&compressed), fields_of(&plain));
    fields
}

#[test]
fn its_commands_and_draws_make_its_bytes() {
    let mut draws = 0;
    for (key, value) in values("TopK-TYPE") {
        let mut chance = recorded_draws(&value);
        let object = replay(&value, &mut chance, |own, recorded| {
            assert_eq!(own, recorded, "{key}");
        });
        let made = chance.made;
        match value["exact"].as_str().unwrap() {
            "none" => assert_eq!((made, object.collisions()), (0, 0), "{key}"),
            "replay" => assert_eq!(made as u64, value["ndraws"].as_u64().unwrap(), "{key}"),
            sure => assert_eq!(sure, "sure"),
        }
        draws += made;
        let [own, recorded] = [fields_of(&object), stored(&value)].map(|it| masked(it, true));
        assert_eq!(own, recorded, "{key}");
        assert_answers(&key, &value, &object);
    }
    assert!(draws > 10_000, "{draws} draws");
}

/// RedisBloom's replicas and logs draw other numbers than its primary: the lists agree.
#[test]
fn other_draws_make_a_sketch_that_agrees() {
    let mut drifted = 0;
    for (key, value) in values("TopK-TYPE")
        .iter()
        .filter(|(_, value)| value["exact"] == "replay")
    {
        let recorded = read(stored(value)).unwrap();
        for seed in 0..20 {
            let other = replay(value, &mut Drawn(Rng::new(seed)), |_, _| {});
            drifted += usize::from(masked(fields_of(&other), true) != masked(stored(value), true));
            assert!(recorded.agrees_with(&other), "{key} {seed}");
            assert!(other.agrees_with(&recorded), "{key} {seed}");
        }
    }
    assert!(drifted > 50, "{drifted}");
}

/// Items that RedisBloom cut are kept as they are, and those with a zero byte are found again.
#[test]
fn its_dumps_are_read() {
    for (key, value) in values("TopK-TYPE") {
        let fields = stored(&value);
        let own = fields_of(&read(fields.clone()).unwrap());
        assert_eq!(masked(own.clone(), false), masked(fields, false), "{key}");
        assert_eq!(fields_of(&read(own.clone()).unwrap()), own, "{key}");
        // What is written here has items in full, and gives all the answers that were recorded.
        let object = replay(&value, &mut recorded_draws(&value), |_, _| {});
        let loaded = read(fields_of(&object)).unwrap();
        assert_answers(&key, &value, &loaded);
    }
}
