//! One function per command: parse, open, act, publish, reply.

use std::ops::Range;

use crate::ffi::{Argv, Ctx, Keyspace, Str};
use crate::reply::{Reply, send, send_error};
use crate::request::{items, key, origin, reserved};
use valkeybloom_protocol::error::{CuckooError, Error};
use valkeybloom_protocol::numerals::integer;
use valkeybloom_protocol::words::Words;
use valkeybloom_sketches::cuckoo::wire;
use valkeybloom_sketches::cuckoo::wire::HeaderError;
use valkeybloom_sketches::cuckoo::{Cuckoo, Params, Refusal, Shape};

use super::keys::{Reader, Writer, limits_for};
use super::settings;
use valkeybloom_protocol::cuckoo::{Insert, reserve as parse_reserve};

/// CF.EXISTS key item
pub fn exists<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let reader = Reader::open(keys, key(&args));
    match reader.object() {
        Ok(object) => {
            let item = args.string(2).bytes();
            ctx.reply_bool(object.is_some_and(|object| object.contains(item)));
        }
        Err(error) => send_error(ctx, error),
    }
}

/// CF.MEXISTS key item [item ...]
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
            object.contains_each(items, |found| ctx.reply_bool(found));
        }
    }
}

/// CF.COUNT key item
pub fn count<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let reader = Reader::open(keys, key(&args));
    let count = reader.object().map(|object| {
        let item = args.string(2).bytes();
        object.map_or(0, |object| object.count(item))
    });
    send(ctx, count.map(Reply::Count));
}

/// CF.RESERVE key capacity [option value ...]
pub fn reserve<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let params = parse_reserve(&args, settings::defaults(), origin(ctx));
    let reserved = params.and_then(|params| {
        let mut writer = Writer::open(keys, key(&args));
        if writer.exists()? {
            return Err(Error::Exists);
        }
        writer.create(create(ctx, &params)?, &params, &[]);
        Ok(Reply::Ok)
    });
    send(ctx, reserved);
}

/// A new object.
fn create(ctx: Ctx, params: &Params) -> Result<Cuckoo, Error> {
    let shape = Shape::new(params).ok_or(CuckooError::InsertCapacity)?;
    let created = Cuckoo::new(shape, &limits_for(ctx));
    let created = created.map_err(|refusal| match refusal {
        Refusal::OutOfMemory => CuckooError::NotCreated,
        refusal => CuckooError::Refused(refusal),
    });
    Ok(created?)
}

/// CF.ADD key item
pub fn add<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    add_one(ctx, keys, args, false);
}

/// CF.ADDNX key item
pub fn addnx<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    add_one(ctx, keys, args, true);
}

#[inline]
fn add_one<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>, unless_known: bool) {
    match try_add_one(ctx, keys, args, unless_known) {
        Ok(added) => ctx.reply_bool(added),
        Err(error) => send_error(ctx, error),
    }
}

#[inline]
fn try_add_one<'a>(
    ctx: Ctx<'a>,
    keys: &mut Keyspace<'a>,
    args: Argv<'a>,
    unless_known: bool,
) -> Result<bool, Error> {
    let mut writer = Writer::open(keys, key(&args));
    let added = writer.update(|object| {
        require_room_for_filters(ctx, object)?;
        let added = object.add(args.string(2).bytes(), unless_known, || limits_for(ctx));
        added.map_err(CuckooError::Refused)
    })?;
    let Some(added) = added else {
        let params = settings::defaults();
        let outcomes = add_to_new(ctx, writer, args, 2..3, unless_known, &params)?;
        return Ok(outcomes[0].map_err(CuckooError::Refused)?);
    };
    let added = added?;
    if added {
        writer.added_all();
    }
    Ok(added)
}

/// Requires that an object has fewer filters than it may; for one that has not, nothing is added even where there
/// is room.
#[inline]
fn require_room_for_filters(ctx: Ctx, object: &Cuckoo) -> Result<(), CuckooError> {
    let most = settings::max_filters();
    if object.filters().len() as u64 >= most && !ctx.must_obey() {
        return Err(CuckooError::Refused(Refusal::MaxFilters));
    }
    Ok(())
}

/// The outcome for each item of a command, in order.
type Outcomes = Vec<Result<bool, Refusal>>;

/// The items that were added.
type Items<'a> = Vec<Str<'a>>;

/// CF.INSERT key [CAPACITY n] [NOCREATE] ITEMS item [item ...]
pub fn insert<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    insert_items(ctx, keys, args, false);
}

/// CF.INSERTNX key [CAPACITY n] [NOCREATE] ITEMS item [item ...]
pub fn insertnx<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    insert_items(ctx, keys, args, true);
}

fn insert_items<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>, unless_known: bool) {
    let outcomes = match try_insert(ctx, keys, args, unless_known) {
        Ok(outcomes) => outcomes,
        Err(error) => return send_error(ctx, error),
    };
    // RedisBloom replies to CF.INSERTNX in numbers, whatever the protocol.
    let as_bool = ctx.is_resp3() && !unless_known;
    ctx.reply_array(outcomes.len());
    for outcome in outcomes {
        if as_bool {
            ctx.reply_bool(outcome == Ok(true));
        } else {
            // -1 where there was no room.
            ctx.reply_integer(outcome.map_or(-1, i64::from));
        }
    }
}

fn try_insert<'a>(
    ctx: Ctx<'a>,
    keys: &mut Keyspace<'a>,
    args: Argv<'a>,
    unless_known: bool,
) -> Result<Outcomes, Error> {
    let request = Insert::parse(&args, settings::defaults(), origin(ctx))?;
    let range = request.items;
    let mut writer = Writer::open(keys, key(&args));
    let outcomes = writer.update(|object| {
        require_room_for_filters(ctx, object)?;
        add_each(ctx, object, args, range.clone(), unless_known)
    })?;
    let Some(outcomes) = outcomes else {
        let params = request.create.ok_or(Error::NotFound)?;
        return add_to_new(ctx, writer, args, range, unless_known, &params);
    };
    let (outcomes, added) = outcomes?;
    if !added.is_empty() {
        writer.added(&added);
    }
    Ok(outcomes)
}

fn add_each<'a>(
    ctx: Ctx<'a>,
    object: &mut Cuckoo,
    args: Argv<'a>,
    range: Range<usize>,
    unless_known: bool,
) -> Result<(Outcomes, Items<'a>), Error> {
    // What was added can't be refused any more.
    let lists = reserved(range.len()).and_then(|list| Ok((list, reserved(range.len())?)));
    let (mut outcomes, mut added) =
        lists.map_err(|_| CuckooError::Refused(Refusal::OutOfMemory))?;
    let (first, limits) = (range.start, || limits_for(ctx));
    object.add_each(items(args, range), unless_known, limits, |outcome| {
        if outcome == Ok(true) {
            added.push(args.string(first + outcomes.len()));
        }
        outcomes.push(outcome);
    });
    Ok((outcomes, added))
}

/// Creates an object with items in it. On an error there is no key.
fn add_to_new<'a>(
    ctx: Ctx<'a>,
    writer: Writer<'_, 'a>,
    args: Argv<'a>,
    range: Range<usize>,
    unless_known: bool,
    params: &Params,
) -> Result<Outcomes, Error> {
    let mut object = create(ctx, params)?;
    require_room_for_filters(ctx, &object)?;
    let (outcomes, added) = add_each(ctx, &mut object, args, range, unless_known)?;
    writer.create(object, params, &added);
    Ok(outcomes)
}

/// CF.DEL key item
pub fn del<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let mut writer = Writer::open(keys, key(&args));
    match writer.update(|object| object.remove(args.string(2).bytes())) {
        Ok(Some(removed)) => {
            if removed {
                writer.removed();
            }
            ctx.reply_bool(removed);
        }
        Ok(None) => send_error(ctx, CuckooError::NothingToRemoveFrom.into()),
        Err(error) => send_error(ctx, error),
    }
}

/// CF.COMPACT key
pub fn compact<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let mut writer = Writer::open(keys, key(&args));
    let compacted = writer.update(Cuckoo::compact).and_then(|changed| {
        if changed.ok_or(CuckooError::NothingToCompact)? {
            writer.rewritten();
        }
        Ok(Reply::Ok)
    });
    send(ctx, compacted);
}

/// CF.INFO key
pub fn info<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    describe(ctx, keys, args, |object| {
        let stored = object.outline();
        // RedisBloom's own overhead, so that the size is the one it tells.
        let size = 40 + 16 * stored.filters + object.size();
        let rows = [
            (c"Size", size),
            (c"Number of buckets", stored.first_buckets),
            (c"Number of filters", stored.filters),
            (c"Number of items inserted", stored.items),
            (c"Number of items deleted", stored.deletes),
            (c"Bucket size", stored.bucket_size),
            (c"Expansion rate", stored.expansion),
            (c"Max iterations", stored.max_iterations),
        ];
        let rows = rows.map(|(name, value)| (name, Reply::Count(value)));
        Reply::Table(rows.into())
    });
}

/// CF.DEBUG key
pub fn debug<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    describe(ctx, keys, args, |object| {
        let stored = object.outline();
        Reply::Text(format!(
            "bktsize:{} buckets:{} items:{} deletes:{} filters:{} max_iterations:{} expansion:{}",
            stored.bucket_size,
            stored.first_buckets,
            stored.items,
            stored.deletes,
            stored.filters,
            stored.max_iterations,
            stored.expansion
        ))
    });
}

fn describe<'a>(
    ctx: Ctx<'a>,
    keys: &mut Keyspace<'a>,
    args: Argv<'a>,
    description: impl FnOnce(&Cuckoo) -> Reply<'static>,
) {
    let reader = Reader::open(keys, key(&args));
    let object = reader
        .object()
        .and_then(|object| object.ok_or(Error::NotFound));
    send(ctx, object.map(description));
}

/// CF.SCANDUMP key cursor
pub fn scandump<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let cursor = integer(args.word(2)).map(u64::try_from);
    let Some(Ok(cursor)) = cursor else {
        return send_error(ctx, CuckooError::BadCursor.into());
    };
    let reader = Reader::open(keys, key(&args));
    let object = match reader.object() {
        Ok(Some(object)) => object,
        Ok(None) => return send_error(ctx, Error::NotFound),
        Err(error) => return send_error(ctx, error),
    };
    let header;
    let piece = if object.items() == 0 {
        None
    } else if cursor == 0 {
        header = wire::write_header(object);
        Some((1, &header[..]))
    } else {
        wire::chunk(object, cursor)
    };
    let pair = piece.map_or([Reply::Count(0), Reply::Null], |(next, bytes)| {
        [Reply::Count(next), Reply::Bytes(bytes)]
    });
    send(ctx, Ok(Reply::List(pair.into())));
}

/// CF.LOADCHUNK key cursor data
pub fn loadchunk<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    send(ctx, try_loadchunk(ctx, keys, args));
}

fn try_loadchunk<'a>(
    ctx: Ctx<'a>,
    keys: &mut Keyspace<'a>,
    args: Argv<'a>,
) -> Result<Reply<'static>, Error> {
    let cursor = integer(args.word(2)).filter(|cursor| *cursor != 0);
    let cursor = cursor.ok_or(CuckooError::BadCursor)?;
    let data = args.string(3).bytes();
    let mut writer = Writer::open(keys, key(&args));
    if cursor == 1 {
        if writer.exists()? {
            return Err(Error::Exists);
        }
        let begun = wire::begin(data, &limits_for(ctx)).map_err(|error| match error {
            HeaderError::Length => CuckooError::BadHeader,
            HeaderError::Numbers => CuckooError::BadClaim,
        });
        writer.begin(begun?);
        return Ok(Reply::Ok);
    }
    // What is negative lies behind any filter.
    let cursor = u64::try_from(cursor).unwrap_or(u64::MAX);
    let written = writer.update(|object| wire::load(object, cursor, data))?;
    match written.ok_or(Error::NotFound)? {
        Ok(true) => writer.rewritten(),
        Ok(false) => return Err(CuckooError::BadChunk.into()),
        Err(no_memory) => return Err(CuckooError::Refused(no_memory.into()).into()),
    }
    Ok(Reply::Ok)
}
