//! How the programs reach a server: its [`Address`], the options of [`Tls`], and a stream whose replies are
//! [`Bounded`].
//!
//! A program parses the address, reads the files for TLS, and calls [`open`]. What it does on the stream is its own.

mod address;
mod bounded;
mod redaction;
mod replies;
mod tls;
mod verifier;

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

pub use address::{Address, NotAnAddress, Place};
pub use bounded::Bounded;
pub use redaction::without_passwords;
pub use replies::{EXCEEDED, MALFORMED};
pub use tls::{Connector, Tls, advice_on_text};

/// What to check after a failure to connect.
pub const IS_IT_UP: &str = "is that its address, and is it up?";

/// Opens a stream to a server, by TLS if there is a connector for it. TCP and TLS may take `limit` each.
///
/// # Errors
/// The server is not there, or the two do not agree on TLS.
pub async fn open(
    address: &Address,
    connector: Option<&Connector>,
    limit: Duration,
) -> Result<Bounded, Unreachable> {
    let down = |error| Unreachable::new(error, IS_IT_UP);
    match address.place() {
        Place::Socket(path) => {
            let socket = timeout(limit, UnixStream::connect(path)).await;
            let socket = socket.map_err(io::Error::from).flatten();
            socket.map(Bounded::new).map_err(down)
        }
        Place::Port { host, port, .. } => {
            let connecting = TcpStream::connect((host.as_str(), *port));
            let socket = timeout(limit, connecting).await;
            let socket = socket.map_err(io::Error::from).flatten().map_err(down)?;
            socket.set_nodelay(true).map_err(down)?;
            match connector {
                None => Ok(Bounded::new(socket)),
                Some(tls) => Ok(Bounded::new(tls.connect(socket, host, limit).await?)),
            }
        }
    }
}

/// Why no stream was opened, and what to do about it.
#[derive(Debug)]
pub struct Unreachable {
    error: io::Error,
    advice: &'static str,
}

impl Unreachable {
    const fn new(error: io::Error, advice: &'static str) -> Self {
        Self { error, advice }
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.error, self.advice)
    }
}

impl From<Unreachable> for io::Error {
    fn from(why: Unreachable) -> Self {
        Self::new(why.error.kind(), why.to_string())
    }
}
