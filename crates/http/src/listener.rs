//! Connections of clients: how many, and for how long.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::options::Options;
use crate::service::Service;

/// The largest head of a request: a URL may take 64 KiB.
const MAX_HEAD_BYTES: usize = 128 << 10;

/// The most connections that wait to be accepted. Clients try again only a second later if there are more.
const BACKLOG: i32 = 4096;

/// The time that requests in progress have to end after a signal.
const GRACE: Duration = Duration::from_secs(10);

/// The pause after a failure to accept, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves clients until a signal ends the program. Requests in progress are still answered.
///
/// # Errors
/// The system refuses a larger backlog, or signals.
pub async fn serve(listener: TcpListener, service: Service, options: &Options) -> io::Result<()> {
    SockRef::from(&listener).listen(BACKLOG)?;
    let service = Arc::new(service);
    let free = Arc::new(Semaphore::new(options.connections as usize));
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(options.timeout)
        .max_buf_size(MAX_HEAD_BYTES);
    // From here on, no signal is lost, also not one in a pause.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    loop {
        let accepted = async {
            let permit = Arc::clone(&free).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            accepted = accepted => accepted,
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        };
        let Ok((stream, _)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        configure(&stream, options.timeout);
        let answers = Arc::clone(&service);
        let connection = http.serve_connection(
            TokioIo::new(stream),
            service_fn(move |request| Arc::clone(&answers).answer(request)),
        );
        let connection = graceful.watch(connection);
        let service = Arc::clone(&service);
        tokio::spawn(async move {
            service.metrics.connections.inc();
            // A client may go at any time.
            let _ = connection.await;
            service.metrics.connections.dec();
            drop(permit);
        });
    }
    drop(listener);
    let _ = timeout(GRACE, graceful.shutdown()).await;
    Ok(())
}

/// Sends small answers at once, and drops a client that does not read them.
fn configure(stream: &TcpStream, timeout: Duration) {
    // Both fail only if the client is gone.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(timeout));
}
