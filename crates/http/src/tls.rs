//! The files for TLS.

use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::path::Path;

use redis::{ClientTlsConfig, TlsCertificates};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::options::Options;

/// Reads the files for TLS, and requires that they can be used.
pub fn certificates(options: &Options) -> Result<TlsCertificates, Box<dyn Error>> {
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

/// Returns the certificates in a file, which has to hold at least one.
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
