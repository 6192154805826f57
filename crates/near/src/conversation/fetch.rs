//! Fetches an object: a Bloom filter that only grows in chunks, any other by DUMP.
//!
//! Another client may delete or replace the value during the fetch:
//!
//! | phase | what came | next phase |
//! |---|---|---|
//! | Look | the type of a filter that only grows | Chunks |
//! | | any other type of a sketch | Dump |
//! | Chunks | a chunk that does not fit the others, or no such key | Chunks, from the first one |
//! | | no ids from this server | Chunks, from the first one and without ids |
//! | | the header of a table, or no such command | Dump |
//! | Dump | no such key | Look |
//! | Chunks, Dump | any other refusal, or a dump that can't be decoded | Recheck |
//! | Recheck | another type than before | as after Look |
//! | | the same type, or any error | the end, with the first failure |
//! | any | no reply, one of another form, or no memory | the end |
//!
//! The attempts to read the value are counted. The last one is a DUMP, which reads it at once, and ends the fetch even if the
//! key has gone.

use std::mem;
use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use valkeybloom_protocol::error::lacks_ids;
use valkeybloom_sketches::bloom::Dialect;
use valkeybloom_sketches::{DecodeError, Seed, Sketch};

use super::said::{End, Failure, Reply, Words, number, types, words};
use crate::loading::{Loaded, Loading, Misfit};

/// The most attempts to read a value.
const ATTEMPTS: u32 = 6;

/// An object that is fetched.
#[derive(Debug)]
pub struct Fetch<E> {
    key: Box<[u8]>,
    seed: Seed,
    /// The type of the key's value, once it is known.
    kind: Option<String>,
    /// Whether chunks are requested with their filter's id, which some servers do not have.
    has_ids: bool,
    attempts: u32,
    phase: Phase<E>,
}

/// What the command that was sent last is for.
#[derive(Debug)]
enum Phase<E> {
    /// The type of the value.
    Look,
    /// The type once more, after a failure: if it has changed, the new value is read.
    Recheck(Failure<E>),
    /// The next chunk.
    Chunks(Box<Loading>),
    /// The whole value.
    Dump,
}

/// The next phase, or the end.
type Next<E> = ControlFlow<End<E>, Phase<E>>;

impl<E> Fetch<E> {
    /// Begins to fetch the object of a key.
    pub fn new(key: &[u8], seed: Seed) -> Self {
        Self {
            key: key.into(),
            seed,
            kind: None,
            has_ids: true,
            attempts: 0,
            phase: Phase::Look,
        }
    }

    /// Returns the command to send next.
    pub fn next(&self) -> Words<'_> {
        match &self.phase {
            Phase::Look | Phase::Recheck(_) => words([b"TYPE", &self.key]),
            Phase::Dump => words([b"DUMP", &self.key]),
            Phase::Chunks(loading) => {
                let mut scan = words([b"BF.SCANDUMP", &self.key]);
                scan.push(number(loading.next));
                scan.extend(loading.has_ids.then_some(b"WITHID"[..].into()));
                scan
            }
        }
    }

    /// Takes what became of the command. Returns the end after the last one.
    pub fn take(&mut self, reply: Reply<'_, E>) -> Option<End<E>> {
        let phase = mem::replace(&mut self.phase, Phase::Look);
        let next = match reply {
            Reply::Came(elements) => self.read(phase, elements),
            Reply::Failed { error, refusal } => self.fail(phase, error, refusal),
        };
        next.map_continue(|phase| self.phase = phase).break_value()
    }

    /// Takes a reply.
    fn read(&mut self, phase: Phase<E>, elements: &[&[u8]]) -> Next<E> {
        match (phase, elements) {
            (Phase::Look, &[kind]) => self.begin(kind),
            (Phase::Recheck(failure), &[kind]) => {
                let is_same = self.kind.as_deref().map(str::as_bytes) == Some(kind);
                if is_same || self.is_last_attempt() {
                    return Break(Err(failure));
                }
                self.begin(kind)
            }
            (Phase::Chunks(loading), &[cursor, chunk, ref rest @ ..]) => {
                let id = rest.first().copied().unwrap_or_default();
                self.load(loading, cursor, chunk, id)
            }
            // The key was deleted after its type was read, and may exist again.
            (Phase::Dump, []) if self.is_last_attempt() => Break(Err(Failure::NoKey)),
            (Phase::Dump, []) => Continue(Phase::Look),
            (Phase::Dump, &[payload]) => match Sketch::from_dump(payload, self.seed) {
                Ok(sketch) => Break(Ok(Some(sketch))),
                Err(error) => Continue(Phase::Recheck(Failure::Undecodable(error))),
            },
            _ => Break(Err(Failure::Unexpected)),
        }
    }

    /// Takes a failure. A refusal may mean that the value was replaced.
    fn fail(&mut self, phase: Phase<E>, error: E, refusal: Option<&str>) -> Next<E> {
        let failure = Failure::Client(error);
        match (phase, refusal) {
            // A server that refuses everything would refuse TYPE for ever.
            (Phase::Recheck(first), _) => Break(Err(first)),
            (Phase::Look, _) | (_, None) => Break(Err(failure)),
            (Phase::Dump, Some(_)) => Continue(Phase::Recheck(failure)),
            (Phase::Chunks(_), Some(refusal)) => {
                let text = refusal.to_lowercase();
                let text = text.strip_prefix("err ").unwrap_or(&text);
                if text.contains("unknown command") {
                    Continue(Phase::Dump)
                } else if self.has_ids && lacks_ids(text) {
                    self.has_ids = false;
                    Continue(self.restart())
                } else if text == "not found" {
                    // A replacement deletes the key first.
                    Continue(self.restart())
                } else {
                    Continue(Phase::Recheck(failure))
                }
            }
        }
    }

    /// Takes the type of the value, and begins to read it.
    fn begin(&mut self, kind: &[u8]) -> Next<E> {
        let kind = String::from_utf8_lossy(kind);
        if kind == "none" {
            return Break(Err(Failure::NoKey));
        } else if !types().any(|of| of == kind) {
            return Break(Err(Failure::NoSketch(kind.into_owned())));
        }
        self.kind = Some(kind.into_owned());
        Continue(self.restart())
    }

    /// Begins an attempt to read the value.
    fn restart(&mut self) -> Phase<E> {
        self.attempts += 1;
        // Items leave other filters, so their chunks may not belong together.
        let grows = [Dialect::Bloomfltr, Dialect::RedisBloom].map(|of| of.type_name().to_bytes());
        let kind = self.kind.as_deref().unwrap_or_default();
        if grows.contains(&kind.as_bytes()) && !self.is_last_attempt() {
            let loading = Loading::new(None, self.has_ids, Duration::ZERO);
            Phase::Chunks(Box::new(loading))
        } else {
            Phase::Dump
        }
    }

    const fn is_last_attempt(&self) -> bool {
        self.attempts >= ATTEMPTS
    }

    /// Takes a chunk.
    fn load(&mut self, loading: Box<Loading>, cursor: &[u8], chunk: &[u8], id: &[u8]) -> Next<E> {
        let cursor = str::from_utf8(cursor).ok();
        let Some(cursor) = cursor.and_then(|cursor| cursor.parse().ok()) else {
            return Break(Err(Failure::Unexpected));
        };
        match loading.load(cursor, id, chunk) {
            Ok(Loaded::Complete(object, _)) => Break(Ok(Some(Sketch::Bloom(object)))),
            Ok(Loaded::More(loading)) => Continue(Phase::Chunks(loading)),
            Err(Misfit::NoMemory) => Break(Err(Failure::Undecodable(DecodeError::NoMemory))),
            // The filter was replaced by one that does not only grow.
            Err(Misfit::NotPlain) => Continue(Phase::Dump),
            Err(Misfit::Replaced | Misfit::Invalid(_)) => Continue(self.restart()),
        }
    }
}

#[cfg(test)]
mod tests {
    use valkeybloom_sketches::bloom::{Object, chunks};
    use valkeybloom_sketches::cms::{self, CellSize, CountMin};
    use valkeybloom_testing::support::{add_new, counting, object, object_of, params};

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

    /// Returns a value of a key: a filter that only grows, or one that counts.
    fn value(letter: char) -> Option<Object> {
        let params = params(100, 0.01, 2);
        let mut object = match letter {
            'a' | 'b' => object(&params, Seed::FIXED),
            'c' => object_of(&counting(params), Seed::FIXED),
            _ => return None,
        };
        add_new(&mut object, &[letter as u8]);
        Some(object)
    }

    /// Returns a server's reply for a value, or its refusal.
    fn reply(words: &[&str], letter: char) -> Result<Vec<Vec<u8>>, &'static str> {
        let value = value(letter);
        let name = value.as_ref().map(|object| Dialect::of(object).type_name());
        Ok(match *words {
            ["TYPE", _] => vec![name.map_or(&b"none"[..], |name| name.to_bytes()).to_vec()],
            ["DUMP", _] => {
                let dump = |object| Sketch::Bloom(object).by_ref().to_dump();
                value.and_then(dump).into_iter().collect()
            }
            [_, _, cursor, ref with_id @ ..] => {
                let object = value.ok_or("ERR not found")?;
                let cursor = cursor.parse().expect("a cursor");
                let (next, bytes) = chunks::piece(&object, cursor).expect("there is memory");
                let id = with_id.iter().map(|_| vec![letter as u8]);
                let chunk = [number(next).into_owned(), bytes.into_owned()];
                chunk.into_iter().chain(id).collect()
            }
            _ => panic!("{words:?}"),
        })
    }

    /// Fetches a key whose value may be another at each command. Returns the commands, with a cursor for a chunk, and the
    /// end, which may be the letter of a value.
    fn fetched(
        letter: impl Fn(usize) -> char,
        refusal: impl Fn(&[&str]) -> Option<&'static str>,
    ) -> (String, String) {
        let mut fetch = Fetch::<String>::new(b"k", Seed::FIXED);
        let mut sent = Vec::new();
        loop {
            assert!(sent.len() < 100, "{sent:?}");
            let words = String::from_utf8(fetch.next().join(&b' ')).expect("a text");
            let words: Vec<&str> = words.split(' ').collect();
            let letter = letter(sent.len());
            sent.push((*words.get(2).unwrap_or(&words[0])).to_owned());
            let came = refusal(&words).map_or_else(|| reply(&words, letter), Err);
            let end = match came {
                Ok(came) => {
                    let came: Vec<&[u8]> = came.iter().map(Vec::as_slice).collect();
                    fetch.take(Reply::Came(&came))
                }
                Err(text) => fetch.take(Reply::Failed {
                    error: text.to_owned(),
                    refusal: Some(text),
                }),
            };
            let end = match end {
                None => continue,
                Some(Ok(Some(Sketch::Bloom(object)))) => {
                    let is = |of: &Object| chunks::pieces(of).eq(chunks::pieces(&object));
                    let letter = "abc"
                        .chars()
                        .find(|letter| value(*letter).is_some_and(|it| is(&it)));
                    letter.expect("one of the values").into()
                }
                Some(end) => shown(end),
            };
            return (sent.join(" "), end);
        }
    }

    #[test]
    fn a_filter_that_is_replaced_is_read_anew() {
        for (values, commands, end) in [
            ("a", "TYPE 0 1 0", "a"),
            // It was replaced between two chunks, or before its header came again.
            ("aab", "TYPE 0 1 0 1 0", "b"),
            ("aa-b", "TYPE 0 1 0 1 0", "b"),
            ("aaab", "TYPE 0 1 0 0 1 0", "b"),
            // Its successor counts, so its chunks are not read.
            ("ac", "TYPE 0 DUMP", "c"),
            ("aac", "TYPE 0 1 0 DUMP", "c"),
            ("aaac", "TYPE 0 1 0 0 DUMP", "c"),
            ("c", "TYPE DUMP", "c"),
        ] {
            let last = values.chars().last().expect("a letter");
            let letter = |index| values.chars().nth(index).unwrap_or(last);
            let expected = (commands.to_owned(), end.to_owned());
            assert_eq!(fetched(letter, |_| None), expected, "{values}");
        }
    }

    #[test]
    fn ids_that_the_server_lacks_are_requested_once() {
        let refusal = |words: &[&str]| {
            let has_id = words.contains(&"WITHID");
            has_id.then_some("ERR wrong number of arguments for 'bf.scandump' command")
        };
        let deleted_once = |index| if index == 2 { '-' } else { 'a' };
        let (commands, end) = fetched(deleted_once, refusal);
        assert_eq!((&*commands, &*end), ("TYPE 0 0 0 1 0", "a"));
    }

    #[test]
    fn the_attempts_have_an_end() {
        // A filter that is replaced before each command is read at once.
        let (commands, _) = fetched(|index| if index % 2 == 0 { 'a' } else { 'b' }, |_| None);
        assert_eq!(commands, "TYPE 0 1 0 1 0 1 0 1 0 1 DUMP");
        // The server has no chunks, and the key is not there at any DUMP.
        let no_chunks = |words: &[&str]| words.get(2).map(|_| "ERR unknown command 'BF.SCANDUMP'");
        let is_dump = |index| index % 3 == 2 || index == 16;
        let (commands, end) = fetched(|index| if is_dump(index) { '-' } else { 'a' }, no_chunks);
        let attempts = "TYPE 0 DUMP ".repeat(5);
        assert_eq!(
            (&*commands, &*end),
            (&*format!("{attempts}TYPE DUMP"), "no key")
        );
        // The type differs at each TYPE, and the server refuses everything else.
        let denied = |words: &[&str]| (words[0] != "TYPE").then_some("NOPERM no");
        let (commands, end) = fetched(|index| if index % 4 == 0 { 'c' } else { 'a' }, denied);
        let attempts = "TYPE DUMP TYPE 0 ".repeat(2);
        let expected = format!("{attempts}TYPE DUMP TYPE DUMP TYPE");
        assert_eq!((&*commands, &*end), (&*expected, "NOPERM no"));
    }
}
