//! Refusals: their texts in both protocols, and that a refused command changes nothing.

use crate::harness::{Server, array, error};
use crate::support::protocols::in_both_protocols;
use crate::support::refused::Refusals;

const EXISTS: &str = "TopK: key already exists";
pub const BAD_INCREMENT: &str = "TopK: increment must be an integer greater or equal to 0                            and smaller or equal to 100,000";

/// Commands, and the error of each. `k` is a list, `none` is not a key, and `text` a string.
const ROWS: &str = "
TOPK.RESERVE k x => TopK: key already exists
TOPK.RESERVE text 5 => TopK: key already exists
TOPK.RESERVE new 0 0 0 0 => TopK: invalid k
TOPK.RESERVE new 1 0 x x => TopK: invalid width
# Adding takes time for each row.
TOPK.RESERVE new 1 1 33 1 => TopK: invalid depth
TOPK.RESERVE new 1 1 1 0 => TopK: invalid decay value. must be '<= 1' & '> 0'
TOPK.RESERVE new 1 4294967295 2 1 => ERR Insufficient memory to create topk data structure
TOPK.RESERVE new 1 134217727 32 1 => ERR Insufficient memory to create topk data structure
TOPK.RESERVE new 4294967295 => ERR Insufficient memory to create topk data structure
TOPK.ADD none a => TopK: key does not exist
TOPK.INCRBY none a x => TopK: key does not exist
TOPK.QUERY none a => TopK: key does not exist
TOPK.COUNT none a => TopK: key does not exist
TOPK.LIST none => TopK: key does not exist
TOPK.INFO none => TopK: key does not exist
TOPK.LIST k x => WITHCOUNT keyword expected
TOPK.LIST none x => WITHCOUNT keyword expected
TOPK.LIST text x => WITHCOUNT keyword expected
# The number of words comes first.
TOPK.RESERVE k 5 5 5 => ERR wrong number of arguments for 'topk.reserve' command
TOPK.INCRBY none a 1 b => ERR wrong number of arguments for 'topk.incrby' command
TOPK.LIST k WITHCOUNT x => ERR wrong number of arguments for 'topk.list' command
TOPK.INFO k x => ERR wrong number of arguments for 'topk.info' command
";

#[test]
fn refused_commands_change_nothing() {
    let server = Server::start();
    in_both_protocols(&server, |client, _| {
        client.ok("TOPK.RESERVE k 5 50 4 0.9");
        client.cmd("TOPK.ADD k a b c a");
        let mut refused = Refusals::of(client, &["DEBUG DIGEST"]);
        refused.check_rows(ROWS);
        refused.check_others("topk.", EXISTS);
        let state = client.cmd("DEBUG DIGEST");
        // The empty word, and words that go on after a zero byte.
        for word in [&b""[..], b"withcount\0", b"WITHCOUNT\0x"] {
            let listed = client.call(&[b"TOPK.LIST", b"k", word]);
            assert_eq!(listed, error("WITHCOUNT keyword expected"));
        }
        for word in [
            "x",
            "-1",
            "100001",
            "1.5",
            "+1",
            "01",
            "9223372036854775808",
        ] {
            client.expect(
                format!("TOPK.INCRBY k a {word}"),
                array([error(BAD_INCREMENT)]),
            );
            client.expect("DEBUG DIGEST", &state);
        }
    });
}
