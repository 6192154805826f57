//! Steps that bring what a key holds under another, or to an end.

use std::rc::Rc;

use crate::harness::{Reply, error, int, nil, ok, wait_until};
use crate::soak::dump_of;
use crate::support::pieces::{Pieces, pieces, split};

use super::model::{BUSY, Entry, Held, Object};
use super::{DATABASES, Life};

impl Life {
    pub(super) fn copy(&mut self, key: &str, other: &str) {
        let database = self.random.below(DATABASES);
        let replace = self.random.one_in(2);
        let word = if replace { " REPLACE" } else { "" };
        let reply = self.call(&format!("COPY {key} {other} DB {database}{word}"));
        if database == self.database && key == other {
            return assert!(reply.is_error(), "{reply:?}");
        }
        let free = replace || !self.databases[database].contains_key(other);
        match self.entry(key).cloned() {
            Some(entry) if free => {
                assert_eq!(reply, int(1));
                self.databases[database].insert(other.to_owned(), entry);
            }
            _ => assert_eq!(reply, int(0)),
        }
    }

    pub(super) fn rename(&mut self, key: &str, other: &str) {
        if self.random.one_in(3) {
            let reply = self.call(&format!("RENAMENX {key} {other}"));
            match (self.entry(key), self.entry(other)) {
                (None, _) => return assert!(reply.is_error(), "{reply:?}"),
                (_, Some(_)) => return assert_eq!(reply, int(0)),
                _ => assert_eq!(reply, int(1)),
            }
        } else {
            let reply = self.call(&format!("RENAME {key} {other}"));
            if self.entry(key).is_none() {
                return assert!(reply.is_error(), "{reply:?}");
            }
            assert_eq!(reply, ok());
        }
        self.renamed = true;
        if let Some(entry) = self.take(key) {
            self.put(other, entry);
        }
    }

    pub(super) fn move_to(&mut self, key: &str) {
        let database = self.random.below(DATABASES);
        let reply = self.call(&format!("MOVE {key} {database}"));
        if database == self.database {
            return assert!(reply.is_error(), "{reply:?}");
        }
        if self.entry(key).is_none() || self.databases[database].contains_key(key) {
            return assert_eq!(reply, int(0));
        }
        assert_eq!(reply, int(1));
        self.renamed = true;
        if let Some(entry) = self.take(key) {
            self.databases[database].insert(key.to_owned(), entry);
        }
    }

    pub(super) fn delete(&mut self, key: &str, other: &str) {
        if self.random.one_in(4) {
            let set = format!("SET {key} text");
            self.is_ok(&set);
            return self.put(key, Entry::lasting(Held::Text));
        }
        let command = self.random.pick(&["DEL", "UNLINK"]);
        let reply = self.call(&format!("{command} {key} {other}"));
        let gone = [self.take(key), self.take(other)];
        let gone = gone.iter().flatten().count();
        assert_eq!(reply, int(i64::try_from(gone).expect("at most 2")));
    }

    pub(super) fn expire(&mut self, key: &str) {
        let Some(mut entry) = self.entry(key).cloned() else {
            return assert_eq!(self.call(&format!("PEXPIRE {key} 1")), int(0));
        };
        match self.random.below(3) {
            0 => {
                self.call(&format!("PERSIST {key}"));
                entry.expires_ms = -1;
            }
            1 => {
                assert_eq!(self.call(&format!("PEXPIRE {key} 100000000")), int(1));
                let expires = self.call(&format!("PEXPIRETIME {key}"));
                entry.expires_ms = expires.as_int();
            }
            _ => {
                assert_eq!(self.call(&format!("PEXPIRE {key} 1")), int(1));
                self.take(key);
                return wait_until("the key has expired", || {
                    self.client.cmd(&format!("EXISTS {key}")) == int(0)
                });
            }
        }
        self.put(key, entry);
    }

    pub(super) fn restore(&mut self, key: &str, other: &str) {
        let payload = self.call(&format!("DUMP {key}"));
        match self.entry(key).cloned() {
            Some(entry) => self.restore_payload(other, payload.as_bytes(), entry.held),
            None => assert_eq!(payload, nil()),
        }
    }

    /// Restores a value of a sketch that RedisBloom wrote.
    pub(super) fn restore_sketch(&mut self, key: &str) {
        let sketch = Rc::clone(self.random.pick(&self.sketches));
        let payload = sketch.payload.clone();
        self.restore_payload(key, &payload, Held::Sketch(sketch));
    }

    fn restore_payload(&mut self, other: &str, payload: &[u8], held: Held) {
        let replace = self.random.one_in(2);
        let ttl = *self.random.pick(&["0", "100000000"]);
        let mut restore: Vec<&[u8]> = vec![b"RESTORE", other.as_bytes(), ttl.as_bytes()];
        restore.push(payload);
        if replace {
            restore.push(b"REPLACE");
        }
        let reply = self.client.call(&restore);
        self.note(&format!("RESTORE {other} {ttl} {replace}: {reply:?}"));
        if !replace && self.entry(other).is_some() {
            return assert_eq!(reply, error(BUSY));
        }
        assert_eq!(reply, ok());
        self.loaded(other, held, ttl);
    }

    fn loaded(&mut self, key: &str, held: Held, ttl: &str) {
        let mut entry = Entry::lasting(held);
        if ttl != "0" {
            let expires = self.call(&format!("PEXPIRETIME {key}"));
            entry.expires_ms = expires.as_int();
            assert!(entry.expires_ms > 0);
        }
        self.put(key, entry);
    }

    /// Returns the chunks of an object, or `None` where BF.SCANDUMP rightly refuses.
    fn chunks(&mut self, key: &str) -> Option<(Object, Pieces)> {
        let reply = self.call(&format!("BF.SCANDUMP {key} 0"));
        let entry = self.entry(key);
        if let Some(Held::Object(object)) = entry.map(|entry| &entry.held) {
            let object = object.clone();
            return Some((object, pieces(&mut self.client, key)));
        }
        let refusal = entry.map_or(Some("ERR not found"), Entry::refusal);
        assert_eq!(reply, error(refusal.expect("it is no object")));
        None
    }

    pub(super) fn load(&mut self, key: &str, other: &str) {
        let Some((object, chunks)) = self.chunks(key) else {
            return;
        };
        let dump = dump_of(&chunks);
        let ttl = *self.random.pick(&["0", "100000000"]);
        let load: [&[u8]; 4] = [b"BF.LOAD", other.as_bytes(), &dump, ttl.as_bytes()];
        let reply = self.client.call(&load);
        self.note(&format!("BF.LOAD {other} {ttl}: {reply:?}"));
        if let Some(entry) = self.entry(other) {
            assert_eq!(reply, error(entry.refusal().unwrap_or(BUSY)));
        } else {
            assert_eq!(reply, ok());
            self.loaded(other, Held::Object(object), ttl);
        }
    }

    pub(super) fn load_chunks(&mut self, key: &str, other: &str) {
        let Some((object, chunks)) = self.chunks(key) else {
            return;
        };
        let bytes: usize = chunks[1..].iter().map(|(_, chunk)| chunk.len()).sum();
        let least = bytes / 30 + 1;
        let chunks = split(&chunks, least + self.random.below(bytes.max(1)));
        let reply = self.load_chunk(other, &chunks[0]);
        if let Some(entry) = self.entry(other) {
            return assert_eq!(reply, error(entry.refusal_to_load()));
        }
        assert_eq!(reply, ok());
        if bytes == 0 {
            // All periods have expired, and the header is the whole object.
            return self.put(other, Entry::lasting(Held::Object(object)));
        }
        let half = Held::Half(object, chunks[1..].to_vec());
        self.put(other, Entry::lasting(half));
        self.go_on_loading(other);
    }

    fn load_chunk(&mut self, key: &str, (cursor, chunk): &(u64, Vec<u8>)) -> Reply {
        let cursor = cursor.to_string();
        let load: [&[u8]; 4] = [b"BF.LOADCHUNK", key.as_bytes(), cursor.as_bytes(), chunk];
        let reply = self.client.call(&load);
        let length = chunk.len();
        self.note(&format!(
            "BF.LOADCHUNK {key} {cursor} ({length}): {reply:?}"
        ));
        reply
    }

    /// Loads all chunks that an object lacks, or some.
    pub(super) fn go_on_loading(&mut self, key: &str) {
        let Some(mut entry) = self.entry(key).cloned() else {
            let reply = self.load_chunk(key, &(3, vec![1, 2]));
            return assert_eq!(reply, error("ERR received bad data"));
        };
        let Held::Half(object, chunks) = &mut entry.held else {
            return;
        };
        if chunks.len() > 1 {
            // Out of turn.
            let reply = self.load_chunk(key, &chunks[1]);
            assert_eq!(reply, error("ERR received bad data"));
        }
        let all = self.random.one_in(2);
        let count = if all {
            chunks.len()
        } else {
            self.random.below(chunks.len() + 1)
        };
        for chunk in chunks.drain(..count) {
            assert_eq!(self.load_chunk(key, &chunk), ok());
        }
        if chunks.is_empty() {
            entry.held = Held::Object(object.clone());
        }
        self.put(key, entry);
    }
}
