//! BF.LOAD, SCANDUMP, and LOADCHUNK: filters as dumps or in chunks. BF.READ: the items that were new to a filter after a cursor.

use valkeybloom_protocol::bloom::redisbloom::error as redisbloom;
use valkeybloom_protocol::bloom::{Load, Read, ScanDump, chunk_cursor};
use valkeybloom_protocol::error::{Error, Field};
use valkeybloom_sketches::bloom::{Refusal, chunks, dump};
use valkeybloom_sketches::{Cursor, DecodeError};

use crate::bloom::keys::{self, Reader, Writer};
use crate::bloom::value::{Value, memory_bytes};
use crate::family::Family;
use crate::ffi::{Call, Done, Reply, server};
use crate::readers::Client;
use crate::request::{expiry, key};
use crate::settings::error_for;

/// `BF.LOAD key dump [ttl-ms]`
pub fn load(Call { ctx, keys, args }: Call) -> Done {
    let request = Load::parse(&args)?;
    let expires_ms = request.ttl_ms.map(expiry).transpose()?;
    let mut writer = Writer::open(keys, key(&args));
    if writer.exists()? {
        return Err(Error::BUSY);
    }
    let bytes = args.string(2).bytes();
    let object = dump::decode(bytes).map_err(|error| match error {
        DecodeError::UnsupportedVersion => Error::UNSUPPORTED_VERSION,
        DecodeError::Truncated | DecodeError::Malformed(_) => Error::UNDECODABLE,
        DecodeError::NoMemory => Error::Refused(Refusal::OutOfMemory),
    })?;
    if !object.is_within(keys::limits_for(ctx, false)) {
        return Err(Error::Refused(Refusal::MemoryLimit));
    }
    writer.create_loaded(object, bytes, expires_ms);
    Ok(Reply::Ok)
}

/// `BF.SCANDUMP key cursor [WITHID]`
pub fn scandump(Call { ctx, keys, args }: Call) -> Done {
    let bad_cursor = error_for(ctx, Error::Bad(Field::CURSOR), redisbloom::SCANDUMP_CURSOR);
    let request = ScanDump::parse(&args, bad_cursor)?;
    let reader = Reader::open(keys, key(&args));
    let (object, feed) = reader.fed()?;
    let piece = chunks::piece(object, request.cursor?);
    let (next, piece) = piece.ok_or(Error::Refused(Refusal::OutOfMemory))?;
    let id = request.with_id.then(|| feed.id());
    ctx.reply_array(if id.is_some() { 3 } else { 2 });
    Reply::Count(next).send(ctx);
    ctx.reply_bytes(&piece);
    if let Some(id) = id {
        ctx.reply_bytes(format!("{id:0digits$x}", digits = Cursor::DIGITS).as_bytes());
    }
    Ok(Reply::Sent)
}

/// `BF.LOADCHUNK key cursor data`
pub fn loadchunk(Call { ctx, keys, args }: Call) -> Done {
    let bad_cursor = error_for(ctx, Error::Bad(Field::CURSOR), redisbloom::LOADCHUNK_CURSOR);
    let cursor = chunk_cursor(&args, bad_cursor)?;
    // No chunk ends before the first byte, so a negative cursor is as wrong as 0.
    let cursor = u64::try_from(cursor).unwrap_or(0);
    Writer::open(keys, key(&args)).load_chunk(ctx, cursor, args.string(3).bytes())?;
    Ok(Reply::Ok)
}

/// `BF.READ key cursor [MAX_COUNT max_count]`
pub fn read(Call { ctx, keys, args }: Call) -> Done {
    let request = Read::parse(&args)?;
    let reader = Reader::open(keys, key(&args));
    let (object, feed) = reader.fed()?;
    if !object.is_plain() {
        return Err(Error::NO_FEED);
    }
    let items = object.items(server::now_ms);
    let client = Client {
        id: ctx.client_id(),
        most_bytes: if server::memory_is_out() {
            0
        } else {
            memory_bytes(object)
        },
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
