//! What can be wrong with an object of two filters.

use crate::support::forged::Forged;

pub const RDB: u8 = 1;
pub const DUMP: u8 = 2;
pub const HEADER: u8 = 4;
const ALL: u8 = RDB | DUMP | HEADER;

/// What is wrong, in which forms it can be written, and how to make it so of a right object.
pub type Fault = (&'static str, u8, fn(&mut Forged));

pub const TERABYTE: u64 = 1 << 40;

pub const FAULTS: &[Fault] = &[
    ("no filters", ALL, |o| o.filters.clear()),
    ("no filters claimed, two there", ALL, |o| o.count = Some(0)),
    ("a filter less claimed", ALL, |o| o.count = Some(1)),
    ("a filter more claimed", ALL, |o| o.count = Some(3)),
    ("2^32 filters claimed", ALL, |o| o.count = Some(1 << 32)),
    ("2^64 - 1 filters claimed", ALL, |o| {
        o.count = Some(u64::MAX);
    }),
    ("expansion over u32", RDB, |o| o.expansion = 1 << 32),
    ("expansion of 64 bits", RDB, |o| o.expansion = u64::MAX),
    ("rate of 0", ALL, |o| o.error_rate = 0.0),
    ("rate of 1", ALL, |o| o.error_rate = 1.0),
    ("rate below 0", ALL, |o| o.error_rate = -0.1),
    ("rate above 1", ALL, |o| o.error_rate = 1.1),
    ("rate that is no number", ALL, |o| o.error_rate = f64::NAN),
    ("infinite rate", ALL, |o| o.error_rate = f64::INFINITY),
    ("tightening of 0", ALL, |o| o.tightening = 0.0),
    ("tightening of 1", ALL, |o| o.tightening = 1.0),
    ("tightening below 0", ALL, |o| o.tightening = -0.5),
    ("tightening that is no number", ALL, |o| {
        o.tightening = f64::NAN;
    }),
    ("tightening of minus infinity", ALL, |o| {
        o.tightening = f64::NEG_INFINITY;
    }),
    ("random seed called fixed", ALL, |o| o.seed_is_random = 0),
    ("seed flag of 2", ALL, |o| o.seed_is_random = 2),
    ("filters of different seeds", ALL, |o| {
        o.filters[1].seed[31] = 8;
    }),
    ("filter of version 0", ALL, |o| o.filters[0].version = 0),
    ("filter of version 2", ALL, |o| o.filters[1].version = 2),
    ("filter of zero bits", ALL, |o| {
        o.filters[0].bitmap.clear();
        o.filters[0].bitmap_bytes = 0;
    }),
    ("zero bits claimed", ALL, |o| o.filters[1].bitmap_bytes = 0),
    ("a byte too few", RDB | DUMP, |o| {
        o.filters[0].bitmap.truncate(15);
    }),
    ("a byte too many", RDB | DUMP, |o| {
        o.filters[1].bitmap.push(0);
    }),
    ("no bitmap", RDB | DUMP, |o| o.filters[0].bitmap.clear()),
    ("a terabyte of bitmap claimed", RDB | DUMP, |o| {
        o.filters[0].bitmap_bytes = TERABYTE;
    }),
    ("2^63 bytes of bitmap claimed", ALL, |o| {
        o.filters[0].bitmap_bytes = 1 << 63;
    }),
    ("2^64 - 1 bytes of bitmap claimed", ALL, |o| {
        o.filters[1].bitmap_bytes = u64::MAX;
    }),
    ("ten bitmaps of together over 2^63 bytes", ALL, |o| {
        // Each can be counted in bits, not all.
        let mut filter = o.filters[0].clone();
        filter.bitmap_bytes = u64::MAX / 16;
        o.filters = vec![filter; 10];
    }),
    ("a blob shorter than its header", DUMP | HEADER, |o| {
        o.filters[0].blob_bytes = Some(44);
    }),
    ("an empty blob", DUMP | HEADER, |o| {
        o.filters[1].blob_bytes = Some(0);
    }),
    ("a terabyte of blob claimed", DUMP | HEADER, |o| {
        o.filters[0].blob_bytes = Some(TERABYTE);
    }),
    ("2^64 - 1 bytes of blob claimed", DUMP | HEADER, |o| {
        o.filters[0].blob_bytes = Some(u64::MAX);
    }),
    ("no hash functions", ALL, |o| o.filters[0].hashes = 0),
    ("1101 hash functions", ALL, |o| o.filters[1].hashes = 1101),
    ("2^32 - 1 hash functions", ALL, |o| {
        o.filters[0].hashes = u32::MAX;
    }),
    ("capacity of 0", ALL, |o| o.filters[0].capacity = 0),
    ("capacity of 0 in the newest", ALL, |o| {
        o.filters[1].capacity = 0;
    }),
    ("capacity over i64", ALL, |o| {
        o.filters[1].capacity = 1 << 63;
    }),
    ("capacity of u64", ALL, |o| {
        o.filters[1].capacity = u64::MAX;
    }),
    ("capacities of together over i64", ALL, |o| {
        o.filters[0].capacity = 1 << 62;
        o.filters[0].items = 1 << 62;
        o.filters[1].capacity = 1 << 62;
    }),
    ("capacities of together over u64", ALL, |o| {
        let mut filter = o.filters[0].clone();
        filter.capacity = i64::MAX.unsigned_abs();
        filter.items = filter.capacity;
        o.filters = vec![filter.clone(), filter.clone(), filter];
    }),
    ("more items than capacity", ALL, |o| {
        o.filters[1].items = 21;
    }),
    ("items over i64", ALL, |o| o.filters[1].items = 1 << 63),
    ("items of u64 in a fixed object", ALL, |o| {
        o.expansion = 0;
        o.filters.truncate(1);
        o.filters[0].items = u64::MAX;
    }),
    ("a filter on one that is not full", DUMP | HEADER, |o| {
        o.filters[0].items = 9;
    }),
    ("a byte behind the object", DUMP | HEADER, |o| {
        o.trailing = vec![0];
    }),
    ("an object behind the object", DUMP | HEADER, |o| {
        o.trailing = o.dump();
    }),
];
