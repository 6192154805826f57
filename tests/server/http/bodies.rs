//! Ways to write a request: JSON, sizes at their limits, old and unusual HTTP.

use super::*;

const JSON: &str = "application/json";

#[test]
fn keys_may_be_json() {
    let server = Server::start();
    let service = Service::start(&server, &[]);
    let body = "{\"keys\": [\"a\", \"b c\", \"\\u00e4\\ud83d\\ude00\", \"a\"]}";
    assert_eq!(
        answered(service.post_as(JSON, "", body.as_bytes())),
        json!({ "found": ["a"], "missing": ["a", "b c", "ä😀"] })
    );
    // Beside those of the URL.
    let charset = "Application/JSON; charset=utf-8";
    assert_eq!(
        answered(service.post_as(charset, "key=b", b"{\"keys\":[\"c\"]}")),
        missing(&["b", "c"])
    );
    assert_eq!(
        service.ask("key=%C3%A4%F0%9F%98%80&key=b+c&key=c&key=b"),
        found(&["ä😀", "b c", "c", "b"])
    );
    let mut client = server.client();
    let exists = client.call(&[b"BF.EXISTS", b"mneme", "ä😀".as_bytes()]);
    assert_eq!(exists.as_int(), 1);
}

#[test]
fn invalid_json_is_refused() {
    let server = Server::start();
    let service = Service::start(&server, &[]);
    for body in [
        "",
        "a",
        "[\"a\"]",
        "[[\"a\"]]",
        "\"a\"",
        "null",
        "{}",
        "{\"keys\":\"a\"}",
        "{\"keys\":[1]}",
        "{\"keys\":[null]}",
        "{\"keys\":[[\"a\"]]}",
        "{\"keys\":[\"a\"],\"more\":1}",
        "{\"keys\":[\"a\"]} b",
        "{\"keys\":[\"\\ud800\"]}",
        "{\"keys\":[]}",
        "{\"keys\":[\"a\",\"\"]}",
        "{\"keys\":[\"a\"",
    ] {
        let (status, value) = service.post_as(JSON, "", body.as_bytes());
        assert_eq!(status, 400, "{body}: {value}");
        assert!(value["error"].is_string(), "{value}");
    }
    let (status, _) = service.post_as(JSON, "", b"{\"keys\":[\"\xff\"]}");
    assert_eq!(status, 400);
    assert_eq!(server.client().cmd("BF.CARD mneme").as_int(), 0);
}

#[test]
fn a_request_may_be_as_large_as_the_page_says() {
    let server = Server::start();
    let service = Service::start(&server, &["--error-rate", "0.000001"]);
    let keys: Vec<String> = (0..1001).map(|n| n.to_string()).collect();
    let body = |count| json!({ "keys": keys[..count] }).to_string();
    let (status, value) = service.post_as(JSON, "", body(1001).as_bytes());
    assert_eq!(
        (status, value["error"].is_string()),
        (StatusCode::PAYLOAD_TOO_LARGE, true)
    );
    let inserted = answered(service.post_as(JSON, "", body(1000).as_bytes()));
    assert_eq!(listed(&inserted, "missing"), keys[..1000]);
    // A URL's keys count as well.
    let (status, _) = service.post_as(JSON, "key=a", body(1000).as_bytes());
    assert_eq!(status, 413);
    let query = |count| {
        let pairs = keys[..count].iter().map(|key| format!("key={key}"));
        pairs.collect::<Vec<_>>().join("&")
    };
    assert_eq!(listed(&service.ask(&query(1000)), "found"), keys[..1000]);
    assert_eq!(service.get(&query(1001)).0, 413);

    for (size, expected) in [(65_536, 200), (65_537, 413)] {
        let body = format!("key={}", "a".repeat(size - 4));
        let (status, value) = service.post("", body.as_bytes());
        assert_eq!(status, expected, "{value}");
        // With chunks, the size is known at the end.
        let head = "POST / HTTP/1.1\r\nHost: here\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\
                    Content-Type: application/x-www-form-urlencoded\r\n\r\n";
        let (first, second) = body.split_at(1000);
        let mut stream = service.send(head.as_bytes());
        for part in [first, second, ""] {
            let chunk = format!("{:x}\r\n{part}\r\n", part.len());
            // It may be refused before it is all sent.
            let _ = stream.write_all(chunk.as_bytes());
        }
        let line = first_line(stream);
        assert!(line.starts_with(&format!("HTTP/1.1 {expected} ")), "{line}");
    }
}

/// What declares its size is refused before it is sent.
#[test]
fn a_large_or_compressed_body_is_refused_at_once() {
    let server = Server::start();
    let service = Service::start(&server, &[]);
    let head = "POST / HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n";
    for (more, status) in [
        ("Content-Length: 1000000000\r\n", "413"),
        (
            "Content-Length: 1000000000\r\nExpect: 100-continue\r\n",
            "413",
        ),
        ("Content-Length: 65537\r\nExpect: 100-continue\r\n", "413"),
        ("Content-Length: 40\r\nContent-Encoding: gzip\r\n", "415"),
        (
            "Content-Length: 40\r\nContent-Encoding: br\r\nExpect: 100-continue\r\n",
            "415",
        ),
        (
            "Content-Length: 40\r\nContent-Encoding: identity\r\nExpect: 100-continue\r\n",
            "100",
        ),
    ] {
        let stream = service.send(format!("{head}{more}\r\n").as_bytes());
        let line = first_line(stream);
        assert!(
            line.starts_with(&format!("HTTP/1.1 {status} ")),
            "{more}{line}"
        );
    }
}

#[test]
fn percent_encoding_is_read_as_browsers_do() {
    let server = Server::start();
    let service = Service::start(&server, &["--error-rate", "0.000001"]);
    // An incomplete code stands for itself.
    for (query, key) in [
        ("key=%", "%"),
        ("key=%4", "%4"),
        ("key=%zz", "%zz"),
        ("key=%41", "A"),
        ("%6bey=b", "b"),
        ("key=a=b", "a=b"),
        ("key=a+b%2B", "a b+"),
        ("key=%ef%bf%bd", "\u{FFFD}"),
    ] {
        assert_eq!(service.insert(query), missing(&[key]), "{query}");
    }
    for query in [
        "key=%80",
        "key=%c3",
        "key=%ed%a0%80",
        "key",
        "key=",
        "key=a&key=",
    ] {
        assert_eq!(service.get(query).0, 400, "{query}");
    }
}

/// Returns what curl prints.
#[track_caller]
fn curl(service: &Service, words: &[&str]) -> String {
    let mut curl = Command::new("curl");
    let output = curl
        .args(["-s", &format!("{}/?key=a", service.url)])
        .args(words);
    let output = output.output().expect("there is a curl");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("a text")
}

#[test]
fn old_and_unusual_requests_are_answered() {
    let server = Server::start();
    let service = Service::start(&server, &[]);
    let body = "{\"found\":[],\"missing\":[\"a\"]}";
    assert_eq!(curl(&service, &["--http1.0"]), body);
    let head = curl(&service, &["--head"]);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(
        head.contains(&format!("content-length: {}\r\n", body.len())),
        "{head}"
    );
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    let options = curl(&service, &["-X", "OPTIONS", "-i"]);
    assert!(options.starts_with("HTTP/1.1 405 "), "{options}");
    assert!(options.contains("allow: GET, HEAD, POST\r\n"), "{options}");

    // Requests that do not wait for the answers before them.
    let get = |more: &str| format!("GET /?key=b HTTP/1.1\r\nHost: here\r\n{more}\r\n");
    let post = "POST /?key=b HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n\r\n";
    let all = [
        get(""),
        post.to_owned(),
        get(""),
        get("Connection: close\r\n"),
    ]
    .concat();
    let answers = service.exchange(all.as_bytes());
    assert_eq!(
        answers.matches("HTTP/1.1 200 OK\r\n").count(),
        4,
        "{answers}"
    );
    let lists = answers
        .split("\r\n")
        .filter_map(|line| line.split("HTTP/").next());
    let lists: Vec<&str> = lists.filter(|line| line.starts_with('{')).collect();
    let (missing, found) = (missing(&["b"]).to_string(), found(&["b"]).to_string());
    assert_eq!(lists, [&*missing, &missing, &found, &found]);

    for bytes in [
        &b"GET\r\n\r\n"[..],
        b"\x16\x03\x01\x00\xff\r\n\r\n",
        b"GET / HTTP/1.1\r\na b: c\r\n\r\n",
    ] {
        let answer = service.exchange(bytes);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    // A name of a header without end.
    let long = format!("GET / HTTP/1.1\r\n{}", "a".repeat(200_000));
    let mut stream = TcpStream::connect(service.address()).expect("the service listens");
    let _ = stream.write_all(long.as_bytes());
    let line = first_line(stream);
    assert!(line.starts_with("HTTP/1.1 431 "), "{line}");
}
