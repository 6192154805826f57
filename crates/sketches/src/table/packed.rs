//! The fingerprints of a shard in order, read and written.

use crate::machine::{memory, work};

use super::bits::{SPARE, mask, put_word};
use super::codec::{Codec, Payload, Widths};
use super::refused::Refused;
use super::shard::{GROUP_BITS, GROUPS, HEAD, Shard, allocated_for, bytes_of};

impl Shard {
    /// Makes a shard of ascending fingerprints, each with what is kept of it. Its range begins with `first`.
    ///
    /// # Errors
    /// [`Refused::OutOfMemory`]
    pub fn of(
        codec: Codec,
        widths: Widths,
        oldest: u64,
        first: u64,
        held: &[(u64, u64)],
    ) -> Result<Self, Refused> {
        work::steps(held.len());
        let digits = |(_, held): &(u64, u64)| codec.digits(*held, widths).count();
        let count = match codec.payload {
            Payload::Count => held.len() + held.iter().map(digits).sum::<usize>(),
            Payload::Nothing | Payload::Period(_) => held.len(),
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
            index: 0,
            entries: 0,
            filled: 0,
            at: HEAD,
            ends: 0,
        };
        let (mut group, mut bucket, mut used) = (0, u64::MAX, 0);
        for (fingerprint, held) in held {
            let distance = fingerprint - first;
            let next = distance >> widths.remainder();
            let begins_run = next != bucket;
            if begins_run {
                bucket = next;
                let next = memory::index(bucket >> GROUP_BITS);
                if next != group {
                    writer.shard.set_used(group, used);
                    used = 0;
                    for group in group + 1..=next {
                        writer.shard.set_before(group, writer.index);
                    }
                    group = next;
                }
                used |= 1 << (bucket & mask(GROUP_BITS));
            }
            let remainder = distance & mask(widths.remainder());
            let tag = codec.tag(*held, widths);
            writer.push(remainder << widths.tag() | tag, begins_run);
            if codec.may_have_digits(tag) {
                for digit in codec.digits(*held, widths) {
                    writer.push(digit, false);
                }
            }
        }
        writer.shard.set_used(group, used);
        (group + 1..=GROUPS).for_each(|group| writer.shard.set_before(group, count));
        Ok(writer.end())
    }

    /// Returns the fingerprints of the shard, by their distances from the begin of its range, in order.
    pub fn iter(&self, codec: Codec, widths: Widths) -> Iter<'_> {
        Iter {
            shard: self,
            codec,
            widths,
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
    /// A distance, and what is kept of the fingerprint.
    type Item = (u64, u64);

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
        let tag = entry & mask(widths.tag());
        let held = if self.codec.may_have_digits(tag) {
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
        Some((bucket << widths.remainder() | entry >> widths.tag(), held))
    }
}

/// Writes the entries of a shard one after another.
struct Writer {
    shard: Shard,
    widths: Widths,
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

    /// Writes the last bits, and ends the run of the last entry.
    fn end(mut self) -> Shard {
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
        let mut random = 1;
        for payload in [Payload::Nothing, Payload::Count, Payload::Period(12)] {
            for range in [10, 11, 17, 32, 33, payload.most_bits()] {
                let codec = Codec::new(range, payload);
                let widths = codec.widths(range);
                for count in [0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 700] {
                    let mut held: Vec<(u64, u64)> = Vec::new();
                    while held.len() < count {
                        let distance = next_random(&mut random) & mask(range);
                        let bits = next_random(&mut random) % 64;
                        let kept = match payload {
                            Payload::Nothing => 0,
                            Payload::Count => next_random(&mut random) >> bits | 1,
                            Payload::Period(periods) => OLDEST + bits % u64::from(periods),
                        };
                        match held.binary_search_by_key(&distance, |(distance, _)| *distance) {
                            Ok(_) => {}
                            Err(at) => held.insert(at, (distance, kept)),
                        }
                    }
                    let shard = Shard::of(codec, widths, OLDEST, 0, &held).unwrap();
                    let read: Vec<(u64, u64)> = shard.iter(codec, widths).collect();
                    assert_eq!(read, held, "{payload:?} of {range} bits");
                }
            }
        }
    }
}
