//! The required content of keys, and its check.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use crate::harness::{Client, Reply, error, int, nil, simple};
use crate::naive::Naive;
use crate::soak::{Random, clock};
use crate::support::pieces::Pieces;
use crate::support::sketches::Sketch;

use super::cuckoo;

pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub const STILL_LOADING: &str = "ERR bloom object is still being loaded";
pub const BUSY: &str = "BUSYKEY Target key name already exists.";
pub const UNCOUNTED: &str = "ERR filter was not made with COUNTING";
pub const RATES: &str = "ERR error rates of the filters add up to 1 or more";
pub const FULL: &str = "ERR non scaling filter is full";

/// The abilities of an object beside holding items.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Plain,
    /// Items can be removed.
    Counting,
    /// Items are added and removed with ids.
    Ids,
    /// Items expire, but not while a test runs.
    Window,
    /// Items pass.
    Short,
}

/// The windows of those kinds: length of a period in milliseconds, and number of periods.
pub const WINDOW: (u64, u64) = (100_000_000_000, 12);
pub const SHORT: (u64, u64) = (1000, 4);

impl Kind {
    pub fn window(self) -> Option<(u64, u64)> {
        match self {
            Self::Window => Some(WINDOW),
            Self::Short => Some(SHORT),
            _ => None,
        }
    }

    pub fn counts(self) -> bool {
        matches!(self, Self::Counting | Self::Ids)
    }

    /// Returns the options that create it.
    pub fn words(self) -> String {
        match self.window() {
            Some((ms, periods)) => format!(" WINDOW {ms} PERIODS {periods}"),
            None if self.counts() => " COUNTING".to_owned(),
            None => String::new(),
        }
    }
}

pub fn now_ms() -> u64 {
    u64::try_from(clock().as_millis()).expect("not that late")
}

/// The required state of an object.
#[derive(Clone, Debug)]
pub struct Object {
    pub kind: Kind,
    /// Objects of the same one have the same hash functions.
    pub seed: u64,
    /// Whether it was merged: its filters cannot be predicted, and its rate may be higher.
    pub merged: bool,
    /// The ids of each addition of an item to counters.
    pub counts: BTreeMap<usize, Vec<u64>>,
    pub next_id: u64,
    /// The time at which each expiring item was last added.
    pub added_ms: HashMap<usize, u64>,
    /// The last reply of BF.DEBUG, for filters that the model cannot predict: it changes with a write, and by nothing
    /// else.
    pub reported: Option<Reply>,
    pub capacity: i64,
    /// 0 for one that does not scale.
    pub expansion: i64,
    pub error_rate: f64,
    pub tightening: f64,
    /// All that it may no longer deny.
    pub items: HashSet<usize>,
    /// The number of items that it reported as new.
    pub cardinality: i64,
}

impl Object {
    /// Returns whether its filters cannot be predicted.
    pub fn is_loose(&self) -> bool {
        self.kind != Kind::Plain || self.merged
    }

    /// Returns whether an item must be found, if it is queried now.
    pub fn is_certain(&self, number: usize) -> bool {
        let Some(added) = self.added_ms.get(&number) else {
            return self.kind != Kind::Short && self.items.contains(&number);
        };
        now_ms() - added <= SHORT.0 * (SHORT.1 - 1)
    }

    /// Returns the number of its filters, and the sum of their capacities.
    fn scale(&self) -> (i64, i64) {
        let (mut filters, mut last, mut sum) = (1, self.capacity, self.capacity);
        while sum < self.cardinality {
            last *= self.expansion;
            sum += last;
            filters += 1;
        }
        (filters, sum)
    }

    /// Returns whether the fields of BF.INFO have the values of the model.
    fn matches(&self, info: &[Reply]) -> bool {
        let rate = |index: usize| info[index].text().parse::<f64>().ok();
        let expansion = match self.expansion {
            0 => nil(),
            factor => int(factor),
        };
        if self.is_loose() {
            let rows = info.chunks_exact(2);
            let row = |name: &str| rows.clone().find(|row| row[0].text() == name);
            let window = |name: &str| row(name).map(|row| row[1].as_int().cast_unsigned());
            let rated = if self.merged {
                rate(11) >= Some(self.error_rate)
            } else {
                rate(11) == Some(self.error_rate)
            };
            return rated
                && (self.kind == Kind::Short || info[7] == int(self.cardinality))
                && info[9] == expansion
                && window("Window") == self.kind.window().map(|(ms, _)| ms)
                && window("Periods") == self.kind.window().map(|(_, periods)| periods);
        }
        let (filters, capacity) = self.scale();
        info[1] == int(capacity)
            && info[5] == int(filters)
            && info[7] == int(self.cardinality)
            && info[9] == expansion
            && rate(11) == Some(self.error_rate)
            && (self.expansion == 0 || rate(13) == Some(self.tightening))
    }
}

#[derive(Clone)]
pub enum Held {
    Text,
    Object(Object),
    /// An object without its last chunks, which are given here.
    Half(Object, Pieces),
    Cuckoo(Naive),
    Sketch(Rc<Sketch>),
}

#[derive(Clone)]
pub struct Entry {
    pub held: Held,
    pub expires_ms: i64,
}

impl Entry {
    pub fn lasting(held: Held) -> Self {
        let expires_ms = -1;
        Self { held, expires_ms }
    }

    /// Returns the error of every BF command that writes to it, except for the loading of chunks.
    pub fn refusal(&self) -> Option<&'static str> {
        match self.held {
            Held::Text | Held::Cuckoo(_) | Held::Sketch(_) => Some(WRONG_TYPE),
            Held::Object(_) => None,
            Held::Half(..) => Some(STILL_LOADING),
        }
    }

    /// Returns the error of loading an object under its key.
    pub fn refusal_to_load(&self) -> &'static str {
        match self.refusal() {
            Some(WRONG_TYPE) => WRONG_TYPE,
            _ => BUSY,
        }
    }
}

pub fn item(number: usize) -> String {
    format!("item-{number}\r\n\0")
}

/// The number of queries for strangers, and how many were answered with yes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Questions {
    pub asked: u64,
    pub mistaken: u64,
}

impl Questions {
    /// Far above the rates of all objects, and far below that of one that says yes to all.
    #[track_caller]
    pub fn are_mistaken_seldom(self) {
        let Self { asked, mistaken } = self;
        assert!(mistaken <= asked / 10 + 50, "{mistaken} of {asked}");
    }
}

/// The number of queries for items that were never added.
const OTHERS: u64 = 30;

/// Compares a key with the model of it.
#[track_caller]
pub fn check(client: &mut Client, key: &str, entry: &Entry, random: &mut Random) -> Questions {
    let expires = client.cmd(&format!("PEXPIRETIME {key}"));
    assert_eq!(expires, int(entry.expires_ms), "{key}");
    let cardinality = client.cmd(&format!("BF.CARD {key}"));
    if let Held::Cuckoo(filter) = &entry.held {
        cuckoo::check(client, key, filter, random);
    } else {
        let refused = client.cmd(&format!("CF.COUNT {key} x"));
        assert_eq!(refused, error(WRONG_TYPE), "{key}");
    }
    if let Held::Sketch(sketch) = &entry.held {
        assert_eq!(
            client.cmd(&format!("TYPE {key}")),
            simple(&sketch.type_name)
        );
    }
    let Held::Object(object) = &entry.held else {
        let refusal = entry.refusal().expect("it is no object");
        assert_eq!(cardinality, error(refusal), "{key}");
        return Questions::default();
    };
    if object.kind != Kind::Short {
        assert_eq!(cardinality, int(object.cardinality), "{key}");
        if let Some(reported) = &object.reported {
            assert_eq!(client.cmd(&format!("BF.DEBUG {key}")), *reported, "{key}");
        }
    }
    let info = client.cmd(&format!("BF.INFO {key}"));
    assert!(object.matches(info.as_array()), "{key}: {info:?}");
    let mut line = format!("BF.MEXISTS {key}");
    for number in &object.items {
        line += " ";
        line += &item(*number);
    }
    for _ in 0..OTHERS {
        line += " other-";
        line += &random.next().to_string();
    }
    let answers = client.cmd(&line);
    let (own, others) = answers.as_array().split_at(object.items.len());
    let own = own.iter().zip(&object.items);
    let denied = own.filter(|(answer, number)| **answer != int(1) && object.is_certain(**number));
    let denied: Vec<&usize> = denied.map(|(_, number)| number).collect();
    assert!(denied.is_empty(), "{key} denies {denied:?}: {object:?}");
    if let Some((number, ids)) = object.counts.iter().next() {
        let count = client.cmd(&format!("BF.COUNT {key} {}", item(*number)));
        let least = i64::try_from(ids.len().min(15)).expect("a few");
        assert!(count.as_int() >= least, "{key}: {count:?} of {ids:?}");
    }
    let mistaken = others.iter().filter(|answer| **answer == int(1)).count();
    Questions {
        asked: OTHERS,
        mistaken: mistaken as u64,
    }
}
