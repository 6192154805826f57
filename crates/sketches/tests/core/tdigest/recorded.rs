//! Recordings of RedisBloom 8.8: the same commands make the same bytes, and these give the same answers.

use std::collections::BTreeMap;

use serde_json::Value;
use valkeybloom_sketches::tdigest::{Compression, TDigest};

use crate::foreign::{fields_of_type, unhex};
use crate::support::{Field, Stream};

use super::{fields_of, read, require_sound};

const OBJECTS: &str = include_str!("../../../../../tests/data/redisbloom-8.8-tdigest/objects.json");
/// Four of the cases by a later build of `RedisBloom`, which keeps a lone observation.
const REPAIRED: &str =
    include_str!("../../../../../tests/data/redisbloom-8.8-tdigest/repaired.json");
const TYPE_ID: u64 = 0x4c32_12f9_360f_1000;

/// A recorded case: commands with their replies, and the keys that they made.
pub struct Case {
    pub name: String,
    value: Value,
}

fn cases(of: &str) -> Vec<Case> {
    let recorded: Value = serde_json::from_str(of).unwrap();
    let cases = recorded["cases"].as_object().unwrap().iter();
    cases
        .map(|(name, value)| Case {
            name: name.clone(),
            value: value.clone(),
        })
        .collect()
}

/// The cases of 8.8 but those that lost a lone observation, which the later build recorded again.
pub fn all() -> Vec<Case> {
    let repaired = cases(REPAIRED);
    let mut all = cases(OBJECTS);
    all.retain(|case| repaired.iter().all(|other| other.name != case.name));
    all.extend(repaired);
    assert_eq!(all.len(), 35);
    all
}

/// When digests are compressed apart from additions.
#[derive(Clone, Copy, PartialEq)]
enum Compress {
    /// By reads and dumps, as in `RedisBloom`.
    ByReads,
    /// By merges alone, as here.
    ByWrites,
}

/// The digests of a case.
struct Keys {
    compress: Compress,
    digests: BTreeMap<String, TDigest>,
}

impl Case {
    fn keys(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.value["keys"].as_object().unwrap().iter()
    }

    /// Requires that these differences are NaN in the recording, and answers here.
    fn require_mended(&self, what: &dyn std::fmt::Debug, differing: &[(Reply, String)]) -> usize {
        for (own, recorded) in differing {
            let mended = recorded == "nan" && matches!(own, Reply::Double(own) if own.is_finite());
            assert!(
                mended && WITHOUT_ANSWERS.contains(&&*self.name),
                "{} {what:?}: {own:?}, {recorded}",
                self.name
            );
        }
        differing.len()
    }

    /// Runs the commands, and requires their replies.
    fn replay(&self, compress: Compress) -> BTreeMap<String, TDigest> {
        let digests = BTreeMap::new();
        let mut keys = Keys { compress, digests };
        for step in self.value["history"].as_array().unwrap() {
            let words: Vec<&Value> = step[0].as_array().unwrap().iter().collect();
            let error = step[1].get("error");
            if let Some(error) = error {
                keys.refuse(&words, text(error));
            } else if let Some(reply) = keys.run(&words) {
                self.require_mended(&words, &differing(&reply, &step[1]));
            }
        }
        keys.digests
    }
}

/// The cases whose recorded answers may be NaN where there is an answer.
const WITHOUT_ANSWERS: [&str; 3] = [
    // The outermost node has weight 2.
    "ends", // Sums and products of large values overflow.
    "huge", "overflow",
];

fn text(word: &Value) -> &str {
    word.as_str().unwrap()
}

fn number(word: &Value) -> f64 {
    text(word).parse().unwrap()
}

/// A reply, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Double(f64),
    Integer(i64),
    Text(String),
    List(Vec<Reply>),
}

/// Returns the pairs of an answer and a recorded one that is not the same.
fn differing(reply: &Reply, recorded: &Value) -> Vec<(Reply, String)> {
    let same = match (reply, recorded) {
        (Reply::Double(double), Value::String(text)) => {
            let recorded: f64 = text.parse().unwrap();
            double.to_bits() == recorded.to_bits() || double.is_nan() && text == "nan"
        }
        (Reply::Integer(integer), Value::Number(recorded)) => recorded.as_i64() == Some(*integer),
        (Reply::Text(text), Value::String(recorded)) => text == recorded,
        (Reply::List(list), Value::Array(recorded)) if list.len() == recorded.len() => {
            let pairs = list.iter().zip(recorded);
            return pairs
                .flat_map(|(own, recorded)| differing(own, recorded))
                .collect();
        }
        _ => false,
    };
    if same {
        Vec::new()
    } else {
        let recorded = recorded
            .as_str()
            .map_or(recorded.to_string(), str::to_owned);
        vec![(reply.clone(), recorded)]
    }
}

/// Returns what the command for information says.
pub fn info(digest: &TDigest) -> Reply {
    let compression = digest.compression();
    let int = |value: u64| Reply::Integer(value.cast_signed());
    let rows = [
        ("Compression", int(compression.get())),
        ("Capacity", int(compression.capacity())),
        ("Merged nodes", int(digest.merged_nodes() as u64)),
        ("Unmerged nodes", int(digest.unmerged_nodes() as u64)),
        ("Merged weight", Reply::Integer(digest.merged_weight())),
        ("Unmerged weight", Reply::Integer(digest.unmerged_weight())),
        ("Observations", Reply::Integer(digest.observations())),
        ("Total compressions", Reply::Integer(digest.compressions())),
        ("Memory usage", int(compression.full_bytes())),
    ];
    let rows = rows.into_iter();
    Reply::List(
        rows.flat_map(|(name, value)| [Reply::Text(name.to_owned()), value])
            .collect(),
    )
}

/// Runs a query on a digest.
pub fn query(digest: &TDigest, name: &str, words: &[&Value]) -> Reply {
    let compressed = digest.compressed().unwrap();
    let doubles = |answer: &dyn Fn(f64) -> f64| {
        Reply::List(
            words
                .iter()
                .map(|word| Reply::Double(answer(number(word))))
                .collect(),
        )
    };
    let ranks = |answer: &dyn Fn(f64) -> i64| {
        Reply::List(
            words
                .iter()
                .map(|word| Reply::Integer(answer(number(word))))
                .collect(),
        )
    };
    let by_ranks = |answer: &dyn Fn(u64) -> f64| {
        let rank = |word: &&Value| text(word).parse().unwrap();
        Reply::List(
            words
                .iter()
                .map(|word| Reply::Double(answer(rank(word))))
                .collect(),
        )
    };
    match name {
        "MIN" => Reply::Double(digest.min()),
        "MAX" => Reply::Double(digest.max()),
        "QUANTILE" => doubles(&|q| compressed.quantile(q)),
        "CDF" => doubles(&|v| compressed.cdf(v)),
        "RANK" => ranks(&|v| compressed.rank(v)),
        "REVRANK" => ranks(&|v| compressed.reverse_rank(v)),
        "BYRANK" => by_ranks(&|r| compressed.by_rank(r)),
        "BYREVRANK" => by_ranks(&|r| compressed.by_reverse_rank(r)),
        "TRIMMED_MEAN" => {
            Reply::Double(compressed.trimmed_mean(number(words[0]), number(words[1])))
        }
        other => panic!("{other}"),
    }
}

/// Returns whether a query compresses the digest in `RedisBloom`.
fn compresses(digest: &TDigest, name: &str, words: &[&Value]) -> bool {
    match name {
        "MIN" | "MAX" => false,
        "RANK" | "REVRANK" => {
            let is_within = |value| digest.min() <= value && value <= digest.max();
            words.iter().any(|word| is_within(number(word)))
        }
        "BYRANK" | "BYREVRANK" => {
            let is_within = |rank: i64| 0 < rank && rank < digest.observations();
            words
                .iter()
                .any(|word| is_within(text(word).parse().unwrap()))
        }
        _ => true,
    }
}

impl Keys {
    /// Runs a command that is refused. In `RedisBloom`, a merge of too many observations compresses its sources first.
    fn refuse(&mut self, words: &[&Value], error: &str) {
        if self.compress == Compress::ByReads && error.contains("overflow") {
            assert_eq!(text(words[0]), "TDIGEST.MERGE");
            self.digests.get_mut(text(words[1])).unwrap().compress();
        }
    }

    /// Runs a command, and returns its reply unless that does not matter.
    fn run(&mut self, words: &[&Value]) -> Option<Reply> {
        let ok = Some(Reply::Text("OK".to_owned()));
        let (command, key) = (text(words[0]), text(words[1]));
        match command {
            "SET" => return ok,
            "DUMP" => {
                if self.compress == Compress::ByReads {
                    self.digests.get_mut(key).unwrap().compress();
                }
                return None;
            }
            "RESTORE" => {
                let payload = unhex(words[3]["hex"].as_str().unwrap());
                let digest = read(fields_of_type(&payload, TYPE_ID)).unwrap();
                self.digests.insert(key.to_owned(), digest);
                return ok;
            }
            _ => {}
        }
        let name = command.strip_prefix("TDIGEST.").unwrap();
        match name {
            "CREATE" => {
                let compression = words.get(3).map_or(100, |word| text(word).parse().unwrap());
                let digest = TDigest::new(Compression::new(compression).unwrap());
                assert!(self.digests.insert(key.to_owned(), digest).is_none());
                return ok;
            }
            "MERGE" => {
                self.merge(key, &words[2..]);
                return ok;
            }
            _ => {}
        }
        let digest = self.digests.get_mut(key).unwrap();
        match name {
            "ADD" => {
                let values: Vec<f64> = words[2..].iter().map(|word| number(word)).collect();
                digest.add_each(&values).unwrap();
                ok
            }
            "RESET" => {
                digest.reset();
                ok
            }
            "INFO" => {
                let is_exact = self.compress == Compress::ByReads;
                is_exact.then(|| info(digest))
            }
            _ => {
                let words = &words[2..];
                let is_exact = self.compress == Compress::ByReads;
                if is_exact && compresses(digest, name, words) {
                    digest.compress();
                }
                is_exact.then(|| query(digest, name, words))
            }
        }
    }

    fn merge(&mut self, key: &str, words: &[&Value]) {
        let count: usize = text(words[0]).parse().unwrap();
        let (names, options) = words[1..].split_at(count);
        let is = |word: &&Value, name: &str| text(word).eq_ignore_ascii_case(name);
        let overrides = options.iter().any(|word| is(word, "OVERRIDE"));
        let given = options.iter().position(|word| is(word, "COMPRESSION"));
        let given =
            given.map(|at| Compression::new(text(options[at + 1]).parse().unwrap()).unwrap());
        let own = (!overrides && self.digests.contains_key(key)).then_some(key);
        let names = names.iter().map(|name| text(name));
        // A merge is a write, so its sources are compressed here, too.
        for name in own.into_iter().chain(names.clone()) {
            self.digests.get_mut(name).unwrap().compress();
        }
        let sources = own
            .into_iter()
            .chain(names.clone())
            .map(|name| &self.digests[name]);
        let largest = names.map(|name| self.digests[name].compression()).max();
        let own = own.map(|own| self.digests[own].compression());
        let compression = given.or(own).or(largest).unwrap();
        let merged = TDigest::merged(compression, sources).unwrap();
        self.digests.insert(key.to_owned(), merged);
    }
}

fn dump(value: &Value, name: &str) -> Option<Stream> {
    let dump = value.get(name)?.as_str().unwrap();
    Some(fields_of_type(&unhex(dump), TYPE_ID))
}

/// A case of differences that overflow. There they make means infinite or NaN, which are mended; here they don't.
const OVERFLOWING: &str = "overflow";

/// Requires that a digest is finite where the recorded one is not.
fn require_finite(digest: &TDigest, recorded: &Stream) {
    let is_finite = |field: &Field| !matches!(field, Field::Double(double) if !double.is_finite());
    assert!(fields_of(digest).0.iter().all(is_finite));
    let weights = |fields: &Stream, nodes| {
        fields
            .0
            .iter()
            .rev()
            .take(nodes)
            .cloned()
            .collect::<Vec<_>>()
    };
    let mended = read(recorded.clone()).unwrap();
    let (stored, nodes) = (fields_of(&mended), mended.merged_nodes());
    assert!(!recorded.0.iter().all(is_finite) && stored.0.iter().all(is_finite));
    assert_eq!(weights(&stored, nodes), weights(recorded, nodes));
    assert_eq!((mended.min(), mended.max()), (digest.min(), digest.max()));
    require_sound(&mended, OVERFLOWING);
}

#[test]
fn the_same_commands_make_the_same_bytes() {
    let mut keys = 0;
    for case in all() {
        let mut digests = case.replay(Compress::ByReads);
        for (key, value) in case.keys() {
            let digest = digests.get_mut(key).unwrap();
            let recorded = dump(value, "dump").unwrap();
            keys += 1;
            if case.name == OVERFLOWING {
                require_finite(digest, &recorded);
                continue;
            }
            assert_eq!(differing(&info(digest), &value["info"]), [], "{key}");
            assert_eq!(fields_of(digest), recorded, "{key}");
            digest.compress();
            let compressed = differing(&info(digest), &value["info_after_dump"]);
            assert_eq!(compressed, [], "{key}");
        }
    }
    assert_eq!(keys, 68);
}

/// What RedisBloom's log makes agrees with what its primary had, unless a value is added.
fn drift_is_within_accuracy(key: &str, value: &Value, replayed: &Stream) {
    let recorded = super::read(dump(value, "dump").unwrap()).unwrap();
    let mut other = super::read(replayed.clone()).unwrap();
    assert_eq!(recorded.agrees_with(&other), Some(true), "{key}");
    other.add_each(&[other.min()]).unwrap();
    // Beyond 2^53 observations, one more is lost to rounding.
    let is_lost = recorded.observations() >= 1 << 53;
    assert!(
        is_lost || recorded.agrees_with(&other) == Some(false),
        "{key}"
    );
}

/// Without reads, the writes of a case give what `RedisBloom` makes of its log.
#[test]
fn reads_change_nothing() {
    let mut without_reads = 0;
    for case in all() {
        let digests = case.replay(Compress::ByWrites);
        for (key, value) in case.keys() {
            let replayed = dump(value, "dump_from_aof");
            if let Some(replayed) = &replayed {
                without_reads += 1;
                drift_is_within_accuracy(key, value, replayed);
            }
            let expected = replayed.or_else(|| dump(value, "dump")).unwrap();
            if case.name == OVERFLOWING {
                require_finite(&digests[key], &expected);
            } else {
                assert_eq!(fields_of(&digests[key]), expected, "{key}");
            }
        }
    }
    assert_eq!(without_reads, 8);
}

#[test]
fn recorded_bytes_give_the_recorded_answers() {
    const LISTS: [&str; 6] = ["quantile", "cdf", "rank", "revrank", "byrank", "byrevrank"];
    let (mut answers, mut mended) = (0, 0);
    for case in all().iter().filter(|case| case.name != OVERFLOWING) {
        for (key, value) in case.keys() {
            let stored = dump(value, "dump").unwrap();
            let digest = read(stored.clone()).unwrap();
            assert_eq!(fields_of(&digest), stored, "{key}");
            assert_eq!(
                differing(&info(&digest), &value["info_after_dump"]),
                [],
                "{key}"
            );
            let mut require = |name: &str, points: &[&Value], answer: &Value| {
                let own = query(&digest, &name.to_uppercase(), points);
                mended += case.require_mended(&(key, name), &differing(&own, answer));
                answers += 1;
            };
            for name in ["min", "max"] {
                require(name, &[], &value[name]);
            }
            for name in LISTS {
                let points: Vec<&Value> = value[name][0].as_array().unwrap().iter().collect();
                require(name, &points, &value[name][1]);
            }
            for cut in value["trimmed_mean"].as_array().unwrap() {
                require("trimmed_mean", &[&cut[0], &cut[1]], &cut[2]);
            }
        }
    }
    assert!(answers > 1000 && mended > 0);
}
