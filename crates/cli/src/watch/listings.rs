//! What is watched, and a thread that reads listings of it, and connects again when the connection is lost.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::failure::{Fault, Result};
use crate::held::read::{Listing, Reader};
use crate::keys::Selection;
use crate::list::order::Order;
use crate::options;
use crate::server::{Server, Tls};

/// Show every filter and sketch of a server on a full screen, and how they change
#[derive(Args)]
pub struct Watch {
    /// The server: redis://user:password@host:port/database, rediss:// for TLS
    pub server: String,
    /// Only these keys
    #[arg(value_name = "KEY", conflicts_with = "pattern")]
    names: Vec<String>,
    #[command(flatten)]
    keys: Selection,
    #[command(flatten)]
    pub order: Order,
    /// The time between two refreshes
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = options::duration_ms)]
    interval: u64,
}

/// The time between two attempts to connect.
const AGAIN: Duration = Duration::from_secs(1);

/// What the thread reports.
pub enum Update {
    Listing(Listing, Instant),
    /// There was no listing, and there will be another attempt.
    Failed(String),
}

/// Updates, up to the failure that no other attempt mends.
pub type Updates = Receiver<Result<Update>>;

/// Starts the thread. It ends with the process, when the receiver is dropped, or after a failure that is permanent.
pub fn start(watch: Watch, tls: Tls, server: Server) -> Updates {
    // Listings do not pile up while the screen is busy.
    let (sender, updates) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut connected = Ok(server);
        loop {
            let Err(failure) = connected.and_then(|server| read_on(&watch, &server, &sender))
            else {
                return;
            };
            let is_last = failure.is_permanent;
            let update = if is_last {
                Err(failure)
            } else {
                Ok(Update::Failed(failure.to_string()))
            };
            if sender.send(update).is_err() || is_last {
                return;
            }
            thread::sleep(AGAIN);
            connected = Server::connect(&watch.server, &tls);
        }
    });
    updates
}

/// Reads listings until that fails, or nobody receives them any more.
fn read_on(watch: &Watch, server: &Server, sender: &SyncSender<Result<Update>>) -> Result<()> {
    let failed = |fault| server.failure("could not list the keys of", &fault);
    let mut reader = Reader::new(server, watch.order.rate, false);
    loop {
        let start = Instant::now();
        // Each time, because a cluster's client may have connected to a node again.
        server.leave_untouched().map_err(failed)?;
        let listing = listing(watch, &mut reader).map_err(failed)?;
        let update = Update::Listing(listing, Instant::now());
        if sender.send(Ok(update)).is_err() {
            return Ok(());
        }
        let interval = Duration::from_millis(watch.interval);
        thread::sleep(interval.saturating_sub(start.elapsed()));
    }
}

fn listing(watch: &Watch, reader: &mut Reader<'_>) -> Result<Listing, Fault> {
    let kinds = watch.keys.kinds();
    let found = match &watch.names[..] {
        [] => reader.find(&watch.keys)?,
        names => reader.find_named(names, &kinds)?,
    };
    let mut rows = Vec::new();
    let take = |mut batch: Vec<_>, _| rows.append(&mut batch);
    let unreadable = reader.read(found, &kinds, take)?;
    Ok(Listing { rows, unreadable })
}
