//! Tables of commands that are refused alike.

/// Situations that differ in one word: commands with a gap, the words for it after `{} =`, and the reply to each after
/// `=>`.
pub const FAMILIES: &str = "
BF.RESERVE k {} 100
BF.INSERT k ERROR {} ITEMS a
{} = <empty> | x | 0.1x | 0,1 | --1 | 0.1.1 | <seed>
=> ERR bad error rate
BF.RESERVE k {} 100
BF.INSERT k ERROR {} ITEMS a
{} = nan | inf | -inf | -0.1 | 0 | 0.0 | 1 | 1.0 | 1.5 | 1e400 | 1e-400
=> ERR (0 < error rate range < 1)
BF.RESERVE k 0.01 {}
BF.INSERT k CAPACITY {} ITEMS a
{} = <empty> | x | 10x | -1 | 1.5 | 1e3 | nan | 9223372036854775808 | 18446744073709551616 | -9223372036854775808 | <seed>
=> ERR bad capacity
BF.RESERVE k 0.01 {}
BF.INSERT k CAPACITY {} ITEMS a
{} = 0
=> ERR (capacity should be larger than 0)
BF.RESERVE k 0.01 100 EXPANSION {}
BF.RESERVE k 0.01 100 NONSCALING EXPANSION {}
BF.INSERT k EXPANSION {} ITEMS a
{} = <empty> | x | -1 | 1.5 | 1e3 | 4294967296 | 9223372036854775808 | <seed>
=> ERR bad expansion
BF.INSERT k TIGHTENING {} ITEMS a
{} = <empty> | x | 0.5x | <seed>
=> ERR bad tightening ratio
BF.INSERT k TIGHTENING {} ITEMS a
{} = nan | inf | -0.5 | 0 | 1 | 2
=> ERR (0 < tightening ratio range < 1)
BF.INSERT k SEED {} ITEMS a
{} = <empty> | x | <seed31> | <seed33>
=> ERR invalid seed
BF.RESERVE k 0.01 100 {}
BF.RESERVE k 0.01 100 {} NONSCALING
BF.RESERVE k 0.01 100 EXPANSION 2 {}
BF.INSERT k {} ITEMS a
BF.INSERT k CAPACITY 100 {} NOCREATE
{} = <empty> | x | 2 | NONSCALIN | NONSCALINGS | ITEM | <seed>
=> ERR unknown argument received
# Options of BF.INSERT.
BF.RESERVE k 0.01 100 {}
{} = NOCREATE | ITEMS a | CAPACITY 5 | ERROR 0.1 | SEED <seed>
=> ERR unknown argument received
BF.RESERVE k 0.01 100 {}
BF.INSERT k {} ITEMS a
{} = EXPANSION 2 NONSCALING | NONSCALING EXPANSION 2 | NONSCALING EXPANSION 1
{} = EXPANSION 0 NONSCALING EXPANSION 2 | EXPANSION 0 EXPANSION 2 NONSCALING
=> ERR nonscaling filters cannot expand
BF.INSERT k {} ITEMS a
BF.INSERT k {}
{} = NOCREATE CAPACITY 100 | CAPACITY 100 NOCREATE | NOCREATE ERROR 0.01 | ERROR 0.01 NOCREATE
{} = CAPACITY 100 NOCREATE ERROR 0.01
=> ERR NOCREATE cannot be used with CAPACITY or ERROR
BF.INSERT k {} ITEMS a
BF.INSERT k {}
{} = NONSCALING VALIDATESCALETO 1000 | VALIDATESCALETO 1000 NONSCALING | VALIDATESCALETO 1000 EXPANSION 0
=> ERR cannot use NONSCALING and VALIDATESCALETO options together
BF.INSERT k {} ITEMS a
BF.INSERT k {}
{} = VALIDATESCALETO 9223372036854775807 | CAPACITY 100 VALIDATESCALETO 100000000
{} = VALIDATESCALETO 9223372036854775807 EXPANSION 1 CAPACITY 10000000
{} = CAPACITY 1 VALIDATESCALETO 9223372036854775807 EXPANSION 4294967295
=> ERR provided VALIDATESCALETO causes bloom object to exceed memory limit
BF.INSERT k {} ITEMS a
BF.INSERT k {}
{} = CAPACITY 1 EXPANSION 1 TIGHTENING 1e-322 VALIDATESCALETO 1000
{} = VALIDATESCALETO 10 TIGHTENING 1e-323 EXPANSION 1 CAPACITY 1
=> ERR provided VALIDATESCALETO causes false positive to degrade to 0
BF.SCANDUMP k {}
BF.LOADCHUNK k {} <header>
{} = <empty> | x | 1.5 | 1x | 9223372036854775808 | <seed>
=> ERR bad cursor
BF.LOADCHUNK k {} x
BF.LOADCHUNK k {} <header>
{} = 0 | 2 | -1 | 9223372036854775807 | -9223372036854775808
=> ERR received bad data
BF.LOADCHUNK k 1 {}
{} = <empty> | x | <dump> | <cutheader> | <longheader> | <seed>
=> ERR received bad data
BF.LOAD k {}
BF.LOAD k {} 1000
{} = <empty> | <cut> | <long> | <one>
=> ERR bloom object decoding failed
BF.LOAD k {}
BF.LOAD k {} 1000
{} = <newer> | <newest>
=> ERR bloom object decoding failed. Unsupported version
BF.LOAD k <dump> {}
{} = <empty> | x | -1 | 1.5 | 9223372036854775807
=> ERR bad ttl
# Three times 3074457345618258603 exceeds 63 bits.
BF.RESERVE k 0.01 100 WINDOW {} PERIODS 3
BF.INSERT k PERIODS 3 WINDOW {} ITEMS a
{} = <empty> | x | -1 | +1 | 1.5 | 1e3 | 9223372036854775807 | 3074457345618258603 | 9223372036854775808 | <seed>
=> ERR bad window
BF.RESERVE k 0.01 100 WINDOW {} PERIODS 3
BF.INSERT k WINDOW {} PERIODS 3 ITEMS a
{} = 0
=> ERR (window should be larger than 0)
BF.RESERVE k 0.01 100 WINDOW 1000 PERIODS {}
BF.INSERT k PERIODS {} WINDOW 1000 ITEMS a
{} = <empty> | x | -1 | 1.5 | 1441 | 65536 | 9223372036854775808 | <seed>
=> ERR bad periods
BF.RESERVE k 0.01 100 WINDOW 1000 PERIODS {}
BF.INSERT k WINDOW 1000 PERIODS {} ITEMS a
{} = 0
=> ERR (periods should be larger than 0)
BF.RESERVE k 0.01 100 {}
BF.INSERT k {} ITEMS a
{} = WINDOW 1000 | PERIODS 3 | PERIODS 3 COUNTING
=> ERR WINDOW and PERIODS have to be given together
BF.RESERVE k 0.01 100 {}
BF.INSERT k {}
BF.INSERT k {} ITEMS a
BF.INSERT k NOCREATE {} ITEMS a
{} = WINDOW 1000 PERIODS 3 COUNTING | COUNTING WINDOW 1000 PERIODS 3 | window 1000 counting periods 3
{} = PERIODS 1440 COUNTING EXPANSION 2 WINDOW 1000
=> ERR WINDOW and COUNTING cannot be combined
BF.RESERVE k 0.01 100 EX {}
BF.RESERVE k 0.01 100 PX {} NX
BF.INSERT k TTL {} ITEMS a
{} = <empty> | x | -1 | 1.5 | 9223372036854775808 | <seed>
=> ERR bad ttl
BF.RESERVE k 0.01 100 EX {}
BF.RESERVE k 0.01 100 PX {}
BF.INSERT k TTL {} ITEMS a
{} = 0
=> ERR (ttl should be larger than 0)
BF.INSERT k ID {} ITEMS a
BF.DEL k a ID {}
BF.INSERT k COUNTING ID {}
{} = <empty> | x | -1 | +1 | 1.5 | 18446744073709551616 | <seed>
=> ERR bad id
# Clients may not date their commands.
BF.INSERT k AT {} ITEMS a
BF.INSERT k WINDOW 1000 PERIODS 3 AT {} ITEMS a
BF.INSERT k NOCREATE AT {}
BF.DEL k a AT {}
BF.DEL k a ID 5 AT {}
{} = <empty> | x | -1 | 0 | 1000 | 1800000000000
=> ERR unknown argument received
# Options of other commands.
BF.RESERVE k 0.01 100 {}
{} = TTL 5 | ID 5 | AT 5
=> ERR unknown argument received
BF.RESERVE k 0.01 100 {}
BF.RESERVE k 0.01 100 {} NX
BF.RESERVE k 0.01 100 COUNTING {}
{} = EX 10 PX 5 | PX 5 EX 10 | EX 10 PX 10000 | PX 5 NX EX 10
=> ERR EX and PX cannot be combined
BF.INSERT k {} ITEMS a
BF.INSERT k {}
{} = EX 5 | PX 5 | NX
=> ERR unknown argument received
BF.DEL k a {}
BF.DEL k a ID 5 {}
{} = <empty> | x | 5 | TTL 5 | COUNTING | ITEMS b
=> ERR unknown argument received
BF.INSERT k {} ITEMS a
BF.INSERT k {}
{} = TTL 5 | COUNTING TTL 5 | TTL 5 ID 5
=> ERR filter was not made with WINDOW
BF.INSERT k {} ITEMS a
BF.INSERT k {}
{} = ID 5 | WINDOW 1000 PERIODS 3 ID 5
=> ERR filter was not made with COUNTING
BF.INFO k {}
BF.INFO other {}
{} = <empty> | x | SIZES | CAP | RATE | <seed>
=> ERR invalid information value
CONFIG SET bf.bloom-capacity {}
{} = 0 | -1 | -9223372036854775808
=> ERR CONFIG SET failed (possibly related to argument 'bf.bloom-capacity') - argument must be between 1 and 9223372036854775807 inclusive
";

/// The replies of the families above whose commands are refused for another reason where there is an object.
pub const ON_MISSING_KEYS: [&str; 3] = [
    "ERR received bad data",
    "ERR bloom object decoding failed",
    "ERR bloom object decoding failed. Unsupported version",
];

/// Calls that differ from the examples of `support::commands`, each refused where `k` has another type.
pub const CALLS: [&str; 13] = [
    "BF.RESERVE k 0.01 100 NX",
    "BF.RESERVE k 0.01 100 WINDOW 1000 PERIODS 3",
    "BF.INSERT k",
    "BF.INSERT k NOCREATE ITEMS a b",
    "BF.INSERT k COUNTING ITEMS a",
    "BF.INSERT k TTL 5 ITEMS a",
    "BF.INSERT k ID 5 ITEMS a",
    "BF.INFO k",
    "BF.LOAD k <dump>",
    "BF.LOADCHUNK k 1 <header>",
    "BF.LOADCHUNK k 2 x",
    "BF.MERGE k k",
    "BF.MERGE other k",
];
