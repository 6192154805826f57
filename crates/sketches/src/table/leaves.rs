//! The leaves of crowds: shards of ranges of any length, so that each has about as many entries, whatever the fingerprints are.
//!
//! Those of all crowds are in one list in the order of fingerprints, cut into pages, so that no insertion moves many.

use crate::machine::memory::{self, Relocate};

use super::codec::{Codec, Widths};
use super::shard::Shard;

/// The most leaves of a page.
const PAGE_MOST: usize = 256;

/// A shard of a range that is as long as its fingerprints permit.
#[derive(Debug)]
pub struct Leaf {
    /// The first fingerprint of the range.
    pub first: u64,
    /// The first one after it. The ranges of a crowd follow one another without gaps.
    pub end: u64,
    pub shard: Shard,
}

impl Leaf {
    /// Size in bytes.
    const BYTES: usize = memory::stated::<Self>(40);

    /// Returns the bits of its entries.
    #[inline]
    pub const fn widths(&self, codec: Codec) -> Widths {
        codec.widths_of(self.first, self.end)
    }
}

/// The place of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    page: u32,
    leaf: u32,
}

impl Spot {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "there are fewer pages and leaves"
    )]
    const fn new(page: usize, leaf: usize) -> Self {
        Self {
            page: page as u32,
            leaf: leaf as u32,
        }
    }

    const fn page(self) -> usize {
        self.page as usize
    }

    const fn leaf(self) -> usize {
        self.leaf as usize
    }
}

/// The leaves of all crowds of a table.
#[derive(Debug, Default)]
pub struct Leaves {
    /// In order; none is empty.
    pages: Vec<Vec<Leaf>>,
    /// The leaves for which the pages have room.
    room: usize,
    /// The number of leaves.
    count: usize,
}

impl Leaves {
    /// The most bytes that the list takes for one more leaf, besides those of the leaf's shard: for the halves of a page, and
    /// for a longer list of pages.
    pub const fn bytes_for_one(&self) -> usize {
        PAGE_MOST * Leaf::BYTES + (2 + self.pages.len() / 4) * size_of::<Vec<Leaf>>()
    }

    /// Returns the number of leaves.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Returns the size of the list in bytes, without the shards.
    pub const fn memory_bytes(&self) -> usize {
        self.room * Leaf::BYTES + self.pages.capacity() * size_of::<Vec<Leaf>>()
    }

    pub fn try_clone(&self) -> Option<Self> {
        let leaf = |leaf: &Leaf| {
            let shard = leaf.shard.try_clone()?;
            Some(Leaf { shard, ..*leaf })
        };
        let pages = self.pages.iter();
        Some(Self {
            pages: memory::collected(pages.map(|page| memory::collected(page.iter().map(leaf))))?,
            room: self.count,
            count: self.count,
        })
    }

    /// Moves the allocations from leaf number `first` on. Returns the number of the next one if it has to stop.
    pub fn relocate(&mut self, first: usize, by: &mut impl Relocate) -> Option<usize> {
        let leaves = self.pages.iter_mut().flatten().enumerate().skip(first);
        for (number, leaf) in leaves {
            if by.should_stop() {
                return Some(number);
            }
            leaf.shard.relocate(|bytes| by.blob(bytes));
        }
        for page in &mut self.pages {
            *page = by.table(std::mem::take(page));
        }
        self.pages = by.table(std::mem::take(&mut self.pages));
        None
    }

    #[inline]
    pub fn get(&self, at: Spot) -> &Leaf {
        &self.pages[at.page()][at.leaf()]
    }

    pub fn get_mut(&mut self, at: Spot) -> &mut Leaf {
        &mut self.pages[at.page()][at.leaf()]
    }

    /// Returns the page that has a fingerprint's leaf, or would get it.
    fn page_of(&self, fingerprint: u64) -> usize {
        let after = self
            .pages
            .partition_point(|page| page[0].first <= fingerprint);
        after.saturating_sub(1)
    }

    /// Returns the place of the leaf whose range has a fingerprint of a crowd.
    #[cold]
    #[inline(never)]
    pub fn find(&self, fingerprint: u64) -> Spot {
        let page = self.page_of(fingerprint);
        let after = self.pages[page].partition_point(|leaf| leaf.first <= fingerprint);
        Spot::new(page, after - 1)
    }

    /// Returns the place of the leaf that follows another without a gap.
    pub fn next(&self, at: Spot) -> Option<Spot> {
        let end = self.get(at).end;
        let next = if at.leaf() + 1 < self.pages[at.page()].len() {
            Spot::new(at.page(), at.leaf() + 1)
        } else {
            Spot::new(at.page() + 1, 0)
        };
        let follows = |page: &Vec<Leaf>| page[next.leaf()].first == end;
        self.pages
            .get(next.page())
            .is_some_and(follows)
            .then_some(next)
    }

    /// Returns the leaves of a crowd from one on that begin before a fingerprint.
    pub fn from(&self, from: Spot, end: u64) -> impl Iterator<Item = &Leaf> {
        let spots = std::iter::successors(Some(from), |at| self.next(*at));
        let leaves = spots.map(|at| self.get(at));
        leaves.take_while(move |leaf| leaf.first < end)
    }

    /// Inserts a leaf of a range, without a shard. Returns its place, or `None` if allocation fails.
    pub fn insert(&mut self, first: u64, end: u64) -> Option<Spot> {
        let mut page = 0;
        if self.pages.is_empty() {
            let only = memory::reserved(1)?;
            self.insert_page(0, only)?;
        } else {
            page = self.page_of(first);
        }
        if self.pages[page].len() == PAGE_MOST {
            let later = memory::reserved(PAGE_MOST / 2)?;
            self.insert_page(page + 1, later)?;
            let [earlier, later] = &mut self.pages[page..page + 2] else {
                unreachable!()
            };
            later.extend(earlier.drain(PAGE_MOST / 2..));
            page += usize::from(later[0].first < first);
        }
        let leaves = &mut self.pages[page];
        if leaves.len() == leaves.capacity() {
            let more = (1 + leaves.len() / 4).min(PAGE_MOST - leaves.len());
            let before = leaves.capacity();
            leaves.try_reserve_exact(more).ok()?;
            self.room += leaves.capacity() - before;
        }
        let leaf = leaves.partition_point(|other| other.first < first);
        let shard = Shard::default();
        leaves.insert(leaf, Leaf { first, end, shard });
        self.count += 1;
        Some(Spot::new(page, leaf))
    }

    /// Inserts a page that will not stay empty.
    fn insert_page(&mut self, at: usize, page: Vec<Leaf>) -> Option<()> {
        if self.pages.len() == self.pages.capacity() {
            let more = 1 + self.pages.len() / 4;
            self.pages.try_reserve_exact(more).ok()?;
        }
        self.room += page.capacity();
        self.pages.insert(at, page);
        Some(())
    }

    /// Removes a leaf.
    pub fn remove(&mut self, at: Spot) -> Leaf {
        let page = &mut self.pages[at.page()];
        let leaf = page.remove(at.leaf());
        self.count -= 1;
        self.room -= page.capacity();
        if page.is_empty() {
            self.pages.remove(at.page());
            if self.pages.len() < self.pages.capacity() / 2 {
                memory::fit(&mut self.pages);
            }
        } else {
            if page.len() < page.capacity() / 2 {
                memory::fit(page);
            }
            self.room += page.capacity();
        }
        leaf
    }
}
