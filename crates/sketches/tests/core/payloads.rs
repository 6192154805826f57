//! Payloads of RESTORE, byte by byte.

use crc::{CRC_64_REDIS, Crc};
use valkeybloom_sketches::{RdbWrite, payload};

/// The fields and the checksum that a server wrote.
#[test]
fn a_payload_has_the_servers_form() {
    let payload = payload::restore(c"CMSk-TYPE", 0, |to| {
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
    assert_eq!(Crc::<u64>::new(&CRC_64_REDIS).checksum(&payload), 0);
}
