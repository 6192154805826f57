//! Replies of every kind, and how they are sent.

use std::ffi::CStr;

use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::numerals::double_text;

use crate::ffi::Ctx;

/// A command's reply.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply<'r> {
    /// `OK`.
    Ok,
    /// An integer.
    Count(u64),
    /// A rate: a double in RESP3, a bulk string in RESP2.
    Rate(f64),
    /// Null.
    Null,
    /// A bulk string.
    Bytes(&'r [u8]),
    /// A bulk string of text.
    Text(String),
    /// An array.
    List(Vec<Reply<'r>>),
    /// Named replies: a map in RESP3, a flat array in RESP2.
    Table(Vec<(&'static CStr, Reply<'r>)>),
}

/// Sends a reply or an error.
pub fn send(ctx: Ctx, reply: Result<Reply, Error>) {
    match reply {
        Ok(reply) => send_reply(ctx, &reply),
        Err(error) => send_error(ctx, error),
    }
}

/// Sends an error, as the whole reply or as an element of an array.
pub fn send_error(ctx: Ctx, error: Error) {
    match error {
        Error::Arity => ctx.reply_wrong_arity(),
        error => ctx.reply_error(&error.to_string()),
    }
}

fn send_reply(ctx: Ctx, reply: &Reply) {
    match reply {
        Reply::Ok => ctx.reply_simple(c"OK"),
        Reply::Count(count) => ctx.reply_integer(i64::try_from(*count).unwrap_or(i64::MAX)),
        Reply::Rate(rate) if ctx.is_resp3() => ctx.reply_double(*rate),
        Reply::Rate(rate) => ctx.reply_bytes(double_text(*rate).as_bytes()),
        Reply::Null => ctx.reply_null(),
        Reply::Bytes(bytes) => ctx.reply_bytes(bytes),
        Reply::Text(text) => ctx.reply_bytes(text.as_bytes()),
        Reply::List(replies) => {
            ctx.reply_array(replies.len());
            for reply in replies {
                send_reply(ctx, reply);
            }
        }
        Reply::Table(rows) => {
            ctx.reply_map(rows.len());
            for (name, reply) in rows {
                ctx.reply_simple(name);
                send_reply(ctx, reply);
            }
        }
    }
}
