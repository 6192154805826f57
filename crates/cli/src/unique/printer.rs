//! Prints the records of blocks, and counts them.

use super::output::{MOST_BYTES, Output};
use crate::failure::Result;
use crate::lines::{Block, Record};
use crate::progress::Show;
use crate::report::{self, Report};

/// Which records are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Print {
    Kept,
    /// The kept ones, each behind its number.
    Counts,
    /// All others that have an item.
    Dropped,
}

/// The numbers of records.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    pub kept: u64,
    pub dropped: u64,
    /// Records that were left out because they have no item.
    pub lacking: u64,
}

pub struct Printer {
    pub print: Print,
    pub output: Output,
    pub figures: Figures,
}

impl Figures {
    pub fn records(&self) -> u64 {
        self.kept + self.dropped + self.lacking
    }

    /// Adds the figures to a report.
    pub fn report(&self, report: &mut Report) {
        report.number("records", self.records());
        report.number("kept", self.kept);
        report.number("dropped", self.dropped);
        if self.lacking > 0 {
            report.number("left out", self.lacking);
        }
    }
}

/// Prints a report. If the standard output has records, it goes beside them.
pub fn end(report: Report, (show, json): (Show, bool), beside: bool) -> Result<()> {
    if show == Show::Nothing && !json {
        return Ok(());
    }
    if !beside {
        return report::end(report, json, Ok(()));
    }
    report::end_beside(report, json);
    Ok(())
}

impl Printer {
    pub fn new(output: Output) -> Self {
        Self {
            print: Print::Kept,
            output,
            figures: Figures::default(),
        }
    }

    /// Begins the file of a block with this index, if the block is its first.
    pub fn begin(&mut self, index: usize, block: &mut Block) -> Result<()> {
        match block.start.take() {
            Some(start) => self.output.begin(index, &start),
            None => Ok(()),
        }
    }

    /// Prints records of a block. `number` is called for each that has an item: it is 0 for those that are dropped.
    pub fn print<'b>(
        &mut self,
        block: &'b Block,
        records: impl Iterator<Item = Record<'b>>,
        mut number: impl FnMut() -> u64,
    ) -> Result<()> {
        let whole = block.whole();
        let mut bytes = Vec::with_capacity(whole.len().min(MOST_BYTES));
        // Records that follow each other are copied at once.
        let mut run = 0..0;
        for Record { item, place } in records {
            let number = match item {
                Ok(_) => number(),
                Err(lacking) => u64::from(!lacking.is_drop()),
            };
            let figure = match (number, item) {
                (0, Ok(_)) => &mut self.figures.dropped,
                (0, Err(_)) => &mut self.figures.lacking,
                _ => &mut self.figures.kept,
            };
            *figure += 1;
            let is_printed = match self.print {
                Print::Kept | Print::Counts => number > 0,
                Print::Dropped => number == 0 && item.is_ok(),
            };
            if !is_printed {
                continue;
            }
            if self.print == Print::Counts || place.start != run.end {
                self.output.gather(&mut bytes, &whole[run])?;
                run = place.start..place.start;
            }
            if self.print == Print::Counts {
                bytes.extend_from_slice(format!("{number:7} ").as_bytes());
            }
            run.end = place.end;
        }
        self.output.gather(&mut bytes, &whole[run])?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.output.write(&bytes)
    }
}
