//! t-digests: against what RedisBloom recorded, against its rules written down once more, and against bytes that mean
//! harm.

mod recorded;

use valkeybloom_sketches::DecodeError;
use valkeybloom_sketches::tdigest::{TDigest, wire};

use crate::support::Stream;

/// Returns the fields of a digest in RDB.
fn fields_of(digest: &TDigest) -> Stream {
    let mut fields = Stream::default();
    wire::write_rdb(digest, &mut fields);
    fields
}

/// Reads all of the fields.
fn read(mut fields: Stream) -> Result<TDigest, DecodeError> {
    let digest = wire::read_rdb(wire::RDB_VERSION, &mut fields)?;
    assert!(fields.0.is_empty(), "bytes after the digest");
    Ok(digest)
}
