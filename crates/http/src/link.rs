//! The connection to the server. A lost connection is made again by the next call.

use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, Pipeline,
    RedisResult, TlsCertificates, Value,
};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use valkeybloom_near::address;

use crate::fault::text_of;
use crate::log;
use crate::options::Options;

/// The time after which a connection is tried before it is used: the server may have closed it.
const IDLE: Duration = Duration::from_secs(1);

/// A connection to the server, which may be down.
pub struct Link {
    client: Client,
    /// The server's address, without a password.
    address: String,
    /// The timeout of a connection attempt and of a reply.
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
        let address = options.server.as_str();
        let info = if address::is_path(address) {
            ConnectionAddr::Unix(address.into())
                .into_connection_info()
                .ok()
        } else {
            address::checked_url(address).and_then(|url| url.into_connection_info().ok())
        };
        // The client library's message would show the password.
        let info = info.ok_or(
            "not a server address: write redis://user:password@host:port/database, or the path of a socket",
        )?;
        let shown = match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                address::host_and_port(host, *port)
            }
            socket => socket.to_string(),
        };
        let client = if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            Client::build_with_tls(info, certificates(options)?)?
        } else if options.cacert.is_some() || options.cert.is_some() || options.cert_key.is_some() {
            return Err(
                "certificates are for TLS: the server's address begins with rediss://".into(),
            );
        } else {
            Client::open(info)?
        };
        Ok(Self {
            client,
            address: shown,
            timeout: options.server_timeout,
            connection: None,
            used: Instant::now(),
            is_down: false,
        })
    }

    /// Returns the server's address, without a password.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends commands, and returns their replies. A reply may be an error.
    ///
    /// # Errors
    /// The server is down, does not answer in time, or refuses user and password.
    pub async fn send(&mut self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        let sent = self.try_to_send(commands).await;
        if let Err(error) = &sent {
            self.connection = None;
            if !self.is_down {
                let why = text_of(error);
                log::line(format_args!("no connection to {}: {why}", self.address));
            }
        } else if self.is_down {
            log::line(format_args!("connected to {} again", self.address));
        }
        self.is_down = sent.is_err();
        self.used = Instant::now();
        sent
    }

    async fn try_to_send(&mut self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        if self.used.elapsed() > IDLE
            && let Some(connection) = &mut self.connection
        {
            let ping = redis::pipe().cmd("PING").clone();
            if connection.send_packed_commands(&ping, 0, 1).await.is_err() {
                self.connection = None;
            }
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(self.timeout))
                    .set_response_timeout(Some(self.timeout));
                let client = &self.client;
                let connecting = client.get_multiplexed_async_connection_with_config(&config);
                none.insert(connecting.await?)
            }
        };
        let count = commands.len();
        connection.send_packed_commands(commands, 0, count).await
    }
}

/// Reads the files for TLS, and requires that they can be used.
fn certificates(options: &Options) -> Result<TlsCertificates, Box<dyn Error>> {
    let rules = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
    let root_cert = options.cacert.as_deref().map(read).transpose()?;
    if let (Some(path), Some(pem)) = (&options.cacert, &root_cert) {
        chain(path, pem)?;
    }
    let client_tls = match (&options.cert, &options.cert_key) {
        (Some(cert), Some(key)) => {
            let client_cert = read(cert)?;
            let client_key = read(key)?;
            let secret =
                PrivateKeyDer::from_pem_slice(&client_key).map_err(|error| match error {
                    pem::Error::NoItemsFound => at(
                        key,
                        "it holds no private key in PEM, or one with a password",
                    ),
                    error => at(key, error),
                })?;
            let usable = rules.with_client_auth_cert(chain(cert, &client_cert)?, secret);
            usable.map_err(|error| at(cert, error))?;
            Some(ClientTlsConfig {
                client_cert,
                client_key,
            })
        }
        (None, None) => None,
        _ => return Err("cert and cert-key belong together: give both or none".into()),
    };
    Ok(TlsCertificates {
        client_tls,
        root_cert,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| at(path, error))
}

/// Returns the certificates in a file, of which there is at least one.
fn chain(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| at(path, error))?;
    if read.is_empty() {
        return Err(at(path, "it holds no certificate in PEM"));
    }
    Ok(read)
}

fn at(path: &Path, why: impl Display) -> String {
    format!("{}: {why}", path.display())
}
