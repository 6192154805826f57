//! The two ways to read a value from a server: whole, by DUMP, and in chunks, by BF.SCANDUMP.

use std::ffi::CString;

use redis::cmd;

use valkeybloom_protocol::error::{Error, lacks_ids};
use valkeybloom_sketches::payload::{dump_footer, type_id};

use super::failure::Fault;
use super::server::Server;

/// The bytes after the value in a payload: two for the RDB version, eight for a checksum.
const FOOTER_BYTES: usize = 10;

/// The RDB version of the oldest servers that load this module. Module values have the same form in all newer versions.
const OLDEST_VERSION: u16 = 10;

/// A reply of BF.SCANDUMP.
pub struct Chunk {
    /// The cursor of the next chunk.
    pub next: u64,
    pub bytes: Vec<u8>,
    /// The filter's id, by which chunks of another filter are noticed.
    pub id: Option<Vec<u8>>,
}

/// Reads a chunk, with the filter's id if `with_id` is set and the server has ids.
pub fn scan(server: &Server, key: &[u8], cursor: u64, with_id: bool) -> Result<Chunk, Fault> {
    let mut scan = cmd("BF.SCANDUMP");
    scan.arg(key).arg(cursor);
    if with_id {
        match server.query(key, scan.clone().arg("WITHID")) {
            Ok((next, bytes, id)) => return Ok(Chunk { next, bytes, id }),
            Err(Fault::Refused(text)) if lacks_ids(&text) => {}
            Err(fault) => return Err(fault),
        }
    }
    let (next, bytes) = server.query(key, &scan)?;
    let id = None;
    Ok(Chunk { next, bytes, id })
}

/// Reads the payload of DUMP.
pub fn payload(server: &Server, key: &[u8]) -> Result<Vec<u8>, Fault> {
    let payload: Option<_> = server.query(key, cmd("DUMP").arg(key))?;
    payload.ok_or_else(|| Error::NOT_FOUND.into())
}

/// Returns whether a payload holds a module's value of this type, as TYPE returns it.
pub fn is_of_type(payload: &[u8], type_name: &str) -> bool {
    // The first byte marks a module's value, the second a number of 64 bits, whose last ten are the encoding version.
    let Some([7, 0x81, id @ ..]) = payload.first_chunk::<10>() else {
        return false;
    };
    let name = CString::new(type_name).unwrap_or_default();
    type_id(&name) == Some(u64::from_be_bytes(*id) & !0x3ff)
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

/// Returns whether RESTORE failed because the server can't read the payload.
pub fn is_unreadable(fault: &Fault) -> bool {
    let reasons = [
        "DUMP payload version or checksum are wrong",
        "Bad data format",
    ];
    matches!(fault, Fault::Refused(text) if reasons.iter().any(|reason| text.contains(reason)))
}
