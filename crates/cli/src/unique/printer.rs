//! Prints the records of blocks, and counts them.

use super::output::Output;
use crate::failure::Result;
use crate::lines::{Block, Itemless, Record};
use crate::progress::Show;
use crate::report::{self, Report};

/// Which records are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    Kept,
    /// The kept ones, each behind its count.
    Counts,
    /// All others that have an item.
    Dropped,
}

/// The numbers of records.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    pub kept: u64,
    pub dropped: u64,
    /// Records that were dropped because they have no item.
    pub left_out: u64,
}

pub struct Printer {
    selection: Selection,
    pub output: Output,
    pub figures: Figures,
    /// The number of leading files that are not printed.
    known: usize,
    /// A buffer for what is written at once, so that each block does not ask for one.
    gathered: Vec<u8>,
}

impl Figures {
    pub fn records(&self) -> u64 {
        self.kept + self.dropped + self.left_out
    }

    /// Adds the figures to a report.
    pub fn report(&self, report: &mut Report) {
        report.number("records", self.records());
        report.number("kept", self.kept);
        report.number("dropped", self.dropped);
        if self.left_out > 0 {
            report.number("left out", self.left_out);
        }
    }
}

/// Prints the report of a run: on the standard error, if the standard output has records.
pub fn print_report(report: Report, show: Show, json: bool, has_records: bool) -> Result<()> {
    if show == Show::Nothing && !json {
        return Ok(());
    }
    if !has_records {
        return report::end(report, json, Ok(()));
    }
    report::end_beside(report, json);
    Ok(())
}

impl Printer {
    pub fn new(output: Output, selection: Selection, known: usize) -> Self {
        Self {
            selection,
            output,
            figures: Figures::default(),
            known,
            gathered: Vec::new(),
        }
    }

    /// Prints the records of a block, and begins its file with its first block. `counts` are those that
    /// [`print`](Self::print) takes. They are also read if the file is known, and so is not printed.
    pub fn print_block(
        &mut self,
        block: &mut Block,
        counts: impl Iterator<Item = u64>,
    ) -> Result<()> {
        let Some(index) = block.index.checked_sub(self.known) else {
            counts.for_each(drop);
            return Ok(());
        };
        if let Some(start) = block.start.take() {
            self.output.begin(index, &start)?;
        }
        self.print(block, block.records(), counts)
    }

    /// Prints records of a block. `counts` has a number for each that has an item: the one to print with it, or 0 if the record
    /// is dropped.
    pub fn print<'b>(
        &mut self,
        block: &'b Block,
        records: impl Iterator<Item = Record<'b>>,
        mut counts: impl Iterator<Item = u64>,
    ) -> Result<()> {
        let whole = block.record_bytes();
        self.gathered.clear();
        // Records that follow each other are copied at once.
        let mut run = 0..0;
        for Record { item, place } in records {
            let count = match item {
                Ok(_) => counts.next().unwrap_or(0),
                Err(itemless) => u64::from(itemless == Itemless::Keep),
            };
            let figure = match item {
                _ if count > 0 => &mut self.figures.kept,
                Ok(_) => &mut self.figures.dropped,
                Err(_) => &mut self.figures.left_out,
            };
            *figure += 1;
            let is_printed = match self.selection {
                Selection::Kept | Selection::Counts => count > 0,
                Selection::Dropped => count == 0 && item.is_ok(),
            };
            if !is_printed {
                continue;
            }
            let is_counted = self.selection == Selection::Counts;
            if is_counted || place.start != run.end {
                self.output.gather(&mut self.gathered, &whole[run])?;
                run = place.start..place.start;
            }
            if is_counted {
                let number = format!("{count:7} ");
                self.gathered.extend_from_slice(number.as_bytes());
            }
            run.end = place.end;
        }
        self.output.gather(&mut self.gathered, &whole[run])?;
        self.output.write(&self.gathered)
    }
}
