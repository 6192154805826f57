//! The commands of an upload: a value is made under a temporary key, which then gets its name in one step.
//!
//! ```text
//!   begin.lua   creates the value, with a time to live
//!   BF.LOADCHUNK temporary cursor chunk …   PEXPIRE temporary lease, now and then
//!   finish.lua  renames or merges it, and leaves a mark in its place
//!   UNLINK temporary
//! ```
//!
//! Each of them may arrive twice. The temporary key always has a time to live, so a killed program leaves nothing for
//! long. Readers of the key see the old value or the new one.

use std::borrow::Cow;
use std::time::Duration;

use crate::tag::slot;

use super::said::{Words, number, types, words};

/// Marks a temporary key, after the key's name.
const MARK: &str = ":valkeybloom-unfinished-";

/// How long a temporary key outlives its upload.
const LEASE: Duration = Duration::from_secs(300);

const BEGIN: &str = include_str!("begin.lua");
const FINISH: &str = include_str!("finish.lua");

/// The error of finish.lua for a temporary key that is gone, without its code.
pub const GONE: &str = "the temporary key is gone: it expired, or was deleted or evicted";

/// When a key expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewExpiry {
    /// Never.
    Never,
    /// At this time, in milliseconds since the epoch.
    At(u64),
    /// After this number of milliseconds.
    After(u64),
}

impl NewExpiry {
    /// Returns the expiry of a time to live in milliseconds.
    pub fn of_ttl(ttl_ms: Option<u64>) -> Self {
        ttl_ms.map_or(Self::Never, Self::After)
    }
}

/// What an upload does in the end.
#[derive(Clone, Copy, Debug)]
pub enum Finish {
    /// The value gets its name, unless the key exists.
    Keep(NewExpiry),
    /// The value gets its name, and replaces any sketch.
    Replace(NewExpiry),
    /// This command merges the value into the one that is there. That keeps its time to live, or gets this one in milliseconds.
    Merge(&'static str, Option<u64>),
}

/// A value under a temporary key.
#[derive(Debug)]
pub struct Upload {
    key: Box<[u8]>,
    temporary: Vec<u8>,
    /// The time of the last command that set the temporary key's time to live.
    leased: Duration,
}

impl Upload {
    /// Names a temporary key. It begins with the key's name, because an ACL may grant keys by prefix, and is in its slot: by
    /// the key's own hash tag, or else by the whole key as one, to which the client adds `prefix`. A key that can't be a
    /// tag, because it has braces, gets one of many names.
    pub fn new(prefix: &[u8], key: &[u8], random: u64) -> Self {
        let tag = [prefix, key].concat();
        let is_tag = !tag.is_empty() && !tag.iter().any(|byte| b"{}".contains(byte));
        let suffix = is_tag.then(|| [b":{", &tag[..], b"}"].concat());
        let suffix = suffix.unwrap_or_default();
        let runs = (0..=u64::MAX).map(|run| random.wrapping_add(run));
        let mut names =
            runs.map(|run| [key, format!("{MARK}{run:016x}").as_bytes(), &suffix].concat());
        let temporary = names.find(|name| slot(&[prefix, name].concat()) == slot(&tag));
        Self {
            key: key.into(),
            temporary: temporary.unwrap_or_default(),
            leased: Duration::ZERO,
        }
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the temporary key.
    pub fn temporary(&self) -> &[u8] {
        &self.temporary
    }

    /// Creates the value, by a command and its words after the key.
    pub fn begin<'w>(&'w mut self, create: &[&'w [u8]], now: Duration) -> Words<'w> {
        self.leased = now;
        let mut begin = words([b"EVAL", BEGIN.as_bytes(), b"1", &self.temporary]);
        begin.push(lease());
        begin.extend(create.iter().copied().map(Into::into));
        begin
    }

    /// Creates the value from a payload of DUMP. If the command arrives again, BUSYKEY is its reply.
    pub fn restore<'w>(&'w self, payload: &'w [u8]) -> Words<'w> {
        let mut restore = words([b"RESTORE", &self.temporary]);
        restore.extend([lease(), payload.into()]);
        restore
    }

    /// Loads a chunk that ends at `cursor`, by BF.LOADCHUNK or CF.LOADCHUNK.
    pub fn load<'w>(&'w self, name: &'w str, cursor: u64, chunk: &'w [u8]) -> Words<'w> {
        let mut load = words([name.as_bytes(), &self.temporary]);
        load.extend([number(cursor), chunk.into()]);
        load
    }

    /// Returns whether the time to live of the temporary key is to be renewed.
    pub fn is_due(&self, now: Duration) -> bool {
        now.saturating_sub(self.leased) > LEASE / 10
    }

    /// Renews the time to live of the temporary key.
    pub fn renew(&mut self, now: Duration) -> Words<'_> {
        self.leased = now;
        let mut renew = words([b"PEXPIRE", &self.temporary]);
        renew.push(lease());
        renew
    }

    /// Gives the value its name. The reply is "none", or the type of the value that is in the way.
    pub fn finish(&self, how: Finish) -> Words<'_> {
        let mut finish = words([b"EVAL", FINISH.as_bytes(), b"2", &self.temporary, &self.key]);
        let (merge, expiry) = match how {
            Finish::Keep(expiry) | Finish::Replace(expiry) => ("", expiry),
            Finish::Merge(command, ttl_ms) => (command, NewExpiry::of_ttl(ttl_ms)),
        };
        finish.extend([lease(), merge.as_bytes().into()]);
        finish.extend(match expiry {
            NewExpiry::Never => [b""[..].into(), b""[..].into()],
            NewExpiry::At(ms) => [b"PEXPIREAT"[..].into(), number(ms)],
            NewExpiry::After(ms) => [b"PEXPIRE"[..].into(), number(ms)],
        });
        if matches!(how, Finish::Replace(_)) {
            finish.extend(types().map(|name| name.as_bytes().into()));
        }
        finish
    }

    /// Deletes the value, or the mark. If it fails, the time to live deletes them.
    pub fn unlink(&self) -> Words<'_> {
        words([b"UNLINK", &self.temporary])
    }
}

fn lease() -> Cow<'static, [u8]> {
    number(LEASE.as_secs() * 1000)
}

/// Returns whether a key is the temporary key of an upload.
pub fn is_temporary(key: &[u8]) -> bool {
    key.windows(MARK.len()).any(|part| part == MARK.as_bytes())
}

/// Returns the name of a script.
#[cfg(test)]
fn script(word: &[u8]) -> Option<Cow<'_, str>> {
    match word {
        _ if word == BEGIN.as_bytes() => Some("begin.lua".into()),
        _ if word == FINISH.as_bytes() => Some("finish.lua".into()),
        _ => None,
    }
}

/// Returns the name of a command, or of the script that it runs.
#[cfg(test)]
pub fn name_of<'w>(words: &'w [Cow<'_, [u8]>]) -> Cow<'w, str> {
    script(&words[1]).unwrap_or_else(|| String::from_utf8_lossy(&words[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_key_has_the_prefix_and_the_hash_tag_of_the_key() {
        for (prefix, key, name) in [
            (
                "",
                "seen",
                "seen:valkeybloom-unfinished-000000000000002a:{seen}",
            ),
            (
                "",
                "{tag}b",
                "{tag}b:valkeybloom-unfinished-000000000000002a",
            ),
            (
                "app:",
                "b",
                "b:valkeybloom-unfinished-000000000000002a:{app:b}",
            ),
            ("{app}:", "b", "b:valkeybloom-unfinished-000000000000002a"),
        ] {
            let upload = Upload::new(prefix.as_bytes(), key.as_bytes(), 42);
            assert_eq!(upload.temporary(), name.as_bytes());
            assert!(is_temporary(upload.temporary()) && !is_temporary(key.as_bytes()));
        }
    }

    #[test]
    fn a_key_that_is_no_tag_has_a_temporary_key_in_its_slot() {
        for key in ["", "a{", "a}", "a{}b{c}", "}{"] {
            let upload = Upload::new(b"", key.as_bytes(), u64::MAX);
            assert!(upload.temporary().starts_with(key.as_bytes()));
            assert_eq!(slot(upload.temporary()), slot(key.as_bytes()), "{key}");
        }
    }

    /// Returns the words of a command as texts, with the names of scripts in their places.
    fn shown(words: &Words<'_>) -> String {
        let shown = words.iter().map(|word| match &**word {
            b"" => "''".into(),
            word => script(word).unwrap_or_else(|| String::from_utf8_lossy(word)),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_step_has_its_words() {
        let mut upload = Upload::new(b"", b"{k}", 42);
        let temporary = "{k}:valkeybloom-unfinished-000000000000002a";
        let check = |found: &Words<'_>, expected: &str| {
            assert_eq!(shown(found), expected.replace("TEMPORARY", temporary));
        };
        let create = [&b"CMS.INITBYDIM"[..], b"9", b"2"];
        check(
            &upload.begin(&create, Duration::ZERO),
            "EVAL begin.lua 1 TEMPORARY 300000 CMS.INITBYDIM 9 2",
        );
        check(&upload.restore(b"bytes"), "RESTORE TEMPORARY 300000 bytes");
        check(
            &upload.load("BF.LOADCHUNK", 7, b"bytes"),
            "BF.LOADCHUNK TEMPORARY 7 bytes",
        );
        check(&upload.renew(Duration::ZERO), "PEXPIRE TEMPORARY 300000");
        check(&upload.unlink(), "UNLINK TEMPORARY");
    }

    #[test]
    fn the_last_step_says_what_may_be_replaced_and_when_it_expires() {
        let upload = Upload::new(b"", b"{k}", 42);
        let all = "bloomfltr MBbloom-- bloomfltx MBbloomCF CMSk-TYPE TopK-TYPE TDIS-TYPE";
        for (how, words, types) in [
            (Finish::Keep(NewExpiry::Never), "'' '' ''", ""),
            (Finish::Keep(NewExpiry::At(5)), "'' PEXPIREAT 5", ""),
            (Finish::Replace(NewExpiry::After(5)), "'' PEXPIRE 5", all),
            (Finish::Merge("CMS.MERGE", None), "CMS.MERGE '' ''", ""),
            (Finish::Merge("BF.MERGE", Some(5)), "BF.MERGE PEXPIRE 5", ""),
        ] {
            let found = shown(&upload.finish(how));
            let keys = "{k}:valkeybloom-unfinished-000000000000002a {k}";
            let expected = format!("EVAL finish.lua 2 {keys} 300000 {words} {types}");
            assert_eq!(found, expected.trim_end());
        }
    }

    #[test]
    fn the_script_says_what_is_gone() {
        assert!(FINISH.contains(&format!("'ERR {GONE}'")));
    }

    #[test]
    fn a_time_to_live_is_renewed_after_a_tenth_of_it() {
        let mut upload = Upload::new(b"", b"k", 42);
        let at = Duration::from_secs;
        upload.begin(&[], at(100));
        assert!(!upload.is_due(at(130)) && upload.is_due(at(131)));
        upload.renew(at(131));
        assert!(!upload.is_due(at(161)) && upload.is_due(at(162)));
        // Clocks of several threads may be read out of order.
        assert!(!upload.is_due(at(0)));
    }
}
