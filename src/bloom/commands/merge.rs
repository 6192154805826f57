//! BF.MERGE.

use std::collections::HashSet;

use crate::bloom::keys::{self, Readers, Writer};
use crate::ffi::{Argv, Call, Ctx, Done, Keyspace, Reply, Str, server};
use valkeybloom_protocol::bloom::{Maker, Moment};
use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::{Limits, Object, Refusal};

use crate::request::{key, reserved};
use crate::settings::require_in;

/// `BF.MERGE key source [source ...]`
pub fn merge(Call { ctx, keys, args }: Call) -> Done {
    require_in(&[Maker::RedisBloom, Maker::ValkeyBloom], ctx, "BF.MERGE")?;
    try_merge(ctx, keys, args)?;
    Ok(Reply::Ok)
}

/// Drops the items of the object under a key that have expired at `at_ms`, if given.
fn free_expired<'a>(keys: &mut Keyspace<'a>, name: Str<'a>, at_ms: Option<u64>) {
    let Some(now_ms) = at_ms else { return };
    let mut writer = Writer::open(keys, name);
    if let Ok(Some(true)) = writer.update(|object| object.tidy(now_ms)) {
        let moment = Moment {
            at_ms,
            ..Moment::default()
        };
        writer.publish_added_at(&[], &moment, None);
    }
}

fn try_merge<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) -> Result<(), Error> {
    // Merging a filter with itself changes nothing, so each name is used once.
    let (mut names, mut others) = (HashSet::new(), reserved::<Str>(args.len() - 2)?);
    let room = names.try_reserve(args.len() - 1);
    room.map_err(|_| Error::Refused(Refusal::OutOfMemory))?;
    names.insert(key(&args).bytes());
    let sources = (2..args.len()).map(|index| args.string(index));
    others.extend(sources.filter(|name| names.insert(name.bytes())));
    // An existing destination is a source too, and only the destination may be missing.
    let mut readers = Readers::new(keys);
    let existed = readers.open(key(&args))?.is_some();
    for name in &others {
        readers.open(*name)?.ok_or(Error::NOT_FOUND)?;
    }
    if others.is_empty() {
        return existed.then_some(()).ok_or(Error::NOT_FOUND);
    }
    let sources = readers.objects();
    // Only the primary reads the clock; it replicates the time.
    let mut windows = sources.iter().map(|object| object.shape().window());
    let has_window = windows.any(|window| window.is_some());
    let at_ms = (has_window && !ctx.must_obey()).then(server::now_ms);
    // Sources are set back with the clock first, because replicas merge them without it.
    if at_ms.is_some_and(|at_ms| sources.iter().any(|object| object.is_ahead(at_ms))) {
        for name in std::iter::once(key(&args)).chain(others.iter().copied()) {
            free_expired(keys, name, at_ms);
        }
        return try_merge(ctx, keys, args);
    }
    let limits = keys::limits_for(ctx, false);
    let merged = Object::union(&sources, at_ms, limits).map_err(Error::Unlike)?;
    let mut merged = match merged {
        Some(merged) => merged,
        // The destination holds every source already. Expired periods are freed, as by any write.
        None if existed => {
            free_expired(keys, key(&args), at_ms);
            return Ok(());
        }
        // Keep expired periods, as replicas do; the rate may differ.
        None => Object::merged(&sources, Limits::NONE).map_err(Error::Unlike)?,
    };
    let tidied = at_ms.filter(|at_ms| merged.tidy(*at_ms));
    if !merged.is_within(limits) {
        return Err(Error::Refused(Refusal::MemoryLimit));
    }
    let moment = tidied.map(|at_ms| Moment {
        at_ms: Some(at_ms),
        ..Moment::default()
    });
    let mut writer = Writer::open(keys, key(&args));
    if !existed && writer.exists()? {
        // Subscribers to the event of a missing key have created the destination, so it is a source too.
        drop(writer);
        return try_merge(ctx, keys, args);
    }
    writer.merge(merged, moment)
}
