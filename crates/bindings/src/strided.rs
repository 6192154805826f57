//! The elements of arrays: integers, and bytes of a fixed width.

use std::marker::PhantomData;
use std::ops::Range;

use super::error::{Code, Error};
use super::items::{BLOCK, Text, Visit};

/// The kind of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// An integer of 1, 2, 4 or 8 bytes. The item is its decimal text.
    Integer {
        /// The size in bytes.
        bytes: u8,
        /// Whether it may be negative.
        signed: bool,
        /// Whether its byte order is not this machine's.
        swapped: bool,
    },
    /// A double of 8 bytes, or a float of 4. It can't be an item, only a number.
    Float {
        /// The size in bytes.
        bytes: u8,
        /// Whether its byte order is not this machine's.
        swapped: bool,
    },
    /// Bytes of a fixed width.
    Bytes {
        /// The number of bytes.
        width: usize,
        /// Whether zeros at the end are not part of an item, as in numpy's arrays of bytes.
        padded: bool,
    },
}

impl Element {
    /// Returns the size in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::Integer { bytes, .. } | Self::Float { bytes, .. } => bytes as usize,
            Self::Bytes { width, .. } => width,
        }
    }
}

/// The elements of an array of one dimension, at equal distances in memory that others may write to.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'b> {
    first: *const u8,
    len: usize,
    /// The distance from one element to the next, in bytes. It may be negative or 0.
    stride: isize,
    element: Element,
    memory: PhantomData<&'b [u8]>,
}

// SAFETY: it only reads memory, which its creator promised to be readable from any thread.
unsafe impl Send for Strided<'_> {}
// SAFETY: it only reads memory, which its creator promised to be readable from any thread.
unsafe impl Sync for Strided<'_> {}

impl Strided<'_> {
    /// Creates the elements of an array.
    ///
    /// # Safety
    /// For all of `'b`, any thread may read `element.size()` bytes at `first + i * stride`, for each `i` below `len`.
    pub const unsafe fn new(first: *const u8, len: usize, stride: isize, element: Element) -> Self {
        Self {
            first,
            len,
            stride,
            element,
            memory: PhantomData,
        }
    }

    /// Returns the kind of the elements.
    pub const fn element(&self) -> Element {
        self.element
    }

    /// Returns the number of elements.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Passes a copy of each element to `visit`.
    fn each(
        &self,
        indices: Range<usize>,
        mut visit: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(self.element.size())?;
        copy.resize(self.element.size(), 0);
        for index in indices {
            self.read(index, &mut copy);
            visit(&copy)?;
        }
        Ok(())
    }

    /// Writes the elements as items, a block at a time.
    pub(crate) fn each_block(&self, block: &mut Text, visit: &mut Visit<'_>) -> Result<(), Error> {
        for start in (0..self.len).step_by(BLOCK) {
            block.clear();
            let indices = start..self.len.min(start + BLOCK);
            self.each(indices, |bytes| push_element(self.element, bytes, block))?;
            visit(block.items()?)?;
        }
        Ok(())
    }

    /// Appends the elements as integers.
    ///
    /// # Errors
    /// [`Code::BadType`] for other elements, [`Code::BadBatch`] for a number of 2⁶³ or more, and [`Code::NoMemory`].
    pub fn append_integers(&self, to: &mut Vec<i64>) -> Result<(), Error> {
        to.try_reserve(self.len)?;
        self.each(0..self.len, |bytes| {
            let number = match integer(self.element, bytes) {
                Some(Integer::Signed(number)) => Ok(number),
                Some(Integer::Unsigned(number)) => number.try_into(),
                None => return Err(not_an_array_of("integers")),
            };
            to.push(number.map_err(|_| Error::bad_batch("a number is too large"))?);
            Ok(())
        })
    }

    /// Appends the elements as doubles.
    ///
    /// # Errors
    /// [`Code::BadType`] for elements that are no numbers, and [`Code::NoMemory`].
    #[allow(
        clippy::cast_precision_loss,
        reason = "as in Python, large integers are rounded"
    )]
    pub fn append_doubles(&self, to: &mut Vec<f64>) -> Result<(), Error> {
        to.try_reserve(self.len)?;
        self.each(0..self.len, |bytes| {
            let number = match (self.element, integer(self.element, bytes)) {
                (_, Some(Integer::Signed(number))) => number as f64,
                (_, Some(Integer::Unsigned(number))) => number as f64,
                (Element::Float { bytes: 4, swapped }, _) => {
                    let bits = bits(bytes, swapped).to_le_bytes();
                    f32::from_le_bytes([bits[0], bits[1], bits[2], bits[3]]).into()
                }
                (Element::Float { bytes: 8, swapped }, _) => f64::from_bits(bits(bytes, swapped)),
                _ => return Err(not_an_array_of("numbers")),
            };
            to.push(number);
            Ok(())
        })
    }

    /// Copies an element, which is below the length.
    fn read(&self, index: usize, to: &mut [u8]) {
        debug_assert!(index < self.len && to.len() == self.element.size());
        let distance = index.cast_signed().wrapping_mul(self.stride);
        let from = self.first.wrapping_offset(distance);
        // SAFETY: the creator promised that these bytes are readable, and the copy's own memory is elsewhere. Code in
        // other languages may write to the bytes meanwhile. So no reference to them is made, and any bytes are a valid
        // element. The race itself is an accepted risk: a library can't keep such code from writing to its own arrays.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }
}

fn not_an_array_of(wanted: &str) -> Error {
    Error::new(Code::BadType, format!("an array of {wanted} is needed"))
}

/// Returns up to eight bytes as the bits of a number.
fn bits(bytes: &[u8], swapped: bool) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    if swapped == cfg!(target_endian = "little") {
        wide[..bytes.len()].reverse();
    }
    u64::from_le_bytes(wide)
}

/// The number of an element.
enum Integer {
    Signed(i64),
    Unsigned(u64),
}

/// Returns the number of an element, if it is an integer.
fn integer(element: Element, bytes: &[u8]) -> Option<Integer> {
    let Element::Integer {
        signed, swapped, ..
    } = element
    else {
        return None;
    };
    let number = bits(bytes, swapped);
    if signed {
        // The sign bit moves to the top of the word. The arithmetic shift back repeats it in the bits above the number.
        let unused = 64 - 8 * u32::try_from(bytes.len()).unwrap_or(8);
        Some(Integer::Signed((number << unused).cast_signed() >> unused))
    } else {
        Some(Integer::Unsigned(number))
    }
}

/// Appends the item of an element.
fn push_element(element: Element, bytes: &[u8], to: &mut Text) -> Result<(), Error> {
    match integer(element, bytes) {
        Some(Integer::Signed(number)) => return to.push_integer(number),
        Some(Integer::Unsigned(number)) => return to.push_integer(number),
        None => {}
    }
    let end = match element {
        Element::Bytes { padded: true, .. } => {
            let last = bytes.iter().rposition(|byte| *byte != 0);
            last.map_or(0, |last| last + 1)
        }
        _ => bytes.len(),
    };
    to.push(&bytes[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;

    fn items(bytes: &[u8], len: usize, stride: isize, element: Element) -> Vec<String> {
        let at = if stride < 0 {
            bytes.len() - element.size()
        } else {
            0
        };
        let first = bytes.as_ptr().wrapping_add(at);
        // SAFETY: the tests' arrays have that many elements.
        let elements = unsafe { Strided::new(first, len, stride, element) };
        let mut batch = Batch::new();
        batch.push_strided(elements).unwrap();
        let mut found = Vec::new();
        let text = |item: &[u8]| String::from_utf8(item.to_vec()).unwrap();
        batch
            .visit_all(|items| found.extend(items.map(text)))
            .unwrap();
        assert_eq!(found.len(), batch.len());
        found
    }

    #[test]
    fn integers_are_their_digits_whatever_their_size_and_order() {
        for bytes in [1_u8, 2, 4, 8] {
            for (signed, number) in [(true, -100_i64), (true, 100), (false, 200)] {
                for swapped in [false, true] {
                    let size = usize::from(bytes);
                    let mut memory = number.to_ne_bytes()[..size].to_vec();
                    if cfg!(target_endian = "big") {
                        memory = number.to_ne_bytes()[8 - size..].to_vec();
                    }
                    if swapped {
                        memory.reverse();
                    }
                    let element = Element::Integer {
                        bytes,
                        signed,
                        swapped,
                    };
                    let twice = [memory.clone(), memory].concat();
                    let stride = size.cast_signed();
                    let text = number.to_string();
                    assert_eq!(items(&twice, 2, stride, element), [text.clone(), text]);
                }
            }
        }
    }

    #[test]
    fn elements_may_be_apart_and_backwards() {
        let element = Element::Bytes {
            width: 2,
            padded: true,
        };
        let memory = b"a\0xxb\0xxcd";
        assert_eq!(items(memory, 3, 4, element), ["a", "b", "cd"]);
        assert_eq!(items(memory, 3, -4, element), ["cd", "b", "a"]);
        assert_eq!(items(memory, 3, 0, element), ["a", "a", "a"]);
        let unpadded = Element::Bytes {
            width: 2,
            padded: false,
        };
        assert_eq!(items(memory, 1, 4, unpadded), ["a\0"]);
    }

    #[test]
    fn many_elements_are_read_in_blocks() {
        let numbers: Vec<u8> = (0..5000_u32).flat_map(u32::to_ne_bytes).collect();
        let element = Element::Integer {
            bytes: 4,
            signed: false,
            swapped: false,
        };
        let all: Vec<_> = (0..5000).map(|n| n.to_string()).collect();
        for count in [1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1, 5000] {
            assert_eq!(items(&numbers, count, 4, element), all[..count]);
        }
    }
    #[test]
    fn a_batch_that_would_be_too_long_keeps_what_it_had() {
        let element = Element::Bytes {
            width: 1,
            padded: false,
        };
        // SAFETY: all elements are the same byte.
        let endless = unsafe { Strided::new(b"b".as_ptr(), usize::MAX, 0, element) };
        let mut batch = Batch::new();
        batch.push_small(b"a", &[0, 1]).unwrap();
        let error = batch.push_strided(endless).unwrap_err();
        assert_eq!(error.code(), Code::NoMemory);
        let mut found = Vec::new();
        let visited = batch.visit(&mut |items| {
            found.extend(items.map(<[u8]>::to_vec));
            // An endless run would be visited until memory is out.
            if found.len() > 1 {
                Err(Error::NO_MEMORY)
            } else {
                Ok(())
            }
        });
        assert_eq!((visited, found), (Ok(()), vec![b"a".to_vec()]));
    }
}
