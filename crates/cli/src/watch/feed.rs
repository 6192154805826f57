//! A thread that reads listings, and connects again when the connection is lost.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Fault};
use crate::keys::Selection;
use crate::list::read::{Listing, Reader};
use crate::server::{Server, Tls};

/// The time between two attempts to connect.
const AGAIN: Duration = Duration::from_secs(1);

/// What the thread reports.
pub enum Update {
    Listing(Listing, Instant),
    /// The connection is lost, or the server refuses everything.
    Failed(String),
}

pub type Updates = Receiver<Update>;

/// What is read, and how often.
pub struct Feed {
    pub address: String,
    pub tls: Tls,
    pub selection: Selection,
    /// If there are any, only these keys.
    pub names: Vec<String>,
    pub keys_per_second: u64,
    pub interval: Duration,
}

impl Feed {
    /// Starts the thread. It ends with the process, or when the receiver is dropped.
    pub fn start(self, server: Server) -> Updates {
        // Listings do not pile up while the screen is busy.
        let (sender, updates) = mpsc::sync_channel(1);
        thread::spawn(move || self.run(server, &sender));
        updates
    }

    fn run(&self, server: Server, sender: &SyncSender<Update>) {
        let mut next = Ok(server);
        loop {
            let failure = match next {
                Ok(server) => match self.read_on(&server, sender) {
                    Some(failure) => failure,
                    None => return,
                },
                Err(failure) => failure,
            };
            if sender.send(Update::Failed(failure.to_string())).is_err() {
                return;
            }
            thread::sleep(AGAIN);
            next = Server::connect(&self.address, &self.tls);
        }
    }

    /// Reads listings until that fails. Returns `None` if nobody receives them any more.
    fn read_on(&self, server: &Server, sender: &SyncSender<Update>) -> Option<Failure> {
        let failed = |fault| Some(server.failure("could not list the keys of", &fault));
        if let Err(fault) = server.leave_untouched() {
            return failed(fault);
        }
        let mut reader = Reader::new(server, self.keys_per_second, false);
        loop {
            let start = Instant::now();
            let listing = match self.listing(&mut reader) {
                Ok(listing) => listing,
                Err(fault) => return failed(fault),
            };
            sender.send(Update::Listing(listing, Instant::now())).ok()?;
            thread::sleep(self.interval.saturating_sub(start.elapsed()));
        }
    }

    fn listing(&self, reader: &mut Reader<'_>) -> Result<Listing, Fault> {
        let kinds = self.selection.kinds();
        let found = if self.names.is_empty() {
            reader.find(&self.selection)?
        } else {
            reader.find_named(&self.names, &kinds)?
        };
        let mut rows = Vec::new();
        let take = |mut batch: Vec<_>, _| rows.append(&mut batch);
        let unreadable = reader.read(found, &kinds, take)?;
        Ok(Listing { rows, unreadable })
    }
}
