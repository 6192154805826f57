//! Stores an object: a filter in chunks, any other by RESTORE.

use std::time::Duration;

use valkeybloom_protocol::names::BF_LOADCHUNK;
use valkeybloom_sketches::{DecodeError, Sketch};

use super::said::{End, Failure, Reply, Words, chunk_after, reason, types, words};
use super::upload::{Finish, NewExpiry, Upload};

/// What becomes of a value that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the object is not stored.
    Keep,
    /// The object replaces it if it is a sketch.
    Replace,
    /// The object is merged into it.
    Merge,
}

/// How an object is stored.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What becomes of a value that is there.
    pub existing: Existing,
    /// The time to live of the key in milliseconds.
    pub ttl_ms: Option<u64>,
}

/// An object that is stored.
#[derive(Debug)]
pub struct Store<E> {
    upload: Upload,
    options: Options,
    finish: Finish,
    sketch: Sketch,
    phase: Phase<E>,
    /// Whether the command that was sent last renews the lease.
    is_renewing: bool,
}

/// What the command that was sent last is for.
#[derive(Debug)]
enum Phase<E> {
    /// The type of a value that is there. Someone may still create the key before the end; this avoids sending everything
    /// in vain.
    Look,
    /// The first chunk, or all.
    Begin(Vec<u8>),
    /// A chunk that ends at the cursor.
    Chunk(u64, Vec<u8>),
    Finish,
    Unlink(Result<(), Failure<E>>),
}

impl<E> Store<E> {
    pub fn new(upload: Upload, sketch: Sketch, options: Options) -> Result<Self, Failure<E>> {
        let finish = match (options.existing, &sketch) {
            (Existing::Keep, _) => Finish::Keep,
            (Existing::Replace, _) => Finish::Replace,
            (Existing::Merge, Sketch::Bloom(_)) => Finish::Merge("BF.MERGE"),
            (Existing::Merge, Sketch::CountMin(_)) => Finish::Merge("CMS.MERGE"),
            (Existing::Merge, Sketch::TDigest(_)) => Finish::Merge("TDIGEST.MERGE"),
            (Existing::Merge, _) => return Err(Failure::NotMergeable),
        };
        let mut store = Self {
            upload,
            options,
            finish,
            sketch,
            phase: Phase::Look,
            is_renewing: false,
        };
        if options.existing == Existing::Merge {
            store.begin().map_err(Failure::Undecodable)?;
        }
        Ok(store)
    }

    /// Returns the command that loads chunks of the object; `None` if it goes by RESTORE.
    const fn load(&self) -> Option<&'static str> {
        match self.sketch {
            Sketch::Bloom(_) => Some(BF_LOADCHUNK),
            Sketch::Cuckoo(_) => Some("CF.LOADCHUNK"),
            _ => None,
        }
    }

    fn begin(&mut self) -> Result<(), DecodeError> {
        let first = match self.load() {
            Some(_) => chunk_after(&self.sketch, 0).map(|(_, header)| header),
            None => self.sketch.by_ref().to_dump(),
        };
        self.phase = Phase::Begin(first.ok_or(DecodeError::NoMemory)?);
        Ok(())
    }

    pub fn next(&mut self, now: Duration) -> Words<'_> {
        let was_renewed = std::mem::take(&mut self.is_renewing);
        let load = self.load();
        match &self.phase {
            Phase::Look => words([b"TYPE", self.upload.key()]),
            Phase::Begin(first) => match load {
                Some(load) => self.upload.begin(&[load.as_bytes(), b"1", first], now),
                None => self.upload.restore(first),
            },
            Phase::Chunk(cursor, chunk) => {
                if !was_renewed && self.upload.is_due(now) {
                    self.is_renewing = true;
                    return self.upload.renew(now);
                }
                self.upload.load(load.unwrap_or_default(), *cursor, chunk)
            }
            Phase::Finish => {
                let ttl = self.options.ttl_ms;
                let expiry = ttl.map_or(NewExpiry::Unchanged, NewExpiry::After);
                self.upload.finish(self.finish, expiry)
            }
            Phase::Unlink(_) => self.upload.unlink(),
        }
    }

    pub fn take(&mut self, reply: Reply<'_, E>) -> Option<End<E>> {
        let reply = match reply {
            Reply::Came(reply) => reply,
            Reply::Failed { error, refusal } => return self.fail(error, refusal),
        };
        if self.is_renewing {
            return None;
        }
        let next = match (std::mem::replace(&mut self.phase, Phase::Finish), reply) {
            (Phase::Look, &[kind]) => match self.require_free(kind) {
                Ok(()) => self.begin(),
                Err(failure) => return Some(Err(failure)),
            },
            (Phase::Begin(_), _) if self.load().is_some() => self.chunk(1),
            (Phase::Begin(_), _) => Ok(()),
            (Phase::Chunk(cursor, _), _) => self.chunk(cursor),
            (Phase::Finish, &[kind]) => {
                self.phase = Phase::Unlink(self.require_free(kind));
                Ok(())
            }
            (Phase::Unlink(end), _) => return Some(end.map(|()| None)),
            _ => return Some(Err(Failure::Unexpected)),
        };
        if let Err(error) = next {
            self.phase = Phase::Unlink(Err(Failure::Undecodable(error)));
        }
        None
    }

    /// Goes on with the chunk after a cursor, or finishes.
    fn chunk(&mut self, cursor: u64) -> Result<(), DecodeError> {
        let (next, chunk) = chunk_after(&self.sketch, cursor).ok_or(DecodeError::NoMemory)?;
        self.phase = match next {
            0 => Phase::Finish,
            _ => Phase::Chunk(next, chunk),
        };
        Ok(())
    }

    /// Requires that a key with a value of this type may be written.
    fn require_free(&self, kind: &[u8]) -> Result<(), Failure<E>> {
        let kind = String::from_utf8_lossy(kind);
        match self.options.existing {
            _ if kind == "none" => Ok(()),
            Existing::Keep => Err(Failure::Exists),
            _ if types().any(|of| of == kind) => Ok(()),
            _ => Err(Failure::NoSketch(kind.into_owned())),
        }
    }

    fn fail(&mut self, error: E, refusal: Option<&str>) -> Option<End<E>> {
        let is_there = refusal.is_some_and(|text| text.starts_with("BUSYKEY"));
        let is_first = matches!(self.phase, Phase::Begin(_));
        if is_first && is_there {
            // The reply to an earlier RESTORE was lost.
            self.phase = Phase::Finish;
            return None;
        }
        let failure = match refusal {
            Some(text) => Failure::Refused {
                error,
                text: explained(text, is_first),
            },
            None => Failure::Client(error),
        };
        match std::mem::replace(&mut self.phase, Phase::Finish) {
            Phase::Look => return Some(Err(failure)),
            Phase::Unlink(end) => return Some(end.map(|()| None)),
            _ => self.phase = Phase::Unlink(Err(failure)),
        }
        None
    }
}

/// What to do about a refusal, by a part of its text.
const ADVICE: [(&str, &str); 6] = [
    ("unknown", LOAD),
    ("bad data format", LOAD),
    (
        "object memory limit",
        "raise bf.bloom-filter-max-memory-usage or bf.bloom-memory-usage-limit, or spread the items over several keys",
    ),
    (
        "couldn't create filter",
        "raise bf.bloom-filter-max-memory-usage or bf.bloom-memory-usage-limit",
    ),
    ("used memory >", "the server is full: raise its maxmemory"),
    (
        "different seeds",
        "make what you add with the seed of the filter that is there, or from its template",
    ),
];

const LOAD: &str = "load the module valkeybloom into the server";

/// Returns the text of a refusal with what to do about it.
fn explained(text: &str, is_first: bool) -> String {
    let text = reason(text);
    let lower = text.to_lowercase();
    let mut advice = ADVICE.into_iter().filter(|(part, _)| lower.contains(part));
    let advice = match advice.next() {
        Some((_, advice)) => advice,
        None if is_first && lower.contains("received bad data") => {
            "its module can't read this filter: load valkeybloom, or a newer release of it"
        }
        None => return text.trim_end_matches('.').to_owned(),
    };
    format!("{}: {advice}", text.trim_end_matches('.'))
}
