//! The rules of count-min sketches written down once more, in wide integers and loops.

use valkeybloom_sketches::cms::{CountMin, MergeError, NotCounted, Overflow};

use crate::plain::Field;
use murmur2::murmur2;

/// A sketch of wide integers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naive {
    pub width: u64,
    pub bytes: u64,
    pub rows: Vec<Vec<i128>>,
    pub count: i128,
}

const MOST: i128 = i64::MAX as i128;

impl Naive {
    pub fn new(width: usize, depth: usize, bytes: u64) -> Self {
        Self {
            width: width as u64,
            bytes,
            rows: vec![vec![0; width]; depth],
            count: 0,
        }
    }

    /// The largest number of a counter.
    fn max(&self) -> i128 {
        MOST.min((1 << (8 * self.bytes)) - 1)
    }

    fn counters(&mut self, item: &[u8]) -> Vec<&mut i128> {
        let width = self.width;
        let rows = (0..).zip(&mut self.rows);
        rows.map(|(row, counters)| {
            let column = u64::from(murmur2(item, row)) % width;
            &mut counters[usize::try_from(column).unwrap()]
        })
        .collect()
    }

    pub fn estimate(&mut self, item: &[u8]) -> u64 {
        let least = self.counters(item).into_iter().min().unwrap();
        u64::try_from(*least).unwrap()
    }

    pub fn increment(
        &mut self,
        item: &[u8],
        by: i64,
        overflow: Overflow,
    ) -> Result<u64, NotCounted> {
        let saturates = self.bytes == 4 && overflow == Overflow::Saturate;
        let (max, by) = (self.max(), i128::from(by));
        let after: Vec<i128> = self.counters(item).iter().map(|c| **c + by).collect();
        let count = self.count + by;
        if after.iter().any(|counter| *counter < 0) || count < 0 {
            return Err(NotCounted::Underflow);
        }
        if by > 0 && !saturates && (after.iter().any(|counter| *counter > max) || count > MOST) {
            return Err(NotCounted::Overflow);
        }
        for (counter, after) in self.counters(item).into_iter().zip(after) {
            *counter = after.min(max);
        }
        self.count = if saturates { count % (1 << 64) } else { count };
        match self.estimate(item) {
            least if saturates && by >= 0 && i128::from(least) == max => Err(NotCounted::Saturated),
            least => Ok(least),
        }
    }

    /// Adds up weighted sources, term by term.
    pub fn merged(terms: &[(&Self, i64)], overflow: Overflow) -> Result<Self, MergeError> {
        let first = terms[0].0;
        match Self::summed(terms) {
            Err(MergeError::Overflow) if first.bytes == 4 && overflow == Overflow::Saturate => {
                Ok(Self::saturated(terms))
            }
            summed => summed,
        }
    }

    fn saturated(terms: &[(&Self, i64)]) -> Self {
        let nearest = |number: &dyn Fn(&Self) -> i128, most: i128| {
            let products = terms
                .iter()
                .map(|(s, weight)| number(s) * i128::from(*weight));
            products.fold(0, i128::saturating_add).clamp(0, most)
        };
        let mut merged = terms[0].0.clone();
        merged.count = nearest(&|source| source.count, MOST);
        let max = merged.max();
        for (row, counters) in merged.rows.iter_mut().enumerate() {
            for (column, counter) in counters.iter_mut().enumerate() {
                *counter = nearest(&|source| source.rows[row][column], max);
            }
        }
        merged
    }

    fn summed(terms: &[(&Self, i64)]) -> Result<Self, MergeError> {
        let first = terms[0].0;
        let of = |number: fn(&Self, usize) -> i128, index| {
            terms.iter().try_fold(0_i128, |sum, (source, weight)| {
                let product = number(source, index) * i128::from(*weight);
                i64::try_from(product).ok()?;
                i64::try_from(sum + product).ok().map(i128::from)
            })
        };
        let mut merged = first.clone();
        merged.count = of(|source, _| source.count, 0).ok_or(MergeError::Overflow)?;
        let (width, max) = (first.rows[0].len(), first.max());
        for row in 0..first.rows.len() {
            for column in 0..width {
                let counter = |source: &Self, index: usize| {
                    source.rows[index / source.rows[0].len()][index % source.rows[0].len()]
                };
                let sum = of(counter, row * width + column);
                let sum = sum.filter(|sum| (0..=max).contains(sum));
                merged.rows[row][column] = sum.ok_or(MergeError::Overflow)?;
            }
        }
        if merged.count < 0 {
            return Err(MergeError::Overflow);
        }
        Ok(merged)
    }

    fn table(&self) -> Vec<u8> {
        let bytes = usize::try_from(self.bytes).unwrap();
        let counters = self.rows.iter().flatten();
        counters
            .flat_map(|counter| counter.to_le_bytes()[..bytes].to_vec())
            .collect()
    }

    /// Requires that a sketch holds the same numbers.
    #[track_caller]
    pub fn assert_same(&self, sketch: &CountMin) {
        assert!(sketch.table() == self.table(), "other counters");
        assert_eq!(i128::from(sketch.count()), self.count);
    }

    /// Returns the fields in RDB of an encoding version.
    pub fn fields(&self, version: i32) -> Vec<Field> {
        let count = if version == 1 {
            self.count.min(MOST)
        } else {
            self.count
        };
        let mut fields = vec![
            Field::Uint(self.width),
            Field::Uint(self.rows.len() as u64),
            Field::Uint(u64::try_from(count).unwrap()),
            Field::Bytes(self.table()),
        ];
        match version {
            1 => fields.insert(3, Field::Uint(self.bytes)),
            _ if self.bytes != 4 => fields.push(Field::Uint(self.bytes)),
            _ => {}
        }
        fields
    }
}
