//! The connection to the server. A lost connection is made again by the next call.

use std::error::Error;
use std::io;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Pipeline, RedisResult, Value};
use tokio::time::{Instant, timeout};
use valkeybloom_connect::{Address, Connector};
use valkeybloom_near::conversation;

use crate::log;
use crate::options::Options;

/// The time after which a connection is tried before it is used: the server may have closed it.
const IDLE: Duration = Duration::from_secs(1);

/// A connection to the server, which may be down.
pub struct Link {
    address: Address,
    tls: Option<Connector>,
    /// The timeout of a call, from the connection attempt to the last reply.
    timeout: Duration,
    connection: Option<MultiplexedConnection>,
    used: Instant,
    /// Whether the last call failed, so that only changes are logged.
    is_down: bool,
}

impl Link {
    /// Prepares a connection, without making it.
    ///
    /// # Errors
    /// The address is invalid, or a certificate can't be used.
    pub fn new(options: &Options) -> Result<Self, Box<dyn Error>> {
        let address = Address::parse(&options.server)?;
        options.tls.check([&address])?;
        let tls = options.tls.connector(&address)?;
        Ok(Self {
            address,
            tls,
            timeout: options.server_timeout,
            connection: None,
            used: Instant::now(),
            is_down: false,
        })
    }

    /// Returns the server's address.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Sends commands, and returns their replies. A reply may be an error.
    ///
    /// # Errors
    /// The server is down, does not answer in time, or refuses user and password.
    pub async fn send(&mut self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        let sent = timeout(self.timeout, self.try_to_send(commands)).await;
        let sent = sent.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()));
        if let Err(error) = &sent {
            self.connection = None;
            if !self.is_down {
                let error = error.to_string();
                let why = conversation::without_page(&error);
                log::line(format_args!("could not talk to {}: {why}", self.address));
            }
        } else if self.is_down {
            log::line(format_args!("connected to {} again", self.address));
        }
        self.is_down = sent.is_err();
        self.used = Instant::now();
        sent
    }

    /// Sends commands, after connecting if there is no connection. [`send`](Self::send) limits the time.
    async fn try_to_send(&mut self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        if self.used.elapsed() > IDLE
            && let Some(connection) = &mut self.connection
        {
            let ping = redis::pipe().cmd("PING").clone();
            // A firewall may have dropped the connection without a word, so there has to be time for another one.
            let replied = timeout(
                self.timeout / 2,
                connection.send_packed_commands(&ping, 0, 1),
            );
            if !matches!(replied.await, Ok(Ok(_))) {
                self.connection = None;
            }
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                // A server that does not speak TLS may wait for more, and there has to be time to say so.
                let limit = self.timeout / 2;
                none.insert(connect(&self.address, self.tls.as_ref(), limit).await?)
            }
        };
        let count = commands.len();
        connection.send_packed_commands(commands, 0, count).await
    }
}

/// Connects to a server. TCP and TLS may take `limit` each; the caller limits all steps together.
async fn connect(
    address: &Address,
    tls: Option<&Connector>,
    limit: Duration,
) -> RedisResult<MultiplexedConnection> {
    let opened = valkeybloom_connect::open(address, tls, limit).await;
    let stream = opened.map_err(io::Error::from)?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let settings = address.info().redis_settings();
    let (connection, driver) =
        MultiplexedConnection::new_with_config(settings, stream, config).await?;
    tokio::spawn(driver);
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use clap::Parser;
    use tokio::io::Interest;
    use tokio::net::TcpListener;

    use super::*;

    /// The PING, another connection and the reply have one timeout together.
    #[tokio::test]
    async fn a_server_that_hangs_after_a_pause_takes_one_timeout() {
        let server = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = server.local_addr().expect("it listens").to_string();
        let mut link =
            Link::new(&Options::parse_from(["", "--server", &address])).expect("an address");
        let mut command = redis::pipe();
        command.cmd("BF.MEXISTS");
        let hung = async {
            let (stream, _) = server.accept().await.expect("a client");
            for reply in ["+OK\r\n+OK\r\n", "*0\r\n"] {
                let mut bytes = [0; 4096];
                let read = stream.async_io(Interest::READABLE, || stream.try_read(&mut bytes));
                read.await.expect("the client sends");
                stream.try_write(reply.as_bytes()).expect("it fits");
            }
            stream
        };
        let (first, _stream) = tokio::join!(link.send(&command), hung);
        first.expect("the server replied");

        tokio::time::pause();
        tokio::time::advance(2 * IDLE).await;
        // Timers round up to the next millisecond.
        let patience = link.timeout + Duration::from_millis(1);
        let mut sent = pin!(link.send(&command));
        let mut context = Context::from_waker(Waker::noop());
        assert!(sent.as_mut().poll(&mut context).is_pending());
        tokio::time::advance(patience).await;
        let Poll::Ready(Err(error)) = sent.as_mut().poll(&mut context) else {
            panic!("it waits for longer");
        };
        assert!(error.is_timeout(), "{error}");
    }
}
