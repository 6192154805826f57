//! TLS, for addresses with `rediss://`.
//!
//! The client library accepts only certificates that an authority signed. [`Verifier`] also accepts a server's own that is
//! among the trusted ones, as OpenSSL does. Most that people make for a test are marked as an authority's, so that the client
//! library would refuse them.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use redis::{ClientTlsConfig, TlsCertificates};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::{Address, IS_IT_UP, Unreachable};

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

    /// Reads the files, and returns the rules of connections to an address; `None` for an address without TLS.
    ///
    /// # Errors
    /// A file can't be used, and why.
    pub fn rules(&self, address: &Address) -> Result<Option<Rules>, String> {
        if !address.has_tls() {
            return Ok(None);
        }
        let root_cert = self.cacert.as_deref().map(read).transpose()?;
        let verifier = match (&self.cacert, &root_cert) {
            (Some(path), Some(pem)) => {
                let verifier = Verifier::trusting(certificates(path, pem)?);
                verifier.map_err(|error| unusable(path.display(), error))?
            }
            _ => Verifier::of_system()?,
        };
        let client = match (&self.cert, &self.cert_key) {
            (Some(cert), Some(key)) => Some(identity(cert, key)?),
            _ => None,
        };
        let rules = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let (rules, client_tls) = match client {
            Some((identity, files)) => {
                let always = Arc::new(SingleCertAndKey::from(identity));
                (rules.with_client_cert_resolver(always), Some(files))
            }
            None => (rules.with_no_client_auth(), None),
        };
        Ok(Some(Rules {
            connector: Arc::new(rules).into(),
            certificates: TlsCertificates {
                client_tls,
                root_cert,
            },
        }))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Reads a certificate to show and its key. Returns them, and the contents of their files.
fn identity(cert: &Path, key: &Path) -> Result<(CertifiedKey, ClientTlsConfig), String> {
    let (client_cert, client_key) = (read(cert)?, read(key)?);
    let chain = certificates(cert, &client_cert)?;
    let secret = PrivateKeyDer::from_pem_slice(&client_key).map_err(|error| match error {
        pem::Error::NoItemsFound => unusable(
            key.display(),
            "it holds no private key in PEM, or one with a password",
        ),
        error => unusable(key.display(), error),
    })?;
    let identity = CertifiedKey::from_der(chain, secret, &provider());
    let identity = identity.map_err(|error| match error {
        Error::InvalidCertificate(error) if is_version_1(&error) => {
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

/// The rules of TLS, from files that can be used.
pub struct Rules {
    connector: TlsConnector,
    certificates: TlsCertificates,
}

impl Rules {
    /// Returns the contents of the files, for connections of the client library.
    #[must_use]
    pub const fn certificates(&self) -> &TlsCertificates {
        &self.certificates
    }

    /// Begins TLS on a connection to a host.
    pub(crate) async fn secure(
        &self,
        socket: TcpStream,
        host: &str,
        limit: Duration,
    ) -> Result<TlsStream<TcpStream>, Unreachable> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| Unreachable::new(io::Error::other(error), IS_IT_UP))?;
        // A server that does not speak TLS may wait for more.
        let stream = timeout(limit, self.connector.connect(name, socket)).await;
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
fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
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

/// What to do about a certificate of version 1. OpenSSL makes one from a request without a file of extensions.
const MAKE_VERSION_3: &str = "make it with extensions, such as subjectAltName";

fn is_version_1(error: &CertificateError) -> bool {
    error.to_string().contains("UnsupportedCertVersion")
}

/// Returns what to do about an error by which a server that speaks TLS refuses a client; `None` for other errors.
#[must_use]
pub fn advice_on_alert(text: &str) -> Option<&'static str> {
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
    match inner {
        Some(Error::InvalidCertificate(error)) if is_version_1(error) => MAKE_VERSION_3,
        // A bad signature is that of a trusted name with another key.
        Some(Error::InvalidCertificate(error))
            if matches!(
                error,
                CertificateError::UnknownIssuer | CertificateError::BadSignature
            ) || is_authority(error) =>
        {
            "name the issuer's certificate, or a self-signed one itself, with --cacert"
        }
        Some(Error::InvalidCertificate(_)) => "check the server's certificate",
        _ => advice_on_alert(&error.to_string())
            .unwrap_or("if that port does not speak TLS, write redis:// instead of rediss://"),
    }
}

/// Returns whether this is a server that shows the certificate of an authority, such as `openssl req -x509` makes it.
fn is_authority(error: &CertificateError) -> bool {
    error.to_string().contains("CaUsedAsEndEntity")
}

const fn is_misnamed(error: &CertificateError) -> bool {
    matches!(error, CertificateError::NotValidForNameContext { .. })
}

/// Verifies certificates as the client library does, and takes a server's own that is trusted.
#[derive(Debug)]
struct Verifier {
    authorities: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    fn trusting(trusted: Vec<CertificateDer<'static>>) -> Result<Self, VerifierBuilderError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        let authorities = authorities.build()?;
        Ok(Self {
            authorities,
            trusted,
        })
    }

    fn of_system() -> Result<Self, String> {
        let found = rustls_native_certs::load_native_certs();
        Self::trusting(found.certs).map_err(|error| {
            let why = found.errors.first();
            let why = why.map_or_else(|| error.to_string(), ToString::to_string);
            unusable("the system's certificates", why)
        })
    }
}

/// Requires that a trusted certificate is for a host: by a name that it lists, or if it lists none, by its common name.
fn verify_own_name(own: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    let verified = verify_server_name(&ParsedCertificate::try_from(own)?, name);
    match (&verified, name) {
        (
            Err(Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                presented,
                ..
            })),
            ServerName::DnsName(host),
        ) if presented.is_empty() && has_common_name(own, host.as_ref())? => Ok(()),
        _ => verified,
    }
}

/// Returns whether the subject of a certificate has this common name.
fn has_common_name(own: &CertificateDer<'_>, host: &str) -> Result<bool, Error> {
    /// The identifier of the attribute, in DER.
    const COMMON_NAME: &[u8] = &[6, 3, 0x55, 4, 3];
    let mut store = RootCertStore::empty();
    store.add(own.clone().into_owned())?;
    let subject = &store.roots[0].subject;
    let mut found = memchr::memmem::find_iter(subject, COMMON_NAME);
    Ok(found.any(|at| {
        // The type of the text, its length, and the text.
        let Some([_, length, text @ ..]) = subject.get(at + COMMON_NAME.len()..) else {
            return false;
        };
        let text = text.get(..usize::from(*length));
        text.is_some_and(|text| text.eq_ignore_ascii_case(host.as_bytes()))
    }))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let authorities = &self.authorities;
        match authorities.verify_server_cert(own, others, name, ocsp, now) {
            // It is not expired, which is the first check.
            Err(Error::InvalidCertificate(error))
                if self.trusted.contains(own) && (is_authority(&error) || is_misnamed(&error)) =>
            {
                verify_own_name(own, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities
            .verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, Issuer, KeyPair};

    use super::*;

    /// That of the issuer does not count.
    #[test]
    fn a_common_name_is_that_of_the_subject() {
        let named = |name: &str| {
            let mut params = CertificateParams::new([]).expect("good parameters");
            params.distinguished_name.push(DnType::CommonName, name);
            (params, KeyPair::generate().expect("a key"))
        };
        let (issuer, key) = named("issuer");
        let issuer = Issuer::new(issuer, key);
        let (own, key) = named("Own");
        let own = own.signed_by(&key, &issuer).expect("a certificate");
        for (name, expected) in [("own", true), ("issuer", false), ("ow", false), ("", false)] {
            let found = has_common_name(own.der(), name).expect("a certificate");
            assert_eq!(found, expected, "{name}");
        }
    }
}
