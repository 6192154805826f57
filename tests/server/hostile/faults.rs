//! Faults of an object of two filters.

use crate::support::forged::Forged;

pub const RDB: u8 = 1;
pub const DUMP: u8 = 2;
pub const HEADER: u8 = 4;
const ALL: u8 = RDB | DUMP | HEADER;

/// A fault: its name, the forms that can hold it, and the change that makes it.
pub type Fault = (&'static str, u8, fn(&mut Forged));

pub const TERABYTE: u64 = 1 << 40;

/// A fault that each form can hold, and the claims that a decoder must not take memory for. The core's tests have all faults.
pub const FAULTS: &[Fault] = &[
    ("2^32 filters claimed", ALL, |o| o.count = Some(1 << 32)),
    ("2^64 - 1 filters claimed", ALL, |o| {
        o.count = Some(u64::MAX);
    }),
    ("a byte too few", RDB | DUMP, |o| {
        o.filters[0].bitmap_bytes = Some(17);
    }),
    ("a terabyte of bitmap claimed", RDB | DUMP, |o| {
        o.filters[0].bitmap_bytes = Some(TERABYTE);
    }),
    ("2^64 - 1 bytes of bitmap claimed", ALL, |o| {
        o.filters[1].bitmap_bytes = Some(u64::MAX);
    }),
    ("ten bitmaps of over 2^63 bytes together", ALL, |o| {
        // The bits of one fit a counter, those of all do not.
        let mut filter = o.filters[0].clone();
        filter.bitmap_bytes = Some(u64::MAX / 16);
        o.filters = vec![filter; 10];
    }),
    ("a terabyte of blob claimed", DUMP | HEADER, |o| {
        o.filters[0].length = Some(TERABYTE);
    }),
    ("2^32 - 1 hash functions", ALL, |o| {
        o.filters[0].hashes = u32::MAX;
    }),
    ("a byte after the object", DUMP | HEADER, |o| {
        o.trailing = vec![0];
    }),
];
