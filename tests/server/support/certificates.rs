//! Certificates, and servers that show them.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::harness::{Server, ok, supported_servers};

/// The names of this machine.
pub const HOSTS: [&str; 2] = ["localhost", "127.0.0.1"];

/// The certificates and keys of a test, in a folder.
pub struct Files<'f>(pub &'f Path);

impl Files<'_> {
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("ASCII").to_owned()
    }

    pub fn write(&self, name: &str, text: String) {
        fs::write(self.path(name), text).expect("the folder can be written to");
    }

    /// Writes a certificate that is signed by itself, for these hosts. Returns it with its key.
    pub fn self_signed(
        &self,
        name: &str,
        is_ca: IsCa,
        hosts: &[&str],
    ) -> (CertificateParams, KeyPair) {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let common_name = if hosts.is_empty() { "LocalHost" } else { name };
        let mut own = CertificateParams::new(hosts).expect("good parameters");
        own.distinguished_name.push(DnType::CommonName, common_name);
        own.is_ca = is_ca;
        let key = KeyPair::generate().expect("a key");
        let signed = own.self_signed(&key).expect("a certificate");
        self.write_pair(name, &signed, &key);
        (own, key)
    }

    /// Writes certificates of these names for localhost, signed by an authority. Returns the path of the authority's.
    pub fn signed(&self, names: &[&str]) -> String {
        let authority = self.self_signed("ca", IsCa::Ca(BasicConstraints::Unconstrained), &[]);
        let issuer = Issuer::new(authority.0, authority.1);
        for name in names {
            let own = CertificateParams::new(["localhost".to_owned()]).expect("good parameters");
            let key = KeyPair::generate().expect("a key");
            let signed = own.signed_by(&key, &issuer).expect("a certificate");
            self.write_pair(name, &signed, &key);
        }
        self.path("ca.pem")
    }

    /// Returns the options of a program that trusts an authority and shows the certificate `client`.
    pub fn trust(&self, authority: &str) -> [String; 6] {
        let [certificate, key] = ["client.pem", "client.key"].map(|name| self.path(name));
        [
            "--cacert",
            authority,
            "--cert",
            &certificate,
            "--cert-key",
            &key,
        ]
        .map(str::to_owned)
    }

    fn write_pair(&self, name: &str, certificate: &Certificate, key: &KeyPair) {
        self.write(&format!("{name}.pem"), certificate.pem());
        self.write(&format!("{name}.key"), key.serialize_pem());
    }

    /// Starts a server with the certificate and key of this name. Returns it with its port for TLS.
    pub fn serve(&self, name: &str, clients: &str, more: &[(&str, &str)]) -> (Server, u16) {
        // Debian's servers speak TLS; the one of the run may not.
        let program = supported_servers().swap_remove(1);
        let builder = Server::builder()
            .program(&program)
            .config("tls-cert-file", &self.path(&format!("{name}.pem")))
            .config("tls-key-file", &self.path(&format!("{name}.key")))
            .config("tls-auth-clients", clients);
        let builder = more.iter().fold(builder, |builder, (name, value)| {
            builder.config(name, value)
        });
        let server = builder.start();
        let mut client = server.client();
        let mut ports = 10_000..20_000;
        let port = ports.find(|port| client.cmd(&format!("CONFIG SET tls-port {port}")) == ok());
        (server, port.expect("a free port"))
    }
}
