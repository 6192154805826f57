//! The program `valkeybloom-http`: "which of these keys did I see in the last minutes?", over HTTP.
//!
//! It keeps no state. The filter is a key of the server, whose window forgets a key when its last insertion is `periods`
//! periods old. Any number of these services may share it.
//!
//! A request's keys wait in a queue ([`batches`]) and travel with those of other requests, because a command for the
//! server costs more than a key does.

mod batches;
mod fault;
mod keys;
mod link;
mod listener;
mod metrics;
mod options;
mod service;

use std::error::Error;
use std::process::ExitCode;

use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;

use batches::Queue;
use link::Link;
use metrics::Metrics;
use options::Options;
use service::Service;

async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    let queue = Queue::start(Link::new(&options)?, &options).await?;
    let service = Service::new(queue, Metrics::new()?, &options);
    let listener = TcpListener::bind(&options.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    sd_notify::notify(&[sd_notify::NotifyState::Ready])?;
    listener::serve(listener, service, &options).await?;
    Ok(())
}

/// Raises the limit of open files as far as the system permits, because each connection takes one.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it, connections wait until others end.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Runs the program. The exit status is 0 after a signal to end, 1 for a failure, and 2 for invalid options.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // Fails only if a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    raise_file_limit();
    let (failure, status) = match Options::read() {
        Ok(options) => match run(options).await {
            Ok(()) => return ExitCode::SUCCESS,
            Err(failure) => (failure.to_string(), 1),
        },
        Err(failure) => (failure, 2),
    };
    eprintln!("valkeybloom-http: {failure}");
    ExitCode::from(status)
}
