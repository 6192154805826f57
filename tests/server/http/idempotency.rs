//! Requests with an idempotency key: they may be sent again, and get the same answer.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::support::Rng;
use crate::support::cutter::Cutter;

use super::*;

const FORM: &str = "application/x-www-form-urlencoded";

/// Inserts keys of a query with an idempotency key.
fn post_once(service: &Service, key: &str, query: &str) -> (StatusCode, Value) {
    let request = service.agent.post(format!("{}/?{query}", service.url));
    reported(request.header("Idempotency-Key", key).send_empty())
}

#[test]
fn a_request_that_is_sent_again_gets_the_same_answer() {
    let server = Server::start();
    let mut service = Service::start(&server, &["--error-rate", "0.000001"]);
    let other = Service::start(&server, &[]);
    let first = json!({ "found": ["a"], "missing": ["a", "b"] });
    for service in [&service, &service, &other] {
        let answer = post_once(service, "\"8e03978e\"", "key=a&key=b&key=a");
        assert_eq!(answered(answer), first);
    }
    // The quotes are optional, and the keys may be in a body.
    let answer = post_once(&other, "8e03978e", "key=a&key=b&key=a");
    assert_eq!(answered(answer), first);
    for (kind, body) in [
        (FORM, &b"key=b&key=a"[..]),
        ("application/json", b"{\"keys\":[\"b\",\"a\"]}"),
    ] {
        let request = other.agent.post(format!("{}/?key=a", other.url));
        let request = request.header("Idempotency-Key", "8e03978e");
        assert_eq!(
            answered(reported(request.content_type(kind).send(body))),
            first
        );
    }
    // Without the header, or with another one, it is another request; so it is with other keys.
    assert_eq!(service.insert("key=a&key=b"), found(&["a", "b"]));
    let answer = post_once(&service, "8e03978f", "key=a&key=b&key=a");
    assert_eq!(answered(answer), found(&["a", "b", "a"]));
    let answer = post_once(&service, "8e03978e", "key=a&key=b&key=c");
    assert_eq!(
        answered(answer),
        json!({ "found": ["a", "b"], "missing": ["c"] })
    );
    // Lookups have no answer to keep.
    let request = service.agent.get(format!("{}/?key=d", service.url));
    let asked = reported(request.header("Idempotency-Key", "8e03978e").call());
    assert_eq!(answered(asked), missing(&["d"]));
    let mut client = server.client();
    assert_eq!(client.cmd("BF.CARD mneme").as_int(), 3);

    // The answer outlives the service, and the filter.
    service.signal("TERM");
    service.await_end();
    client.cmd("DEL mneme");
    let service = Service::start(&server, &[]);
    let answer = post_once(&service, "8e03978e", "key=a&key=b&key=a");
    assert_eq!(answered(answer), first);
    assert_eq!(service.ask("key=a&key=b"), missing(&["a", "b"]));
    let receipts = client.cmd("KEYS {mneme}:once:http:*");
    assert_eq!(receipts.as_array().len(), 3);
    for receipt in receipts.as_array() {
        assert!(client.cmd(&format!("TTL {}", receipt.text())).as_int() > 0);
    }
}

#[test]
fn invalid_idempotency_keys_are_refused() {
    let server = Server::start();
    let service = Service::start(&server, &[]);
    let request = |lines: &str| {
        let head = format!("POST /?key=a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{lines}");
        service.exchange(format!("{head}Content-Length: 0\r\n\r\n").as_bytes())
    };
    let refused = |value: &str| {
        let answer = request(&format!("Idempotency-Key: {value}\r\n"));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{value}: {answer}");
        assert!(answer.contains("Idempotency-Key is a string"), "{answer}");
    };
    for value in [
        "",
        "\"\"",
        "\"",
        "\"a",
        "a\"",
        "\"a\"b",
        "\"a\"b\"",
        "\"a\\\"",
        "\"a\\b\"",
        "\"ä\"",
        "ä",
        "a b",
        "\"a\tb\"",
        "a\\b",
        "a, b",
        "a;b=1",
        "\"a\";b=1",
        "\"a\", \"b\"",
    ] {
        refused(value);
    }
    for quote in ["", "\""] {
        let long = |length| format!("{quote}{}{quote}", "k".repeat(length));
        refused(&long(256));
        let answer = request(&format!("Idempotency-Key: {}\r\n", long(255)));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let twice = request("Idempotency-Key: a\r\nIdempotency-Key: a\r\n");
    assert!(twice.starts_with("HTTP/1.1 400 "), "{twice}");
    assert_eq!(server.client().cmd("BF.CARD mneme").as_int(), 1);
}

#[test]
fn a_receipt_that_the_server_refuses_is_an_error() {
    let (server, mut client) = Server::with_client();
    let refused = |service: &Service, code: &str| {
        let (status, value) = post_once(service, "k", "key=a");
        assert_eq!(status, 502, "{value}");
        let text = value["error"].as_str().expect("a text");
        assert!(text.starts_with(code), "{text}");
    };
    // These are the permissions of the page.
    let lookups = "on >pw ~mneme -@all +bf.insert +bf.mexists +ping";
    client.ok(format!("ACL SETUSER worker {lookups}"));
    let address = format!("redis://worker:pw@127.0.0.1:{}", server.port());
    let limited = Service::run(reached::at(&address, &[]));
    refused(&limited, "NOPERM ");
    client.ok("ACL SETUSER worker ~{mneme}:once:http:*");
    assert_eq!(answered(post_once(&limited, "k", "key=a")), missing(&["a"]));
    let receipt = client.cmd("KEYS *once*").as_array()[0].text().clone();
    client.ok(format!("SET {receipt} text"));
    refused(&limited, "ERR key does not hold a receipt");
    assert_eq!(client.cmd("BF.CARD mneme").as_int(), 1);

    let bare = Server::builder().without_module().start();
    let service = Service::start(&bare, &[]);
    refused(
        &service,
        "the server has no BF.INSERT … ONCE: load the module valkeybloom",
    );
    // Answers that were kept before a refusal are given again, and the same request goes on there.
    client.ok("CONFIG SET maxmemory 1");
    let service = Service::start(&server, &[]);
    refused(&service, "OOM ");
    client.ok("CONFIG SET maxmemory 0");
    assert_eq!(answered(post_once(&service, "l", "key=b")), missing(&["b"]));
    client.cmd("DEL mneme");
    client.ok("BF.RESERVE mneme 0.000000001 2 NONSCALING");
    let (status, value) = post_once(&service, "m", "key=a&key=b&key=c");
    assert_eq!(status, 502, "{value}");
    client.cmd("DEL mneme");
    client.ok("BF.RESERVE mneme 0.000000001 3 NONSCALING");
    let answer = post_once(&service, "m", "key=a&key=b&key=c");
    assert_eq!(answered(answer), missing(&["a", "b", "c"]));
    assert_eq!(client.cmd("BF.CARD mneme").as_int(), 1);
}

/// Sends a request until its answer comes.
fn insert(agent: &Agent, url: &str, id: &str) -> Value {
    loop {
        let request = agent.post(url);
        let sent = request.header("Idempotency-Key", id).send_empty();
        let Ok(mut response) = sent else { continue };
        // The answer may be cut in its middle.
        let Ok(text) = response.body_mut().read_to_string() else {
            continue;
        };
        if response.status() == 200 {
            return serde_json::from_str(&text).expect("JSON");
        }
        assert_eq!(response.status(), 503, "{text}");
    }
}

/// Connections are cut on both sides of the service, which is killed as well.
#[test]
fn each_key_is_missing_in_one_request() {
    let server = Server::start();
    // One period from 1970 to 2096: an item that goes over into the next one would count in both.
    let to_server = Cutter::of(server.port(), b"BF.INSERT", 1);
    let address = format!("127.0.0.1:{}", to_server.port);
    let options = ["--length", "4000000000", "--error-rate", "0.000000001"];
    let start = |listen: &str| {
        let mut command = Command::new(example::valkeybloom_http());
        command
            .args(["--server", &address, "--listen", listen])
            .args(options);
        Service::run(command)
    };
    let mut service = start("127.0.0.1:0");
    let listen = service.address().to_owned();
    let port = listen.rsplit_once(':').expect("a port").1;
    let to_service = Cutter::of(port.parse().expect("a number"), b"POST", 2);
    let url = format!("http://127.0.0.1:{}", to_service.port);
    let agent = service.agent.clone();
    // The number of requests that were answered, and how often each key was missing.
    let told = Mutex::new((0, HashMap::<String, usize>::new()));
    let insert_all = |client: u64| {
        let mut rng = Rng::new(client);
        for number in 0..100 {
            let keys: Vec<_> = (0..=rng.below(10)).map(|_| rng.below(1000)).collect();
            let query: Vec<_> = keys.iter().map(|key| format!("key={key}")).collect();
            let url = format!("{url}/?{}", query.join("&"));
            let answer = insert(&agent, &url, &format!("\"{client}-{number}\""));
            let (answered, missing) = &mut *told.lock().unwrap();
            *answered += 1;
            for key in listed(&answer, "found") {
                missing.entry(key).or_default();
            }
            for key in listed(&answer, "missing") {
                *missing.entry(key).or_default() += 1;
            }
        }
    };
    thread::scope(|scope| {
        for client in 0..8 {
            scope.spawn(move || insert_all(client));
        }
        for part in 1..4 {
            wait_until("requests were answered", || {
                told.lock().unwrap().0 >= 200 * part
            });
            service.signal("KILL");
            service.child.wait().expect("the process is ours");
            service = start(&listen);
        }
    });
    let (_, missing) = &*told.lock().unwrap();
    let wrong: Vec<_> = missing.iter().filter(|(_, times)| **times != 1).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let card = server.client().cmd("BF.CARD mneme").as_int();
    assert_eq!(usize::try_from(card), Ok(missing.len()));
    to_server.require_cuts();
    to_service.require_cuts();
}
