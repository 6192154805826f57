//! All commands of the module.

use Access::{Change, Read, ReadAndChange, Remove, Write};

/// A command of the module.
pub struct Command {
    /// A call of it, with `{}` for the key.
    pub example: &'static str,
    /// The number of words as in COMMAND INFO, negative if there may be more.
    pub arity: i64,
    pub access: Access,
    pub fast: bool,
}

/// The access of a command to its key.
#[derive(Clone, Copy, PartialEq)]
pub enum Access {
    Read,
    /// A write that adds to the value, or creates it.
    Write,
    /// A write that changes what the value holds.
    Change,
    /// A change that depends on what the value holds, or returns it.
    ReadAndChange,
    /// A write that takes no memory.
    Remove,
}

impl Command {
    /// Returns the name in lower case, as the server has it.
    pub fn name(&self) -> String {
        let name = self.example.split(' ').next();
        name.expect("a word").to_lowercase()
    }

    /// Returns the keys of [`example`](Self::example) but the first.
    pub fn sources(&self) -> &'static [&'static str] {
        if self.example.contains("other another") {
            &["other", "another"]
        } else {
            &[]
        }
    }

    /// Returns whether the number of source keys is among the words.
    pub fn has_numbered_sources(&self) -> bool {
        self.example.contains(" 2 other")
    }

    /// Returns the option before a key that only some calls have.
    pub fn key_option(&self) -> Option<&'static str> {
        self.example.starts_with("BF.INSERT ").then_some("ONCE")
    }

    pub fn writes(&self) -> bool {
        self.access != Read
    }

    /// Returns calls with too few words and, if the number of words is fixed, one with too many; each with its error.
    pub fn calls_of_wrong_arity(&self) -> Vec<(String, String)> {
        let name = self.name();
        let error = format!("ERR wrong number of arguments for '{name}' command");
        let least = self.arity.unsigned_abs();
        let extra = (self.arity > 0).then_some(least + 1);
        let counts = (1..least).chain(extra);
        let words = |count| vec!["k"; usize::try_from(count).expect("few words") - 1];
        let lines = counts.map(|count| [&[&*name], &words(count)[..]].concat().join(" "));
        lines.map(|line| (line, error.clone())).collect()
    }

    /// Returns a call of the command with this key.
    pub fn on(&self, key: &str) -> String {
        self.example.replace("{}", key)
    }
}

const fn fast(example: &'static str, arity: i64, access: Access) -> Command {
    Command {
        example,
        arity,
        access,
        fast: true,
    }
}

const fn slow(example: &'static str, arity: i64, access: Access) -> Command {
    Command {
        example,
        arity,
        access,
        fast: false,
    }
}

/// The commands for Bloom filters.
pub static BLOOM: [Command; 18] = [
    fast("BF.ADD {} item", 3, Write),
    fast("BF.MADD {} a b c", -3, Write),
    fast("BF.EXISTS {} item", 3, Read),
    fast("BF.MEXISTS {} a b c", -3, Read),
    fast("BF.CARD {}", 2, Read),
    fast("BF.RESERVE {} 0.01 100 EXPANSION 2", -4, Write),
    fast("BF.INSERT {} CAPACITY 100 ITEMS a b c", -2, Write),
    fast("BF.INFO {} SIZE", -2, Read),
    slow("BF.LOAD {} dump 1000", -3, Write),
    slow("BF.SCANDUMP {} 0", -3, Read),
    slow("BF.LOADCHUNK {} 1 data", 4, Write),
    slow("BF.READ {} $ MAX_COUNT 100", -3, Read),
    slow("BF.DEBUG {}", 2, Read),
    fast("BF.DEL {} item", 3, Remove),
    fast("BF.MDEL {} a b", -3, Remove),
    fast("BF.COUNT {} item", 3, Read),
    fast("BF.MISSING {} a b", -3, Read),
    slow("BF.MERGE {} other another", -3, Write),
];

/// The commands for cuckoo filters.
pub static CUCKOO: [Command; 14] = [
    slow("CF.RESERVE {} 100", -3, Write),
    slow("CF.ADD {} a", 3, Write),
    slow("CF.ADDNX {} a", 3, Write),
    slow("CF.INSERT {} ITEMS a b", -4, Write),
    slow("CF.INSERTNX {} ITEMS a b", -4, Write),
    fast("CF.EXISTS {} a", 3, Read),
    fast("CF.MEXISTS {} a b", -3, Read),
    fast("CF.COUNT {} a", 3, Read),
    fast("CF.DEL {} a", 3, Remove),
    fast("CF.INFO {}", 2, Read),
    fast("CF.SCANDUMP {} 0", 3, Read),
    slow("CF.LOADCHUNK {} 1 x", 4, Write),
    slow("CF.COMPACT {}", 2, Remove),
    fast("CF.DEBUG {}", 2, Read),
];

/// The commands for count-min sketches, top-k lists and t-digests.
static SKETCHES: [Command; 27] = [
    fast("CMS.INITBYDIM {} 10 5", -4, Write),
    fast("CMS.INITBYPROB {} 0.01 0.01", -4, Write),
    slow("CMS.INCRBY {} a 1 b 2", -4, ReadAndChange),
    slow("CMS.QUERY {} a b", -3, Read),
    slow(
        "CMS.MERGE {} 2 other another WEIGHTS 1 2",
        -4,
        ReadAndChange,
    ),
    fast("CMS.INFO {}", 2, Read),
    fast("TOPK.RESERVE {} 10 8 7 0.9", -3, Write),
    slow("TOPK.ADD {} a b", -3, ReadAndChange),
    slow("TOPK.INCRBY {} a 1 b 2", -4, ReadAndChange),
    slow("TOPK.QUERY {} a b", -3, Read),
    slow("TOPK.COUNT {} a b", -3, Read),
    slow("TOPK.LIST {} WITHCOUNT", -2, Read),
    fast("TOPK.INFO {}", 2, Read),
    fast("TDIGEST.CREATE {} COMPRESSION 100", -2, Write),
    fast("TDIGEST.RESET {}", 2, Change),
    slow("TDIGEST.ADD {} 1 2", -3, Change),
    slow(
        "TDIGEST.MERGE {} 2 other another OVERRIDE",
        -4,
        ReadAndChange,
    ),
    fast("TDIGEST.MIN {}", 2, Read),
    fast("TDIGEST.MAX {}", 2, Read),
    fast("TDIGEST.QUANTILE {} 0.5 0.9", -3, Read),
    fast("TDIGEST.CDF {} 1 2", -3, Read),
    fast("TDIGEST.RANK {} 1 2", -3, Read),
    fast("TDIGEST.REVRANK {} 1 2", -3, Read),
    fast("TDIGEST.BYRANK {} 1 2", -3, Read),
    fast("TDIGEST.BYREVRANK {} 1 2", -3, Read),
    slow("TDIGEST.TRIMMED_MEAN {} 0.1 0.9", 4, Read),
    fast("TDIGEST.INFO {}", 2, Read),
];

/// Returns all commands.
pub fn all() -> impl Iterator<Item = &'static Command> {
    BLOOM.iter().chain(&CUCKOO).chain(&SKETCHES)
}
