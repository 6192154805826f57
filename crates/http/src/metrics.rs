//! What Prometheus reads.

use prometheus::process_collector::ProcessCollector;
use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

/// The metrics of the service.
pub struct Metrics {
    registry: Registry,
    process: Registry,
    requests: IntCounterVec,
    /// Seconds from a request's head to its answer.
    pub durations: Histogram,
    keys: IntCounterVec,
    /// Requests that failed at the server.
    pub server_errors: IntCounter,
    /// Open connections of clients.
    pub connections: IntGauge,
    /// Whether the server answers.
    pub server_up: IntGauge,
}

impl Metrics {
    /// Makes metrics that count nothing yet.
    ///
    /// # Errors
    /// Never: all names are valid and differ.
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new_custom(Some("valkeybloom_http".to_owned()), None)?;
        // The usual names of a process's metrics have no prefix.
        let process = Registry::new();
        process.register(Box::new(ProcessCollector::for_self()))?;
        let metrics = Self {
            requests: IntCounterVec::new(
                Opts::new(
                    "requests_total",
                    "Requests by method and status of the answer",
                ),
                &["method", "status"],
            )?,
            durations: Histogram::with_opts(
                HistogramOpts::new("request_duration_seconds", "Time from head to answer").buckets(
                    vec![
                        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0,
                    ],
                ),
            )?,
            keys: IntCounterVec::new(
                Opts::new(
                    "keys_total",
                    "Keys of answered requests by method and answer",
                ),
                &["method", "answer"],
            )?,
            server_errors: IntCounter::new(
                "server_errors_total",
                "Requests that failed at the server",
            )?,
            connections: IntGauge::new("connections", "Open connections of clients")?,
            server_up: IntGauge::new("server_up", "1 if the server answers, 0 otherwise")?,
            registry,
            process,
        };
        let build = Opts::new("build_info", "1, with the version as a label")
            .const_label("version", env!("CARGO_PKG_VERSION"));
        let build = IntGauge::with_opts(build)?;
        build.set(1);
        for collector in [
            Box::new(metrics.requests.clone()) as Box<dyn prometheus::core::Collector>,
            Box::new(metrics.durations.clone()),
            Box::new(metrics.keys.clone()),
            Box::new(metrics.server_errors.clone()),
            Box::new(metrics.connections.clone()),
            Box::new(metrics.server_up.clone()),
            Box::new(build),
        ] {
            metrics.registry.register(collector)?;
        }
        Ok(metrics)
    }

    /// Counts a request that is answered.
    pub fn count_request(&self, method: &str, status: &str) {
        self.requests.with_label_values(&[method, status]).inc();
    }

    /// Counts the keys of a request.
    pub fn count_keys(&self, method: &str, found: &[bool]) {
        let hits = found.iter().filter(|found| **found).count();
        for (answer, count) in [("found", hits), ("missing", found.len() - hits)] {
            let counter = self.keys.with_label_values(&[method, answer]);
            counter.inc_by(count as u64);
        }
    }

    /// Returns all metrics in Prometheus' text format.
    ///
    /// # Errors
    /// Never: all names are valid.
    pub fn text(&self) -> prometheus::Result<String> {
        let families = [self.registry.gather(), self.process.gather()].concat();
        TextEncoder::new().encode_to_string(&families)
    }
}
