//! Steps of one object, and of two that are merged.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::harness::{Reply, error, int, ok};

use super::model::{Entry, FULL, Held, Kind, Object, RATES, UNCOUNTED, WINDOW, item, now_ms};
use super::{ITEMS, Life};

impl Life {
    /// Options of a creation, and the object that they make.
    fn options(&mut self) -> (String, Object) {
        let expansion = *self.random.pick(&[0, 1, 2, 4]);
        // A stack of hundreds of filters takes its time, and has tests of its own.
        let capacity = match expansion {
            1 => *self.random.pick(&[200, 5000]),
            _ => *self.random.pick(&[1, 10, 200, 5000]),
        };
        let (rate, error_rate) = *self.random.pick(&[("0.01", 0.01), ("1e-3", 0.001)]);
        let (ratio, tightening) = *self.random.pick(&[("0.5", 0.5), ("0.8", 0.8)]);
        let growth = match expansion {
            0 => "NONSCALING".to_owned(),
            factor => format!("EXPANSION {factor}"),
        };
        let kinds = [
            Kind::Plain,
            Kind::Plain,
            Kind::Counting,
            Kind::Ids,
            Kind::Window,
            Kind::Short,
        ];
        let kind = *self.random.pick(&kinds);
        let object = Object {
            kind,
            capacity,
            expansion,
            error_rate,
            tightening,
            ..self.default_object()
        };
        let growth = growth + &kind.words();
        let options = format!("CAPACITY {capacity} ERROR {rate} TIGHTENING {ratio} {growth}");
        (options, object)
    }

    fn default_object(&mut self) -> Object {
        self.seeds += 1;
        Object {
            kind: Kind::Plain,
            seed: self.seeds,
            merged: false,
            counts: BTreeMap::new(),
            next_id: 1,
            added_ms: HashMap::new(),
            reported: None,
            capacity: self.default_capacity,
            expansion: 2,
            error_rate: 0.01,
            tightening: 0.5,
            items: HashSet::new(),
            cardinality: 0,
        }
    }

    pub(super) fn add(&mut self, key: &str) {
        let mut count = *self.random.pick(&[0, 1, 4, 60, 300]);
        let mut fresh = Some(self.default_object());
        let kind = match self.entry(key).map(|entry| &entry.held) {
            Some(Held::Object(object)) => Some((object.kind, object.next_id)),
            _ => None,
        };
        let mut id = 0;
        let command = match (kind, self.random.below(5)) {
            (Some((Kind::Ids, next)), _) => {
                // Rising as a log's, and now and then a late one.
                let late = if self.random.one_in(4) { 3 } else { 0 };
                id = next.saturating_sub(late);
                count = count.max(1);
                format!("BF.INSERT {key} NOCREATE ID {id}")
            }
            (Some((Kind::Window, _)), 2 | 3) => {
                let ttl = 1 + self.random.next() % (WINDOW.0 * WINDOW.1);
                format!("BF.INSERT {key} NOCREATE TTL {ttl}")
            }
            (_, 0) => {
                count = 1;
                format!("BF.ADD {key}")
            }
            (_, 1 | 2) => {
                count = count.max(1);
                format!("BF.MADD {key}")
            }
            (_, 3) => {
                fresh = None;
                format!("BF.INSERT {key} NOCREATE")
            }
            _ => {
                let (mut options, mut object) = self.options();
                if self.random.one_in(2) {
                    options += " SEED 0123456789abcdef0123456789abcdef";
                    object.seed = 0;
                }
                if object.kind == Kind::Ids {
                    id = object.next_id;
                    options = format!("{options} ID {id}");
                }
                let command = format!("BF.INSERT {key} {options}");
                if kind.is_none() {
                    fresh = Some(object);
                    command
                } else {
                    format!("BF.INSERT {key}")
                }
            }
        };
        let items: Vec<usize> = (0..count).map(|_| self.random.below(ITEMS)).collect();
        let mut line = command;
        if line.starts_with("BF.INSERT") && count > 0 {
            line += " ITEMS";
        }
        for number in &items {
            line += " ";
            line += &item(*number);
        }
        let before_ms = now_ms();
        let reply = self.call(&line);
        if let Some(refusal) = self.entry(key).and_then(Entry::refusal) {
            return assert_eq!(reply, error(refusal));
        }
        let mut entry = match (self.entry(key), fresh) {
            (Some(entry), _) => entry.clone(),
            (None, Some(object)) => Entry::lasting(Held::Object(object)),
            (None, None) => return assert_eq!(reply, error("ERR not found")),
        };
        if let Held::Object(object) = &mut entry.held {
            let answers = match reply {
                Reply::Array(answers) => answers,
                answer => vec![answer],
            };
            self.took(object, &items, &answers, id, before_ms);
            self.is_written(key, object);
        }
        self.put(key, entry);
    }

    /// Adds often where there is a window: filters of eight periods and more are interleaved.
    pub(super) fn add_to_periods(&mut self, key: &mut String) {
        *key = self.key_of(key.clone(), |object| object.kind == Kind::Window);
        for _ in 0..self.random.below(40) {
            self.add(key);
        }
    }

    /// Reads the state of unpredicted filters after a write.
    fn is_written(&mut self, key: &str, object: &mut Object) {
        if object.is_loose() && object.kind != Kind::Short {
            object.cardinality = self.call(&format!("BF.CARD {key}")).as_int();
            object.reported = Some(self.client.cmd(&format!("BF.DEBUG {key}")));
        }
    }

    /// Updates an object with the replies to a write that began at that time.
    fn took(
        &mut self,
        object: &mut Object,
        items: &[usize],
        answers: &[Reply],
        id: u64,
        before_ms: u64,
    ) {
        object.next_id = object.next_id.max(id + 1);
        for (index, (number, answer)) in items.iter().zip(answers).enumerate() {
            let known = object.is_certain(*number);
            if answer.is_error() {
                assert_eq!(*answer, error(FULL));
                assert_eq!(object.expansion, 0);
                if !object.is_loose() {
                    assert_eq!(object.cardinality, object.capacity);
                }
                // An id, or another period, may ask for room of its own.
                assert!(
                    !known || ![Kind::Plain, Kind::Counting].contains(&object.kind),
                    "a known item is refused"
                );
                return assert_eq!(answers.len(), index + 1);
            }
            // An item that has passed may still be there.
            let unknown = !known && !object.items.contains(number) && object.kind != Kind::Ids;
            self.questions.asked += u64::from(unknown);
            if *answer == int(1) {
                assert!(!known, "item {number} was denied");
                object.cardinality += 1;
            } else {
                assert_eq!(*answer, int(0));
                self.questions.mistaken += u64::from(unknown);
            }
            object.items.insert(*number);
            if object.kind.counts() {
                object.counts.entry(*number).or_default().push(id);
            }
            // Where there is no room to keep it for longer, an item passes with its older period.
            let is_kept = *answer == int(1) || object.expansion > 0;
            if object.kind == Kind::Short && is_kept {
                object.added_ms.insert(*number, before_ms);
            }
        }
        assert_eq!(answers.len(), items.len());
    }

    /// Removes some of what is held.
    pub(super) fn remove(&mut self, key: &str) {
        let Some(mut entry) = self.entry(key).cloned() else {
            return assert_eq!(self.call(&format!("BF.DEL {key} x")), int(0));
        };
        let refusal = entry.refusal();
        let Held::Object(object) = &mut entry.held else {
            let reply = self.call(&format!("BF.MDEL {key} x y"));
            return assert_eq!(reply, error(refusal.expect("it is no object")));
        };
        if !object.kind.counts() {
            return assert_eq!(self.call(&format!("BF.DEL {key} x ID 5")), error(UNCOUNTED));
        }
        let held: Vec<usize> = object.counts.keys().copied().collect();
        if held.is_empty() {
            return;
        }
        let count = 1 + self.random.below(20);
        let items: BTreeSet<usize> = (0..count).map(|_| *self.random.pick(&held)).collect();
        let alone = object
            .reported
            .as_ref()
            .is_some_and(|reported| reported.as_array().len() == 2);
        let answers = if object.kind == Kind::Ids {
            let mut answers = Vec::new();
            for number in &items {
                let id = *self.random.pick(&object.counts[number]);
                let ids = object.counts.get_mut(number).expect("it is held");
                let reply = self.call(&format!("BF.DEL {key} {} ID {id}", item(*number)));
                if reply == int(1) {
                    let at = ids.iter().position(|of| *of == id);
                    // The last one goes below.
                    let last = ids.len() - 1;
                    ids.swap(at.expect("it was picked"), last);
                }
                answers.push(reply);
            }
            answers
        } else {
            let words: Vec<String> = items.iter().map(|number| item(*number)).collect();
            let reply = self.call(&format!("BF.MDEL {key} {}", words.join(" ")));
            reply.as_array().to_vec()
        };
        assert_eq!(answers.len(), items.len());
        for (number, answer) in items.iter().zip(&answers) {
            // An item counted 15 times stays.
            let stays = *answer == int(0)
                && self
                    .call(&format!("BF.COUNT {key} {}", item(*number)))
                    .as_int()
                    >= 15;
            // Merged, an item may be in two filters, and so it may with several ids.
            let several = object.counts[number]
                .iter()
                .any(|id| *id != object.counts[number][0]);
            if !object.merged && !several && !stays {
                assert!(!alone || *answer == int(1), "{number} is not removed");
                self.removals.asked += 1;
                self.removals.mistaken += u64::from(*answer == int(0));
            }
            if *answer == int(1) {
                self.removed += 1;
                let ids = object.counts.get_mut(number).expect("it is held");
                ids.pop();
                if ids.is_empty() {
                    object.counts.remove(number);
                    object.items.remove(number);
                }
            } else {
                assert_eq!(*answer, int(0));
            }
        }
        self.is_written(key, object);
        self.put(key, entry);
    }

    /// Asks how many of some items are missing.
    pub(super) fn ask_missing(&mut self, key: &str) {
        let items: BTreeSet<usize> = (0..40).map(|_| self.random.below(ITEMS)).collect();
        let words: Vec<String> = items.iter().map(|number| item(*number)).collect();
        // Twice: each counts once.
        let words = words.join(" ");
        let reply = self.call(&format!("BF.MISSING {key} {words} {words}"));
        let all = i64::try_from(items.len()).expect("a few");
        match self.entry(key).map(|entry| (entry.refusal(), &entry.held)) {
            None => assert_eq!(reply, int(all)),
            Some((Some(refusal), _)) => assert_eq!(reply, error(refusal)),
            Some((None, Held::Object(object))) => {
                let certain = items.iter().filter(|number| object.is_certain(**number));
                let known = items.iter().filter(|number| object.items.contains(*number));
                let most = items.len() - certain.count();
                let unknown = items.len() - known.count();
                let reported = usize::try_from(reply.as_int()).expect("a count");
                assert!(reported <= most, "{reported} of {most}");
                if object.kind != Kind::Ids {
                    self.questions.asked += unknown as u64;
                    self.questions.mistaken += unknown.saturating_sub(reported) as u64;
                }
            }
            Some(_) => unreachable!("an object refuses nothing"),
        }
    }

    /// Makes one of two objects.
    pub(super) fn merge(&mut self, key: &str, other: &str) {
        let held = |entry: Option<&Entry>| match entry.map(|entry| (entry.refusal(), &entry.held)) {
            None => Err("ERR not found"),
            Some((Some(refusal), _)) => Err(refusal),
            Some((None, Held::Object(object))) => Ok(object.clone()),
            Some(_) => unreachable!("an object refuses nothing"),
        };
        let (to, from) = (held(self.entry(key)), held(self.entry(other)));
        let many = |object: &Result<Object, _>| {
            let reported = object
                .as_ref()
                .ok()
                .and_then(|object| object.reported.as_ref());
            reported.is_some_and(|reported| reported.as_array().len() > 40)
        };
        if key == other || many(&to) || many(&from) {
            return;
        }
        let reply = self.call(&format!("BF.MERGE {key} {other}"));
        let (first, second) = match (to, from) {
            (Err(refusal), _) if refusal != "ERR not found" => {
                return assert_eq!(reply, error(refusal));
            }
            (_, Err(refusal)) => return assert_eq!(reply, error(refusal)),
            (Ok(first), Ok(second)) => (first, Some(second)),
            (Err(_), Ok(only)) => (only, None),
        };
        let mut merged = first;
        let mut rates = merged.error_rate;
        if let Some(second) = second {
            rates += second.error_rate;
            let kinds = |object: &Object| (object.kind.window(), object.kind.counts());
            let mut refusals = Vec::new();
            if kinds(&merged) != kinds(&second) {
                refusals.push("ERR filters are of different kinds");
            }
            if merged.seed != second.seed {
                refusals.push("ERR filters have different seeds");
            }
            if !refusals.is_empty() {
                let right = refusals.iter().any(|refusal| reply == error(refusal));
                return assert!(right, "{reply:?}");
            }
            // An item in only one of them is removed without an id, or with an id of that one.
            if merged.kind != second.kind {
                merged.kind = Kind::Counting;
            }
            merged.items.extend(second.items);
            for (number, ids) in second.counts {
                // A union counts an item as often as either did.
                let own = merged.counts.entry(number).or_default();
                if ids.len() > own.len() {
                    *own = ids;
                }
            }
            for (number, at) in second.added_ms {
                let last = merged.added_ms.entry(number).or_default();
                *last = at.max(*last);
            }
            merged.next_id = merged.next_id.max(second.next_id);
        }
        if reply == error(RATES) {
            return assert!(rates > 0.05, "{rates}");
        }
        assert_eq!(reply, ok());
        merged.merged = true;
        let info = self.call(&format!("BF.INFO {key}"));
        let rate = info.as_array()[11].text().parse().expect("a rate");
        assert!(rate >= merged.error_rate, "{rate}");
        merged.error_rate = rate;
        self.is_written(key, &mut merged);
        let expires_ms = self.entry(key).map_or(-1, |entry| entry.expires_ms);
        let held = Held::Object(merged);
        self.put(key, Entry { held, expires_ms });
    }

    pub(super) fn reserve(&mut self, key: &str) {
        let (mut object, line) = if self.random.one_in(4) {
            let reserve = format!("BF.RESERVE {key} 0.01 60");
            (self.default_object(), reserve)
        } else {
            let (options, object) = self.options();
            let words: Vec<&str> = options.split(' ').collect();
            let growth = words[6..].join(" ");
            let line = format!("BF.RESERVE {key} {} {} {growth}", words[3], words[1]);
            (object, line)
        };
        if line.ends_with(" 60") {
            object.capacity = 60;
        }
        object.tightening = 0.5;
        let reply = self.call(&line);
        if let Some(entry) = self.entry(key) {
            let refusal = entry.refusal().unwrap_or("ERR item exists");
            assert_eq!(reply, error(refusal));
        } else {
            assert_eq!(reply, ok());
            self.put(key, Entry::lasting(Held::Object(object)));
        }
    }
}
