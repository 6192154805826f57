//! What the contract says to every command, as a model that knows nothing of the module's code. Where
//! the contract leaves room (false positives, which of several errors is told, ways to write a
//! number) it takes each of the answers, and goes on from the one that was given.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::answers::{FIELDS, is, truth};
use super::object::{Fit, Object, Reach, Said};
use super::parse::{self, Options};
use crate::harness::{Reply, int, ok};

pub const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub const BUSY: &str = "BUSYKEY Target key name already exists.";
pub const LOADING: &str = "ERR bloom object is still being loaded";
pub const NOT_FOUND: &str = "ERR not found";
pub const OVER: &str = "ERR operation exceeds bloom object memory limit";
pub const DEGRADED: &str = "ERR false positive degrades to 0 on scale out";
pub const FULL: &str = "ERR non scaling filter is full";
pub const EXISTS: &str = "ERR item exists";
pub const INVALID_FIELD: &str = "ERR invalid information value";
pub const BAD_CURSOR: &str = "ERR bad cursor";
pub const BAD_DATA: &str = "ERR received bad data";
pub const BAD_TTL: &str = "ERR bad ttl";
pub const BAD_DUMP: &str = "ERR bloom object decoding failed";
pub const NEWER: &str = "ERR bloom object decoding failed. Unsupported version";
pub const TOO_LARGE: &str =
    "ERR provided VALIDATESCALETO causes bloom object to exceed memory limit";
pub const TOO_FINE: &str = "ERR provided VALIDATESCALETO causes false positive to degrade to 0";
pub const NO_WINDOW: &str = "ERR filter was not made with WINDOW";
pub const NO_COUNTERS: &str = "ERR filter was not made with COUNTING";
pub const LONG_TTL: &str = "ERR ttl is longer than the window";
pub const SEEDS: &str = "ERR filters have different seeds";
pub const KINDS: &str = "ERR filters are of different kinds";
pub const RATES: &str = "ERR error rates of the filters add up to 1 or more";

/// The errors that a command may be answered with.
#[derive(Default)]
pub struct Errors {
    /// One of these, where there are any, or of those below.
    pub due: BTreeSet<&'static str>,
    pub possible: BTreeSet<&'static str>,
    /// A refusal is due, in words that the contract does not tell.
    pub any: bool,
    /// The same, where it may as well be accepted.
    pub any_possible: bool,
}

impl Errors {
    pub fn due(&mut self, text: &'static str) {
        self.due.insert(text);
    }

    pub fn possible(&mut self, text: &'static str) {
        self.possible.insert(text);
    }
}

/// An object, and the bits that the server handed out.
#[derive(Clone, Debug)]
struct Pieces {
    object: Object,
    bits: Vec<u8>,
    /// Length of each filter's.
    lengths: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Half {
    of: Pieces,
    come: usize,
    /// Whether the bits that came are the right ones.
    right: bool,
}

impl Half {
    /// How many bits the filter that is being loaded lacks, in bytes.
    fn room(&self) -> u64 {
        let mut end = 0;
        for length in &self.of.lengths {
            end += length;
            if end > self.come as u64 {
                return end - self.come as u64;
            }
        }
        0
    }
}

#[derive(Clone, Debug)]
enum Value {
    Other,
    Half(Half),
    Object(Object),
}

#[derive(Default)]
pub struct Model {
    keys: HashMap<Vec<u8>, Value>,
    dumps: HashMap<Vec<u8>, Object>,
    headers: HashMap<Vec<u8>, Pieces>,
}

/// The commands, with the fewest and the most words they take.
const ARITY: [(&str, usize, usize); 19] = [
    ("bf.add", 3, 3),
    ("bf.madd", 3, usize::MAX),
    ("bf.exists", 3, 3),
    ("bf.mexists", 3, usize::MAX),
    ("bf.card", 2, 2),
    ("bf.reserve", 4, usize::MAX),
    ("bf.insert", 2, usize::MAX),
    ("bf.info", 2, 3),
    ("bf.load", 3, 4),
    ("bf.scandump", 3, 3),
    ("bf.loadchunk", 4, 4),
    ("bf.debug", 2, 2),
    ("bf.del", 3, usize::MAX),
    ("bf.mdel", 3, usize::MAX),
    ("bf.count", 3, 3),
    ("bf.missing", 3, usize::MAX),
    ("bf.merge", 3, usize::MAX),
    ("del", 2, 2),
    ("copy", 3, 3),
];

impl Model {
    pub fn has_other(&mut self, key: &str) {
        self.keys.insert(key.as_bytes().to_vec(), Value::Other);
    }

    /// An object that the model knows, and how the server hands it out.
    pub fn knows(&mut self, key: &[u8], dump: &[u8], header: &[u8], filters: &[&[u8]]) {
        let Some(Value::Object(object)) = self.keys.get(key) else {
            panic!("no object at {}", key.escape_ascii());
        };
        let pieces = Pieces {
            object: object.clone(),
            bits: filters.concat(),
            lengths: filters.iter().map(|bits| bits.len() as u64).collect(),
        };
        self.dumps.insert(dump.to_vec(), object.clone());
        self.headers.insert(header.to_vec(), pieces);
    }

    /// What each object must answer 1 for.
    pub fn known(&self) -> impl Iterator<Item = (&Vec<u8>, &HashSet<Vec<u8>>)> {
        self.keys.iter().filter_map(|(key, value)| match value {
            Value::Object(object) => Some((key, &object.known)),
            _ => None,
        })
    }

    /// Whether the reply is one that the contract allows. The model is then as the server is.
    pub fn take(&mut self, words: &[Vec<u8>], reply: &Reply, resp3: bool) -> Result<(), String> {
        let name = String::from_utf8_lossy(&words[0]).to_lowercase();
        let arity = ARITY.iter().find(|(known, ..)| *known == name);
        let (_, least, most) = arity.expect("a command of the model's");
        let wrong_arity = format!("ERR wrong number of arguments for '{name}' command");
        if words.len() < *least || words.len() > *most {
            return is(reply, &Reply::Error(wrong_arity));
        }
        let key = &words[1];
        let mut errors = Errors::default();
        let mut options = Options::default();
        match self.keys.get(key) {
            _ if name == "del" || name == "copy" => {}
            Some(Value::Other) => errors.due(WRONGTYPE),
            Some(Value::Half(_)) if name != "bf.loadchunk" => errors.due(LOADING),
            _ => {}
        }
        match name.as_str() {
            "bf.reserve" => {
                options = Options::of_reserve(&words[2..], &mut errors);
                match self.keys.get(key) {
                    Some(_) if !options.unless_exists => errors.due(EXISTS),
                    None if options.lives_too_long() => errors.due(BAD_TTL),
                    _ => {}
                }
                self.creation_errors(key, &options, &mut errors);
            }
            "bf.insert" => {
                options = Options::of_insert(&words[2..], &mut errors);
                if options.no_items {
                    errors.due("ERR wrong number of arguments for 'bf.insert' command");
                }
                if options.no_create && !self.keys.contains_key(key) {
                    errors.due(NOT_FOUND);
                }
                self.creation_errors(key, &options, &mut errors);
                self.option_errors(key, &options, &mut errors);
            }
            "bf.del" => {
                options = Options::of_del(&words[3..], &mut errors);
                self.requires_counters(key, &mut errors);
            }
            "bf.mdel" | "bf.count" => self.requires_counters(key, &mut errors),
            "bf.merge" => self.merge_errors(&words[1..], &mut errors),
            "bf.info" => self.info_errors(words, &mut errors),
            "bf.load" => self.load_errors(words, &mut errors),
            "bf.debug" if !self.keys.contains_key(key) => errors.due(NOT_FOUND),
            "bf.scandump" => {
                if !self.keys.contains_key(key) {
                    errors.due(NOT_FOUND);
                }
                match parse::cursor(&words[2], &mut errors) {
                    Some(cursor) if cursor < 0 => {
                        errors.possible(BAD_CURSOR);
                        errors.possible(BAD_DATA);
                    }
                    Some(_) => {}
                    None => errors.due(BAD_CURSOR),
                }
            }
            "bf.loadchunk" => self.chunk_errors(words, &mut errors),
            _ => {}
        }
        if let Reply::Error(text) = reply {
            let text = text.as_str();
            if errors.due.contains(text) || errors.possible.contains(text) || errors.any_possible {
                return Ok(());
            }
            let item = ["bf.add", "bf.madd"].contains(&name.as_str());
            if !item || !errors.due.is_empty() {
                return Err(format!("{:?} are due", errors.due));
            }
        } else if errors.any || !errors.due.is_empty() {
            return Err(format!("{:?} are due", errors.due));
        }
        self.answered(&name, words, reply, resp3, &options)
    }

    /// The errors of making an object, where there is none.
    fn creation_errors(&self, key: &[u8], options: &Options, errors: &mut Errors) {
        let mut told = Errors::default();
        if !options.are_read() {
            return;
        }
        let (shape, capacity) = options.shape();
        let fit = shape.fit(0, capacity);
        match fit {
            Fit::Yes => {}
            Fit::No(why) => told.due(why),
            Fit::Unsaid => {
                told.possible(OVER);
                told.possible(DEGRADED);
            }
        }
        if let Some(least) = options.validate {
            let first_fits = matches!(fit, Fit::Yes);
            match Object::new(shape, capacity, None).reach(least) {
                Reach::Far if first_fits => {}
                Reach::Until(_, OVER) if first_fits => told.due(TOO_LARGE),
                Reach::Until(_, DEGRADED) if first_fits => told.due(TOO_FINE),
                _ => {
                    told.possible(TOO_LARGE);
                    told.possible(TOO_FINE);
                }
            }
        }
        let settled = self.keys.contains_key(key) || options.no_create;
        if !settled {
            errors.due.extend(told.due);
            errors.possible.extend(told.possible);
        } else if options.validate.is_some() || !errors.due.is_empty() {
            // Whether it is looked at where nothing is to be made is not said.
            errors.possible.extend(told.due);
            errors.possible.extend(told.possible);
        }
    }

    /// The errors of saying something of items that only some objects know.
    fn option_errors(&self, key: &[u8], options: &Options, errors: &mut Errors) {
        let shape = match self.keys.get(key) {
            Some(Value::Object(object)) => object.shape.clone(),
            None if !options.no_create => options.shape().0,
            _ => return,
        };
        if options.id().is_some() && !shape.counting {
            errors.due(NO_COUNTERS);
        }
        match (options.ttl_ms(), shape.window) {
            (Some(_), None) => errors.due(NO_WINDOW),
            (Some(ttl_ms), Some(window))
                if i128::from(ttl_ms)
                    > i128::from(window.period_ms) * i128::from(window.periods) =>
            {
                errors.due(LONG_TTL);
            }
            _ => {}
        }
    }

    fn requires_counters(&self, key: &[u8], errors: &mut Errors) {
        if let Some(Value::Object(object)) = self.keys.get(key)
            && !object.shape.counting
        {
            errors.due(NO_COUNTERS);
        }
    }

    /// The objects that are merged, that of the first key first if there is one. A key is taken once.
    fn merged(&self, keys: &[Vec<u8>]) -> Vec<&Object> {
        let mut names = HashSet::new();
        let each = keys.iter().filter(|key| names.insert(*key));
        each.filter_map(|key| self.object(key)).collect()
    }

    fn merge_errors(&self, keys: &[Vec<u8>], errors: &mut Errors) {
        let alone = keys[1..].iter().all(|source| *source == keys[0]);
        for (index, key) in keys.iter().enumerate() {
            match self.keys.get(key) {
                Some(Value::Other) => errors.due(WRONGTYPE),
                Some(Value::Half(_)) => errors.due(LOADING),
                None if index > 0 && key != &keys[0] || alone => errors.due(NOT_FOUND),
                _ => {}
            }
        }
        let objects = self.merged(keys);
        let Some((first, others)) = objects.split_first() else {
            return;
        };
        for other in others {
            if first.seed != other.seed {
                errors.due(SEEDS);
            }
            let kind = |object: &Object| (object.shape.window, object.shape.counting);
            if kind(first) != kind(other) {
                errors.due(KINDS);
            }
        }
        let asked: f64 = objects.iter().map(|object| object.shape.error_rate).sum();
        if alone {
            return;
        }
        let alike = |other: &&Object| {
            let shapes = (&first.shape, &other.shape);
            !other.merged
                && shapes.0.tightening.to_bits() == shapes.1.tightening.to_bits()
                && (shapes.0.expansion == 0) == (shapes.1.expansion == 0)
        };
        let ratio = first.shape.tightening;
        // Rates add up where filters are stacked, and no others.
        if asked > 0.4 || !(0.2..0.95).contains(&ratio) || !objects.iter().all(alike) {
            // What their filters need may be more than what was asked for.
            errors.possible(RATES);
        }
    }

    fn info_errors(&self, words: &[Vec<u8>], errors: &mut Errors) {
        let value = self.keys.get(&words[1]);
        if value.is_none() {
            errors.due(NOT_FOUND);
        }
        let Some(field) = words.get(2) else {
            return;
        };
        match FIELDS
            .iter()
            .find(|(name, _)| field.eq_ignore_ascii_case(name.as_bytes()))
        {
            None => errors.due(INVALID_FIELD),
            Some(("TIGHTENING" | "MAXSCALEDCAPACITY", _)) => {
                if let Some(Value::Object(object)) = value
                    && object.shape.expansion == 0
                {
                    errors.due(INVALID_FIELD);
                }
            }
            Some(("WINDOW" | "PERIODS" | "LIVEPERIODS", _)) => {
                if let Some(Value::Object(object)) = value
                    && object.shape.window.is_none()
                {
                    errors.due(INVALID_FIELD);
                }
            }
            Some(_) => {}
        }
    }

    fn load_errors(&self, words: &[Vec<u8>], errors: &mut Errors) {
        if self.keys.contains_key(&words[1]) {
            errors.due(BUSY);
        }
        let dump = &words[2];
        if !self.dumps.contains_key(dump) {
            match dump.first() {
                None | Some(1) => errors.due(BAD_DUMP),
                // Behind it is another number of that kind.
                Some(2) => errors.due.extend([BAD_DUMP, NEWER]),
                Some(_) => errors.due(NEWER),
            }
        }
        if let Some(ttl) = words.get(3) {
            let (value, unsure) = parse::integer(ttl);
            match value {
                // A time that has come, or one that no clock tells.
                Some(0) => errors.possible(BAD_TTL),
                Some(ttl) if (1..1 << 50).contains(&ttl) => {}
                _ => errors.due(BAD_TTL),
            }
            if unsure {
                errors.possible(BAD_TTL);
            }
        }
    }

    fn chunk_errors(&self, words: &[Vec<u8>], errors: &mut Errors) {
        let (value, data) = (self.keys.get(&words[1]), &words[3]);
        let Some(cursor) = parse::cursor(&words[2], errors) else {
            errors.due(BAD_CURSOR);
            return;
        };
        if cursor == 1 {
            if value.is_some() {
                errors.due(BUSY);
            }
            if !self.headers.contains_key(data) {
                errors.due(BAD_DATA);
            }
            return;
        }
        let fits = match value {
            Some(Value::Half(half)) => {
                let length = data.len() as u64;
                let next = half.come as u64 + length + 1;
                length > 0 && length <= half.room() && u64::try_from(cursor) == Ok(next)
            }
            _ => false,
        };
        if !fits {
            errors.due(BAD_DATA);
        }
    }

    /// Takes a reply that is no refusal.
    fn answered(
        &mut self,
        name: &str,
        words: &[Vec<u8>],
        reply: &Reply,
        resp3: bool,
        options: &Options,
    ) -> Result<(), String> {
        let key = &words[1];
        match name {
            "bf.add" => {
                let said = Said::default();
                self.made(key, options).add(&words[2], said, reply, resp3)
            }
            "bf.madd" => {
                let said = Said::default();
                adds(self.made(key, options), &words[2..], said, reply, resp3)
            }
            "bf.insert" => {
                let said = Said {
                    ttl_ms: options.ttl_ms(),
                    id: options.id(),
                };
                adds(self.made(key, options), &options.items, said, reply, resp3)
            }
            "bf.reserve" if self.keys.contains_key(key) => is(reply, &Reply::Nil),
            "bf.reserve" => {
                self.made(key, options);
                is(reply, &ok())
            }
            "bf.del" => self.removes(key, &words[2..3], options.id(), &[reply], resp3),
            "bf.mdel" => {
                let Reply::Array(replies) = reply else {
                    return Err("an array is due".to_owned());
                };
                let replies: Vec<&Reply> = replies.iter().collect();
                self.removes(key, &words[2..], None, &replies, resp3)
            }
            "bf.count" => match (self.object(key), reply) {
                (None, reply) => is(reply, &int(0)),
                (Some(object), Reply::Int(told)) => object.is_count(&words[2], *told),
                _ => Err("a count is due".to_owned()),
            },
            "bf.missing" => self.misses(key, &words[2..], reply),
            "bf.merge" => {
                self.merge(&words[1..]);
                is(reply, &ok())
            }
            "bf.exists" => self.exists(key, &words[2..], std::slice::from_ref(reply), resp3),
            "bf.mexists" => {
                let Reply::Array(replies) = reply else {
                    return Err("an array is due".to_owned());
                };
                self.exists(key, &words[2..], replies, resp3)
            }
            "bf.card" => {
                let Some(Value::Object(object)) = self.keys.get_mut(key) else {
                    return is(reply, &int(0));
                };
                object.are_items(reply)?;
                object.is_told(Some(reply.as_int()), None);
                Ok(())
            }
            "bf.info" => {
                self.asked(key)?.is_info(words.get(2), reply, resp3)?;
                if let (None, false, Some(Value::Object(object))) =
                    (words.get(2), resp3, self.keys.get_mut(key))
                {
                    let rows = reply.as_array();
                    object.is_told(Some(rows[7].as_int()), Some(rows[5].as_int()));
                }
                Ok(())
            }
            "bf.debug" => self.asked(key)?.is_debug(reply),
            "bf.scandump" => self.asked(key)?.is_piece(&words[2], reply),
            "bf.load" => {
                let object = self.dumps[&words[2]].clone();
                self.keys.insert(key.clone(), Value::Object(object));
                is(reply, &ok())
            }
            "bf.loadchunk" => {
                self.load_chunk(key, &words[3]);
                is(reply, &ok())
            }
            "del" => {
                let there = self.keys.remove(key).is_some();
                is(reply, &int(i64::from(there)))
            }
            "copy" => {
                let value = self.keys.get(key).cloned();
                let to = &words[2];
                match value {
                    Some(value) if !self.keys.contains_key(to) => {
                        self.keys.insert(to.clone(), value);
                        is(reply, &int(1))
                    }
                    _ => is(reply, &int(0)),
                }
            }
            _ => Err("no such command".to_owned()),
        }
    }

    fn object(&self, key: &[u8]) -> Option<&Object> {
        match self.keys.get(key) {
            Some(Value::Object(object)) => Some(object),
            _ => None,
        }
    }

    fn asked(&self, key: &[u8]) -> Result<&Object, String> {
        self.object(key).ok_or("no object".to_owned())
    }

    /// The object at a key, made where there is none.
    fn made(&mut self, key: &[u8], options: &Options) -> &mut Object {
        let value = self.keys.entry(key.to_vec()).or_insert_with(|| {
            let (shape, capacity) = options.shape();
            let mut object = Object::new(shape, capacity, options.ttl_ms());
            object.seed = options.seed().cloned();
            Value::Object(object)
        });
        match value {
            Value::Object(object) => object,
            _ => panic!("refused before"),
        }
    }

    fn exists(
        &self,
        key: &[u8],
        items: &[Vec<u8>],
        replies: &[Reply],
        resp3: bool,
    ) -> Result<(), String> {
        if items.len() != replies.len() {
            return Err(format!("{} replies are due", items.len()));
        }
        for (item, reply) in items.iter().zip(replies) {
            let there = truth(reply, resp3)?;
            let object = self.object(key);
            let known = object.is_some_and(|object| object.known.contains(item));
            let shown = item[..item.len().min(40)].escape_ascii();
            if known && !there {
                return Err(format!("a false negative: {shown}"));
            }
            let empty = object.is_none_or(Object::is_empty);
            if there && empty {
                return Err(format!("{shown} in what is empty"));
            }
        }
        Ok(())
    }

    fn removes(
        &mut self,
        key: &[u8],
        items: &[Vec<u8>],
        id: Option<u64>,
        replies: &[&Reply],
        resp3: bool,
    ) -> Result<(), String> {
        if items.len() != replies.len() {
            return Err(format!("{} replies are due", items.len()));
        }
        for (item, reply) in items.iter().zip(replies) {
            match self.keys.get_mut(key) {
                Some(Value::Object(object)) => object.remove(item, id, reply, resp3)?,
                _ if truth(reply, resp3)? => return Err("removed from nothing".to_owned()),
                _ => {}
            }
        }
        Ok(())
    }

    fn misses(&self, key: &[u8], items: &[Vec<u8>], reply: &Reply) -> Result<(), String> {
        let object = self.object(key);
        let known = |item: &Vec<u8>| object.is_some_and(|object| object.known.contains(item));
        let unknown: HashSet<&Vec<u8>> = items.iter().filter(|item| !known(item)).collect();
        let most = i64::try_from(unknown.len()).expect("not that many");
        let empty = object.is_none_or(Object::is_empty);
        let least = if empty { most } else { 0 };
        match reply {
            Reply::Int(told) if (least..=most).contains(told) => Ok(()),
            _ => Err(format!("{least} to {most} are due")),
        }
    }

    fn merge(&mut self, keys: &[Vec<u8>]) {
        let objects = self.merged(keys);
        let Some((first, others @ [_, ..])) = objects.split_first() else {
            // An object alone is as it was, or there is one more of it.
            if let [object] = objects[..] {
                let mut object = object.clone();
                let new = !self.keys.contains_key(&keys[0]);
                (object.loose, object.merged) = (object.loose | new, object.merged | new);
                object.single &= !new;
                self.keys.insert(keys[0].clone(), Value::Object(object));
            }
            return;
        };
        let mut merged = (*first).clone();
        for other in others {
            merged.absorb(other);
        }
        self.keys.insert(keys[0].clone(), Value::Object(merged));
    }

    fn load_chunk(&mut self, key: &[u8], data: &[u8]) {
        let Some(value) = self.keys.get_mut(key) else {
            let of = self.headers[data].clone();
            let half = Half {
                of,
                come: 0,
                right: true,
            };
            self.keys.insert(key.to_vec(), Value::Half(half));
            return;
        };
        let Value::Half(half) = value else {
            panic!("refused before");
        };
        half.right &= half.of.bits[half.come..].starts_with(data);
        half.come += data.len();
        if half.come == half.of.bits.len() {
            let mut object = half.of.object.clone();
            if !half.right {
                object.gets_strange();
            }
            *value = Value::Object(object);
        }
    }

    pub fn shown(&self, key: &[u8]) -> String {
        match self.keys.get(key) {
            None => "nothing".to_owned(),
            Some(Value::Other) => "another type".to_owned(),
            Some(Value::Half(half)) => format!("half loaded, {} bytes have come", half.come),
            Some(Value::Object(object)) => format!(
                "{:?}, {:?}, {} to {} items, loose {}, merged {}, single {}",
                object.shape,
                object.capacities,
                object.items,
                object.most,
                object.loose,
                object.merged,
                object.single
            ),
        }
    }
}

/// Takes what the server says to several items: the first that fails is the last one told.
fn adds(
    object: &mut Object,
    items: &[Vec<u8>],
    said: Said,
    reply: &Reply,
    resp3: bool,
) -> Result<(), String> {
    let Reply::Array(replies) = reply else {
        return Err("an array is due".to_owned());
    };
    let failed = replies.iter().position(Reply::is_error);
    let due = failed.map_or(items.len(), |at| at + 1);
    if replies.len() != due || due > items.len() {
        return Err(format!("{due} replies are due"));
    }
    for (item, reply) in items.iter().zip(replies) {
        object.add(item, said, reply, resp3)?;
    }
    Ok(())
}
