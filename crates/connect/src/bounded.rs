//! A stream from a server that is not trusted with the program's memory.
//!
//! The client library keeps what has come of a reply until it is whole, whatever length the reply announces. So the stream
//! fails at a reply that announces, or has, more than any reply that the programs ask for.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes of all texts of a reply. A server's DUMP ends at half of it.
const TEXT_BYTES: u64 = 1 << 30;
/// The most elements of a reply, those of lists in lists included: a Top-K's list may have millions.
const ELEMENTS: u64 = 1 << 23;
/// The most bytes of a line, such as an error.
const LINE_BYTES: usize = 1 << 20;

/// The error of a reply that exceeds a bound.
pub const EXCEEDED: &str = "a reply is larger than any that this program asks for";

/// What [`Bounded`] needs of a stream.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A stream whose replies are bounded.
pub struct Bounded {
    stream: Box<dyn Stream>,
    replies: Replies,
}

impl Bounded {
    /// Bounds the replies of a stream.
    pub fn new(stream: impl Stream + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            replies: Replies::START,
        }
    }
}

/// The position in the replies of a server.
struct Replies {
    at: At,
    /// The elements that are still to come, the reply itself included.
    owed: u64,
    /// The elements of the present reply, and the bytes of its texts.
    elements: u64,
    text_bytes: u64,
}

enum At {
    /// In a line, with its bytes so far.
    Line(Vec<u8>),
    /// In a text, with this number of bytes to come, its end included.
    Text(u64),
}

impl Replies {
    /// The position before a reply.
    const START: Self = Self {
        at: At::Line(Vec::new()),
        owed: 1,
        elements: 0,
        text_bytes: 0,
    };

    /// Follows the next bytes of the stream. Malformed replies are left to the client library.
    ///
    /// # Errors
    /// The reply exceeds a bound.
    fn follow(&mut self, mut bytes: &[u8]) -> io::Result<()> {
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
                    require(line.len() <= LINE_BYTES)?;
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
        // Null, and texts of unknown length, have none that is announced.
        let number = str::from_utf8(rest.trim_ascii()).ok();
        let number: u64 = number.and_then(|text| text.parse().ok()).unwrap_or(0);
        let is_null = rest.starts_with(b"-");
        match kind {
            b'$' | b'=' | b'!' if !is_null => {
                self.text_bytes = self.text_bytes.saturating_add(number);
                self.at = At::Text(number.saturating_add(2));
                return require(self.text_bytes <= TEXT_BYTES);
            }
            b'*' | b'~' | b'>' => self.owe(number),
            b'%' => self.owe(number.saturating_mul(2)),
            // An attribute precedes the element that it is of.
            b'|' => self.owe(number.saturating_mul(2).saturating_add(1)),
            _ => {}
        }
        self.end_element();
        require(self.elements <= ELEMENTS)
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

fn require(is_bounded: bool) -> io::Result<()> {
    let exceeded = || io::Error::new(io::ErrorKind::InvalidData, EXCEEDED);
    is_bounded.then_some(()).ok_or_else(exceeded)
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        Poll::Ready(self.replies.follow(&into.filled()[before..]))
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
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
        let replies = b"+OK\r\n$-1\r\n$5\r\n$9\r\n*\r\n*2\r\n:1\r\n%1\r\n$1\r\na\r\n*0\r\n|1\r\n+a\r\n+b\r\n,1.5\r\n*-1\r\n_\r\n-ERR no\r\n";
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
        let texts = format!("*3\r\n$0\r\n\r\n${TEXT_BYTES}\r\n");
        for (reply, expected) in [
            ("$400000000000\r\n", false),
            ("*2000000000\r\n", false),
            ("%5000000\r\n", false),
            ("*99999999999999999999\r\n", true),
            ("*8388608\r\n", true),
            ("$1073741824\r\n", true),
            ("*2\r\n*8388607\r\n", false),
            (&lists, false),
            (&texts, true),
            (&format!("*2\r\n$1\r\na\r\n${TEXT_BYTES}\r\n"), false),
            (&long, false),
        ] {
            for length in [1, 7, 1 << 20] {
                let shown = &reply[..reply.len().min(40)];
                assert_eq!(is_bounded(reply.as_bytes(), length), expected, "{shown}");
            }
        }
        // The bounds are those of one reply.
        let mut all = Replies::START;
        all.follow(b"*8000000\r\n").expect("it is bounded");
        all.owed = 1;
        all.follow(b":1\r\n*8000000\r\n").expect("it is bounded");
    }
}
