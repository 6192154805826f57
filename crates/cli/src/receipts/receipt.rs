//! The receipt of a key: its name, what it keeps, and the commands that change it together with its key.

use std::ops::Range;

use redis::{Cmd, cmd};

use valkeybloom_near::once::receipt_prefix;
use valkeybloom_protocol::names::BF_INSERT;
use valkeybloom_sketches::{Answers, Receipt};

use crate::failure::{Fault, Result, shown};

const SCRIPT: &str = include_str!("receipts.lua");

/// The receipt of a key.
pub struct KeyReceipt {
    pub key: Vec<u8>,
    pub name: Vec<u8>,
    /// How long the receipt outlives the last command.
    lease_ms: u64,
    /// What an earlier run left in it, if it exists.
    kept: Option<Kept>,
}

/// What a receipt keeps: numbers of items of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kept {
    /// Items that are done, which are the first.
    pub done: u64,
    /// Items that were removed.
    pub removed: u64,
    /// Items whose removal was refused.
    pub refused: u64,
}

impl KeyReceipt {
    /// Names the receipt of a key.
    pub fn new(key: &[u8], suffix: &str, lease_ms: u64) -> Self {
        Self {
            key: key.to_vec(),
            name: [&receipt_prefix(key)[..], suffix.as_bytes()].concat(),
            lease_ms,
            kept: None,
        }
    }

    /// Takes the receipt that an earlier run left, if it left one. A run with this command would skip the items that it has,
    /// so it has to be the command's: the key may have been one of another family.
    pub fn take(&mut self, found: Option<Vec<u8>>, command: &str) -> Result<(), Fault> {
        let name = shown(&self.name);
        let invalid = || Fault::Refused(format!("{name} is not a receipt of {command}"));
        let read = |found: Vec<u8>| {
            let kept = if has_module_receipt(command) {
                Kept::of_module(&found)
            } else {
                Kept::of_script(&found)
            };
            kept.ok_or_else(invalid)
        };
        self.kept = found.map(read).transpose()?;
        Ok(())
    }

    /// Returns whether an earlier run left the receipt.
    pub const fn exists(&self) -> bool {
        self.kept.is_some()
    }

    /// Returns what an earlier run left, or zeros.
    pub fn kept(&self) -> Kept {
        self.kept.unwrap_or_default()
    }

    /// Returns the command that creates the receipt without answers, unless another process of this run did: both use it then.
    pub fn creation(&self) -> Cmd {
        let mut empty = Answers::with_room(0, 0).expect("there is memory for a head");
        let mut set = cmd("SET");
        set.arg(&self.name).arg(empty.bytes()).arg("NX");
        set.arg("PX").arg(self.lease_ms);
        set
    }

    /// Returns a command on the key, up to its items, which have these positions in the key's input.
    pub fn command(&self, positions: Range<u64>, command: &str) -> Cmd {
        let Self { key, name, .. } = self;
        if has_module_receipt(command) {
            let mut insert = cmd(command);
            insert.arg(key).arg("ONCE").arg(name).arg(positions.start);
            return insert;
        }
        let mut eval = cmd("EVAL");
        eval.arg(SCRIPT).arg(2).arg(key).arg(name);
        eval.arg(&[positions.start, positions.end, self.lease_ms])
            .arg(command);
        eval
    }

    /// Returns the fault of a receipt that is gone.
    pub fn gone(&self) -> Fault {
        Fault::Gone(format!("the receipt {}", shown(&self.name)))
    }
}

/// Returns whether the module keeps the receipts of a command. The script keeps those of the others.
fn has_module_receipt(command: &str) -> bool {
    command == BF_INSERT
}

impl Kept {
    /// Reads a receipt of the module.
    fn of_module(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            done: Receipt::read(bytes)?.end(),
            ..Self::default()
        })
    }

    /// Reads the numbers that the script keeps.
    fn of_script(bytes: &[u8]) -> Option<Self> {
        let numbers = str::from_utf8(bytes).ok()?.split(' ');
        let numbers: Result<Vec<u64>, _> = numbers.map(str::parse).collect();
        let [done, removed, refused] = numbers.ok()?.try_into().ok()?;
        Some(Self {
            done,
            removed,
            refused,
        })
    }
}

#[cfg(test)]
mod tests {
    use redis::Arg;

    use super::*;

    fn words(command: &Cmd) -> Vec<&[u8]> {
        let word = |word| match word {
            Arg::Simple(word) => word,
            other => panic!("{other:?}"),
        };
        command.args_iter().map(word).collect()
    }

    #[test]
    fn receipts_of_the_module_and_of_the_script_are_read() {
        let mut answers = Answers::with_room(7, 3).expect("there is memory");
        for is_new in [true, false, true] {
            answers.push(is_new);
        }
        let mut receipt = KeyReceipt::new(b"k", "build-7", 1000);
        for (found, command, other, [done, removed, refused]) in [
            (answers.bytes(), BF_INSERT, "CF.DEL", [10, 0, 0]),
            (b"0 0 0", "CF.DEL", BF_INSERT, [0, 0, 0]),
            (b"5000 1200 3", "CF.DEL", BF_INSERT, [5000, 1200, 3]),
        ] {
            let found = || Some(found.to_vec());
            let fault = receipt.take(found(), other).expect_err("another kind");
            let expected = format!("{{k}}:once:build-7 is not a receipt of {other}");
            assert_eq!(fault.to_string(), expected);
            receipt.take(found(), command).expect("it is a receipt");
            let kept = Kept {
                done,
                removed,
                refused,
            };
            assert_eq!((receipt.exists(), receipt.kept()), (true, kept));
        }
        for other in [
            "",
            "5000 1200",
            "5000 1200 3 1",
            "5000 1200 -3",
            "5000 1200 \u{e9}",
        ] {
            for command in ["CF.DEL", BF_INSERT] {
                let taken = receipt.take(Some(other.into()), command);
                taken.expect_err(other);
            }
        }
        receipt.take(None, BF_INSERT).expect("there is none");
        assert_eq!((receipt.exists(), receipt.kept()), (false, Kept::default()));
    }

    #[test]
    fn a_new_receipt_has_no_answers_and_expires() {
        let set = KeyReceipt::new(b"k", "unique-7", 1000).creation();
        let words = words(&set);
        let [b"SET", name, value, rest @ ..] = &words[..] else {
            panic!("{words:?}");
        };
        assert_eq!(*name, b"{k}:once:unique-7");
        assert_eq!(Kept::of_module(value), Some(Kept::default()));
        assert_eq!(rest, [&b"NX"[..], b"PX", b"1000"]);
    }

    #[test]
    fn a_command_names_the_receipt_and_its_positions() {
        let receipt = KeyReceipt::new(b"k", "build-7", 1000);
        let name = &b"{k}:once:build-7"[..];
        let insert = receipt.command(5..8, BF_INSERT);
        let expected = [&b"BF.INSERT"[..], b"k", b"ONCE", name, b"5"];
        assert_eq!(words(&insert), expected);
        let script = receipt.command(5..8, "CMS.INCRBY");
        let script = words(&script);
        assert_eq!(script[..2], [b"EVAL", SCRIPT.as_bytes()]);
        let positions = [&b"5"[..], b"8", b"1000"];
        let expected = [&[&b"2"[..], b"k", name], &positions[..], &[b"CMS.INCRBY"]];
        assert_eq!(script[2..], expected.concat());
    }
}
