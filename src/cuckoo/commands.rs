//! One function for each command: parse, open, act, publish, reply.

use std::ops::Range;

use valkeybloom_protocol::cuckoo::{CuckooError, Insert, reserve as parse_reserve};
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::numerals::integer;
use valkeybloom_protocol::words::CommandWords;
use valkeybloom_sketches::cuckoo::wire::{self, HeaderError};
use valkeybloom_sketches::cuckoo::{Cuckoo, Params, Refusal, Shape};

use crate::ffi::{Argv, Call, Ctx, Str};
use crate::reply::{Done, Reply};
use crate::request::{List, item, items, key, origin, reserved};

use super::keys::{Reader, Writer, limits_for};
use super::settings;

/// `CF.EXISTS key item`
pub fn exists(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let object = reader.object()?;
    ctx.reply_bool(object.is_some_and(|object| object.contains(item(&args))));
    Ok(())
}

/// `CF.MEXISTS key item [item ...]`
pub fn mexists(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let object = reader.object()?;
    ctx.reply_array(args.len() - 2);
    match object {
        None => (2..args.len()).for_each(|_| ctx.reply_bool(false)),
        Some(object) => {
            let items = items(args, 2..args.len());
            object.contains_each(items, |found| ctx.reply_bool(found));
        }
    }
    Ok(())
}

/// `CF.COUNT key item`
pub fn count(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let object = reader.object()?;
    Reply::Count(object.map_or(0, |object| object.count(item(&args)))).send(ctx);
    Ok(())
}

/// `CF.RESERVE key capacity [option value ...]`
pub fn reserve(Call { ctx, keys, args }: Call) -> Done {
    let params = parse_reserve(&args, settings::defaults(), origin(ctx))?;
    let mut writer = Writer::open(keys, key(&args));
    if writer.exists()? {
        return Err(Error::Exists);
    }
    writer.create(create(ctx, &params)?, &params, &[]);
    Reply::Ok.send(ctx);
    Ok(())
}

/// Creates an empty object.
fn create(ctx: Ctx, params: &Params) -> Result<Cuckoo, Error> {
    let shape = Shape::new(params).ok_or(CuckooError::InsertCapacity)?;
    let created = Cuckoo::new(shape, &limits_for(ctx));
    let created = created.map_err(|refusal| match refusal {
        Refusal::OutOfMemory => CuckooError::NotCreated,
        refusal => CuckooError::Refused(refusal),
    });
    Ok(created?)
}

/// `CF.ADD key item`
pub fn add(call: Call) -> Done {
    add_one(call, false)
}

/// `CF.ADDNX key item`
pub fn addnx(call: Call) -> Done {
    add_one(call, true)
}

#[inline]
fn add_one(Call { ctx, keys, args }: Call, unless_present: bool) -> Done {
    let mut writer = Writer::open(keys, key(&args));
    let added = writer.update(|object| {
        require_room_for_filters(ctx, object)?;
        let added = object.add(item(&args), unless_present, || limits_for(ctx));
        added.map_err(CuckooError::Refused)
    })?;
    let added = if let Some(added) = added {
        let added = added?;
        if added {
            writer.added_all();
        }
        added
    } else {
        let params = settings::defaults();
        let outcomes = add_to_new(ctx, writer, args, 2..3, unless_present, &params)?;
        outcomes[0].map_err(CuckooError::Refused)?
    };
    ctx.reply_bool(added);
    Ok(())
}

/// Requires that an object has fewer filters than allowed. Otherwise no item is added, even if there is room for it.
#[inline]
fn require_room_for_filters(ctx: Ctx, object: &Cuckoo) -> Result<(), CuckooError> {
    let most = settings::max_filters();
    if object.filters().len() as u64 >= most && !ctx.must_obey() {
        return Err(CuckooError::Refused(Refusal::MaxFilters));
    }
    Ok(())
}

/// The outcome for each item of a command, in order.
type Outcomes = List<Result<bool, Refusal>>;

/// The items that were added.
type Items<'a> = List<Str<'a>>;

/// `CF.INSERT key [CAPACITY n] [NOCREATE] ITEMS item [item ...]`
pub fn insert(call: Call) -> Done {
    let as_bool = call.ctx.is_resp3();
    insert_items(call, false, as_bool)
}

/// `CF.INSERTNX key [CAPACITY n] [NOCREATE] ITEMS item [item ...]`
pub fn insertnx(call: Call) -> Done {
    // RedisBloom replies in numbers, whatever the protocol.
    insert_items(call, true, false)
}

fn insert_items(Call { ctx, keys, args }: Call, unless_present: bool, as_bool: bool) -> Done {
    let request = Insert::parse(&args, settings::defaults(), origin(ctx))?;
    let range = request.items;
    let mut writer = Writer::open(keys, key(&args));
    let written = writer.update(|object| {
        require_room_for_filters(ctx, object)?;
        add_each(ctx, object, args, range.clone(), unless_present)
    })?;
    let outcomes = if let Some(written) = written {
        let (outcomes, added) = written?;
        if !added.is_empty() {
            writer.added(&added);
        }
        outcomes
    } else {
        let params = request.create.ok_or(Error::NotFound)?;
        add_to_new(ctx, writer, args, range, unless_present, &params)?
    };
    ctx.reply_array(outcomes.len());
    for outcome in outcomes {
        if as_bool {
            ctx.reply_bool(outcome == Ok(true));
        } else {
            // -1 means that there was no room.
            ctx.reply_integer(outcome.map_or(-1, i64::from));
        }
    }
    Ok(())
}

fn add_each<'a>(
    ctx: Ctx<'a>,
    object: &mut Cuckoo,
    args: Argv<'a>,
    range: Range<usize>,
    unless_present: bool,
) -> Result<(Outcomes, Items<'a>), Error> {
    // The lists are reserved first, because the command must not fail once an item is added.
    let lists = reserved(range.len()).and_then(|list| Ok((list, reserved(range.len())?)));
    let (mut outcomes, mut added) =
        lists.map_err(|_| CuckooError::Refused(Refusal::OutOfMemory))?;
    let (first, limits) = (range.start, || limits_for(ctx));
    object.add_each(items(args, range), unless_present, limits, |outcome| {
        if outcome == Ok(true) {
            added.push(args.string(first + outcomes.len()));
        }
        outcomes.push(outcome);
    });
    Ok((outcomes, added))
}

/// Creates an object with items in it. On an error, the key is not created.
fn add_to_new<'a>(
    ctx: Ctx<'a>,
    writer: Writer<'_, 'a>,
    args: Argv<'a>,
    range: Range<usize>,
    unless_present: bool,
    params: &Params,
) -> Result<Outcomes, Error> {
    let mut object = create(ctx, params)?;
    require_room_for_filters(ctx, &object)?;
    let (outcomes, added) = add_each(ctx, &mut object, args, range, unless_present)?;
    writer.create(object, params, &added);
    Ok(outcomes)
}

/// `CF.DEL key item`
pub fn del(Call { ctx, keys, args }: Call) -> Done {
    let mut writer = Writer::open(keys, key(&args));
    let removed = writer.update(|object| object.remove(item(&args)))?;
    let removed = removed.ok_or(CuckooError::NothingToRemoveFrom)?;
    if removed {
        writer.removed();
    }
    ctx.reply_bool(removed);
    Ok(())
}

/// `CF.COMPACT key`
pub fn compact(Call { ctx, keys, args }: Call) -> Done {
    let mut writer = Writer::open(keys, key(&args));
    let changed = writer.update(Cuckoo::compact)?;
    if changed.ok_or(CuckooError::NothingToCompact)? {
        writer.rewritten();
    }
    Reply::Ok.send(ctx);
    Ok(())
}

/// `CF.INFO key`
pub fn info(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let object = reader.existing()?;
    let stored = object.outline();
    // This includes RedisBloom's own overhead, so that both modules report the same size.
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
    Reply::Table(rows.into()).send(ctx);
    Ok(())
}

/// `CF.DEBUG key`
pub fn debug(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let stored = reader.existing()?.outline();
    let line = format!(
        "bktsize:{} buckets:{} items:{} deletes:{} filters:{} max_iterations:{} expansion:{}",
        stored.bucket_size,
        stored.first_buckets,
        stored.items,
        stored.deletes,
        stored.filters,
        stored.max_iterations,
        stored.expansion
    );
    ctx.reply_bytes(line.as_bytes());
    Ok(())
}

/// `CF.SCANDUMP key cursor`
pub fn scandump(Call { ctx, keys, args }: Call) -> Done {
    let cursor = integer(args.word(2)).and_then(|cursor| u64::try_from(cursor).ok());
    let cursor = cursor.ok_or(CuckooError::BadCursor)?;
    let reader = Reader::open(keys, key(&args));
    let object = reader.existing()?;
    let piece = if object.items() == 0 {
        None
    } else if cursor == 0 {
        Some((1, wire::write_header(object).into()))
    } else {
        wire::chunk(object, cursor).map_err(|e| CuckooError::Refused(e.into()))?
    };
    let pair = match &piece {
        None => [Reply::Count(0), Reply::Null],
        Some((next, bytes)) => [Reply::Count(*next), Reply::Bytes(bytes)],
    };
    Reply::List(pair.into()).send(ctx);
    Ok(())
}

/// `CF.LOADCHUNK key cursor data`
pub fn loadchunk(Call { ctx, keys, args }: Call) -> Done {
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
    } else {
        // Negative cursors are past the end of any filter.
        let cursor = u64::try_from(cursor).unwrap_or(u64::MAX);
        let written = writer.update(|object| wire::load(object, cursor, data))?;
        match written.ok_or(Error::NotFound)? {
            Ok(true) => writer.rewritten(),
            Ok(false) => return Err(CuckooError::BadChunk.into()),
            Err(no_memory) => return Err(CuckooError::Refused(no_memory.into()).into()),
        }
    }
    Reply::Ok.send(ctx);
    Ok(())
}
