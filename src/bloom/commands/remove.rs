//! BF.DEL and MDEL.

use std::ops::Range;

use valkeybloom_protocol::error::Error;

use crate::bloom::keys::{REMOVED, Writer};
use crate::bloom::value::require_counters;
use crate::ffi::{Argument, Argv, Call, Done, Keyspace, Reply, Str};
use crate::request::{List, items, key, reserved};

/// `BF.DEL key item`
pub fn del(Call { keys, args, .. }: Call) -> Done {
    let removed = remove(keys, args, 2..3)?;
    Ok(Reply::Bool(removed[0]))
}

/// `BF.MDEL key item [item ...]`
pub fn mdel(Call { ctx, keys, args }: Call) -> Done {
    let removed = remove(keys, args, 2..args.len())?;
    ctx.reply_array(removed.len());
    for removed in removed {
        ctx.reply_bool(removed);
    }
    Ok(Reply::Sent)
}

/// Removes items from the object under the command's key. Returns for each whether it was removed.
fn remove<'a>(
    keys: &mut Keyspace<'a>,
    args: Argv<'a>,
    range: Range<usize>,
) -> Result<List<bool>, Error> {
    // The lists are reserved first, because the command must not fail once an item is removed.
    let mut removed = reserved(range.len())?;
    let mut gone = reserved::<Str>(range.len())?;
    let mut writer = Writer::open(keys, key(&args));
    let found = writer.update_fed(|object, feed| {
        require_counters(object)?;
        removed.extend(items(args, range.clone()).map(|item| object.remove(item)));
        if removed.contains(&true) {
            feed.end();
        }
        Ok::<_, Error>(())
    })?;
    match found {
        Some(done) => done?,
        None => removed.resize(range.len(), false),
    }
    let indexed = range.zip(&removed).filter(|(_, removed)| **removed);
    gone.extend(indexed.map(|(index, _)| args.string(index)));
    match gone.len() {
        0 => {}
        all if all == removed.len() => writer.publish_verbatim([REMOVED]),
        _ => writer.publish(c"BF.MDEL", &[Argument::Items(&gone)], REMOVED),
    }
    Ok(removed)
}
