//! The records of CSV, and the bytes of each where whole records are kept.
//!
//! The crate `csv` returns the fields of a record and where it begins, but not its bytes. So a copy is kept of what it has
//! read, until it begins to read the record after:
//!
//! ```text
//!   copy:  ... kept | the record before | the present one | read ahead ...
//!                 kept^                 ^the position of the present one
//! ```

use std::cell::RefCell;
use std::io::{self, Cursor, Read};
use std::rc::Rc;

use csv::{ByteRecord, Position, ReaderBuilder};

/// The records of a file.
pub struct Records<R> {
    reader: csv::Reader<R>,
    present: ByteRecord,
    /// The record that ends the file.
    sentinel: ByteRecord,
    copy: Option<Rc<RefCell<Copy>>>,
}

/// Reads the records of a file, with a buffer of `buffer_bytes`. `keeps` is whether their bytes are wanted.
///
/// # Errors
/// The system has no random numbers.
pub fn records<R: Read>(
    from: R,
    delimiter: u8,
    buffer_bytes: usize,
    keeps: bool,
) -> Result<Records<impl Read>, String> {
    let sentinel = sentinel(delimiter)?;
    let end = format!("\n{sentinel}\n").into_bytes();
    let copy = keeps.then(<Rc<RefCell<Copy>>>::default);
    let from = Copying {
        from,
        to: copy.clone(),
    };
    Ok(Records {
        reader: ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .buffer_capacity(buffer_bytes)
            .from_reader(from.chain(Cursor::new(end))),
        present: ByteRecord::new(),
        sentinel: vec![sentinel].into(),
        copy,
    })
}

/// Returns the only field of a record that no file has, which is read after the file: `csv` accepts a quote that is never
/// closed, but that takes in this record, too. It holds no delimiter, for `g` is none of its digits.
fn sentinel(delimiter: u8) -> Result<String, String> {
    let random = getrandom::u64().map_err(|error| error.to_string())?;
    Ok(format!("{random:016x}").replace(char::from(delimiter), "g"))
}

impl<R: Read> Records<R> {
    /// Reads the next record. Returns false at the end of the file.
    ///
    /// # Errors
    /// The file can't be read, or ends within a quote.
    pub fn next(&mut self) -> Result<bool, String> {
        match self.reader.read_byte_record(&mut self.present) {
            Ok(true) => Ok(self.present != self.sentinel),
            Ok(false) => Err("an earlier quote is not closed".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the fields of the record that was read last.
    pub const fn present(&self) -> &ByteRecord {
        &self.present
    }

    /// Passes on the bytes of the record before the present one, with the empty lines after it, if bytes are wanted. The
    /// present one is the sentinel at the end of the file. Call it after each [`next`](Self::next).
    pub fn keep_before(&mut self, keep: impl FnOnce(&[u8])) {
        let Some(copy) = &self.copy else {
            return;
        };
        let mut copy = copy.borrow_mut();
        let Copy { bytes, start, kept } = &mut *copy;
        let end = self.present.position().map_or(0, Position::byte) - *start;
        // The sentinel may begin after the line feed before it, which the file lacks.
        let end = usize::try_from(end).map_or(bytes.len(), |end| end.min(bytes.len()));
        let rest = bytes[end..].iter();
        let end = end + rest.take_while(|byte| b"\r\n".contains(byte)).count();
        keep(&bytes[*kept..end]);
        *kept = end;
    }
}

/// The bytes that were read last.
#[derive(Default)]
struct Copy {
    bytes: Vec<u8>,
    /// The position of the first one in the file.
    start: u64,
    /// The number of them that belong to records that were kept. They are removed when more are read: once for many records.
    kept: usize,
}

/// A reader that copies what it reads, if there is a place for it.
struct Copying<R> {
    from: R,
    to: Option<Rc<RefCell<Copy>>>,
}

impl<R: Read> Read for Copying<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(into)?;
        if let Some(to) = &self.to {
            let mut to = to.borrow_mut();
            let kept = std::mem::take(&mut to.kept);
            to.bytes.drain(..kept);
            to.start += kept as u64;
            to.bytes.extend_from_slice(&into[..count]);
        }
        Ok(count)
    }
}
