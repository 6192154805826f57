//! Prints the records of blocks, and counts them.

use std::iter;
use std::ops::Range;

use super::output::Output;
use crate::failure::Result;
use crate::lines::{Block, Record};
use crate::progress::Show;
use crate::report::{self, Report};

/// Which records are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Print {
    /// The first of equal items.
    Firsts,
    /// All others.
    Duplicates,
}

/// Why a record is not printed as one of the first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It is a duplicate, or is filtered out.
    Other,
    /// It has no item, and is left out.
    Lacking,
}

impl Why {
    /// Returns why a record is not one of the first, if it is not. The next of the answers is for its item, if it has one, and
    /// is `other` for those of other records.
    pub fn of(
        record: &Record<'_>,
        answers: &mut impl Iterator<Item = bool>,
        other: bool,
    ) -> Option<Self> {
        match record.item {
            Ok(_) => (answers.next() == Some(other)).then_some(Self::Other),
            Err(lacking) => lacking.is_drop().then_some(Self::Lacking),
        }
    }
}

/// The numbers of records.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    pub records: u64,
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
    /// Adds the figures to a report.
    pub fn report(&self, report: &mut Report) {
        report.number("records", self.records);
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
            print: Print::Firsts,
            output,
            figures: Figures::default(),
        }
    }

    /// Prints the records of a block of the file with an index. All but `others` are the first ones with their items.
    pub fn print(
        &mut self,
        index: usize,
        mut block: Block,
        others: Vec<(Range<usize>, Why)>,
    ) -> Result<()> {
        self.begin(index, &mut block)?;
        let is_lacking = |(_, why): &&(_, Why)| *why == Why::Lacking;
        let lacking = others.iter().filter(is_lacking).count() as u64;
        let (records, others_count) = (block.len() as u64, others.len() as u64);
        self.figures.records += records;
        self.figures.lacking += lacking;
        self.figures.dropped += others_count - lacking;
        self.figures.kept += records - others_count;
        let mut bytes = block.into_whole();
        if self.print == Print::Duplicates {
            let is_duplicate = |(_, why): &(_, Why)| *why == Why::Other;
            let duplicates = others.into_iter().filter(is_duplicate);
            keep(&mut bytes, duplicates.map(|(place, _)| place));
        } else {
            let end = bytes.len();
            let others = others.into_iter().map(|(place, _)| place);
            let mut start = 0;
            let between = others.chain(iter::once(end..end)).map(|other| {
                let first = start..other.start;
                start = other.end;
                first
            });
            keep(&mut bytes, between);
        }
        self.output.write(&bytes)
    }

    /// Prints records at places of a block's bytes: the place of each, and why it is not one of the first, if it is not.
    pub fn print_some(
        &mut self,
        whole: &[u8],
        records: impl Iterator<Item = (Range<usize>, Option<Why>)>,
    ) -> Result<()> {
        let printed = match self.print {
            Print::Firsts => None,
            Print::Duplicates => Some(Why::Other),
        };
        let mut bytes = Vec::new();
        for (place, why) in records {
            self.figures.records += 1;
            match why {
                None => self.figures.kept += 1,
                Some(Why::Other) => self.figures.dropped += 1,
                Some(Why::Lacking) => self.figures.lacking += 1,
            }
            if why == printed {
                bytes.extend_from_slice(&whole[place]);
            }
        }
        if bytes.is_empty() {
            return Ok(());
        }
        self.output.write(&bytes)
    }

    /// Prints the first records of a block behind the numbers of their items. These are 1, but for `others`, which have 0 if
    /// they are duplicates, and none if they have no item and are left out.
    pub fn print_counts(
        &mut self,
        index: usize,
        mut block: Block,
        others: impl Iterator<Item = (Range<usize>, Option<u64>)>,
    ) -> Result<()> {
        self.begin(index, &mut block)?;
        let whole = block.whole();
        let mut text = Vec::with_capacity(2 * whole.len());
        let mut others = others.peekable();
        for record in block.records() {
            let place = record.place;
            self.figures.records += 1;
            match others
                .next_if(|(of, _)| *of == place)
                .map_or(Some(1), |(_, count)| count)
            {
                None => self.figures.lacking += 1,
                Some(0) => self.figures.dropped += 1,
                Some(count) => {
                    self.figures.kept += 1;
                    text.extend_from_slice(format!("{count:7} ").as_bytes());
                    text.extend_from_slice(&whole[place]);
                }
            }
        }
        self.output.write(&text)
    }

    fn begin(&mut self, index: usize, block: &mut Block) -> Result<()> {
        match block.start.take() {
            Some(start) => self.output.begin(index, &start),
            None => Ok(()),
        }
    }

    /// Ends the last file.
    pub fn end(&mut self) -> Result<()> {
        self.output.end()
    }
}

/// Keeps these ascending places of the bytes.
fn keep(bytes: &mut Vec<u8>, places: impl Iterator<Item = Range<usize>>) {
    let mut end = 0;
    for place in places {
        let count = place.len();
        if place.start != end {
            bytes.copy_within(place, end);
        }
        end += count;
    }
    bytes.truncate(end);
}
