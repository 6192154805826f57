//! BF.LOAD, SCANDUMP, LOADCHUNK and READ.

use valkeybloom_protocol::bloom::{Load, Read, ScanDump, chunk_cursor};
use valkeybloom_protocol::error::{Error, Field};

use super::are;

const BAD: Error = Error::Bad(Field::CURSOR);

#[test]
fn a_load_may_have_a_time_to_live() {
    are(
        "
BF.LOAD k => ERR wrong number of arguments
BF.LOAD k dump => None
BF.LOAD k dump 0 => None
BF.LOAD k dump 1 => Some(1)
BF.LOAD k dump 9223372036854775807 => Some(9223372036854775807)
BF.LOAD k dump <no count> => ERR bad ttl
BF.LOAD k dump 1 1 => ERR wrong number of arguments",
        |words| Ok(format!("{:?}", Load::parse(words)?.ttl_ms)),
    );
}

/// The server looks for the key between the two errors.
#[test]
fn a_scandump_has_a_cursor_and_may_ask_for_the_id() {
    are(
        "
BF.SCANDUMP k => ERR wrong number of arguments
BF.SCANDUMP k 0 => Ok(0) false
BF.SCANDUMP k 7 withid => Ok(7) true
BF.SCANDUMP k -1 => Ok(18446744073709551615) false
BF.SCANDUMP k <no integer> => Err(Bad(Field(\"cursor\"))) false
BF.SCANDUMP k x id => ERR wrong number of arguments
BF.SCANDUMP k 0 WITHID WITHID => ERR wrong number of arguments",
        |words| {
            let request = ScanDump::parse(words, BAD)?;
            Ok(format!("{:?} {}", request.cursor, request.with_id))
        },
    );
}

#[test]
fn the_cursor_of_a_chunk_may_be_negative() {
    are(
        "
BF.LOADCHUNK k 1 data => 1
BF.LOADCHUNK k -1 data => -1
BF.LOADCHUNK k <no integer> data => ERR bad cursor",
        |words| Ok(chunk_cursor(words, BAD)?.to_string()),
    );
}

#[test]
fn a_read_begins_at_a_cursor_of_one_form() {
    are(
        "
BF.READ k => ERR wrong number of arguments
BF.READ k $ => None, 65536 items
BF.READ k $ max_count 5 => None, 5 items
BF.READ k 00000000000000ff-12 => Some((255, 12)), 65536 items
BF.READ k 00000000000000FF-12 => ERR bad cursor
BF.READ k 00000000000000ff-012 => ERR bad cursor
BF.READ k ff-12 => ERR bad cursor
BF.READ k 00000000000000ff => ERR bad cursor
BF.READ k $ MAX_COUNT => ERR bad max_count
BF.READ k $ MAX_COUNT 0 => ERR (max_count should be larger than 0)
BF.READ k $ COUNT 5 => ERR unknown argument received",
        |words| {
            let Read { from, max_count } = Read::parse(words)?;
            let from = from.map(|from| (from.feed, from.sequence));
            Ok(format!("{from:?}, {max_count} items"))
        },
    );
}
