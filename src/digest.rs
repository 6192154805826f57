//! The fields of a value's RDB stream, fed to a digest.

use valkeybloom_sketches::RdbWrite;

use crate::ffi::Digest;

/// The bytes of fields that are hashed at a time. Each hashing of the server takes a third of a microsecond.
const HASHED_BYTES: usize = 64 << 10;

/// Feeds a digest the fields that `write` writes.
pub fn digest_fields(to: &mut Digest, write: impl FnOnce(&mut DigestedFields)) {
    let mut fields = DigestedFields {
        to,
        bytes: Vec::new(),
    };
    write(&mut fields);
    fields.to.add_bytes(&fields.bytes);
}

/// Fields for a digest.
pub struct DigestedFields<'d> {
    to: &'d mut Digest,
    /// The last fields, not hashed yet.
    bytes: Vec<u8>,
}

impl DigestedFields<'_> {
    fn add(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > HASHED_BYTES {
            self.to.add_bytes(&self.bytes);
            self.bytes.clear();
        }
        if bytes.len() > HASHED_BYTES {
            self.to.add_bytes(bytes);
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

impl RdbWrite for DigestedFields<'_> {
    fn uint(&mut self, value: u64) {
        self.add(&value.to_le_bytes());
    }

    fn double(&mut self, value: f64) {
        self.add(&value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.add(&(value.len() as u64).to_le_bytes());
        self.add(value);
    }
}
