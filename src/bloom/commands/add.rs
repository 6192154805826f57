//! BF.ADD, MADD, INSERT, and RESERVE.
//!
//! BF.ADD to a plain filter has a path of its own: it allocates nothing, and is replicated as it came. Everything else goes
//! through [`write()`], which creates the object if it is missing, adds all items, and publishes once.
//!
//! What is replicated depends on what happened, so that a replica with other limits, settings or another clock gets the
//! same object: verbatim if every item was new; otherwise the items that changed the object, with the time if it has a
//! window, and with leave to exceed the capacity if the primary did; nothing if nothing changed. An item that is refused
//! does not undo those before it.

use std::cell::Cell;
use std::ops::Range;

use valkeybloom_protocol::bloom::{
    Insert, Moment, Once, Reserve, is_answered, require_suits, require_ttl_within,
};
use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::{
    Added, Growth, Kind, Limits, New, Object, Refusal, Shape, Time, chunks,
};
use valkeybloom_sketches::{Probe, Seed};

use crate::bloom::keys::{self, Creation, Writer};
use crate::bloom::receipts::{self, KnownAnswers, PendingAnswers, Place};
use crate::bloom::settings;
use crate::feeds::FeedSlot;
use crate::ffi::{Argv, Call, Ctx, Done, Keyspace, Reply, Str, server};
use crate::request::{List, expiry, item, items, key, origin, reserved};
use crate::settings::maker;

/// `BF.ADD key item`
pub fn add(Call { ctx, keys, args }: Call) -> Done {
    let mut writer = Writer::open(keys, key(&args));
    let added = writer.update_fed(|object, feed| {
        let saturation = Saturation::of(ctx, false);
        let limits = || saturation.limits();
        let plain = object.is_plain();
        let added = plain.then(|| {
            let probe = object.probe(item(&args));
            let added = object.add_probe(probe, Time::default(), limits);
            if matches!(added, Ok(Added::New)) && feed.may_be_open() {
                append(feed, object, probe);
            }
            added
        });
        added.map(|added| (added, saturation.is_used_by(object)))
    });
    let added = match added {
        Err(Error::STILL_LOADING) => None,
        added => added?,
    };
    let outcome = if let Some((added, saturate)) = added.flatten() {
        match added {
            Ok(Added::New) if saturate => {
                let moment = Moment {
                    saturate,
                    ..Moment::default()
                };
                writer.publish_added_at(&[args.string(2)], &moment, None);
            }
            Ok(Added::New) => writer.publish_verbatim([keys::ADDED]),
            _ => {}
        }
        added
    } else {
        // There is no object yet, or the object is not plain, or lacks chunks.
        write(ctx, writer, args, &Addition::of_items(2..3))?[0]
    };
    match outcome {
        Ok(added) => ctx.reply_bool(added == Added::New),
        Err(Refusal::Full) => ctx.reply_error_element(Refusal::Full.into()),
        Err(refusal) => return Err(refusal.into()),
    }
    Ok(Reply::Sent)
}

/// Appends an item to the feed of the object that it was new to.
#[cold]
fn append(feed: &FeedSlot, object: &Object, probe: Probe) {
    feed.update(|feed| feed.push(probe, || keys::feed_bytes(object)));
}

/// Adds items to a plain object, and appends the new ones to its feed. Returns false, and does nothing, without one.
fn add_and_append<'i>(
    feed: &FeedSlot,
    object: &mut Object,
    items: impl Iterator<Item = &'i [u8]>,
    limits: impl Fn() -> Limits,
    outcome: impl FnMut(Result<Added, Refusal>),
) -> bool {
    feed.update(|feed| {
        let most_bytes = keys::feed_bytes(object);
        object.add_each_probed(items, limits, outcome, |new| feed.push(new, || most_bytes));
    })
}

/// `BF.MADD key item [item ...]`
pub fn madd(Call { ctx, keys, args }: Call) -> Done {
    let addition = Addition::of_items(2..args.len());
    let writer = Writer::open(keys, key(&args));
    reply_outcomes(ctx, &[], &write(ctx, writer, args, &addition)?);
    Ok(Reply::Sent)
}

/// `BF.INSERT key [option ...] [ITEMS item ...]`
pub fn insert(Call { ctx, keys, args }: Call) -> Done {
    if is_answered(&args) && ctx.must_obey() {
        receipts::replay(keys, &args);
        return Ok(Reply::Ok);
    }
    let request = Insert::parse(&args, settings::defaults(), origin(ctx))?;
    if let Some(Ok(new)) = &request.create {
        let errors = [Error::SCALE_TO_RATE, Error::SCALE_TO_MEMORY];
        require_reach(ctx, new, request.scale_to, errors)?;
        require_reach(ctx, new, request.grow_to, GROWTH)?;
    }
    let moment = request.moment;
    let is_replicated = moment.at_ms.is_some() || moment.saturate;
    if is_replicated && !ctx.must_obey() {
        return Err(Error::UNKNOWN_OPTION);
    }
    let addition = Addition {
        create: request.create,
        seed: request.seed,
        moment,
        only_items: false,
        ..Addition::of_items(request.items)
    };
    if let Some(once) = request.once {
        return insert_once(ctx, keys, args, addition, &once);
    }
    let writer = Writer::open(keys, key(&args));
    reply_outcomes(ctx, &[], &write(ctx, writer, args, &addition)?);
    Ok(Reply::Sent)
}

/// Adds the items that the receipt has no answers for, and replies with its answers and the new ones.
fn insert_once<'a>(
    ctx: Ctx<'a>,
    keys: &mut Keyspace<'a>,
    args: Argv<'a>,
    mut addition: Addition<'a>,
    once: &Once,
) -> Done {
    let count = addition.items.len();
    let mut known = receipts::look_up(keys, &args, once, count)?;
    if replied(ctx, keys, &known, count) {
        return Ok(Reply::Sent);
    }
    let mut writer = Writer::open(keys, key(&args));
    if writer.was_missing() {
        // Subscribers of its expiry may have changed the receipt.
        drop(writer);
        known = receipts::look_up(keys, &args, once, count)?;
        if replied(ctx, keys, &known, count) {
            return Ok(Reply::Sent);
        }
        writer = Writer::open(keys, key(&args));
    }
    addition.items.start += known.answers.len();
    addition.place = Some(known.rest);
    reply_outcomes(ctx, &known.answers, &write(ctx, writer, args, &addition)?);
    Ok(Reply::Sent)
}

/// Replies if the receipt has the answers of all `count` items, whose filter may be gone. Returns whether it has.
fn replied<'a>(
    ctx: Ctx<'a>,
    keys: &mut Keyspace<'a>,
    known: &KnownAnswers<'a>,
    count: usize,
) -> bool {
    let has_all = count > 0 && known.answers.len() == count;
    if has_all {
        receipts::touch(keys, known.rest.receipt);
        reply_outcomes(ctx, &known.answers, &[]);
    }
    has_all
}

/// The errors of an object that can't grow to what SCALETO says: its rates get too small, or it takes too much memory.
const GROWTH: [Error; 2] = [Error::GROWTH_TO_RATE, Error::GROWTH_TO_MEMORY];

/// Requires that a client's object could grow to this capacity, if it is given. The errors are for rates that are too small,
/// and for too much memory.
fn require_reach(
    ctx: Ctx,
    new: &New,
    wanted: Option<u64>,
    [rate, memory]: [Error; 2],
) -> Result<(), Error> {
    let Some(wanted) = wanted.filter(|_| !ctx.must_obey()) else {
        return Ok(());
    };
    match new.reach(keys::limits()) {
        (reached, _) if reached >= wanted => Ok(()),
        (_, Some(Refusal::RateTooSmall)) => Err(rate),
        _ => Err(memory),
    }
}

/// The outcome for each item of a command, in order. A refusal ends the list.
type Outcomes = List<Result<Added, Refusal>>;

/// Replies with the answers that a receipt had, and the outcomes of the other items.
fn reply_outcomes(ctx: Ctx, known: &[bool], outcomes: &[Result<Added, Refusal>]) {
    ctx.reply_array(known.len() + outcomes.len());
    for answer in known {
        ctx.reply_bool(*answer);
    }
    for outcome in outcomes {
        match outcome {
            Ok(added) => ctx.reply_bool(*added == Added::New),
            Err(refusal) => ctx.reply_error_element((*refusal).into()),
        }
    }
}

/// Items to add.
struct Addition<'a> {
    /// The object to create under an empty key, or the error if it can't be created. Commands that have only items
    /// create a plain object instead ([`new_object`](Self::new_object)).
    create: Option<Result<New, Error>>,
    /// The time to live of a new key.
    ttl_ms: Option<u64>,
    seed: Option<Seed>,
    /// The time of the write, and the items' time to live.
    moment: Moment,
    /// Where the answers belong, if a receipt keeps them.
    place: Option<Place<'a>>,
    /// The indices of the items among the words.
    items: Range<usize>,
    /// Whether the command has nothing but items after its key.
    only_items: bool,
}

impl<'a> Addition<'a> {
    fn of_items(items: Range<usize>) -> Self {
        Self {
            create: None,
            ttl_ms: None,
            seed: None,
            moment: Moment::default(),
            place: None,
            items,
            only_items: true,
        }
    }

    /// Returns the object to create under an empty key.
    fn new_object(&self, ctx: Ctx) -> Result<New, Error> {
        if self.only_items {
            settings::defaults().plain(origin(ctx))
        } else {
            self.create.ok_or(Error::NOT_FOUND)?
        }
    }

    /// Returns an empty list for the answers of the items, if a receipt keeps them.
    fn pending_answers(&self) -> Result<Option<PendingAnswers<'a>>, Error> {
        let with_room = |place| PendingAnswers::with_room(place, self.items.len());
        self.place.map(with_room).transpose()
    }

    /// Returns the time and the moment of the write for an object of this shape, or an error if the object does not
    /// support the items' time to live.
    fn moment_for(&self, ctx: Ctx, shape: &Shape) -> Result<(Time, Moment), Error> {
        let Moment { at_ms, ttl_ms, .. } = self.moment;
        require_suits(shape.kind, ttl_ms)?;
        if !ctx.must_obey() {
            require_ttl_within(shape.kind, ttl_ms)?;
        }
        let window = shape.window();
        // An object without periods needs no time, so the clock is not read.
        let at_ms = window.map(|_| at_ms.unwrap_or_else(server::now_ms));
        let now_ms = at_ms.unwrap_or(0);
        let moment = Moment {
            at_ms,
            ..self.moment
        };
        Ok((Time { now_ms, ttl_ms }, moment))
    }
}

/// Adds items to the object under the command's key, or to a new one.
fn write<'a>(
    ctx: Ctx<'a>,
    mut writer: Writer<'_, 'a>,
    args: Argv<'a>,
    addition: &Addition<'a>,
) -> Result<Outcomes, Error> {
    let add = |object: &mut Object, feed: &FeedSlot| add_to(ctx, object, feed, args, addition);
    let mut written = writer.update_fed(add);
    let lacked_chunks = written.is_err();
    if let Err(error) = written {
        writer.complete_for(ctx, error)?;
        written = writer.update_fed(add);
    }
    let Some(written) = written? else {
        return create(ctx, writer, args, addition);
    };
    let Written {
        outcomes,
        mut changed,
        answers,
        expired,
        moment,
    } = written?;
    let all_new = |outcomes: &Outcomes| outcomes.iter().all(|o| *o == Ok(Added::New));
    if moment.is_none() && addition.only_items && all_new(&outcomes) {
        writer.publish_verbatim([keys::ADDED]);
        return Ok(outcomes);
    }
    let answers = answers.and_then(|answers| answers.with_answers(&outcomes));
    list_changed(&mut changed, args, addition.items.start, &outcomes);
    if lacked_chunks && changed.is_empty() {
        // The items completed the object, even if it holds them.
        changed.extend(addition.items.clone().map(|index| args.string(index)));
    }
    match moment {
        Some(moment) if expired || !changed.is_empty() => {
            writer.publish_added_at(&changed, &moment, answers);
        }
        None if !changed.is_empty() => writer.publish_added(&changed, answers),
        _ => {
            if let Some(answers) = answers {
                writer.publish_answers(answers);
            }
        }
    }
    Ok(outcomes)
}

/// The result of a write to an object.
struct Written<'a> {
    outcomes: Outcomes,
    /// An empty list with room for the items that changed the object. It is reserved before the write, because the
    /// command must not fail after it.
    changed: List<Str<'a>>,
    /// An empty list of answers, reserved likewise, if a receipt keeps them.
    answers: Option<PendingAnswers<'a>>,
    /// Whether items expired.
    expired: bool,
    /// The moment of a write to an object of tables, or to a full one; `None` for a plain object that did not take more than
    /// its capacity.
    moment: Option<Moment>,
}

/// The limits on additions to an object. Notes whether they may have let a full non-scaling object take items: then
/// the replicated command has to say so.
struct Saturation<'a> {
    ctx: Ctx<'a>,
    /// Whether the command, if it was already executed elsewhere, says so.
    given: bool,
    /// Whether limits that allow saturation were read.
    read: Cell<bool>,
}

impl<'a> Saturation<'a> {
    #[inline]
    fn of(ctx: Ctx<'a>, given: bool) -> Self {
        Self {
            ctx,
            given,
            read: Cell::new(false),
        }
    }

    /// Returns the limits. An object reads them only if it has no room.
    fn limits(&self) -> Limits {
        let limits = keys::limits_for(self.ctx, self.given);
        self.read.set(limits.saturate);
        limits
    }

    /// Returns whether the object that read the limits may have taken items beyond its capacity.
    #[inline]
    fn is_used_by(&self, object: &Object) -> bool {
        self.read.get() && object.shape().params.growth == Growth::Fixed
    }
}

fn add_to<'a>(
    ctx: Ctx<'a>,
    object: &mut Object,
    feed: &FeedSlot,
    args: Argv<'a>,
    addition: &Addition<'a>,
) -> Result<Written<'a>, Error> {
    let range = addition.items.clone();
    let saturation = Saturation::of(ctx, addition.moment.saturate);
    let limits = || saturation.limits();
    let timed = if object.is_plain() {
        require_suits(Kind::Plain, addition.moment.ttl_ms)?;
        None
    } else {
        Some(addition.moment_for(ctx, &object.shape())?)
    };
    let (mut outcomes, changed) = (reserved(range.len())?, reserved(range.len())?);
    let answers = addition.pending_answers()?;
    let given = items(args, range.clone());
    let mut push = |outcome| outcomes.push(outcome);
    let (mut expired, mut moment) = (false, None);
    if let Some((time, of_write)) = timed {
        expired = object.tidy(time.now_ms);
        if expired {
            feed.end();
        }
        object.add_each(given, time, limits, push);
        moment = Some(Moment {
            saturate: false,
            ..of_write
        });
    } else {
        let is_appended =
            feed.may_be_open() && add_and_append(feed, object, given.clone(), limits, &mut push);
        if !is_appended {
            object.add_each(given, Time::default(), limits, push);
        }
    }
    if saturation.is_used_by(object) {
        moment.get_or_insert_default().saturate = true;
    }
    Ok(Written {
        outcomes,
        changed,
        answers,
        expired,
        moment,
    })
}

/// Lists the items that changed the object.
fn list_changed<'a>(list: &mut List<Str<'a>>, args: Argv<'a>, first: usize, outcomes: &Outcomes) {
    let indexed = outcomes.iter().enumerate();
    let changed = indexed.filter(|(_, o)| matches!(o, Ok(Added::New | Added::Again)));
    list.extend(changed.map(|(index, _)| args.string(first + index)));
}

/// Creates an object with items in it. On an error, the key is not created.
fn create<'a>(
    ctx: Ctx<'a>,
    writer: Writer<'_, 'a>,
    args: Argv<'a>,
    addition: &Addition<'a>,
) -> Result<Outcomes, Error> {
    let new = addition.new_object(ctx)?;
    let expires_ms = addition.ttl_ms.map(expiry).transpose()?;
    let saturation = Saturation::of(ctx, addition.moment.saturate);
    let seed = addition.seed.unwrap_or_else(settings::new_seed);
    let (time, mut moment) = addition.moment_for(ctx, &new.shape())?;
    let range = addition.items.clone();
    let (first, count) = (range.start, range.len());
    let (mut outcomes, mut changed) = (reserved(count)?, reserved(count)?);
    let answers = addition.pending_answers()?;
    let mut object = Object::make(&new, seed, keys::limits_for(ctx, moment.saturate))?;
    let header = match new {
        New::Own(_) => None,
        New::RedisBloom { .. } => {
            let header = chunks::header(&object);
            Some(header.ok_or(Error::Refused(Refusal::OutOfMemory))?)
        }
    };
    let items = items(args, range);
    let limits = || saturation.limits();
    object.add_each(items, time, limits, |o| outcomes.push(o));
    moment.saturate = saturation.is_used_by(&object);
    list_changed(&mut changed, args, first, &outcomes);
    if !changed.is_empty() {
        // Now the object knows its latest period, and so will a replica's, which is sent these items and the time.
        object.tidy(time.now_ms);
    }
    let answers = answers.and_then(|answers| answers.with_answers(&outcomes));
    let creation = Creation {
        header,
        expires_ms,
        items: &changed,
        moment,
        answers,
    };
    writer.create(object, creation);
    Ok(outcomes)
}

/// Returns the index of the receipt's key among the words of BF.INSERT, if it has one.
pub fn receipt(args: &Argv) -> Option<usize> {
    Insert::receipt(args, maker())
}

/// `BF.RESERVE key rate capacity [option ...]`
pub fn reserve(Call { ctx, keys, args }: Call) -> Done {
    let request = Reserve::parse(&args, settings::defaults(), origin(ctx))?;
    if let Ok(new) = &request.create {
        require_reach(ctx, new, request.grow_to, GROWTH)?;
    }
    let mut writer = Writer::open(keys, key(&args));
    if writer.exists()? {
        let unchanged = request.unless_exists.then_some(Reply::Null);
        return unchanged.ok_or(Error::EXISTS);
    }
    let addition = Addition {
        create: Some(request.create),
        ttl_ms: request.ttl_ms,
        only_items: false,
        ..Addition::of_items(0..0)
    };
    create(ctx, writer, args, &addition)?;
    Ok(Reply::Ok)
}
