//! One function per command: parse, open, act, publish, reply.

use std::collections::HashSet;
use std::ffi::CStr;
use std::ops::Range;

use crate::args::{Delete, InfoField, Insert, Origin, Reserve, Words};
use crate::bloom::{
    Added, DecodeError, Filter, Growth, Kind, Limits, Object, Refusal, Seed, Shape, Time, chunks,
    dump,
};
use crate::config;
use crate::ffi::{Argv, Ctx, Keyspace, Str};
use crate::keyspace::{self, Moment, Reader, Readers, Writer};
use crate::numerals::{double_text, integer};
use crate::reply::{Error, Field, Reply, send, send_error};
use crate::stored;

impl Words for Argv<'_> {
    fn count(&self) -> usize {
        self.len()
    }

    fn word(&self, index: usize) -> &[u8] {
        self.string(index).bytes()
    }
}

/// The items among the words.
pub fn items(args: Argv<'_>, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
    args.bytes_in(range)
}

/// The command's key: always its first argument.
pub fn key<'a>(args: &Argv<'a>) -> Str<'a> {
    args.string(1)
}

/// Whether a command comes from a client, or was already executed elsewhere.
pub fn origin(ctx: Ctx) -> Origin {
    if ctx.must_obey() {
        Origin::Elsewhere
    } else {
        Origin::Client
    }
}

/// Requires a number of words within a range.
fn arity(args: &Argv, count: Range<usize>) -> Result<(), Error> {
    if count.contains(&args.len()) {
        Ok(())
    } else {
        Err(Error::Arity)
    }
}

/// BF.EXISTS key item
pub fn exists<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    if args.len() != 3 {
        return ctx.reply_wrong_arity();
    }
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
    if args.len() < 3 {
        return ctx.reply_wrong_arity();
    }
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

/// BF.ADD key item
pub fn add<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    if args.len() != 3 {
        return ctx.reply_wrong_arity();
    }
    let mut writer = Writer::open(keys, key(&args));
    let item = args.string(2);
    let added = writer.update(|object| {
        let limits = || keyspace::limits_for(ctx);
        let plain = object.is_plain();
        plain.then(|| object.add(item.bytes(), Time::default(), None, limits))
    });
    match added {
        Ok(Ok(Some(Ok(Added::New)))) => {
            writer.added_all();
            ctx.reply_bool(true);
        }
        Ok(Ok(Some(Ok(Added::Present | Added::Again)))) => ctx.reply_bool(false),
        Ok(Ok(Some(Err(refusal)))) => send_error(ctx, refusal.into()),
        Err(error) => send_error(ctx, error),
        // No object yet, or one that is not plain.
        Ok(Ok(None) | Err(_)) => match write(ctx, writer, args, &Addition::of_items(2..3)) {
            Ok(outcomes) => match outcomes[0] {
                Ok(added) => ctx.reply_bool(added == Added::New),
                Err(refusal) => send_error(ctx, refusal.into()),
            },
            Err(error) => send_error(ctx, error),
        },
    }
}

/// BF.MADD key item [item ...]
pub fn madd<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    if args.len() < 3 {
        return ctx.reply_wrong_arity();
    }
    let addition = Addition::of_items(2..args.len());
    let writer = Writer::open(keys, key(&args));
    reply_outcomes(ctx, write(ctx, writer, args, &addition));
}

/// BF.INSERT key [option ...] [ITEMS item ...]
pub fn insert<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let outcome = Insert::parse(&args, config::defaults(), origin(ctx)).and_then(|request| {
        if let (Some(wanted), Some(shape)) = (request.scale_to, &request.create) {
            require_reach(shape, wanted)?;
        }
        let addition = Addition {
            create: request.create,
            seed: request.seed,
            moment: Moment {
                at_ms: replicated_time(ctx, request.at_ms)?,
                ttl_ms: request.ttl_ms,
                id: request.id,
            },
            items: request.items,
            only_items: false,
        };
        write(ctx, Writer::open(keys, key(&args)), args, &addition)
    });
    reply_outcomes(ctx, outcome);
}

/// The time in a command from a primary or an AOF. A client must not give one.
fn replicated_time(ctx: Ctx, at_ms: Option<u64>) -> Result<Option<u64>, Error> {
    match at_ms {
        Some(_) if !ctx.must_obey() => Err(Error::UnknownOption),
        at_ms => Ok(at_ms),
    }
}

/// Refuses an object that could not grow to this capacity.
fn require_reach(shape: &Shape, wanted: u64) -> Result<(), Error> {
    match shape.reach(keyspace::limits()) {
        (reached, _) if reached >= wanted => Ok(()),
        (_, Some(Refusal::RateTooSmall)) => Err(Error::ScaleToRate),
        _ => Err(Error::ScaleToMemory),
    }
}

/// The outcome for each item of a command, in order. A refusal ends the list.
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

/// Items to add.
struct Addition {
    /// The object to create if there is none.
    create: Option<Shape>,
    seed: Option<Seed>,
    /// The time of the write, and the items' time to live and id.
    moment: Moment,
    /// The indices of the items among the words.
    items: Range<usize>,
    /// Whether the command has nothing but items after its key.
    only_items: bool,
}

impl Addition {
    fn of_items(items: Range<usize>) -> Self {
        Self {
            create: Some(Shape::plain(config::defaults())),
            seed: None,
            moment: Moment::default(),
            items,
            only_items: true,
        }
    }

    /// Requires that an object of this kind can take the items' time to live and id.
    #[inline]
    fn require_suits(&self, kind: Kind) -> Result<(), Error> {
        match kind {
            Kind::Plain | Kind::Counting if self.moment.ttl_ms.is_some() => Err(Error::NoWindow),
            Kind::Plain | Kind::Windowed(_) if self.moment.id.is_some() => Err(Error::NoCounters),
            _ => Ok(()),
        }
    }

    /// The time and the moment for an object of this shape, if it can take the items.
    fn moment_for(&self, ctx: Ctx, shape: &Shape) -> Result<(Time, Moment), Error> {
        self.require_suits(shape.kind)?;
        let Moment { at_ms, ttl_ms, id } = self.moment;
        let window = shape.window();
        if window.is_some_and(|window| ttl_ms > Some(window.ms())) && !ctx.must_obey() {
            return Err(Error::LongTtl);
        }
        // Without periods no time matters, and none is read.
        let at_ms = window.map(|_| at_ms.unwrap_or_else(Ctx::now_ms));
        let now_ms = at_ms.unwrap_or(0);
        Ok((Time { now_ms, ttl_ms }, Moment { at_ms, ttl_ms, id }))
    }
}

/// Adds items to the object under the command's key, or to a new one.
fn write<'a>(
    ctx: Ctx<'a>,
    mut writer: Writer<'_, 'a>,
    args: Argv<'a>,
    addition: &Addition,
) -> Result<Outcomes, Error> {
    let range = addition.items.clone();
    let (first, count) = (range.start, range.len());
    let limits = || keyspace::limits_for(ctx);
    let written = writer.update(|object| {
        let mut outcomes = Outcomes::with_capacity(count);
        let items = items(args, range.clone());
        let (mut time, mut moment) = (Time::default(), None);
        if object.is_plain() {
            addition.require_suits(Kind::Plain)?;
        } else {
            let (now, of_items) = addition.moment_for(ctx, &object.shape())?;
            (time, moment) = (now, Some(of_items));
        }
        let tidied = object.tidy(time.now_ms);
        let id = addition.moment.id;
        object.add_each(items, time, id, limits, |outcome| outcomes.push(outcome));
        Ok::<_, Error>((outcomes, moment.map(|moment| (tidied, moment))))
    })?;
    let Ok(written) = written else {
        let shape = addition.create.as_ref().ok_or(Error::NotFound)?;
        return create(ctx, writer, shape, addition, args, None);
    };
    let (outcomes, tidied) = written?;
    let changed = || changed_items(args, first, &outcomes);
    match tidied {
        Some((tidied, moment)) => {
            let changed = changed();
            if tidied || !changed.is_empty() {
                writer.added_at(&changed, &moment);
            }
        }
        None if addition.only_items && outcomes.iter().all(|o| *o == Ok(Added::New)) => {
            writer.added_all();
        }
        None => {
            let changed = changed();
            if !changed.is_empty() {
                writer.added(&changed);
            }
        }
    }
    Ok(outcomes)
}

/// The items that changed the object.
fn changed_items<'a>(args: Argv<'a>, first: usize, outcomes: &Outcomes) -> Vec<Str<'a>> {
    let indexed = outcomes.iter().enumerate();
    let changed = indexed.filter(|(_, o)| matches!(o, Ok(Added::New | Added::Again)));
    changed
        .map(|(index, _)| args.string(first + index))
        .collect()
}

/// Creates an object with items in it, under a key with this time to live. On an error there is no key.
fn create<'a>(
    ctx: Ctx<'a>,
    writer: Writer<'_, 'a>,
    shape: &Shape,
    addition: &Addition,
    args: Argv<'a>,
    ttl_ms: Option<u64>,
) -> Result<Outcomes, Error> {
    let expires_ms = ttl_ms.map(expiry).transpose()?;
    let limits = keyspace::limits_for(ctx);
    let seed = addition.seed.unwrap_or_else(config::new_seed);
    let (time, moment) = addition.moment_for(ctx, shape)?;
    let mut object = Object::new(shape, seed, time, limits)?;
    let range = addition.items.clone();
    let first = range.start;
    let mut outcomes = Outcomes::with_capacity(range.len());
    let items = items(args, range);
    object.add_each(items, time, moment.id, || limits, |o| outcomes.push(o));
    let changed = changed_items(args, first, &outcomes);
    writer.create(object, &changed, &moment, expires_ms);
    Ok(outcomes)
}

/// The point in time at which a time to live that starts now ends.
fn expiry(ttl_ms: u64) -> Result<i64, Error> {
    let at_ms = Ctx::now_ms().checked_add(ttl_ms);
    let at_ms = at_ms.and_then(|ms| i64::try_from(ms).ok());
    at_ms.ok_or(Error::Bad(Field::Ttl))
}

/// BF.CARD key
pub fn card<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    if args.len() != 2 {
        return ctx.reply_wrong_arity();
    }
    let reader = Reader::open(keys, key(&args));
    let items = reader
        .object()
        .map(|object| object.map_or(0, |object| object.items(Ctx::now_ms)));
    send(ctx, items.map(Reply::Count));
}

/// BF.RESERVE key rate capacity [option ...]
pub fn reserve<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let reserved = Reserve::parse(&args, config::defaults()).and_then(|request| {
        let mut writer = Writer::open(keys, key(&args));
        if writer.exists()? {
            return if request.unless_exists {
                Ok(Reply::Null)
            } else {
                Err(Error::Exists)
            };
        }
        let addition = Addition::of_items(0..0);
        create(ctx, writer, &request.shape, &addition, args, request.ttl_ms)?;
        Ok(Reply::Ok)
    });
    send(ctx, reserved);
}

/// BF.INFO key [field]
pub fn info<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let field = match InfoField::parse(&args) {
        Ok(field) => field,
        Err(error) => return send_error(ctx, error),
    };
    let reader = Reader::open(keys, key(&args));
    let reply = reader.object().and_then(|object| {
        let object = object.ok_or(Error::NotFound)?;
        let shape = object.shape();
        let Some(field) = field else {
            let rows = InfoField::ALL.into_iter();
            let rows = rows.filter_map(|field| Some((title(field), value(object, &shape, field)?)));
            return Ok(Reply::Table(rows.collect()));
        };
        let value = value(object, &shape, field).ok_or(Error::UnknownField)?;
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
        InfoField::EstimatedError => c"Estimated error rate",
        InfoField::Window => c"Window",
        InfoField::Periods => c"Periods",
        InfoField::LivePeriods => c"Live periods",
    }
}

/// The value of a field, or `None` for one that the object does not have.
fn value(object: &Object, shape: &Shape, field: InfoField) -> Option<Reply<'static>> {
    let (params, window) = (shape.params, shape.window());
    let scaling = params.growth != Growth::Fixed;
    let now = Ctx::now_ms;
    Some(match field {
        InfoField::Capacity => Reply::Count(object.capacity(now)),
        InfoField::Size => Reply::Count(stored::memory_bytes(object)),
        InfoField::Filters => Reply::Count(object.filter_count(now)),
        InfoField::Items => Reply::Count(object.items(now)),
        InfoField::Expansion if !scaling => Reply::Null,
        InfoField::Expansion => Reply::Count(u64::from(params.growth.expansion())),
        InfoField::Error => Reply::Rate(params.error_rate.get()),
        InfoField::Tightening if scaling => Reply::Rate(params.tightening.ratio()),
        InfoField::MaxScaledCapacity if scaling => {
            Reply::Count(object.reach(now, keyspace::limits()))
        }
        InfoField::Tightening | InfoField::MaxScaledCapacity => return None,
        InfoField::EstimatedError => Reply::Rate(object.estimated_rate(now)),
        InfoField::Window => Reply::Count(window?.period_ms()),
        InfoField::Periods => Reply::Count(window?.periods()),
        InfoField::LivePeriods => Reply::Count(object.live_periods(now)?),
    })
}

/// BF.LOAD key dump [ttl-ms]
pub fn load<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    send(ctx, try_load(ctx, keys, args));
}

fn try_load<'a>(
    ctx: Ctx<'a>,
    keys: &mut Keyspace<'a>,
    args: Argv<'a>,
) -> Result<Reply<'static>, Error> {
    arity(&args, 3..5)?;
    let ttl_ms = if args.len() == 4 {
        let ttl = integer(args.word(3)).map(u64::try_from);
        ttl.and_then(Result::ok).ok_or(Error::Bad(Field::Ttl))?
    } else {
        0
    };
    // As in RESTORE, 0 means no time to live.
    let expires_ms = match ttl_ms {
        0 => None,
        ttl => Some(expiry(ttl)?),
    };
    let mut writer = Writer::open(keys, key(&args));
    if writer.exists()? {
        return Err(Error::Busy);
    }
    let bytes = args.string(2).bytes();
    let object = dump::decode(bytes).map_err(|error| match error {
        DecodeError::UnsupportedVersion => Error::UnsupportedVersion,
        DecodeError::Truncated | DecodeError::Malformed(_) => Error::Undecodable,
        DecodeError::NoMemory => Error::Refused(Refusal::OutOfMemory),
    })?;
    if !object.is_within(keyspace::limits_for(ctx)) {
        return Err(Error::Refused(Refusal::MemoryLimit));
    }
    writer.create_loaded(object, bytes, expires_ms);
    Ok(Reply::Ok)
}

fn cursor(args: &Argv) -> Result<i64, Error> {
    integer(args.word(2)).ok_or(Error::Bad(Field::Cursor))
}

/// BF.SCANDUMP key cursor
pub fn scandump<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let cursor = match arity(&args, 3..4).and_then(|()| cursor(&args)) {
        Ok(cursor) => cursor,
        Err(error) => return send_error(ctx, error),
    };
    let reader = Reader::open(keys, key(&args));
    let object = reader
        .object()
        .and_then(|object| object.ok_or(Error::NotFound));
    match object {
        Ok(object) => {
            // A negative cursor is past the end, as one above all bitmaps is.
            let cursor = u64::try_from(cursor).unwrap_or(u64::MAX);
            let (next, piece) = chunks::piece(object, cursor);
            let pair = vec![Reply::Count(next), Reply::Bytes(piece.bytes())];
            send(ctx, Ok(Reply::List(pair)));
        }
        Err(error) => send_error(ctx, error),
    }
}

/// BF.LOADCHUNK key cursor data
pub fn loadchunk<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    send(ctx, try_loadchunk(ctx, keys, args));
}

fn try_loadchunk<'a>(
    ctx: Ctx<'a>,
    keys: &mut Keyspace<'a>,
    args: Argv<'a>,
) -> Result<Reply<'static>, Error> {
    arity(&args, 4..5)?;
    let cursor = cursor(&args)?;
    let data = args.string(3).bytes();
    let mut writer = Writer::open(keys, key(&args));
    if cursor == 1 {
        writer.require_empty()?;
        let begun = chunks::begin(data, keyspace::limits_for(ctx));
        let begun = begun.map_err(|error| match error {
            None => Error::Refused(Refusal::MemoryLimit),
            Some(_) => Error::BadChunk,
        })?;
        writer.begin(begun);
    } else {
        let cursor = u64::try_from(cursor).map_err(|_| Error::BadChunk)?;
        writer.load_chunk(cursor, data)?;
    }
    Ok(Reply::Ok)
}

/// BF.DEBUG key
pub fn debug<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    if args.len() != 2 {
        return ctx.reply_wrong_arity();
    }
    let reader = Reader::open(keys, key(&args));
    let reply = reader.object().and_then(|object| {
        let object = object.ok_or(Error::NotFound)?;
        let items = object.items(Ctx::now_ms);
        let mut lines = vec![Reply::Text(format!("size:{items}"))];
        let counting = object.shape().is_counting();
        for (period, filter, rate) in object.filters(Ctx::now_ms) {
            let line = debug_line(filter, object.hasher().bits(), rate);
            let period = period.map(|period| format!(" period:{period}"));
            let cell = if counting { " cell:4" } else { "" };
            lines.push(Reply::Text(line + &period.unwrap_or_default() + cell));
        }
        Ok(Reply::List(lines))
    });
    send(ctx, reply);
}

fn debug_line(filter: &Filter, hash_bits: u32, rate: f64) -> String {
    format!(
        "bytes:{} bits:{} hashes:{} hashwidth:{hash_bits} capacity:{} size:{} ratio:{}",
        filter.geometry().cell_bytes,
        filter.positions(),
        filter.hashes(),
        filter.capacity(),
        filter.items(),
        double_text(rate)
    )
}

/// BF.DEL key item [ID id]
pub fn del<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let removed = Delete::parse(&args).and_then(|request| remove(keys, args, 2..3, request.id));
    match removed {
        Ok(removed) => ctx.reply_bool(removed[0]),
        Err(error) => send_error(ctx, error),
    }
}

/// BF.MDEL key item [item ...]
pub fn mdel<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    if args.len() < 3 {
        return ctx.reply_wrong_arity();
    }
    match remove(keys, args, 2..args.len(), None) {
        Ok(removed) => {
            ctx.reply_array(removed.len());
            for removed in removed {
                ctx.reply_bool(removed);
            }
        }
        Err(error) => send_error(ctx, error),
    }
}

/// Removes items from the object under the command's key. Returns for each whether it was removed.
fn remove<'a>(
    keys: &mut Keyspace<'a>,
    args: Argv<'a>,
    range: Range<usize>,
    id: Option<u64>,
) -> Result<Vec<bool>, Error> {
    let mut writer = Writer::open(keys, key(&args));
    let removed = writer.update(|object| {
        require_counters(object)?;
        let items = items(args, range.clone());
        let of_each = items.map(|item| object.remove(item, id));
        Ok::<_, Error>(of_each.collect::<Vec<_>>())
    })?;
    let Ok(removed) = removed else {
        return Ok(vec![false; range.len()]);
    };
    let removed = removed?;
    let indexed = range.zip(&removed).filter(|(_, removed)| **removed);
    let gone: Vec<Str> = indexed.map(|(index, _)| args.string(index)).collect();
    if !gone.is_empty() {
        writer.removed(&gone, id);
    }
    Ok(removed)
}

fn require_counters(object: &Object) -> Result<(), Error> {
    if object.shape().is_counting() {
        Ok(())
    } else {
        Err(Error::NoCounters)
    }
}

/// BF.COUNT key item
pub fn count<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    if args.len() != 3 {
        return ctx.reply_wrong_arity();
    }
    let reader = Reader::open(keys, key(&args));
    let count = reader.object().and_then(|object| {
        let Some(object) = object else { return Ok(0) };
        require_counters(object)?;
        Ok(object.count(args.string(2).bytes()))
    });
    send(ctx, count.map(Reply::Count));
}

/// BF.MISSING key item [item ...]
pub fn missing<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    if args.len() < 3 {
        return ctx.reply_wrong_arity();
    }
    let reader = Reader::open(keys, key(&args));
    let missing = reader.object().map(|object| match object {
        Some(object) => missing_of(object, args),
        None => items(args, 2..args.len()).collect::<HashSet<_>>().len() as u64,
    });
    send(ctx, missing.map(Reply::Count));
}

/// How many different items an object does not claim. Few are missing, or none, of what is asked for most often,
/// and two are hardly ever the same; so those that are missing are sorted by the hashes that they have anyway.
fn missing_of(object: &Object, args: Argv) -> u64 {
    let (mut missing, mut index) = (Vec::new(), 2);
    let given = items(args, 2..args.len());
    object.contains_each_hashed(given, Ctx::now_ms, |hash, found| {
        if !found {
            missing.push((hash, index));
        }
        index += 1;
    });
    missing.sort_unstable_by_key(|(hash, _)| *hash);
    let different = |of_one: &[(u64, usize)]| {
        if let [_] = of_one {
            return 1;
        }
        let items = of_one.iter().map(|(_, index)| args.string(*index).bytes());
        items.collect::<HashSet<_>>().len() as u64
    };
    let of_each_hash = missing.chunk_by(|(one, _), (other, _)| one == other);
    of_each_hash.map(different).sum()
}

/// BF.MERGE key source [source ...]
pub fn merge<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    send(ctx, try_merge(ctx, keys, args).map(|()| Reply::Ok));
}

/// Frees the periods of the object under the command's key that have passed by a time.
fn free_passed<'a>(keys: &mut Keyspace<'a>, args: &Argv<'a>, at_ms: Option<u64>) {
    let Some(now_ms) = at_ms else { return };
    let mut writer = Writer::open(keys, key(args));
    if let Ok(Ok(true)) = writer.update(|object| object.tidy(now_ms)) {
        let moment = Moment {
            at_ms,
            ..Moment::default()
        };
        writer.added_at(&[], &moment);
    }
}

fn try_merge<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) -> Result<(), Error> {
    if args.len() < 3 {
        return Err(Error::Arity);
    }
    // Merging a filter with itself changes nothing, so each name counts once.
    let mut names = HashSet::from([key(&args).bytes()]);
    let others = (2..args.len()).map(|index| args.string(index));
    let others: Vec<Str> = others.filter(|name| names.insert(name.bytes())).collect();
    // An existing destination is a source, and the only one that may be missing.
    let mut readers = Readers::new(keys);
    let existed = readers.open(key(&args))?.is_some();
    for name in &others {
        readers.open(*name)?.ok_or(Error::NotFound)?;
    }
    if others.is_empty() {
        return if existed {
            Ok(())
        } else {
            Err(Error::NotFound)
        };
    }
    let sources = readers.objects();
    // Only the primary reads the clock, and replicates the time.
    let has_window = sources
        .iter()
        .any(|object| object.shape().window().is_some());
    let at_ms = (has_window && !ctx.must_obey()).then(Ctx::now_ms);
    let limits = keyspace::limits_for(ctx);
    let merged = Object::union(&sources, at_ms, limits).map_err(Error::Unlike)?;
    let mut merged = match merged {
        Some(merged) => merged,
        // It has all of it. What has passed is freed, as by any write.
        None if existed => {
            free_passed(keys, &args, at_ms);
            return Ok(());
        }
        // With what has passed, as on a replica, which doesn't know that: its rate may be another.
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
        // Subscribers created it when they were told that a key is not there. It is a source, too.
        drop(writer);
        return try_merge(ctx, keys, args);
    }
    writer.merge(merged, moment)
}
