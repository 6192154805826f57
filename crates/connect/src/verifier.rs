//! Which certificates of servers are accepted.
//!
//! The client library accepts only certificates that an authority signed. [`Verifier`] also accepts a server's own that is
//! among the trusted ones, as OpenSSL does. Most that people make for a test are marked as an authority's, so that the client
//! library would refuse them.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

/// Verifies certificates as the client library does, and takes a server's own that is trusted.
#[derive(Debug)]
pub struct Verifier {
    authorities: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// Makes a verifier that trusts these certificates: authorities, or servers' own.
    ///
    /// # Errors
    /// None of them can be read.
    pub fn trusting(trusted: Vec<CertificateDer<'static>>) -> Result<Self, VerifierBuilderError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
        let authorities = authorities.build()?;
        Ok(Self {
            authorities,
            trusted,
        })
    }
}

pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Returns webpki's error, if rustls has no variant for it. The versions of the two belong together.
pub fn webpki_error(error: &CertificateError) -> Option<&webpki::Error> {
    match error {
        CertificateError::Other(OtherError(error)) => error.downcast_ref(),
        _ => None,
    }
}

/// Requires that a trusted certificate is for a host: by a name that it lists, or if it lists none, by a common name that equals
/// the host's DNS name.
fn verify_own_name(own: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    let verified = verify_server_name(&ParsedCertificate::try_from(own)?, name);
    if let Err(Error::InvalidCertificate(error)) = &verified
        && let CertificateError::NotValidForNameContext { presented, .. } = error
        && presented.is_empty()
        && let ServerName::DnsName(host) = name
        && has_common_name(own, host.as_ref())?
    {
        return Ok(());
    }
    verified
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
        let verified = authorities.verify_server_cert(own, others, name, ocsp, now);
        let Err(Error::InvalidCertificate(error)) = &verified else {
            return verified;
        };
        // Both come after the check that it has not expired.
        let is_authority = webpki_error(error) == Some(&webpki::Error::CaUsedAsEndEntity);
        let is_misnamed = matches!(error, CertificateError::NotValidForNameContext { .. });
        if self.trusted.contains(own) && (is_authority || is_misnamed) {
            verify_own_name(own, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        verified
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
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    use super::*;

    /// As `openssl req -x509` makes it.
    #[test]
    fn a_trusted_authority_may_be_the_server_itself() {
        let certificate = || {
            let mut params = CertificateParams::new(["host".to_owned()]).expect("good parameters");
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().expect("a key");
            let signed = params.self_signed(&key).expect("a certificate");
            signed.der().clone()
        };
        let [own, other] = [certificate(), certificate()];
        let verify = |trusted: &CertificateDer<'static>, name: &str| {
            let verifier = Verifier::trusting(vec![trusted.clone()]).expect("a certificate");
            let name = ServerName::try_from(name).expect("a name");
            verifier
                .verify_server_cert(&own, &[], &name, &[], UnixTime::now())
                .is_ok()
        };
        assert!(verify(&own, "host"));
        assert!(!verify(&own, "other"));
        assert!(!verify(&other, "host"));
    }

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
