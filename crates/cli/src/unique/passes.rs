//! The two passes over the files.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use valkeybloom_sketches::{Probe, Seed};

use super::claims::{Claims, ITEM_BITS, more};
use super::layer::Hash;
use super::ordered;
use super::printer::{Printer, Why};
use super::suspects::{Marks, Suspects};
use crate::failure::Result;
use crate::lines::{Block, Input, Record};
use crate::progress::{Progress, Show};

/// What both passes read.
pub struct Passes<'p> {
    pub input: &'p Input,
    /// The size of the files.
    pub bytes: u64,
    /// The number of files at the beginning that are only known.
    pub known: usize,
    pub seed: Seed,
    pub threads: usize,
    pub show: Show,
}

/// A block whose items were looked up.
struct Judged {
    block: Block,
    /// The records that need a decision: the place of each, and its suspect; none if it has no item and is left out.
    open: Vec<(Range<usize>, Option<usize>)>,
}

impl Passes<'_> {
    /// Finds the suspects.
    pub fn claim(&self) -> Result<Suspects> {
        let claims = Claims::new(ITEM_BITS);
        let records = AtomicU64::new(0);
        let mut progress = Progress::of_bytes(self.show, "reading", "records", Some(self.bytes));
        ordered::run(
            self.input.blocks(),
            self.threads,
            || claims.collector(),
            |collector, block| {
                let block = self.input.fields_of(block)?;
                let all = records.fetch_add(block.len() as u64, Relaxed) + block.len() as u64;
                claims.expect(more(block.read, self.bytes));
                let items = block.records().filter_map(|record| record.item.ok());
                self.seed
                    .probe_each(items, |probe| collector.add(hash_of(probe)));
                Ok((block.read, all))
            },
            |(read, all)| {
                progress.at(read, all);
                Ok(())
            },
        )?;
        progress.end(records.into_inner());
        Ok(claims.into_suspects())
    }

    /// Looks up the items of all blocks, and passes them on in order.
    fn judge(
        &self,
        what: &'static str,
        suspects: &Suspects,
        mut step: impl FnMut(Judged) -> Result<()> + Send,
    ) -> Result<()> {
        let mut progress = Progress::of_bytes(self.show, what, "records", Some(self.bytes));
        let mut records = 0;
        ordered::run(
            self.input.blocks(),
            self.threads,
            Vec::new,
            |hashes, block| {
                let block = self.input.fields_of(block)?;
                Ok(self.judged(block, suspects, hashes))
            },
            |judged| {
                records += judged.block.len() as u64;
                let read = judged.block.read;
                step(judged)?;
                progress.at(read, records);
                Ok(())
            },
        )?;
        progress.end(records);
        Ok(())
    }

    fn judged(&self, block: Block, suspects: &Suspects, hashes: &mut Vec<Hash>) -> Judged {
        hashes.clear();
        let items = block
            .records()
            .map(|record| record.item.unwrap_or_default());
        self.seed
            .probe_each(items, |probe| hashes.push(hash_of(probe)));
        let mut open = Vec::new();
        let mut records = block.records();
        for hashes in hashes.chunks(64) {
            suspects.touch(hashes);
            for (hash, Record { item, place }) in hashes.iter().zip(&mut records) {
                match item {
                    Ok(_) => {
                        let found = suspects.find(*hash);
                        open.extend(found.map(|number| (place, Some(number))));
                    }
                    Err(lacking) if lacking.is_drop() => open.push((place, None)),
                    Err(_) => {}
                }
            }
        }
        drop(records);
        Judged { block, open }
    }

    /// Counts how often each suspect comes.
    pub fn count(&self, suspects: &Suspects) -> Result<Vec<u64>> {
        let mut counts = vec![0; suspects.len()];
        self.judge("counting", suspects, |judged| {
            if judged.block.index >= self.known {
                let numbers = judged.open.into_iter().filter_map(|(_, number)| number);
                numbers.for_each(|number| counts[number] += 1);
            }
            Ok(())
        })?;
        Ok(counts)
    }

    /// Prints the records. `counts` are those of the suspects, if they are printed.
    pub fn print(
        &self,
        suspects: &Suspects,
        counts: Option<&[u64]>,
        printer: &mut Printer,
    ) -> Result<()> {
        let mut marks = Marks::new(suspects.len());
        self.judge("writing", suspects, |Judged { block, open }| {
            let Some(index) = block.index.checked_sub(self.known) else {
                let numbers = open.into_iter().filter_map(|(_, number)| number);
                numbers.for_each(|number| _ = marks.mark(number));
                return Ok(());
            };
            if let Some(counts) = counts {
                return printer.print_counts(
                    index,
                    block,
                    open.into_iter().map(|(place, number)| {
                        let count = number.map(|number| {
                            if marks.mark(number) {
                                0
                            } else {
                                counts[number]
                            }
                        });
                        (place, count)
                    }),
                );
            }
            let others = open.into_iter().filter_map(|(place, number)| match number {
                Some(number) => marks.mark(number).then_some((place, Why::Other)),
                None => Some((place, Why::Lacking)),
            });
            printer.print(index, block, others.collect())
        })?;
        printer.end()
    }
}

fn hash_of(probe: Probe) -> Hash {
    let (a, b) = probe.hashes();
    u128::from(a) << 64 | u128::from(b)
}
