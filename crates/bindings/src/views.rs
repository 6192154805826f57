//! Arrow's views of strings. Short strings are in place, long ones in buffers.

use super::error::Error;

/// The longest string in place, in bytes. A view begins with the length in four bytes. A short string follows; the
/// number and the offset of a long string's buffer are in the last eight bytes.
const IN_PLACE: usize = 12;

/// The items of views.
#[derive(Clone, Debug)]
pub struct Views<'b> {
    views: &'b [[u8; 16]],
    buffers: Vec<&'b [u8]>,
}

fn number(view: &[u8; 16], at: usize) -> Option<usize> {
    let bytes = view.get(at..at + 4)?.try_into().ok()?;
    usize::try_from(i32::from_le_bytes(bytes)).ok()
}

/// Returns the item of a view; `None` if it points outside the buffers.
#[inline]
fn item<'b>(view: &'b [u8; 16], buffers: &[&'b [u8]]) -> Option<&'b [u8]> {
    let length = number(view, 0)?;
    if length <= IN_PLACE {
        return view.get(4..4 + length);
    }
    let (buffer, offset) = (number(view, 8)?, number(view, 12)?);
    buffers
        .get(buffer)?
        .get(offset..offset.checked_add(length)?)
}

impl<'b> Views<'b> {
    pub fn new(views: &'b [[u8; 16]], buffers: Vec<&'b [u8]>) -> Result<Self, Error> {
        if views.iter().all(|view| item(view, &buffers).is_some()) {
            Ok(Self { views, buffers })
        } else {
            Err(Error::bad_batch("a view points outside of the buffers"))
        }
    }
}

impl<'b> Iterator for Views<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        let (first, rest) = self.views.split_first()?;
        self.views = rest;
        item(first, &self.buffers)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.views.len(), Some(self.views.len()))
    }
}

impl ExactSizeIterator for Views<'_> {}
