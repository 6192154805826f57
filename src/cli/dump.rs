//! The two ways out of a server: DUMP, whole, for what is small, and BF.SCANDUMP, chunk by chunk.

use redis::cmd;

use crate::bloom::carried::dump_footer;

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
