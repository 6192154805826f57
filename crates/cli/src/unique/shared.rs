//! One pass beside other runs: a server's filter says which items are new, to exactly one run.
//!
//! ```text
//!   files → chunks → BF.INSERT … ONCE → output   written at once, and put on the disk
//!                                     → state    how far the output is on the disk, whole or not at all
//! ```
//!
//! A position is the number of an item in the input of the run. The receipt keeps the answers for the latest positions, and
//! at most as many are asked after the last one in the state. So a run that is started again cuts its output there, asks again
//! from there on, and gets the answers that it had got.

use redis::{Value, cmd};
use valkeybloom_near::once::{LACKING, is_lacking};
use valkeybloom_protocol::names::{BF_INFO, BF_INSERT};
use valkeybloom_sketches::{Fraction, Receipt};

use super::one_pass::FIRST_ITEMS;
use super::output::Output;
use super::printer::{Figures, Printer};
use super::state::State;
use crate::failure::{Failure, Fault, Result, shown};
use crate::held::limits;
use crate::lines::{Block, Input, Record, Start};
use crate::once::Once;
use crate::progress::{Progress, Show};
use crate::server::{COMMAND_ITEMS, Server};

/// The most records that are asked for at once. The receipt can repeat the answers for all of them.
const CHUNK: usize = 50_000;
const _: () = assert!(CHUNK <= Receipt::MOST_ANSWERS);

/// A filter on a server.
pub struct Key<'s> {
    pub server: &'s Server,
    pub name: &'s str,
    /// The error rate of the filter that is made if there is none.
    pub rate: Fraction,
}

/// How far a run has come.
#[derive(Clone, Copy, Default)]
struct Checkpoint {
    figures: Figures,
    /// The number of items that were asked for.
    position: u64,
    /// The index of the open file, and its length.
    index: u64,
    bytes: u64,
}

/// A run that asks a server.
pub struct Shared<'s> {
    key: &'s Key<'s>,
    once: Once<'s>,
    /// Where the place is saved, if the run can go on.
    state: Option<State>,
    place: Checkpoint,
    /// The position of the saved place.
    saved: u64,
    /// Whether the server has forgotten what it said.
    is_forgotten: bool,
}

impl Checkpoint {
    fn to_words(self) -> [u128; 6] {
        let Figures {
            kept,
            dropped,
            lacking,
        } = self.figures;
        [
            kept,
            dropped,
            lacking,
            self.position,
            self.index,
            self.bytes,
        ]
        .map(u128::from)
    }

    fn of_words(words: Vec<u128>) -> Option<Self> {
        let numbers: Result<Vec<u64>, _> = words.into_iter().map(u64::try_from).collect();
        let &[kept, dropped, lacking, position, index, bytes] = &numbers.ok()?[..] else {
            return None;
        };
        Some(Self {
            figures: Figures {
                kept,
                dropped,
                lacking,
            },
            position,
            index,
            bytes,
        })
    }
}

impl Key<'_> {
    /// Prints the records whose items are new to the key. Returns the error rate of its filter.
    pub fn print(
        &self,
        input: &Input,
        state: Option<State>,
        bytes: Option<u64>,
        printer: &mut Printer,
        show: Show,
    ) -> Result<f64> {
        let load = |state: &State| state.load(Checkpoint::of_words);
        let place = state.as_ref().map_or(Ok(None), load)?;
        let mut is_whole = false;
        if let Output::Folder(folder) = &mut printer.output {
            folder.has_members = true;
            is_whole = folder.is_whole();
            if place.is_none() {
                folder.require_none()?;
            }
        }
        let name = self.name.as_bytes();
        let mut run = Shared {
            key: self,
            once: Once::find(self.server, &[name.to_vec()], "unique", input, show)?,
            state,
            place: place.unwrap_or_default(),
            saved: place.unwrap_or_default().position,
            is_forgotten: false,
        };
        printer.figures = run.place.figures;
        // A run that was killed at its end may have deleted its receipt.
        let has_begun = place.is_some() && !is_whole;
        let begun = run.once.begin(has_begun);
        begun.map_err(|fault| run.failure("use the receipt of", &fault))?;
        if place.is_none() {
            run.save(printer)?;
        }
        let done = run.print(input, bytes, printer, show);
        let rate = done.and_then(|()| self.error_rate());
        let rate = rate.map_err(|failure| {
            if run.is_forgotten {
                failure
            } else {
                run.once.explain(failure)
            }
        })?;
        run.once.end();
        run.state.as_ref().map_or(Ok(()), State::remove)?;
        Ok(rate)
    }

    fn error_rate(&self) -> Result<f64> {
        let key = self.name.as_bytes();
        let mut info = cmd(BF_INFO);
        info.arg(self.name).arg("ERROR");
        let rates = self.server.get::<Vec<f64>>(key, &info);
        let rate = rates.and_then(|rates| {
            let lost = || Fault::Lost(format!("unexpected reply to {BF_INFO}"));
            rates.first().copied().ok_or_else(lost)
        });
        rate.map_err(|fault| self.server.failure_of("describe", key, &fault))
    }
}

impl Shared<'_> {
    fn print(
        &mut self,
        input: &Input,
        bytes: Option<u64>,
        printer: &mut Printer,
        show: Show,
    ) -> Result<()> {
        let mut progress = Progress::of_bytes(show, "writing", "records", bytes);
        let resumed = self.place;
        let mut skipped = 0;
        let blocks = input.blocks();
        while let Some(block) = blocks.next() {
            let mut block = input.fields_of(block)?;
            if let Some(start) = block.start.take() {
                self.begin(block.index, &start, resumed, printer)?;
            }
            let records: Vec<Record<'_>> = block.records().collect();
            let before = usize::try_from(resumed.figures.records() - skipped);
            let before = before.unwrap_or(usize::MAX).min(records.len());
            skipped += before as u64;
            for records in records[before..].chunks(CHUNK) {
                self.print_chunk(&block, records, printer)?;
            }
            progress.at(block.read, printer.figures.records());
        }
        blocks.end()?;
        self.save(printer)?;
        printer.output.end()?;
        progress.end(printer.figures.records());
        Ok(())
    }

    /// Begins a file, or goes on with it. The file before gets its name once the state says that all its records are done.
    fn begin(
        &mut self,
        index: usize,
        start: &Start,
        resumed: Checkpoint,
        printer: &mut Printer,
    ) -> Result<()> {
        let number = index as u64;
        if number < resumed.index {
            return Ok(());
        }
        if let Output::Folder(folder) = &mut printer.output
            && number == resumed.index
            && resumed.bytes > 0
        {
            return folder.resume(index, start.packed, resumed.bytes);
        }
        self.save(printer)?;
        self.place.index = number;
        printer.output.begin(index, start)
    }

    fn print_chunk(
        &mut self,
        block: &Block,
        records: &[Record<'_>],
        printer: &mut Printer,
    ) -> Result<()> {
        let items = records.iter().filter_map(|record| record.item.ok());
        let items: Vec<&[u8]> = items.collect();
        let asked = self.place.position - self.saved + items.len() as u64;
        if asked > Receipt::MOST_ANSWERS as u64 {
            self.save(printer)?;
        }
        let mut are_new = self.ask(block, &items)?.into_iter();
        printer.print(block, records.iter().cloned(), || {
            (are_new.next() == Some(true)).then_some(1)
        })?;
        self.place.position += items.len() as u64;
        self.once.reach(self.place.position, true);
        Ok(())
    }

    /// Saves the place, once the output is on the disk.
    fn save(&mut self, printer: &mut Printer) -> Result<()> {
        let (Some(state), Output::Folder(folder)) = (&self.state, &mut printer.output) else {
            return Ok(());
        };
        self.place.bytes = folder.sync()?;
        self.place.figures = printer.figures;
        state.save(self.place.to_words())?;
        self.saved = self.place.position;
        Ok(())
    }

    /// Adds items, and returns for each whether it was new.
    fn ask(&mut self, block: &Block, items: &[&[u8]]) -> Result<Vec<bool>> {
        let Key { server, name, rate } = *self.key;
        let batches = items.chunks(COMMAND_ITEMS);
        let starts = (self.place.position..).step_by(COMMAND_ITEMS);
        let commands = batches.clone().zip(starts).map(|(batch, start)| {
            let positions = start..start + batch.len() as u64;
            let mut insert = self.once.command(0, positions, BF_INSERT);
            let rate = rate.get().to_string();
            insert.arg("CAPACITY").arg(FIRST_ITEMS).arg("ERROR");
            insert.arg(rate).arg("EXPANSION").arg(2);
            insert.arg("ITEMS").arg(batch);
            (name.as_bytes().to_vec(), insert)
        });
        let commands: Vec<_> = commands.collect();
        let replies = server.call_all(&commands);
        let mut are_new = Vec::with_capacity(items.len());
        for ((batch, (_, command)), reply) in batches.zip(&commands).zip(replies) {
            let first = are_new.len();
            let failed = |run: &mut Self, index: usize, fault: &Fault| {
                let position = batch.get(index).map(|item| block.position(item));
                run.failure(&format!("add {} to", position.unwrap_or_default()), fault)
            };
            let reply = self.once.take(0, command, reply);
            let answers = match reply.map_err(|fault| failed(self, 0, &fault))? {
                Value::Array(answers) => answers,
                _ => Vec::new(),
            };
            for answer in answers {
                match answer {
                    Value::Int(answer) => are_new.push(answer == 1),
                    Value::ServerError(error) => {
                        return Err(failed(self, are_new.len() - first, &error.into()));
                    }
                    _ => break,
                }
            }
            if are_new.len() != first + batch.len() {
                let fault = Fault::Lost(format!("unexpected reply to {BF_INSERT}"));
                return Err(failed(self, 0, &fault));
            }
        }
        Ok(are_new)
    }

    fn failure(&mut self, verb: &str, fault: &Fault) -> Failure {
        let Key { server, name, .. } = self.key;
        if matches!(fault, Fault::Refused(text) if is_lacking(text)) {
            return Failure::new(LACKING);
        }
        let what = format!("could not {verb} {} at", shown(name.as_bytes()));
        let failure = limits::failure(server, &what, fault, (0, 0));
        self.is_forgotten |= self.once.is_forgotten(fault);
        if !self.is_forgotten {
            return failure;
        }
        failure.and(
            "what the server said about the last items is lost, so which of them are new can't be known: run all inputs again, with another key",
        )
    }
}
