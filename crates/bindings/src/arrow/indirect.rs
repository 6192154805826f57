//! Elements that lie elsewhere: the values of dictionaries and runs, and long strings of views.

use super::part::{Part, null_error, number_element};
use crate::batch::Batch;
use crate::error::Error;
use crate::items::Text;
use crate::strided::Element;

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
        let mut keys = Vec::new();
        self.elements(1, element)?.append_integers(&mut keys)?;
        let values = Self::slice(schema, array, 0, None)?;
        values.push_chosen(
            keys.into_iter(),
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
        let mut all = Vec::new();
        ends.elements(1, element)?.append_integers(&mut all)?;
        let is_before = |end: &i64, at: usize| i64::try_from(at).is_ok_and(|at| *end <= at);
        let mut run = all.partition_point(|end| is_before(end, self.offset));
        let places = (self.offset..self.offset + self.length).map(|at| {
            while all.get(run).is_some_and(|end| is_before(end, at)) {
                run += 1;
            }
            run.cast_signed() as i64
        });
        let mut values = Self::slice(of_values, values, 0, None)?;
        // A value without an end is not part of any run.
        values.length = values.length.min(all.len());
        values.push_chosen(places, "the runs end before the array", batch)
    }

    /// Appends the elements at these places, or fails with the text `outside` if there are fewer elements. Copies all of them,
    /// chosen or not: a dictionary has few, and many keys may choose the same.
    fn push_chosen(
        &self,
        chosen: impl ExactSizeIterator<Item = i64>,
        outside: &'static str,
        batch: &mut Batch<'b>,
    ) -> Result<(), Error> {
        let (mut own, mut values, mut places) = (Batch::new(), Text::new(), Vec::new());
        self.push_elements(&mut own)?;
        values.reserve(own.len())?;
        own.visit(&mut |mut items| items.try_for_each(|item| values.push(item)))?;
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
        batch.push_chosen(values, places)
    }
}
