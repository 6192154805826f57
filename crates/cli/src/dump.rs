//! The two ways to read a value from a server: whole, by DUMP, and in chunks, by BF.SCANDUMP.
//!
//! The payload of DUMP has these parts if the value is a module's, with their lengths in bytes:
//!
//! ```text
//! | 07 | 81 | type's name, encoding version | value | RDB version | checksum |
//!    1    1                 8                   …          2           8
//! ```

use std::ffi::CString;

use redis::{Cmd, cmd};

use valkeybloom_protocol::error::{Error, lacks_ids};
use valkeybloom_protocol::names::BF_SCANDUMP;
use valkeybloom_sketches::payload::{dump_footer, type_id};

use super::failure::Fault;
use super::server::Server;

/// The bytes after the value in a payload: two for the RDB version, eight for a checksum.
const FOOTER_BYTES: usize = 10;

/// The RDB version of the oldest servers that load this module. Module values have the same form in all newer versions.
const OLDEST_VERSION: u16 = 10;

/// The first byte of a payload with a module's value.
const MODULE_VALUE: u8 = 7;

/// The byte before a number of 64 bits, whose highest byte comes first.
const NUMBER_OF_64_BITS: u8 = 0x81;

/// The bits of a type's number that hold the version of its encoding.
const ENCODING_VERSION: u64 = 0x3ff;

/// A reply of BF.SCANDUMP.
pub struct Chunk {
    /// The cursor of the next chunk.
    pub next: u64,
    /// The chunk: the header for the cursor 0, nothing after the last one.
    pub bytes: Vec<u8>,
    /// The filter's id, which another filter under the key does not have.
    pub id: Option<Vec<u8>>,
}

/// Reads a chunk without the filter's id.
pub fn scan(server: &Server, key: &[u8], cursor: u64) -> Result<Chunk, Fault> {
    let (next, bytes) = server.query(key, &command(key, cursor))?;
    let id = None;
    after(cursor, Chunk { next, bytes, id })
}

/// Reads a chunk with the filter's id, if the server has ids.
pub fn scan_with_id(server: &Server, key: &[u8], cursor: u64) -> Result<Chunk, Fault> {
    match server.query(key, command(key, cursor).arg("WITHID")) {
        Err(Fault::Refused(text)) if lacks_ids(&text) => scan(server, key, cursor),
        reply => reply.and_then(|(next, bytes, id)| after(cursor, Chunk { next, bytes, id })),
    }
}

/// Returns the chunk at a cursor. The next cursor must be larger, so that chunks come to an end.
fn after(cursor: u64, chunk: Chunk) -> Result<Chunk, Fault> {
    if chunk.next > cursor || chunk.next == 0 {
        return Ok(chunk);
    }
    let text = format!("{BF_SCANDUMP} does not end there");
    Err(Fault::Unusable(text))
}

fn command(key: &[u8], cursor: u64) -> Cmd {
    let mut scan = cmd(BF_SCANDUMP);
    scan.arg(key).arg(cursor);
    scan
}

/// Reads the payload of DUMP.
pub fn payload(server: &Server, key: &[u8]) -> Result<Vec<u8>, Fault> {
    let payload: Option<_> = server.query(key, cmd("DUMP").arg(key))?;
    payload.ok_or_else(|| Error::NOT_FOUND.into())
}

/// Returns whether a payload holds a module's value of this type, as TYPE returns it.
pub fn is_of_type(payload: &[u8], type_name: &str) -> bool {
    let Some([MODULE_VALUE, NUMBER_OF_64_BITS, id @ ..]) = payload.first_chunk::<10>() else {
        return false;
    };
    let name = CString::new(type_name).unwrap_or_default();
    type_id(&name) == Some(u64::from_be_bytes(*id) & !ENCODING_VERSION)
}

/// Returns the value in a payload, without the footer.
pub fn value(payload: &[u8]) -> &[u8] {
    &payload[..payload.len().saturating_sub(FOOTER_BYTES)]
}

/// Rewrites a payload's footer, so that servers of any version accept it.
pub fn for_any_server(payload: &[u8]) -> Vec<u8> {
    let mut sealed = value(payload).to_vec();
    dump_footer(&mut sealed, OLDEST_VERSION);
    sealed
}

#[cfg(test)]
mod tests {
    use super::*;
    use valkeybloom_sketches::payload::restore;

    #[test]
    fn chunks_come_to_an_end() {
        for (cursor, next, is_valid) in [
            (0, 0, true),
            (0, 1, true),
            (5, 6, true),
            (5, 0, true),
            (5, 5, false),
            (5, 1, false),
        ] {
            let (bytes, id) = (vec![], None);
            let chunk = after(cursor, Chunk { next, bytes, id });
            assert_eq!(chunk.is_ok(), is_valid, "{cursor} {next}");
        }
    }

    #[test]
    fn a_payload_names_its_type() {
        let payload = restore(c"TopK-TYPE", 3, |_| {});
        for (payload, kind, expected) in [
            (&payload[..], "TopK-TYPE", true),
            (&payload, "CMSk-TYPE", false),
            (&payload, "string", false),
            (&payload, "TopK\0TYPE", false),
            (&payload[..9], "TopK-TYPE", false),
            (b"\0\x09TopK-TYPE", "TopK-TYPE", false),
        ] {
            assert_eq!(is_of_type(payload, kind), expected, "{kind}");
        }
    }

    #[test]
    fn a_rewritten_payload_has_the_same_value_for_older_servers() {
        let mut newer = restore(c"TopK-TYPE", 3, |_| {});
        newer.truncate(newer.len() - FOOTER_BYTES);
        let mut older = newer.clone();
        dump_footer(&mut newer, 80);
        dump_footer(&mut older, OLDEST_VERSION);
        assert_eq!(for_any_server(&newer), older);
        assert_eq!(value(&newer), value(&older));
        assert_eq!(value(b"short"), b"");
    }
}
