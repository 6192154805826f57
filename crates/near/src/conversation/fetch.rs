//! Fetches an object: a Bloom filter that only grows in chunks, any other by DUMP.

use std::time::Duration;

use valkeybloom_protocol::error::lacks_ids;
use valkeybloom_sketches::bloom::Dialect;
use valkeybloom_sketches::{DecodeError, Seed, Sketch};

use super::said::{End, Failure, Reply, Words, number, types, words};
use crate::loading::{Loaded, Loading, Misfit};

/// The most attempts to read a filter that is replaced while it is read.
const ATTEMPTS: u32 = 5;

/// An object that is fetched.
#[derive(Debug)]
pub struct Fetch<E> {
    key: Box<[u8]>,
    seed: Seed,
    /// The type of the key's value, once it is known.
    kind: String,
    /// The number of attempts to read chunks.
    attempts: u32,
    phase: Phase<E>,
}

/// What the command that was sent last is for.
#[derive(Debug)]
enum Phase<E> {
    /// The type of the value. After a failure, it is the reason unless the type is another one now.
    Kind(Option<Failure<E>>),
    Chunks(Box<Loading>),
    Dump,
}

impl<E> Fetch<E> {
    pub fn new(key: &[u8], seed: Seed) -> Self {
        Self {
            key: key.into(),
            seed,
            kind: String::new(),
            attempts: 0,
            phase: Phase::Kind(None),
        }
    }

    pub fn next(&self) -> Words<'_> {
        let name = match &self.phase {
            Phase::Kind(_) => "TYPE",
            Phase::Dump => "DUMP",
            Phase::Chunks(loading) => {
                let mut scan = words([b"BF.SCANDUMP", &self.key]);
                scan.push(number(loading.next));
                scan.extend(loading.has_ids.then_some(b"WITHID"[..].into()));
                return scan;
            }
        };
        words([name.as_bytes(), &self.key])
    }

    pub fn take(&mut self, reply: Reply<'_, E>) -> Option<End<E>> {
        match (std::mem::replace(&mut self.phase, Phase::Kind(None)), reply) {
            (Phase::Chunks(loading), Reply::Failed { error, refusal }) => {
                let text = refusal.unwrap_or_default().to_lowercase();
                let text = text.strip_prefix("err ").unwrap_or(&text);
                if text.contains("unknown command") {
                    self.phase = Phase::Dump;
                } else if loading.has_ids && lacks_ids(text) {
                    self.attempt(false);
                } else if text == "not found" {
                    // It is being replaced.
                    self.attempt(loading.has_ids);
                } else {
                    return self.fail(error, refusal);
                }
                None
            }
            (_, Reply::Failed { error, refusal }) => self.fail(error, refusal),
            (Phase::Kind(failure), Reply::Came(&[kind])) => self.begin(kind, failure),
            (Phase::Chunks(loading), Reply::Came(&[cursor, bytes, ref rest @ ..])) => {
                let id = rest.first().copied().unwrap_or_default();
                self.load(loading, cursor, bytes, id)
            }
            // The key was deleted meanwhile.
            (Phase::Dump, Reply::Came([])) => self.doubt(Failure::NoKey),
            (Phase::Dump, Reply::Came(&[payload])) => match Sketch::from_dump(payload, self.seed) {
                Ok(sketch) => Some(Ok(Some(sketch))),
                Err(error) => self.doubt(Failure::Undecodable(error)),
            },
            _ => Some(Err(Failure::Unexpected)),
        }
    }

    fn begin(&mut self, kind: &[u8], failure: Option<Failure<E>>) -> Option<End<E>> {
        let kind = String::from_utf8_lossy(kind);
        if let Some(failure) = failure
            && kind == self.kind
        {
            return Some(Err(failure));
        }
        self.kind = kind.into_owned();
        if self.kind == "none" {
            return Some(Err(Failure::NoKey));
        } else if !types().any(|of| of == self.kind) {
            return Some(Err(Failure::NoSketch(std::mem::take(&mut self.kind))));
        }
        // Items leave other filters, so their chunks may not belong together.
        let plain = [Dialect::Bloomfltr, Dialect::RedisBloom];
        let mut names = plain.iter().map(|of| of.type_name().to_bytes());
        if names.any(|of| of == self.kind.as_bytes()) {
            self.attempts = 0;
            self.attempt(true);
        } else {
            self.phase = Phase::Dump;
        }
        None
    }

    /// Reads the filter from its first chunk on, or by DUMP after some attempts.
    fn attempt(&mut self, with_ids: bool) {
        self.attempts += 1;
        self.phase = if self.attempts > ATTEMPTS {
            Phase::Dump
        } else {
            Phase::Chunks(Box::new(Loading::new(None, with_ids, Duration::ZERO)))
        };
    }

    fn load(
        &mut self,
        loading: Box<Loading>,
        cursor: &[u8],
        bytes: &[u8],
        id: &[u8],
    ) -> Option<End<E>> {
        let cursor = str::from_utf8(cursor).ok();
        let cursor = cursor.and_then(|cursor| cursor.parse().ok());
        let Some(cursor) = cursor else {
            return Some(Err(Failure::Unexpected));
        };
        let has_ids = loading.has_ids;
        match loading.load(cursor, id, bytes) {
            Ok(Loaded::Complete(object, _)) => return Some(Ok(Some(Sketch::Bloom(object)))),
            Ok(Loaded::More(loading)) => self.phase = Phase::Chunks(loading),
            Err(Misfit::NoMemory) => {
                return Some(Err(Failure::Undecodable(DecodeError::NoMemory)));
            }
            Err(Misfit::Replaced | Misfit::Invalid(_)) => self.attempt(has_ids),
        }
        None
    }

    fn fail(&mut self, error: E, refusal: Option<&str>) -> Option<End<E>> {
        let failure = Failure::Client(error);
        match refusal {
            Some(_) if !self.kind.is_empty() => self.doubt(failure),
            _ => Some(Err(failure)),
        }
    }

    /// Looks whether the key has been deleted meanwhile, or has another value.
    fn doubt(&mut self, failure: Failure<E>) -> Option<End<E>> {
        self.phase = Phase::Kind(Some(failure));
        None
    }
}
