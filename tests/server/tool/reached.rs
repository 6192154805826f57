//! Ways to a server: TLS, whoever signed its certificate, and sockets; and the errors of those that lead nowhere.

use rcgen::{BasicConstraints, IsCa};

use crate::harness::Server;
use crate::harness::cluster::{alone, node};
use crate::support::certificates::{Files, HOSTS};

use super::{add, found, numbered, run, run_line, url};

/// With a user and a password, into a database, and with a certificate for each side.
#[test]
fn servers_are_reached_by_tls_with_user_password_and_database() {
    let from = Server::start();
    add(&mut from.client(), "seen", &numbered("item", 0..10));
    let files = Files(from.dir());
    let authority = files.signed(&["server", "client"]);
    let (secure, port) = files.serve("server", "yes", &[("tls-ca-cert-file", &authority)]);
    let mut far = secure.client();
    far.ok("ACL SETUSER mover on >pass:word ~* +@all");
    let to = format!("rediss://mover:pass%3Aword@localhost:{port}/3");
    let trust = files.trust(&authority);
    let trust = trust.each_ref().map(String::as_str);
    run(&[&["move", &url(&from), &to, "--verify"], &trust[..]].concat()).done();
    assert_eq!(far.cmd("DBSIZE").as_int(), 0);
    far.ok("SELECT 3");
    assert_eq!(found(&mut far, "seen", &numbered("item", 0..10)), 10);
    run(&[&["size", "of", &to, "seen"], &trust[..]].concat()).done();

    // Its issuer is unknown to the system, so the server is not trusted.
    let why = run(&["move", &url(&from), &to]).failed(1);
    assert_eq!(
        why,
        format!(
            "could not connect to localhost:{port}: invalid peer certificate: UnknownIssuer; \
             name the issuer's certificate, or a self-signed one itself, with --cacert"
        )
    );
    for file in ["none", "server.key"] {
        let why = run(&["size", "of", &to, "seen", "--cacert", &files.path(file)]).failed(1);
        assert!(why.starts_with(&format!("{}: ", files.path(file))), "{why}");
    }
}

/// As `openssl x509 -req` makes it without a file of extensions.
const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIIBEjCBuQIUQPBzTdcN15pV4TBtgrFID/Fmp2gwCgYIKoZIzj0EAwIwDDEKMAgG
A1UEAwwBeDAeFw0yNjExMjkwNzA0NTJaFw0zNjExMjYwNzA0NTJaMAwxCjAIBgNV
BAMMAXgwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAShSX0N7egkO4DqRCrqOiSg
afhbYiE4OwYQKnI5dcF2waklpQAsge7DGlZkqAOCMhsNsKbpxKjH24PeAcfHMDnT
MAoGCCqGSM49BAMCA0gAMEUCIG0DXyAxwefCjIXT5zTm5AQgcpiBPsvcgRYo6ydA
DeHnAiEAgEbIu+iVIBTZ1fvjQxqFT/1d2XG8ttm96SrYiQileac=
-----END CERTIFICATE-----";

#[test]
fn a_client_that_a_server_does_not_trust_learns_why() {
    let folder = Server::start();
    let files = Files(folder.dir());
    let authority = files.signed(&["server", "client"]);
    let (_secure, port) = files.serve("server", "yes", &[("tls-ca-cert-file", &authority)]);
    let at = format!("rediss://u:secret@localhost:{port}");
    let why = run(&["list", &at, "--cacert", &authority]).failed(1);
    assert_eq!(
        why,
        format!(
            "could not connect to localhost:{port}: received fatal alert: CertificateRequired; \
             if the server wants a client's certificate, name it with --cert and --cert-key"
        )
    );
    files.self_signed("own", IsCa::NoCa, &[]);
    files.write("old.pem", VERSION_1.to_owned());
    let locked =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n";
    files.write("locked.key", locked.to_owned());
    for (certificate, key, end) in [
        ("own.pem", "own.key", "; check the certificate of --cert"),
        (
            "client.pem",
            "locked.key",
            "/locked.key: it holds no private key in PEM, or one with a password",
        ),
        (
            "old.pem",
            "own.key",
            "/old.pem: it is of version 1: make it with extensions, such as subjectAltName",
        ),
    ] {
        let [certificate, key] = [certificate, key].map(|name| files.path(name));
        let shown = [
            "--cacert",
            &authority,
            "--cert",
            &certificate,
            "--cert-key",
            &key,
        ];
        let why = run(&[&["list", &at], &shown[..]].concat()).failed(1);
        assert!(why.ends_with(end), "{why}");
    }
}

/// Each node has the host that the program was given.
#[test]
fn nodes_of_a_cluster_may_announce_no_host() {
    let node = node()
        .config("cluster-preferred-endpoint-type", "unknown-endpoint")
        .start();
    alone(&node);
    add(&mut node.client(), "seen", &numbered("item", 0..3));
    let listed = run(&["list", &url(&node), "--json"]).json();
    assert_eq!(listed["keys"][0]["key"], "seen");
}

/// As `openssl req -x509` makes it, which says that it is an authority's and has a common name alone; and as it should be.
#[test]
fn a_server_is_trusted_by_its_own_certificate() {
    let folder = Server::start();
    let files = Files(folder.dir());
    let authority = || IsCa::Ca(BasicConstraints::Unconstrained);
    files.self_signed("other", authority(), &HOSTS);
    let other = files.path("other.pem");
    for (name, is_ca, hosts) in [
        ("authority", authority(), &HOSTS[..]),
        ("authority-by-name", authority(), &[]),
        ("plain", IsCa::ExplicitNoCa, &HOSTS),
        ("plain-by-name", IsCa::NoCa, &[]),
    ] {
        files.self_signed(name, is_ca, hosts);
        let own = files.path(&format!("{name}.pem"));
        let (secure, port) = files.serve(name, "no", &[]);
        add(&mut secure.client(), "seen", &numbered("item", 0..3));
        for host in HOSTS {
            let at = format!("rediss://{host}:{port}");
            let found = run(&["list", &at, "--json", "--cacert", &own]);
            // A common name is not that of an address.
            if hosts.is_empty() && host != "localhost" {
                let why = found.failed(1);
                assert!(why.contains("certificate not valid for name"), "{why}");
                assert!(why.ends_with("; check the server's certificate"), "{why}");
            } else {
                assert_eq!(found.json()["keys"][0]["key"], "seen", "{name}");
            }
            // It is not trusted without it, or with another.
            for options in [&[][..], &["--cacert", &other]] {
                let why = run(&[&["list", &at], options].concat()).failed(1);
                let remedy = "or a self-signed one itself, with --cacert";
                assert!(why.contains("invalid peer certificate: "), "{name}: {why}");
                assert!(why.ends_with(remedy), "{name}: {why}");
            }
        }
    }
}

/// The client library connects to the nodes of a cluster, and trusts no authority's certificate as theirs.
#[test]
fn a_node_of_a_cluster_is_trusted_by_its_own_certificate() {
    let folder = Server::start();
    let files = Files(folder.dir());
    for (name, is_ca) in [
        ("plain", IsCa::ExplicitNoCa),
        ("authority", IsCa::Ca(BasicConstraints::Unconstrained)),
    ] {
        files.self_signed(name, is_ca, &HOSTS);
        let own = files.path(&format!("{name}.pem"));
        let cluster = [
            ("cluster-enabled", "yes"),
            ("cluster-announce-ip", "127.0.0.1"),
            ("tls-ca-cert-file", &own),
        ];
        let (node, port) = files.serve(name, "no", &cluster);
        let mut client = node.client();
        // Else it announces the port that it was started with.
        let announce = format!("CONFIG SET cluster-announce-tls-port {port}");
        client.ok(&announce);
        alone(&node);
        add(&mut client, "seen", &numbered("item", 0..3));
        let at = format!("rediss://127.0.0.1:{port}");
        let found = run(&["list", &at, "--json", "--cacert", &own]);
        if name == "plain" {
            assert_eq!(found.json()["keys"][0]["key"], "seen");
        } else {
            let why = found.failed(1);
            let end = "; make the certificates of a cluster with basicConstraints=CA:FALSE";
            assert!(why.ends_with(end), "{why}");
        }
    }
}

#[test]
fn a_wrong_way_to_a_port_names_the_right_one() {
    let plain = Server::start();
    let files = Files(plain.dir());
    files.self_signed("own", IsCa::NoCa, &HOSTS);
    let (_secure, port) = files.serve("own", "no", &[]);
    let why = run_line(&format!("list redis://localhost:{port}")).failed(1);
    assert!(
        why.starts_with(&format!("could not connect to localhost:{port}: ")),
        "{why}"
    );
    assert!(
        why.ends_with("; if that port speaks TLS, write rediss://"),
        "{why}"
    );
    let why = run_line(&format!("list rediss://localhost:{}", plain.port())).failed(1);
    assert!(
        why.ends_with("; if that port does not speak TLS, write redis:// instead of rediss://"),
        "{why}"
    );
    for scheme in ["redis", "rediss"] {
        for host in ["localhost:1", "[::1]:1"] {
            let why = run_line(&format!("list {scheme}://{host}")).failed(1);
            let start = format!("could not connect to {host}: ");
            let end = "; is that its address, and is it up?";
            assert!(why.starts_with(&start) && why.ends_with(end), "{why}");
        }
    }
}

#[test]
fn a_socket_is_named_by_its_path() {
    let folder = Server::start();
    let socket = folder.dir().join("a socket?.sock");
    let socket = socket.to_str().expect("ASCII");
    let quoted = format!("\"{socket}\"");
    let server = Server::builder().config("unixsocket", &quoted).start();
    add(&mut server.client(), "seen", &numbered("item", 0..3));
    let escaped = socket.replace(' ', "%20").replace('?', "%3F");
    for address in [socket, &format!("unix://{escaped}")] {
        let listed = run(&["list", address, "--json"]).json();
        assert_eq!(listed["keys"][0]["key"], "seen");
    }
    // The other nodes have no sockets.
    let socket = folder.dir().join("node.sock");
    let socket = socket.to_str().expect("ASCII");
    let _node = node().config("unixsocket", socket).start();
    let why = run(&["list", socket]).failed(1);
    assert!(
        why.ends_with(": it is a node of a cluster: write redis://host:port instead of a socket"),
        "{why}"
    );
    let why = run(&["list", "/none.sock"]).failed(1);
    assert!(
        why.starts_with("could not connect to /none.sock: "),
        "{why}"
    );
    assert!(
        why.ends_with("; is that its address, and is it up?"),
        "{why}"
    );
}
