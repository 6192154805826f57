//! Elements that lie elsewhere: the values of dictionaries and runs, and long strings of views.

use super::part::{Part, null_error, number_element};
use crate::batch::Batch;
use crate::error::Error;
use crate::items::Text;
use crate::strided::Element;

/// A value that is copied alone takes longer than one of a range. So a range is copied, unless it has more than this many
/// values for each that is chosen.
const SPARSE: usize = 16;

impl<'b> Part<'b> {
    /// Appends the elements of an array of views, each with its text or with its place in a buffer.
    pub(super) fn push_views(&self, batch: &mut Batch<'b>) -> Result<(), Error> {
        if self.length == 0 {
            return Ok(());
        }
        // The buffers of long items come after the nulls and the views. The last buffer has their sizes.
        let buffers = usize::try_from(self.array.n_buffers).unwrap_or(0);
        let count = buffers.checked_sub(3);
        let count = count.ok_or_else(|| Error::bad_batch("the array lacks a buffer"))?;
        let sizes = self.values::<i64>(buffers - 1, count)?;
        let mut long = Vec::new();
        long.try_reserve_exact(count)?;
        for (index, size) in sizes.iter().enumerate() {
            let size = usize::try_from(*size)
                .map_err(|_| Error::bad_batch("a buffer's size is negative"))?;
            long.push(self.values::<u8>(2 + index, size)?);
        }
        let views: &[[u8; 16]] = self.values(1, self.offset + self.length)?;
        batch.push_views(&views[self.offset..], long)
    }

    /// Appends the values of a dictionary at this part's keys.
    pub(super) fn push_keys(&self, batch: &mut Batch<'b>) -> Result<(), Error> {
        // SAFETY: the interface says that they are null or valid.
        let values = unsafe {
            let schema = self.schema.dictionary.as_ref();
            schema.zip(self.array.dictionary.as_ref())
        };
        let (schema, array) =
            values.ok_or_else(|| Error::bad_batch("the array lacks its values"))?;
        self.require_no_nulls(batch.len())?;
        let Some(element @ Element::Integer { .. }) = number_element(self.format) else {
            return Err(Error::bad_batch("the keys of a dictionary are integers"));
        };
        let values = Self::slice(schema, array, 0, None)?;
        values.push_chosen(
            self.integers(element)?.into_iter(),
            "a key is outside of the dictionary",
            batch,
        )
    }

    /// Appends the elements of an array of runs: equal elements side by side are one value, with the end of its run.
    pub(super) fn push_runs(&self, batch: &mut Batch<'b>) -> Result<(), Error> {
        if let Some(row) = self.null_row {
            return Err(null_error(batch.len() + row));
        }
        let [(schema, ends), (of_values, values)] = [self.child(0)?, self.child(1)?];
        let ends = Self::slice(schema, ends, 0, None)?;
        let Some(element @ Element::Integer { .. }) = ends.element() else {
            return Err(Error::bad_batch("the ends of runs are integers"));
        };
        let is_before = |end: &i64, at: usize| i64::try_from(at).is_ok_and(|at| *end <= at);
        // A slice has the ends of the whole array, so only those of its own rows are read.
        let run_of = |at: usize| {
            let (mut run, mut after) = (0, ends.length);
            while run < after {
                let middle = usize::midpoint(run, after);
                let end = ends.within(middle, 1).integers(element)?;
                if end.iter().all(|end| is_before(end, at)) {
                    run = middle + 1;
                } else {
                    after = middle;
                }
            }
            Ok::<_, Error>(run)
        };
        let first = run_of(self.offset)?;
        let last = run_of((self.offset + self.length).saturating_sub(1))?;
        let count = (last + 1).saturating_sub(first);
        let ends = ends.within(first, count).integers(element)?;
        // A value without an end is not part of any run.
        let values = Self::slice(of_values, values, 0, None)?.within(first, ends.len());
        let mut run = 0_usize;
        let places = (self.offset..self.offset + self.length).map(|at| {
            while ends.get(run).is_some_and(|end| is_before(end, at)) {
                run += 1;
            }
            run.cast_signed() as i64
        });
        values.push_chosen(places, "the runs end before the array", batch)
    }

    /// Appends the elements at these places, or fails with the text `outside` if there are fewer elements. Copies
    /// each once, because many keys may choose it, and few others, because a slice has the dictionary of the whole array.
    fn push_chosen(
        &self,
        chosen: impl ExactSizeIterator<Item = i64>,
        outside: &'static str,
        batch: &mut Batch<'b>,
    ) -> Result<(), Error> {
        let (mut values, mut places) = (Text::new(), Vec::new());
        let nulls = self.nulls()?;
        let is_null = |index: usize| nulls.as_ref().is_some_and(|is_null| is_null(index));
        places.try_reserve_exact(chosen.len())?;
        for (index, place) in chosen.enumerate() {
            let place = u32::try_from(place).ok();
            let place = place.filter(|place| (*place as usize) < self.length);
            let place = place.ok_or_else(|| Error::bad_batch(outside))?;
            if self.is_null_type() || is_null(place as usize) {
                return Err(null_error(batch.len() + index));
            }
            places.push(place);
        }
        let least = places.iter().copied().min().unwrap_or(0);
        let end = places.iter().max().map_or(0, |most| *most as usize + 1);
        let range = self.within(least as usize, end - least as usize);
        if range.length / SPARSE <= places.len() {
            range.copy_to(&mut values)?;
            for place in &mut places {
                *place -= least;
            }
        } else {
            let mut distinct = Vec::new();
            distinct.try_reserve_exact(places.len())?;
            distinct.extend_from_slice(&places);
            distinct.sort_unstable();
            distinct.dedup();
            for place in &distinct {
                self.within(*place as usize, 1).copy_to(&mut values)?;
            }
            for place in &mut places {
                let rank = distinct.partition_point(|other| other < place);
                *place = rank.try_into().map_err(|_| Error::NO_MEMORY)?;
            }
        }
        batch.push_chosen(values, places)
    }

    /// Returns up to `length` of the elements, from `at` on.
    fn within(&self, at: usize, length: usize) -> Self {
        let at = at.min(self.length);
        Self {
            offset: self.offset + at,
            length: length.min(self.length - at),
            ..*self
        }
    }

    /// Returns the elements, which are integers.
    fn integers(&self, element: Element) -> Result<Vec<i64>, Error> {
        let mut integers = Vec::new();
        self.elements(1, element)?.append_integers(&mut integers)?;
        Ok(integers)
    }

    /// Appends copies of the elements to a text.
    fn copy_to(&self, values: &mut Text) -> Result<(), Error> {
        let mut own = Batch::new();
        self.push_elements(&mut own)?;
        values.reserve(own.len())?;
        own.visit(&mut |mut items| items.try_for_each(|item| values.push(item)))
    }
}
