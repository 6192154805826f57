//! `/health` and `/metrics`.

use crate::tool::{assert_documented, assert_valid_metrics};

use super::*;

#[test]
fn health_is_that_of_the_server() {
    let mut server = Server::start();
    let service = Service::start(&server, &[]);
    let health = || {
        let (status, text) = service.text("/health");
        (status, serde_json::from_str::<Value>(&text).expect("JSON"))
    };
    assert_eq!(health(), (StatusCode::OK, json!({ "status": "ok" })));
    server.shutdown_save();
    let (status, value) = health();
    assert_eq!(status, 503);
    assert!(value["error"].is_string(), "{value}");
    server.start_again();
    wait_until("the service has found the server again", || {
        health().0 == 200
    });
    // Only a GET asks.
    let response = service
        .agent
        .post(format!("{}/health", service.url))
        .send_empty();
    assert_eq!(response.expect("the service answers").status(), 405);
}

/// Returns the value of a series.
#[track_caller]
fn value(metrics: &str, series: &str) -> f64 {
    let start = format!("valkeybloom_http_{series} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
    let value = line.unwrap_or_else(|| panic!("{series} is not in {metrics}"));
    value.parse().expect("a number")
}

#[test]
fn metrics_count_what_was_done() {
    let mut server = Server::start();
    let service = Service::start(&server, &["--error-rate", "0.000001"]);
    service.insert("key=a&key=b");
    service.insert("key=b&key=c&key=d");
    service.ask("key=a&key=x");
    assert_eq!(service.get("").0, 400);
    assert_eq!(service.text("/none").0, 404);
    let stream = service.send(b"GET / HT");
    let (status, metrics) = service.text("/metrics");
    assert_eq!(status, 200);
    assert_valid_metrics(&metrics);
    for (series, expected) in [
        ("requests_total{method=\"POST\",status=\"200\"}", 2.0),
        ("requests_total{method=\"GET\",status=\"200\"}", 1.0),
        ("requests_total{method=\"GET\",status=\"400\"}", 1.0),
        ("requests_total{method=\"GET\",status=\"404\"}", 1.0),
        ("keys_total{answer=\"missing\",method=\"POST\"}", 4.0),
        ("keys_total{answer=\"found\",method=\"POST\"}", 1.0),
        ("keys_total{answer=\"found\",method=\"GET\"}", 1.0),
        ("keys_total{answer=\"missing\",method=\"GET\"}", 1.0),
        ("request_duration_seconds_count", 5.0),
        ("request_duration_seconds_bucket{le=\"+Inf\"}", 5.0),
        ("server_errors_total", 0.0),
        ("server_up", 1.0),
        ("build_info{version=\"3.0.0\"}", 1.0),
    ] {
        let had = value(&metrics, series);
        assert!((had - expected).abs() < 1e-9, "{series}: {had}");
    }
    assert!(value(&metrics, "request_duration_seconds_sum") > 0.0);
    // The connection of the agent, and the one that waits.
    let open = || value(&service.text("/metrics").1, "connections");
    wait_until("both connections are counted", || open() > 1.5);
    drop(stream);
    wait_until("one connection is left", || open() < 1.5);

    server.shutdown();
    assert_eq!(service.get("key=a").0, 503);
    let (status, metrics) = service.text("/metrics");
    assert_eq!(status, 200);
    assert_valid_metrics(&metrics);
    assert!(value(&metrics, "server_up") < 0.5);
    assert!((value(&metrics, "server_errors_total") - 1.0).abs() < 1e-9);
}

#[test]
fn every_metric_is_on_the_page() {
    let server = Server::start();
    let service = Service::start(&server, &[]);
    service.ask("key=a");
    service.text("/metrics");
    let (_, metrics) = service.text("/metrics");
    let (of_process, own): (Vec<_>, Vec<_>) = metrics
        .lines()
        .partition(|line| line.contains("process_") && !line.contains("valkeybloom_"));
    for name in ["resident_memory_bytes", "cpu_seconds_total", "open_fds"] {
        let line = format!("process_{name} ");
        assert!(
            of_process.iter().any(|it| it.starts_with(&line)),
            "{metrics}"
        );
    }
    assert_documented(
        &own.join("\n"),
        include_str!("../../../docs/http.md"),
        "valkeybloom_http_",
    );
}
