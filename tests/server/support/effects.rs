//! Commands, and what others learn of each: subscribers, clients that watch or track the key, and replicas.

use super::tables::{self, rows};

/// A situation, a command, and its effects on the key `k`.
pub struct Effect {
    /// The commands that prepare the situation.
    pub given: Vec<String>,
    pub command: String,
    pub events: Vec<String>,
    /// The commands that replicas and logs get, for cuckoo filters.
    pub sent: Vec<String>,
    /// Whether the key changes.
    pub changes: bool,
}

impl Effect {
    /// Reads an outcome: the events, or `-`, or `silent` for a change without events; then the commands sent.
    fn of(row: tables::Row) -> Self {
        let (events, sent) = row
            .expected
            .split_once(" | ")
            .unwrap_or((&row.expected, ""));
        let list = |words: &str, separator| -> Vec<String> {
            let words = words.split(separator).map(str::to_owned);
            words
                .filter(|word| !["", "-", "silent"].contains(&&**word))
                .collect()
        };
        Self {
            events: list(events, " "),
            sent: list(sent, " ; "),
            changes: events != "-" || !sent.is_empty(),
            given: row.given,
            command: row.command,
        }
    }
}

/// Returns the effects of commands for Bloom filters, where `src` is a filter with the items `a` and `b`.
pub fn bloom() -> impl Iterator<Item = Effect> {
    rows(BLOOM).into_iter().map(Effect::of)
}

/// Returns the effects of commands for cuckoo filters.
pub fn cuckoo() -> impl Iterator<Item = Effect> {
    of(CUCKOO)
}

/// Returns the effects in a table.
pub fn of(table: &str) -> impl Iterator<Item = Effect> + use<> {
    rows(table).into_iter().map(Effect::of)
}

const BLOOM: &str = "
FULL = BF.INSERT k CAPACITY 2 NONSCALING ITEMS a b
KNOWN = BF.ADD k a
COUNTED = BF.INSERT k COUNTING ITEMS a b
WINDOWED = BF.INSERT k WINDOW 1000000000000 PERIODS 2 TTL 1 ITEMS a
LOADING = BF.LOADCHUNK k 1 <header>
BF.ADD k a => bloom.reserve bloom.add
BF.MADD k a b a => bloom.reserve bloom.add
BF.RESERVE k 0.01 100 => bloom.reserve
BF.RESERVE k 0.01 100 NONSCALING => bloom.reserve
BF.INSERT k => bloom.reserve
BF.INSERT k CAPACITY 5 => bloom.reserve
BF.INSERT k ITEMS a b => bloom.reserve bloom.add
BF.INSERT k CAPACITY 1 NONSCALING ITEMS a b c => bloom.reserve bloom.add
BF.LOAD k <dump> => bloom.reserve
BF.LOAD k <dump> 100000 => bloom.reserve expire
KNOWN / BF.ADD k a => -
KNOWN / BF.ADD k b => bloom.add
KNOWN / BF.MADD k a a => -
KNOWN / BF.MADD k a b c => bloom.add
KNOWN / BF.MADD k b c => bloom.add
KNOWN / BF.INSERT k => -
KNOWN / BF.INSERT k NOCREATE => -
KNOWN / BF.INSERT k ITEMS a => -
KNOWN / BF.INSERT k NOCREATE ITEMS a b c => bloom.add
# Growth is no event of its own.
BF.INSERT k CAPACITY 1 ITEMS a / BF.ADD k b => bloom.add
BF.INSERT k CAPACITY 1 ITEMS a / BF.MADD k b c d e f => bloom.add
# An item that fails does not undo those before it.
BF.INSERT k CAPACITY 2 NONSCALING ITEMS a / BF.MADD k b c d => bloom.add
BF.INSERT k CAPACITY 2 NONSCALING ITEMS a / BF.INSERT k ITEMS a b c => bloom.add
FULL / BF.MADD k a c b => -
FULL / BF.MADD k c => -
FULL / BF.ADD k c => -
FULL / BF.ADD k a => -
# Commands that fail.
KNOWN / BF.RESERVE k 0.01 100 => -
KNOWN / BF.LOAD k <dump> => -
KNOWN / BF.LOADCHUNK k 1 <header> => -
KNOWN / BF.LOADCHUNK k 2 x => -
KNOWN / BF.MADD k => -
BF.RESERVE k 2 100 => -
BF.RESERVE k 0.01 9223372036854775807 => -
BF.INSERT k NOCREATE ITEMS a => -
BF.INSERT k ITEMS => -
BF.INSERT k VALIDATESCALETO 9223372036854775807 ITEMS a => -
BF.LOAD k <cut> => -
BF.LOADCHUNK k 1 <cutheader> => -
BF.LOADCHUNK k 2 x => -
SET k v / BF.ADD k a => -
SET k v / BF.RESERVE k 0.01 100 => -
# Commands that only read.
KNOWN / BF.EXISTS k b => -
KNOWN / BF.MEXISTS k a b => -
KNOWN / BF.CARD k => -
KNOWN / BF.INFO k => -
KNOWN / BF.SCANDUMP k 0 => -
KNOWN / BF.DEBUG k => -
BF.EXISTS k a => -
# A second add of an item counts, and so does a removal.
BF.RESERVE k 0.01 100 COUNTING => bloom.reserve
BF.INSERT k COUNTING ID 5 ITEMS a b => bloom.reserve bloom.add
COUNTED / BF.ADD k a => bloom.add
COUNTED / BF.INSERT k ID 7 ITEMS a => bloom.add
COUNTED / BF.DEL k a => bloom.del
COUNTED / BF.DEL k c => -
COUNTED / BF.DEL k a ID 7 => -
COUNTED / BF.MDEL k a b c => bloom.del
COUNTED / BF.MDEL k c a => bloom.del
COUNTED / BF.MDEL k a b a => bloom.del
COUNTED / BF.MDEL k c d => -
COUNTED / BF.COUNT k a => -
COUNTED / BF.MISSING k a c => -
KNOWN / BF.DEL k a => -
KNOWN / BF.MDEL k a b => -
KNOWN / BF.MISSING k a c => -
BF.DEL k a => -
BF.MDEL k a b => -
BF.MISSING k a b => -
# Extending an item's stay is an add, though the item is not new.
BF.RESERVE k 0.01 100 WINDOW 1000000000000 PERIODS 2 => bloom.reserve
WINDOWED / BF.ADD k a => bloom.add
WINDOWED / BF.INSERT k TTL 1 ITEMS a => -
WINDOWED / BF.INSERT k TTL 1 ITEMS a b => bloom.add
WINDOWED / BF.INSERT k TTL 2000000000000 ITEMS a => bloom.add
WINDOWED / BF.INSERT k TTL 2000000000001 ITEMS a => -
WINDOWED / BF.INSERT k NOCREATE => -
BF.RESERVE k 0.01 100 EX 100 => bloom.reserve expire
BF.RESERVE k 0.01 100 NX PX 100000 => bloom.reserve expire
KNOWN / BF.RESERVE k 0.01 100 NX => -
KNOWN / BF.RESERVE k 0.01 100 NX EX 100 => -
BF.MERGE k src => bloom.reserve
KNOWN / BF.MERGE k src => bloom.add
KNOWN / BF.MERGE k k => -
KNOWN / BF.MERGE k none => -
COUNTED / BF.MERGE k src => -
BF.MERGE k none => -
# An object exists once its last chunk is loaded.
BF.LOADCHUNK k 1 <header> => silent
LOADING / BF.LOADCHUNK k 2 x => silent
LOADING / BF.LOADCHUNK k 3 x => -
LOADING / BF.ADD k a => -
LOADING / BF.LOADCHUNK k <end> <bits> => bloom.reserve
BF.INSERT k CAPACITY 1 ITEMS a / BF.ADD k a => -
KNOWN / BF.MERGE k k none => -
";

const CUCKOO: &str = "
ONE = CF.ADD k a
TWO = CF.INSERT k ITEMS a b
FULL = CF.RESERVE k 4 EXPANSION 0 / CF.INSERT k ITEMS foo foo foo foo
CF.RESERVE k 64 => cuckoo.reserve | CF.RESERVE k 64 BUCKETSIZE 2 MAXITERATIONS 20 EXPANSION 1
CF.RESERVE k 777 EXPANSION 3 BUCKETSIZE 3
=> cuckoo.reserve | CF.RESERVE k 777 BUCKETSIZE 3 MAXITERATIONS 20 EXPANSION 3
CF.ADD k a
=> cuckoo.reserve cuckoo.add | CF.RESERVE k 1024 BUCKETSIZE 2 MAXITERATIONS 20 EXPANSION 1 ; CF.INSERT k NOCREATE ITEMS a
CF.INSERTNX k CAPACITY 100 ITEMS a b a
=> cuckoo.reserve cuckoo.add | CF.RESERVE k 100 BUCKETSIZE 2 MAXITERATIONS 20 EXPANSION 1 ; CF.INSERT k NOCREATE ITEMS a b
ONE / CF.ADD k a => cuckoo.add | CF.ADD k a
ONE / CF.ADDNX k a => -
ONE / CF.ADDNX k b => cuckoo.add | CF.ADDNX k b
ONE / CF.INSERT k CAPACITY 9 ITEMS a b => cuckoo.add | CF.INSERT k NOCREATE ITEMS a b
ONE / CF.INSERTNX k ITEMS a b a c => cuckoo.add | CF.INSERT k NOCREATE ITEMS b c
ONE / CF.INSERTNX k ITEMS a a => -
FULL / CF.ADD k foo => -
FULL / CF.INSERT k ITEMS foo foo => -
CF.RESERVE k 4 EXPANSION 0 / CF.INSERT k ITEMS foo foo foo / CF.INSERT k ITEMS foo foo
=> cuckoo.add | CF.INSERT k NOCREATE ITEMS foo
TWO / CF.DEL k a => cuckoo.del | CF.DEL k a
TWO / CF.DEL k c => -
TWO / CF.DEL k a / CF.COMPACT k => - | CF.COMPACT k
TWO / CF.COMPACT k => -
ONE / CF.LOADCHUNK k 2 x => - | CF.LOADCHUNK k 2 x
ONE / CF.LOADCHUNK k 5000 x => -
ONE / CF.RESERVE k 64 => -
ONE / CF.EXISTS k a => -
ONE / CF.SCANDUMP k 0 => -
";
