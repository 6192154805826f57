//! The records of CSV, and the bytes of each where whole records are kept.
//!
//! The crate `csv` returns the fields of a record and where it begins, but not its bytes. So a copy is kept of what it has
//! read, until it begins to read the record after:
//!
//! ```text
//!   recent:  ... kept | the record before | the present one | read ahead ...
//!                 kept^                   ^the position of the present one
//! ```

use std::io::{self, Chain, Cursor, Read};

use csv::{ByteRecord, Position, Reader, ReaderBuilder};

/// The records of a file.
pub struct Records<R> {
    reader: Reader<Chain<Copying<R>, Cursor<Vec<u8>>>>,
    present: ByteRecord,
    /// The record that ends the file.
    sentinel: ByteRecord,
}

/// What is wanted of a record.
#[derive(Clone, Copy, PartialEq)]
pub enum Keep {
    Fields,
    FieldsAndBytes,
}

impl<R: Read> Records<R> {
    /// Prepares to read the records of a file, with a buffer of `buffer_bytes`.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(from: R, delimiter: u8, buffer_bytes: usize, keep: Keep) -> Result<Self, String> {
        let sentinel = sentinel(delimiter)?;
        let end = format!("\n{sentinel}\n").into_bytes();
        let recent = (keep == Keep::FieldsAndBytes).then(Recent::default);
        let from = Copying { from, recent };
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .buffer_capacity(buffer_bytes)
            .from_reader(from.chain(Cursor::new(end)));
        Ok(Self {
            reader,
            present: ByteRecord::new(),
            sentinel: vec![sentinel].into(),
        })
    }

    /// Reads the next record. Returns false at the end of the file, after which there is nothing to read.
    ///
    /// # Errors
    /// The file can't be read, or ends within a quote.
    pub fn next(&mut self) -> Result<bool, String> {
        match self.reader.read_byte_record(&mut self.present) {
            Ok(true) if self.present == self.sentinel => Ok(false),
            Ok(true) if !self.ends_with_sentinel() => Ok(true),
            Ok(_) => Err("a quote is not closed".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns whether the present record has taken in the one after the file.
    fn ends_with_sentinel(&self) -> bool {
        let last = self.present.iter().next_back().unwrap_or_default();
        last.strip_suffix(b"\n")
            .unwrap_or(last)
            .ends_with(&self.sentinel[0])
    }

    /// Returns the fields of the record that was read last.
    pub const fn present(&self) -> &ByteRecord {
        &self.present
    }

    /// Returns the bytes of the record before the present one, with the empty lines after it, if bytes are wanted. The
    /// present one is the sentinel at the end of the file. Call it once after each [`next`](Self::next). Before the first
    /// record there are only empty lines.
    pub fn take_before(&mut self) -> Option<&[u8]> {
        let recent = &mut self.reader.get_mut().get_mut().0.recent;
        let Recent { bytes, start, kept } = recent.as_mut()?;
        let end = self.present.position().map_or(0, Position::byte) - *start;
        // The sentinel may begin after the line feed before it, which the file lacks.
        let end = usize::try_from(end).map_or(bytes.len(), |end| end.min(bytes.len()));
        let rest = bytes[end..].iter();
        let end = end + rest.take_while(|byte| b"\r\n".contains(byte)).count();
        let before = *kept..end;
        *kept = end;
        Some(&bytes[before])
    }
}

/// Returns the only field of a record that no file has, which is read after the file: `csv` accepts a quote that is never
/// closed, but that takes in this record, too. It holds no delimiter, for `g` is none of its digits.
fn sentinel(delimiter: u8) -> Result<String, String> {
    let random = getrandom::u64().map_err(|error| error.to_string())?;
    Ok(format!("{random:016x}").replace(char::from(delimiter), "g"))
}

/// The bytes that were read last.
#[derive(Default)]
struct Recent {
    bytes: Vec<u8>,
    /// The position of the first one in the file.
    start: u64,
    /// The number of them that belong to records that were kept. They are removed when more are read: once for many records.
    kept: usize,
}

/// A reader that copies what it reads, if there is a place for it.
struct Copying<R> {
    from: R,
    recent: Option<Recent>,
}

impl<R: Read> Read for Copying<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(into)?;
        if let Some(recent) = &mut self.recent {
            let kept = std::mem::take(&mut recent.kept);
            recent.bytes.drain(..kept);
            recent.start += kept as u64;
            recent.bytes.extend_from_slice(&into[..count]);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_delimiter_ends_a_field() {
        for delimiter in ['0', 'f', 'g', ';'] {
            let text = format!("a{delimiter}b\n");
            let mut records =
                Records::new(text.as_bytes(), delimiter as u8, 64, Keep::FieldsAndBytes)
                    .expect("random numbers");
            assert!(records.next().expect("a record"));
            assert_eq!(records.take_before(), Some(&b""[..]));
            assert_eq!(records.present(), vec!["a", "b"]);
            assert!(!records.next().expect("the end"));
            assert_eq!(records.take_before(), Some(text.as_bytes()));
        }
    }
}
