//! Items in one buffer with offsets, which is Arrow's layout.

/// An offset into a buffer: `i32` or `i64`.
pub trait Offset: Copy + TryInto<usize> {}

impl Offset for i32 {}

impl Offset for i64 {}

/// The reason that offsets are refused: one is negative, smaller than the one before it, or past the end of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadOffsets;

crate::error::texts!(BadOffsets { Self => "offsets do not ascend within the buffer" });

/// The items of a buffer: item *i* lies between offset *i* and the next. Nothing is copied.
///
/// ```
/// use valkeybloom_sketches::cuckoo::{Cuckoo, Limits, Params, Shape};
/// use valkeybloom_sketches::Slices;
///
/// let items = Slices::new(b"redgreenblue", &[0_i32, 3, 8, 12]).unwrap();
/// let mut filter = Cuckoo::new(Shape::new(&Params::REDISBLOOM).unwrap(), &Limits::NONE).unwrap();
/// filter.add_each(items.clone().take(2), false, || Limits::NONE, |added| assert_eq!(added, Ok(true)));
///
/// let mut answers = Vec::new();
/// filter.contains_each(items, |found| answers.push(found));
/// assert_eq!(answers, [true, true, false]);
///
/// assert!(Slices::new(b"red", &[0_i64, 4]).is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Slices<'b, O> {
    data: &'b [u8],
    /// They ascend within the data.
    offsets: &'b [O],
}

impl<'b, O: Offset> Slices<'b, O> {
    /// Creates the items of a buffer, one fewer than there are offsets.
    ///
    /// # Errors
    /// [`BadOffsets`]
    pub fn new(data: &'b [u8], offsets: &'b [O]) -> Result<Self, BadOffsets> {
        let mut least = 0;
        for offset in offsets {
            let index = (*offset).try_into().map_err(|_| BadOffsets)?;
            if index < least || index > data.len() {
                return Err(BadOffsets);
            }
            least = index;
        }
        Ok(Self { data, offsets })
    }
}

impl<'b, O: Offset> Iterator for Slices<'b, O> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        let [start, end, ..] = self.offsets else {
            return None;
        };
        self.offsets = &self.offsets[1..];
        let (start, end) = ((*start).try_into().ok()?, (*end).try_into().ok()?);
        self.data.get(start..end)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.offsets.len().saturating_sub(1);
        (left, Some(left))
    }
}

impl<O: Offset> ExactSizeIterator for Slices<'_, O> {}
