//! Ways to the server: TLS, passwords and sockets.

use rcgen::{BasicConstraints, IsCa};

use crate::support::certificates::{Files, HOSTS};

use super::*;

pub fn at(address: &str, options: &[&str]) -> Command {
    let mut command = Command::new(example::valkeybloom_http());
    command.args(["--listen", "127.0.0.1:0"]).args(options);
    command.env("VALKEYBLOOM_HTTP_SERVER", address);
    command
}

/// With a user and a password, into a database, and with a certificate for each side.
#[test]
fn a_server_is_reached_by_tls() {
    let folder = Server::start();
    let files = Files(folder.dir());
    let authority = files.signed(&["server", "client"]);
    let (secure, port) = files.serve("server", "yes", &[("tls-ca-cert-file", &authority)]);
    let mut far = secure.client();
    far.ok("ACL SETUSER worker on >pass:word ~* +@all");
    let address = format!("rediss://worker:pass%3Aword@localhost:{port}/3");
    let trust = files.trust(&authority);
    let trust = trust.each_ref().map(String::as_str);
    let service = Service::run(at(&address, &trust));
    assert_eq!(service.insert("key=a"), missing(&["a"]));
    assert_eq!(service.ask("key=a"), found(&["a"]));
    far.ok("SELECT 3");
    assert_eq!(far.cmd("BF.CARD mneme").as_int(), 1);

    // The system does not know the authority, the server wants the client's certificate, and the ports speak the other
    // protocol.
    let plain = format!("redis://localhost:{port}");
    let not_secure = format!("rediss://localhost:{}", folder.port());
    for (address, options, expected) in [
        (&address, &[][..], "signed one itself, with --cacert"),
        (&address, &trust[..2], "CertificateRequired"),
        (&plain, &[], "no answer from the server"),
        (&not_secure, &trust, "write redis:// instead of rediss://"),
    ] {
        let (status, value) = Service::run(at(address, options)).get("key=a");
        let value = value.to_string();
        assert_eq!(status, 503, "{value}");
        assert!(value.contains(expected), "{value}");
        assert!(!value.contains("pass"), "{value}");
    }
    // What can't be used is refused at once.
    let key = files.path("client.key");
    for (options, end) in [
        (
            &["--cacert", "/none.pem"][..],
            "/none.pem: No such file or directory (os error 2)",
        ),
        (
            &["--cacert", &key],
            "client.key: it holds no certificate in PEM",
        ),
        (
            &["--cert", &authority, "--cert-key", &authority],
            "ca.pem: it holds no private key in PEM, or one with a password",
        ),
        (
            &["--cert", &authority, "--cert-key", &key],
            "ca.pem: keys may not be consistent: KeyMismatch",
        ),
        (
            &["--cert", &authority],
            "a certificate and its key belong together: name both or none",
        ),
    ] {
        assert_refused(at(&address, options), end);
    }
    assert_refused(at(&plain, &trust), "address begins with rediss://");
}

/// As `openssl req -x509` makes it, which says that it is an authority's.
#[test]
fn a_server_is_trusted_by_its_own_certificate() {
    let folder = Server::start();
    let files = Files(folder.dir());
    let is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    files.self_signed("own", is_ca, &HOSTS);
    let (_secure, port) = files.serve("own", "no", &[]);
    let address = format!("rediss://127.0.0.1:{port}");
    let service = Service::run(at(&address, &["--cacert", &files.path("own.pem")]));
    assert_eq!(service.insert("key=a"), missing(&["a"]));
    assert_eq!(service.ask("key=a"), found(&["a"]));
}

/// Requires that the service ends at once, because its options are invalid.
#[track_caller]
fn assert_refused(mut command: Command, end: &str) {
    let output = command.output().expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.trim_end().ends_with(end), "{said}");
    assert!(!said.contains("secret"), "{said}");
}

#[test]
fn invalid_addresses_are_refused_without_their_password() {
    let server = Server::start();
    let invalid = ": write redis://user:password@host:port/database, or the path of a socket";
    let port = server.port();
    for address in [
        format!("127.0.0.1:{port}?db=2"),
        format!("redis://127.0.0.1:{port}#secret@host"),
        "http://u:secret@host".to_owned(),
        "/server.sock?user=u&pass=secret".to_owned(),
    ] {
        assert_refused(at(&address, &[]), invalid);
    }
    for word in [
        "redis://u:se cret@host",
        "unix:///server.sock?user=u&pass=secret",
        "--periods=u:secret@host",
    ] {
        let mut command = Command::new(example::valkeybloom_http());
        command.arg(word);
        assert_refused(command, "try '--help'.");
    }
}

#[test]
fn a_wrong_password_is_reported_until_it_is_right() {
    let (server, mut client) = Server::with_client();
    let address = format!("redis://worker:secret@127.0.0.1:{}", server.port());
    let service = Service::run(at(&address, &[]));
    let (status, value) = service.get("key=a");
    assert_eq!(status, 502, "{value}");
    assert!(!value.to_string().contains("secret"), "{value}");
    // These are the permissions of the page.
    client.ok("ACL SETUSER worker on >secret ~mneme -@all +bf.insert +bf.mexists +ping");
    assert_eq!(service.insert("key=a"), missing(&["a"]));
    client.ok("ACL SETUSER worker resetpass >other");
    assert_eq!(client.cmd("CLIENT KILL USER worker").as_int(), 1);
    wait_until("the password is refused", || service.get("key=a").0 == 502);
    let (status, value) = service.get("key=a");
    assert_eq!(status, 502, "{value}");
    assert!(!value.to_string().contains("secret"), "{value}");
    client.ok("ACL SETUSER worker resetpass >secret");
    assert_eq!(service.ask("key=a"), found(&["a"]));
}

#[test]
fn a_server_may_be_a_socket() {
    let folder = Server::start();
    let socket = folder.dir().join("server.sock");
    let socket = socket.to_str().expect("ASCII");
    let server = Server::builder().config("unixsocket", socket).start();
    for address in [socket, &format!("unix://{socket}")] {
        let service = Service::run(at(address, &[]));
        service.insert("key=a");
        assert_eq!(service.ask("key=a"), found(&["a"]));
    }
    assert_eq!(server.client().cmd("BF.CARD mneme").as_int(), 1);
}
