//! The records of CSV, and the bytes of each where whole records are kept.
//!
//! The crate `csv` returns the fields of a record and where it begins, but not its bytes. So one record is read ahead, and
//! a copy is kept of what was read: the bytes of a record end where the one after it begins.
//!
//! ```text
//!   recent:  ... taken | the record that is returned | the record ahead | read, but not parsed
//!                taken^                              ^the position of the record ahead
//! ```

use std::io::{self, Chain, Cursor, ErrorKind, Read};
use std::mem;

use csv::{ByteRecord, Position, ReaderBuilder};

/// A parser of a file, and of the sentinel after it.
type Parser<R> = csv::Reader<Chain<Copying<R>, Cursor<Vec<u8>>>>;

/// Reads the records of a file.
pub struct CsvReader<R> {
    parser: Parser<R>,
    /// The record that is put after the file.
    sentinel: ByteRecord,
    /// The record that was returned last.
    present: ByteRecord,
    /// The record after that one.
    ahead: ByteRecord,
    /// Whether there is a record ahead, or why it can't be read.
    is_ahead: Result<bool, String>,
}

/// What is wanted of a record.
#[derive(Clone, Copy, PartialEq)]
pub enum Keep {
    Fields,
    FieldsAndBytes,
}

/// A record of a file.
pub struct CsvRecord<'r> {
    pub fields: &'r ByteRecord,
    /// The bytes, with the empty lines after the record; `None` if only fields are wanted.
    pub bytes: Option<&'r [u8]>,
}

impl<R: Read> CsvReader<R> {
    /// Prepares to read the records of a file, with a buffer of `buffer_bytes`.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(from: R, delimiter: u8, buffer_bytes: usize, keep: Keep) -> Result<Self, String> {
        let sentinel = sentinel(delimiter)?;
        let end = format!("\n{sentinel}\n").into_bytes();
        let recent = (keep == Keep::FieldsAndBytes).then(Recent::default);
        let from = Copying { from, recent };
        let parser = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .buffer_capacity(buffer_bytes)
            .from_reader(from.chain(Cursor::new(end)));
        let mut reader = Self {
            parser,
            sentinel: vec![sentinel].into(),
            present: ByteRecord::new(),
            ahead: ByteRecord::new(),
            is_ahead: Ok(false),
        };
        reader.is_ahead = reader.read_ahead();
        // Only empty lines are before the first record.
        bytes_before(&reader.ahead, &mut reader.parser);
        Ok(reader)
    }

    /// Returns the next record; `None` at the end of the file.
    ///
    /// # Errors
    /// The file can't be read, or ends within a quote.
    pub fn next(&mut self) -> Result<Option<CsvRecord<'_>>, String> {
        if !mem::replace(&mut self.is_ahead, Ok(false))? {
            return Ok(None);
        }
        mem::swap(&mut self.present, &mut self.ahead);
        self.is_ahead = self.read_ahead();
        let bytes = bytes_before(&self.ahead, &mut self.parser);
        let fields = &self.present;
        Ok(Some(CsvRecord { fields, bytes }))
    }

    /// Reads the record ahead. Returns false at the end of the file.
    fn read_ahead(&mut self) -> Result<bool, String> {
        match self.parser.read_byte_record(&mut self.ahead) {
            Ok(true) if self.ahead == self.sentinel => Ok(false),
            Ok(true) if !self.ends_with_sentinel() => Ok(true),
            Ok(_) => Err("a quote is not closed".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns whether the record ahead has taken in the sentinel.
    fn ends_with_sentinel(&self) -> bool {
        let last = self.ahead.iter().next_back().unwrap_or_default();
        last.strip_suffix(b"\n")
            .unwrap_or(last)
            .ends_with(&self.sentinel[0])
    }
}

/// Takes the bytes before the record that was read last, if bytes are wanted.
fn bytes_before<'p, R: Read>(record: &ByteRecord, parser: &'p mut Parser<R>) -> Option<&'p [u8]> {
    let recent = parser.get_mut().get_mut().0.recent.as_mut()?;
    Some(recent.take_until(record.position().map_or(0, Position::byte)))
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
    /// The number of them that were taken. They are removed when more are read: once for many records.
    taken: usize,
}

impl Recent {
    fn push(&mut self, read: &[u8]) {
        self.bytes.drain(..self.taken);
        self.start += mem::take(&mut self.taken) as u64;
        self.bytes.extend_from_slice(read);
    }

    /// Takes the bytes up to a position, and the line ends there. The sentinel's position is one after the end of a file that
    /// lacks its last line feed.
    fn take_until(&mut self, position: u64) -> &[u8] {
        let end = usize::try_from(position - self.start).unwrap_or(usize::MAX);
        let end = end.min(self.bytes.len());
        let rest = self.bytes[end..].iter();
        let end = end + rest.take_while(|byte| b"\r\n".contains(byte)).count();
        let from = mem::replace(&mut self.taken, end);
        &self.bytes[from..end]
    }
}

/// A reader that copies what it reads, if there is a place for it, and repeats a read that a signal interrupts: for the crate
/// `csv`, any error ends the file.
struct Copying<R> {
    from: R,
    recent: Option<Recent>,
}

impl<R: Read> Read for Copying<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = loop {
            match self.from.read(into) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if let Some(recent) = &mut self.recent {
            recent.push(&into[..count]);
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
            let text = format!("\na{delimiter}b\n");
            let mut reader =
                CsvReader::new(text.as_bytes(), delimiter as u8, 64, Keep::FieldsAndBytes)
                    .expect("random numbers");
            let record = reader.next().expect("no fault").expect("a record");
            assert_eq!(record.fields, vec!["a", "b"]);
            assert_eq!(record.bytes, Some(&text.as_bytes()[1..]));
            for _ in 0..2 {
                assert!(reader.next().expect("no fault").is_none());
            }
        }
    }

    /// A file whose every read is interrupted first.
    struct Interrupted<'b> {
        rest: &'b [u8],
        is_repeated: bool,
    }

    impl Read for Interrupted<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.is_repeated = !self.is_repeated;
            if self.is_repeated {
                return Err(ErrorKind::Interrupted.into());
            }
            self.rest.read(into)
        }
    }

    #[test]
    fn an_interrupted_read_is_repeated() {
        for keep in [Keep::Fields, Keep::FieldsAndBytes] {
            let file = Interrupted {
                rest: b"a,b\n1,2\n",
                is_repeated: false,
            };
            // A buffer that is smaller than a record.
            let mut reader = CsvReader::new(file, b',', 3, keep).expect("random numbers");
            for (fields, bytes) in [(["a", "b"], b"a,b\n"), (["1", "2"], b"1,2\n")] {
                let record = reader.next().expect("no fault").expect("a record");
                assert_eq!(record.fields, &fields[..]);
                let kept = (keep == Keep::FieldsAndBytes).then_some(&bytes[..]);
                assert_eq!(record.bytes, kept);
            }
            assert!(reader.next().expect("no fault").is_none());
        }
    }

    /// A fault belongs to the record that has it, not to the one before.
    #[test]
    fn a_record_before_a_fault_is_returned() {
        let text = &b"a\n\"b\n"[..];
        let mut reader = CsvReader::new(text, b',', 64, Keep::FieldsAndBytes).expect("a number");
        let record = reader.next().expect("no fault").expect("a record");
        assert_eq!(record.bytes, Some(&b"a\n"[..]));
        assert_eq!(
            reader.next().err().as_deref(),
            Some("a quote is not closed")
        );
    }

    #[test]
    fn bytes_are_taken_with_the_line_ends_after_them() {
        let mut recent = Recent::default();
        recent.push(b"\n\na,b\r");
        assert_eq!(recent.take_until(0), b"\n\n");
        recent.push(b"\n\n1,2\n3,");
        assert_eq!(recent.take_until(6), b"a,b\r\n\n");
        assert_eq!(recent.take_until(11), b"1,2\n");
        assert_eq!(
            recent.bytes.len(),
            12,
            "what was taken stays until more is read"
        );
        recent.push(b"4");
        assert_eq!(recent.bytes, b"3,4");
        assert_eq!(
            recent.take_until(16),
            b"3,4",
            "the file lacks the last line feed"
        );
        assert_eq!(recent.take_until(16), b"");
    }
}
