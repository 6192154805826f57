//! CF.SCANDUMP and CF.LOADCHUNK: filters in chunks, first the header, then the slots.

use std::borrow::Cow;

use valkeybloom_protocol::cuckoo::error;
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::numerals::integer;
use valkeybloom_protocol::words::CommandWords;
use valkeybloom_sketches::cuckoo::wire::{self, HeaderError};
use valkeybloom_sketches::cuckoo::{ChunkError, Cuckoo, Refusal};

use crate::ffi::{Call, Ctx, Done, Reply};
use crate::keys::{Reader, Writer};
use crate::request::key;

use super::commands::{CREATED, limits_for};

/// `CF.SCANDUMP key cursor`
pub fn scandump(Call { ctx, keys, args }: Call) -> Done {
    let cursor = integer(args.word(2)).and_then(|cursor| u64::try_from(cursor).ok());
    let cursor = cursor.ok_or(error::BAD_CURSOR)?;
    let reader = Reader::<Cuckoo>::open(keys, key(&args));
    let object = reader.existing()?;
    let (next, bytes) = if object.items() == 0 {
        (0, Cow::default())
    } else if cursor == 0 {
        (1, wire::write_header(object).into())
    } else {
        wire::chunk(object, cursor).ok_or(error::refused(Refusal::OutOfMemory))?
    };
    ctx.reply_array(2);
    Reply::Count(next).send(ctx);
    if bytes.is_empty() {
        ctx.reply_null();
    } else {
        ctx.reply_bytes(&bytes);
    }
    Ok(Reply::Sent)
}

/// `CF.LOADCHUNK key cursor data`
pub fn loadchunk(Call { ctx, keys, args }: Call) -> Done {
    let cursor = integer(args.word(2)).filter(|cursor| *cursor != 0);
    let cursor = cursor.ok_or(error::BAD_CURSOR)?;
    let data = args.string(3).bytes();
    let writer = Writer::open(keys, key(&args));
    if cursor == 1 {
        load_header(ctx, writer, data)?;
    } else {
        // Negative cursors are past the end of any filter.
        load_slots(writer, u64::try_from(cursor).unwrap_or(u64::MAX), data)?;
    }
    Ok(Reply::Ok)
}

/// Creates the object of a header, unless the key holds it already: an upload repeats its first step if the reply was lost.
fn load_header(ctx: Ctx, mut writer: Writer<Cuckoo>, header: &[u8]) -> Result<(), Error> {
    if let Some(stored) = writer.held()? {
        let is_held = wire::is_header_of(stored.value(), header);
        return is_held.then_some(()).ok_or(Error::EXISTS);
    }
    let begun = wire::begin(header, &limits_for(ctx)).map_err(|fault| match fault {
        HeaderError::Length => error::BAD_HEADER,
        HeaderError::Numbers => error::BAD_CLAIM,
        HeaderError::NoMemory => error::refused(Refusal::OutOfMemory),
    });
    writer.store_verbatim(begun?, CREATED);
    Ok(())
}

/// Overwrites the slots that end at a cursor.
fn load_slots(mut writer: Writer<Cuckoo>, cursor: u64, slots: &[u8]) -> Result<(), Error> {
    let written = writer.update(|object| wire::load(object, cursor, slots))?;
    written
        .ok_or(Error::NOT_FOUND)?
        .map_err(|fault| match fault {
            ChunkError::Misplaced => error::BAD_CHUNK,
            ChunkError::NoMemory => error::refused(Refusal::OutOfMemory),
        })?;
    writer.publish_verbatim([]);
    Ok(())
}
