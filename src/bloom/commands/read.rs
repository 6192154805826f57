//! BF.READ.

use valkeybloom_protocol::bloom::Read;
use valkeybloom_protocol::error::Error;

use crate::bloom::keys::Reader;
use crate::bloom::value::{Value, memory_bytes};
use crate::family::Family;
use crate::ffi::{Call, Ctx, Done, Reply};
use crate::readers::Client;
use crate::request::key;

/// `BF.READ key cursor [MAX_COUNT max_count]`
pub fn read(Call { ctx, keys, args }: Call) -> Done {
    let request = Read::parse(&args)?;
    let reader = Reader::open(keys, key(&args));
    let (object, feed) = reader.fed()?;
    if !object.is_plain() {
        return Err(Error::NO_FEED);
    }
    let items = object.items(Ctx::now_ms);
    let client = Client {
        id: ctx.client_id(),
        most_bytes: || memory_bytes(object),
    };
    let (bytes, next) = match request.from {
        None => (Vec::new(), feed.begin(Value::NUMBER, items, client)?),
        Some(from) => feed.read(from, request.max_count, client)?,
    };
    ctx.reply_array(3);
    ctx.reply_bytes(next.to_string().as_bytes());
    // Each item in a feed was new, so the object counted it, unless it counts no further.
    Reply::Count(next.sequence.min(items)).send(ctx);
    ctx.reply_bytes(&bytes);
    Ok(Reply::Sent)
}
