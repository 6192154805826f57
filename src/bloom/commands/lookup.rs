//! BF.EXISTS, MEXISTS, MISSING, COUNT, and CARD.
//!
//! Lookups change nothing and free nothing, not even what has expired. BF.MEXISTS looks items up in batches, and writes the
//! answers of each batch to the reply, so that it needs no memory of its own. A missing key is an empty filter.

use std::collections::HashSet;

use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::{Object, Refusal};

use crate::bloom::keys::Reader;
use crate::bloom::value::require_counters;
use crate::ffi::{Argv, Call, Done, Reply, server};
use crate::request::{item, items, key};

/// `BF.EXISTS key item`
pub fn exists(Call { keys, args, .. }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let object = reader.object()?;
    Ok(Reply::Bool(object.is_some_and(|object| {
        object.contains(item(&args), server::now_ms)
    })))
}

/// `BF.MEXISTS key item [item ...]`
pub fn mexists(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let object = reader.object()?;
    ctx.reply_array(args.len() - 2);
    match object {
        None => (2..args.len()).for_each(|_| ctx.reply_bool(false)),
        Some(object) => {
            let items = items(args, 2..args.len());
            object.contains_each(items, server::now_ms, |found| ctx.reply_bool(found));
        }
    }
    Ok(Reply::Sent)
}

/// `BF.MISSING key item [item ...]`
pub fn missing(Call { keys, args, .. }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let missing = match reader.object()? {
        Some(object) => missing_of(object, args)?,
        None => distinct(items(args, 2..args.len()), args.len() - 2)?,
    };
    Ok(Reply::Count(missing))
}

/// Returns the number of distinct items that an object does not claim. Usually few items are missing, and two of them
/// are hardly ever equal, so missing items are sorted by their hashes, which the lookup computes anyway.
fn missing_of(object: &Object, args: Argv) -> Result<u64, Error> {
    let (mut missing, mut index, mut room) = (Vec::new(), 2, Ok(()));
    let given = items(args, 2..args.len());
    object.contains_each_hashed(given, server::now_ms, |hash, found| {
        if !found && room.is_ok() {
            room = missing.try_reserve(1);
            if room.is_ok() {
                missing.push((hash, index));
            }
        }
        index += 1;
    });
    room.map_err(|_| Error::Refused(Refusal::OutOfMemory))?;
    missing.sort_unstable_by_key(|(hash, _)| *hash);
    let groups = missing.chunk_by(|(one, _), (other, _)| one == other);
    let counts = groups.map(|group| {
        if let [_] = group {
            return Ok(1);
        }
        let items = group.iter().map(|(_, index)| args.string(*index).bytes());
        distinct(items, group.len())
    });
    counts.sum()
}

/// Returns the number of distinct items among `count` items.
fn distinct<'i>(items: impl Iterator<Item = &'i [u8]>, count: usize) -> Result<u64, Error> {
    let mut distinct = HashSet::new();
    let room = distinct.try_reserve(count);
    room.map_err(|_| Error::Refused(Refusal::OutOfMemory))?;
    distinct.extend(items);
    Ok(distinct.len() as u64)
}

/// `BF.COUNT key item`
pub fn count(Call { keys, args, .. }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let count = match reader.object()? {
        None => 0,
        Some(object) => {
            require_counters(object)?;
            object.count(item(&args))
        }
    };
    Ok(Reply::Count(count))
}

/// `BF.CARD key`
pub fn card(Call { keys, args, .. }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let object = reader.object()?;
    let items = object.map_or(0, |object| object.items(server::now_ms));
    Ok(Reply::Count(items))
}
