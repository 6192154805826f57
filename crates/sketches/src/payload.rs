//! Payloads of RESTORE, in a form that every server from Redis 5 on reads.

use std::ffi::CStr;

use crc::{CRC_64_REDIS, Crc};

use crate::bytes::RdbWrite;

/// Returns a payload for RESTORE with a value of a type, whose fields `write` writes. A log depends on it, so the
/// program aborts if allocation fails.
pub fn restore(type_name: &CStr, rdb_version: i32, write: impl FnOnce(&mut Payload)) -> Vec<u8> {
    const MODULE_VALUE: u8 = 7;
    const END_OF_VALUE: u8 = 0;
    const OLDEST_VERSION: u16 = 9;
    let mut payload = Payload(vec![MODULE_VALUE]);
    payload.length(type_id(type_name) | u64::from(rdb_version.unsigned_abs()));
    write(&mut payload);
    let mut bytes = payload.0;
    bytes.push(END_OF_VALUE);
    dump_footer(&mut bytes, OLDEST_VERSION);
    bytes
}

/// Returns the number that stands for a type in RDB: six bits for each letter of its name, then ten zeros, the bits of
/// the encoding version.
pub fn type_id(type_name: &CStr) -> u64 {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = |letter| LETTERS.iter().position(|l| *l == letter).unwrap_or(0) as u64;
    let name = type_name.to_bytes().iter();
    name.fold(0, |id, letter| id << 6 | bits(*letter)) << 10
}

/// Appends the footer of a DUMP payload: the RDB version, and a checksum of all before.
pub fn dump_footer(payload: &mut Vec<u8>, rdb_version: u16) {
    static CHECKSUM: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);
    payload.extend(rdb_version.to_le_bytes());
    payload.extend(CHECKSUM.checksum(payload).to_le_bytes());
}

/// The fields of a value, written the way the server writes them.
pub struct Payload(Vec<u8>);

impl Payload {
    /// Appends a number in RDB's encoding of lengths: in as few bytes as possible, big endian.
    fn length(&mut self, value: u64) {
        match value {
            0..0x40 => self.0.push(value.to_le_bytes()[0]),
            0x40..0x4000 => {
                let [.., high, low] = value.to_be_bytes();
                self.0.extend([0x40 | high, low]);
            }
            0x4000..=0xffff_ffff => {
                self.0.push(0x80);
                self.0.extend(&value.to_be_bytes()[4..]);
            }
            _ => {
                self.0.push(0x81);
                self.0.extend(value.to_be_bytes());
            }
        }
    }
}

impl RdbWrite for Payload {
    fn uint(&mut self, value: u64) {
        self.0.push(2);
        self.length(value);
    }

    fn double(&mut self, value: f64) {
        self.0.push(4);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.0.push(5);
        self.length(value.len() as u64);
        self.0.extend(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields and the checksum that a server wrote for a count-min sketch of one counter.
    #[test]
    fn a_payload_has_the_servers_form() {
        let payload = restore(c"CMSk-TYPE", 0, |to| {
            to.uint(1);
            to.uint(300);
            to.uint(1 << 20);
            to.uint(1 << 40);
            to.double(0.5);
            to.bytes(b"1234");
        });
        let mut expected = vec![7, 0x81];
        expected.extend(0x08c4_a4f9_360f_1000_u64.to_be_bytes());
        expected.extend([2, 1, 2, 0x41, 0x2c, 2, 0x80, 0, 0x10, 0, 0]);
        expected.extend([2, 0x81, 0, 0, 1, 0, 0, 0, 0, 0]);
        expected.extend([4, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f]);
        expected.extend([5, 4, b'1', b'2', b'3', b'4', 0, 9, 0]);
        assert_eq!(payload[..payload.len() - 8], expected);
        // A checksum over bytes that end in their own checksum is zero.
        let of_all = Crc::<u64>::new(&CRC_64_REDIS).checksum(&payload);
        assert_eq!(of_all, 0);
    }
}
