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

/// How a run's report is printed.
#[derive(Clone, Copy)]
pub struct Reporting {
    pub show: Show,
    pub json: bool,
    /// Whether the standard output has records.
    pub has_records: bool,
}

impl Reporting {
    /// Prints a report: on the standard error, if the standard output has records.
    pub fn print(self, report: Report) -> Result<()> {
        if self.show == Show::Nothing && !self.json {
            return Ok(());
        }
        if !self.has_records {
            return report::end(report, self.json, Ok(()));
        }
        report::end_beside(report, self.json);
        Ok(())
    }
}

impl Printer {
    pub fn new(output: Output, selection: Selection) -> Self {
        Self {
            selection,
            output,
            figures: Figures::default(),
            gathered: Vec::new(),
        }
    }

    /// Begins the file of a block with this index, if the block is its first.
    pub fn begin(&mut self, index: usize, block: &mut Block) -> Result<()> {
        match block.start.take() {
            Some(start) => self.output.begin(index, &start),
            None => Ok(()),
        }
    }

    /// Prints records of a block. `count` is called for each that has an item, and returns the number to print with it, or
    /// `None` if the record is dropped.
    pub fn print<'b>(
        &mut self,
        block: &'b Block,
        records: impl Iterator<Item = Record<'b>>,
        mut count: impl FnMut() -> Option<u64>,
    ) -> Result<()> {
        let whole = block.record_bytes();
        self.gathered.clear();
        // Records that follow each other are copied at once.
        let mut run = 0..0;
        for Record { item, place } in records {
            let count = match item {
                Ok(_) => count(),
                Err(itemless) => (itemless == Itemless::Keep).then_some(1),
            };
            let figure = match (count, item) {
                (Some(_), _) => &mut self.figures.kept,
                (None, Ok(_)) => &mut self.figures.dropped,
                (None, Err(_)) => &mut self.figures.left_out,
            };
            *figure += 1;
            let is_printed = match self.selection {
                Selection::Kept | Selection::Counts => count.is_some(),
                Selection::Dropped => count.is_none() && item.is_ok(),
            };
            if !is_printed {
                continue;
            }
            let is_counted = self.selection == Selection::Counts;
            if is_counted || place.start != run.end {
                self.output.gather(&mut self.gathered, &whole[run])?;
                run = place.start..place.start;
            }
            if let (true, Some(count)) = (is_counted, count) {
                let number = format!("{count:7} ");
                self.gathered.extend_from_slice(number.as_bytes());
            }
            run.end = place.end;
        }
        self.output.gather(&mut self.gathered, &whole[run])?;
        if self.gathered.is_empty() {
            return Ok(());
        }
        self.output.write(&self.gathered)
    }
}
