//! Decodes the bytes of an object of any family.

use valkeybloom_sketches::bloom::dump;
use valkeybloom_sketches::{DecodeError, Sketch};

use super::error::{Code, Error};
use super::random_seed;

/// How a payload of DUMP begins: with the type of a module's value, and the mark of a number of 64 bits.
const DUMP_START: [u8; 2] = [7, 0x81];

/// The largest version that a payload of BF.LOAD may ever have. The version is its first byte, so no later version is
/// mistaken for the start of a payload of DUMP.
const MAX_DUMP_VERSION: u8 = DUMP_START[0] - 1;

/// Decodes the bytes of an object of any family: a payload of DUMP, or of BF.LOAD.
///
/// # Errors
/// [`Code::Undecodable`] or [`Code::NoMemory`].
pub fn decode(bytes: &[u8]) -> Result<Sketch, Error> {
    match Sketch::from_dump(bytes, random_seed()?) {
        Ok(sketch) => Ok(sketch),
        Err(error) if bytes.starts_with(&DUMP_START) => Err(error.into()),
        Err(_) => dump::decode(bytes)
            .map(Sketch::Bloom)
            .map_err(|error| match error {
                DecodeError::UnsupportedVersion if bytes.first() > Some(&MAX_DUMP_VERSION) => {
                    undecodable("not a valkeybloom file, nor an encoded object")
                }
                error => error.into(),
            }),
    }
}

pub(crate) fn undecodable(text: &'static str) -> Error {
    Error::new(Code::Undecodable, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_tells_a_later_version_from_another_file() {
        for (first, text) in [
            (MAX_DUMP_VERSION, "unsupported version"),
            (7, "not a valkeybloom file, nor an encoded object"),
            (8, "not a valkeybloom file, nor an encoded object"),
        ] {
            let error = decode(&[first, 0, 0]).unwrap_err();
            assert_eq!(error.text(), text);
        }
    }
}
