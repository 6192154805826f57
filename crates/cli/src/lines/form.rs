//! The form of a file, by its first bytes: gzip and zstd are decompressed, and what is not a list of items is refused.

use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

use flate2::bufread::GzDecoder;

/// The number of first bytes that are looked at. The magic bytes of a tar archive end at offset 265, and a line rarely takes
/// more.
const HEAD_BYTES: u64 = 4096;

/// The size of buffers.
const BUFFER_BYTES: usize = 1 << 20;

/// The byte order mark of UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// How to turn a file of a form into a list.
const DECOMPRESS: &str = "decompress it first";
const EXTRACT: &str = "extract its files, or export it as CSV, first";
const CONVERT: &str = "convert it to lines or CSV first";

/// Why a text is not a list of items.
const ZEROS: &str = "it holds zero bytes, as no text does: if they end its items, add --zero";
const RETURNS: &str =
    "its lines end with a carriage return alone: convert them first, with tr '\\r' '\\n'";

/// Why a gzip file can't be read to its end.
const TRAILING_BYTES: &str =
    "other bytes follow the compressed data: decompress it first, and look at the end of the list";

/// The magic bytes of a form with their offsets. All must match.
type Magic = &'static [(usize, &'static [u8])];

/// Forms of files that are not lists of items: their magic bytes, and what to do.
const FORMS: [(&str, Magic, &str); 19] = [
    ("gzip", &[(0, b"\x1f\x8b")], DECOMPRESS),
    ("zstd", &[(0, b"\x28\xb5\x2f\xfd")], DECOMPRESS),
    ("xz", &[(0, b"\xfd7zXZ\0")], DECOMPRESS),
    ("bzip2", &[(0, b"BZh"), (4, b"1AY&SY")], DECOMPRESS),
    (
        "bzip2",
        &[(0, b"BZh"), (4, b"\x17\x72\x45\x38\x50\x90")],
        DECOMPRESS,
    ),
    ("lz4", &[(0, b"\x04\x22\x4d\x18")], DECOMPRESS),
    ("lzip", &[(0, b"LZIP\x01")], DECOMPRESS),
    ("Snappy", &[(0, b"\xff\x06\0\0sNaPpY")], DECOMPRESS),
    ("compress", &[(0, b"\x1f\x9d")], DECOMPRESS),
    ("zip", &[(0, b"PK\x03\x04")], EXTRACT),
    ("zip", &[(0, b"PK\x05\x06")], EXTRACT),
    ("7z", &[(0, b"7z\xbc\xaf\x27\x1c")], EXTRACT),
    ("rar", &[(0, b"Rar!\x1a\x07")], EXTRACT),
    ("tar", &[(257, b"ustar\0")], EXTRACT),
    ("tar", &[(257, b"ustar  \0")], EXTRACT),
    ("Parquet", &[(0, b"PAR1\x15")], CONVERT),
    ("Arrow", &[(0, b"ARROW1\0\0")], CONVERT),
    ("Avro", &[(0, b"Obj\x01")], CONVERT),
    ("SQLite", &[(0, b"SQLite format 3\0")], CONVERT),
];

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packed {
    Plain,
    Gzip,
    Zstd,
}

/// A file that was opened. `head` is a copy: reading [`from`](Self::from) starts with the same bytes.
pub struct Opened<'r> {
    pub packed: Packed,
    pub head: Vec<u8>,
    pub from: Box<dyn Read + 'r>,
}

impl<'r> Opened<'r> {
    /// Decompresses a file if it is compressed. If its items are lines, `is_text` is set, and a byte order mark is dropped.
    ///
    /// # Errors
    /// The input could not be read, or is not a list of items.
    pub fn new(from: impl Read + 'r, is_text: bool) -> io::Result<Self> {
        let outer = Self::peek(from, Packed::Plain)?;
        let mut opened = match outer.head[..] {
            [0x1f, 0x8b, ..] => Self::peek(Gzip::new(buffered(outer.from)), Packed::Gzip)?,
            // A frame with data, or one to skip, which some compressors write first.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                let from = zstd::Decoder::with_buffer(buffered(outer.from))?;
                Self::peek(from, Packed::Zstd)?
            }
            _ => outer,
        };
        if let Some(why) = obstacle(&opened.head, is_text) {
            return Err(io::Error::other(why));
        }
        if is_text && opened.head.starts_with(BOM) {
            opened.head.drain(..BOM.len());
            opened.from.read_exact(&mut [0; BOM.len()])?;
        }
        Ok(opened)
    }

    /// Reads the first bytes. A pipe may return fewer at once.
    fn peek(mut from: impl Read + 'r, packed: Packed) -> io::Result<Self> {
        let mut head = Vec::new();
        from.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
        let from = Box::new(Cursor::new(head.clone()).chain(from));
        Ok(Self { packed, head, from })
    }
}

fn buffered<R: Read>(from: R) -> BufReader<R> {
    BufReader::with_capacity(BUFFER_BYTES, from)
}

/// Decompresses the parts of a gzip file, one after another.
struct Gzip<R: BufRead> {
    /// The present part; `None` at the end of the file.
    part: Option<GzDecoder<R>>,
    /// The text of the first error, which every later read reports again: after an error, a decoder reports its end.
    fault: Option<String>,
}

impl<R: BufRead> Gzip<R> {
    fn new(from: R) -> Self {
        Self {
            part: Some(GzDecoder::new(from)),
            fault: None,
        }
    }

    /// Reads from the present part, or from the next one that has bytes. A part is replaced only after all fallible steps,
    /// so that an interrupted read can be repeated.
    fn read_parts(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(part) = &mut self.part {
            let count = part.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            match part.get_mut().fill_buf()?.first() {
                None => self.part = None,
                Some(0x1f) => {
                    let rest = self.part.take().map(GzDecoder::into_inner);
                    self.part = rest.map(GzDecoder::new);
                }
                Some(_) => return Err(io::Error::other(TRAILING_BYTES)),
            }
        }
        Ok(0)
    }
}

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(fault) = &self.fault {
            return Err(io::Error::other(fault.clone()));
        }
        let read = self.read_parts(into);
        if let Err(error) = &read
            && error.kind() != ErrorKind::Interrupted
        {
            self.fault = Some(error.to_string());
        }
        read
    }
}

/// Returns the name of an encoding with characters of two or four bytes, if a text without a byte order mark looks like
/// one: no byte that holds a Latin letter is zero, and most of the bytes beside the letters are.
fn wide_encoding(head: &[u8]) -> Option<&'static str> {
    let bytes = |width: usize, place: usize| head.iter().skip(place).step_by(width);
    let holds = |width, place| bytes(width, place).min() > Some(&0);
    let lacks = |width, place| {
        let zeros = bytes(width, place).filter(|byte| **byte == 0);
        2 * zeros.count() > bytes(width, place).count()
    };
    let forms = [
        ("UTF-32LE", holds(4, 0) && lacks(4, 2) && lacks(4, 3)),
        ("UTF-32BE", holds(4, 3) && lacks(4, 0) && lacks(4, 1)),
        ("UTF-16LE", holds(2, 0) && lacks(2, 1)),
        ("UTF-16BE", holds(2, 1) && lacks(2, 0)),
    ];
    forms.into_iter().find_map(|(name, is)| is.then_some(name))
}

/// Requires that lines end with line feeds. Lines that end with a carriage return alone would be one item.
///
/// # Errors
/// What to do about it.
pub fn require_line_feeds(head: &[u8]) -> io::Result<()> {
    let has_inner = |byte| {
        head.split_last()
            .is_some_and(|(_, before)| before.contains(&byte))
    };
    if has_inner(b'\r') && !head.contains(&b'\n') {
        return Err(io::Error::other(RETURNS));
    }
    Ok(())
}

/// Returns the reason why a file with these first bytes is not a list of items, and what to do about it.
fn obstacle(head: &[u8], is_text: bool) -> Option<String> {
    let has = |(at, magic): &(usize, &[u8])| {
        let rest = head.get(*at..);
        rest.is_some_and(|rest| rest.starts_with(magic))
    };
    if let Some((name, _, advice)) = FORMS.iter().find(|(_, magic, _)| magic.iter().all(has)) {
        return Some(format!("it looks like {name}: {advice}"));
    }
    if !is_text {
        return None;
    }
    let encoding = match head {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some(("UTF-32", "")),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some(("UTF-16", "")),
        // Items of one letter each look the same.
        _ => {
            wide_encoding(head).map(|name| (name, "; but if zero bytes end its items, add --zero"))
        }
    };
    if let Some((name, or)) = encoding {
        return Some(format!(
            "it looks like {name}: convert it first, with iconv -f {name} -t UTF-8{or}"
        ));
    }
    head.contains(&0).then(|| ZEROS.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    /// A pipe whose reader gets a byte at a time.
    struct Trickle<'b>(&'b [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = into.len().min(1);
            self.0.read(&mut into[..count])
        }
    }

    /// A file that fails once, after its first bytes.
    struct Failing<'b> {
        first: &'b [u8],
        failure: Option<ErrorKind>,
        rest: &'b [u8],
    }

    impl<'b> Failing<'b> {
        fn new(bytes: &'b [u8], at: usize, failure: ErrorKind) -> Self {
            let (first, rest) = bytes.split_at(at);
            let failure = Some(failure);
            Self {
                first,
                failure,
                rest,
            }
        }
    }

    impl Read for Failing<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if !self.first.is_empty() {
                return self.first.read(into);
            }
            match self.failure.take() {
                Some(failure) => Err(failure.into()),
                None => self.rest.read(into),
            }
        }
    }

    fn read(bytes: &[u8], is_text: bool) -> Result<Vec<u8>, String> {
        let opened = Opened::new(Trickle(bytes), is_text).map_err(|error| error.to_string())?;
        let mut all = Vec::new();
        { opened.from }.read_to_end(&mut all).expect("it is whole");
        assert!(all.starts_with(&opened.head));
        Ok(all)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(bytes).expect("memory takes all");
        packed.finish().expect("memory takes all")
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        let mut packed = zstd::Encoder::new(Vec::new(), 1).expect("there is memory");
        packed.include_checksum(true).expect("it has one");
        packed.write_all(bytes).expect("memory takes all");
        packed.finish().expect("memory takes all")
    }

    #[test]
    fn compressed_lists_are_read_however_their_bytes_come() {
        let list = b"one\ntwo\n";
        let skipped = [b"\x50\x2a\x4d\x18\x02\0\0\0ab", &zstd(list)[..]].concat();
        for bytes in [list.to_vec(), gzip(list), zstd(list), skipped] {
            assert_eq!(read(&bytes, true).as_deref(), Ok(&list[..]));
        }
        assert_eq!(read(b"", true).as_deref(), Ok(&b""[..]));
        // A list that begins like a compressed file does.
        for list in [&b"BZh9\n"[..], b"PAR1\n", b"PK\n", b"7z\n", b"\x1f\n"] {
            assert_eq!(read(list, true).as_deref(), Ok(list));
        }
    }

    /// Numbers in a scattered order, which compress to many times the first bytes that are looked at.
    fn varied_lines() -> Vec<u8> {
        let lines = (0..100_000_u64).map(|number| format!("{:x}\n", number * 7_919 % 104_729));
        lines.collect::<String>().into_bytes()
    }

    #[test]
    fn an_interrupted_read_is_repeated() {
        let list = varied_lines();
        let (one, other) = list.split_at(list.len() / 2);
        let first = gzip(one);
        let twice = [&first[..], &gzip(other)].concat();
        // Within a part, at its end, and within the head of the next one.
        for (bytes, at) in [
            (&twice, 5_000),
            (&twice, first.len()),
            (&twice, first.len() + 3),
            (&zstd(&list), 5_000),
        ] {
            let from = Failing::new(bytes, at, ErrorKind::Interrupted);
            let mut all = Vec::new();
            let read = Opened::new(from, true).and_then(|it| { it.from }.read_to_end(&mut all));
            assert_eq!(read.map_err(|error| error.to_string()), Ok(list.len()));
            assert!(all == list, "interrupted at {at}");
        }
    }

    #[test]
    fn an_error_is_never_followed_by_an_end() {
        let [list, frame] = [gzip, zstd].map(|pack| pack(&varied_lines()));
        let twice = [&list[..], &list].concat();
        let mut damaged = list.clone();
        let checksum = list.len() - 8;
        damaged[checksum] ^= 1;
        let mut damaged_frame = frame.clone();
        *damaged_frame.last_mut().expect("a checksum") ^= 1;
        let trailing = [&frame[..], b"two\n"].concat();
        for from in [
            Failing::new(&twice, 5_000, ErrorKind::Other),
            Failing::new(&twice, list.len(), ErrorKind::Other),
            Failing::new(&twice, list.len() + 3, ErrorKind::Other),
            Failing::new(&damaged, 5_000, ErrorKind::Interrupted),
            Failing::new(&damaged_frame, 5_000, ErrorKind::Interrupted),
            Failing::new(&trailing, 5_000, ErrorKind::Interrupted),
            Failing::new(&frame[..frame.len() / 2], 5_000, ErrorKind::Interrupted),
        ] {
            let mut opened = Opened::new(from, true).expect("its first bytes are whole");
            let mut read = || opened.from.read_to_end(&mut Vec::new());
            let first = read().expect_err("it fails").to_string();
            assert_eq!(read().expect_err("it still fails").to_string(), first);
        }
    }

    /// Returns are also parts of items, and those before line feeds are taken off with them.
    #[test]
    fn lines_that_end_with_a_return_alone_are_refused() {
        for (list, is_taken) in [
            (&b"one\rtwo\rthree"[..], false),
            (b"one\rtwo\r", false),
            (b"one\r\ntwo\r\n", true),
            (b"one\r", true),
            (b"o\rne\ntwo\n", true),
            (b"", true),
        ] {
            assert_eq!(require_line_feeds(list).is_ok(), is_taken, "{list:?}");
        }
    }

    #[test]
    fn bytes_after_a_gzip_file_are_named() {
        let list = gzip(b"one\n");
        let twice = [&list[..], &gzip(b"two\n")].concat();
        assert_eq!(read(&twice, true).as_deref(), Ok(&b"one\ntwo\n"[..]));
        for rest in [&b"x"[..], b"\n", b"two\n", &[0; 512]] {
            let found = Opened::new(Trickle(&[&list[..], rest].concat()), true)
                .and_then(|mut opened| opened.from.read_to_end(&mut Vec::new()));
            assert_eq!(
                found.map_err(|error| error.to_string()),
                Err(TRAILING_BYTES.to_owned())
            );
        }
    }

    #[test]
    fn a_byte_order_mark_is_dropped() {
        let marked = b"\xef\xbb\xbfone\n";
        for bytes in [marked.to_vec(), gzip(marked), zstd(marked)] {
            assert_eq!(read(&bytes, true).as_deref(), Ok(&b"one\n"[..]));
        }
        assert_eq!(read(marked, false).as_deref(), Ok(&marked[..]));
        assert_eq!(read(BOM, true).as_deref(), Ok(&b""[..]));
    }

    /// The first bytes of files that these programs wrote: xz, bzip2, zip, lz4, tar, pyarrow, sqlite3.
    #[test]
    fn files_that_are_not_lists_are_refused_compressed_or_not() {
        let tar = [&[b'a'; 257][..], b"ustar\x0000"].concat();
        for (bytes, form) in [
            (&b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46"[..], "xz: decompress"),
            (b"BZh91AY&SY\x7a\x2d", "bzip2: decompress"),
            (b"BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0", "bzip2: decompress"),
            (b"\x04\x22\x4d\x18\x64\x40\xa7", "lz4: decompress"),
            (b"PK\x03\x04\x14\0\0\0\x08\0", "zip: extract"),
            (&tar, "tar: extract"),
            (b"PAR1\x15\x04\x15\x20", "Parquet: convert"),
            (b"ARROW1\0\0\xff\xff\xff\xff", "Arrow: convert"),
            (b"SQLite format 3\0\x10\0", "SQLite: convert"),
        ] {
            for is_text in [true, false] {
                for bytes in [bytes, &gzip(bytes), &zstd(bytes)] {
                    let why = read(bytes, is_text).expect_err(form);
                    assert!(why.starts_with(&format!("it looks like {form}")), "{why}");
                }
            }
        }
        let why = read(&gzip(&gzip(b"one\n")), true).expect_err("compressed twice");
        assert_eq!(why, "it looks like gzip: decompress it first");
        // Items of any bytes may begin like a text in UTF-16, and hold zero bytes.
        for (bytes, text) in [
            (&b"\xff\xfeo\0n\0e\0"[..], "it looks like UTF-16: "),
            (b"\xfe\xff\0o\0n\0e", "it looks like UTF-16: "),
            (b"\xff\xfe\0\0o\0\0\0", "it looks like UTF-32: "),
            (b"o\0n\0e\0\n\0", "it looks like UTF-16LE: "),
            (b"o\0\xac\x20n\0e\0\n\0", "it looks like UTF-16LE: "),
            (b"\0o\0n\0e\0\n", "it looks like UTF-16BE: "),
            (b"o\0\0\0n\0\0\0", "it looks like UTF-32LE: "),
            (b"\0\0\0o\0\0\0n", "it looks like UTF-32BE: "),
            (b"one\0two\0", "it holds zero bytes, "),
            (b"\0", "it holds zero bytes, "),
        ] {
            let why = read(bytes, true).expect_err(text);
            assert!(why.starts_with(text), "{why}");
            let is_marked = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
            assert_eq!(why.ends_with("add --zero"), !is_marked, "{why}");
            assert_eq!(read(bytes, false).as_deref(), Ok(bytes));
        }
    }
}
