//! The program `valkeybloom-http`, through HTTP clients that people use.

mod bodies;
mod bounds;
mod idempotency;
mod options;
mod reached;
mod restarts;
mod watched;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::StatusCode;

use crate::example;
use crate::harness::{PATIENCE, Server, error, wait_until};

/// A running service. Dropping it ends the process.
struct Service {
    child: Child,
    url: String,
    agent: Agent,
}

fn command(server: &Server, options: &[&str]) -> Command {
    let mut command = Command::new(example::valkeybloom_http());
    command
        .args(["--listen", "127.0.0.1:0", "--server"])
        .arg(format!("redis://127.0.0.1:{}/", server.port()))
        .args(options)
        .stdin(Stdio::null());
    command
}

impl Service {
    #[track_caller]
    fn start(server: &Server, options: &[&str]) -> Self {
        Self::run(command(server, options))
    }

    #[track_caller]
    fn run(mut command: Command) -> Self {
        let child = command.stdout(Stdio::piped()).spawn();
        let mut service = Self {
            child: child.expect("the program runs"),
            url: String::new(),
            agent: Agent::config_builder()
                .http_status_as_error(false)
                .timeout_global(Some(PATIENCE))
                .build()
                .into(),
        };
        let output = service.child.stdout.take().expect("it is a pipe");
        let line = first_line(output);
        let url = line.trim().strip_prefix("listening on ");
        service.url += url.expect("the service listens");
        service
    }

    fn address(&self) -> &str {
        self.url.strip_prefix("http://").expect("a URL")
    }

    /// Opens a connection, and sends these bytes.
    #[track_caller]
    fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address()).expect("the service listens");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("it is not zero");
        stream.write_all(bytes).expect("the service reads");
        stream
    }

    /// Sends bytes, and returns all that the service answers until it closes the connection.
    #[track_caller]
    fn exchange(&self, bytes: &[u8]) -> String {
        rest(&mut self.send(bytes))
    }

    #[track_caller]
    fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let kill = kill.args(["-s", name, &self.child.id().to_string()]);
        assert!(kill.status().expect("there is a kill").success());
    }

    /// Awaits the end, and requires that it is orderly.
    #[track_caller]
    fn await_end(&mut self) {
        let mut status = None;
        wait_until("the service has ended", || {
            status = self.child.try_wait().expect("the process is ours");
            status.is_some()
        });
        assert!(status.expect("it has ended").success());
    }

    /// Returns the answer to a GET of any path, as a text.
    fn text(&self, path: &str) -> (StatusCode, String) {
        let response = self.agent.get(format!("{}{path}", self.url)).call();
        let mut response = response.expect("the service answers");
        let text = response.body_mut().read_to_string();
        (response.status(), text.expect("a text"))
    }

    fn get(&self, query: &str) -> (StatusCode, Value) {
        reported(self.agent.get(format!("{}/?{query}", self.url)).call())
    }

    fn post(&self, query: &str, body: &[u8]) -> (StatusCode, Value) {
        self.post_as("application/x-www-form-urlencoded", query, body)
    }

    fn post_as(&self, kind: &str, query: &str, body: &[u8]) -> (StatusCode, Value) {
        let request = self.agent.post(format!("{}/?{query}", self.url));
        reported(request.content_type(kind).send(body))
    }

    #[track_caller]
    fn ask(&self, query: &str) -> Value {
        answered(self.get(query))
    }

    #[track_caller]
    fn insert(&self, query: &str) -> Value {
        answered(self.post(query, b""))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.child.kill().expect("the process is ours");
        self.child.wait().expect("the process is ours");
    }
}

/// Returns the first line of what comes.
#[track_caller]
fn first_line(from: impl Read) -> String {
    let mut line = String::new();
    let read = BufReader::new(from).read_line(&mut line);
    read.expect("it answers");
    line
}

/// Returns all that comes until the connection is closed.
#[track_caller]
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the service closes");
    String::from_utf8(bytes).expect("a text")
}

/// Returns the keys in a list of an answer.
fn listed(answer: &Value, list: &str) -> Vec<String> {
    let keys = answer[list].as_array().expect("a list").iter();
    let keys = keys.map(|key| key.as_str().expect("a text").to_owned());
    keys.collect()
}

fn reported(
    response: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
) -> (StatusCode, Value) {
    let mut response = response.expect("the service answers");
    let body = response.body_mut().read_to_string().expect("a text");
    let value = serde_json::from_str(&body);
    (
        response.status(),
        value.unwrap_or_else(|_| panic!("not JSON: {body:?}")),
    )
}

#[track_caller]
fn answered((status, value): (StatusCode, Value)) -> Value {
    assert_eq!(status, 200, "{value}");
    value
}

fn found(keys: &[&str]) -> Value {
    json!({ "found": keys, "missing": [] })
}

fn missing(keys: &[&str]) -> Value {
    json!({ "found": [], "missing": keys })
}

#[test]
fn the_session_of_the_page_is_current() {
    let server = Server::start();
    let service = Service::start(&server, &[]);
    let page = include_str!("../../../docs/http.md");
    let mut lines = page.lines();
    let mut requests = 0;
    while let Some(line) = lines.next() {
        let Some(words) = line.strip_prefix("$ curl ") else {
            continue;
        };
        let words = words.replace("localhost:9000", service.address());
        let mut curl = Command::new("sh");
        let output = curl.args(["-c", &format!("curl -s {words}")]).output();
        let output = output.expect("there is a shell").stdout;
        assert_eq!(
            Some(&*String::from_utf8_lossy(&output)),
            lines.next(),
            "{line}"
        );
        requests += 1;
    }
    assert!(requests >= 5, "the page has a session");
}

#[test]
fn answers_list_the_keys_as_they_were_requested() {
    let server = Server::start();
    let service = Service::start(&server, &["--error-rate", "0.000001"]);
    assert_eq!(service.insert("key=b&key=a"), missing(&["b", "a"]));
    assert_eq!(
        service.ask("key=c&key=a&key=a&key=d&other=e&key=b"),
        json!({ "found": ["a", "a", "b"], "missing": ["c", "d"] })
    );
    // A URL and a form may both hold keys, in any bytes that are UTF-8.
    let (_, reported) = service.post("key=%C3%A4+%26", b"key=+&key=%00%0A&key=a");
    assert_eq!(
        reported,
        json!({ "found": ["a"], "missing": ["ä &", " ", "\0\n"] })
    );
    assert_eq!(
        service.ask("key=%C3%A4%20%26&key=%20&key=%00%0a"),
        found(&["ä &", " ", "\0\n"])
    );
    // Keys are the items of the filter, unchanged.
    let mut client = server.client();
    let exists = client.call(&[b"BF.EXISTS", b"mneme", "ä &".as_bytes()]);
    assert_eq!(exists.as_int(), 1);
    client.cmd("BF.ADD mneme of-another-client");
    assert_eq!(
        service.ask("key=of-another-client"),
        found(&["of-another-client"])
    );
    let most = vec!["key=a"; 1000].join("&");
    assert_eq!(service.ask(&most), found(&["a"; 1000]));
}

#[test]
fn keys_are_forgotten_when_their_periods_expire() {
    let server = Server::start();
    let service = Service::start(&server, &["--periods", "3", "--length", "0.2"]);
    for key in ["key=a", "key=b"] {
        wait_until("a new key is found", || {
            service.insert(key);
            service.ask(key)["missing"] == json!([])
        });
        wait_until("it is forgotten", || service.ask(key)["found"] == json!([]));
    }
    // Two services share a filter; the second does not change its shape.
    let other = Service::start(&server, &["--periods", "3", "--length", "3600"]);
    wait_until("the other one finds it", || {
        service.insert("key=c");
        other.ask("key=c")["missing"] == json!([])
    });
    wait_until("the other one forgets it", || {
        other.ask("key=c")["found"] == json!([])
    });
}

#[test]
fn only_one_of_several_inserters_finds_the_key_missing() {
    let server = Server::start();
    // One period from 1970 to 2096: an item that goes over into the next one would count in both.
    let options = ["--length", "4000000000", "--error-rate", "0.000000001"];
    let services = [
        Service::start(&server, &options),
        Service::start(&server, &options),
    ];
    let insert_all = |service: &Service, from: usize| {
        let mut new = 0;
        for round in 0..50 {
            let keys: Vec<_> = (0..20)
                .map(|n| format!("key={}", (from + round * 20 + n) % 1000))
                .collect();
            let reported = service.insert(&keys.join("&"));
            new += reported["missing"].as_array().expect("an array").len();
        }
        new
    };
    let new: usize = thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|client| {
                let service = &services[client % 2];
                scope.spawn(move || insert_all(service, client * 130))
            })
            .collect();
        let counts = clients.into_iter().map(thread::ScopedJoinHandle::join);
        counts.map(|count| count.expect("no failure")).sum()
    });
    assert_eq!(new, 1000);
    assert_eq!(server.client().cmd("BF.CARD mneme").as_int(), 1000);
}

#[test]
fn invalid_requests_are_refused() {
    let server = Server::start();
    let service = Service::start(&server, &[]);
    let many = vec!["key=a"; 1001].join("&");
    let long = format!("key={}", "a".repeat(1 << 16));
    let form = "application/x-www-form-urlencoded";
    let refused = |status: u16, (had, value): (StatusCode, Value)| {
        assert_eq!(had, status, "{value}");
        assert!(value["error"].is_string(), "{value}");
    };
    refused(400, service.get(""));
    refused(400, service.get("keys=a"));
    refused(400, service.get("key=%FF"));
    refused(413, service.get(&many));
    refused(400, service.post("", b""));
    refused(400, service.post("", b" "));
    refused(400, service.post("key=a", b"key=%ff"));
    refused(413, service.post("key=a", many.as_bytes()));
    refused(413, service.post("", long.as_bytes()));
    refused(415, service.post_as("text/plain", "key=a", b"key=b"));
    let agent = &service.agent;
    refused(
        405,
        reported(agent.delete(format!("{}/?key=a", service.url)).call()),
    );
    refused(
        404,
        reported(agent.get(format!("{}/a?key=a", service.url)).call()),
    );
    // The client refuses to send this one.
    let request = format!("GET /?{long} HTTP/1.1\r\nHost: here\r\n\r\n");
    let answer = service.exchange(request.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 414 "), "{answer}");

    assert_eq!(server.client().cmd("BF.CARD mneme").as_int(), 0);
    let charset = format!("{form}; charset=utf-8");
    assert_eq!(
        answered(service.post_as(&charset, "", b"key=a")),
        missing(&["a"])
    );
}

#[test]
fn errors_of_the_server_are_passed_on() {
    let server = Server::start();
    let service = Service::start(&server, &[]);
    let mut client = server.client();
    let begins = |value: &Value, code: &str| {
        let text = value["error"].as_str();
        text.is_some_and(|text| text.starts_with(code))
    };
    client.cmd("DEL mneme");
    client.ok("SET mneme text");
    for (status, value) in [service.get("key=a"), service.post("key=a", b"")] {
        assert_eq!(status, 502);
        assert!(begins(&value, "WRONGTYPE "), "{value}");
    }
    client.cmd("DEL mneme");
    client.ok("CONFIG SET maxmemory 1");
    let (status, value) = service.post("key=a", b"");
    assert_eq!(status, 502);
    assert!(begins(&value, "OOM "), "{value}");
    assert_eq!(service.ask("key=a"), missing(&["a"]));

    client.ok("CONFIG SET maxmemory 0");
    assert_eq!(service.insert("key=a"), missing(&["a"]));
    assert_eq!(service.ask("key=a"), found(&["a"]));
}

/// A server that kept nothing is given the filter anew, with its window.
#[test]
fn a_lost_filter_is_made_again() {
    let mut server = Server::start();
    let service = Service::start(&server, &[]);
    assert_eq!(service.insert("key=a"), missing(&["a"]));
    server.kill();
    server.start_again();
    wait_until("the service has found the empty server", || {
        service.post("key=b", b"").0 == 200
    });
    assert_eq!(
        service.ask("key=a&key=b"),
        json!({ "found": ["b"], "missing": ["a"] })
    );
    let again = server
        .client()
        .cmd("BF.RESERVE mneme 0.01 100000 WINDOW 60000 PERIODS 3");
    assert_eq!(again, error("ERR item exists"));
    let info = server.client().cmd("BF.INFO mneme ALL");
    let fields = info.as_array().chunks(2);
    let mut window = fields.filter(|field| field[0].text() == "Window");
    assert_eq!(window.next().expect("it has a window")[1].as_int(), 60_000);
}

#[test]
fn the_service_does_not_start_with_invalid_options() {
    let server = Server::start();
    let refused = |options: &[&str], code: i32, why: &str| {
        let output = command(&server, options).output();
        let output = output.expect("the program runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(why), "{text}");
        assert!(output.stdout.is_empty());
    };
    refused(&["--length", "soon"], 2, "not a number");
    refused(&["--length=-1"], 2, "negative");
    refused(&["--timeout", "0"], 2, "larger than 0");
    refused(&["--connections", "0"], 2, "not in 1..");
    refused(&["--timeout", "86401"], 2, "86400 at most");
    refused(&["--error-rate", "1.5"], 2, "between 0 and 1");
    refused(&["--error-rate", "nan"], 2, "between 0 and 1");
    refused(&["--size", "0"], 2, "not in 1..");
    refused(&["--length", "0.0009"], 2, "0.001 or more");
    refused(&["--periods", "0"], 2, "not in 1..=60000");
    refused(&["--periods", "60001"], 2, "not in 1..=60000");
    // The server refuses these.
    refused(&["--length", "1e19"], 2, "window");
    refused(&["--size", "9223372036854775808"], 2, "capacity");
    refused(&["--server", "redis://a:b:c"], 2, "not a server address");
    refused(&["--listen", "127.0.0.1"], 2, "--listen: ");
    refused(&["--cacert", "/none.pem"], 2, "rediss://");
    refused(
        &["--cert", "client.pem", "--server", "rediss://localhost"],
        2,
        "together",
    );
    let taken = format!("127.0.0.1:{}", server.port());
    refused(&["--listen", &taken], 1, "in use");
}
