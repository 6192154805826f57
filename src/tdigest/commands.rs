//! One function for each command: open, parse, act, publish, reply. `RedisBloom` looks for the key before it parses, so
//! the commands do, too.

use std::ffi::CStr;

use smallvec::SmallVec;
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::tdigest::{self as request, Merge, error};
use valkeybloom_protocol::words::CommandWords;
use valkeybloom_sketches::tdigest::{Compressed, Compression, Refusal};

use crate::ffi::{Argv, Call, Ctx, Done, Keyspace, Reply, server};
use crate::keys::{Reader, Readers, Writer};
use crate::request::{grammar, key};
use crate::settings::piece_limit;

use super::value::{OVERHEAD_BYTES, TDigest};

/// The event of a new digest.
const CREATED: &CStr = c"tdigest.create";
/// The event of values added to a digest.
const ADDED: &CStr = c"tdigest.add";
/// The event of a digest whose observations were removed.
const RESET: &CStr = c"tdigest.reset";
/// The event of a digest that a merge made.
const MERGED: &CStr = c"tdigest.merge";

/// `TDIGEST.CREATE key [COMPRESSION compression]`
pub fn create(Call { ctx, keys, args }: Call) -> Done {
    if ![2, 4].contains(&args.len()) {
        return Err(Error::Arity);
    }
    let mut writer = Writer::<TDigest>::open(keys, key(&args));
    if writer.exists()? {
        return Err(error::EXISTS);
    }
    let compression = request::compression(&args)?;
    let compression = compression.map_or(Some(Compression::DEFAULT), Compression::new);
    let compression = compression.filter(|compression| fits(ctx, *compression));
    let digest = TDigest::new(compression.ok_or(error::NOT_ALLOCATED)?);
    writer.store_verbatim(digest, CREATED);
    Ok(Reply::Ok)
}

/// Returns whether limits allow digests of a compression. A command that was already executed elsewhere has none.
fn fits(ctx: Ctx, compression: Compression) -> bool {
    let limit = piece_limit(ctx, OVERHEAD_BYTES);
    let fits = compression.is_within_limits() && TDigest::most_bytes(compression) <= limit;
    fits || ctx.must_obey()
}

fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::NotFinite => error::INFINITE_ADDITION,
        Refusal::Overflow => error::OVERFLOW,
        Refusal::OutOfMemory => error::NOT_ALLOCATED,
    }
}

/// `TDIGEST.RESET key`
pub fn reset(Call { keys, args, .. }: Call) -> Done {
    let mut writer = Writer::<TDigest>::open(keys, key(&args));
    let changed = writer.update(TDigest::reset)?;
    if changed.ok_or(error::NOT_FOUND)? {
        writer.publish_verbatim([RESET]);
    }
    Ok(Reply::Ok)
}

/// `TDIGEST.ADD key value [value ...]`
pub fn add(Call { keys, args, .. }: Call) -> Done {
    let mut writer = Writer::<TDigest>::open(keys, key(&args));
    let added = writer.update(|digest| {
        let mut values = Numbers::new();
        parse_all(args, request::value_to_add, &mut values)?;
        digest.add_each(&values).map_err(refused)
    })?;
    added.ok_or(error::NOT_FOUND)??;
    writer.publish_verbatim([ADDED]);
    Ok(Reply::Ok)
}

/// The numbers of a command. Most commands have few of them, whose list is not allocated.
type Numbers<T> = SmallVec<[T; 8]>;

/// Parses all words after the key into an empty list.
fn parse_all<T>(
    args: Argv,
    parse: impl Fn(&[u8]) -> Result<T, Error>,
    numbers: &mut Numbers<T>,
) -> Result<(), Error> {
    let room = numbers.try_reserve_exact(args.len() - 2);
    room.map_err(|_| error::NOT_ALLOCATED)?;
    for index in 2..args.len() {
        numbers.push(parse(args.word(index))?);
    }
    Ok(())
}

/// `TDIGEST.MERGE destination numkeys source [source ...] [COMPRESSION compression] [OVERRIDE]`
pub fn merge(Call { ctx, keys, args }: Call) -> Done {
    let merged = merge_sources(ctx, keys, args)?;
    let mut writer = Writer::<TDigest>::open(keys, key(&args));
    writer.exists()?;
    // Like RedisBloom, and the server's own commands with `STORE` in their names, this replaces the key, and so removes its
    // time to live.
    writer.store_verbatim(merged, MERGED);
    Ok(Reply::Ok)
}

/// Returns the digest of all observations of the sources, and of the destination unless it is overwritten.
fn merge_sources<'a>(
    ctx: Ctx<'a>,
    keys: &mut Keyspace<'a>,
    args: Argv<'a>,
) -> Result<TDigest, Error> {
    let exists = Reader::<TDigest>::open(keys, key(&args))
        .object()?
        .is_some();
    let request = Merge::parse(&args, grammar(ctx))?;
    let mut readers = Readers::<TDigest>::new(keys);
    let has_own = exists && !request.overrides;
    if has_own {
        readers.open(key(&args))?.ok_or(error::NOT_FOUND)?;
    }
    for index in request.sources.clone() {
        let source = readers.open(args.string(index))?;
        source.ok_or(error::NOT_FOUND)?;
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
    let compression = compression.ok_or(error::DESTINATION_NOT_ALLOCATED)?;
    let merged = TDigest::merged(compression, digests);
    merged.map_err(|refusal| match refusal {
        Refusal::OutOfMemory => error::DESTINATION_NOT_ALLOCATED,
        other => refused(other),
    })
}

/// `TDIGEST.MIN key`
pub fn min(call: Call) -> Done {
    reply_number(call, TDigest::min)
}

/// `TDIGEST.MAX key`
pub fn max(call: Call) -> Done {
    reply_number(call, TDigest::max)
}

fn reply_number(Call { keys, args, .. }: Call, number: impl Fn(&TDigest) -> f64) -> Done {
    let reader = Reader::<TDigest>::open(keys, key(&args));
    let digest = reader.object()?.ok_or(error::NOT_FOUND)?;
    Ok(Reply::Double(number(digest)))
}

/// `TDIGEST.QUANTILE key quantile [quantile ...]`
pub fn quantile(call: Call) -> Done {
    reply_each(call, request::quantile, |digest, quantile| {
        Reply::Double(digest.quantile(quantile))
    })
}

/// `TDIGEST.CDF key value [value ...]`
pub fn cdf(call: Call) -> Done {
    let parse = |word: &[u8]| request::value(word, error::BAD_CDF);
    reply_each(call, parse, |digest, value| {
        Reply::Double(digest.cdf(value))
    })
}

/// `TDIGEST.RANK key value [value ...]`
pub fn rank(call: Call) -> Done {
    let parse = |word: &[u8]| request::value(word, error::BAD_VALUE);
    reply_each(call, parse, |digest, value| {
        Reply::Integer(digest.rank(value))
    })
}

/// `TDIGEST.REVRANK key value [value ...]`
pub fn revrank(call: Call) -> Done {
    let parse = |word: &[u8]| request::value(word, error::BAD_VALUE);
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

/// Queries a digest. Its sorted nodes are kept for further queries, unless the server may use no more memory.
fn query<R>(digest: &TDigest, ask: impl FnOnce(Compressed) -> R) -> Result<R, Error> {
    let answer = if server::memory_is_out() {
        digest.compressed_once(ask)
    } else {
        digest.compressed().map(ask)
    };
    answer.ok_or(error::NOT_ALLOCATED)
}

/// Replies with an array: an answer for each word after the key.
fn reply_each<T: Copy>(
    Call { ctx, keys, args }: Call,
    parse: impl Fn(&[u8]) -> Result<T, Error>,
    answer: impl Fn(&Compressed, T) -> Reply,
) -> Done {
    let reader = Reader::<TDigest>::open(keys, key(&args));
    let values = |digest: &TDigest| {
        let mut values = Numbers::new();
        parse_all(args, parse, &mut values)?;
        query(digest, |digest| {
            ctx.reply_array(values.len());
            for value in values {
                answer(&digest, value).send(ctx);
            }
            Reply::Sent
        })
    };
    reader.caching(values)?.ok_or(error::NOT_FOUND)?
}

/// `TDIGEST.TRIMMED_MEAN key low_cut_quantile high_cut_quantile`
pub fn trimmed_mean(Call { keys, args, .. }: Call) -> Done {
    let reader = Reader::<TDigest>::open(keys, key(&args));
    let mean = reader.caching(|digest| {
        let (low, high) = request::trim(&args)?;
        query(digest, |digest| digest.trimmed_mean(low, high))
    })?;
    Ok(Reply::Double(mean.ok_or(error::NOT_FOUND)??))
}

/// `TDIGEST.INFO key`
pub fn info(Call { keys, args, .. }: Call) -> Done {
    let reader = Reader::<TDigest>::open(keys, key(&args));
    let digest = reader.object()?.ok_or(error::NOT_FOUND)?;
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
    Ok(Reply::Table(rows.into()))
}
