//! Weighted sums of sketches.
//!
//! The sums are those of a plain loop: each counter becomes `w₀·s₀ + w₁·s₁ + …`, source by source, and everything has to
//! fit an `i64` after each step. A loop over all terms would take long if a command named a large sketch ten thousand
//! times, so the weights of equal sources are added up first, where no intermediate sum can leave the range.

use crate::machine::{memory, work};

use super::cells::{for_cell_size, narrow, widen};
use super::object::{CountMin, MOST, Overflow};
use super::shape::CellSize;

/// The counters that are summed together. Their sums stay in the fastest cache.
const BLOCK: usize = 512;

/// Up to this number of counters, every term is added by itself if it has to be.
const FEW_COUNTERS: u64 = 1 << 24;

/// Up to this number of terms for each source, every term is added by itself if it has to be.
const FEW_TERMS: u64 = 16;

/// A source of a merge, with its weight.
#[derive(Clone, Copy, Debug)]
pub struct Term<'s> {
    /// The source.
    pub source: &'s CountMin,
    /// The factor of its counters.
    pub weight: i64,
}

/// The reason that sketches are not merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeError {
    /// Width, depth or size of counters differ, or the list of terms is empty.
    Shape,
    /// A counter, the count, or an intermediate sum would be out of range.
    Overflow,
    /// The merged sketch can't be allocated.
    OutOfMemory,
}

crate::error::texts!(MergeError {
    Self::Shape => "the sketches differ in shape",
    Self::Overflow => "a counter would be out of range",
    Self::OutOfMemory => "not enough memory",
});

impl CountMin {
    /// Takes over the counters and the count of another sketch. Returns whether they differ.
    ///
    /// # Errors
    /// [`MergeError::Shape`]. Then nothing has changed.
    pub fn replace(&mut self, by: Self) -> Result<bool, MergeError> {
        if self.shape() != by.shape() {
            return Err(MergeError::Shape);
        }
        let differs = (self.count(), self.table()) != (by.count(), by.table());
        *self = by;
        Ok(differs)
    }

    /// Returns the weighted sum of sketches. Intermediate sums count, in the order of the terms.
    ///
    /// With [`Overflow::Refuse`], a sum is also refused if finding out whether an intermediate sum leaves the range of
    /// `i64` would take more than a few passes over all sources. This takes weights far above 2³¹ in total. With
    /// [`Overflow::Saturate`], sums that counters of four bytes can't hold become the nearest number that they can.
    ///
    /// # Errors
    /// Any [`MergeError`].
    pub fn merged(terms: &[Term], overflow: Overflow) -> Result<Self, MergeError> {
        let shape = terms.first().ok_or(MergeError::Shape)?.source.shape();
        if terms.iter().any(|term| term.source.shape() != shape) {
            return Err(MergeError::Shape);
        }
        let saturates = overflow == Overflow::Saturate;
        match Self::summed(terms, !saturates) {
            Err(MergeError::Overflow) if saturates && shape.cell_size() == CellSize::Four => {
                Self::saturated(terms)
            }
            merged => merged,
        }
    }

    /// Returns the weighted sum of sketches of one shape. With `bounded`, it is refused if it takes too long.
    fn summed(terms: &[Term], bounded: bool) -> Result<Self, MergeError> {
        let first = terms[0].source;
        let shape = *first.shape();
        let count = sum_of_counts(terms)?;
        let mut sources = Sources::of(terms)?;
        let combined;
        let terms = if sources.are_within_range(terms)? {
            combined = sources.terms()?;
            &combined[..]
        } else if bounded && !sources.are_few_terms(terms) {
            return Err(MergeError::Overflow);
        } else {
            terms
        };
        let mut table = memory::zeroed(first.table().len()).ok_or(MergeError::OutOfMemory)?;
        for_cell_size!(shape.cell_size(), sum_tables(terms, &mut table))?;
        Ok(Self::with_table(shape, count, table))
    }

    /// Returns the weighted sum of sketches with counters of four bytes. Each sum becomes the nearest one that fits.
    #[cold]
    fn saturated(terms: &[Term]) -> Result<Self, MergeError> {
        let first = terms[0].source;
        let mut table = memory::zeroed(first.table().len()).ok_or(MergeError::OutOfMemory)?;
        let most = CellSize::Four.max();
        for (index, cell) in table.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            let counter = |source: &Self| widen(&source.table().as_chunks::<4>().0[index]);
            *cell = narrow(nearest_sum(terms, counter, most));
        }
        let count = nearest_sum(terms, Self::count, MOST);
        Ok(Self::with_table(*first.shape(), count, table))
    }
}

/// Returns the number from 0 to `most` that is nearest to the weighted sum of a number of each source.
fn nearest_sum(terms: &[Term], number: impl Fn(&CountMin) -> u64, most: u64) -> u64 {
    let sum = terms.iter().fold(0_i128, |sum, term| {
        sum.saturating_add(i128::from(number(term.source)) * i128::from(term.weight))
    });
    u64::try_from(sum.max(0)).unwrap_or(u64::MAX).min(most)
}

/// Returns the weighted sum of the counts.
fn sum_of_counts(terms: &[Term]) -> Result<u64, MergeError> {
    let mut sum = 0_i64;
    for term in terms {
        let product = i128::from(term.weight) * i128::from(term.source.count());
        let next = i64::try_from(product).ok().and_then(|p| sum.checked_add(p));
        sum = next.ok_or(MergeError::Overflow)?;
    }
    u64::try_from(sum).map_err(|_| MergeError::Overflow)
}

/// The distinct sources of a merge, ordered by address.
struct Sources<'s>(Vec<Distinct<'s>>);

/// One of the distinct sources.
struct Distinct<'s> {
    source: &'s CountMin,
    /// The largest of its counters, or a bound on it.
    largest: u64,
    /// The sum of its weights so far.
    weight: i128,
}

impl Distinct<'_> {
    fn address(&self) -> *const CountMin {
        self.source
    }
}

impl<'s> Sources<'s> {
    fn of(terms: &[Term<'s>]) -> Result<Self, MergeError> {
        let mut distinct = memory::reserved(terms.len()).ok_or(MergeError::OutOfMemory)?;
        distinct.extend(terms.iter().map(|Term { source, .. }| Distinct {
            source,
            largest: source.shape().cell_size().max(),
            weight: 0,
        }));
        distinct.sort_unstable_by_key(Distinct::address);
        distinct.dedup_by_key(|distinct| distinct.address());
        Ok(Self(distinct))
    }

    /// Returns whether no intermediate sum of counters can leave the range of `i64`. If the largest number that fits a
    /// counter does not show that, the largest counters may.
    fn are_within_range(&mut self, terms: &[Term]) -> Result<bool, MergeError> {
        if self.add_up(terms) == Some(true) {
            return Ok(true);
        }
        for distinct in &mut self.0 {
            let (size, table) = (distinct.source.shape().cell_size(), distinct.source.table());
            work::bytes(table.len());
            distinct.largest = for_cell_size!(size, largest_in(table));
        }
        // A product with the largest counter is one of the intermediate results.
        self.add_up(terms).ok_or(MergeError::Overflow)
    }

    /// Adds up the weights. Returns whether every intermediate sum is within ±(2⁶³ − 1) for counters up to the largest;
    /// `None` if a product of one weight and one counter is not.
    fn add_up(&mut self, terms: &[Term]) -> Option<bool> {
        let in_range = |number: i128| i64::try_from(number).is_ok();
        self.0.iter_mut().for_each(|distinct| distinct.weight = 0);
        let (mut within, mut bound) = (true, 0_i128);
        for term in terms {
            let address: *const CountMin = term.source;
            let found = self.0.binary_search_by_key(&address, Distinct::address);
            let distinct = &mut self.0[found.unwrap_or(0)];
            let largest = i128::from(distinct.largest);
            if !in_range(i128::from(term.weight) * largest) {
                return None;
            }
            // Each product is below 2⁶³, so the sum of all of them fits.
            bound -= distinct.weight.abs() * largest;
            distinct.weight += i128::from(term.weight);
            bound += distinct.weight.abs() * largest;
            within &= in_range(bound);
        }
        Some(within)
    }

    /// Returns whether every term can be added by itself in bounded time.
    fn are_few_terms(&self, terms: &[Term]) -> bool {
        let (terms, sources) = (terms.len() as u64, self.0.len() as u64);
        let counters = self.0[0].source.shape().counters();
        terms <= FEW_TERMS * sources || terms.saturating_mul(counters) <= FEW_COUNTERS
    }

    /// Returns one term for each source that is not empty. Their weights fit, because they are within range.
    fn terms(&self) -> Result<Vec<Term<'s>>, MergeError> {
        let mut terms = memory::reserved(self.0.len()).ok_or(MergeError::OutOfMemory)?;
        terms.extend(self.0.iter().filter_map(|distinct| {
            let weight = i64::try_from(distinct.weight).ok()?;
            let source = distinct.source;
            (weight != 0 && distinct.largest > 0).then_some(Term { source, weight })
        }));
        Ok(terms)
    }
}

/// Returns the largest counter of a table.
fn largest_in<const BYTES: usize>(table: &[u8]) -> u64 {
    let counters = table.as_chunks::<BYTES>().0.iter().map(widen);
    counters.fold(0, u64::max)
}

/// Sums the counters of all terms. No single product is out of range.
fn sum_tables<const BYTES: usize>(terms: &[Term], to: &mut [u8]) -> Result<(), MergeError> {
    let max = CellSize::of_bytes(BYTES as u64).map_or(0, CellSize::max);
    let (cells, _) = to.as_chunks_mut::<BYTES>();
    for (number, cells) in cells.chunks_mut(BLOCK).enumerate() {
        let mut sums = [0_i64; BLOCK];
        let mut overflows = false;
        for term in terms {
            work::bytes(size_of_val(cells));
            let (counters, _) = term.source.table().as_chunks::<BYTES>();
            let counters = &counters[number * BLOCK..][..cells.len()];
            for (sum, counter) in sums.iter_mut().zip(counters) {
                let product = widen(counter).cast_signed().wrapping_mul(term.weight);
                let (next, overflow) = sum.overflowing_add(product);
                *sum = next;
                overflows |= overflow;
            }
        }
        for (cell, sum) in cells.iter_mut().zip(sums) {
            // Negative sums become numbers above every counter's largest.
            let counter = sum.cast_unsigned();
            overflows |= counter > max;
            *cell = narrow(counter);
        }
        if overflows {
            return Err(MergeError::Overflow);
        }
    }
    Ok(())
}
