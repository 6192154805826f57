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

use std::cmp::Ordering;

use redis::{Value, cmd};
use valkeybloom_near::once::{LACKING, is_lacking};
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
use crate::progress::{Progress, Show};
use crate::receipts::RunReceipts;
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

/// How far an earlier run came with a file.
enum Reached {
    Nothing,
    /// This many bytes of its output are on the disk.
    Bytes(u64),
    End,
}

/// A run that prints the records whose items are new to a shared filter.
struct Run<'r> {
    filter: &'r SharedFilter<'r>,
    passes: &'r Passes<'r>,
    printer: &'r mut Printer,
    receipts: RunReceipts<'r>,
    /// Where checkpoints are saved, if the input can be read again.
    state: Option<State>,
    /// The checkpoint of an earlier run, or the beginning.
    resumed: Checkpoint,
    /// The number of items that have answers.
    position: u64,
    /// The index of the open file.
    file: u64,
    /// The position of the saved checkpoint.
    saved: u64,
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

    /// Returns how far the run came with the file of this index.
    fn reached(&self, file: u64) -> Reached {
        match file.cmp(&self.file) {
            Ordering::Less => Reached::End,
            Ordering::Equal if self.output_bytes > 0 => Reached::Bytes(self.output_bytes),
            // The checkpoint is at its first byte, or before it.
            Ordering::Equal | Ordering::Greater => Reached::Nothing,
        }
    }
}

impl SharedFilter<'_> {
    /// Prints the records whose items are new to the filter, after those of an earlier run's checkpoint. Returns the
    /// filter's error rate.
    pub fn print_new(
        &self,
        passes: &Passes<'_>,
        state: Option<State>,
        printer: &mut Printer,
    ) -> Result<f64> {
        let mut run = Run::begin(self, passes, state, printer)?;
        let done = run.print_records();
        let rate = done.and_then(|()| self.error_rate());
        let rate = rate.map_err(|failure| run.receipts.explain(failure))?;
        run.receipts.delete();
        run.state.as_ref().map_or(Ok(()), State::remove)?;
        Ok(rate)
    }

    fn error_rate(&self) -> Result<f64> {
        let key = self.key.as_bytes();
        let mut info = cmd(BF_INFO);
        let rates: Result<Vec<f64>, Fault> = self.server.get(key, info.arg(key).arg("ERROR"));
        let first = |rates: Vec<f64>| rates.first().copied().ok_or_else(|| unexpected(BF_INFO));
        let rate = rates.and_then(first);
        rate.map_err(|fault| self.server.failure_of("describe", key, &fault))
    }
}

impl<'r> Run<'r> {
    /// Continues the run whose checkpoint is in the state, or begins with the first item.
    fn begin(
        filter: &'r SharedFilter<'r>,
        passes: &'r Passes<'r>,
        state: Option<State>,
        printer: &'r mut Printer,
    ) -> Result<Self> {
        let load = |state: &State| state.load(Checkpoint::of_words);
        let checkpoint = state.as_ref().map(load).transpose()?.flatten();
        if checkpoint.is_none() {
            printer.output.require_none()?;
        }
        let keys = [filter.key.as_bytes().to_vec()];
        let receipts = RunReceipts::read(filter.server, &keys, "unique", passes.input)?;
        let resumed = checkpoint.unwrap_or_default();
        let mut run = Self {
            filter,
            passes,
            printer,
            receipts,
            state,
            resumed,
            position: resumed.position,
            file: resumed.file,
            saved: resumed.position,
        };
        if checkpoint.is_some() {
            run.resume()?;
        } else {
            run.create()?;
        }
        Ok(run)
    }

    /// Continues after the checkpoint. The receipt may be ahead of it; the items between are sent again and get the same
    /// answers.
    fn resume(&mut self) -> Result<()> {
        self.printer.figures = self.resumed.figures;
        self.receipts.resume(self.position, self.passes.show);
        // A run that was killed at its end may have deleted its receipt.
        let is_complete =
            matches!(&self.printer.output, Output::Folder(folder) if folder.is_complete());
        let found = self.receipts.create(!is_complete);
        found.map_err(|fault| self.fail(None, &fault))
    }

    /// Creates the receipt and the first checkpoint.
    fn create(&mut self) -> Result<()> {
        if self.receipts.done_before() > 0 && self.passes.show != Show::Nothing {
            warn(
                "the server has a receipt for these files, but there is no output: beginning with the first item",
            );
        }
        self.receipts.set_first_done(0);
        let created = self.receipts.create(false);
        created.map_err(|fault| self.fail(None, &fault))?;
        self.save()
    }

    fn print_records(&mut self) -> Result<()> {
        let &Passes {
            input, bytes, show, ..
        } = self.passes;
        let mut progress = Progress::of_bytes(show, "writing", "records", bytes);
        let mut records_to_skip = self.resumed.figures.records();
        let blocks = input.blocks();
        while let Some(block) = blocks.next() {
            let mut block = input.fields_of(block)?;
            if let Some(start) = block.start.take() {
                self.begin_file(block.index, &start)?;
            }
            let records: Vec<Record<'_>> = block.records().collect();
            let skipped = usize::try_from(records_to_skip).unwrap_or(usize::MAX);
            let skipped = skipped.min(records.len());
            records_to_skip -= skipped as u64;
            for records in records[skipped..].chunks(CHUNK) {
                self.print_chunk(&block, records)?;
            }
            progress.at(block.read, self.printer.figures.records());
        }
        blocks.end()?;
        self.save()?;
        self.printer.output.end()?;
        progress.end(self.printer.figures.records());
        Ok(())
    }

    /// Begins a file, or continues one.
    fn begin_file(&mut self, index: usize, start: &Start) -> Result<()> {
        let file = index as u64;
        match (self.resumed.reached(file), &mut self.printer.output) {
            (Reached::End, _) => Ok(()),
            (Reached::Bytes(bytes), Output::Folder(folder)) => {
                let begun = folder.resume(index, start.packed, bytes);
                begun.map_err(|failure| {
                    self.receipts.discard();
                    failure.and("restore that file, or run all inputs again, with another key")
                })
            }
            _ => {
                // The file before gets its name once the checkpoint says that all its records are done.
                self.save()?;
                self.file = file;
                self.printer.output.begin(index, start)
            }
        }
    }

    fn print_chunk(&mut self, block: &Block, records: &[Record<'_>]) -> Result<()> {
        let items = records.iter().filter_map(|record| record.item.ok());
        let items: Vec<&[u8]> = items.collect();
        let unsaved = self.position - self.saved + items.len() as u64;
        if unsaved > Receipt::MOST_ANSWERS as u64 {
            self.save()?;
        }
        let mut are_new = self.add(block, &items)?.into_iter();
        self.printer.print(block, records.iter().cloned(), || {
            (are_new.next() == Some(true)).then_some(1)
        })?;
        self.position += items.len() as u64;
        self.receipts.set_first_done(self.position);
        Ok(())
    }

    /// Saves a checkpoint, once the output is on the disk.
    fn save(&mut self) -> Result<()> {
        let (Some(state), Output::Folder(folder)) = (&self.state, &mut self.printer.output) else {
            return Ok(());
        };
        let checkpoint = Checkpoint {
            figures: self.printer.figures,
            position: self.position,
            file: self.file,
            output_bytes: folder.sync()?,
        };
        state.save(checkpoint.to_words())?;
        self.saved = self.position;
        Ok(())
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
            insert.arg("CAPACITY").arg(FIRST_ITEMS).arg("ERROR");
            insert.arg(&rate).arg("EXPANSION").arg(2);
            insert.arg("ITEMS").arg(batch);
            (key.as_bytes().to_vec(), insert)
        });
        let commands: Vec<_> = commands.collect();
        let replies = server.call_all(&commands);
        let mut are_new = Vec::with_capacity(items.len());
        for ((batch, (_, command)), reply) in batches.zip(&commands).zip(replies) {
            let reply = self.receipts.settle(0, command, reply);
            are_new.extend(self.answers(block, batch, reply)?);
        }
        Ok(are_new)
    }

    /// Returns for each item of a batch whether it was new, as the reply to its command says.
    fn answers(
        &self,
        block: &Block,
        batch: &[&[u8]],
        reply: Result<Value, Fault>,
    ) -> Result<Vec<bool>> {
        let failed = |index, fault: &Fault| self.fail(Some(&block.position(batch[index])), fault);
        let reply = reply.map_err(|fault| failed(0, &fault))?;
        let answers = reply.into_sequence().unwrap_or_default();
        let unexpected = || failed(0, &unexpected(BF_INSERT));
        if answers.len() > batch.len() {
            return Err(unexpected());
        }
        let are_new = answers
            .into_iter()
            .enumerate()
            .map(|(index, answer)| match answer {
                Value::Int(answer) => Ok(answer == 1),
                Value::ServerError(error) => Err(failed(index, &error.into())),
                _ => Err(unexpected()),
            });
        let are_new: Vec<bool> = are_new.collect::<Result<_>>()?;
        // Only an error may end the answers early.
        if are_new.len() < batch.len() {
            return Err(unexpected());
        }
        Ok(are_new)
    }

    /// Returns the failure to add the item at a position, or without one, to use the receipt. If the receipt has lost answers,
    /// it is discarded.
    fn fail(&self, position: Option<&str>, fault: &Fault) -> Failure {
        if matches!(fault, Fault::Refused(text) if is_lacking(text)) {
            return Failure::new(LACKING);
        }
        let SharedFilter { server, key, .. } = *self.filter;
        let verb = position.map(|position| format!("add {position} to"));
        let verb = verb.as_deref().unwrap_or("use the receipt of");
        let what = format!("could not {verb} {} at", shown(key.as_bytes()));
        let failure = limits::failure(server, &what, fault, None);
        if !self.receipts.lost_answers(fault) {
            return failure;
        }
        self.receipts.discard();
        failure.and(
            "the server's answers for some items are lost, so which of them are new can't be known: run all inputs again, with another key",
        )
    }
}

fn unexpected(command: &str) -> Fault {
    Fault::Unusable(format!("unexpected reply to {command}"))
}
