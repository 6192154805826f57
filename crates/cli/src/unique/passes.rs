//! Passes over the files. The first finds suspects, and the last one prints; `--count` needs another one between them.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use valkeybloom_sketches::Seed;

use super::claims::{Claims, ITEM_BITS};
use super::hash::Hash;
use super::ordered;
use super::printer::Printer;
use super::suspects::{Found, Marks, Suspects};
use crate::failure::Result;
use crate::lines::{Block, Input, bytes_of};
use crate::progress::{Progress, Show};

/// What all passes read.
pub struct Passes<'p> {
    pub input: &'p Input,
    /// The number of bytes to read; `None` if one can be read only once.
    bytes: Option<u64>,
    threads: usize,
    pub show: Show,
}

/// Passes on the hash of each item of a block.
fn hash_each(seed: &Seed, block: &Block, mut take: impl FnMut(Hash)) {
    seed.probe_each(block.record_items(), |probe| {
        let (a, b) = probe.hashes();
        let hash = u128::from(a) << 64 | u128::from(b);
        // 0 stands for a free place.
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
        let mut progress = Progress::new(self.show, what, "records", self.bytes).with_bytes();
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
    pub fn find_suspects(&self) -> Result<Suspects> {
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
        let parts = claims.into_parts(self.threads);
        Ok(Suspects::new(seed, parts))
    }

    /// Looks up the items of all blocks, and passes the blocks to `step`, each with those of its items that are suspects.
    fn look_up(
        &self,
        what: &'static str,
        suspects: &Suspects,
        mut step: impl FnMut(Block, Vec<Found>) -> Result<()>,
    ) -> Result<()> {
        let worker = || {
            let mut hashes = Vec::new();
            move |block| {
                hashes.clear();
                hash_each(&suspects.seed, &block, |hash| hashes.push(hash));
                let found = suspects.find_each(&hashes);
                Ok((block, found))
            }
        };
        self.each(what, worker, |(block, found)| step(block, found))
    }

    /// Counts the records of each suspect, without those of the first `known` files.
    pub fn count(&self, suspects: &Suspects, known: usize) -> Result<Vec<u64>> {
        let mut counts = vec![0; suspects.end()];
        self.look_up("counting", suspects, |block, found| {
            if block.index >= known {
                for Found { number, .. } in found {
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
        suspects: &Suspects,
        counts: Option<&[u64]>,
        printer: &mut Printer,
    ) -> Result<()> {
        let mut marks = Marks::new(suspects.end());
        self.look_up("writing", suspects, |mut block, found| {
            marks.touch(found.iter().map(|it| it.number));
            let mut found = found.into_iter().peekable();
            let items = 0..block.len();
            let counts = items.map(|item| match found.next_if(|it| it.index == item) {
                Some(it) if marks.mark(it.number) => 0,
                Some(it) => counts.map_or(1, |counts| counts[it.number]),
                None => 1,
            });
            printer.print_block(&mut block, counts)
        })?;
        printer.output.end()
    }
}
