//! Steps that bring what a key holds under another, or to an end.

use crate::harness::{error, int, nil, ok, wait_until};
use crate::soak::dump_of;
use crate::support::cuckoo;
use crate::support::pieces::{Pieces, load_piece, pieces, split};

use super::{DATABASES, Entry, Life, State};

const BUSY: &str = "BUSYKEY Target key name already exists.";

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
        if let Some(entry) = self.take(key) {
            self.databases[database].insert(key.to_owned(), entry);
        }
    }

    pub(super) fn delete(&mut self, key: &str, other: &str) {
        if self.random.one_in(4) {
            return self.set_text(key);
        }
        let command = self.random.pick(&["DEL", "UNLINK"]);
        let reply = self.call(&format!("{command} {key} {other}"));
        let gone = [self.take(key), self.take(other)];
        let gone = gone.iter().flatten().count();
        assert_eq!(reply, int(i64::try_from(gone).expect("at most 2")));
    }

    pub(super) fn set_text(&mut self, key: &str) {
        self.is_ok(&format!("SET {key} text"));
        self.adopt(key);
    }

    pub(super) fn expire(&mut self, key: &str) {
        let Some(mut entry) = self.entry(key).cloned() else {
            return assert_eq!(self.call(&format!("PEXPIRE {key} 1")), int(0));
        };
        match self.random.below(3) {
            0 => {
                let lasting = entry.state.expires_ms == int(-1);
                let reply = self.call(&format!("PERSIST {key}"));
                assert_eq!(reply, int(i64::from(!lasting)));
                entry.state.expires_ms = int(-1);
            }
            1 => {
                assert_eq!(self.call(&format!("PEXPIRE {key} 100000000")), int(1));
                entry.state.expires_ms = self.call(&format!("PEXPIRETIME {key}"));
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
            Some(entry) => {
                if self.restore_payload(other, payload.as_bytes()) {
                    self.came(other, entry);
                }
            }
            None => assert_eq!(payload, nil()),
        }
    }

    /// Restores a value of a sketch that RedisBloom wrote.
    pub(super) fn restore_sketch(&mut self, key: &str) {
        let index = self.random.below(self.sketches.len());
        let payload = self.sketches[index].payload.clone();
        if self.restore_payload(key, &payload) {
            self.adopt(key);
            let kind = &self.entry(key).expect("it is there").state.kind;
            assert_eq!(*kind, self.sketches[index].type_name);
        }
    }

    /// Restores a payload under a key, unless that is taken. Returns whether it did.
    fn restore_payload(&mut self, key: &str, payload: &[u8]) -> bool {
        let replace = self.random.one_in(2);
        let ttl = *self.random.pick(&["0", "100000000"]);
        let mut restore: Vec<&[u8]> = vec![b"RESTORE", key.as_bytes(), ttl.as_bytes(), payload];
        if replace {
            restore.push(b"REPLACE");
        }
        let reply = self.call_words(&restore);
        if !replace && self.entry(key).is_some() {
            assert_eq!(reply, error(BUSY));
            return false;
        }
        assert_eq!(reply, ok());
        true
    }

    /// Enters a value that came under a key with a time to live of its own.
    fn came(&mut self, key: &str, mut entry: Entry) {
        entry.state.expires_ms = self.call(&format!("PEXPIRETIME {key}"));
        self.put(key, entry);
    }

    /// Returns what a key shows if it holds a Bloom filter, which is whole.
    fn whole(&self, key: &str) -> Option<State> {
        let entry = self.entry(key)?;
        let is_bloom = entry.state.kind.starts_with("bloomflt");
        (is_bloom && entry.lacks.is_none()).then(|| entry.state.clone())
    }

    pub(super) fn load(&mut self, key: &str, other: &str) {
        let Some(state) = self.whole(key) else {
            return;
        };
        let dump = dump_of(&pieces(&mut self.client, key));
        let ttl = *self.random.pick(&["0", "100000000"]);
        let reply = self.call_words(&[b"BF.LOAD", other.as_bytes(), &dump, ttl.as_bytes()]);
        if self.entry(other).is_some() {
            return assert!(reply.is_error(), "{reply:?}");
        }
        assert_eq!(reply, ok());
        self.came(other, Entry { state, lacks: None });
    }

    pub(super) fn load_chunks(&mut self, key: &str, other: &str) {
        let Some(whole) = self.whole(key) else {
            return self.load_cuckoo(key, other);
        };
        let chunks = pieces(&mut self.client, key);
        let bytes: usize = chunks[1..].iter().map(|(_, chunk)| chunk.len()).sum();
        let least = bytes / 30 + 1;
        let mut chunks = split(&chunks, least + self.random.below(bytes.max(1)));
        let reply = load_piece(&mut self.client, other, &chunks.remove(0));
        if self.entry(other).is_some() {
            // A header that the key has already is accepted, and changes nothing.
            return assert!(reply.is_error() || reply == ok(), "{reply:?}");
        }
        assert_eq!(reply, ok());
        self.adopt(other);
        // Where all periods are over, the header is the whole object.
        if !chunks.is_empty() {
            self.lacks(other, chunks, whole);
            self.go_on_loading(other);
        }
    }

    /// Loads all chunks that an object lacks, or some.
    pub(super) fn go_on_loading(&mut self, key: &str) {
        let bad = error("ERR received bad data");
        let Some(entry) = self.entry(key).cloned() else {
            let reply = load_piece(&mut self.client, key, &(3, vec![1, 2]));
            return assert_eq!(reply, bad);
        };
        let Some((mut chunks, whole)) = entry.lacks else {
            return;
        };
        if chunks.len() > 1 {
            // Out of turn.
            assert_eq!(load_piece(&mut self.client, key, &chunks[1]), bad);
        }
        let all = self.random.one_in(2);
        let count = if all {
            chunks.len()
        } else {
            self.random.below(chunks.len() + 1)
        };
        for chunk in chunks.drain(..count) {
            assert_eq!(load_piece(&mut self.client, key, &chunk), ok());
        }
        self.note(&format!("{key}: {count} chunks, {} lack", chunks.len()));
        if chunks.is_empty() {
            let state = whole;
            return self.came(key, Entry { state, lacks: None });
        }
        self.lacks(key, chunks, whole);
    }

    /// Enters a half loaded object.
    fn lacks(&mut self, key: &str, chunks: Pieces, whole: State) {
        let state = State::read(&mut self.client, key).expect("it is there");
        let lacks = Some((chunks, whole));
        self.put(key, Entry { state, lacks });
    }

    /// Loads the chunks of a cuckoo filter under another key: the header, and the slots in any order.
    fn load_cuckoo(&mut self, key: &str, other: &str) {
        let Some(entry) = self.entry(key).cloned() else {
            return;
        };
        if entry.state.kind != cuckoo::TYPE {
            return;
        }
        let mut chunks = cuckoo::chunks(&mut self.client, key);
        // One without items has no chunks.
        if chunks.is_empty() {
            return;
        }
        let header = chunks.remove(0).1;
        let reply = self.call_words(&[b"CF.LOADCHUNK", other.as_bytes(), b"1", &header]);
        // The filter may have been made on the other server, which stacks more.
        if reply != error("Couldn't create filter!") && self.entry(other).is_none() {
            assert_eq!(reply, ok());
            while !chunks.is_empty() {
                let chunk = chunks.swap_remove(self.random.below(chunks.len()));
                cuckoo::load(&mut self.client, other, &[chunk]);
            }
            self.came(other, entry);
        } else {
            assert!(reply.is_error() || reply == ok(), "{reply:?}");
        }
    }
}
