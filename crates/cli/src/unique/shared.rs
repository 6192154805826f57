//! One pass beside other runs: a server's filter says which items are new, to exactly one run.
//!
//! ```text
//!   files → chunks → BF.INSERT … ONCE → output       written at once, and put on the disk
//!                                     → checkpoint   the length of the output on the disk, written whole or not at all
//! ```
//!
//! A position is the number of an item in the input of the run. The server's receipt keeps the answers for the latest
//! positions. Before it would forget one that is not in the checkpoint yet, the run saves another checkpoint. A run that is
//! started again cuts its output at the checkpoint, sends the items after it again, and gets the same answers.
//!
//! So a run may be killed at any moment:
//!
//! - Before a checkpoint is saved: the receipt repeats the answers for the items after the one before.
//! - After the checkpoint at the end of a file, before its rename: the file is opened again, and gets its name.
//! - Between a rename and the next checkpoint: the file is skipped as finished.
//! - After the last rename: all files are finished, so the receipt, which may be deleted by then, is not needed.

use redis::{Cmd, Value, cmd};
use valkeybloom_near::once::{LACKING, is_lacking};
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::names::{BF_INFO, BF_INSERT};
use valkeybloom_sketches::{Fraction, Receipt};

use super::one_pass::FIRST_ITEMS;
use super::output::Output;
use super::passes::Passes;
use super::printer::{Figures, Printer};
use super::state::State;
use crate::failure::{Failure, Fault, Result, shown};
use crate::held::limits;
use crate::lines::{Block, Record, Start};
use crate::progress::Show;
use crate::receipts::{Reason, RunReceipts, Sending};
use crate::report::warn;
use crate::server::{COMMAND_ITEMS, Server};

/// The most records whose items are sent at once. The receipt can repeat the answers for all of them.
const CHUNK: usize = 50_000;
const _: () = assert!(CHUNK <= Receipt::MOST_ANSWERS);

/// A filter on a server, which runs may share.
pub struct SharedFilter<'s> {
    pub server: &'s Server,
    pub key: &'s str,
    /// The error rate of the filter that is created if the key is missing.
    pub rate: Fraction,
}

/// What a run had done when it last put its output on the disk.
#[derive(Clone, Copy, Default)]
struct Checkpoint {
    figures: Figures,
    /// The number of items that have answers.
    position: u64,
    /// The index of the open file.
    file: u64,
    /// The length of the open file's output; 0 if none is open.
    output_bytes: u64,
}

/// A run that prints the records whose items are new to a shared filter.
struct Run<'r> {
    filter: &'r SharedFilter<'r>,
    printer: &'r mut Printer,
    receipts: RunReceipts,
    /// Where checkpoints are saved.
    state: State,
    /// The latest checkpoint, which may be of an earlier run.
    saved: Checkpoint,
    /// The number of items that have answers.
    position: u64,
    /// The index of the open file.
    file: u64,
}

impl Checkpoint {
    fn to_words(self) -> impl Iterator<Item = u128> {
        let it = self.figures;
        let figures = [it.kept, it.dropped, it.left_out];
        let place = [self.position, self.file, self.output_bytes];
        figures.into_iter().chain(place).map(u128::from)
    }

    fn of_words(words: Vec<u128>) -> Option<Self> {
        let numbers: Result<Vec<u64>, _> = words.into_iter().map(u64::try_from).collect();
        let [kept, dropped, left_out, position, file, output_bytes] =
            numbers.ok()?.try_into().ok()?;
        Some(Self {
            figures: Figures {
                kept,
                dropped,
                left_out,
            },
            position,
            file,
            output_bytes,
        })
    }
}

impl SharedFilter<'_> {
    /// Prints the records whose items are new to the filter, after those of an earlier run's checkpoint. Returns the
    /// filter's error rate.
    pub fn print_new(
        &self,
        passes: &Passes<'_>,
        state: State,
        printer: &mut Printer,
    ) -> Result<f64> {
        let checkpoint = state.load(Checkpoint::of_words)?;
        match checkpoint {
            None => printer.output.require_none()?,
            Some(_) => printer.output.require_no_other(&state)?,
        }
        let keys = [self.key.as_bytes().to_vec()];
        let (input, sending) = (passes.input, Sending::ForAnswers);
        let receipts = RunReceipts::read(self.server, &keys, "unique", BF_INSERT, input, sending)?;
        let saved = checkpoint.unwrap_or_default();
        printer.figures = saved.figures;
        let mut run = Run {
            filter: self,
            printer,
            receipts,
            state,
            saved,
            position: saved.position,
            file: saved.file,
        };
        let begun = run.begin(checkpoint.is_some(), passes.show);
        let done = begun.and_then(|()| run.print_records(passes));
        let rate = done.and_then(|()| self.error_rate());
        let rate = rate.map_err(|failure| run.receipts.status().explain(failure))?;
        run.receipts.delete(self.server);
        run.state.remove()?;
        Ok(rate)
    }

    fn error_rate(&self) -> Result<f64> {
        let key = self.key.as_bytes();
        let mut info = cmd(BF_INFO);
        let rates: Result<Vec<f64>, Fault> = self.server.query(key, info.arg(key).arg("ERROR"));
        let first = |rates: Vec<f64>| rates.first().copied().ok_or_else(|| unexpected(BF_INFO));
        match rates.and_then(first) {
            Ok(rate) => Ok(rate),
            // No record had an item, so nothing was sent, and nothing made a filter. Or the key is gone since.
            Err(fault) if fault.is(Error::NOT_FOUND) => Ok(self.rate.get()),
            Err(fault) => Err(self.server.failure_of("describe", key, &fault)),
        }
    }
}

impl Run<'_> {
    /// Finds the receipt of a run that continues after a checkpoint, or else creates the receipt and the first checkpoint.
    fn begin(&mut self, continues: bool, show: Show) -> Result<()> {
        if !continues && self.receipts.done_before() > 0 && show != Show::Nothing {
            warn(
                "the server has a receipt for these files, but there is no output: beginning with the first item",
            );
        }
        // The receipt may be ahead of the checkpoint: the items between are sent again, and get the same answers.
        self.receipts.resume(self.position, show);
        // A run that was killed at its end may have deleted its receipt.
        let is_complete =
            matches!(&self.printer.output, Output::Folder(folder) if folder.is_complete());
        let call = |key: &[u8], set: &Cmd| self.filter.server.call(key, set);
        let found = self.receipts.create(continues && !is_complete, call);
        found.map_err(|fault| self.fail(None, &fault))?;
        if continues { Ok(()) } else { self.save() }
    }

    fn print_records(&mut self, passes: &Passes<'_>) -> Result<()> {
        let mut records_to_skip = self.saved.figures.records();
        passes.each_block("writing", |mut block| {
            if let Some(start) = block.start.take() {
                self.begin_file(block.index, &start)?;
            }
            let records: Vec<Record<'_>> = block.records().collect();
            let skipped = usize::try_from(records_to_skip).unwrap_or(usize::MAX);
            let skipped = skipped.min(records.len());
            records_to_skip -= skipped as u64;
            let mut chunks = records[skipped..].chunks(CHUNK);
            chunks.try_for_each(|records| self.print_chunk(&block, records))
        })?;
        self.save()?;
        self.printer.output.end()
    }

    /// Begins a file, or continues one.
    fn begin_file(&mut self, index: usize, start: &Start) -> Result<()> {
        let file = index as u64;
        let Checkpoint { output_bytes, .. } = self.saved;
        if file < self.saved.file {
            // An earlier run has done all its records.
            return Ok(());
        }
        if let Output::Folder(folder) = &mut self.printer.output
            && file == self.saved.file
            && output_bytes > 0
        {
            let begun = folder.begin(index, start, output_bytes);
            if begun.is_err() && !folder.has_kept(index, output_bytes) {
                self.receipts.status().discard(Reason::OutputChanged);
            }
            return begun;
        }
        // The file before gets its name once the checkpoint says that all its records are done.
        self.save()?;
        self.file = file;
        self.printer.output.begin(index, start)
    }

    fn print_chunk(&mut self, block: &Block, records: &[Record<'_>]) -> Result<()> {
        let items = records.iter().filter_map(|record| record.item.ok());
        let items: Vec<&[u8]> = items.collect();
        let unsaved = self.position - self.saved.position + items.len() as u64;
        if unsaved > Receipt::MOST_ANSWERS as u64 {
            self.save()?;
        }
        let are_new = self.add(block, &items)?.into_iter();
        let records = records.iter().cloned();
        self.printer.print(block, records, are_new.map(u64::from))?;
        self.position += items.len() as u64;
        self.receipts.status().set_first_done(self.position);
        Ok(())
    }

    /// Saves a checkpoint, once the output is on the disk.
    fn save(&mut self) -> Result<()> {
        let Output::Folder(folder) = &mut self.printer.output else {
            return Ok(());
        };
        self.saved = Checkpoint {
            figures: self.printer.figures,
            position: self.position,
            file: self.file,
            output_bytes: folder.sync()?,
        };
        self.state.save(self.saved.to_words())
    }

    /// Adds items to the filter, and returns for each whether it was new.
    fn add(&mut self, block: &Block, items: &[&[u8]]) -> Result<Vec<bool>> {
        let SharedFilter { server, key, rate } = *self.filter;
        let rate = rate.get().to_string();
        let batches = items.chunks(COMMAND_ITEMS);
        let starts = (self.position..).step_by(COMMAND_ITEMS);
        let commands = batches.clone().zip(starts).map(|(batch, start)| {
            let positions = start..start + batch.len() as u64;
            let mut insert = self.receipts.command(0, positions, BF_INSERT);
            // Only the first command creates a filter. A later one would find everything new to it.
            if start == 0 {
                insert.arg("CAPACITY").arg(FIRST_ITEMS).arg("ERROR");
                insert.arg(&rate).arg("EXPANSION").arg(2);
            } else {
                insert.arg("NOCREATE");
            }
            insert.arg("ITEMS").arg(batch);
            (key.as_bytes().to_vec(), insert)
        });
        let commands: Vec<_> = commands.collect();
        let replies = server.call_all(&commands);
        let mut are_new = Vec::with_capacity(items.len());
        for ((batch, (key, command)), reply) in batches.zip(&commands).zip(replies) {
            let again = || server.call(key, command);
            let reply = self.receipts.settle(0, reply, again);
            let answers = answers(BF_INSERT, batch, reply);
            are_new.extend(
                answers.map_err(|(item, fault)| self.fail(Some(&block.position(item)), &fault))?,
            );
        }
        Ok(are_new)
    }

    /// Returns the failure to add the item at a position, or without one, to use the receipt.
    fn fail(&self, position: Option<&str>, fault: &Fault) -> Failure {
        if matches!(fault, Fault::Refused(text) if is_lacking(text)) {
            return Failure::new(LACKING);
        }
        let SharedFilter { server, key, .. } = *self.filter;
        if fault.is(Error::NOT_FOUND) {
            self.receipts.status().discard(Reason::FilterGone);
            return Failure::new(server.missing_key(key.as_bytes()));
        }
        let verb = position.map(|position| format!("add {position} to"));
        let verb = verb.as_deref().unwrap_or("use the receipt of");
        let what = format!("could not {verb} {} at", shown(key.as_bytes()));
        limits::failure(server, &what, fault, None)
    }
}

/// Returns for each item of a command whether the answer to it is 1.
///
/// # Errors
/// An item, and the fault that its answer is. The first item has the fault of the whole command.
pub fn answers<'i>(
    command: &str,
    items: &[&'i [u8]],
    reply: Result<Value, Fault>,
) -> Result<Vec<bool>, (&'i [u8], Fault)> {
    let reply = reply.map_err(|fault| (items[0], fault))?;
    let answers = reply.into_sequence().unwrap_or_default();
    let count = answers.len();
    let answers = items
        .iter()
        .zip(answers)
        .map(|(item, answer)| match answer {
            Value::Int(answer @ 0..=1) => Ok(answer == 1),
            Value::ServerError(error) => Err((*item, error.into())),
            _ => Err((items[0], unexpected(command))),
        });
    let answers = answers.collect::<Result<Vec<_>, _>>()?;
    // Only an error may end the answers early.
    if count == items.len() {
        Ok(answers)
    } else {
        Err((items[0], unexpected(command)))
    }
}

fn unexpected(command: &str) -> Fault {
    Fault::Unusable(format!("unexpected reply to {command}"))
}
