//! One function for each command: parse, open, act, publish, reply.

use std::ffi::CStr;
use std::ops::Range;

use valkeybloom_protocol::cuckoo::error::{self, CuckooOption};
use valkeybloom_protocol::cuckoo::{Insert, reserve as parse_reserve};
use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::cuckoo::{Cuckoo, Limits, Params, Refusal, Shape, ValidOutline, wire};

use crate::ffi::{Argument, Argv, Call, Ctx, Done, Reply, Str};
use crate::keys::{Reader, Writer};
use crate::request::{List, grammar, item, items, key, reserved};

use super::settings;
use super::value::OVERHEAD_BYTES;

/// The event of a new object.
pub(super) const CREATED: &CStr = c"cuckoo.reserve";
/// The event of an item added to an object.
const ADDED: &CStr = c"cuckoo.add";
/// The event of an item removed from an object.
const REMOVED: &CStr = c"cuckoo.del";

/// Returns the limits on a command: [`Limits::NONE`] if it was already executed elsewhere.
pub(super) fn limits_for(ctx: Ctx) -> Limits {
    if ctx.must_obey() {
        Limits::NONE
    } else {
        settings::limits(OVERHEAD_BYTES)
    }
}

/// `CF.EXISTS key item`
pub fn exists(Call { keys, args, .. }: Call) -> Done {
    let reader = Reader::<Cuckoo>::open(keys, key(&args));
    let object = reader.object()?;
    let found = object.is_some_and(|object| object.contains(item(&args)));
    Ok(Reply::Bool(found))
}

/// `CF.MEXISTS key item [item ...]`
pub fn mexists(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::<Cuckoo>::open(keys, key(&args));
    let object = reader.object()?;
    ctx.reply_array(args.len() - 2);
    match object {
        None => (2..args.len()).for_each(|_| ctx.reply_bool(false)),
        Some(object) => {
            let items = items(args, 2..args.len());
            object.contains_each(items, |found| ctx.reply_bool(found));
        }
    }
    Ok(Reply::Sent)
}

/// `CF.COUNT key item`
pub fn count(Call { keys, args, .. }: Call) -> Done {
    let reader = Reader::<Cuckoo>::open(keys, key(&args));
    let object = reader.object()?;
    let count = object.map_or(0, |object| object.count(item(&args)));
    Ok(Reply::Count(count))
}

/// `CF.RESERVE key capacity [option value ...]`
pub fn reserve(Call { ctx, keys, args }: Call) -> Done {
    let params = parse_reserve(&args, settings::defaults(), grammar(ctx))?;
    let mut writer = Writer::<Cuckoo>::open(keys, key(&args));
    if writer.exists()? {
        return Err(Error::EXISTS);
    }
    store(writer, create(ctx, &params)?, &params, &[]);
    Ok(Reply::Ok)
}

/// Creates an empty object.
fn create(ctx: Ctx, params: &Params) -> Result<Cuckoo, Error> {
    let shape = Shape::new(params).ok_or(error::INSERT_CAPACITY)?;
    let created = Cuckoo::new(shape, &limits_for(ctx));
    created.map_err(|refusal| match refusal {
        Refusal::OutOfMemory => error::NOT_CREATED,
        refusal => error::refused(refusal),
    })
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
    let mut writer = Writer::<Cuckoo>::open(keys, key(&args));
    let added = writer.update(|object| {
        require_room_for_filters(ctx, object)?;
        let added = object.add(item(&args), unless_present, || limits_for(ctx));
        added.map_err(error::refused)
    })?;
    let added = if let Some(added) = added {
        let added = added?;
        if added {
            writer.publish_verbatim([ADDED]);
        }
        added
    } else {
        let params = settings::defaults();
        let addition = Addition {
            items: 2..3,
            unless_present,
        };
        match add_to_new(ctx, writer, args, &addition, &params)? {
            Created::WithItems(outcomes) => outcomes[0].map_err(error::refused)?,
            Created::Empty => return Ok(Reply::Null),
        }
    };
    Ok(Reply::Bool(added))
}

/// Requires that an object has fewer filters than allowed. Otherwise no item is added, even if there is room for it.
#[inline]
fn require_room_for_filters(ctx: Ctx, object: &Cuckoo) -> Result<(), Error> {
    if object.filters().len() as u64 >= settings::MAX_FILTERS.unsigned() && !ctx.must_obey() {
        return Err(error::refused(Refusal::MaxFilters));
    }
    Ok(())
}

/// Items to add.
struct Addition {
    /// The indices of the items among the words.
    items: Range<usize>,
    /// Whether items that seem to be in are left out.
    unless_present: bool,
}

/// The outcome for each item of a command, in order.
type Outcomes = List<Result<bool, Refusal>>;

/// The items that were added.
type Items<'a> = List<Str<'a>>;

/// What a command made of a key that did not exist.
enum Created {
    /// An object with those items that were not refused.
    WithItems(Outcomes),
    /// An empty object, because the command was already executed elsewhere, and added nothing there.
    Empty,
}

/// The form in which CF.INSERT and CF.INSERTNX reply for each item.
#[derive(Clone, Copy)]
enum Form {
    Boolean,
    /// 1, 0, or -1 for a refused item.
    Number,
}

/// `CF.INSERT key [CAPACITY n] [NOCREATE] ITEMS item [item ...]`
pub fn insert(call: Call) -> Done {
    let form = if call.ctx.is_resp3() {
        Form::Boolean
    } else {
        Form::Number
    };
    insert_items(call, false, form)
}

/// `CF.INSERTNX key [CAPACITY n] [NOCREATE] ITEMS item [item ...]`
pub fn insertnx(call: Call) -> Done {
    // RedisBloom replies in numbers, whatever the protocol.
    insert_items(call, true, Form::Number)
}

fn insert_items(Call { ctx, keys, args }: Call, unless_present: bool, form: Form) -> Done {
    let request = Insert::parse(&args, settings::defaults(), grammar(ctx))?;
    let addition = Addition {
        items: request.items,
        unless_present,
    };
    let mut writer = Writer::<Cuckoo>::open(keys, key(&args));
    let written = writer.update(|object| {
        require_room_for_filters(ctx, object)?;
        add_each(ctx, object, args, &addition)
    })?;
    let outcomes = if let Some(written) = written {
        let (outcomes, added) = written?;
        if !added.is_empty() {
            writer.publish(c"CF.INSERT", &insertion(&added), ADDED);
        }
        outcomes
    } else {
        let params = request.create.ok_or(Error::NOT_FOUND)?;
        match add_to_new(ctx, writer, args, &addition, &params)? {
            Created::WithItems(outcomes) => outcomes,
            Created::Empty => return Ok(Reply::Null),
        }
    };
    ctx.reply_array(outcomes.len());
    for outcome in outcomes {
        match form {
            Form::Boolean => ctx.reply_bool(outcome == Ok(true)),
            Form::Number => ctx.reply_integer(outcome.map_or(-1, i64::from)),
        }
    }
    Ok(Reply::Sent)
}

fn add_each<'a>(
    ctx: Ctx<'a>,
    object: &mut Cuckoo,
    args: Argv<'a>,
    addition: &Addition,
) -> Result<(Outcomes, Items<'a>), Error> {
    let range = addition.items.clone();
    // The lists are reserved first, because the command must not fail once an item is added.
    let no_memory = |_| error::refused(Refusal::OutOfMemory);
    let mut outcomes = reserved(range.len()).map_err(no_memory)?;
    let mut added = reserved(range.len()).map_err(no_memory)?;
    let (first, limits) = (range.start, || limits_for(ctx));
    let note = |outcome| {
        if outcome == Ok(true) {
            added.push(args.string(first + outcomes.len()));
        }
        outcomes.push(outcome);
    };
    object.add_each(items(args, range), addition.unless_present, limits, note);
    Ok((outcomes, added))
}

/// Creates an object with items in it. On an error, the key is not created.
fn add_to_new<'a>(
    ctx: Ctx<'a>,
    writer: Writer<'_, 'a, Cuckoo>,
    args: Argv<'a>,
    addition: &Addition,
    params: &Params,
) -> Result<Created, Error> {
    let mut object = create(ctx, params)?;
    if settings::MAX_FILTERS.unsigned() == 1 {
        if !ctx.must_obey() {
            return Err(error::refused(Refusal::MaxFilters));
        }
        // RedisBloom creates the filter before it refuses the items, and replicates the command.
        store(writer, object, params, &[]);
        return Ok(Created::Empty);
    }
    let (outcomes, added) = add_each(ctx, &mut object, args, addition)?;
    store(writer, object, params, &added);
    Ok(Created::WithItems(outcomes))
}

/// Treats a key of another type as missing, because `RedisBloom`'s errors do not distinguish the two.
fn missing_if_other<R>(found: Result<Option<R>, Error>) -> Result<Option<R>, Error> {
    match found {
        Err(Error::WRONG_TYPE) => Ok(None),
        found => found,
    }
}

/// `CF.DEL key item`
pub fn del(Call { keys, args, .. }: Call) -> Done {
    let mut writer = Writer::<Cuckoo>::open(keys, key(&args));
    let removed = missing_if_other(writer.update(|object| object.remove(item(&args))))?;
    let removed = removed.ok_or(error::NOTHING_TO_REMOVE_FROM)?;
    if removed {
        writer.publish_verbatim([REMOVED]);
    }
    Ok(Reply::Bool(removed))
}

/// `CF.COMPACT key`
pub fn compact(Call { keys, args, .. }: Call) -> Done {
    let mut writer = Writer::<Cuckoo>::open(keys, key(&args));
    let changed = missing_if_other(writer.update(Cuckoo::compact))?;
    if changed.ok_or(error::NOTHING_TO_COMPACT)? {
        writer.publish_verbatim([]);
    }
    Ok(Reply::Ok)
}

/// Size of `RedisBloom`'s structure for an object. CF.INFO adds it, so that both modules report the same size.
const OBJECT_BYTES: u64 = 40;
/// Size of `RedisBloom`'s structure for one of the object's filters, which CF.INFO adds too.
const FILTER_BYTES: u64 = 16;

/// `CF.INFO key`
pub fn info(Call { keys, args, .. }: Call) -> Done {
    let reader = Reader::<Cuckoo>::open(keys, key(&args));
    let object = reader.existing()?;
    let stored = object.outline();
    let size = OBJECT_BYTES + FILTER_BYTES * stored.filters + object.size();
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
    Ok(Reply::Table(rows.into()))
}

/// `CF.DEBUG key`
pub fn debug(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::<Cuckoo>::open(keys, key(&args));
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
    Ok(Reply::Sent)
}

/// Stores a new object, which already holds these items, under the empty key. Every parameter is replicated, so
/// that a server with other settings makes the same object.
fn store(writer: Writer<Cuckoo>, object: Cuckoo, params: &Params, items: &[Str]) {
    let name = writer.name().bytes();
    let empty = ValidOutline::of_new(*object.shape());
    let mut change = writer.store(object, None);
    if CuckooOption::ALL.iter().any(|option| option.is(name)) {
        // RedisBloom parses such a key as the option in CF.RESERVE, and replicas here do the same.
        let header = wire::header_of(&empty);
        let arguments = [Argument::Text("1".to_owned()), Argument::Bytes(&header)];
        change.replicate(c"CF.LOADCHUNK", &arguments);
    } else {
        change.replicate(c"CF.RESERVE", &creation(params));
    }
    if !items.is_empty() {
        change.replicate(c"CF.INSERT", &insertion(items));
    }
    let added = (!items.is_empty()).then_some(ADDED);
    change.publish([CREATED].into_iter().chain(added));
}

/// Returns `capacity BUCKETSIZE s MAXITERATIONS n EXPANSION e`.
fn creation(params: &Params) -> Vec<Argument<'static>> {
    let mut arguments = vec![Argument::Number(params.capacity)];
    for (option, value) in [
        (CuckooOption::BUCKET_SIZE, u64::from(params.bucket_size)),
        (CuckooOption::MAX_ITERATIONS, params.max_iterations.into()),
        (CuckooOption::EXPANSION, params.expansion.into()),
    ] {
        arguments.extend([
            Argument::Text(option.word.to_owned()),
            Argument::Number(value),
        ]);
    }
    arguments
}

/// Returns `NOCREATE ITEMS item …`.
fn insertion<'c>(items: &'c [Str<'c>]) -> [Argument<'c>; 3] {
    [
        Argument::Word(c"NOCREATE"),
        Argument::Word(c"ITEMS"),
        Argument::Items(items),
    ]
}
