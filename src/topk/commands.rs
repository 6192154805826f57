//! One function for each command: parse, open, act, publish, reply.

use std::ffi::CStr;
use std::ops::Range;

use smallvec::SmallVec;
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::topk::{self as request, error};
use valkeybloom_protocol::words::CommandWords;
use valkeybloom_sketches::topk::{Added, Refusal};

use crate::ffi::{Argument, Argv, Call, Ctx, Done, Reply};
use crate::keys::{Reader, Writer};
use crate::request::{items, key, origin};
use crate::settings::piece_limit;

use super::value::{OVERHEAD_BYTES, TopK, seed};

/// The event of a new list.
const CREATED: &CStr = c"topk.reserve";
/// The event of items added to a list.
const ADDED: &CStr = c"topk.add";

/// The number of words in a replicated part of a command, an even number.
const PART: usize = 1024;

/// `TOPK.RESERVE key k [width depth decay]`
pub fn reserve(Call { ctx, keys, args }: Call) -> Done {
    request::require_shape_words(&args)?;
    let mut writer = Writer::<TopK>::open(keys, key(&args));
    match writer.exists() {
        Ok(false) => {}
        // RedisBloom replies the same for a key of any type.
        Ok(true) | Err(Error::WRONG_TYPE) => return Err(error::EXISTS),
        Err(error) => return Err(error),
    }
    let shape = request::shape(&args, origin(ctx))?;
    let object = TopK::new(shape, seed(), piece_limit(ctx, OVERHEAD_BYTES))
        .map_err(|_| error::NOT_CREATED)?;
    writer.store_verbatim(object, CREATED);
    Ok(Reply::Ok)
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

/// What a command did until its end, or until the first item that was refused.
#[derive(Default)]
struct Outcome {
    /// The number of items that were added.
    added: usize,
    changed: bool,
    /// The items that left the list, each with the number of items added before.
    left: SmallVec<[(usize, Box<[u8]>); 1]>,
    refused: Option<Error>,
}

/// Adds items, each in the first of `step` words, with the increment of its index.
#[inline]
fn add_each(
    Call { ctx, keys, args }: Call,
    step: usize,
    increment: impl Fn(&Argv, usize) -> Result<u32, Error>,
) -> Done {
    let mut writer = Writer::<TopK>::open(keys, key(&args));
    let mut outcome = Outcome::default();
    let found = writer.update(|object| {
        for index in (2..args.len()).step_by(step) {
            let item = args.string(index).bytes();
            let added = increment(&args, index)
                .and_then(|increment| outcome.add(ctx, object, item, increment));
            if let Err(error) = added {
                outcome.refused = Some(error);
                break;
            }
        }
    })?;
    found.ok_or(error::NOT_FOUND)?;
    if outcome.changed {
        if outcome.refused.is_some() {
            let command = if step == 2 {
                c"TOPK.INCRBY"
            } else {
                c"TOPK.ADD"
            };
            publish_part(writer, command, args, 2..2 + step * outcome.added);
        } else {
            writer.publish_verbatim([ADDED]);
        }
    }
    outcome.reply(ctx, (args.len() - 2) / step);
    Ok(Reply::Sent)
}

/// Publishes that a command added the items in these of its words, and no others.
fn publish_part(writer: Writer<TopK>, command: &CStr, args: Argv, words: Range<usize>) {
    let mut change = writer.close();
    for start in words.clone().step_by(PART) {
        let part = start..words.end.min(start + PART);
        let part: Vec<_> = part.map(|index| args.string(index)).collect();
        change.replicate(command, &[Argument::Items(&part)]);
    }
    change.publish([ADDED]);
}

impl Outcome {
    /// Adds the next item.
    #[inline]
    fn add(
        &mut self,
        ctx: Ctx,
        object: &mut TopK,
        item: &[u8],
        increment: u32,
    ) -> Result<(), Error> {
        // An item leaves only if the new one may enter the list. Its place is reserved first, because the command must
        // not fail once the item is added.
        let mut has_place = true;
        let most_bytes = || {
            has_place = self.left.try_reserve(1).is_ok();
            if has_place {
                piece_limit(ctx, OVERHEAD_BYTES)
            } else {
                0
            }
        };
        let added = object.add(item, increment, most_bytes);
        let Added { changed, left } = added.map_err(|refusal| {
            let refusal = if has_place {
                refusal
            } else {
                Refusal::OutOfMemory
            };
            error::refused(refusal)
        })?;
        self.changed |= changed;
        self.left.extend(left.map(|item| (self.added, item)));
        self.added += 1;
        Ok(())
    }

    /// Replies for each of `items`: what left the list, or null, and the error in place of the one that was refused.
    #[inline]
    fn reply(self, ctx: Ctx, items: usize) {
        ctx.reply_array(items);
        let mut left = self.left.iter().peekable();
        for index in 0..items {
            if let Some((_, item)) = left.next_if(|(at, _)| *at == index) {
                ctx.reply_bytes(item);
            } else if let Some(error) = self.refused.filter(|_| index == self.added) {
                ctx.reply_error_element(error);
            } else {
                ctx.reply_null();
            }
        }
    }
}

/// `TOPK.QUERY key item [item ...]`
pub fn query(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::<TopK>::open(keys, key(&args));
    let object = reader.object()?.ok_or(error::NOT_FOUND)?;
    ctx.reply_array(args.len() - 2);
    items(args, 2..args.len()).for_each(|item| ctx.reply_bool(object.contains(item)));
    Ok(Reply::Sent)
}

/// `TOPK.COUNT key item [item ...]`
pub fn count(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::<TopK>::open(keys, key(&args));
    let object = reader.object()?.ok_or(error::NOT_FOUND)?;
    ctx.reply_array(args.len() - 2);
    items(args, 2..args.len()).for_each(|item| ctx.reply_integer(object.count(item).into()));
    Ok(Reply::Sent)
}

/// `TOPK.LIST key [WITHCOUNT]`
pub fn list(Call { ctx, keys, args }: Call) -> Done {
    let with_counts = request::lists_counts(&args)?;
    let reader = Reader::<TopK>::open(keys, key(&args));
    let object = reader.object()?.ok_or(error::NOT_FOUND)?;
    let ranking = object.ranking();
    let ranking = ranking.ok_or(error::refused(Refusal::OutOfMemory))?;
    ctx.reply_array(ranking.len() * if with_counts { 2 } else { 1 });
    for (item, count) in ranking {
        ctx.reply_bytes(item);
        if with_counts {
            ctx.reply_integer(count.into());
        }
    }
    Ok(Reply::Sent)
}

/// `TOPK.INFO key`
pub fn info(Call { keys, args, .. }: Call) -> Done {
    let reader = Reader::<TopK>::open(keys, key(&args));
    let shape = reader.object()?.ok_or(error::NOT_FOUND)?.shape();
    let rows = [
        (c"k", Reply::Count(shape.k().into())),
        (c"width", Reply::Count(shape.width().into())),
        (c"depth", Reply::Count(shape.depth().into())),
        (c"decay", Reply::Double(shape.decay())),
    ];
    Ok(Reply::Table(rows.into()))
}
