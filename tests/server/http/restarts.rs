//! Crashes of the server and of the service: no insertion that was answered is lost.

use std::collections::HashSet;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::harness::{int, wait_in_sync};
use crate::support::pieces::{load_chunks, pieces};

use super::*;

/// What clients have done.
#[derive(Default)]
struct Done {
    acknowledged: AtomicUsize,
    failed: AtomicUsize,
    has_ended: AtomicBool,
}

fn await_more(counter: &AtomicUsize) {
    let before = counter.load(Ordering::Relaxed);
    wait_until("requests were answered", || {
        counter.load(Ordering::Relaxed) >= before + 200
    });
}

/// Inserts keys of a client's own until all clients end. Returns those that were acknowledged.
fn insert_all(service: &Service, client: usize, done: &Done) -> HashSet<String> {
    let mut acknowledged = HashSet::new();
    for number in 0.. {
        if done.has_ended.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("{client}-{number}");
        let request = service.agent.post(format!("{}/?key={key}", service.url));
        match request.send_empty() {
            Ok(response) if response.status() == 200 => {
                acknowledged.insert(key);
                done.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            // The connection may have ended in the middle.
            Ok(response) => {
                assert_eq!(response.status(), 503);
                done.failed.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                done.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    acknowledged
}

#[test]
fn what_is_acknowledged_outlives_crashes() {
    let mut server = Server::with(&[
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("save", ""),
    ]);
    // A false positive would hide a loss.
    let options = ["--length", "3600", "--error-rate", "0.0000001"];
    let service = Service::start(&server, &options);
    let again = [&options[..], &["--listen", service.address()]].concat();
    let done = Done::default();
    let mut later = None;
    let acknowledged: HashSet<String> = thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|client| {
                let (service, done) = (&service, &done);
                scope.spawn(move || insert_all(service, client, done))
            })
            .collect();
        for _ in 0..3 {
            await_more(&done.acknowledged);
            server.kill();
            await_more(&done.failed);
            server.start_again();
        }
        await_more(&done.acknowledged);
        service.signal("KILL");
        await_more(&done.failed);
        later = Some(Service::start(&server, &again));
        await_more(&done.acknowledged);
        done.has_ended.store(true, Ordering::Relaxed);
        let sets = clients.into_iter().map(thread::ScopedJoinHandle::join);
        sets.flat_map(|set| set.expect("no failure")).collect()
    });
    assert!(acknowledged.len() >= 1000);
    let keys: Vec<&String> = acknowledged.iter().collect();
    for keys in keys.chunks(1000) {
        let query: Vec<String> = keys.iter().map(|key| format!("key={key}")).collect();
        let answer = service.ask(&query.join("&"));
        assert_eq!(answer["missing"], json!([]));
        assert_eq!(listed(&answer, "found").len(), keys.len());
    }
    drop(later);
}

/// systemd waits for this message, as the unit says.
#[test]
fn systemd_learns_when_the_service_listens() {
    let server = Server::start();
    let path = server.dir().join("notify");
    let socket = UnixDatagram::bind(&path).expect("the folder can be written to");
    let patience = Some(PATIENCE);
    socket.set_read_timeout(patience).expect("it is not zero");
    let mut command = command(&server, &[]);
    command.env("NOTIFY_SOCKET", &path);
    let service = Service::run(command);
    let mut message = [0; 64];
    let length = socket.recv(&mut message).expect("a message");
    assert_eq!(str::from_utf8(&message[..length]), Ok("READY=1\n"));
    assert_eq!(service.get("key=a").0, 200);
}

/// Its log may be a full disk, or a pipe that nobody reads.
#[test]
fn the_service_goes_on_without_its_log() {
    let mut server = Server::start();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let mut command = command(&server, &[]);
    command.stderr(full.expect("Linux has this device"));
    let service = Service::run(command);
    server.shutdown();
    assert_eq!(service.get("key=a").0, 503);
    server.start_again();
    assert_eq!(service.insert("key=a"), missing(&["a"]));
}

/// The server closes idle connections, if its setting says so.
#[test]
fn a_closed_connection_is_made_again_before_it_is_used() {
    let server = Server::start();
    let service = Service::start(&server, &[]);
    service.insert("key=a");
    let mut client = server.client();
    for _ in 0..2 {
        client.ok("CONFIG SET timeout 1");
        wait_until("the server has closed the connection", || {
            // This client's own connection stays, because it is used.
            client.cmd("CLIENT LIST").text().lines().count() == 1
        });
        client.ok("CONFIG SET timeout 0");
        assert_eq!(service.insert("key=a"), found(&["a"]));
    }
}

/// What the server refuses now, it may accept later.
#[test]
fn the_service_may_start_beside_a_server_that_refuses() {
    let primary = Server::start();
    primary.client().cmd("BF.ADD mneme a");
    let replica = Server::replica_of(&primary).start();
    wait_in_sync(&primary, &replica);
    let service = Service::start(&replica, &[]);
    assert_eq!(service.ask("key=a"), found(&["a"]));
    let (status, value) = service.post("key=b", b"");
    assert_eq!(status, 502, "{value}");
    replica.client().ok("REPLICAOF NO ONE");
    assert_eq!(service.insert("key=b"), missing(&["b"]));

    // A server without the module quotes the command, which may hold keys of other clients.
    let bare = Server::builder().without_module().start();
    let service = Service::start(&bare, &[]);
    for (status, value) in [service.get("key=secret"), service.post("key=secret", b"")] {
        assert_eq!(status, 502, "{value}");
        let text = value["error"].as_str().expect("a text");
        assert!(text.starts_with("ERR unknown command"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
    assert_eq!(service.text("/health").0, 503);
}

#[test]
fn the_service_may_start_before_the_server() {
    let mut server = Server::start();
    server.shutdown();
    let service = Service::start(&server, &["--periods", "7"]);
    let (status, value) = service.post("key=a", b"");
    assert_eq!(status, 503, "{value}");
    server.start_again();
    assert_eq!(service.insert("key=a"), missing(&["a"]));
    let info = server.client().cmd("BF.INFO mneme PERIODS");
    assert_eq!(info.as_array()[0].as_int(), 7);
}

/// A server that hangs accepts connections, and does not answer: whoever waits for a batch learns it with the first one.
#[test]
fn a_server_that_hangs_fails_all_requests_that_wait() {
    let hung = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = hung.local_addr().expect("it is bound").to_string();
    let service = Service::run(reached::at(&address, &[]));
    let request = "GET /?key=a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    // More than one batch takes.
    let waiting: Vec<_> = (0..300).map(|_| service.send(request.as_bytes())).collect();
    for mut stream in waiting {
        let answer = rest(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    // The service has connected once to create its filter, and once for all requests.
    hung.set_nonblocking(true).expect("a socket takes it");
    assert_eq!(hung.incoming().take_while(Result::is_ok).count(), 2);
}

/// A client copies the filter from another server, header first.
#[test]
fn the_service_may_start_while_its_filter_is_copied() {
    let source = Server::start();
    let mut client = source.client();
    client.ok("BF.RESERVE mneme 0.01 1000");
    client.expect("BF.ADD mneme a", int(1));
    let whole = pieces(&mut client, "mneme");
    let (first, rest) = whole.split_at(1);
    let server = Server::start();
    load_chunks(&mut server.client(), "mneme", first);
    let service = Service::start(&server, &[]);
    let (status, value) = service.get("key=a");
    assert_eq!(status, 502, "{value}");
    load_chunks(&mut server.client(), "mneme", rest);
    assert_eq!(service.ask("key=a"), found(&["a"]));
}
