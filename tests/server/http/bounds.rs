//! Clients that are slow, many, or never finish.

use std::io::ErrorKind;
use std::time::Duration;

use crate::support::usage::{limit_process, resident};

use super::*;

const ASK: &[u8] = b"GET /?key=a HTTP/1.1\r\nHost: here\r\n\r\n";

#[test]
fn a_client_that_does_not_finish_is_dropped() {
    let server = Server::start();
    let service = Service::start(&server, &["--timeout", "0.5"]);
    let head = "POST / HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n";
    for half in [&b""[..], b"GET /?key=a HT", &ASK[..ASK.len() - 2]] {
        assert_eq!(service.exchange(half), "");
    }
    let answer = service.exchange(format!("{head}{{\"keys\"").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    // An idle connection ends, too.
    let answer = service.exchange(ASK);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // Single bytes do not prolong a head.
    let mut stream = service.send(b"GET / HTTP/1.1\r\n");
    wait_until("a slow head is dropped", || stream.write_all(b"a").is_err());
    // Its length is not known ahead, and no chunk is the last.
    let endless = head.replace("Content-Length: 20", "Transfer-Encoding: chunked");
    let mut stream = service.send(endless.as_bytes());
    wait_until("a slow body is dropped", || {
        stream.write_all(b"1\r\n \r\n").is_err()
    });
    // It reads no answers, which are long, so that they soon fill the buffers.
    let long = format!(
        "GET /?key={} HTTP/1.1\r\nHost: here\r\n\r\n",
        "a".repeat(60_000)
    );
    let mut stream = service.send(b"");
    let timeout = Some(Duration::from_millis(10));
    stream.set_write_timeout(timeout).expect("it is not zero");
    wait_until("a client that does not read is dropped", || {
        let written = stream.write_all(long.as_bytes());
        let waits = [ErrorKind::WouldBlock, ErrorKind::TimedOut];
        written.is_err_and(|error| !waits.contains(&error.kind()))
    });
    assert_eq!(service.ask("key=a"), missing(&["a"]));
}

#[test]
fn connections_beyond_the_limit_wait() {
    let server = Server::start();
    let service = Service::start(&server, &["--connections", "2"]);
    let mut first = service.send(ASK);
    let second = service.send(ASK);
    for stream in [&first, &second] {
        let line = first_line(stream);
        assert_eq!(line, "HTTP/1.1 200 OK\r\n");
    }
    let mut third = service.send(ASK);
    first
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    let metrics = rest(&mut first);
    assert!(
        metrics.contains("\nvalkeybloom_http_connections 2\n"),
        "{metrics}"
    );
    third
        .write_all(b"GET /?key=third HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    let answer = rest(&mut third);
    assert!(
        answer.ends_with("{\"found\":[],\"missing\":[\"third\"]}"),
        "{answer}"
    );
}

/// Connections wait while the system gives no files.
#[test]
fn the_service_goes_on_after_it_had_no_files() {
    let server = Server::start();
    let service = Service::start(&server, &[]);
    service.insert("key=a");
    limit_process(service.child.id(), "--nofile=20:20");
    let streams: Vec<_> = (0..60).map(|_| service.send(ASK)).collect();
    let line = first_line(&streams[0]);
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");
    drop(streams);
    assert_eq!(service.ask("key=a"), found(&["a"]));

    let command = command(&server, &[]);
    let mut limited = Command::new("prlimit");
    limited.arg("--nofile=40:40").arg(command.get_program());
    limited.args(command.get_args());
    let service = Service::run(limited);
    let streams: Vec<_> = (0..60).map(|_| service.send(ASK)).collect();
    drop(streams);
    assert_eq!(service.ask("key=a"), found(&["a"]));
}

#[test]
fn ten_thousand_idle_connections_leave_others_alone() {
    const IDLE: usize = 10_000;
    // The service and this process have a file for each.
    limit_process(std::process::id(), "--nofile=20000:");
    let server = Server::start();
    let service = Service::start(&server, &["--timeout", "600"]);
    let before = resident(service.child.id());
    let mut answer = [0; 12];
    let mut streams: Vec<TcpStream> = (0..IDLE)
        .map(|_| {
            let mut stream = service.send(ASK);
            stream.read_exact(&mut answer).expect("it answers");
            assert_eq!(&answer, b"HTTP/1.1 200");
            stream
        })
        .collect();
    assert_eq!(service.insert("key=a"), missing(&["a"]));
    let per_connection = (resident(service.child.id()) - before) / IDLE as u64;
    assert!(per_connection < 16 << 10, "{per_connection} bytes");
    for stream in streams.iter_mut().step_by(1000) {
        stream.write_all(ASK).expect("it is open");
        let mut text = String::new();
        while !text.contains("\"found\":[\"a\"]") {
            let mut bytes = [0; 256];
            let read = stream.read(&mut bytes).expect("it answers");
            assert!(read > 0, "{text}");
            text += str::from_utf8(&bytes[..read]).expect("ASCII");
        }
    }
}

/// A request that has begun is answered, and one that never ends does not keep the service.
#[test]
fn requests_in_progress_are_answered_at_the_end() {
    let server = Server::start();
    let mut service = Service::start(&server, &[]);
    let head = "POST / HTTP/1.1\r\nHost: here\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                Content-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    let mut stream = service.send(head.as_bytes());
    let _endless = service.send(b"GET / HT");
    let mut progress = [0; 25];
    stream.read_exact(&mut progress).expect("it goes on");
    assert_eq!(&progress, b"HTTP/1.1 100 Continue\r\n\r\n");
    service.signal("TERM");
    wait_until("the service has stopped listening", || {
        TcpStream::connect(service.address()).is_err()
    });
    stream.write_all(b"key=a").expect("it reads");
    let answer = rest(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with(&missing(&["a"]).to_string()), "{answer}");
    service.await_end();
}
