//! The bounds of replies, and a parser that follows replies just far enough to hold them to these bounds.
//!
//! These count: the bytes of lines and of texts, the elements of lists and maps at all depths, and the bytes of each line
//! by itself.
//!
//! The client library also reads lengths with signs and spaces, and lines with a bare `\n`. No server sends them, so the
//! parser fails at them: both always agree on where a reply ends.

use std::io;

/// The most bytes of all lines and texts of a reply. A DUMP may have more, but few servers take even half of it back: a
/// RESTORE ends at `proto-max-bulk-len`.
const REPLY_BYTES: u64 = 1 << 30;
/// The most elements of a reply, those of lists in lists included: a Top-K's list may have millions.
const ELEMENTS: u64 = 1 << 23;
/// The most bytes of a line, such as an error.
const LINE_BYTES: usize = 1 << 20;

/// The error of a reply that exceeds a bound. It ends the connection.
pub const EXCEEDED: &str = "a reply is larger than this program takes";
/// The error of a reply that the client library may read in another way.
pub const MALFORMED: &str = "a reply has a malformed length or end of line";

/// The position in the replies of a server. For example, in a list of `1` and a list of `a` and `b`:
///
/// | after | at | owed | elements |
/// |---|---|---|---|
/// | | a line | 1, the outer list | 0 |
/// | `*2\r\n` | a line | 2 | 2 |
/// | `:1\r\n` | a line | 1, the inner list | 2 |
/// | `*2\r\n` | a line | 2 | 4 |
/// | `$1\r\n` | a text of 3 bytes | 2 | 4 |
/// | `a\r\n` | a line | 1 | 4 |
/// | `$1\r\nb\r\n` | a line | 1, the next reply | 0 |
pub struct Replies {
    at: At,
    /// The elements that are still to come, the reply itself included.
    owed: u64,
    /// The elements of the present reply, and the bytes of its lines and texts.
    elements: u64,
    bytes: u64,
}

enum At {
    /// In a line, with its bytes so far.
    Line(Vec<u8>),
    /// In a text, with this number of bytes to come, its end included.
    Text(u64),
}

impl Replies {
    /// The position before a reply.
    pub const START: Self = Self {
        at: At::Line(Vec::new()),
        owed: 1,
        elements: 0,
        bytes: 0,
    };

    /// Follows the next bytes of the stream.
    ///
    /// # Errors
    /// The reply exceeds a bound, or is malformed.
    pub fn follow(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match &mut self.at {
                At::Text(rest) => {
                    let skipped =
                        usize::try_from(*rest).map_or(bytes.len(), |n| n.min(bytes.len()));
                    bytes = &bytes[skipped..];
                    *rest -= skipped as u64;
                    if *rest == 0 {
                        self.end_element();
                    }
                }
                At::Line(line) => {
                    let end = memchr::memchr(b'\n', bytes);
                    let taken = end.map_or(bytes.len(), |end| end + 1);
                    line.extend_from_slice(&bytes[..taken]);
                    bytes = &bytes[taken..];
                    require(line.len() <= LINE_BYTES, EXCEEDED)?;
                    if end.is_some() {
                        let line = std::mem::take(line);
                        self.take_line(&line)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes a line, which is an element, or begins a text or a list.
    fn take_line(&mut self, line: &[u8]) -> io::Result<()> {
        let [kind, rest @ ..] = line else {
            return Ok(());
        };
        if !b"+-:_,#($=!*~>%|".contains(kind) {
            // The client library fails at other types, with an error that shows what the peer is. It reads no further.
            self.at = At::Text(u64::MAX);
            return Ok(());
        }
        let rest = rest.strip_suffix(b"\r\n");
        let rest = rest.ok_or_else(|| invalid(MALFORMED))?;
        self.bytes = self.bytes.saturating_add(line.len() as u64);
        match kind {
            b'$' | b'*' if rest == b"-1" => {}
            b'$' | b'=' | b'!' => {
                let length = length(rest)?;
                self.bytes = self.bytes.saturating_add(length);
                self.at = At::Text(length.saturating_add(2));
            }
            b'*' | b'~' | b'>' => self.owe(length(rest)?),
            b'%' => self.owe(length(rest)?.saturating_mul(2)),
            // An attribute precedes the element that it is of.
            b'|' => self.owe(length(rest)?.saturating_mul(2).saturating_add(1)),
            _ => {}
        }
        let is_bounded = self.bytes <= REPLY_BYTES && self.elements <= ELEMENTS;
        require(is_bounded, EXCEEDED)?;
        if matches!(self.at, At::Line(_)) {
            self.end_element();
        }
        Ok(())
    }

    fn owe(&mut self, elements: u64) {
        self.owed = self.owed.saturating_add(elements);
        self.elements = self.elements.saturating_add(elements);
    }

    fn end_element(&mut self) {
        self.at = At::Line(Vec::new());
        self.owed -= 1;
        if self.owed == 0 {
            *self = Self::START;
        }
    }
}

/// Reads a length. One above all numbers exceeds the bounds as well.
fn length(digits: &[u8]) -> io::Result<u64> {
    let is_plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    require(is_plain, MALFORMED)?;
    let digits = digits.iter().map(|digit| u64::from(digit - b'0'));
    Ok(digits.fold(0, |n: u64, digit| {
        n.saturating_mul(10).saturating_add(digit)
    }))
}

fn require(is_right: bool, why: &'static str) -> io::Result<()> {
    is_right.then_some(()).ok_or_else(|| invalid(why))
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows replies in pieces of this length.
    fn is_bounded(replies: &[u8], length: usize) -> bool {
        let mut all = Replies::START;
        replies
            .chunks(length)
            .all(|piece| all.follow(piece).is_ok())
    }

    #[test]
    fn replies_are_followed_however_their_bytes_come() {
        let replies = b"+OK\r\n$-1\r\n$5\r\n123\r\n\r\n*2\r\n:1\r\n%1\r\n$1\r\na\r\n*0\r\n|1\r\n+a\r\n+b\r\n,1.5\r\n*-1\r\n_\r\n-ERR no\r\n";
        for length in 1..replies.len() {
            let mut all = Replies::START;
            for piece in replies.chunks(length) {
                all.follow(piece).expect("it is bounded");
            }
            let is_start = matches!(&all.at, At::Line(line) if line.is_empty());
            assert!(is_start && all.owed == 1 && all.elements == 0, "{length}");
        }
    }

    #[test]
    fn no_reply_may_announce_more_than_its_bounds() {
        let long = "x".repeat(LINE_BYTES + 1);
        let lists = "*4000\r\n".repeat(3000);
        let line = "$1073741811\r\n".len() as u64;
        let text = |line| format!("${}\r\n", REPLY_BYTES - line);
        let texts = format!("*3\r\n$0\r\n\r\n{}", text(line + 8));
        for (reply, expected) in [
            ("$400000000000\r\n", false),
            ("*2000000000\r\n", false),
            ("%5000000\r\n", false),
            ("*99999999999999999999\r\n", false),
            ("*8388608\r\n", true),
            (&text(line), true),
            (&text(line - 1), false),
            ("*2\r\n*8388607\r\n", false),
            (&lists, false),
            (&texts, true),
            (&format!("*2\r\n$1\r\na\r\n{}", text(line)), false),
            (&long, false),
        ] {
            for length in [1, 7, 1 << 20] {
                let shown = &reply[..reply.len().min(40)];
                assert_eq!(is_bounded(reply.as_bytes(), length), expected, "{shown}");
            }
        }
        // Lines without a length count as well.
        for line in ["+1\r\n", "-1\r\n", ":1\r\n", ",1\r\n", "(1\r\n"] {
            let mut all = Replies::START;
            all.follow(b"*3\r\n").expect("it is bounded");
            all.bytes = REPLY_BYTES - line.len() as u64;
            all.follow(line.as_bytes()).expect("it is bounded");
            all.follow(line.as_bytes()).expect_err("it is too long");
        }
        // The bounds are those of one reply.
        let mut all = Replies::START;
        all.follow(b"*8000000\r\n").expect("it is bounded");
        all.owed = 1;
        all.follow(b":1\r\n*8000000\r\n").expect("it is bounded");
    }

    /// The client library trims lengths, takes negative ones for null, and goes on at a bare `\n`.
    #[test]
    fn malformed_replies_are_refused() {
        for reply in [
            "$\x0b400\r\n",
            "$ 4\r\n",
            "$+4\r\n",
            "$-0\r\n",
            "$-2\r\n",
            "$-01\r\n",
            "$\r\n",
            "$?\r\n",
            "*\u{2003}4\r\n",
            "*-2\r\n",
            "!-1\r\n",
            "=-1\r\n",
            "~-1\r\n",
            ">-1\r\n",
            "%-1\r\n",
            "|-1\r\n",
            "$4\n",
            "+a\nb\r\n",
            ":1\n",
        ] {
            for length in [1, 100] {
                assert!(!is_bounded(reply.as_bytes(), length), "{reply:?}");
            }
        }
    }

    /// Its error names their first byte, from which the programs conclude what they are.
    #[test]
    fn peers_that_are_no_servers_are_left_to_the_client_library() {
        for reply in [
            "\x15\x03\x03\0\x02\x02\n",
            "HTTP/1.1 400 Bad Request\r\n\r\n<p>\n- no\n",
        ] {
            assert!(is_bounded(reply.as_bytes(), 1), "{reply:?}");
        }
    }
}
