//! Cuckoo filters.

use valkeybloom_protocol::cuckoo::{self as request, error};
use valkeybloom_protocol::words::Grammar;
use valkeybloom_sketches::cuckoo::wire::{self, HeaderError};
use valkeybloom_sketches::cuckoo::{self, ChunkError, Limits, Params, Refusal, Shape};

use super::batch::{Batch, copied, writer};
use super::decode::undecodable;
use super::error::{Code, Error};
use super::family::{Chunked, family};
use super::limits;
use super::words::Command;

family! {
    /// A cuckoo filter.
    Cuckoo(cuckoo::Cuckoo), "cuckoo filter"
}

fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::OutOfMemory => Error::NO_MEMORY,
        other => error::refused(other).into(),
    }
}

impl Cuckoo {
    /// Creates the filter of CF.RESERVE with these words after the key: the capacity, and options.
    ///
    /// # Errors
    /// [`Code::Refused`] or [`Code::NoMemory`].
    pub fn reserve(words: &[&[u8]]) -> Result<Self, Error> {
        let words = Command::new(&[b"CF.RESERVE", b"key"], words);
        let params = request::reserve(&words, Params::REDISBLOOM, Grammar::Own)?;
        let shape = Shape::new(&params).ok_or(error::RESERVE_CAPACITY)?;
        let made = cuckoo::Cuckoo::new(shape, &Limits::NONE);
        made.map(Self).map_err(refused)
    }

    /// Adds an item, or with `unless_present` only an item that the filter lacks. Returns whether it was added.
    ///
    /// # Errors
    /// [`Code::Refused`] or [`Code::NoMemory`]. Then nothing has changed.
    #[inline]
    pub fn add(&mut self, item: &[u8], unless_present: bool) -> Result<bool, Error> {
        let added = self.0.add(item, unless_present, limits::of_cuckoo);
        added.map_err(refused)
    }

    /// Adds items in order, or with `unless_present` only those that the filter lacks. Returns how many were added. Writes
    /// 1 for each that was added, 0 for each that the filter has, until `answers` is full. The answers for items without
    /// room stay as they are.
    ///
    /// # Errors
    /// The first refusal: [`Code::Refused`] or [`Code::NoMemory`]. All other items that have room are added all the same,
    /// unless memory to read the batch runs out: then the items from there on are not.
    pub fn add_each(
        &mut self,
        batch: &Batch,
        unless_present: bool,
        answers: &mut [u8],
    ) -> Result<u64, Error> {
        let (mut new, mut first_refusal, mut answers) = (0, None, answers.iter_mut());
        batch.visit_all(|items| {
            let report = |outcome: Result<bool, _>| {
                let answer = answers.next();
                match outcome {
                    Ok(is_new) => {
                        new += u64::from(is_new);
                        if let Some(answer) = answer {
                            *answer = is_new.into();
                        }
                    }
                    Err(refusal) => {
                        first_refusal.get_or_insert(refusal);
                    }
                }
            };
            self.0
                .add_each(items, unless_present, limits::of_cuckoo, report);
        })?;
        first_refusal.map_or(Ok(new), |refusal| Err(refused(refusal)))
    }

    /// Looks items up. Writes 1 for each item that the filter claims, 0 for each other, until `answers` is full.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    pub fn contains_each(&self, batch: &Batch, answers: &mut [u8]) -> Result<(), Error> {
        let mut answer = writer(answers);
        batch.visit_all(|items| {
            self.0
                .contains_each(items, |claimed| answer(claimed.into()));
        })
    }

    /// Removes all items. The parameters stay.
    ///
    /// # Errors
    /// [`Code::NoMemory`]
    pub fn clear(&mut self) -> Result<(), Error> {
        let made = cuckoo::Cuckoo::new(*self.0.shape(), &Limits::NONE);
        self.0 = made.map_err(refused)?;
        Ok(())
    }
}

/// A filter that is being loaded.
#[derive(Debug)]
pub struct Loading {
    filter: cuckoo::Cuckoo,
    /// All slots before this offset are loaded.
    end: u64,
}

impl Chunked for Cuckoo {
    type Loading = Loading;

    fn chunk(&self, cursor: u64) -> Result<(u64, Vec<u8>), Error> {
        if cursor == 0 {
            return Ok((1, wire::write_header(&self.0)));
        }
        let (next, slots) = wire::chunk(&self.0, cursor).ok_or(Error::NO_MEMORY)?;
        Ok((next, copied(&slots)?))
    }

    fn begin(header: &[u8]) -> Result<Loading, Error> {
        let begun = wire::begin(header, &Limits::NONE).map_err(|error| match error {
            HeaderError::NoMemory => Error::NO_MEMORY,
            fault => Error::new(Code::Undecodable, fault.to_string()),
        });
        begun.map(|filter| Loading { filter, end: 0 })
    }

    fn load(loading: &mut Loading, cursor: u64, chunk: &[u8]) -> Result<(), Error> {
        wire::load(&mut loading.filter, cursor, chunk).map_err(|error| match error {
            ChunkError::NoMemory => Error::NO_MEMORY,
            fault @ ChunkError::Misplaced => Error::new(Code::Undecodable, fault.to_string()),
        })?;
        // A chunk may be loaded again. One that leaves a gap before it does not count.
        let end = cursor - 1;
        if end - chunk.len() as u64 <= loading.end {
            loading.end = loading.end.max(end);
        }
        Ok(())
    }

    fn end(Loading { filter, end }: Loading) -> Result<Self, Error> {
        if end < filter.size() {
            return Err(undecodable("the filter lacks chunks"));
        }
        Ok(Self(filter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Element, Family, Loader, Strided, Text};

    /// What an answer holds before the batch, and after it if the item has no room.
    const NOT_ADDED: u8 = 7;

    #[test]
    fn all_items_with_room_are_added_from_an_array_as_from_a_list() {
        let numbers: Vec<u32> = (0..10_000).collect();
        let element = Element::Integer {
            bytes: 4,
            signed: false,
            swapped: false,
        };
        // SAFETY: the numbers outlive the elements.
        #[allow(unsafe_code, reason = "arrays are read by their address")]
        let elements = unsafe { Strided::new(numbers.as_ptr().cast(), 10_000, 4, element) };
        let (mut array, mut text) = (Batch::new(), Text::new());
        array.push_strided(elements).unwrap();
        for number in &numbers {
            text.push_integer(*number).unwrap();
        }
        let fill = |batch: &Batch<'_>| {
            let words: [&[u8]; 5] = [b"4096", b"EXPANSION", b"0", b"MAXITERATIONS", b"1"];
            let mut filter = Cuckoo::reserve(&words).unwrap();
            let mut answers = [NOT_ADDED; 10_000];
            let error = filter.add_each(batch, false, &mut answers).unwrap_err();
            assert_eq!(
                (error.code(), error.text()),
                (Code::Refused, "Filter is full")
            );
            let added: usize = answers.iter().map(|answer| usize::from(*answer == 1)).sum();
            assert_eq!(added as u64, filter.items());
            let refused = answers.iter().position(|answer| *answer == NOT_ADDED);
            let after = &answers[refused.unwrap()..];
            assert!(after.contains(&1), "an item after the first without room");
            (filter, answers)
        };
        let (by_array, by_list) = (fill(&array), fill(&text.batch().unwrap()));
        assert!(by_array.0.items() > 2048);
        assert!(by_array.0.equals(&by_list.0).unwrap());
        assert_eq!(by_array.1, by_list.1);
    }

    #[test]
    fn a_filter_that_lacks_chunks_is_undecodable() {
        let mut filter = Cuckoo::reserve(&[b"1000", b"EXPANSION", b"1"]).unwrap();
        for item in 0..3000_u32 {
            filter.add(&item.to_le_bytes(), false).unwrap();
        }
        let mut pairs = vec![filter.chunk(0).unwrap()];
        while let (cursor @ 1.., chunk) = filter.chunk(pairs[pairs.len() - 1].0).unwrap() {
            pairs.push((cursor, chunk));
        }
        assert!(pairs.len() > 3, "a header and three filters");
        let load = |indices: &[usize]| {
            let mut loader = Loader::<Cuckoo>::default();
            for index in indices {
                let (cursor, chunk) = &pairs[*index];
                loader.load(*cursor, chunk).unwrap();
            }
            loader.end()
        };
        let all: Vec<usize> = (0..pairs.len()).collect();
        let repeated = [&all[..2], &all[1..3], &all[1..]].concat();
        for complete in [&all, &repeated] {
            assert!(load(complete).unwrap().equals(&filter).unwrap());
        }
        for lacking in [&[0][..], &[0, 2], &[0, 2, 3], &all[..all.len() - 1]] {
            let error = load(lacking).unwrap_err();
            assert_eq!(error.code(), Code::Undecodable);
            assert_eq!(error.text(), "the filter lacks chunks", "{lacking:?}");
        }
    }

    /// The header is too short, or its numbers are impossible.
    #[test]
    fn bytes_that_are_no_header_are_undecodable() {
        for header in [&[0; 5][..], &[0; 38]] {
            let error = Cuckoo::begin(header).unwrap_err();
            assert_eq!(error.code(), Code::Undecodable, "{error}");
        }
    }
}
