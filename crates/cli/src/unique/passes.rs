//! Passes over the files: two, of which the first finds suspects, or one.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use valkeybloom_sketches::Seed;

use super::claims::{Claims, ITEM_BITS};
use super::layer::Hash;
use super::ordered;
use super::printer::Printer;
use super::suspects::{Marks, Suspects};
use crate::failure::Result;
use crate::lines::{Block, Input, bytes_of};
use crate::progress::{Progress, Show};

/// What all passes read.
pub struct Passes<'p> {
    pub input: &'p Input,
    /// The size of the files; `None` if one can be read only once.
    bytes: Option<u64>,
    threads: usize,
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
    seed.probe_each(block.record_items(), |probe| {
        let (a, b) = probe.hashes();
        let hash = u128::from(a) << 64 | u128::from(b);
        take(hash.max(1));
    });
}

impl<'p> Passes<'p> {
    /// Creates the passes of an input, with all processors unless a number of threads is given.
    pub fn new(input: &'p Input, threads: Option<u16>, show: Show) -> Self {
        let processors = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            input,
            bytes: bytes_of(input.kept_stamps()),
            threads: threads.map_or_else(processors, usize::from),
            show,
        }
    }

    /// Passes each block to the worker of a thread, and the results to `step` in the order of the blocks.
    fn each<T: Send, W: FnMut(Block) -> Result<T>>(
        &self,
        what: &'static str,
        worker: impl Fn() -> W + Sync,
        mut step: impl FnMut(T) -> Result<()>,
    ) -> Result<()> {
        let mut progress = Progress::of_bytes(self.show, what, "records", self.bytes);
        let mut records = 0;
        let worker = || {
            let mut work = worker();
            move |block| {
                let block = self.input.fields_of(block)?;
                let (read, count) = (block.read, block.len() as u64);
                Ok((read, count, work(block)?))
            }
        };
        ordered::run(
            self.input.blocks(),
            self.threads,
            worker,
            |(read, count, result)| {
                step(result)?;
                records += count;
                progress.at(read, records);
                Ok(())
            },
        )?;
        progress.end(records);
        Ok(())
    }

    /// Passes the blocks to `step`, one after another.
    pub fn each_block(
        &self,
        what: &'static str,
        step: impl FnMut(Block) -> Result<()>,
    ) -> Result<()> {
        self.each(what, || Ok, step)
    }

    /// Makes the first pass.
    pub fn find_suspects(&self) -> Result<FirstPass> {
        let seed = Seed::random();
        let claims = Claims::new(ITEM_BITS);
        let records = AtomicU64::new(0);
        let worker = || {
            let mut collector = claims.collector();
            let (seed, claims, records) = (&seed, &claims, &records);
            move |block: Block| {
                let count = block.len() as u64;
                let all = records.fetch_add(count, Relaxed) + count;
                claims.expect(all, block.read, self.bytes.unwrap_or(0));
                hash_each(seed, &block, |hash| collector.add(hash));
                Ok(())
            }
        };
        self.each("reading", worker, Ok)?;
        Ok(FirstPass {
            seed,
            suspects: claims.into_suspects(self.threads),
        })
    }

    /// Looks up the items of all blocks, and passes the blocks to `step`, each with the number of each item that is a suspect.
    fn look_up(
        &self,
        what: &'static str,
        FirstPass { seed, suspects }: &FirstPass,
        mut step: impl FnMut(Block, Vec<Option<usize>>) -> Result<()>,
    ) -> Result<()> {
        let worker = || {
            let mut hashes = Vec::new();
            move |block| {
                hashes.clear();
                hash_each(seed, &block, |hash| hashes.push(hash));
                let numbers = suspects.find_each(&hashes);
                Ok((block, numbers))
            }
        };
        self.each(what, worker, |(block, numbers)| step(block, numbers))
    }

    /// Counts the records of each suspect, without those of the first `known` files.
    pub fn count(&self, first: &FirstPass, known: usize) -> Result<Vec<u64>> {
        let mut counts = vec![0; first.suspects.end()];
        self.look_up("counting", first, |block, numbers| {
            if block.index >= known {
                for number in numbers.into_iter().flatten() {
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
        self.look_up("writing", first, |mut block, numbers| {
            marks.touch(numbers.iter().copied().flatten());
            let numbers = numbers.into_iter();
            let counts = numbers.map(|number| match number {
                Some(number) if marks.mark(number) => 0,
                Some(number) => counts.map_or(1, |counts| counts[number]),
                None => 1,
            });
            printer.print_block(&mut block, counts)
        })?;
        printer.output.end()
    }
}
