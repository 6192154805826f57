//! The contract of every command, as a model independent of the module's code. Where the contract leaves room (false
//! positives, which of several errors is reported, ways to write a number) it accepts each answer, and continues from
//! the one it got.

mod answered;
mod due;

use std::collections::{HashMap, HashSet};

use super::answers::is;
use super::errors::{BAD_CURSOR, BAD_DATA, BAD_TTL, EXISTS, Errors, LOADING, NOT_FOUND, WRONGTYPE};
use super::object::Object;
use super::parse::{self, Options};
use crate::harness::Reply;

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
    /// Whether the loaded bits are the right ones.
    right: bool,
}

impl Half {
    /// Returns how many bytes the filter that is being loaded lacks.
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

    /// Enters an object that the server holds, and the server's bytes of it.
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

    /// Returns the items that each object must find.
    pub fn known(&self) -> impl Iterator<Item = (&Vec<u8>, &HashSet<Vec<u8>>)> {
        self.keys.iter().filter_map(|(key, value)| match value {
            Value::Object(object) => Some((key, &object.known)),
            _ => None,
        })
    }

    /// Returns whether the reply is one that the contract allows. The model is then as the server is.
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

    /// Returns the objects that are merged, that of the first key first if there is one. A key is taken once.
    fn merged(&self, keys: &[Vec<u8>]) -> Vec<&Object> {
        let mut names = HashSet::new();
        let each = keys.iter().filter(|key| names.insert(*key));
        each.filter_map(|key| self.object(key)).collect()
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
