//! The situations that stand alone, with the reply in each.

/// A table as `support::tables` reads it. Words in angle brackets stand for bytes.
pub const ROWS: &str = "
# Situations that several rows share.
TWO = BF.RESERVE k 0.000001 2 NONSCALING / BF.MADD k a b
SCALING = BF.RESERVE k 0.000001 2 / BF.MADD k a b
# Room for the first filter, and not for a second one.
TIGHT = CONFIG SET bf.bloom-filter-max-memory-usage 131 / BF.RESERVE k 0.000001 2 / BF.MADD k a b
COUNTED = BF.RESERVE k 0.000001 100 COUNTING / BF.MADD k a b a
# A window that ends long after any test.
WINDOWED = BF.INSERT k ERROR 0.000001 WINDOW 1000000000000 PERIODS 2 TTL 1 ITEMS a b
SCALED = BF.INSERT k ERROR 0.000001 SCALETO 1000 ITEMS a b
SATURATING = CONFIG SET bf.bloom-saturate-nonscaling yes / BF.RESERVE k 0.000001 2 NONSCALING / BF.MADD k a b c d
STEEP = BF.INSERT k CAPACITY 2 EXPANSION 1 ERROR 1e-17 TIGHTENING 1e-307 ITEMS a b
FILTERS_OF_100 = CONFIG SET bf.bloom-filter-max-memory-usage 100
OBJECTS_OF_200 = CONFIG SET bf.bloom-memory-usage-limit 200
OBJECTS_OF_1000 = CONFIG SET bf.bloom-memory-usage-limit 1000
LIKE_REDISBLOOM = CONFIG SET bf.bloom-new-filters redisbloom
LIKE_VALKEY_BLOOM = CONFIG SET bf.bloom-new-filters valkey-bloom
LOADING = BF.LOADCHUNK k 1 <header>
# Malformed words beside an object. Which words those are is the matter of the parser's tests, and the texts are on the page
# of the commands, whose examples a test replays.
TWO / BF.INSERT k CAPACITY x ITEMS a => ERR bad capacity
TWO / BF.INSERT k SEED <seed33> => ERR invalid seed
TWO / BF.INSERT k CAPACITY 1 VALIDATESCALETO 9223372036854775807 EXPANSION 4294967295 ITEMS a
=> ERR provided VALIDATESCALETO causes bloom object to exceed memory limit
BF.SCANDUMP k x => ERR not found
BF.READ k x => ERR bad cursor
TWO / BF.READ k 0123456789abcdeG-0 => ERR bad cursor
TWO / BF.READ k 0123456789abcdef-01 => ERR bad cursor
TWO / BF.READ k 0123456789abcdef => ERR bad cursor
TWO / BF.READ k 0123456789abcdef-18446744073709551616 => ERR bad cursor
TWO / BF.READ k $ MAX_COUNT -1 => ERR bad max_count
TWO / BF.READ k 0123456789abcdef-0
=> RESYNC unknown feed: the filter was replaced, merged into or not read for a minute, or the server is a different one, or was restarted
WINDOWED / BF.READ k 0123456789abcdef-0 => ERR filters with WINDOW, COUNTING or SCALETO have no feed
SCALED / BF.READ k $ => ERR filters with WINDOW, COUNTING or SCALETO have no feed
LOADING / BF.READ k $ => ERR bloom object is still being loaded
BF.LOADCHUNK k 2 <header> => ERR received bad data
BF.LOADCHUNK k -9223372036854775808 x => ERR received bad data
BF.LOADCHUNK k 1 <cutheader> => ERR received bad data
BF.LOADCHUNK k 1 <longheader> => ERR received bad data
BF.LOAD k <cut> 1000 => ERR bloom object decoding failed
BF.LOAD k <long> => ERR bloom object decoding failed
TWO / BF.LOAD k <dump> x => ERR bad ttl
BF.LOAD k <dump> 9223372036854775807 => ERR bad ttl
# Three times this number exceeds 63 bits.
BF.RESERVE k 0.01 100 WINDOW 3074457345618258603 PERIODS 3 => ERR bad window
BF.INSERT k PERIODS 3 WINDOW 0 ITEMS a => ERR (window should be larger than 0)
BF.INSERT k WINDOW 1000 PERIODS 0 ITEMS a => ERR (periods should be larger than 0)
BF.INSERT k NOCREATE COUNTING WINDOW 1000 PERIODS 3 => ERR WINDOW and COUNTING cannot be combined
# Clients may not date their commands.
BF.INSERT k WINDOW 1000 PERIODS 3 AT 1800000000000 ITEMS a => ERR unknown argument received
# What an object that is to be made could not take.
BF.INSERT k TTL 5 ITEMS a => ERR filter was not made with WINDOW
BF.INSERT k COUNTING TTL 5 => ERR filter was not made with WINDOW
COUNTED / BF.INSERT k ID 5 ITEMS a => ERR unknown argument received
BF.INFO k <seed> => ERR not found
TWO / BF.INFO k <seed> => ERR invalid information value
TWO / BF.INFO k SIZES => ERR invalid information value
CONFIG SET bf.bloom-capacity 0
=> ERR CONFIG SET failed (possibly related to argument 'bf.bloom-capacity') - argument must be between 1 and 9223372036854775807 inclusive
# No such key.
BF.EXISTS k a => 0
BF.MEXISTS k a b => [0, 0]
BF.CARD k => 0
BF.INFO k SIZE => ERR not found
BF.INSERT k NOCREATE => ERR not found
# Strict clients send these, and both peers ignore them where the key exists.
BF.INSERT k NOCREATE CAPACITY 100 ITEMS a => ERR not found
TWO / BF.INSERT k NOCREATE CAPACITY 100 ERROR 0.5 ITEMS a => [0]
BF.INSERT k EXPANSION 2 NOCREATE ITEMS a => ERR not found
# Clients send both, and the peers make a filter that does not scale.
BF.INSERT k EXPANSION 2 NONSCALING NOCREATE ITEMS a => ERR not found
BF.INSERT k CAPACITY 1 EXPANSION 2 NONSCALING ITEMS a b => [1, ERR non scaling filter is full]
BF.INSERT k NONSCALING EXPANSION 2 / BF.INFO k EXPANSION => [null]
TWO / BF.INSERT k EXPANSION 2 NONSCALING ITEMS a => [0]
LIKE_VALKEY_BLOOM / BF.INSERT k NONSCALING EXPANSION 2 / BF.INFO k EXPANSION => [null]
LIKE_REDISBLOOM / BF.INSERT k EXPANSION 2 NONSCALING NOCREATE ITEMS a => ERR not found
BF.RESERVE k 0.01 100 EXPANSION 2 NONSCALING => ERR nonscaling filters cannot expand
BF.SCANDUMP k 1 => ERR not found
BF.DEL k a => 0
BF.MDEL k a b => [0, 0]
BF.COUNT k a => 0
BF.MISSING k a b a => 2
BF.MERGE k other => ERR not found
BF.MERGE k k => ERR not found
TWO / BF.MERGE other k none => ERR not found
BF.RESERVE k 0.01 100 NX => OK
TWO / BF.RESERVE k 0.01 100 NX => null
TWO / BF.RESERVE k 0.01 100 NX EX 5 => null
TWO / BF.RESERVE k 0.01 100 EX 5 => ERR item exists
# Filters that say how far they are to grow. The capacity is the larger of both numbers.
BF.INSERT k SCALETO => ERR bad scaleto
TWO / BF.INSERT k SCALETO 0 ITEMS a => ERR (scaleto should be larger than 0)
BF.INSERT k COUNTING EXPANSION 0 SCALETO 1000 ITEMS a => ERR cannot use NONSCALING and SCALETO options together
BF.INSERT k WINDOW 1000 PERIODS 3 SCALETO 1000000000 => ERR provided SCALETO causes bloom object to exceed memory limit
OBJECTS_OF_1000 / BF.RESERVE k 0.01 10 COUNTING SCALETO 1000 => ERR provided SCALETO causes bloom object to exceed memory limit
BF.RESERVE k 0.01 100 SCALETO 9223372036854775807 => ERR provided SCALETO causes false positive to degrade to 0
BF.RESERVE k 0.01 100 SCALETO 1000 / BF.INFO k CAPACITY => [1000]
BF.RESERVE k 0.01 1000 SCALETO 100 / BF.INFO k CAPACITY => [1000]
BF.INSERT k SCALETO 7 COUNTING / BF.INFO k CAPACITY => [7]
BF.INSERT k SCALETO 1001 WINDOW 1000 PERIODS 3 / BF.INFO k CAPACITY => [1004]
SCALED / BF.INFO k KIND => [scaleto]
SCALED / BF.INFO k TIGHTENING => [0.25]
SCALED / BF.MADD k a c => [0, 1]
SCALED / BF.RESERVE k 0.01 100 NX SCALETO 5 => null
SCALED / BF.INSERT k NOCREATE SCALETO 5 ITEMS a => [0]
BF.RESERVE k 0.01 100 SCALETO 500 EX 1000 / TTL k => 1000
COUNTED / BF.RESERVE k 0.01 100 COUNTING NX EX 5 => null
BF.INSERT k NOCREATE SCALETO 5 ITEMS a => ERR not found
SCALED / BF.DEL k a => ERR filter was not made with COUNTING
SCALED / BF.COUNT k a => ERR filter was not made with COUNTING
SCALED / BF.INSERT k TTL 5 ITEMS a => ERR filter was not made with WINDOW
SCALED / BF.LOADCHUNK k 2 x => ERR received bad data
# Counters, and filters without them.
BF.INSERT k COUNTING EXPANSION 4 SCALETO 50 / BF.INFO k KIND => [counting]
COUNTED / BF.CARD k => 2
COUNTED / BF.COUNT k a => 2
COUNTED / BF.COUNT k c => 0
COUNTED / BF.DEL k a => 1
COUNTED / BF.DEL k c => 0
COUNTED / BF.MDEL k a a a b c => [1, 1, 0, 1, 0]
COUNTED / BF.MISSING k a b c c d => 2
COUNTED / BF.ADD k a => 0
WINDOWED / BF.DEL k a => ERR filter was not made with COUNTING
WINDOWED / BF.MDEL k a b => ERR filter was not made with COUNTING
WINDOWED / BF.COUNT k a => ERR filter was not made with COUNTING
COUNTED / BF.INSERT k TTL 5 ITEMS a => ERR filter was not made with WINDOW
# Windows, and filters without one.
WINDOWED / BF.MADD k a c => [0, 1]
WINDOWED / BF.MISSING k a b c => 1
WINDOWED / BF.INFO k WINDOW => [1000000000000]
WINDOWED / BF.INFO k PERIODS => [2]
WINDOWED / BF.INFO k LIVEPERIODS => [1]
WINDOWED / BF.INFO k PERIODITEMS => [0]
WINDOWED / BF.INFO k KIND => [window]
TWO / BF.INFO k KIND => [plain]
WINDOWED / BF.INSERT k TTL 2000000000000 ITEMS c => [1]
WINDOWED / BF.INSERT k TTL 2000000000001 ITEMS c => ERR ttl is longer than the window
BF.INSERT k WINDOW 1000 PERIODS 3 TTL 3001 ITEMS a => ERR ttl is longer than the window
BF.INSERT k WINDOW 1000 PERIODS 3 TTL 3000 => []
TWO / BF.INFO k PERIODS => ERR invalid information value
TWO / BF.INFO k LIVEPERIODS => ERR invalid information value
TWO / BF.INFO k PERIODITEMS => ERR invalid information value
TWO / BF.INFO k FEEDBYTES => ERR invalid information value
TWO / BF.INFO k FEEDREADERS => ERR invalid information value
WINDOWED / BF.INFO k FEEDREADERS => ERR invalid information value
COUNTED / BF.INFO k WINDOW => ERR invalid information value
# The widest window, and a rate for which no fingerprint is long enough.
BF.RESERVE k 0.01 1 WINDOW 153722867280912 PERIODS 60000 => OK
BF.RESERVE k 0.01 1 WINDOW 153722867280913 PERIODS 60000 => ERR bad window
BF.RESERVE k 5e-324 1 NONSCALING WINDOW 1000 PERIODS 3 => ERR false positive degrades to 0 on scale out
# Options whose value is missing, or beyond any point in time.
BF.RESERVE k 0.01 100 PX 9223372036854775807 => ERR bad ttl
BF.RESERVE k 0.01 100 EX 9223372036854775 => ERR bad ttl
BF.INSERT k TTL => ERR bad ttl
BF.INSERT k AT => ERR unknown argument received
BF.INSERT k SATURATE ITEMS a => ERR unknown argument received
# A combination is refused before the object is looked at.
COUNTED / BF.INSERT k WINDOW 1000 PERIODS 3 COUNTING ITEMS a => ERR WINDOW and COUNTING cannot be combined
WINDOWED / BF.RESERVE k 0.01 100 COUNTING WINDOW 1000 PERIODS 3 NX => ERR WINDOW and COUNTING cannot be combined
SET k x / BF.INSERT k COUNTING WINDOW 1000 PERIODS 3 TTL 5000 SCALETO 5 => ERR WINDOW and COUNTING cannot be combined
WINDOWED / BF.INSERT k COUNTING ITEMS a => [0]
# Objects that cannot be merged.
BF.INSERT k COUNTING / BF.INSERT other SEED <seed> COUNTING / BF.MERGE new k other => ERR filters have different seeds
BF.ADD k a / BF.INSERT other COUNTING / BF.MERGE other k => ERR filters are of different kinds
BF.ADD k a / BF.INSERT other WINDOW 1000 PERIODS 3 / BF.MERGE new k other => ERR filters are of different kinds
BF.INSERT k WINDOW 1000 PERIODS 3 / BF.INSERT other WINDOW 1000 PERIODS 4 / BF.MERGE k other
=> ERR filters are of different kinds
BF.INSERT k COUNTING / BF.INSERT other WINDOW 1000 PERIODS 3 / BF.MERGE k other => ERR filters are of different kinds
SCALED / BF.INSERT other COUNTING ITEMS a / BF.MERGE k other => ERR filters are of different kinds
SCALED / BF.INSERT other ITEMS a / BF.MERGE other k => ERR filters are of different kinds
BF.ADD k a / BF.ADD other b / BF.MERGE k other => OK
BF.ADD k a / BF.MERGE k k k => OK
BF.ADD k a / SET other x / BF.MERGE new k other => WRONGTYPE Operation against a key holding the wrong kind of value
BF.ADD k a / BF.LOADCHUNK other 1 <header> / BF.MERGE k other => ERR bloom object is still being loaded
LOADING / BF.DEL k a => ERR bloom object is still being loaded
LOADING / BF.MISSING k a => ERR bloom object is still being loaded
LOADING / BF.RESERVE k 0.01 10 NX => ERR bloom object is still being loaded
# A key that is taken.
TWO / BF.RESERVE k 0.000001 2 NONSCALING => ERR item exists
TWO / BF.LOAD k <dump> 1000 => BUSYKEY Target key name already exists.
TWO / BF.LOADCHUNK k 2 x => ERR received bad data
TWO / BF.LOADCHUNK k 1 <header> => BUSYKEY Target key name already exists.
LOADING / BF.ADD k a => ERR bloom object is still being loaded
LOADING / BF.LOADCHUNK k 3 x => ERR received bad data
LOADING / BF.LOADCHUNK k 1 x => BUSYKEY Target key name already exists.
LOADING / BF.LOADCHUNK k 2 x / BF.LOADCHUNK k 2 y => ERR received bad data
# What the key holds already may arrive again.
LOADING / BF.LOADCHUNK k 1 <header> => OK
LOADING / BF.LOADCHUNK k 2 x / BF.LOADCHUNK k 2 x => OK
LOADING / BF.LOADCHUNK k 2 x / BF.LOADCHUNK k 1 <header> => OK
LOADING / BF.LOADCHUNK k <end> <bits> / BF.LOADCHUNK k 1 <header> => OK
LOADING / BF.LOADCHUNK k <end> <bits> / BF.LOADCHUNK k <end> <bits> => OK
LOADING / BF.LOADCHUNK k <end> <bits> / BF.ADD k z / BF.LOADCHUNK k 1 <header> => BUSYKEY Target key name already exists.
LOADING / BF.LOADCHUNK k <end> <bits> / BF.LOADCHUNK k 2 y => ERR received bad data
BF.LOADCHUNK k 1 <tableheader> / BF.LOADCHUNK k <pieceend> <piece> / BF.LOADCHUNK k <pieceend> <piece> => OK
BF.LOADCHUNK k 1 <tableheader> / BF.LOADCHUNK k <pieceend> <piece> / BF.LOADCHUNK k 1 <tableheader> => OK
# An expansion of 0 is NONSCALING.
BF.RESERVE k 0.01 100 EXPANSION 0 / BF.INFO k EXPANSION => [null]
# A rate too small to be halved, and one that becomes so.
BF.RESERVE k 5e-324 1 NONSCALING => ERR operation exceeds bloom object memory limit
STEEP / BF.ADD k c => ERR false positive degrades to 0 on scale out
STEEP / BF.MADD k a c d => [0, ERR false positive degrades to 0 on scale out]
STEEP / BF.INFO k MAXSCALEDCAPACITY => [2]
# The narrowest and the widest numbers.
BF.RESERVE k 0.01 1 => OK
BF.RESERVE k 1e-15 1 NONSCALING => OK
BF.RESERVE k 1e-300 1 NONSCALING => ERR operation exceeds bloom object memory limit
BF.RESERVE k 0.999999 100 => OK
BF.RESERVE k 0.01 1 EXPANSION 4294967295 => OK
BF.INSERT k CAPACITY 1 EXPANSION 1 VALIDATESCALETO 1 => []
BF.INSERT k SEED <seed> ITEMS a => [1]
# Without items the object is created, or found.
BF.INSERT k => []
BF.INSERT k CAPACITY 100 ERROR 0.01 TIGHTENING 0.5 EXPANSION 2 => []
BF.INSERT k CAPACITY 7 / BF.INFO k CAPACITY => [7]
BF.INSERT k / BF.CARD k => 0
TWO / BF.INSERT k => []
TWO / BF.INSERT k NOCREATE => []
# The parameters of an object never change.
BF.INSERT k CAPACITY 7 / BF.INSERT k CAPACITY 9 ITEMS a / BF.INFO k CAPACITY => [7]
TWO / BF.INSERT k CAPACITY 9 ITEMS a => [0]
# A field that only scaling objects have.
TWO / BF.INFO k TIGHTENING => ERR invalid information value
TWO / BF.INFO k MAXSCALEDCAPACITY => ERR invalid information value
SCALING / BF.INFO k TIGHTENING => [0.5]
# A non-scaling object that is full.
TWO / BF.MADD k c => [ERR non scaling filter is full]
TWO / BF.MADD k a c b => [0, ERR non scaling filter is full]
TWO / BF.INSERT k ITEMS b a c d => [0, 0, ERR non scaling filter is full]
TWO / BF.ADD k a => 0
TWO / BF.MADD k a b => [0, 0]
TWO / BF.CARD k => 2
BF.INSERT k CAPACITY 1 ERROR 0.01 NONSCALING ITEMS a b => [1, ERR non scaling filter is full]
# Unless the settings let it take more.
SATURATING / BF.CARD k => 4
SATURATING / BF.INFO k CAPACITY => [2]
SATURATING / BF.INFO k FILTERS => [1]
SATURATING / BF.MEXISTS k a b c d => [1, 1, 1, 1]
CONFIG SET bf.bloom-saturate-nonscaling yes / BF.RESERVE k 0.000001 2 NONSCALING / BF.MADD k a b c d / CONFIG SET bf.bloom-saturate-nonscaling no / BF.MADD k d e
=> [0, ERR non scaling filter is full]
# Filters of a peer's kind.
LIKE_VALKEY_BLOOM / BF.RESERVE k 0.01 100 WINDOW 1000 PERIODS 4
=> ERR WINDOW is not possible with bf.bloom-new-filters valkey-bloom
LIKE_VALKEY_BLOOM / BF.RESERVE k 0.01 100 SCALETO 1000
=> ERR SCALETO is not possible with bf.bloom-new-filters valkey-bloom
LIKE_VALKEY_BLOOM / BF.INSERT k COUNTING ITEMS a
=> ERR COUNTING is not possible with bf.bloom-new-filters valkey-bloom
CONFIG SET bf.bloom-new-filters redisbloom bf.bloom-capacity 1073741825 / BF.ADD k a
=> ERR a capacity above 1073741824 is not possible with bf.bloom-new-filters redisbloom
LIKE_REDISBLOOM / BF.ADD k a / BF.MERGE k k => ERR BF.MERGE is not possible with bf.bloom-new-filters redisbloom
LIKE_VALKEY_BLOOM / BF.ADD k a / BF.MERGE new k => ERR BF.MERGE is not possible with bf.bloom-new-filters valkey-bloom
# A server that follows RedisBloom has its words and texts; the recorded replies have most of them.
LIKE_REDISBLOOM / BF.RESERVE k 0.01 10 EXPANSION => ERR no expansion
LIKE_REDISBLOOM / BF.INSERT k 100 => ERR wrong number of arguments for 'bf.insert' command
LIKE_REDISBLOOM / BF.RESERVE k 1e-6 100 / BF.DEBUG k
=> [size:0, bytes:384 bits:3072 hashes:21 hashwidth:64 capacity:100 size:0 ratio:5e-07]
LIKE_REDISBLOOM / BF.RESERVE k 1e-6 100 / BF.LOADCHUNK k 1000000 abc => ERR invalid offset - no link found
LIKE_REDISBLOOM / BF.RESERVE k 1e-6 100 / BF.LOADCHUNK k 388 abc => ERR invalid offset - no link found
LIKE_REDISBLOOM / BF.RESERVE k 1e-6 100 / BF.LOADCHUNK k 387 abc => ERR invalid chunk - Too big for current filter
LIKE_REDISBLOOM / BF.RESERVE k 1e-6 100 / BF.LOADCHUNK k 385 abc => OK
LIKE_REDISBLOOM / BF.RESERVE k 1e-6 100 / BF.LOADCHUNK k 3 abc => ERR invalid offset - no link found
LIKE_REDISBLOOM / BF.RESERVE k 1e-6 100 / BF.LOADCHUNK k 2 abc => ERR received bad data
LIKE_REDISBLOOM / CONFIG SET bf.bloom-new-filters own / BF.RESERVE k 1e-6 100 / CONFIG SET bf.bloom-new-filters redisbloom / BF.LOADCHUNK k 387 abc
=> ERR received bad data
LIKE_REDISBLOOM / BF.INSERT k CAPACITY 0 ITEMS a => Bad capacity
LIKE_REDISBLOOM / BF.RESERVE k 0.01 100 SCALETO 500 / BF.INFO k KIND => [plain]
LIKE_REDISBLOOM / BF.INSERT k c 5 EXPANSION 4 n i a / BF.INFO k EXPANSION => [null]
LIKE_REDISBLOOM / BF.RESERVE k 0.01 100 COUNTING WINDOW 5 EX 1000 NX junk / TTL k => -1
LIKE_REDISBLOOM / BF.RESERVE k 0.01 100 / BF.RESERVE k 0.01 100 NX => ERR item exists
LIKE_REDISBLOOM / BF.RESERVE k 0.01 1000 EXPANSION 32768 => OK
LIKE_REDISBLOOM / BF.INSERT k NOCREATE ITEMS a => ERR not found
LIKE_REDISBLOOM / BF.ADD k a / BF.INFO k SIZES => Invalid information value
LIKE_REDISBLOOM / BF.ADD k a / BF.SCANDUMP k x => Second argument must be numeric
LIKE_REDISBLOOM / BF.LOADCHUNK k 2 a => ERR not found
LIKE_REDISBLOOM / BF.ADD k a / BF.LOADCHUNK k 1 <header> => ERR received bad data
LIKE_REDISBLOOM / BF.RESERVE k 0.01 100 / BF.MADD k a b / BF.LOADCHUNK k 2 x / BF.EXISTS k a => 1
LIKE_REDISBLOOM / BF.RESERVE k 0.01 1073741824 => ERR operation exceeds bloom object memory limit
LIKE_VALKEY_BLOOM / BF.INSERT k TIGHTENING 0.25 SEED 0123456789abcdef0123456789abcdef ITEMS a => [1]
# Memory.
BF.RESERVE k 0.01 9223372036854775807 => ERR operation exceeds bloom object memory limit
BF.RESERVE k 0.01 9223372036854775807 NONSCALING => ERR operation exceeds bloom object memory limit
BF.INSERT k CAPACITY 9223372036854775807 ITEMS a => ERR operation exceeds bloom object memory limit
FILTERS_OF_100 / BF.RESERVE k 0.01 100 => ERR operation exceeds bloom object memory limit
FILTERS_OF_100 / BF.INSERT k ITEMS a b => ERR operation exceeds bloom object memory limit
FILTERS_OF_100 / BF.ADD k a => ERR operation exceeds bloom object memory limit
FILTERS_OF_100 / BF.MADD k a b => ERR operation exceeds bloom object memory limit
FILTERS_OF_100 / BF.LOAD k <dump> => ERR operation exceeds bloom object memory limit
FILTERS_OF_100 / BF.LOADCHUNK k 1 <header> => ERR operation exceeds bloom object memory limit
FILTERS_OF_100 / BF.RESERVE k 0.01 10 => OK
# A table takes memory for what is in it.
BF.RESERVE k 0.01 2000000000 NONSCALING COUNTING => OK
BF.RESERVE k 0.01 2000000000 NONSCALING => ERR operation exceeds bloom object memory limit
OBJECTS_OF_200 / BF.RESERVE k 0.5 1 COUNTING => ERR operation exceeds bloom object memory limit
OBJECTS_OF_200 / BF.INSERT k WINDOW 1000 PERIODS 3 ITEMS a => ERR operation exceeds bloom object memory limit
BF.INSERT k CAPACITY 1000 ITEMS a / BF.INSERT other CAPACITY 2000 ITEMS b / CONFIG SET bf.bloom-memory-usage-limit 4000 / BF.MERGE k other
=> ERR operation exceeds bloom object memory limit
OBJECTS_OF_200 / BF.RESERVE k 0.01 100 => ERR operation exceeds bloom object memory limit
OBJECTS_OF_200 / BF.INSERT k ITEMS a b => ERR operation exceeds bloom object memory limit
OBJECTS_OF_200 / BF.LOAD k <dump> => ERR operation exceeds bloom object memory limit
OBJECTS_OF_200 / BF.LOADCHUNK k 1 <header> => ERR operation exceeds bloom object memory limit
# The limits allow one filter, and growth is refused.
TIGHT / BF.ADD k c => ERR operation exceeds bloom object memory limit
TIGHT / BF.MADD k c d => [ERR operation exceeds bloom object memory limit]
TIGHT / BF.INSERT k ITEMS a b c d => [0, 0, ERR operation exceeds bloom object memory limit]
TIGHT / BF.ADD k a => 0
TIGHT / BF.INFO k MAXSCALEDCAPACITY => [2]
BF.RESERVE k 0.000001 2 / BF.MADD k a b / CONFIG SET bf.bloom-memory-usage-limit 400 / BF.MADD k c d
=> [ERR operation exceeds bloom object memory limit]
# Options that leave too few words, or too many.
BF.INSERT k ITEMS => ERR wrong number of arguments for 'bf.insert' command
BF.INFO k SIZE ITEMS => ERR wrong number of arguments for 'bf.info' command
BF.LOAD k <dump> 1000 1000 => ERR wrong number of arguments for 'bf.load' command
BF.SCANDUMP k 0 ID => ERR wrong number of arguments for 'bf.scandump' command
BF.SCANDUMP k 0 WITHID WITHID => ERR wrong number of arguments for 'bf.scandump' command
";
