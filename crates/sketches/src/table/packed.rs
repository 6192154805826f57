//! The fingerprints of a shard in order, read and written.

use crate::machine::{memory, work};

use super::bits::{SPARE, mask, put_word};
use super::codec::{Codec, Held, Payload, Widths};
use super::refused::Refused;
use super::shard::{GROUP_BITS, GROUPS, HEAD, Place, Shard, allocated_for, bytes_of};

impl Shard {
    /// Makes a shard of ascending fingerprints. Its range starts with `first`, and its periods with `oldest`.
    ///
    /// # Errors
    /// [`Refused::OutOfMemory`]
    pub fn of(
        codec: Codec,
        widths: Widths,
        oldest: u64,
        first: u64,
        all: &[Held],
    ) -> Result<Self, Refused> {
        work::steps(all.len());
        let digits = |held: &Held| codec.digits(held.value, widths).count();
        let count = match codec.payload {
            Payload::Count => all.len() + all.iter().map(digits).sum::<usize>(),
            Payload::Nothing | Payload::Period(_) => all.len(),
        };
        // In a narrower range, counts have more digits.
        if count > Self::MOST {
            return Err(Refused::OutOfMemory);
        }
        let bytes = memory::zeroed(allocated_for(bytes_of(count, widths)));
        let bytes = bytes.ok_or(Refused::OutOfMemory)?;
        let mut writer = Writer {
            shard: Self { bytes, oldest },
            widths,
            bucket: u32::MAX,
            group: 0,
            used: 0,
            index: 0,
            entries: 0,
            filled: 0,
            at: HEAD,
            ends: 0,
        };
        for Held { fingerprint, value } in all {
            let place = Place::new(fingerprint - first, widths);
            let begins_run = writer.enter(&place);
            let tag = codec.tag(*value, widths);
            writer.push(place.entry(tag, widths), begins_run);
            if codec.may_have_digits(tag) {
                for digit in codec.digits(*value, widths) {
                    writer.push(digit, false);
                }
            }
        }
        Ok(writer.end())
    }

    /// Returns the fingerprints of the shard in order. Its range starts with `first`.
    pub fn iter(&self, codec: Codec, widths: Widths, first: u64) -> Iter<'_> {
        Iter {
            shard: self,
            codec,
            widths,
            first,
            index: 0,
            count: self.entries(),
            ends: 0,
            group: 0,
            used: if self.is_none() { 0 } else { self.used(0) },
        }
    }
}

/// Goes through the fingerprints of a shard.
#[derive(Clone, Debug)]
pub struct Iter<'s> {
    shard: &'s Shard,
    codec: Codec,
    widths: Widths,
    /// The first fingerprint of the shard's range.
    first: u64,
    /// The number of the next entry.
    index: usize,
    /// The number of all entries.
    count: usize,
    /// A bit for each of the next entries: whether it ends its run; the next one in the highest bit. The first 57 are valid when
    /// they are read, and they are read again at each multiple of 32.
    ends: u64,
    group: usize,
    /// The buckets of the group whose entries are still to come.
    used: u32,
}

impl Iterator for Iter<'_> {
    type Item = Held;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index == self.count {
            return None;
        }
        while self.used == 0 {
            self.group += 1;
            self.used = self.shard.used(self.group);
        }
        let widths = self.widths;
        let bucket = (self.group << GROUP_BITS) as u64 | u64::from(self.used.trailing_zeros());
        let entry = self.shard.entry(self.index, widths);
        let tag = entry & mask(widths.tag);
        let value = if self.codec.may_have_digits(tag) {
            let (count, next) = self.shard.count_at(self.index, widths);
            self.index = next;
            self.ends = self.shard.ends_from(next - 1);
            count
        } else {
            if self.index.is_multiple_of(32) {
                self.ends = self.shard.ends_from(self.index);
            }
            self.index += 1;
            self.codec.decoded(tag, self.shard.oldest, widths)
        };
        let is_last = self.ends >> 63 == 1;
        self.ends <<= 1;
        if is_last {
            self.used &= self.used - 1;
        }
        let fingerprint = self.first + (bucket << widths.remainder | entry >> widths.tag);
        Some(Held { fingerprint, value })
    }
}

/// Writes the head and the entries of a shard, in order.
struct Writer {
    shard: Shard,
    widths: Widths,
    /// The bucket of the last entry: one that no shard has before the first.
    bucket: u32,
    /// The group of that bucket, and which of its buckets have entries so far: a bit each.
    group: usize,
    used: u32,
    /// The number of the next entry.
    index: usize,
    /// The last bits of the entries so far, and their number, which is less than 64.
    entries: u64,
    filled: u32,
    /// The byte to which they go.
    at: usize,
    /// A bit for each entry before the last one pushed: whether it ends its run; the latest in the lowest bit. The end of an
    /// entry is known only when the next is pushed.
    ends: u64,
}

impl Writer {
    /// Enters the bucket of the next entry. Returns whether that begins a run.
    #[inline(always)]
    fn enter(&mut self, place: &Place) -> bool {
        let begins_run = place.bucket != self.bucket;
        if begins_run {
            self.bucket = place.bucket;
            if place.group() != self.group {
                self.begin_group(place.group());
            }
            self.used |= 1 << place.in_group();
        }
        begins_run
    }

    /// Writes the head up to the number of entries before a later group.
    #[inline(always)]
    fn begin_group(&mut self, group: usize) {
        self.shard.set_used(self.group, self.used);
        for later in self.group + 1..=group {
            self.shard.set_before(later, self.index);
        }
        (self.group, self.used) = (group, 0);
    }

    /// Appends an entry, which begins a run or belongs to that of the entry before.
    #[inline(always)]
    fn push(&mut self, entry: u64, begins_run: bool) {
        self.ends = self.ends << 1 | u64::from(begins_run);
        if self.index.is_multiple_of(64) && self.index > 0 {
            self.put_ends(self.index / 64);
        }
        self.index += 1;
        self.entries |= entry << self.filled;
        self.filled += self.widths.entry();
        if self.filled >= u64::BITS {
            put_word(&mut self.shard.bytes, self.at, self.entries);
            self.at += 8;
            self.filled -= u64::BITS;
            self.entries = entry >> (self.widths.entry() - self.filled);
        }
    }

    /// Writes the ends of 64 entries, counted from the back in words.
    #[inline(always)]
    fn put_ends(&mut self, word: usize) {
        let at = self.shard.bytes.len() - SPARE - 8 * word;
        put_word(&mut self.shard.bytes, at, self.ends);
    }

    /// Writes the last bits and the rest of the head, and ends the run of the last entry.
    fn end(mut self) -> Shard {
        self.begin_group(GROUPS);
        let Self { at, entries, .. } = self;
        let Some(last) = self.index.checked_sub(1) else {
            return self.shard;
        };
        let rest = self.filled.div_ceil(8) as usize;
        self.shard.bytes[at..][..rest].copy_from_slice(&entries.to_le_bytes()[..rest]);
        // Only the bytes with ends of these entries are written. Those after them may belong to entries.
        let bits = last % 64 + 1;
        self.ends = (self.ends << 1 | 1) << (64 - bits);
        let at = self.shard.bytes.len() - SPARE - 8 * (last / 64);
        let bytes = bits.div_ceil(8);
        self.shard.bytes[at - bytes..at].copy_from_slice(&self.ends.to_le_bytes()[8 - bytes..]);
        self.shard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::next_random;

    /// For widths from the narrowest to the widest, and numbers of entries around those that fill a word of ends.
    #[test]
    fn shards_hold_what_they_are_made_of() {
        const OLDEST: u64 = 1000;
        const FIRST: u64 = 1 << 60;
        let mut random = 1;
        for payload in [Payload::Nothing, Payload::Count, Payload::Period(12)] {
            for range in [10, 11, 17, 32, 33, payload.most_bits()] {
                let codec = Codec::new(range, payload);
                let widths = codec.widths(range);
                for count in [0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 700] {
                    let mut all: Vec<Held> = Vec::new();
                    while all.len() < count {
                        let fingerprint = FIRST + (next_random(&mut random) & mask(range));
                        let bits = next_random(&mut random) % 64;
                        let value = match payload {
                            Payload::Nothing => 0,
                            Payload::Count => next_random(&mut random) >> bits | 1,
                            Payload::Period(periods) => OLDEST + bits % u64::from(periods),
                        };
                        match all.binary_search_by_key(&fingerprint, |held| held.fingerprint) {
                            Ok(_) => {}
                            Err(at) => all.insert(at, Held { fingerprint, value }),
                        }
                    }
                    let shard = Shard::of(codec, widths, OLDEST, FIRST, &all).unwrap();
                    let read: Vec<Held> = shard.iter(codec, widths, FIRST).collect();
                    assert_eq!(read, all, "{payload:?} of {range} bits");
                }
            }
        }
    }
}
