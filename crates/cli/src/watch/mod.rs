//! `valkeybloom watch`: the table of `list` on a full screen, refreshed, with the change of the items per second.
//!
//! ```text
//!   listings  a thread: server → listings, that the connection is lost, or the failure that ends it
//!   view      the state: rows in order, scrolling, the filter; pure, as keys and listings change it
//!   screen    a view → the lines of a screen of any size
//! ```

mod listings;
mod screen;
mod view;

use std::io::{self, IsTerminal};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal;
use ratatui::layout::Rect;
use ratatui::{DefaultTerminal, TerminalOptions, Viewport};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::listings::Update;
pub use self::listings::Watch;
use self::view::View;
use super::failure::{Failure, Result};
use super::server::{Server, Tls};

/// The time after which signals and new listings are noticed.
const POLL: Duration = Duration::from_millis(50);

/// The most columns and lines that are drawn.
const MOST_COLUMNS: u16 = 1000;
const MOST_LINES: u16 = 500;

impl Watch {
    pub fn run(self, tls: Tls, json: bool) -> Result<()> {
        if json || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
            return Err(Failure::usage("watch needs a terminal: use list"));
        }
        let server = Server::connect(&self.server, &tls)?;
        let view = View::new(
            &server.address().to_string(),
            self.order.sort,
            self.order.reverse,
        );
        let ended = end_signals().map_err(failed)?;
        let updates = listings::start(self, tls, server);
        // From here on, the terminal is restored whatever happens: a panic restores it in a hook.
        let viewport = screen_area().map(Viewport::Fixed);
        let opened = viewport
            .and_then(|viewport| ratatui::try_init_with_options(TerminalOptions { viewport }));
        let shown = opened.and_then(|mut terminal| {
            let shown = show(&mut terminal, view, &updates, &ended);
            // If the terminal is gone, dropping it would print an error there, and panic.
            if terminal.show_cursor().is_err() {
                mem::forget(terminal);
            }
            shown
        });
        let _ = ratatui::try_restore();
        shown.map_err(failed).flatten()
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it converts errors")]
fn failed(error: io::Error) -> Failure {
    Failure::new(format!("could not use the terminal: {error}"))
}

/// Returns the part of the terminal that is drawn. Each of its cells takes memory, and a terminal may claim to be as large as
/// 65,535 × 65,535.
fn screen_area() -> io::Result<Rect> {
    let (width, height) = terminal::size()?;
    Ok(Rect::new(
        0,
        0,
        width.min(MOST_COLUMNS),
        height.min(MOST_LINES),
    ))
}

/// Returns a flag that signals to end set.
fn end_signals() -> io::Result<Arc<AtomicBool>> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    Ok(ended)
}

/// Reads what the user does, in a thread of its own: reading from a terminal that is gone does not end.
fn events() -> Receiver<io::Result<Event>> {
    let (sender, events) = mpsc::sync_channel(1);
    thread::spawn(move || while sender.send(event::read()).is_ok() {});
    events
}

/// Shows the view until it is to end. The inner result is the failure of the listings that ended it.
fn show(
    terminal: &mut DefaultTerminal,
    mut view: View,
    updates: &Receiver<Update>,
    ended: &AtomicBool,
) -> io::Result<Result<()>> {
    let events = events();
    let mut changed = true;
    while !ended.load(Ordering::Relaxed) {
        if changed {
            terminal.draw(|frame| {
                view.resize(screen::rows_in(frame.area()));
                screen::draw(frame, &view);
            })?;
        }
        changed = false;
        match events.recv_timeout(POLL) {
            Ok(event) => match event? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    if view.press(key) {
                        return Ok(Ok(()));
                    }
                    changed = true;
                }
                Event::Resize(..) => {
                    terminal.resize(screen_area()?)?;
                    changed = true;
                }
                _ => {}
            },
            Err(RecvTimeoutError::Timeout) if io::stdin().is_terminal() => {}
            Err(_) => return Err(io::Error::other("it is gone")),
        }
        loop {
            match updates.try_recv() {
                Ok(Update::Listing(listing, at)) => view.update(listing, at),
                Ok(Update::Retrying(failure)) => view.failure = Some(failure),
                Ok(Update::Ended(failure)) => return Ok(Err(failure)),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    return Err(io::Error::other("the reader of the server ended"));
                }
            }
            changed = true;
        }
    }
    Ok(Ok(()))
}
