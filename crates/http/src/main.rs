//! The program `valkeybloom-http`: "which of these keys did I see in the last minutes?", over HTTP.
//!
//! It keeps no state. The filter is a key of the server, whose window forgets a key when its last insertion is `periods`
//! periods old. Any number of these services may share it.
//!
//! A request's keys wait in a queue ([`batches`]) and travel with those of other requests, because a command for the
//! server costs more than a key does.

mod batches;
mod fault;
mod idempotency;
mod keys;
mod link;
mod listener;
mod log;
mod metrics;
mod options;
mod pages;
mod service;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;

use batches::Queue;
use link::Link;
use metrics::Metrics;
use options::Options;
use service::Service;

/// The number of open files that are not connections of clients, at most.
const OWN_FILES: u64 = 32;

async fn run() -> Result<(), Failure> {
    let mut options = Options::read().map_err(Failure::Options)?;
    if let Some(folder) = &options.pages {
        return pages::write(folder).map_err(|error| Failure::at(&folder.display(), &error));
    }
    let invalid = |error: Box<dyn std::error::Error>| Failure::Options(error.to_string());
    let queue = Queue::start(Link::new(&options).map_err(invalid)?, &options)
        .await
        .map_err(|error| Failure::Options(error.to_string()))?;
    let service = Service::new(queue, Metrics::new()?, &options);
    let listener = TcpListener::bind(&options.listen).await;
    let listener = listener.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Failure::Options(format!("--listen: {error}")),
        _ => Failure::at(&options.listen, &error),
    })?;
    options.connections = options.connections.min(raise_file_limit());
    // Nobody may read it.
    let address = listener.local_addr()?;
    let _ = writeln!(io::stdout(), "listening on http://{address}");
    sd_notify::notify(&[sd_notify::NotifyState::Ready])?;
    listener::serve(listener, service, &options).await?;
    Ok(())
}

/// Raises the limit of open files as far as the system permits. Returns how many connections it allows.
fn raise_file_limit() -> u32 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // It fails only if the maximum has fallen in between.
    let _ = setrlimit(Resource::Nofile, limit);
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = files.saturating_sub(OWN_FILES).max(1);
    u32::try_from(connections).unwrap_or(u32::MAX)
}

/// Why the program ends.
enum Failure {
    /// The options are invalid, so it would fail again.
    Options(String),
    Other(String),
}

impl Failure {
    fn at(place: &dyn Display, error: &io::Error) -> Self {
        Self::Other(format!("{place}: {error}"))
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.to_string())
    }
}

/// Runs the program. The exit status is 0 after a signal to end, 1 for a failure, and 2 for invalid options.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let (failure, status) = match run().await {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Other(failure)) => (failure, 1),
        Err(Failure::Options(failure)) => (failure, 2),
    };
    let _ = writeln!(io::stderr(), "valkeybloom-http: {failure}");
    ExitCode::from(status)
}
