//! Stores an object: a filter in chunks, any other by RESTORE.
//!
//! ```text
//!   Look → Begin → Chunk … → Finish → Unlink
//! ```
//!
//! Any other object than a filter has no chunks, and a merge does not look, because it expects a value. Once it has begun, a
//! failure ends with Unlink, too.

use std::time::Duration;

use valkeybloom_protocol::names::BF_LOADCHUNK;
use valkeybloom_sketches::{DecodeError, Sketch};

use super::said::{
    End, Failure, Reply, Words, chunk_after, reason, types, without_arguments, words,
};
use super::upload::{Finish, GONE, NewExpiry, Upload};

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
    existing: Existing,
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
    /// A chunk, by the command that loads it. It ends at the cursor.
    Chunk(&'static str, u64, Vec<u8>),
    /// Gives the value its name.
    Finish,
    /// Deletes the temporary key, or its mark. This is the end.
    Unlink(Result<(), Failure<E>>),
}

impl<E> Store<E> {
    /// Begins to store an object.
    ///
    /// # Errors
    /// Objects of its family can't be merged, or there is no memory for its bytes.
    pub fn new(upload: Upload, sketch: Sketch, options: Options) -> Result<Self, Failure<E>> {
        let Options { existing, ttl_ms } = options;
        let finish = match (existing, &sketch) {
            (Existing::Keep, _) => Finish::Keep(NewExpiry::of_ttl(ttl_ms)),
            (Existing::Replace, _) => Finish::Replace(NewExpiry::of_ttl(ttl_ms)),
            (Existing::Merge, Sketch::Bloom(_)) => Finish::Merge("BF.MERGE", ttl_ms),
            (Existing::Merge, Sketch::CountMin(_)) => Finish::Merge("CMS.MERGE", ttl_ms),
            (Existing::Merge, Sketch::TDigest(_)) => Finish::Merge("TDIGEST.MERGE", ttl_ms),
            (Existing::Merge, _) => return Err(Failure::NotMergeable),
        };
        let mut store = Self {
            upload,
            existing,
            finish,
            sketch,
            phase: Phase::Look,
            is_renewing: false,
        };
        if existing == Existing::Merge {
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

    /// Goes on with the first bytes.
    fn begin(&mut self) -> Result<(), DecodeError> {
        let first = match self.load() {
            Some(_) => chunk_after(&self.sketch, 0).map(|(_, header)| header),
            None => self.sketch.by_ref().to_dump(),
        };
        self.phase = Phase::Begin(first.ok_or(DecodeError::NoMemory)?);
        Ok(())
    }

    /// Returns the command to send next.
    pub fn next(&mut self, now: Duration) -> Words<'_> {
        let was_renewed = std::mem::take(&mut self.is_renewing);
        let load = self.load();
        match &self.phase {
            Phase::Look => words([b"TYPE", self.upload.key()]),
            Phase::Begin(first) => match load {
                Some(load) => self.upload.begin(&[load.as_bytes(), b"1", first], now),
                None => self.upload.restore(first),
            },
            Phase::Chunk(load, cursor, chunk) => {
                if !was_renewed && self.upload.is_due(now) {
                    self.is_renewing = true;
                    return self.upload.renew(now);
                }
                self.upload.load(load, *cursor, chunk)
            }
            Phase::Finish => self.upload.finish(self.finish),
            Phase::Unlink(_) => self.upload.unlink(),
        }
    }

    /// Takes what became of the command. Returns the end after the last one.
    pub fn take(&mut self, reply: Reply<'_, E>) -> Option<End<E>> {
        let reply = match reply {
            Reply::Came(reply) => reply,
            Reply::Failed { error, refusal } => return self.fail(error, refusal),
        };
        if self.is_renewing {
            // The next chunk shows whether the temporary key is gone.
            return None;
        }
        let next = match (std::mem::replace(&mut self.phase, Phase::Finish), reply) {
            (Phase::Look, &[kind]) => match self.require_free(kind) {
                Ok(()) => self.begin(),
                Err(failure) => return Some(Err(failure)),
            },
            (Phase::Begin(_), _) => match self.load() {
                Some(load) => self.chunk(load, 1),
                None => Ok(()),
            },
            (Phase::Chunk(load, cursor, _), _) => self.chunk(load, cursor),
            (Phase::Finish, &[kind]) => {
                self.phase = Phase::Unlink(self.require_free(kind));
                Ok(())
            }
            (Phase::Unlink(end), _) => return Some(end.map(|()| None)),
            (Phase::Look, _) => return Some(Err(Failure::Unexpected)),
            (Phase::Finish, _) => {
                self.phase = Phase::Unlink(Err(Failure::Unexpected));
                Ok(())
            }
        };
        if let Err(error) = next {
            self.phase = Phase::Unlink(Err(Failure::Undecodable(error)));
        }
        None
    }

    /// Goes on with the chunk after a cursor, or finishes.
    fn chunk(&mut self, load: &'static str, cursor: u64) -> Result<(), DecodeError> {
        let (next, chunk) = chunk_after(&self.sketch, cursor).ok_or(DecodeError::NoMemory)?;
        self.phase = match next {
            0 => Phase::Finish,
            _ => Phase::Chunk(load, next, chunk),
        };
        Ok(())
    }

    /// Requires that a key with a value of this type may be written.
    fn require_free(&self, kind: &[u8]) -> Result<(), Failure<E>> {
        let kind = String::from_utf8_lossy(kind);
        match self.existing {
            _ if kind == "none" => Ok(()),
            Existing::Keep => Err(Failure::Exists),
            _ if types().any(|of| of == kind) => Ok(()),
            _ => Err(Failure::NoSketch(kind.into_owned())),
        }
    }

    /// Takes a failure. Returns the end if nothing is left to delete.
    fn fail(&mut self, error: E, refusal: Option<&str>) -> Option<End<E>> {
        let is_there = refusal.is_some_and(|text| text.starts_with("BUSYKEY"));
        let is_first = matches!(self.phase, Phase::Begin(_));
        // The reply to an earlier RESTORE was lost.
        if is_first && is_there && self.load().is_none() {
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
    // What a script says of a command that the server lacks: one that loads chunks.
    ("command called from script", LOAD),
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
    let text = without_arguments(reason(text));
    let lower = text.to_lowercase();
    let mut advice = ADVICE.into_iter().filter(|(part, _)| lower.contains(part));
    let advice = match advice.next() {
        Some((_, advice)) => advice,
        None if lower.contains("received bad data") && is_first => {
            "its module can't read this filter: load valkeybloom, or a newer release of it"
        }
        // The server's answer to a chunk of a key that is not there, too.
        None if lower.contains("received bad data") => return GONE.to_owned(),
        None => return text.trim_end_matches('.').to_owned(),
    };
    format!("{}: {advice}", text.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use valkeybloom_sketches::bloom::{Growth, Kind, Limits, Object, Params, Shape, Tightening};
    use valkeybloom_sketches::cms::{self, CellSize, CountMin};
    use valkeybloom_sketches::{Fraction, Seed};

    use super::super::upload::name_of;
    use super::*;

    /// A filter with one chunk after its header.
    fn bloom() -> Sketch {
        let params = Params {
            capacity: 100,
            error_rate: Fraction::new(0.01).expect("a rate"),
            tightening: Tightening::HALF,
            growth: Growth::Fixed,
        };
        let kind = Kind::Plain;
        let made = Object::new(&Shape { params, kind }, Seed::FIXED, Limits::NONE);
        Sketch::Bloom(made.expect("a filter"))
    }

    fn counts() -> Sketch {
        let shape = cms::Shape::new(9, 2, CellSize::Four).expect("a shape");
        Sketch::CountMin(CountMin::new(shape, u64::MAX).expect("a sketch"))
    }

    fn store(sketch: Sketch, existing: Existing) -> Store<()> {
        let options = Options {
            existing,
            ttl_ms: None,
        };
        let upload = Upload::new(b"", b"k", 42);
        Store::new(upload, sketch, options).expect("it can be stored")
    }

    /// Takes a reply: a word, the text of a refusal after "!", or "lost".
    fn take(store: &mut Store<()>, reply: &str) -> Option<End<()>> {
        let failed = |refusal| Reply::Failed { error: (), refusal };
        let came = [reply.as_bytes()];
        store.take(match reply.strip_prefix('!') {
            Some(text) => failed(Some(text)),
            None if reply == "lost" => failed(None),
            None => Reply::Came(&came),
        })
    }

    fn shown(end: End<()>) -> String {
        match end {
            Ok(_) => "stored".to_owned(),
            Err(Failure::Exists) => "exists".to_owned(),
            Err(Failure::NoSketch(kind)) => format!("no sketch: {kind}"),
            Err(Failure::Client(())) => "lost".to_owned(),
            Err(Failure::Refused { text, .. }) => text,
            Err(failure) => format!("{failure:?}"),
        }
    }

    #[test]
    fn each_reply_leads_to_the_next_command() {
        use Existing::{Keep, Merge, Replace};
        for (make, existing, said, end) in [
            (
                bloom as fn() -> Sketch,
                Keep,
                "TYPE none, begin.lua 1, BF.LOADCHUNK OK, finish.lua none, UNLINK 1",
                "stored",
            ),
            (
                counts,
                Keep,
                "TYPE none, RESTORE OK, finish.lua none, UNLINK 0",
                "stored",
            ),
            // The reply to an earlier RESTORE was lost.
            (
                counts,
                Keep,
                "TYPE none, RESTORE !BUSYKEY Target key name already exists., finish.lua none, UNLINK 1",
                "stored",
            ),
            (bloom, Keep, "TYPE bloomfltr", "exists"),
            (bloom, Replace, "TYPE string", "no sketch: string"),
            (
                counts,
                Replace,
                "TYPE bloomfltr, RESTORE OK, finish.lua none, UNLINK 1",
                "stored",
            ),
            // Another client was faster.
            (
                counts,
                Keep,
                "TYPE none, RESTORE OK, finish.lua CMSk-TYPE, UNLINK 1",
                "exists",
            ),
            (
                counts,
                Merge,
                "RESTORE OK, finish.lua none, UNLINK 1",
                "stored",
            ),
            (
                bloom,
                Keep,
                "TYPE none, begin.lua !ERR Unknown Redis command called from script, UNLINK 0",
                "ERR Unknown Redis command called from script: load the module valkeybloom into the server",
            ),
            (
                bloom,
                Keep,
                "TYPE none, begin.lua !ERR unknown command 'EVAL', UNLINK 0",
                "ERR unknown command 'EVAL'",
            ),
            (
                bloom,
                Keep,
                "TYPE none, begin.lua !ERR received bad data, UNLINK 0",
                "ERR received bad data: its module can't read this filter: load valkeybloom, or a newer release of it",
            ),
            (
                bloom,
                Keep,
                "TYPE none, begin.lua 1, BF.LOADCHUNK !ERR received bad data, UNLINK 0",
                GONE,
            ),
            (
                bloom,
                Keep,
                "TYPE none, begin.lua 1, BF.LOADCHUNK lost, UNLINK lost",
                "lost",
            ),
            (bloom, Keep, "TYPE lost", "lost"),
            // It is in place, whatever becomes of its mark.
            (
                counts,
                Keep,
                "TYPE none, RESTORE OK, finish.lua none, UNLINK !NOPERM no",
                "stored",
            ),
        ] {
            let mut store = store(make(), existing);
            let mut ended = None;
            for step in said.split(", ") {
                assert!(ended.is_none(), "{said}");
                let (command, reply) = step.split_once(' ').expect("a command and its reply");
                assert_eq!(name_of(&store.next(Duration::ZERO)), command, "{said}");
                ended = take(&mut store, reply);
            }
            assert_eq!(ended.map(shown).as_deref(), Some(end), "{said}");
        }
    }

    #[test]
    fn a_lease_is_renewed_once_before_a_chunk() {
        let mut store = store(bloom(), Existing::Keep);
        let minutes = |count: u64| Duration::from_secs(60 * count);
        for (now, command, reply) in [
            (0, "TYPE", "none"),
            (0, "begin.lua", "1"),
            // However long a renewal takes, the chunk follows.
            (1, "PEXPIRE", "1"),
            (9, "BF.LOADCHUNK", "OK"),
            (9, "finish.lua", "none"),
        ] {
            assert_eq!(name_of(&store.next(minutes(now))), command);
            assert!(take(&mut store, reply).is_none());
        }
    }
}
