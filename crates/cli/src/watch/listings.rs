//! What is watched, and a thread that reads listings of it, and connects again when the connection is lost.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::failure::{Failure, Fault, Result};
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
    /// The keys at a moment.
    Listing(Listing, Instant),
    /// The listing failed for this reason, and the thread connects again.
    Retrying(String),
    /// The thread ended, because another attempt would fail as well.
    Ended(Failure),
}

/// Starts the thread. It ends with the process, when the receiver is dropped, or after a failure that is permanent.
pub fn start(watch: Watch, tls: Tls, server: Server) -> Receiver<Update> {
    // Listings do not pile up while the screen is busy.
    let (sender, updates) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let connect = || {
            thread::sleep(AGAIN);
            Server::connect(&watch.server, &tls)
        };
        keep_on(server, connect, &sender, |server| {
            read_on(&watch, server, &sender)
        });
    });
    updates
}

/// Reads from a server, and connects again after a failure. Ends after one that is permanent, when `read` ends without a
/// failure, or when nobody receives updates any more.
fn keep_on<S>(
    server: S,
    connect: impl Fn() -> Result<S>,
    sender: &SyncSender<Update>,
    read: impl Fn(&S) -> Result<()>,
) {
    let mut connected = Ok(server);
    loop {
        let Err(failure) = connected.and_then(|server| read(&server)) else {
            return;
        };
        let is_last = failure.is_permanent;
        let update = if is_last {
            Update::Ended(failure)
        } else {
            Update::Retrying(failure.without_retry().to_string())
        };
        if sender.send(update).is_err() || is_last {
            return;
        }
        connected = connect();
    }
}

/// Reads listings until that fails, or nobody receives them any more.
fn read_on(watch: &Watch, server: &Server, sender: &SyncSender<Update>) -> Result<()> {
    let failed = |fault| server.failure("could not list the keys of", &fault);
    let mut reader = Reader::new(server, watch.order.rate, false);
    loop {
        let start = Instant::now();
        // Each time, because a cluster's client may have connected to a node again.
        server.leave_untouched().map_err(failed)?;
        let listing = listing(watch, &mut reader).map_err(failed)?;
        let update = Update::Listing(listing, Instant::now());
        if sender.send(update).is_err() {
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn failure(text: &str, is_permanent: bool) -> Failure {
        let mut failure = Failure::new(text);
        failure.is_permanent = is_permanent;
        failure
    }

    #[test]
    fn it_connects_again_until_a_failure_is_permanent() {
        let attempts = [
            Err(failure("no route", false)),
            Ok("second"),
            Err(failure("no such user", true)),
            Ok("too late"),
        ];
        let attempts = RefCell::new(attempts.into_iter());
        let connect = || attempts.borrow_mut().next().expect("an attempt");
        // The advice of a lost connection is to run the program again.
        let lost = Fault::Lost("lost".to_owned());
        let read = |server: &&str| Err(Failure::of_fault(server, &lost));
        let (sender, updates) = mpsc::sync_channel(8);
        keep_on("first", connect, &sender, read);
        drop(sender);
        let said = updates.iter().map(|update| match update {
            Update::Listing(..) => "listing".to_owned(),
            Update::Retrying(failure) => format!("again: {failure}"),
            Update::Ended(failure) => format!("ended: {failure}"),
        });
        let expected = [
            &format!(
                "again: {}",
                Failure::of_fault("first", &lost).without_retry()
            ),
            "again: no route",
            &format!(
                "again: {}",
                Failure::of_fault("second", &lost).without_retry()
            ),
            "ended: no such user",
        ];
        assert_eq!(said.collect::<Vec<_>>(), expected);
        assert_eq!(attempts.borrow().len(), 1);
    }

    #[test]
    fn it_ends_when_nobody_receives() {
        let connect = || -> Result<()> { panic!("nobody wants more") };
        let (sender, updates) = mpsc::sync_channel(8);
        keep_on((), connect, &sender, |()| Ok(()));
        assert!(updates.try_recv().is_err());
        drop(updates);
        keep_on((), connect, &sender, |()| Err(failure("it is lost", false)));
    }
}
