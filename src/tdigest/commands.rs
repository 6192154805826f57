//! One function for each command: open, parse, act, publish, reply. `RedisBloom` looks for the key before it parses, so
//! the commands do, too.

use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::tdigest::{self as request, Merge, TDigestError};
use valkeybloom_protocol::words::{CommandWords, Origin};
use valkeybloom_sketches::tdigest::{Compressed, Compression, Refusal};

use crate::ffi::{Argv, Call, Ctx, Keyspace};
use crate::reply::{Done, Reply};
use crate::request::{key, origin};

use super::keys::{Reader, Readers, Writer, max_bytes};
use super::value::TDigest;

/// `TDIGEST.CREATE key [COMPRESSION compression]`
pub fn create(Call { ctx, keys, args }: Call) -> Done {
    if ![2, 4].contains(&args.len()) {
        return Err(Error::Arity);
    }
    let mut writer = Writer::open(keys, key(&args));
    if writer.exists()? {
        return Err(TDigestError::Exists.into());
    }
    let compression = request::compression(&args)?;
    let compression = compression.map_or(Some(Compression::DEFAULT), Compression::new);
    let compression = compression.filter(|compression| fits(ctx, *compression));
    writer.create(TDigest::new(compression.ok_or(TDigestError::NotAllocated)?));
    Reply::Ok.send(ctx);
    Ok(())
}

/// Returns whether limits allow digests of a compression. A command that was already executed elsewhere has none.
fn fits(ctx: Ctx, compression: Compression) -> bool {
    origin(ctx) == Origin::Elsewhere
        || compression.is_within_limits() && TDigest::most_bytes(compression) <= max_bytes()
}

fn refused(refusal: Refusal) -> TDigestError {
    match refusal {
        Refusal::NotFinite => TDigestError::InfiniteAddition,
        Refusal::Overflow => TDigestError::Overflow,
        Refusal::OutOfMemory => TDigestError::NotAllocated,
    }
}

/// `TDIGEST.RESET key`
pub fn reset(Call { ctx, keys, args }: Call) -> Done {
    let mut writer = Writer::open(keys, key(&args));
    let changed = writer.update(TDigest::reset)?;
    if changed.ok_or(TDigestError::NotFound)? {
        writer.emptied();
    }
    Reply::Ok.send(ctx);
    Ok(())
}

/// `TDIGEST.ADD key value [value ...]`
pub fn add(Call { ctx, keys, args }: Call) -> Done {
    let mut writer = Writer::open(keys, key(&args));
    let added = writer.update(|digest| {
        let added = if args.len() == 3 {
            digest.add_each(&[request::value_to_add(args.word(2))?])
        } else {
            digest.add_each(&parsed(args, request::value_to_add)?)
        };
        added.map_err(refused)
    })?;
    added.ok_or(TDigestError::NotFound)??;
    writer.added();
    Reply::Ok.send(ctx);
    Ok(())
}

/// Parses all words after the key.
fn parsed<T>(
    args: Argv,
    parse: impl Fn(&[u8]) -> Result<T, TDigestError>,
) -> Result<Vec<T>, TDigestError> {
    let words = 2..args.len();
    let mut values = Vec::new();
    let room = values.try_reserve_exact(words.len());
    room.map_err(|_| TDigestError::NotAllocated)?;
    for index in words {
        values.push(parse(args.word(index))?);
    }
    Ok(values)
}

/// `TDIGEST.MERGE destination numkeys source [source ...] [COMPRESSION compression] [OVERRIDE]`
pub fn merge(Call { ctx, keys, args }: Call) -> Done {
    let merged = merge_sources(ctx, keys, args)?;
    let mut writer = Writer::open(keys, key(&args));
    writer.exists()?;
    writer.store_merged(merged);
    Reply::Ok.send(ctx);
    Ok(())
}

/// Returns the digest of all observations of the sources, and of the destination unless it is overwritten.
fn merge_sources<'a>(
    ctx: Ctx<'a>,
    keys: &mut Keyspace<'a>,
    args: Argv<'a>,
) -> Result<TDigest, Error> {
    let exists = Reader::open(keys, key(&args)).object()?.is_some();
    let request = Merge::parse(&args, origin(ctx))?;
    let mut readers = Readers::new(keys);
    let has_own = exists && !request.overrides;
    if has_own {
        readers.open(key(&args))?.ok_or(TDigestError::NotFound)?;
    }
    for index in request.sources.clone() {
        let source = readers.open(args.string(index))?;
        source.ok_or(TDigestError::NotFound)?;
    }
    let digests = readers.objects();
    let of_digests = if has_own {
        digests.first().map(|own| own.compression())
    } else {
        digests.iter().map(|digest| digest.compression()).max()
    };
    let compression = match request.compression {
        Some(compression) => Compression::new(compression),
        None => of_digests,
    };
    let compression = compression.filter(|compression| fits(ctx, *compression));
    let compression = compression.ok_or(TDigestError::DestinationNotAllocated)?;
    let merged = TDigest::merged(compression, digests);
    Ok(merged.map_err(|refusal| match refusal {
        Refusal::OutOfMemory => TDigestError::DestinationNotAllocated,
        other => refused(other),
    })?)
}

/// `TDIGEST.MIN key`
pub fn min(call: Call) -> Done {
    reply_number(call, TDigest::min)
}

/// `TDIGEST.MAX key`
pub fn max(call: Call) -> Done {
    reply_number(call, TDigest::max)
}

fn reply_number(Call { ctx, keys, args }: Call, number: impl Fn(&TDigest) -> f64) -> Done {
    let reader = Reader::open(keys, key(&args));
    let digest = reader.object()?.ok_or(TDigestError::NotFound)?;
    ctx.reply_double(number(digest));
    Ok(())
}

/// `TDIGEST.QUANTILE key quantile [quantile ...]`
pub fn quantile(call: Call) -> Done {
    reply_each(call, request::quantile, |digest, quantile| {
        Reply::Double(digest.quantile(quantile))
    })
}

/// `TDIGEST.CDF key value [value ...]`
pub fn cdf(call: Call) -> Done {
    let parse = |word: &[u8]| request::value(word, TDigestError::BadCdf);
    reply_each(call, parse, |digest, value| {
        Reply::Double(digest.cdf(value))
    })
}

/// `TDIGEST.RANK key value [value ...]`
pub fn rank(call: Call) -> Done {
    let parse = |word: &[u8]| request::value(word, TDigestError::BadValue);
    reply_each(call, parse, |digest, value| {
        Reply::Integer(digest.rank(value))
    })
}

/// `TDIGEST.REVRANK key value [value ...]`
pub fn revrank(call: Call) -> Done {
    let parse = |word: &[u8]| request::value(word, TDigestError::BadValue);
    reply_each(call, parse, |digest, value| {
        Reply::Integer(digest.reverse_rank(value))
    })
}

/// `TDIGEST.BYRANK key rank [rank ...]`
pub fn byrank(call: Call) -> Done {
    reply_each(call, request::rank, |digest, rank| {
        Reply::Double(digest.by_rank(rank))
    })
}

/// `TDIGEST.BYREVRANK key reverse_rank [reverse_rank ...]`
pub fn byrevrank(call: Call) -> Done {
    reply_each(call, request::rank, |digest, rank| {
        Reply::Double(digest.by_reverse_rank(rank))
    })
}

/// Replies with an array: an answer for each word after the key.
fn reply_each<T: Copy>(
    Call { ctx, keys, args }: Call,
    parse: impl Fn(&[u8]) -> Result<T, TDigestError>,
    answer: impl Fn(&Compressed, T) -> Reply<'static>,
) -> Done {
    let reader = Reader::open(keys, key(&args));
    let values = |digest: &TDigest| {
        let values = parsed(args, parse)?;
        let digest = digest.compressed().ok_or(TDigestError::NotAllocated)?;
        ctx.reply_array(values.len());
        for value in values {
            answer(&digest, value).send(ctx);
        }
        Ok::<_, TDigestError>(())
    };
    Ok(reader.caching(values)?.ok_or(TDigestError::NotFound)??)
}

/// `TDIGEST.TRIMMED_MEAN key low_cut_quantile high_cut_quantile`
pub fn trimmed_mean(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let mean = reader.caching(|digest| {
        let (low, high) = request::trim(&args)?;
        let digest = digest.compressed().ok_or(TDigestError::NotAllocated)?;
        Ok::<_, TDigestError>(digest.trimmed_mean(low, high))
    })?;
    ctx.reply_double(mean.ok_or(TDigestError::NotFound)??);
    Ok(())
}

/// `TDIGEST.INFO key`
pub fn info(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let digest = reader.object()?.ok_or(TDigestError::NotFound)?;
    let compression = digest.compression();
    let rows = [
        (c"Compression", compression.get()),
        (c"Capacity", compression.stored_capacity()),
        (c"Merged nodes", digest.merged_nodes() as u64),
        (c"Unmerged nodes", digest.unmerged_nodes() as u64),
        (c"Merged weight", digest.merged_weight().cast_unsigned()),
        (c"Unmerged weight", digest.unmerged_weight().cast_unsigned()),
        (c"Observations", digest.observations().cast_unsigned()),
        (c"Total compressions", digest.compressions().cast_unsigned()),
        // What RedisBloom allocates at once, so that both modules report the same.
        (c"Memory usage", compression.full_bytes()),
    ];
    let rows = rows.map(|(name, value)| (name, Reply::Integer(value.cast_signed())));
    Reply::Table(rows.into()).send(ctx);
    Ok(())
}
