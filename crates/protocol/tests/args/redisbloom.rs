//! `RedisBloom`'s grammar of BF.RESERVE and BF.INSERT: what it means on a server that follows it, and whose words a link
//! or a log carries.

use valkeybloom_protocol::bloom::Maker;
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::words::Origin;

use super::{are, defaults, insert_by, reserve_by};

/// Parses words by `RedisBloom`'s grammar.
fn parse(words: &[&[u8]], origin: Origin) -> Result<String, Error> {
    let defaults = defaults(Maker::RedisBloom);
    match words {
        [b"BF.RESERVE", ..] => reserve_by(words, defaults, origin),
        _ => insert_by(words, defaults, origin),
    }
}

/// Options have other meanings than here, are found by their first letters, and unknown ones are ignored in BF.RESERVE,
/// where the key is searched for options, too.
#[test]
fn redisbloom_s_words_are_taken() {
    let table = "
BF.RESERVE k 0.01 5 => 5 0.01 x7 RedisBloom 7
BF.RESERVE k 0.01 5 junk => 5 0.01 x7 RedisBloom 7
BF.RESERVE k 0.01 5 EX 3600 => 5 0.01 x7 RedisBloom 7
BF.RESERVE k 0.01 5 COUNTING WINDOW x NX => 5 0.01 x7 RedisBloom 7
BF.RESERVE k 0.01 5 what eXPANSION 3 what => 5 0.01 x3 RedisBloom 3
BF.RESERVE k 0.01 5 EXPANSION 3 EXPANSION x => 5 0.01 x3 RedisBloom 3
BF.RESERVE k 0.01 5 EXPANSION 0 => 5 0.01 fixed RedisBloom 0
BF.RESERVE k 0.01 5 EXPANSION 0 NONSCALING => 5 0.01 fixed RedisBloom 0
BF.RESERVE k 0.01 5 EXPANSION 32768 => 5 0.01 x32768 RedisBloom 32768
BF.RESERVE k 0.01 1073741824 nonscaling => 1073741824 0.01 fixed RedisBloom 7
BF.RESERVE nonscaling 0.01 5 => 5 0.01 fixed RedisBloom 7
BF.RESERVE k 1e-320 5 => 5 1e-320 x7 RedisBloom 7
BF.INSERT k ITEMS a b => 77 0.07 x7 RedisBloom 7, items 3..5
BF.INSERT k i a => 77 0.07 x7 RedisBloom 7, items 3..4
BF.INSERT k Iwhat ITEMS => 77 0.07 x7 RedisBloom 7, items 3..4
BF.INSERT k c 500 i a b => 500 0.07 x7 RedisBloom 7, items 5..7
BF.INSERT k Cxyz 5 Er 0.5 EXp 2 items a => 5 0.5 x2 RedisBloom 2, items 9..10
BF.INSERT k e 3 i a => 77 0.07 x3 RedisBloom 3, items 5..6
BF.INSERT k CAPACITY 5 CAPACITY 6 i a => 6 0.07 x7 RedisBloom 7, items 7..8
BF.INSERT k EXPANSION 4 NONSCALING i a => 77 0.07 fixed RedisBloom 4, items 6..7
BF.INSERT k NONSCALING EXPANSION 4 i a => 77 0.07 fixed RedisBloom 4, items 6..7
BF.INSERT k n i a => 77 0.07 fixed RedisBloom 7, items 4..5
BF.INSERT k noc i a => nothing, items 4..5
BF.INSERT k NOCREATE CAPACITY 5 ERROR 0.1 ITEMS a => nothing, items 8..9";
    for origin in [Origin::Client, Origin::Elsewhere] {
        are(table, |words| parse(words, origin));
    }
}

#[test]
fn errors_have_redisbloom_s_texts() {
    are(
        "
BF.RESERVE k 0.01 => ERR wrong number of arguments
BF.RESERVE k x y => ERR bad error rate
BF.RESERVE k nan 5 => ERR bad error rate
BF.RESERVE k 0x1 5 => ERR bad error rate
BF.RESERVE k 1 x => ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE k -inf 5 => ERR error rate must be in the range (0.000000, 1.000000)
BF.RESERVE k 0.01 5.0 EXPANSION x => ERR bad capacity
BF.RESERVE k 0.01 0 EXPANSION x => ERR capacity must be in the range [1, 1073741824]
BF.RESERVE k 0.01 1073741825 => ERR capacity must be in the range [1, 1073741824]
BF.RESERVE k 0.01 5 EXPANSION x NONSCALING => ERR bad expansion
BF.RESERVE EXPANSION 0.01 5 => ERR bad expansion
BF.RESERVE k 0.01 5 EXPANSION -1 => ERR expansion must be in the range [0, 32768]
BF.RESERVE k 0.01 5 EXPANSION 32769 => ERR expansion must be in the range [0, 32768]
BF.RESERVE k 0.01 5 EXPANSION 1 NONSCALING => Nonscaling filters cannot expand
BF.RESERVE k 0.01 5 EXPANSION => ERR no expansion
BF.RESERVE k 0.01 5 ITEMS EXPANSION => ERR no expansion
BF.INSERT k => ERR wrong number of arguments
BF.INSERT k NOCREATE => ERR wrong number of arguments
BF.INSERT k 100 => ERR wrong number of arguments
BF.INSERT k 100 i => Unknown argument received
BF.INSERT k ITEMS => ERR wrong number of arguments
BF.INSERT k i => ERR wrong number of arguments
BF.INSERT k CAPACITY => ERR wrong number of arguments
BF.INSERT k ERROR 0 ITEMS => Bad error rate
BF.INSERT k ERROR 1.0 x => Bad error rate
BF.INSERT k CAPACITY 1073741825 i a => Bad capacity
BF.INSERT k CAPACITY ITEMS a => Bad capacity
BF.INSERT k EXPANSION 32769 i a => Bad expansion
BF.INSERT k  i a => Unknown argument received
BF.INSERT k TTL 5 i a => Unknown argument received
BF.INSERT k WINDOW 5 PERIODS 5 i a => Unknown argument received
BF.INSERT k VALIDATESCALETO 5 i a => Unknown argument received",
        |words| parse(words, Origin::Client),
    );
}

/// A server that follows `RedisBloom` parses this module's own words, too, if they come from a primary or a log.
#[test]
fn replicated_words_are_parsed_under_every_setting() {
    let seed = "0123456789abcdef0123456789abcdef";
    let table = format!(
        "
BF.INSERT k CAPACITY 5 ERROR 0.01 TIGHTENING 0.5 SEED {seed} EXPANSION 2 => 5 0.01 x2 valkey-bloom 0.5, seed {seed}, items 0..0
BF.INSERT k CAPACITY 5 TIGHTENING 0.5 SEED {seed} NONSCALING ITEMS a => 5 0.07 fixed valkey-bloom 0.5, seed {seed}, items 10..11
BF.INSERT k CAPACITY 5 TIGHTENING 0.5 EXPANSION 2 COUNTING ITEMS a => 5 0.07 x2 0.25 counting, items 10..11
BF.INSERT k CAPACITY 5 TIGHTENING 0.5 EXPANSION 2 SCALETO 5 ITEMS a => 5 0.07 x2 0.25 scaled, to 5, items 11..12
BF.INSERT k NOCREATE ITEMS a => nothing, items 4..5
BF.INSERT k NOCREATE AT 5 TTL 3 ITEMS a => nothing, at 5, ttl 3, items 8..9
BF.INSERT k NOCREATE AT 5 => nothing, at 5, items 0..0
BF.INSERT k NOCREATE SATURATE ITEMS a => nothing, saturate, items 5..6"
    );
    for maker in Maker::ALL {
        are(&table, |words| {
            insert_by(words, defaults(maker), Origin::Elsewhere)
        });
    }
    for maker in [Maker::Own, Maker::ValkeyBloom] {
        are(
            "BF.INSERT k c 9 i a b => ERR unknown argument received",
            |words| insert_by(words, defaults(maker), Origin::Client),
        );
    }
}
