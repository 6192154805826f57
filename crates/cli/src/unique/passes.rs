//! The two passes over the files.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use valkeybloom_sketches::Seed;

use super::claims::{Claims, ITEM_BITS};
use super::layer::Hash;
use super::ordered;
use super::printer::Printer;
use super::suspects::{Marks, Suspects};
use crate::failure::Result;
use crate::lines::{Block, Input};
use crate::progress::{Progress, Show};

/// What both passes read.
pub struct Passes<'p> {
    pub input: &'p Input,
    /// The size of the files; `None` if one can be read only once.
    pub bytes: Option<u64>,
    /// The number of leading files whose items count as seen, and which are not printed.
    pub known: usize,
    pub threads: usize,
    pub show: Show,
}

/// What the first pass found.
pub struct FirstPass {
    /// The key of the hashes.
    seed: Seed,
    pub suspects: Suspects,
}

impl FirstPass {
    /// Returns the words of a state: the suspects, and the seed.
    pub fn to_words(&self) -> impl Iterator<Item = u128> {
        let (seed, _) = self.seed.as_bytes().as_chunks();
        let seed = seed.iter().copied().map(u128::from_le_bytes);
        self.suspects.hashes().chain(seed)
    }

    /// Returns what an earlier run saved; `None` if the words are not of a first pass.
    pub fn of_words(mut words: Vec<u128>) -> Option<Self> {
        let seed = words.split_off(words.len().checked_sub(2)?);
        let seed: Vec<u8> = seed.into_iter().flat_map(u128::to_le_bytes).collect();
        let seed = Seed::new(seed.try_into().ok()?);
        let is_ascending = [0]
            .iter()
            .chain(&words)
            .is_sorted_by(|one, next| one < next);
        is_ascending.then(|| Self {
            seed,
            suspects: Suspects::of_ascending(&words),
        })
    }
}

/// Passes on the hash of each item of a block.
fn hash_each(seed: &Seed, block: &Block, mut take: impl FnMut(Hash)) {
    let items = block.records().filter_map(|record| record.item.ok());
    seed.probe_each(items, |probe| {
        let (a, b) = probe.hashes();
        let hash = u128::from(a) << 64 | u128::from(b);
        take(hash.max(1));
    });
}

impl Passes<'_> {
    /// Makes the first pass.
    pub fn find_suspects(&self) -> Result<FirstPass> {
        let seed = Seed::random();
        let claims = Claims::new(ITEM_BITS);
        let (records, mut done) = (AtomicU64::new(0), 0);
        let mut progress = Progress::of_bytes(self.show, "reading", "records", self.bytes);
        ordered::run(
            self.input.blocks(),
            self.threads,
            || claims.collector(),
            |collector, block| {
                let block = self.input.fields_of(block)?;
                let all = records.fetch_add(block.len() as u64, Relaxed) + block.len() as u64;
                claims.expect(all, block.read, self.bytes.unwrap_or(0));
                hash_each(&seed, &block, |hash| collector.add(hash));
                Ok((block.read, block.len()))
            },
            |(read, count)| {
                done += count as u64;
                progress.at(read, done);
                Ok(())
            },
        )?;
        progress.end(done);
        Ok(FirstPass {
            seed,
            suspects: claims.into_suspects(self.threads),
        })
    }

    /// Looks up the items of all blocks, and passes the blocks on in order, each with the indexes of the items that are
    /// suspects, and the suspects' numbers.
    fn look_up(
        &self,
        what: &'static str,
        FirstPass { seed, suspects }: &FirstPass,
        mut step: impl FnMut(Block, Vec<(usize, usize)>) -> Result<()>,
    ) -> Result<()> {
        let mut progress = Progress::of_bytes(self.show, what, "records", self.bytes);
        let mut records = 0;
        ordered::run(
            self.input.blocks(),
            self.threads,
            Vec::new,
            |hashes, block| {
                let block = self.input.fields_of(block)?;
                hashes.clear();
                hash_each(seed, &block, |hash| hashes.push(hash));
                let found = suspects.find_each(hashes);
                Ok((block, found))
            },
            |(block, found)| {
                records += block.len() as u64;
                let read = block.read;
                step(block, found)?;
                progress.at(read, records);
                Ok(())
            },
        )?;
        progress.end(records);
        Ok(())
    }

    /// Counts the records of each suspect.
    pub fn count(&self, first: &FirstPass) -> Result<Vec<u64>> {
        let mut counts = vec![0; first.suspects.end()];
        self.look_up("counting", first, |block, found| {
            if block.index >= self.known {
                for (_, number) in found {
                    counts[number] += 1;
                }
            }
            Ok(())
        })?;
        Ok(counts)
    }

    /// Prints the records. `counts` are those of the suspects, if they are printed.
    pub fn print(
        &self,
        first: &FirstPass,
        counts: Option<&[u64]>,
        printer: &mut Printer,
    ) -> Result<()> {
        let mut marks = Marks::new(first.suspects.end());
        self.look_up("writing", first, |mut block, found| {
            marks.touch(found.iter().map(|(_, number)| *number));
            let Some(index) = block.index.checked_sub(self.known) else {
                for (_, number) in found {
                    marks.mark(number);
                }
                return Ok(());
            };
            printer.begin(index, &mut block)?;
            let mut items = 0..;
            let mut found = found.into_iter().peekable();
            printer.print(&block, block.records(), || {
                let item = items.next();
                let Some((_, number)) = found.next_if(|(at, _)| Some(*at) == item) else {
                    return Some(1);
                };
                let is_first = !marks.mark(number);
                is_first.then(|| counts.map_or(1, |counts| counts[number]))
            })
        })?;
        printer.output.end()
    }
}
