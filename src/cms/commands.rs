//! One function for each command: open, parse, act, publish, reply. RedisBloom looks for the key before it parses, so
//! the commands do, too.

use std::ffi::CStr;

use valkeybloom_protocol::bloom::Maker;
use valkeybloom_protocol::cms::{
    self as request, Merge, error, require_count, shape_by_rates, shape_by_size,
};
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::words::CommandWords;
use valkeybloom_sketches::cms::{CellSize, CountMin, NotCounted, Overflow, Shape, Term};

use crate::ffi::{Argument, Argv, Call, Ctx, Done, Keyspace, Reply, Str};
use crate::keys::{Reader, Readers, Writer};
use crate::request::{List, item, items, key, origin};
use crate::settings::{follows_redisbloom, piece_limit, require_in};

use super::settings::overflow;
use super::value::OVERHEAD_BYTES;

/// The event of a new sketch.
const CREATED: &CStr = c"cms.init";
/// The event of items counted.
const COUNTED: &CStr = c"cms.incrby";
/// The event of sketches merged into this one.
const MERGED: &CStr = c"cms.merge";

/// `CMS.INITBYDIM key width depth [CELL_SIZE bytes]`
pub fn initbydim(call: Call) -> Done {
    let origin = origin(call.ctx);
    create(call, c"CMS.INITBYDIM", |args| shape_by_size(args, origin))
}

/// `CMS.INITBYPROB key error probability [CELL_SIZE bytes]`
pub fn initbyprob(call: Call) -> Done {
    create(call, c"CMS.INITBYPROB", |args| shape_by_rates(args))
}

fn create(
    Call { ctx, keys, args }: Call,
    command: &CStr,
    parse: impl FnOnce(&Argv) -> Result<Shape, Error>,
) -> Done {
    require_count(&args)?;
    let mut writer = Writer::<CountMin>::open(keys, key(&args));
    match writer.exists() {
        Ok(false) => {}
        Ok(true) | Err(Error::WRONG_TYPE) => return Err(error::EXISTS),
        Err(error) => return Err(error),
    }
    let shape = parse(&args)?;
    if shape.cell_size() != CellSize::Four {
        require_in(&[Maker::RedisBloom], ctx, error::OTHER_CELL_SIZE)?;
    }
    let created = CountMin::new(shape, piece_limit(ctx, OVERHEAD_BYTES));
    let mut change = writer.store(created.map_err(error::not_created)?, None);
    if shape.cell_size() == CellSize::default() {
        // RedisBloom 8.8 does not know CELL_SIZE.
        let words = [2, 3].map(|index| args.string(index));
        change.replicate(command, &[Argument::Items(&words)]);
    } else {
        change.replicate_verbatim();
    }
    change.publish([CREATED]);
    Ok(Reply::Ok)
}

/// The outcome for one item: its estimate, or why it was not counted.
type Counted = Result<u64, NotCounted>;

/// `CMS.INCRBY key item increment [item increment ...]`
pub fn incrby(Call { ctx, keys, args }: Call) -> Done {
    if !args.len().is_multiple_of(2) {
        return Err(Error::Arity);
    }
    let mut writer = Writer::<CountMin>::open(keys, key(&args));
    if args.len() == 4 {
        let counted = writer.update(|sketch| {
            let by = request::increment(args.word(3), || follows_redisbloom(ctx))?;
            let counted = sketch.increment(item(&args), by, overflow(ctx));
            Ok::<_, Error>((counted, changes(by, counted)))
        })?;
        let (counted, changed) = counted.ok_or(error::NOT_FOUND)??;
        if changed {
            writer.publish_verbatim([COUNTED]);
        }
        reply_counted(ctx, &[counted]);
    } else {
        let counted = writer.update(|sketch| count_each(ctx, sketch, args))?;
        let (counted, changed) = counted.ok_or(error::NOT_FOUND)??;
        if changed.len() == args.len() - 2 {
            writer.publish_verbatim([COUNTED]);
        } else if !changed.is_empty() {
            writer.publish(c"CMS.INCRBY", &[Argument::Items(&changed)], COUNTED);
        }
        reply_counted(ctx, &counted);
    }
    Ok(Reply::Sent)
}

/// Returns whether an increment with this outcome changed the sketch.
const fn changes(by: i64, counted: Counted) -> bool {
    by != 0 && matches!(counted, Ok(_) | Err(NotCounted::Saturated))
}

/// Adds to all items of CMS.INCRBY. Returns the outcomes, and the items that changed the sketch with their increments. On
/// an error, nothing changed.
fn count_each<'a>(
    ctx: Ctx,
    sketch: &mut CountMin,
    args: Argv<'a>,
) -> Result<(List<Counted>, List<Str<'a>>), Error> {
    let pairs = (args.len() - 2) / 2;
    let (mut increments, mut outcomes) = (reserved(pairs)?, reserved(pairs)?);
    let mut changed = reserved(2 * pairs)?;
    for word in items(args, 2..args.len()).skip(1).step_by(2) {
        increments.push(request::increment(word, || follows_redisbloom(ctx))?);
    }
    let items = items(args, 2..args.len()).step_by(2);
    let pairs = items.zip(increments.iter().copied());
    sketch.increment_each(pairs, overflow(ctx), |counted| {
        let pair = outcomes.len();
        if changes(increments[pair], counted) {
            changed.extend([2, 3].map(|word| args.string(2 * pair + word)));
        }
        outcomes.push(counted);
    });
    Ok((outcomes, changed))
}

fn reserved<T>(count: usize) -> Result<List<T>, Error> {
    crate::request::reserved(count).map_err(|_| error::OUT_OF_MEMORY)
}

fn reply_counted(ctx: Ctx, outcomes: &[Counted]) {
    ctx.reply_array(outcomes.len());
    for counted in outcomes {
        match counted {
            Ok(estimate) => ctx.reply_integer(estimate.cast_signed()),
            Err(error) => ctx.reply_error_element(error::not_counted(*error)),
        }
    }
}

/// `CMS.QUERY key item [item ...]`
pub fn query(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::<CountMin>::open(keys, key(&args));
    let sketch = reader.object()?.ok_or(error::NOT_FOUND)?;
    ctx.reply_array(args.len() - 2);
    // An estimate is at most 2⁶³ − 1.
    if args.len() == 3 {
        ctx.reply_integer(sketch.estimate(item(&args)).cast_signed());
    } else {
        sketch.estimate_each(items(args, 2..args.len()), |estimate| {
            ctx.reply_integer(estimate.cast_signed());
        });
    }
    Ok(Reply::Sent)
}

/// `CMS.MERGE destination numkeys source [source ...] [WEIGHTS weight [weight ...]]`
pub fn merge(Call { ctx, keys, args }: Call) -> Done {
    let merged = merge_sources(ctx, keys, args)?;
    let mut writer = Writer::<CountMin>::open(keys, key(&args));
    let changed = writer.update(|sketch| sketch.replace(merged))?;
    let changed = changed.ok_or(error::NOT_FOUND)?;
    if changed.map_err(error::not_merged)? {
        writer.publish_verbatim([MERGED]);
    }
    Ok(Reply::Ok)
}

/// Returns the weighted sum of the sources. The destination only determines their shape, unless it is a source.
fn merge_sources<'a>(
    ctx: Ctx<'a>,
    keys: &mut Keyspace<'a>,
    args: Argv<'a>,
) -> Result<CountMin, Error> {
    let mut readers = Readers::<CountMin>::new(keys);
    let destination = readers.open(key(&args))?.ok_or(error::NOT_FOUND)?;
    let shape = *destination.shape();
    let request = Merge::parse(&args)?;
    if request.has_source_like_keyword(&args) && follows_redisbloom(ctx) {
        return Err(error::WEIGHT_COUNT);
    }
    let mut weights = reserved(request.sources.len())?;
    for index in request.sources.clone() {
        weights.push(request.weight(&args, index)?);
        let source = readers.open(args.string(index))?;
        require_shape(shape, source.ok_or(error::NOT_FOUND)?)?;
    }
    let mut terms = reserved(weights.len())?;
    let sources = readers.objects().into_iter().skip(1);
    let weighted = sources.zip(weights);
    terms.extend(weighted.map(|(source, weight)| Term { source, weight }));
    // Clients get a refusal under either setting, as in RedisBloom.
    let overflow = if ctx.must_obey() {
        Overflow::Saturate
    } else {
        Overflow::Refuse
    };
    CountMin::merged(&terms, overflow).map_err(error::not_merged)
}

/// Requires that a source has the destination's shape.
fn require_shape(shape: Shape, source: &CountMin) -> Result<(), Error> {
    let source = source.shape();
    if (source.width(), source.depth()) != (shape.width(), shape.depth()) {
        Err(error::UNLIKE_SHAPE)
    } else if source.cell_size() != shape.cell_size() {
        Err(error::UNLIKE_CELL_SIZE)
    } else {
        Ok(())
    }
}

/// `CMS.INFO key`
pub fn info(Call { keys, args, .. }: Call) -> Done {
    let reader = Reader::<CountMin>::open(keys, key(&args));
    let sketch = reader.object()?.ok_or(error::NOT_FOUND)?;
    let shape = sketch.shape();
    let mut rows = vec![
        (c"width", Reply::Count(shape.width())),
        (c"depth", Reply::Count(shape.depth())),
        // If counters saturate, it wraps, as in RedisBloom, so it may be negative.
        (c"count", Reply::Integer(sketch.count().cast_signed())),
    ];
    if shape.cell_size() != CellSize::Four {
        rows.push((c"cell_size", Reply::Count(shape.cell_size().bytes())));
    }
    Ok(Reply::Table(rows))
}
