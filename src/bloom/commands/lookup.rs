//! BF.EXISTS, MEXISTS, MISSING, COUNT, and CARD.

use std::collections::HashSet;

use crate::bloom::keys::Reader;
use crate::ffi::{Argv, Ctx, Keyspace};
use crate::reply::{Reply, send, send_error};
use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::{Object, Refusal};

use crate::request::{items, key};

/// BF.EXISTS key item
pub fn exists<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let reader = Reader::open(keys, key(&args));
    match reader.object() {
        Ok(None) => ctx.reply_bool(false),
        Ok(Some(object)) => {
            ctx.reply_bool(object.contains(args.string(2).bytes(), Ctx::now_ms));
        }
        Err(error) => send_error(ctx, error),
    }
}

/// BF.MEXISTS key item [item ...]
pub fn mexists<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let reader = Reader::open(keys, key(&args));
    let object = match reader.object() {
        Ok(object) => object,
        Err(error) => return send_error(ctx, error),
    };
    ctx.reply_array(args.len() - 2);
    match object {
        None => (2..args.len()).for_each(|_| ctx.reply_bool(false)),
        Some(object) => {
            let items = items(args, 2..args.len());
            object.contains_each(items, Ctx::now_ms, |found| ctx.reply_bool(found));
        }
    }
}

/// BF.MISSING key item [item ...]
pub fn missing<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let reader = Reader::open(keys, key(&args));
    let missing = reader.object().and_then(|object| match object {
        Some(object) => missing_of(object, args),
        None => different(items(args, 2..args.len()), args.len() - 2),
    });
    send(ctx, missing.map(Reply::Count));
}

/// How many different items an object does not claim. Few are missing, or none, of what is asked for most often,
/// and two are hardly ever the same; so those that are missing are sorted by the hashes that they have anyway.
fn missing_of(object: &Object, args: Argv) -> Result<u64, Error> {
    let (mut missing, mut index, mut room) = (Vec::new(), 2, Ok(()));
    let given = items(args, 2..args.len());
    object.contains_each_hashed(given, Ctx::now_ms, |hash, found| {
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
    let of_each_hash = missing.chunk_by(|(one, _), (other, _)| one == other);
    let each = of_each_hash.map(|of_one| {
        if let [_] = of_one {
            return Ok(1);
        }
        let items = of_one.iter().map(|(_, index)| args.string(*index).bytes());
        different(items, of_one.len())
    });
    each.sum()
}

/// How many different items there are among `count` of them.
fn different<'i>(items: impl Iterator<Item = &'i [u8]>, count: usize) -> Result<u64, Error> {
    let mut different = HashSet::new();
    let room = different.try_reserve(count);
    room.map_err(|_| Error::Refused(Refusal::OutOfMemory))?;
    different.extend(items);
    Ok(different.len() as u64)
}

/// BF.COUNT key item
pub fn count<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let reader = Reader::open(keys, key(&args));
    let count = reader.object().and_then(|object| {
        let Some(object) = object else { return Ok(0) };
        super::require_counters(object)?;
        Ok(object.count(args.string(2).bytes()))
    });
    send(ctx, count.map(Reply::Count));
}

/// BF.CARD key
pub fn card<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let reader = Reader::open(keys, key(&args));
    let items = reader
        .object()
        .map(|object| object.map_or(0, |object| object.items(Ctx::now_ms)));
    send(ctx, items.map(Reply::Count));
}
