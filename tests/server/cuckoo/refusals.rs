//! Refusals: their texts in both protocols, and that a refused command changes nothing.

use crate::harness::Server;
use crate::support::protocols::in_both_protocols;
use crate::support::refused::{Refusals, WRONG_TYPE};

use super::items;

/// Commands, and the error of each. `k` is a filter, `none` not a key, `full` and `most` are filters without room.
const ROWS: &str = "
CF.RESERVE new x => Bad capacity
CF.RESERVE new 64.0 => Bad capacity
CF.RESERVE new 18446744073709551616 => Bad capacity
CF.RESERVE new x BUCKETSIZE x => Bad capacity
CF.RESERVE new 3 => Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
CF.RESERVE new 0 => Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
CF.RESERVE new -1 => Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
CF.RESERVE new 1073741825 => Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
CF.RESERVE new 9 BUCKETSIZE 5 => Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
CF.RESERVE new 64 BUCKETSIZE x => Couldn't parse BUCKETSIZE
CF.RESERVE new 64 MAXITERATIONS x => Couldn't parse MAXITERATIONS
CF.RESERVE new 64 EXPANSION x => Couldn't parse EXPANSION
CF.RESERVE new 64 BUCKETSIZE 0 => BUCKETSIZE: value must be in the range [1, 255]
CF.RESERVE new 64 BUCKETSIZE 256 => BUCKETSIZE: value must be in the range [1, 255]
CF.RESERVE new 64 BUCKETSIZE -1 => BUCKETSIZE: value must be in the range [1, 255]
CF.RESERVE new 64 MAXITERATIONS 0 => MAXITERATIONS: value must be in the range [1, 65535]
CF.RESERVE new 64 MAXITERATIONS 65536 => MAXITERATIONS: value must be in the range [1, 65535]
CF.RESERVE new 64 EXPANSION -1 => EXPANSION: value must be in the range [0, 32768]
CF.RESERVE new 64 EXPANSION 32769 => EXPANSION: value must be in the range [0, 32768]
# In RedisBloom's order, whatever the order of the words.
CF.RESERVE new 3 EXPANSION x MAXITERATIONS 0 => MAXITERATIONS: value must be in the range [1, 65535]
CF.RESERVE new 3 EXPANSION x BUCKETSIZE 0 => BUCKETSIZE: value must be in the range [1, 255]
CF.RESERVE new 3 EXPANSION -1 => EXPANSION: value must be in the range [0, 32768]
CF.RESERVE k 3 => Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
# Words that are no options, and options without a value.
CF.RESERVE new 64 SIZE 4 => Unknown argument received
CF.RESERVE new 64 4 BUCKETSIZE => Unknown argument received
CF.RESERVE new 64 EXPANSION 1 BUCKETSIZE 2 x 1 => Unknown argument received
CF.RESERVE k 64 => ERR item exists
CF.INSERT new CAPACITY x ITEMS a => Bad capacity
CF.INSERT new CAPACITY 3 ITEMS a => Capacity must be in the range [cf-bucket-size * 2, 1073741824]
CF.INSERT new CAPACITY -1 ITEMS a => Capacity must be in the range [cf-bucket-size * 2, 1073741824]
CF.INSERT new CAPACITY 1073741825 ITEMS a => Capacity must be in the range [cf-bucket-size * 2, 1073741824]
CF.INSERT k CAPACITY 3 ITEMS a => Capacity must be in the range [cf-bucket-size * 2, 1073741824]
CF.INSERTNX k CAPACITY 8 CAPACITY 3 ITEMS a => Capacity must be in the range [cf-bucket-size * 2, 1073741824]
CF.INSERT k Cxyz 100 ITEMS a => Unknown argument received
CF.INSERT k NO ITEMS a => Unknown argument received
CF.INSERT k Iwhat a => Unknown argument received
CF.INSERT k  ITEMS a => Unknown argument received
CF.INSERTNX k EXPANSION 2 ITEMS a => Unknown argument received
CF.INSERT none NOCREATE ITEMS a => ERR not found
CF.INSERTNX none NOCREATE CAPACITY 64 ITEMS a => ERR not found
CF.INFO none => ERR not found
CF.DEBUG none => ERR not found
CF.SCANDUMP none 0 => ERR not found
CF.LOADCHUNK none 2 x => ERR not found
CF.DEL none a => Not found
CF.COMPACT none => Cuckoo filter was not found
CF.SCANDUMP k x => Invalid position
CF.SCANDUMP k -1 => Invalid position
CF.SCANDUMP none -1 => Invalid position
CF.LOADCHUNK k x y => Invalid position
CF.LOADCHUNK k 0 y => Invalid position
CF.LOADCHUNK none 0 y => Invalid position
CF.LOADCHUNK k 1 y => ERR item exists
CF.LOADCHUNK new 1 y => Invalid header
CF.LOADCHUNK k 2  => Couldn't load chunk!
CF.LOADCHUNK k -1 x => Couldn't load chunk!
CF.LOADCHUNK k 100000 x => Couldn't load chunk!
CF.LOADCHUNK k 1026 x => Couldn't load chunk!
CF.LOADCHUNK k 9223372036854775807 x => Couldn't load chunk!
CF.ADD full a => Filter is full
CF.ADDNX full other-44 => Filter is full
CF.ADD most a => Maximum expansions reached
CF.ADDNX most a => Maximum expansions reached
CF.INSERT most ITEMS a b => Maximum expansions reached
CF.INSERTNX most NOCREATE ITEMS a => Maximum expansions reached
CF.RESERVE new 1073741824 => ERR Insufficient memory: operation exceeds cuckoo filter memory limit
CF.INSERT new CAPACITY 1073741824 ITEMS a => ERR Insufficient memory: operation exceeds cuckoo filter memory limit
# Options that leave too few words, or an odd number of them.
CF.RESERVE k 64 BUCKETSIZE => ERR wrong number of arguments for 'cf.reserve' command
CF.RESERVE k 64 BUCKETSIZE 2 EXPANSION => ERR wrong number of arguments for 'cf.reserve' command
CF.INSERT k ITEMS => ERR wrong number of arguments for 'cf.insert' command
CF.INSERT k CAPACITY 64 => ERR wrong number of arguments for 'cf.insert' command
CF.INSERT k NOCREATE CAPACITY => ERR wrong number of arguments for 'cf.insert' command
CF.INSERT k NOCREATE ITEMS => ERR wrong number of arguments for 'cf.insert' command
CF.INSERTNX k CAPACITY 64 NOCREATE => ERR wrong number of arguments for 'cf.insertnx' command
";

#[test]
fn refused_commands_change_nothing() {
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        client.cmd(&format!("CF.INSERT k ITEMS {}", items("i", 100)));
        client.cmd("CF.RESERVE full 64 EXPANSION 0");
        client.cmd(&format!(
            "CF.INSERT full ITEMS {}",
            "a ".repeat(8).trim_end()
        ));
        client.cmd(&format!("CF.INSERT full ITEMS {}", items("i", 200)));
        client.cmd("CF.RESERVE most 4");
        client.cmd(&format!("CF.INSERT most ITEMS {}", items("i", 200)));
        let mut refused = Refusals::of(client, &["DEBUG DIGEST"]);
        refused.check_rows(ROWS);
        refused.check_others("cf.", WRONG_TYPE);
        for key in ["bloom", "text"] {
            for call in ["CF.INSERTNX {} NOCREATE ITEMS a", "CF.LOADCHUNK {} 2 x"] {
                refused.check(&call.replace("{}", key), WRONG_TYPE);
            }
        }
    });
}
