//! One function per command: parse, open, act, publish, reply.

use std::ffi::CStr;
use std::ops::Range;

use crate::args::{self, InfoField, Insert, Reserve, Words};
use crate::bloom::chunks::{self, Partial};
use crate::bloom::codec::{self, DecodeError};
use crate::bloom::sizing::Stop;
use crate::bloom::{Added, BloomObject, Filter, Growth, Params, Refusal, Seed};
use crate::config::{self, double_text};
use crate::ffi::{Argv, Ctx, Str};
use crate::keyspace::{self, Reader, Writer};
use crate::reply::{Error, Field, Reply, send, send_error};

impl Words for Argv<'_> {
    fn count(&self) -> usize {
        self.len()
    }

    fn word(&self, index: usize) -> &[u8] {
        self.string(index).bytes()
    }
}

fn items(args: Argv<'_>, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
    range.map(move |index| args.string(index).bytes())
}

/// The key of every command, behind its name.
fn key<'a>(args: &Argv<'a>) -> Str<'a> {
    args.string(1)
}

/// Requires so many words, and at the most as many.
fn arity(args: &Argv, count: Range<usize>) -> Result<(), Error> {
    if count.contains(&args.len()) {
        Ok(())
    } else {
        Err(Error::Arity)
    }
}

/// BF.EXISTS key item
pub fn exists<'a>(ctx: Ctx<'a>, args: Argv<'a>) {
    if args.len() != 3 {
        return ctx.reply_wrong_arity();
    }
    let reader = Reader::open(ctx, key(&args));
    match reader.object() {
        Ok(None) => ctx.reply_bool(false),
        Ok(Some(object)) => {
            let probe = object.probe(args.string(2).bytes());
            ctx.reply_bool(object.contains(probe));
        }
        Err(error) => send_error(ctx, error),
    }
}

/// BF.MEXISTS key item [item ...]
pub fn mexists<'a>(ctx: Ctx<'a>, args: Argv<'a>) {
    if args.len() < 3 {
        return ctx.reply_wrong_arity();
    }
    let reader = Reader::open(ctx, key(&args));
    let object = match reader.object() {
        Ok(object) => object,
        Err(error) => return send_error(ctx, error),
    };
    ctx.reply_array(args.len() - 2);
    match object {
        None => (2..args.len()).for_each(|_| ctx.reply_bool(false)),
        Some(object) => {
            object.contains_each(items(args, 2..args.len()), |found| ctx.reply_bool(found));
        }
    }
}

/// BF.ADD key item
pub fn add<'a>(ctx: Ctx<'a>, args: Argv<'a>) {
    if args.len() != 3 {
        return ctx.reply_wrong_arity();
    }
    let mut writer = Writer::open(ctx, key(&args));
    let item = args.string(2);
    let added = writer.update(|object| {
        let probe = object.probe(item.bytes());
        object.add(probe, || config::limits_for(ctx))
    });
    match added {
        Ok(Ok(Ok(Added::Present))) => ctx.reply_bool(false),
        Ok(Ok(Ok(Added::New))) => {
            ctx.reply_bool(true);
            writer.added_all();
        }
        Ok(Ok(Err(refusal))) => send_error(ctx, refusal.into()),
        Ok(Err(_)) => match create(ctx, writer, &config::defaults(), None, args, 2..3) {
            Ok(_) => ctx.reply_bool(true),
            Err(error) => send_error(ctx, error),
        },
        Err(error) => send_error(ctx, error),
    }
}

/// BF.MADD key item [item ...]
pub fn madd<'a>(ctx: Ctx<'a>, args: Argv<'a>) {
    if args.len() < 3 {
        return ctx.reply_wrong_arity();
    }
    let create = config::defaults();
    let outcome = write(ctx, args, Some(&create), None, 2..args.len(), true);
    reply_outcomes(ctx, outcome);
}

/// BF.INSERT key [option ...] [ITEMS item ...]
pub fn insert<'a>(ctx: Ctx<'a>, args: Argv<'a>) {
    let outcome = Insert::parse(&args, config::defaults()).and_then(|request| {
        if let (Some(wanted), Some(params)) = (request.scale_to, request.create) {
            scale_to(&params, wanted)?;
        }
        let items = request.items.clone();
        write(
            ctx,
            args,
            request.create.as_ref(),
            request.seed,
            items,
            false,
        )
    });
    reply_outcomes(ctx, outcome);
}

/// Refuses an object that could not grow to hold so many items.
fn scale_to(params: &Params, wanted: u64) -> Result<(), Error> {
    match params.reach(config::limits()) {
        (reached, _) if reached >= wanted => Ok(()),
        (_, Some(Stop::Rate)) => Err(Error::ScaleToRate),
        _ => Err(Error::ScaleToMemory),
    }
}

/// What became of the items of a command, in order. A refusal is the last.
type Outcomes = Vec<Result<Added, Refusal>>;

fn reply_outcomes(ctx: Ctx, outcomes: Result<Outcomes, Error>) {
    let outcomes = match outcomes {
        Ok(outcomes) => outcomes,
        Err(error) => return send_error(ctx, error),
    };
    ctx.reply_array(outcomes.len());
    for outcome in outcomes {
        match outcome {
            Ok(added) => ctx.reply_bool(added == Added::New),
            Err(refusal) => send_error(ctx, refusal.into()),
        }
    }
}

/// Adds items to the object under the command's key, or to a new one of these parameters.
/// `only_items` says that nothing but the items stands behind the key.
fn write<'a>(
    ctx: Ctx<'a>,
    args: Argv<'a>,
    params: Option<&Params>,
    seed: Option<Seed>,
    range: Range<usize>,
    only_items: bool,
) -> Result<Outcomes, Error> {
    let mut writer = Writer::open(ctx, key(&args));
    let (first, count) = (range.start, range.len());
    let written = writer.update(|object| {
        let mut outcomes = Outcomes::with_capacity(count);
        let limits = || config::limits_for(ctx);
        object.add_each(items(args, range.clone()), limits, |outcome| {
            outcomes.push(outcome);
        });
        outcomes
    })?;
    let Ok(outcomes) = written else {
        let params = params.ok_or(Error::NotFound)?;
        return create(ctx, writer, params, seed, args, range);
    };
    let all = outcomes.iter().all(|outcome| *outcome == Ok(Added::New));
    if all && only_items {
        writer.added_all();
    } else {
        let new = new_items(args, first, &outcomes);
        if !new.is_empty() {
            writer.added(&new);
        }
    }
    Ok(outcomes)
}

fn new_items<'a>(args: Argv<'a>, first: usize, outcomes: &Outcomes) -> Vec<Str<'a>> {
    let indexed = outcomes.iter().enumerate();
    let new = indexed.filter(|(_, outcome)| **outcome == Ok(Added::New));
    new.map(|(index, _)| args.string(first + index)).collect()
}

/// Makes an object with items in it. Where that fails there is no key.
fn create<'a>(
    ctx: Ctx<'a>,
    writer: Writer<'a>,
    params: &Params,
    seed: Option<Seed>,
    args: Argv<'a>,
    range: Range<usize>,
) -> Result<Outcomes, Error> {
    let limits = config::limits_for(ctx);
    let seed = seed.unwrap_or_else(config::new_seed);
    let mut object = BloomObject::new(params, seed, limits)?;
    let first = range.start;
    let mut outcomes = Outcomes::with_capacity(range.len());
    object.add_each(
        items(args, range),
        || limits,
        |outcome| outcomes.push(outcome),
    );
    writer.create(object, &new_items(args, first, &outcomes));
    Ok(outcomes)
}

/// BF.CARD key
pub fn card<'a>(ctx: Ctx<'a>, args: Argv<'a>) {
    if args.len() != 2 {
        return ctx.reply_wrong_arity();
    }
    let reader = Reader::open(ctx, key(&args));
    let items = reader
        .object()
        .map(|object| object.map_or(0, BloomObject::items));
    send(ctx, items.map(Reply::Count));
}

/// BF.RESERVE key rate capacity [EXPANSION n | NONSCALING]
pub fn reserve<'a>(ctx: Ctx<'a>, args: Argv<'a>) {
    let reserved = Reserve::parse(&args, config::defaults()).and_then(|request| {
        let writer = Writer::open(ctx, key(&args));
        if writer.exists()? {
            return Err(Error::Exists);
        }
        create(ctx, writer, &request.params, None, args, 0..0)?;
        Ok(Reply::Ok)
    });
    send(ctx, reserved);
}

/// BF.INFO key [field]
pub fn info<'a>(ctx: Ctx<'a>, args: Argv<'a>) {
    let field = match InfoField::parse(&args) {
        Ok(field) => field,
        Err(error) => return send_error(ctx, error),
    };
    let reader = Reader::open(ctx, key(&args));
    let reply = reader.object().and_then(|object| {
        let object = object.ok_or(Error::NotFound)?;
        let Some(field) = field else {
            let rows = InfoField::ALL.into_iter();
            let rows = rows.filter_map(|field| Some((title(field), told(object, field)?)));
            return Ok(Reply::Table(rows.collect()));
        };
        let value = told(object, field).ok_or(Error::UnknownField)?;
        Ok(if ctx.is_resp3() {
            Reply::Table(vec![(title(field), value)])
        } else {
            Reply::List(vec![value])
        })
    });
    send(ctx, reply);
}

fn title(field: InfoField) -> &'static CStr {
    match field {
        InfoField::Capacity => c"Capacity",
        InfoField::Size => c"Size",
        InfoField::Filters => c"Number of filters",
        InfoField::Items => c"Number of items inserted",
        InfoField::Expansion => c"Expansion rate",
        InfoField::Error => c"Error rate",
        InfoField::Tightening => c"Tightening ratio",
        InfoField::MaxScaledCapacity => c"Max scaled capacity",
    }
}

/// The value of a field, or `None` for one that the object does not have.
fn told(object: &BloomObject, field: InfoField) -> Option<Reply<'static>> {
    let params = object.params();
    let scaling = params.growth != Growth::Fixed;
    Some(match field {
        InfoField::Capacity => Reply::Count(object.capacity()),
        InfoField::Size => Reply::Count(keyspace::memory_bytes(object)),
        InfoField::Filters => Reply::Count(object.filters().len() as u64),
        InfoField::Items => Reply::Count(object.items()),
        InfoField::Expansion if !scaling => Reply::Null,
        InfoField::Expansion => Reply::Count(u64::from(params.growth.expansion())),
        InfoField::Error => Reply::Rate(params.error_rate.get()),
        InfoField::Tightening if scaling => Reply::Rate(params.tightening.get()),
        InfoField::MaxScaledCapacity if scaling => {
            Reply::Count(object.max_scaled_capacity(config::limits()))
        }
        InfoField::Tightening | InfoField::MaxScaledCapacity => return None,
    })
}

/// BF.LOAD key dump [ttl-ms]
pub fn load<'a>(ctx: Ctx<'a>, args: Argv<'a>) {
    send(ctx, try_load(ctx, args));
}

fn try_load<'a>(ctx: Ctx<'a>, args: Argv<'a>) -> Result<Reply<'static>, Error> {
    arity(&args, 3..5)?;
    let ttl_ms = if args.len() == 4 {
        let ttl = args::integer(args.word(3)).filter(|ttl| *ttl >= 0);
        ttl.ok_or(Error::Bad(Field::Ttl))?
    } else {
        0
    };
    // As for RESTORE, 0 is no time to live.
    let expires_ms = match ttl_ms {
        0 => None,
        ttl => Some(
            Ctx::now_ms()
                .checked_add(ttl)
                .ok_or(Error::Bad(Field::Ttl))?,
        ),
    };
    let writer = Writer::open(ctx, key(&args));
    if writer.exists()? {
        return Err(Error::Busy);
    }
    let dump = args.string(2).bytes();
    let object = codec::decode(dump).map_err(|error| match error {
        DecodeError::UnsupportedVersion => Error::UnsupportedVersion,
        DecodeError::Truncated | DecodeError::Malformed(_) => Error::Undecodable,
    })?;
    if !object.is_within(config::limits_for(ctx)) {
        return Err(Error::Refused(Refusal::MemoryLimit));
    }
    writer.create_loaded(object, dump, expires_ms);
    Ok(Reply::Ok)
}

fn cursor(args: &Argv) -> Result<i64, Error> {
    args::integer(args.word(2)).ok_or(Error::Bad(Field::Cursor))
}

/// BF.SCANDUMP key cursor
pub fn scandump<'a>(ctx: Ctx<'a>, args: Argv<'a>) {
    let cursor = match arity(&args, 3..4).and_then(|()| cursor(&args)) {
        Ok(cursor) => cursor,
        Err(error) => return send_error(ctx, error),
    };
    let reader = Reader::open(ctx, key(&args));
    let object = reader
        .object()
        .and_then(|object| object.ok_or(Error::NotFound));
    match object {
        Ok(object) => {
            // A cursor below 0 stands past the end, as one above all bitmaps does.
            let cursor = u64::try_from(cursor).unwrap_or(u64::MAX);
            let (next, piece) = chunks::piece(object, cursor);
            let pair = vec![Reply::Count(next), Reply::Bytes(piece.bytes())];
            send(ctx, Ok(Reply::List(pair)));
        }
        Err(error) => send_error(ctx, error),
    }
}

/// BF.LOADCHUNK key cursor data
pub fn loadchunk<'a>(ctx: Ctx<'a>, args: Argv<'a>) {
    send(ctx, try_loadchunk(ctx, args));
}

fn try_loadchunk<'a>(ctx: Ctx<'a>, args: Argv<'a>) -> Result<Reply<'static>, Error> {
    arity(&args, 4..5)?;
    let cursor = cursor(&args)?;
    let data = args.string(3).bytes();
    let writer = Writer::open(ctx, key(&args));
    if cursor == 1 {
        writer.requires_empty()?;
        let partial = Partial::new(data, config::limits_for(ctx));
        let partial = partial.map_err(|error| match error {
            None => Error::Refused(Refusal::MemoryLimit),
            Some(_) => Error::BadChunk,
        })?;
        writer.begin(partial);
    } else {
        let cursor = u64::try_from(cursor).map_err(|_| Error::BadChunk)?;
        writer.load_chunk(cursor, data)?;
    }
    Ok(Reply::Ok)
}

/// BF.DEBUG key
pub fn debug<'a>(ctx: Ctx<'a>, args: Argv<'a>) {
    if args.len() != 2 {
        return ctx.reply_wrong_arity();
    }
    let reader = Reader::open(ctx, key(&args));
    let reply = reader.object().and_then(|object| {
        let object = object.ok_or(Error::NotFound)?;
        let mut lines = vec![Reply::Text(format!("size:{}", object.items()))];
        let filters = object.filters().iter().enumerate();
        lines.extend(filters.map(|(index, filter)| Reply::Text(debug_line(object, filter, index))));
        Ok(Reply::List(lines))
    });
    send(ctx, reply);
}

fn debug_line(object: &BloomObject, filter: &Filter, index: usize) -> String {
    let rate = object.filter_rate(index);
    format!(
        "bytes:{} bits:{} hashes:{} hashwidth:{} capacity:{} size:{} ratio:{}",
        filter.bitmap().len(),
        filter.bits(),
        filter.hashes(),
        object.hash_bits(),
        filter.capacity(),
        filter.items(),
        double_text(rate)
    )
}
