//! A digest: its nodes, additions and compressions.

use std::sync::OnceLock;

use crate::machine::memory::{self, Relocate};

use super::compress::merge_neighbours;
use super::compressed::{Compressed, Marks};
use super::node::{Node, double, whole};
use super::sort::sort;

/// The compression of a digest: accuracy grows with it, and so does the number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Compression(u64);

impl Compression {
    /// The compression of digests that don't name one.
    pub const DEFAULT: Self = Self(100);

    /// The largest compression of digests that a client may make. It bounds the time of a compression.
    pub const MAX: Self = Self(100_000);

    /// The largest compression whose capacity has 31 bits.
    const UNWRAPPED_MAX: Self = Self(357_913_939);

    /// Returns the compression, or `None` if it is not from 1 to 2^53.
    pub fn new(compression: u64) -> Option<Self> {
        (1..=1 << 53)
            .contains(&compression)
            .then_some(Self(compression))
    }

    /// Returns whether a client may make digests of this compression: it is at most [`MAX`](Self::MAX).
    pub const fn is_within_limits(self) -> bool {
        self.0 <= Self::MAX.0
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number as a double, which is exact.
    #[allow(clippy::cast_precision_loss, reason = "it is at most 2^53")]
    pub const fn as_double(self) -> f64 {
        self.0 as f64
    }

    /// Returns the number of nodes that a digest may grow to, merged and unmerged.
    pub const fn capacity(self) -> u64 {
        match self.stored_capacity().cast_signed() {
            ..0 => 0,
            capacity => capacity.cast_unsigned(),
        }
    }

    /// Returns the capacity as `RedisBloom` reports and stores it: cut to 32 bits, and negative ones with their sign.
    #[allow(clippy::cast_possible_truncation, reason = "the stored form is cut")]
    pub const fn stored_capacity(self) -> u64 {
        let cut = (6 * self.0 + 10) as u32;
        (cut.cast_signed() as i64).cast_unsigned()
    }

    /// Returns the size in bytes that a digest may grow to. `RedisBloom` allocates this at once, and reports it.
    pub const fn full_bytes(self) -> u64 {
        80 + size_of::<Node>() as u64 * self.capacity()
    }
}

/// The reason that observations are not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A value is infinite or NaN.
    NotFinite,
    /// There would be more than 2^63 − 1 observations.
    Overflow,
    /// An allocation failed.
    OutOfMemory,
}

crate::error::texts!(Refusal {
    Self::NotFinite => "a value is infinite or NaN",
    Self::Overflow => "there would be too many observations",
    Self::OutOfMemory => "not enough memory",
});

/// The numbers of a digest apart from its nodes, the way files have them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    pub compression: Compression,
    /// The smallest observation, or [`f64::MAX`].
    pub min: f64,
    /// The largest observation, or [`f64::MIN`].
    pub max: f64,
    /// The number of merged nodes, which precede the unmerged ones.
    pub merged: usize,
    pub merged_weight: i64,
    pub unmerged_weight: i64,
    pub compressions: i64,
}

/// A t-digest.
#[derive(Debug)]
pub struct TDigest {
    numbers: Numbers,
    /// The nodes, then room for more. The allocation grows as needed, and its length is its size.
    nodes: Box<[Node]>,
    /// The number of nodes.
    count: usize,
    /// The compressed nodes, from the first query after a write until the next write.
    marks: OnceLock<Marks>,
}

impl TDigest {
    /// Size of a digest without its nodes, in bytes.
    pub const BASE_BYTES: u64 = memory::stated::<Self>(120) as u64;

    /// Returns the size in bytes of a digest with as many nodes as a compression allows.
    pub const fn most_bytes(compression: Compression) -> u64 {
        Self::BASE_BYTES + size_of::<Node>() as u64 * compression.capacity()
    }

    /// Creates an empty digest. It allocates nodes as they are added.
    pub fn new(compression: Compression) -> Self {
        let numbers = Numbers {
            compression,
            min: f64::MAX,
            max: f64::MIN,
            merged: 0,
            merged_weight: 0,
            unmerged_weight: 0,
            compressions: 0,
        };
        Self::from_parts(numbers, Box::default())
    }

    /// Creates a digest from what a file has.
    pub(super) const fn from_parts(numbers: Numbers, nodes: Box<[Node]>) -> Self {
        Self {
            numbers,
            count: nodes.len(),
            nodes,
            marks: OnceLock::new(),
        }
    }

    pub(super) const fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes[..self.count]
    }

    /// Returns the compression.
    pub const fn compression(&self) -> Compression {
        self.numbers.compression
    }

    /// Returns whether there are no observations.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the smallest observation, or NaN if the digest is empty.
    pub const fn min(&self) -> f64 {
        match self.count {
            0 => f64::NAN,
            _ => self.numbers.min,
        }
    }

    /// Returns the largest observation, or NaN if the digest is empty.
    pub const fn max(&self) -> f64 {
        match self.count {
            0 => f64::NAN,
            _ => self.numbers.max,
        }
    }

    /// Returns the number of merged nodes.
    pub const fn merged_nodes(&self) -> usize {
        self.numbers.merged
    }

    /// Returns the number of unmerged nodes.
    pub const fn unmerged_nodes(&self) -> usize {
        self.count - self.numbers.merged
    }

    /// Returns the number of observations in merged nodes. Beyond 2^53 it is rounded.
    pub const fn merged_weight(&self) -> i64 {
        self.numbers.merged_weight
    }

    /// Returns the number of observations in unmerged nodes.
    pub const fn unmerged_weight(&self) -> i64 {
        self.numbers.unmerged_weight
    }

    /// Returns the number of observations. Beyond 2^53 it is rounded.
    pub const fn observations(&self) -> i64 {
        self.merged_weight().saturating_add(self.unmerged_weight())
    }

    /// Returns the number of compressions since the digest was created or reset.
    pub const fn compressions(&self) -> i64 {
        self.numbers.compressions
    }

    /// Returns the exact sum of the digest's allocations in bytes, including itself. A query may increase it: the
    /// compressed nodes are kept until the next write.
    pub fn memory_bytes(&self) -> u64 {
        let marks = self.marks.get().map_or(0, Marks::memory_bytes);
        Self::BASE_BYTES + size_of_val(&*self.nodes) as u64 + marks
    }

    /// Adds observations in order.
    ///
    /// # Errors
    /// Any [`Refusal`]. Then no observation is added.
    pub fn add_each(&mut self, values: &[f64]) -> Result<(), Refusal> {
        if values.iter().any(|value| !value.is_finite()) {
            return Err(Refusal::NotFinite);
        }
        let count = i64::try_from(values.len()).map_err(|_| Refusal::Overflow)?;
        if self.observations().checked_add(count).is_none() {
            return Err(Refusal::Overflow);
        }
        if values.is_empty() {
            return Ok(());
        }
        self.require_room(values.len())?;
        self.reserve(values.len())?;
        self.marks.take();
        let mut rest = values;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(self.room().min(rest.len()));
            self.append(now.iter().map(|&mean| Node { mean, weight: 1 }));
            rest = later;
        }
        Ok(())
    }

    /// Adds the observations of a node.
    fn add_node(&mut self, node: Node) -> Result<(), Refusal> {
        if self.observations().checked_add(node.weight).is_none() {
            return Err(Refusal::Overflow);
        }
        self.require_room(1)?;
        self.reserve(1)?;
        self.room();
        self.append([node]);
        Ok(())
    }

    /// Requires that more nodes fit. They always do, unless the capacity of a huge compression was cut to 32 bits.
    fn require_room(&self, more: usize) -> Result<(), Refusal> {
        let is_cut = self.compression() > Compression::UNWRAPPED_MAX;
        if is_cut && self.count.saturating_add(more) > self.capacity() {
            return Err(Refusal::Overflow);
        }
        Ok(())
    }

    /// Compresses the nodes if the buffer is full, and returns how many nodes can be added until it is full again, at
    /// least one.
    fn room(&mut self) -> usize {
        let capacity = self.capacity();
        if self.count + 1 >= capacity {
            self.compress();
        }
        // Nodes may fill a whole file. Then one more is added, and the next addition compresses them all.
        capacity.saturating_sub(self.count + 1).max(1)
    }

    /// Appends nodes that [`room`](Self::room) was made for. The space is [reserved](Self::reserve).
    fn append(&mut self, nodes: impl IntoIterator<Item = Node>) {
        let numbers = &mut self.numbers;
        for (place, node) in self.nodes[self.count..].iter_mut().zip(nodes) {
            // Of the two zeros, the first one stays.
            if node.mean < numbers.min {
                numbers.min = node.mean;
            }
            if node.mean > numbers.max {
                numbers.max = node.mean;
            }
            numbers.unmerged_weight += node.weight;
            *place = node;
            self.count += 1;
        }
    }

    const fn capacity(&self) -> usize {
        memory::index(self.compression().capacity())
    }

    /// Allocates space for more nodes: all that can be there at once.
    fn reserve(&mut self, more: usize) -> Result<(), Refusal> {
        const LEAST: usize = 16;
        let at_once = self.capacity().max(self.count + 1);
        let needed = self.count.saturating_add(more).min(at_once);
        if needed <= self.nodes.len() {
            return Ok(());
        }
        let doubled = (2 * self.nodes.len()).max(LEAST).min(at_once);
        let mut nodes = memory::reserved(needed.max(doubled)).ok_or(Refusal::OutOfMemory)?;
        nodes.extend_from_slice(self.nodes());
        nodes.resize(nodes.capacity(), Node::default());
        self.nodes = memory::boxed(nodes).ok_or(Refusal::OutOfMemory)?;
        Ok(())
    }

    /// Merges all nodes, as far as the compression allows. Changes nothing if all are merged already.
    pub fn compress(&mut self) {
        if self.unmerged_nodes() == 0 {
            return;
        }
        let (count, total) = match self.marks.get() {
            Some(marks) => marks.copy_nodes(&mut self.nodes),
            None => self.merge_nodes(),
        };
        self.count = count;
        self.numbers = Numbers {
            merged: count,
            merged_weight: whole(total),
            unmerged_weight: 0,
            compressions: self.compressions().saturating_add(1),
            ..self.numbers
        };
    }

    /// Sorts and merges the nodes. Returns how many are left, fewer than the capacity, and the sum of their weights.
    fn merge_nodes(&mut self) -> (usize, f64) {
        const LEAST_NODES: usize = 8;
        // Beyond this number of observations, sums of weights are rounded.
        const EXACT_MAX: f64 = double(1 << 53);
        let capacity = self.capacity();
        let mut compression = self.compression().as_double();
        let nodes = &mut self.nodes[..self.count];
        let mut total = double(self.numbers.merged_weight) + double(self.numbers.unmerged_weight);
        sort(nodes, self.numbers.merged);
        if total <= 1.0 {
            return (nodes.len(), total);
        }
        let mut count = merge_neighbours(nodes, total, compression);
        let most = if total < EXACT_MAX {
            capacity.saturating_sub(1)
        } else {
            capacity / 2
        };
        // Forged nodes of a capacity that was cut can't be fewer.
        let most = most.max(LEAST_NODES);
        if count > most {
            // If the weights add up to more than a rounded total, nodes past it were not merged.
            total = nodes[..count].iter().map(|node| node.double_weight()).sum();
        }
        while count > most {
            count = merge_neighbours(&mut nodes[..count], total, compression);
            if count > most {
                // Small weights near the end are lost in the sum of those before them, so nodes of such weights are not
                // merged. From the other end they are.
                nodes[..count].reverse();
                count = merge_neighbours(&mut nodes[..count], total, compression);
                nodes[..count].reverse();
            }
            // A small compression has less capacity than the nodes of many observations need.
            compression /= 2.0;
        }
        (count, total)
    }

    /// Returns the digest for queries, or `None` if allocation fails. If it has unmerged nodes, a copy is compressed,
    /// which is kept until the next write. The digest itself does not change.
    pub fn compressed(&self) -> Option<Compressed<'_>> {
        let marks = if let Some(marks) = self.marks.get() {
            marks
        } else {
            let marks = self.marked()?;
            self.marks.get_or_init(|| marks)
        };
        Some(self.with_marks(marks))
    }

    /// Passes the digest to a query, as [`compressed`](Self::compressed) does, but keeps no further nodes. Returns `None`
    /// if allocation fails.
    pub fn compressed_once<R>(&self, query: impl FnOnce(Compressed) -> R) -> Option<R> {
        if self.marks.get().is_some() {
            return self.compressed().map(query);
        }
        let marks = self.marked()?;
        Some(query(self.with_marks(&marks)))
    }

    fn with_marks<'d>(&self, marks: &'d Marks) -> Compressed<'d> {
        Compressed {
            marks,
            min: self.numbers.min,
            max: self.numbers.max,
            observations: self.observations(),
        }
    }

    /// Returns the compressed nodes for queries, or `None` if allocation fails.
    #[cold]
    fn marked(&self) -> Option<Marks> {
        let new = |digest: &Self| Marks::new(digest.nodes(), double(digest.merged_weight()));
        if self.unmerged_nodes() == 0 {
            new(self)
        } else {
            new(&self.compressed_copy()?)
        }
    }

    /// Copies the digest and compresses the copy: the form that is stored. Returns `None` if allocation fails.
    pub fn compressed_copy(&self) -> Option<Self> {
        let mut copy = self.try_clone()?;
        copy.compress();
        Some(copy)
    }

    /// Creates a digest of the observations of several, in their order. A source counts once for each time it is given,
    /// and does not change.
    ///
    /// # Errors
    /// [`Refusal::Overflow`], [`Refusal::OutOfMemory`]
    pub fn merged<'d>(
        compression: Compression,
        sources: impl IntoIterator<Item = &'d Self>,
    ) -> Result<Self, Refusal> {
        let mut merged = Self::new(compression);
        for source in sources {
            merged.compress();
            let made;
            let marks = if let Some(marks) = source.marks.get() {
                marks
            } else {
                made = source.marked().ok_or(Refusal::OutOfMemory)?;
                &made
            };
            // Nodes of weight 0, which files may have, hold no observation.
            let nodes = marks.nodes().filter(|node| node.weight > 0);
            for node in nodes {
                merged.add_node(node)?;
            }
        }
        Ok(merged)
    }

    /// Removes all observations, and returns whether that changed anything.
    pub fn reset(&mut self) -> bool {
        let changed = !self.is_empty() || self.compressions() > 0;
        *self = Self::new(self.compression());
        changed
    }

    /// Copies the digest without spare room, or returns `None` if allocation fails.
    pub fn try_clone(&self) -> Option<Self> {
        let nodes = memory::copied(self.nodes())?;
        Some(Self::from_parts(self.numbers, nodes))
    }

    /// Moves the allocations to other memory, starting with step `first`. Returns the step to resume at, or `None` at
    /// the end.
    pub fn relocate(&mut self, first: usize, by: &mut impl Relocate) -> Option<usize> {
        if first == 0 {
            let nodes = std::mem::take(&mut self.nodes).into_vec();
            self.nodes = by.table(nodes).into_boxed_slice();
            if self.marks.get().is_some() && by.should_stop() {
                return Some(1);
            }
        }
        if let Some(marks) = self.marks.get_mut() {
            marks.relocate(|nodes| by.table(nodes));
        }
        None
    }
}
