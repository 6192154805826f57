//! BF.ADD, MADD, INSERT, and RESERVE.

use std::ops::Range;

use crate::bloom::keys::{self, Moment, Writer};
use crate::bloom::settings;
use crate::ffi::{Argv, Ctx, Keyspace, Str};
use crate::reply::{Reply, send, send_error};
use valkeybloom_protocol::bloom::{Insert, Reserve};
use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::{Added, Kind, New, Object, Refusal, Shape, Time, chunks};

use crate::request::{expiry, items, key, origin, reserved};

/// BF.ADD key item
pub fn add<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let mut writer = Writer::open(keys, key(&args));
    let item = args.string(2);
    let added = writer.update(|object| {
        let limits = || keys::limits_for(ctx);
        let plain = object.is_plain();
        plain.then(|| object.add(item.bytes(), Time::default(), None, limits))
    });
    match added.map(Option::flatten) {
        Ok(Some(Ok(Added::New))) => {
            writer.added_all();
            ctx.reply_bool(true);
        }
        Ok(Some(Ok(Added::Present | Added::Again))) => ctx.reply_bool(false),
        Ok(Some(Err(refusal))) => send_error(ctx, refusal.into()),
        Err(error) => send_error(ctx, error),
        // No object yet, or one that is not plain.
        Ok(None) => match write(ctx, writer, args, &Addition::of_items(2..3)) {
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
    let addition = Addition::of_items(2..args.len());
    let writer = Writer::open(keys, key(&args));
    reply_outcomes(ctx, write(ctx, writer, args, &addition));
}

/// BF.INSERT key [option ...] [ITEMS item ...]
pub fn insert<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let outcome = Insert::parse(&args, settings::defaults(), origin(ctx)).and_then(|request| {
        if let (Some(wanted), Some(Ok(new))) = (request.scale_to, &request.create) {
            require_reach(new, wanted)?;
        }
        let addition = Addition {
            create: request.create,
            seed: request.seed,
            moment: Moment {
                at_ms: replicated(ctx, request.at_ms)?,
                ttl_ms: request.ttl_ms,
                id: request.id,
                room: replicated(ctx, request.room)?,
            },
            items: request.items,
            only_items: false,
        };
        write(ctx, Writer::open(keys, key(&args)), args, &addition)
    });
    reply_outcomes(ctx, outcome);
}

/// A number that only commands from a primary or an AOF give. A client must not.
fn replicated(ctx: Ctx, number: Option<u64>) -> Result<Option<u64>, Error> {
    match number {
        Some(_) if !ctx.must_obey() => Err(Error::UnknownOption),
        number => Ok(number),
    }
}

/// Refuses an object that could not grow to this capacity.
fn require_reach(new: &New, wanted: u64) -> Result<(), Error> {
    match new.reach(keys::limits()) {
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
    /// The object to create under an empty key, or why it can't be created; not used by commands that have only items
    /// ([`wanted`](Self::wanted)).
    create: Option<Result<New, Error>>,
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
            create: None,
            seed: None,
            moment: Moment::default(),
            items,
            only_items: true,
        }
    }

    /// The object to create under an empty key.
    fn wanted(&self, ctx: Ctx) -> Result<New, Error> {
        if self.only_items {
            settings::defaults().plain(origin(ctx))
        } else {
            self.create.ok_or(Error::NotFound)?
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
        let Moment { at_ms, ttl_ms, .. } = self.moment;
        let window = shape.window();
        if window.is_some_and(|window| ttl_ms > Some(window.ms())) && !ctx.must_obey() {
            return Err(Error::LongTtl);
        }
        // Without periods no time matters, and none is read.
        let at_ms = window.map(|_| at_ms.unwrap_or_else(Ctx::now_ms));
        let now_ms = at_ms.unwrap_or(0);
        Ok((
            Time { now_ms, ttl_ms },
            Moment {
                at_ms,
                ..self.moment
            },
        ))
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
    let limits = || keys::limits_for(ctx);
    let written = writer.update(|object| {
        let items = items(args, range.clone());
        let (mut time, mut moment) = (Time::default(), None);
        if object.is_plain() {
            addition.require_suits(Kind::Plain)?;
        } else {
            let (now, of_items) = addition.moment_for(ctx, &object.shape())?;
            (time, moment) = (now, Some(of_items));
        }
        // What was changed can't be refused any more.
        let (mut outcomes, changed) = (reserved(count)?, reserved(count)?);
        let tidied = object.tidy(time.now_ms);
        let room = object.room(time);
        if let Some(of_items) = &moment
            && ctx.must_obey()
            && count > 0
        {
            // What a primary chose depends on its limits, so replicas do not choose.
            let reserved = object.shape().params.capacity;
            object.begin_period(time, of_items.room.unwrap_or(reserved), limits())?;
        }
        let id = addition.moment.id;
        object.add_each(items, time, id, limits, |outcome| outcomes.push(outcome));
        if let (Some(of_items), None) = (&mut moment, room) {
            let reserved = object.shape().params.capacity;
            of_items.room = object.room(time).filter(|room| *room != reserved);
        }
        Ok::<_, Error>((outcomes, changed, moment.map(|moment| (tidied, moment))))
    })?;
    let Some(written) = written else {
        return create(ctx, writer, &addition.wanted(ctx)?, addition, args, None);
    };
    let (outcomes, mut changed, tidied) = written?;
    match tidied {
        Some((tidied, moment)) => {
            list_changed(&mut changed, args, first, &outcomes);
            if tidied || !changed.is_empty() {
                writer.added_at(&changed, &moment);
            }
        }
        None if addition.only_items && outcomes.iter().all(|o| *o == Ok(Added::New)) => {
            writer.added_all();
        }
        None => {
            list_changed(&mut changed, args, first, &outcomes);
            if !changed.is_empty() {
                writer.added(&changed);
            }
        }
    }
    Ok(outcomes)
}

/// Lists the items that changed the object.
fn list_changed<'a>(list: &mut Vec<Str<'a>>, args: Argv<'a>, first: usize, outcomes: &Outcomes) {
    let indexed = outcomes.iter().enumerate();
    let changed = indexed.filter(|(_, o)| matches!(o, Ok(Added::New | Added::Again)));
    list.extend(changed.map(|(index, _)| args.string(first + index)));
}

/// Creates an object with items in it, under a key with this time to live. On an error there is no key.
fn create<'a>(
    ctx: Ctx<'a>,
    writer: Writer<'_, 'a>,
    new: &New,
    addition: &Addition,
    args: Argv<'a>,
    ttl_ms: Option<u64>,
) -> Result<Outcomes, Error> {
    let expires_ms = ttl_ms.map(expiry).transpose()?;
    let limits = keys::limits_for(ctx);
    let seed = addition.seed.unwrap_or_else(settings::new_seed);
    let (time, moment) = addition.moment_for(ctx, &new.shape())?;
    let range = addition.items.clone();
    let (first, count) = (range.start, range.len());
    let (mut outcomes, mut changed) = (reserved(count)?, reserved(count)?);
    let mut object = Object::make(new, seed, time, limits)?;
    let header = match new {
        New::Own(_) => None,
        New::RedisBloom { .. } => {
            let header = chunks::header(&object);
            Some(header.ok_or(Error::Refused(Refusal::OutOfMemory))?)
        }
    };
    let items = items(args, range);
    object.add_each(items, time, moment.id, || limits, |o| outcomes.push(o));
    list_changed(&mut changed, args, first, &outcomes);
    writer.create(object, header.as_deref(), &changed, &moment, expires_ms);
    Ok(outcomes)
}

/// BF.RESERVE key rate capacity [option ...]
pub fn reserve<'a>(ctx: Ctx<'a>, keys: &mut Keyspace<'a>, args: Argv<'a>) {
    let reserved = Reserve::parse(&args, settings::defaults(), origin(ctx)).and_then(|request| {
        let mut writer = Writer::open(keys, key(&args));
        if writer.exists()? {
            return if request.unless_exists {
                Ok(Reply::Null)
            } else {
                Err(Error::Exists)
            };
        }
        let addition = Addition::of_items(0..0);
        create(
            ctx,
            writer,
            &request.create?,
            &addition,
            args,
            request.ttl_ms,
        )?;
        Ok(Reply::Ok)
    });
    send(ctx, reserved);
}
