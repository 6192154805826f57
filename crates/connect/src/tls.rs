//! TLS, for addresses with `rediss://`: its options and their files, connections, and what to do about errors.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redis::{ClientTlsConfig, TlsCertificates};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, Error};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use webpki::Error::{CaUsedAsEndEntity, UnsupportedCertVersion};

use crate::verifier::{Verifier, provider, webpki_error};
use crate::{Address, IS_IT_UP, Unreachable};

/// What to do about a certificate of version 1. OpenSSL makes one from a request without a file of extensions.
const MAKE_VERSION_3: &str = "make it with extensions, such as subjectAltName";

/// The options for TLS, which an address with `rediss://` requests.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
pub struct Tls {
    /// Certificates to trust instead of those of the system's authorities, in PEM: an authority's, or the server's own
    #[arg(long, global = true, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Certificate to show to the server, in PEM
    #[arg(long, global = true, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Key of that certificate, in PEM
    #[arg(long, global = true, value_name = "FILE")]
    cert_key: Option<PathBuf>,
}

impl Tls {
    /// Checks the options against the addresses of a command line.
    ///
    /// # Errors
    /// There are options, but none of the addresses has TLS; or only one of a certificate and its key is named.
    pub fn check<'a>(
        &self,
        addresses: impl IntoIterator<Item = &'a Address>,
    ) -> Result<(), &'static str> {
        if self.cert.is_some() != self.cert_key.is_some() {
            return Err("a certificate and its key belong together: name both or none");
        }
        let is_given = self.cacert.is_some() || self.cert.is_some();
        if is_given && !addresses.into_iter().any(Address::has_tls) {
            return Err("certificates are for TLS: the server's address begins with rediss://");
        }
        Ok(())
    }

    /// Reads the files, and returns what connects to an address; `None` for an address without TLS.
    ///
    /// # Errors
    /// A file can't be used, and why.
    pub fn connector(&self, address: &Address) -> Result<Option<Connector>, String> {
        if !address.has_tls() {
            return Ok(None);
        }
        let (verifier, root_cert) = match &self.cacert {
            Some(path) => {
                let pem = read(path)?;
                let verifier = Verifier::trusting(certificates_in(path, &pem)?);
                let verifier = verifier.map_err(|error| unusable(path.display(), error))?;
                (verifier, Some(pem))
            }
            None => (system_verifier()?, None),
        };
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let (config, client_tls) = match (&self.cert, &self.cert_key) {
            (Some(cert), Some(key)) => {
                let (identity, files) = identity(cert, key)?;
                let always = Arc::new(SingleCertAndKey::from(identity));
                (config.with_client_cert_resolver(always), Some(files))
            }
            _ => (config.with_no_client_auth(), None),
        };
        Ok(Some(Connector {
            tls: Arc::new(config).into(),
            certificates: TlsCertificates {
                client_tls,
                root_cert,
            },
        }))
    }
}

fn system_verifier() -> Result<Verifier, String> {
    let found = rustls_native_certs::load_native_certs();
    Verifier::trusting(found.certs).map_err(|error| {
        let why = found.errors.first();
        let why = why.map_or_else(|| error.to_string(), ToString::to_string);
        unusable("the system's certificates", why)
    })
}

/// Reads a certificate to show and its key. Returns them, and the contents of their files.
fn identity(cert: &Path, key: &Path) -> Result<(CertifiedKey, ClientTlsConfig), String> {
    let (client_cert, client_key) = (read(cert)?, read(key)?);
    let chain = certificates_in(cert, &client_cert)?;
    let no_secret = "it holds no private key in PEM, or one with a password";
    let secret = PrivateKeyDer::from_pem_slice(&client_key).map_err(|error| match error {
        pem::Error::NoItemsFound => unusable(key.display(), no_secret),
        error => unusable(key.display(), error),
    })?;
    let identity = CertifiedKey::from_der(chain, secret, &provider());
    let identity = identity.map_err(|error| match error {
        Error::InvalidCertificate(error)
            if webpki_error(&error) == Some(&UnsupportedCertVersion) =>
        {
            let why = format!("it is of version 1: {MAKE_VERSION_3}");
            unusable(cert.display(), why)
        }
        error => unusable(cert.display(), error),
    })?;
    let files = ClientTlsConfig {
        client_cert,
        client_key,
    };
    Ok((identity, files))
}

/// Begins TLS on connections, with the certificates of the options.
#[derive(Clone)]
pub struct Connector {
    tls: TlsConnector,
    certificates: TlsCertificates,
}

impl Connector {
    /// Returns the contents of the files, for connections of the client library.
    #[must_use]
    pub const fn certificates(&self) -> &TlsCertificates {
        &self.certificates
    }

    /// Begins TLS on a connection to a host.
    pub(crate) async fn connect(
        &self,
        socket: TcpStream,
        host: &str,
        limit: Duration,
    ) -> Result<TlsStream<TcpStream>, Unreachable> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| Unreachable::new(io::Error::other(error), IS_IT_UP))?;
        // A server that does not speak TLS may wait for more.
        let stream = timeout(limit, self.tls.connect(name, socket)).await;
        let stream = stream.map_err(io::Error::from).flatten();
        stream.map_err(|error| {
            let advice = advice_on(&error);
            Unreachable::new(error, advice)
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| unusable(path.display(), error))
}

/// Returns the certificates in a file, which has to hold at least one.
fn certificates_in(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| unusable(path.display(), error))?;
    if read.is_empty() {
        return Err(unusable(path.display(), "it holds no certificate in PEM"));
    }
    Ok(read)
}

fn unusable(source: impl fmt::Display, why: impl fmt::Display) -> String {
    format!("{source}: {why}")
}

/// Returns what to do about an error by its text, which is all that the client library passes on: about one by which a server
/// that speaks TLS refuses a client, or the certificate of a cluster's node. Returns `None` for other errors.
#[must_use]
pub fn advice_on_text(text: &str) -> Option<&'static str> {
    if text.contains("CaUsedAsEndEntity") {
        return Some("make the certificates of a cluster with basicConstraints=CA:FALSE");
    }
    let (_, alert) = text.split_once("received fatal alert: ")?;
    Some(match alert {
        "CertificateRequired" | "HandshakeFailure" => {
            "if the server wants a client's certificate, name it with --cert and --cert-key"
        }
        _ if alert.contains("Certificate") || alert == "UnknownCA" => {
            "check the certificate of --cert"
        }
        _ => "check what the server requires of TLS",
    })
}

/// Returns what to do about a failure to begin TLS.
fn advice_on(error: &io::Error) -> &'static str {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(Error::InvalidCertificate(certificate)) = inner else {
        return advice_on_text(&error.to_string())
            .unwrap_or("if that port does not speak TLS, write redis:// instead of rediss://");
    };
    match (certificate, webpki_error(certificate)) {
        (_, Some(UnsupportedCertVersion)) => MAKE_VERSION_3,
        // A bad signature is that of a trusted name with another key.
        (CertificateError::UnknownIssuer | CertificateError::BadSignature, _)
        | (_, Some(CaUsedAsEndEntity)) => {
            "name the issuer's certificate, or a self-signed one itself, with --cacert"
        }
        _ => "check the server's certificate",
    }
}
