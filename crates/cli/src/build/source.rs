//! The items of a run, block by block.

use std::num::NonZeroU32;

use valkeybloom_client::shard_of;

use crate::failure::Result;
use crate::lines::{Block, Input};
use crate::progress::{Progress, Show};

/// Reads the items of a run, and shows the progress.
pub struct Source<'s> {
    pub input: &'s Input,
    /// The number of bytes to read, if known.
    pub bytes: Option<u64>,
    pub shards: NonZeroU32,
    pub show: Show,
}

/// The numbers of items that are done, and of new items among them.
#[derive(Default)]
pub struct Counts {
    pub items: u64,
    pub new: u64,
}

impl Source<'_> {
    /// Passes the blocks of the input to `take`, which raises the counts, and shows them. Calls `meanwhile` before and while it
    /// waits for a block.
    pub fn each(
        &self,
        what: &'static str,
        meanwhile: impl FnMut() -> Result<()>,
        mut take: impl FnMut(&Block, &mut Counts) -> Result<()>,
    ) -> Result<Counts> {
        let mut progress = Progress::new(self.show, what, "items", self.bytes);
        let mut counts = Counts::default();
        self.input.each(meanwhile, |block| {
            take(block, &mut counts)?;
            progress.at(block.read, counts.items);
            Ok(())
        })?;
        progress.end(counts.items);
        Ok(counts)
    }

    /// Counts the items, which determines the capacity.
    pub fn count(&self) -> Result<u64> {
        let counts = self.each(
            "counting",
            || Ok(()),
            |block, counts| {
                counts.items += block.items().count() as u64;
                Ok(())
            },
        );
        Ok(counts?.items)
    }

    /// Returns the items of each shard.
    pub fn by_shard<'i>(&self, block: &'i Block) -> Vec<Vec<&'i [u8]>> {
        if self.shards == NonZeroU32::MIN {
            return vec![block.items().collect()];
        }
        let mut of_shards = vec![Vec::new(); self.shards.get() as usize];
        for item in block.items() {
            of_shards[shard_of(item, self.shards) as usize].push(item);
        }
        of_shards
    }
}
