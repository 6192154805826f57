//! BF.READ.

use valkeybloom_protocol::bloom::Read;
use valkeybloom_protocol::error::Error;

use crate::bloom::keys::Reader;
use crate::bloom::value::{Value, memory_bytes};
use crate::family::Family;
use crate::ffi::{Call, Ctx, Done, Reply};
use crate::request::key;

/// `BF.READ key cursor [MAX_COUNT max_count]`
pub fn read(Call { ctx, keys, args }: Call) -> Done {
    let request = Read::parse(&args)?;
    let reader = Reader::open(keys, key(&args));
    let (object, feed) = reader.fed()?;
    if !object.is_plain() {
        return Err(Error::NO_FEED);
    }
    let client = ctx.client_id();
    let most_bytes = memory_bytes(object);
    let (bytes, next, behind) = match request.from {
        None => (
            Vec::new(),
            feed.begin(Value::NUMBER, client, most_bytes)?,
            0,
        ),
        Some(from) => feed.read(from, request.max_count, client, most_bytes)?,
    };
    ctx.reply_array(3);
    ctx.reply_bytes(next.to_string().as_bytes());
    // Each item in a feed was new, so the object counted it.
    let items = object.items(Ctx::now_ms).saturating_sub(behind);
    Reply::Count(items).send(ctx);
    ctx.reply_bytes(&bytes);
    Ok(Reply::Sent)
}
