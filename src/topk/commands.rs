//! One function for each command: parse, open, act, publish, reply.

use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::topk::{self as request, TopKError};
use valkeybloom_protocol::words::CommandWords;
use valkeybloom_sketches::topk::{Added, Refusal};

use crate::ffi::{Argv, Call, Ctx};
use crate::reply::{Done, Reply, send_error};
use crate::request::{items, key};

use super::keys::{Reader, Writer, limit_for};
use super::value::{TopK, seed};

/// `TOPK.RESERVE key k [width depth decay]`
pub fn reserve(Call { ctx, keys, args }: Call) -> Done {
    request::require_shape_words(&args)?;
    let mut writer = Writer::open(keys, key(&args));
    match writer.exists() {
        Ok(false) => {}
        // RedisBloom replies the same for a key of any type.
        Ok(true) | Err(Error::WrongType) => return Err(TopKError::Exists.into()),
        Err(error) => return Err(error),
    }
    let shape = request::shape(&args)?;
    let object = TopK::new(shape, seed(), limit_for(ctx)).map_err(|_| TopKError::NotCreated)?;
    writer.create(object);
    Reply::Ok.send(ctx);
    Ok(())
}

/// `TOPK.ADD key item [item ...]`
pub fn add(call: Call) -> Done {
    add_each(call, 1, |_, _| Ok(1))
}

/// `TOPK.INCRBY key item increment [item increment ...]`
pub fn incrby(call: Call) -> Done {
    request::require_pairs(&call.args)?;
    add_each(call, 2, |args, index| {
        request::increment(args.word(index + 1))
    })
}

/// The items that left the list, one or none for each item that was added.
type Left = Vec<Option<Box<[u8]>>>;

/// What a command did until its end, or until the first item that was refused.
struct Outcome {
    left: Left,
    changed: bool,
    refused: Option<TopKError>,
}

/// Adds items, each in the first of `step` words, with the increment of its index.
#[inline(always)]
fn add_each(
    Call { ctx, keys, args }: Call,
    step: usize,
    increment: impl Fn(&Argv, usize) -> Result<u32, TopKError>,
) -> Done {
    let mut writer = Writer::open(keys, key(&args));
    let outcome = writer.update(|object| {
        let mut outcome = Outcome {
            left: reserved((args.len() - 2) / step)?,
            changed: false,
            refused: None,
        };
        for index in (2..args.len()).step_by(step) {
            let added = increment(&args, index).and_then(|increment| {
                let item = args.string(index).bytes();
                let added = object.add(item, increment, || limit_for(ctx));
                added.map_err(TopKError::Refused)
            });
            match added {
                Ok(Added { changed, left }) => {
                    outcome.changed |= changed;
                    outcome.left.push(left);
                }
                Err(error) => {
                    outcome.refused = Some(error);
                    break;
                }
            }
        }
        Ok::<_, TopKError>(outcome)
    })?;
    let outcome = outcome.ok_or(TopKError::NotFound)??;
    if outcome.changed {
        if outcome.refused.is_some() {
            writer.added(args, 2..2 + step * outcome.left.len());
        } else {
            writer.added_all();
        }
    }
    outcome.reply(ctx, (args.len() - 2) / step);
    Ok(())
}

impl Outcome {
    /// Replies for each of `items`: what left the list, or null, and the error in place of the one that was refused.
    #[inline]
    fn reply(self, ctx: Ctx, items: usize) {
        let done = self.left.len() + usize::from(self.refused.is_some());
        ctx.reply_array(items);
        for left in self.left {
            match left {
                Some(item) => ctx.reply_bytes(&item),
                None => ctx.reply_null(),
            }
        }
        if let Some(error) = self.refused {
            send_error(ctx, error.into());
        }
        (done..items).for_each(|_| ctx.reply_null());
    }
}

/// Returns an empty list with room for exactly `count` values.
fn reserved<T>(count: usize) -> Result<Vec<T>, TopKError> {
    let mut list = Vec::new();
    let room = list.try_reserve_exact(count);
    room.map_err(|_| TopKError::Refused(Refusal::OutOfMemory))?;
    Ok(list)
}

/// `TOPK.QUERY key item [item ...]`
pub fn query(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let object = reader.object()?.ok_or(TopKError::NotFound)?;
    ctx.reply_array(args.len() - 2);
    items(args, 2..args.len()).for_each(|item| ctx.reply_bool(object.contains(item)));
    Ok(())
}

/// `TOPK.COUNT key item [item ...]`
pub fn count(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let object = reader.object()?.ok_or(TopKError::NotFound)?;
    ctx.reply_array(args.len() - 2);
    items(args, 2..args.len()).for_each(|item| ctx.reply_integer(object.count(item).into()));
    Ok(())
}

/// `TOPK.LIST key [WITHCOUNT]`
pub fn list(Call { ctx, keys, args }: Call) -> Done {
    let with_counts = request::lists_counts(&args)?;
    let reader = Reader::open(keys, key(&args));
    let object = reader.object()?.ok_or(TopKError::NotFound)?;
    let ranking = object.ranking();
    let ranking = ranking.ok_or(TopKError::Refused(Refusal::OutOfMemory))?;
    ctx.reply_array(ranking.len() * if with_counts { 2 } else { 1 });
    for (item, count) in ranking {
        ctx.reply_bytes(item);
        if with_counts {
            ctx.reply_integer(count.into());
        }
    }
    Ok(())
}

/// `TOPK.INFO key`
pub fn info(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let shape = reader.object()?.ok_or(TopKError::NotFound)?.shape();
    let rows = [
        (c"k", Reply::Count(shape.k().into())),
        (c"width", Reply::Count(shape.width().into())),
        (c"depth", Reply::Count(shape.depth().into())),
        (c"decay", Reply::Double(shape.decay())),
    ];
    Reply::Table(rows.into()).send(ctx);
    Ok(())
}
