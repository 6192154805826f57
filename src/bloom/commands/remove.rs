//! BF.DEL and MDEL.

use std::ops::Range;

use crate::bloom::keys::Writer;
use crate::ffi::{Argv, Ctx, Keyspace, Str};
use crate::reply::send_error;
use valkeybloom_protocol::bloom::Delete;
use valkeybloom_protocol::error::Error;

use crate::request::{items, key, reserved};

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
        super::require_counters(object)?;
        // What was removed can't be refused any more.
        let (mut removed, gone) = (reserved(range.len())?, reserved::<Str>(range.len())?);
        removed.extend(items(args, range.clone()).map(|item| object.remove(item, id)));
        Ok::<_, Error>((removed, gone))
    })?;
    let Some(removed) = removed else {
        let mut none = reserved(range.len())?;
        none.resize(range.len(), false);
        return Ok(none);
    };
    let (removed, mut gone) = removed?;
    let indexed = range.zip(&removed).filter(|(_, removed)| **removed);
    gone.extend(indexed.map(|(index, _)| args.string(index)));
    if !gone.is_empty() {
        writer.removed(&gone, id);
    }
    Ok(removed)
}
