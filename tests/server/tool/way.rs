//! Ways to a server, on which what a program sends can be seen, delayed, and cut off.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::harness::Server;

/// A way to a server on which something happens once, at a moment: what comes then does not arrive until that is
/// done.
pub struct Way {
    port: u16,
}

impl Way {
    /// Returns the moment at which this many bytes have gone there.
    pub fn new(server: &Server, bytes: usize, then: impl FnOnce() + Send + 'static) -> Self {
        let mut gone = 0;
        let moment = move |sent: &[u8]| {
            gone += sent.len();
            gone >= bytes
        };
        Self::at(server, moment, then)
    }

    /// Returns the moment just before a command with this word arrives for the nth time, from 1.
    pub fn before(
        server: &Server,
        word: &'static str,
        nth: usize,
        then: impl FnOnce() + Send + 'static,
    ) -> Self {
        let mut times = 0;
        let moment = move |sent: &[u8]| {
            times += usize::from(has_word(sent, word));
            times >= nth
        };
        Self::at(server, moment, then)
    }

    pub fn at(
        server: &Server,
        mut moment: impl FnMut(&[u8]) -> bool + Send + 'static,
        then: impl FnOnce() + Send + 'static,
    ) -> Self {
        let mut then = Some(then);
        Self::watched(server, move |sent| {
            if then.is_some()
                && moment(sent)
                && let Some(then) = then.take()
            {
                then();
            }
        })
    }

    /// Calls `see` with each piece that is sent on any connection, before it arrives.
    pub fn watched(server: &Server, mut see: impl FnMut(&[u8]) + Send + 'static) -> Self {
        Self::passing(server, move |to, sent| {
            see(sent);
            to.write_all(sent).is_ok()
        })
    }

    /// Returns a way on which something happens after this number of bytes. Nothing arrives after them, unless that returns
    /// true.
    pub fn of(server: &Server, bytes: usize, then: impl FnOnce() -> bool + Send + 'static) -> Self {
        let (mut left, mut then) = (bytes, Some(then));
        Self::passing(server, move |to, sent| {
            let passed = sent.len().min(left);
            left -= passed;
            let _ = to.write_all(&sent[..passed]);
            if left > 0 {
                return true;
            }
            if !then.take().is_some_and(|then| then()) {
                return false;
            }
            left = usize::MAX;
            to.write_all(&sent[passed..]).is_ok()
        })
    }

    /// Calls `pass` with each piece that is sent, and the connection to the server, which ends if it returns false. Calls for
    /// several connections do not overlap.
    fn passing(
        server: &Server,
        pass: impl FnMut(&mut TcpStream, &[u8]) -> bool + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let to = server.port();
        let pass = Arc::new(Mutex::new(pass));
        thread::spawn(move || {
            for from in listener.incoming() {
                let mut from = from.expect("the program connects");
                let Ok(mut to) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)) else {
                    continue;
                };
                let (mut near, mut far) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = std::io::copy(&mut far, &mut near);
                    let _ = near.shutdown(Shutdown::Both);
                });
                let pass = pass.clone();
                thread::spawn(move || {
                    let mut buffer = vec![0; 1 << 16];
                    while let Ok(count @ 1..) = from.read(&mut buffer) {
                        if !pass.lock().expect("no panic")(&mut to, &buffer[..count]) {
                            break;
                        }
                    }
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        });
        Self { port }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }
}

/// Returns whether this is a command with a word. A short command, whose reply is awaited before the next, comes in one
/// piece.
pub fn has_word(sent: &[u8], word: &str) -> bool {
    let word = format!("\r\n{word}\r\n").into_bytes();
    sent.windows(word.len()).any(|part| part == word)
}
