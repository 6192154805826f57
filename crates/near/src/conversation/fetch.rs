//! Fetches an object: a Bloom filter that only grows in chunks, any other by DUMP.
//!
//! Another client may delete or replace the key during the fetch. So after a refusal of DUMP, or bytes that can't be decoded, TYPE
//! is sent again. If the type has changed, the new value is fetched.

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
    /// The number of attempts to read the value.
    attempts: u32,
    phase: Phase<E>,
}

/// What the command that was sent last is for.
#[derive(Debug)]
enum Phase<E> {
    /// The type of the value. After a failure, the failure is reported unless the type has changed.
    Kind(Option<Failure<E>>),
    /// The next chunk.
    Chunks(Box<Loading>),
    /// The whole value.
    Dump,
}

impl<E> Fetch<E> {
    /// Begins to fetch the object of a key.
    pub fn new(key: &[u8], seed: Seed) -> Self {
        Self {
            key: key.into(),
            seed,
            kind: String::new(),
            attempts: 0,
            phase: Phase::Kind(None),
        }
    }

    /// Returns the command to send next.
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

    /// Takes what became of the command. Returns the end after the last one.
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
                    // A replacement deletes the key first.
                    self.attempt(loading.has_ids);
                } else {
                    return self.fail(error, refusal);
                }
                None
            }
            // Without a type, this is the end: a server that refuses TYPE as well would refuse it for ever.
            (Phase::Kind(Some(failure)), Reply::Failed { .. }) => Some(Err(failure)),
            (_, Reply::Failed { error, refusal }) => self.fail(error, refusal),
            (Phase::Kind(failure), Reply::Came(&[kind])) => self.begin(kind, failure),
            (Phase::Chunks(loading), Reply::Came(&[cursor, bytes, ref rest @ ..])) => {
                let id = rest.first().copied().unwrap_or_default();
                self.load(loading, cursor, bytes, id)
            }
            // The key was deleted after its type was read, and may exist again.
            (Phase::Dump, Reply::Came([])) => {
                self.attempts += 1;
                (self.attempts > ATTEMPTS).then_some(Err(Failure::NoKey))
            }
            (Phase::Dump, Reply::Came(&[payload])) => match Sketch::from_dump(payload, self.seed) {
                Ok(sketch) => Some(Ok(Some(sketch))),
                Err(error) => self.doubt(Failure::Undecodable(error)),
            },
            _ => Some(Err(Failure::Unexpected)),
        }
    }

    /// Takes the type of the value, and decides how it is read.
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

    /// Takes a chunk.
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

    /// Takes a failure. A refusal may mean that the value was replaced.
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

#[cfg(test)]
mod tests {
    use valkeybloom_sketches::cms::{self, CellSize, CountMin};

    use super::super::upload::name_of;
    use super::*;

    fn payload() -> Vec<u8> {
        let shape = cms::Shape::new(9, 2, CellSize::Four).expect("a shape");
        let made = CountMin::new(shape, u64::MAX).expect("a sketch");
        let dump = Sketch::CountMin(made).by_ref().to_dump();
        dump.expect("there is memory")
    }

    fn shown(end: End<String>) -> String {
        match end {
            Ok(_) => "fetched".to_owned(),
            Err(Failure::NoKey) => "no key".to_owned(),
            Err(Failure::NoSketch(kind)) => format!("no sketch: {kind}"),
            Err(Failure::Client(error)) => error,
            Err(failure) => format!("{failure:?}"),
        }
    }

    /// Each command is answered by a word, nothing, a payload, the text of a refusal after "!", or not at all.
    #[test]
    fn each_reply_leads_to_the_next_command() {
        let payload = payload();
        for (said, end) in [
            ("TYPE CMSk-TYPE, DUMP payload", "fetched"),
            ("TYPE none", "no key"),
            ("TYPE string", "no sketch: string"),
            ("TYPE lost", "lost"),
            ("TYPE CMSk-TYPE, DUMP lost", "lost"),
            // It was deleted or replaced after its type was read.
            ("TYPE CMSk-TYPE, DUMP nothing, TYPE none", "no key"),
            (
                "TYPE CMSk-TYPE, DUMP nothing, TYPE CMSk-TYPE, DUMP payload",
                "fetched",
            ),
            (
                "TYPE CMSk-TYPE, DUMP damaged, TYPE bloomfltx, DUMP payload",
                "fetched",
            ),
            (
                "TYPE TopK-TYPE, DUMP !NOPERM dump, TYPE TopK-TYPE",
                "NOPERM dump",
            ),
            // The same server refuses everything.
            (
                "TYPE bloomfltr, BF.SCANDUMP !MOVED 1 h, TYPE !MOVED 1 h",
                "MOVED 1 h",
            ),
            (
                "TYPE TopK-TYPE, DUMP !NOPERM dump, TYPE lost",
                "NOPERM dump",
            ),
            // A server without chunks.
            (
                "TYPE MBbloom--, BF.SCANDUMP !ERR unknown command, DUMP payload",
                "fetched",
            ),
            (
                "TYPE bloomfltr, BF.SCANDUMP !ERR not found, BF.SCANDUMP !NOPERM no, TYPE none",
                "no key",
            ),
        ] {
            let mut fetch = Fetch::new(b"k", Seed::FIXED);
            let mut ended = None;
            for step in said.split(", ") {
                assert!(ended.is_none(), "{said}");
                let (command, reply) = step.split_once(' ').expect("a command and its reply");
                assert_eq!(name_of(&fetch.next()), command, "{said}");
                let came = [match reply {
                    "payload" => &payload[..],
                    _ => reply.as_bytes(),
                }];
                let failed = |text: &str, refusal| Reply::Failed {
                    error: text.to_owned(),
                    refusal,
                };
                ended = fetch.take(match (reply, reply.strip_prefix('!')) {
                    (_, Some(text)) => failed(text, Some(text)),
                    ("lost", _) => failed(reply, None),
                    ("nothing", _) => Reply::Came(&[]),
                    _ => Reply::Came(&came),
                });
            }
            assert_eq!(ended.map(shown).as_deref(), Some(end), "{said}");
        }
    }

    #[test]
    fn a_filter_that_is_replaced_again_and_again_is_read_at_once() {
        let mut fetch = Fetch::<()>::new(b"k", Seed::FIXED);
        assert!(fetch.take(Reply::Came(&[b"bloomfltr"])).is_none());
        for _ in 0..ATTEMPTS {
            assert_eq!(name_of(&fetch.next()), "BF.SCANDUMP");
            let error = ();
            let refusal = Some("ERR not found");
            assert!(fetch.take(Reply::Failed { error, refusal }).is_none());
        }
        assert_eq!(name_of(&fetch.next()), "DUMP");
    }
}
