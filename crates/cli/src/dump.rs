//! The two ways out of a server: DUMP, whole, for what is small, and BF.SCANDUMP, chunk by chunk.

use redis::cmd;

use valkeybloom_sketches::carried::dump_footer;

use super::failure::Fault;
use super::server::Server;

/// Bytes behind the value of a payload: two of the RDB's version, eight of a checksum.
const FOOTER_BYTES: usize = 10;

/// The oldest version of RDB of the servers that this module loads in. A value of a module is the same in all
/// that are newer.
const OLDEST_VERSION: u16 = 10;

/// A piece of BF.SCANDUMP, and the cursor of the next one.
pub fn scan(server: &Server, key: &[u8], cursor: u64) -> Result<(u64, Vec<u8>), Fault> {
    server.get(key, cmd("BF.SCANDUMP").arg(key).arg(cursor))
}

/// The payload of DUMP, or `None` if the key is gone.
pub fn payload(server: &Server, key: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    server.get(key, cmd("DUMP").arg(key))
}

/// Whether a payload's value is of this type of a module, as TYPE names it.
pub fn is_of_type(payload: &[u8], type_name: &str) -> bool {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // A byte for a module's value, one for a number of 64 bits, and the number: six bits for each of nine letters, then
    // ten for the version of the encoding.
    let Some((&[7, 0x81], rest)) = payload.split_first_chunk() else {
        return false;
    };
    let Some(id) = rest.first_chunk() else {
        return false;
    };
    let bits = |letter| LETTERS.iter().position(|l| *l == letter).unwrap_or(0) as u64;
    let of_name = type_name
        .bytes()
        .fold(0, |id, letter| id << 6 | bits(letter));
    u64::from_be_bytes(*id) >> 10 == of_name
}

/// The value in a payload.
pub fn value(payload: &[u8]) -> &[u8] {
    &payload[..payload.len().saturating_sub(FOOTER_BYTES)]
}

/// The same value in a payload that every server takes, whatever version wrote it.
pub fn for_any_server(payload: &[u8]) -> Vec<u8> {
    let mut sealed = value(payload).to_vec();
    dump_footer(&mut sealed, OLDEST_VERSION);
    sealed
}

/// What a server answers to RESTORE where it can't read the payload.
pub fn is_unreadable(fault: &Fault) -> bool {
    let Fault::Refused(text) = fault else {
        return false;
    };
    text.contains("DUMP payload version or checksum are wrong") || text.contains("Bad data format")
}
