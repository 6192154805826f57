//! Replies that are not errors: which ones are right, and what the keys hold afterwards.

use std::collections::HashSet;

use super::super::answers::{is, truth};
use super::super::object::{Object, Said};
use super::super::parse::Options;
use super::{Half, Model, Value};
use crate::harness::{Reply, int, ok};

impl Model {
    /// Takes a reply that is not an error.
    pub fn answered(
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
                (Some(object), Reply::Int(reported)) => object.is_count(&words[2], *reported),
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
                object.adopt(Some(reply.as_int()), None);
                Ok(())
            }
            "bf.info" => {
                self.asked(key)?.is_info(words.get(2), reply, resp3)?;
                if let (None, false, Some(Value::Object(object))) =
                    (words.get(2), resp3, self.keys.get_mut(key))
                {
                    let rows = reply.as_array();
                    object.adopt(Some(rows[7].as_int()), Some(rows[5].as_int()));
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

    /// Returns the object at a key, and makes it if the key is empty.
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
            Reply::Int(reported) if (least..=most).contains(reported) => Ok(()),
            _ => Err(format!("{least} to {most} are due")),
        }
    }

    fn merge(&mut self, keys: &[Vec<u8>]) {
        let objects = self.merged(keys);
        let Some((first, others @ [_, ..])) = objects.split_first() else {
            // A merge with a single object changes nothing, or makes a copy.
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
}

/// Takes the replies for several items: the first error ends them.
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
